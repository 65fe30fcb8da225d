//! The archive of ended jobs: a small summary of each in memory, everything else as bytes in a store of
//! objects, bounded in number, bytes and age. It must never grow with the number of jobs that ever ran.

use crate::objects::{ObjectStore, StoreError};
use model::JobId;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

const PREFIX: &str = "archive/";

/// What the archive may hold; what ended first goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveBounds {
    /// Most jobs.
    pub jobs: usize,
    /// Most bytes of all.
    pub bytes: u64,
    /// Milliseconds after the end of a job.
    pub age_ms: u64,
}

/// Why an ended job could not be archived or read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArchiveError {
    /// The objects below.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bytes are whole but not what they should be.
    #[error("the archived job {job} can't be understood: {why}")]
    Malformed {
        /// Which.
        job: JobId,
        /// What is wrong.
        why: String,
    },
    /// One job alone is larger than the whole archive may be.
    #[error("job {job} takes {bytes} bytes, the archive {max}")]
    TooLarge {
        /// Which.
        job: JobId,
        /// Its size.
        bytes: u64,
        /// The bound.
        max: u64,
    },
}

#[derive(Debug)]
struct Kept<S> {
    summary: S,
    ended_ms: u64,
    bytes: u64,
}

/// Summaries `S` in memory, details by job in objects.
#[derive(Debug)]
pub struct Archive<S> {
    objects: Arc<dyn ObjectStore>,
    bounds: ArchiveBounds,
    kept: BTreeMap<JobId, Kept<S>>,
    by_age: BTreeSet<(u64, JobId)>,
    bytes: u64,
}

impl<S> Archive<S> {
    /// Empty, in objects that are this process's alone: what an earlier one left there is removed.
    ///
    /// # Errors
    /// As the store's.
    pub fn new(objects: Arc<dyn ObjectStore>, bounds: ArchiveBounds) -> Result<Self, StoreError> {
        for name in objects.list(PREFIX)? {
            objects.delete(&name)?;
        }
        Ok(Self { objects, bounds, kept: BTreeMap::new(), by_age: BTreeSet::new(), bytes: 0 })
    }

    /// Archives a job that ended at `ended_ms` (Unix), in place of what was archived of it.
    ///
    /// # Errors
    /// Nothing was archived then.
    pub fn put<T: Serialize>(
        &mut self,
        job: JobId,
        summary: S,
        details: &T,
        ended_ms: u64,
    ) -> Result<(), ArchiveError> {
        let encoded = rmp_serde::to_vec_named(details)
            .map_err(|e| ArchiveError::Malformed { job, why: e.to_string() })?;
        let bytes = encoded.len() as u64;
        if bytes > self.bounds.bytes {
            return Err(ArchiveError::TooLarge { job, bytes, max: self.bounds.bytes });
        }
        self.remove(job);
        self.objects.put(&name_of(job), encoded.into())?;
        self.kept.insert(job, Kept { summary, ended_ms, bytes });
        self.by_age.insert((ended_ms, job));
        self.bytes += bytes;
        while self.kept.len() > self.bounds.jobs || self.bytes > self.bounds.bytes {
            let Some((_, oldest)) = self.by_age.first().copied() else { break };
            self.remove(oldest);
        }
        Ok(())
    }

    /// Everything about an ended job.
    ///
    /// # Errors
    /// Where it is archived and can't be read.
    pub fn get<T: DeserializeOwned>(&self, job: JobId) -> Result<Option<T>, ArchiveError> {
        if !self.kept.contains_key(&job) {
            return Ok(None);
        }
        let Some(bytes) = self.objects.get(&name_of(job))? else {
            return Ok(None);
        };
        let details = super::decode(&bytes);
        details.map(Some).map_err(|e| ArchiveError::Malformed { job, why: e.to_string() })
    }

    /// The summary of an ended job.
    pub fn summary(&self, job: JobId) -> Option<&S> {
        self.kept.get(&job).map(|kept| &kept.summary)
    }

    /// All summaries, by job id.
    pub fn summaries(&self) -> impl Iterator<Item = (JobId, &S)> {
        self.kept.iter().map(|(job, kept)| (*job, &kept.summary))
    }

    /// Drops what is too old at `now_ms` (Unix).
    pub fn expire(&mut self, now_ms: u64) {
        while let Some((ended_ms, job)) = self.by_age.first().copied() {
            if now_ms.saturating_sub(ended_ms) < self.bounds.age_ms {
                break;
            }
            self.remove(job);
        }
    }

    fn remove(&mut self, job: JobId) {
        let Some(kept) = self.kept.remove(&job) else {
            return;
        };
        self.by_age.remove(&(kept.ended_ms, job));
        self.bytes = self.bytes.saturating_sub(kept.bytes);
        if let Err(error) = self.objects.delete(&name_of(job)) {
            tracing::warn!(%job, %error, "an archived job could not be removed");
        }
    }
}

fn name_of(job: JobId) -> String {
    format!("{PREFIX}{job}")
}
