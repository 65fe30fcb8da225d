//! Decoding of MessagePack with named fields, as `rmp_serde` encodes it (structs as maps from field names), for messages between processes
//! and for stored values. It must never panic, recurse without a bound (a type that contains itself through newtypes and options
//! alone would; there is none), or allocate more than its input justifies, whatever the bytes are.
//!
//! `rmp_serde`'s own deserializer looks at the kind of the next value first, so that its code for all kinds is compiled for each type that
//! is read anywhere: 1,100 times in a program, a seventh of its code, which every process of a job loads at its start. [`Decoder`] asks for
//! the one kind that the type wants, and takes bytes from a `dyn Read`, so that a type is compiled once for slices and files together.

use rmp::Marker;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::{fmt, io, io::Read};
use thiserror::Error;

/// Bytes that memory is taken for before they are there; more only as bytes come.
const AT_ONCE_MAX: usize = 64 * 1024;

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
    T::deserialize(&mut Decoder { input, next: None, levels, scratch: Vec::new() })
}

/// The first part of a value: its kind, and its content or the number of bytes or entries that follow.
#[derive(Debug, Clone, Copy)]
enum Head {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(u32),
    Bytes(u32),
    List(u32),
    Map(u32),
    /// The bytes without that of the extension's type.
    Extension(u32),
}

impl Head {
    #[cold]
    fn is_not(self, expected: &'static str) -> DecodeError {
        let found = match self {
            Self::Nil => "nil",
            Self::Bool(_) => "a boolean",
            Self::Unsigned(_) | Self::Signed(_) => "an integer",
            Self::Float(_) => "a floating-point number",
            Self::Text(_) => "a string",
            Self::Bytes(_) => "a byte array",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Extension(_) => "an extension",
        };
        DecodeError::Kind { found, expected }
    }
}

fn ended(why: &io::Error) -> DecodeError {
    DecodeError::Read(why.to_string())
}

/// One value after the other from a reader.
struct Decoder<'a> {
    input: &'a mut dyn Read,
    /// The head that was read and not used.
    next: Option<Head>,
    /// Levels of nesting that are left.
    levels: usize,
    /// The field name or variant name that was read last.
    scratch: Vec<u8>,
}

