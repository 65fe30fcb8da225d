//! The world in which a script runs: a live cluster whose frames are captured, or the captured frames played back.

use super::fixture::{Fixture, Line, directory};
use super::gss::{Listening, Log, Scripted};
use super::wire::{Called, Cuts, Tape, Wire};
use hadoop::conf::Configuration;
use hadoop::gssapi::{CredentialSource, Initiator, Library};
use hadoop::rpc::header::UserInformation;
use hadoop::rpc::{AuthSetup, ClientId, Protocol, Setup};
use hadoop::sasl::{Kerberos, Qop, SaslConfig, ServerPrincipal, SimpleFallback};
use hadoop::tokens::Token;
use hadoop::yarn::messages::NodeId;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

pub(super) const ALICE: &str = "alice";
pub(super) const CLIENT: &str = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB";
pub(super) const MASTER: &str = "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB";
pub(super) const NODE: &str = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB";
pub(super) const HDFS: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
pub(super) const ADMIN: &str =
    "org.apache.hadoop.yarn.server.api.ResourceManagerAdministrationProtocolPB";

/// The server that a script calls.
#[derive(Debug, Clone)]
pub(super) enum Server {
    ResourceManager,
    Scheduler,
    Node(NodeId),
    NameNode,
    /// The ResourceManager that is not active, for administrators.
    StandBy,
}

impl Server {
    fn protocol(&self) -> &'static str {
        match self {
            Self::ResourceManager => CLIENT,
            Self::Scheduler => MASTER,
            Self::Node(_) => NODE,
            Self::NameNode => HDFS,
            Self::StandBy => ADMIN,
        }
    }
}

/// The caller, and the credentials that it offers.
#[derive(Debug, Clone)]
pub(super) enum Who {
    /// No credentials are offered, whatever the server wants.
    Simple,
    Sasl(SaslConfig),
    /// With tickets, for a server of this principal.
    Kerberos(&'static str, Vec<Qop>),
    /// The same in somebody else's name.
    Proxy(&'static str, &'static str),
}

impl Who {
    pub(super) fn token(token: &Token, qops: &[Qop]) -> Self {
        let (token, qops) = (Some(token.clone()), qops.to_vec());
        Self::Sasl(SaslConfig { token, qops, ..SaslConfig::default() })
    }
}

enum Mode {
    Capture { conf: Box<Configuration> },
    Play { cuts: Cuts },
}

/// A cluster, or the memory of one.
pub(super) struct World {
    mode: Mode,
    /// The kind of the cluster, which is also the name of the folder of its captured facts.
    kind: &'static str,
    facts: RefCell<BTreeMap<String, String>>,
    pub(super) called: Called,
}

impl World {
    pub(super) fn captured(kind: &'static str, cuts: Cuts) -> Self {
        let facts = std::fs::read_to_string(directory().join(kind).join("facts")).unwrap();
        let facts = facts.lines().map(|line| line.split_once(' ').unwrap());
        let facts = facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).collect();
        let (facts, called) = (RefCell::new(facts), Called::default());
        Self { mode: Mode::Play { cuts }, kind, facts, called }
    }

    /// A cluster that `HADOOP_CONF_DIR` names. What was captured of one of its kind is forgotten.
    pub(super) fn live(kind: &'static str) -> Self {
        let conf = Box::new(Configuration::load().unwrap());
        assert!(!conf.sources().is_empty(), "HADOOP_CONF_DIR names no cluster");
        if directory().join(kind).exists() {
            std::fs::remove_dir_all(directory().join(kind)).unwrap();
        }
        let (facts, called) = (RefCell::default(), Called::default());
        Self { mode: Mode::Capture { conf }, kind, facts, called }
    }

    /// Something that no server tells and that differs from capture to capture.
    pub(super) fn fact(&self, name: &str, find: impl FnOnce() -> String) -> String {
        let mut facts = self.facts.borrow_mut();
        match &self.mode {
            Mode::Play { .. } => facts[name].clone(),
            Mode::Capture { .. } => facts.entry(name.to_owned()).or_insert_with(find).clone(),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.mode, Mode::Capture { .. })
    }

