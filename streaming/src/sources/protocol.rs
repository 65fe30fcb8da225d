//! The messages between a reader and its enumerator. A reader sends polls, the enumerator's coordinator answers them. A poll
//! carries every message of the reader that the coordinator has not confirmed, an answer every message that the reader has not
//! confirmed. Both sides number their messages and handle none twice. So a poll may be lost, repeated or overtaken, and the
//! coordinator can hold its answer until it has a message.

use crate::types::{CodecError, decode_one, encode_one};

const VERSION: u8 = 1;

/// A message of a reader to the enumerator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromReader {
    /// Registers an attempt, as its first message, with the encoded splits that it restored.
    Register(Vec<Vec<u8>>),
    /// Asks for splits.
    Request,
    /// An event that the source defines.
    Event(Vec<u8>),
}

/// A message of the enumerator to a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToReader {
    /// Assigns encoded splits to the reader.
    Splits(Vec<Vec<u8>>),
    /// Announces that the reader gets no more splits or events.
    NoMoreSplits,
    /// An event that the source defines.
    Event(Vec<u8>),
    /// Ends a checkpoint, complete or aborted: messages held until the reader's part of it are delivered.
    Release(u64),
}

/// A reader's request to the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Poll {
    /// Number of the last message that the reader received; 0 if none.
    pub(crate) seen: u64,
    /// The reader's unconfirmed messages with their numbers, which begin at 1 in each attempt.
    pub(crate) messages: Vec<(u64, FromReader)>,
}

/// A numbered message to a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    /// Number of the message, from 1 in each attempt.
    pub(crate) number: u64,
    /// The running checkpoint, if the message was sent after the enumerator's snapshot for it: the reader holds the message until
    /// it has taken its own snapshot for that checkpoint.
    pub(crate) after_snapshot: Option<u64>,
    pub(crate) message: ToReader,
}

/// The coordinator's answer to a poll.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PollAnswer {
    /// Number of the reader's last message that the coordinator handled.
    pub(crate) confirmed: u64,
    pub(crate) messages: Vec<Numbered>,
}

type Body = (u8, Vec<Vec<u8>>);

fn one((kind, mut parts): Body) -> Result<(u8, Vec<u8>), CodecError> {
    match (parts.pop(), parts.is_empty()) {
        (Some(part), true) => Ok((kind, part)),
        _ => Err(CodecError::Invalid { what: "message of a source" }),
    }
}

fn versioned<T: crate::types::FlottType>(value: &T) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(encode_one(value));
    out
}

fn body<T: crate::types::FlottType>(bytes: &[u8]) -> Result<T, CodecError> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => decode_one(rest),
        Some(_) => Err(CodecError::Invalid { what: "version of a source's protocol" }),
        None => Err(CodecError::Truncated),
    }
}

impl Poll {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let message = |(number, message): &(u64, FromReader)| {
            let body: Body = match message {
                FromReader::Register(held) => (0, held.clone()),
                FromReader::Request => (1, Vec::new()),
                FromReader::Event(event) => (2, vec![event.clone()]),
            };
            (*number, body)
        };
        let messages: Vec<(u64, Body)> = self.messages.iter().map(message).collect();
        versioned(&(self.seen, messages))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (seen, messages): (u64, Vec<(u64, Body)>) = body(bytes)?;
        let message = |(number, body): (u64, Body)| {
            let message = match body.0 {
                0 => FromReader::Register(body.1),
                1 => FromReader::Request,
                2 => FromReader::Event(one(body)?.1),
                _ => return Err(CodecError::Invalid { what: "message of a source" }),
            };
            Ok((number, message))
        };
        let messages = messages.into_iter().map(message).collect::<Result<_, CodecError>>()?;
        Ok(Self { seen, messages })
    }
}

impl PollAnswer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let message = |numbered: &Numbered| {
            let body: Body = match &numbered.message {
                ToReader::Splits(splits) => (0, splits.clone()),
                ToReader::NoMoreSplits => (1, Vec::new()),
                ToReader::Event(event) => (2, vec![event.clone()]),
                ToReader::Release(checkpoint) => (3, vec![encode_one(checkpoint)]),
            };
            (numbered.number, numbered.after_snapshot, body)
        };
        let messages: Vec<(u64, Option<u64>, Body)> = self.messages.iter().map(message).collect();
        versioned(&(self.confirmed, messages))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (confirmed, messages): (u64, Vec<(u64, Option<u64>, Body)>) = body(bytes)?;
        let message = |(number, after_snapshot, body): (u64, Option<u64>, Body)| {
            let message = match body.0 {
                0 => ToReader::Splits(body.1),
                1 => ToReader::NoMoreSplits,
                2 => ToReader::Event(one(body)?.1),
                3 => ToReader::Release(decode_one(&one(body)?.1)?),
                _ => return Err(CodecError::Invalid { what: "message of a source" }),
            };
            Ok(Numbered { number, after_snapshot, message })
        };
        let messages = messages.into_iter().map(message).collect::<Result<_, CodecError>>()?;
        Ok(Self { confirmed, messages })
    }
}
