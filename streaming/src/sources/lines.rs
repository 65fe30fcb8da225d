//! Cutting blocks of bytes into lines. Lines are counted and cut by their raw bytes; a `\r` before the end is taken away
//! only from what becomes a record.

use thiserror::Error;

/// A line is not taken when it is longer than this.
const LONGEST_LINE: usize = 256 << 20;
/// Bytes that one fill has room for at least.
const BLOCK: usize = 256 << 10;

/// A line has no end in sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a line is longer than {} MiB", LONGEST_LINE >> 20)]
pub struct LineTooLong;

/// Bytes that were read and not yet cut.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Everything before it was cut off already.
    start: usize,
    /// From `start` to here there is no line end.
    searched: usize,
    /// Everything behind it is room.
    filled: usize,
}

impl LineBuffer {
    /// Room for the next block; tell [`LineBuffer::filled`] how much of it was used.
    ///
    /// # Errors
    /// When the line that is being gathered is too long.
    pub fn room(&mut self) -> Result<&mut [u8], LineTooLong> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.filled > LONGEST_LINE {
            return Err(LineTooLong);
        }
        if self.bytes.len() - self.filled < BLOCK / 2 {
            let larger = (self.bytes.len() * 2).max(BLOCK);
            self.bytes.resize(larger, 0);
        }
        Ok(self.bytes.get_mut(self.filled..).unwrap_or_default())
    }

    /// Takes note that `bytes` bytes of the room were filled.
    pub fn filled(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.bytes.len());
    }

    /// Adds a block.
    ///
    /// # Errors
    /// When the line that is being gathered is too long.
    pub fn push(&mut self, mut block: &[u8]) -> Result<(), LineTooLong> {
        while !block.is_empty() {
            let room = self.room()?;
            let n = block.len().min(room.len());
            let (now, later) = block.split_at(n);
            room.split_at_mut(n).0.copy_from_slice(now);
            self.filled(n);
            block = later;
        }
        Ok(())
    }

    /// The next whole line, without its `\n`. Its `\r` is still there, so that its length tells where the next one begins.
    #[inline]
    pub fn next_line(&mut self) -> Option<&[u8]> {
        let unsearched = self.bytes.get(self.searched..self.filled)?;
        match memchr::memchr(b'\n', unsearched) {
            Some(at) => {
                let line = self.start..self.searched + at;
                self.start = line.end + 1;
                self.searched = self.start;
                self.bytes.get(line)
            }
            None => {
                self.searched = self.filled;
                None
            }
        }
    }

    /// The bytes behind the last line end: a line without one, unless it is empty.
    pub fn rest(&mut self) -> &[u8] {
        let rest = self.start..self.filled;
        self.start = self.filled;
        self.searched = self.filled;
        self.bytes.get(rest).unwrap_or_default()
    }

    /// Drops what is gathered.
    pub fn clear(&mut self) {
        (self.start, self.searched, self.filled) = (0, 0, 0);
    }
}

/// Returns a line without the carriage return at its end: lines may end with CRLF, and the last one with CR alone. Only one
/// is taken away, as Flink does.
#[inline]
pub(super) fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
