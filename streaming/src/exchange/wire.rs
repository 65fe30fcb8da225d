//! The frames of a data connection: a little-endian `u32` length, a kind byte, little-endian fields, a payload.
//! They follow the platform's handshake, whose version covers this protocol too.
//! Decoding must never panic and never allocate more memory than the frame has bytes.
//!
//! | kind | frame | direction | fields |
//! |---|---|---|---|
//! | 1 | Request | consumer → producer | link u32, graph u64, edge u32, consumer u32, its attempt u32, wait u32 ms, then per producer: subtask u32, attempt u32 |
//! | 2 | Refused | producer → consumer | link u32, why (text) |
//! | 3 | Data | producer → consumer | link u32, index u32, flags u8, next u64, backlog u64, payload |
//! | 4 | Backlog | producer → consumer | link u32, index u32, next u64, backlog u64 |
//! | 5 | Credit | consumer → producer | link u32, index u32, bytes u64 |
//! | 6 | Release | consumer → producer | link u32, finished u8 |
//! | 7 | Share | consumer → producer | link u32, records u32 |
//!
//! A *link* connects one consuming subtask of an edge with its producers in one other process; the consumer's side
//! chooses its number. The *index* is a producer's place in the request. Data flows one way on a link, and a pair
//! of processes shares one connection for the links of both directions, whichever of the two has dialled.
//!
//! `next` and `backlog` are *positions*: the weight of all elements of the channel from its first one to the end of
//! the named one. An announcement therefore means the same when it arrives late or twice.

use thiserror::Error;

/// Maximum number of bytes of a frame after its length field: 1 MiB. A longer frame is not decoded ([`WireError::Length`]), and the
/// connection that received it is ended.
pub const FRAME_MAX: usize = 1 << 20;

/// Maximum payload in bytes of a data frame that this version sends: 128 KiB. Larger elements are sent in parts, so that they do not hold
/// up others. A receiver accepts larger payloads too, up to [`FRAME_MAX`].
pub const PART_MAX: usize = 128 << 10;

/// Flag of [`Frame::Data`]: the payload is an event, not a batch.
pub const FLAG_EVENT: u8 = 1;
/// Flag of [`Frame::Data`]: another part of the same element follows.
pub const FLAG_MORE: u8 = 2;

/// The reason why bytes are not a frame. The connection that received them is ended, and the tasks that use it fail with
/// `DataConnectionLost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The length, in bytes, is 0, so that there is no kind, or larger than [`FRAME_MAX`].
    #[error("a data frame of {0} bytes is out of bounds")]
    Length(usize),
    /// The kind, given as the number, is unknown.
    #[error("there is no data frame of kind {0}")]
    Kind(u8),
    /// The fields of a frame of this kind are too short, too long or not valid text.
    #[error("a data frame of kind {0} is malformed")]
    Malformed(u8),
}

/// One frame (message) of the data connection between two task processes. A frame of a link that the receiver has closed is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Asks producers for the elements that they send to a consumer, and so opens a link: the channels from the producers of one process
    /// to one consuming subtask. From consumer to producer.
    Request(Request),
    /// Refuses a request, for the reasons that [`Request`] lists; the consumer's task fails with `DataRequestRefused`. From producer to
    /// consumer.
    Refused {
        /// Number of the link, which its request has chosen.
        link: u32,
        /// The reason, as text for users.
        why: &'a str,
    },
    /// Carries an element, or a part of one; the parts of an element come in order. From producer to consumer. Bytes beyond the limit that
    /// credit has set, an element that is too large (2 GiB), or an index that the request does not have, end the connection.
    Data {
        /// Number of the link, which its request has chosen.
        link: u32,
        /// The producer's index in the request's list of producers.
        index: u32,
        /// A combination of [`FLAG_EVENT`] and [`FLAG_MORE`].
        flags: u8,
        /// Position at which the next element ends, if it waits for credit; 0 if none does. A position counts the bytes of the channel's
        /// elements from the first one on, with 32 more for each.
        next: u64,
        /// Position at which the last element ends that is announced together with the next one; 0 if none is.
        backlog: u64,
        /// The encoded bytes of the element, or of this part of it.
        payload: &'a [u8],
    },
    /// Announces elements that wait for credit, the consumer's permission to send more bytes. From producer to consumer. May come twice or
    /// late, and is then ignored. An element that is too large (2 GiB), or an index that the request does not have, ends the connection.
    Backlog {
        /// Number of the link, which its request has chosen.
        link: u32,
        /// The producer's index in the request's list of producers.
        index: u32,
        /// Position (bytes of the channel's elements from the first one on, 32 more for each) at which the first waiting element ends.
        next: u64,
        /// Position at which the last element ends that is announced together with the first one.
        backlog: u64,
    },
    /// Raises the limit up to which one producer may send to the consumer, a position in bytes that begins at 1,024; the limit is never
    /// lowered. From consumer to producer.
    Credit {
        /// Number of the link, which its request has chosen.
        link: u32,
        /// The producer's index in the request's list of producers.
        index: u32,
        /// Number of bytes by which the limit rises.
        bytes: u64,
    },
    /// Closes a link because its consumer has finished, was stopped or failed; what the producers still have for it is dropped. From
    /// consumer to producer.
    Release {
        /// Number of the link, which its request has chosen.
        link: u32,
        /// True if the consumer finished: its producers drop what they still send to it. False if it was stopped or failed: they wait
        /// until they are stopped.
        finished: bool,
    },
    /// Limits how many records wait for a consumer, so that the consumer takes them within its target time. From consumer to producer.
    Share {
        /// Number of the link, which its request has chosen.
        link: u32,
        /// Number of records of each producer that may wait, in all places together, at least 1; `u32::MAX` means no limit. Before the
        /// first such frame a producer assumes 16.
        records: u32,
    },
}

