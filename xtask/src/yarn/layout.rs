//! Names the files of a cluster and the ports of its daemons. Nothing is started here.

use crate::run::Result;
use serde_json::{Value, json};
use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// More would not fit between two clusters' ports.
pub(super) const MOST_NODES: u16 = 20;
/// Below the ports that systems give out by themselves.
const FIRST_BASE: u16 = 18_000;
/// Ports from one cluster's base to the next one's.
const STRIDE: u16 = 400;
const LAST_BASE: u16 = 30_000;
/// The heap limit of each Java program.
const HEAP: &str = "-Xmx192m";
/// Tells a cluster's directory from anything else, and what the cluster is.
const MARK: &str = ".xtask-yarn";

/// A port, by its distance from the cluster's base.
#[derive(Debug, Clone, Copy)]
#[repr(u16)]
pub(super) enum Port {
    Kdc = 10,
    ZooKeeper = 12,
    NameNode = 20,
    Scheduler = 30,
    Tracker = 31,
    ResourceManager = 32,
    Admin = 33,
    OtherScheduler = 40,
    OtherTracker = 41,
    OtherResourceManager = 42,
    OtherAdmin = 43,
    DataNodeHttp = 64,
    DataNodeData = 66,
    DataNodeIpc = 67,
    NameNodeHttp = 70,
    ResourceManagerHttp = 88,
    OtherResourceManagerHttp = 98,
}

const PORTS: &[Port] = &[
    Port::Kdc,
    Port::ZooKeeper,
    Port::NameNode,
    Port::Scheduler,
    Port::Tracker,
    Port::ResourceManager,
    Port::Admin,
    Port::OtherScheduler,
    Port::OtherTracker,
    Port::OtherResourceManager,
    Port::OtherAdmin,
    Port::DataNodeHttp,
    Port::DataNodeData,
    Port::DataNodeIpc,
    Port::NameNodeHttp,
    Port::ResourceManagerHttp,
    Port::OtherResourceManagerHttp,
];
/// The number of ports of each NodeManager: containers, localiser, web pages, collector.
const NODE_PORTS: u16 = 4;

/// The kind of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kind {
    /// Number of NodeManagers.
    pub(super) nodes: u16,
    /// True for a cluster with Kerberos.
    pub(super) secure: bool,
    /// True for two ResourceManagers.
    pub(super) ha: bool,
    /// Milliseconds from one heartbeat of a NodeManager to the next.
    pub(super) heartbeat: u16,
}

/// One cluster's places.
pub(super) struct Layout {
    pub(super) dir: PathBuf,
    pub(super) jars: PathBuf,
    pub(super) kind: Kind,
    /// The directory of Hadoop's native library; `None` if there is none for this machine.
    pub(super) native: Option<PathBuf>,
    pub(super) java: PathBuf,
    /// The user for whom the cluster is made.
    pub(super) user: String,
    /// Whose processes the daemons and all containers are on this machine.
    pub(super) owner: String,
    base: u16,
    /// Keeps the ports from others who look for some before the daemons have them.
    _claim: Option<TcpListener>,
}

/// The places of the fetched libraries.
pub(super) struct Fetched {
    pub(super) jars: PathBuf,
    pub(super) native: Option<PathBuf>,
}

/// A ResourceManager: its id among two, its daemon's name, its ports.
pub(super) struct ResourceManager {
    pub(super) id: Option<&'static str>,
    pub(super) name: &'static str,
    pub(super) client: Port,
    pub(super) scheduler: Port,
    pub(super) tracker: Port,
    pub(super) admin: Port,
    pub(super) http: Port,
}

const FIRST: ResourceManager = ResourceManager {
    id: None,
    name: "resourcemanager",
    client: Port::ResourceManager,
    scheduler: Port::Scheduler,
    tracker: Port::Tracker,
    admin: Port::Admin,
    http: Port::ResourceManagerHttp,
};
const SECOND: ResourceManager = ResourceManager {
    id: Some("rm2"),
    name: "resourcemanager2",
    client: Port::OtherResourceManager,
    scheduler: Port::OtherScheduler,
    tracker: Port::OtherTracker,
    admin: Port::OtherAdmin,
    http: Port::OtherResourceManagerHttp,
};

