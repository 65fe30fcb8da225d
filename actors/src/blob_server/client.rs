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

/// The reason why a blob was not sent or fetched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlobClientError {
    /// The server refused a call; its error says why.
    #[error(transparent)]
    Server(#[from] BlobError),
    /// The server did not answer, or the call did not reach it.
    #[error("the blob server can't be asked: {0}")]
    Fabric(#[from] FabricError),
    /// Reading or writing the local file failed, or what arrived has another hash.
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
    /// Returns true if the same call, made again, may succeed: the server was busy, did not answer,
    /// or the bytes were damaged on the way.
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

/// A client of one BlobServer, which sends and fetches whole blobs in chunks. Cheap to clone.
#[derive(Clone)]
pub struct BlobClient {
    server: Remote<BlobServerGateway>,
}

impl BlobClient {
    /// Makes a client of the server behind this gateway. Calls nothing yet.
    pub fn new(server: Remote<BlobServerGateway>) -> Self {
        Self { server }
    }

    /// Sends bytes in chunks of 1 MiB, unless the server has them already with the same job and lifetime. Returns the blob's key.
    ///
    /// # Errors
    /// A [`BlobClientError`] at the first failed call, which is not repeated; the server drops what was sent after a
    /// minute.
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

    /// Fetches a blob into a store, four chunks at a time. The store checks the content against the
    /// key's hash and shows the blob only if it is right.
    ///
    /// # Errors
    /// A [`BlobClientError`] at the first failed call, which is not repeated; nothing is kept then.
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