/// A consumer's request for the output of producers in another process, which opens a link. That process refuses it if the execution
/// graph has ended there, if a later attempt of a producer or of the consumer is known, or if producers have not started within `wait_ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Number of the link that the request opens, chosen by the consumer's side; unique among its requests on the connection. All other
    /// frames about this request carry it.
    pub link: u32,
    /// Id of the execution graph, the job's run under one JobMaster, to which the subtasks belong. Restarts of subtasks do not change it.
    pub graph: u64,
    /// Id of the edge in the job graph.
    pub edge: u32,
    /// Index of the consuming subtask.
    pub consumer: u32,
    /// Number of the consuming subtask's attempt, from 0, which grows with each restart in the execution graph.
    pub attempt: u32,
    /// Time in milliseconds for which producers that have not started are waited for; 0 means for ever.
    pub wait_ms: u32,
    /// The producing subtasks: for each its subtask index, and the number of the attempt that the consumer expects. Other frames of the
    /// link name a producer by its index in this list.
    pub producers: Vec<(u32, u32)>,
}

impl Frame<'_> {
    /// Appends the encoded frame, length first. The caller keeps it within [`FRAME_MAX`], which is not checked here.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_head(out);
        out.extend_from_slice(self.payload());
    }

    /// Returns the payload of a data frame, with which its encoding ends; no bytes for other frames.
    fn payload(&self) -> &[u8] {
        match self {
            Self::Data { payload, .. } => payload,
            _ => &[],
        }
    }

    /// Appends what [`Frame::encode`] appends, without the payload of a data frame: the caller must write that payload next.
    pub(super) fn encode_head(&self, out: &mut Vec<u8>) {
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
            Self::Data { link, index, flags, next, backlog, payload: _ } => {
                out.push(3);
                put_u32(out, *link);
                put_u32(out, *index);
                out.push(*flags);
                put_u64(out, *next);
                put_u64(out, *backlog);
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
            Self::Share { link, records } => {
                out.push(7);
                put_u32(out, *link);
                put_u32(out, *records);
            }
        }
        let len = out.len() - start - 4 + self.payload().len();
        let len = u32::try_from(len).unwrap_or(u32::MAX);
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

/// Decodes a frame's length field and checks it. Returns the number of bytes after the field, the kind byte included.
///
/// # Errors
/// Returns [`WireError::Length`] if the length is 0 or larger than [`FRAME_MAX`].
pub fn frame_len(prefix: [u8; 4]) -> Result<usize, WireError> {
    let len = u32::from_le_bytes(prefix) as usize;
    if len == 0 || len > FRAME_MAX {
        return Err(WireError::Length(len));
    }
    Ok(len)
}

/// Decodes the frame at the beginning of `bytes`, and ignores what follows. Returns the frame and the number of bytes that it takes, its
/// length field included; `None` if the frame is incomplete.
///
/// # Errors
/// Fails with [`WireError::Length`] for a length out of bounds, [`WireError::Kind`] for an unknown kind, [`WireError::Malformed`] for
/// wrong fields.
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

/// Decodes a frame without its length field: a kind byte and fields.
///
/// # Errors
/// Fails with [`WireError::Length`] if there are no bytes, [`WireError::Kind`] for an unknown kind, [`WireError::Malformed`] if the
/// fields are too short, too long or not text.
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
        7 => Frame::Share { link: fields.u32()?, records: fields.u32()? },
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
            Frame::Share { link: 1, records: 2 },
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
