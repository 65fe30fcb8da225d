//! Fuzzes what a Hadoop server sends: frames of RPC 9, response headers, the SASL exchange,
//! protected frames.

use super::{Target, law};
use crate::{mutate::mutate, rng::Rng};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hadoop::rpc::header::{ResponseHeader, ResponseStatus, SaslAuth, SaslMessage, SaslState};
use hadoop::rpc::{AuthSetup, ClientId, Connection, Event, Protocol, Request, Setup};
use hadoop::sasl::{Cipher, DigestMd5, Mechanism, Qop, SaslConfig};
use hadoop::tokens::{Token, kinds};
use hmac::{Hmac, Mac};
use md5::{Digest, Md5};
use prost::Message;
use std::time::Duration;

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "hadoop_rpc", make: rpc, check: check_rpc, memory_max: 0 },
    Target { name: "hadoop_sasl", make: sasl, check: check_sasl, memory_max: 0 },
    Target { name: "hadoop_challenge", make: challenge, check: check_challenge, memory_max: 0 },
];

const PASSWORD: &[u8] = b"a secret of nobody";
const ENTROPY: [u8; 16] = [7; 16];
const NONCE: &str = "bm9uY2U=";
const QOPS: [Qop; 3] = [Qop::Authentication, Qop::Integrity, Qop::Privacy];
/// The call id of SASL messages as it comes back.
const SASL: u32 = (-33_i32).cast_unsigned();
/// Calls that wait for answers.
const CALLS: i32 = 3;

fn token() -> Token {
    Token::new(b"identifier".to_vec(), PASSWORD.to_vec(), kinds::AM_RM, "")
}

/// The protections that a connection of this number accepts; none: it does not authenticate.
fn accepted(mode: u8) -> Option<Qop> {
    usize::from(mode % 4).checked_sub(1).and_then(|at| QOPS.get(at)).copied()
}

fn setup(mode: u8) -> Setup {
    let simple = Setup::simple(Protocol::new("P"), ClientId([5; 16]), "alice");
    let Some(qop) = accepted(mode) else { return simple };
    let qops = vec![qop];
    let config = SaslConfig { token: Some(token()), qops, ..SaslConfig::default() };
    Setup { auth: AuthSetup::Sasl { config: Box::new(config), entropy: ENTROPY }, ..simple }
}

