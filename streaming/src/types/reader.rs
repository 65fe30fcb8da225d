//! Reading encoded values from bytes that nobody vouches for, and the number forms both directions share.

use super::CodecError;

/// A cursor over encoded bytes.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    depth: u32,
}

impl<'a> Reader<'a> {
    /// How deeply boxes, lists and maps may be nested: decoding recurses, and the stack has an end.
    pub const MAX_DEPTH: u32 = 200;

    /// Over these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, depth: 0 }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// When there are fewer.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.bytes.split_at_checked(n).ok_or(CodecError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next bytes, as many as the array has.
    ///
    /// # Errors
    /// When there are fewer.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(CodecError::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// The next byte.
    ///
    /// # Errors
    /// At the end.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, CodecError> {
        self.array::<1>().map(|[b]| b)
    }

    /// A number of seven bits a byte, lowest first; at most ten bytes.
    ///
    /// # Errors
    /// When the bytes end, or hold more than 64 bits.
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

    /// A signed number in zigzag form.
    ///
    /// # Errors
    /// As [`Reader::varint`].
    #[inline]
    pub fn zigzag(&mut self) -> Result<i64, CodecError> {
        let n = self.varint()?;
        // Both casts keep the bits: that is what zigzag is.
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// A count of bytes or elements that follow; each takes at least one byte.
    ///
    /// # Errors
    /// When more are announced than bytes are left.
    #[inline]
    pub fn count(&mut self) -> Result<usize, CodecError> {
        let n = usize::try_from(self.varint()?).map_err(|_| CodecError::Truncated)?;
        if n > self.remaining() { Err(CodecError::Truncated) } else { Ok(n) }
    }

    /// A text behind its length.
    ///
    /// # Errors
    /// When the bytes end, or are not UTF-8.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, CodecError> {
        let len = self.count()?;
        str::from_utf8(self.take(len)?).map_err(|_| CodecError::Invalid { what: "UTF-8" })
    }

    /// Reads something one level deeper.
    ///
    /// # Errors
    /// Beyond [`Reader::MAX_DEPTH`], and what reading gives.
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

    /// Nothing may be left.
    ///
    /// # Errors
    /// When something is.
    pub fn finish(self) -> Result<(), CodecError> {
        match self.remaining() {
            0 => Ok(()),
            n => Err(CodecError::Trailing(n)),
        }
    }
}

/// Appends a number, seven bits a byte, lowest first.
#[inline]
pub fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number in zigzag form: small ones of either sign are short.
#[inline]
pub fn write_zigzag(value: i64, out: &mut Vec<u8>) {
    write_varint(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Appends a count.
#[inline]
pub fn write_len(len: usize, out: &mut Vec<u8>) {
    write_varint(len as u64, out);
}
