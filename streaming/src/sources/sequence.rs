//! The source of consecutive numbers, as fast as possible or at a rate.

use super::{
    Boundedness, NoEnumerator, ReadProgress, ReaderContext, ReaderOutput, Source, SourceReader,
    SourceSplit, SplitEnumeratorContext, own_splits::OwnSplits,
};
use crate::{
    api::Environment,
    operators::{BATCH_RECORDS, BoxError, OperatorContext},
};
use std::{
    ops::{Bound, RangeBounds},
    time::Duration,
};

/// The split of a numbered sequence: every n-th item from `next` on, n being the stride. The items of a [`SequenceSource`] are its
/// numbers, those of a [`CollectionSource`](super::CollectionSource) the positions of its values, from 0.
#[derive(Debug, Clone, PartialEq, Eq, derive::FlottType)]
#[flott(crate = crate)]
pub struct SequenceSplit {
    /// The subtask to which the split was assigned first, from 0; after a restore another subtask may have the split. With `stride`
    /// the split's id.
    pub subtask: u32,
    /// The next item to emit; `None` if it would exceed `u64::MAX`, so that nothing is left. The source's end is not part of the split.
    pub next: Option<u64>,
    /// Distance from one item to the next: the parallelism at the start of the split.
    pub stride: u64,
}

impl SourceSplit for SequenceSplit {
    fn split_id(&self) -> String {
        format!("{}/{}", self.subtask, self.stride)
    }
}

/// A source of the numbers of a range, in order, as fast as possible or at a rate: Flink's `NumberSequenceSource` and, followed by
/// `map`, its `DataGeneratorSource`.
///
/// With n subtasks, subtask i emits every n-th number, from the i-th on (counted from 0). After a restore the source goes on after the
/// last numbers of the checkpoint, whatever the parallelism. The number of splits stays that of the subtasks at the first start: with fewer
/// subtasks than splits some read several, and with more those without one end at once, together with the operators chained to them.
///
/// Orders that a test generates, one per 10 ms of event time, 500 a second:
///
/// ```
/// # use streaming::{Environment, sources::SequenceSource, time::WatermarkStrategy};
/// # fn job(env: &Environment) {
/// let times = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64 * 10);
/// let numbers = SequenceSource::new(0..100_000).with_rate(500.0);
/// let orders = env.from_source(numbers, times, "orders").map(|n| (format!("customer {}", n % 50), n));
/// # orders.print();
/// # }
/// # fn test() -> Result<(), streaming::TaskError> {
/// let mut test = streaming::testing::source(SequenceSource::new(3..=5)).open()?;
/// test.run()?;
/// assert_eq!(test.output(), [3, 4, 5]);
/// # Ok(())
/// # }
/// # test().unwrap();
/// ```
///
/// [`Environment::sequence`] and [`Environment::sequence_with_rate`] are the short forms, without event times.
#[derive(Debug, Clone)]
pub struct SequenceSource {
    start: u64,
    /// The end of the range, exclusive; `None`: the range is unbounded.
    end: Option<u64>,
    /// The rate over all subtasks together; `None`: as fast as possible.
    per_second: Option<f64>,
}

impl SequenceSource {
    /// Creates a source of the numbers of a range, as fast as possible: `0..1_000` is bounded, `0..` is unbounded and ends only after
    /// `u64::MAX`. An empty range emits nothing. A bounded range never contains `u64::MAX` itself, even if it is written as
    /// `..=u64::MAX`.
    pub fn new(range: impl RangeBounds<u64>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => Some(last.saturating_add(1)),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        Self { start, end, per_second: None }
    }

    /// Limits the source to `per_second` numbers a second over all subtasks together, which take turns: subtask i begins i numbers later
    /// than the first one. After a restore with more subtasks than splits, those with a split emit at the whole rate together. A subtask
    /// that was held up for less than a minute emits faster afterwards until it has caught up. After a longer delay, or when the machine's
    /// clock is set back, the subtask goes on at the rate from then on and makes up for nothing. Numbers come in groups: what has come due
    /// in 5 ms (in the buffer timeout if that is shorter), or at high rates in the time for a batch, at least 1 ms. The build fails if
    /// `per_second` is not finite and above 0.
    pub fn with_rate(mut self, per_second: f64) -> Self {
        self.per_second = Some(per_second);
        self
    }

