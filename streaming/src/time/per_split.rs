//! Event times and watermarks in a source: a [`WatermarkStrategy`] with one generator per split. Nothing here may read a clock;
//! the head of the source's chain passes the time in.

use super::{
    Activity, TimestampAssigner, WatermarkGenerator, WatermarkStrategy,
    multiplexer::WatermarkMultiplexer,
};
use crate::{batch::Batch, seam::StreamEvent};
use std::{collections::BTreeMap, time::Duration};

/// Gives the records of a source's splits event times and the subtask its watermarks, under any strategy.
pub(crate) trait SplitTimes<T>: Send {
    /// Adds a split that is going to be read: from now on it holds the subtask's watermark back, which begins at `watermark`.
    fn register(&mut self, split: &str, watermark: i64);
    /// Removes a split that was read to its end.
    fn release(&mut self, split: &str);
    /// Gives records from the front of a batch their event times, asks the split's generator for a watermark, and ends the split's
    /// idleness. All records are of one split. `next` says before each part how many records to go on with; at its 0 the others
    /// get no times. Returns how many records got one. `now_ms` is the clock's time in milliseconds since 1970.
    fn records(
        &mut self,
        split: &str,
        batch: &mut Batch<T>,
        now_ms: u64,
        next: &mut dyn FnMut() -> usize,
    ) -> usize;
    /// Raises a split's watermark to `ms`, as the source itself says.
    fn watermark(&mut self, split: &str, ms: i64);
    /// Makes a split idle until its next record or watermark, as the source itself says.
    fn idle(&mut self, split: &str);
    /// Asks the generators of all splits for watermarks; those of idle splits are ignored.
    fn ask(&mut self, now_ms: u64);
    /// Makes the splits idle for which no records arrived between the last three looks. If the subtask is held up by its output, no
    /// split becomes idle.
    fn look(&mut self, held_up: bool);
    /// Returns the subtask's changes of idleness and watermark since the last call, in the order in which they must be emitted.
    fn changes(&mut self) -> Vec<StreamEvent>;
    /// Returns whether the subtask was idle at the last call of [`SplitTimes::changes`].
    fn is_idle(&self) -> bool;
    /// Returns the watermark of a split; `None` if the split is unknown.
    fn watermark_of(&self, split: &str) -> Option<i64>;
    /// Returns whether the generators must also be asked at intervals while no records arrive.
    fn is_periodic(&self) -> bool;
    /// Returns the interval between looks for idle splits, about half of the idleness timeout; `None` if splits never become idle.
    fn look_every(&self) -> Option<Duration>;
}

/// The generator and the activity of one split.
struct Split<G> {
    generator: G,
    activity: Activity,
}

/// The splits of one subtask under one strategy.
pub(crate) struct PerSplit<T, F, G> {
    strategy: WatermarkStrategy<T, F, G>,
    splits: BTreeMap<String, Split<G>>,
    watermarks: WatermarkMultiplexer,
    /// The subtask's activity while it has no splits.
    unused: Activity,
}

impl<T, F, G: Clone> PerSplit<T, F, G> {
    pub(crate) fn new(strategy: WatermarkStrategy<T, F, G>) -> Self {
        let watermarks = WatermarkMultiplexer::default();
        Self { strategy, splits: BTreeMap::new(), watermarks, unused: Activity::Busy }
    }

    fn split(&mut self, name: &str, watermark: i64) -> Option<&mut Split<G>> {
        if !self.splits.contains_key(name) {
            let generator = self.strategy.generator.clone();
            self.splits.insert(name.to_owned(), Split { generator, activity: Activity::Busy });
            self.watermarks.register(name, watermark);
        }
        self.splits.get_mut(name)
    }
}

impl<T, F, G> SplitTimes<T> for PerSplit<T, F, G>
where
    T: 'static,
    F: TimestampAssigner<T>,
    G: WatermarkGenerator<T>,
{
    fn register(&mut self, split: &str, watermark: i64) {
        self.split(split, watermark);
        self.unused = Activity::Busy;
    }

    fn release(&mut self, split: &str) {
        self.splits.remove(split);
        self.watermarks.unregister(split);
    }

    fn records(
        &mut self,
        name: &str,
        batch: &mut Batch<T>,
        now_ms: u64,
        next: &mut dyn FnMut() -> usize,
    ) -> usize {
        if batch.is_empty() {
            return 0;
        }
        self.split(name, i64::MIN);
        let Self { strategy, splits, watermarks, .. } = self;
        let Some(split) = splits.get_mut(name) else { return 0 };
        split.activity = Activity::Busy;
        let mut promised = None;
        let time = |record: &T, given| {
            let time = strategy.timestamp.timestamp(record, given);
            promised = promised.max(split.generator.on_event(record, time));
            time
        };
        let stamped = batch.stamp_while(time, next);
        watermarks.set_idle(name, false);
        let asked = split.generator.on_periodic(now_ms);
        if let Some(ms) = promised.max(asked) {
            watermarks.advance(name, ms);
        }
        stamped
    }

    fn watermark(&mut self, name: &str, ms: i64) {
        if let Some(split) = self.split(name, i64::MIN) {
            split.activity = Activity::Busy;
        }
        self.watermarks.advance(name, ms);
    }

    fn idle(&mut self, name: &str) {
        if let Some(split) = self.split(name, i64::MIN) {
            split.activity = Activity::Idle;
        }
        self.watermarks.set_idle(name, true);
    }

    fn ask(&mut self, now_ms: u64) {
        for (name, split) in &mut self.splits {
            // An idle split stays idle until a record arrives.
            if let Some(ms) = split.generator.on_periodic(now_ms)
                && split.activity != Activity::Idle
            {
                self.watermarks.advance(name, ms);
            }
        }
    }

    fn look(&mut self, held_up: bool) {
        for (name, split) in &mut self.splits {
            split.activity = split.activity.after_look(held_up);
            if split.activity == Activity::Idle {
                self.watermarks.set_idle(name, true);
            }
        }
        if self.splits.is_empty() {
            self.unused = self.unused.after_look(held_up);
            if self.unused == Activity::Idle {
                self.watermarks.set_unused();
            }
        }
    }

    fn changes(&mut self) -> Vec<StreamEvent> {
        self.watermarks.changes().collect()
    }

    fn is_idle(&self) -> bool {
        self.watermarks.is_idle()
    }

    fn watermark_of(&self, split: &str) -> Option<i64> {
        self.watermarks.of(split)
    }

    fn is_periodic(&self) -> bool {
        G::PERIODIC
    }

    fn look_every(&self) -> Option<Duration> {
        self.strategy.look_every()
    }
}
