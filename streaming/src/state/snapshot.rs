//! Full snapshots of keyed state: an operator writes one at a barrier and is restored from those of former subtasks.
//!
//! A snapshot is the version byte 2, the fingerprint of the key's type, a varint count and that many fields (name,
//! kind, and schemas as a map), a varint count and that many key groups. A key group is its number, a varint count and
//! that many keys, each followed by its rows. Fields are matched by name, so their order may change; a field that the
//! program no longer declares is dropped.

use super::{Kept, KeyGroups, RowReader, RowWriter, StateBackend, StateError, row::matching};
use crate::types::{
    CodecError, FlottType, Key, Reader, check_written, fingerprint, write_len, write_varint,
};
use model::graph::StateDeclaration;
use std::collections::BTreeMap;

const VERSION: u8 = 2;

/// Returns a snapshot of all state in a backend, group by group. `fields` are the fields that the backend's values
/// have.
///
/// # Errors
/// The backend's error if it cannot read its entries, [`StateError::Codec`] if a value cannot be encoded.
pub fn write_snapshot<K: Key, V: Kept>(
    backend: &mut impl StateBackend<K, V>,
    groups: &KeyGroups,
    fields: &[StateDeclaration],
) -> Result<Vec<u8>, StateError> {
    let mut out = vec![VERSION];
    fingerprint::<K>().encode(&mut out);
    write_fields(fields, &mut out);
    write_len(groups.owned.len(), &mut out);
    let (mut rows, mut entries) = (RowWriter::default(), Vec::new());
    for group in groups.owned.clone() {
        let mut keys = 0;
        entries.clear();
        backend.for_each(group, &mut |key, state| {
            keys += 1;
            key.encode(&mut entries);
            state.write(&mut rows);
            rows.finish(&mut entries);
        })?;
        write_varint(u64::from(group), &mut out);
        write_len(keys, &mut out);
        out.extend_from_slice(&entries);
    }
    check_written()?;
    Ok(out)
}

/// Restores from the snapshot of one former subtask into a backend: those keys whose groups `groups` owns. Called once
/// for each snapshot.
///
/// # Errors
/// [`StateError::Codec`] if the bytes are not a snapshot, [`StateError::KeySchema`] or [`StateError::Schema`] if it was
/// written for another type of key or state, or the backend's error.
pub fn read_snapshot<K: Key, V: Kept>(
    bytes: &[u8],
    backend: &mut impl StateBackend<K, V>,
    groups: &KeyGroups,
    fields: &[StateDeclaration],
) -> Result<(), StateError> {
    let mut input = Reader::new(bytes);
    if input.byte()? != VERSION {
        return Err(CodecError::Invalid { what: "version of a snapshot" }.into());
    }
    let (written, declared) = (String::decode(&mut input)?, fingerprint::<K>());
    if written != declared {
        return Err(StateError::KeySchema { written, declared });
    }
    let places = matching(&read_fields(&mut input)?, fields)?;
    let count = input.count()?;
    for _ in 0..count {
        let group = u32::decode(&mut input)?;
        let keys = input.count()?;
        for _ in 0..keys {
            let key = K::decode(&mut input)?;
            let state = V::read(&mut RowReader::new(&mut input, &places)?)?;
            let at = groups.address(&key);
            if at.group != group {
                return Err(CodecError::Invalid { what: "key group" }.into());
            }
            // A key whose fields were all dropped has no state left.
            if groups.owned.contains(&group) && !state.holds_nothing() {
                backend.restore(at, key, state)?;
            }
        }
    }
    Ok(input.finish()?)
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
            ttl_ms: None,
        });
    }
    Ok(fields)
}
