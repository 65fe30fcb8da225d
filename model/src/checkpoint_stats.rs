//! Reports about the checkpoints of a job, as people see them: counts, the newest checkpoints, and how large and how slow they were.

use crate::ids::{JobId, JobVertexId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The state of a checkpoint or savepoint, as REST shows it: in progress, completed or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointStatus {
    /// The checkpoint was triggered and is not complete: snapshots of coordinators or acknowledgements of subtasks are missing, or it is
    /// being stored (a savepoint in its folder, then or otherwise the metadata).
    InProgress,
    /// Complete: the job, or another one, can be restored from it, unless it was deleted since (`CheckpointStats::discarded`).
    Completed,
    /// The checkpoint was aborted or failed, and will never be complete.
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

/// The purpose of a checkpoint: for recovery, or a savepoint for a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointKind {
    /// A checkpoint for the job's recovery, which newer ones replace: a periodic one, the final one of tasks at the end of their
    /// data, or one that a user asked for beside these.
    Checkpoint,
    /// A savepoint, which a user asked for, owns and deletes. The job continues.
    Savepoint,
    /// A savepoint that a user asked for, owns and deletes; the job stops once it is complete.
    Stop {
        /// True if the sources first emit the final watermark and the end of their data, so that operators emit what they hold.
        drain: bool,
    },
}

impl CheckpointKind {
    /// Returns true for the kinds that a user asked for and owns: `Savepoint` and `Stop`.
    pub fn is_savepoint(self) -> bool {
        self != Self::Checkpoint
    }
    /// Returns true for `Stop`: the job ends once the checkpoint is complete.
    pub fn stops(self) -> bool {
        matches!(self, Self::Stop { .. })
    }
}

/// The part of one subtask in a checkpoint: when it was acknowledged and how much state it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskCheckpointStats {
    /// Time of the subtask's acknowledgement in Unix milliseconds; `None` if the JobMaster took the part over from the
    /// checkpoint before, because the subtask had finished or waits for a slot.
    pub ack_ms: Option<u64>,
    /// The size of the subtask's state in bytes: what a restore would read, parts that earlier checkpoints have written included.
    pub state_bytes: u64,
    /// The longest time in microseconds for which the subtask handled no records because of its snapshot: at the barrier, and while the
    /// snapshot was written and input waited. 0 if the part was taken over from the checkpoint before.
    #[serde(default)]
    pub pause_us: u64,
}

/// The part of one job vertex (chain of operators) in a checkpoint: its subtasks' acknowledgements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VertexCheckpointStats {
    /// The vertex whose subtasks' parts these are.
    pub vertex: JobVertexId,
    /// The parts by subtask index; `None` for a subtask that has not acknowledged.
    pub parts: Vec<Option<SubtaskCheckpointStats>>,
}

impl VertexCheckpointStats {
    /// Returns the number of the vertex's subtasks, acknowledged or not.
    pub fn subtasks(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }
    /// Returns the number of subtasks whose part is present: acknowledged, or taken over from the checkpoint before.
    pub fn acknowledged(&self) -> u32 {
        u32::try_from(self.present().count()).unwrap_or(u32::MAX)
    }
    /// Returns the time of the latest acknowledgement in Unix milliseconds; `None` if no subtask has acknowledged this
    /// checkpoint itself (parts taken over from the one before do not count).
    pub fn latest_ack_ms(&self) -> Option<u64> {
        self.present().filter_map(|part| part.ack_ms).max()
    }
    /// Returns the sum of the state of the subtasks whose part is present, in bytes.
    pub fn state_bytes(&self) -> u64 {
        self.present().fold(0, |sum, part| sum.saturating_add(part.state_bytes))
    }
    /// Iterates over the parts that are present, by subtask index; missing ones are skipped.
    pub fn present(&self) -> impl Iterator<Item = &SubtaskCheckpointStats> {
        self.parts.iter().flatten()
    }
}