impl Decoder<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(|why| ended(&why))?;
        Ok(bytes)
    }

    fn number8(&mut self) -> Result<u32, DecodeError> {
        self.bytes().map(|[byte]| byte.into())
    }

    fn number16(&mut self) -> Result<u32, DecodeError> {
        self.bytes().map(|bytes| u16::from_be_bytes(bytes).into())
    }

    fn number32(&mut self) -> Result<u32, DecodeError> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn head(&mut self) -> Result<Head, DecodeError> {
        if let Some(head) = self.next.take() {
            return Ok(head);
        }
        let [marker] = self.bytes()?;
        Ok(match Marker::from_u8(marker) {
            Marker::Null => Head::Nil,
            Marker::True => Head::Bool(true),
            Marker::False => Head::Bool(false),
            Marker::FixPos(n) => Head::Unsigned(n.into()),
            Marker::FixNeg(n) => Head::Signed(n.into()),
            Marker::U8 => Head::Unsigned(self.number8()?.into()),
            Marker::U16 => Head::Unsigned(self.number16()?.into()),
            Marker::U32 => Head::Unsigned(self.number32()?.into()),
            Marker::U64 => Head::Unsigned(u64::from_be_bytes(self.bytes()?)),
            Marker::I8 => Head::Signed(i8::from_be_bytes(self.bytes()?).into()),
            Marker::I16 => Head::Signed(i16::from_be_bytes(self.bytes()?).into()),
            Marker::I32 => Head::Signed(i32::from_be_bytes(self.bytes()?).into()),
            Marker::I64 => Head::Signed(i64::from_be_bytes(self.bytes()?)),
            Marker::F32 => Head::Float(f32::from_be_bytes(self.bytes()?).into()),
            Marker::F64 => Head::Float(f64::from_be_bytes(self.bytes()?)),
            Marker::FixStr(len) => Head::Text(len.into()),
            Marker::Str8 => Head::Text(self.number8()?),
            Marker::Str16 => Head::Text(self.number16()?),
            Marker::Str32 => Head::Text(self.number32()?),
            Marker::Bin8 => Head::Bytes(self.number8()?),
            Marker::Bin16 => Head::Bytes(self.number16()?),
            Marker::Bin32 => Head::Bytes(self.number32()?),
            Marker::FixArray(len) => Head::List(len.into()),
            Marker::Array16 => Head::List(self.number16()?),
            Marker::Array32 => Head::List(self.number32()?),
            Marker::FixMap(len) => Head::Map(len.into()),
            Marker::Map16 => Head::Map(self.number16()?),
            Marker::Map32 => Head::Map(self.number32()?),
            Marker::FixExt1 => Head::Extension(1),
            Marker::FixExt2 => Head::Extension(2),
            Marker::FixExt4 => Head::Extension(4),
            Marker::FixExt8 => Head::Extension(8),
            Marker::FixExt16 => Head::Extension(16),
            Marker::Ext8 => Head::Extension(self.number8()?),
            Marker::Ext16 => Head::Extension(self.number16()?),
            Marker::Ext32 => Head::Extension(self.number32()?),
            Marker::Reserved => {
                return Err(DecodeError::Refused("the byte 0xc1 begins no value".to_owned()));
            }
        })
    }

    /// Replaces the content of `to` by the next bytes; memory is taken as they come.
    fn read_to(&mut self, len: u32, to: &mut Vec<u8>) -> Result<(), DecodeError> {
        let len = len as usize;
        to.clear();
        while to.len() < len {
            let read = to.len();
            let piece = (len - read).min(read.max(AT_ONCE_MAX));
            to.reserve_exact(piece);
            to.resize(read + piece, 0);
            self.input.read_exact(to.split_at_mut(read).1).map_err(|why| ended(&why))?;
        }
        Ok(())
    }

    fn text(&mut self, len: u32) -> Result<String, DecodeError> {
        String::from_utf8(self.byte_array(len)?).map_err(|_| DecodeError::Utf8)
    }

    /// Reads a string into the memory of the one before.
    fn name(&mut self) -> Result<&str, DecodeError> {
        let len = match self.head()? {
            Head::Text(len) => len,
            head => return Err(head.is_not("a string")),
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        self.read_to(len, &mut scratch)?;
        self.scratch = scratch;
        std::str::from_utf8(&self.scratch).map_err(|_| DecodeError::Utf8)
    }

    fn byte_array(&mut self, len: u32) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = Vec::new();
        self.read_to(len, &mut bytes)?;
        Ok(bytes)
    }

    /// Passes over a value of any kind; its nesting needs no memory.
    fn skip(&mut self) -> Result<(), DecodeError> {
        let mut values = 1_u64;
        while values > 0 {
            values -= 1;
            match self.head()? {
                Head::Text(len) | Head::Bytes(len) => self.pass(len.into())?,
                Head::Extension(len) => self.pass(u64::from(len) + 1)?,
                Head::List(len) => values = values.saturating_add(len.into()),
                Head::Map(len) => values = values.saturating_add(u64::from(len) * 2),
                Head::Nil
                | Head::Bool(_)
                | Head::Unsigned(_)
                | Head::Signed(_)
                | Head::Float(_) => {}
            }
        }
        Ok(())
    }

    fn pass(&mut self, bytes: u64) -> Result<(), DecodeError> {
        let passed = io::copy(&mut (&mut *self.input).take(bytes), &mut io::sink());
        match passed.map_err(|why| ended(&why))? {
            passed if passed < bytes => {
                Err(DecodeError::Read(format!("{} bytes are missing", bytes - passed)))
            }
            _ => Ok(()),
        }
    }

    /// Reads the head of a list.
    fn list(&mut self) -> Result<u32, DecodeError> {
        match self.head()? {
            Head::List(len) => Ok(len),
            head => Err(head.is_not("a list")),
        }
    }

    /// Reads the head of a map.
    fn map(&mut self) -> Result<u32, DecodeError> {
        match self.head()? {
            Head::Map(len) => Ok(len),
            head => Err(head.is_not("a map")),
        }
    }

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