    /// Gives a cluster time to change.
    pub(super) fn pause(&self) {
        if self.is_live() {
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    /// Opens a connection, which is captured under this name.
    pub(super) fn open(&self, name: &str, server: &Server, who: Who) -> Wire {
        self.open_for(name, server, who, server.protocol())
    }

    pub(super) fn open_for(&self, name: &str, server: &Server, who: Who, protocol: &str) -> Wire {
        let name = format!("{}/{name}", self.kind);
        match &self.mode {
            Mode::Capture { conf } => {
                let mut random = StdRng::from_os_rng();
                let fixture = Fixture {
                    client: random.random(),
                    entropy: random.random(),
                    lines: vec![Line::Note(format!("{protocol}; {who:?}"))],
                    gss: Vec::new(),
                };
                let log = Log::default();
                let initiator = || {
                    let initiator: Arc<dyn Initiator> = Arc::new(tickets());
                    Arc::new(Listening { initiator, log: Arc::clone(&log) }) as Arc<dyn Initiator>
                };
                let setup = setup(&fixture, who, protocol, initiator);
                let stream = connect(conf, server);
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let tape = Tape::Live { stream, name, fixture, heard: Vec::new(), log };
                Wire::new(setup, tape, Called::clone(&self.called))
            }
            Mode::Play { cuts } => {
                let fixture = Fixture::load(&name);
                let gss = Scripted::new("alice@TEST.LOCAL", fixture.gss.clone());
                let initiator = || Arc::new(gss.clone()) as Arc<dyn Initiator>;
                let setup = setup(&fixture, who, protocol, initiator);
                let lines = fixture.lines.into_iter();
                let lines = lines.filter(|line| !matches!(line, Line::Note(_))).collect();
                let tape = Tape::Played { name, lines, said: Vec::new(), cuts: *cuts, gss };
                Wire::new(setup, tape, Called::clone(&self.called))
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.is_live() && !std::thread::panicking() {
            let facts = self.facts.borrow();
            let facts: String =
                facts.iter().map(|(name, fact)| format!("{name} {fact}\n")).collect();
            std::fs::write(directory().join(self.kind).join("facts"), facts).unwrap();
        }
    }
}

fn setup(
    fixture: &Fixture,
    who: Who,
    protocol: &str,
    initiator: impl FnOnce() -> Arc<dyn Initiator>,
) -> Setup {
    let mut user = UserInformation { effective: Some(ALICE.to_owned()), real: None };
    let kerberos = |server: &str, qops| {
        let server = ServerPrincipal::Exact(server.to_owned());
        let kerberos = Some(Kerberos { initiator: initiator(), server });
        SaslConfig { kerberos, qops, ..SaslConfig::default() }
    };
    let config = match who {
        Who::Simple => None,
        Who::Sasl(config) => Some(config),
        Who::Kerberos(server, qops) => {
            user.effective = Some("alice@TEST.LOCAL".to_owned());
            Some(kerberos(server, qops))
        }
        Who::Proxy(server, name) => {
            user = UserInformation {
                effective: Some(name.to_owned()),
                real: Some("alice@TEST.LOCAL".to_owned()),
            };
            Some(kerberos(server, vec![Qop::Privacy]))
        }
    };
    let auth = match config {
        None => AuthSetup::Simple,
        Some(config) => AuthSetup::Sasl { config: Box::new(config), entropy: fixture.entropy },
    };
    let setup = Setup::simple(Protocol::new(protocol), ClientId(fixture.client), ALICE);
    Setup { user, auth, ..setup }
}

/// A configuration of somebody who has neither tokens nor tickets.
pub(super) fn nobody(simple: SimpleFallback) -> Who {
    Who::Sasl(SaslConfig { simple, ..SaslConfig::default() })
}

fn tickets() -> impl Initiator {
    let (principal, keytab) =
        (std::env::var("KRB5PRINCIPAL").unwrap(), std::env::var_os("KRB5KEYTAB").unwrap());
    let source = CredentialSource::Keytab { principal, keytab: keytab.into() };
    Library::load().unwrap().credential(&source).unwrap()
}

/// The servers of this address, by the ids of ResourceManagers where there are several.
pub(super) fn addresses(conf: &Configuration, property: &str) -> Vec<String> {
    let ids = conf.get_list("yarn.resourcemanager.ha.rm-ids").unwrap();
    let names: Vec<String> = match property.starts_with("yarn.") && !ids.is_empty() {
        true => ids.iter().map(|id| format!("{property}.{id}")).collect(),
        false => vec![property.to_owned()],
    };
    names.iter().map(|name| conf.get(name).unwrap().unwrap()).collect()
}

fn connect(conf: &Configuration, server: &Server) -> TcpStream {
    let first = |property: &str| {
        let addresses = addresses(conf, property);
        // One that only stands by does not listen for clients.
        let mut open = addresses.iter().map(TcpStream::connect);
        open.find_map(Result::ok).unwrap_or_else(|| panic!("nobody at {addresses:?}"))
    };
    match server {
        Server::ResourceManager => first("yarn.resourcemanager.address"),
        Server::Scheduler => first("yarn.resourcemanager.scheduler.address"),
        Server::Node(node) => TcpStream::connect(node.to_string()).unwrap(),
        Server::NameNode => first("dfs.namenode.rpc-address"),
        Server::StandBy => {
            let clients = addresses(conf, "yarn.resourcemanager.address");
            let administrators = addresses(conf, "yarn.resourcemanager.admin.address");
            let deaf = clients.iter().position(|one| TcpStream::connect(one).is_err());
            TcpStream::connect(&administrators[deaf.expect("a ResourceManager that stands by")])
                .unwrap()
        }
    }
}
