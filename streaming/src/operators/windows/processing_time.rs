//! Windows that are fired by the machine's clock, at a wake-up from the host.
//!
//! The clock takes the place of the watermark: when it shows `now`, every window that ends before `now` is over. Event times
//! and watermarks of the input are ignored.

use super::store::WindowStore;
use crate::{
    batch::Batch,
    operators::{
        Collector, Flow, Operator, OperatorContext, OperatorMail,
        alarm::{Alarm, clock},
    },
    seam::{StreamEvent, TaskError},
    state::Slice,
};

/// Groups the records of each key by windows of processing time, and emits the results of a window once the machine's clock has
/// passed its end. The end of bounded input fires nothing.
pub struct ProcessingTimeWindows<S, W> {
    selector: S,
    store: W,
    /// Greatest time that the clock has shown, in milliseconds since 1970. A clock that is set back does not lower this time,
    /// so no record is ever late.
    now: i64,
    alarm: Alarm,
    /// The moment up to which windows are being fired, while the output is full; `None` otherwise.
    firing: Option<i64>,
}

impl<S, W> ProcessingTimeWindows<S, W> {
    /// Makes the operator of one subtask over the windows in `store`.
    pub(crate) fn new(selector: S, store: W) -> Self {
        Self { selector, store, now: i64::MIN, alarm: Alarm::default(), firing: None }
    }

    /// Reads the clock and returns the greatest time that it has ever shown, in milliseconds since 1970.
    fn now(&mut self, context: &OperatorContext) -> i64 {
        self.now = self.now.max(clock(context));
        self.now
    }

    /// Asks the host for a wake-up when the next window is over, or within a few milliseconds while a window is being fired.
    fn wake<T>(&mut self, context: &OperatorContext)
    where
        W: WindowStore<T, S>,
    {
        if self.firing.is_some() {
            self.alarm.set_soon(context);
        } else if let Some(end) = self.store.next_end() {
            self.alarm.set(end.saturating_add(1), context);
        }
    }

    /// Fires the windows that end by `until`, and remembers `until` if the output is full before all are fired.
    fn fire<T>(
        &mut self,
        until: i64,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError>
    where
        W: WindowStore<T, S>,
    {
        let flow = self.store.fire(until, out, context)?;
        self.firing = (flow != Flow::Done).then_some(until);
        Ok(flow)
    }
}

impl<T, S, W> Operator<T> for ProcessingTimeWindows<S, W>
where
    T: Send + 'static,
    S: Send,
    W: WindowStore<T, S>,
{
    type Out = W::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.store.open(context)?;
        // A clock that is behind the one of the machine that wrote the state is treated as if it showed that one's time.
        self.now = self.store.fired_until().saturating_add(1);
        self.now(context);
        self.wake::<T>(context);
        Ok(())
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let now = self.now(context);
        batch.stamp(|_, _| now);
        self.store.add(&self.selector, batch, (now, now), out, context)?;
        self.wake::<T>(context);
        Ok(())
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let OperatorMail::Timer { .. } = mail else { return Ok(()) };
        self.alarm.rang();
        let now = self.now(context);
        let until = self.firing.unwrap_or(now.saturating_sub(1));
        self.firing = Some(until);
        if !out.is_full() {
            self.fire::<T>(until, out, context)?;
        }
        self.wake::<T>(context);
        Ok(())
    }

    /// Finishes the windows that are being fired before any control element goes on, so that a snapshot never contains half a
    /// window.
    fn event(
        &mut self,
        _event: StreamEvent,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let Some(until) = self.firing else { return Ok(Flow::Done) };
        let flow = self.fire::<T>(until, out, context)?;
        self.wake::<T>(context);
        Ok(flow)
    }

    fn state_bytes(&self) -> Option<u64> {
        Some(self.store.memory_bytes())
    }

    fn full(&self) -> bool {
        self.store.waits_for_storage()
    }

    fn begin_snapshot(
        &mut self,
        _checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        self.store.begin_snapshot();
        Ok(true)
    }

    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        self.store.write_snapshot(slice, context)
    }

    fn abort_snapshot(&mut self) -> bool {
        self.store.abort_snapshot()
    }
}
