//! Uploads under way: bounded in number, each fed in order, dropped when its sender stops.
//!
//! An upload's writer is either here or with the store, for one call at a time: that keeps the order of its
//! chunks. Bytes go to the writer at once; nothing is held here.

use gateways::blob_server::{BlobError, UploadId};
use model::{BlobKind, JobId};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use storage::blobs::BlobWriter;

/// The bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most at once.
    pub(super) uploads_max: usize,
    /// An upload without a chunk for so long is given up.
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
struct Upload {
    job: Option<JobId>,
    kind: BlobKind,
    /// `None` while the store begins, feeds or finishes the upload.
    writer: Option<Box<dyn BlobWriter>>,
    /// Bytes that the store has taken.
    written: u64,
    touched: Duration,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({} bytes)", self.written)
    }
}

/// An upload whose last chunk has come.
pub(super) struct Closed {
    pub(super) job: Option<JobId>,
    pub(super) kind: BlobKind,
    pub(super) writer: Box<dyn BlobWriter>,
}

impl Uploads {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, open: BTreeMap::new() }
    }

    /// Keeps a place for an upload that the store is to begin: [`Uploads::resume`] or [`Uploads::remove`]
    /// follows.
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

    /// Returns the writer that takes a chunk of `size` bytes: [`Uploads::resume`] or [`Uploads::remove`]
    /// follows. `None`: the chunk is the last one once more, whose answer was lost, and nothing is to do.
    ///
    /// # Errors
    /// [`BlobError::BadChunk`]: no such upload, or the chunk does not follow the last one.
    /// [`BlobError::Busy`]: the store has not finished with the last one.
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

    /// The store has taken `size` more bytes; the next chunk may come.
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

    /// Takes an upload to be finished. Its place is kept until [`Uploads::remove`].
    ///
    /// # Errors
    /// As of [`Uploads::take_writer`].
    pub(super) fn close(&mut self, id: UploadId) -> Result<Closed, BlobError> {
        let upload = self.open.get_mut(&id).ok_or(BlobError::BadChunk)?;
        let writer = upload.writer.take().ok_or(BlobError::Busy)?;
        Ok(Closed { job: upload.job, kind: upload.kind, writer })
    }

    /// Ends an upload that is finished or has failed.
    pub(super) fn remove(&mut self, id: UploadId) {
        self.open.remove(&id);
    }

    /// Drops the uploads whose sender has stopped. For one that waits for the store, the sender may wait too.
    pub(super) fn drop_abandoned(&mut self, now: Duration) {
        let after = self.limits.abandoned_after;
        self.open.retain(|_, upload| {
            upload.writer.is_none() || now.saturating_sub(upload.touched) < after
        });
    }
}
