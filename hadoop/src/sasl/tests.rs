use super::testing::DigestServer;
use super::*;
use crate::gssapi::{GssContext, GssError, GssTarget, Initiator, Opened};
use crate::rpc::header::{SaslAuth, SaslMessage, SaslState};
use crate::tokens::{Token, kinds};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const QOPS: [Qop; 3] = [Qop::Privacy, Qop::Integrity, Qop::Authentication];

fn token() -> Token {
    Token::new(b"identifier".to_vec(), b"password".to_vec(), kinds::AM_RM, "")
}

fn quoted(list: &str, name: &str) -> String {
    let list = directives::parse(list.as_bytes()).unwrap();
    directives::once(&list, Box::leak(name.to_owned().into_boxed_str()))
        .unwrap()
        .unwrap_or_default()
        .to_owned()
}

/// The example of RFC 2831, section 4.
#[test]
fn the_standards_example_comes_out() {
    let mut mechanism = DigestMd5::with(
        "chris",
        "secret",
        "imap/elwood.innosoft.com",
        "OA6MHXh6VqTrRk",
        &[Qop::Authentication],
        &[],
    );
    let challenge = b"realm=\"elwood.innosoft.com\",nonce=\"OA6MG9tEQGm2hh\",qop=\"auth\",algorithm=md5-sess,charset=utf-8";
    let response = mechanism.step(Some(challenge)).unwrap();
    let response = String::from_utf8(response).unwrap();
    assert_eq!(quoted(&response, "response"), "d388dad90d4bbd760a152321f2143af7");
    assert_eq!(quoted(&response, "digest-uri"), "imap/elwood.innosoft.com");
    let proof = b"rspauth=ea40f60335c427b5527b84dbabcdfffd";
    assert_eq!(mechanism.finish(Some(proof)).unwrap().0, Qop::Authentication);
}

/// Captured exchanges between Java's own client and server (JDK 17), for user `dXNlcg==` and password
/// `cGFzc3dvcmQ=`.
fn captured() -> Vec<BTreeMap<String, Vec<String>>> {
    let mut cases: Vec<BTreeMap<String, Vec<String>>> = Vec::new();
    for line in include_str!("data/digest_md5_java.txt").lines() {
        let (name, rest) = line.split_once(' ').unwrap();
        if name == "case" {
            cases.push(BTreeMap::new());
        }
        cases.last_mut().unwrap().entry(name.to_owned()).or_default().push(rest.to_owned());
    }
    cases
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().collect();
    digits
        .chunks(2)
        .map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap())
        .collect()
}

#[test]
fn every_captured_exchange_with_java_comes_out_byte_for_byte() {
    let cases = captured();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let theirs = &case["response"][0];
        let cnonce = quoted(theirs, "cnonce");
        let cipher: Vec<Cipher> = Cipher::ALL
            .into_iter()
            .filter(|cipher| cipher.name() == quoted(theirs, "cipher"))
            .collect();
        let mut mechanism =
            DigestMd5::with("dXNlcg==", "cGFzc3dvcmQ=", "/default", &cnonce, &QOPS, &cipher);
        let ours = mechanism.step(Some(case["challenge"][0].as_bytes())).unwrap();
        assert_eq!(&String::from_utf8(ours).unwrap(), theirs);
        let (qop, layer) = mechanism.finish(Some(case["proof"][0].as_bytes())).unwrap();
        assert_eq!(qop.name(), quoted(theirs, "qop"));
        let Some(mut layer) = layer else { continue };
        assert_eq!(layer.plain_max().to_string(), case["raw"][0]);
        for line in &case["c2s"] {
            let (plain, wrapped) = line.split_once('|').unwrap();
            assert_eq!(
                layer.wrap(plain.as_bytes()).unwrap(),
                bytes(wrapped),
                "{} {plain}",
                case["case"][0]
            );
        }
        for line in &case["s2c"] {
            let (plain, wrapped) = line.split_once('|').unwrap();
            assert_eq!(
                layer.unwrap(&bytes(wrapped)).unwrap(),
                plain.as_bytes(),
                "{}",
                case["case"][0]
            );
        }
        // The same message again is not the next one.
        let again = bytes(case["s2c"][0].split_once('|').unwrap().1);
        assert!(matches!(layer.unwrap(&again), Err(SaslError::Integrity(_))));
    }
}

