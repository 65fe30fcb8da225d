//! The one walk over an operator's states that declares, opens, restores and writes them.
//!
//! A snapshot of an operator: version byte 1, count of states, then of each its name, its schemas, the length of
//! its bytes and its bytes.

use super::{KeyGroups, Table};
use crate::types::{CodecError, FlottType, Key, Reader, check_written, fingerprint, write_len};
use model::graph::StateDeclaration;
use std::collections::BTreeMap;

const VERSION: u8 = 1;

/// One state of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredState {
    name: String,
    schemas: String,
    bytes: Vec<u8>,
}

/// What a walk over an operator's states does.
#[derive(Debug)]
enum Walk<'a> {
    Declare(&'a mut Vec<StateDeclaration>),
    Open { groups: KeyGroups, restore: &'a [RestoredState], failure: Option<CodecError> },
    Write { states: usize, out: Vec<u8> },
}

/// Visits the states of an operator. A function names each of its states to it, always the same ones.
#[derive(Debug)]
pub struct States<'a> {
    walk: Walk<'a>,
}

impl<'a> States<'a> {
    /// Collects declarations.
    pub fn declare(into: &'a mut Vec<StateDeclaration>) -> Self {
        Self { walk: Walk::Declare(into) }
    }
    /// Makes the tables, with what is restored.
    pub fn open(groups: KeyGroups, restore: &'a [RestoredState]) -> Self {
        Self { walk: Walk::Open { groups, restore, failure: None } }
    }
    /// Writes a snapshot.
    pub fn write() -> States<'static> {
        States { walk: Walk::Write { states: 0, out: Vec::new() } }
    }

    /// After [`States::open`].
    ///
    /// # Errors
    /// When a restored state does not fit.
    pub fn opened(self) -> Result<(), CodecError> {
        match self.walk {
            Walk::Open { failure: Some(failure), .. } => Err(failure),
            _ => Ok(()),
        }
    }
    /// After [`States::write`]: the snapshot.
    ///
    /// # Errors
    /// When a value can't be written.
    pub fn written(self) -> Result<Vec<u8>, CodecError> {
        check_written()?;
        let mut bytes = vec![VERSION];
        if let Walk::Write { states, out } = self.walk {
            write_len(states, &mut bytes);
            bytes.extend_from_slice(&out);
        }
        Ok(bytes)
    }

    /// One table of an operator.
    pub fn table<K: Key, V: FlottType>(
        &mut self,
        name: &str,
        kind: &str,
        table: &mut Option<Table<K, V>>,
    ) {
        let (key, value) = (fingerprint::<K>(), fingerprint::<V>());
        let schemas = format!("{kind}:{key}:{value}");
        match &mut self.walk {
            Walk::Declare(declarations) => declarations.push(StateDeclaration {
                name: name.to_owned(),
                kind: kind.to_owned(),
                schemas: BTreeMap::from([("key".into(), key), ("value".into(), value)]),
                ttl_ms: None,
            }),
            Walk::Open { groups, restore, failure } => {
                let mut opened = Table::new(groups.clone());
                for state in restore.iter().filter(|state| state.name == name) {
                    let read = if state.schemas == schemas {
                        let mut input = Reader::new(&state.bytes);
                        opened.read(&mut input).and_then(|()| input.finish())
                    } else {
                        Err(CodecError::Invalid { what: "schema of a restored state" })
                    };
                    if let Err(error) = read {
                        failure.get_or_insert(error);
                    }
                }
                *table = Some(opened);
            }
            Walk::Write { states, out } => {
                *states += 1;
                name.to_owned().encode(out);
                schemas.encode(out);
                let mut bytes = Vec::new();
                if let Some(table) = table {
                    table.write(&mut bytes);
                }
                bytes.encode(out);
            }
        }
    }
}

/// The states of one operator's snapshot.
///
/// # Errors
/// When the bytes are none.
pub fn read_snapshot(bytes: &[u8]) -> Result<Vec<RestoredState>, CodecError> {
    let mut input = Reader::new(bytes);
    if input.byte()? != VERSION {
        return Err(CodecError::Invalid { what: "version of a snapshot" });
    }
    let count = input.count()?;
    let mut states = Vec::new();
    for _ in 0..count {
        states.push(RestoredState {
            name: String::decode(&mut input)?,
            schemas: String::decode(&mut input)?,
            bytes: Vec::decode(&mut input)?,
        });
    }
    input.finish()?;
    Ok(states)
}
