//! Assigns event times to records and emits watermarks after them.
//!
//! Watermarks and idleness from upstream operators end here; only the final watermark of an input that has ended is passed on.

use super::{Collector, Flow, Operator, OperatorContext, OperatorMail};
use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
    time::{Activity, TimestampAssigner, WatermarkGenerator, WatermarkStrategy},
    types::Record,
};
use std::time::Duration;

/// The final watermark, after which no record with an event time comes.
const FINAL: i64 = i64::MAX;
/// The option for how often a generator is asked for a watermark while no records come; name and default are Flink's.
const INTERVAL: &str = "pipeline.auto-watermark-interval";
const INTERVAL_DEFAULT: Duration = Duration::from_millis(200);

/// Ticket of the timer that checks for idleness.
const LOOK: u32 = 0;
/// Ticket of the timer that asks the generator for a watermark.
const ASK: u32 = 1;

/// Returns how often a generator is asked while no records come, at least 1 ms; `None` if the option is 0: the generator is then
/// asked only after batches, as in Flink.
///
/// # Errors
/// Returns [`TaskError::InvalidOption`] if the option is not a duration.
pub(crate) fn ask_interval(context: &OperatorContext) -> Result<Option<Duration>, TaskError> {
    let interval = context.shared().duration_option(&[INTERVAL], INTERVAL_DEFAULT)?;
    Ok((!interval.is_zero()).then(|| interval.max(Duration::from_millis(1))))
}

/// Assigns event times and emits watermarks and idleness as a [`WatermarkStrategy`] says.
pub struct AssignWatermarks<T, F, G> {
    strategy: WatermarkStrategy<T, F, G>,
    watermark: i64,
    activity: Activity,
    /// How often the generator is asked while no records come; `None`: not at all.
    ask_every: Option<Duration>,
}

impl<T: Record, F, G> AssignWatermarks<T, F, G> {
    /// Makes the operator of one subtask.
    pub fn new(strategy: WatermarkStrategy<T, F, G>) -> Self {
        Self { strategy, watermark: i64::MIN, activity: Activity::Busy, ask_every: None }
    }

    /// Schedules the next check for idleness. Does nothing if the strategy has no idleness timeout.
    fn look_later(&self, context: &OperatorContext) {
        if let Some(every) = self.strategy.look_every() {
            context.wake_after(every, LOOK);
        }
    }
}

impl<T: Record, F, G> AssignWatermarks<T, F, G>
where
    G: WatermarkGenerator<T>,
{
    fn advance(&mut self, to: Option<i64>, out: &mut Collector<T>) {
        if let Some(ms) = to.filter(|ms| *ms > self.watermark) {
            self.watermark = ms;
            out.emit(StreamEvent::Watermark(ms));
        }
    }

    fn ask(&mut self, out: &mut Collector<T>, context: &OperatorContext) {
        let watermark = self.strategy.generator.on_periodic(context.now_unix_ms());
        self.advance(watermark, out);
    }

    /// Schedules the next call of the generator, if it is called at intervals.
    fn ask_later(&self, context: &OperatorContext) {
        if let Some(every) = self.ask_every {
            context.wake_after(every, ASK);
        }
    }

    /// Checks for idleness. A subtask whose records wait for room in the output is held up, not idle. An idle subtask is not
    /// checked again: its next record schedules the next check.
    fn look(&mut self, out: &mut Collector<T>, context: &OperatorContext) {
        self.activity = self.activity.after_look(out.is_held_up());
        match self.activity {
            Activity::Idle => out.emit(StreamEvent::Idle(true)),
            Activity::Busy | Activity::Quiet | Activity::Silent => self.look_later(context),
        }
    }

    /// Ends idleness, because records or the final watermark have come.
    fn wake(&mut self, out: &mut Collector<T>, context: &OperatorContext) {
        if std::mem::replace(&mut self.activity, Activity::Busy) == Activity::Idle {
            out.emit(StreamEvent::Idle(false));
            self.look_later(context);
        }
    }
}

impl<T, F, G> Operator<T> for AssignWatermarks<T, F, G>
where
    T: Record,
    F: TimestampAssigner<T>,
    G: WatermarkGenerator<T>,
{
    type Out = T;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        if G::PERIODIC {
            self.ask_every = ask_interval(context)?;
            self.ask_later(context);
        }
        self.look_later(context);
        Ok(())
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<T>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.wake(out, context);
        let WatermarkStrategy { timestamp, generator, .. } = &mut self.strategy;
        let mut promised = None;
        let time = |record: &T, given| {
            let time = timestamp.timestamp(record, given);
            promised = promised.max(generator.on_event(record, time));
            time
        };
        out.extend_stamped(batch, |batch, next| batch.stamp_while(time, next));
        self.advance(promised, out);
        self.ask(out, context);
        Ok(())
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<T>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if event == StreamEvent::Watermark(FINAL) {
            self.wake(out, context);
            self.watermark = FINAL;
        }
        Ok(Flow::Done)
    }

    fn passes(&self, event: StreamEvent) -> bool {
        match event {
            StreamEvent::Watermark(ms) => ms == FINAL,
            StreamEvent::Idle(_) => false,
            StreamEvent::Barrier(_) | StreamEvent::EndOfInput => true,
        }
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<T>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        match mail {
            OperatorMail::Timer { ticket: ASK } => {
                self.ask(out, context);
                self.ask_later(context);
            }
            // After the final watermark only the end of input follows, so idleness does not matter.
            OperatorMail::Timer { ticket: LOOK } if self.watermark == FINAL => {}
            OperatorMail::Timer { ticket: LOOK } => self.look(out, context),
            OperatorMail::Timer { .. } | OperatorMail::Reply { .. } => {}
        }
        Ok(())
    }
}
