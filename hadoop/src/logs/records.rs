//! TFile's records: a key (a container's id, or a reserved word) and a value in chunks, which holds logs one
//! after the other: name, length, bytes. It takes bytes as they come and keeps only a header that is not whole.

use super::cursor::{Cursor, modified_utf8};
use super::{LogError, LogEvent, LogHeader, Selection};
use crate::yarn::messages::ContainerId;
use bytes::{Buf as _, Bytes, BytesMut};

/// Bytes of a key. TFile's own bound.
const KEY_MAX: u64 = 64 << 10;
/// Records that tell about the file itself; logs are not in them.
const RESERVED: [&str; 3] = ["APPLICATION_ACL", "APPLICATION_OWNER", "VERSION"];
/// Bytes of the longest number there is.
const NUMBER_MAX: usize = 9;

/// The decoder's place in a record.
#[derive(Debug, Clone, Copy)]
enum State {
    Key,
    ChunkLength,
    Chunk { left: u64, last: bool },
}

/// The decoder's place in a record's value.
enum Value {
    /// Nothing of it is wanted.
    Skipped,
    Name,
    Length {
        name: String,
    },
    Content {
        left: u64,
        wanted: bool,
    },
}

/// Decodes records from input that comes in pieces of any length.
pub(super) struct Records {
    selection: Selection,
    input: Bytes,
    /// A key or number that began in earlier input.
    partial: BytesMut,
    /// The beginning of a name or length inside a value.
    head: BytesMut,
    state: State,
    container: ContainerId,
    value: Value,
}

