//! Uploads under way: bounded in number, each fed in order, dropped when its sender stops.
//!
//! Bytes are written to their writer at once; nothing is held here.

use gateways::blob_server::UploadId;
use model::{BlobKind, JobId};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use storage::blobs::{BlobStoreError, BlobWriter};

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
pub(super) struct Upload {
    pub(super) job: Option<JobId>,
    pub(super) kind: BlobKind,
    pub(super) writer: Box<dyn BlobWriter>,
    touched: Duration,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({} bytes)", self.writer.written())
    }
}

impl Uploads {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, open: BTreeMap::new() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= self.limits.uploads_max
    }

    pub(super) fn open(
        &mut self,
        now: Duration,
        id: UploadId,
        job: Option<JobId>,
        kind: BlobKind,
        writer: Box<dyn BlobWriter>,
    ) {
        self.open.insert(id, Upload { job, kind, writer, touched: now });
    }

    /// Takes the next bytes; `None`: no such upload, or they do not follow the last ones. A repeated last
    /// chunk is taken as what it is: its answer was lost. A failed upload is given up.
    pub(super) fn append(
        &mut self,
        now: Duration,
        id: UploadId,
        offset: u64,
        bytes: &[u8],
    ) -> Option<Result<(), BlobStoreError>> {
        let upload = self.open.get_mut(&id)?;
        let written = upload.writer.written();
        if offset.checked_add(bytes.len() as u64) == Some(written) && !bytes.is_empty() {
            return Some(Ok(()));
        }
        if offset != written {
            return None;
        }
        upload.touched = now;
        let appended = upload.writer.append(bytes);
        if appended.is_err() {
            self.open.remove(&id);
        }
        Some(appended)
    }

    pub(super) fn close(&mut self, id: UploadId) -> Option<Upload> {
        self.open.remove(&id)
    }

    pub(super) fn drop_abandoned(&mut self, now: Duration) {
        let after = self.limits.abandoned_after;
        self.open.retain(|_, upload| now.saturating_sub(upload.touched) < after);
    }
}
