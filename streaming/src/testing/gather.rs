//! The end of a chain in a test: keeps the records, the newest watermark and the idleness that arrive.

use crate::{
    batch::{Batch, NO_TIME},
    lock,
    operators::{Consumer, Control, Flow},
    seam::{StreamEvent, TaskError},
};
use std::sync::{Arc, Mutex};

/// Everything that arrived since the records were last taken out.
struct Kept<T> {
    records: Vec<(T, Option<i64>)>,
    watermark: Option<i64>,
    idle: bool,
}

/// Everything that arrived at the end of a chain. Clones share their content.
pub(crate) struct Gathered<T>(Arc<Mutex<Kept<T>>>);

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Kept { records: Vec::new(), watermark: None, idle: false })))
    }
}

impl<T> Clone for Gathered<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Gathered<T> {
    /// Takes the records out, in their order, with their event times; `None`: the record has no event time.
    pub(crate) fn take_records(&self) -> Vec<(T, Option<i64>)> {
        std::mem::take(&mut lock(&self.0).records)
    }
    /// Returns the newest watermark; `None` before the first one.
    pub(super) fn last_watermark(&self) -> Option<i64> {
        lock(&self.0).watermark
    }
    /// Returns whether the subtask is idle, by the newest idleness event.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.0).idle
    }
}

/// The last consumer of the chain: adds everything that arrives to a [`Gathered`].
pub(crate) struct Gather<T>(pub(crate) Gathered<T>);

impl<T: Send> Consumer<T> for Gather<T> {
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError> {
        let mut kept = lock(&self.0.0);
        batch.each(|record, time| kept.records.push((record, (time != NO_TIME).then_some(time))));
        Ok(true)
    }
}

impl<T: Send> Control for Gather<T> {
    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        match event {
            StreamEvent::Watermark(ms) => lock(&self.0.0).watermark = Some(ms),
            StreamEvent::Idle(idle) => lock(&self.0.0).idle = idle,
            StreamEvent::Barrier(_) | StreamEvent::EndOfInput => {}
        }
        Ok(Flow::Done)
    }
}
