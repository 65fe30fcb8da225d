//! State that belongs to a subtask and to no key: how it is written to a snapshot, and how it is redistributed when a
//! job is restored with another parallelism.
//!
//! A subtask's snapshot consists of runs of the lists' values, which are written while records come (`lists.rs`): the version byte 2, the
//! number of the subtask, the fields as in a snapshot of keyed state, and rows. Version 1, which sinks write at the barrier, has the
//! fields and all rows of the struct. At a restore every subtask reads the snapshots of all former subtasks and keeps its share.

use super::{
    FieldRows, ListPass, ListState, Row, RowReader, RowWriter, State, StateError, StateField,
    row::matching,
    snapshot::{dropped, read_fields, write_fields},
};
use crate::types::{CodecError, FlottType, Reader, check_written};
use model::graph::StateDeclaration;
use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, DerefMut},
};

/// The version of a subtask's state in one piece.
const VERSION: u8 = 1;
/// The version of a run of values, several of which follow each other.
pub(super) const IN_RUNS: u8 = 2;

/// The state of a subtask: a struct whose fields are [`ListState`] or [`UnionListState`]. Implemented by `#[derive(OperatorState)]`; a
/// [`StatefulProcessFunction`](crate::operators::StatefulProcessFunction) and the writer of a sink use it. At a restore each subtask gets
/// the values that all subtasks had in a union list; those of the other lists are dealt out to the subtasks if the parallelism is another
/// one.
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
/// Only lists can be redistributed to subtasks. The other kinds of keyed state do not compile as fields:
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
    #[doc(hidden)]
    /// Returns the state of the subtask that `share` names, at a restore. `parts` are the states of all subtasks from before the restore,
    /// in the order of their indices; the parallelism may have been another one then.
    fn redistribute(parts: Vec<Self>, share: Share) -> Self;
    #[doc(hidden)]
    /// Calls [`OperatorStateField::list`] for each field, with its number.
    fn lists(&mut self, pass: &mut ListPass<'_, '_>);
}

/// A type that a field of an [`OperatorState`] can have: one that can be given to another number of subtasks at a restore.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a field of operator state",
    label = "cannot be dealt out to subtasks",
    note = "there are `ListState<V>`, whose values are dealt out, and `UnionListState<V>`, of which every subtask gets all values"
)]
pub trait OperatorStateField: StateField {
    /// Returns the field of the subtask that `share` names, at a restore. `parts` are the fields of all subtasks from before the restore,
    /// in the order of their indices; the parallelism may have been another one then.
    fn redistribute(parts: Vec<Self>, share: Share) -> Self;
    /// Begins the field's part of a snapshot that is written while records come, or writes values of it, as `pass` says. `field` is the
    /// field's number.
    fn list(&mut self, field: u32, pass: &mut ListPass<'_, '_>);
}

/// The index of a subtask and the number of subtasks after a restore: which part of redistributed state the subtask gets. An operator
/// makes it from its context for [`read_operator_state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    subtask: usize,
    of: usize,
}

impl Share {
    /// Returns the share of subtask number `subtask`, from 0, of `of` subtasks; 0 subtasks count as 1.
    pub fn new(subtask: u32, of: u32) -> Self {
        Self { subtask: subtask as usize, of: of.max(1) as usize }
    }
}

/// With an unchanged parallelism each subtask gets its own list back. Otherwise the lists are concatenated in the order
/// of the subtasks and cut into runs whose lengths differ by at most one. Example: the lists `[1, 2, 3]` and `[4]`,
/// restored in three subtasks, become `[1]`, `[2]` and `[3, 4]`.
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
    fn list(&mut self, field: u32, pass: &mut ListPass<'_, '_>) {
        pass.list(field, self);
    }
}

