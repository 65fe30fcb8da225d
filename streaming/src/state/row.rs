//! State as rows: how a struct of state declares its fields, and how backends and snapshots write and read the fields
//! without knowing the struct.
//!
//! The encoded state of one key is a varint count and that many rows. A row is the varint number of its field, then its
//! entry and its value, each preceded by its length as a varint. The entry distinguishes the rows of one field: it is
//! the name in a map, the index of the first value in a list, and empty for a single value. A backend can therefore
//! store, fetch and page the entries of a map one by one.

use super::StateError;
use crate::types::{CodecError, FlottType, Reader, fingerprint, structure, write_varint};
use model::graph::StateDeclaration;
use std::{iter, mem};

/// The state of one key: a struct whose fields are states. Implemented by `#[derive(State)]`; its methods are for operators, backends and
/// snapshots, and a program has no need to call them. (The state of a subtask is an [`OperatorState`](super::OperatorState).)
///
/// ```
/// use streaming::state::{ListState, MapState, State};
///
/// #[derive(State)]
/// # #[flott(crate = streaming)]
/// struct Account {
///     small_at: Option<i64>,
///     #[state(name = "device_counts")]
///     devices: MapState<String, u32>,
///     last_payments: ListState<u64>,
/// }
/// assert_eq!(Account::declare()[1].name, "device_counts");
/// assert!(Account::empty().holds_nothing());
/// ```
///
/// A field's name is the name of its state; `#[state(name = "…")]` keeps the old name when the field is renamed. A key
/// whose state is empty is removed. A bare value cannot be a field, because a new key has no value for it:
///
/// ```compile_fail,E0277
/// # use streaming::state::State;
/// #[derive(State)]
/// # #[flott(crate = streaming)]
/// struct Account {
///     balance: u64,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the state of a key",
    label = "not a struct of state",
    note = "add `#[derive(State)]` to a struct whose fields are `Option<V>`, `ListState<V>`, `MapState<N, V>`, `ReducingState<R>` or `AggregatingState<A>`; a single value can be `Option<V>` alone"
)]
pub trait State: Sized + Send + 'static {
    /// Returns the names, kinds and schemas of the fields. A field's number is its index here.
    fn declare() -> Vec<StateDeclaration>;
    /// Returns the state of a key that has no state yet: all fields are empty.
    fn empty() -> Self;
    /// Returns true if every field is empty: the operator, which asks after each call of the function for the key, then removes the key,
    /// so that it takes no memory.
    fn holds_nothing(&self) -> bool;
    /// Appends the rows (encoded entries) of all fields to `rows`; the state is not changed.
    fn write(&self, rows: &mut RowWriter);
    /// Adds a row to the field with that number. Called once for each row, in the order in which they were written.
    ///
    /// # Errors
    /// Fails with [`CodecError`] if there is no such field or the bytes are not a row of it.
    fn read(&mut self, field: usize, row: Row<'_>) -> Result<(), CodecError>;
}

