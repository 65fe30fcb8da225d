//! The firing of timers: as many as the output takes, and a wake-up for the next ones. Timers of one key fire in their order.

use super::{Calls, KeyedOperator, KeyedProcessFunction};
use crate::{
    operators::{
        Collector, Flow, KeySelector, OperatorContext,
        alarm::clock,
        timers::{TimeDomain, Timer},
    },
    seam::TaskError,
    state::StateBackend,
};

impl<T, S, F, B> KeyedOperator<T, S, F, B>
where
    T: Send + 'static,
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
    B: StateBackend<S::Key, F::State>,
{
    /// Fires the timers of one clock that are due at `now`. Returns [`Flow::More`] if the output is full or the step
    /// interrupted before all have fired, and [`Flow::Waiting`] if a fired timer waits for its key to become resident.
    pub(super) fn fire(
        &mut self,
        domain: TimeDomain,
        now: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let fired = self.fire_due(domain, now, out, context)?;
        self.resident.begin_fetches(context);
        Ok(fired)
    }

    /// Fires timers as [`KeyedOperator::fire`] does, and leaves the reads of missing keys to it.
    fn fire_due(
        &mut self,
        domain: TimeDomain,
        now: i64,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let mut at_work = None;
        // At least one timer fires per call, so that a task whose steps are always interrupted still gets to the end.
        loop {
            let queue = match domain {
                TimeDomain::EventTime => &mut self.timers.event,
                TimeDomain::ProcessingTime => &mut self.timers.processing,
            };
            // A timer that waits for its key may set a timer earlier than the next one: until then, only timers of the same
            // moment fire.
            if self.resident.waits() && queue.first() != at_work {
                return Ok(Flow::Waiting);
            }
            let Some((timestamp, at, key)) = queue.pop_due(now) else { return Ok(Flow::Done) };
            at_work = Some(timestamp);
            let Self { function, timers, watermark, .. } = self;
            let mut work = Calls::new(function, timers, *watermark, out, context);
            let timer = Timer { timestamp, domain };
            self.resident.timer::<S>(at, key, timer, context, &mut work)?;
            if !out.should_continue() {
                return Ok(Flow::More);
            }
        }
    }

    /// Fires the timers of processing time that were due when the end of input came: their wake-up may not have come, or may have found
    /// the output full. The moment is read once, so that timers that keep setting new ones do not keep a slow output from its end. Drops
    /// the other timers of processing time, which would never fire.
    pub(super) fn fire_at_end(
        &mut self,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let ended_at = *self.ended_at.get_or_insert_with(|| clock(context));
        let fired = self.fire(TimeDomain::ProcessingTime, ended_at, out, context)?;
        if fired != Flow::Done {
            return Ok(fired);
        }
        while self.timers.processing.pop_due(i64::MAX).is_some() {
            if !out.should_continue() {
                return Ok(Flow::More);
            }
        }
        Ok(Flow::Done)
    }

    /// Asks the host for a wake-up at the earliest timer of processing time. If timers that are due have not fired, the wake-up comes at
    /// once, or within milliseconds while the output is full or keys are not resident.
    pub(super) fn wake_for_timers(&mut self, out_is_full: bool, context: &OperatorContext) {
        if self.due_left {
            let held_up = out_is_full || self.resident.waits();
            self.alarm.set_to_continue(held_up, context);
        } else if let Some(first) = self.timers.processing.first() {
            self.alarm.set(first, context);
        }
    }

    /// Handles a wake-up: fires the timers of processing time that are due, unless the output is full.
    pub(super) fn clock_came(
        &mut self,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.alarm.rang();
        let now = clock(context);
        // While the end of input waits for the output, the clock goes on.
        let now = self.ended_at.map_or(now, |ended_at| ended_at.min(now));
        self.due_left = out.is_full()
            || self.fire(TimeDomain::ProcessingTime, now, out, context)? != Flow::Done;
        self.restored_due &= self.due_left;
        Ok(())
    }
}
