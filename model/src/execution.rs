//! States of jobs and tasks, with Flink's names.

use derive_more::Display;
use serde::{Deserialize, Serialize};

/// The state of a job, with Flink's names; the job's JobMaster decides it. FINISHED, CANCELED and FAILED are final in every JobManager,
/// SUSPENDED only in the one that gave the job up. Displays and serialises as in Flink's REST interface, for instance `RUNNING`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[display("{}", self.as_str())]
pub enum JobStatus {
    /// The job is accepted, and its JobMaster has not been started yet; the list of jobs also shows it for a job whose JobMaster does
    /// not answer.
    Initializing,
    /// The JobMaster knows the job and reads its newest checkpoint from the store; none of its tasks was scheduled yet.
    Created,
    /// Tasks are scheduled or run. Also the state of a job that waits for slots, at first or for the new attempts after a failure, and of
    /// one whose tasks have all finished, until its results are published and its end is recorded.
    Running,
    /// The job has failed for good and cannot be restarted; its tasks are being cancelled and have not all ended, or its end is not
    /// recorded yet. A cancellation has no effect any more: the job becomes FAILED.
    Failing,
    /// The job has ended with a failure that is not recoverable, or after which its restart strategy allows no (further) restart.
    /// Globally terminal.
    Failed,
    /// The job was cancelled, by a user or because its attached client has gone or the cluster is shut down; its tasks have not all
    /// ended, or its end is not recorded yet.
    Cancelling,
    /// The job was cancelled, and all its tasks have ended. Globally terminal.
    Canceled,
    /// Every task has finished, at the end of its data or after the savepoint of a stop, and the coordinators have published the job's
    /// results. Globally terminal.
    Finished,
    /// The job is recovering from a failure: tasks of its failed regions are being cancelled, or wait for the delay of the restart strategy
    /// to be scheduled again; tasks of other regions may run on.
    Restarting,
    /// This JobManager has given the job up, because it lost its leadership; another JobManager will recover the job.
    /// Terminal in this JobManager only.
    Suspended,
    /// Flink's state of a recovered job whose running tasks are being reported; kept for its name, as no JobMaster
    /// enters it.
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
    /// Returns the name that Flink's REST interface uses, such as `RUNNING`.
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

/// The state of one execution attempt (one try of one subtask), with Flink's names. The job's JobMaster keeps it: it decides up to
/// DEPLOYING, CANCELING, and the end of an attempt that was not deployed, was refused or is lost; all else follows the TaskExecutor's
/// reports. Displays and serialises as in Flink's REST interface.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[display("{}", self.as_str())]
pub enum ExecutionState {
    /// The attempt is not scheduled yet; every attempt begins in this state.
    Created,
    /// The attempt waits for the slots of its region (the tasks that are deployed together), or for the start of the region's
    /// coordinators.
    Scheduled,
    /// The attempt has a slot and was sent to its TaskExecutor, which has not reported yet.
    Deploying,
    /// The program host has got the attempt: it rebuilds the program, restores state and opens the operators.
    Initializing,
    /// The attempt's task has opened its operators and processes records; at the end of its data it may still wait for a final checkpoint.
    Running,
    /// The attempt ended by itself: all its input was processed, or the savepoint of a stop is complete.
    Finished,
    /// The attempt was told to cancel and has not ended yet.
    Canceling,
    /// The attempt was cancelled and has ended, even if with a failure or at the end of its data; or it was cancelled before it was
    /// deployed.
    Canceled,
    /// The attempt ended with a failure without being cancelled: its own, that of its host, the loss of its slot or TaskManager, or a
    /// refused deployment.
    Failed,
}

impl ExecutionState {
    /// Returns true for FINISHED, CANCELED and FAILED: the attempt has ended and its state changes no more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Canceled | Self::Failed)
    }
    /// Returns the name that Flink's REST interface uses, such as `RUNNING`.
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
    /// All nine states of an attempt, from `Created` on; REST counts a vertex's tasks by each of them.
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

/// The reason of a failure of a task or job, as users see it and as it is sent to other processes: its kind, a message, and whether a
/// restart may help ([`FailureCause::recoverable`]) or the job fails at once ([`FailureCause::fatal`]). Displays as `KIND: MESSAGE`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[display("{}: {}", self.kind, self.message)]
pub struct FailureCause {
    /// Stable name of the failure's kind, such as `TaskManagerLost`, `UserError`, `NoResourceAvailable`; code that
    /// decides by the kind of a failure compares it.
    pub kind: String,
    /// Message for users: the fault, its place and, where one is known, the remedy, in one or more lines.
    pub message: String,
    /// True if a restart may help, so that the job's restart policy decides (which may exclude failures by their kind); false if it cannot
    /// (a wrong program or configuration) and the job fails at once.
    pub recoverable: bool,
}

impl FailureCause {
    /// The kind ([`FailureCause::kind`]) of the failure of tasks or coordinators whose checkpoint has lost or damaged files. No restart
    /// from that checkpoint can read them; the JobMaster restores the one before, if one is kept and `execution.checkpointing.fallback` is
    /// true (default false). A job whose new JobMaster can read no checkpoint, or must not pass the newest over, fails with it for good; if
    /// the new JobMaster continues from an older one, it lists a failure of this kind for each newer one, without a restart.
    pub const CHECKPOINT_UNREADABLE: &str = "CheckpointUnreadable";
    /// The kind ([`FailureCause::kind`]) of the failure of a job whose JobMaster cannot open its checkpoint directory
    /// (`execution.checkpointing.dir`, or the cluster's default) or write to it at its start; the job fails without a restart. It is also
    /// that of tasks on a machine where the directory cannot be opened or is another one than the JobManager's; the job's restart strategy
    /// decides then, because other machines may do.
    pub const CHECKPOINT_DIRECTORY_UNUSABLE: &str = "CheckpointDirectoryUnusable";

