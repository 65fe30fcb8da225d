//! The BlobServer's gateway: content-addressed bytes in chunks of at most 1 MiB.

use crate::gateway;
use model::{BlobKey, BlobKind, ContentHash, JobId, ProcessSession};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most bytes in one chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

gateway! {
    /// The gateway of the BlobServer.
    pub struct BlobServerGateway = "blob_server", fenced by ProcessSession;
    OpenUpload => UploadId, BlobError;
    UploadChunk => (), BlobError;
    CloseUpload => BlobKey, BlobError;
    HasBlob => Option<BlobKey>, BlobError;
    ReadBlob => serde_bytes::ByteBuf, BlobError;
    DeleteJobBlobs => (), BlobError;
}

/// Identifies an upload that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UploadId(pub u64);

/// Begin an upload; abandoned ones are dropped after a minute without a chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenUpload {
    /// Job that the blob belongs to; `None` for blobs of the cluster.
    pub job: Option<JobId>,
    /// Lifetime of the blob.
    pub kind: BlobKind,
}

/// Sends the next bytes of an upload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UploadChunk {
    /// Id of the upload, given by its first call.
    pub upload: UploadId,
    /// Offset of these bytes; it must be the number of bytes that have arrived.
    pub offset: u64,
    /// Bytes of this part.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// All has come: check the hash, name it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CloseUpload {
    /// Id of the upload, given by its first call.
    pub upload: UploadId,
    /// Hash of the content that was sent.
    pub hash: ContentHash,
}

/// Whether the server has some content for a job (or for none).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HasBlob {
    /// Job that the blob belongs to; `None` for blobs of the cluster.
    pub job: Option<JobId>,
    /// Content hash of the blob.
    pub hash: ContentHash,
}

/// A part of a blob.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadBlob {
    /// Key of the blob to read.
    pub key: BlobKey,
    /// Offset of the first byte wanted.
    pub offset: u64,
    /// Largest number of bytes to return (at most [`CHUNK_BYTES_MAX`]).
    pub max: u32,
}

/// A job has ended: its blobs go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteJobBlobs {
    /// Job whose blobs are deleted.
    pub job: JobId,
}

/// The reason why a blob call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum BlobError {
    /// The server has no blob of that key.
    #[error("there is no blob {0} here")]
    NotFound(String),
    /// The content does not have the hash in its key.
    #[error("the content of the blob has hash {actual}, not {expected}")]
    WrongHash {
        /// Hash in the blob's key.
        expected: ContentHash,
        /// Hash computed over the bytes that arrived.
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
        /// Folder of the blobs, as configured.
        dir: String,
    },
    /// Reading or writing the blob directory failed for another reason.
    #[error("the blob store failed: {0}")]
    Io(String),
}
