//! What a reader and its enumerator say to each other. A poll of the reader carries everything that the coordinator has not
//! confirmed, an answer everything that the reader has not confirmed; both sides number what they say and do nothing twice. So a
//! poll may be lost, repeated and overtaken, and the coordinator can hold its answer until there is something to say.

use crate::types::{CodecError, decode_one, encode_one};

const VERSION: u8 = 1;

/// From a reader to the enumerator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromReader {
    /// The first message of each attempt: the splits that it holds.
    Register(Vec<Vec<u8>>),
    /// A request for splits.
    Request,
    /// An event of the source's own.
    Event(Vec<u8>),
}

/// From the enumerator to a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToReader {
    /// Splits to read.
    Splits(Vec<Vec<u8>>),
    /// Nothing follows.
    NoMoreSplits,
    /// An event of the source's own.
    Event(Vec<u8>),
    /// A checkpoint is complete or was given up: what was said since it began is held no longer.
    Release(u64),
}

/// What a reader sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Poll {
    /// Number of the last message that the reader got; 0: none.
    pub(crate) seen: u64,
    /// Messages that are not confirmed, by their numbers from 1.
    pub(crate) messages: Vec<(u64, FromReader)>,
}

/// A message to a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    /// From 1, within one attempt.
    pub(crate) number: u64,
    /// The checkpoint whose snapshot of the enumerator is older than this message: the reader heeds the message behind its own
    /// part of that checkpoint.
    pub(crate) behind: Option<u64>,
    pub(crate) message: ToReader,
}

/// What the coordinator answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PollAnswer {
    /// Number of the last message of the reader that was heeded.
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
            (numbered.number, numbered.behind, body)
        };
        let messages: Vec<(u64, Option<u64>, Body)> = self.messages.iter().map(message).collect();
        versioned(&(self.confirmed, messages))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (confirmed, messages): (u64, Vec<(u64, Option<u64>, Body)>) = body(bytes)?;
        let message = |(number, behind, body): (u64, Option<u64>, Body)| {
            let message = match body.0 {
                0 => ToReader::Splits(body.1),
                1 => ToReader::NoMoreSplits,
                2 => ToReader::Event(one(body)?.1),
                3 => ToReader::Release(decode_one(&one(body)?.1)?),
                _ => return Err(CodecError::Invalid { what: "message of a source" }),
            };
            Ok(Numbered { number, behind, message })
        };
        let messages = messages.into_iter().map(message).collect::<Result<_, CodecError>>()?;
        Ok(Self { confirmed, messages })
    }
}
