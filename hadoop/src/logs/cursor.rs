//! Reads numbers and texts off the front of bytes, as Java's `DataInput` and TFile's own `Utils` write them.
//! It never reads beyond the end and never allocates more than it has read.

use super::LogError;

const ENDS: LogError = LogError::Malformed("it ends too early");

/// The bytes that have not been read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], LogError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ENDS)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LogError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ENDS)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, LogError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, LogError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32, LogError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64, LogError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A length in four bytes, which the rest must have.
    pub(super) fn count(&mut self) -> Result<usize, LogError> {
        usize::try_from(self.i32()?).map_err(|_| LogError::Malformed("a length is negative"))
    }

    /// An integer of one to nine bytes, as TFile writes it: not the encoding of Hadoop's Writables.
    pub(super) fn vlong(&mut self) -> Result<i64, LogError> {
        let first = i64::from(i8::from_be_bytes(self.array()?));
        let class = (first + 128) / 8;
        match class {
            _ if first >= -32 => Ok(first),
            7.. => Ok(((first + 52) << 8) | i64::from(self.u8()?)),
            3..=6 => Ok(((first + 88) << 16) | i64::from(self.u16()?)),
            1..=2 => {
                let high = i64::from(self.u16()?);
                Ok(((first + 112) << 24) | (high << 8) | i64::from(self.u8()?))
            }
            _ => {
                let length = usize::try_from(first + 129).unwrap_or(0);
                if length < 4 {
                    return Err(LogError::Malformed("a number's length is none"));
                }
                let bytes = self.take(length)?;
                let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
                let start = if negative { -1 } else { 0 };
                Ok(bytes.iter().fold(start, |all, byte| (all << 8) | i64::from(*byte)))
            }
        }
    }

    /// A number that counts or measures something.
    pub(super) fn size(&mut self) -> Result<u64, LogError> {
        u64::try_from(self.vlong()?).map_err(|_| LogError::Malformed("a size is negative"))
    }

    /// A text with its length, as TFile's indices have them.
    pub(super) fn text(&mut self) -> Result<&'a str, LogError> {
        let length = usize::try_from(self.size()?).map_err(|_| ENDS)?;
        std::str::from_utf8(self.take(length)?)
            .map_err(|_| LogError::Malformed("a text is not UTF-8"))
    }

    /// A text as Java's `writeUTF` writes it.
    pub(super) fn utf(&mut self) -> Result<String, LogError> {
        let length = usize::from(self.u16()?);
        modified_utf8(self.take(length)?)
    }
}

/// Java's own spelling of Unicode: UTF-16 units, each in one to three bytes; zero in two.
pub(super) fn modified_utf8(bytes: &[u8]) -> Result<String, LogError> {
    // Without zeros and surrogates it is UTF-8.
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.to_owned());
    }
    let wrong = || LogError::Malformed("a text is not Java's UTF-8");
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().map(u16::from);
    while let Some(first) = rest.next() {
        let mut next = || rest.next().filter(|byte| byte & 0xc0 == 0x80).map(|byte| byte & 0x3f);
        units.push(match first {
            0x00..=0x7f => first,
            0xc0..=0xdf => ((first & 0x1f) << 6) | next().ok_or_else(wrong)?,
            0xe0..=0xef => {
                let high = ((first & 0x0f) << 12) | (next().ok_or_else(wrong)? << 6);
                high | next().ok_or_else(wrong)?
            }
            _ => return Err(wrong()),
        });
    }
    String::from_utf16(&units).map_err(|_| wrong())
}
