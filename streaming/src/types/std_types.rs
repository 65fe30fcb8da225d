//! The standard library's types as record types. Numbers are in `numbers.rs`.

use super::{
    CodecError, CompactString, FlottType, KeyHasher, Reader, Schema,
    columns::{read_texts, write_texts},
    write_len, write_varint, written,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Implements `type_name` and `describe` of a type whose schema is one word.
macro_rules! word {
    ($word:expr) => {
        fn type_name() -> String {
            $word.into()
        }
        fn describe(schema: &mut Schema) {
            schema.word($word);
        }
    };
}
pub(super) use word;

impl FlottType for bool {
    word!("bool");
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(CodecError::Invalid { what: "bool" }),
        }
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(u64::from(*self));
    }
}

impl FlottType for char {
    word!("char");
    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(u64::from(u32::from(*self)), out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let code = u32::decode(input)?;
        Self::from_u32(code).ok_or(CodecError::Invalid { what: "char" })
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(u64::from(u32::from(*self)));
    }
}

impl FlottType for () {
    word!("()");
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(0);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        match input.byte()? {
            0 => Ok(()),
            _ => Err(CodecError::Invalid { what: "unit" }),
        }
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(0);
    }
}

/// Makes a type of text a record type. All of them have the same bytes, schema and hash, so that a program may change from one to
/// another. `$heap` returns the bytes that a text has on the heap.
macro_rules! text {
    ($type:ident, |$text:ident| $heap:expr) => {
        impl FlottType for $type {
            word!("string");
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                write_len(self.len(), out);
                out.extend_from_slice(self.as_bytes());
            }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
                input.text().map(Self::from)
            }
            #[inline]
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.write_bytes(self.as_bytes());
            }
            #[inline]
            fn weight(&self) -> usize {
                let $text = self;
                size_of::<Self>() + $heap
            }
            fn encode_column<'a, I: Iterator<Item = &'a Self> + Clone>(
                values: I,
                out: &mut Vec<u8>,
            ) {
                write_texts(values.map(Self::as_str), out);
            }
            fn decode_column(
                count: usize,
                input: &mut Reader<'_>,
            ) -> Result<Vec<Self>, CodecError> {
                read_texts(count, input, |text| Self::from(text))
            }
        }
    };
}
text!(String, |text| text.capacity());
// Up to 24 bytes are in the value itself.
text!(CompactString, |text| if text.is_heap_allocated() { text.capacity() } else { 0 });

impl<T: FlottType> FlottType for Option<T> {
    const RECURSIVE: bool = T::RECURSIVE;
    fn type_name() -> String {
        format!("option<{}>", T::type_name())
    }
    fn describe(schema: &mut Schema) {
        schema.generic("option", &[T::describe]);
    }
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
        }
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        match input.byte()? {
            0 => Ok(None),
            1 => T::decode(input).map(Some),
            _ => Err(CodecError::Invalid { what: "option" }),
        }
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(u64::from(self.is_some()));
        if let Some(value) = self {
            value.hash_key(hasher);
        }
    }
    fn weight(&self) -> usize {
        let inner = self.as_ref().map_or(0, |v| v.weight().saturating_sub(size_of::<T>()));
        size_of::<Self>() + inner
    }
    fn encode_column<'a, I: Iterator<Item = &'a Self> + Clone>(values: I, out: &mut Vec<u8>) {
        out.extend(values.clone().map(|value| u8::from(value.is_some())));
        T::encode_column(values.filter_map(Self::as_ref), out);
    }
    fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        let wrong = CodecError::Invalid { what: "option" };
        let tags = input.take(count)?;
        if tags.iter().any(|tag| *tag > 1) {
            return Err(wrong);
        }
        let present = tags.iter().filter(|tag| **tag == 1).count();
        let mut present = T::decode_column(present, input)?.into_iter();
        let value = |tag: &u8| match tag {
            0 => Ok(None),
            _ => present.next().map(Some).ok_or(wrong),
        };
        tags.iter().map(value).collect()
    }
}

