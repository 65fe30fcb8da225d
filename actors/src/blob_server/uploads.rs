//! Open uploads: limited in number, each receives its chunks in order and is dropped when its sender stops.
//!
//! An upload's writer is either here or in use by one call to the store; that keeps the order of the chunks. Bytes go
//! to the writer at once, and none are buffered here.

use gateways::blob_server::{BlobError, UploadId};
use model::{BlobKind, JobId};
use std::collections::BTreeMap;
use std::time::Duration;
use storage::blobs::BlobWriter;

/// Bounds of uploads that are under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Largest number of uploads at the same time.
    pub(super) uploads_max: usize,
    /// Time without a chunk after which an upload is given up.
    pub(super) abandoned_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { uploads_max: 64, abandoned_after: Duration::from_secs(60) }
    }
}

/// All uploads under way.
#[derive(Debug)]
pub(super) struct Uploads {
    limits: Limits,
    open: BTreeMap<UploadId, Upload>,
}

/// One of them.
#[derive(derive_more::Debug)]
#[debug("Upload({} bytes)", self.written)]
struct Upload {
    job: Option<JobId>,
    kind: BlobKind,
    /// `None` while the store begins, writes or finishes the upload.
    writer: Option<Box<dyn BlobWriter>>,
    /// Number of bytes that the store has written.
    written: u64,
    touched: Duration,
}

/// An upload whose last chunk has been written.
pub(super) struct Closed {
    pub(super) job: Option<JobId>,
    pub(super) kind: BlobKind,
    pub(super) writer: Box<dyn BlobWriter>,
}

impl Uploads {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, open: BTreeMap::new() }
    }

    /// Reserves a place for an upload that the store is about to begin. The caller then calls [`Uploads::resume`] or
    /// [`Uploads::remove`].
    pub(super) fn open(
        &mut self,
        now: Duration,
        id: UploadId,
        job: Option<JobId>,
        kind: BlobKind,
    ) -> Result<(), BlobError> {
        if self.open.len() >= self.limits.uploads_max {
            return Err(BlobError::Busy);
        }
        let upload = Upload { job, kind, writer: None, written: 0, touched: now };
        self.open.insert(id, upload);
        Ok(())
    }

    /// Takes the writer for a chunk of `size` bytes; the caller then calls [`Uploads::resume`] or [`Uploads::remove`].
    /// Returns `None` if the chunk repeats the last one, whose answer was lost, and nothing is to be done.
    ///
    /// # Errors
    /// [`BlobError::BadChunk`] if there is no such upload, or the chunk does not follow the last one.
    /// [`BlobError::Busy`] if the store is still writing the last one.
    pub(super) fn take_writer(
        &mut self,
        id: UploadId,
        offset: u64,
        size: u64,
    ) -> Result<Option<Box<dyn BlobWriter>>, BlobError> {
        let upload = self.open.get_mut(&id).ok_or(BlobError::BadChunk)?;
        if upload.writer.is_none() {
            return Err(BlobError::Busy);
        }
        if offset.checked_add(size) == Some(upload.written) && size > 0 {
            return Ok(None);
        }
        if offset != upload.written {
            return Err(BlobError::BadChunk);
        }
        Ok(upload.writer.take())
    }

    /// Returns the writer after the store has written `size` more bytes; the next chunk may come.
    pub(super) fn resume(
        &mut self,
        now: Duration,
        id: UploadId,
        writer: Box<dyn BlobWriter>,
        size: u64,
    ) {
        if let Some(upload) = self.open.get_mut(&id) {
            upload.writer = Some(writer);
            upload.written = upload.written.saturating_add(size);
            upload.touched = now;
        }
    }

    /// Takes the writer of an upload that is to be finished. Its place is kept until [`Uploads::remove`].
    ///
    /// # Errors
    /// Fails as [`Uploads::take_writer`] does.
    pub(super) fn close(&mut self, id: UploadId) -> Result<Closed, BlobError> {
        let upload = self.open.get_mut(&id).ok_or(BlobError::BadChunk)?;
        let writer = upload.writer.take().ok_or(BlobError::Busy)?;
        Ok(Closed { job: upload.job, kind: upload.kind, writer })
    }

    /// Removes an upload that is finished or has failed.
    pub(super) fn remove(&mut self, id: UploadId) {
        self.open.remove(&id);
    }

    /// Drops the uploads whose sender has stopped. An upload that waits for the store is kept, because its sender may
    /// be waiting too.
    pub(super) fn drop_abandoned(&mut self, now: Duration) {
        let after = self.limits.abandoned_after;
        self.open.retain(|_, upload| {
            upload.writer.is_none() || now.saturating_sub(upload.touched) < after
        });
    }
}
