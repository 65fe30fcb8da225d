//! What one who is no part of the cluster notices of it: the client, the program host doubles and the shared store.

use gateways::leader_election::LeaderInformation;
use model::{
    ContentHash, ExecutionAttemptId, ExecutionState, JobId, JobStatus, LeaderSession, ResourceId,
};
use std::collections::BTreeMap;
use storage::jobs::LogId;

/// The checkpoint that something is restored from, as its state names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// There is no state: it starts from the beginning.
    Nothing,
    /// The newest state is of this checkpoint; older state is of tasks that did not run when it was taken.
    Checkpoint(u64),
    /// Parts of the state of one region are of different checkpoints.
    Mixed,
}

/// What one who is no part of the cluster notices of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noticed {
    /// A job is to be submitted.
    JobWanted {
        /// Which.
        job_id: JobId,
        /// Number of the job's subtasks.
        subtasks: usize,
        /// Whether the job takes checkpoints. Then its tasks wait for a final one after the end of their data.
        checkpoints: bool,
        /// Whether the job's data has an end.
        bounded: bool,
    },
    /// An attempt has ended by itself, and successfully, in its program host.
    AttemptFinished {
        /// The attempt.
        attempt: ExecutionAttemptId,
    },
    /// A new record appears in a job's log.
    Recorded {
        /// The job.
        job_id: JobId,
        /// The log.
        log: LogId,
        /// The record's number.
        number: u64,
        /// The leader that wrote it.
        session: LeaderSession,
        /// True if the record is the job's result.
        result: bool,
        /// The number of the complete checkpoint, if the record is the pointer of one.
        checkpoint: Option<u64>,
        /// The job's program, if the record is its graph.
        program: Option<ContentHash>,
    },
    /// The metadata of a checkpoint is stored.
    MetadataStored {
        /// The job.
        job_id: JobId,
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The hash of the metadata.
        content: ContentHash,
    },
    /// The metadata of a checkpoint is deleted.
    MetadataDropped {
        /// The job.
        job_id: JobId,
        /// The number of the checkpoint.
        checkpoint: u64,
    },
    /// A task is deployed in a program host.
    TaskRestored {
        /// The job.
        job_id: JobId,
        /// The attempt.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deploys it.
        job_master: LeaderSession,
        /// What its state says of the checkpoint.
        from: Restored,
    },
    /// The coordinators of a job are started.
    CoordinatorsRestored {
        /// The job.
        job_id: JobId,
        /// The JobMaster that starts them.
        job_master: LeaderSession,
        /// What their states say of the checkpoint.
        from: Restored,
    },
    /// A barrier has passed a task, and the task acknowledges the checkpoint from now on.
    TaskAcknowledges {
        /// The job.
        job_id: JobId,
        /// The attempt.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deployed it.
        job_master: LeaderSession,
        /// The number of the checkpoint.
        checkpoint: u64,
        /// Whether the task ends with the checkpoint.
        last: bool,
    },
    /// A task that has not ended is told that a checkpoint is complete.
    CompletionHeard {
        /// The job.
        job_id: JobId,
        /// The attempt.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deployed it.
        job_master: LeaderSession,
        /// The number of the checkpoint.
        checkpoint: u64,
    },
    /// A copy of a program is complete.
    ProgramKept {
        /// The program.
        hash: ContentHash,
        /// The copy.
        copy: LogId,
    },
    /// A copy of a program is deleted.
    ProgramDropped {
        /// The program.
        hash: ContentHash,
        /// The copy.
        copy: LogId,
    },
    /// A job was taken.
    JobTaken {
        /// Which.
        job_id: JobId,
    },
    /// The workers, once everything is healed, of a run whose ResourceManager is active.
    WorkersInTheEnd {
        /// The workers that the external system started long ago and that have not ended.
        started: Vec<ResourceId>,
        /// The workers that are registered at the ResourceManager.
        registered: Vec<ResourceId>,
    },
    /// What a job has come to, once everything is healed.
    JobInTheEnd {
        /// Which.
        job_id: JobId,
        /// Its state; `None`: nobody knows it.
        status: Option<JobStatus>,
        /// Its subtasks by state, while it is not over.
        tasks: BTreeMap<ExecutionState, u32>,
    },
    /// Where a leader was said to be, an earlier one answered.
    NotThereYet {
        /// Who was said to be there.
        leader: LeaderInformation,
        /// Who was.
        current: LeaderSession,
    },
    /// A call in a session that leads no more was taken.
    StaleTaken {
        /// Which call.
        call: &'static str,
        /// In which session.
        session: LeaderSession,
    },
}
