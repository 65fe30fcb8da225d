//! Watermark strategies: the event time of each record, and the watermarks that follow from the event times.

use super::activity::look_interval;
use std::{marker::PhantomData, time::Duration};

/// Generates the watermarks of a stream: `on_event` is called for each record, `on_periodic` after each batch and, if `PERIODIC` is true,
/// at intervals. Each subtask has a generator of its own; in a source each split has one. A generator is in no checkpoint: after a restore
/// a fresh clone begins, and what it returns counts once it is greater than the restored watermark.
///
/// A watermark of `t` promises that no record with an event time of at most `t` milliseconds follows. A record that breaks the promise
/// is late. A watermark is emitted only if it is greater than the last one, and after the batch of the record that it was generated
/// for.
///
/// ```
/// use std::time::Duration;
/// use streaming::{Stream, time::{WatermarkGenerator, WatermarkStrategy}};
///
/// /// Emits a watermark at every record that is marked as the last one of its time.
/// #[derive(Clone)]
/// struct ByMark(Option<i64>);
///
/// impl WatermarkGenerator<(i64, bool)> for ByMark {
///     fn on_event(&mut self, (_, last): &(i64, bool), timestamp: i64) -> Option<i64> {
///         if *last { Some(timestamp) } else { None }
///     }
///     fn on_periodic(&mut self, _now_ms: u64) -> Option<i64> {
///         None
///     }
/// }
///
/// fn timed(events: &Stream<(i64, bool)>) -> Stream<(i64, bool)> {
///     let strategy = WatermarkStrategy::for_generator(ByMark(None), |(at_ms, _)| *at_ms);
///     events.assign_timestamps_and_watermarks(strategy.with_idleness(Duration::from_secs(30)))
/// }
/// ```
pub trait WatermarkGenerator<T>: Clone + Send + 'static {
    /// True if [`WatermarkGenerator::on_periodic`] is also to be called every `pipeline.auto-watermark-interval` (200 ms by default),
    /// whether or not records arrive. An interval of 0 switches these calls off.
    ///
    /// ```
    /// use streaming::time::WatermarkGenerator;
    ///
    /// /// Follows the machine's clock by ten seconds, also while no records come.
    /// #[derive(Clone)]
    /// struct TenSecondsLate;
    ///
    /// impl<T> WatermarkGenerator<T> for TenSecondsLate {
    ///     const PERIODIC: bool = true;
    ///     fn on_event(&mut self, _record: &T, _timestamp: i64) -> Option<i64> {
    ///         None
    ///     }
    ///     fn on_periodic(&mut self, now_ms: u64) -> Option<i64> {
    ///         i64::try_from(now_ms.checked_sub(10_000)?).ok()
    ///     }
    /// }
    /// let mut late = TenSecondsLate;
    /// let watermark = WatermarkGenerator::<u64>::on_periodic(&mut late, 12_000);
    /// assert_eq!(watermark, Some(2_000));
    /// ```
    const PERIODIC: bool = false;

    /// Called for every record with its event time in milliseconds since 1970, or [`NO_TIME`](crate::batch::NO_TIME). Returns a
    /// watermark in milliseconds since 1970, or `None` if the record changes nothing; one that is not greater than the last one is
    /// ignored.
    fn on_event(&mut self, record: &T, timestamp: i64) -> Option<i64>;

    /// Called after every batch, and at intervals if [`WatermarkGenerator::PERIODIC`] is true, with the time of the machine's clock in
    /// milliseconds since 1970. Returns a watermark in milliseconds since 1970, or `None` if there is no new one; one that is not greater
    /// than the last one is ignored, in a source also that of an idle split.
    fn on_periodic(&mut self, now_ms: u64) -> Option<i64>;
}