/// A list that is restored in every subtask with the values of all former subtasks, in the order of the subtasks.
///
/// Each subtask must drop the values that are not its own (in `open`): otherwise every subtask writes all values into
/// the next snapshot, and the list grows by the factor of the parallelism with each restore.
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
    fn types() -> Vec<(&'static str, String)> {
        ListState::<V>::types()
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
    fn list(&mut self, field: u32, pass: &mut ListPass<'_, '_>) {
        pass.list(field, &mut self.0);
    }
}

/// Returns the snapshot of a subtask's state in one piece, for state that is small or made anew at each barrier: a version byte, the
/// declared fields and the values.
///
/// # Errors
/// Fails with [`StateError::Codec`] if a value cannot be encoded.
pub fn write_operator_state<S: OperatorState>(state: &S) -> Result<Vec<u8>, StateError> {
    let mut out = vec![VERSION];
    write_fields(&S::declare(), &mut out);
    RowWriter::default().write(&mut out, |rows| state.write(rows));
    check_written()?;
    Ok(out)
}

/// Returns a subtask's share of the state in `snapshots`, which are those of all former subtasks: runs of values, in any order, or, of
/// version 1, one for each subtask in the order of their indices. A field that the program no longer declares is dropped, a new one is
/// empty. Without snapshots the state is empty.
///
/// # Errors
/// Fails with [`StateError::Codec`] if the bytes are not such a snapshot, [`StateError::Schema`] if a field has another kind or type now.
pub fn read_operator_state<S: OperatorState>(
    snapshots: &[Vec<u8>],
    share: Share,
) -> Result<S, StateError> {
    read_share(snapshots, share).map(|(state, _)| state)
}

/// Returns the state as [`read_operator_state`] does, and the kinds of the fields that were dropped, by name.
pub(crate) fn read_share<S: OperatorState>(
    snapshots: &[Vec<u8>],
    share: Share,
) -> Result<(S, BTreeMap<String, String>), StateError> {
    let (former, fields) = read_rows(snapshots, &S::declare())?;
    let mut parts = Vec::with_capacity(former.len());
    for rows in former {
        let mut part = S::empty();
        for (field, _, row) in rows {
            part.read(field, row)?;
        }
        parts.push(part);
    }
    Ok((S::redistribute(parts, share), fields))
}

/// The rows of one subtask, each with the number of its field and the number of its first value.
type Rows<'a> = Vec<(usize, u64, Row<'a>)>;

/// Returns the rows of each former subtask in their order, and the kinds of the fields that are not `declared`, by name.
fn read_rows<'a>(
    snapshots: &'a [Vec<u8>],
    declared: &[StateDeclaration],
) -> Result<(Vec<Rows<'a>>, BTreeMap<String, String>), StateError> {
    let mut former = BTreeMap::<_, Vec<_>>::new();
    let mut fields = BTreeMap::new();
    for (bytes, place) in snapshots.iter().zip(0..) {
        let mut input = Reader::new(bytes);
        loop {
            let version = input.byte()?;
            let subtask = match version {
                VERSION => place,
                IN_RUNS => input.varint()?,
                _ => {
                    return Err(CodecError::Invalid { what: "version of an operator state" }.into());
                }
            };
            let written = read_fields(&mut input)?;
            let places = matching(&written, declared)?;
            let found = former.entry((version, subtask)).or_default();
            let mut rows = RowReader::new(&mut input, &places)?;
            while let Some((field, row)) = rows.next()? {
                found.push((field, row.entry::<u64>()?, row));
            }
            fields.extend(dropped(written, &places));
            if version == VERSION {
                input.finish()?;
                break;
            }
            if input.remaining() == 0 {
                break;
            }
        }
    }
    let mut all = Vec::with_capacity(former.len());
    for ((version, _), mut rows) in former {
        if version == IN_RUNS {
            rows.sort_by_key(|(field, first, _)| (*field, *first));
        }
        all.push(rows);
    }
    Ok((all, fields))
}

#[cfg(test)]
mod tests;
