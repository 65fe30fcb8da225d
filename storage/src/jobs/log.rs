//! Each job's facts as a numbered log of small objects, `jobs/<job id>/<number>`, written by create-if-absent.
//!
//! A new leader appends its own [`JobFact::Owner`] record first. Suppose leader A has read a log up to record 4 and is
//! stopped before it writes record 5 (job FAILED). Leader B takes over and appends record 5 (Owner). When A continues,
//! its append finds number 5 taken and fails with [`AppendError::Superseded`]: A's result never becomes visible.
//! Objects are deleted only after the log says [`JobFact::Removed`], record 0 first. A log without record 0 is no job,
//! so a record that an old leader appends even later is ignored, and deleted when the log is read next.
//!
//! Suppose an old leader writes record 0 of a new job after the new leader has taken over all jobs. No leader would run
//! that job before the next take-over. Each leader therefore writes a mark (`jobs/taken-over/<session>`) once it has
//! taken over, and a job whose records are all older than the newest mark is a ghost.
//!
//! This module must never retry a failed write by itself: the caller repeats the same append, which succeeds if the
//! first one took effect after all.

use super::record::{JobFact, JobRecord, Writer};
use super::replay::{JobState, Numbered, Replayed, replay};
use crate::ha::Lease;
use crate::objects::{ObjectStore, PutNew, StoreError};
use bytes::Bytes;
use model::{JobGraph, JobId, LeaderSession};
use platform::Platform;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

pub(super) const PREFIX: &str = "jobs/";
const MARKS: &str = "taken-over";
/// Maximum number of records of earlier logs that an append skips, and of attempts of one take-over.
const TRIES_MAX: u32 = 100;

/// The position of a log's next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// The job that the log belongs to.
    pub job: JobId,
    log: u64,
    next: u64,
}

/// The reason why a fact was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AppendError {
    /// Another leader has written to the log: this leader must not act for the job any more.
    #[error("job {job} belongs to another leader{}; this leader's record is not kept", writer_text(.by))]
    Superseded {
        /// The job.
        job: JobId,
        /// The other leader, if its record can be read.
        by: Option<Writer>,
    },
    /// The process no longer holds the leader's lease, so the record does not count even if it was written.
    #[error("the leader's lease is over; nothing is recorded about job {job}")]
    LeaseOver {
        /// The job.
        job: JobId,
    },
    /// A log of this job id exists already; nothing was written.
    #[error("a log of job {job} exists already")]
    Exists {
        /// The job.
        job: JobId,
    },
    /// The record cannot be encoded.
    #[error("cannot encode a record of job {job}: {why}")]
    Encode {
        /// The job.
        job: JobId,
        /// The encoder's message.
        why: String,
    },
    /// The store failed. The record may or may not have been written; the caller should repeat the same append.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn writer_text(writer: &Option<Writer>) -> String {
    let by = |w: &Writer| format!(" ({} at {})", w.session, w.address);
    writer.as_ref().map(by).unwrap_or_default()
}

/// A log as a leader has read it. If the job is running or damaged, the leader owns the log.
#[derive(Debug, Clone, PartialEq)]
pub struct TakenOver {
    /// The job's state according to the log.
    pub state: JobState,
    /// The position of the next record.
    pub end: LogEnd,
}

/// The logs of all jobs of a cluster, as one leader uses them. Clones share the store.
#[derive(Clone)]
pub struct JobLogs {
    objects: Arc<dyn ObjectStore>,
    platform: Platform,
    lease: Lease,
}

impl fmt::Debug for JobLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobLogs({})", self.objects.location())
    }
}

impl JobLogs {
    /// Returns the logs in `objects`. Each write first checks that `lease` is held.
    pub fn new(objects: Arc<dyn ObjectStore>, platform: Platform, lease: Lease) -> Self {
        Self { objects, platform, lease }
    }

