//! The codec of an edge: a count, then the records.

use super::{CodecError, FlottType, Reader, check_written, write_len};
use crate::seam::{EdgeCodec, ErasedBatch};
use std::{any::type_name, fmt, marker::PhantomData};

/// The codec of an edge that carries `T`.
pub struct BatchCodec<T>(PhantomData<fn() -> T>);

impl<T> BatchCodec<T> {
    /// For that type.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for BatchCodec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for BatchCodec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchCodec<{}>", type_name::<T>())
    }
}

/// How many records stand for all when a batch is weighed.
const SAMPLE: usize = 8;

impl<T: FlottType> EdgeCodec for BatchCodec<T> {
    fn encode(&self, batch: &ErasedBatch, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let records = batch.downcast_ref::<T>().ok_or(CodecError::OtherType(type_name::<T>()))?;
        write_len(records.len(), out);
        T::encode_slice(records, out);
        check_written()
    }

    fn decode(&self, bytes: &[u8]) -> Result<ErasedBatch, CodecError> {
        let mut input = Reader::new(bytes);
        let count = input.count()?;
        let records = T::decode_vec(count, &mut input)?;
        input.finish()?;
        Ok(ErasedBatch::new(records))
    }

    fn duplicate(&self, batch: &ErasedBatch) -> Result<ErasedBatch, CodecError> {
        let records = batch.downcast_ref::<T>().ok_or(CodecError::OtherType(type_name::<T>()))?;
        Ok(ErasedBatch::new(records.to_vec()))
    }

    fn weight(&self, batch: &ErasedBatch) -> usize {
        let Some(records) = batch.downcast_ref::<T>() else { return 0 };
        let step = records.len().div_ceil(SAMPLE).max(1);
        let (mut sampled, mut bytes) = (0_usize, 0_usize);
        for record in records.iter().step_by(step) {
            sampled += 1;
            bytes += record.weight();
        }
        bytes * records.len() / sampled.max(1)
    }
}

/// One value as bytes.
pub fn encode_one<T: FlottType>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

/// Reads what [`encode_one`] gave.
///
/// # Errors
/// When the bytes are not exactly one value.
pub fn decode_one<T: FlottType>(bytes: &[u8]) -> Result<T, CodecError> {
    let mut input = Reader::new(bytes);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}
