//! The reading of heads, strings and byte arrays, and the passing over of values. It must know no types that are decoded, so that it is
//! compiled once.

use super::DecodeError;
use rmp::Marker;
use std::{io, io::Read};

/// Bytes that memory is taken for before they are there; more only as bytes come.
const AT_ONCE_MAX: usize = 64 * 1024;

/// The first part of a value: its kind, and its content or the number of bytes or entries that follow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Head {
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
    pub(super) fn is_not(self, expected: &'static str) -> DecodeError {
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
pub(super) struct Decoder<'a> {
    input: &'a mut dyn Read,
    /// The head that was read and not used.
    pub(super) next: Option<Head>,
    /// Levels of nesting that are left.
    pub(super) levels: usize,
    /// The field name or variant name that was read last.
    scratch: Vec<u8>,
}

impl<'a> Decoder<'a> {
    /// Begins to read values, with lists, maps and enums nested at most `levels` deep.
    pub(super) fn new(input: &'a mut dyn Read, levels: usize) -> Self {
        Self { input, next: None, levels, scratch: Vec::new() }
    }
}

impl Decoder<'_> {
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
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

    pub(super) fn head(&mut self) -> Result<Head, DecodeError> {
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

    pub(super) fn text(&mut self, len: u32) -> Result<String, DecodeError> {
        String::from_utf8(self.byte_array(len)?).map_err(|_| DecodeError::Utf8)
    }

    /// Reads a string into the memory of the one before.
    pub(super) fn name(&mut self) -> Result<&str, DecodeError> {
        let len = match self.head()? {
            Head::Text(len) => len,
            head => return Err(head.is_not("a string")),
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        self.read_to(len, &mut scratch)?;
        self.scratch = scratch;
        std::str::from_utf8(&self.scratch).map_err(|_| DecodeError::Utf8)
    }

    pub(super) fn byte_array(&mut self, len: u32) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = Vec::new();
        self.read_to(len, &mut bytes)?;
        Ok(bytes)
    }

    /// Passes over a value of any kind; its nesting needs no memory.
    pub(super) fn skip(&mut self) -> Result<(), DecodeError> {
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
    pub(super) fn list(&mut self) -> Result<u32, DecodeError> {
        match self.head()? {
            Head::List(len) => Ok(len),
            head => Err(head.is_not("a list")),
        }
    }

    /// Reads the head of a map.
    pub(super) fn map(&mut self) -> Result<u32, DecodeError> {
        match self.head()? {
            Head::Map(len) => Ok(len),
            head => Err(head.is_not("a map")),
        }
    }
}
