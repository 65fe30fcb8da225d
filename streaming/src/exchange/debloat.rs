//! The bound in time on what waits for a consumer: the pure computation behind Flink's *buffer debloating*. It measures the
//! consumer's rate from the times at which elements are taken, and derives each channel's share of the records that the
//! consumer takes within the target time. It must never read a clock, and never bound a channel to less than one element.
//!
//! Only time in which the consumer works counts, from one taken element to the next; time for which it has nothing to take
//! does not. A consumer that keeps up therefore has a high rate, whatever little it gets.
//!
//! Elements for a consumer are queued in three places, and the share of a channel is divided among them: half of it in the
//! gate, a quarter at the sending end of a connection, the rest in the producer's open batch and the one that was refused. A
//! batch has an eighth of the share.

use super::gate::CHANNEL_ELEMENTS_MAX;
use std::time::Duration;
use tokio::time::Instant;

/// Share of a channel without a bound, in records.
pub(super) const UNBOUNDED: u32 = u32::MAX;
/// Share of a channel that a producer assumes before it has heard of its consumer.
pub(super) const FIRST_SHARE: u32 = 16;

/// Records that wait in a gate, in all channels together, before the consumer's rate is known. If a record takes 50 ms, 6.4 seconds
/// pass before a barrier behind them; if it takes 10 ns, the bound is gone after 10 ms.
const FIRST_RECORDS: f64 = 128.0;
/// Number of batches in a share.
const BATCHES: u32 = 8;
/// Share from which on elements may come without a grant.
pub(super) const OVERDRAFT_SHARE: u32 = 256;
/// Share from which on no bound is needed: half of it are more full batches than a channel takes anyway.
const SHARE_MAX: f64 = 2.0 * CHANNEL_ELEMENTS_MAX as f64 * 1024.0;
/// Time of work after which older measurements count for 1/e.
const MEMORY_SECONDS: f64 = 0.2;
/// Time of work after which a measurement is taken into account, unless an eighth of the bound was consumed before.
const SAMPLE_SECONDS: f64 = 0.025;

/// The limits of one channel, by the consumer's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    /// The channel's share in records, in all places together; [`UNBOUNDED`] if there is no bound. At least 1.
    pub(super) share: u32,
    /// Maximum number of elements in the gate. At least 1.
    pub(super) elements: u32,
}

impl Bounds {
    const NONE: Self = Self { share: UNBOUNDED, elements: CHANNEL_ELEMENTS_MAX };
}

/// Returns the maximum number of records of a batch for a channel with that share.
pub(super) fn batch_records(share: u32) -> usize {
    if share == UNBOUNDED { usize::MAX } else { (share / BATCHES).max(1) as usize }
}

/// Returns the maximum number of elements that wait at the sending end of a connection, for a channel with that share.
pub(super) fn elements_to_send(share: u32, most: usize) -> usize {
    // A quarter of the share are two batches, or more of them if batches cannot be as large as an eighth of it.
    let full = share as usize / 4 / 1024;
    if share == UNBOUNDED { most } else { full.clamp(2, most.max(2)) }
}

/// An amount of consumption.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    seconds: f64,
    records: f64,
    /// Elements with records.
    batches: f64,
}

impl Amount {
    fn add(&mut self, more: Self) {
        self.seconds += more.seconds;
        self.records += more.records;
        self.batches += more.batches;
    }
}

/// The rate of one consumer, and the bounds of its channels that follow from it.
#[derive(Debug)]
pub(super) struct Debloat {
    /// `None` if channels are not bounded.
    target: Option<f64>,
    channels: f64,
    /// The time at which the consumer took the element on which it works.
    began: Option<Instant>,
    /// Past consumption; older one counts for less.
    past: Amount,
    /// Consumption that `past` does not contain yet.
    sample: Amount,
    /// Number of records after which the sample is added to `past`.
    sample_records: f64,
    bounds: Bounds,
}

