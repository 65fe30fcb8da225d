//! States of jobs and tasks, with Flink's names.

use derive_more::Display;
use serde::{Deserialize, Serialize};

/// The state of a job.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[display("{}", self.as_str())]
pub enum JobStatus {
    /// The JobMaster has not been started yet.
    Initializing,
    /// Known, nothing of it runs.
    Created,
    /// Tasks are scheduled or run.
    Running,
    /// Failed, waiting for its tasks to end.
    Failing,
    /// The job or subtask ended with a failure.
    Failed,
    /// Cancelled, waiting for its tasks to end.
    Cancelling,
    /// The user cancelled the job.
    Canceled,
    /// Every task has finished.
    Finished,
    /// Waiting for its tasks to end, to be started again.
    Restarting,
    /// Given up here, kept for another JobManager (leadership lost).
    Suspended,
    /// Recovered, waiting for TaskManagers to report what they run.
    Reconciling,
}

impl JobStatus {
    /// Returns true if the job has ended for good, in every JobManager: FINISHED, CANCELED or
    /// FAILED.
    pub fn is_globally_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Canceled | Self::Failed)
    }
    /// Returns true if the job has ended in this JobManager: globally terminal, or SUSPENDED.
    pub fn is_terminal(self) -> bool {
        self.is_globally_terminal() || self == Self::Suspended
    }
    /// Returns the name that Flink's REST interface uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
            Self::Failing => "FAILING",
            Self::Failed => "FAILED",
            Self::Cancelling => "CANCELLING",
            Self::Canceled => "CANCELED",
            Self::Finished => "FINISHED",
            Self::Restarting => "RESTARTING",
            Self::Suspended => "SUSPENDED",
            Self::Reconciling => "RECONCILING",
        }
    }
}

/// The state of one attempt of one subtask.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[display("{}", self.as_str())]
pub enum ExecutionState {
    /// Not scheduled yet; the state every attempt begins in.
    Created,
    /// The subtask waits for a slot.
    Scheduled,
    /// The subtask was sent to its TaskExecutor.
    Deploying,
    /// The task's process rebuilds its program, restores state and opens its operators.
    Initializing,
    /// `open` is done and the loop is entered.
    Running,
    /// Ended by itself, after all input was processed.
    Finished,
    /// The subtask was asked to cancel and has not ended yet.
    Canceling,
    /// The subtask ended because it was cancelled.
    Canceled,
    /// The job or subtask ended with a failure.
    Failed,
}

impl ExecutionState {
    /// Returns true for FINISHED, CANCELED and FAILED.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Canceled | Self::Failed)
    }
    /// Returns the name that Flink's REST interface uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Scheduled => "SCHEDULED",
            Self::Deploying => "DEPLOYING",
            Self::Initializing => "INITIALIZING",
            Self::Running => "RUNNING",
            Self::Finished => "FINISHED",
            Self::Canceling => "CANCELING",
            Self::Canceled => "CANCELED",
            Self::Failed => "FAILED",
        }
    }
    /// All states, in Flink's order (as REST counts them).
    pub const ALL: [Self; 9] = [
        Self::Created,
        Self::Scheduled,
        Self::Deploying,
        Self::Initializing,
        Self::Running,
        Self::Finished,
        Self::Canceling,
        Self::Canceled,
        Self::Failed,
    ];
}

/// The reason of a failure, as it is shown to users and sent to other processes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[display("{}: {}", self.kind, self.message)]
pub struct FailureCause {
    /// Stable name of the kind, such as `TaskManagerLost`, `UserError`, `NoResourceAvailable`.
    pub kind: String,
    /// Message for users: the fault, its place and the remedy, in one or more lines.
    pub message: String,
    /// True if a restart may help; with a wrong program or configuration it can't.
    pub recoverable: bool,
}

impl FailureCause {
    /// The kind of the failure of tasks or coordinators whose checkpoint has lost or damaged files: no restart can read them.
    pub const CHECKPOINT_UNREADABLE: &str = "CheckpointUnreadable";

    /// Makes a failure that a restart may mend.
    pub fn recoverable(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into(), recoverable: true }
    }
    /// Returns true if this is how others notice a failure, rather than a failure: shown only where nothing
    /// better is known.
    pub fn is_consequence(&self) -> bool {
        matches!(&*self.kind, "DataConnectionLost" | "TaskCanceled" | "NoSlots")
    }
    /// Makes a failure that no restart mends: the restart strategy is not asked.
    pub fn fatal(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into(), recoverable: false }
    }
}
