//! State of functions: keyed state, in key groups, and state of subtasks; both can be restored with another
//! parallelism.
//!
//! A function declares its state as a struct ([`State`]), of which every key has one; the job graph lists the fields. A
//! [`StateBackend`] stores the structs. Before a function is called for a batch, the backend makes the state of the
//! batch's keys resident, so that the function is synchronous and changes the state in place. The backend here
//! ([`Table`]) keeps everything in memory. State that belongs to a subtask and to no key ([`OperatorState`]) is
//! redistributed when the number of subtasks changes.
//!
//! `STATE.md` beside the crate's sources gives the reasons. Nothing here may block, spawn, or read a clock.

mod ahead;
mod backend;
mod changes;
mod chunks;
mod fields;
mod key_groups;
mod operator;
mod row;
mod snapshot;
mod table;
mod writing;

pub use backend::{Fetch, Free, Incremental, Place, SnapshotKind, StateBackend, StateError, Taken};
pub use chunks::Slice;
pub(crate) use chunks::{CHUNK_BYTES, ENTRY_WORK, Pool};
pub use derive::{OperatorState, State};
pub use fields::{Aggregate, AggregatingState, ListState, MapState, Reduce, ReducingState};
pub use key_groups::{KeyAddress, KeyGroups, channel_of_group, default_max_parallelism, key_group};
pub use operator::{
    OperatorState, OperatorStateField, Share, UnionListState, read_operator_state,
    write_operator_state,
};
pub use row::{FieldRows, Kept, Row, RowReader, RowWriter, Single, State, StateField};
pub(crate) use snapshot::{END, read_entries, read_next, write_changes_head, write_head};
pub use snapshot::{read_snapshot, write_snapshot};
pub use table::{Occupied, Table, Vacant};
pub(crate) use table::{PlaceInTable, part_bits};
pub(crate) use writing::Output;

pub use model::graph::StateDeclaration;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
pub(crate) mod slow;
#[cfg(test)]
mod tests;