/// The generator for records that arrive at most a fixed delay later than records with a greater event time. Its watermark is
/// the greatest event time so far, less the delay and one millisecond; there is none before a record with an event time. While no
/// records come, the watermark stands still.
#[derive(Debug, Clone, Copy)]
pub struct BoundedOutOfOrderness {
    delay_ms: i64,
    greatest: i64,
}

impl BoundedOutOfOrderness {
    /// Creates the generator with a delay, rounded down to whole milliseconds. With a delay of 0 records must arrive in the order of
    /// their event times; equal times are allowed.
    pub fn new(delay: Duration) -> Self {
        Self { delay_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX), greatest: i64::MIN }
    }
}

impl<T> WatermarkGenerator<T> for BoundedOutOfOrderness {
    #[inline]
    fn on_event(&mut self, _record: &T, timestamp: i64) -> Option<i64> {
        self.greatest = self.greatest.max(timestamp);
        None
    }

    fn on_periodic(&mut self, _now_ms: u64) -> Option<i64> {
        // One less, as in Flink: a record of the greatest time itself may still come.
        let watermark = self.greatest.saturating_sub(self.delay_ms).saturating_sub(1);
        (self.greatest > i64::MIN).then_some(watermark)
    }
}

/// The generator that never emits a watermark. In a source, watermarks that the source emits itself still pass; without those, and always
/// in `assign_timestamps_and_watermarks`, event-time timers and windows of the stream fire only at the end of input.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWatermarks;

impl<T> WatermarkGenerator<T> for NoWatermarks {
    fn on_event(&mut self, _record: &T, _timestamp: i64) -> Option<i64> {
        None
    }
    fn on_periodic(&mut self, _now_ms: u64) -> Option<i64> {
        None
    }
}

/// Finds the event time of a record. Each subtask works on its own clone. Every closure from a record to milliseconds since 1970 is a
/// timestamp assigner. Another one is passed to [`WatermarkStrategy::with_timestamp_assigner`].
///
/// ```
/// use streaming::{
///     batch::NO_TIME,
///     time::{SourceTimestamps, TimestampAssigner},
/// };
///
/// let mut seconds = |at: &i64| *at * 1_000;
/// assert_eq!(TimestampAssigner::<i64>::timestamp(&mut seconds, &7, NO_TIME), 7_000);
/// assert_eq!(TimestampAssigner::<i64>::timestamp(&mut SourceTimestamps, &7, 9), 9);
/// ```
pub trait TimestampAssigner<T>: Clone + Send + 'static {
    /// Returns the event time of a record, in milliseconds since 1970. Called once for each record, before the generator gets it. `given`
    /// is the time that the record has already, from its source or an operator before, or [`NO_TIME`](crate::batch::NO_TIME). A result of
    /// `NO_TIME` leaves the record without an event time.
    fn timestamp(&mut self, record: &T, given: i64) -> i64;
}

impl<T, F: FnMut(&T) -> i64 + Clone + Send + 'static> TimestampAssigner<T> for F {
    #[inline]
    fn timestamp(&mut self, record: &T, _given: i64) -> i64 {
        self(record)
    }
}

/// The timestamp assigner that leaves every record the event time that it has, from its source or an operator before, or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct SourceTimestamps;

impl<T> TimestampAssigner<T> for SourceTimestamps {
    #[inline]
    fn timestamp(&mut self, _record: &T, given: i64) -> i64 {
        given
    }
}

