//! Reading encoded values from untrusted bytes, and the forms of numbers that reading and writing share.

use super::CodecError;

/// A cursor over encoded bytes, which may be corrupt. Reading beyond the end fails with [`CodecError::Truncated`] and never panics. After a
/// failure of `take`, `array` or `byte` nothing is consumed; after another one a part of the value may be.
///
/// ```
/// use streaming::types::{
///     CodecError, FlottType, KeyHasher, Reader, Schema, decode_one, encode_one, write_len,
///     write_varint, write_zigzag,
/// };
///
/// /// A way on a grid, encoded as the number of its steps, and each step.
/// #[derive(Clone, Debug, PartialEq)]
/// struct Way {
///     width: u64,
///     steps: Vec<i64>,
/// }
///
/// impl FlottType for Way {
///     fn type_name() -> String {
///         "Way".to_owned()
///     }
///     fn describe(schema: &mut Schema) {
///         schema.named::<Self>("Way", |schema| schema.field::<Vec<i64>>("steps"));
///     }
///     fn encode(&self, out: &mut Vec<u8>) {
///         write_varint(self.width, out);
///         write_len(self.steps.len(), out);
///         self.steps.iter().for_each(|step| write_zigzag(*step, out));
///     }
///     fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
///         let width = input.varint()?;
///         // A count is at most the number of bytes that remain: corrupt bytes reserve little memory.
///         let count = input.count()?;
///         let steps = (0..count).map(|_| input.zigzag()).collect::<Result<_, _>>()?;
///         Ok(Self { width, steps })
///     }
///     fn hash_key(&self, hasher: &mut KeyHasher) {
///         hasher.write_u64(self.width);
///         self.steps.iter().for_each(|step| hasher.write_bytes(&step.to_le_bytes()));
///     }
/// }
///
/// let way = Way { width: 300, steps: vec![1, -300] };
/// let bytes = encode_one(&way);
/// assert_eq!(bytes.len(), 6);
/// assert_eq!(decode_one::<Way>(&bytes), Ok(way));
/// assert_eq!(decode_one::<Way>(&bytes[..5]), Err(CodecError::Truncated));
///
/// let mut input = Reader::new(b"\x01\x02flott");
/// assert_eq!((input.array::<2>()?, input.take(5)?), ([1, 2], &b"flott"[..]));
/// assert_eq!(input.remaining(), 0);
/// input.finish()?;
/// # Ok::<(), CodecError>(())
/// ```
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    depth: u32,
}

impl<'a> Reader<'a> {
    /// Maximum depth of [`Reader::nested`], that is of boxes, lists and maps inside each other; deeper values fail to decode, with
    /// [`CodecError::TooDeep`]. Decoding recurses, so deeper nesting could overflow the stack.
    pub const MAX_DEPTH: u32 = 200;

    /// Creates a reader at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, depth: 0 }
    }

    /// Returns the number of bytes of the input that are not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Reads the next `n` bytes, without copying them.
    ///
    /// # Errors
    /// Fails with [`CodecError::Truncated`] when fewer bytes are left; none is consumed then.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.bytes.split_at_checked(n).ok_or(CodecError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    /// Fails with [`CodecError::Truncated`] when fewer bytes are left; none is consumed then.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(CodecError::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Reads the next byte.
    ///
    /// # Errors
    /// Fails with [`CodecError::Truncated`] when no byte is left.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, CodecError> {
        self.array::<1>().map(|[b]| b)
    }

    /// Reads a varint: a number of seven bits per byte, the lowest first, in at most ten bytes.
    ///
    /// # Errors
    /// Fails with [`CodecError::Truncated`] when the bytes end too early, with [`CodecError::Invalid`] for more than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(CodecError::Invalid { what: "number of more than 64 bits" })
    }

    /// Reads a signed number that [`write_zigzag`] wrote.
    ///
    /// # Errors
    /// Fails as [`Reader::varint`] does.
    #[inline]
    pub fn zigzag(&mut self) -> Result<i64, CodecError> {
        let n = self.varint()?;
        // Both casts keep all bits, as the zigzag form requires.
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Reads the number of bytes or elements that follow, a varint that [`write_len`] wrote; each element takes at least one byte.
    ///
    /// # Errors
    /// Fails with [`CodecError::Truncated`] when the number is greater than the number of bytes left, otherwise as [`Reader::varint`] does.
    #[inline]
    pub fn count(&mut self) -> Result<usize, CodecError> {
        let n = usize::try_from(self.varint()?).map_err(|_| CodecError::Truncated)?;
        if n > self.remaining() { Err(CodecError::Truncated) } else { Ok(n) }
    }

    /// Reads a text that follows its length in bytes, a varint; copies nothing.
    ///
    /// # Errors
    /// Fails with [`CodecError::Truncated`] when the bytes end too early, with [`CodecError::Invalid`] when they are not UTF-8 or the
    /// length has more than 64 bits.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, CodecError> {
        let len = self.count()?;
        str::from_utf8(self.take(len)?).map_err(|_| CodecError::Invalid { what: "UTF-8" })
    }

    /// Calls `read` with this reader while its nesting depth is one greater, and returns the result. The decoders of boxes, lists and
    /// maps use it, so that corrupt bytes cannot overflow the stack.
    ///
    /// # Errors
    /// Fails with [`CodecError::TooDeep`] at a depth of [`Reader::MAX_DEPTH`] without calling `read`, and with the error of `read`.
    #[inline]
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<T, CodecError> {
        if self.depth >= Self::MAX_DEPTH {
            return Err(CodecError::TooDeep);
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Checks that all bytes were read; called at the end of decoding.
    ///
    /// # Errors
    /// Fails with [`CodecError::Trailing`] and the number of bytes that are left.
    pub fn finish(self) -> Result<(), CodecError> {
        match self.remaining() {
            0 => Ok(()),
            n => Err(CodecError::Trailing(n)),
        }
    }
}

/// Appends a number as a varint: seven bits per byte, the lowest first, in one to ten bytes. [`Reader::varint`] reads it.
#[inline]
pub fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number as a varint in zigzag form: numbers near 0 are short, whatever their sign. [`Reader::zigzag`] reads it.
#[inline]
pub fn write_zigzag(value: i64, out: &mut Vec<u8>) {
    write_varint(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Appends a number of bytes or elements, as a varint; [`Reader::count`] reads it.
#[inline]
pub fn write_len(len: usize, out: &mut Vec<u8>) {
    write_varint(len as u64, out);
}
