//! The unit that waits in the exchange: an element as it is, or its encoded bytes. Knows codecs, not queues.

use super::incoming::Slice;
use crate::{
    seam::{EdgeCodec, Element, ErasedBatch, StreamEvent},
    types::CodecError,
};
use std::ops::Range;

/// Bytes that each parcel counts for in addition to its contents; an event counts for nothing else.
pub(super) const PARCEL_OVERHEAD: u64 = 32;

/// Maximum number of bytes of one encoded parcel. A batch that exceeds it is sent record by record, so that every record up to this size
/// passes, whatever is beside it in its batch.
pub(super) const PARCEL_BYTES_MAX: usize = if cfg!(test) { 16 << 20 } else { 1 << 31 };

/// One element on its way from producer to consumer.
#[derive(derive_more::Debug)]
pub(super) enum Parcel {
    /// An element that is handed over inside the process.
    Typed(Element),
    /// An encoded batch.
    #[debug("Batch({} bytes)", _0.len())]
    Batch(Vec<u8>),
    /// An encoded batch where it was received.
    Received(Slice),
    /// An encoded event.
    #[debug("Event({} bytes)", _0.len())]
    Event(Vec<u8>),
}

impl Parcel {
    /// Encodes an element. Returns its parcel and no others; for a batch that is too large as a whole the parcels of its records, in their
    /// order: that of the first record, and the others. Fails if the records are of another type than the codec's, or a single one is
    /// too large.
    pub(super) fn encode(
        element: &Element,
        codec: &dyn EdgeCodec,
    ) -> Result<(Self, Vec<Self>), CodecError> {
        let batch = match element {
            Element::Batch(batch) => batch,
            Element::Event(event) => {
                let mut bytes = Vec::new();
                event.encode(&mut bytes);
                return Ok((Self::Event(bytes), Vec::new()));
            }
        };
        match Self::encode_part(batch, 0..batch.len(), codec) {
            // Batches are bounded by bytes, but small records may be in front of a large one, and the size of a record may be unknown.
            Err(CodecError::TooLarge { records, .. }) if records > 1 => {
                let first = Self::encode_part(batch, 0..1, codec)?;
                let others = (1..records).map(|n| Self::encode_part(batch, n..n + 1, codec));
                Ok((first, others.collect::<Result<_, _>>()?))
            }
            whole => Ok((whole?, Vec::new())),
        }
    }

    fn encode_part(
        batch: &ErasedBatch,
        part: Range<usize>,
        codec: &dyn EdgeCodec,
    ) -> Result<Self, CodecError> {
        let (records, most) = (part.len(), PARCEL_BYTES_MAX);
        let mut bytes = Vec::new();
        codec.encode_part(batch, part, &mut bytes)?;
        match bytes.len() {
            bytes if bytes > most => Err(CodecError::TooLarge { records, bytes, most }),
            _ => Ok(Self::Batch(bytes)),
        }
    }

    /// Decodes the parcel to its element.
    pub(super) fn decode(self, codec: &dyn EdgeCodec) -> Result<Element, CodecError> {
        match self {
            Self::Typed(element) => Ok(element),
            Self::Batch(bytes) => codec.decode(&bytes).map(Element::Batch),
            Self::Received(slice) => codec.decode(&slice.0).map(Element::Batch),
            Self::Event(bytes) => StreamEvent::decode(&bytes).map(Element::Event),
        }
    }

    /// Returns the bytes that the parcel counts for in the network budget: its encoded size, or an estimate if it is not encoded.
    pub(super) fn weight(&self, codec: &dyn EdgeCodec) -> u64 {
        match self {
            Self::Typed(Element::Batch(batch)) => {
                (codec.weight(batch) as u64).saturating_add(PARCEL_OVERHEAD)
            }
            Self::Typed(Element::Event(_)) => PARCEL_OVERHEAD,
            Self::Batch(bytes) | Self::Event(bytes) => encoded_weight(bytes.len()),
            Self::Received(slice) => encoded_weight(slice.0.len()),
        }
    }
}

impl Parcel {
    /// Returns the bytes of memory that go with the parcel from one task to the next. `weight` is what the parcel counts for in
    /// the network budget.
    pub(super) fn memory(&self, weight: u64) -> u64 {
        match self {
            Self::Typed(Element::Batch(batch)) => {
                weight.saturating_sub(PARCEL_OVERHEAD).saturating_add(batch.spare() as u64)
            }
            // A received buffer stays that of the connection, which frees it.
            Self::Typed(Element::Event(_)) | Self::Received(_) => 0,
            Self::Batch(bytes) | Self::Event(bytes) => bytes.capacity() as u64,
        }
    }
}

/// Returns what `len` encoded bytes count for. Both ends of a connection must compute the same number.
pub(super) fn encoded_weight(len: usize) -> u64 {
    len as u64 + PARCEL_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{batch::Batch, types::BatchCodec};

    #[test]
    fn a_record_that_is_too_large_is_refused_with_its_size_and_the_limit() {
        let encoded = |bytes: usize| {
            let batch = ErasedBatch::new(Batch::from(vec![vec![7_u8; bytes]]));
            Parcel::encode(&Element::Batch(batch), &BatchCodec::<Vec<u8>>::new())
        };
        assert!(encoded(PARCEL_BYTES_MAX - 64).is_ok());
        let refused = encoded(PARCEL_BYTES_MAX + 1).unwrap_err();
        let CodecError::TooLarge { records: 1, bytes, most: PARCEL_BYTES_MAX } = refused else {
            panic!("{refused}");
        };
        let text = refused.to_string();
        for named in [format!("{bytes} bytes"), format!("{PARCEL_BYTES_MAX} bytes")] {
            assert!(text.contains(&named), "{named}: {text}");
        }
        assert!(bytes > PARCEL_BYTES_MAX && text.contains("split large records"));
    }

    #[test]
    fn a_batch_that_is_too_large_as_a_whole_is_cut_into_its_records() {
        let large = vec![7_u8; PARCEL_BYTES_MAX - 64];
        let records = vec![vec![1; 100], large.clone(), vec![2], vec![3]];
        let batch = ErasedBatch::new(Batch::with_times(records, vec![10, 20, 30]));
        let element = Element::Batch(batch.with_watermark(Some(5)));
        let codec = BatchCodec::<Vec<u8>>::new();
        let (first, others) = Parcel::encode(&element, &codec).unwrap();
        let mut cut = Vec::new();
        for parcel in std::iter::once(first).chain(others) {
            let Element::Batch(batch) = parcel.decode(&codec).unwrap() else { panic!("no batch") };
            let watermark = batch.watermark;
            let (records, times) = batch.downcast::<Vec<u8>>().unwrap().into_parts();
            cut.push((records, times, watermark));
        }
        let expected = [
            (vec![vec![1; 100]], vec![10], None),
            (vec![large], vec![20], None),
            (vec![vec![2]], vec![30], None),
            (vec![vec![3]], vec![], Some(5)),
        ];
        assert!(cut == expected, "one parcel for each record, the watermark behind the last one");
        let small = Element::Batch(ErasedBatch::new(Batch::from(vec![vec![1_u8], vec![2]])));
        assert!(Parcel::encode(&small, &codec).unwrap().1.is_empty(), "a small batch stays whole");
    }
}
