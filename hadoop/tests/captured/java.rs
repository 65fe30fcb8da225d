//! Hadoop's own client on the wire: what it sends is what the core sends. Its commands ran through a relay that
//! wrote both directions down.

use super::fixture::{Fixture, Line, directory, hex};
use super::gss::Scripted;
use super::wire::{NOW, frames};
use super::world::{ALICE, CLIENT, addresses};
use bytes::Bytes;
use hadoop::conf::Configuration;
use hadoop::rpc::frame::{take, take_body};
use hadoop::rpc::header::{
    CALL_CONTEXT, CALL_SASL, ConnectionContext, MethodHeader, RequestHeader, ResponseHeader,
    SaslMessage, SaslState, UserInformation,
};
use hadoop::rpc::{AuthSetup, ClientId, Connection, Event, Protocol, Request, Setup};
use hadoop::sasl::{AuthMethod, Kerberos, Qop, SaslConfig, ServerPrincipal};
use hadoop::tokens::{Credentials, Token};
use hadoop::yarn::YarnClient;
use hadoop::yarn::messages::*;
use prost::Message;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// The frames that a client has sent and received.
#[derive(Default)]
struct Heard {
    lines: Vec<Line>,
    began: bool,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl Heard {
    fn client_said(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        if !self.began && self.out.len() >= 7 {
            self.began = true;
            self.lines.push(Line::Out(self.out.drain(..7).collect()));
        }
        if self.began {
            self.lines.extend(frames(&mut self.out).into_iter().map(Line::Out));
        }
    }

    fn server_said(&mut self, bytes: &[u8]) {
        self.back.extend_from_slice(bytes);
        self.lines.extend(frames(&mut self.back).into_iter().map(Line::In));
    }
}

/// Stands between a client and its server, and writes down what one says to the other.
struct Relay {
    port: u16,
    heard: Arc<Mutex<Vec<Heard>>>,
}

#[expect(clippy::disallowed_methods, reason = "a tool of its own, with nothing to simulate")]
fn thread(work: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::spawn(work)
}

impl Relay {
    fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::<Mutex<Vec<Heard>>>::default();
        let all = Arc::clone(&heard);
        thread(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).unwrap();
                let one = Arc::new(Mutex::new(Heard::default()));
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let heard = Arc::clone(&one);
                let out = thread(move || pass(from, to, |b| heard.lock().unwrap().client_said(b)));
                let heard = Arc::clone(&one);
                pass(server, client, |bytes| heard.lock().unwrap().server_said(bytes));
                out.join().unwrap();
                all.lock().unwrap().push(std::mem::take(&mut *one.lock().unwrap()));
            }
        });
        Self { port, heard }
    }

    /// The connection of a command that has ended. It made one.
    fn take(&self, name: &str) {
        let one = loop {
            if let Some(one) = self.heard.lock().unwrap().pop() {
                break one;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        assert!(one.out.is_empty() && one.back.is_empty(), "half a frame");
        let client = one.lines.iter().find_map(|line| match line {
            // The first that is no SASL message names the client, unless it is wrapped.
            Line::Out(frame) if frame.len() > 7 => {
                let header: RequestHeader = take(&mut body(frame), "header").unwrap();
                <[u8; 16]>::try_from(header.client_id).ok()
            }
            _ => None,
        });
        let client = client.unwrap_or_default();
        let note = Line::Note("Hadoop's own client".to_owned());
        let lines = std::iter::once(note).chain(one.lines).collect();
        Fixture { client, lines, ..Fixture::default() }.save(name);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, heard: impl Fn(&[u8])) {
    let mut buffer = [0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        heard(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    // The other one may have gone.
    let _ = to.shutdown(std::net::Shutdown::Write);
}

fn body(frame: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&frame[4..])
}

/// Hadoop's commands with a configuration in which the relay is the ResourceManager.
fn command(relay: &Relay, server: &str) -> PathBuf {
    let conf = PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").unwrap());
    let conf = std::fs::canonicalize(conf).unwrap();
    let own = conf.with_file_name("conf-relay");
    std::fs::create_dir_all(&own).unwrap();
    for file in std::fs::read_dir(&conf).unwrap().map(Result::unwrap) {
        let text = std::fs::read_to_string(file.path()).unwrap();
        let port = format!("localhost:{}", relay.port);
        std::fs::write(own.join(file.file_name()), text.replace(server, &port)).unwrap();
    }
    let script = std::fs::read_to_string(conf.with_file_name("bin").join("yarn")).unwrap();
    let changed = conf.with_file_name("bin").join("yarn-relay");
    let (from, to) = (conf.display().to_string(), own.display().to_string());
    // Java's class path ends its entries with colons or quotes.
    std::fs::write(&changed, script.replace(&format!("{from}:"), &format!("{to}:"))).unwrap();
    changed
}

fn run(script: &Path, args: &[&str], environment: &[(&str, &str)]) {
    let mut command = Command::new("sh");
    command.arg(script).args(args).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
}

/// Has Hadoop's own commands ask the cluster.
pub(super) fn capture() {
    let conf = Configuration::load().unwrap();
    let all = addresses(&conf, "yarn.resourcemanager.address");
    let active = all.iter().find(|one| TcpStream::connect(one).is_ok()).unwrap();
    let relay = Relay::to(active.clone());
    let script = command(&relay, active);
    if all.len() > 1 {
        run(&script, &["node", "-list"], &[]);
        return relay.take("java/kerberos");
    }
    let alice = ("HADOOP_USER_NAME", ALICE);
    for (name, args) in [
        ("node-list", &["node", "-list", "-all"][..]),
        ("application-list", &["application", "-list", "-appStates", "ALL"]),
    ] {
        run(&script, args, &[alice]);
        relay.take(&format!("java/{name}"));
    }
    let token = delegation_token(&conf).with_service(format!("127.0.0.1:{}", relay.port));
    let mut credentials = Credentials::new();
    credentials.add("manager", token);
    let file = directory().join("token");
    std::fs::write(&file, credentials.to_bytes()).unwrap();
    let tokens = ("HADOOP_TOKEN_FILE_LOCATION", file.to_str().unwrap());
    run(&script, &["node", "-list"], &[alice, tokens]);
    std::fs::remove_file(&file).unwrap();
    relay.take("java/token");
}

fn delegation_token(conf: &Configuration) -> Token {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let login = hadoop::login::Login::simple(conf, ALICE, Credentials::new()).unwrap();
    runtime.block_on(async {
        let yarn = YarnClient::new(conf, login).await.unwrap();
        yarn.delegation_token(ALICE).await.unwrap()
    })
}

/// The caller context (`RPCCallerContextProto`) that Hadoop's commands put into every header for the audit logs of
/// servers: `CLI`. Libraries send none, and the core knows no such field.
const CALLER: &[u8] = b"\x3a\x05\x0a\x03CLI";

/// A frame without that, and shorter by it.
fn without_caller(frame: &[u8]) -> Vec<u8> {
    let (length, rest) = frame.split_at(4);
    let (header, rest) = rest[1..].split_at(usize::from(rest[0]));
    let length = u32::from_be_bytes(length.try_into().unwrap()) - CALLER.len() as u32;
    let header = header.strip_suffix(CALLER).expect("the caller ends a header");
    let header = [&[u8::try_from(header.len()).unwrap()], header].concat();
    [&length.to_be_bytes()[..], &header, rest].concat()
}

/// Returns the frames that the client sent, and those that it received.
fn both(fixture: &Fixture) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut out, mut back) = (Vec::new(), Vec::new());
    for line in &fixture.lines {
        match line {
            Line::Out(first) if out.is_empty() => out.push(first.clone()),
            Line::Out(frame) => out.push(without_caller(frame)),
            Line::In(frame) => back.push(frame.clone()),
            Line::Note(_) | Line::Closed => {}
        }
    }
    (out, back)
}

/// The same as a message of ours: nothing is in it that we do not know, and its fields come in the same order.
fn same<M: Message + Default>(bytes: &Bytes) -> M {
    let message = M::decode(bytes.clone()).unwrap();
    assert_eq!(hex(&message.encode_to_vec()), hex(bytes));
    message
}

/// Reads what Java asks and hears in the messages of this library.
fn typed(method: &str, request: &Bytes, response: &Bytes) -> usize {
    match method {
        "getClusterNodes" => {
            let request: GetClusterNodesRequest = same(request);
            assert!(request.node_states.contains(&NodeState::Running.into()), "{request:?}");
            same::<GetClusterNodesResponse>(response).node_reports.len()
        }
        "getApplications" => {
            let request: GetApplicationsRequest = same(request);
            assert_eq!(request.application_states.len(), 8, "{request:?}");
            same::<GetApplicationsResponse>(response).applications.len()
        }
        "getClusterMetrics" => {
            let _: GetClusterMetricsRequest = same(request);
            let response: GetClusterMetricsResponse = same(response);
            response.cluster_metrics.unwrap().num_node_managers() as usize
        }
        other => panic!("nobody has said what Java says with {other}"),
    }
}

#[test]
fn the_core_sends_what_hadoops_own_client_sends() {
    for (name, user) in [("node-list", ALICE), ("application-list", ALICE)] {
        let fixture = Fixture::load(&format!("java/{name}"));
        let (out, back) = both(&fixture);
        let setup = Setup::simple(Protocol::new(CLIENT), ClientId(fixture.client), user);
        let mut core = Connection::new(setup, NOW);
        let mut asked = Vec::new();
        for frame in &out[2..] {
            let mut frame = body(frame);
            let header: RequestHeader = take(&mut frame, "header").unwrap();
            let method: MethodHeader = take(&mut frame, "method").unwrap();
            let body = take_body(&mut frame, "body").unwrap();
            asked.push((header.call_id, method.method.clone(), body.clone()));
            core.call(Request::new(header.call_id, method.method, body), NOW).unwrap();
        }
        assert_eq!(hex(&core.take_outbound()), hex(&out.concat()), "{name}");
        core.receive(&back.concat(), NOW);
        assert!(matches!(core.poll_event(), Some(Event::Ready { .. })));
        assert!(!asked.is_empty(), "{name}");
        for (call, method, request) in asked {
            let Some(Event::Reply { id, result: Ok(response) }) = core.poll_event() else {
                panic!("{name}: no answer to {method}")
            };
            assert_eq!(id, call);
            assert!(typed(&method, &request, &response) >= 2, "{name}: {method}");
        }
        assert!(core.poll_event().is_none());
    }
}

/// Returns the frames, with their SASL messages, that the client of a fixture sends until it is authenticated.
fn greeting(out: &[Vec<u8>]) -> Vec<(Bytes, SaslMessage)> {
    let sasl = |frame: &Vec<u8>| {
        let mut rest = body(frame);
        let header: RequestHeader = take(&mut rest, "header").unwrap();
        assert_eq!(header.call_id, CALL_SASL);
        let message: SaslMessage = take(&mut rest, "message").unwrap();
        assert!(rest.is_empty());
        let mut again = Vec::new();
        header.encode_length_delimited(&mut again).unwrap();
        message.encode_length_delimited(&mut again).unwrap();
        assert_eq!(hex(&again), hex(&frame[4..]), "nothing but what we know");
        (Bytes::from(frame.clone()), message)
    };
    out[1..].iter().take_while(|frame| is_sasl(frame)).map(sasl).collect()
}

fn is_sasl(frame: &[u8]) -> bool {
    let header: RequestHeader = take(&mut body(frame), "header").unwrap();
    header.call_id == CALL_SASL
}

/// Java's nonce is longer than ours, so that its proof cannot be ours; everything around it must be.
#[test]
fn a_token_is_presented_as_hadoops_own_client_does() {
    let fixture = Fixture::load("java/token");
    let (out, back) = both(&fixture);
    assert_eq!(out[0], b"hrpc\x09\x00\xdf");
    let theirs = greeting(&out);
    assert_eq!(theirs.len(), 2);
    let response = String::from_utf8(theirs[1].1.token.clone().unwrap()).unwrap();
    let identifier = response.split('"').nth(1).unwrap();
    let identifier = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, identifier).unwrap();
    let token = Token::new(identifier, b"not the one".to_vec(), "RM_DELEGATION_TOKEN", "");
    let config = SaslConfig { token: Some(token), ..SaslConfig::default() };
    let auth = AuthSetup::Sasl { config: Box::new(config), entropy: [7; 16] };
    let setup = Setup::simple(Protocol::new(CLIENT), ClientId(fixture.client), ALICE);
    let mut core = Connection::new(Setup { auth, ..setup }, NOW);
    core.receive(&back[0], NOW);
    let mut ours = core.take_outbound().to_vec();
    assert_eq!(ours.drain(..7).collect::<Vec<u8>>(), out[0]);
    let ours = frames(&mut ours);
    assert_eq!(hex(&ours[0]), hex(&theirs[0].0));
    let (_, mut ours) = greeting(&[out[0].clone(), ours[1].clone()]).remove(0);
    let mut theirs = theirs[1].1.clone();
    let directives = |message: &mut SaslMessage| {
        let text = String::from_utf8(message.token.take().unwrap()).unwrap();
        let names: Vec<String> =
            text.split(',').map(|one| one.split('=').next().unwrap().to_owned()).collect();
        names
    };
    assert_eq!(directives(&mut ours), directives(&mut theirs));
    assert_eq!(ours, theirs);

    // Behind the greeting: the context with a user who has no name, then the call.
    let mut context = body(&out[3]);
    let header: RequestHeader = take(&mut context, "header").unwrap();
    assert_eq!((header.call_id, header.client_id.as_slice()), (CALL_CONTEXT, &fixture.client[..]));
    let context = take_body(&mut context, "context").unwrap();
    let context: ConnectionContext = same(&context);
    assert_eq!(
        context,
        ConnectionContext {
            user: Some(UserInformation::default()),
            protocol: Some(CLIENT.to_owned())
        }
    );
}