impl<T: FlottType, E: FlottType> FlottType for Result<T, E> {
    const RECURSIVE: bool = T::RECURSIVE || E::RECURSIVE;
    fn type_name() -> String {
        format!("result<{}, {}>", T::type_name(), E::type_name())
    }
    fn describe(schema: &mut Schema) {
        schema.generic("result", &[T::describe, E::describe]);
    }
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Ok(value) => {
                out.push(0);
                value.encode(out);
            }
            Err(error) => {
                out.push(1);
                error.encode(out);
            }
        }
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        match input.byte()? {
            0 => T::decode(input).map(Ok),
            1 => E::decode(input).map(Err),
            _ => Err(CodecError::Invalid { what: "result" }),
        }
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(u64::from(self.is_err()));
        match self {
            Ok(value) => value.hash_key(hasher),
            Err(error) => error.hash_key(hasher),
        }
    }
    fn weight(&self) -> usize {
        match self {
            Ok(value) => size_of::<Self>() + value.weight(),
            Err(error) => size_of::<Self>() + error.weight(),
        }
    }
}

/// Returns the bytes that values own on the heap.
fn heap_of<'a, T: FlottType>(values: impl Iterator<Item = &'a T>) -> usize {
    values.map(|v| v.weight().saturating_sub(size_of::<T>())).sum()
}

impl<T: FlottType> FlottType for Vec<T> {
    const RECURSIVE: bool = T::RECURSIVE;
    fn type_name() -> String {
        format!("list<{}>", T::type_name())
    }
    fn describe(schema: &mut Schema) {
        schema.generic("list", &[T::describe]);
    }
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        write_len(self.len(), out);
        written::nested::<T>(|| T::encode_slice(self, out));
    }
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let len = input.count()?;
        input.nested(|input| T::decode_vec(len, input))
    }
    #[inline]
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(self.len() as u64);
        T::hash_slice(self, hasher);
    }
    fn weight(&self) -> usize {
        let heap = if std::mem::needs_drop::<T>() { heap_of(self.iter()) } else { 0 };
        size_of::<Self>() + self.capacity() * size_of::<T>() + heap
    }
    fn encode_column<'a, I: Iterator<Item = &'a Self> + Clone>(values: I, out: &mut Vec<u8>) {
        T::encode_lists(values, out);
    }
    fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        T::decode_lists(count, input)
    }
}

macro_rules! collection {
    ($type:ident, $name:literal, $($bound:tt)*) => {
        impl<T: FlottType + $($bound)*> FlottType for $type<T> {
            const RECURSIVE: bool = T::RECURSIVE;
            fn type_name() -> String { format!(concat!($name, "<{}>"), T::type_name()) }
            fn describe(schema: &mut Schema) { schema.generic($name, &[T::describe]); }
            fn encode(&self, out: &mut Vec<u8>) {
                write_len(self.len(), out);
                written::nested::<T>(|| self.iter().for_each(|value| value.encode(out)));
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
                let len = input.count()?;
                input.nested(|input| (0..len).map(|_| T::decode(input)).collect())
            }
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.write_u64(self.len() as u64);
                self.iter().for_each(|value| value.hash_key(hasher));
            }
            fn weight(&self) -> usize {
                size_of::<Self>() + self.len() * size_of::<T>() + heap_of(self.iter())
            }
        }
    };
}
collection!(VecDeque, "list", Sized);
collection!(BTreeSet, "set", Ord);

impl<K: FlottType + Ord, V: FlottType> FlottType for BTreeMap<K, V> {
    const RECURSIVE: bool = K::RECURSIVE || V::RECURSIVE;
    fn type_name() -> String {
        format!("map<{}, {}>", K::type_name(), V::type_name())
    }
    fn describe(schema: &mut Schema) {
        schema.generic("map", &[K::describe, V::describe]);
    }
    fn encode(&self, out: &mut Vec<u8>) {
        write_len(self.len(), out);
        written::nested::<(K, V)>(|| {
            for (key, value) in self {
                key.encode(out);
                value.encode(out);
            }
        });
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let len = input.count()?;
        input.nested(|input| (0..len).map(|_| Ok((K::decode(input)?, V::decode(input)?))).collect())
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(self.len() as u64);
        for (key, value) in self {
            key.hash_key(hasher);
            value.hash_key(hasher);
        }
    }
    fn weight(&self) -> usize {
        let entries = self.len() * (size_of::<K>() + size_of::<V>());
        size_of::<Self>() + entries + heap_of(self.keys()) + heap_of(self.values())
    }
}

