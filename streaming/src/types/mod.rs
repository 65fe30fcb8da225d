//! Record types: the codec, the schema and the stable hash of records, keys and values of state.
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
mod std_types;
mod times;
mod written;

#[doc(hidden)]
pub use batch::BatchCodec;
pub(crate) use batch::weigh;
pub use batch::{decode_one, encode_one};
#[doc(hidden)]
pub use columns::{read_variants, write_variants};
pub use hash::{KeyHasher, key_hash};
pub use key_part::{Key, KeyPart, KeyPartUnlessFlottRecursive};
#[doc(hidden)]
pub use line::FromLine;
pub use line::ToLine;
pub use reader::{Reader, write_len, write_varint, write_zigzag};
pub(crate) use schema::structure;
pub use schema::{Schema, fingerprint};
pub use serde_type::Serde;
pub(crate) use written::{check_written, nested};

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

/// The reason why bytes cannot be decoded, or a value cannot be encoded. A task that gets it fails.
///
/// ```
/// use streaming::types::{CodecError, Reader, decode_one};
///
/// assert_eq!(decode_one::<bool>(&[]), Err(CodecError::Truncated));
/// assert!(matches!(decode_one::<bool>(&[7]), Err(CodecError::Invalid { .. })));
/// assert_eq!(decode_one::<bool>(&[1, 2, 3]), Err(CodecError::Trailing(2)));
///
/// /// Reads lists of lists of lists …, each of one element.
/// fn lists(input: &mut Reader<'_>, levels: u32) -> Result<(), CodecError> {
///     if levels == 0 { Ok(()) } else { input.nested(|input| lists(input, levels - 1)) }
/// }
/// assert_eq!(lists(&mut Reader::new(&[]), Reader::MAX_DEPTH), Ok(()));
/// assert_eq!(lists(&mut Reader::new(&[]), Reader::MAX_DEPTH + 1), Err(CodecError::TooDeep));
///
/// /// Returns true if the values are at fault, and not bytes that were damaged or written by another program.
/// fn is_of_values(error: CodecError) -> bool {
///     matches!(error, CodecError::TooLarge { .. } | CodecError::TooDeep | CodecError::OtherType(_))
/// }
/// assert!(!is_of_values(CodecError::Truncated));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CodecError {
    /// The bytes end before the value does, or a number of bytes or elements in them is greater than the number of bytes left.
    #[error("the bytes end too early")]
    Truncated,
    /// The bytes hold a value that the type does not have, such as text that is not UTF-8, an unknown variant, or MessagePack of
    /// [`Serde`] that is no such value or nested 64 deep or deeper; or the `Serialize` of a [`Serde`] value returned an error.
    #[error("invalid {what}")]
    Invalid {
        /// The part of the value that is invalid.
        what: &'static str,
    },
    /// Bytes are left over after the value, which only [`Reader::finish`] and its callers check; their number.
    #[error("{0} bytes are left over")]
    Trailing(usize),
    /// Values are nested too deeply: decoded ones more than [`Reader::MAX_DEPTH`] (200) levels, encoded ones of a type that contains
    /// itself more than 180, encoded ones of [`Serde`] 64 or more.
    #[error("values are nested too deeply")]
    TooDeep,
    /// A batch, or one record alone, is larger in its encoded form than one message to another process may be (2 GiB). The sending task
    /// fails with it.
    #[error(
        "{records} record(s) of together {bytes} bytes exceed the limit of {most} bytes for one message: split large records"
    )]
    TooLarge {
        /// Number of records; 1 if one record alone is too large.
        records: usize,
        /// Size of the records, encoded, in bytes.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// The batch holds records of another Rust type than the edge carries, found by [`BatchCodec`] when it encodes or copies a batch, or by
    /// the consuming chain when it takes one; the value is the name of the type that was expected.
    #[error("the batch does not hold records of the edge's type, {0}")]
    OtherType(&'static str),
}

/// A type whose values can be encoded: values of state, and with `Clone` records and keys. Derive it; a type of another crate that
/// has serde's traits is wrapped in [`Serde`]. [`KeyPart`] has an example of an implementation by hand: it gives `type_name`, `describe`,
/// `encode`, `decode`, `hash_key` and, for a type with memory on the heap, `weight`.
///
/// Laws, which property tests check for the types of this crate: decoding an encoded value returns an equal one and consumes
/// exactly its bytes; a value's hash and bytes are the same in every process, on every machine and in every version of this
/// crate.
///
/// ```
/// use streaming::types::Record;
///
/// #[derive(Clone, PartialEq, Eq, derive::FlottType)]
/// # #[flott(crate = streaming)]
/// struct Customer {
///     country: String,
///     number: u32,
/// }
///
/// fn is_record<T: Record>() {}
/// is_record::<Customer>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a record, key or state",
    label = "not a `FlottType`",
    note = "add `#[derive(Clone, FlottType)]` (values of state need no `Clone`), or wrap a type that has serde's traits in `Serde`"
)]
pub trait FlottType: Sized + Send + 'static {
    /// Returns the type's name for people, the same in every process: `string`, `(string, u64)`, `Order`. It is in job graphs and error
    /// messages, and need not be unique.
    fn type_name() -> String;
    /// Adds the type's structure to `schema`, whose hash is the fingerprint. Types that are encoded differently must add different
    /// texts: a restore is refused if the fingerprint has changed.
    fn describe(schema: &mut Schema);
    /// Appends the encoded value to `out`; it must be at least one byte. Returns no error: if a value cannot be encoded (a [`Serde`] value
    /// whose `Serialize` fails, or one nested too deeply), the batch or snapshot that the thread writes fails, and with it the task.
    fn encode(&self, out: &mut Vec<u8>);
    /// Decodes the value at the beginning of `input` and consumes exactly its bytes.
    ///
    /// # Errors
    /// Fails when the bytes do not begin with an encoded value: [`CodecError::Truncated`], [`CodecError::Invalid`] or
    /// [`CodecError::TooDeep`].
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError>;
    /// Feeds the value to the hash of keys. Equal keys must feed the same, in every process and every version of the program: the hash
    /// decides which subtask a key belongs to.
    fn hash_key(&self, hasher: &mut KeyHasher);
    /// Returns the estimated size in memory, in bytes, with what the value owns on the heap. The sizes of the records decide how many of
    /// them go into one batch. By default `size_of::<Self>()`, which leaves out the heap.
    fn weight(&self) -> usize {
        size_of::<Self>()
    }

    /// True if a value may contain another one of its type: `encode` then refuses values that are nested too deeply.
    #[doc(hidden)]
    const RECURSIVE: bool = false;
    /// Appends the encoded values one after another, without their number; `u8` copies all at once.
    #[doc(hidden)]
    fn encode_slice(values: &[Self], out: &mut Vec<u8>) {
        for value in values {
            value.encode(out);
        }
    }
    /// Decodes `count` values that [`FlottType::encode_slice`] encoded. A `count` greater than the number of bytes left fails with
    /// [`CodecError::Truncated`] before memory is reserved.
    #[doc(hidden)]
    fn decode_vec(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        // Every value takes at least one byte, so a greater count is corrupt. The cap keeps a few bytes from reserving much.
        if count > input.remaining() {
            return Err(CodecError::Truncated);
        }
        let mut values = Vec::with_capacity(count.min(65_536 / size_of::<Self>().max(1)));
        for _ in 0..count {
            values.push(Self::decode(input)?);
        }
        Ok(values)
    }
    /// Appends the encoded values, one of each record of a batch, without their number; by columns for types where that is quicker than
    /// value by value.
    #[doc(hidden)]
    fn encode_column<'a, I>(values: I, out: &mut Vec<u8>)
    where
        I: Iterator<Item = &'a Self> + Clone,
    {
        values.for_each(|value| value.encode(out));
    }
    /// Decodes `count` values that [`FlottType::encode_column`] encoded; fails as [`FlottType::decode`] does.
    #[doc(hidden)]
    fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        Self::decode_vec(count, input)
    }
    /// Appends the lists of this element type, one of each record of a batch, without the number of lists: list by list, and for numbers
    /// and bytes the lengths first and then all elements as one column.
    #[doc(hidden)]
    fn encode_lists<'a, I>(lists: I, out: &mut Vec<u8>)
    where
        I: Iterator<Item = &'a Vec<Self>> + Clone,
    {
        lists.for_each(|list| list.encode(out));
    }
    /// Decodes `count` lists that [`FlottType::encode_lists`] encoded for the same element type; fails as [`FlottType::decode`] does.
    #[doc(hidden)]
    fn decode_lists(count: usize, input: &mut Reader<'_>) -> Result<Vec<Vec<Self>>, CodecError> {
        Vec::decode_vec(count, input)
    }
    /// Feeds values to the hash of keys, one after another; `u8` feeds all at once, with their number. Types of variable length feed their
    /// number before, which this does not do for other elements.
    #[doc(hidden)]
    fn hash_slice(values: &[Self], hasher: &mut KeyHasher) {
        for value in values {
            value.hash_key(hasher);
        }
    }
}

/// A type whose values can flow in a stream: a [`FlottType`] with `Clone`, because a record may go several ways. Implemented for
/// all such types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a record",
    label = "not a `FlottType` with `Clone`",
    note = "add `#[derive(Clone, FlottType)]`"
)]
pub trait Record: FlottType + Clone {}
impl<T: FlottType + Clone> Record for T {}

#[cfg(test)]
mod tests;
