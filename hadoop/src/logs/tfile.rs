//! TFile, the file: blocks of records, an index of the blocks, and at the end where the index is. Blocks are
//! read in order, in pieces; the index is bounded, and blocks that overlap are refused.

use super::compression::{Compression, Inflater};
use super::cursor::Cursor;
use super::reader::{LogStep, READ_MAX};
use super::records::Records;
use super::{LogError, Selection};
use bytes::Bytes;
use std::collections::VecDeque;

/// The end of every file: where the index is, the version, and who wrote it.
const FOOTER: u64 = 8 + 4 + 16;
const MAGIC: [u8; 16] = [
    0xd1, 0x11, 0xd3, 0x68, 0x91, 0xb5, 0xd7, 0xb6, 0x39, 0xdf, 0x41, 0x40, 0x92, 0xba, 0xe1, 0x50,
];
/// The versions of the file's layout that are known.
const MAJOR: u16 = 1;
/// Bytes of the index of indices: it names three.
const META_MAX: u64 = 64 << 10;
/// Bytes of the index of blocks; a block has 256 KiB or more.
const INDEX_MAX: u64 = 16 << 20;
const INDEX: &str = "data:BCFile.index";

/// A part of the file.
#[derive(Debug, Clone, Copy)]
struct Region {
    offset: u64,
    compressed: u64,
    raw: u64,
}

impl Region {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, LogError> {
        Ok(Self { offset: cursor.size()?, compressed: cursor.size()?, raw: cursor.size()? })
    }

    fn end(&self) -> Result<u64, LogError> {
        let end = self.offset.checked_add(self.compressed);
        end.ok_or(LogError::Malformed("a block is beyond the end"))
    }
}

enum State {
    Footer,
    Meta { from: u64 },
    Index { region: Region, compression: Compression },
    Blocks,
}

/// A block that is being read.
struct Block {
    at: u64,
    end: u64,
    /// Bytes of records that it has yet to give.
    raw: u64,
    input: Bytes,
    inflater: Inflater,
}

/// Decodes a file.
pub(super) struct TFile {
    length: u64,
    state: State,
    compression: Compression,
    blocks: VecDeque<Region>,
    block: Option<Block>,
    records: Records,
}

impl TFile {
    pub(super) fn new(length: u64, selection: Selection) -> Self {
        Self {
            length,
            state: State::Footer,
            compression: Compression::None,
            blocks: VecDeque::new(),
            block: None,
            records: Records::new(selection),
        }
    }

    pub(super) fn step(&mut self) -> Result<LogStep, LogError> {
        match &self.state {
            State::Footer => {
                let ends = LogError::Malformed("it is too short");
                let offset = self.length.checked_sub(FOOTER).ok_or(ends)?;
                Ok(read(offset, FOOTER))
            }
            State::Meta { from } => Ok(read(*from, self.length - FOOTER - *from)),
            State::Index { region, .. } => Ok(read(region.offset, region.compressed)),
            State::Blocks => self.records(),
        }
    }

    pub(super) fn give(&mut self, bytes: Bytes) -> Result<(), LogError> {
        match self.state {
            State::Footer => self.state = self.footer(&bytes)?,
            State::Meta { .. } => self.state = self.meta(&bytes)?,
            State::Index { region, compression } => {
                self.index(&region, compression, bytes)?;
                self.state = State::Blocks;
            }
            State::Blocks => {
                if let Some(block) = &mut self.block {
                    block.at += bytes.len() as u64;
                    block.input = bytes;
                }
            }
        }
        Ok(())
    }

    fn footer(&self, bytes: &[u8]) -> Result<State, LogError> {
        let mut cursor = Cursor::new(bytes);
        let (from, major, _) = (cursor.i64()?, cursor.u16()?, cursor.u16()?);
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(LogError::Malformed("it does not end as a TFile"));
        }
        if major != MAJOR {
            return Err(LogError::Malformed("it has another version"));
        }
        let from = u64::try_from(from).ok().filter(|from| *from < self.length - FOOTER);
        let from = from.ok_or(LogError::Malformed("its index is nowhere"))?;
        bounded("index of a log file", self.length - FOOTER - from, META_MAX)?;
        Ok(State::Meta { from })
    }

    fn meta(&self, bytes: &[u8]) -> Result<State, LogError> {
        let mut cursor = Cursor::new(bytes);
        for _ in 0..cursor.size()? {
            let (name, compression) = (cursor.text()?, cursor.text()?);
            let region = Region::read(&mut cursor)?;
            if name == INDEX {
                bounded("index of blocks", region.compressed, INDEX_MAX)?;
                bounded("index of blocks", region.raw, INDEX_MAX)?;
                if region.end()? > self.length {
                    return Err(LogError::Malformed("its index is beyond its end"));
                }
                return Ok(State::Index { region, compression: Compression::named(compression)? });
            }
        }
        Err(LogError::Malformed("it has no index of blocks"))
    }

    fn index(
        &mut self,
        region: &Region,
        compression: Compression,
        mut bytes: Bytes,
    ) -> Result<(), LogError> {
        let mut inflater = Inflater::new(compression);
        let mut raw: Vec<u8> = Vec::new();
        loop {
            let piece = inflater.next(&mut bytes)?;
            if piece.is_empty() && bytes.is_empty() {
                break;
            }
            raw.extend_from_slice(&piece);
            bounded("index of blocks", raw.len() as u64, region.raw)?;
        }
        let mut cursor = Cursor::new(&raw);
        self.compression = Compression::named(cursor.text()?)?;
        let mut end = 0;
        for _ in 0..cursor.size()? {
            let block = Region::read(&mut cursor)?;
            if block.offset < end || block.end()? > self.length {
                return Err(LogError::Malformed("its blocks overlap or are beyond its end"));
            }
            end = block.end()?;
            self.blocks.push_back(block);
        }
        Ok(())
    }

    fn records(&mut self) -> Result<LogStep, LogError> {
        loop {
            if let Some(event) = self.records.next()? {
                return Ok(LogStep::Event(event));
            }
            let Some(block) = &mut self.block else {
                let Some(region) = self.blocks.pop_front() else { return Ok(LogStep::End) };
                self.block = Some(Block {
                    at: region.offset,
                    end: region.end()?,
                    raw: region.raw,
                    input: Bytes::new(),
                    inflater: Inflater::new(self.compression),
                });
                continue;
            };
            let mut piece = block.inflater.next(&mut block.input)?;
            // What follows a block's last record is not looked at.
            piece.truncate(usize::try_from(block.raw).unwrap_or(usize::MAX));
            if !piece.is_empty() {
                block.raw -= piece.len() as u64;
                self.records.give(piece);
            } else if block.raw > 0 && block.input.is_empty() && block.at < block.end {
                let length = (block.end - block.at).min(READ_MAX);
                return Ok(read(block.at, length));
            } else if block.raw > 0 && !block.input.is_empty() {
                // The compressed stream goes on without having given anything yet.
            } else if block.raw == 0 && self.records.at_boundary() {
                self.block = None;
            } else {
                return Err(LogError::Malformed("a block ends inside a record"));
            }
        }
    }
}

/// A range whose length was bounded before.
fn read(offset: u64, length: u64) -> LogStep {
    LogStep::Read { offset, length: usize::try_from(length).unwrap_or(usize::MAX) }
}

fn bounded(what: &'static str, bytes: u64, max: u64) -> Result<(), LogError> {
    if bytes > max { Err(LogError::TooLarge { what, bytes, max }) } else { Ok(()) }
}