#[test]
fn every_byte_of_a_protected_message_counts() {
    for cipher in [None, Some(Cipher::Rc4), Some(Cipher::TripleDes)] {
        let wrapped = layer::DigestLayer::new(layer::Side::Server, &[3; 16], cipher, 1000)
            .wrap(b"message")
            .unwrap();
        for at in 0..wrapped.len() {
            let mut client = layer::DigestLayer::new(layer::Side::Client, &[3; 16], cipher, 1000);
            let mut changed = wrapped.clone();
            changed[at] ^= 1;
            assert!(client.unwrap(&changed).is_err(), "{cipher:?} {at}");
        }
    }
}

#[test]
fn a_server_that_does_not_prove_itself_is_refused() {
    for proof in [
        None,
        Some(&b"rspauth=00000000000000000000000000000000"[..]),
        Some(b"rspauth="),
        Some(b"x=1"),
    ] {
        let mut mechanism =
            DigestMd5::new(&token(), "", "default", [1; 16], &QOPS, &Cipher::STRONG);
        let server = DigestServer::new(&token(), &[Qop::Authentication], &[]);
        let response = mechanism.step(Some(&server.challenge())).unwrap();
        assert!(server.accept(&response).is_some());
        assert_eq!(mechanism.finish(proof).err(), Some(SaslError::ServerProof), "{proof:?}");
    }
    let mut unasked = DigestMd5::new(&token(), "", "default", [1; 16], &QOPS, &Cipher::STRONG);
    assert!(matches!(unasked.finish(None), Err(SaslError::OutOfStep(_))));
}

#[test]
fn a_wrong_password_is_noticed_by_the_server() {
    let wrong = Token::new(b"identifier".to_vec(), b"passwore".to_vec(), kinds::AM_RM, "");
    let mut mechanism = DigestMd5::new(&wrong, "", "default", [1; 16], &QOPS, &Cipher::STRONG);
    let server = DigestServer::new(&token(), &QOPS, &Cipher::ALL);
    let response = mechanism.step(Some(&server.challenge())).unwrap();
    assert!(server.accept(&response).is_none());
}

#[test]
fn malformed_challenges_are_refused() {
    let good = "realm=\"r\",nonce=\"n\",qop=\"auth\",algorithm=md5-sess";
    let step = |challenge: &str| {
        DigestMd5::with("u", "p", "/d", "c", &[Qop::Authentication], &[])
            .step(Some(challenge.as_bytes()))
    };
    assert!(step(good).is_ok());
    assert!(step(&good.replace(",nonce=\"n\"", "")).is_err());
    assert!(step(&good.replace("md5-sess", "md5")).is_err());
    assert!(step(&format!("{good},nonce=\"m\"")).is_err());
    assert!(step(&format!("{good},maxbuf=1")).is_err());
    assert!(step(&format!("{good},charset=latin1")).is_err());
    assert!(step(&format!("{good}{}", " ".repeat(5000))).is_err());
    assert!(matches!(
        step(&good.replace("\"auth\"", "\"auth-int\"")),
        Err(SaslError::NoCommonQop { .. })
    ));
    assert!(DigestMd5::with("u", "p", "/d", "c", &QOPS, &[]).step(None).is_err());
    let weak = "realm=\"r\",nonce=\"n\",qop=\"auth-conf\",cipher=\"des,rc4-40\",algorithm=md5-sess";
    let refused =
        DigestMd5::with("u", "p", "/d", "c", &QOPS, &Cipher::STRONG).step(Some(weak.as_bytes()));
    assert!(matches!(refused, Err(SaslError::NoCommonCipher { .. })));
}

fn message(state: SaslState, token: Option<&[u8]>) -> SaslMessage {
    SaslMessage {
        version: None,
        state: state.into(),
        token: token.map(<[u8]>::to_vec),
        auths: vec![],
    }
}
fn offer(auths: Vec<SaslAuth>) -> SaslMessage {
    SaslMessage { auths, ..message(SaslState::Negotiate, None) }
}
fn auth(method: &str, mechanism: &str, challenge: Option<Vec<u8>>) -> SaslAuth {
    SaslAuth {
        method: method.to_owned(),
        mechanism: mechanism.to_owned(),
        protocol: Some(if method == "KERBEROS" { "rm" } else { "" }.to_owned()),
        server_id: Some(if method == "KERBEROS" { "host" } else { "default" }.to_owned()),
        challenge,
    }
}
fn config(token: Option<Token>) -> SaslConfig {
    SaslConfig { token, qops: QOPS.to_vec(), ..SaslConfig::default() }
}

