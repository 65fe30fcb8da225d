//! The BlobServer's gateway: content-addressed bytes in chunks of at most 1 MiB.

use crate::gateway;
use model::{BlobKey, BlobKind, ContentHash, JobId, ProcessSession};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum length of one chunk of an upload or a download in bytes: 1 MiB. A longer uploaded chunk is refused with
/// [`BlobError::BadChunk`]; a read returns at most this many bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

gateway! {
    /// The gateway (group of calls) of the BlobServer, which keeps blobs, such as programs and files of jobs, under the
    /// hash of their content. REST uploads the programs of clients, the blob caches of TaskManagers read, and the Dispatcher deletes
    /// a job's blobs when the job has ended. Uploads and downloads go in chunks of at most 1 MiB.
    pub struct BlobServerGateway = "blob_server", fenced by ProcessSession;
    OpenUpload => UploadId, BlobError;
    UploadChunk => (), BlobError;
    CloseUpload => BlobKey, BlobError;
    HasBlob => Option<BlobKey>, BlobError;
    ReadBlob => serde_bytes::ByteBuf, BlobError;
    DeleteJobBlobs => (), BlobError;
}

/// Identifies an open upload, as [`OpenUpload`] is answered. Drawn at random by the server. Once the upload is closed, has failed, or was
/// dropped after a minute without a chunk, calls with the id are refused with [`BlobError::BadChunk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UploadId(pub u64);

/// REST → BlobServer: begins an upload of a blob, which [`UploadChunk`]s and one [`CloseUpload`] follow; answered with the upload's id.
/// Nobody can read the blob before `CloseUpload` has succeeded. A repeated call begins another upload. The server drops an upload after a
/// minute without a chunk, and all when it ends. If 64 uploads are open, the call is refused with [`BlobError::Busy`]; with `DiskFull` or
/// `Io` if the store cannot begin a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenUpload {
    /// Job that the blob belongs to and is deleted with; `None` for blobs of the cluster, such as programs.
    pub job: Option<JobId>,
    /// Lifetime of the blob, permanent or transient, as [`BlobKind`] says; it becomes part of the blob's key.
    pub kind: BlobKind,
}

/// REST → BlobServer: appends bytes to an open upload; answered when the store has written them. A repetition of the last chunk changes
/// nothing. [`BlobError::BadChunk`] and [`BlobError::Busy`] leave the upload as it was; a failed write (`DiskFull`,
/// `Io`) ends it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UploadChunk {
    /// Id that [`OpenUpload`] was answered with.
    pub upload: UploadId,
    /// Offset of these bytes within the blob, in bytes: the number of bytes that have arrived before. Another offset is
    /// refused with [`BlobError::BadChunk`], unless the chunk repeats the last one.
    pub offset: u64,
    /// Bytes to append, at most [`CHUNK_BYTES_MAX`]; more are refused with [`BlobError::BadChunk`].
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// REST → BlobServer: ends an upload: the server checks the content against `hash`, stores it, and answers with the blob's key. The upload
/// is over after this even if it fails, except on [`BlobError::Busy`] (its last chunk is still being written, or an earlier `CloseUpload`
/// is being carried out). [`BlobError::BadChunk`] if
/// the upload is not open, as after an earlier `CloseUpload` ([`HasBlob`] tells whether that succeeded); `DiskFull` or `Io` if the store
/// fails. A permanent blob of the cluster is kept for at least 60 s, so that a job that needs it can be submitted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CloseUpload {
    /// Id that [`OpenUpload`] was answered with.
    pub upload: UploadId,
    /// SHA-256 that the whole content must have; another content is refused with [`BlobError::WrongHash`] and dropped.
    pub hash: ContentHash,
}

/// REST → BlobServer: asks whether the server has a blob with this content, and for its key. The answer is `None` if the blob is missing or
/// damaged (the server reads it to check, and removes a damaged file). A permanent blob of the cluster that is found is kept for at least
/// 60 s more, so that the caller can submit a job that needs it. [`BlobError::Busy`] if too many calls wait, `DiskFull` or `Io` if the
/// store fails.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HasBlob {
    /// Job that the blob belongs to; `None` for blobs of the cluster, such as programs.
    pub job: Option<JobId>,
    /// SHA-256 of the blob's content.
    pub hash: ContentHash,
}

/// Blob cache → BlobServer: reads a part of a blob; answered with its bytes, fewer than `max` at the blob's end. Puts off the blob's
/// expiry; a transient blob that was read to its end expires within a minute. [`BlobError::NotFound`] if the blob is missing,
/// [`BlobError::WrongHash`] if its file is damaged, [`BlobError::Busy`] if too many calls wait, `DiskFull` or `Io` if the store fails.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadBlob {
    /// Key of the blob to read, as [`CloseUpload`] or [`HasBlob`] returned it.
    pub key: BlobKey,
    /// Offset in bytes of the first byte to return, from 0; at or behind the blob's end the answer is empty.
    pub offset: u64,
    /// Maximum number of bytes to return; more than [`CHUNK_BYTES_MAX`] counts as that.
    pub max: u32,
}

/// Dispatcher → BlobServer: deletes all blobs of a job, because the job has ended; answered when they are deleted. Blobs
/// that belong to no job stay, and so do open uploads for the job. `BlobError::Busy` if too many calls wait, `BlobError::Io` if the store
/// fails; the call may be repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteJobBlobs {
    /// Job whose blobs are deleted; a job without blobs is no error.
    pub job: JobId,
}

/// The reason why a call to the BlobServer failed: no such blob, wrong content, a chunk out of order, too many uploads or calls, or
/// a failure of its disk.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum BlobError {
    /// The server has no blob under the key that [`ReadBlob`] names; the text is the hash of its content. ([`HasBlob`] answers `None`.)
    #[error("there is no blob {0} here")]
    NotFound(String),
    /// The uploaded content does not have the hash that [`CloseUpload`] named, or the file of a stored blob has been damaged; the
    /// upload's content, or the damaged file, is removed.
    #[error("the content of the blob has hash {actual}, not {expected}")]
    WrongHash {
        /// Hash that the content must have: that in the blob's key, or the one that `CloseUpload` named.
        expected: ContentHash,
        /// Hash computed over the bytes that arrived, or over the stored file.
        actual: ContentHash,
    },
    /// The upload is unknown (perhaps dropped), the chunk does not begin where the last one ended, or it has more than
    /// [`CHUNK_BYTES_MAX`] bytes. Of [`UploadChunk`] and [`CloseUpload`].
    #[error("no such upload, or the chunk does not follow the last one")]
    BadChunk,
    /// 64 uploads are open, too many calls (1,024) wait for the store, or the last chunk of this upload is still being
    /// written: try again. Nothing has changed.
    #[error("the blob server is busy: too many uploads or calls wait for its store")]
    Busy,
    /// The disk of the blob store is full; nothing was stored. A question for a blob, or its reading, also fails with it when the
    /// blob first has to be copied from the high-availability storage to that disk.
    #[error(
        "the disk of the blob store {dir} is full: free space there or set blob.storage.directory"
    )]
    DiskFull {
        /// Path of the store on the disk that is full, or of a file in it; of several disks the one that failed.
        dir: String,
    },
    /// Reading or writing the blob store failed for another reason than a full disk; the text says which.
    #[error("the blob store failed: {0}")]
    Io(String),
}
