//! Record types: codec, schema and stable hash of what flows in a stream, is keyed by, or kept as state.
//!
//! The codec is compact and has no field names; `CODEC.md` beside the crate's sources writes it down. Decoding
//! must never panic and must never allocate more than a small multiple of the bytes it was given.

mod batch;
mod columns;
mod hash;
mod key_part;
mod line;
mod numbers;
mod reader;
mod schema;
mod serde_type;
mod short_text;
mod std_types;
mod times;

pub(crate) use batch::weigh;
pub use batch::{BatchCodec, decode_one, encode_one};
pub use hash::{KeyHasher, key_hash};
pub use key_part::{Key, KeyPart};
pub use line::{FromLine, ToLine};
pub use reader::{Reader, write_len, write_varint, write_zigzag};
pub use schema::{Schema, fingerprint};
pub use serde_type::Serde;
pub(crate) use serde_type::check_written;

/// Text of which up to 24 bytes are in the value itself, without a heap allocation: for words, names, codes and other short texts,
/// as records, keys and state. Longer texts are on the heap. A value is as large as a `String`, and is a `str` by `Deref`.
///
/// Bytes, schema and key hash are those of `String`. So a savepoint that was taken with one of the two types is restored with
/// the other, and every key stays in its key group.
///
/// ```
/// use streaming::{Environment, types::CompactString};
///
/// fn count_words(env: &Environment, path: &str) {
///     env.read_text_file(path)
///         .flat_map(|line: String, out| {
///             out.collect_all(line.split_whitespace().map(CompactString::new));
///         })
///         .key_by(|word| word)
///         .count()
///         .print();
/// }
///
/// assert!(!CompactString::new("at most twenty-four byte").is_heap_allocated());
/// assert!(CompactString::new("this has twenty-five byte").is_heap_allocated());
/// ```
#[doc(inline)]
pub use compact_str::CompactString;

use thiserror::Error;

/// Why bytes can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CodecError {
    /// They end too early.
    #[error("the bytes end too early")]
    Truncated,
    /// They hold a value that the type has not.
    #[error("invalid {what}")]
    Invalid {
        /// Which part.
        what: &'static str,
    },
    /// Something follows the value.
    #[error("{0} bytes are left over")]
    Trailing(usize),
    /// Values are nested more deeply than [`Reader::MAX_DEPTH`].
    #[error("values are nested too deeply")]
    TooDeep,
    /// The records of a batch are larger than what another process is sent at once.
    #[error(
        "{records} record(s) of together {bytes} bytes are more than the {most} bytes that are sent at once: split large records"
    )]
    TooLarge {
        /// How many records they are; 1 where a record alone is too large.
        records: usize,
        /// Their size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The batch holds records of another type.
    #[error("the batch holds records of another type than the edge's, {0}")]
    OtherType(&'static str),
}

/// A type whose values can be encoded: state, and with `Clone` records and keys. Derive it; for a type of another crate that has serde's
/// traits, wrap it in [`Serde`].
///
/// Laws (checked by property tests for everything here): decoding an encoded value gives it back and consumes
/// exactly its bytes; the hash and the bytes are the same in every process, on
/// every machine and in every version of this crate.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a record, key or state",
    label = "not a `FlottType`",
    note = "add `#[derive(Clone, FlottType)]` (values of state need no `Clone`), or wrap a type that has serde's traits in `Serde`"
)]
pub trait FlottType: Sized + Send + 'static {
    /// A name for people, the same in every process: `string`, `(string, u64)`, `Order`.
    fn type_name() -> String;
    /// Adds the type's structure; its hash is the schema's fingerprint.
    fn describe(schema: &mut Schema);
    /// Appends the value. Every value takes at least one byte.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads one value.
    ///
    /// # Errors
    /// When the bytes hold none.
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError>;
    /// Feeds the value to a hash that never changes.
    fn hash_key(&self, hasher: &mut KeyHasher);
    /// Estimated bytes in memory, heap included.
    fn weight(&self) -> usize {
        size_of::<Self>()
    }

    /// Appends values one after another. Types of one byte copy them at once.
    #[doc(hidden)]
    fn encode_slice(values: &[Self], out: &mut Vec<u8>) {
        for value in values {
            value.encode(out);
        }
    }
    /// Reads so many values.
    #[doc(hidden)]
    fn decode_vec(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        // Every value takes a byte, so more than what is left can't follow; and a few bytes can't reserve much.
        if count > input.remaining() {
            return Err(CodecError::Truncated);
        }
        let mut values = Vec::with_capacity(count.min(65_536 / size_of::<Self>().max(1)));
        for _ in 0..count {
            values.push(Self::decode(input)?);
        }
        Ok(values)
    }
    /// Appends the values of a batch: part by part of the type, where that is quicker than value by value.
    #[doc(hidden)]
    fn encode_column<'a, I>(values: I, out: &mut Vec<u8>)
    where
        I: Iterator<Item = &'a Self> + Clone,
    {
        values.for_each(|value| value.encode(out));
    }
    /// Reads so many values as [`FlottType::encode_column`] wrote them.
    #[doc(hidden)]
    fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        Self::decode_vec(count, input)
    }
    /// Feeds values to a hash.
    #[doc(hidden)]
    fn hash_slice(values: &[Self], hasher: &mut KeyHasher) {
        for value in values {
            value.hash_key(hasher);
        }
    }
}

/// What can flow in a stream: a [`FlottType`] that can be cloned, because a record may go several ways.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a record",
    label = "not a `FlottType` with `Clone`",
    note = "add `#[derive(Clone, FlottType)]`"
)]
pub trait Record: FlottType + Clone {}
impl<T: FlottType + Clone> Record for T {}

#[cfg(test)]
mod tests;
