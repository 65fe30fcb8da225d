//! A wrapper that makes any type with serde's traits, such as a type of another crate, a record type.

use super::{CodecError, FlottType, KeyHasher, Reader, Schema, write_len, written::refuse};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use std::{
    any::type_name,
    io::{self, Write},
    ops::{Deref, DerefMut},
};

/// Lists and maps in a value are nested less deep than this, because decoding recurses.
const DEEPEST: usize = 64;

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(DEEPEST);
    T::deserialize(&mut decoder)
}

/// Returns true if an encoded value is nested so deeply that it is not decoded again.
fn is_too_deep<T: DeserializeOwned>(bytes: &[u8]) -> bool {
    use rmp_serde::decode::Error::DepthLimitExceeded;
    // Each level takes a byte. Passing over the value is cheap, and counts the variants of enums as levels, which decoding does not.
    bytes.len() >= DEEPEST
        && matches!(read::<IgnoredAny>(bytes), Err(DepthLimitExceeded))
        && read::<T>(bytes).is_err()
}

/// Removes the module path of every path in a type's name: `alloc::vec::Vec<program::Point>` becomes `Vec<Point>`.
fn without_modules(full: &str) -> String {
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    // Each part is a path and the character behind it.
    let parts = full.split_inclusive(|c| !is_path(c));
    parts.map(|part| part.rsplit_once("::").map_or(part, |(_, last)| last)).collect()
}

fn written<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap_or_else(|_| {
        refuse(CodecError::Invalid { what: "value: its Serialize returned an error" });
        Vec::new()
    })
}

/// A writer that counts bytes and keeps none.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value of a type with serde's traits, encoded as its length in bytes, followed by MessagePack with field names. It is slower and
/// larger than a derived [`FlottType`]. Its schema is only the type's name with the type arguments, without module paths: a restore
/// refuses `Vec<Point>` in place of `Point`, but does not notice a changed field of `Point`. A value in which lists and maps are nested
/// 64 deep or deeper cannot be written: the task fails with [`CodecError::TooDeep`]. [`FlottType::weight`] estimates memory on the heap by
/// the bytes of MessagePack, so that batches of large values have few of them; it serialises a value that has a destructor for that, once
/// for each operator and edge that it goes through. If a value's `Serialize` returns an error, the task that writes the value fails.
///
/// ```
/// use std::net::IpAddr;
/// use streaming::{Stream, types::Serde};
///
/// fn addresses(lines: &Stream<String>) -> Stream<Serde<IpAddr>> {
///     let addresses = lines.try_map(|line| line.parse::<IpAddr>().map(Serde));
///     addresses.filter(|address| address.is_ipv4())
/// }
/// ```
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
        without_modules(type_name::<T>())
    }
    fn describe(schema: &mut Schema) {
        schema.word("serde(");
        schema.word(&Self::type_name());
        schema.word(")");
    }
    fn encode(&self, out: &mut Vec<u8>) {
        let bytes = written(&self.0);
        if is_too_deep::<T>(&bytes) {
            return refuse(CodecError::TooDeep);
        }
        write_len(bytes.len(), out);
        out.extend_from_slice(&bytes);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let len = input.count()?;
        read(input.take(len)?).map(Self).map_err(|_| CodecError::Invalid { what: "serde value" })
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_bytes(&written(&self.0));
    }
    fn weight(&self) -> usize {
        let mut encoded = Counted(0);
        if std::mem::needs_drop::<T>() {
            // The part before an error counts; the error fails the task when the value is written.
            let _ = rmp_serde::encode::write_named(&mut encoded, &self.0);
        }
        size_of::<Self>().saturating_add(encoded.0)
    }
}
