//! Numbers as record types.

use super::{
    CodecError, FlottType, KeyHasher, Reader, Schema,
    columns::{
        fixed, read_bytes, read_lists, read_numbers, write_bytes, write_fixed, write_lists,
        write_numbers,
    },
    std_types::word,
    write_varint, write_zigzag,
};
use std::convert::identity;

/// Maps signed numbers to unsigned ones of the same order.
pub(super) fn ordered(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}
/// Maps an unsigned number back to the signed one that [`ordered`] was called with.
pub(super) fn signed(value: u64) -> i64 {
    (value ^ 1 << 63) as i64
}

/// Lets lists of a number share one column in a batch.
macro_rules! columns_of_lists {
    () => {
        fn encode_lists<'a, I: Iterator<Item = &'a Vec<Self>> + Clone>(
            lists: I,
            out: &mut Vec<u8>,
        ) {
            write_lists(lists, out);
        }
        fn decode_lists(
            count: usize,
            input: &mut Reader<'_>,
        ) -> Result<Vec<Vec<Self>>, CodecError> {
            read_lists(count, input)
        }
    };
}

/// Integers, written as `$wide`. `$order` maps that to an unsigned number of the same order, and `$value` maps the number back.
macro_rules! integers {
    ($wide:ident, $write:ident, $read:ident, $order:path, $value:path: $($type:ident),*) => {$(
        impl FlottType for $type {
            columns_of_lists!();
            word!(stringify!($type));
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) { $write(*self as $wide, out); }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
                Self::try_from(input.$read()?).map_err(|_| CodecError::Invalid { what: stringify!($type) })
            }
            // With sign extension the same number has the same hash at any width.
            #[inline]
            fn hash_key(&self, hasher: &mut KeyHasher) { hasher.write_u64(*self as $wide as u64); }
            fn encode_column<'a, I: Iterator<Item = &'a Self> + Clone>(values: I, out: &mut Vec<u8>) {
                write_numbers(values.map(|value| $order(*value as $wide)), 1, out);
            }
            fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
                let numbers = read_numbers(count, 1, input)?;
                if !numbers.all_fit(|value| Self::try_from($value(value)).is_ok()) {
                    return Err(CodecError::Invalid { what: stringify!($type) });
                }
                Ok(numbers.map(|value| $value(value) as Self))
            }
        }
    )*};
}
integers!(u64, write_varint, varint, identity, identity: u16, u32, u64, usize);
integers!(i64, write_zigzag, zigzag, ordered, signed: i16, i32, i64, isize);

macro_rules! fixed {
    ($($type:ident as $hash:ident),*) => {$(
        impl FlottType for $type {
            columns_of_lists!();
            word!(stringify!($type));
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) { out.extend_from_slice(&self.to_le_bytes()); }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> { input.array().map(Self::from_le_bytes) }
            #[inline]
            fn hash_key(&self, hasher: &mut KeyHasher) { $hash(*self, hasher) }
            fn encode_column<'a, I: Iterator<Item = &'a Self> + Clone>(values: I, out: &mut Vec<u8>) {
                write_fixed(values.clone().count(), values.map(|value| value.to_le_bytes()), out);
            }
            fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
                let bytes = input.take(count.saturating_mul(size_of::<Self>()))?;
                Ok(fixed(bytes).map(Self::from_le_bytes).collect())
            }
        }
    )*};
}
fixed!(f32 as hash_f32, f64 as hash_f64, u128 as hash_u128, i128 as hash_i128);

// The two zeros are equal, so they must hash alike.
fn hash_f64(value: f64, hasher: &mut KeyHasher) {
    hasher.write_u64(if value == 0.0 { 0 } else { value.to_bits() });
}
fn hash_f32(value: f32, hasher: &mut KeyHasher) {
    hash_f64(f64::from(value), hasher);
}
fn hash_u128(value: u128, hasher: &mut KeyHasher) {
    hasher.write_u64(value as u64);
    hasher.write_u64((value >> 64) as u64);
}
fn hash_i128(value: i128, hasher: &mut KeyHasher) {
    hash_u128(value as u128, hasher);
}

impl FlottType for u8 {
    word!("u8");
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        input.byte()
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(u64::from(*self));
    }
    fn encode_slice(values: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(values);
    }
    fn decode_vec(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        input.take(count).map(<[u8]>::to_vec)
    }
    fn hash_slice(values: &[Self], hasher: &mut KeyHasher) {
        hasher.write_bytes(values);
    }
    fn encode_lists<'a, I: Iterator<Item = &'a Vec<Self>> + Clone>(lists: I, out: &mut Vec<u8>) {
        write_bytes(lists.map(Vec::as_slice), out);
    }
    fn decode_lists(count: usize, input: &mut Reader<'_>) -> Result<Vec<Vec<Self>>, CodecError> {
        read_bytes(count, input)
    }
    fn encode_column<'a, I: Iterator<Item = &'a Self> + Clone>(values: I, out: &mut Vec<u8>) {
        out.extend(values);
    }
}

impl FlottType for i8 {
    word!("i8");
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        input.array().map(Self::from_le_bytes)
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(i64::from(*self) as u64);
    }
}