impl Layout {
    /// Places in `dir`, and ports that nobody has now.
    pub(super) fn new(dir: PathBuf, fetched: Fetched, kind: Kind) -> Result<Self> {
        let (base, claim) = (FIRST_BASE..=LAST_BASE)
            .step_by(usize::from(STRIDE))
            .find_map(|base| claim(base, kind.nodes))
            .ok_or("no ports are free")?;
        // Not what the environment says: files are whose the system says they are.
        let owner = user_by_id()?;
        // With Kerberos users are who they prove to be: one that is nobody on this machine shows that.
        let user = if kind.secure { "alice".to_owned() } else { owner.clone() };
        let Fetched { jars, native } = fetched;
        Ok(Self { dir, jars, kind, native, java: java()?, user, owner, base, _claim: Some(claim) })
    }

    /// The cluster that was made in `dir`.
    pub(super) fn load(dir: &Path) -> Result<Self> {
        let none = || format!("{}: no cluster of this command", dir.display());
        let text = fs::read_to_string(dir.join(MARK)).map_err(|_| none())?;
        let known: Value = serde_json::from_str(&text)?;
        let text = |name: &str| {
            known.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(none)
        };
        let number = |name: &str| known.get(name)?.as_u64().and_then(|n| u16::try_from(n).ok());
        let kind = Kind {
            heartbeat: number("heartbeat").ok_or_else(none)?,
            nodes: number("nodes").ok_or_else(none)?,
            secure: known.get("secure") == Some(&Value::Bool(true)),
            ha: known.get("ha") == Some(&Value::Bool(true)),
        };
        Ok(Self {
            dir: dir.to_owned(),
            jars: text("jars")?.into(),
            kind,
            native: text("native").ok().map(PathBuf::from),
            java: text("java")?.into(),
            user: text("user")?,
            owner: text("owner")?,
            base: number("base").ok_or_else(none)?,
            _claim: None,
        })
    }

    fn description(&self) -> Value {
        let Kind { nodes, secure, ha, heartbeat } = self.kind;
        json!({
            "jars": self.jars, "native": self.native, "java": self.java, "base": self.base,
            "user": self.user, "owner": self.owner, "nodes": nodes, "secure": secure, "ha": ha,
            "heartbeat": heartbeat,
        })
    }

