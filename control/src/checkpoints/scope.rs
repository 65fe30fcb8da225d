//! The set of subtasks that a checkpoint covers. This module must never decide what is done with a
//! checkpoint.

use crate::execution_graph::TaskIndex;
use model::{OperatorId, StateHandle, SubtaskSnapshot};
use std::collections::{BTreeMap, BTreeSet};

/// The subtasks and coordinators that take part in a checkpoint, and the parts of those that do not, as the JobMaster's core determines
/// them for [`Checkpoints::begin`](super::Checkpoints::begin). Each subtask of the job is in `tasks` or in `others`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The subtasks that have to acknowledge the checkpoint before it is complete.
    pub tasks: BTreeSet<TaskIndex>,
    /// The subtasks among `tasks` that end with the checkpoint, because all their sources have no more data or the job stops.
    pub last: BTreeSet<TaskIndex>,
    /// The parts of all other subtasks, from the latest checkpoint: they have finished, or their region waits for slots.
    pub others: BTreeMap<TaskIndex, SubtaskSnapshot>,
    /// The operators whose coordinators run and have to take snapshots first, with their names; if it is empty, the barrier is given to the
    /// sources at once.
    pub coordinated: BTreeMap<OperatorId, String>,
    /// The states of the coordinators that take no snapshot, because no region that they serve has had its slots yet, or they are being
    /// started, from the latest checkpoint (`None`: no state).
    pub coordinators: BTreeMap<OperatorId, Option<StateHandle>>,
}
