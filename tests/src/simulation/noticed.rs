//! Facts that are noticed outside of the cluster: by the client, the program host doubles and the
//! shared store.

use gateways::leader_election::LeaderInformation;
use model::{
    ContentHash, ExecutionAttemptId, ExecutionState, JobId, JobStatus, LeaderSession, ResourceId,
};
use std::collections::BTreeMap;
use storage::jobs::LogId;

/// The checkpoint that a task or coordinator is restored from, as the state that it was given names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// There is no state: the task starts from the beginning.
    Nothing,
    /// The newest state is of this checkpoint; older state is of tasks that did not run when it was taken.
    Checkpoint(u64),
    /// Parts of the state of one region are of different checkpoints.
    Mixed,
}

/// A fact that is noticed outside of the cluster, by the client, a program host double or the shared store; invariants judge it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noticed {
    /// The client will submit a job, at its planned time.
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
        /// Execution attempt that the fact is about.
        attempt: ExecutionAttemptId,
    },
    /// A new record appears in a job's log in the shared store.
    Recorded {
        /// Job whose log it is.
        job_id: JobId,
        /// Log of the job that the record was appended to; a job that is submitted again gets another one.
        log: LogId,
        /// The record's number in the log.
        number: u64,
        /// The session of the Dispatcher that wrote the record.
        session: LeaderSession,
        /// True if the record is the job's result, so that the job has ended.
        result: bool,
        /// The number of the complete checkpoint, if the record is the pointer of one.
        checkpoint: Option<u64>,
        /// The job's program, if the record is its graph.
        program: Option<ContentHash>,
    },
    /// The metadata of a checkpoint is stored; the checkpoint is complete only once its pointer is in the job's log.
    MetadataStored {
        /// Job that the fact is about.
        job_id: JobId,
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The SHA-256 hash of the metadata.
        content: ContentHash,
    },
    /// The metadata of a checkpoint is deleted from the shared store, or was absent already when a leader deleted it.
    MetadataDropped {
        /// Job that the fact is about.
        job_id: JobId,
        /// The number of the checkpoint.
        checkpoint: u64,
    },
    /// A task is deployed in a program host, with or without state.
    TaskRestored {
        /// Job that the fact is about.
        job_id: JobId,
        /// Execution attempt that the fact is about.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deploys it.
        job_master: LeaderSession,
        /// Checkpoint that the task's state comes from.
        from: Restored,
    },
    /// The coordinators of a job are started in a program host, with or without states.
    CoordinatorsRestored {
        /// Job that the fact is about.
        job_id: JobId,
        /// The JobMaster that starts them.
        job_master: LeaderSession,
        /// Checkpoint that the coordinators' states come from.
        from: Restored,
    },
    /// The coordinators of a job are told that subtasks begin anew with their parts of a checkpoint.
    SubtasksReset {
        /// Job that the fact is about.
        job_id: JobId,
        /// The JobMaster that had started them.
        job_master: LeaderSession,
        /// Checkpoint that the subtasks begin with.
        from: Restored,
    },
    /// A barrier has passed a task, and the task acknowledges the checkpoint from now on.
    TaskAcknowledges {
        /// Job that the fact is about.
        job_id: JobId,
        /// Execution attempt that the fact is about.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deployed it.
        job_master: LeaderSession,
        /// The number of the checkpoint.
        checkpoint: u64,
        /// True if the task ends with the checkpoint.
        last: bool,
    },
    /// A task that has not ended is told by its JobMaster that a checkpoint is complete.
    CompletionHeard {
        /// Job that the fact is about.
        job_id: JobId,
        /// Execution attempt that the fact is about.
        attempt: ExecutionAttemptId,
        /// The JobMaster that deployed it.
        job_master: LeaderSession,
        /// The number of the checkpoint.
        checkpoint: u64,
    },
    /// A copy of a job's program in the shared store is complete: its last object is written.
    ProgramKept {
        /// Content hash of the program.
        hash: ContentHash,
        /// Id of the copy: the session of the leader that made it, and that leader's count of logs and copies.
        copy: LogId,
    },
    /// The object that completes a copy of a job's program is deleted from the shared store, or was absent already: the copy is of no use
    /// any more, though parts of it may stay.
    ProgramDropped {
        /// Content hash of the program.
        hash: ContentHash,
        /// Id of the copy: the session of the leader that made it, and that leader's count of logs and copies.
        copy: LogId,
    },
    /// A leading Dispatcher has accepted a job, or says that it has it (running or ended) already, and the client knows it.
    JobTaken {
        /// Job that the fact is about.
        job_id: JobId,
    },
    /// The workers, once everything is healed, of a run whose ResourceManager is active.
    WorkersInTheEnd {
        /// The workers that the external system started a minute ago or earlier and that have not ended.
        started: Vec<ResourceId>,
        /// The workers that are registered at the ResourceManager.
        registered: Vec<ResourceId>,
    },
    /// The state of a job shortly before the end of the run, once everything is healed, as the Dispatcher tells the client.
    JobInTheEnd {
        /// Job that the fact is about.
        job_id: JobId,
        /// State of the job; `None` if the Dispatcher does not know it.
        status: Option<JobStatus>,
        /// Number of subtasks by state, of an ended job by their last one; states without a subtask are left out. Empty if the Dispatcher
        /// does not know the job.
        tasks: BTreeMap<ExecutionState, u32>,
    },
    /// An earlier leader answered at the published address of a new one: the address was published too soon.
    NotThereYet {
        /// Leader that was expected there.
        leader: LeaderInformation,
        /// Session that answered.
        current: LeaderSession,
    },
    /// A call in a session that leads no more reached a component, which took it instead of fencing it.
    StaleTaken {
        /// Name of the call, such as `dispatcher.CancelJob`, the only one that is judged so.
        call: &'static str,
        /// Session of the call.
        session: LeaderSession,
    },
}
