//! Reports about the checkpoints of a job, as people see them: counts, the newest checkpoints, and how large and how slow they were.

use crate::ids::JobVertexId;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The state of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointStatus {
    /// Not every part has arrived, or its metadata is being stored.
    InProgress,
    /// Complete: the job, or another one, can be restored from it.
    Completed,
    /// The checkpoint will never be complete.
    Failed,
}

impl CheckpointStatus {
    /// Returns Flink's name: `IN_PROGRESS`, `COMPLETED` or `FAILED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }
}

/// The purpose of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointKind {
    /// The job's recovery; newer checkpoints replace it.
    Checkpoint,
    /// A savepoint, which a user asked for, owns and deletes. The job continues.
    Savepoint,
    /// A user; the job stops with it.
    Stop {
        /// True if the sources first emit the final watermark and the end of their data, so that operators emit what they hold.
        drain: bool,
    },
}

impl CheckpointKind {
    /// Returns true for the kinds that belong to a user.
    pub fn is_savepoint(self) -> bool {
        self != Self::Checkpoint
    }
    /// Returns true if the job stops with the checkpoint.
    pub fn stops(self) -> bool {
        matches!(self, Self::Stop { .. })
    }
}

/// The part of one subtask in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskCheckpointStats {
    /// The Unix milliseconds of its acknowledgement; `None` if its part comes from the checkpoint before, because it had finished
    /// or waits for a slot.
    pub ack_ms: Option<u64>,
    /// The size of its state in bytes.
    pub state_bytes: u64,
}

/// The part of one vertex in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VertexCheckpointStats {
    /// Vertex that the value belongs to.
    pub vertex: JobVertexId,
    /// The parts of its subtasks by their indices; `None` for a part that is missing.
    pub parts: Vec<Option<SubtaskCheckpointStats>>,
}

impl VertexCheckpointStats {
    /// Returns the number of subtasks.
    pub fn subtasks(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }
    /// Returns the number of subtasks whose parts are there.
    pub fn acknowledged(&self) -> u32 {
        u32::try_from(self.present().count()).unwrap_or(u32::MAX)
    }
    /// Returns the Unix milliseconds of the latest acknowledgement, if there is one.
    pub fn latest_ack_ms(&self) -> Option<u64> {
        self.present().filter_map(|part| part.ack_ms).max()
    }
    /// Returns the size of the state in bytes.
    pub fn state_bytes(&self) -> u64 {
        self.present().fold(0, |sum, part| sum.saturating_add(part.state_bytes))
    }
    /// Returns the parts that are there.
    pub fn present(&self) -> impl Iterator<Item = &SubtaskCheckpointStats> {
        self.parts.iter().flatten()
    }
}

/// Statistics of one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStats {
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The purpose of the checkpoint.
    pub kind: CheckpointKind,
    /// State of the checkpoint.
    pub status: CheckpointStatus,
    /// Time of the trigger, in Unix milliseconds.
    pub triggered_ms: u64,
    /// Time of the completion or failure, in Unix milliseconds.
    pub ended_ms: Option<u64>,
    /// The size of all state in bytes, coordinators' included.
    pub state_bytes: u64,
    /// The reason why it has failed.
    pub failure: Option<String>,
    /// The URI of its folder, if it is complete and the folder is known to users.
    pub external_path: Option<String>,
    /// True if it was complete and was deleted, because newer ones replace it.
    pub discarded: bool,
    /// The parts of the vertices, in the graph's order.
    pub vertices: Vec<VertexCheckpointStats>,
}

impl CheckpointStats {
    /// Returns the number of subtasks that take part.
    pub fn subtasks(&self) -> u32 {
        self.vertices.iter().map(VertexCheckpointStats::subtasks).sum()
    }
    /// Returns the number of subtasks that have acknowledged, or had finished before.
    pub fn acknowledged(&self) -> u32 {
        self.vertices.iter().map(VertexCheckpointStats::acknowledged).sum()
    }
    /// Returns the Unix milliseconds of the latest acknowledgement, if there is one.
    pub fn latest_ack_ms(&self) -> Option<u64> {
        self.vertices.iter().filter_map(VertexCheckpointStats::latest_ack_ms).max()
    }
    /// Returns the milliseconds from the trigger to the end, or for one that runs to the latest acknowledgement.
    pub fn duration_ms(&self) -> Option<u64> {
        let end = self.ended_ms.or(self.latest_ack_ms())?;
        Some(end.saturating_sub(self.triggered_ms))
    }
}

