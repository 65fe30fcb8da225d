//! The set of subtasks that a checkpoint covers. This module must never decide what is done with a
//! checkpoint.

use crate::execution_graph::TaskIndex;
use model::{OperatorId, StateHandle, SubtaskSnapshot};
use std::collections::{BTreeMap, BTreeSet};

/// The subtasks that a checkpoint is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The subtasks that have to acknowledge.
    pub tasks: BTreeSet<TaskIndex>,
    /// The subtasks that end with the checkpoint, because all of their sources have no more data.
    pub last: BTreeSet<TaskIndex>,
    /// The parts of all other subtasks, as the latest checkpoint has them: they have finished, or their region waits for slots.
    pub others: BTreeMap<TaskIndex, SubtaskSnapshot>,
    /// True if coordinators have to take snapshots.
    pub coordinated: bool,
    /// The states of coordinators that take none, as the latest checkpoint has them: their region waits for slots.
    pub coordinators: BTreeMap<OperatorId, Option<StateHandle>>,
}
