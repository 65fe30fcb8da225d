//! Checkpoints as the control plane sees them: handles of state, never the state itself, which is opaque bytes in an object
//! store.

use crate::graph::StateDeclaration;
use crate::ids::{JobId, OperatorId};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// The place of the bytes of one state in a snapshot: in the handle itself, in an object of the job, in a foreign object, or in parts.
/// A task's host makes it when it has stored the state, the JobMaster keeps it in the checkpoint's metadata, and the host of a restored
/// task reads the bytes by it. The type itself reads and deletes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateHandle {
    /// The bytes themselves: state of at most `execution.checkpointing.data-inline-threshold`, the state of every coordinator, and
    /// all state of a job without a checkpoint directory.
    Inline(#[serde(with = "serde_bytes")] Vec<u8>),
    /// An object of the checkpoint directory; the job owns it and deletes it with the last checkpoint that refers to
    /// it.
    Object {
        /// The object's name, relative to the checkpoint directory. The job owns the object and deletes it with the last
        /// checkpoint that refers to it.
        name: String,
        /// Length of the state in bytes. What follows it in the object (the index of a part) is not state.
        bytes: u64,
    },
    /// An object outside of the checkpoint directory, by its URI: part of a snapshot that the job was started from and
    /// may not own. The job must not delete the object.
    External {
        /// URI of the object.
        uri: String,
        /// Length of the state in bytes, with which the object begins.
        bytes: u64,
    },
    /// Several parts, in the order in which a restore reads them. Large keyed state is stored in parts, so that it can be stored while
    /// it is being written, and a subtask reads only the parts, and the ranges of them, with key groups that it owns. With
    /// `execution.checkpointing.incremental` the first parts may be those of an earlier checkpoint, and the changes since follow. No
    /// part has parts.
    Parts(Vec<StatePart>),
    /// Some ranges of an object, in their order: what a subtask of another parallelism restores of it. Only the order to restore a task
    /// has such handles; metadata never has them.
    Ranges {
        /// The whole object: [`StateHandle::Object`] or [`StateHandle::External`].
        of: Box<StateHandle>,
        /// The ranges to read, ascending; none overlaps another one.
        ranges: Vec<StateRange>,
        /// If some of the ranges are several chunks in one: the place of the object's index, and the key groups (end exclusive) whose
        /// chunks to read by it instead. `None`: the ranges are read as they are.
        #[serde(default)]
        index: Option<(StateRange, Range<u32>)>,
    },
}

/// A part of a large keyed state ([`StateHandle::Parts`]), which holds whole entries. A subtask needs only the parts with its key groups
/// ([`StatePart::needed`]); of these it needs all, in order: a part with changes replaces and removes entries of the parts before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePart {
    /// The key groups (sets of keys, by hash) of the part's entries: pairs of the first and the last group (inclusive)
    /// of each run of groups. An empty list means that the part may have entries of any group.
    pub groups: Vec<(u32, u32)>,
    /// The place of the part's bytes, which has no parts itself.
    pub state: StateHandle,
    /// The ranges that the part's bytes consist of, ascending and without gaps, at most [`StatePart::RANGES_MAX`]. Each can be restored
    /// without the others. Empty if they are not known: then the part is read whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<StateRange>,
    /// The place of the part's index, which follows the state in the part's object: a list of all chunks of the part, each as a range,
    /// of which `ranges` has several in one if there are many. `None` if the part has no index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<StateRange>,
}

/// A range of bytes of a [`StatePart`], with whole entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRange {
    /// The first and the last key group (inclusive) of its entries.
    pub groups: (u32, u32),
    /// The place of its first byte in the part, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The CRC-32 of its bytes, as in zip.
    pub crc: u32,
}

impl StatePart {
    /// The most ranges of a part.
    pub const RANGES_MAX: usize = 64;

    /// Makes a part whose ranges are not known, so that it is always read whole.
    pub fn whole(groups: Vec<(u32, u32)>, state: StateHandle) -> Self {
        Self { groups, state, ranges: Vec::new(), index: None }
    }

