//! Full snapshots of keyed state: an operator writes one at a barrier and is restored from those of former subtasks.
//!
//! A snapshot is the version byte 3, the fingerprint of the key's type, a varint count and that many fields (name,
//! kind, and schemas as a map), then the entries in any order, and a byte 0. An entry is the varint number of its key
//! group plus one, the key, and its rows. Fields are matched by name, so their order may change; a field that the
//! program no longer declares is dropped. Several snapshots may follow each other: their entries are restored together.
//!
//! Entries are in no order because a snapshot is written while the job runs (`writing.rs`): an entry that a record is
//! about to change is written at once. In version 2 the entries were in groups: a varint count, then for each group its
//! number, a varint count and that many keys, each followed by its rows. It is still read.

use super::{
    Kept, KeyAddress, KeyGroups, RowReader, RowWriter, StateBackend, StateError, row::matching,
};
use crate::types::{
    CodecError, FlottType, Key, Reader, check_written, fingerprint, structure, write_len,
    write_varint,
};
use model::graph::StateDeclaration;
use std::collections::BTreeMap;

const VERSION: u8 = 3;
/// The version of a snapshot that contains changes only.
const CHANGES: u8 = 4;
/// The version whose entries are in groups.
const IN_GROUPS: u8 = 2;
/// The byte after the last entry.
pub(crate) const END: u8 = 0;

/// Returns a full snapshot, in one piece, of the backend's state of all key groups that `groups` owns, group by group. `fields` are the
/// fields that the backend's values have. For backends that cannot write a snapshot in slices; the state is not changed.
///
/// # Errors
/// Fails with the backend's error if it cannot read its entries, with [`StateError::Codec`] if a value cannot be encoded.
pub fn write_snapshot<K: Key, V: Kept>(
    backend: &mut impl StateBackend<K, V>,
    groups: &KeyGroups,
    fields: &[StateDeclaration],
) -> Result<Vec<u8>, StateError> {
    let (mut out, mut rows) = (Vec::new(), RowWriter::default());
    write_head::<K>(fields, &mut out);
    for group in groups.owned.clone() {
        backend.for_each(group, &mut |key, state| {
            write_entry(group, key, |rows| state.write(rows), &mut rows, &mut out);
        })?;
    }
    out.push(END);
    check_written()?;
    Ok(out)
}

/// Appends what precedes the entries in a snapshot.
pub(crate) fn write_head<K: Key>(fields: &[StateDeclaration], out: &mut Vec<u8>) {
    write_head_of::<K>(VERSION, fields, out);
}

/// Appends what precedes the entries in a snapshot of changes.
pub(crate) fn write_changes_head<K: Key>(fields: &[StateDeclaration], out: &mut Vec<u8>) {
    write_head_of::<K>(CHANGES, fields, out);
}

fn write_head_of<K: Key>(version: u8, fields: &[StateDeclaration], out: &mut Vec<u8>) {
    out.push(version);
    fingerprint::<K>().encode(out);
    write_fields(fields, out);
}

/// Appends an entry of a snapshot, whose rows `state` writes.
pub(super) fn write_entry<K: Key>(
    group: u32,
    key: &K,
    state: impl FnOnce(&mut RowWriter),
    rows: &mut RowWriter,
    out: &mut Vec<u8>,
) {
    write_varint(u64::from(group) + 1, out);
    key.encode(out);
    rows.write(out, state);
}

/// Restores the snapshots in `bytes`, at least one, which follow each other, into a backend: those keys whose groups `groups` owns; other
/// keys are passed over. A snapshot of changes, which must come after the one that it builds on, replaces and removes keys. `fields` are
/// the fields that the backend's values have; other fields in a snapshot are dropped. After an error the backend may hold a part of the
/// state.
///
/// # Errors
/// Fails with [`StateError::Codec`] if the bytes are not a snapshot, [`StateError::KeySchema`] or [`StateError::Schema`] if it was
/// written for another type of key or state, or the backend's error.
pub fn read_snapshot<K: Key, V: Kept>(
    bytes: &[u8],
    backend: &mut impl StateBackend<K, V>,
    groups: &KeyGroups,
    fields: &[StateDeclaration],
) -> Result<(), StateError> {
    let mut input = Reader::new(bytes);
    read_next(&mut input, backend, groups, fields)?;
    while input.remaining() > 0 {
        read_next(&mut input, backend, groups, fields)?;
    }
    Ok(())
}

