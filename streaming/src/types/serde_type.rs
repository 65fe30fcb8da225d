//! A wrapper that makes a record of any type with serde's traits (a type of another crate).

use super::{CodecError, FlottType, KeyHasher, Reader, Schema, write_len};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    any::type_name,
    ops::{Deref, DerefMut},
};

/// A value whose bytes are MessagePack with field names, behind their length. Slower and larger than a derived
/// [`FlottType`]; its schema is the type's name alone.
///
/// A value that its own `Serialize` refuses is written as no bytes at all, and fails where it is read.
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

impl<T: Serialize + DeserializeOwned + Clone + Send + 'static> FlottType for Serde<T> {
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
        let bytes = rmp_serde::to_vec_named(&self.0).unwrap_or_default();
        write_len(bytes.len(), out);
        out.extend_from_slice(&bytes);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let len = input.count()?;
        rmp_serde::from_slice(input.take(len)?)
            .map(Self)
            .map_err(|_| CodecError::Invalid { what: "serde value" })
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_bytes(&rmp_serde::to_vec_named(&self.0).unwrap_or_default());
    }
}