/// A type that a field in a struct of state can have: it says how the field is written as rows, its encoded entries, and read again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a field of a struct of state",
    label = "not a kind of state",
    note = "for a single value write `Option<{Self}>`; there are also `ListState<V>`, `MapState<N, V>`, `ReducingState<R>` and `AggregatingState<A>`"
)]
pub trait StateField: Sized + Send + 'static {
    /// The kind's name in job graphs and snapshots: `value`, `list`, `map`, `reducing`, `aggregating` or `union-list`.
    const KIND: &'static str;
    /// Returns the fingerprints of the types in the field by their role, such as `name` and `value` of a map. A restore is refused if
    /// one of them has changed.
    fn schemas() -> Vec<(&'static str, String)>;
    /// Returns the structures of the same types as text for messages, by role. Empty by default: messages then show fingerprints only.
    #[doc(hidden)]
    fn types() -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// Returns an empty field, as a key has it that has no state yet.
    fn empty() -> Self;
    /// Returns true if the field is empty.
    fn holds_nothing(&self) -> bool;
    /// Appends the field's rows to `rows`; an empty field has none.
    fn write(&self, rows: &mut FieldRows<'_>);
    /// Adds one of the field's rows. Called once for each row, in the order in which they were written.
    ///
    /// # Errors
    /// Fails with [`CodecError`] if the bytes are not a row of this field.
    fn read(&mut self, row: Row<'_>) -> Result<(), CodecError>;

    /// Returns the declaration of a field of this type with that name, for the job graph; its time to live is unset.
    fn declare(name: &str) -> StateDeclaration {
        declaration(name, Self::KIND, Self::schemas(), Self::types())
    }
}

/// Returns the declaration of a field. It knows no type, so that programs do not compile it for each of their fields.
fn declaration(
    name: &str,
    kind: &str,
    schemas: Vec<(&'static str, String)>,
    types: Vec<(&'static str, String)>,
) -> StateDeclaration {
    let by_role = |(role, text): (&str, String)| (role.to_owned(), text);
    StateDeclaration {
        name: name.to_owned(),
        kind: kind.to_owned(),
        schemas: schemas.into_iter().map(by_role).collect(),
        types: types.into_iter().map(by_role).collect(),
        ttl_ms: None,
        settings: None,
    }
}

/// A value that a backend can store per key: a struct of state, or the value of a fold ([`Single`]).
pub trait Kept: Sized + Send + 'static {
    /// Returns true if the value is empty: the operator then removes the key after the function's call, and a restore leaves it out.
    fn holds_nothing(&self) -> bool;
    /// Appends all rows (encoded entries of fields) of the value to `rows`; the value is not changed.
    fn write(&self, rows: &mut RowWriter);
    /// Returns the value that consists of all rows of one key, which `rows` gives.
    ///
    /// # Errors
    /// Fails with [`CodecError`] if the bytes are not rows of this type.
    fn read(rows: &mut RowReader<'_, '_>) -> Result<Self, CodecError>;
}

impl<S: State> Kept for S {
    fn holds_nothing(&self) -> bool {
        State::holds_nothing(self)
    }
    fn write(&self, rows: &mut RowWriter) {
        State::write(self, rows);
    }
    fn read(rows: &mut RowReader<'_, '_>) -> Result<Self, CodecError> {
        let mut state = S::empty();
        while let Some((field, row)) = rows.next()? {
            state.read(field, row)?;
        }
        Ok(state)
    }
}

/// The value of a fold, which sums a key's records up in one value: a key has it from its first record on, so it is never empty.
#[derive(Debug)]
pub struct Single<V>(pub V);

impl<V: FlottType> Kept for Single<V> {
    fn holds_nothing(&self) -> bool {
        false
    }
    fn write(&self, rows: &mut RowWriter) {
        rows.fields(0).row(|_| {}, |out| self.0.encode(out));
    }
    fn read(rows: &mut RowReader<'_, '_>) -> Result<Self, CodecError> {
        let Some((_, row)) = rows.next()? else { return Err(CodecError::Truncated) };
        row.value().map(Self)
    }
}

/// One encoded row of a field of state: its entry, which distinguishes the rows of the field (a name in a map, an index in a list), and
/// its value.
#[derive(Debug)]
pub struct Row<'a> {
    entry: &'a [u8],
    value: &'a [u8],
}

impl Row<'_> {
    /// Returns the decoded entry, which is a map's name or the index of the first of a list's values in the row.
    ///
    /// # Errors
    /// Fails with [`CodecError`] if the bytes are not exactly one value of type `N`, also for a field of a single value, whose entry is
    /// empty.
    pub fn entry<N: FlottType>(&self) -> Result<N, CodecError> {
        crate::types::decode_one(self.entry)
    }
    /// Returns the decoded value.
    ///
    /// # Errors
    /// Fails with [`CodecError`] if the bytes are not exactly one value of type `V`.
    pub fn value<V: FlottType>(&self) -> Result<V, CodecError> {
        crate::types::decode_one(self.value)
    }
}

/// Appends the rows of keys, which are the encoded entries of their states, to a buffer; see [`RowWriter::write`].
#[derive(Debug, Default)]
pub struct RowWriter {
    rows: usize,
    /// The buffer that is appended to, while it is.
    bytes: Vec<u8>,
    count: Place,
    entry: Place,
    value: Place,
}

impl RowWriter {
    /// Appends the number of rows that `write` writes, and the rows, to `out`. Nothing is copied within the buffer if the rows are as
    /// long as those of the call before, up to a power of 128.
    pub fn write(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Self)) {
        mem::swap(&mut self.bytes, out);
        self.rows = 0;
        let at = self.count.leave(&mut self.bytes);
        write(self);
        self.count.fill(at, self.rows, &mut self.bytes);
        mem::swap(&mut self.bytes, out);
    }
    /// Returns a writer for the rows of the field with that number, its index in [`State::declare`].
    pub fn fields(&mut self, field: u32) -> FieldRows<'_> {
        FieldRows { field, rows: self }
    }
}

