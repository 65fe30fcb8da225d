//! State of a subtask that belongs to no key: how it is written, and how it is dealt out again when the number of subtasks
//! changes.
//!
//! A snapshot is the version byte 1, the fields as in a snapshot of keyed state, and the rows of the struct.

use super::{
    FieldRows, ListState, Row, RowReader, RowWriter, State, StateError, StateField,
    row::matching,
    snapshot::{read_fields, write_fields},
};
use crate::types::{CodecError, FlottType, Reader, check_written};
use std::{
    fmt,
    ops::{Deref, DerefMut},
};

const VERSION: u8 = 1;

/// The state of a subtask: a struct whose fields are [`ListState`] or [`UnionListState`]. Derive it.
///
/// ```
/// use streaming::state::{ListState, OperatorState, State, UnionListState};
///
/// #[derive(OperatorState)]
/// # #[flott(crate = streaming)]
/// struct Buffered {
///     waiting: ListState<String>,
///     #[state(name = "offsets")]
///     offset_of: UnionListState<(u32, u64)>,
/// }
/// assert_eq!(Buffered::declare()[1].name, "offsets");
/// ```
///
/// The state of a key cannot be dealt out to subtasks, so its other kinds are refused:
///
/// ```compile_fail,E0277
/// # use streaming::state::{MapState, OperatorState};
/// #[derive(OperatorState)]
/// # #[flott(crate = streaming)]
/// struct Devices {
///     by_name: MapState<String, u32>,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the state of a subtask",
    label = "not a struct of operator state",
    note = "add `#[derive(OperatorState)]` to a struct whose fields are `ListState<V>` or `UnionListState<V>`"
)]
pub trait OperatorState: State {
    /// Makes the state of one subtask of the states that subtasks had, which are in the order of their numbers.
    fn redistribute(parts: Vec<Self>, share: Share) -> Self;
}

/// A type of field in a struct of operator state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a field of operator state",
    label = "cannot be dealt out to subtasks",
    note = "there are `ListState<V>`, whose values are dealt out, and `UnionListState<V>`, of which every subtask gets all values"
)]
pub trait OperatorStateField: StateField {
    /// Makes the field of one subtask of the fields that subtasks had, which are in the order of their numbers.
    fn redistribute(parts: Vec<Self>, share: Share) -> Self;
}

/// Which of how many subtasks gets a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    subtask: usize,
    of: usize,
}

impl Share {
    /// Of that subtask, from 0, of so many.
    pub fn new(subtask: u32, of: u32) -> Self {
        Self { subtask: subtask as usize, of: of.max(1) as usize }
    }
}

/// Where as many subtasks are restored as there were, each gets its own list back. Otherwise the lists are put behind each other,
/// and each subtask gets an equal part of the whole.
impl<V: FlottType> OperatorStateField for ListState<V> {
    fn redistribute(mut parts: Vec<Self>, share: Share) -> Self {
        if parts.len() == share.of && share.subtask < share.of {
            return parts.swap_remove(share.subtask);
        }
        let count: usize = parts.iter().map(ListState::len).sum();
        let bound = |subtask: usize| (count as u128 * subtask as u128 / share.of as u128) as usize;
        let (first, end) = (bound(share.subtask), bound(share.subtask + 1));
        let all = parts.into_iter().flat_map(ListState::into_values);
        Self::of(all.take(end).skip(first).collect())
    }
}

/// A list of which every subtask gets the values of all subtasks when it is restored, in the order of the subtasks. A subtask drops
/// what is not for it, else the list grows with every restore.
pub struct UnionListState<V>(ListState<V>);

impl<V> Deref for UnionListState<V> {
    type Target = ListState<V>;
    fn deref(&self) -> &ListState<V> {
        &self.0
    }
}

impl<V> DerefMut for UnionListState<V> {
    fn deref_mut(&mut self) -> &mut ListState<V> {
        &mut self.0
    }
}

impl<V: fmt::Debug> fmt::Debug for UnionListState<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<V: FlottType> StateField for UnionListState<V> {
    const KIND: &'static str = "union-list";
    fn schemas() -> Vec<(&'static str, String)> {
        ListState::<V>::schemas()
    }
    fn empty() -> Self {
        Self(StateField::empty())
    }
    fn holds_nothing(&self) -> bool {
        self.0.holds_nothing()
    }
    fn write(&self, rows: &mut FieldRows<'_>) {
        self.0.write(rows);
    }
    fn read(&mut self, row: Row<'_>) -> Result<(), CodecError> {
        self.0.read(row)
    }
}

impl<V: FlottType> OperatorStateField for UnionListState<V> {
    fn redistribute(parts: Vec<Self>, _share: Share) -> Self {
        Self(ListState::of(parts.into_iter().flat_map(|part| part.0.into_values()).collect()))
    }
}

/// Returns the state of a subtask as bytes.
///
/// # Errors
/// When a value refuses to be written.
pub fn write_operator_state<S: OperatorState>(state: &S) -> Result<Vec<u8>, StateError> {
    let mut out = vec![VERSION];
    write_fields(&S::declare(), &mut out);
    let mut rows = RowWriter::default();
    state.write(&mut rows);
    rows.finish(&mut out);
    check_written()?;
    Ok(out)
}

/// Returns a subtask's share of what [`write_operator_state`] gave for each subtask, in the order of their numbers.
///
/// # Errors
/// When bytes are no such snapshot, or one of other states.
pub fn read_operator_state<S: OperatorState>(
    snapshots: &[Vec<u8>],
    share: Share,
) -> Result<S, StateError> {
    let declared = S::declare();
    let mut parts = Vec::with_capacity(snapshots.len());
    for bytes in snapshots {
        let mut input = Reader::new(bytes);
        if input.byte()? != VERSION {
            return Err(CodecError::Invalid { what: "version of an operator state" }.into());
        }
        let places = matching(&read_fields(&mut input)?, &declared)?;
        let mut part = S::empty();
        let mut rows = RowReader::new(&mut input, &places)?;
        while let Some((field, row)) = rows.next()? {
            part.read(field, row)?;
        }
        input.finish()?;
        parts.push(part);
    }
    Ok(S::redistribute(parts, share))
}

#[cfg(test)]
mod tests;
