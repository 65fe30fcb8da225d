//! A client of the BlobServer: sends chunks in order, fetches several at once.
//!
//! This module must never name content that it has not hashed itself.

use futures::{StreamExt as _, stream};
use gateways::Remote;
use gateways::blob_server::{
    BlobError, BlobServerGateway, CHUNK_BYTES_MAX, CloseUpload, HasBlob, OpenUpload, ReadBlob,
    UploadChunk,
};
use gateways::{CallError, FabricError};
use model::{BlobKey, BlobKind, ContentHash, JobId};
use storage::blobs::{BlobStore, BlobStoreError, hash_bytes};
use thiserror::Error;

/// Chunks of one blob that are asked for at once.
const READS_AT_ONCE: usize = 4;

/// The error of [`BlobClient`] and the cause in [`super::BlobFetchError::Failed`]: a refusal of the server, a call without an answer, or,
/// when a blob is fetched, a failure of the local store or wrong content.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlobClientError {
    /// The server answered a call with a refusal: it is busy, does not have the blob, its disk is full or fails, the content that was
    /// uploaded or that its file has is of another hash, or it has given up the upload meanwhile (as after a minute without a chunk).
    #[error(transparent)]
    Server(#[from] BlobError),
    /// The call got no answer: the server was not reached, runs in another session, or did not answer in time.
    #[error("the blob server can't be asked: {0}")]
    Fabric(#[from] FabricError),
    /// The local store could not read or write the blob, or the content that arrived does not have the expected hash. An upload never
    /// fails with it.
    #[error(transparent)]
    Local(#[from] BlobStoreError),
}

impl From<CallError<BlobError>> for BlobClientError {
    fn from(error: CallError<BlobError>) -> Self {
        match error {
            CallError::Refused(error) => Self::Server(error),
            CallError::Fabric(error) => Self::Fabric(error),
        }
    }
}

impl BlobClientError {
    /// Returns true if the same call, made again, may succeed: the server was busy or not reached in time, the call was lost on the
    /// way, or the bytes that arrived had another hash. False for every other refusal of the server, for a server of another session,
    /// and for a failure of the local store.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Server(BlobError::Busy) => true,
            Self::Fabric(error) => error.is_retriable(),
            // Damaged on the way, or changed under the reader's eyes.
            Self::Local(BlobStoreError::WrongHash { .. }) => true,
            Self::Server(_) | Self::Local(_) => false,
        }
    }
}

/// A client of one BlobServer (the server of programs and files by content hash), which sends and fetches whole blobs
/// in chunks. It repeats no failed call, and keeps nothing between calls. Cheap to clone.
#[derive(Clone)]
pub struct BlobClient {
    server: Remote<BlobServerGateway>,
}

impl BlobClient {
    /// Makes a client of the BlobServer behind this gateway. Calls nothing yet.
    pub fn new(server: Remote<BlobServerGateway>) -> Self {
        Self { server }
    }

    /// Sends bytes to the server in chunks of at most 1 MiB, one after the other, to be kept as a blob of `job` (`None`: of no job)
    /// with lifetime `kind`; sends nothing if the server has the same content with that job and lifetime already. Returns
    /// the blob's key once the server has stored the blob.
    ///
    /// # Errors
    /// Returns [`BlobClientError::Server`] or [`BlobClientError::Fabric`] at the first failed call, which is not repeated; the server
    /// drops what was sent after a minute.
    pub async fn upload_bytes(
        &self,
        bytes: &[u8],
        job: Option<JobId>,
        kind: BlobKind,
    ) -> Result<BlobKey, BlobClientError> {
        let hash = hash_bytes(bytes);
        if let Some(key) = self.find(job, kind, hash).await? {
            return Ok(key);
        }
        let upload = self.server.ask(OpenUpload { job, kind }).await?;
        let mut offset = 0;
        for chunk in bytes.chunks(CHUNK_BYTES_MAX) {
            let bytes = chunk.to_vec();
            self.server.ask(UploadChunk { upload, offset, bytes }).await?;
            offset += chunk.len() as u64;
        }
        Ok(self.server.ask(CloseUpload { upload, hash }).await?)
    }

    /// Fetches a blob into a store, in chunks of 1 MiB of which four are requested at once, and returns when the store has it. The
    /// store checks the content against the key's hash and gives the blob out only if it matches. Does not look first whether the
    /// store has the blob already.
    ///
    /// # Errors
    /// Returns a [`BlobClientError`] at the first failed call, which is not repeated, if the store fails, or if the content has another
    /// hash; nothing is kept then.
    pub async fn fetch(&self, key: &BlobKey, store: &dyn BlobStore) -> Result<(), BlobClientError> {
        let step = CHUNK_BYTES_MAX as u64;
        let chunks = key.size.div_ceil(step);
        let reads = (0..chunks).map(|n| {
            let offset = n * step;
            let read = ReadBlob { key: *key, offset, max: CHUNK_BYTES_MAX as u32 };
            let server = self.server.clone();
            async move { server.ask(read).await }
        });
        let mut writer = store.begin().await?;
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        while let Some(chunk) = reads.next().await {
            writer = writer.append(chunk?.into_vec().into()).await?;
        }
        drop(reads);
        writer.finish(key.job, key.kind, key.hash).await?;
        Ok(())
    }

    async fn find(
        &self,
        job: Option<JobId>,
        kind: BlobKind,
        hash: ContentHash,
    ) -> Result<Option<BlobKey>, BlobClientError> {
        let found = self.server.ask(HasBlob { job, hash }).await?;
        Ok(found.filter(|key| key.kind == kind))
    }
}