/// The place that is left in a buffer for a number that is known only after what follows it: a varint, for which as many bytes are left
/// as the last one took.
#[derive(Debug)]
struct Place {
    width: usize,
}

impl Default for Place {
    fn default() -> Self {
        Self { width: 1 }
    }
}

impl Place {
    /// Leaves the place for a number at the end of the buffer, and returns where it is.
    fn leave(&self, out: &mut Vec<u8>) -> usize {
        let at = out.len();
        out.resize(at + self.width, 0);
        at
    }
    /// Writes the number into the place that was left. What follows it is moved if the number takes more bytes or fewer.
    fn fill(&mut self, at: usize, number: usize, out: &mut Vec<u8>) {
        let end = at + self.width;
        let bits = usize::BITS - (number | 1).leading_zeros();
        self.width = bits.div_ceil(7) as usize;
        if end - at != self.width {
            out.splice(at..end, iter::repeat_n(0, self.width));
        }
        let (place, mut left) = (out.get_mut(at..at + self.width).unwrap_or_default(), number);
        if let Some((last, others)) = place.split_last_mut() {
            for byte in others {
                *byte = left as u8 | 0x80;
                left >>= 7;
            }
            *last = left as u8;
        }
    }
    /// Appends what `write` appends, with its length in front of it.
    fn measured(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.leave(out);
        write(out);
        // A `write` that takes bytes away, which its contract forbids, leaves a length that a restore refuses.
        let length = out.len().saturating_sub(at + self.width);
        self.fill(at, length, out);
    }
}

/// Writes the rows (encoded entries) of one field of a key's state; made by [`RowWriter::fields`].
#[derive(Debug)]
pub struct FieldRows<'r> {
    field: u32,
    rows: &'r mut RowWriter,
}

impl FieldRows<'_> {
    /// Adds a row. `entry` and `value` are called once each and append their bytes to the buffer that they get, which has other bytes
    /// already.
    pub fn row(&mut self, entry: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
        self.rows.rows += 1;
        write_varint(u64::from(self.field), &mut self.rows.bytes);
        self.rows.entry.measured(&mut self.rows.bytes, entry);
        self.rows.value.measured(&mut self.rows.bytes, value);
    }
}

/// Reads the rows of one key, the encoded entries of its state, and leaves out those of fields that no longer exist.
#[derive(Debug)]
pub struct RowReader<'r, 'a> {
    left: usize,
    input: &'r mut Reader<'a>,
    /// The present number of each field, indexed by its number when the rows were written; `None` for a field that no
    /// longer exists.
    fields: &'r [Option<usize>],
}

