//! The codec of an edge. A batch is a head byte, the watermark, the number of records, the records by columns, and their event
//! times; the head says whether watermark and times are there.

use super::{CodecError, FlottType, Reader, Record, check_written, times, write_len};
use crate::{
    batch::Batch,
    seam::{EdgeCodec, ErasedBatch},
};
use std::{any::type_name, marker::PhantomData, ops::Range};

/// The [`EdgeCodec`] of a job edge whose records have type `T`: encodes whole batches by columns, with their event times and watermark,
/// for the way to another process, and decodes them there.
#[derive(derive_more::Debug)]
#[debug("BatchCodec<{}>", type_name::<T>())]
pub struct BatchCodec<T>(PhantomData<fn() -> T>);

impl<T> BatchCodec<T> {
    /// Creates the codec, which has no state.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for BatchCodec<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Bit of a batch's first byte: the event times follow the records.
const HEAD_TIMES: u8 = 1;
/// Bit of a batch's first byte: the watermark follows this byte.
const HEAD_WATERMARK: u8 = 2;

impl<T: Record> EdgeCodec for BatchCodec<T> {
    fn encode_part(
        &self,
        batch: &ErasedBatch,
        part: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let typed = batch.downcast_ref::<T>().ok_or(CodecError::OtherType(type_name::<T>()))?;
        let outside = CodecError::Invalid { what: "part of a batch" };
        let records = typed.records().get(part.clone()).ok_or(outside)?;
        // The column of times may end before the part does, or before it begins.
        let times = typed.times().get(part.start..).unwrap_or_default();
        let times = times.get(..records.len()).unwrap_or(times);
        let watermark = batch.watermark.filter(|_| part.end == typed.len());
        let has = |is: bool, bit: u8| if is { bit } else { 0 };
        let head = has(!times.is_empty(), HEAD_TIMES) | has(watermark.is_some(), HEAD_WATERMARK);
        out.push(head);
        if let Some(ms) = watermark {
            out.extend_from_slice(&ms.to_le_bytes());
        }
        write_len(records.len(), out);
        T::encode_column(records.iter(), out);
        if !times.is_empty() {
            times::encode(times, out);
        }
        check_written()
    }

    fn decode(&self, bytes: &[u8]) -> Result<ErasedBatch, CodecError> {
        let mut input = Reader::new(bytes);
        let head = input.byte()?;
        if head & !(HEAD_TIMES | HEAD_WATERMARK) != 0 {
            return Err(CodecError::Invalid { what: "head of a batch" });
        }
        let watermark = match head & HEAD_WATERMARK {
            0 => None,
            _ => Some(i64::from_le_bytes(input.array()?)),
        };
        let count = input.count()?;
        let records = T::decode_column(count, &mut input)?;
        let times = match head & HEAD_TIMES {
            0 => Vec::new(),
            _ => times::decode(count, &mut input)?,
        };
        input.finish()?;
        Ok(ErasedBatch::new(Batch::with_times(records, times)).with_watermark(watermark))
    }

    fn duplicate(&self, batch: &ErasedBatch) -> Result<ErasedBatch, CodecError> {
        let typed = batch.downcast_ref::<T>().ok_or(CodecError::OtherType(type_name::<T>()))?;
        Ok(ErasedBatch::new(typed.clone()).with_watermark(batch.watermark))
    }

    fn weight(&self, batch: &ErasedBatch) -> usize {
        let Some(typed) = batch.downcast_ref::<T>() else { return 0 };
        weigh(typed.records()).0 + typed.bytes_beside()
    }
}

/// Returns how many bytes records take in memory: all together, and the largest one. Types without a destructor have no heap
/// memory, so that their records are not visited.
pub(crate) fn weigh<T: FlottType>(records: &[T]) -> (usize, usize) {
    if !std::mem::needs_drop::<T>() {
        return (size_of_val(records), size_of::<T>());
    }
    records
        .iter()
        .map(FlottType::weight)
        .fold((0, 0), |(sum, most), bytes| (sum + bytes, most.max(bytes)))
}

/// Returns the encoded value, of at least one byte. Has no error: if the value cannot be encoded (a [`Serde`](super::Serde) value whose
/// `Serialize` returns an error, or a value nested too deeply), the bytes are incomplete, and the next batch or snapshot that this thread
/// encodes fails with the error.
///
/// ```
/// use streaming::types::{CodecError, decode_one, encode_one, fingerprint, key_hash};
///
/// let bytes = encode_one(&(7_u64, "seven".to_owned()));
/// assert_eq!(decode_one::<(u64, String)>(&bytes)?, (7, "seven".to_owned()));
/// assert_eq!(decode_one::<u64>(&bytes[..0]), Err(CodecError::Truncated));
/// assert_eq!(fingerprint::<u64>().len(), 16);
/// assert_eq!(key_hash(&7_u64), key_hash(&7_u32));
/// # Ok::<(), CodecError>(())
/// ```
pub fn encode_one<T: FlottType>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

/// Decodes a value that [`encode_one`] encoded.
///
/// # Errors
/// Fails when the bytes are not exactly one value: [`CodecError::Trailing`] if bytes are left over, another [`CodecError`] if they are
/// not a value of type `T`.
pub fn decode_one<T: FlottType>(bytes: &[u8]) -> Result<T, CodecError> {
    let mut input = Reader::new(bytes);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}