    fn check(&self) -> Result<(), String> {
        match self.per_second {
            Some(rate) if !(rate.is_finite() && rate > 0.0) => {
                Err(format!("the rate must be finite and above 0, not {rate}"))
            }
            _ => Ok(()),
        }
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
    fn resolve(&mut self, env: &Environment, operator: &str) {
        if let Err(why) = self.check() {
            env.builder.borrow_mut().invalid(format!("operator '{operator}': {why}"));
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
        self.check()?;
        let linger_ms = context.shared().linger_ms()?;
        Ok(SequenceReader {
            source: self.clone(),
            splits: OwnSplits::of(context, self.start),
            schedule: self.per_second.map(|per_second| {
                let parallelism = f64::from(context.parallelism());
                let per_ms = per_second / 1_000.0 / parallelism;
                let behind = f64::from(context.subtask()) / parallelism;
                Schedule { behind, ..Schedule::new(per_ms, linger_ms) }
            }),
        })
    }
}

/// The reader of a [`SequenceSource`] in one subtask: emits every n-th number, from the subtask's first one on. After a restore it emits
/// what is left of the splits of the checkpoint, each time from the one that is furthest behind.
#[derive(Debug)]
pub struct SequenceReader {
    source: SequenceSource,
    splits: OwnSplits,
    /// The times at which numbers are due; `None`: as fast as possible.
    schedule: Option<Schedule>,
}

impl SequenceReader {
    /// Returns how many numbers may be emitted now, and the time to wait if none may (1 ms to 60 s).
    fn allowed(&mut self, context: &ReaderContext<'_>) -> (u64, Duration) {
        match &mut self.schedule {
            Some(schedule) => schedule.allowed(context.now_unix_ms()),
            None => (u64::MAX, Duration::ZERO),
        }
    }
}

/// Time in milliseconds that the next number may be overdue: a source that was held up for less makes up for it. With more, the
/// clock was set forward, or so much is due that the rate means nothing any more.
const LAG_MAX_MS: u64 = 60_000;

/// The times at which the numbers of one subtask are due: the first one when its turn among the subtasks comes, the others at a constant
/// rate.
#[derive(Debug)]
struct Schedule {
    per_ms: f64,
    /// The part of the time between two numbers, from 0 to 1, after which the first one is due.
    behind: f64,
    /// The shortest wait in milliseconds: the time in which a batch comes together, at most that for which a task keeps its output. To
    /// be woken for each of 2.5 numbers per millisecond takes more CPU than all else that a task does with them.
    wait_ms: u64,
    /// The time for which a task keeps its output.
    linger_ms: u64,
    /// The clock's time when the schedule began, in milliseconds since 1970.
    began_ms: u64,
    /// The clock's time at the last look.
    seen_ms: u64,
    /// Numbers emitted since the schedule began.
    emitted: u64,
}

impl Schedule {
    fn new(per_ms: f64, linger_ms: u64) -> Self {
        // `as` saturates, which small rates reach.
        let wait_ms = ((BATCH_RECORDS as f64 / per_ms) as u64).min(linger_ms).max(1);
        Self { per_ms, behind: 0.0, wait_ms, linger_ms, began_ms: 0, seen_ms: 0, emitted: 0 }
    }

    fn set_rate(&mut self, per_ms: f64) {
        let Self { linger_ms, behind, began_ms, seen_ms, .. } = *self;
        *self = Self { behind, began_ms, seen_ms, ..Self::new(per_ms, linger_ms) };
    }

    fn begin(&mut self, now_ms: u64) {
        (self.began_ms, self.seen_ms, self.emitted) = (now_ms, now_ms, 0);
    }

    /// Returns how many numbers may be emitted at `now_ms`, and the time to wait if none may, until the next one is due at
    /// least (1 ms to 60 s). A schedule that the clock has jumped away from begins anew: without that, a clock that is set back by an hour
    /// would stop the numbers for an hour, and a clock that is set forward by an hour would make an hour's numbers due at once.
    fn allowed(&mut self, now_ms: u64) -> (u64, Duration) {
        let due_ms = self.began_ms.saturating_add(self.next_ms());
        if now_ms < self.seen_ms || now_ms.saturating_sub(due_ms) > LAG_MAX_MS {
            self.begin(now_ms);
        }
        let elapsed_ms = now_ms.saturating_sub(self.began_ms);
        self.seen_ms = now_ms;
        // `as` saturates, which huge rates reach.
        let due = (elapsed_ms as f64 * self.per_ms + 1.0 - self.behind) as u64;
        let wait = self.next_ms().saturating_sub(elapsed_ms).clamp(self.wait_ms, 60_000);
        (due.saturating_sub(self.emitted), Duration::from_millis(wait))
    }

    /// Returns when the next number is due, in milliseconds since the schedule began.
    fn next_ms(&self) -> u64 {
        ((self.emitted as f64 + self.behind) / self.per_ms).ceil() as u64
    }
}

impl SourceReader for SequenceReader {
    type Record = u64;
    type Split = SequenceSplit;

    fn start(&mut self, context: &mut ReaderContext<'_>) -> Result<(), BoxError> {
        if let Some(schedule) = &mut self.schedule {
            schedule.begin(context.now_unix_ms());
        }
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
        let Some((place, split)) = self.splits.slowest() else {
            return Ok(ReadProgress::Ended);
        };
        if let Some(first) = split.next {
            // Numbers up to the end of the range, or up to `u64::MAX`.
            let left = match end {
                Some(end) => end.saturating_sub(first).div_ceil(split.stride),
                None => ((u64::MAX - first) / split.stride).saturating_add(1),
            };
            let count = most.min(left);
            match split.stride {
                // The end of a range that contains `u64::MAX` cannot be expressed.
                1 if first.checked_add(count).is_some() => {
                    out.extend(&*split, first..first + count)
                }
                stride => out.extend(&*split, (0..count).map(|i| first + i * stride)),
            }
            if let Some(schedule) = &mut self.schedule {
                schedule.emitted += count;
            }
            split.next = count.checked_mul(split.stride).and_then(|by| first.checked_add(by));
        }
        if split.next.is_none_or(|n| end.is_some_and(|end| n >= end)) {
            return Ok(self.splits.end(place, out));
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
        self.splits.restore(splits);
        // Each split has its part of the rate, however many of them a subtask has.
        let part: f64 =
            self.splits.left().iter().map(|split| 1.0 / split.stride.max(1) as f64).sum();
        if let (Some(schedule), Some(per_second)) = (&mut self.schedule, self.source.per_second)
            && part > 0.0
        {
            schedule.set_rate(per_second / 1_000.0 * part);
        }
        Ok(())
    }
    fn no_more_splits(&mut self) {}
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<SequenceSplit>, BoxError> {
        Ok(self.splits.left().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Emits at each millisecond from `from_ms` on what is due, and returns how much that is.
    fn emitted(schedule: &mut Schedule, from_ms: u64, ms: u64) -> u64 {
        let mut sum = 0;
        for now_ms in from_ms..from_ms + ms {
            let (allowed, _) = schedule.allowed(now_ms);
            schedule.emitted += allowed;
            sum += allowed;
        }
        sum
    }

    #[test]
    fn a_rate_is_kept_when_the_clock_is_set() {
        const HOUR_MS: u64 = 3_600_000;
        // Numbers per millisecond, and in the ten seconds between two settings of the clock.
        for (per_ms, in_10_s) in [(0.1, 1_000), (0.000_5, 5), (100.0, 1_000_000)] {
            let mut schedule = Schedule::new(per_ms, 1);
            let at_once = per_ms as u64 + 1;
            for from_ms in [5 * HOUR_MS, 4 * HOUR_MS, 6 * HOUR_MS] {
                let sum = emitted(&mut schedule, from_ms, 10_000);
                let right = in_10_s - at_once..=in_10_s + at_once;
                assert!(right.contains(&sum), "{sum} at {per_ms} per ms from {from_ms}");
            }
        }
    }

    #[test]
    fn a_source_is_woken_for_a_batch_or_when_its_task_sends_what_it_keeps() {
        // Numbers per millisecond, the time for which the task keeps its output, and the wait behind the first number.
        for (per_ms, linger_ms, wait_ms) in
            [(2.5, 5, 5), (2.5, 2, 2), (2.5, 0, 1), (400.0, 5, 2), (5_000.0, 5, 1), (0.01, 5, 100)]
        {
            let mut schedule = Schedule::new(per_ms, linger_ms);
            schedule.begin(1_000);
            assert_eq!(emitted(&mut schedule, 1_000, 1), 1);
            let wait = Duration::from_millis(wait_ms);
            assert_eq!(schedule.allowed(1_000), (0, wait), "{per_ms} per ms");
        }
    }

    #[test]
    fn the_greatest_rate_makes_all_numbers_due() {
        let mut schedule = Schedule::new(f64::MAX, 1);
        schedule.begin(1_000);
        assert_eq!(schedule.allowed(1_000).0, 1);
        assert_eq!(schedule.allowed(1_001).0, u64::MAX);
    }

    #[test]
    fn a_short_delay_is_made_up_for_and_a_long_one_is_not() {
        let mut schedule = Schedule::new(0.1, 1);
        schedule.begin(1_000);
        assert_eq!(emitted(&mut schedule, 1_000, 1), 1);
        assert_eq!(emitted(&mut schedule, 60_000, 1), 5_900);
        assert_eq!(emitted(&mut schedule, 60_001, 999), 99);
        assert_eq!(emitted(&mut schedule, 123_000, 1), 1);
        assert_eq!(schedule.allowed(123_001), (0, Duration::from_millis(9)));
    }
}
