mod kerberos;

use super::*;
use crate::rpc::testing::{Said, ServerAuth, ServerConnection};
use crate::rpc::{RetryPolicy, header::RequestHeader};
use crate::sasl::{Cipher, Qop, SaslError};
use crate::tokens::{Token, TokenProto, kinds};
use std::sync::atomic::AtomicUsize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Maps a method's name and request to the encoded response, or to the Java class of the exception to throw.
pub(crate) type Answers = dyn Fn(&str, &Bytes) -> Result<Vec<u8>, &'static str> + Send + Sync;

#[derive(Clone)]
pub(crate) enum Does {
    Echo,
    Standby,
    Hang,
    /// Closes the connection instead of answering the first so many calls.
    Drop(usize),
    Answer(Arc<Answers>),
}

pub(crate) struct Server {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
    calls: Arc<Mutex<Vec<RequestHeader>>>,
}

impl Server {
    pub(crate) async fn start(auth: ServerAuth, does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, connections: Arc::default(), calls: Arc::default() };
        let (connections, calls) = (Arc::clone(&server.connections), Arc::clone(&server.calls));
        task::start(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                task::start(answer(stream, auth.clone(), does.clone(), Arc::clone(&calls)));
            }
        });
        server
    }

    fn target(&self, auth: Auth) -> Target {
        let user = UserInformation { effective: Some("alice".to_owned()), real: None };
        let protocol = Protocol::new("P");
        Target { host: "127.0.0.1".to_owned(), port: self.port, protocol, user, auth }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn answer(
    mut stream: TcpStream,
    auth: ServerAuth,
    does: Does,
    calls: Arc<Mutex<Vec<RequestHeader>>>,
) {
    let mut server = ServerConnection::new(auth);
    let mut buffer = vec![0; 100_000];
    loop {
        let Ok(read @ 1..) = stream.read(&mut buffer).await else { return };
        let open = server.receive(&buffer[..read]);
        for said in std::mem::take(&mut server.said) {
            let Said::Call { header, method, body } = said else { continue };
            let id = header.call_id;
            let count = {
                let mut calls = calls.lock().unwrap();
                calls.push(header);
                calls.len()
            };
            match &does {
                Does::Answer(answers) => match answers(&method.method, &body) {
                    Ok(answer) => server.answer(id, &answer),
                    Err(class) => server.fail(id, class, "no", 1, false),
                },
                Does::Hang => {}
                Does::Drop(first) if count <= *first => return,
                Does::Echo | Does::Drop(_) => server.answer(id, &body),
                Does::Standby => {
                    server.fail(
                        id,
                        "org.apache.hadoop.ipc.StandbyException",
                        "not active",
                        1,
                        false,
                    );
                }
            }
        }
        stream.write_all(&server.out.split()).await.unwrap();
        if !open {
            return;
        }
    }
}

fn token() -> Token {
    Token::new(b"identifier".to_vec(), b"password".to_vec(), kinds::AM_RM, "")
}
fn by_token(token: Token, qop: Qop) -> Auth {
    Auth::Sasl(Box::new(SaslConfig {
        token: Some(token),
        qops: vec![qop],
        ..SaslConfig::default()
    }))
}
fn asks_token(qop: Qop) -> ServerAuth {
    ServerAuth::Token { token: token(), qops: vec![qop], ciphers: Cipher::ALL.to_vec() }
}
fn message(text: &str) -> TokenProto {
    TokenProto { kind: text.to_owned(), ..TokenProto::default() }
}
pub(crate) async fn echo(
    client: &Client,
    target: &Target,
    text: &str,
) -> Result<String, CallError> {
    let answer: TokenProto =
        client.call(target, "echo", &message(text), Duration::from_secs(20)).await?;
    Ok(answer.kind)
}

#[tokio::test]
async fn debug_shows_no_secret() {
    let (reply, _answer) = oneshot::channel();
    let timeout = Duration::from_secs(1);
    let request = Request::new(1, "m", Bytes::from_static(b"hunter2"));
    let (deadline, taken) = (Instant::now() + timeout, Arc::default());
    let command = Command { request, deadline, timeout, taken, reply };
    let shown = format!("{command:?}");
    assert!(shown.contains("7 bytes") && !shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    let server = Server::start(asks_token(Qop::Privacy), Does::Echo).await;
    let client = Client::new(Options::default());
    let target = server.target(by_token(token(), Qop::Privacy));
    let text = |i: usize| format!("{i}{}", "x".repeat(i * 10));
    let calls = (0..200).map(|i| {
        let (client, target) = (client.clone(), target.clone());
        async move { assert_eq!(echo(&client, &target, &text(i)).await.unwrap(), text(i)) }
    });
    let mut tasks = tokio::task::JoinSet::new();
    for call in calls {
        tasks.spawn(call);
    }
    tasks.join_all().await;
    assert_eq!((server.connections(), client.connections()), (1, 1));
    // Another user's calls go over another connection.
    let other = Token::new(b"other".to_vec(), b"password".to_vec(), kinds::AM_RM, "");
    let mut target = target;
    target.auth = by_token(other, Qop::Privacy);
    assert!(client.inner.connections.lock().unwrap().get(&target.key()).is_none());
}

/// A user with tickets that are never needed.
struct Unused;
impl crate::gssapi::Initiator for Unused {
    fn principal(&self) -> String {
        "alice@R".to_owned()
    }
    fn context(
        &self,
        _: &crate::gssapi::GssTarget,
    ) -> Result<Box<dyn crate::gssapi::GssContext>, crate::gssapi::GssError> {
        panic!("the server offers a token first")
    }
}

#[tokio::test]
async fn authentication_that_may_block_runs_elsewhere() {
    let server = Server::start(asks_token(Qop::Integrity), Does::Echo).await;
    let client = Client::new(Options::default());
    let mut target = server.target(by_token(token(), Qop::Integrity));
    if let Auth::Sasl(config) = &mut target.auth {
        let server = crate::sasl::ServerPrincipal::Pattern("*".to_owned());
        config.kerberos = Some(crate::sasl::Kerberos { initiator: Arc::new(Unused), server });
    }
    for text in ["a", "b"] {
        assert_eq!(echo(&client, &target, text).await.unwrap(), text);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn more_calls_than_the_bound_wait_their_turn() {
    let server = Server::start(ServerAuth::Simple, Does::Echo).await;
    let limits = crate::rpc::Limits { calls: 2, ..crate::rpc::Limits::default() };
    let client = Client::new(Options { limits, ..Options::default() });
    let target = server.target(Auth::Simple);
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..300 {
        let (client, target) = (client.clone(), target.clone());
        tasks.spawn(async move { echo(&client, &target, &i.to_string()).await.unwrap() });
    }
    assert_eq!(tasks.join_all().await.len(), 300);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_refusal_is_heard_although_writing_has_failed() {
    // The server answers and closes at once; requests of megabytes are still being written then.
    let server = Server::start(asks_token(Qop::Authentication), Does::Echo).await;
    let client = Client::new(Options::default());
    let large = "x".repeat(3 << 20);
    let refused = echo(&client, &server.target(Auth::Simple), &large).await.unwrap_err();
    let CallError::Connection { error, .. } = &refused else { panic!("{refused:?}") };
    match error {
        ConnectionError::Fatal(e) => assert!(e.is("AccessControlException"), "{e}"),
        // The kernel may throw the answer away with the connection; then this is all that is known.
        ConnectionError::Closed(_) => {}
        other => panic!("{other:?}"),
    }
    let small = echo(&client, &server.target(Auth::Simple), "x").await.unwrap_err();
    assert!(small.remote().is_some_and(|e| e.is("AccessControlException")), "{small:?}");
    let wrong = Token::new(b"identifier".to_vec(), b"wrong".to_vec(), kinds::AM_RM, "");
    let wrong =
        echo(&client, &server.target(by_token(wrong, Qop::Authentication)), "x").await.unwrap_err();
    assert!(wrong.remote().is_some_and(|e| e.is("SaslException")), "{wrong:?}");
    // No token gets better by being tried again.
    assert_eq!(server.connections(), 3);
}

/// A stream that cannot be written to, as one is whose peer has closed it.
struct Broken;
impl tokio::io::AsyncWrite for Broken {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::task::Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()))
    }
    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_last_words_are_read_after_a_broken_pipe() {
    let mut server = ServerConnection::new(ServerAuth::Simple);
    server.fail(
        -1,
        "org.apache.hadoop.security.AccessControlException",
        "SIMPLE is not enabled",
        15,
        true,
    );
    let setup = || Setup::simple(Protocol::new("P"), ClientId([0; 16]), "alice");
    // They come a little later than the error.
    let (reader, mut peer) = tokio::io::duplex(10_000);
    let words = server.out.split();
    task::start(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        peer.write_all(&words).await.unwrap();
    });
    let (_line, mut commands) = mpsc::channel(1);
    let end = task::Serving::new(setup()).serve(reader, Broken, &mut commands, [0; 16]).await;
    assert!(
        matches!(&end, task::End::Closed(ConnectionError::Fatal(e)) if e.is("AccessControlException")),
        "{end:?}"
    );
    // Where there are none, the error itself is said.
    let (reader, _peer) = tokio::io::duplex(10_000);
    let end = task::Serving::new(setup()).serve(reader, Broken, &mut commands, [0; 16]).await;
    assert!(
        matches!(&end, task::End::Closed(ConnectionError::Closed(reason)) if reason.contains("broken pipe")),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_call_that_meets_a_connection_closing_for_idleness_is_made_again() {
    let server = Server::start(ServerAuth::Simple, Does::Echo).await;
    let client = Client::new(Options::default());
    let target = server.target(Auth::Simple);
    let (line, mut commands) = mpsc::channel::<Command>(1);
    let closing = Handle { line, generation: u64::MAX };
    client.inner.connections.lock().unwrap().insert(target.key(), closing);
    task::start(async move {
        let command = commands.recv().await.unwrap();
        drop(commands);
        let error = CallError::Connection { error: ConnectionError::Idle, sent: false };
        command.reply.send(Err(error)).unwrap();
    });
    assert_eq!(echo(&client, &target, "a").await.unwrap(), "a");
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_connection_took_in_time_was_not_sent() {
    let server = Server::start(ServerAuth::Simple, Does::Echo).await;
    let client = Client::new(Options::default());
    let target = server.target(Auth::Simple);
    let (line, mut commands) = mpsc::channel::<Command>(2);
    let busy = Handle { line: line.clone(), generation: u64::MAX };
    client.inner.connections.lock().unwrap().insert(target.key(), busy);
    let (began, timeout) = (Instant::now(), Duration::from_secs(5));
    let late = client.call::<_, TokenProto>(&target, "m", &message(""), timeout).await;
    let late = late.unwrap_err();
    assert!(matches!(late, CallError::Deadline { sent: false, .. }), "{late:?}");
    assert_eq!(began.elapsed(), timeout);
    let left = commands.recv().await.unwrap();
    // A connection that takes it nevertheless sends nothing, nor one that takes a call too late.
    let (reply, answer) = oneshot::channel();
    let (request, deadline) = (left.request.clone(), Instant::now());
    let overdue = Command { request, deadline, timeout, taken: Arc::default(), reply };
    let (reply, _kept) = oneshot::channel();
    assert!(left.taken.load(Ordering::SeqCst));
    let left = Command { reply, deadline: deadline + timeout, ..left };
    line.try_send(left).unwrap();
    line.try_send(overdue).unwrap();
    drop((line, client));
    let (stream, mut peer) = tokio::io::duplex(10_000);
    let (reader, writer) = tokio::io::split(stream);
    let setup = Setup::simple(Protocol::new("P"), ClientId([0; 16]), "alice");
    let end = task::Serving::new(setup).serve(reader, writer, &mut commands, [0; 16]).await;
    assert!(matches!(&end, task::End::Closed(ConnectionError::Shutdown)), "{end:?}");
    let late = answer.await.unwrap().unwrap_err();
    assert!(matches!(late, CallError::Deadline { sent: false, .. }), "{late:?}");
    let mut server = ServerConnection::new(ServerAuth::Simple);
    let mut written = Vec::new();
    peer.read_to_end(&mut written).await.unwrap();
    server.receive(&written);
    assert!(matches!(&server.said[..], [Said::Context(_)]), "{:?}", server.said);
}

#[tokio::test]
async fn a_failure_that_many_calls_see_is_one_failover() {
    let first = Server::start(ServerAuth::Simple, Does::Standby).await;
    let active = Server::start(ServerAuth::Simple, Does::Echo).await;
    let third = Server::start(ServerAuth::Simple, Does::Standby).await;
    let targets = [&first, &active, &third].map(|server| server.target(Auth::Simple)).to_vec();
    let proxy = Arc::new(Proxy::new(Client::new(Options::default()), targets, fail_over()));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let proxy = Arc::clone(&proxy);
        tasks.spawn(async move { proxied(&proxy, CallOptions::default()).await.unwrap() });
    }
    assert_eq!(tasks.join_all().await.len(), 8);
    assert_eq!((first.connections(), active.connections(), third.connections()), (1, 1, 0));
    assert_eq!(first.calls.lock().unwrap().len(), 8);
}

#[tokio::test]
async fn simple_servers_are_refused_by_clients_with_a_token() {
    let server = Server::start(ServerAuth::OnlySimple, Does::Echo).await;
    let client = Client::new(Options::default());
    let refused =
        echo(&client, &server.target(by_token(token(), Qop::Privacy)), "x").await.unwrap_err();
    let expected = ConnectionError::Sasl(SaslError::SimpleRefused);
    assert_eq!(refused, CallError::Connection { error: expected, sent: false });
    assert!(server.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn deadlines_end_calls_and_leave_the_connection() {
    let server = Server::start(ServerAuth::Simple, Does::Hang).await;
    let client = Client::new(Options::default());
    let target = server.target(Auth::Simple);
    for _ in 0..2 {
        let timeout = Duration::from_millis(50);
        let late =
            client.call::<_, TokenProto>(&target, "m", &message(""), timeout).await.unwrap_err();
        assert!(matches!(late, CallError::Deadline { sent: true, .. }), "{late:?}");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn nobody_there_is_said_at_once_and_idle_connections_close() {
    let server = Server::start(ServerAuth::Simple, Does::Echo).await;
    let idle = Some(Duration::from_millis(30));
    let client = Client::new(Options { idle, ..Options::default() });
    let target = server.target(Auth::Simple);
    for round in 1..=3 {
        assert_eq!(echo(&client, &target, "a").await.unwrap(), "a");
        assert_eq!(server.connections(), round);
        while client.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let nobody = Target { port: free, ..target };
    let refused = echo(&client, &nobody, "x").await.unwrap_err();
    assert!(!refused.may_have_run());
    assert!(refused.to_string().contains(&free.to_string()), "{refused}");
    let unknown = Target { host: "no such host".to_owned(), ..nobody };
    assert!(matches!(
        echo(&client, &unknown, "x").await.unwrap_err(),
        CallError::Connection { error: ConnectionError::Connect { .. }, sent: false }
    ));
}

fn fail_over() -> RetryPolicy {
    let base = Duration::from_millis(2);
    RetryPolicy::FailOver { failovers: 10, retries: 1, base, max: base * 4 }
}
async fn proxied(proxy: &Proxy, options: CallOptions) -> Result<TokenProto, CallError> {
    proxy.call("echo", &message("x"), options).await
}

#[tokio::test]
async fn the_active_server_is_found_and_remembered() {
    let standby = Server::start(ServerAuth::Simple, Does::Standby).await;
    let active = Server::start(ServerAuth::Simple, Does::Echo).await;
    let client = Client::new(Options::default());
    let targets = vec![standby.target(Auth::Simple), active.target(Auth::Simple)];
    let proxy = Proxy::new(client, targets, fail_over());
    for _ in 0..3 {
        assert_eq!(proxied(&proxy, CallOptions::default()).await.unwrap().kind, "x");
    }
    assert_eq!(proxy.current().unwrap().port, active.port);
    let (standby, active) = (standby.calls.lock().unwrap(), active.calls.lock().unwrap());
    assert_eq!((standby.len(), active.len()), (1, 3));
    // The repetition has the same number, and says that it is one.
    assert_eq!((standby[0].call_id, standby[0].retry_count), (active[0].call_id, Some(0)));
    assert_eq!(active[0].retry_count, Some(1));
    assert_eq!(active[1].retry_count, Some(0));
}

#[tokio::test]
async fn what_may_have_run_is_repeated_only_where_it_may_be() {
    for (idempotent, calls) in [(true, 2), (false, 1)] {
        let server = Server::start(ServerAuth::Simple, Does::Drop(1)).await;
        let proxy = Proxy::new(
            Client::new(Options::default()),
            vec![server.target(Auth::Simple)],
            fail_over(),
        );
        let result = proxied(&proxy, CallOptions { idempotent, ..CallOptions::default() }).await;
        assert_eq!(result.is_ok(), idempotent, "{result:?}");
        assert_eq!(server.calls.lock().unwrap().len(), calls);
    }
}

#[tokio::test]
async fn callers_and_configurations_may_wait_for_ever() {
    let endless = Duration::MAX;
    let server = Server::start(asks_token(Qop::Integrity), Does::Echo).await;
    let client = Client::new(Options {
        connect_timeout: endless,
        connect_retries: 1,
        connect_backoff: endless,
        setup_timeout: endless,
        call_timeout: endless,
        ping: Some(endless),
        idle: Some(endless),
        ..Options::default()
    });
    let target = server.target(by_token(token(), Qop::Integrity));
    let answer: TokenProto = client.call(&target, "echo", &message("x"), endless).await.unwrap();
    assert_eq!(answer.kind, "x");
    let options = CallOptions { deadline: Some(endless), attempt: Some(endless), idempotent: true };
    let proxy = Proxy::new(client.clone(), vec![target.clone()], fail_over());
    assert_eq!(proxied(&proxy, options).await.unwrap().kind, "x");
    // The wait before the second try to connect is as long as it may be; the call's deadline ends it.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let nobody = Target { port, ..target.clone() };
    let soon = Duration::from_millis(20);
    let late = client.call::<_, TokenProto>(&nobody, "m", &message(""), soon).await.unwrap_err();
    assert!(matches!(late, CallError::Deadline { sent: false, .. }), "{late:?}");
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let nobody = Target { port, ..target };
    let policy = RetryPolicy::Fixed { interval: endless, retries: 1 };
    let proxy = Proxy::new(Client::new(Options::default()), vec![nobody], policy);
    let options = CallOptions { deadline: Some(Duration::from_secs(5)), ..options };
    let refused = proxied(&proxy, options).await.unwrap_err();
    assert!(matches!(refused, CallError::Connection { .. }), "{refused:?}");
}

#[tokio::test]
async fn what_was_wrong_is_told_though_the_last_try_had_no_time() {
    let server = Server::start(ServerAuth::Simple, Does::Hang).await;
    let target = |port, auth| Target { port, ..server.target(auth) };
    // Nobody listens at the first, and nobody accepts at the second.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refuses = target(gone.local_addr().unwrap().port(), Auth::Simple);
    drop(gone);
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let auth = by_token(token(), Qop::Privacy);
    let hangs = target(deaf.local_addr().unwrap().port(), auth);
    let policy = RetryPolicy::FailOver {
        failovers: u32::MAX,
        retries: 1,
        base: Duration::from_millis(1),
        max: Duration::from_millis(1),
    };
    let client = Client::new(Options { connect_retries: 0, ..Options::default() });
    let deadline = Some(Duration::from_millis(200));
    let options = CallOptions { deadline, ..CallOptions::default() };
    let error = proxied(&Proxy::new(client.clone(), vec![refuses, hangs], policy), options).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("cannot connect"), "{error}");
    // Where nothing was wrong before, or the call may have run: the time is that of the call, not of the try.
    let silent = vec![server.target(Auth::Simple)];
    let error = proxied(&Proxy::new(client, silent, policy), options).await.unwrap_err();
    let CallError::Deadline { after, sent: true, .. } = error else { panic!("{error:?}") };
    assert_eq!(Some(after), deadline);
}

#[tokio::test]
async fn no_try_goes_beyond_the_deadline() {
    let standby = Server::start(ServerAuth::Simple, Does::Standby).await;
    let client = Client::new(Options::default());
    let policy = RetryPolicy::FailOver {
        failovers: u32::MAX,
        retries: 1,
        base: Duration::from_millis(1),
        max: Duration::from_millis(1),
    };
    let proxy = Proxy::new(client.clone(), vec![standby.target(Auth::Simple)], policy);
    let options =
        CallOptions { deadline: Some(Duration::from_millis(100)), ..CallOptions::default() };
    let began = Instant::now();
    let error = proxied(&proxy, options).await.unwrap_err();
    assert!(
        error.remote().is_some_and(|e| e.is("StandbyException"))
            || matches!(error, CallError::Deadline { .. })
    );
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(standby.calls.lock().unwrap().len() > 2);
    assert!(proxied(&Proxy::new(client, vec![], policy), options).await.is_err());
}

#[test]
fn options_come_from_hadoops_properties() {
    use crate::conf::Configuration;
    let mut conf = Configuration::with_defaults();
    assert_eq!(Options::from_conf(&conf).unwrap(), Options::default());
    conf.set("ipc.client.ping", "false");
    conf.set("ipc.client.connect.timeout", "3s");
    conf.set("ipc.client.rpc-timeout.ms", "0");
    let options = Options::from_conf(&conf).unwrap();
    assert_eq!((options.ping, options.connect_timeout), (None, Duration::from_secs(3)));
    assert_eq!(options.call_timeout, Duration::from_secs(3600));
    conf.set("ipc.client.connect.max.retries", "7");
    conf.set("ipc.client.connect.retry.interval", "250");
    let options = Options::from_conf(&conf).unwrap();
    assert_eq!((options.connect_retries, options.connect_backoff.as_millis()), (7, 250));
    assert_eq!(options.kerberos_retries, 5);
    conf.set("ipc.client.connect.max.retries.on.sasl", "0");
    assert_eq!(Options::from_conf(&conf).unwrap().kerberos_retries, 0);
    conf.set("ipc.client.connect.max.retries", "-1");
    assert!(Options::from_conf(&conf).is_err());
    conf.unset("ipc.client.connect.max.retries");
    conf.set("ipc.client.connect.timeout", "soon");
    assert!(Options::from_conf(&conf).is_err());
}