macro_rules! pointer {
    ($type:ident, $bound:ident) => {
        impl<T: FlottType + $bound> FlottType for $type<T> {
            const RECURSIVE: bool = T::RECURSIVE;
            fn type_name() -> String {
                T::type_name()
            }
            fn describe(schema: &mut Schema) {
                T::describe(schema);
            }
            fn encode(&self, out: &mut Vec<u8>) {
                written::nested::<T>(|| (**self).encode(out));
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
                input.nested(|input| T::decode(input)).map(Self::new)
            }
            fn hash_key(&self, hasher: &mut KeyHasher) {
                (**self).hash_key(hasher);
            }
            fn weight(&self) -> usize {
                size_of::<Self>() + (**self).weight()
            }
        }
    };
}
pointer!(Box, Sized);
pointer!(Arc, Sync);

impl<T: FlottType, const N: usize> FlottType for [T; N] {
    const RECURSIVE: bool = T::RECURSIVE;
    fn type_name() -> String {
        format!("[{}; {N}]", T::type_name())
    }
    fn describe(schema: &mut Schema) {
        schema.generic(&format!("array{N}"), &[T::describe]);
    }
    fn encode(&self, out: &mut Vec<u8>) {
        if N == 0 {
            out.push(0);
        }
        T::encode_slice(self, out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        if N == 0 && input.byte()? != 0 {
            return Err(CodecError::Invalid { what: "empty array" });
        }
        let values = T::decode_vec(N, input)?;
        values.try_into().map_err(|_| CodecError::Truncated)
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        T::hash_slice(self, hasher);
    }
    fn weight(&self) -> usize {
        size_of::<Self>() + heap_of(self.iter())
    }
    fn encode_column<'a, I: Iterator<Item = &'a Self> + Clone>(values: I, out: &mut Vec<u8>) {
        match N {
            0 => values.for_each(|value| value.encode(out)),
            _ => T::encode_column(values.flatten(), out),
        }
    }
    fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
        if N == 0 {
            return Self::decode_vec(count, input);
        }
        let mut parts = T::decode_column(count.saturating_mul(N), input)?.into_iter();
        let array = |_| Self::try_from(parts.by_ref().take(N).collect::<Vec<T>>());
        (0..count).map(array).collect::<Result<_, _>>().map_err(|_| CodecError::Truncated)
    }
}

impl FlottType for Duration {
    word!("duration");
    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(self.as_secs(), out);
        write_varint(u64::from(self.subsec_nanos()), out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let seconds = input.varint()?;
        let nanos = u32::decode(input)?;
        if nanos >= 1_000_000_000 {
            return Err(CodecError::Invalid { what: "duration" });
        }
        Ok(Self::new(seconds, nanos))
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.write_u64(self.as_secs());
        hasher.write_u64(u64::from(self.subsec_nanos()));
    }
}

/// Returns the name of a tuple with parts of these types.
fn tuple(parts: &[String]) -> String {
    format!("({})", parts.join(", "))
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: FlottType),+> FlottType for ($($name,)+) {
            const RECURSIVE: bool = $($name::RECURSIVE)||+;
            fn type_name() -> String {
                tuple(&[$($name::type_name()),+])
            }
            fn describe(schema: &mut Schema) {
                schema.generic("tuple", &[$($name::describe),+]);
            }
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$index.encode(out);)+
            }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
                Ok(($($name::decode(input)?,)+))
            }
            #[inline]
            fn hash_key(&self, hasher: &mut KeyHasher) {
                $(self.$index.hash_key(hasher);)+
            }
            fn weight(&self) -> usize {
                // The heap memory of each part, and the tuple itself with its padding.
                size_of::<Self>() $(+ self.$index.weight().saturating_sub(size_of::<$name>()))+
            }
            fn encode_column<'a, It: Iterator<Item = &'a Self> + Clone>(values: It, out: &mut Vec<u8>) {
                $($name::encode_column(values.clone().map(|value| &value.$index), out);)+
            }
            #[expect(non_snake_case, reason = "variables are named as the types are")]
            fn decode_column(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, CodecError> {
                $(let mut $name = $name::decode_column(count, input)?.into_iter();)+
                let mut values = Vec::with_capacity(count);
                // Every column has `count` values.
                while let ($(Some($name),)+) = ($($name.next(),)+) {
                    values.push(($($name,)+));
                }
                Ok(values)
            }
        }
    )*};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
