//! Tumbling and sliding windows over event time.

use super::{WindowFolding, core::WindowCore, slices::Slices};
use crate::{
    batch::{Batch, NO_TIME},
    operators::{Collector, Flow, KeySelector, Keyed, Operator, OperatorContext},
    seam::{StreamEvent, TaskError},
    state::StateDeclaration,
};

/// Puts the records of each key together by windows of event time, and emits for each window when the watermark has passed
/// it.
pub struct EventTimeWindows<T, S: KeySelector<T>, F: WindowFolding<S::Key, T>> {
    selector: S,
    core: WindowCore<T, S, F>,
}

impl<T, S: KeySelector<T>, F: WindowFolding<S::Key, T>> EventTimeWindows<T, S, F> {
    /// Returns the declaration of its state.
    pub fn declare() -> Vec<StateDeclaration> {
        WindowCore::<T, S, F>::declare()
    }

    /// Makes one whose windows take late records for `lateness_ms` milliseconds after their end.
    pub(crate) fn new(selector: S, folding: F, slices: Slices, lateness_ms: i64) -> Self {
        Self { selector, core: WindowCore::new(folding, slices, lateness_ms) }
    }

    /// Returns how many records were dropped since the start because they came after the end of the allowed lateness.
    pub fn late_records(&self) -> u64 {
        self.core.late
    }
}

/// Returns the smallest and the greatest time of a batch; `None` where it is empty.
///
/// # Errors
/// When a record has no event time.
pub(super) fn extent<T>(
    batch: &Batch<T>,
    context: &OperatorContext,
) -> Result<Option<(i64, i64)>, TaskError> {
    let times = batch.times();
    let (mut least, mut greatest) = (i64::MAX, NO_TIME);
    for time in times {
        least = least.min(*time);
        greatest = greatest.max(*time);
    }
    if batch.is_empty() {
        return Ok(None);
    }
    if times.len() < batch.len() || least == NO_TIME {
        return Err(context.input_error(
            "has a record without an event time, which a window of event time needs: call assign_timestamps_and_watermarks on the stream before it is keyed",
        ));
    }
    Ok(Some((least, greatest)))
}

impl<T, S, F> Operator<T> for EventTimeWindows<T, S, F>
where
    T: Send + 'static,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
{
    type Out = F::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.core.open(context)
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Some((least, greatest)) = extent(batch, context)? else { return Ok(()) };
        let Self { selector, core } = self;
        let mut pane = core.slices.pane_at(least);
        if greatest <= pane.last && core.is_ahead(&pane) {
            return core.add_all(selector, &pane, batch, out, context);
        }
        batch.try_each_while(|record, time| {
            if time < pane.first || time > pane.last {
                pane = core.slices.pane_at(time);
            }
            core.add_one(Keyed::new(selector, record), &pane, time, out, context)?;
            Ok(out.goes_on())
        })
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        match event {
            StreamEvent::Watermark(ms) => self.core.fire(ms, out, context),
            StreamEvent::Barrier(_) | StreamEvent::Idle(_) | StreamEvent::EndOfInput => {
                Ok(Flow::Done)
            }
        }
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        self.core.snapshot(context).map(Some)
    }
}
