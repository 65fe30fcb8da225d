//! A wrapper that makes a record of any type with serde's traits (a type of another crate).

use super::{CodecError, FlottType, KeyHasher, Reader, Schema, write_len};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    any::type_name,
    cell::Cell,
    ops::{Deref, DerefMut},
};

/// How deeply a value may be nested: reading recurses.
const DEEPEST: usize = 64;

thread_local! {
    /// A value refused to be written since this was last asked. `encode` has no error to return, because only this
    /// wrapper can fail; whoever writes a batch or a snapshot asks when it is done.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Whether what was just written on this thread is complete.
pub(crate) fn check_written() -> Result<(), CodecError> {
    match REFUSED.replace(false) {
        false => Ok(()),
        true => Err(CodecError::Invalid { what: "value: its own Serialize refuses it" }),
    }
}

fn written<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap_or_else(|_| {
        REFUSED.set(true);
        Vec::new()
    })
}

/// A value whose bytes are MessagePack with field names, behind their length. Slower and larger than a derived
/// [`FlottType`]; its schema is the type's name alone. Values are nested at most 64 deep. A value that its own
/// `Serialize` refuses fails the task that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Serde<T>(pub T);

impl<T> Deref for Serde<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T> DerefMut for Serde<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> FlottType for Serde<T> {
    fn type_name() -> String {
        let full = type_name::<T>();
        full.rsplit("::").next().unwrap_or(full).to_owned()
    }
    fn describe(schema: &mut Schema) {
        schema.word("serde(");
        schema.word(&Self::type_name());
        schema.word(")");
    }
    fn encode(&self, out: &mut Vec<u8>) {
        let bytes = written(&self.0);
        write_len(bytes.len(), out);
        out.extend_from_slice(&bytes);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let len = input.count()?;
        let mut decoder = rmp_serde::Deserializer::from_read_ref(input.take(len)?);
        decoder.set_max_depth(DEEPEST);
        let value = T::deserialize(&mut decoder);
        value.map(Self).map_err(|_| CodecError::Invalid { what: "serde value" })
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_bytes(&written(&self.0));
    }
}