#[test]
fn a_token_is_used_and_the_stream_protected() {
    for qop in QOPS {
        let server = DigestServer::new(&token(), &[qop], &Cipher::ALL);
        let (mut client, first) = Negotiation::start(config(Some(token())), [7; 16]);
        assert_eq!(first, message(SaslState::Negotiate, None));
        let offers = vec![
            auth("UNKNOWN", "X", None),
            auth("KERBEROS", "GSSAPI", None),
            auth("TOKEN", "DIGEST-MD5", Some(server.challenge())),
        ];
        let Ok(Step::Send(initiate)) = client.receive(offer(offers)) else { panic!() };
        assert_eq!(initiate.state, i32::from(SaslState::Initiate));
        assert_eq!(initiate.auths, [auth("TOKEN", "DIGEST-MD5", None)]);
        let (proof, agreed, theirs) = server.accept(&initiate.token.unwrap()).unwrap();
        let Ok(Step::Done(None, outcome)) =
            client.receive(message(SaslState::Success, Some(&proof)))
        else {
            panic!()
        };
        assert_eq!((outcome.method, outcome.qop, agreed), (AuthMethod::Token, qop, qop));
        let (Some(mut ours), Some(mut theirs)) = (outcome.layer, theirs) else {
            assert_eq!(qop, Qop::Authentication);
            continue;
        };
        for text in [&b"a"[..], b"", &[9; 1000], b"12345678"] {
            assert_eq!(theirs.unwrap(&ours.wrap(text).unwrap()).unwrap(), text);
            assert_eq!(ours.unwrap(&theirs.wrap(text).unwrap()).unwrap(), text);
        }
        let mut changed = theirs.wrap(b"text").unwrap();
        changed[0] ^= 1;
        assert!(matches!(ours.unwrap(&changed), Err(SaslError::Integrity(_))));
    }
}

#[test]
fn simple_is_refused_unless_it_is_allowed() {
    let simple = || vec![auth("SIMPLE", "", None)];
    for token in [None, Some(token())] {
        let (mut client, _) = Negotiation::start(config(token.clone()), [0; 16]);
        assert_eq!(client.receive(offer(simple())).err(), Some(SaslError::SimpleRefused));
        // A server without security ends the exchange at once.
        let (mut client, _) = Negotiation::start(config(token.clone()), [0; 16]);
        let ended = client.receive(message(SaslState::Success, None));
        assert_eq!(ended.err(), Some(SaslError::SimpleRefused));

        let allowed = SaslConfig { simple: SimpleFallback::Allow, ..config(token) };
        let (mut client, _) = Negotiation::start(allowed.clone(), [0; 16]);
        let Ok(Step::Done(Some(last), outcome)) = client.receive(offer(simple())) else { panic!() };
        assert_eq!((last.state, outcome.method), (SaslState::Initiate.into(), AuthMethod::Simple));
        let (mut client, _) = Negotiation::start(allowed, [0; 16]);
        let Ok(Step::Done(None, outcome)) = client.receive(message(SaslState::Success, None))
        else {
            panic!()
        };
        assert_eq!(outcome.method, AuthMethod::Simple);
    }
}

#[test]
fn servers_out_of_step_are_refused() {
    let server = DigestServer::new(&token(), &[Qop::Authentication], &[]);
    let offers = || offer(vec![auth("TOKEN", "DIGEST-MD5", Some(server.challenge()))]);
    let begun = || {
        let (mut client, _) = Negotiation::start(config(Some(token())), [7; 16]);
        client.receive(offers()).unwrap();
        client
    };
    assert!(begun().receive(offers()).is_err());
    assert!(begun().receive(message(SaslState::Challenge, Some(b"x"))).is_err());
    assert!(begun().receive(message(SaslState::Challenge, None)).is_err());
    assert!(begun().receive(message(SaslState::Wrap, Some(b"x"))).is_err());
    assert!(begun().receive(message(SaslState::Success, None)).is_err());
    let (mut client, _) = Negotiation::start(config(Some(token())), [7; 16]);
    assert!(client.receive(message(SaslState::Challenge, Some(b"x"))).is_err());
    let (mut client, _) = Negotiation::start(config(None), [7; 16]);
    let refused = client.receive(offers()).err().unwrap().to_string();
    assert!(refused.contains("TOKEN") && refused.contains("no token"), "{refused}");
}

