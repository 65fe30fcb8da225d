//! Assigns event times to records and emits watermarks after them.
//!
//! Watermarks and idleness from upstream operators end here; only the final watermark of an input that has ended is passed on.
//!
//! The state of a subtask is its watermark, as `STATE-FORMAT.md` describes it. A generator has no state: it begins anew after a
//! restore, and what it returns counts once it is greater than the restored watermark.

use super::{Collector, Flow, Operator, OperatorContext, OperatorMail};
use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
    time::{Activity, TimestampAssigner, WatermarkGenerator, WatermarkStrategy},
    types::{CodecError, Reader, Record, write_zigzag},
};
use model::graph::StateDeclaration;
use std::{collections::BTreeMap, time::Duration};

/// Version byte of the state.
const VERSION: u8 = 1;

/// The final watermark, after which no record with an event time comes.
const FINAL: i64 = i64::MAX;
/// The option for how often a generator is asked for a watermark while no records come; name and default are Flink's.
const INTERVAL: &str = "pipeline.auto-watermark-interval";
const INTERVAL_DEFAULT: Duration = Duration::from_millis(200);

/// Ticket of the timer that checks for idleness.
const LOOK: u32 = 0;
/// Ticket of the timer that asks the generator for a watermark.
const ASK: u32 = 1;
/// Ticket of the timer that emits the restored watermark while no records come.
const RESTORED: u32 = 2;

/// Returns the declaration of the state: a watermark, without which a job may be restored as well.
pub(crate) fn watermark_state() -> Vec<StateDeclaration> {
    vec![StateDeclaration {
        name: StateDeclaration::WATERMARK.to_owned(),
        kind: StateDeclaration::WATERMARK.to_owned(),
        schemas: BTreeMap::new(),
        types: BTreeMap::new(),
        ttl_ms: None,
        settings: None,
    }]
}

/// Returns the state of a subtask with this watermark.
fn write_watermark(watermark: i64) -> Vec<u8> {
    let mut out = vec![VERSION];
    write_zigzag(watermark, &mut out);
    out
}

/// Returns the watermark in the state of a former subtask.
fn read_watermark(state: &[u8]) -> Result<i64, CodecError> {
    let mut input = Reader::new(state);
    if input.byte()? != VERSION {
        return Err(CodecError::Invalid { what: "version of a watermark" });
    }
    let watermark = input.zigzag()?;
    input.finish()?;
    Ok(watermark)
}

/// Returns the watermark that a subtask begins with, given those of all former subtasks in their order: its own one if the
/// parallelism is the same, otherwise the minimum. Former subtasks whose input had ended do not count, because nothing more came
/// from them. Returns `i64::MIN` if no watermark is left, or if a former subtask had none.
fn restored_watermark(former: &[i64], (subtask, parallelism): (u32, u32)) -> i64 {
    let is_same = former.len() == parallelism as usize;
    let own = former.get(subtask as usize).filter(|_| is_same);
    let counted = own.map_or(former, std::slice::from_ref);
    counted.iter().copied().filter(|ms| *ms < FINAL).min().unwrap_or(i64::MIN)
}

/// Returns how often a generator is asked while no records come, at least 1 ms; `None` if the option is 0: the generator is then
/// asked only after batches, as in Flink.
///
/// # Errors
/// Returns [`TaskError::InvalidOption`] if the option is not a duration.
pub(crate) fn ask_interval(context: &OperatorContext) -> Result<Option<Duration>, TaskError> {
    let interval = context.shared().duration_option(&[INTERVAL], INTERVAL_DEFAULT)?;
    Ok((!interval.is_zero()).then(|| interval.max(Duration::from_millis(1))))
}

/// The operator that assigns event times and emits watermarks and idleness as a [`WatermarkStrategy`] says. Watermarks and idleness of
/// its input end here, except the final watermark. Its state is its newest watermark, which a restored subtask emits before any record.
/// At another parallelism every subtask begins with the smallest one of the former subtasks; former subtasks whose input had ended do not
/// count, and one that had no watermark yet lets all begin without. A watermark that is not greater than the one before is not emitted.
pub struct AssignWatermarks<T, F, G> {
    strategy: WatermarkStrategy<T, F, G>,
    /// The newest watermark, emitted or restored; `i64::MIN` before the first one.
    watermark: i64,
    /// True until the restored watermark is emitted. It goes before all records, so that those behind it are late as they were.
    is_restored: bool,
    activity: Activity,
    /// The interval at which the generator is asked while no records come; `None`: the generator is not asked then.
    ask_every: Option<Duration>,
}

impl<T: Record, F, G> AssignWatermarks<T, F, G> {
    /// Makes the operator of one subtask, without a watermark. If the strategy's generator is asked at intervals, a value of
    /// `pipeline.auto-watermark-interval` that is not a duration fails the task with [`TaskError::InvalidOption`] when the operator opens,
    /// and the job is not restarted.
    pub fn new(strategy: WatermarkStrategy<T, F, G>) -> Self {
        let (watermark, activity) = (i64::MIN, Activity::Busy);
        Self { strategy, watermark, is_restored: false, activity, ask_every: None }
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

    /// Emits the restored watermark, unless it is emitted. Returns true if it does so now.
    fn emit_restored(&mut self, out: &mut Collector<T>) -> bool {
        let is_restored = std::mem::take(&mut self.is_restored);
        if is_restored {
            out.emit(StreamEvent::Watermark(self.watermark));
        }
        is_restored
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
    const HAS_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let former: Result<Vec<i64>, CodecError> =
            context.snapshots()?.iter().map(|state| read_watermark(state)).collect();
        let former = former.map_err(|error| context.codec_error(error))?;
        if context.shared().restored_at_end {
            self.watermark = FINAL;
            return Ok(());
        }
        self.watermark = restored_watermark(&former, (context.subtask(), context.parallelism()));
        if self.watermark > i64::MIN {
            self.is_restored = true;
            context.wake_after(Duration::ZERO, RESTORED);
        }
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
        if self.emit_restored(out) {
            // The batch is handed in again, behind the watermark.
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
            self.is_restored = false;
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
            OperatorMail::Timer { ticket: RESTORED } => {
                self.emit_restored(out);
            }
            // After the final watermark only the end of input follows, so idleness does not matter.
            OperatorMail::Timer { ticket: LOOK } if self.watermark == FINAL => {}
            OperatorMail::Timer { ticket: LOOK } => self.look(out, context),
            OperatorMail::Timer { .. } | OperatorMail::Reply { .. } => {}
        }
        Ok(())
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        Ok(Some(write_watermark(self.watermark)))
    }
}

#[cfg(test)]
mod tests;
