use super::testing::{Said, ServerAuth, ServerConnection};
use super::*;
use crate::sasl::{AuthMethod, Cipher, Qop, SaslConfig, SaslError};
use crate::tokens::{Token, kinds};
use crate::yarn::YarnError;
use bytes::Bytes;
use proptest::prelude::*;
use std::time::Duration;

const NOW: Time = Duration::ZERO;
const CLIENT: ClientId = ClientId([5; 16]);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
fn setup() -> Setup {
    Setup::simple(Protocol::new("P"), CLIENT, "alice")
}
fn token() -> Token {
    Token::new(b"identifier".to_vec(), b"password".to_vec(), kinds::AM_RM, "")
}
fn with_token(token: Token, qops: &[Qop]) -> Setup {
    let config = SaslConfig { token: Some(token), qops: qops.to_vec(), ..SaslConfig::default() };
    Setup { auth: AuthSetup::Sasl { config: Box::new(config), entropy: [1; 16] }, ..setup() }
}
fn request(id: i32, body: &[u8]) -> Request {
    Request::new(id, "method", Bytes::copy_from_slice(body))
}
fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.poll_event()).collect()
}
/// Moves bytes both ways, in pieces of `piece` bytes, until neither side says more.
fn exchange(client: &mut Connection, server: &mut ServerConnection, piece: usize) -> bool {
    let mut open = true;
    while client.has_outbound() || !server.out.is_empty() {
        for part in client.take_outbound().chunks(piece) {
            open &= !open || server.receive(part);
        }
        for part in server.out.split().chunks(piece) {
            client.receive(part, NOW);
        }
    }
    open
}
fn body_of(event: &Event) -> (i32, Bytes) {
    match event {
        Event::Reply { id, result: Ok(body) } => (*id, body.clone()),
        other => panic!("{other:?}"),
    }
}

