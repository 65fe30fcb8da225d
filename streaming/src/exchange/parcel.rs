//! The unit that waits in the exchange: an element as it is, or its encoded bytes. Knows codecs, not queues.

use crate::{
    seam::{EdgeCodec, Element, StreamEvent},
    types::CodecError,
};

/// Bytes that each parcel counts for in addition to its contents; an event counts for nothing else.
pub(super) const PARCEL_OVERHEAD: u64 = 32;

/// Maximum number of bytes of one encoded parcel. Batches of large records are small, so only a single record can exceed it.
pub(super) const PARCEL_BYTES_MAX: usize = if cfg!(test) { 16 << 20 } else { 1 << 31 };

/// One element on its way from producer to consumer.
#[derive(derive_more::Debug)]
pub(super) enum Parcel {
    /// An element that is handed over inside the process.
    Typed(Element),
    /// An encoded batch.
    #[debug("Batch({} bytes)", _0.len())]
    Batch(Vec<u8>),
    /// An encoded event.
    #[debug("Event({} bytes)", _0.len())]
    Event(Vec<u8>),
}

impl Parcel {
    /// Encodes an element. Fails if its records are of another type than the codec's, or too large.
    pub(super) fn encode(element: &Element, codec: &dyn EdgeCodec) -> Result<Self, CodecError> {
        let mut bytes = Vec::new();
        match element {
            Element::Batch(batch) => {
                codec.encode(batch, &mut bytes)?;
                if bytes.len() > PARCEL_BYTES_MAX {
                    let (bytes, most) = (bytes.len(), PARCEL_BYTES_MAX);
                    return Err(CodecError::TooLarge { records: batch.len(), bytes, most });
                }
                Ok(Self::Batch(bytes))
            }
            Element::Event(event) => {
                event.encode(&mut bytes);
                Ok(Self::Event(bytes))
            }
        }
    }

    /// Decodes the parcel to its element.
    pub(super) fn decode(self, codec: &dyn EdgeCodec) -> Result<Element, CodecError> {
        match self {
            Self::Typed(element) => Ok(element),
            Self::Batch(bytes) => codec.decode(&bytes).map(Element::Batch),
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
            Self::Typed(Element::Event(_)) => 0,
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
    use crate::{batch::Batch, seam::ErasedBatch, types::BatchCodec};

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
        assert!(bytes > PARCEL_BYTES_MAX && refused.to_string().contains("split large records"));
    }
}
