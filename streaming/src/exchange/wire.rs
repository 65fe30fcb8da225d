//! Frames of a data connection: a little-endian `u32` length, a kind byte, fields in little-endian, a payload.
//! The platform's handshake comes first; its version covers this protocol too.
//! Decoding must never panic and never allocate more than the frame has bytes.
//!
//! | kind | frame | direction | fields |
//! |---|---|---|---|
//! | 1 | Request | consumer → producer | link u32, graph u64, edge u32, consumer u32, its attempt u32, wait u32 ms, then per producer: subtask u32, attempt u32 |
//! | 2 | Refused | producer → consumer | link u32, why (text) |
//! | 3 | Data | producer → consumer | link u32, index u32, flags u8, next u64, backlog u64, payload |
//! | 4 | Backlog | producer → consumer | link u32, index u32, next u64, backlog u64 |
//! | 5 | Credit | consumer → producer | link u32, index u32, bytes u64 |
//! | 6 | Release | consumer → producer | link u32, finished u8 |
//!
//! A *link* is one consuming subtask's half of an edge at one producing process; its number is drawn by the
//! consumer's side. The *index* is the producer's place in the request. A link's data flows one way only, so that
//! a pair of processes shares one connection whoever has dialled it.
//!
//! `next` and `backlog` are *positions*: the weight of all elements of the channel from its first one on up to the
//! end of the named one. An announcement that arrives late, or twice, so says what it said at first.

use thiserror::Error;

/// The most bytes that a frame may have after its length.
pub const FRAME_MAX: usize = 1 << 20;

/// Payload bytes of one data frame; larger elements go in parts, so that a large one does not hold up others.
pub const PART_MAX: usize = 128 << 10;

/// The payload is an event, not a batch.
pub const FLAG_EVENT: u8 = 1;
/// Another part of the same element follows.
pub const FLAG_MORE: u8 = 2;

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// Longer than [`FRAME_MAX`], or without a kind.
    #[error("a data frame of {0} bytes is out of bounds")]
    Length(usize),
    /// No such kind.
    #[error("there is no data frame of kind {0}")]
    Kind(u8),
    /// Its fields end too early or too late.
    #[error("a data frame of kind {0} is malformed")]
    Malformed(u8),
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A consumer asks for what producers make for it.
    Request(Request),
    /// The request can't be served.
    Refused {
        /// Of the request.
        link: u32,
        /// Why, for people.
        why: &'a str,
    },
    /// An element, or a part of one.
    Data {
        /// Of the request.
        link: u32,
        /// The producer's place in it.
        index: u32,
        /// [`FLAG_EVENT`], [`FLAG_MORE`].
        flags: u8,
        /// Where the element ends that waits next for credit; 0: none does.
        next: u64,
        /// Where the last one ends that waits with it.
        backlog: u64,
        /// Its bytes.
        payload: &'a [u8],
    },
    /// Elements wait for credit.
    Backlog {
        /// Of the request.
        link: u32,
        /// The producer's place in it.
        index: u32,
        /// Where the first one ends.
        next: u64,
        /// Where the last one ends that is announced with it.
        backlog: u64,
    },
    /// So many more bytes may be sent.
    Credit {
        /// Of the request.
        link: u32,
        /// The producer's place in it.
        index: u32,
        /// How many.
        bytes: u64,
    },
    /// The consumer is gone.
    Release {
        /// Of the request.
        link: u32,
        /// Whether it had finished: then what is left is not needed, else it waits for its own end.
        finished: bool,
    },
}

/// What a consumer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Drawn by the consumer's side, unique on the connection.
    pub link: u32,
    /// The execution graph.
    pub graph: u64,
    /// Edge of the job graph.
    pub edge: u32,
    /// The consuming subtask.
    pub consumer: u32,
    /// Its attempt.
    pub attempt: u32,
    /// How long producers are waited for, milliseconds; 0: for ever.
    pub wait_ms: u32,
    /// Producing subtasks and the attempts that are meant.
    pub producers: Vec<(u32, u32)>,
}

impl Frame<'_> {
    /// Appends the frame, length first. Text and lists longer than a frame are cut by the caller.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            Self::Request(r) => {
                out.push(1);
                put_u32(out, r.link);
                put_u64(out, r.graph);
                for field in [r.edge, r.consumer, r.attempt, r.wait_ms] {
                    put_u32(out, field);
                }
                for (subtask, attempt) in &r.producers {
                    put_u32(out, *subtask);
                    put_u32(out, *attempt);
                }
            }
            Self::Refused { link, why } => {
                out.push(2);
                put_u32(out, *link);
                out.extend_from_slice(why.as_bytes());
            }
            Self::Data { link, index, flags, next, backlog, payload } => {
                out.push(3);
                put_u32(out, *link);
                put_u32(out, *index);
                out.push(*flags);
                put_u64(out, *next);
                put_u64(out, *backlog);
                out.extend_from_slice(payload);
            }
            Self::Backlog { link, index, next, backlog } => {
                out.push(4);
                put_u32(out, *link);
                put_u32(out, *index);
                put_u64(out, *next);
                put_u64(out, *backlog);
            }
            Self::Credit { link, index, bytes } => {
                out.push(5);
                put_u32(out, *link);
                put_u32(out, *index);
                put_u64(out, *bytes);
            }
            Self::Release { link, finished } => {
                out.push(6);
                put_u32(out, *link);
                out.push(u8::from(*finished));
            }
        }
        let len = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
        if let Some(prefix) = out.get_mut(start..start + 4) {
            prefix.copy_from_slice(&len.to_le_bytes());
        }
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Checks a frame's length, as it was read in front of it.
///
/// # Errors
/// When it is out of bounds.
pub fn frame_len(prefix: [u8; 4]) -> Result<usize, WireError> {
    let len = u32::from_le_bytes(prefix) as usize;
    if len == 0 || len > FRAME_MAX {
        return Err(WireError::Length(len));
    }
    Ok(len)
}

