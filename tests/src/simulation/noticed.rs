//! Facts that are noticed outside of the cluster: by the client, the program host doubles and the
//! shared store.

use gateways::leader_election::LeaderInformation;
use model::{
    ContentHash, ExecutionAttemptId, ExecutionState, JobId, JobStatus, LeaderSession, ResourceId,
};
use std::collections::BTreeMap;
use storage::jobs::LogId;

/// The checkpoint that something is restored from, as its state names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// There is no state: the task starts from the beginning.
    Nothing,
    /// The newest state is of this checkpoint; older state is of tasks that did not run when it was taken.
    Checkpoint(u64),
    /// Parts of the state of one region are of different checkpoints.
    Mixed,
}

/// A fact that is noticed outside of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noticed {
    /// A job is to be submitted.
    JobWanted {
        /// Job that the fact is about.
        job_id: JobId,
        /// Number of the job's subtasks.
        subtasks: usize,
        /// True if the job takes checkpoints. Then its tasks wait for a final one after the end of their data.
        checkpoints: bool,
        /// True if the job's data has an end.
        bounded: bool,
    },
    /// An attempt has ended by itself, and successfully, in its program host.
    AttemptFinished {
        /// Execution attempt that the message concerns.
        attempt: ExecutionAttemptId,
    },
    /// A new record appears in a job's log.
    Recorded {
        /// Job that the message concerns.
        job_id: JobId,
        /// Log that the pointer was appended to.
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
        /// Job that the message concerns.
        job_id: JobId,
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The hash of the metadata.
        content: ContentHash,
    },
    /// The metadata of a checkpoint is deleted.
    MetadataDropped {
        /// Job that the message concerns.
        job_id: JobId,
        /// The number of the checkpoint.
        checkpoint: u64,
    },
    /// A task is deployed in a program host.
    TaskRestored {
        /// Job that the message concerns.
        job_id: JobId,
        /// Execution attempt that the message concerns.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deploys it.
        job_master: LeaderSession,
        /// Checkpoint that the task's state comes from.
        from: Restored,
    },
    /// The coordinators of a job are started.
    CoordinatorsRestored {
        /// Job that the message concerns.
        job_id: JobId,
        /// The JobMaster that starts them.
        job_master: LeaderSession,
        /// Checkpoint that the coordinators' states come from.
        from: Restored,
    },
    /// A barrier has passed a task, and the task acknowledges the checkpoint from now on.
    TaskAcknowledges {
        /// Job that the message concerns.
        job_id: JobId,
        /// Execution attempt that the message concerns.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deployed it.
        job_master: LeaderSession,
        /// The number of the checkpoint.
        checkpoint: u64,
        /// True if the task ends with the checkpoint.
        last: bool,
    },
    /// A task that has not ended is told that a checkpoint is complete.
    CompletionHeard {
        /// Job that the message concerns.
        job_id: JobId,
        /// Execution attempt that the message concerns.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deployed it.
        job_master: LeaderSession,
        /// The number of the checkpoint.
        checkpoint: u64,
    },
    /// A copy of a program is complete.
    ProgramKept {
        /// Content hash of the program.
        hash: ContentHash,
        /// Log of the job whose copy it is.
        copy: LogId,
    },
    /// A copy of a program is deleted.
    ProgramDropped {
        /// Content hash of the program.
        hash: ContentHash,
        /// Log of the job whose copy it was.
        copy: LogId,
    },
    /// A job was taken.
    JobTaken {
        /// Job that the fact is about.
        job_id: JobId,
    },
    /// The workers, once everything is healed, of a run whose ResourceManager is active.
    WorkersInTheEnd {
        /// The workers that the external system started long ago and that have not ended.
        started: Vec<ResourceId>,
        /// The workers that are registered at the ResourceManager.
        registered: Vec<ResourceId>,
    },
    /// The final state of a job, once everything is healed.
    JobInTheEnd {
        /// Job that the fact is about.
        job_id: JobId,
        /// State of the job; `None` if no component knows it.
        status: Option<JobStatus>,
        /// Subtasks by state, while the job has not ended.
        tasks: BTreeMap<ExecutionState, u32>,
    },
    /// An earlier leader answered at the address of a new one.
    NotThereYet {
        /// Leader that was expected there.
        leader: LeaderInformation,
        /// Session that answered.
        current: LeaderSession,
    },
    /// A call in a session that leads no more was taken.
    StaleTaken {
        /// Name of the call, such as `dispatcher.SubmitJob`.
        call: &'static str,
        /// Session of the call.
        session: LeaderSession,
    },
}
