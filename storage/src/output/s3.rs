//! Output files in a folder of a bucket. A file in progress is an upload in parts, which is completed when the file is
//! published: until then nothing is visible. An upload has no name but that of its object, by whose tag its owner is known. A savepoint
//! holds an upload by an empty hidden object, since uploads cannot be renamed. Uploads that no later attempt discards are left to a
//! lifecycle rule of the bucket (`AbortIncompleteMultipartUpload`).

use super::{KEPT, OutputFile, OutputFolder, PendingOutput, Published, Unpublished, digits, tag};
use crate::objects::{S3Settings, StoreError, StoreFuture, s3::S3, unknown_uri};
use bytes::Bytes;
use object_store::{
    Error, ObjectStoreExt as _, PutPayload,
    multipart::{MultipartStore as _, PartId},
    path::Path,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// S3 wants at least 5 MiB for each part but the last; some servers want equal sizes.
const PIECE_BYTES: usize = 8 << 20;

/// A folder of a bucket.
#[derive(Debug)]
pub(super) struct S3Folder {
    store: Arc<S3>,
    /// The uploads that were kept by this value and have not been published by it since.
    kept: Arc<Mutex<BTreeSet<String>>>,
}

impl S3Folder {
    /// `rest` is the URI behind `s3://`.
    pub(super) fn open(uri: &str, rest: &str, settings: &S3Settings) -> Result<Self, StoreError> {
        let (bucket, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if bucket.is_empty() {
            return Err(unknown_uri(uri, "it names no bucket".to_owned()));
        }
        let store = Arc::new(S3::open(uri, bucket, path, settings)?);
        Ok(Self { store, kept: Arc::default() })
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
        let (store, kept) = (self.store.clone(), self.kept.clone());
        Box::pin(async move {
            let published = complete(&store, &pending).await?;
            let was_kept =
                || kept.lock().unwrap_or_else(PoisonError::into_inner).remove(&pending.hidden);
            if published == Published::Done && was_kept() {
                let mark = kept_mark(&pending.hidden);
                if let Err(error) = store.client().delete(&store.path(&mark)).await {
                    // The mark is empty and hidden, and no upload has its id any more.
                    tracing::debug!(mark, %error, "the mark of a published upload stays");
                }
            }
            Ok(published)
        })
    }

    fn keep(&self, hidden: String) -> StoreFuture<()> {
        let (store, kept) = (self.store.clone(), self.kept.clone());
        Box::pin(async move {
            let mark = kept_mark(&hidden);
            let put = store.client().put(&store.path(&mark), PutPayload::new()).await;
            put.map_err(|error| store.error(&mark, &error))?;
            kept.lock().unwrap_or_else(PoisonError::into_inner).insert(hidden);
            Ok(())
        })
    }

    fn unpublished(&self, owner: &str) -> StoreFuture<Vec<Unpublished>> {
        let (store, field) = (self.store.clone(), format!("-{}-", tag(owner)));
        Box::pin(async move {
            let uploads = store.open_uploads().await?.into_iter();
            let own = uploads.filter(|upload| upload.name.contains(&field));
            Ok(own.map(|upload| Unpublished { name: upload.name, hidden: upload.id }).collect())
        })
    }

    fn discard(&self, file: Unpublished) -> StoreFuture<()> {
        let store = self.store.clone();
        Box::pin(async move {
            let mark = kept_mark(&file.hidden);
            match store.client().head(&store.path(&mark)).await {
                // A savepoint holds the upload.
                Ok(_) => return Ok(()),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(store.error(&mark, &error)),
            }
            match store.client().abort_multipart(&store.path(&file.name), &file.hidden).await {
                Err(error) if !gone(&error) => Err(store.error(&file.name, &error)),
                _ => Ok(()),
            }
        })
    }

    fn piece_bytes(&self) -> usize {
        PIECE_BYTES
    }
}

/// Completes an upload; one that is gone was completed before if the object of its name has its length.
async fn complete(store: &S3, pending: &PendingOutput) -> Result<Published, StoreError> {
    let path = store.path(&pending.name);
    let parts = pending.parts.iter().map(|tag| PartId { content_id: tag.clone() });
    let completed = store.client().complete_multipart(&path, &pending.hidden, parts.collect());
    let Err(error) = completed.await else { return Ok(Published::Done) };
    // The answer to an earlier request may have been lost.
    match store.client().head(&path).await {
        Ok(object) if object.size == pending.bytes => Ok(Published::Done),
        Ok(_) | Err(Error::NotFound { .. }) if gone(&error) => Ok(Published::Missing),
        _ => Err(store.error(&pending.name, &error)),
    }
}

/// Returns the name of the empty object by which a savepoint holds an upload. It has a digest of the id, since servers choose its length.
fn kept_mark(upload: &str) -> String {
    format!(".upload-{}{KEPT}", digits(upload, 16))
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
