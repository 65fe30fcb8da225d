//! The report of a job's checkpoints, for users. Nothing here decides anything.

use super::CheckpointConfig;
use crate::execution_graph::TaskIndex;
use model::{
    CheckpointKind, CheckpointReport, CheckpointSettings, CheckpointStats, CheckpointStatus,
    JobVertexId, RestoredCheckpoint, Spread, SubtaskCheckpointStats, SubtaskSnapshot,
    VertexCheckpointStats,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The number of complete checkpoints whose sizes and durations are summed up.
const SAMPLES: usize = 1000;

/// The history of a job's checkpoints under one JobMaster.
#[derive(Debug, Clone)]
pub(super) struct History {
    report: CheckpointReport,
    /// The most checkpoints that the report lists.
    limit: usize,
    /// Each vertex with the index that follows its last subtask, in the order of the indices.
    vertices: Vec<(JobVertexId, u32)>,
    /// The size in bytes and the duration in milliseconds of complete checkpoints, the newest last.
    samples: VecDeque<(u64, u64)>,
    /// The monotonic time and the Unix milliseconds at which the pending checkpoint was triggered.
    triggered: (Duration, u64),
}

impl History {
    pub(super) fn new(config: &CheckpointConfig) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let settings = CheckpointSettings {
            interval_ms: config.interval.map(millis),
            timeout_ms: millis(config.timeout),
            min_pause_ms: millis(config.min_pause),
            tolerable_failures: config.tolerable_failures,
            directory: config.directory.clone(),
            kept_if_failed: config.kept.0,
            kept_if_canceled: config.kept.1,
        };
        Self {
            report: CheckpointReport { settings, ..CheckpointReport::default() },
            limit: config.history,
            vertices: Vec::new(),
            samples: VecDeque::new(),
            triggered: (Duration::ZERO, 0),
        }
    }

    /// Sets the vertices of the job with their parallelisms, in the order of the subtasks' indices.
    pub(super) fn set_vertices(&mut self, vertices: impl Iterator<Item = (JobVertexId, u32)>) {
        let mut end = 0_u32;
        self.vertices = vertices
            .map(|(vertex, parallelism)| {
                end = end.saturating_add(parallelism);
                (vertex, end)
            })
            .collect();
    }

    /// Returns the report, with sums over the newest complete checkpoints.
    pub(super) fn report(&self) -> CheckpointReport {
        CheckpointReport {
            state_bytes: Spread::of(self.samples.iter().map(|(bytes, _)| *bytes)),
            duration_ms: Spread::of(self.samples.iter().map(|(_, ms)| *ms)),
            ..self.report.clone()
        }
    }

    /// Returns the longest pause in microseconds that a listed checkpoint has made in a subtask; 0 if none is known.
    pub(super) fn pause_us(&self, checkpoint: u64) -> u64 {
        self.report.find(checkpoint).map_or(0, CheckpointStats::pause_us)
    }

    pub(super) fn restored(&mut self, restored: RestoredCheckpoint) {
        self.report.counts.restored += 1;
        self.report.restored = Some(restored);
    }

    /// Records that a checkpoint begins. `finished` are the parts of subtasks that have finished
    /// before.
    pub(super) fn begin(
        &mut self,
        (now, now_unix_ms): (Duration, u64),
        checkpoint: u64,
        kind: CheckpointKind,
        finished: &BTreeMap<TaskIndex, SubtaskSnapshot>,
    ) {
        self.triggered = (now, now_unix_ms);
        let mut before = 0;
        let vertices = self.vertices.iter().map(|(vertex, end)| {
            let subtasks = end.saturating_sub(std::mem::replace(&mut before, *end));
            VertexCheckpointStats { vertex: *vertex, parts: vec![None; subtasks as usize] }
        });
        let stats = CheckpointStats {
            checkpoint,
            kind,
            status: CheckpointStatus::InProgress,
            triggered_ms: now_unix_ms,
            ended_ms: None,
            state_bytes: 0,
            failure: None,
            external_path: None,
            discarded: false,
            vertices: vertices.collect(),
        };
        self.report.counts.in_progress += 1;
        self.report.history.push_front(stats);
        self.report.history.truncate(self.limit.max(1));
        for (task, part) in finished {
            self.add_part(*task, part, None);
        }
    }

    /// Records that a subtask has acknowledged the pending checkpoint.
    pub(super) fn acknowledged(&mut self, now: Duration, task: TaskIndex, part: &SubtaskSnapshot) {
        let at = self.unix_ms(now);
        self.add_part(task, part, Some(at));
    }

    fn add_part(&mut self, task: TaskIndex, part: &SubtaskSnapshot, at: Option<u64>) {
        let place = self.vertices.partition_point(|(_, end)| *end <= task.0);
        let Some(stats) = self.report.history.front_mut() else { return };
        let bytes: u64 = part.operators.iter().map(|(_, state)| state.bytes()).sum();
        stats.state_bytes = stats.state_bytes.saturating_add(bytes);
        let first = place.checked_sub(1).and_then(|before| self.vertices.get(before));
        let subtask = task.0.saturating_sub(first.map_or(0, |(_, end)| *end)) as usize;
        let vertex = stats.vertices.get_mut(place);
        if let Some(kept) = vertex.and_then(|vertex| vertex.parts.get_mut(subtask)) {
            *kept = Some(SubtaskCheckpointStats {
                ack_ms: at,
                state_bytes: bytes,
                pause_us: part.pause_us,
            });
        }
    }

    /// Records that the pending checkpoint is complete; `bytes` is the size of its state.
    pub(super) fn completed(&mut self, now: Duration, bytes: u64, path: Option<String>) {
        let ended_ms = self.unix_ms(now);
        let Some(stats) = self.report.history.front_mut() else { return };
        stats.status = CheckpointStatus::Completed;
        stats.ended_ms = Some(ended_ms);
        stats.state_bytes = bytes;
        stats.external_path = path;
        self.samples.push_back((bytes, stats.duration_ms().unwrap_or_default()));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        let latest = match stats.kind.is_savepoint() {
            true => &mut self.report.latest_savepoint,
            false => &mut self.report.latest_completed,
        };
        *latest = Some(stats.clone());
        self.report.counts.completed += 1;
        self.report.counts.in_progress -= 1;
    }

    /// Records that the pending checkpoint has failed.
    pub(super) fn failed(&mut self, now: Duration, why: &str) {
        let ended_ms = self.unix_ms(now);
        let Some(stats) = self.report.history.front_mut() else { return };
        stats.status = CheckpointStatus::Failed;
        stats.ended_ms = Some(ended_ms);
        stats.failure = Some(why.to_owned());
        self.report.latest_failed = Some(stats.clone());
        self.report.counts.failed += 1;
        self.report.counts.in_progress -= 1;
    }

    /// Records that a complete checkpoint was replaced by newer ones and is deleted.
    pub(super) fn discarded(&mut self, checkpoint: u64) {
        let listed = self.report.history.iter_mut().chain(&mut self.report.latest_completed);
        for stats in listed.filter(|stats| stats.checkpoint == checkpoint) {
            stats.discarded = true;
        }
    }

    /// Records that all complete checkpoints are deleted with their job, which has ended. Savepoints stay.
    pub(super) fn discarded_all(&mut self) {
        let listed = self.report.history.iter_mut().chain(&mut self.report.latest_completed);
        for stats in listed.filter(|stats| !stats.kind.is_savepoint()) {
            stats.discarded |= stats.status == CheckpointStatus::Completed;
        }
    }

    /// Returns a monotonic time since the trigger of the pending checkpoint in Unix milliseconds. A checkpoint's duration so does
    /// not depend on changes of the clock.
    fn unix_ms(&self, now: Duration) -> u64 {
        let (triggered, unix_ms) = self.triggered;
        let since = u64::try_from(now.saturating_sub(triggered).as_millis());
        unix_ms.saturating_add(since.unwrap_or(u64::MAX))
    }
}