    /// Creates the log of a new job; `log` is a random number that identifies it. If the store fails, this tries to
    /// withdraw the log again: the submitter is told of a failure, so the next leader should not run the job.
    ///
    /// # Errors
    /// [`AppendError::Exists`] if there is a log of this job id; [`AppendError::LeaseOver`] if the lease ended before
    /// or while the record was written.
    pub async fn create(
        self,
        graph: Arc<JobGraph>,
        log: u64,
        writer: Writer,
    ) -> Result<LogEnd, AppendError> {
        let job = graph.job_id;
        let record = JobRecord { job, log, writer, fact: JobFact::Graph(graph) };
        let end = LogEnd { job, log, next: 1 };
        match self.put(&record, 0).await {
            // A leader whose lease ended during the write does not know whether its successor listed the jobs before
            // this record appeared, so it must not report the job as accepted.
            Ok(Put::Written) if !self.lease.holds(self.platform.now()) => {
                Err(AppendError::LeaseOver { job })
            }
            Ok(Put::Written) => Ok(end),
            Ok(Put::Taken(_)) => Err(AppendError::Exists { job }),
            Err(error @ AppendError::Store(_)) => {
                self.withdraw(end, record.writer).await;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Withdraws a log whose creation has failed. Its record 0 may be there all the same, may still appear, or may be
    /// the record of a job that was accepted earlier under the same id: another log's objects are never touched, and
    /// nothing is while nobody can say whose they are.
    async fn withdraw(self, end: LogEnd, writer: Writer) {
        let first = match self.objects.get(&name_of(end.job, 0)).await {
            Ok(first) => first,
            Err(_) => return,
        };
        let is_own = |bytes: &Bytes| JobRecord::try_decode(bytes).is_ok_and(|r| r.log == end.log);
        let created = first.as_ref().is_some_and(is_own);
        if first.is_some() && !created {
            return;
        }
        let removed = self.clone().append(end, JobFact::Removed, writer).await;
        if removed.is_ok() && created {
            // If this fails, the objects that remain say that the job is removed.
            let _ = self.delete(end.job).await;
        }
    }

    /// Appends a fact. Returns the position after it.
    ///
    /// # Errors
    /// [`AppendError::Superseded`] if another leader has appended since `end` was read.
    pub async fn append(
        self,
        mut end: LogEnd,
        fact: JobFact,
        writer: Writer,
    ) -> Result<LogEnd, AppendError> {
        let job = end.job;
        let record = JobRecord { job, log: end.log, writer, fact };
        for _ in 0..TRIES_MAX {
            let number = end.next;
            end.next = number.saturating_add(1);
            match self.put(&record, number).await? {
                Put::Written => return Ok(end),
                // The record was left behind by an earlier log of this job id.
                Put::Taken(Some(other)) if other.log != end.log => {}
                Put::Taken(other) => {
                    return Err(AppendError::Superseded { job, by: other.map(|r| r.writer) });
                }
            }
        }
        Err(AppendError::Superseded { job, by: None })
    }

    /// Lists the jobs that have records, in ascending order of their ids.
    ///
    /// # Errors
    /// The store's error.
    pub async fn list(self) -> Result<Vec<JobId>, StoreError> {
        let names = self.objects.list(PREFIX).await?;
        let mut jobs: Vec<JobId> =
            names.iter().filter_map(|name| Some(numbered(name)?.0)).collect();
        jobs.dedup();
        Ok(jobs)
    }

    /// Returns the newest session below `session` whose leader had taken over all jobs; `None` if there is none.
    ///
    /// # Errors
    /// The store's error.
    pub async fn newest_mark(
        self,
        session: LeaderSession,
    ) -> Result<Option<LeaderSession>, StoreError> {
        let names = self.objects.list(&format!("{PREFIX}{MARKS}/")).await?;
        Ok(names.iter().filter_map(|name| mark_of(name)).filter(|mark| *mark < session).max())
    }

    /// Records that the leader with this session has taken over all jobs, and removes older marks.
    ///
    /// # Errors
    /// The store's error.
    pub async fn mark_taken_over(self, session: LeaderSession) -> Result<(), StoreError> {
        let _ = self.objects.put_new(&mark_name(session), Bytes::new()).await?;
        for name in self.objects.list(&format!("{PREFIX}{MARKS}/")).await? {
            if mark_of(&name).is_none_or(|mark| mark < session) {
                self.objects.delete(&name).await?;
            }
        }
        Ok(())
    }

    /// Reads a job's log and makes `writer` the owner if the job has not ended. A job whose records are all older than
    /// `mark` (see [`JobLogs::newest_mark`]) is a ghost.
    ///
    /// # Errors
    /// [`AppendError::Superseded`] if a leader with a higher session owns the job.
    pub async fn take_over(
        self,
        job: JobId,
        mark: Option<LeaderSession>,
        writer: Writer,
    ) -> Result<TakenOver, AppendError> {
        for _ in 0..TRIES_MAX {
            let Replayed { mut state, log, next, newest } = self.read(job).await?;
            let end = LogEnd { job, log: log.unwrap_or_default(), next };
            if let Some(newest) = newest {
                if newest.session > writer.session {
                    return Err(AppendError::Superseded { job, by: Some(newest) });
                }
                if matches!(state, JobState::Running(_)) && mark > Some(newest.session) {
                    state = JobState::Ghost;
                }
            }
            if !matches!(state, JobState::Running(_) | JobState::Damaged { .. }) {
                return Ok(TakenOver { state, end });
            }
            match self.clone().append(end, JobFact::Owner, writer.clone()).await {
                Ok(end) => return Ok(TakenOver { state, end }),
                // Another leader appended since the read, so the log is read again.
                Err(AppendError::Superseded { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(AppendError::Superseded { job, by: None })
    }

    /// Deletes the log of a removed or ghost job, record 0 first.
    ///
    /// # Errors
    /// The store's error, or [`AppendError::LeaseOver`]; records that were deleted before it stay deleted.
    pub async fn delete(self, job: JobId) -> Result<(), AppendError> {
        for (_, name) in self.names(job).await? {
            if !self.lease.holds(self.platform.now()) {
                return Err(AppendError::LeaseOver { job });
            }
            self.objects.delete(&name).await?;
        }
        Ok(())
    }

    async fn read(&self, job: JobId) -> Result<Replayed, AppendError> {
        let mut records: Vec<Numbered> = Vec::new();
        for (number, name) in self.names(job).await? {
            let record = match self.objects.get(&name).await {
                Ok(Some(bytes)) => JobRecord::try_decode(&bytes)
                    .map_err(|why| format!("{}/{name}: {why}", self.objects.location())),
                // The record was deleted after it was listed.
                Ok(None) => continue,
                Err(error @ StoreError::Corrupt { .. }) => Err(error.to_string()),
                Err(error) => return Err(error.into()),
            };
            records.push((number, record));
        }
        Ok(replay(job, &records))
    }

    /// Returns the numbers and object names of a job's records, ascending.
    async fn names(&self, job: JobId) -> Result<BTreeMap<u64, String>, StoreError> {
        let names = self.objects.list(&format!("{PREFIX}{job}/")).await?;
        let own = names.into_iter().filter_map(|name| Some((numbered(&name)?.1, name)));
        Ok(own.collect())
    }

    async fn put(&self, record: &JobRecord, number: u64) -> Result<Put, AppendError> {
        let job = record.job;
        let bytes = record.encode().map_err(|why| AppendError::Encode { job, why })?;
        let name = name_of(job, number);
        if !self.lease.holds(self.platform.now()) {
            return Err(AppendError::LeaseOver { job });
        }
        if self.objects.put_new(&name, bytes.clone()).await? == PutNew::Created {
            return Ok(Put::Written);
        }
        match self.objects.get(&name).await {
            // The object is from an earlier try of this append whose answer was lost.
            Ok(Some(there)) if there == bytes => Ok(Put::Written),
            Ok(there) => Ok(Put::Taken(there.and_then(|b| JobRecord::try_decode(&b).ok()))),
            Err(StoreError::Corrupt { .. }) => Ok(Put::Taken(None)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The outcome of a create-if-absent.
enum Put {
    /// The record is in the log.
    Written,
    /// The number is taken, by the given record if it can be decoded.
    Taken(Option<JobRecord>),
}

fn name_of(job: JobId, number: u64) -> String {
    format!("{PREFIX}{job}/{number:010}")
}

/// Returns the job and the record number that an object's name contains; `None` if it is no record's name.
fn numbered(name: &str) -> Option<(JobId, u64)> {
    let (job, number) = name.strip_prefix(PREFIX)?.split_once('/')?;
    let (job, number) = (job.parse().ok()?, number.parse().ok()?);
    (name_of(job, number) == name).then_some((job, number))
}

fn mark_name(session: LeaderSession) -> String {
    let LeaderSession { epoch, nonce } = session;
    format!("{PREFIX}{MARKS}/{:020}-{:020}-{nonce:020}", epoch.store, epoch.process)
}

fn mark_of(name: &str) -> Option<LeaderSession> {
    let mut parts = name.strip_prefix(PREFIX)?.strip_prefix(MARKS)?.strip_prefix('/')?.split('-');
    let mut part = || parts.next()?.parse().ok();
    let epoch = model::Epoch { store: part()?, process: part()? };
    Some(LeaderSession { epoch, nonce: part()? })
}
