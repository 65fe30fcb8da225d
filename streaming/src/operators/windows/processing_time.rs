//! Windows that are fired by the machine's clock, at a wake-up from the host.
//!
//! The clock takes the place of the watermark: when it shows `now`, every window that ends before `now` is over. Event times
//! and watermarks of the input are ignored.

use super::store::{WindowStore, state_in_store};
use crate::{
    batch::Batch,
    operators::{
        Collector, Flow, Operator, OperatorContext, OperatorMail,
        alarm::{Alarm, clock},
    },
    seam::{StreamEvent, TaskError},
};

/// The operator that groups the records of each key by windows of processing time, and emits the results of a window once the machine's
/// clock has passed its end. Event times of the input are ignored; its watermarks fire nothing and go on to the next operators. A clock
/// that is set back, or is behind the restored state, counts as standing still, so that no record is late. The end of bounded input fires
/// the windows that are over by then, and no others. Control elements wait until the windows that are being fired are emitted.
pub struct ProcessingTimeWindows<S, W> {
    selector: S,
    store: W,
    /// Greatest time that the clock has shown, in milliseconds since 1970. A clock that is set back does not lower this time,
    /// so no record is ever late.
    now: i64,
    alarm: Alarm,
    /// The moment up to which windows are being fired, while the output is full, keys are not resident, or a step was interrupted; `None`
    /// otherwise.
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

    /// Asks the host for a wake-up when the next window is over. While a window is being fired, the wake-up comes at once, or within a few
    /// milliseconds if the output is full; if the window waits for keys, it continues when they come.
    fn wake<T>(&mut self, out_is_full: bool, context: &OperatorContext)
    where
        W: WindowStore<T, S>,
    {
        if self.firing.is_some() {
            if !self.store.waits() {
                self.alarm.set_to_continue(out_is_full, context);
            }
        } else if let Some(end) = self.store.next_end() {
            self.alarm.set(end.saturating_add(1), context);
        }
    }

    /// Fires the windows that end by `until`, and remembers `until` if not all are fired, because the output is full, keys are not
    /// resident, or the step was interrupted.
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
    const HAS_STATE: bool = true;
    const ONLY_KEYED_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.store.open(context)?;
        // A clock that is behind the one of the machine that wrote the state is treated as if it showed that one's time.
        self.now = self.store.fired_until().saturating_add(1);
        self.now(context);
        self.wake::<T>(false, context);
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
        self.wake::<T>(out.is_full(), context);
        Ok(())
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        if let OperatorMail::Timer { .. } = mail {
            self.alarm.rang();
            let now = self.now(context);
            self.firing.get_or_insert(now.saturating_sub(1));
        } else {
            self.store.mail(&self.selector, mail, out, context)?;
        }
        if let Some(until) = self.firing.filter(|_| !out.is_full() && !self.store.waits()) {
            self.fire::<T>(until, out, context)?;
        }
        self.wake::<T>(out.is_full(), context);
        Ok(())
    }

    /// Finishes the windows that are being fired before any control element goes on, so that a snapshot never contains half a
    /// window. The end of input also fires those that are over by then: after it no wake-up comes any more.
    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if self.store.waits() {
            return Ok(Flow::Waiting);
        }
        let begun = self.firing;
        let over = (event == StreamEvent::EndOfInput).then(|| self.now(context).saturating_sub(1));
        for until in begun.into_iter().chain(over) {
            let flow = self.fire::<T>(until, out, context)?;
            if flow != Flow::Done {
                self.wake::<T>(out.is_full(), context);
                return Ok(flow);
            }
        }
        if begun.is_some() {
            self.wake::<T>(out.is_full(), context);
        }
        Ok(Flow::Done)
    }

    state_in_store!();
}
