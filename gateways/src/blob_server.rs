//! The BlobServer's gateway: content-addressed bytes in chunks of at most 1 MiB.

use crate::gateway;
use model::{BlobKey, BlobKind, ContentHash, JobId, ProcessSession};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most bytes in one chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

gateway! {
    /// What the BlobServer answers.
    pub struct BlobServerGateway = "blob_server", fenced by ProcessSession;
    OpenUpload => UploadId, BlobError;
    UploadChunk => (), BlobError;
    CloseUpload => BlobKey, BlobError;
    HasBlob => Option<BlobKey>, BlobError;
    ReadBlob => serde_bytes::ByteBuf, BlobError;
    DeleteJobBlobs => (), BlobError;
}

/// An upload under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UploadId(pub u64);

/// Begin an upload; abandoned ones are dropped after a minute without a chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenUpload {
    /// Whose.
    pub job: Option<JobId>,
    /// How long it is kept.
    pub kind: BlobKind,
}

/// The next bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UploadChunk {
    /// Which upload.
    pub upload: UploadId,
    /// Where they go: must be the end of what has come.
    pub offset: u64,
    /// The bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// All has come: check the hash, name it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CloseUpload {
    /// Which upload.
    pub upload: UploadId,
    /// What the sender has.
    pub hash: ContentHash,
}

/// Whether the server has some content for a job (or for none).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HasBlob {
    /// Whose.
    pub job: Option<JobId>,
    /// What.
    pub hash: ContentHash,
}

/// A part of a blob.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadBlob {
    /// Which.
    pub key: BlobKey,
    /// From where.
    pub offset: u64,
    /// At most so many bytes (capped at [`CHUNK_BYTES_MAX`]).
    pub max: u32,
}

/// A job has ended: its blobs go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteJobBlobs {
    /// Which.
    pub job: JobId,
}

/// Why a blob call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum BlobError {
    /// Not there.
    #[error("there is no blob {0} here")]
    NotFound(String),
    /// The content is not what its name says.
    #[error("the content of the blob has hash {actual}, not {expected}")]
    WrongHash {
        /// As named.
        expected: ContentHash,
        /// As computed.
        actual: ContentHash,
    },
    /// Bytes came in the wrong order, or for an upload that is unknown.
    #[error("no such upload, or the chunk does not follow the last one")]
    BadChunk,
    /// Too many uploads or calls wait for the store, or the last chunk of this upload is still being written: try
    /// again.
    #[error("the blob server is busy: too many uploads or calls wait for its store")]
    Busy,
    /// The store's disk is full.
    #[error(
        "the disk of the blob store {dir} is full: free space there or set blob.storage.directory"
    )]
    DiskFull {
        /// Which folder.
        dir: String,
    },
    /// Another I/O failure.
    #[error("the blob store failed: {0}")]
    Io(String),
}
