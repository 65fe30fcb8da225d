//! The making of one copy of a program, which other threads may give up.
//!
//! Suppose that a job is cancelled while its program is copied into the object store. The program's removal must not end before the last
//! part is written, or the part would stay.

use super::BlobFuture;
use futures::future::Shared;
use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

/// A copy that is being made or has been made.
#[derive(Debug)]
pub(super) struct Kept {
    /// The outcome of making it, for all jobs that wait for it.
    pub(super) made: Shared<BlobFuture<()>>,
    pub(super) progress: Arc<CopyProgress>,
}

/// How far the making of a copy is.
#[derive(Debug, Default)]
pub(super) struct CopyProgress(AtomicU8);

impl CopyProgress {
    /// It waits for other copies to be made.
    const QUEUED: u8 = 0;
    /// It is being written or has been written.
    const BEGUN: u8 = 1;
    /// Nothing needs it any more: nothing more is written, and its parts are deleted.
    const UNWANTED: u8 = 2;

    /// Returns false if nothing needs the copy.
    pub(super) fn begin(&self) -> bool {
        let (queued, begun) = (Self::QUEUED, Self::BEGUN);
        self.0.compare_exchange(queued, begun, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
    pub(super) fn is_unwanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::UNWANTED
    }
    /// Records that nothing needs the copy. Returns true if it may be being written.
    pub(super) fn give_up(&self) -> bool {
        self.0.swap(Self::UNWANTED, Ordering::Relaxed) != Self::QUEUED
    }
}

impl Kept {
    /// Returns after the last write of this copy. What has been written by then stays if the copy is complete.
    pub(super) async fn give_up(self) {
        if self.progress.give_up() {
            // Those that wait for the copy are told of a failure; here only the end of the writing matters.
            let _ = self.made.await;
        }
    }
}
