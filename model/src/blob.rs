//! Names of content-addressed binary objects.

use crate::ids::JobId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// The SHA-256 digest of some bytes. Displays, and serialises in human-readable formats, as 64 lower-case hex digits; other
/// formats get the 32 raw bytes. Parsing takes exactly 64 hex digits, upper or lower case. The value is not checked against any
/// content. The default value is all zeros, the hash of nothing that is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, derive_more::Debug)]
#[debug("{}", self)]
pub struct ContentHash(pub [u8; 32]);

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
/// The error of parsing a [`ContentHash`]: the text is not exactly 64 hexadecimal digits.
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

/// The lifetime of a blob (content-addressed bytes, such as a program) at the BlobServer: as long as it is needed, or a short time. The
/// uploader chooses it, and it is part of the blob's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BlobKind {
    /// The blob is kept until its job has ended; a program's blob, which belongs to no job, until no job and no program uploaded by REST
    /// needs it, and at least 60 s after its upload. With HA, the programs of jobs have copies that survive the JobManager; other
    /// blobs have none.
    Permanent,
    /// The blob (a file for a short use) is kept for `blob.cleanup-interval` after its upload or its last read, but for a minute at most
    /// after it was fetched to its end; it is removed then even if it was never fetched, and with the end of its job.
    Transient,
}

/// The name under which the BlobServer keeps a blob (a program or file) and its clients fetch it. Two blobs with the
/// same bytes but different jobs or kinds have different keys. A key does not say that the blob exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobKey {
    /// The job that the blob belongs to, with whose end it may be deleted; `None` for blobs of no job, such as programs.
    pub job: Option<JobId>,
    /// SHA-256 of the blob's whole content.
    pub hash: ContentHash,
    /// Lifetime of the blob: as long as jobs need it, or a short time.
    pub kind: BlobKind,
    /// Size of the blob's whole content in bytes.
    pub size: u64,
}
