//! Each job's facts as a numbered log of small objects, `jobs/<job id>/<log id>-<number>`, written by create-if-absent.
//!
//! A new leader appends its own [`JobFact::Owner`] record first. Suppose leader A has read a log up to record 4 and is
//! stopped before it writes record 5 (job FAILED). Leader B takes over and appends record 5 (Owner). When A continues,
//! its append finds number 5 taken and fails with [`AppendError::Superseded`]: A's result never becomes visible.
//! Objects are deleted only after the log says [`JobFact::Removed`], record 0 first. A log without record 0 is no job,
//! so a record that an old leader appends even later is ignored, and deleted when the log is read next.
//!
//! No store can delete on a condition, so names are never used twice: each log has an id of its own ([`LogId`]).
//! Suppose leader A hangs in the deletion of a forgotten job's record 0, and the job is submitted again at leader B
//! under the same job id. When A's deletion takes effect at last, it finds A's name, not the record of B's log.
//!
//! Suppose an old leader writes record 0 of a new job after the new leader has taken over all jobs. No leader would run
//! that job before the next take-over. Each leader therefore writes a mark (`jobs/taken-over/<session>`) once it has
//! taken over, and a log whose records are all older than the newest mark is a ghost. If a job has several logs that
//! are none, the one that was created last counts: an earlier one was never reported as accepted.
//!
//! This module must never retry a failed write by itself: the caller repeats the same append, which succeeds if the
//! first one took effect after all.

use super::record::{JobFact, JobRecord, Writer};
use super::replay::{CheckpointRecords, JobState, Numbered, Replayed, replay};
use crate::ha::Lease;
use crate::objects::{ObjectStore, PutNew, StoreError};
use bytes::Bytes;
use model::{Epoch, JobGraph, JobId, LeaderSession};
use platform::Platform;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

pub(super) const PREFIX: &str = "jobs/";
const MARKS: &str = "taken-over";
/// Maximum number of attempts of one take-over.
const TRIES_MAX: u32 = 100;

/// The identity of a job's log (or of the copy of a job's program in the object store), which no other one ever has. Of two logs of one
/// job, the one with the higher id was created later. Displays and parses as `<store epoch>.<process epoch>.<nonce>.<count>`, the nonce
/// in 16 hexadecimal digits, the others decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{}.{}", session_text(self.creator), self.count)]
pub struct LogId {
    /// The session (epoch and nonce) of the leading Dispatcher that created the log or copy.
    pub creator: LeaderSession,
    /// The number of logs (or copies) that this leader had begun before, for all jobs together; from 0 on.
    pub count: u64,
}

/// Returns a session as names of objects contain it.
pub(super) fn session_text(LeaderSession { epoch, nonce }: LeaderSession) -> String {
    format!("{}.{}.{nonce:016x}", epoch.store, epoch.process)
}

impl FromStr for LogId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(4, '.');
        let mut part = || parts.next().unwrap_or_default();
        let epoch = Epoch { store: part().parse()?, process: part().parse()? };
        let nonce = u64::from_str_radix(part(), 16)?;
        Ok(Self { creator: LeaderSession { epoch, nonce }, count: part().parse()? })
    }
}

/// The position of the next record in a job's log, as one leader knows it: job, log and the record's number. [`JobLogs::append`] needs it
/// and returns the next one. It is a copy of what was known, not a lock: if another record is there already, the append fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// The job whose facts the log records.
    pub job: JobId,
    /// Id of the log to append to; a job that is submitted again gets another log, so a late append cannot reach the new
    /// one.
    pub log: LogId,
    next: u64,
}

impl LogEnd {
    /// Returns the number that the next record gets.
    pub(super) fn number(self) -> u64 {
        self.next
    }
}

