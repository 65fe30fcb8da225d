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
mod lists;
mod operator;
mod row;
mod snapshot;
mod table;
mod writing;

pub use backend::StateError;
pub(crate) use chunks::{CHUNK_BYTES, ENTRY_WORK, Pool};
pub use derive::{OperatorState, State};
pub use fields::{Aggregate, AggregatingState, ListState, MapState, Reduce, ReducingState};
pub(crate) use lists::ListSnapshot;
pub(crate) use operator::read_share;
pub use operator::{OperatorState, UnionListState};
pub use row::State;
pub(crate) use snapshot::{END, read_entries, read_next, write_changes_head, write_head};
pub(crate) use table::{PlaceInTable, part_bits};
pub(crate) use writing::Output;

// Backends, and what the derives write. Programs do not name them.
#[doc(hidden)]
pub use self::{
    backend::{Fetch, Free, Incremental, Place, SnapshotKind, StateBackend, Taken},
    chunks::Slice,
    key_groups::{KeyAddress, KeyGroups, channel_of_group, default_max_parallelism, key_group},
    lists::ListPass,
    operator::{OperatorStateField, Share, read_operator_state, write_operator_state},
    row::{FieldRows, Kept, Row, RowReader, RowWriter, Single, StateField},
    snapshot::{read_snapshot, write_snapshot},
    table::{Occupied, Table, Vacant},
};

#[doc(hidden)]
pub use model::graph::StateDeclaration;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
pub(crate) mod slow;
#[cfg(test)]
pub(crate) mod tests;