impl Records {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            input: Bytes::new(),
            partial: BytesMut::new(),
            head: BytesMut::new(),
            state: State::Key,
            container: ContainerId::default(),
            value: Value::Skipped,
        }
    }

    /// Takes bytes, once all earlier ones are used up.
    pub(super) fn give(&mut self, bytes: Bytes) {
        self.input = bytes;
    }

    /// Whether a record is whole here: a block of the file ends nowhere else.
    pub(super) fn at_boundary(&self) -> bool {
        matches!(self.state, State::Key) && self.partial.is_empty() && self.input.is_empty()
    }

    /// The next event; `None` when more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<LogEvent>, LogError> {
        loop {
            match self.state {
                State::Key => {
                    let Some(key) = self.key()? else { return Ok(None) };
                    self.begin(&key)?;
                    self.state = State::ChunkLength;
                }
                State::ChunkLength => {
                    let Some(length) = self.number()? else { return Ok(None) };
                    // All but the last have their lengths negated.
                    self.state = State::Chunk { left: length.unsigned_abs(), last: length >= 0 };
                }
                State::Chunk { left: 0, last: false } => self.state = State::ChunkLength,
                State::Chunk { left: 0, last: true } => {
                    if let Some(event) = self.end()? {
                        return Ok(Some(event));
                    }
                    self.state = State::Key;
                }
                State::Chunk { left, last } => {
                    if self.input.is_empty()
                        && !matches!(self.value, Value::Content { left: 0, .. })
                    {
                        return Ok(None);
                    }
                    let (used, event) = self.value(left)?;
                    self.state = State::Chunk { left: left.saturating_sub(used as u64), last };
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// A number that may have begun in earlier input.
    fn number(&mut self) -> Result<Option<i64>, LogError> {
        loop {
            let mut cursor = Cursor::new(&self.partial);
            let parsed = cursor.vlong();
            match parsed {
                Ok(number) => {
                    self.partial.clear();
                    return Ok(Some(number));
                }
                Err(error) if self.partial.len() >= NUMBER_MAX => return Err(error),
                Err(_) if self.input.is_empty() => return Ok(None),
                Err(_) => self.partial.extend_from_slice(&self.input.split_to(1)),
            }
        }
    }

    fn key(&mut self) -> Result<Option<String>, LogError> {
        loop {
            let mut cursor = Cursor::new(&self.partial);
            if let Ok(length) = cursor.vlong() {
                let length = u64::try_from(length).ok().filter(|length| *length <= KEY_MAX);
                let length = length.ok_or(LogError::Malformed("a key's length is none"))? as usize;
                let missing = length.saturating_sub(cursor.left());
                if missing == 0 {
                    let key = Cursor::new(cursor.take(length)?).utf()?;
                    self.partial.clear();
                    return Ok(Some(key));
                }
                if self.input.is_empty() {
                    return Ok(None);
                }
                let part = self.input.split_to(missing.min(self.input.len()));
                self.partial.extend_from_slice(&part);
            } else if self.partial.len() >= NUMBER_MAX {
                return Err(LogError::Malformed("a key's length is none"));
            } else if self.input.is_empty() {
                return Ok(None);
            } else {
                self.partial.extend_from_slice(&self.input.split_to(1));
            }
        }
    }

    fn begin(&mut self, key: &str) -> Result<(), LogError> {
        self.head.clear();
        if RESERVED.contains(&key) {
            self.value = Value::Skipped;
            return Ok(());
        }
        self.container =
            key.parse().map_err(|_| LogError::Malformed("a key is no container's id"))?;
        let wanted = self.selection.container;
        self.value = match wanted.is_none_or(|wanted| super::same(wanted, self.container)) {
            true => Value::Name,
            false => Value::Skipped,
        };
        Ok(())
    }

    /// Works on at most `left` bytes of a value; says how many it used, and what they were.
    fn value(&mut self, left: u64) -> Result<(usize, Option<LogEvent>), LogError> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(self.input.len());
        match &mut self.value {
            Value::Skipped => {
                self.input.advance(most);
                Ok((most, None))
            }
            Value::Content { left: 0, wanted } => {
                let event = wanted.then_some(LogEvent::End { complete: true });
                self.value = Value::Name;
                Ok((0, event))
            }
            Value::Content { left, wanted } => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(most);
                *left -= used as u64;
                let piece = self.input.split_to(used);
                Ok((used, wanted.then_some(LogEvent::Bytes(piece))))
            }
            Value::Name | Value::Length { .. } => {
                let (used, text) = self.text(most)?;
                let Some(text) = text else { return Ok((used, None)) };
                Ok((used, self.said(text)?))
            }
        }
    }

    /// A text of Java's from the value, which may be in several chunks.
    fn text(&mut self, most: usize) -> Result<(usize, Option<String>), LogError> {
        let mut used = 0;
        loop {
            let wanted = match self.head.first_chunk::<2>() {
                None => 2,
                Some(length) => 2 + usize::from(u16::from_be_bytes(*length)),
            };
            let missing = wanted - self.head.len().min(wanted);
            if missing == 0 && self.head.len() >= 2 {
                let text = modified_utf8(self.head.get(2..).unwrap_or_default())?;
                self.head.clear();
                return Ok((used, Some(text)));
            }
            let now = missing.min(most - used);
            if now == 0 {
                return Ok((used, None));
            }
            self.head.extend_from_slice(&self.input.split_to(now));
            used += now;
        }
    }

    /// A name or a length was read.
    fn said(&mut self, text: String) -> Result<Option<LogEvent>, LogError> {
        match std::mem::replace(&mut self.value, Value::Skipped) {
            Value::Length { name } => {
                let length =
                    text.parse().map_err(|_| LogError::Malformed("a log has no length"))?;
                let wanted = self.selection.takes(self.container, &name);
                self.value = Value::Content { left: length, wanted };
                let container = self.container;
                Ok(wanted.then_some(LogEvent::File(LogHeader {
                    container,
                    name,
                    length,
                    modified: None,
                })))
            }
            _ => {
                self.value = Value::Length { name: text };
                Ok(None)
            }
        }
    }

    /// A value is over. Its last log may be shorter than it says: its writer could not read it to the end.
    fn end(&mut self) -> Result<Option<LogEvent>, LogError> {
        match std::mem::replace(&mut self.value, Value::Skipped) {
            Value::Content { left, wanted: true } => {
                Ok(Some(LogEvent::End { complete: left == 0 }))
            }
            Value::Length { .. } => Err(LogError::Malformed("a log's header is not whole")),
            Value::Name if !self.head.is_empty() => {
                Err(LogError::Malformed("a log's header is not whole"))
            }
            _ => Ok(None),
        }
    }
}
