//! What is kept per key, as rows: how a struct of state says its fields, and how a backend and a snapshot read and write
//! them without knowing the struct.
//!
//! The state of one key is a varint count and that many rows; a row is the varint number of its field, then its entry
//! and its value, each behind its varint length. The entry is what tells the rows of one field apart: the key in a map,
//! nothing for a single value. So a backend can store, fetch and page the entries of a map one by one.

use super::StateError;
use crate::types::{CodecError, FlottType, Reader, fingerprint, write_len, write_varint};
use model::graph::StateDeclaration;

/// The state of one key: a struct whose fields are states. Derive it. ([`OperatorState`](super::OperatorState) is that of a subtask.)
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
/// ```
///
/// A field's name is its state's name; `#[state(name = "…")]` keeps the old one when the field is renamed. A key whose
/// state is empty is not kept. A bare value is no field, because a new key has none:
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
    /// Returns the fields' names, kinds and schemas, in the order of their numbers.
    fn declare() -> Vec<StateDeclaration>;
    /// Returns the state of a key that has none yet.
    fn empty() -> Self;
    /// Returns true if no field holds anything.
    fn holds_nothing(&self) -> bool;
    /// Adds all rows.
    fn write(&self, rows: &mut RowWriter);
    /// Takes in a row of the field with that number.
    ///
    /// # Errors
    /// When the row is none of that field.
    fn read(&mut self, field: usize, row: Row<'_>) -> Result<(), CodecError>;
}

/// A type of field in a struct of state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a field of a struct of state",
    label = "not a kind of state",
    note = "for a single value write `Option<{Self}>`; there are also `ListState<V>`, `MapState<N, V>`, `ReducingState<R>` and `AggregatingState<A>`"
)]
pub trait StateField: Sized + Send + 'static {
    /// What the job graph calls it: `value`, `list`, `map`.
    const KIND: &'static str;
    /// Returns the fingerprints of the types in it, by role.
    fn schemas() -> Vec<(&'static str, String)>;
    /// Returns the field of a key that has no state yet.
    fn empty() -> Self;
    /// Returns true if it holds nothing.
    fn holds_nothing(&self) -> bool;
    /// Adds its rows.
    fn write(&self, rows: &mut FieldRows<'_>);
    /// Takes in one of its rows.
    ///
    /// # Errors
    /// When the row is none.
    fn read(&mut self, row: Row<'_>) -> Result<(), CodecError>;

    /// Returns the declaration of a field with that name.
    fn declare(name: &str) -> StateDeclaration {
        let schemas = Self::schemas().into_iter();
        StateDeclaration {
            name: name.to_owned(),
            kind: Self::KIND.to_owned(),
            schemas: schemas.map(|(role, schema)| (role.to_owned(), schema)).collect(),
            ttl_ms: None,
        }
    }
}

/// What a backend keeps per key: a struct of state, or the one value of a fold.
pub trait Kept: Sized + Send + 'static {
    /// Returns true if there is nothing to keep.
    fn holds_nothing(&self) -> bool;
    /// Adds all rows.
    fn write(&self, rows: &mut RowWriter);
    /// Makes it of all its rows.
    ///
    /// # Errors
    /// When the rows are none of this type.
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

/// A value that a key has from its first record on.
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

/// One row: its entry and its value.
#[derive(Debug)]
pub struct Row<'a> {
    entry: &'a [u8],
    value: &'a [u8],
}

impl Row<'_> {
    /// Returns the entry, decoded.
    ///
    /// # Errors
    /// When the bytes are not exactly one value.
    pub fn entry<N: FlottType>(&self) -> Result<N, CodecError> {
        crate::types::decode_one(self.entry)
    }
    /// Returns the value, decoded.
    ///
    /// # Errors
    /// When the bytes are not exactly one value.
    pub fn value<V: FlottType>(&self) -> Result<V, CodecError> {
        crate::types::decode_one(self.value)
    }
}

/// Collects the rows of one key.
#[derive(Debug, Default)]
pub struct RowWriter {
    rows: usize,
    bytes: Vec<u8>,
    part: Vec<u8>,
}

impl RowWriter {
    /// Writes rows of that field.
    pub fn fields(&mut self, field: u32) -> FieldRows<'_> {
        FieldRows { field, rows: self }
    }
    /// Appends the state of one key, and is empty again.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        write_len(self.rows, out);
        out.append(&mut self.bytes);
        self.rows = 0;
    }
    fn part(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.part.clear();
        write(&mut self.part);
        write_len(self.part.len(), &mut self.bytes);
        self.bytes.extend_from_slice(&self.part);
    }
}

/// Takes the rows of one field.
#[derive(Debug)]
pub struct FieldRows<'r> {
    field: u32,
    rows: &'r mut RowWriter,
}

impl FieldRows<'_> {
    /// Adds a row.
    pub fn row(&mut self, entry: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
        self.rows.rows += 1;
        write_varint(u64::from(self.field), &mut self.rows.bytes);
        self.rows.part(entry);
        self.rows.part(value);
    }
}

/// Reads the rows of one key.
#[derive(Debug)]
pub struct RowReader<'r, 'a> {
    left: usize,
    input: &'r mut Reader<'a>,
    /// By number of a field where the rows were written: its number here, `None` where it is gone.
    fields: &'r [Option<usize>],
}

impl<'r, 'a> RowReader<'r, 'a> {
    /// Begins with the state of one key.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn new(input: &'r mut Reader<'a>, fields: &'r [Option<usize>]) -> Result<Self, CodecError> {
        Ok(Self { left: input.count()?, input, fields })
    }
    /// Returns the next row of a field that is still there, with the field's number.
    ///
    /// # Errors
    /// When the bytes are no rows.
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

/// Returns where each field that was `written` is among the fields that are declared now.
///
/// # Errors
/// When a field has another kind or type now.
pub(super) fn matching(
    written: &[StateDeclaration],
    declared: &[StateDeclaration],
) -> Result<Vec<Option<usize>>, StateError> {
    let place = |old: &StateDeclaration| {
        let Some(place) = declared.iter().position(|new| new.name == old.name) else {
            return Ok(None);
        };
        let new = declared.get(place).map(describe).unwrap_or_default();
        if new == describe(old) {
            return Ok(Some(place));
        }
        Err(StateError::Schema { name: old.name.clone(), written: describe(old), declared: new })
    };
    written.iter().map(place).collect()
}

/// The kind and the types of a field, for comparison and for people.
fn describe(field: &StateDeclaration) -> String {
    let schemas = field.schemas.iter().map(|(role, schema)| format!("{role} {schema}"));
    format!("{} ({})", field.kind, schemas.collect::<Vec<_>>().join(", "))
}

/// A single value; `None` is what a key without one has.
impl<V: FlottType> StateField for Option<V> {
    const KIND: &'static str = "value";
    fn schemas() -> Vec<(&'static str, String)> {
        vec![("value", fingerprint::<V>())]
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

/// A function with one value per key needs no struct; the state is named `value`.
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