/// Statistics of one checkpoint or savepoint, as REST shows them: kind, status, times, size, failure, and the part of each subtask. The
/// JobMaster keeps them in memory, and with the details of an ended job; no decision depends on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStats {
    /// The number of the checkpoint within its job, by which [`CheckpointReport::find`] finds it.
    pub checkpoint: u64,
    /// The purpose of the checkpoint: recovery, a savepoint, or a stop.
    pub kind: CheckpointKind,
    /// State of the checkpoint: in progress, completed or failed.
    pub status: CheckpointStatus,
    /// Time at which the JobMaster triggered the checkpoint, in Unix milliseconds.
    pub triggered_ms: u64,
    /// Time of the completion or failure, in Unix milliseconds; `None` while the checkpoint is in progress. It is the time of the trigger
    /// and what has passed since then on the monotonic clock, so that changes of the clock do not show; those of acknowledgements too.
    pub ended_ms: Option<u64>,
    /// The size of all state in bytes: of the parts that have arrived; coordinators' state is included once the checkpoint is complete.
    /// With incremental checkpoints it is what a restore would read, not what was written.
    pub state_bytes: u64,
    /// The reason for which the checkpoint has failed; `None` unless its status is FAILED.
    pub failure: Option<String>,
    /// The URI of the folder from which a job can be started: of a complete savepoint, also of a stop; of a complete
    /// checkpoint only after [`CheckpointReport::name_folders`]. Otherwise `None`.
    pub external_path: Option<String>,
    /// True if the checkpoint was complete and is deleted since: newer ones replaced it, it could not be read and a newer one is complete,
    /// or the job has ended in a way after which its checkpoints are not kept. False for savepoints; only for that of a stop after which
    /// tasks failed, so that the job went on, it may be true: the job's own copy is deleted then, not the savepoint's folder.
    pub discarded: bool,
    /// The parts of the vertices, in the job graph's order.
    pub vertices: Vec<VertexCheckpointStats>,
}

impl CheckpointStats {
    /// Returns the number of subtasks of all vertices that take part, acknowledged or not.
    pub fn subtasks(&self) -> u32 {
        self.vertices.iter().map(VertexCheckpointStats::subtasks).sum()
    }
    /// Returns the number of subtasks whose part is present: those that have acknowledged, and those whose part was taken over
    /// because they had finished or wait for a slot.
    pub fn acknowledged(&self) -> u32 {
        self.vertices.iter().map(VertexCheckpointStats::acknowledged).sum()
    }
    /// Returns the time of the latest acknowledgement of any subtask in Unix milliseconds on the JobManager's clock;
    /// grows while the checkpoint is in progress. `None` if no subtask has acknowledged by itself; parts that were
    /// taken over from the checkpoint before do not count.
    pub fn latest_ack_ms(&self) -> Option<u64> {
        self.vertices.iter().filter_map(VertexCheckpointStats::latest_ack_ms).max()
    }
    /// Returns the longest time in microseconds for which a subtask handled no records because of its snapshot; 0 if no subtask has
    /// acknowledged.
    pub fn pause_us(&self) -> u64 {
        let parts = self.vertices.iter().flat_map(VertexCheckpointStats::present);
        parts.map(|part| part.pause_us).max().unwrap_or(0)
    }
    /// Returns the milliseconds from the trigger to the completion or failure; while the checkpoint is in progress, to the
    /// latest acknowledgement; `None` while it is in progress and no subtask has acknowledged.
    pub fn duration_ms(&self) -> Option<u64> {
        let end = self.ended_ms.or(self.latest_ack_ms())?;
        Some(end.saturating_sub(self.triggered_ms))
    }
}

/// The numbers of checkpoints, savepoints included, by outcome. One JobMaster has counted them; they begin at 0 with
/// each JobMaster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckpointCounts {
    /// Number of restores from a checkpoint or savepoint that were begun since the JobMaster began: one if it began with one (a job started
    /// from a snapshot, or taken over), and one for each region of tasks that was deployed again after a failure while there was one. As
    /// in Flink, a restore counts when it is begun: if tasks fail while they restore and are deployed again, that is one more.
    pub restored: u64,
    /// Number of checkpoints in progress now: 0 or 1.
    pub in_progress: u64,
    /// Number of checkpoints and savepoints that became complete since the JobMaster began, those deleted since included.
    pub completed: u64,
    /// Number of checkpoints and savepoints that failed since the JobMaster began; those that were aborted because tasks failed or were
    /// cancelled count, too.
    pub failed: u64,
}

/// The checkpoint or savepoint that the job was last restored from: at the start of its JobMaster, or when a region of tasks was deployed
/// again after a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredCheckpoint {
    /// The number of the checkpoint; for a snapshot of another job, that job's number.
    pub checkpoint: u64,
    /// Time at which the job was restored, in Unix milliseconds.
    pub restored_ms: u64,
    /// True if this is the snapshot that the job was started from (a savepoint or a retained checkpoint), false if it is a
    /// checkpoint of the job itself.
    pub is_savepoint: bool,
    /// The folder of the snapshot that the job was started from; `None` if the job was restored from a checkpoint of its own, until
    /// [`CheckpointReport::name_folders`] names that folder.
    pub external_path: Option<String>,
}

/// The spread (minimum, mean, percentiles) of a number (bytes or milliseconds) over the newest complete checkpoints;
/// every field is 0 if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest of the values, in their unit; 0 if there are none.
    pub min: u64,
    /// Largest of the values, in their unit; 0 if there are none.
    pub max: u64,
    /// Arithmetic mean of the values, rounded down; 0 if there are none.
    pub average: u64,
    /// The 50th, 90th, 95th, 99th and 99.9th percentile, by nearest rank: each is one of the numbers.
    pub percentiles: [u64; 5],
}