#[test]
fn server_principals_are_checked() {
    let exact = ServerPrincipal::Exact("rm/host.example.org@EXAMPLE.ORG".to_owned());
    assert_eq!(
        exact.admit("rm", "Host.example.org"),
        Ok(GssTarget::Principal("rm/host.example.org@EXAMPLE.ORG".to_owned()))
    );
    assert!(exact.admit("rm", "other.example.org").is_err());
    assert!(exact.admit("nm", "host.example.org").is_err());
    assert!(exact.admit("", "").is_err());
    let pattern = |pattern: &str| ServerPrincipal::Pattern(pattern.to_owned());
    assert!(pattern("*").admit("rm", "h").is_ok());
    assert!(pattern("rm/*.example.org@EXAMPLE.ORG").admit("rm", "a.b.example.org").is_ok());
    assert!(pattern("rm/h?st").admit("rm", "host").is_ok());
    assert!(pattern("rm/*.example.org").admit("rm", "example.com").is_err());
    assert!(pattern("rm/*").admit("nm", "host").is_err());
}

/// A context that stands after two steps and "protects" by a mark.
struct Double(u8);
impl GssContext for Double {
    fn step(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        self.0 += 1;
        Ok((format!("{}{}", self.0, String::from_utf8_lossy(token)).into_bytes(), self.0 == 2))
    }
    fn wrap(&mut self, encrypt: bool, plain: &[u8]) -> Result<Vec<u8>, GssError> {
        Ok([&[u8::from(encrypt)], plain].concat())
    }
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Opened, GssError> {
        let (mark, plain) = wrapped.split_first().ok_or(GssError::NotMutual)?;
        Ok(Opened { plain: plain.to_vec(), encrypted: *mark == 1 })
    }
    fn plain_max(&self, _: bool, raw_max: u32) -> Result<usize, GssError> {
        Ok(raw_max.saturating_sub(1) as usize)
    }
}
impl Initiator for Double {
    fn principal(&self) -> String {
        "alice@R".to_owned()
    }
    fn context(&self, target: &GssTarget) -> Result<Box<dyn GssContext>, GssError> {
        assert_eq!(target, &GssTarget::Principal("rm/host@R".to_owned()));
        Ok(Box::new(Double(0)))
    }
}
fn kerberos(server: &str) -> SaslConfig {
    let server = ServerPrincipal::Exact(server.to_owned());
    SaslConfig {
        kerberos: Some(Kerberos { initiator: Arc::new(Double(0)), server }),
        ..config(None)
    }
}

#[test]
fn kerberos_settles_the_protection_in_a_last_round() {
    for (mask, qop, answer) in [
        (7, Qop::Privacy, [0, 4, 255, 255, 255]),
        (3, Qop::Integrity, [0, 2, 255, 255, 255]),
        (1, Qop::Authentication, [0, 1, 0, 0, 0]),
    ] {
        let (mut client, _) = Negotiation::start(kerberos("rm/host@R"), [0; 16]);
        assert!(client.may_block());
        let Ok(Step::Send(first)) = client.receive(offer(vec![auth("KERBEROS", "GSSAPI", None)]))
        else {
            panic!()
        };
        assert_eq!((first.token.as_deref(), first.auths.len()), (Some(&b"1"[..]), 1));
        let Ok(Step::Send(second)) = client.receive(message(SaslState::Challenge, Some(b"x")))
        else {
            panic!()
        };
        assert_eq!(second.token.as_deref(), Some(&b"2x"[..]));
        let layers = [0, mask, 0, 16, 0];
        let Ok(Step::Send(third)) = client.receive(message(SaslState::Challenge, Some(&layers)))
        else {
            panic!()
        };
        assert_eq!(third.token.as_deref(), Some(&answer[..]));
        let Ok(Step::Done(None, outcome)) = client.receive(message(SaslState::Success, None))
        else {
            panic!()
        };
        assert_eq!((outcome.method, outcome.qop), (AuthMethod::Kerberos, qop));
        assert_eq!(outcome.layer.is_some(), qop != Qop::Authentication);
        let Some(mut layer) = outcome.layer else { continue };
        assert_eq!(layer.plain_max(), 4095);
        assert_eq!(layer.wrap(b"m").unwrap(), [u8::from(qop == Qop::Privacy), b'm']);
        // What should be encrypted and is only signed is refused.
        assert_eq!(layer.unwrap(&[0, b'm']).is_err(), qop == Qop::Privacy);
    }
}

