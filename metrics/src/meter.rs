//! Events per second, over about the last minute.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The time that a rate looks back over.
const WINDOW: Duration = Duration::from_secs(60);
/// More samples than this are not kept, however often ticks come.
const SAMPLES_MAX: usize = 64;

/// A metric that counts events and computes their rate, in events per second, over about the last minute. The rate changes only when
/// `Registry::tick` is called, for meters that are in the registry. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicU64,
    past: Mutex<Past>,
}

/// Events of past ticks, and how long each tick was.
#[derive(Debug, Default)]
struct Past {
    counted: u64,
    samples: VecDeque<(u64, Duration)>,
}

impl Meter {
    /// Counts `n` more events; the rate shows them from the next tick on.
    pub fn mark(&self, n: u64) {
        self.0.count.fetch_add(n, Ordering::Relaxed);
    }
    /// Returns the number of events since the meter was made.
    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }
    /// Returns the events per second over the ticks of about the last minute (the newest ticks that together last 60 s, at most 64 of
    /// them); 0 before the first tick. Events since the last tick do not count yet.
    pub fn per_second(&self) -> f64 {
        let past = self.past();
        let events: u64 = past.samples.iter().map(|(n, _)| n).sum();
        let time: Duration = past.samples.iter().map(|(_, time)| *time).sum();
        match time.is_zero() {
            true => 0.0,
            false => events as f64 / time.as_secs_f64(),
        }
    }
    /// Updates the rate after `elapsed` has passed since the last tick.
    pub(crate) fn tick(&self, elapsed: Duration) {
        let count = self.count();
        let mut past = self.past();
        let events = count.wrapping_sub(past.counted);
        past.counted = count;
        past.samples.push_back((events, elapsed));
        let mut time: Duration = past.samples.iter().map(|(_, time)| *time).sum();
        while let Some((_, oldest)) = past.samples.front().copied() {
            // The newest sample always stays, however long it was.
            let enough = past.samples.len() > 1 && time.saturating_sub(oldest) >= WINDOW;
            if !enough && past.samples.len() <= SAMPLES_MAX {
                break;
            }
            time = time.saturating_sub(oldest);
            past.samples.pop_front();
        }
    }
    fn past(&self) -> std::sync::MutexGuard<'_, Past> {
        self.0.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Duration = Duration::from_secs(5);

    #[test]
    fn a_rate_is_of_the_last_minute() {
        let meter = Meter::default();
        assert_eq!(meter.per_second(), 0.0);
        for _ in 0..12 {
            meter.mark(50);
            meter.tick(FIVE);
        }
        assert_eq!(meter.per_second(), 10.0);
        for _ in 0..6 {
            meter.tick(FIVE);
        }
        assert_eq!(meter.per_second(), 5.0);
        for _ in 0..6 {
            meter.tick(FIVE);
        }
        assert_eq!((meter.per_second(), meter.count()), (0.0, 600));
    }

    #[test]
    fn ticks_of_any_pace_keep_few_samples() {
        let meter = Meter::default();
        for _ in 0..1000 {
            meter.mark(1);
            meter.tick(Duration::from_millis(1));
        }
        assert!(meter.past().samples.len() <= SAMPLES_MAX);
        assert!((meter.per_second() - 1000.0).abs() < 1e-6);
        meter.tick(Duration::from_secs(1_000));
        assert_eq!(meter.past().samples.len(), 1);
    }
}
