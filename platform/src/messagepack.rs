//! Decoding of MessagePack with named fields, as `rmp_serde` encodes it (structs as maps from field names), for messages between processes
//! and for stored values. It must never panic, recurse without a bound (a type that contains itself through newtypes and options
//! alone would; there is none), or allocate more than its input justifies, whatever the bytes are.
//!
//! `rmp_serde`'s own deserializer looks at the kind of the next value first, so that its code for all kinds is compiled for each type that
//! is read anywhere: 1,100 times in a program, a seventh of its code, which every process of a job loads at its start. This one asks for
//! the one kind that the type wants, and takes bytes from a `dyn Read`, so that a type is compiled once for slices and files together.

mod decoder;

use decoder::{Decoder, Head};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::{fmt, io::Read};
use thiserror::Error;

/// The reason why bytes are not the value that was asked for. The sender, or a damaged file, is at fault, and a retry gives the
/// same; but [`DecodeError::Read`] may also be a failure of the reader's disk.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end within the value, or the reader failed.
    #[error("the bytes can't be read to the end of the value: {0}")]
    Read(String),
    /// Another kind of value is there.
    #[error("{found} is in the place of {expected}")]
    Kind {
        /// The kind that is there.
        found: &'static str,
        /// The kind that the type has.
        expected: &'static str,
    },
    /// A list, a map or the map of an enum has more entries than the type takes.
    #[error("{0} entries more than expected")]
    Length(u32),
    /// A string has bytes that are no UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
    /// Lists, maps and enums are nested deeper than is allowed.
    #[error("it is nested beyond the depth that is allowed")]
    TooDeep,
    /// The type refused the value; the text is its own.
    #[error("{0}")]
    Refused(String),
}

impl serde::de::Error for DecodeError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::Refused(why.to_string())
    }
}

/// Decodes a value from the beginning of `input`, with lists, maps and enums nested at most `levels` deep. Unknown fields are skipped at any depth, and
/// bytes behind the value are not read. Memory is needed for the value and its longest string or byte array, not for all bytes.
///
/// # Errors
/// Returns why the bytes are no such value; the reader's error as [`DecodeError::Read`].
///
/// ```
/// use platform::messagepack::{DecodeError, decode};
///
/// let three = [0x93, 1, 2, 3];
/// assert_eq!(decode::<Vec<u64>>(&mut &three[..], 8), Ok(vec![1, 2, 3]));
/// assert!(matches!(decode::<Vec<u64>>(&mut &three[..2], 8), Err(DecodeError::Read(_))));
/// assert!(matches!(decode::<String>(&mut &three[..], 8), Err(DecodeError::Kind { .. })));
/// ```
pub fn decode<T: DeserializeOwned>(input: &mut dyn Read, levels: usize) -> Result<T, DecodeError> {
    T::deserialize(&mut Decoder::new(input, levels))
}

impl Decoder<'_> {
    fn enter(&mut self) -> Result<(), DecodeError> {
        self.levels = self.levels.checked_sub(1).ok_or(DecodeError::TooDeep)?;
        Ok(())
    }

    /// Leaves a list or a map of which `left` entries were not read.
    fn leave(&mut self, left: u32) -> Result<(), DecodeError> {
        self.levels += 1;
        match left {
            0 => Ok(()),
            left => Err(DecodeError::Length(left)),
        }
    }

    fn visit_list<'de, V: Visitor<'de>>(
        &mut self,
        len: u32,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.enter()?;
        let mut entries = Entries { decoder: self, left: len };
        let value = visitor.visit_seq(&mut entries)?;
        let left = entries.left;
        self.leave(left).map(|()| value)
    }

    fn visit_map<'de, V: Visitor<'de>>(
        &mut self,
        len: u32,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.enter()?;
        let mut entries = Entries { decoder: self, left: len };
        let value = visitor.visit_map(&mut entries)?;
        let left = entries.left;
        self.leave(left).map(|()| value)
    }

    fn visit_number<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Unsigned(n) => visitor.visit_u64(n),
            Head::Signed(n) => visitor.visit_i64(n),
            head => Err(head.is_not("an integer")),
        }
    }

    fn visit_float<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Float(n) => visitor.visit_f64(n),
            head => Err(head.is_not("a floating-point number")),
        }
    }

    fn visit_text<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Text(len) => visitor.visit_string(self.text(len)?),
            head => Err(head.is_not("a string")),
        }
    }

    fn visit_bytes<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Bytes(len) => visitor.visit_byte_buf(self.byte_array(len)?),
            head => Err(head.is_not("a byte array")),
        }
    }

    /// Reads the 16 bytes, most significant first, that stand for a large number.
    fn wide(&mut self) -> Result<[u8; 16], DecodeError> {
        match self.head()? {
            Head::Bytes(16) => self.bytes(),
            head => Err(head.is_not("a byte array of 16 bytes")),
        }
    }
}

