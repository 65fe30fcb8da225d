//! Reading of states: whole, or ranges of a part, which are what a subtask of another parallelism reads. Each range has a checksum of its own, because that
//! of the object needs the whole object.

use super::{CheckpointDirectory, CheckpointError};
use crate::objects::{ObjectStore, StoreError};
use bytes::Bytes;
use crc32fast::Hasher;
use model::{StateHandle, StatePart, StateRange};
use std::ops::Range;

/// The first bytes of an index. No snapshot begins with them, so that a program that does not know indexes refuses the state.
const INDEX: &[u8; 4] = b"FIX1";
/// The most places of an object from which chunks are read by its index; each costs a remote system a request.
const RUNS_MAX: usize = 64;

/// The ranges of a part that is being written: one for each call of [`Ranges::add`], all of which are in the part's index
/// ([`Ranges::index`]), and of which [`Ranges::take`] joins neighbours if there are more than [`StatePart::RANGES_MAX`] (64).
#[derive(Debug, Default)]
pub struct Ranges(Vec<StateRange>);

impl Ranges {
    /// Adds a range with the next bytes of the part, and computes its CRC-32; the bytes are not kept. `groups` are the first and the last
    /// key group (inclusive) of the entries in the bytes.
    pub fn add(&mut self, groups: (u32, u32), bytes: &[u8]) {
        self.0.push(self.next(groups, bytes));
    }

    /// Returns the part's index, which belongs behind the last range in the part's object, and its place there. `None` if there are no
    /// ranges.
    pub fn index(&self) -> Option<(StateRange, Bytes)> {
        let groups = self.0.iter().map(|range| range.groups).reduce(join_groups)?;
        let ranges = rmp_serde::to_vec(&self.0).ok()?;
        let index = [&INDEX[..], &ranges].concat();
        Some((self.next(groups, &index), index.into()))
    }

    /// Returns the range with these bytes behind those so far.
    fn next(&self, groups: (u32, u32), bytes: &[u8]) -> StateRange {
        let offset = self.0.last().map_or(0, |last| last.offset + last.bytes);
        StateRange { groups, offset, bytes: bytes.len() as u64, crc: crc32fast::hash(bytes) }
    }

    /// Removes and returns the ranges, ascending, at most [`StatePart::RANGES_MAX`] (64). If there are more, joins neighbours, always the
    /// two whose join adds the fewest bytes to what readers of single key groups read. The next range begins a new part, at offset 0.
    pub fn take(&mut self) -> Vec<StateRange> {
        let mut ranges = std::mem::take(&mut self.0);
        while ranges.len() > StatePart::RANGES_MAX {
            let pairs = ranges.iter().zip(ranges.iter().skip(1));
            let costs = pairs.map(|(first, second)| cost(first, second));
            let Some((at, _)) = costs.enumerate().min_by_key(|(_, cost)| *cost) else { break };
            let second = ranges.remove(at + 1);
            if let Some(first) = ranges.get_mut(at) {
                *first = join(*first, second);
            }
        }
        ranges
    }
}

/// Returns the run of key groups from the first one of two runs to the last one.
fn join_groups(first: (u32, u32), second: (u32, u32)) -> (u32, u32) {
    (first.0.min(second.0), first.1.max(second.1))
}

/// Returns how many bytes more the owners of the key groups, if each had one, would read of two ranges that were joined.
fn cost(first: &StateRange, second: &StateRange) -> u64 {
    let width = |groups: (u32, u32)| u64::from(groups.1.saturating_sub(groups.0));
    let joined = width(join_groups(first.groups, second.groups));
    let more =
        |range: &StateRange| joined.saturating_sub(width(range.groups)).saturating_mul(range.bytes);
    more(first).saturating_add(more(second))
}

/// Returns two ranges that follow each other as one.
fn join(first: StateRange, second: StateRange) -> StateRange {
    let mut crc = Hasher::new_with_initial_len(first.crc, first.bytes);
    crc.combine(&Hasher::new_with_initial_len(second.crc, second.bytes));
    let bytes = first.bytes + second.bytes;
    StateRange {
        groups: join_groups(first.groups, second.groups),
        offset: first.offset,
        bytes,
        crc: crc.finalize(),
    }
}