/// The reason why a fact was not recorded in a job's log, or a log not read or deleted: what [`JobLogs`] and
/// [`OpenJobLog`](super::OpenJobLog) return. Only after `Store` is a repetition of the same call of use; after `Superseded` and `LeaseOver`
/// the caller no longer owns the job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AppendError {
    /// Another leader has written to the log, or another JobMaster of this leader owns it: the caller must not act for the job any more.
    /// The record is not in the log.
    #[error("job {job} belongs to another leader{}; this leader's record is not kept", writer_text(.by))]
    Superseded {
        /// The job whose log it is.
        job: JobId,
        /// The other leader; `None` if its record can't be read or is gone again, if another JobMaster of the same leader owns the log or
        /// the job's result was appended ([`OpenJobLog`](super::OpenJobLog)), or if [`JobLogs::take_over`] gave up after 100 tries.
        by: Option<Writer>,
    },
    /// The process no longer holds the leader's lease. Nothing was written, except by [`JobLogs::create`]: its record may be there, and a
    /// later leader may run the job, but this leader must not report the job as accepted. [`JobLogs::delete`] may have deleted some records
    /// before.
    #[error("the leader's lease is over; nothing is recorded about job {job}")]
    LeaseOver {
        /// The job whose log it is.
        job: JobId,
    },
    /// A log of this job id with a record 0 exists already, of a running, ended or forgotten job; nothing was written. Only
    /// [`JobLogs::create`] reports it.
    #[error("a log of job {job} exists already")]
    Exists {
        /// The job whose log it is.
        job: JobId,
    },
    /// The record cannot be encoded; nothing was written. The same append fails again.
    #[error("cannot encode a record of job {job}: {why}")]
    Encode {
        /// The job whose log it is.
        job: JobId,
        /// Message of the encoder.
        why: String,
    },
    /// The store failed. The record may or may not have been written; the caller should repeat the same append, take-over or deletion. Not
    /// so after [`JobLogs::create`], which has tried to withdraw what it had written: another try needs a new [`LogId`].
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AppendError {
    /// Returns true if the same call may succeed when it is repeated: the store has failed.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// Returns true if the caller no longer owns the job: another leader or JobMaster does, or will.
    pub fn ends_ownership(&self) -> bool {
        matches!(self, Self::Superseded { .. } | Self::LeaseOver { .. })
    }
}

fn writer_text(writer: &Option<Writer>) -> String {
    let by = |w: &Writer| format!(" ({} at {})", w.session, w.address);
    writer.as_ref().map(by).unwrap_or_default()
}

/// The outcome of `JobLogs::take_over`: a job as the leader has read it from its logs, with the place of the next record, the checkpoints,
/// and the logs that can be deleted. If its state is running or damaged, the leader owns its log now: it alone can append.
#[derive(Debug, Clone, PartialEq)]
pub struct TakenOver {
    /// The job's state according to its newest log that is neither removed nor a ghost (see [`JobState::Ghost`]); `Removed` or `Ghost` if
    /// it has no such log.
    pub state: JobState,
    /// The position at which the leader appends the next record to that log; `None` if the state is `Ghost` or `Removed`.
    pub end: Option<LogEnd>,
    /// The other logs of the job id: of forgotten jobs, earlier ones, and ghosts (logs without record 0, or of an old
    /// leader from before a take-over). No leader will run a job from them; the caller may delete them by
    /// [`JobLogs::delete`].
    pub stale: Vec<LogId>,
    /// The records about checkpoints that are still in the log; none if `end` is `None`.
    pub checkpoints: CheckpointRecords,
}

/// The logs of all jobs of a cluster, as one process uses them while it leads: `create` begins a log, `append` adds a record, `take_over`
/// makes a new leader the owner of a job, and `delete` removes logs that nobody needs. Records are appended and logs deleted only while the
/// process holds the leader's lease; marks and reads do not look at it. Clones share the store.
#[derive(Clone, derive_more::Debug)]
#[debug("JobLogs({})", self.objects.location())]
pub struct JobLogs {
    objects: Arc<dyn ObjectStore>,
    platform: Platform,
    lease: Lease,
}

impl JobLogs {
    /// Returns the logs in `objects`. Each later append and deletion of logs first checks that `lease` is held on `platform`'s clock.
    /// Reads and writes nothing.
    pub fn new(objects: Arc<dyn ObjectStore>, platform: Platform, lease: Lease) -> Self {
        Self { objects, platform, lease }
    }

