//! The settings of checkpoints.

use crate::mutation::Mutation;
use std::time::Duration;

/// The settings of a job's checkpoints, `execution.checkpointing.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// The time between the beginnings of two checkpoints; `None`: there are no periodic checkpoints.
    pub interval: Option<Duration>,
    /// The time after which a checkpoint is aborted.
    pub timeout: Duration,
    /// The shortest time between the end of a checkpoint and the beginning of the next one.
    pub min_pause: Duration,
    /// The number of failures in a row that do not fail the job.
    pub tolerable_failures: u32,
    /// The number of complete checkpoints that are kept.
    pub retained: usize,
    /// True if the job continues from the checkpoint before if the newest one can't be read.
    pub falls_back: bool,
    /// The number of ended checkpoints whose statistics are kept for users.
    pub history: usize,
    /// The checkpoint directory; only reported.
    pub directory: Option<String>,
    /// Whether checkpoints outlive a job that fails, and one that is cancelled; only reported.
    pub kept: (bool, bool),
    /// A rule that is broken on purpose, in simulations.
    pub mutation: Mutation,
}

impl Default for CheckpointConfig {
    /// Returns Flink's defaults; no periodic checkpoints.
    fn default() -> Self {
        Self {
            interval: None,
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            tolerable_failures: 0,
            retained: 1,
            falls_back: false,
            history: 10,
            directory: None,
            kept: (false, false),
            mutation: Mutation::None,
        }
    }
}
