//! The source of consecutive numbers, as fast as possible or at a rate.

use super::{
    Boundedness, NoEnumerator, ReadProgress, ReaderContext, ReaderOutput, Source, SourceReader,
    SourceSplit, SplitEnumeratorContext,
};
use crate::operators::{BoxError, OperatorContext};
use std::{collections::VecDeque, time::Duration};

/// The split of a numbered sequence: every n-th item from `next` on, n being the stride.
#[derive(Debug, Clone, PartialEq, Eq, derive::FlottType)]
#[flott(crate = crate)]
pub struct SequenceSplit {
    /// The subtask to which the split was assigned first; with `stride`, the split's id.
    pub subtask: u32,
    /// The next item to emit; `None` if it would exceed `u64::MAX`.
    pub next: Option<u64>,
    /// Distance from one item to the next: the parallelism at the start of the split.
    pub stride: u64,
}

impl SequenceSplit {
    /// Returns the initial split of a subtask; that of subtask 0 begins at `start`.
    pub(super) fn of(context: &OperatorContext, start: u64) -> Self {
        Self {
            subtask: context.subtask(),
            next: start.checked_add(u64::from(context.subtask())),
            stride: u64::from(context.parallelism()).max(1),
        }
    }
}

impl SourceSplit for SequenceSplit {
    fn split_id(&self) -> String {
        format!("{}/{}", self.subtask, self.stride)
    }
}

/// A source of the numbers of a range, in order; with parallelism n, each subtask emits every n-th number.
#[derive(Debug, Clone)]
pub struct SequenceSource {
    start: u64,
    end: Option<u64>,
    per_second: Option<f64>,
}

impl SequenceSource {
    /// Creates a source of the numbers from `start` to before `end`; with `None` it is unbounded. `per_second` is the rate over all
    /// subtasks together and must be finite and positive; `None` means as fast as possible.
    pub fn new(start: u64, end: Option<u64>, per_second: Option<f64>) -> Self {
        Self { start, end, per_second }
    }
}

impl Source for SequenceSource {
    type Record = u64;
    type Split = SequenceSplit;
    type Enumerator = NoEnumerator<SequenceSplit>;
    type Reader = SequenceReader;

    fn boundedness(&self) -> Boundedness {
        match self.end {
            Some(_) => Boundedness::Bounded,
            None => Boundedness::ContinuousUnbounded,
        }
    }
    fn create_enumerator(
        &self,
        _context: SplitEnumeratorContext<SequenceSplit>,
        _restored: Option<()>,
    ) -> Result<NoEnumerator<SequenceSplit>, BoxError> {
        Ok(NoEnumerator::default())
    }
    fn create_reader(&self, context: &OperatorContext) -> Result<SequenceReader, BoxError> {
        Ok(SequenceReader {
            source: self.clone(),
            splits: VecDeque::from([SequenceSplit::of(context, self.start)]),
            restored: false,
            parallelism: f64::from(context.parallelism()),
            emitted: 0,
            began_ms: 0,
        })
    }
}

/// The reader of a [`SequenceSource`].
#[derive(Debug)]
pub struct SequenceReader {
    source: SequenceSource,
    splits: VecDeque<SequenceSplit>,
    /// Whether the splits are those of a snapshot; else they are the subtask's initial one.
    restored: bool,
    parallelism: f64,
    emitted: u64,
    began_ms: u64,
}

impl SequenceReader {
    /// Returns how many numbers may be emitted now, and the time until the next one is due if none may (1 ms to 60 s).
    fn allowed(&self, context: &ReaderContext<'_>) -> (u64, Duration) {
        let Some(per_second) = self.source.per_second else { return (u64::MAX, Duration::ZERO) };
        let own_per_ms = per_second / 1_000.0 / self.parallelism;
        let elapsed_ms = context.now_unix_ms().saturating_sub(self.began_ms);
        // The first number is due at once. Both values are far below 2^53 for any clock, and `as` saturates.
        let due = (elapsed_ms as f64 * own_per_ms) as u64 + 1;
        let next_at_ms = (self.emitted as f64 / own_per_ms).ceil() as u64;
        let wait = next_at_ms.saturating_sub(elapsed_ms).clamp(1, 60_000);
        (due.saturating_sub(self.emitted), Duration::from_millis(wait))
    }
}

impl SourceReader for SequenceReader {
    type Record = u64;
    type Split = SequenceSplit;

    fn start(&mut self, context: &mut ReaderContext<'_>) -> Result<(), BoxError> {
        self.began_ms = context.now_unix_ms();
        Ok(())
    }

    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<u64>,
        context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError> {
        let (allowed, wait) = self.allowed(context);
        let most = allowed.min(most as u64);
        let end = self.source.end;
        let Some(split) = self.splits.front_mut() else { return Ok(ReadProgress::Ended) };
        if let Some(first) = split.next {
            // Numbers up to the end of the range, or up to `u64::MAX`.
            let left = match end {
                Some(end) => end.saturating_sub(first).div_ceil(split.stride),
                None => ((u64::MAX - first) / split.stride).saturating_add(1),
            };
            let count = most.min(left);
            match split.stride {
                // The end of a range that contains `u64::MAX` cannot be expressed.
                1 if first.checked_add(count).is_some() => out.extend(first..first + count),
                stride => out.extend((0..count).map(|i| first + i * stride)),
            }
            self.emitted += count;
            split.next = count.checked_mul(split.stride).and_then(|by| first.checked_add(by));
        }
        if split.next.is_none_or(|n| end.is_some_and(|end| n >= end)) {
            self.splits.pop_front();
            return Ok(match self.splits.is_empty() {
                true => ReadProgress::Ended,
                false => ReadProgress::More,
            });
        }
        if most == 0 {
            context.wake_after(wait);
            return Ok(ReadProgress::Waiting);
        }
        Ok(ReadProgress::More)
    }

    fn add_splits(
        &mut self,
        splits: Vec<SequenceSplit>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        if !std::mem::replace(&mut self.restored, true) {
            self.splits.clear();
        }
        self.splits.extend(splits);
        Ok(())
    }
    fn no_more_splits(&mut self) {}
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<SequenceSplit>, BoxError> {
        Ok(self.splits.iter().cloned().collect())
    }
}