    /// Returns true if the part may have entries of key groups in `groups` (end exclusive), so that their owner must
    /// read it: one of its runs overlaps the range, or the part names no groups.
    pub fn may_have(&self, groups: &Range<u32>) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|run| overlap(*run, groups))
    }

    /// Returns what the owner of the key groups in `groups` (end exclusive) reads of the part: the whole if it needs all ranges, the ranges
    /// are not known, or the bytes are inline, else [`StateHandle::Ranges`]; `None` if the part has nothing of these groups. The index is
    /// to be read if the part has as many ranges as it may, because some may then be several chunks.
    pub fn needed(&self, groups: &Range<u32>) -> Option<StateHandle> {
        if !self.may_have(groups) {
            return None;
        }
        if let StateHandle::Inline(_) = self.state {
            return Some(self.state.clone());
        }
        let own = self.ranges.iter().filter(|range| range.may_have(groups));
        let ranges: Vec<StateRange> = own.copied().collect();
        match ranges.len() {
            all if all == self.ranges.len() => Some(self.state.clone()),
            0 => None,
            _ => {
                let index = self.index.filter(|_| self.ranges.len() >= Self::RANGES_MAX);
                let index = index.map(|index| (index, groups.clone()));
                Some(StateHandle::Ranges { of: Box::new(self.state.clone()), ranges, index })
            }
        }
    }
}

impl StateRange {
    /// Returns true if the range may have entries of key groups in `groups` (end exclusive).
    pub fn may_have(&self, groups: &Range<u32>) -> bool {
        overlap(self.groups, groups)
    }
}

/// Returns true if a run of key groups, given by its first and last group, has a group in `groups` (end exclusive).
fn overlap((first, last): (u32, u32), groups: &Range<u32>) -> bool {
    first < groups.end && last >= groups.start
}

impl StateHandle {
    /// Returns the length of the state in bytes: that of the inline bytes, the recorded length in an object, the sum of the ranges, or the
    /// sum of all parts, also of those that an earlier checkpoint has written. Reads no object.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Object { bytes, .. } | Self::External { bytes, .. } => *bytes,
            Self::Parts(parts) => parts.iter().map(|part| part.state.bytes()).sum(),
            Self::Ranges { ranges, .. } => ranges.iter().map(|range| range.bytes).sum(),
        }
    }
    /// Returns the object's name relative to the checkpoint directory, if this is a [`StateHandle::Object`] or ranges of one. `None` for
    /// inline bytes, external objects and their ranges, and parts, even if these are objects (see [`StateHandle::places`]).
    pub fn object(&self) -> Option<&str> {
        match self {
            Self::Inline(_) | Self::External { .. } | Self::Parts(_) => None,
            Self::Object { name, .. } => Some(name),
            Self::Ranges { of, .. } => of.object(),
        }
    }
    /// Iterates over the handles of the parts if this is [`StateHandle::Parts`], otherwise yields this handle alone. None of
    /// the yielded handles has parts.
    pub fn places(&self) -> impl Iterator<Item = &Self> {
        let (parts, whole) = match self {
            Self::Parts(parts) => (parts.as_slice(), None),
            whole => (&[][..], Some(whole)),
        };
        parts.iter().map(|part| &part.state).chain(whole)
    }
    /// Iterates mutably over the handles of the parts if this is [`StateHandle::Parts`], otherwise yields this handle alone, so
    /// that the caller can change the places that they name. None of the yielded handles has parts.
    pub fn places_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        let (parts, whole) = match self {
            Self::Parts(parts) => (parts.as_mut_slice(), None),
            whole => (&mut [][..], Some(whole)),
        };
        parts.iter_mut().map(|part| &mut part.state).chain(whole)
    }
}

/// The order to take a checkpoint, as the JobMaster hands it to the job's source tasks. Each writes its state and sends
/// the barrier between its records to all later tasks, which do the same once all their inputs have delivered it. A finished task gets no
/// barrier; its part is taken over from the checkpoint before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointBarrier {
    /// The number of the checkpoint within its job, from 1, or after that of the snapshot that the job was started from. It grows with each
    /// checkpoint and savepoint, failed ones too, under whichever JobMaster, so that no other one has it; a number may be left out after a
    /// change of the JobMaster.
    pub checkpoint: u64,
    /// Time at which the JobMaster triggered the checkpoint, in Unix milliseconds.
    pub triggered_ms: u64,
    /// True if the task that takes this barrier ends once the checkpoint is complete: its sources have no more data, or
    /// the job is stopped with a savepoint. If the checkpoint fails, the task of a stop fails, and one without data waits for another.
    pub last: bool,
    /// True for the savepoint of `flott stop --drain`: sources that still have data first emit the final watermark and the end of their
    /// input, so that windows emit what they hold. False: at another stop sources just stop reading, at other checkpoints they read on.
    #[serde(default)]
    pub drain: bool,
    /// True if the checkpoint is a savepoint, that of a stop included: sinks then protect the prepared, uncommitted output that it holds
    /// from being aborted by later attempts of their tasks.
    #[serde(default)]
    pub savepoint: bool,
    /// True if no snapshot may build on one of an earlier checkpoint: the job has found files of one damaged, and those of its tasks that
    /// went on would build on others.
    #[serde(default)]
    pub full: bool,
}