impl Spread {
    /// Computes the spread of these numbers, in any order; all fields are 0 if there are no numbers.
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

/// The settings of a job's checkpoints, as REST shows them to people: interval, time-out, pause, tolerated failures, directory, and
/// what is kept after the job's end. Read from the job's options once; changing this value has no effect on the job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckpointSettings {
    /// Milliseconds between the beginnings of two periodic checkpoints, more if one takes longer: at most one is in progress. `None`: there
    /// are no periodic checkpoints.
    pub interval_ms: Option<u64>,
    /// Milliseconds from the trigger after which a checkpoint or savepoint is aborted, and counts as failed, unless all its parts have
    /// arrived by then; the time to store its metadata (or a savepoint's folder) afterwards is not limited by it.
    pub timeout_ms: u64,
    /// Minimum time in milliseconds from the completion of a checkpoint or savepoint to the next periodic checkpoint; a checkpoint that
    /// failed is followed without it.
    pub min_pause_ms: u64,
    /// The number of failed checkpoints in a row that the job tolerates; one more fails all tasks, and the restart strategy decides. Failed
    /// savepoints and checkpoints that were aborted because tasks failed do not count; a final checkpoint never fails the tasks. The
    /// savepoint of a stop fails them at once, whatever this number, if it fails after sources have been told to take it.
    pub tolerable_failures: u32,
    /// The URI of the directory that checkpoints are written to; `None`: the JobManager keeps them.
    pub directory: Option<String>,
    /// True if the newest checkpoints are kept after the job has failed (FAILED); otherwise they are deleted.
    pub kept_if_failed: bool,
    /// True if the newest checkpoints are kept after the job was cancelled (CANCELED); otherwise they are deleted.
    pub kept_if_canceled: bool,
}

/// All that REST shows about the checkpoints of a job: settings, counts, the newest ones, the latest of each outcome, the one that
/// was restored, and the spread of sizes and durations. Statistics begin anew with each JobMaster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckpointReport {
    /// The job's checkpoint settings.
    pub settings: CheckpointSettings,
    /// Numbers of checkpoints by outcome, since the JobMaster began.
    pub counts: CheckpointCounts,
    /// The newest checkpoints and savepoints in progress, complete and failed, the newest first; beyond `web.checkpoints.history` of
    /// them (at least one is kept) the oldest are dropped.
    pub history: VecDeque<CheckpointStats>,
    /// The newest complete checkpoint that is no savepoint, also if the history has dropped it; `None` if there was none under this
    /// JobMaster.
    pub latest_completed: Option<CheckpointStats>,
    /// The newest complete savepoint, also of a stop; `None` if there was none under this JobMaster.
    pub latest_savepoint: Option<CheckpointStats>,
    /// The newest checkpoint or savepoint that has failed or was aborted; `None` if none has under this JobMaster.
    pub latest_failed: Option<CheckpointStats>,
    /// The checkpoint or savepoint that the job, or a region of it, was last restored from; `None` if none was under this JobMaster.
    pub restored: Option<RestoredCheckpoint>,
    /// The spread of the sizes in bytes of the newest complete checkpoints, at most 1,000, savepoints included.
    pub state_bytes: Spread,
    /// The spread of the durations in milliseconds, from trigger to completion, of the newest complete checkpoints, at
    /// most 1,000, savepoints included.
    pub duration_ms: Spread,
}

impl CheckpointReport {
    /// Sets the external path of each complete checkpoint, and of the restored one, that has none to its folder `DIRECTORY/JOB/chk-N`, as
    /// `flott run -s` takes it; also of those that were deleted since. Does nothing for savepoints, which have theirs, or if the job has
    /// no checkpoint directory. The REST endpoint calls it on its copy of the report; a repetition changes nothing.
    pub fn name_folders(&mut self, job: JobId) {
        let Some(directory) = &self.settings.directory else { return };
        let folder =
            |checkpoint: u64| format!("{}/{job}/chk-{checkpoint}", directory.trim_end_matches('/'));
        let latest = self.latest_completed.iter_mut();
        for stats in self.history.iter_mut().chain(latest) {
            if stats.status == CheckpointStatus::Completed && !stats.kind.is_savepoint() {
                stats.external_path.get_or_insert_with(|| folder(stats.checkpoint));
            }
        }
        if let Some(restored) = &mut self.restored {
            restored.external_path.get_or_insert_with(|| folder(restored.checkpoint));
        }
    }

    /// Returns the statistics of the checkpoint with this number from the history or the latest of each kind; `None` if it
    /// never existed or was dropped from the bounded history.
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
