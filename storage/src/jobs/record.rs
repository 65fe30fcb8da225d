//! One record of a job's log and its encoding.
//!
//! Format: `FJL1`, then a MessagePack map of the record's fields by name. Unknown fields are skipped, so that a newer
//! JobManager's records can be read; an unknown fact is an error. Decoding must never panic, whatever the bytes are.

use bytes::Bytes;
use model::{
    CheckpointPointer, ExecutionState, FailureCause, JobGraph, JobId, JobStatus, LeaderSession,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The first four bytes of a record: magic and version of the format.
const MAGIC: &[u8; 4] = b"FJL1";

/// The leading Dispatcher that writes a record of a job's log, as the record names it. Part of each [`JobRecord`], and of
/// [`AppendError::Superseded`](super::AppendError::Superseded).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// The Dispatcher's session (epoch and nonce). In a log, a record of a lower epoch never follows one of a higher epoch.
    pub session: LeaderSession,
    /// The address of the Dispatcher's node, for messages; empty if it has none.
    pub address: String,
}

/// One fact about a job, as one record of its log states it: that it exists, who leads it, a complete checkpoint, the number of one that
/// begins, its result, or that it is forgotten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum JobFact {
    /// The job exists and has this graph; always record 0. Its arguments and options are in it, but not the program, which is a blob.
    Graph(Arc<JobGraph>),
    /// The record's writer leads the job from here on (see [`JobLogs::take_over`](super::JobLogs::take_over)); appends of earlier leaders
    /// fail.
    Owner,
    /// A checkpoint of the job is complete, and this is where its metadata is; the job is restored from the newest such record, or from an
    /// older one if that checkpoint cannot be read and `execution.checkpointing.fallback` is set.
    Checkpoint(CheckpointPointer),
    /// This number is given out to a checkpoint or savepoint of the job, which the JobMaster triggers only then. Later ones get higher
    /// numbers, under any JobMaster. There is no such record for the number after the newest [`JobFact::Checkpoint`], which every JobMaster
    /// takes for given out. A JobManager of a version that does not know this fact takes the log for damaged, and the job fails there.
    CheckpointNumber(u64),
    /// The job has ended with this result. No leader runs it again; it is shown until it is forgotten. Of several such records the first
    /// counts.
    Result(Box<JobResultEntry>),
    /// The job is forgotten: no leader runs or shows it any more, and its objects may be deleted from here on, record 0 first.
    Removed,
}

/// The result of an ended job, as later leaders and REST need it: its end state, failure, times, and where its details are stored. The
/// Dispatcher makes it when the job ends, and keeps it until the job is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResultEntry {
    /// The job that has ended.
    pub job_id: JobId,
    /// The job's name, for users; not unique.
    pub name: String,
    /// The globally terminal state in which the job ended: finished, failed or canceled.
    pub status: JobStatus,
    /// The reason why the job failed; `None` if it did not fail.
    pub cause: Option<FailureCause>,
    /// The time at which the Dispatcher started to run the job, in Unix milliseconds: its submission, or its recovery by a later leader.
    pub start_ms: u64,
    /// The time of the job's end, in Unix milliseconds.
    pub end_ms: u64,
    /// The time of the last change of state of the job or of one of its subtasks, in Unix milliseconds.
    pub last_modification_ms: u64,
    /// The number of subtasks by the state in which they ended; states without one are left out.
    pub tasks: BTreeMap<ExecutionState, u32>,
    /// Name and size in bytes of the object in the [`DetailsStore`](super::DetailsStore) that has the job's details; `None` if they could
    /// not be stored or were too large (above 64 MiB). The object may have been deleted since, to make room for newer ones.
    pub details: Option<(String, u64)>,
}

/// One record of a job's log: a fact and the leader that states it. One object of the store each, made by [`JobLogs`](super::JobLogs) for
/// each append and never changed; the record's number is in the object's name only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job that the record is about.
    pub job: JobId,
    /// The leader that wrote the record.
    pub writer: Writer,
    /// The fact that the record states about the job.
    pub fact: JobFact,
}

impl JobRecord {
    /// Encodes the record: `FJL1`, then MessagePack with named fields.
    ///
    /// # Errors
    /// Returns the reason why a field cannot be encoded.
    pub fn encode(&self) -> Result<Bytes, String> {
        let mut bytes = MAGIC.to_vec();
        let mut out = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
        self.serialize(&mut out).map_err(|e| e.to_string())?;
        Ok(bytes.into())
    }

    /// Decodes a record from the form that [`JobRecord::encode`] gives. Fields of a newer version are skipped; an unknown fact is an error.
    /// Never panics, whatever the bytes are.
    ///
    /// # Errors
    /// Returns a description of what is wrong with the bytes.
    pub fn try_decode(bytes: &[u8]) -> Result<Self, String> {
        let body = bytes
            .strip_prefix(MAGIC)
            .ok_or("it does not start like a job record of a version that this program knows")?;
        super::decode(body).map_err(|e| e.to_string())
    }
}