/// The first frame in some bytes and how many of them it takes; `None`: it is not all there yet.
///
/// # Errors
/// When the bytes are no frame.
pub fn decode(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, WireError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let len = frame_len(*prefix)?;
    match rest.get(..len) {
        Some(body) => Ok(Some((decode_body(body)?, len + 4))),
        None => Ok(None),
    }
}

/// Decodes what follows a length.
///
/// # Errors
/// When the bytes are no frame.
pub fn decode_body(body: &[u8]) -> Result<Frame<'_>, WireError> {
    let (kind, fields) = body.split_first().ok_or(WireError::Length(0))?;
    let mut fields = Fields { bytes: fields, kind: *kind };
    let frame = match kind {
        1 => Frame::Request(Request {
            link: fields.u32()?,
            graph: fields.u64()?,
            edge: fields.u32()?,
            consumer: fields.u32()?,
            attempt: fields.u32()?,
            wait_ms: fields.u32()?,
            producers: fields.pairs()?,
        }),
        2 => Frame::Refused { link: fields.u32()?, why: fields.text()? },
        3 => Frame::Data {
            link: fields.u32()?,
            index: fields.u32()?,
            flags: fields.u8()?,
            next: fields.u64()?,
            backlog: fields.u64()?,
            payload: std::mem::take(&mut fields.bytes),
        },
        4 => Frame::Backlog {
            link: fields.u32()?,
            index: fields.u32()?,
            next: fields.u64()?,
            backlog: fields.u64()?,
        },
        5 => Frame::Credit { link: fields.u32()?, index: fields.u32()?, bytes: fields.u64()? },
        6 => Frame::Release { link: fields.u32()?, finished: fields.u8()? != 0 },
        other => return Err(WireError::Kind(*other)),
    };
    if fields.bytes.is_empty() { Ok(frame) } else { Err(WireError::Malformed(*kind)) }
}

struct Fields<'a> {
    bytes: &'a [u8],
    kind: u8,
}

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (field, rest) =
            self.bytes.split_first_chunk::<N>().ok_or(WireError::Malformed(self.kind))?;
        self.bytes = rest;
        Ok(*field)
    }
    fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.take()?))
    }
    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.take()?))
    }
    fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.take()?))
    }
    fn text(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(std::mem::take(&mut self.bytes))
            .map_err(|_| WireError::Malformed(self.kind))
    }
    fn pairs(&mut self) -> Result<Vec<(u32, u32)>, WireError> {
        let mut pairs = Vec::with_capacity(self.bytes.len() / 8);
        while !self.bytes.is_empty() {
            pairs.push((self.u32()?, self.u32()?));
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn examples() -> Vec<Frame<'static>> {
        vec![
            Frame::Request(Request {
                link: 1,
                graph: 2,
                edge: 3,
                consumer: 4,
                attempt: 5,
                wait_ms: 6,
                producers: vec![(7, 8), (9, 10)],
            }),
            Frame::Refused { link: 1, why: "superseded" },
            Frame::Data {
                link: 1,
                index: 2,
                flags: FLAG_MORE,
                next: 3,
                backlog: 4,
                payload: b"abc",
            },
            Frame::Backlog { link: 1, index: 2, next: 3, backlog: 4 },
            Frame::Credit { link: 1, index: 2, bytes: 3 },
            Frame::Release { link: 1, finished: true },
        ]
    }

    #[test]
    fn frames_come_back_as_they_were_one_after_the_other() {
        let mut bytes = Vec::new();
        for frame in examples() {
            frame.encode(&mut bytes);
        }
        let mut rest = bytes.as_slice();
        for frame in examples() {
            let (decoded, taken) = decode(rest).unwrap().unwrap();
            assert_eq!(decoded, frame);
            rest = &rest[taken..];
        }
        assert_eq!(decode(rest), Ok(None));
    }

    #[test]
    fn the_layout_does_not_change_unnoticed() {
        let mut bytes = Vec::new();
        Frame::Data { link: 1, index: 2, flags: FLAG_EVENT, next: 3, backlog: 4, payload: &[9] }
            .encode(&mut bytes);
        assert_eq!(
            bytes,
            [
                27, 0, 0, 0, 3, 1, 0, 0, 0, 2, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0,
                0, 0, 0, 9
            ]
        );
    }

    #[test]
    fn lengths_out_of_bounds_are_refused_before_anything_is_read() {
        assert_eq!(decode(&[0, 0, 0, 0]), Err(WireError::Length(0)), "a frame has a kind");
        assert_eq!(decode(&[255, 255, 255, 255]), Err(WireError::Length(u32::MAX as usize)));
        assert_eq!(decode_body(&[99]), Err(WireError::Kind(99)));
        assert_eq!(decode_body(&[5, 1]), Err(WireError::Malformed(5)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((frame, taken))) = decode(&bytes) {
                prop_assert!(taken <= bytes.len());
                let mut again = Vec::new();
                frame.encode(&mut again);
                if !matches!(frame, Frame::Release { .. }) {
                    prop_assert_eq!(&again, &bytes[..taken]);
                }
            }
            let _ = decode_body(&bytes);
        }

        #[test]
        fn cut_frames_are_waited_for(cut in 0usize..30) {
            for frame in examples() {
                let mut bytes = Vec::new();
                frame.encode(&mut bytes);
                if cut < bytes.len() {
                    prop_assert_eq!(decode(&bytes[..cut]), Ok(None));
                }
            }
        }
    }
}