    /// Makes the directories, with nothing of an earlier cluster in them.
    pub(super) fn make(&self) -> Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        fs::create_dir_all(&self.dir).map_err(|e| format!("{}: {e}", self.dir.display()))?;
        fs::write(self.dir.join(MARK), self.description().to_string())?;
        // Maven's jars lack these two, and daemons of HDFS look for them on the class path.
        for dir in ["web/webapps/hdfs", "web/webapps/datanode"] {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        for dir in
            ["conf", "bin", "logs", "tmp", "hdfs/name", "hdfs/data", "rm-state", "zookeeper", "krb"]
        {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        for private in ["hdfs/data", "krb"] {
            fs::set_permissions(self.dir.join(private), fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// Whether NodeManagers can read logs: with Kerberos they must be sure whose they are, and need the native
    /// library for that.
    pub(super) fn keeps_logs(&self) -> bool {
        self.native.is_some() || !self.kind.secure
    }

    pub(super) fn conf(&self) -> PathBuf {
        self.dir.join("conf")
    }

    /// Kerberos' files: its settings, the realm's data, the keytabs.
    pub(super) fn krb(&self, file: &str) -> PathBuf {
        self.dir.join("krb").join(file)
    }

    pub(super) fn log(&self, daemon: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{daemon}.log"))
    }

    pub(super) fn port(&self, port: Port) -> u16 {
        self.base + port as u16
    }

    pub(super) fn at(&self, port: Port) -> String {
        format!("localhost:{}", self.port(port))
    }

    /// The ResourceManagers, of which one is active.
    pub(super) fn resource_managers(&self) -> Vec<ResourceManager> {
        match self.kind.ha {
            false => vec![FIRST],
            true => {
                vec![ResourceManager { id: Some("rm1"), name: "resourcemanager1", ..FIRST }, SECOND]
            }
        }
    }

    /// Returns the options of every Java program of the cluster.
    pub(super) fn java_options(&self) -> Vec<String> {
        let mut options: Vec<String> = [
            HEAP,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            // Web pages of YARN generate classes in the old way.
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "-Djava.net.preferIPv4Stack=true",
            // Nothing is left outside of the directory, also when it is killed.
            "-XX:-UsePerfData",
        ]
        .map(str::to_owned)
        .into();
        options.push(format!("-Djava.io.tmpdir={}", self.dir.join("tmp").display()));
        if self.kind.secure {
            let file = self.krb("krb5.conf");
            options.push(format!("-Djava.security.krb5.conf={}", file.display()));
        }
        options
    }

    /// The `which`th port of the NodeManager `node`, both from 0.
    pub(super) fn node_port(&self, node: u16, which: u16) -> u16 {
        node_port(self.base, node, which)
    }

    /// Java's class path.
    pub(super) fn class_path(&self) -> String {
        let (conf, web) = (self.conf(), self.dir.join("web"));
        format!("{}:{}:{}/*", conf.display(), web.display(), self.jars.display())
    }
}

/// Whether a directory was made by this command.
pub(super) fn is_ours(dir: &Path) -> bool {
    dir.join(MARK).is_file()
}

fn node_port(base: u16, node: u16, which: u16) -> u16 {
    base + 110 + 10 * node + which
}

fn ports(base: u16, nodes: u16) -> impl Iterator<Item = u16> {
    let of_node = move |node| (0..NODE_PORTS).map(move |which| node_port(base, node, which));
    PORTS.iter().map(move |&port| base + port as u16).chain((0..nodes).flat_map(of_node))
}

/// A cluster's ports, if all of them are free.
fn claim(base: u16, nodes: u16) -> Option<(u16, TcpListener)> {
    let claim = bound(base).filter(|_| ports(base, nodes).all(|port| bound(port).is_some()))?;
    Some((base, claim))
}

fn bound(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

/// Finds `java`: that of `JAVA_HOME`, else the first on the path. Returns the real file, because its place tells Java's
/// home.
fn java() -> Result<PathBuf> {
    let of_home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let found = of_home
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|dir| dir.join("java"))
        .find(|java| java.is_file())
        .ok_or("no java: set JAVA_HOME")?;
    Ok(fs::canonicalize(found)?)
}

fn user_by_id() -> Result<String> {
    let name = crate::run::output(std::process::Command::new("id").arg("-un"))?;
    Ok(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Watch;
    use std::time::Duration;

    #[test]
    fn no_two_daemons_and_no_two_clusters_share_a_port() {
        let mut all: Vec<u16> = ports(FIRST_BASE, MOST_NODES).collect();
        all.extend(ports(FIRST_BASE + STRIDE, MOST_NODES));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(ports(LAST_BASE, MOST_NODES).all(|port| port < 32_768));
    }

    #[test]
    fn a_cluster_is_found_again_as_it_was_made() {
        let dir = env::temp_dir().join(format!("xtask-layout-{}", std::process::id()));
        let kind = Kind { nodes: 3, secure: true, ha: true, heartbeat: 1000 };
        let (jars, native) = ("/jars".into(), Some("/native".into()));
        let (user, owner) = ("bob".into(), "carol".into());
        let (java, at) = ("/bin/java".into(), dir.clone());
        let (base, _claim) = (18_000, None);
        let made = Layout { dir: at, jars, kind, native, java, user, owner, base, _claim };
        assert!(Layout::load(&dir).is_err());
        made.make().unwrap();
        let found = Layout::load(&dir).unwrap();
        assert_eq!((found.kind, found.base), (kind, made.base));
        assert_eq!((found.jars, found.native), (made.jars, made.native));
        assert_eq!((found.java, found.user, found.owner), (made.java, made.user, made.owner));
        // Without it only NodeManagers that need not prove anything read logs.
        for (secure, native, keeps) in
            [(true, true, true), (true, false, false), (false, false, true)]
        {
            let mut other = Layout::load(&dir).unwrap();
            other.kind.secure = secure;
            other.native = other.native.filter(|_| native);
            assert_eq!(other.keeps_logs(), keeps);
        }
        fs::remove_dir_all(dir).unwrap();
    }

    /// Claims ports that were given back just now. A child that another test of this process is starting has a copy of
    /// every socket until it runs its program, and until then the port is not free.
    fn freed(base: u16) -> (u16, TcpListener) {
        let watch = Watch::start();
        loop {
            match claim(base, 1) {
                Some(claimed) => return claimed,
                None if watch.elapsed() < Duration::from_secs(10) => std::thread::yield_now(),
                None => panic!("the ports from {base} on are not free again"),
            }
        }
    }

    #[test]
    fn ports_that_somebody_has_or_has_chosen_are_not_free() {
        let free = |base: &u16| claim(*base, MOST_NODES).is_some();
        // Below those of clusters, and of what the system gives to others at any moment.
        let base = (10_000..FIRST_BASE).step_by(usize::from(STRIDE)).find(free).unwrap();
        let taken = bound(base + Port::Admin as u16).unwrap();
        assert!(claim(base, 1).is_none());
        drop(taken);
        let chosen = freed(base);
        assert!(claim(base, 1).is_none());
        drop(chosen);
        drop(freed(base));
    }
}
