//! [`CompactString`] as a record and key type: texts of up to 24 bytes need no heap memory. The type must have the bytes, the
//! schema and the hash of `String`, so that a program may change from one type to the other.

use super::{
    CodecError, FlottType, KeyHasher, KeyPart, Reader, Schema, ToLine,
    columns::{read_texts, write_texts},
    write_len,
};
use compact_str::CompactString;

impl FlottType for CompactString {
    fn type_name() -> String {
        String::type_name()
    }
    fn describe(schema: &mut Schema) {
        String::describe(schema);
    }
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        write_len(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        input.text().map(Self::new)
    }
    #[inline]
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_bytes(self.as_bytes());
    }
    #[inline]
    fn weight(&self) -> usize {
        size_of::<Self>() + if self.is_heap_allocated() { self.capacity() } else { 0 }
    }
    fn encode_column<'a, I: Iterator<Item = &'a Self> + Clone>(values: I, out: &mut Vec<u8>) {
        write_texts(values.map(Self::as_str), out);
    }
    fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        read_texts(count, input, |text| Self::new(text))
    }
}

impl KeyPart for CompactString {}

impl ToLine for CompactString {
    fn write_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}
