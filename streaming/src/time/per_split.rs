//! Event times and watermarks in a source: a [`WatermarkStrategy`] with a generator for each split. It must not read a clock;
//! the head of the source's chain brings the time.

use super::{
    TimestampAssigner, WatermarkGenerator, WatermarkStrategy, multiplexer::WatermarkMultiplexer,
};
use crate::{batch::Batch, seam::StreamEvent};
use std::{collections::BTreeMap, time::Duration};

/// How long a split has had no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Busy,
    /// None came since the last look.
    Quiet,
    Idle,
}

/// What a source does with the records of its splits, whatever its strategy.
pub(crate) trait SplitTimes<T>: Send {
    /// A split is going to be read.
    fn register(&mut self, split: &str, watermark: i64);
    /// A split was read to its end.
    fn release(&mut self, split: &str);
    /// Records of one split: gives them their times. They may promise a watermark.
    fn records(&mut self, split: &str, batch: &mut Batch<T>, now_ms: u64);
    /// The source itself knows how far a split is.
    fn watermark(&mut self, split: &str, ms: i64);
    /// The source itself knows that a split has no records for now.
    fn idle(&mut self, split: &str);
    /// Asks the generators.
    fn ask(&mut self, now_ms: u64);
    /// Looks for idle splits. Those of a subtask that is held up by its output are not.
    fn look(&mut self, held_up: bool);
    /// Returns what has changed since the last call.
    fn changes(&mut self) -> Vec<StreamEvent>;
    /// Returns whether the subtask was said to be idle.
    fn is_idle(&self) -> bool;
    /// Returns the watermark of a split.
    fn watermark_of(&self, split: &str) -> Option<i64>;
    /// Returns whether the generators are asked while no records come.
    fn is_periodic(&self) -> bool;
    /// Returns how often to look for idle splits; `None`: never.
    fn look_every(&self) -> Option<Duration>;
}

/// One split.
struct Split<G> {
    generator: G,
    activity: Activity,
}

/// The splits of one subtask, by a strategy.
pub(crate) struct PerSplit<T, F, G> {
    strategy: WatermarkStrategy<T, F, G>,
    splits: BTreeMap<String, Split<G>>,
    watermarks: WatermarkMultiplexer,
    /// How long there have been no splits.
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

    fn records(&mut self, name: &str, batch: &mut Batch<T>, now_ms: u64) {
        if batch.is_empty() {
            return;
        }
        self.split(name, i64::MIN);
        let Self { strategy, splits, watermarks, .. } = self;
        let Some(split) = splits.get_mut(name) else { return };
        split.activity = Activity::Busy;
        let mut promised = None;
        batch.stamp(|record, given| {
            let time = strategy.timestamp.timestamp(record, given);
            promised = promised.max(split.generator.on_event(record, time));
            time
        });
        watermarks.set_idle(name, false);
        let asked = split.generator.on_periodic(now_ms);
        if let Some(ms) = promised.max(asked) {
            watermarks.advance(name, ms);
        }
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
            // A split that is idle stays so until a record comes.
            if let Some(ms) = split.generator.on_periodic(now_ms)
                && split.activity != Activity::Idle
            {
                self.watermarks.advance(name, ms);
            }
        }
    }

    fn look(&mut self, held_up: bool) {
        let next = |activity: Activity| match activity {
            Activity::Busy => Activity::Quiet,
            Activity::Quiet if held_up => Activity::Quiet,
            Activity::Quiet | Activity::Idle => Activity::Idle,
        };
        for (name, split) in &mut self.splits {
            split.activity = next(split.activity);
            if split.activity == Activity::Idle {
                self.watermarks.set_idle(name, true);
            }
        }
        if self.splits.is_empty() {
            self.unused = next(self.unused);
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
        self.strategy.idleness.map(|timeout| timeout / 2)
    }
}