impl CheckpointDirectory {
    /// Reads the bytes of a handle: inline bytes, the state in an object of this directory, or ranges of one, joined, each checked by its
    /// checksum.
    ///
    /// # Errors
    /// Returns the store's error, [`StoreError::Corrupt`] also if a range is cut or changed; [`CheckpointError::Missing`] if the object is
    /// not there, and for every [`StateHandle::External`], which is not in this directory; [`CheckpointError::IsInParts`] for
    /// [`StateHandle::Parts`], whose parts are read one by one, and for ranges of anything but an object of this directory.
    pub async fn read(&self, handle: &StateHandle) -> Result<Bytes, CheckpointError> {
        match handle {
            StateHandle::Inline(bytes) => Ok(Bytes::copy_from_slice(bytes)),
            StateHandle::Object { name, bytes } => Ok(state_in(self.content(name).await?, *bytes)),
            StateHandle::External { uri, .. } => Err(CheckpointError::Missing(uri.clone())),
            StateHandle::Parts(_) => Err(CheckpointError::IsInParts),
            StateHandle::Ranges { of, ranges, index } => {
                let name = of.object().ok_or(CheckpointError::IsInParts)?;
                let (full, shown) = (self.full(name), self.shown(name));
                read(&*self.objects, (&full, &shown), ranges, index.as_ref()).await
            }
        }
    }

    /// Reads the content of an object of this directory whole, with what follows the state in it.
    pub(crate) async fn content(&self, name: &str) -> Result<Bytes, CheckpointError> {
        let found = self.objects.get(&self.full(name)).await?;
        found.ok_or_else(|| CheckpointError::Missing(self.shown(name)))
    }
}

/// Returns the state with which the content of an object begins; `bytes` is its length.
pub(crate) fn state_in(mut content: Bytes, bytes: u64) -> Bytes {
    content.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    content
}

/// Reads ranges of an object, in their order, and checks each. `object` is its name in the store and its place for messages. With `index`,
/// reads the index at this place of the object first, and of the ranges only the chunks that may have the key groups given with it, unless
/// these are in more than [`RUNS_MAX`] places: then a read of whole ranges takes less time.
///
/// # Errors
/// Returns the store's error; [`CheckpointError::Missing`] if there is no such object; [`StoreError::Corrupt`], which names the object
/// and the range, if a range or the index is cut or changed, or the index is no list of ranges.
pub(crate) async fn read(
    objects: &dyn ObjectStore,
    object: (&str, &str),
    ranges: &[StateRange],
    index: Option<&(StateRange, Range<u32>)>,
) -> Result<Bytes, CheckpointError> {
    let Some((place, groups)) = index else { return read_ranges(objects, object, ranges).await };
    let index = read_ranges(objects, object, std::slice::from_ref(place)).await?;
    let chunks = index.strip_prefix(INDEX).ok_or_else(|| "it does not begin with FIX1".to_owned());
    let chunks = chunks.and_then(|chunks| {
        rmp_serde::from_slice::<Vec<StateRange>>(chunks).map_err(|error| error.to_string())
    });
    let mut chunks = chunks.map_err(|why| {
        let why = format!("its bytes from {} on are not an index: {why}", place.offset);
        StoreError::Corrupt { path: object.1.to_owned(), why }
    })?;
    chunks.retain(|chunk| chunk.may_have(groups));
    let chosen = if runs(&chunks, object.1)?.len() <= RUNS_MAX { &chunks } else { ranges };
    read_ranges(objects, object, chosen).await
}

/// Returns the places of ranges in their object, neighbours as one. `place` is the object's place for messages.
fn runs(ranges: &[StateRange], place: &str) -> Result<Vec<Range<u64>>, StoreError> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for StateRange { offset, bytes, .. } in ranges {
        let end = offset.checked_add(*bytes).ok_or_else(|| StoreError::Corrupt {
            path: place.to_owned(),
            why: "a range ends nowhere".to_owned(),
        })?;
        match runs.last_mut() {
            Some(run) if run.end == *offset => run.end = end,
            _ => runs.push(*offset..end),
        }
    }
    Ok(runs)
}

/// Reads ranges as [`read`] does without an index.
async fn read_ranges(
    objects: &dyn ObjectStore,
    (name, place): (&str, &str),
    ranges: &[StateRange],
) -> Result<Bytes, CheckpointError> {
    let all = objects.get_ranges(name, runs(ranges, place)?).await?;
    let all = all.ok_or_else(|| CheckpointError::Missing(place.to_owned()))?;
    let mut rest = &*all;
    for StateRange { offset, bytes, crc, .. } in ranges {
        let length = usize::try_from(*bytes).unwrap_or(usize::MAX);
        let damaged = |why: &str| StoreError::Corrupt {
            path: place.to_owned(),
            why: format!("its {bytes} bytes from {offset} on {why}"),
        };
        let (range, others) = rest.split_at_checked(length).ok_or_else(|| damaged("are cut"))?;
        if crc32fast::hash(range) != *crc {
            return Err(damaged("do not match their checksum").into());
        }
        rest = others;
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
