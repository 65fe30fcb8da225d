//! Cuts blocks of bytes into lines. Offsets count raw bytes; a `\r` before the line end is removed only from the record.

use thiserror::Error;

/// Bytes without a line end from which on a line is refused.
const LONGEST_LINE: usize = 256 << 20;
/// Smallest size of the buffer in bytes; half of it is the least room that is offered.
const BLOCK: usize = 256 << 10;

/// The error of [`LineBuffer::room`] and [`LineBuffer::push`]: more than 256 MiB are in the buffer that [`LineBuffer::next_line`] has not
/// taken. If all whole lines were taken before, as the built-in sources do, a single line is that long. A source fails its task with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a line is longer than {} MiB", LONGEST_LINE >> 20)]
pub struct LineTooLong;

/// A buffer of bytes that were read and not yet cut into lines at `\n`. It grows as needed and does not shrink. Once more than 256 MiB in
/// it are not taken, it refuses more. A reader fills it by `room` and `filled`, or by `push`, and takes all whole lines before the next
/// block.
///
/// ```
/// use std::io::Read;
/// use streaming::sources::{LineBuffer, LineTooLong};
///
/// /// Returns the lines of what a connection sends, as the reader of a source does block by block.
/// fn lines(mut connection: impl Read) -> std::io::Result<Vec<String>> {
///     let (mut buffer, mut lines) = (LineBuffer::default(), Vec::new());
///     let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
///     loop {
///         let room = buffer.room().map_err(std::io::Error::other)?;
///         let bytes = connection.read(room)?;
///         buffer.filled(bytes);
///         while let Some(line) = buffer.next_line() {
///             lines.push(text(line));
///         }
///         if bytes == 0 {
///             lines.push(text(buffer.rest()));
///             return Ok(lines);
///         }
///     }
/// }
/// assert_eq!(lines(&b"one\ntwo\nthr"[..])?, ["one", "two", "thr"]);
///
/// let mut blocks = LineBuffer::default();
/// blocks.push(b"on")?;
/// assert_eq!(blocks.next_line(), None);
/// blocks.push(b"e\ntw")?;
/// assert_eq!(blocks.next_line(), Some(&b"one"[..]));
/// blocks.clear();
/// assert_eq!(blocks.rest(), b"");
/// assert_eq!(LineTooLong.to_string(), "a line is longer than 256 MiB");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Index of the first byte that was not cut off.
    start: usize,
    /// Index up to which there is no line end after `start`.
    searched: usize,
    /// Number of bytes in use; the rest of `bytes` is room.
    filled: usize,
}

impl LineBuffer {
    /// Returns room for at least 128 KiB of the next block; report with [`LineBuffer::filled`] how much of it was used.
    ///
    /// # Errors
    /// Returns [`LineTooLong`] if more than 256 MiB in the buffer, whole lines included, are not taken yet.
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

    /// Records that the first `bytes` bytes of the room were filled; more than the room has count as the whole room.
    pub fn filled(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.bytes.len());
    }

    /// Appends a copy of a block of bytes, which may begin and end within a line.
    ///
    /// # Errors
    /// Returns [`LineTooLong`] once more than 256 MiB in the buffer, whole lines included, are not taken yet; a part of the block may have
    /// been appended.
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

    /// Takes the next whole line, without its `\n`; `None` if no line end is in the buffer. A `\r` before the `\n` is kept, so that
    /// the next line begins at the line's offset plus its length plus 1.
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

    /// Takes all bytes that [`LineBuffer::next_line`] has not taken. At the end of input, after the last whole line, these are the last
    /// line, or nothing.
    pub fn rest(&mut self) -> &[u8] {
        let rest = self.start..self.filled;
        self.start = self.filled;
        self.searched = self.filled;
        self.bytes.get(rest).unwrap_or_default()
    }

    /// Drops the buffer's bytes, also those of an unfinished line, and keeps its memory.
    pub fn clear(&mut self) {
        (self.start, self.searched, self.filled) = (0, 0, 0);
    }
}

/// Returns a line without the carriage return at its end: lines may end with CRLF, and the last one with CR alone. At most one
/// is removed, as in Flink.
#[inline]
pub(super) fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
