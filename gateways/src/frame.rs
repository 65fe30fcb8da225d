//! Frames: the bytes between two processes. Encoding and decoding only; `PROTOCOL.md` is its text.
//! Decoding never panics, never allocates, and asks for more bytes only up to the bound.

use crate::trace::TraceContext;
use model::{Epoch, LeaderSession};
use std::time::Duration;
use thiserror::Error;

/// The version of the frame format that every frame carries; frames of another version are refused.
pub const VERSION: u8 = 1;
/// Number of header bytes that all kinds share: length (4), version (1), kind (1), flags (2),
/// correlation id (8).
pub const HEADER_BYTES: usize = 16;
/// Bytes of an ask's own header, without the caller's session and the endpoint's name.
const ASK_BYTES: usize = 4 + 8 + 24 + SESSION_BYTES + 2;
const SESSION_BYTES: usize = 24;

/// Flag: the body continues in [`Kind::Chunk`] frames; its whole length (8 bytes) precedes it.
const MORE: u16 = 1;
/// An ask carries its caller's own session.
const HAS_SESSION: u16 = 2;
/// A chunk belongs to an answer, not to an ask.
const OF_ANSWER: u16 = 4;

/// The kind of a frame, one unit of bytes between two processes; the number is its byte on the wire. An ask is answered by a reply, by
/// `Refused` (the handler's own typed error) or by `Fault` (no answer of the handler: no such endpoint, deadline passed, panic).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request, which is answered by a [`Kind::Reply`], [`Kind::Refused`] or [`Kind::Fault`] with the same id.
    Ask = 1,
    /// The answer to a [`Kind::Ask`] that succeeded: its encoded reply.
    Reply = 2,
    /// The answer to an [`Kind::Ask`] that the callee's handler refused: its typed error, encoded.
    Refused = 3,
    /// The answer to an [`Kind::Ask`] that the handler did not answer (its endpoint is missing, its deadline passed, or
    /// it panicked, for example): an encoded [`FabricError`](crate::FabricError).
    Fault = 4,
    /// The next part of the body of an earlier request or answer that was too long (over 256 KiB) for one frame.
    Chunk = 5,
    /// Asks whether the peer is there; the answer is a [`Kind::Pong`].
    Ping = 6,
    /// Answers a ping on the same connection.
    Pong = 7,
    /// The sender is shutting down and will close the connection; it takes no more calls.
    Goodbye = 8,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Ask,
            2 => Self::Reply,
            3 => Self::Refused,
            4 => Self::Fault,
            5 => Self::Chunk,
            6 => Self::Ping,
            7 => Self::Pong,
            8 => Self::Goodbye,
            _ => return None,
        })
    }
}

/// The fields of an ask, a request frame, besides its body: the call, the time until its deadline, its trace, the sessions of
/// callee and caller, and the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskHeader<'a> {
    /// Number of the call's type, [`crate::Call::ID`]; an endpoint without it refuses the call.
    pub call: u32,
    /// Time until the caller's deadline as it was sent; whole microseconds on the wire, so that no clocks are compared.
    pub remaining: Duration,
    /// Trace that the call is part of.
    pub trace: TraceContext,
    /// The leader session that the call is meant for; an endpoint in another session refuses it.
    pub fence: LeaderSession,
    /// Leader session of the caller itself; `None` if it has or names none.
    pub session: Option<LeaderSession>,
    /// The name of the endpoint in the called process, such as `dispatcher`.
    pub endpoint: &'a str,
}

/// One frame, a unit of bytes that one process sends to another over a connection. Its body is borrowed from the bytes
/// that it was decoded from, or is to be encoded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Kind of the frame.
    pub kind: Kind,
    /// Id of the call that the frame belongs to: given by the caller, unique among the calls that wait on this
    /// connection; 0 in frames without a call.
    pub id: u64,
    /// Fields of an ask; set only for [`Kind::Ask`].
    pub ask: Option<AskHeader<'a>>,
    /// True if a chunk belongs to an answer, false if it belongs to a request.
    pub of_answer: bool,
    /// Length of the whole body in bytes, set in the first frame of a body that continues in
    /// chunks.
    pub total: Option<u64>,
    /// True if chunks with the rest of the body follow.
    pub more: bool,
    /// The body or a part of it.
    pub body: &'a [u8],
}

/// The result of [`decode`]: a frame from the front of some bytes, or how many bytes it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The bytes are not a whole frame; at least this number of bytes is needed in total, those that are there included.
    Incomplete(usize),
    /// A frame, and the number of bytes of the input that it took.
    Frame(Frame<'a>, usize),
}

/// The reason why bytes are no frame. The connection that they came over must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame announces more bytes than the receiver takes (`RpcOptions::frame_max`).
    #[error("a frame of {bytes} bytes; the bound is {bytes_max}")]
    TooLong {
        /// Length that the frame announces, in bytes without the length field.
        bytes: u64,
        /// Largest length allowed, in bytes.
        bytes_max: usize,
    },
    /// The frame's length is too small for the fields that a frame of its kind has.
    #[error("a frame that is shorter than its parts")]
    TooShort,
    /// The frame is of another version of the protocol than this process speaks.
    #[error("frame version {0}; this process speaks {VERSION}")]
    Version(u8),
    /// The frame's kind is none of [`Kind`]; the value is its byte.
    #[error("unknown kind of frame {0}")]
    Kind(u8),
    /// The endpoint's name in an ask is not UTF-8.
    #[error("an endpoint's name is not UTF-8")]
    Name,
}

