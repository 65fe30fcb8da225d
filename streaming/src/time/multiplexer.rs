//! The watermark of a subtask that reads several splits, as in Flink's `WatermarkOutputMultiplexer`: the least watermark of the
//! splits that are not idle. Nothing here reads a clock or does I/O.

use crate::seam::StreamEvent;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
struct Split {
    watermark: i64,
    idle: bool,
}

/// The watermarks of a subtask's splits.
#[derive(Debug)]
pub(crate) struct WatermarkMultiplexer {
    splits: BTreeMap<String, Split>,
    watermark: i64,
    idle: bool,
    /// True if the subtask has no splits and counts as idle for that reason.
    unused: bool,
}

impl Default for WatermarkMultiplexer {
    fn default() -> Self {
        Self { splits: BTreeMap::new(), watermark: i64::MIN, idle: false, unused: false }
    }
}

impl WatermarkMultiplexer {
    /// Adds a split that is going to be read: from now on it holds the subtask's watermark back. A known split stays as it is.
    pub(crate) fn register(&mut self, split: &str, watermark: i64) {
        if !self.splits.contains_key(split) {
            self.splits.insert(split.to_owned(), Split { watermark, idle: false });
        }
        self.unused = false;
    }

    /// Removes a split that was read to its end: it no longer holds the subtask's watermark back.
    pub(crate) fn unregister(&mut self, split: &str) {
        self.splits.remove(split);
    }

    /// Raises a split's watermark to `watermark`, if that is greater, and ends the split's idleness. Ignores unknown splits.
    pub(crate) fn advance(&mut self, split: &str, watermark: i64) {
        if let Some(split) = self.splits.get_mut(split) {
            split.watermark = split.watermark.max(watermark);
            split.idle = false;
        }
    }

    /// Sets whether a split is idle. Ignores unknown splits.
    pub(crate) fn set_idle(&mut self, split: &str, idle: bool) {
        if let Some(split) = self.splits.get_mut(split) {
            split.idle = idle;
        }
    }

    /// Makes the subtask idle if it has no splits; called when it has had none for the idleness timeout.
    pub(crate) fn set_unused(&mut self) {
        self.unused = self.splits.is_empty();
    }

    /// Returns the watermark of a split; `None` if the split is unknown.
    pub(crate) fn of(&self, split: &str) -> Option<i64> {
        self.splits.get(split).map(|split| split.watermark)
    }

    /// Returns the subtask's changes since the last call, in the order in which they must be emitted: idleness, then watermark.
    pub(crate) fn changes(&mut self) -> impl Iterator<Item = StreamEvent> + use<> {
        let idle = match self.splits.is_empty() {
            true => self.unused,
            false => self.splits.values().all(|split| split.idle),
        };
        let turned = (idle != self.idle).then_some(StreamEvent::Idle(idle));
        self.idle = idle;
        let active = self.splits.values().filter(|split| !split.idle);
        let least = active.map(|split| split.watermark).min();
        let watermark = least.filter(|least| *least > self.watermark);
        self.watermark = watermark.unwrap_or(self.watermark);
        turned.into_iter().chain(watermark.map(StreamEvent::Watermark))
    }

    /// Returns whether the subtask was idle at the last call of [`WatermarkMultiplexer::changes`].
    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StreamEvent::{Idle, Watermark};

    fn changes(of: &mut WatermarkMultiplexer) -> Vec<StreamEvent> {
        of.changes().collect()
    }

    #[test]
    fn the_slowest_active_split_holds_back_and_one_that_is_read_to_its_end_does_not() {
        let mut splits = WatermarkMultiplexer::default();
        splits.register("a", i64::MIN);
        splits.register("b", i64::MIN);
        splits.advance("a", 10);
        assert_eq!(changes(&mut splits), [], "b has no watermark yet");
        splits.advance("b", 4);
        assert_eq!(changes(&mut splits), [Watermark(4)]);
        splits.advance("b", 3);
        assert_eq!(changes(&mut splits), [], "it never goes back");
        splits.unregister("b");
        assert_eq!(changes(&mut splits), [Watermark(10)]);
        splits.register("c", i64::MIN);
        splits.advance("c", 7);
        assert_eq!(changes(&mut splits), [], "a split that comes late is behind");
        splits.advance("c", 20);
        splits.unregister("a");
        assert_eq!(changes(&mut splits), [Watermark(20)]);
        splits.unregister("c");
        assert_eq!(changes(&mut splits), [], "nothing follows of no splits");
    }

    #[test]
    fn an_idle_split_holds_nothing_back_and_all_of_them_make_the_subtask_idle() {
        let mut splits = WatermarkMultiplexer::default();
        splits.register("a", i64::MIN);
        splits.register("b", i64::MIN);
        splits.advance("a", 5);
        splits.set_idle("b", true);
        assert_eq!(changes(&mut splits), [Watermark(5)]);
        splits.set_idle("a", true);
        assert_eq!(changes(&mut splits), [Idle(true)]);
        splits.advance("b", 9);
        assert_eq!(changes(&mut splits), [Idle(false), Watermark(9)]);
        assert!(!splits.is_idle());
    }

    #[test]
    fn a_subtask_without_splits_is_idle_only_when_it_is_said_to_be() {
        let mut splits = WatermarkMultiplexer::default();
        assert_eq!(changes(&mut splits), []);
        splits.set_unused();
        assert_eq!(changes(&mut splits), [Idle(true)]);
        splits.register("a", 3);
        assert_eq!(changes(&mut splits), [Idle(false), Watermark(3)]);
        splits.set_unused();
        assert_eq!(changes(&mut splits), []);
    }
}