impl Debloat {
    pub(super) fn new(target: Option<Duration>, channels: usize) -> Self {
        let target = target.map(|target| target.as_secs_f64());
        let mut debloat = Self {
            target,
            channels: channels.max(1) as f64,
            began: None,
            past: Amount {
                seconds: target.unwrap_or(0.0),
                records: FIRST_RECORDS,
                // So many that a whole share waits in the gate, in batches as large as the producers make them by that share.
                batches: 2.0 * (channels.max(1) as f64 * f64::from(BATCHES)).min(FIRST_RECORDS),
            },
            sample: Amount::default(),
            sample_records: 0.0,
            bounds: Bounds::NONE,
        };
        debloat.derive();
        debloat
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Records that the consumer asks for its next element, after it has worked on the element before, which had `records`
    /// records. `more` says whether it gets another one. Returns true if the bounds have changed.
    pub(super) fn polled(&mut self, now: Instant, records: usize, more: bool) -> bool {
        if self.target.is_none() {
            return false;
        }
        let Some(began) = std::mem::replace(&mut self.began, more.then_some(now)) else {
            return false;
        };
        let before = self.bounds;
        let worked = Amount {
            seconds: now.saturating_duration_since(began).as_secs_f64(),
            records: records as f64,
            batches: if records > 0 { 1.0 } else { 0.0 },
        };
        if worked.seconds >= SAMPLE_SECONDS && self.sample.records > 0.0 {
            // Not together with elements before it, which took far less: a consumer that has become slow must show.
            self.take_sample();
        }
        self.sample.add(worked);
        if self.sample.records == 0.0 {
            // Watermarks and barriers alone say nothing of a rate; what they took counts with the next records, within bounds.
            self.sample.seconds = self.sample.seconds.min(SAMPLE_SECONDS);
            return self.bounds != before;
        }
        if self.sample.records >= self.sample_records || self.sample.seconds >= SAMPLE_SECONDS {
            self.take_sample();
        }
        self.bounds != before
    }

    /// Adds the sample to the past, which counts for less the longer the sample took, or the larger the part of the bound
    /// that it is: a consumer that has become fast has no need to work for long until that shows.
    fn take_sample(&mut self) {
        let sample = std::mem::take(&mut self.sample);
        let age = sample.seconds / MEMORY_SECONDS;
        let turnover = sample.records / (self.sample_records * 8.0).max(1.0);
        let kept = (-age.max(turnover)).exp();
        self.past = Amount {
            seconds: self.past.seconds * kept,
            records: self.past.records * kept,
            batches: self.past.batches * kept,
        };
        self.past.add(sample);
        self.derive();
    }

    fn derive(&mut self) {
        let Some(target) = self.target else { return };
        let Amount { seconds, records, batches } = self.past;
        // A nanosecond: the clock may stand still between two elements.
        let within = target / seconds.max(1e-9);
        self.sample_records = (records * within / 8.0).max(1.0);
        let share = records * within / self.channels;
        self.bounds = if share >= SHARE_MAX {
            Bounds::NONE
        } else {
            let elements = share / 2.0 * batches.max(1e-9) / records.max(1e-9);
            Bounds {
                share: (share as u32).max(1),
                elements: (elements as u32).clamp(1, CHANNEL_ELEMENTS_MAX),
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A consumer that works through full batches of its channels for so long, with so much time for a record. Returns the bounds
    /// afterwards.
    fn work(debloat: &mut Debloat, at: &mut Instant, lasts: Duration, record: Duration) -> Bounds {
        let end = *at + lasts;
        debloat.polled(*at, 0, true);
        while *at < end {
            let records = batch_records(debloat.bounds().share).min(1024);
            *at += record * u32::try_from(records).unwrap();
            debloat.polled(*at, records, true);
        }
        debloat.bounds()
    }

    #[test]
    fn a_slow_consumer_gets_what_it_takes_in_a_second_and_a_fast_one_gets_everything() {
        let mut at = Instant::now();
        let mut debloat = Debloat::new(Some(Duration::from_secs(1)), 8);
        assert_eq!(debloat.bounds().share, FIRST_SHARE);
        let slow = work(&mut debloat, &mut at, Duration::from_secs(3), Duration::from_millis(1));
        assert!((120..=130).contains(&slow.share), "1,000 records over 8 channels: {slow:?}");
        assert!((3..=4).contains(&slow.elements), "half of the share: {slow:?}");
        assert_eq!(batch_records(slow.share), 15);
        let fast =
            work(&mut debloat, &mut at, Duration::from_millis(50), Duration::from_nanos(100));
        assert_eq!(fast, Bounds::NONE, "10 million records per second");
        let slow = work(&mut debloat, &mut at, Duration::from_secs(2), Duration::from_millis(10));
        assert!((11..=14).contains(&slow.share), "100 records per second: {slow:?}");
    }

    #[test]
    fn before_the_rate_is_known_few_records_wait_in_a_gate_however_few_channels_it_has() {
        for channels in [1, 2, 8, 32, 100, 256] {
            let Bounds { share, elements } =
                Debloat::new(Some(Duration::from_secs(1)), channels).bounds();
            let waits = batch_records(share) * elements as usize * channels;
            // One element of each channel always passes.
            assert!(waits <= channels.max(128), "{channels} channels: {waits} records in the gate");
        }
    }

    #[test]
    fn a_fast_consumer_is_unbounded_after_some_milliseconds_of_work() {
        for channels in [1, 8, 128] {
            let mut at = Instant::now();
            let mut debloat = Debloat::new(Some(Duration::from_secs(1)), channels);
            let fast =
                work(&mut debloat, &mut at, Duration::from_millis(10), Duration::from_nanos(10));
            assert!(batch_records(fast.share) >= 1024, "{channels} channels: {fast:?}");
            assert!(fast.elements > 16, "{channels} channels: {fast:?}");
        }
    }

    #[test]
    fn time_without_elements_does_not_make_a_consumer_slow() {
        let mut at = Instant::now();
        let mut debloat = Debloat::new(Some(Duration::from_secs(1)), 2);
        for _ in 0..1_000 {
            debloat.polled(at, 0, true);
            at += Duration::from_micros(10);
            debloat.polled(at, 100, false);
            at += Duration::from_secs(1);
        }
        assert_eq!(debloat.bounds(), Bounds::NONE);
    }

    #[test]
    fn a_consumer_that_stood_still_gets_one_element_per_channel_and_recovers() {
        let mut at = Instant::now();
        let mut debloat = Debloat::new(Some(Duration::from_secs(1)), 100);
        debloat.polled(at, 0, true);
        at += Duration::from_secs(3_600);
        debloat.polled(at, 1, true);
        let Bounds { share, elements } = debloat.bounds();
        assert_eq!((share, elements, batch_records(share)), (1, 1, 1));
        let fast =
            work(&mut debloat, &mut at, Duration::from_millis(100), Duration::from_nanos(100));
        assert!(batch_records(fast.share) >= 1024 && fast.elements > 16, "{fast:?}");
    }

    #[test]
    fn events_alone_do_not_make_a_consumer_slow() {
        let mut at = Instant::now();
        let mut debloat = Debloat::new(Some(Duration::from_secs(1)), 8);
        let first = debloat.bounds();
        for _ in 0..1_000 {
            debloat.polled(at, 0, true);
            at += Duration::from_millis(40);
        }
        assert_eq!(debloat.bounds(), first);
        let fast =
            work(&mut debloat, &mut at, Duration::from_millis(50), Duration::from_nanos(100));
        assert_eq!(fast, Bounds::NONE);
    }

    #[test]
    fn without_a_target_nothing_is_bounded() {
        let mut at = Instant::now();
        let mut debloat = Debloat::new(None, 8);
        let slow = work(&mut debloat, &mut at, Duration::from_secs(1), Duration::from_millis(1));
        assert_eq!(slow, Bounds::NONE);
    }
}
