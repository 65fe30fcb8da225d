//! The barriers of checkpoints on their way from source tasks to the tasks behind them.
//!
//! In reality a barrier travels with the records over the data connections between program hosts. The doubles have no such
//! connections, so they share this board: a source attempt notes the barrier, and an attempt behind it takes the barrier once every
//! source that it is connected with has noted it. The tasks of a region are renewed together, so attempts are connected if they are
//! of one execution graph and have the same attempt number. A barrier must never reach an attempt before it has passed its sources.

use model::{CheckpointBarrier, ExecutionAttemptId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The newest barrier of connected attempts, and the source subtasks that it has passed.
type Newest = (CheckpointBarrier, BTreeSet<u32>);

/// The barriers of a run, by execution graph and attempt number. Clones share the board.
#[derive(Debug, Clone, Default)]
pub struct Barriers(Arc<Mutex<BTreeMap<(u64, u32), Newest>>>);

impl Barriers {
    /// Notes that a barrier has passed a source attempt. It replaces an older barrier of the attempts that are connected with the source;
    /// one that is older itself is ignored.
    pub fn pass(&self, source: ExecutionAttemptId, barrier: CheckpointBarrier) {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = board
            .entry((source.graph, source.attempt))
            .or_insert_with(|| (barrier, BTreeSet::new()));
        if newest.0.checkpoint < barrier.checkpoint {
            *newest = (barrier, BTreeSet::new());
        }
        if newest.0.checkpoint == barrier.checkpoint {
            newest.1.insert(source.subtask);
        }
    }

    /// Returns the newest barrier that has passed all source subtasks with which `attempt` is connected, of which there are
    /// `sources`; `None` if it has not passed all of them yet.
    pub fn passed(&self, attempt: ExecutionAttemptId, sources: u32) -> Option<CheckpointBarrier> {
        let board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (barrier, sources_passed) = board.get(&(attempt.graph, attempt.attempt))?;
        (sources_passed.len() == sources as usize).then_some(*barrier)
    }
}
