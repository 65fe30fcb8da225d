//! The checkpoint that is in progress. This module must never decide what follows from an event.

use super::Checkpoints;
use crate::execution_graph::TaskIndex;
use model::{CheckpointBarrier, CheckpointKind, OperatorId, StateHandle, SubtaskSnapshot};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The number, time and all parts (of subtasks and coordinators) of a checkpoint or savepoint whose last part has arrived; the checkpoint
/// coordinator hands them out with the step to store it, and the metadata is made of them ([`assemble`](super::assemble)).
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The time of the trigger, in Unix milliseconds.
    pub triggered_ms: u64,
    /// The part of each subtask, those that were taken over from the latest checkpoint included.
    pub tasks: BTreeMap<TaskIndex, SubtaskSnapshot>,
    /// The state of each coordinator, those that were taken over from the latest checkpoint included.
    pub coordinators: BTreeMap<OperatorId, StateHandle>,
}

/// Most operators that the reason of a failure names.
const NAMED_MAX: usize = 3;

/// The phase that a pending checkpoint is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The number is appended to the job's log.
    Number,
    Coordinators,
    Tasks,
    /// The parts are copied into the folder of the savepoint.
    Storing,
    /// The pointer is appended to the job's log.
    Persisting,
}

/// A checkpoint that is neither complete nor aborted.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) kind: CheckpointKind,
    pub(super) deadline: Duration,
    pub(super) phase: Phase,
    /// True if every snapshot has to contain all state.
    pub(super) full: bool,
    /// The folder of a savepoint that is stored.
    pub(super) folder: Option<String>,
    /// The subtasks that have to acknowledge.
    pub(super) tasks: BTreeSet<TaskIndex>,
    /// The subtasks that have not acknowledged yet.
    pub(super) waiting: BTreeSet<TaskIndex>,
    /// The subtasks that end with this checkpoint.
    pub(super) last: BTreeSet<TaskIndex>,
    /// The names of the operators whose coordinators take snapshots.
    pub(super) coordinated: BTreeMap<OperatorId, String>,
    /// The operators whose coordinators take no part.
    pub(super) absent: BTreeSet<OperatorId>,
    pub(super) parts: Parts,
}

impl Pending {
    /// Returns true once the barrier was given to the sources.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.phase, Phase::Number | Phase::Coordinators)
    }

    /// Returns true while a store is written whose outcome decides about the checkpoint.
    pub(super) fn is_being_stored(&self) -> bool {
        matches!(self.phase, Phase::Storing | Phase::Persisting)
    }

    /// Returns the part of the checkpoint that has not come yet, as a clause for people. Coordinators answer together, so the clause
    /// names all of them, but no more than three.
    pub(super) fn missing(&self) -> String {
        if self.phase == Phase::Number {
            return "its number is not recorded in the job's log (in high-availability.storageDir), so no barrier was sent"
                .to_owned();
        }
        if self.phase == Phase::Coordinators {
            let names = self.coordinated.values().take(NAMED_MAX).map(|name| format!("'{name}'"));
            let names = names.collect::<Vec<_>>().join(", ");
            let more = match self.coordinated.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return format!(
                "not all snapshots of the coordinators (enumerators) have come (operators: {names}{more}), so no barrier was sent"
            );
        }
        match self.waiting.len() {
            1 => "1 subtask has not acknowledged".to_owned(),
            n => format!("{n} subtasks have not acknowledged"),
        }
    }
}

impl Checkpoints {
    /// Returns the barrier of the checkpoint with this number for sources that do not end with it, all subtasks that have to
    /// acknowledge it (those that have done so included), and those of them that end with it; `None` if it is not in progress.
    pub fn pending(
        &self,
        checkpoint: u64,
    ) -> Option<(CheckpointBarrier, &BTreeSet<TaskIndex>, &BTreeSet<TaskIndex>)> {
        let pending = self.pending.as_ref().filter(|p| p.parts.checkpoint == checkpoint)?;
        let barrier = CheckpointBarrier {
            checkpoint,
            triggered_ms: pending.parts.triggered_ms,
            last: false,
            drain: pending.kind == CheckpointKind::Stop { drain: true },
            savepoint: pending.kind.is_savepoint(),
            full: pending.full,
        };
        Some((barrier, &pending.tasks, &pending.last))
    }

    pub(super) fn in_phase(&mut self, checkpoint: u64, phase: Phase) -> Option<&mut Pending> {
        let of = |p: &&mut Pending| p.parts.checkpoint == checkpoint && p.phase == phase;
        self.pending.as_mut().filter(of)
    }
}
