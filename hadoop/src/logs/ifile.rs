//! IFile, "indexed": logs one after the other, each compressed for itself; at the end an index of them, as a
//! stream of Java's objects, its length, and the hash of the application's id. While a node adds to a file,
//! a second one says how much of it is whole.

use super::compression::{Compression, Inflater};
use super::cursor::Cursor;
use super::java::{Objects, Value};
use super::reader::{LogStep, READ_MAX};
use super::{LogError, LogEvent, LogHeader, Selection};
use crate::yarn::messages::{ApplicationId, ContainerId};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::sync::Arc;

/// The hash of the application's id.
const HASH: u64 = 32;
/// The index's length and the hash.
const FOOTER: u64 = 4 + HASH;
/// Bytes of an index: those of some ten thousands of logs of one application on one node. What is read from it
/// takes more than it does, and all of it together must stay small.
const INDEX_MAX: u64 = 8 << 20;
/// Logs of an index at most: with what [`java`](super::java) keeps of it they take 64 MiB at the worst.
const LOGS_MAX: usize = 100_000;
/// Bytes of the index for each of its logs, at least: four numbers of eight, and what refers to its names.
const INDEX_PER_LOG: usize = 40;
/// Bytes of an id in words.
const ID_MAX: usize = 100;
const INDEX_CLASS: &str = "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.\
                           LogAggregationIndexedFileController$IndexedLogsMeta";

/// One log in the file.
struct Entry {
    container: ContainerId,
    name: Arc<str>,
    size: u64,
    compressed: u64,
    start: u64,
    modified: Option<i64>,
}

enum State {
    Footer,
    Index { length: u64 },
    Logs,
}

/// A log that is being read.
struct Open {
    at: u64,
    end: u64,
    left: u64,
    input: Bytes,
    inflater: Inflater,
}

/// Decodes a file.
pub(super) struct Indexed {
    application: ApplicationId,
    length: u64,
    selection: Selection,
    state: State,
    compression: Compression,
    entries: VecDeque<Entry>,
    open: Option<Open>,
}

impl Indexed {
    pub(super) fn new(application: ApplicationId, length: u64, selection: Selection) -> Self {
        Self {
            application,
            length,
            selection,
            state: State::Footer,
            compression: Compression::None,
            entries: VecDeque::new(),
            open: None,
        }
    }

    pub(super) fn step(&mut self) -> Result<LogStep, LogError> {
        match self.state {
            State::Footer => {
                let ends = LogError::Malformed("it is too short");
                let offset = self.length.checked_sub(FOOTER).ok_or(ends)?;
                Ok(LogStep::Read { offset, length: FOOTER as usize })
            }
            State::Index { length } => {
                let offset = self.length - FOOTER - length;
                Ok(LogStep::Read { offset, length: usize::try_from(length).unwrap_or(0) })
            }
            State::Logs => self.logs(),
        }
    }

    pub(super) fn give(&mut self, bytes: Bytes) -> Result<(), LogError> {
        match self.state {
            State::Footer => {
                let mut cursor = Cursor::new(&bytes);
                let length = cursor.count()? as u64;
                if cursor.take(HASH as usize)? != hash(self.application) {
                    return Err(LogError::OtherApplication);
                }
                if length > INDEX_MAX {
                    let what = "index of logs";
                    return Err(LogError::TooLarge { what, bytes: length, max: INDEX_MAX });
                }
                if length > self.length - FOOTER {
                    return Err(LogError::Malformed("its index is longer than the file"));
                }
                self.state = State::Index { length };
            }
            State::Index { length } => {
                self.index(&bytes, self.length - FOOTER - length)?;
                self.state = State::Logs;
            }
            State::Logs => {
                if let Some(open) = &mut self.open {
                    open.at += bytes.len() as u64;
                    open.input = bytes;
                }
            }
        }
        Ok(())
    }

    fn index(&mut self, bytes: &[u8], end: u64) -> Result<(), LogError> {
        let (objects, root) = Objects::parse(bytes)?;
        if objects.class(root) != Some(INDEX_CLASS) {
            return Err(LogError::Malformed("its index is of another class"));
        }
        let name = objects.field(root, "compressName").and_then(|name| objects.text(name));
        self.compression = Compression::named(name.map_or("none", |name| name))?;
        let mut entries = entries(&objects, root, (bytes.len() / INDEX_PER_LOG).min(LOGS_MAX))?;
        // As they lie in the file: it is read once from front to back.
        entries.sort_by_key(|entry| (entry.start, entry.compressed));
        let mut before = 0;
        for entry in &entries {
            let after = entry.start.checked_add(entry.compressed).filter(|after| *after <= end);
            match after {
                Some(after) if entry.start >= before || entry.compressed == 0 => {
                    before = before.max(after);
                }
                _ => return Err(LogError::Malformed("its logs overlap or are beyond its end")),
            }
        }
        entries.retain(|entry| self.selection.takes(entry.container, &entry.name));
        self.entries = entries.into();
        Ok(())
    }

