//! The SASL exchange with Kerberos: names that servers give themselves, offers of protections, wrapped messages.
//! Kerberos itself is the system's library; a double stands in for it that wraps nothing.

use super::{Target, law};
use crate::{mutate::mutate, rng::Rng};
use hadoop::gssapi::{GssContext, GssError, GssTarget, Initiator, Opened};
use hadoop::rpc::header::{SaslAuth, SaslMessage, SaslState};
use hadoop::sasl::{Kerberos, Negotiation, Qop, SaslConfig, ServerPrincipal, Step};
use prost::Message;
use std::sync::Arc;

pub(crate) const TARGETS: &[Target] =
    &[Target { name: "hadoop_kerberos", make, check, memory_max: 0 }];

/// Tokens until both sides know each other.
const ROUNDS: usize = 2;

struct Double {
    tokens: usize,
}

impl GssContext for Double {
    fn step(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        self.tokens += 1;
        match token.first() {
            Some(0) => Err(GssError::NotMutual),
            _ => Ok((b"token".to_vec(), self.tokens >= ROUNDS)),
        }
    }
    fn wrap(&mut self, _: bool, plain: &[u8]) -> Result<Vec<u8>, GssError> {
        Ok(plain.to_vec())
    }
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Opened, GssError> {
        match wrapped.split_first() {
            Some((mark, plain)) if *mark < 2 => {
                Ok(Opened { plain: plain.to_vec(), encrypted: *mark == 1 })
            }
            _ => Err(GssError::NotMutual),
        }
    }
    fn plain_max(&self, _: bool, raw_max: u32) -> Result<usize, GssError> {
        Ok((raw_max as usize).saturating_sub(60))
    }
}

struct User;

impl Initiator for User {
    fn principal(&self) -> String {
        "alice@R".to_owned()
    }
    fn context(&self, _: &GssTarget) -> Result<Box<dyn GssContext>, GssError> {
        Ok(Box::new(Double { tokens: 0 }))
    }
}

fn said(state: SaslState, token: Option<Vec<u8>>) -> SaslMessage {
    SaslMessage { version: None, state: state.into(), token, auths: Vec::new() }
}

/// Generates the servers that are admitted, then messages of the exchange, each with its length.
fn make(rng: &mut Rng) -> Vec<u8> {
    let (protocol, server) = (rng.text(&["rm", "yarn", ""]), rng.text(&["host", "a.b", ""]));
    let auth = SaslAuth {
        method: "KERBEROS".to_owned(),
        mechanism: "GSSAPI".to_owned(),
        protocol: Some(protocol.to_owned()),
        server_id: Some(server.to_owned()),
        challenge: rng.one_in(4).then(|| rng.bytes(5)),
    };
    let mut messages = vec![SaslMessage { auths: vec![auth], ..said(SaslState::Negotiate, None) }];
    for _ in 1..ROUNDS {
        messages.push(said(SaslState::Challenge, Some(vec![1, 2])));
    }
    let [_, a, b, c] = (rng.next() as u32).to_be_bytes();
    let offer = vec![0, 1 << rng.below(3), a, b, c];
    messages.push(said(SaslState::Challenge, Some(offer)));
    messages.push(said(SaslState::Success, None));
    messages.push(said(SaslState::Wrap, Some([&[rng.below(2) as u8], &rng.bytes(9)[..]].concat())));
    let mut bytes: Vec<u8> =
        messages.iter().flat_map(Message::encode_length_delimited_to_vec).collect();
    mutate(&mut bytes, rng);
    bytes.insert(0, rng.below(3) as u8);
    bytes
}

fn check(input: &[u8]) -> Result<bool, String> {
    let Some((pattern, messages)) = input.split_first() else { return Ok(false) };
    let server = match pattern % 3 {
        0 => ServerPrincipal::Pattern("*".to_owned()),
        1 => ServerPrincipal::Pattern("*m/*o?t*@R".to_owned()),
        _ => ServerPrincipal::Exact("rm/host@R".to_owned()),
    };
    let qops = vec![Qop::Privacy, Qop::Integrity, Qop::Authentication];
    let kerberos = Some(Kerberos { initiator: Arc::new(User), server });
    let config = SaslConfig { kerberos, qops, ..SaslConfig::default() };
    let (mut negotiation, _) = Negotiation::start(config, [3; 16]);
    let mut rest = bytes::Bytes::copy_from_slice(messages);
    while let Ok(message) = hadoop::rpc::frame::take::<SaslMessage>(&mut rest, "a message") {
        match negotiation.receive(message) {
            Ok(Step::Send(_)) => {}
            Ok(Step::Done(_, outcome)) => {
                law(outcome.layer.is_some() == (outcome.qop != Qop::Authentication), || {
                    format!("{:?} with a layer or without", outcome.qop)
                })?;
                let Some(mut layer) = outcome.layer else { return Ok(true) };
                law(layer.plain_max() > 0, || "nothing can be sent".to_owned())?;
                let wrapped = hadoop::rpc::frame::take::<SaslMessage>(&mut rest, "a message");
                let wrapped = wrapped.ok().and_then(|message| message.token).unwrap_or_default();
                let opened = layer.unwrap(&wrapped);
                law(
                    outcome.qop != Qop::Privacy || wrapped.first() == Some(&1) || opened.is_err(),
                    || "what anybody could read is taken for a secret".to_owned(),
                )?;
                return Ok(true);
            }
            Err(_) => return Ok(false),
        }
    }
    Ok(false)
}
