//! Draws the checkpointing of a run's jobs.

use super::{PlannedJob, millis};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// The checkpointing options of one planned job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpointing {
    /// `execution.checkpointing.interval`; `None`: the job has a final checkpoint only, because its last vertex commits.
    pub interval: Option<Duration>,
    /// Longest time that a checkpoint may take, after which it is aborted (`execution.checkpointing.timeout`).
    pub timeout: Duration,
    /// Number of complete checkpoints that are kept; older ones are deleted (`execution.checkpointing.num-retained`).
    pub retained: u32,
    /// Number of failed checkpoints in a row that a job survives without a restart
    /// (`execution.checkpointing.tolerable-failed-checkpoints`).
    pub tolerable_failures: u32,
}

impl Checkpointing {
    /// Returns these values as options of the job's graph, by the keys that the fields name; no interval without `interval`.
    pub fn options(&self) -> BTreeMap<String, String> {
        let millis = |time: Duration| format!("{} ms", time.as_millis());
        let options = [
            ("interval", self.interval.map(millis)),
            ("timeout", Some(millis(self.timeout))),
            ("num-retained", Some(self.retained.to_string())),
            ("tolerable-failed-checkpoints", Some(self.tolerable_failures.to_string())),
        ];
        let set = options.into_iter().filter_map(|(key, value)| Some((key, value?)));
        set.map(|(key, value)| (format!("execution.checkpointing.{key}"), value)).collect()
    }
}

/// Gives most jobs checkpoints; some bounded ones take only a final checkpoint.
pub(super) fn draw_checkpointing(rng: &mut ChaCha8Rng, job: &mut PlannedJob) {
    if !rng.random_bool(0.7) {
        return;
    }
    let only_final = rng.random_bool(0.15) && job.task_time.is_some();
    job.checkpointing = Some(Checkpointing {
        interval: (!only_final).then(|| millis(rng, 500, 2_000)),
        timeout: millis(rng, 8_000, 40_000),
        retained: rng.random_range(1..=3),
        tolerable_failures: rng.random_range(0..=2),
    });
}
