//! The snapshots that an operator is restored from. A host reads them one after the other, so that the bytes of a large state are
//! never in memory as a whole beside the state. This module must never keep a snapshot that it has given out.

use super::TaskError;
use std::vec;

/// The snapshots that one operator of a subtask is restored from, in the order of the former subtasks that wrote them. Of keyed state they
/// are those that may have the subtask's key groups, of other state those of all former subtasks. State in parts is several snapshots; a
/// former subtask without state has none.
///
/// This is an iterator that reads each snapshot when it is asked for, and so may block. An item is an error, which must fail the task, if a
/// snapshot is lost or damaged ([`TaskError::Unreadable`]) or cannot be read for now ([`TaskError::Io`]). The host makes it; the operator's
/// `open` reads it.
#[derive(derive_more::Debug)]
#[debug("Restore({})", if self.is_empty { "nothing" } else { "snapshots" })]
pub struct Restore {
    snapshots: Box<dyn Iterator<Item = Result<Vec<u8>, TaskError>> + Send>,
    is_empty: bool,
}

impl Restore {
    /// Makes an iterator over the items of `snapshots`, which reads each snapshot when its item is asked for. An error item fails the
    /// task. `is_empty` must be true if there are none: the operator then starts without state, else as restored.
    pub fn new(
        snapshots: impl Iterator<Item = Result<Vec<u8>, TaskError>> + Send + 'static,
        is_empty: bool,
    ) -> Self {
        Self { snapshots: Box::new(snapshots), is_empty }
    }

    /// Returns true if there was no snapshot from the beginning; stays false when all snapshots have been read.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }
}

impl Default for Restore {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<Vec<u8>>> for Restore {
    fn from(snapshots: Vec<Vec<u8>>) -> Self {
        let is_empty = snapshots.is_empty();
        let snapshots: vec::IntoIter<Vec<u8>> = snapshots.into_iter();
        Self::new(snapshots.map(Ok), is_empty)
    }
}

impl Iterator for Restore {
    type Item = Result<Vec<u8>, TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.snapshots.next()
    }
}
