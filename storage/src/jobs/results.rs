//! The job result store: how each job ended, written once. A result is *dirty* until the job's other
//! traces (graph, blobs) are gone, so that a JobManager that dies in between finishes the work later; it
//! stays afterwards, so that a job id is used once.

use super::JobStoreError;
use crate::objects::{ObjectStore, PutNew};
use model::{FailureCause, JobId, JobStatus};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const PREFIX: &str = "jobs/results/";
const CLEAN: &str = ".clean";
const RESULT: &str = ".json";

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResultEntry {
    /// Which.
    pub job_id: JobId,
    /// Its name.
    pub name: String,
    /// Globally terminal.
    pub status: JobStatus,
    /// Why it failed.
    pub cause: Option<FailureCause>,
    /// Unix milliseconds of its submission.
    pub start_ms: u64,
    /// Unix milliseconds of its end.
    pub end_ms: u64,
}

/// What came of recording a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedResult {
    /// It is the job's result from now on.
    Recorded,
    /// The job had ended before: this is its result.
    EndedBefore(JobResultEntry),
}

/// Results, by job.
#[derive(Debug, Clone)]
pub struct JobResultStore {
    objects: Arc<dyn ObjectStore>,
}

impl JobResultStore {
    /// On a store of objects.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects }
    }

    /// Records how a job ended, as dirty. The first one wins, whoever wrote it.
    ///
    /// # Errors
    /// As the store's.
    pub fn record(&self, entry: &JobResultEntry) -> Result<RecordedResult, JobStoreError> {
        let name = result_name(entry.job_id);
        let bytes = serde_json::to_vec(entry).map_err(|e| self.wrong(&name, &e))?;
        match self.objects.put_new(&name, bytes.into())? {
            PutNew::Created => Ok(RecordedResult::Recorded),
            PutNew::Exists => match self.get(entry.job_id)? {
                Some(first) => Ok(RecordedResult::EndedBefore(first)),
                None => Err(self.wrong(&name, &"it was removed while it was read")),
            },
        }
    }

    /// How a job ended.
    ///
    /// # Errors
    /// As the store's, or [`JobStoreError::Malformed`].
    pub fn get(&self, job: JobId) -> Result<Option<JobResultEntry>, JobStoreError> {
        self.read(&result_name(job))
    }

    /// Results of jobs whose traces were not put in order yet, by ascending job id.
    ///
    /// # Errors
    /// As the store's. A result that can't be read is left out: its job is still known to have ended.
    pub fn dirty(&self) -> Result<Vec<JobResultEntry>, JobStoreError> {
        let names = self.objects.list(PREFIX)?;
        let clean: std::collections::BTreeSet<&str> =
            names.iter().filter_map(|name| name.strip_suffix(CLEAN)).collect();
        let mut found = Vec::new();
        for name in &names {
            let dirty = name.strip_suffix(RESULT).is_some_and(|stem| !clean.contains(stem));
            if !dirty {
                continue;
            }
            match self.read(name) {
                Ok(entry) => found.extend(entry),
                Err(error) => tracing::error!(%error, "a job result can't be read"),
            }
        }
        Ok(found)
    }

    /// The job's traces are gone.
    ///
    /// # Errors
    /// As the store's.
    pub fn mark_clean(&self, job: JobId) -> Result<(), JobStoreError> {
        let _ = self.objects.put_new(&format!("{PREFIX}{job}{CLEAN}"), bytes::Bytes::new())?;
        Ok(())
    }

    fn read(&self, name: &str) -> Result<Option<JobResultEntry>, JobStoreError> {
        let Some(bytes) = self.objects.get(name)? else {
            return Ok(None);
        };
        let entry: JobResultEntry =
            serde_json::from_slice(&bytes).map_err(|e| self.wrong(name, &e))?;
        if result_name(entry.job_id) != name {
            return Err(self.wrong(name, &format!("it holds the result of job {}", entry.job_id)));
        }
        Ok(Some(entry))
    }

    fn wrong(&self, name: &str, why: &dyn std::fmt::Display) -> JobStoreError {
        JobStoreError::Malformed {
            name: name.to_owned(),
            location: self.objects.location(),
            why: why.to_string(),
        }
    }
}

fn result_name(job: JobId) -> String {
    format!("{PREFIX}{job}{RESULT}")
}
