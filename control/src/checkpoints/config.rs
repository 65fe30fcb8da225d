//! The settings of checkpoints.

use crate::mutation::Mutation;
use std::time::Duration;

/// The settings of a job's checkpoints (`execution.checkpointing.*`), fixed for the life of its JobMaster: when they are taken, how long
/// they may take, how many may fail and are kept, and what the report says of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// The time between the beginnings of two checkpoints; a checkpoint that takes longer delays the next one, as only one is taken at a
    /// time. `None`: there are no periodic checkpoints, but savepoints, and final ones at the end of the data, may still be taken.
    pub interval: Option<Duration>,
    /// The time after its beginning at which a checkpoint or savepoint is aborted and has failed, unless all its subtasks have
    /// acknowledged. Storing it then may take longer: a checkpoint without this limit, a savepoint as much time again (the JobMaster
    /// limits the copying).
    pub timeout: Duration,
    /// The shortest time between the completion of a checkpoint or savepoint and the trigger of the next periodic checkpoint. Savepoints
    /// and final checkpoints do not wait for it, and a failed checkpoint begins no pause.
    pub min_pause: Duration,
    /// The number of failed checkpoints in a row that are tolerated; the next one fails the tasks, about which the restart
    /// strategy decides. A failed savepoint does not count (that of a stop fails the tasks at once if its barrier was sent), and a final
    /// checkpoint, which is tried again, never fails them, nor does any checkpoint of a job without an interval.
    pub tolerable_failures: u32,
    /// The number of complete checkpoints that are kept (0 counts as 1); older ones are deleted with their objects when a newer one is
    /// complete. Savepoints do not count, but that of a stop does.
    pub retained: usize,
    /// True if the job may continue from the checkpoint before the newest one if files of the newest one can't be read, which needs
    /// [`CheckpointConfig::retained`] of at least 2; false: it restarts from the newest one only.
    pub falls_back: bool,
    /// The number of checkpoints and savepoints, failed ones included, whose statistics the report lists (0 counts as 1); the oldest are
    /// dropped first.
    pub history: usize,
    /// URI of the checkpoint directory, only for the report; `None`: checkpoints have no directory, the JobManager keeps their
    /// state.
    pub directory: Option<String>,
    /// Two flags, only for the report: the first is true if checkpoints outlive a job that fails, the second if they outlive one that is
    /// cancelled.
    pub kept: (bool, bool),
    /// A rule that a simulation breaks on purpose; [`Mutation::None`] in production.
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
