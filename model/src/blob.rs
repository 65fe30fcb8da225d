//! Names of content-addressed binary objects.

use crate::ids::JobId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// The SHA-256 of some bytes; prints as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Debug)]
#[debug("{}", self)]
pub struct ContentHash(pub [u8; 32]);

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
/// A text that is not 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a content hash takes 64 hexadecimal digits")]
pub struct ParseHashError;

impl FromStr for ContentHash {
    type Err = ParseHashError;
    fn from_str(s: &str) -> Result<Self, ParseHashError> {
        if s.len() != 64 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ParseHashError);
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            let pair = s.get(2 * i..2 * i + 2).ok_or(ParseHashError)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| ParseHashError)?;
        }
        Ok(Self(bytes))
    }
}
impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.collect_str(self) } else { s.serialize_bytes(&self.0) }
    }
}
impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
        } else {
            Ok(Self(serde_bytes::ByteArray::<32>::deserialize(d)?.into_array()))
        }
    }
}

/// The lifetime of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BlobKind {
    /// The blob is kept until its job has ended; with HA it survives the JobManager.
    Permanent,
    /// The blob is kept until it was fetched or `blob.cleanup-interval` has passed.
    Transient,
}

/// The name of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobKey {
    /// The job it belongs to; `None` for programs and what no job owns.
    pub job: Option<JobId>,
    /// Hash of the blob's content.
    pub hash: ContentHash,
    /// Lifetime of the blob.
    pub kind: BlobKind,
    /// Size in bytes.
    pub size: u64,
}
