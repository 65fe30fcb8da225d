//! Output files in a folder of a bucket. A file in progress is an upload in parts, which is completed when the file is
//! published: until then nothing is visible. S3 itself removes uploads that are never completed, by a lifecycle rule of the
//! bucket (`AbortIncompleteMultipartUpload`); the client cannot list them.

use super::{OutputFile, OutputFolder, PendingOutput, Published, Unpublished};
use crate::objects::{S3Settings, StoreError, StoreFuture, s3::S3, unknown_uri};
use bytes::Bytes;
use object_store::{
    Error, ObjectStoreExt as _,
    multipart::{MultipartStore as _, PartId},
    path::Path,
};
use std::sync::Arc;

/// S3 wants at least 5 MiB for each part but the last; some servers want equal sizes.
const PIECE_BYTES: usize = 8 << 20;

/// A folder of a bucket.
#[derive(Debug)]
pub(super) struct S3Folder {
    store: Arc<S3>,
}

impl S3Folder {
    /// `rest` is the URI behind `s3://`.
    pub(super) fn open(uri: &str, rest: &str, settings: &S3Settings) -> Result<Self, StoreError> {
        let (bucket, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if bucket.is_empty() {
            return Err(unknown_uri(uri, "it names no bucket".to_owned()));
        }
        Ok(Self { store: Arc::new(S3::open(uri, bucket, path, settings)?) })
    }
}

impl OutputFolder for S3Folder {
    fn create(&self, name: &str, _owner: &str) -> StoreFuture<Box<dyn OutputFile>> {
        let (store, name) = (self.store.clone(), name.to_owned());
        Box::pin(async move {
            let path = store.path(&name);
            let upload = store.client().create_multipart(&path).await;
            let upload = upload.map_err(|error| store.error(&name, &error))?;
            let upload = Upload { store, path, name, upload, parts: Vec::new(), bytes: 0 };
            Ok(Box::new(upload) as Box<dyn OutputFile>)
        })
    }

    fn publish(&self, pending: PendingOutput) -> StoreFuture<Published> {
        let store = self.store.clone();
        Box::pin(async move {
            let path = store.path(&pending.name);
            let parts = pending.parts.iter().map(|tag| PartId { content_id: tag.clone() });
            let completed =
                store.client().complete_multipart(&path, &pending.hidden, parts.collect()).await;
            let Err(error) = completed else { return Ok(Published::Done) };
            // The upload is gone if it was completed before; its answer may have been lost.
            match store.client().head(&path).await {
                Ok(object) if object.size == pending.bytes => Ok(Published::Done),
                Ok(_) | Err(Error::NotFound { .. }) if gone(&error) => Ok(Published::Missing),
                _ => Err(store.error(&pending.name, &error)),
            }
        })
    }

    fn unpublished(&self, _owner: &str) -> StoreFuture<Vec<Unpublished>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn discard(&self, _file: Unpublished) -> StoreFuture<()> {
        Box::pin(async { Ok(()) })
    }

    fn piece_bytes(&self) -> usize {
        PIECE_BYTES
    }
}

/// Returns true if the error says that there is no such upload.
fn gone(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) || format!("{error:?}").contains("NoSuchUpload")
}

struct Upload {
    store: Arc<S3>,
    path: Path,
    name: String,
    upload: String,
    parts: Vec<String>,
    bytes: u64,
}

impl OutputFile for Upload {
    fn write(mut self: Box<Self>, bytes: Bytes) -> StoreFuture<Box<dyn OutputFile>> {
        Box::pin(async move {
            self.bytes += bytes.len() as u64;
            let put = self.store.client().put_part(
                &self.path,
                &self.upload,
                self.parts.len(),
                bytes.into(),
            );
            let part = put.await.map_err(|error| self.store.error(&self.name, &error))?;
            self.parts.push(part.content_id);
            Ok(self as Box<dyn OutputFile>)
        })
    }

    fn finish(self: Box<Self>) -> StoreFuture<PendingOutput> {
        let Self { name, upload, parts, bytes, .. } = *self;
        Box::pin(async move { Ok(PendingOutput { name, hidden: upload, parts, bytes }) })
    }
}