fn challenge_text(qop: Qop) -> String {
    let cipher = if qop == Qop::Privacy { ",cipher=\"rc4,3des\"" } else { "" };
    let name = qop.name();
    format!(
        "realm=\"default\",nonce=\"{NONCE}\",qop=\"{name}\",charset=utf-8,algorithm=md5-sess{cipher}"
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// H(A1) of the only session there is: everything in it is fixed.
fn h_a1() -> [u8; 16] {
    let (user, password) =
        (BASE64_STANDARD.encode(b"identifier"), BASE64_STANDARD.encode(PASSWORD));
    let who = Md5::digest(format!("{user}:default:{password}"));
    let cnonce = BASE64_STANDARD.encode(ENTROPY);
    Md5::new().chain_update(who).chain_update(format!(":{NONCE}:{cnonce}")).finalize().into()
}

/// The server's proof.
fn proof(qop: Qop) -> String {
    let none = if qop == Qop::Authentication { "" } else { ":00000000000000000000000000000000" };
    let a2 = hex(&Md5::digest(format!(":/default{none}")));
    let (a1, cnonce, name) = (hex(&h_a1()), BASE64_STANDARD.encode(ENTROPY), qop.name());
    let text = format!("{a1}:{NONCE}:00000001:{cnonce}:{name}:{a2}");
    format!("rspauth={}", hex(&Md5::digest(text)))
}

/// A message signed as the server does it.
fn signed(sequence: u32, plain: &[u8]) -> Vec<u8> {
    let key = Md5::new()
        .chain_update(h_a1())
        .chain_update("Digest session key to server-to-client signing key magic constant")
        .finalize();
    let mut wrapped = plain.to_vec();
    if let Ok(mut mac) = <Hmac<Md5> as Mac>::new_from_slice(&key) {
        mac.update(&sequence.to_be_bytes());
        mac.update(plain);
        wrapped.extend(mac.finalize().into_bytes().iter().take(10));
    }
    wrapped.extend([0, 1]);
    wrapped.extend(sequence.to_be_bytes());
    wrapped
}

fn frame(header: &ResponseHeader, body: &[u8], has_body: bool) -> Vec<u8> {
    let mut inside = header.encode_length_delimited_to_vec();
    if has_body {
        let mut length = Vec::new();
        // A growing buffer takes any length.
        let _ = prost::encode_length_delimiter(body.len(), &mut length);
        inside.extend(length);
        inside.extend_from_slice(body);
    }
    let mut whole = (inside.len() as u32).to_be_bytes().to_vec();
    whole.extend(inside);
    whole
}

fn sasl_frame(message: &SaslMessage) -> Vec<u8> {
    let header = ResponseHeader { call_id: SASL, ..ResponseHeader::default() };
    frame(&header, &message.encode_to_vec(), true)
}

fn said(state: SaslState, token: Option<Vec<u8>>) -> SaslMessage {
    SaslMessage { version: None, state: state.into(), token, auths: Vec::new() }
}

fn offers(qop: Qop, rng: &mut Rng) -> SaslMessage {
    let auth = |method: &str, mechanism: &str, challenge| SaslAuth {
        method: method.to_owned(),
        mechanism: mechanism.to_owned(),
        protocol: Some(String::new()),
        server_id: Some("default".to_owned()),
        challenge,
    };
    let mut auths = vec![auth("TOKEN", "DIGEST-MD5", Some(challenge_text(qop).into_bytes()))];
    if rng.one_in(3) {
        auths.insert(rng.below(2), auth("KERBEROS", "GSSAPI", None));
    }
    if rng.one_in(4) {
        auths.insert(0, auth("SIMPLE", "", None));
    }
    SaslMessage { auths, ..said(SaslState::Negotiate, None) }
}

/// An answer to a call, or what is none.
fn answer(rng: &mut Rng) -> Vec<u8> {
    let mut header = ResponseHeader {
        call_id: rng.below(CALLS as usize + 1) as u32,
        ..ResponseHeader::default()
    };
    let body = rng.bytes(rng.clone().below(40));
    let failed = rng.one_in(3);
    if failed {
        let status = if rng.one_in(3) { ResponseStatus::Fatal } else { ResponseStatus::Error };
        header.status = status.into();
        let class =
            rng.text(&["org.apache.hadoop.ipc.StandbyException", "java.io.IOException", ""]);
        header.exception_class = Some(class.to_owned());
        header.error = Some("why\n\tat somewhere".to_owned());
        header.error_code = Some(rng.below(17) as i32);
    }
    frame(&header, &body, !failed)
}

/// Generates the accepted protections, then all that the server sends.
fn rpc(rng: &mut Rng) -> Vec<u8> {
    let mode = rng.below(4) as u8;
    let mut bytes = Vec::new();
    if let Some(qop) = accepted(mode) {
        let first = offers(qop, rng);
        bytes.extend(sasl_frame(&first));
        bytes.extend(sasl_frame(&said(SaslState::Success, Some(proof(qop).into_bytes()))));
    }
    for sequence in 0..rng.below(4) as u32 {
        let plain = answer(rng);
        match accepted(mode) {
            Some(Qop::Integrity | Qop::Privacy) => {
                let wrapped = signed(sequence, &plain);
                bytes.extend(sasl_frame(&said(SaslState::Wrap, Some(wrapped))));
            }
            _ => bytes.extend(plain),
        }
    }
    mutate(&mut bytes, rng);
    bytes.insert(0, mode);
    bytes
}

/// Returns the events that a connection makes of these bytes, handed to it in pieces.
fn heard(mode: u8, bytes: &[u8], piece: usize) -> Vec<String> {
    let now = Duration::ZERO;
    let mut connection = Connection::new(setup(mode), now);
    for id in 0..CALLS {
        let _ = connection.call(Request::new(id, "method", bytes::Bytes::new()), now);
    }
    let mut events = Vec::new();
    for part in bytes.chunks(piece) {
        connection.receive(part, now);
        let _ = connection.take_outbound();
        while let Some(event) = connection.poll_event() {
            // `Debug` of an event does not show what an answer holds, and that must be the same.
            events.push(match &event {
                Event::Reply { id, result: Ok(body) } => format!("+{id} {body:?}"),
                other => format!("-{other:?}"),
            });
        }
    }
    events
}

fn check_rpc(input: &[u8]) -> Result<bool, String> {
    let Some((mode, bytes)) = input.split_first() else { return Ok(false) };
    let whole = heard(*mode, bytes, usize::MAX);
    // Long inputs are not fed byte by byte: each byte costs a turn of the connection.
    let pieces = heard(*mode, bytes, 1 + bytes.len() / 2_000);
    law(whole == pieces, || format!("whole: {whole:?}\n  in pieces: {pieces:?}"))?;
    let secret = BASE64_STANDARD.encode(PASSWORD);
    law(!whole.iter().any(|event| event.contains(&secret)), || "the password is shown".to_owned())?;
    Ok(whole.iter().any(|event| event.starts_with('+')))
}

/// Messages of the exchange, each with its length.
fn sasl(rng: &mut Rng) -> Vec<u8> {
    let qop = rng.pick(&QOPS).copied().unwrap_or(Qop::Integrity);
    let mut bytes = offers(qop, rng).encode_length_delimited_to_vec();
    if rng.one_in(4) {
        let text = challenge_text(qop).into_bytes();
        bytes.extend(said(SaslState::Challenge, Some(text)).encode_length_delimited_to_vec());
    }
    let proof = said(SaslState::Success, Some(proof(qop).into_bytes()));
    bytes.extend(proof.encode_length_delimited_to_vec());
    let wrapped = said(SaslState::Wrap, Some(signed(0, b"plain")));
    bytes.extend(wrapped.encode_length_delimited_to_vec());
    mutate(&mut bytes, rng);
    bytes
}

fn check_sasl(input: &[u8]) -> Result<bool, String> {
    let qops = QOPS.to_vec();
    let ciphers = Cipher::ALL.to_vec();
    let config = SaslConfig { token: Some(token()), qops, ciphers, ..SaslConfig::default() };
    let (mut negotiation, _) = hadoop::sasl::Negotiation::start(config, ENTROPY);
    let mut rest = bytes::Bytes::copy_from_slice(input);
    let mut layer = None;
    let mut done = false;
    while let Ok(message) = hadoop::rpc::frame::take::<SaslMessage>(&mut rest, "a message") {
        if let Some(layer) = &mut layer {
            let layer: &mut Box<dyn hadoop::sasl::SecurityLayer> = layer;
            let _ = layer.unwrap(message.token.as_deref().unwrap_or_default());
            continue;
        }
        match negotiation.receive(message) {
            Ok(hadoop::sasl::Step::Send(_)) => {}
            Ok(hadoop::sasl::Step::Done(_, outcome)) => {
                done = true;
                layer = outcome.layer;
            }
            Err(_) => break,
        }
    }
    Ok(done)
}

fn challenge(rng: &mut Rng) -> Vec<u8> {
    let qop = rng.pick(&QOPS).copied().unwrap_or(Qop::Privacy);
    let mut text = challenge_text(qop);
    match rng.below(4) {
        0 => text.push_str(",maxbuf=65536"),
        1 => text.push_str(",realm=\"another \\\" one\""),
        _ => {}
    }
    let mut bytes = text.into_bytes();
    mutate(&mut bytes, rng);
    bytes
}

fn check_challenge(input: &[u8]) -> Result<bool, String> {
    let mut client = DigestMd5::new(&token(), "", "default", ENTROPY, &QOPS, &Cipher::ALL);
    let Ok(response) = client.step(Some(input)) else { return Ok(false) };
    let response = String::from_utf8_lossy(&response);
    law(!response.contains(&BASE64_STANDARD.encode(PASSWORD)), || response.to_string())?;
    // The client's message is a list of directives itself: quotes in it are at their places.
    let quotes = response.replace("\\\\", "").replace("\\\"", "").matches('"').count();
    law(quotes.is_multiple_of(2), || response.to_string())?;
    law(client.step(Some(input)).is_err(), || "a second challenge is answered".to_owned())?;
    Ok(true)
}