/// The part of a checkpoint that one subtask has written: its host sends it to the JobMaster as the acknowledgement, once all state is
/// stored. It holds places, not large state; its inline bytes are 5 MiB at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskSnapshot {
    /// True if the subtask had reached the end of its data before the checkpoint. A subtask that is restored from this
    /// part processes nothing more.
    pub ended: bool,
    /// The place of the state of each operator of the subtask's chain that has written any; operators without state are
    /// left out.
    pub operators: Vec<(OperatorId, StateHandle)>,
    /// The longest time in microseconds for which the task handled no records because of the snapshot.
    pub pause_us: u64,
}

impl SubtaskSnapshot {
    /// Iterates over the names, relative to the checkpoint directory, of the objects that the job owns and this part refers to, those in
    /// parts included. Earlier checkpoints may refer to the same objects. Inline and external state have none.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        let places = self.operators.iter().flat_map(|(_, state)| state.places());
        places.filter_map(StateHandle::object)
    }
}

/// The state of one operator in one subtask, in the metadata of a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorSubtaskState {
    /// True if the subtask had reached the end of its data before the checkpoint; a restored subtask then processes
    /// nothing more.
    pub ended: bool,
    /// The place of the operator's state in this subtask; `None` if the operator had none there.
    pub state: Option<StateHandle>,
}

/// The state of one operator in a checkpoint's metadata: where the state of each subtask and of the coordinator is, and what a
/// restore checks (uid, number of key groups, declared states).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorState {
    /// The operator's name, used in messages only; operators are matched by their [`OperatorId`].
    pub name: String,
    /// Uid that the program gave the operator; `None` if it gave none, so that a changed program may not find the state.
    pub uid: Option<String>,
    /// The number of key groups that the operator's keyed state is divided into. A restore has to use the same number if the operator has
    /// keyed state; otherwise the number does not matter.
    pub max_parallelism: u32,
    /// The states that the operator declares; empty if it has none, and in metadata of a version that did not write them.
    #[serde(default)]
    pub states: Vec<StateDeclaration>,
    /// The state of each subtask that the operator had, by subtask index; its length is the parallelism of that time.
    pub subtasks: Vec<OperatorSubtaskState>,
    /// The place of the state of the operator's coordinator (split enumerator, collector); `None` if the operator has no coordinator, or
    /// one that waited for slots and had no state before.
    pub coordinator: Option<StateHandle>,
}

/// The metadata of a complete checkpoint or savepoint: all that a restore needs to know, without the state itself (only inline state is in
/// it). The JobMaster makes it when all parts have arrived, before the checkpoint counts as complete.
/// Stored as one object, which a [`CheckpointPointer`] names, or a user to whom the savepoint belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointMetadata {
    /// The job that the checkpoint was taken of; not necessarily the one that is restored from it.
    pub job_id: JobId,
    /// The number of the checkpoint within its job, which no other checkpoint or savepoint of the job has, as in
    /// [`CheckpointBarrier::checkpoint`]. Jobs that started from the same snapshot have the same numbers.
    pub checkpoint: u64,
    /// The id of the execution graph (the job's run under one JobMaster) that took the checkpoint. It differs between
    /// the JobMasters of a job, so that two of them never give objects the same name. 0 in metadata that was written
    /// before this field existed.
    #[serde(default)]
    pub graph: u64,
    /// Time at which the JobMaster triggered the checkpoint, in Unix milliseconds.
    pub triggered_ms: u64,
    /// Time at which the last acknowledgement of the checkpoint's parts had arrived (of a stop's savepoint, at which it was in its folder),
    /// in Unix milliseconds; storing the metadata comes after it.
    pub completed_ms: u64,
    /// The state of every operator of the job; operators without state have an entry too.
    pub operators: BTreeMap<OperatorId, OperatorState>,
}