/// The rule for the event times and watermarks of a stream: a timestamp assigner, a generator of watermarks and an idleness timeout, for
/// [`Stream::assign_timestamps_and_watermarks`](crate::Stream::assign_timestamps_and_watermarks) and
/// [`Environment::from_source`](crate::Environment::from_source). In a source each split has a generator of its own, and the subtask's
/// watermark is the least one of its active splits; in
/// [`Stream::assign_timestamps_and_watermarks`](crate::Stream::assign_timestamps_and_watermarks) each subtask has one generator.
///
/// ```
/// use std::time::Duration;
/// use streaming::{Environment, time::WatermarkStrategy};
///
/// fn clicks(env: &Environment) {
///     let clicks = env.from_collection([(1_000_i64, 7_u64), (800, 8), (2_500, 7)]);
///     let strategy = WatermarkStrategy::for_bounded_out_of_orderness(
///         Duration::from_millis(500),
///         |(at_ms, _user): &(i64, u64)| *at_ms,
///     );
///     let strategy = strategy.with_idleness(Duration::from_secs(30));
///     clicks.assign_timestamps_and_watermarks(strategy).map(|(_, user)| user).print();
/// }
/// ```
pub struct WatermarkStrategy<T, F, G> {
    pub(crate) timestamp: F,
    pub(crate) generator: G,
    pub(crate) idleness: Option<Duration>,
    record: PhantomData<fn(&T)>,
}

impl<T, F: Clone, G: Clone> Clone for WatermarkStrategy<T, F, G> {
    fn clone(&self) -> Self {
        Self {
            timestamp: self.timestamp.clone(),
            generator: self.generator.clone(),
            idleness: self.idleness,
            record: PhantomData,
        }
    }
}

impl<T, F> WatermarkStrategy<T, F, BoundedOutOfOrderness>
where
    F: FnMut(&T) -> i64 + Clone + Send + 'static,
{
    /// Creates the strategy for records that arrive at most `delay`, rounded down to whole milliseconds, later than records with a
    /// greater event time. The watermark is the greatest event time so far, less `delay` and 1 ms; a record that arrives later still is
    /// passed on as a late record. `timestamp` returns the event time of a record, in milliseconds since 1970.
    pub fn for_bounded_out_of_orderness(delay: Duration, timestamp: F) -> Self {
        Self::for_generator(BoundedOutOfOrderness::new(delay), timestamp)
    }

    /// Creates the strategy for records that arrive in the order of their event times, equal ones allowed: in each split of a source,
    /// or in each subtask that assigns them. The watermark is the greatest event time so far, less 1 ms. `timestamp` returns milliseconds
    /// since 1970.
    pub fn for_monotonous_timestamps(timestamp: F) -> Self {
        Self::for_bounded_out_of_orderness(Duration::ZERO, timestamp)
    }
}

impl<T> WatermarkStrategy<T, SourceTimestamps, NoWatermarks> {
    /// Creates the strategy for streams whose event time does not matter, and for sources that emit watermarks themselves: no
    /// generator adds any. Records keep the times that their source gave them. In `assign_timestamps_and_watermarks` it removes the
    /// stream's watermarks but the final one.
    pub fn no_watermarks() -> Self {
        Self::for_source_timestamps(NoWatermarks)
    }
}

impl<T, G> WatermarkStrategy<T, SourceTimestamps, G>
where
    G: WatermarkGenerator<T>,
{
    /// Creates the strategy for records that have their event times from the source, with a generator such as
    /// [`BoundedOutOfOrderness`]. A record without a time stays without one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::time::{
    ///     BoundedOutOfOrderness, NoWatermarks, SourceTimestamps, WatermarkStrategy,
    /// };
    ///
    /// /// Keeps the times of the source. Records come at most five seconds late.
    /// fn five_seconds<T>() -> WatermarkStrategy<T, SourceTimestamps, BoundedOutOfOrderness> {
    ///     let generator = BoundedOutOfOrderness::new(Duration::from_secs(5));
    ///     WatermarkStrategy::for_source_timestamps(generator)
    /// }
    ///
    /// /// Keeps the times of the source, and its watermarks.
    /// fn by_the_source<T>() -> WatermarkStrategy<T, SourceTimestamps, NoWatermarks> {
    ///     WatermarkStrategy::no_watermarks()
    /// }
    /// ```
    pub fn for_source_timestamps(generator: G) -> Self {
        Self { timestamp: SourceTimestamps, generator, idleness: None, record: PhantomData }
    }
}