    fn logs(&mut self) -> Result<LogStep, LogError> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(entry) = self.entries.pop_front() else { return Ok(LogStep::End) };
                self.open = Some(Open {
                    at: entry.start,
                    end: entry.start + entry.compressed,
                    left: entry.size,
                    input: Bytes::new(),
                    inflater: Inflater::new(self.compression),
                });
                return Ok(LogStep::Event(LogEvent::File(LogHeader {
                    container: entry.container,
                    name: entry.name.to_string(),
                    length: entry.size,
                    modified: entry.modified,
                })));
            };
            let mut piece = open.inflater.next(&mut open.input)?;
            piece.truncate(usize::try_from(open.left).unwrap_or(usize::MAX));
            if !piece.is_empty() {
                open.left -= piece.len() as u64;
                return Ok(LogStep::Event(LogEvent::Bytes(piece)));
            }
            if open.left > 0 && !open.input.is_empty() {
                continue;
            }
            if open.left > 0 && open.at < open.end {
                let length = (open.end - open.at).min(READ_MAX);
                return Ok(LogStep::Read { offset: open.at, length: length as usize });
            }
            let complete = open.left == 0;
            self.open = None;
            return Ok(LogStep::Event(LogEvent::End { complete }));
        }
    }
}

/// Every log that an index names.
fn entries(objects: &Objects, root: Value, max: usize) -> Result<Vec<Entry>, LogError> {
    let of = |value, name| objects.field(value, name);
    let mut entries = Vec::new();
    // Lists can be referred to again and again as well.
    let mut lists = 0;
    let list = |value: Option<Value>| value.map_or(&[][..], |value| objects.extra(value));
    for upload in list(of(root, "logMetas")) {
        // A map writes keys and values in turn; the key is in each log, too.
        for logs in list(of(*upload, "logMetas")).iter().skip(1).step_by(2) {
            lists += 1;
            if lists > LOGS_MAX {
                return Err(LogError::Malformed("its index names too many lists of logs"));
            }
            for log in list(Some(*logs)) {
                // An object can be referred to again and again, and cost nothing.
                if entries.len() >= max {
                    return Err(LogError::Malformed("its index names too many logs"));
                }
                entries.push(entry(objects, *log)?);
            }
        }
    }
    Ok(entries)
}

fn entry(objects: &Objects, log: Value) -> Result<Entry, LogError> {
    let wrong = || LogError::Malformed("a log in its index has no name, container or size");
    let text = |name| objects.field(log, name).and_then(|value| objects.text(value));
    let number = |name| match objects.field(log, name) {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    };
    let size = |name| number(name).and_then(|number| u64::try_from(number).ok()).ok_or_else(wrong);
    let id = text("containerId").filter(|id| id.len() <= ID_MAX).ok_or_else(wrong)?;
    Ok(Entry {
        container: id.parse().map_err(|_| wrong())?,
        name: Arc::clone(text("fileName").ok_or_else(wrong)?),
        size: size("fileSize")?,
        compressed: size("fileCompressedSize")?,
        start: size("startIndex")?,
        // It was renamed between versions.
        modified: number("lastModifiedTime").or_else(|| number("lastModificatedTime")),
    })
}

fn hash(application: ApplicationId) -> [u8; HASH as usize] {
    Sha256::digest(application.to_string()).into()
}

/// Decodes the checksum file that stands beside a node's indexed log file while the node adds to it. Returns the name
/// of the log file and the number of its bytes, from the beginning, that are written completely; 0 if it has just been
/// begun.
///
/// # Errors
/// Fails with [`LogError::Malformed`] for bytes that are no checksum file.
pub fn checksum(bytes: &[u8]) -> Result<(String, u64), LogError> {
    let mut cursor = Cursor::new(bytes);
    let length = cursor.count()?;
    let name = std::str::from_utf8(cursor.take(length)?)
        .map_err(|_| LogError::Malformed("a file's name is not UTF-8"))?;
    let whole = u64::try_from(cursor.i64()?)
        .map_err(|_| LogError::Malformed("a file's length is negative"))?;
    Ok((name.to_owned(), whole))
}