/// Decodes the first frame in `input` without copying. Too few bytes are no error but [`Decoded::Incomplete`].
///
/// # Errors
/// Returns a [`FrameError`] if the bytes are no frame, or if the frame announces more than `frame_max` bytes (without
/// the 4 bytes of its length field).
pub fn decode(input: &[u8], frame_max: usize) -> Result<Decoded<'_>, FrameError> {
    let Some((length, after_length)) = input.split_first_chunk::<4>() else {
        return Ok(Decoded::Incomplete(HEADER_BYTES));
    };
    let length = u32::from_be_bytes(*length);
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    if bytes > frame_max {
        return Err(FrameError::TooLong { bytes: u64::from(length), bytes_max: frame_max });
    }
    let Some(frame) = after_length.get(..bytes) else {
        return Ok(Decoded::Incomplete(4 + bytes));
    };
    Ok(Decoded::Frame(decode_frame(frame)?, 4 + bytes))
}

fn decode_frame(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let mut rest = Rest(bytes);
    let [version, kind] = rest.take()?;
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let kind = Kind::from_byte(kind).ok_or(FrameError::Kind(kind))?;
    let flags = u16::from_be_bytes(rest.take()?);
    let id = rest.u64()?;
    let ask = match kind {
        Kind::Ask => Some(rest.ask(flags)?),
        _ => None,
    };
    let more = flags & MORE != 0;
    let total = match kind {
        Kind::Chunk => None,
        _ if more => Some(rest.u64()?),
        _ => None,
    };
    Ok(Frame { kind, id, ask, of_answer: flags & OF_ANSWER != 0, total, more, body: rest.0 })
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(FrameError::TooShort)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    fn session(&mut self) -> Result<LeaderSession, FrameError> {
        Ok(LeaderSession {
            epoch: Epoch { store: self.u64()?, process: self.u64()? },
            nonce: self.u64()?,
        })
    }

    fn ask(&mut self, flags: u16) -> Result<AskHeader<'a>, FrameError> {
        let call = u32::from_be_bytes(self.take()?);
        let remaining = Duration::from_micros(self.u64()?);
        let trace = TraceContext { trace: u128::from_be_bytes(self.take()?), span: self.u64()? };
        let fence = self.session()?;
        let session = match flags & HAS_SESSION {
            0 => None,
            _ => Some(self.session()?),
        };
        let length = usize::from(u16::from_be_bytes(self.take()?));
        let (name, rest) = self.0.split_at_checked(length).ok_or(FrameError::TooShort)?;
        self.0 = rest;
        Ok(AskHeader {
            call,
            remaining,
            trace,
            fence,
            session,
            endpoint: std::str::from_utf8(name).map_err(|_| FrameError::Name)?,
        })
    }
}

/// Appends the bytes of a frame to `out`. Checks no bound: the caller cuts a long body into chunks, so that frames stay
/// below the receiver's bound. An endpoint's name is cut after 65,535 bytes.
pub fn encode(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut flags = 0;
    if frame.more {
        flags |= MORE;
    }
    if frame.of_answer {
        flags |= OF_ANSWER;
    }
    if frame.ask.is_some_and(|ask| ask.session.is_some()) {
        flags |= HAS_SESSION;
    }
    let name_bytes = frame.ask.map_or(0, |ask| ask.endpoint.len());
    out.reserve(HEADER_BYTES + ASK_BYTES + SESSION_BYTES + name_bytes + 8 + frame.body.len());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[VERSION, frame.kind as u8]);
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&frame.id.to_be_bytes());
    if let Some(ask) = &frame.ask {
        encode_ask(ask, out);
    }
    if let Some(total) = frame.total {
        out.extend_from_slice(&total.to_be_bytes());
    }
    out.extend_from_slice(frame.body);
    let length = out.len().saturating_sub(start + 4);
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length);
    }
}

fn encode_ask(ask: &AskHeader<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&ask.call.to_be_bytes());
    let micros = u64::try_from(ask.remaining.as_micros()).unwrap_or(u64::MAX);
    out.extend_from_slice(&micros.to_be_bytes());
    out.extend_from_slice(&ask.trace.trace.to_be_bytes());
    out.extend_from_slice(&ask.trace.span.to_be_bytes());
    encode_session(ask.fence, out);
    if let Some(session) = ask.session {
        encode_session(session, out);
    }
    // Names are bounded far below where they are made; one that is not finds no endpoint.
    let name = ask.endpoint.as_bytes();
    let name = name.get(..usize::from(u16::MAX)).unwrap_or(name);
    out.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(name);
}

fn encode_session(session: LeaderSession, out: &mut Vec<u8>) {
    out.extend_from_slice(&session.epoch.store.to_be_bytes());
    out.extend_from_slice(&session.epoch.process.to_be_bytes());
    out.extend_from_slice(&session.nonce.to_be_bytes());
}

impl<'a> Frame<'a> {
    /// Makes a frame without a body and with call id 0, such as a ping.
    pub fn bare(kind: Kind) -> Self {
        Self { kind, id: 0, ask: None, of_answer: false, total: None, more: false, body: &[] }
    }

    /// Makes the frame of an answer to the call `id`, with a whole body; `kind` is `Reply`, `Refused` or `Fault`.
    pub fn answer(kind: Kind, id: u64, body: &'a [u8]) -> Self {
        Self { id, body, ..Self::bare(kind) }
    }
}