impl CheckpointMetadata {
    /// Returns the name under which a checkpoint's metadata is stored, relative to the checkpoint directory:
    /// `<job>/chk-<number>/_metadata-<graph>`, for instance `…/chk-5/_metadata-00000000075bcd15`; without `-<graph>` if `graph` is 0.
    pub fn object_name(&self) -> String {
        let Self { job_id, checkpoint, graph, .. } = self;
        match graph {
            0 => format!("{job_id}/chk-{checkpoint}/_metadata"),
            graph => format!("{job_id}/chk-{checkpoint}/_metadata-{graph:016x}"),
        }
    }
    /// Returns the names of all objects that the checkpoint refers to and the job owns, relative to the checkpoint directory,
    /// each once. The metadata's own object, inline and external state are not among them.
    pub fn objects(&self) -> BTreeSet<String> {
        self.handles().filter_map(StateHandle::object).map(str::to_owned).collect()
    }
    /// Returns the size of all state of subtasks and coordinators in bytes: what a restore reads, external state and parts that earlier
    /// checkpoints have written included. The metadata's own size does not count.
    pub fn state_bytes(&self) -> u64 {
        self.handles().map(StateHandle::bytes).sum()
    }
    /// Iterates mutably over the handles of the state of all subtasks and coordinators, so that a caller can change
    /// their places. A state in parts is one item.
    pub fn states_mut(&mut self) -> impl Iterator<Item = &mut StateHandle> {
        self.operators.values_mut().flat_map(|operator| {
            let subtasks = operator.subtasks.iter_mut().filter_map(|s| s.state.as_mut());
            subtasks.chain(&mut operator.coordinator)
        })
    }
    /// Iterates mutably over the handles of the state of all subtasks and coordinators, so that a caller can change their places;
    /// of a state in parts, each part is an item.
    pub fn handles_mut(&mut self) -> impl Iterator<Item = &mut StateHandle> {
        self.states_mut().flat_map(StateHandle::places_mut)
    }
    /// Iterates over the handles of the state of all subtasks and coordinators; of a state in parts, each part is an
    /// item.
    pub fn handles(&self) -> impl Iterator<Item = &StateHandle> {
        self.operators.values().flat_map(|operator| {
            let subtasks = operator.subtasks.iter().filter_map(|subtask| subtask.state.as_ref());
            subtasks.chain(&operator.coordinator).flat_map(StateHandle::places)
        })
    }
}

/// The entry of a job's log by which a new JobMaster finds the job's newest complete checkpoint and restores it. The JobMaster appends one
/// when the checkpoint's metadata is stored; only then is the checkpoint complete. A savepoint gets one only if the job stops with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointPointer {
    /// The number of the checkpoint that the pointer names.
    pub checkpoint: u64,
    /// The name of the object with the [`CheckpointMetadata`], relative to the checkpoint directory.
    pub metadata: String,
    /// The checkpoint directory's URI; `None` if the checkpoint is in the store that keeps the job's log.
    pub directory: Option<String>,
    /// The snapshot that the job was started from and has yet to delete because it owns it (claim mode). A JobMaster
    /// that takes the job over deletes it if its predecessor has not; `None` if nothing is left to delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<ClaimedSnapshot>,
}

/// A savepoint or retained checkpoint that belongs to the job that was started from it (claim mode): this job deletes
/// it when it no longer needs it, after checkpoints of its own. This value only identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedSnapshot {
    /// The URI of the snapshot's metadata object.
    pub uri: String,
    /// The job that the snapshot was taken of; not the one that claimed it.
    pub job_id: JobId,
    /// The number of the snapshot within the job that it was taken of.
    pub checkpoint: u64,
    /// The id of the execution graph (run under one JobMaster) that took the snapshot, as in
    /// [`CheckpointMetadata::graph`].
    pub graph: u64,
}

impl ClaimedSnapshot {
    /// Returns true if `metadata`, read at the claimed URI, has the same job, checkpoint number and graph. False means
    /// that another snapshot was put into its place, which must not be deleted.
    pub fn is(&self, metadata: &CheckpointMetadata) -> bool {
        let CheckpointMetadata { job_id, checkpoint, graph, .. } = metadata;
        (self.job_id, self.checkpoint, self.graph) == (*job_id, *checkpoint, *graph)
    }
}
