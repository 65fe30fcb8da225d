//! Windows that go by the clock of the machine: a wake-up fires them.
//!
//! The clock takes the place of the watermark: when it shows `now`, everything before `now` is over. Event times and
//! watermarks of the input are not looked at.

use super::store::WindowStore;
use crate::{
    batch::Batch,
    operators::{Collector, Flow, Operator, OperatorContext, OperatorMail},
    seam::{StreamEvent, TaskError},
};
use std::time::Duration;

/// How soon a window is gone on with that found the output full.
const AGAIN: Duration = Duration::from_millis(5);
/// The ticket of every wake-up.
const DUE: u32 = 0;

/// Puts the records of each key together by windows of processing time, and emits for each window when the machine's clock
/// has passed it. The end of bounded input fires nothing.
pub struct ProcessingTimeWindows<S, W> {
    selector: S,
    store: W,
    /// What the clock showed at most. It never goes back here: a record is never late.
    now: i64,
    /// The moment that the host was asked to wake the task at.
    wakes_at: Option<i64>,
    /// The windows up to that moment are being fired.
    firing: Option<i64>,
}

/// Returns what the clock shows.
fn clock(context: &OperatorContext) -> i64 {
    i64::try_from(context.now_unix_ms()).unwrap_or(i64::MAX)
}

impl<S, W> ProcessingTimeWindows<S, W> {
    /// Makes one over those windows.
    pub(crate) fn new(selector: S, store: W) -> Self {
        Self { selector, store, now: i64::MIN, wakes_at: None, firing: None }
    }

    /// Reads the clock; returns the greatest moment that it ever showed.
    fn now(&mut self, context: &OperatorContext) -> i64 {
        self.now = self.now.max(clock(context));
        self.now
    }

    /// Asks the host for a wake-up when the first window is over, unless it was asked for an earlier one.
    fn wake<T>(&mut self, context: &OperatorContext)
    where
        W: WindowStore<T, S>,
    {
        let Some(end) = self.store.next_end() else { return };
        let over_at = end.saturating_add(1);
        if self.wakes_at.is_none_or(|wakes_at| over_at < wakes_at) {
            self.wakes_at = Some(over_at);
            let wait = u64::try_from(over_at.saturating_sub(clock(context))).unwrap_or(0);
            context.wake_after(Duration::from_millis(wait), DUE);
        }
    }

    /// Fires what is due.
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
        // A clock that is behind the one of the machine that wrote the state is not believed.
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
        self.wakes_at = None;
        let now = self.now(context);
        let until = self.firing.unwrap_or(now.saturating_sub(1));
        if self.fire::<T>(until, out, context)? != Flow::Done {
            // Earlier than any window: no other wake-up is asked for.
            self.wakes_at = Some(i64::MIN);
            context.wake_after(AGAIN, DUE);
        }
        self.wake::<T>(context);
        Ok(())
    }

    /// A window that is being fired is fired as a whole before anything goes on: a snapshot never has half of it.
    fn event(
        &mut self,
        _event: StreamEvent,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let Some(until) = self.firing else { return Ok(Flow::Done) };
        let flow = self.fire::<T>(until, out, context)?;
        if flow == Flow::Done {
            self.wakes_at = None;
            self.wake::<T>(context);
        }
        Ok(flow)
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        self.store.snapshot(context).map(Some)
    }
}