    /// Makes a failure with `recoverable` set: the job's restart strategy decides whether tasks are started again. If the job configures
    /// none, errors of the program, and shortages of slots of tasks that were never deployed, fail it at once all the same. A long message
    /// is cut, see [`shortened`].
    pub fn recoverable(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: shortened(message), recoverable: true }
    }
    /// Returns true for the kinds `DataConnectionLost`, `TaskCanceled` and `NoSlots`, which are only the consequence of
    /// another failure elsewhere. Such a cause is shown to users only where no better one is known.
    pub fn is_consequence(&self) -> bool {
        matches!(&*self.kind, "DataConnectionLost" | "TaskCanceled" | "NoSlots")
    }
    /// Makes a failure without `recoverable`: the job fails at once, without asking its restart strategy. A long message is
    /// cut, see [`shortened`].
    pub fn fatal(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: shortened(message), recoverable: false }
    }
}

/// Bytes that are kept of a long text of a failure.
const KEPT_BYTES: usize = 16 << 10;
/// Bytes by which a text may be longer before it is cut, so that one that contains a cut text is not cut once more.
const AROUND_BYTES: usize = 4 << 10;

/// Returns the text of a failure for users, which goes through RPC, logs and REST. A text of more than 20 KiB is cut after its
/// first 16 KiB, at the end of a character, and says so with its former length: `… (52428800 bytes, shortened)`.
pub fn shortened(text: impl Into<String>) -> String {
    let mut text = text.into();
    let bytes = text.len();
    if bytes > KEPT_BYTES + AROUND_BYTES {
        text.truncate(text.floor_char_boundary(KEPT_BYTES));
        text.shrink_to_fit();
        text.push_str(&format!("… ({bytes} bytes, shortened)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_of_a_failure_is_cut_once_at_the_end_of_a_character_and_says_so() {
        let remark = "… (52428801 bytes, shortened)";
        let long = format!("a{}", "ü".repeat(25 << 20));
        let cut = shortened(&*long);
        assert_eq!(cut.len(), KEPT_BYTES - 1 + remark.len());
        assert!(cut.ends_with(&format!("ü{remark}")));
        let around = format!("operator 'map' failed: {cut} (at main.rs:1:2)");
        assert_eq!(shortened(around.clone()), around, "not once more");
        for cause in [FailureCause::recoverable("K", &*long), FailureCause::fatal("K", long)] {
            assert_eq!(cause.message, cut);
        }
    }
}