#[test]
fn kerberos_refuses_other_servers_and_early_ends() {
    let offers = || offer(vec![auth("KERBEROS", "GSSAPI", None), auth("SIMPLE", "", None)]);
    let (mut client, _) = Negotiation::start(kerberos("rm/other@R"), [0; 16]);
    assert!(matches!(client.receive(offers()), Err(SaslError::Principal { .. })));
    let (mut client, _) = Negotiation::start(kerberos("rm/host@R"), [0; 16]);
    client.receive(offers()).unwrap();
    assert!(matches!(
        client.receive(message(SaslState::Success, None)),
        Err(SaslError::OutOfStep(_))
    ));
    let (mut client, _) = Negotiation::start(kerberos("rm/host@R"), [0; 16]);
    client.receive(offers()).unwrap();
    client.receive(message(SaslState::Challenge, Some(b""))).unwrap();
    assert!(client.receive(message(SaslState::Challenge, Some(&[0, 7, 0, 0]))).is_err());
}

#[test]
fn names_of_protections_are_hadoops() {
    assert_eq!(Qop::from_hadoop(" Privacy "), Some(Qop::Privacy));
    assert_eq!(Qop::from_hadoop("authentication"), Some(Qop::Authentication));
    assert_eq!(Qop::from_hadoop("auth-conf"), None);
}

proptest! {
    #[test]
    fn any_challenge_is_answered_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), list in "[a-z=\",\\\\ ]{0,100}") {
        let mut mechanism = DigestMd5::new(&token(), "", "default", [1; 16], &QOPS, &Cipher::ALL);
        let _ = mechanism.step(Some(&bytes));
        let mut mechanism = DigestMd5::new(&token(), "", "default", [1; 16], &QOPS, &Cipher::ALL);
        let challenge = format!("nonce=\"n\",algorithm=md5-sess,qop=\"auth,auth-conf\",cipher=\"rc4\",{list}");
        let _ = mechanism.step(Some(challenge.as_bytes()));
        let _ = mechanism.finish(Some(&bytes));
    }

    #[test]
    fn any_message_is_opened_or_refused(which in 0..5_usize, bytes in prop::collection::vec(any::<u8>(), 0..100), encrypted in any::<bool>()) {
        let cipher = encrypted.then(|| Cipher::ALL[which]);
        let mut layer = layer::DigestLayer::new(layer::Side::Client, &[3; 16], cipher, 1000);
        prop_assert!(layer.unwrap(&bytes).is_err());
        let mut framed = bytes;
        framed.extend([0, 1, 0, 0, 0, 0]);
        let mut layer = layer::DigestLayer::new(layer::Side::Client, &[3; 16], cipher, 1000);
        prop_assert!(layer.unwrap(&framed).is_err());
    }

    #[test]
    fn what_is_wrapped_is_unwrapped(which in 0..5_usize, encrypted in any::<bool>(), texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..5)) {
        let cipher = encrypted.then(|| Cipher::ALL[which]);
        let mut client = layer::DigestLayer::new(layer::Side::Client, &[3; 16], cipher, 1000);
        let mut server = layer::DigestLayer::new(layer::Side::Server, &[3; 16], cipher, 1000);
        for text in texts {
            prop_assert_eq!(server.unwrap(&client.wrap(&text).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn any_exchange_ends(messages in prop::collection::vec((0..7_i32, prop::option::of(prop::collection::vec(any::<u8>(), 0..20)), 0..3_usize), 0..40)) {
        let (mut client, _) = Negotiation::start(config(Some(token())), [0; 16]);
        for (state, token, auths) in messages {
            let auths = vec![auth("TOKEN", "DIGEST-MD5", token.clone()); auths];
            let _ = client.receive(SaslMessage { version: None, state, token, auths });
        }
    }
}
