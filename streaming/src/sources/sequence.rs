//! Numbers in order, as fast as possible or at a rate.

use crate::{
    chain::{ReadProgress, SourceReader},
    operators::{Collector, OperatorContext, OperatorMail},
    seam::TaskError,
};
use std::time::Duration;

/// Emits every n-th number of a range, n being the parallelism.
#[derive(Debug, Clone)]
pub struct SequenceReader {
    start: u64,
    end: Option<u64>,
    /// Of all subtasks together.
    per_second: Option<f64>,
    next: Option<u64>,
    stride: u64,
    emitted: u64,
    began_ms: u64,
    /// A timer is running: whatever else wakes the task does not start another.
    timer: bool,
}

impl SequenceReader {
    /// From `start` to before `end`, or for ever.
    pub fn new(start: u64, end: Option<u64>, per_second: Option<f64>) -> Self {
        Self {
            start,
            end,
            per_second,
            next: None,
            stride: 1,
            emitted: 0,
            began_ms: 0,
            timer: false,
        }
    }

    /// How many numbers may be emitted now, and after how long the next one.
    fn allowed(&self, context: &OperatorContext) -> (u64, Duration) {
        let Some(per_second) = self.per_second else { return (u64::MAX, Duration::ZERO) };
        let own_per_ms = per_second / 1_000.0 / self.stride as f64;
        let elapsed_ms = context.now_unix_ms().saturating_sub(self.began_ms);
        // The first is due at once. Both numbers are far below 2^53 for any clock, and `as` saturates.
        let due = (elapsed_ms as f64 * own_per_ms) as u64 + 1;
        let next_at_ms = (self.emitted as f64 / own_per_ms).ceil() as u64;
        let wait = next_at_ms.saturating_sub(elapsed_ms).clamp(1, 60_000);
        (due.saturating_sub(self.emitted), Duration::from_millis(wait))
    }
}

impl SourceReader for SequenceReader {
    type Record = u64;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.stride = u64::from(context.parallelism());
        self.next = self.start.checked_add(u64::from(context.subtask()));
        self.began_ms = context.now_unix_ms();
        Ok(())
    }

    fn mail(&mut self, mail: OperatorMail, _: &OperatorContext) -> Result<(), TaskError> {
        if let OperatorMail::Timer { .. } = mail {
            self.timer = false;
        }
        Ok(())
    }

    fn read(
        &mut self,
        most: usize,
        out: &mut Collector<u64>,
        context: &OperatorContext,
    ) -> Result<ReadProgress, TaskError> {
        let (allowed, wait) = self.allowed(context);
        let most = allowed.min(most as u64);
        if let Some(first) = self.next {
            // Numbers up to the end, or up to the last one that there is.
            let left = match self.end {
                Some(end) => end.saturating_sub(first).div_ceil(self.stride),
                None => ((u64::MAX - first) / self.stride).saturating_add(1),
            };
            let count = most.min(left);
            match self.stride {
                // A range that ends behind the last number there is cannot be written.
                1 if first.checked_add(count).is_some() => out.extend(first..first + count),
                stride => out.extend((0..count).map(|i| first + i * stride)),
            }
            self.emitted += count;
            self.next = count.checked_mul(self.stride).and_then(|by| first.checked_add(by));
        }
        if self.next.is_none_or(|n| self.end.is_some_and(|end| n >= end)) {
            return Ok(ReadProgress::Ended);
        }
        if most == 0 {
            if !std::mem::replace(&mut self.timer, true) {
                context.wake_after(wait, 0);
            }
            return Ok(ReadProgress::Waiting);
        }
        Ok(ReadProgress::More)
    }
}
