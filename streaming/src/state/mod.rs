//! Keyed state: values kept per key, in key groups, so that a job can be rescaled.
//!
//! State is declared when the graph is built (a [`States`] visitor names it), resolved when the task opens, and
//! written at a barrier - by the same visitor, so that the three never disagree. The backend here keeps
//! everything in memory.

mod handles;
mod key_groups;
mod table;
mod visitor;

pub use handles::{ListState, MapState, ValueState};
pub use key_groups::{KeyAddress, KeyGroups, channel_of_group, default_max_parallelism, key_group};
pub use table::{AccessError, Table};
pub use visitor::{RestoredState, States, read_snapshot};

#[cfg(test)]
mod tests;
