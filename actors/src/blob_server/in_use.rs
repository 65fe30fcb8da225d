//! Which permanent blobs somebody needs, as the leading Dispatcher of this process knows: the programs of its
//! jobs, and the blobs of the jobs themselves.
//!
//! Where no Dispatcher of this process leads, nothing is known and everything is kept: the store may be
//! shared with the process that does lead.

use model::{BlobKey, BlobKind, ContentHash, JobId};
use platform::watch;
use std::collections::BTreeSet;

/// What is needed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needed {
    /// Programs of all jobs that are being built, run, or put in order.
    pub programs: BTreeSet<ContentHash>,
    /// These jobs.
    pub jobs: BTreeSet<JobId>,
}

impl Needed {
    fn includes(&self, key: &BlobKey) -> bool {
        match key.job {
            None => self.programs.contains(&key.hash),
            Some(job) => self.jobs.contains(&job),
        }
    }
}

/// What is needed now; the Dispatcher's and the BlobServer's common knowledge. A cheap handle.
#[derive(Debug, Clone, Default)]
pub struct BlobsInUse(watch::Sender<Option<Needed>>);

impl BlobsInUse {
    /// From now on this is needed and nothing else; `None`: that is not known here.
    pub fn set(&self, needed: Option<Needed>) {
        self.0.set(needed);
    }

    /// What is needed.
    pub fn get(&self) -> Option<Needed> {
        self.0.borrow().clone()
    }

    /// Whether a blob has to stay whatever its age.
    pub(super) fn keeps(&self, key: &BlobKey) -> bool {
        let known = self.0.borrow();
        key.kind == BlobKind::Permanent && known.as_ref().is_none_or(|needed| needed.includes(key))
    }
}