/// Forwards requests to the methods of [`Decoder`] for their kinds.
macro_rules! of_kind {
    ($($request:ident => $visit:ident),* $(,)?) => {
        $(fn $request<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            self.$visit(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Decoder<'_> {
    type Error = DecodeError;

    of_kind! {
        deserialize_u8 => visit_number, deserialize_u16 => visit_number,
        deserialize_u32 => visit_number, deserialize_u64 => visit_number,
        deserialize_i8 => visit_number, deserialize_i16 => visit_number,
        deserialize_i32 => visit_number, deserialize_i64 => visit_number,
        deserialize_f32 => visit_float, deserialize_f64 => visit_float,
        deserialize_str => visit_text, deserialize_string => visit_text,
        deserialize_bytes => visit_bytes, deserialize_byte_buf => visit_bytes,
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Nil => visitor.visit_unit(),
            Head::Bool(is) => visitor.visit_bool(is),
            Head::Unsigned(n) => visitor.visit_u64(n),
            Head::Signed(n) => visitor.visit_i64(n),
            Head::Float(n) => visitor.visit_f64(n),
            Head::Text(len) => visitor.visit_string(self.text(len)?),
            Head::Bytes(len) => visitor.visit_byte_buf(self.byte_array(len)?),
            Head::List(len) => self.visit_list(len, visitor),
            Head::Map(len) => self.visit_map(len, visitor),
            head @ Head::Extension(_) => Err(head.is_not("a value")),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Bool(is) => visitor.visit_bool(is),
            head => Err(head.is_not("a boolean")),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_u128(u128::from_be_bytes(self.wide()?))
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_i128(i128::from_be_bytes(self.wide()?))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_str(self.name()?)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_str(self.name()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Nil => visitor.visit_none(),
            head => {
                self.next = Some(head);
                visitor.visit_some(self)
            }
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Nil => visitor.visit_unit(),
            head => Err(head.is_not("nil")),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Head::Nil | Head::List(0) => visitor.visit_unit(),
            head => Err(head.is_not("an empty list")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let len = self.list()?;
        self.visit_list(len, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let len = self.map()?;
        self.visit_map(len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let has_content = match self.head()? {
            Head::Map(1) => true,
            Head::Map(0) => return Err(DecodeError::custom("an enum has no variant")),
            Head::Map(len) => return Err(DecodeError::Length(len - 1)),
            head => {
                self.next = Some(head);
                false
            }
        };
        self.enter()?;
        let value = visitor.visit_enum(Variant { decoder: self, has_content })?;
        self.leave(0).map(|()| value)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The entries of a list or map.
struct Entries<'d, 'a> {
    decoder: &'d mut Decoder<'a>,
    left: u32,
}

impl Entries<'_, '_> {
    fn next<'de, S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DecodeError> {
        match self.left.checked_sub(1) {
            None => Ok(None),
            Some(left) => {
                self.left = left;
                seed.deserialize(&mut *self.decoder).map(Some)
            }
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Entries<'_, '_> {
    type Error = DecodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DecodeError> {
        self.next(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

impl<'de> MapAccess<'de> for &mut Entries<'_, '_> {
    type Error = DecodeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DecodeError> {
        self.next(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, DecodeError> {
        seed.deserialize(&mut *self.decoder)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// A variant of an enum: its name alone, or its name with its content.
struct Variant<'d, 'a> {
    decoder: &'d mut Decoder<'a>,
    has_content: bool,
}

impl<'de> EnumAccess<'de> for Variant<'_, '_> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self), DecodeError> {
        let name = seed.deserialize(&mut *self.decoder)?;
        Ok((name, self))
    }
}

impl Variant<'_, '_> {
    fn content(&mut self) -> Result<&mut Self, DecodeError> {
        match self.has_content {
            true => Ok(self),
            false => Err(DecodeError::custom("a variant has no content")),
        }
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        match self.has_content {
            true => match self.decoder.head()? {
                Head::Nil => Ok(()),
                head => Err(head.is_not("nil")),
            },
            false => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(
        mut self,
        seed: S,
    ) -> Result<S::Value, DecodeError> {
        seed.deserialize(&mut *self.content()?.decoder)
    }

    fn tuple_variant<V: Visitor<'de>>(
        mut self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.content()?.decoder.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.content()?.decoder.deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests;