    /// Creates the log of a new job, with its graph as record 0, and returns the position after it. `log` must be an id that was not used
    /// before, also not by a failed call of this. If the store fails, this tries once to withdraw the log again (it appends
    /// [`JobFact::Removed`], then deletes both records if record 0 is there): the submitter is told of a failure, so the next leader should
    /// not run the job. A failure of that is not reported.
    ///
    /// # Errors
    /// Returns [`AppendError::Exists`] if a log of this job id has a record 0 (also if that job has ended); [`AppendError::LeaseOver`] if
    /// the lease ended before or while the record was written; [`AppendError::Encode`]; the store's error.
    pub async fn create(
        self,
        graph: Arc<JobGraph>,
        log: LogId,
        writer: Writer,
    ) -> Result<LogEnd, AppendError> {
        let job = graph.job_id;
        let first = |(of, records): (&LogId, &Records)| *of != log && records.contains_key(&0);
        if self.records(job).await?.iter().any(first) {
            return Err(AppendError::Exists { job });
        }
        let record = JobRecord { job, writer, fact: JobFact::Graph(graph) };
        let end = LogEnd { job, log, next: 1 };
        match self.put(&record, log, 0).await {
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

    /// Withdraws a log whose creation has failed. Its record 0 may be there all the same, or may still appear. In the
    /// second case the record that says "removed" stays.
    async fn withdraw(self, end: LogEnd, writer: Writer) {
        let removed = self.clone().append(end, JobFact::Removed, writer).await;
        let first = self.objects.get(&name_of(end.job, end.log, 0)).await;
        if removed.is_ok() && matches!(first, Ok(Some(_))) {
            // If this fails, the objects that remain say that the job is removed.
            let _ = self.delete(end.job, &[end.log]).await;
        }
    }

    /// Returns the object store that the logs are in. The JobMaster also keeps the metadata of checkpoints there if no checkpoint directory
    /// is configured.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// Appends a fact as the record at `end`, unless another record is there already, and returns the position after it. The same append
    /// may be repeated: it succeeds if the record is there from an earlier try.
    ///
    /// # Errors
    /// Returns [`AppendError::Superseded`] if the record at `end` is another one: another leader has appended since `end` was read, or this
    /// leader something else; [`AppendError::LeaseOver`] before anything is written; [`AppendError::Encode`]; or the store's error: the
    /// record may then have been written, and the caller repeats the same append.
    pub async fn append(
        self,
        end: LogEnd,
        fact: JobFact,
        writer: Writer,
    ) -> Result<LogEnd, AppendError> {
        let LogEnd { job, log, next } = end;
        match self.put(&JobRecord { job, writer, fact }, log, next).await? {
            Put::Written => Ok(LogEnd { next: next.saturating_add(1), ..end }),
            Put::Taken(by) => Err(AppendError::Superseded { job, by }),
        }
    }

    /// Lists the jobs that have records of any kind, also forgotten jobs and logs that no leader would run (ghosts), in ascending order of
    /// their ids. A new Dispatcher calls this once, to take over each of them.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn list(self) -> Result<Vec<JobId>, StoreError> {
        let names = self.objects.list(PREFIX).await?;
        let mut jobs: Vec<JobId> =
            names.iter().filter_map(|name| Some(parse_record_name(name)?.0)).collect();
        jobs.dedup();
        Ok(jobs)
    }

    /// Returns the highest session below `session` whose leader has marked that it had taken over all jobs
    /// ([`JobLogs::mark_taken_over`]), for `JobLogs::take_over`; `None` if there is none.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn newest_mark(
        self,
        session: LeaderSession,
    ) -> Result<Option<LeaderSession>, StoreError> {
        let names = self.objects.list(&format!("{PREFIX}{MARKS}/")).await?;
        Ok(names.iter().filter_map(|name| mark_of(name)).filter(|mark| *mark < session).max())
    }

