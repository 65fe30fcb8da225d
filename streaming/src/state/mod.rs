//! State: what is kept per key, in key groups, and per subtask, so that a job can be rescaled.
//!
//! A function names its state by a struct ([`State`]), one per key; the graph declares its fields. A [`StateBackend`]
//! keeps the structs: before a function is called for a batch, the state of the batch's keys is made resident, so that
//! the function is synchronous and changes it in place. State that belongs to no key ([`OperatorState`]) is dealt out when the number of subtasks changes. The backend here ([`Table`]) keeps everything in memory.
//! `STATE.md` beside the crate's sources says why it is so. Nothing here may block, spawn, or read a clock.

mod ahead;
mod backend;
mod fields;
mod key_groups;
mod operator;
mod row;
mod snapshot;
mod table;

pub use backend::{Fetch, Free, Place, StateBackend, StateError, Taken};
pub use derive::{OperatorState, State};
pub use fields::{Aggregate, AggregatingState, ListState, MapState, Reduce, ReducingState};
pub use key_groups::{KeyAddress, KeyGroups, channel_of_group, default_max_parallelism, key_group};
pub use operator::{
    OperatorState, OperatorStateField, Share, UnionListState, read_operator_state,
    write_operator_state,
};
pub use row::{FieldRows, Kept, Row, RowReader, RowWriter, Single, State, StateField};
pub use snapshot::{read_snapshot, write_snapshot};
pub use table::Table;
pub(crate) use table::part_bits;

pub use model::graph::StateDeclaration;

#[cfg(test)]
pub(crate) mod slow;
#[cfg(test)]
mod tests;