impl<T, F, G> WatermarkStrategy<T, F, G>
where
    F: FnMut(&T) -> i64 + Clone + Send + 'static,
    G: WatermarkGenerator<T>,
{
    /// Creates the strategy with a generator of one's own; subtasks, or splits of a source, get clones of it. `timestamp` returns
    /// the event time of a record, in milliseconds since 1970.
    pub fn for_generator(generator: G, timestamp: F) -> Self {
        Self { timestamp, generator, idleness: None, record: PhantomData }
    }
}

impl<T, F, G> WatermarkStrategy<T, F, G> {
    /// Makes a subtask, or a split of a source, idle when no record has arrived for `timeout` (up to half as long again, at least 2 ms):
    /// the watermark of the operators behind then no longer waits for it. A subtask of a source that has no splits for as long becomes idle
    /// too. The next record, or watermark of the source itself, ends the idleness. A subtask that its output holds up does not become idle.
    /// Without a timeout, the default, nothing becomes idle, except splits of which the source itself says so.
    pub fn with_idleness(self, timeout: Duration) -> Self {
        Self { idleness: Some(timeout), ..self }
    }

    /// Returns the interval between looks for idleness; `None` without an idleness timeout.
    pub(crate) fn look_every(&self) -> Option<Duration> {
        self.idleness.map(look_interval)
    }

    /// Replaces the timestamp assigner, and keeps generator and idleness. Use this for a [`TimestampAssigner`] of one's own, which is
    /// also given the time that the source gave to the record.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::{
    ///     Stream,
    ///     time::{BoundedOutOfOrderness, TimestampAssigner, WatermarkStrategy},
    /// };
    ///
    /// /// Takes the time that a click carries, else the time of the source.
    /// #[derive(Clone)]
    /// struct OwnTime;
    ///
    /// impl TimestampAssigner<(Option<i64>, u64)> for OwnTime {
    ///     fn timestamp(&mut self, (own_ms, _user): &(Option<i64>, u64), given: i64) -> i64 {
    ///         own_ms.unwrap_or(given)
    ///     }
    /// }
    ///
    /// fn timed(clicks: &Stream<(Option<i64>, u64)>) -> Stream<(Option<i64>, u64)> {
    ///     let generator = BoundedOutOfOrderness::new(Duration::from_secs(5));
    ///     let strategy =
    ///         WatermarkStrategy::for_source_timestamps(generator).with_timestamp_assigner(OwnTime);
    ///     clicks.assign_timestamps_and_watermarks(strategy)
    /// }
    /// ```
    pub fn with_timestamp_assigner<A: TimestampAssigner<T>>(
        self,
        timestamp: A,
    ) -> WatermarkStrategy<T, A, G> {
        let Self { generator, idleness, record, .. } = self;
        WatermarkStrategy { timestamp, generator, idleness, record }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_is_behind_the_greatest_time_by_the_delay_and_one() {
        let mut bounded = BoundedOutOfOrderness::new(Duration::from_millis(10));
        let mut watermark = |times: &[i64]| {
            for time in times {
                assert_eq!(bounded.on_event(&(), *time), None);
            }
            WatermarkGenerator::<()>::on_periodic(&mut bounded, 0)
        };
        assert_eq!(watermark(&[]), None);
        assert_eq!(watermark(&[100, 90]), Some(89));
        assert_eq!(watermark(&[95]), Some(89));
        assert_eq!(watermark(&[101]), Some(90));
        assert_eq!(watermark(&[i64::MAX]), Some(i64::MAX - 11));
    }

    #[test]
    fn times_at_the_end_of_the_range_do_not_wrap() {
        let mut bounded = BoundedOutOfOrderness::new(Duration::MAX);
        bounded.on_event(&(), i64::MIN + 5);
        assert_eq!(WatermarkGenerator::<()>::on_periodic(&mut bounded, 0), Some(i64::MIN));
    }
}
