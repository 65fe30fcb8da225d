//! Reading of states: whole, or ranges of a part, which are what a subtask of another parallelism reads. Each range has a checksum of its own, because that
//! of the object needs the whole object.

use super::{CheckpointDirectory, CheckpointError};
use crate::objects::{ObjectStore, StoreError};
use bytes::Bytes;
use crc32fast::Hasher;
use model::{StateHandle, StatePart, StateRange};
use std::ops::Range;

/// The ranges of a part that is being written: one for each call of [`Ranges::add`], of which [`Ranges::take`] joins neighbours if there
/// are more than [`StatePart::RANGES_MAX`] (64).
#[derive(Debug, Default)]
pub struct Ranges(Vec<StateRange>);

impl Ranges {
    /// Adds a range with the next bytes of the part, and computes its CRC-32; the bytes are not kept. `groups` are the first and the last
    /// key group (inclusive) of the entries in the bytes.
    pub fn add(&mut self, groups: (u32, u32), bytes: &[u8]) {
        let offset = self.0.last().map_or(0, |last| last.offset + last.bytes);
        let crc = crc32fast::hash(bytes);
        self.0.push(StateRange { groups, offset, bytes: bytes.len() as u64, crc });
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

/// Returns the key groups of two ranges as one run.
fn join_groups(first: &StateRange, second: &StateRange) -> (u32, u32) {
    (first.groups.0.min(second.groups.0), first.groups.1.max(second.groups.1))
}

/// Returns how many bytes more the owners of the key groups, if each had one, would read of two ranges that were joined.
fn cost(first: &StateRange, second: &StateRange) -> u64 {
    let width = |groups: (u32, u32)| u64::from(groups.1.saturating_sub(groups.0));
    let joined = width(join_groups(first, second));
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
        groups: join_groups(&first, &second),
        offset: first.offset,
        bytes,
        crc: crc.finalize(),
    }
}

impl CheckpointDirectory {
    /// Reads the bytes of a handle: inline bytes, an object of this directory, or ranges of one, joined, each checked by its checksum.
    ///
    /// # Errors
    /// Returns the store's error, [`StoreError::Corrupt`] also if a range is cut or changed; [`CheckpointError::Missing`] if the object is
    /// not there, and for every [`StateHandle::External`], which is not in this directory; [`CheckpointError::IsInParts`] for
    /// [`StateHandle::Parts`], whose parts are read one by one, and for ranges of anything but an object of this directory.
    pub async fn read(&self, handle: &StateHandle) -> Result<Bytes, CheckpointError> {
        let name = match handle {
            StateHandle::Inline(bytes) => return Ok(Bytes::copy_from_slice(bytes)),
            StateHandle::Object { name, .. } => name,
            StateHandle::External { uri, .. } => return Err(CheckpointError::Missing(uri.clone())),
            StateHandle::Parts(_) => return Err(CheckpointError::IsInParts),
            StateHandle::Ranges { of, ranges } => {
                let name = of.object().ok_or(CheckpointError::IsInParts)?;
                let name = (self.full(name), self.shown(name));
                return read(&*self.objects, &name.0, &name.1, ranges).await;
            }
        };
        let found = self.objects.get(&self.full(name)).await?;
        found.ok_or_else(|| CheckpointError::Missing(self.shown(name)))
    }
}

/// Reads ranges of the object `name` of a store, in their order, and checks each. `place` is the object's place for messages.
///
/// # Errors
/// Returns the store's error; [`CheckpointError::Missing`] if there is no such object; [`StoreError::Corrupt`], which names the object
/// and the range, if a range is cut or changed.
pub(crate) async fn read(
    objects: &dyn ObjectStore,
    name: &str,
    place: &str,
    ranges: &[StateRange],
) -> Result<Bytes, CheckpointError> {
    let corrupt = |why: String| StoreError::Corrupt { path: place.to_owned(), why };
    let mut runs: Vec<Range<u64>> = Vec::new();
    for StateRange { offset, bytes, .. } in ranges {
        let end =
            offset.checked_add(*bytes).ok_or_else(|| corrupt("a range ends nowhere".into()))?;
        match runs.last_mut() {
            Some(run) if run.end == *offset => run.end = end,
            _ => runs.push(*offset..end),
        }
    }
    let all = objects.get_ranges(name, runs).await?;
    let all = all.ok_or_else(|| CheckpointError::Missing(place.to_owned()))?;
    let mut rest = &*all;
    for StateRange { offset, bytes, crc, .. } in ranges {
        let length = usize::try_from(*bytes).unwrap_or(usize::MAX);
        let damaged = |why: &str| corrupt(format!("its {bytes} bytes from {offset} on {why}"));
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