/// The first bytes of a client that does not authenticate, as Hadoop's own client sends them for
/// `ApplicationClientProtocolPB`, user `alice`: preface, context, one call.
#[test]
fn the_first_bytes_are_hadoops() {
    let mut connection = Connection::new(setup(), NOW);
    connection.call(request(0, b"\x0a\x01x"), NOW).unwrap();
    let mut expected = b"hrpc\x09\x00\x00".to_vec();
    // RpcRequestHeader: kind 2, op 0, call -3 (zigzag 5), client, retry -1 (zigzag 1).
    let header = |call: u8, retry: u8| {
        [&[26, 8, 2, 16, 0, 24, call, 34, 16][..], &CLIENT.0, &[40, retry]].concat()
    };
    let context = b"\x0c\x12\x07\x0a\x05alice\x1a\x01P";
    let frame = |parts: &[&[u8]]| {
        let body = parts.concat();
        [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
    };
    expected.extend(frame(&[&header(5, 1), context]));
    let method = b"\x0d\x0a\x06method\x12\x01P\x18\x01";
    expected.extend(frame(&[&header(0, 0), method, b"\x03\x0a\x01x"]));
    assert_eq!(connection.take_outbound(), expected);
    assert!(matches!(
        connection.poll_event(),
        Some(Event::Ready { method: AuthMethod::Simple, qop: Qop::Authentication })
    ));
}

#[test]
fn debug_shows_no_secret() {
    let body = || Bytes::from_static(b"hunter2");
    let mut frames = super::frame::FrameDecoder::new(100);
    frames.push(b"hunter2");
    for shown in [
        format!("{:?}", request(3, b"hunter2")),
        format!("{:?}", Event::Reply { id: 3, result: Ok(body()) }),
        format!("{frames:?}"),
    ] {
        assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
        assert!(shown.contains('7'), "its length: {shown}");
    }
    let failed = Event::Reply { id: 3, result: Err(CallError::Overloaded { waiting: 9 }) };
    assert!(format!("{failed:?}").contains("waiting: 9"));
}

#[test]
fn calls_are_answered_in_any_order_and_in_any_pieces() {
    for piece in [1, 7, 100_000] {
        let mut client = Connection::new(setup(), NOW);
        let mut server = ServerConnection::new(ServerAuth::Simple);
        for id in 0..3 {
            client.call(request(id, &[0; 1000]), NOW).unwrap();
        }
        assert!(exchange(&mut client, &mut server, piece));
        assert_eq!(server.said.len(), 4);
        let Said::Context(context) = &server.said[0] else { panic!() };
        assert_eq!(context.user.as_ref().unwrap().effective.as_deref(), Some("alice"));
        let Said::Call { header, method, body } = &server.said[3] else { panic!() };
        assert_eq!((header.call_id, method.method.as_str(), body.len()), (2, "method", 1000));
        assert_eq!(header.client_id, CLIENT.0);
        for id in [2, 0, 1, 77] {
            server.answer(id, &[u8::try_from(id).unwrap(); 500]);
        }
        exchange(&mut client, &mut server, piece);
        let events = events(&mut client);
        let replies: Vec<_> = events[1..].iter().map(body_of).collect();
        assert_eq!(replies.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(replies[0].1, vec![2; 500]);
        assert_eq!(client.waiting(), 0);
    }
}

#[test]
fn every_protection_carries_calls_both_ways() {
    for (qop, cipher) in [
        (Qop::Authentication, Cipher::Rc4),
        (Qop::Integrity, Cipher::Rc4),
        (Qop::Privacy, Cipher::Rc4),
        (Qop::Privacy, Cipher::TripleDes),
    ] {
        let mut client = Connection::new(with_token(token(), &[qop]), NOW);
        let auth = ServerAuth::Token { token: token(), qops: vec![qop], ciphers: vec![cipher] };
        let mut server = ServerConnection::new(auth);
        // Longer than one protected message may be; and made before authentication is through.
        client.call(request(0, &[1; 200_000]), NOW).unwrap();
        client.call(request(1, b"small"), NOW).unwrap();
        assert!(events(&mut client).is_empty());
        assert!(exchange(&mut client, &mut server, 999));
        assert!(
            matches!(events(&mut client)[..], [Event::Ready { method: AuthMethod::Token, qop: q }] if q == qop)
        );
        let [Said::Context(context), Said::Call { body, .. }, Said::Call { .. }] = &server.said[..]
        else {
            panic!("{:?}", server.said)
        };
        let nobody = Some(super::header::UserInformation::default());
        assert_eq!(context.user, nobody, "the token says who it is");
        assert_eq!(body.len(), 200_000);
        server.answer(1, b"small");
        server.answer(0, &[2; 300_000]);
        exchange(&mut client, &mut server, 999);
        let events = events(&mut client);
        assert_eq!(body_of(&events[0]), (1, Bytes::from_static(b"small")));
        assert_eq!(body_of(&events[1]).1.len(), 300_000);
    }
}

#[test]
fn an_unprotected_answer_on_a_protected_stream_ends_it() {
    let qops = [Qop::Integrity];
    let mut client = Connection::new(with_token(token(), &qops), NOW);
    let auth = ServerAuth::Token { token: token(), qops: qops.to_vec(), ciphers: vec![] };
    let mut server = ServerConnection::new(auth);
    client.call(request(0, b""), NOW).unwrap();
    exchange(&mut client, &mut server, 1000);
    let mut forger = ServerConnection::new(ServerAuth::Simple);
    forger.answer(0, b"forged");
    client.receive(&forger.out, NOW);
    let events = events(&mut client);
    assert!(matches!(
        &events[1],
        Event::Reply { id: 0, result: Err(CallError::Connection { sent: true, .. }) }
    ));
    assert!(matches!(&events[2], Event::Closed(ConnectionError::Protocol(_))), "{events:?}");
}

#[test]
fn what_was_sent_before_protection_broke_may_have_run() {
    let qops = [Qop::Integrity];
    let mut client = Connection::new(with_token(token(), &qops), NOW);
    let auth = ServerAuth::Token { token: token(), qops: qops.to_vec(), ciphers: vec![] };
    let mut server = ServerConnection::new(auth);
    client.call(request(0, b""), NOW).unwrap();
    client.call(request(1, b""), NOW).unwrap();
    exchange(&mut client, &mut server, 1000);
    server.answer(0, b"");
    let mut changed = server.out.split();
    // In the signature, which is followed by six bytes.
    let at = changed.len() - 10;
    changed[at] ^= 1;
    client.receive(&changed, NOW);
    let events = events(&mut client);
    let [Event::Ready { .. }, Event::Reply { result: Err(error), .. }, ..] = &events[..] else {
        panic!("{events:?}")
    };
    let CallError::Connection { error: ConnectionError::Sasl(_), sent: true } = error else {
        panic!("{error:?}")
    };
    assert!(error.may_have_run());
    let greeting = ConnectionError::Sasl(SaslError::SimpleRefused);
    assert!(!CallError::Connection { error: greeting, sent: false }.may_have_run());
}

#[test]
fn exceptions_are_typed_and_only_fatal_ones_end_the_connection() {
    let mut client = Connection::new(setup(), NOW);
    let mut server = ServerConnection::new(ServerAuth::Simple);
    for id in 0..3 {
        client.call(request(id, b""), NOW).unwrap();
    }
    let class = "org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException";
    server.fail(1, class, "no such application\n\tat X", 1, false);
    exchange(&mut client, &mut server, 1000);
    let Event::Reply { id: 1, result: Err(error @ CallError::Remote(remote)) } =
        &events(&mut client)[1]
    else {
        panic!()
    };
    assert!(remote.is("ApplicationNotFoundException") && remote.is(class) && !remote.fatal);
    assert_eq!(remote.code, ErrorCode::Application);
    assert_eq!(remote.to_string(), "ApplicationNotFoundException: no such application");
    assert_eq!(error.remote(), Some(remote));
    assert_eq!(remote.advice(), Advice::Fail);

    server.fail(0, "org.apache.hadoop.ipc.RpcServerException", "no more", 10, true);
    exchange(&mut client, &mut server, 1000);
    let ended = events(&mut client);
    assert_eq!(ended.len(), 3);
    assert!(matches!(&ended[2], Event::Closed(ConnectionError::Fatal(e)) if e.fatal));
    assert!(matches!(
        client.call(request(9, b""), NOW),
        Err(CallError::Connection { sent: false, .. })
    ));
}

/// The lines of a captured exchange that are bytes.
fn captured(text: &str) -> Vec<u8> {
    let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    let digits: Vec<u32> = digits.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

#[test]
fn a_node_managers_refusal_is_known_by_any_name_of_its_class() {
    let bytes = captured(include_str!("data/invalid_container_token.txt"));
    // Answers name the client, nearly at their end.
    let client_id: [u8; 16] = bytes[bytes.len() - 18..][..16].try_into().unwrap();
    let setup = Setup::simple(Protocol::new("P"), ClientId(client_id), "alice");
    let mut client = Connection::new(setup, NOW);
    client.call(request(1, b""), NOW).unwrap();
    client.receive(&bytes, NOW);
    let Event::Reply { id: 1, result: Err(error) } = &events(&mut client)[1] else { panic!() };
    let remote = error.remote().unwrap();
    let class = "org.apache.hadoop.security.token.SecretManager$InvalidToken";
    for name in [class, "SecretManager$InvalidToken", "InvalidToken"] {
        assert!(remote.is(name), "{name}");
        // A node says the same of one container of several, without an exception of the call.
        let (id, class, message) = (Default::default(), class.to_owned(), String::new());
        assert!(YarnError::Container { id, class, message }.is_remote(name), "{name}");
    }
    assert!(!remote.is("SecretManager") && !remote.is("Token") && !remote.is(""));
    assert_eq!(
        remote.to_string(),
        "InvalidToken: Invalid container token used for starting container on : localhost:18120"
    );
}

#[test]
fn classes_say_what_to_do() {
    let advice = |class: &str, message: &str| {
        let (class, message) = (class.to_owned(), message.to_owned());
        RemoteException { class, message, code: ErrorCode::Application, fatal: false }.advice()
    };
    assert_eq!(advice("org.apache.hadoop.ipc.StandbyException", "x"), Advice::FailOver);
    assert_eq!(advice("org.apache.hadoop.ipc.RetriableException", "x"), Advice::Retry);
    assert_eq!(
        advice("java.io.IOException", "org.apache.hadoop.ipc.StandbyException: no"),
        Advice::FailOver
    );
    assert_eq!(advice("java.io.IOException", "StandbyException is a word"), Advice::Fail);
}

#[test]
fn wrong_tokens_and_refused_methods_are_told_apart() {
    let wrong = Token::new(b"identifier".to_vec(), b"passwore".to_vec(), kinds::AM_RM, "");
    let server = |auth| ServerConnection::new(auth);
    let qops = [Qop::Authentication];
    let with = || ServerAuth::Token { token: token(), qops: qops.to_vec(), ciphers: vec![] };

    let mut client = Connection::new(with_token(wrong, &qops), NOW);
    assert!(!exchange(&mut client, &mut server(with()), 1000));
    let Some(Event::Closed(ConnectionError::Fatal(e))) = client.poll_event() else { panic!() };
    assert!(e.is("SaslException") && e.message.contains("Mismatched response"));
    assert_eq!(e.code, ErrorCode::FatalUnauthorized);

    let mut client = Connection::new(setup(), NOW);
    assert!(!exchange(&mut client, &mut server(with()), 1000));
    let Some(Event::Closed(ConnectionError::Fatal(e))) = events(&mut client).pop() else {
        panic!()
    };
    assert!(e.is("AccessControlException"));

    let mut client = Connection::new(with_token(token(), &qops), NOW);
    client.call(request(0, b"secret"), NOW).unwrap();
    let mut simple = server(ServerAuth::OnlySimple);
    exchange(&mut client, &mut simple, 1000);
    let Some(Event::Closed(error)) = events(&mut client).pop() else { panic!() };
    assert_eq!(error, ConnectionError::Sasl(SaslError::SimpleRefused));
    assert!(simple.said.is_empty(), "nothing was said to a server that does not authenticate");
}

#[test]
fn deadlines_pings_and_idleness_are_a_matter_of_time() {
    let mut client = Connection::new(setup(), NOW);
    let mut server = ServerConnection::new(ServerAuth::Simple);
    let with_deadline =
        |id, at| Request { deadline: Some((seconds(at), seconds(at))), ..request(id, b"") };
    client.call(with_deadline(0, 5), NOW).unwrap();
    client.call(with_deadline(1, 200), NOW).unwrap();
    exchange(&mut client, &mut server, 1000);
    server.said.clear();
    events(&mut client);
    assert_eq!(client.next_time(), Some(seconds(5)));
    client.on_time(seconds(4));
    assert!(client.poll_event().is_none());
    client.on_time(seconds(5));
    let Some(Event::Reply {
        id: 0,
        result: Err(CallError::Deadline { method, after, sent: true }),
    }) = client.poll_event()
    else {
        panic!()
    };
    assert_eq!((method.as_str(), after), ("method", seconds(5)));

    assert_eq!(client.next_time(), Some(seconds(60)));
    client.on_time(seconds(60));
    exchange(&mut client, &mut server, 1000);
    assert!(matches!(server.said[..], [Said::Ping]));
    assert_eq!(client.next_time(), Some(seconds(120)));

    server.answer(0, b"late");
    server.answer(1, b"");
    let out = server.out.split();
    client.receive(&out, seconds(70));
    assert_eq!(events(&mut client).len(), 1);
    assert_eq!(client.next_time(), Some(seconds(80)));
    client.on_time(seconds(79));
    assert!(!client.is_closed());
    client.on_time(seconds(80));
    assert!(matches!(client.poll_event(), Some(Event::Closed(ConnectionError::Idle))));
}

#[test]
fn times_without_end_are_never_over() {
    let (ping, idle) = (Some(Duration::MAX), Some(Duration::MAX));
    let patient = Setup { ping, idle, setup_timeout: Duration::MAX, ..setup() };
    let mut client = Connection::new(patient, seconds(1));
    client.on_time(seconds(2));
    client.call(request(0, b""), seconds(3)).unwrap();
    client.on_time(seconds(4));
    assert_eq!((client.is_closed(), client.next_time()), (false, Some(Duration::MAX)));
    let endless = retry::doubled(Duration::MAX, 40, Duration::MAX, 1.0);
    assert!(endless > seconds(365 * 86_400) && endless < seconds(2 * 365 * 86_400));
}

#[test]
fn deadlines_of_answered_calls_are_forgotten() {
    let mut client = Connection::new(setup(), NOW);
    let mut server = ServerConnection::new(ServerAuth::Simple);
    let deadline = Some((seconds(5), seconds(5)));
    client.call(Request { deadline, ..request(0, b"") }, NOW).unwrap();
    client.call(Request { deadline, ..request(1, b"") }, NOW).unwrap();
    client.cancel(1, NOW);
    server.answer(0, b"");
    exchange(&mut client, &mut server, 1000);
    assert_eq!(client.next_time(), Some(seconds(10)), "only idleness is left");
}

#[test]
fn a_server_that_does_not_greet_is_given_up() {
    let mut client = Connection::new(with_token(token(), &[Qop::Authentication]), NOW);
    client.call(request(0, b""), NOW).unwrap();
    assert_eq!(client.next_time(), Some(seconds(60)));
    client.on_time(seconds(60));
    let events = events(&mut client);
    let Event::Reply { result: Err(error), .. } = &events[0] else { panic!() };
    assert!(!error.may_have_run());
    assert!(matches!(events[1], Event::Closed(ConnectionError::SetupTimeout)));
}

#[test]
fn bounds_hold() {
    let limits = Limits { frame_in: 1000, frame_out: 10_000, calls: 2, unsent: 3000 };
    let mut client = Connection::new(Setup { limits, ..setup() }, NOW);
    assert!(matches!(client.call(request(0, &[0; 9000]), NOW), Err(CallError::TooLong { .. })));
    client.call(request(0, b""), NOW).unwrap();
    assert!(
        matches!(client.call(request(0, b""), NOW), Err(CallError::Overloaded { .. })),
        "same number"
    );
    client.call(request(1, b""), NOW).unwrap();
    assert!(matches!(client.call(request(2, b""), NOW), Err(CallError::Overloaded { waiting: 2 })));
    client.cancel(1, NOW);
    client.call(request(2, &[0; 3000]), NOW).unwrap();
    client.cancel(0, NOW);
    assert!(client.is_full(), "too much is unsent");
    client.take_outbound();
    assert!(!client.is_full());
    client.receive(&1001_u32.to_be_bytes(), NOW);
    let Some(Event::Closed(ConnectionError::Protocol(reason))) = events(&mut client).pop() else {
        panic!()
    };
    assert!(reason.contains("1001"), "{reason}");
}

#[test]
fn strangers_are_not_trusted_with_long_frames() {
    let length = (1_u32 << 20).to_be_bytes();
    let mut client = Connection::new(with_token(token(), &[Qop::Authentication]), NOW);
    client.receive(&length, NOW);
    assert!(client.is_closed());
    let mut client = Connection::new(setup(), NOW);
    client.receive(&length, NOW);
    assert!(!client.is_closed());
}

#[test]
fn another_services_port_is_recognised() {
    let mut client = Connection::new(setup(), NOW);
    client.receive(b"HTTP/1.1 400 Bad Request\r\n", NOW);
    let Some(Event::Closed(error)) = events(&mut client).pop() else { panic!() };
    assert!(error.to_string().contains("another service's port"), "{error}");
}

fn error(class: &str, fatal: bool) -> CallError {
    let code = ErrorCode::Application;
    CallError::Remote(RemoteException {
        class: class.to_owned(),
        message: String::new(),
        code,
        fatal,
    })
}
fn broken(sent: bool) -> CallError {
    CallError::Connection { error: ConnectionError::Closed("reset".to_owned()), sent }
}
fn refused() -> CallError {
    let (address, reason) = ("rm:8032".to_owned(), "refused".to_owned());
    CallError::Connection { error: ConnectionError::Connect { address, reason }, sent: false }
}

#[test]
fn policies_are_hadoops() {
    let decide = |policy: RetryPolicy, error: &CallError, retries, failovers, idempotent| {
        policy.decide(Attempt { error, retries, failovers, idempotent, random: 0.5 })
    };
    let fixed = RetryPolicy::Fixed { interval: seconds(30), retries: 30 };
    assert_eq!(decide(fixed, &refused(), 0, 0, false), Decision::Retry(seconds(30)));
    assert_eq!(decide(fixed, &broken(true), 29, 0, false), Decision::Retry(seconds(30)));
    assert_eq!(decide(fixed, &broken(true), 30, 0, false), Decision::Fail);
    assert_eq!(decide(fixed, &error("java.io.IOException", false), 0, 0, true), Decision::Fail);
    let sasl = CallError::Connection {
        error: ConnectionError::Sasl(SaslError::SimpleRefused),
        sent: false,
    };
    assert_eq!(decide(fixed, &sasl, 0, 0, true), Decision::Fail);
    // Another service's port: it will not become Hadoop's, but of two servers the other one may be.
    let alien = ConnectionError::Protocol("it answers in text".to_owned());
    let alien = CallError::Connection { error: alien, sent: true };
    assert_eq!(decide(fixed, &alien, 0, 0, true), Decision::Fail);

    let over =
        RetryPolicy::FailOver { failovers: 30, retries: 1, base: seconds(1), max: seconds(5) };
    let standby = error("org.apache.hadoop.ipc.StandbyException", false);
    assert_eq!(decide(over, &standby, 0, 0, false), Decision::FailOver(Duration::ZERO));
    assert_eq!(decide(over, &standby, 1, 1, false), Decision::FailOver(seconds(2)));
    assert_eq!(decide(over, &standby, 5, 5, false), Decision::FailOver(seconds(5)));
    assert_eq!(decide(over, &standby, 30, 30, false), Decision::Fail);
    assert_eq!(decide(over, &refused(), 0, 0, false), Decision::FailOver(Duration::ZERO));
    assert_eq!(decide(over, &broken(false), 0, 0, false), Decision::FailOver(Duration::ZERO));
    assert_eq!(decide(over, &alien, 0, 0, true), Decision::FailOver(Duration::ZERO));
    assert_eq!(decide(over, &broken(true), 0, 0, false), Decision::Fail);
    assert_eq!(decide(over, &broken(true), 0, 0, true), Decision::FailOver(Duration::ZERO));
    let retriable = error("org.apache.hadoop.ipc.RetriableException", false);
    assert_eq!(decide(over, &retriable, 1, 0, false), Decision::Retry(seconds(2)));
    assert_eq!(decide(over, &retriable, 2, 0, false), Decision::Fail);
    assert_eq!(decide(RetryPolicy::Never, &refused(), 0, 0, true), Decision::Fail);
    assert_eq!(retry::doubled(seconds(1), 200, seconds(9), 1.0), Duration::from_millis(13_500));
    assert_eq!(retry::doubled(seconds(1), 1, seconds(9), f64::NAN), seconds(2));
}

/// Frames with right lengths around any bytes, so that what is inside is reached.
fn framed(parts: &[Vec<u8>]) -> Vec<u8> {
    parts
        .iter()
        .flat_map(|part| {
            let mut frame = u32::try_from(part.len()).unwrap().to_be_bytes().to_vec();
            frame.extend(part);
            frame
        })
        .collect()
}

/// A user without good tickets.
struct Expired;
impl crate::gssapi::Initiator for Expired {
    fn principal(&self) -> String {
        "alice@R".to_owned()
    }
    fn context(
        &self,
        _: &crate::gssapi::GssTarget,
    ) -> Result<Box<dyn crate::gssapi::GssContext>, crate::gssapi::GssError> {
        Err(expired())
    }
}
fn expired() -> crate::gssapi::GssError {
    let reason = "Ticket expired".to_owned();
    crate::gssapi::GssError::Refused { call: "gss_init_sec_context", reason }
}

#[test]
fn calls_outlive_streams_on_which_kerberos_failed_and_their_deadlines_hold() {
    use super::header::{SaslAuth, SaslMessage, SaslState};
    let server = crate::sasl::ServerPrincipal::Pattern("*".to_owned());
    let initiator = std::sync::Arc::new(Expired);
    let config = SaslConfig {
        kerberos: Some(crate::sasl::Kerberos { initiator, server }),
        ..SaslConfig::default()
    };
    let auth = AuthSetup::Sasl { config: Box::new(config), entropy: [1; 16] };
    let mut client = Connection::new(Setup { auth, kerberos_retries: 1, ..setup() }, NOW);
    let greeting = client.take_outbound();
    let deadline = Some((seconds(5), seconds(5)));
    client.call(Request { deadline, ..request(1, b"a") }, NOW).unwrap();
    client.call(request(2, b"b"), NOW).unwrap();
    let offer = {
        let header = testing::header(header::CALL_SASL, header::ResponseStatus::Success);
        let kerberos = SaslAuth {
            method: "KERBEROS".to_owned(),
            mechanism: "GSSAPI".to_owned(),
            protocol: Some("rm".to_owned()),
            server_id: Some("host".to_owned()),
            challenge: None,
        };
        let state = SaslState::Negotiate.into();
        let message = SaslMessage { version: None, state, token: None, auths: vec![kerberos] };
        let mut frame = bytes::BytesMut::new();
        frame::put(&mut frame, &[&header, &message], None, 10_000).unwrap();
        frame.freeze()
    };
    // Nothing has failed yet: there is nothing to begin anew.
    client.start([2; 16], NOW);
    assert!(!client.has_outbound());
    client.receive(&offer, NOW);
    let failed = ConnectionError::Sasl(SaslError::Gss(expired()));
    assert!(matches!(&events(&mut client)[..], [Event::Refused(error)] if *error == failed));
    assert_eq!((client.has_outbound(), client.is_closed(), client.waiting()), (false, false, 2));
    // What else comes on that stream means nothing.
    client.receive(&[0xff; 100], NOW);
    assert_eq!(client.next_time(), Some(seconds(5)));
    client.on_time(seconds(5));
    // With what is wrong, which no policy tries again.
    let events_now = events(&mut client);
    let [Event::Reply { id: 1, result: Err(refused) }] = &events_now[..] else {
        panic!("{events_now:?}")
    };
    assert_eq!(*refused, CallError::Connection { error: failed.clone(), sent: false });
    let attempt =
        Attempt { error: refused, retries: 0, failovers: 0, idempotent: true, random: 0.5 };
    let policy = RetryPolicy::Fixed { interval: seconds(1), retries: 9 };
    assert_eq!(policy.decide(attempt), Decision::Fail);
    client.start([3; 16], seconds(6));
    assert_eq!(client.take_outbound(), greeting);
    assert_eq!(client.next_time(), Some(seconds(66)));
    // Once more was allowed.
    client.receive(&offer, seconds(6));
    let events = events(&mut client);
    let [Event::Reply { id: 2, result: Err(lost) }, Event::Closed(end)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((lost.may_have_run(), end), (false, &failed));
    client.start([4; 16], seconds(6));
    assert!(client.is_closed() && !client.has_outbound());
}

#[test]
fn what_expired_in_authentication_is_not_sent_after_it() {
    let mut client = Connection::new(with_token(token(), &[Qop::Authentication]), NOW);
    let auth =
        ServerAuth::Token { token: token(), qops: vec![Qop::Authentication], ciphers: Vec::new() };
    let mut server = ServerConnection::new(auth);
    let deadline = Some((seconds(5), seconds(5)));
    client.call(Request { deadline, ..request(1, b"a") }, NOW).unwrap();
    client.call(request(2, b"b"), NOW).unwrap();
    // The last word of authentication comes before anybody has looked at the clock.
    for now in [NOW, seconds(6)] {
        server.receive(&client.take_outbound());
        client.receive(&server.out.split(), now);
    }
    server.receive(&client.take_outbound());
    let calls: Vec<_> =
        server.said.iter().filter(|said| matches!(said, Said::Call { .. })).collect();
    assert!(matches!(&calls[..], [Said::Call { header, .. }] if header.call_id == 2), "{calls:?}");
    assert!(matches!(
        &events(&mut client)[..],
        [
            Event::Ready { .. },
            Event::Reply { id: 1, result: Err(CallError::Deadline { sent: false, .. }) }
        ]
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_answers_or_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300), frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6), sasl in any::<bool>(), piece in 1..50_usize) {
        for bytes in [bytes, framed(&frames)] {
            let setup = if sasl { with_token(token(), &[Qop::Privacy]) } else { setup() };
            let limits = Limits { frame_in: 1 << 20, ..Limits::default() };
            let mut client = Connection::new(Setup { limits, ..setup }, NOW);
            client.call(request(0, b"x"), NOW).unwrap();
            for part in bytes.chunks(piece) {
                client.receive(part, NOW);
            }
            client.close(ConnectionError::Shutdown);
            // However it ended: one answer for the call, one end.
            let events = events(&mut client);
            let replies = events.iter().filter(|event| matches!(event, Event::Reply { .. })).count();
            let ends = events.iter().filter(|event| matches!(event, Event::Closed(_))).count();
            prop_assert_eq!((replies, ends), (1, 1));
        }
    }

    #[test]
    fn a_changed_byte_in_an_exchange_is_survived(at in any::<prop::sample::Index>(), byte in any::<u8>(), qop in 0..3_usize) {
        let qop = [Qop::Authentication, Qop::Integrity, Qop::Privacy][qop];
        let mut client = Connection::new(with_token(token(), &[qop]), NOW);
        let auth = ServerAuth::Token { token: token(), qops: vec![qop], ciphers: vec![Cipher::Rc4] };
        let mut server = ServerConnection::new(auth);
        client.call(request(0, b"x"), NOW).unwrap();
        server.receive(&client.take_outbound());
        let mut offer = server.out.split();
        let at = at.index(offer.len());
        offer[at] = byte;
        client.receive(&offer, NOW);
        client.close(ConnectionError::Shutdown);
        prop_assert!(matches!(events(&mut client).last(), Some(Event::Closed(_))));
    }
}
