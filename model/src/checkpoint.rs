//! Checkpoints as the control plane sees them: handles of state, never the state itself, which is opaque bytes in an object
//! store.

use crate::graph::StateDeclaration;
use crate::ids::{JobId, OperatorId};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// The place of one snapshot's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateHandle {
    /// The bytes themselves, because they are few
    /// (`execution.checkpointing.data-inline-threshold`).
    Inline(#[serde(with = "serde_bytes")] Vec<u8>),
    /// An object of the checkpoint directory.
    Object {
        /// The object's name, relative to the checkpoint directory.
        name: String,
        /// Length of the object in bytes.
        bytes: u64,
    },
    /// An object outside of the checkpoint directory, which the job does not own: it was started
    /// from a savepoint.
    External {
        /// URI of the object.
        uri: String,
        /// Length of the object in bytes.
        bytes: u64,
    },
    /// Several parts. Large keyed state is stored in parts, so that it can be stored while it is
    /// being written, and a subtask reads only the parts with key groups that it owns. No part has
    /// parts.
    Parts(Vec<StatePart>),
}

/// A part of a state, which can be restored without the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePart {
    /// The key groups of its entries, as the first and the last group of each run; empty: any group.
    pub groups: Vec<(u32, u32)>,
    /// The place of the part's bytes.
    pub state: StateHandle,
}

impl StatePart {
    /// Returns true if the part may have entries of these key groups.
    pub fn may_have(&self, groups: &Range<u32>) -> bool {
        let overlaps = |(first, last): &(u32, u32)| *first < groups.end && *last >= groups.start;
        self.groups.is_empty() || self.groups.iter().any(overlaps)
    }
}

impl StateHandle {
    /// Returns the number of bytes of state.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Object { bytes, .. } | Self::External { bytes, .. } => *bytes,
            Self::Parts(parts) => parts.iter().map(|part| part.state.bytes()).sum(),
        }
    }
    /// Returns the name of the object, if the bytes are in one that belongs to the job.
    pub fn object(&self) -> Option<&str> {
        match self {
            Self::Inline(_) | Self::External { .. } | Self::Parts(_) => None,
            Self::Object { name, .. } => Some(name),
        }
    }
    /// Iterates over the handles of the parts, or over this handle alone.
    pub fn places(&self) -> impl Iterator<Item = &Self> {
        let (parts, whole) = match self {
            Self::Parts(parts) => (parts.as_slice(), None),
            whole => (&[][..], Some(whole)),
        };
        parts.iter().map(|part| &part.state).chain(whole)
    }
    /// Iterates over the same handles as [`StateHandle::places`], to change them.
    pub fn places_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        let (parts, whole) = match self {
            Self::Parts(parts) => (parts.as_mut_slice(), None),
            whole => (&mut [][..], Some(whole)),
        };
        parts.iter_mut().map(|part| &mut part.state).chain(whole)
    }
}

/// A checkpoint's barrier as it is given to the sources of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointBarrier {
    /// The number of the checkpoint; it grows during the life of a job.
    pub checkpoint: u64,
    /// Time of the checkpoint's trigger, in Unix milliseconds.
    pub triggered_ms: u64,
    /// True if the task that takes this barrier ends once the checkpoint is complete: its sources have no more data, or the job is
    /// stopped.
    pub last: bool,
    /// True if sources that have data left emit the final watermark and the end of input before the barrier.
    #[serde(default)]
    pub drain: bool,
}

/// The part of a checkpoint that one subtask has written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskSnapshot {
    /// True if the subtask had reached the end of its data before the barrier. After a restore it processes nothing more.
    pub ended: bool,
    /// The state of each operator that has some.
    pub operators: Vec<(OperatorId, StateHandle)>,
}

impl SubtaskSnapshot {
    /// Iterates over the names of the objects that the part refers to.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        let places = self.operators.iter().flat_map(|(_, state)| state.places());
        places.filter_map(StateHandle::object)
    }
}

/// The state of one operator in one former subtask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorSubtaskState {
    /// True if the subtask had reached the end of its data.
    pub ended: bool,
    /// The operator's state in this subtask, `None` if it had none.
    pub state: Option<StateHandle>,
}