/// Restores from the next snapshot of the input; see [`read_snapshot`]. Returns the kinds of the fields that were dropped, by name.
pub(crate) fn read_next<K: Key, V: Kept>(
    input: &mut Reader<'_>,
    backend: &mut impl StateBackend<K, V>,
    groups: &KeyGroups,
    fields: &[StateDeclaration],
) -> Result<BTreeMap<String, String>, StateError> {
    read_versions(
        input,
        &[VERSION, IN_GROUPS, CHANGES],
        groups,
        fields,
        |at, key, rows, version| {
            if version == CHANGES && rows.is_empty() {
                return backend.restore_removed(at, &key);
            }
            let state = V::read(rows)?;
            // A key whose fields were all dropped has no state left.
            match (V::holds_nothing(&state), version) {
                (false, _) => backend.restore(at, key, state),
                (true, CHANGES) => backend.restore_removed(at, &key),
                (true, _) => Ok(()),
            }
        },
    )
}

/// Reads the next snapshot of the input, a full one, and calls `each` with every entry whose key group `groups` owns; `each` reads all
/// rows. Returns the kinds of the fields that were dropped, by name. Fails as [`read_snapshot`] does.
pub(crate) fn read_entries<K: Key>(
    input: &mut Reader<'_>,
    groups: &KeyGroups,
    fields: &[StateDeclaration],
    mut each: impl FnMut(KeyAddress, K, &mut RowReader<'_, '_>) -> Result<(), StateError>,
) -> Result<BTreeMap<String, String>, StateError> {
    let full = [VERSION, IN_GROUPS];
    read_versions(input, &full, groups, fields, |at, key, rows, _| each(at, key, rows))
}

/// Reads the next snapshot of the input, which has one of these versions. Returns the kinds of the fields that were dropped, by name.
fn read_versions<K: Key>(
    input: &mut Reader<'_>,
    versions: &[u8],
    groups: &KeyGroups,
    fields: &[StateDeclaration],
    mut each: impl FnMut(KeyAddress, K, &mut RowReader<'_, '_>, u8) -> Result<(), StateError>,
) -> Result<BTreeMap<String, String>, StateError> {
    let version = input.byte()?;
    if !versions.contains(&version) {
        return Err(CodecError::Invalid { what: "version of a snapshot" }.into());
    }
    let (written, declared) = (String::decode(input)?, fingerprint::<K>());
    if written != declared {
        let declared = format!("{}, {declared}", structure::<K>());
        return Err(StateError::KeySchema { written, declared });
    }
    let written = read_fields(input)?;
    let places = matching(&written, fields)?;
    let mut entry = |group: u32, input: &mut Reader<'_>| {
        let key = K::decode(input)?;
        let at = groups.address(&key);
        if at.group != group {
            return Err(CodecError::Invalid { what: "key group" }.into());
        }
        let mut rows = RowReader::new(input, &places)?;
        if groups.owned.contains(&group) {
            return each(at, key, &mut rows, version);
        }
        while rows.next()?.is_some() {}
        Ok::<_, StateError>(())
    };
    if version == IN_GROUPS {
        for _ in 0..input.count()? {
            let group = u32::decode(input)?;
            for _ in 0..input.count()? {
                entry(group, input)?;
            }
        }
    } else {
        while let Some(group) = input.varint()?.checked_sub(1) {
            let group = u32::try_from(group);
            entry(group.map_err(|_| CodecError::Invalid { what: "key group" })?, input)?;
        }
    }
    Ok(dropped(written, &places))
}

/// Returns the kinds of the `written` fields that have no place among the declared ones, by name.
pub(super) fn dropped(
    written: Vec<StateDeclaration>,
    places: &[Option<usize>],
) -> BTreeMap<String, String> {
    let fields = written.into_iter().zip(places).filter(|(_, place)| place.is_none());
    fields.map(|(field, _)| (field.name, field.kind)).collect()
}

pub(super) fn write_fields(fields: &[StateDeclaration], out: &mut Vec<u8>) {
    write_len(fields.len(), out);
    for field in fields {
        field.name.encode(out);
        field.kind.encode(out);
        field.schemas.encode(out);
    }
}

pub(super) fn read_fields(input: &mut Reader<'_>) -> Result<Vec<StateDeclaration>, CodecError> {
    let count = input.count()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        fields.push(StateDeclaration {
            name: String::decode(input)?,
            kind: String::decode(input)?,
            schemas: BTreeMap::decode(input)?,
            types: BTreeMap::new(),
            ttl_ms: None,
            settings: None,
        });
    }
    Ok(fields)
}