impl<'r, 'a> RowReader<'r, 'a> {
    /// Returns a reader at the beginning of one key's rows, whose count it reads from `input`. `fields` is indexed by a field's number in
    /// the input and contains its present number, `None` if the field no longer exists.
    ///
    /// # Errors
    /// Fails with [`CodecError`] if the input does not begin with a count that it can hold.
    pub fn new(input: &'r mut Reader<'a>, fields: &'r [Option<usize>]) -> Result<Self, CodecError> {
        Ok(Self { left: input.count()?, input, fields })
    }
    /// Returns true if no row is left, be it of a field that still exists or not.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
    /// Returns the next row of a field that still exists, with the field's present number; `None` after the last row.
    ///
    /// # Errors
    /// Fails with [`CodecError`] if the bytes are not a row of a declared field.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results goes on after one")]
    pub fn next(&mut self) -> Result<Option<(usize, Row<'a>)>, CodecError> {
        while self.left > 0 {
            self.left -= 1;
            let field = usize::try_from(self.input.varint()?).ok();
            let entry = self.input.count()?;
            let entry = self.input.take(entry)?;
            let value = self.input.count()?;
            let value = self.input.take(value)?;
            let field = field.and_then(|field| self.fields.get(field));
            let field = field.ok_or(CodecError::Invalid { what: "field of a state" })?;
            if let Some(field) = *field {
                return Ok(Some((field, Row { entry, value })));
            }
        }
        Ok(None)
    }
}

/// Returns for each `written` field the index of the `declared` field with the same name; `None` if there is none.
///
/// # Errors
/// Fails with [`StateError::Schema`] if a field has another kind or other types now.
pub(super) fn matching(
    written: &[StateDeclaration],
    declared: &[StateDeclaration],
) -> Result<Vec<Option<usize>>, StateError> {
    let place = |old: &StateDeclaration| {
        let Some(place) = declared.iter().position(|new| new.name == old.name) else {
            return Ok(None);
        };
        let Some(new) = declared.get(place) else { return Ok(None) };
        if (&new.kind, &new.schemas) == (&old.kind, &old.schemas) {
            return Ok(Some(place));
        }
        let (written, declared) = (describe(old), describe(new));
        Err(StateError::Schema { name: old.name.clone(), written, declared })
    };
    written.iter().map(place).collect()
}

/// Returns the kind and the types of a field as text for error messages.
fn describe(field: &StateDeclaration) -> String {
    let schemas = field.schemas.keys().map(|role| format!("{role} {}", field.type_of(role)));
    format!("{} ({})", field.kind, schemas.collect::<Vec<_>>().join(", "))
}

/// A single value; `None` for a key without one.
impl<V: FlottType> StateField for Option<V> {
    const KIND: &'static str = "value";
    fn schemas() -> Vec<(&'static str, String)> {
        vec![("value", fingerprint::<V>())]
    }
    fn types() -> Vec<(&'static str, String)> {
        vec![("value", structure::<V>())]
    }
    fn empty() -> Self {
        None
    }
    fn holds_nothing(&self) -> bool {
        self.is_none()
    }
    fn write(&self, rows: &mut FieldRows<'_>) {
        if let Some(value) = self {
            rows.row(|_| {}, |out| value.encode(out));
        }
    }
    fn read(&mut self, row: Row<'_>) -> Result<(), CodecError> {
        *self = Some(row.value()?);
        Ok(())
    }
}

/// A function with one value per key needs no struct: it can use `Option<V>`, whose state is named `value`.
impl<V: FlottType> State for Option<V> {
    fn declare() -> Vec<StateDeclaration> {
        vec![<Self as StateField>::declare("value")]
    }
    fn empty() -> Self {
        None
    }
    fn holds_nothing(&self) -> bool {
        self.is_none()
    }
    fn write(&self, rows: &mut RowWriter) {
        StateField::write(self, &mut rows.fields(0));
    }
    fn read(&mut self, _field: usize, row: Row<'_>) -> Result<(), CodecError> {
        StateField::read(self, row)
    }
}