    /// Writes the mark that the leader with this session has taken over all jobs, then deletes the marks of lower sessions. The Dispatcher
    /// calls this when it has recovered all jobs. For later leaders, a log is then a ghost if it says that its job runs and all its records
    /// are of lower sessions: they do not run the job from that log, and may delete the log. Unlike appends, this does not check the lease.
    ///
    /// # Errors
    /// Returns the store's error. The mark may be written all the same; the call may be repeated.
    pub async fn mark_taken_over(self, session: LeaderSession) -> Result<(), StoreError> {
        let _ = self.objects.put_new(&mark_name(session), Bytes::new()).await?;
        for name in self.objects.list(&format!("{PREFIX}{MARKS}/")).await? {
            if mark_of(&name).is_none_or(|mark| mark < session) {
                self.objects.delete(&name).await?;
            }
        }
        Ok(())
    }

    /// Reads a job's logs and, if the job runs or its log is damaged, appends a record that makes `writer` the owner: earlier leaders can't
    /// append any more. For an ended, forgotten or unknown job nothing is written. A log of a running job whose records are all of sessions
    /// below `mark` (see [`JobLogs::newest_mark`]) is a ghost, which counts as no job; with `None` there are no such ghosts. Called by a
    /// new Dispatcher for each job that [`JobLogs::list`] names, and with `None` when a job id is submitted whose log was created after
    /// that.
    ///
    /// # Errors
    /// Returns [`AppendError::Superseded`] if a leader with a higher session owns the job, or others have appended before each of 100
    /// tries; [`AppendError::LeaseOver`]; [`AppendError::Encode`]; the store's error. The call may be repeated: it then appends one more
    /// owner record.
    pub async fn take_over(
        self,
        job: JobId,
        mark: Option<LeaderSession>,
        writer: Writer,
    ) -> Result<TakenOver, AppendError> {
        for _ in 0..TRIES_MAX {
            let taken = self.look(job, mark, &writer).await?;
            let Some(end) = taken.end else { return Ok(taken) };
            if matches!(taken.state, JobState::Ended(_)) {
                return Ok(taken);
            }
            match self.clone().append(end, JobFact::Owner, writer.clone()).await {
                Ok(end) => return Ok(TakenOver { end: Some(end), ..taken }),
                // Another leader appended since the read, so the log is read again.
                Err(AppendError::Superseded { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(AppendError::Superseded { job, by: None })
    }

    /// Reads a job's logs, the newest first, up to the one that has the job. Appends nothing.
    async fn look(
        &self,
        job: JobId,
        mark: Option<LeaderSession>,
        reader: &Writer,
    ) -> Result<TakenOver, AppendError> {
        let logs = self.records(job).await?;
        let mut stale: Vec<LogId> = logs.keys().copied().collect();
        let mut gone = JobState::Ghost;
        for (log, names) in logs.iter().rev() {
            let Replayed { state, next, newest, checkpoints } = self.read(job, names).await?;
            if newest.as_ref().is_some_and(|by| by.session > reader.session) {
                return Err(AppendError::Superseded { job, by: newest });
            }
            let old = newest.is_some_and(|by| mark > Some(by.session));
            match state {
                JobState::Ghost => {}
                JobState::Running(_) if old => {}
                JobState::Removed => gone = JobState::Removed,
                state => {
                    stale.retain(|other| other != log);
                    let end = Some(LogEnd { job, log: *log, next });
                    return Ok(TakenOver { state, end, stale, checkpoints });
                }
            }
        }
        Ok(TakenOver { state: gone, end: None, stale, checkpoints: CheckpointRecords::default() })
    }

    /// Deletes the records of these logs of a job, record 0 of each first; a log that does not exist is no error. No leader may run the
    /// job from them: they are in [`TakenOver::stale`], or the job is recorded as removed. The lease is checked before each object.
    ///
    /// # Errors
    /// Returns the store's error or [`AppendError::LeaseOver`]; records that were deleted before it stay deleted.
    pub async fn delete(self, job: JobId, logs: &[LogId]) -> Result<(), AppendError> {
        let records = self.records(job).await?;
        for name in logs.iter().filter_map(|log| records.get(log)).flat_map(BTreeMap::values) {
            if !self.lease.holds(self.platform.now()) {
                return Err(AppendError::LeaseOver { job });
            }
            self.objects.delete(name).await?;
        }
        Ok(())
    }

    /// Deletes one record that a later one has made obsolete.
    ///
    /// An [`JobFact::Owner`] record must never be deleted: it is what an earlier leader's append finds in its place.
    pub(super) async fn delete_record(&self, end: LogEnd, number: u64) -> Result<(), StoreError> {
        self.objects.delete(&name_of(end.job, end.log, number)).await.map(drop)
    }

    async fn read(&self, job: JobId, names: &Records) -> Result<Replayed, AppendError> {
        let mut records: Vec<Numbered> = Vec::new();
        for (number, name) in names {
            let record = match self.objects.get(name).await {
                Ok(Some(bytes)) => JobRecord::try_decode(&bytes)
                    .map_err(|why| format!("{}/{name}: {why}", self.objects.location())),
                // The record was deleted after it was listed.
                Ok(None) => continue,
                Err(error @ StoreError::Corrupt { .. }) => Err(error.to_string()),
                Err(error) => return Err(error.into()),
            };
            records.push((*number, record));
        }
        Ok(replay(job, &records))
    }

    /// Returns the records of each log of a job, the oldest log first.
    async fn records(&self, job: JobId) -> Result<BTreeMap<LogId, Records>, StoreError> {
        let mut logs: BTreeMap<LogId, Records> = BTreeMap::new();
        for name in self.objects.list(&format!("{PREFIX}{job}/")).await? {
            if let Some((_, log, number)) = parse_record_name(&name) {
                logs.entry(log).or_default().insert(number, name);
            }
        }
        Ok(logs)
    }

    async fn put(&self, record: &JobRecord, log: LogId, number: u64) -> Result<Put, AppendError> {
        let job = record.job;
        let bytes = record.encode().map_err(|why| AppendError::Encode { job, why })?;
        let name = name_of(job, log, number);
        if !self.lease.holds(self.platform.now()) {
            return Err(AppendError::LeaseOver { job });
        }
        if self.objects.put_new(&name, bytes.clone()).await? == PutNew::Created {
            return Ok(Put::Written);
        }
        match self.objects.get(&name).await {
            // The object is from an earlier try of this append whose answer was lost.
            Ok(Some(there)) if there == bytes => Ok(Put::Written),
            Ok(there) => {
                let record = there.and_then(|bytes| JobRecord::try_decode(&bytes).ok());
                Ok(Put::Taken(record.map(|record| record.writer)))
            }
            Err(StoreError::Corrupt { .. }) => Ok(Put::Taken(None)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The numbers and object names of a log's records, ascending.
type Records = BTreeMap<u64, String>;

/// The outcome of a create-if-absent.
enum Put {
    /// The record is in the log.
    Written,
    /// The number is taken by a record of the given leader (`None`: it cannot be decoded).
    Taken(Option<Writer>),
}

/// Returns the name of the object with a record.
pub(super) fn name_of(job: JobId, log: LogId, number: u64) -> String {
    format!("{PREFIX}{job}/{log}-{number:010}")
}

/// Returns the job, the log and the record number if `name` is that of the object with a record of a job's log,
/// `jobs/<job id>/<log id>-<number>`; `None` for any other name.
pub fn parse_record_name(name: &str) -> Option<(JobId, LogId, u64)> {
    let (job, record) = name.strip_prefix(PREFIX)?.split_once('/')?;
    let (log, number) = record.split_once('-')?;
    let (job, log, number) = (job.parse().ok()?, log.parse().ok()?, number.parse().ok()?);
    (name_of(job, log, number) == name).then_some((job, log, number))
}

fn mark_name(session: LeaderSession) -> String {
    let LeaderSession { epoch, nonce } = session;
    format!("{PREFIX}{MARKS}/{:020}-{:020}-{nonce:020}", epoch.store, epoch.process)
}

fn mark_of(name: &str) -> Option<LeaderSession> {
    let mut parts = name.strip_prefix(PREFIX)?.strip_prefix(MARKS)?.strip_prefix('/')?.split('-');
    let mut part = || parts.next()?.parse().ok();
    let epoch = Epoch { store: part()?, process: part()? };
    Some(LeaderSession { epoch, nonce: part()? })
}