/// The number of checkpoints of one JobMaster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckpointCounts {
    /// Number of times the job was restored.
    pub restored: u64,
    /// Number of checkpoints in progress.
    pub in_progress: u64,
    /// Number of complete checkpoints.
    pub completed: u64,
    /// Number of failed checkpoints.
    pub failed: u64,
}

/// The checkpoint that the job was last restored from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredCheckpoint {
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// Time of the restore, in Unix milliseconds.
    pub restored_ms: u64,
    /// True if it is a savepoint.
    pub is_savepoint: bool,
    /// The URI of its folder, if users know it.
    pub external_path: Option<String>,
}

/// The spread of a number over the newest complete checkpoints; all are 0 if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest of the values.
    pub min: u64,
    /// Largest of the values.
    pub max: u64,
    /// Arithmetic mean, rounded down.
    pub average: u64,
    /// The 50th, 90th, 95th, 99th and 99.9th percentile.
    pub percentiles: [u64; 5],
}

impl Spread {
    /// Returns the spread of these numbers.
    pub fn of(numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = numbers.into_iter().collect();
        sorted.sort_unstable();
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let sum: u128 = sorted.iter().map(|n| u128::from(*n)).sum();
        let average = u64::try_from(sum / sorted.len() as u128).unwrap_or(u64::MAX);
        let at = |per_mille: usize| {
            let rank = (sorted.len() * per_mille).div_ceil(1000).max(1);
            sorted.get(rank - 1).copied().unwrap_or(*max)
        };
        let percentiles = [500, 900, 950, 990, 999].map(at);
        Self { min: *min, max: *max, average, percentiles }
    }
}

/// The settings of a job's checkpoints, as people see them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckpointSettings {
    /// The milliseconds between the beginnings of two checkpoints; `None`: there are no periodic ones.
    pub interval_ms: Option<u64>,
    /// The milliseconds after which a checkpoint is aborted.
    pub timeout_ms: u64,
    /// The shortest time in milliseconds between the end of a checkpoint and the beginning of the next one.
    pub min_pause_ms: u64,
    /// The number of failures in a row that do not fail the job.
    pub tolerable_failures: u32,
    /// The URI of the checkpoint directory; `None`: the JobManager keeps the state.
    pub directory: Option<String>,
    /// True if checkpoints outlive a job that fails.
    pub kept_if_failed: bool,
    /// True if checkpoints outlive a job that is cancelled.
    pub kept_if_canceled: bool,
}

/// All about the checkpoints of a job under one JobMaster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckpointReport {
    /// Settings that the checkpoints are made with.
    pub settings: CheckpointSettings,
    /// Number of checkpoints by outcome.
    pub counts: CheckpointCounts,
    /// The newest checkpoints, the newest first; their number is bounded (`web.checkpoints.history`).
    pub history: VecDeque<CheckpointStats>,
    /// The newest checkpoint that is complete and no savepoint.
    pub latest_completed: Option<CheckpointStats>,
    /// The newest complete savepoint.
    pub latest_savepoint: Option<CheckpointStats>,
    /// The newest one that has failed.
    pub latest_failed: Option<CheckpointStats>,
    /// The one that the job was last restored from.
    pub restored: Option<RestoredCheckpoint>,
    /// The sizes in bytes of the newest complete checkpoints.
    pub state_bytes: Spread,
    /// The durations in milliseconds of the newest complete checkpoints.
    pub duration_ms: Spread,
}

impl CheckpointReport {
    /// Returns the checkpoint of this number, if it is still known.
    pub fn find(&self, checkpoint: u64) -> Option<&CheckpointStats> {
        let latest = [&self.latest_completed, &self.latest_savepoint, &self.latest_failed];
        let latest = latest.into_iter().flatten();
        self.history.iter().chain(latest).find(|stats| stats.checkpoint == checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_ranks_of_its_numbers() {
        assert_eq!(Spread::of([]), Spread::default());
        let spread = Spread::of((1..=1000).rev());
        assert_eq!((spread.min, spread.max, spread.average), (1, 1000, 500));
        assert_eq!(spread.percentiles, [500, 900, 950, 990, 999]);
        assert_eq!(Spread::of([7]).percentiles, [7; 5]);
    }
}