/// Java's contexts with Kerberos cannot be computed again; what stands around their tokens can.
#[test]
fn tickets_are_presented_as_hadoops_own_client_does() {
    let fixture = Fixture::load("java/kerberos");
    let (out, back) = both(&fixture);
    let theirs = greeting(&out);
    let token = |message: &SaslMessage| message.token.clone().unwrap_or_default();
    let said: Vec<SaslMessage> = back
        .iter()
        .map(|frame| {
            let mut frame = body(frame);
            let _: ResponseHeader = take(&mut frame, "header").unwrap();
            take(&mut frame, "message").unwrap()
        })
        .collect();
    let state = |message: &SaslMessage| SaslState::try_from(message.state).unwrap();
    let mut script = Vec::new();
    let mut wrapped = 0;
    for (at, (_, message)) in theirs.iter().enumerate() {
        let challenge = at.checked_sub(1).map(|at| &said[at]);
        match (state(message), challenge) {
            (SaslState::Negotiate, None) => {}
            (SaslState::Initiate, Some(_)) => {
                let answer = token(message);
                script.push(super::fixture::Gss::Step { token: vec![], answer, stands: false });
            }
            (SaslState::Response, Some(challenge)) => {
                assert_eq!(state(challenge), SaslState::Challenge);
                let last = state(&said[at]) == SaslState::Success;
                script.extend(step(token(challenge), token(message), last));
            }
            (SaslState::Wrap, _) => wrapped += 1,
            other => panic!("{other:?}"),
        }
    }
    // Java holds the context back until the call goes out, and wraps both at once; servers take either.
    assert!(wrapped >= 1);
    let initiator = Arc::new(Scripted::new("alice@TEST.LOCAL", script));
    let server = ServerPrincipal::Exact("rm/localhost@TEST.LOCAL".to_owned());
    let kerberos = Some(Kerberos { initiator: Arc::clone(&initiator) as Arc<_>, server });
    let config = SaslConfig { kerberos, qops: vec![Qop::Privacy], ..SaslConfig::default() };
    let auth = AuthSetup::Sasl { config: Box::new(config), entropy: [0; 16] };
    let user = UserInformation { effective: Some("alice@TEST.LOCAL".to_owned()), real: None };
    let setup = Setup::simple(Protocol::new(CLIENT), ClientId([0; 16]), "");
    let mut core = Connection::new(Setup { auth, user, ..setup }, NOW);
    for (message, frame) in said.iter().zip(&back) {
        // What follows is wrapped by keys that nobody has any more.
        if state(message) == SaslState::Success {
            break;
        }
        core.receive(frame, NOW);
    }
    assert!(initiator.is_through());
    let greeting = theirs.iter().filter(|(_, message)| state(message) != SaslState::Wrap);
    let greeting: Vec<u8> = greeting.flat_map(|(frame, _)| frame.to_vec()).collect();
    assert_eq!(hex(&core.take_outbound()), hex(&[out[0].clone(), greeting].concat()));
    assert_eq!(AuthMethod::Kerberos.name(), theirs[1].1.auths[0].method);
}

/// Returns the calls of GSSAPI that lead to an answer: one of the context's own tokens, or the choice of a protection.
fn step(challenge: Vec<u8>, answer: Vec<u8>, last: bool) -> Vec<super::fixture::Gss> {
    use super::fixture::Gss;
    if !last {
        return vec![Gss::Step { token: challenge, answer, stands: true }];
    }
    let offer = vec![7, 0, 255, 255];
    vec![
        Gss::Unwrap { wrapped: challenge, plain: offer, encrypted: false },
        Gss::Max { encrypt: true, raw: 65_535, plain: 65_000 },
        Gss::Wrap { encrypt: false, plain: vec![4, 255, 255, 255], wrapped: answer },
    ]
}
