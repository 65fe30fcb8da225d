//! Options of jobs that start from a savepoint, with Flink's names.

use crate::{declare::options, value::choices};

choices! {
    /// The owner of a snapshot (savepoint or retained checkpoint) after a job was started from it: the user, who may delete it later, or
    /// the job, which deletes it once its own first checkpoint is complete. The option is `execution.state-recovery.claim-mode`.
    pub enum ClaimMode {
        /// The user, who may delete the snapshot once the job's own first checkpoint is complete; the default.
        NoClaim = "no_claim" | "no-claim",
        /// The job, which deletes the snapshot when its own first checkpoint is complete.
        Claim = "claim",
    }
}

options! {
    /// The savepoint, or the retained checkpoint, that the job starts from: the path or URI of its folder, or of the file
    /// `_metadata` in it, which all machines of the cluster have to reach. `-s` on the command line. A job that continues from a checkpoint of its own no longer reads it.
    PATH: Option<String> = "execution.state-recovery.path" => None, other ["execution.savepoint.path"];
    /// Whether the job also starts if the savepoint has state that the program does not declare; that state is dropped then. `-n`
    /// on the command line.
    IGNORE_UNCLAIMED_STATE: bool = "execution.state-recovery.ignore-unclaimed-state" => false,
        other ["execution.savepoint.ignore-unclaimed-state"];
    /// The owner of the savepoint after the job was started: `NO_CLAIM` (the user, who may delete
    /// it once the first checkpoint of the job is complete) or `CLAIM` (the job, which deletes it
    /// then). `--claim-mode` on the command line.
    CLAIM_MODE: ClaimMode = "execution.state-recovery.claim-mode" => ClaimMode::NoClaim,
        other ["execution.savepoint-restore-mode"];
}