/// The state of one operator in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorState {
    /// The operator's name, for messages.
    pub name: String,
    /// Uid that the program gave the operator; `None` if it gave none.
    pub uid: Option<String>,
    /// The number of key groups.
    pub max_parallelism: u32,
    /// The states that the operator declares. Empty in metadata of a version that did not write them.
    #[serde(default)]
    pub states: Vec<StateDeclaration>,
    /// The state of each former subtask, by index.
    pub subtasks: Vec<OperatorSubtaskState>,
    /// The state of the operator's coordinator, if it has one.
    pub coordinator: Option<StateHandle>,
}

/// A complete checkpoint: what a restore needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointMetadata {
    /// The job that the checkpoint was taken of.
    pub job_id: JobId,
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The id of the execution graph that the checkpoint was taken of. No two JobMasters have the same one, so neither name
    /// objects alike. 0 in metadata that was written before this field existed.
    #[serde(default)]
    pub graph: u64,
    /// Time of the trigger, in Unix milliseconds.
    pub triggered_ms: u64,
    /// Time at which every part had arrived, in Unix milliseconds.
    pub completed_ms: u64,
    /// The state of every operator of the job, with or without state.
    pub operators: BTreeMap<OperatorId, OperatorState>,
}

impl CheckpointMetadata {
    /// Returns the name of the object with this metadata, relative to the checkpoint directory:
    /// `<job>/chk-<number>/_metadata-<graph>`, for instance `…/chk-5/_metadata-00000000075bcd15`.
    pub fn object_name(&self) -> String {
        let Self { job_id, checkpoint, graph, .. } = self;
        match graph {
            0 => format!("{job_id}/chk-{checkpoint}/_metadata"),
            graph => format!("{job_id}/chk-{checkpoint}/_metadata-{graph:016x}"),
        }
    }
    /// Returns the names of all objects that the checkpoint refers to.
    pub fn objects(&self) -> BTreeSet<String> {
        self.handles().filter_map(StateHandle::object).map(str::to_owned).collect()
    }
    /// Returns the size of all state in bytes.
    pub fn state_bytes(&self) -> u64 {
        self.handles().map(StateHandle::bytes).sum()
    }
    /// Iterates over the states of all subtasks and coordinators, to change them.
    pub fn states_mut(&mut self) -> impl Iterator<Item = &mut StateHandle> {
        self.operators.values_mut().flat_map(|operator| {
            let subtasks = operator.subtasks.iter_mut().filter_map(|s| s.state.as_mut());
            subtasks.chain(&mut operator.coordinator)
        })
    }
    /// Iterates over the places of all state, to change them.
    pub fn handles_mut(&mut self) -> impl Iterator<Item = &mut StateHandle> {
        self.states_mut().flat_map(StateHandle::places_mut)
    }
    /// Iterates over the places of all state.
    pub fn handles(&self) -> impl Iterator<Item = &StateHandle> {
        self.operators.values().flat_map(|operator| {
            let subtasks = operator.subtasks.iter().filter_map(|subtask| subtask.state.as_ref());
            subtasks.chain(&operator.coordinator).flat_map(StateHandle::places)
        })
    }
}

/// The entry of a job's log by which a complete checkpoint is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointPointer {
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The name of the object with its [`CheckpointMetadata`], relative to the checkpoint directory.
    pub metadata: String,
    /// The checkpoint directory's URI; `None`: the store that keeps the job's log.
    pub directory: Option<String>,
    /// The snapshot that the job has yet to delete, because it was started from it and owns it. A JobMaster that takes the job over
    /// does so if the one before has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<ClaimedSnapshot>,
}

/// A savepoint or retained checkpoint that belongs to the job which was started from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedSnapshot {
    /// The URI of its metadata.
    pub uri: String,
    /// The job that it was taken of.
    pub job_id: JobId,
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The id of the execution graph that it was taken of.
    pub graph: u64,
}

impl ClaimedSnapshot {
    /// Returns true if the metadata is that of this snapshot, and not of another one that was put into its place.
    pub fn is(&self, metadata: &CheckpointMetadata) -> bool {
        let CheckpointMetadata { job_id, checkpoint, graph, .. } = metadata;
        (self.job_id, self.checkpoint, self.graph) == (*job_id, *checkpoint, *graph)
    }
}
