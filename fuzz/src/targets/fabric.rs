//! Fuzzes what an unproved peer can send (the handshake) and what a proved one can send (frames).

use super::{Target, law, sample};
use crate::{mutate::mutate, rng::Rng};
use gateways::frame::{AskHeader, Decoded, Frame, Kind, decode, encode};
use model::{ClusterId, JobId};
use platform::handshake::{
    Channel, Credentials, Greeting, Identity, Introduction, Role, Secret, VERSION, accept,
};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "frame", make: frame, check: check_frame, memory_max: 0 },
    Target { name: "greeting", make: greeting, check: check_greeting, memory_max: 0 },
    Target { name: "handshake", make: handshake, check: check_handshake, memory_max: 0 },
];

/// Largest frame in bytes: the fabric's default.
const FRAME_MAX: usize = 8 << 20;

fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(3) {
        let len = rng.below(40);
        let body = rng.bytes(len);
        let endpoint = rng.text(&["", "dispatcher", "job_master/000000000000000000000000000000ab"]);
        let ask = AskHeader {
            call: rng.next() as u32,
            remaining: Duration::from_micros(rng.next() >> rng.below(64)),
            trace: Default::default(),
            fence: sample(rng).unwrap_or_default(),
            session: rng.one_in(2).then(|| sample(rng)).flatten(),
            endpoint,
        };
        let kind = rng.pick(&[Kind::Ask, Kind::Reply, Kind::Refused, Kind::Fault]).copied();
        let kind = kind.unwrap_or(Kind::Ask);
        let made = Frame {
            ask: (kind == Kind::Ask).then_some(ask),
            total: rng.one_in(4).then(|| rng.next()),
            more: rng.one_in(4),
            ..Frame::answer(kind, rng.next(), &body)
        };
        encode(&made, &mut bytes);
    }
    mutate(&mut bytes, rng);
    bytes
}

fn check_frame(input: &[u8]) -> Result<bool, String> {
    let mut rest = input;
    let mut any = false;
    loop {
        match decode(rest, FRAME_MAX) {
            Err(_) => return Ok(any),
            Ok(Decoded::Incomplete(needed)) => {
                law(needed > rest.len(), || format!("needs {needed} of {} bytes", rest.len()))?;
                return Ok(any);
            }
            Ok(Decoded::Frame(frame, taken)) => {
                law(taken > 0 && taken <= rest.len(), || {
                    format!("took {taken} of {}", rest.len())
                })?;
                law(frame.body.len() <= taken, || "a body longer than its frame".to_owned())?;
                any = true;
                rest = rest.get(taken..).unwrap_or_default();
            }
        }
    }
}

fn greet(rng: &mut Rng) -> Greeting {
    let job = JobId(u128::from(rng.next()));
    let mut nonce = [0; 32];
    nonce.copy_from_slice(&rng.bytes(32));
    Greeting {
        role: *rng
            .pick(&[Role::Client, Role::Client, Role::Server, Role::Trusted])
            .unwrap_or(&Role::Client),
        version: VERSION,
        identity: if rng.one_in(2) { Identity::Cluster } else { Identity::Host(job) },
        nonce,
        incarnation: u128::from(rng.next()),
        cluster: rng.text(&["fuzzed", "fuzzed", "other", ""]).to_owned(),
        node: rng.text(&["", "localhost:6123", "host:99999"]).to_owned(),
    }
}

fn greeting(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = greet(rng).encode();
    bytes.drain(..2);
    mutate(&mut bytes, rng);
    bytes
}

fn check_greeting(input: &[u8]) -> Result<bool, String> {
    let Ok(greeting) = Greeting::decode(input) else { return Ok(false) };
    let again = greeting.encode();
    let again = Greeting::decode(again.get(2..).unwrap_or_default());
    // Bytes that a newer minor version appends are skipped; the rest comes back.
    law(again.as_ref().is_ok_and(|again| *again == greeting), || {
        format!("{greeting:?} became {again:?}")
    })?;
    Ok(true)
}

fn handshake(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = greet(rng).encode();
    bytes.extend(rng.bytes(32));
    mutate(&mut bytes, rng);
    bytes
}

/// A peer without the secret is never accepted, whatever it sends.
fn check_handshake(input: &[u8]) -> Result<bool, String> {
    let mine = Credentials {
        cluster: ClusterId::new("fuzzed"),
        identity: Identity::Cluster,
        secret: Secret::new([7; 32]),
    };
    let me = Introduction { node: "localhost:1".to_owned(), incarnation: 1 };
    let mut peer = Script { says: input, heard: 0 };
    let accepted =
        futures::executor::block_on(accept(&mut peer, &mine, &me, [9; 32], Channel::Plain));
    law(accepted.is_err(), || "a peer without the secret was accepted".to_owned())?;
    law(peer.heard <= 1024, || format!("an unproved peer was sent {} bytes", peer.heard))?;
    // It got as far as being asked for its proof.
    Ok(peer.heard > 0)
}

/// A peer that says what it has to say, then hangs up.
struct Script<'a> {
    says: &'a [u8],
    heard: usize,
}

impl AsyncRead for Script<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.says.split_at(buf.remaining().min(self.says.len()));
        buf.put_slice(now);
        self.says = later;
        Poll::Ready(Ok(()))
    }
}
impl AsyncWrite for Script<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.heard += bytes.len();
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
