//! Watermarks of the key groups of a restored operator. After a change of parallelism, key groups come from several subtasks
//! and can have different watermarks, until the operator's own watermark has passed all of them.

use crate::{
    operators::OperatorContext,
    seam::TaskError,
    state::KeyGroups,
    types::{CodecError, Reader, write_varint, write_zigzag},
};

/// Watermark of each owned key group when its state was written, in milliseconds; empty once the operator's own watermark has
/// passed them all.
#[derive(Debug, Default)]
pub(super) struct Restored(Vec<i64>);

impl Restored {
    /// Returns true if the operator's own watermark holds for all key groups.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the restored watermark of a key group, by its index among the owned ones; `None` if the operator's own holds.
    pub(super) fn of(&self, group: usize) -> Option<i64> {
        self.0.get(group).copied()
    }

    /// Returns the greatest restored watermark of a key group, `i64::MIN` if there is none.
    pub(super) fn greatest(&self) -> i64 {
        self.0.iter().copied().max().unwrap_or(i64::MIN)
    }

    /// Discards the restored watermarks if the operator's own, `watermark`, has reached all of them.
    pub(super) fn passed(&mut self, watermark: i64) {
        if self.0.iter().all(|ms| *ms <= watermark) {
            self.0 = Vec::new();
        }
    }

    /// Appends the number of the first owned group, the number of owned groups, and runs of groups with the same watermark: a
    /// varint length and a zigzag watermark.
    pub(super) fn write(&self, groups: &KeyGroups, watermark: i64, out: &mut Vec<u8>) {
        write_varint(u64::from(groups.owned.start), out);
        write_varint(groups.owned.len() as u64, out);
        let of = |group: usize| self.of(group).map_or(watermark, |ms| ms.max(watermark));
        let all: Vec<i64> = (0..groups.owned.len()).map(of).collect();
        for run in all.chunk_by(|a, b| a == b) {
            write_varint(run.len() as u64, out);
            write_zigzag(run.first().copied().unwrap_or(watermark), out);
        }
    }

    /// Appends the watermarks of no key group.
    pub(super) fn write_none(out: &mut Vec<u8>) {
        write_varint(0, out);
        write_varint(0, out);
    }

    /// Reads what [`Restored::write`] of some subtask wrote; groups that this subtask does not own are skipped.
    pub(super) fn read(
        &mut self,
        groups: &KeyGroups,
        input: &mut Reader<'_>,
    ) -> Result<(), CodecError> {
        let first = input.varint()?;
        let mut left = input.varint()?;
        let mut group = first;
        if first.saturating_add(left) > u64::from(groups.max_parallelism) {
            return Err(CodecError::Invalid { what: "range of key groups" });
        }
        self.0.resize(groups.owned.len(), i64::MIN);
        while left > 0 {
            let run = input.varint()?;
            let watermark = input.zigzag()?;
            if run == 0 || run > left {
                return Err(CodecError::Invalid { what: "run of key groups" });
            }
            for number in group..group + run {
                let place = number.checked_sub(u64::from(groups.owned.start));
                let place = place.and_then(|place| self.0.get_mut(usize::try_from(place).ok()?));
                if let Some(place) = place {
                    *place = watermark;
                }
            }
            (group, left) = (group + run, left - run);
        }
        self.passed(i64::MIN);
        Ok(())
    }
}

/// Calls `part` with every part of the state to restore, behind its version byte. Parts follow each other in any order.
///
/// # Errors
/// Returns an error if a part has another version than `version`, if a snapshot cannot be read, or that of `part`.
pub(super) fn each_part(
    version: u8,
    context: &OperatorContext,
    mut part: impl FnMut(&mut Reader<'_>) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    while let Some(bytes) = context.next_snapshot()? {
        let mut input = Reader::new(&bytes);
        loop {
            let written = input.byte().map_err(|error| context.codec_error(error))?;
            if written != version {
                return Err(other_version(written, version, context));
            }
            part(&mut input)?;
            if input.remaining() == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Returns the failure of the task for the state of windows in another version of the format.
fn other_version(written: u8, read: u8, context: &OperatorContext) -> TaskError {
    TaskError::Deployment(format!(
        "operator '{}': cannot restore its state, which has version {written} of the format of windows; those of the program are in version {read}; restore with the program that wrote the state, or give the operator another uid",
        context.name(),
    ))
}
