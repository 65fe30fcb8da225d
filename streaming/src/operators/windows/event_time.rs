//! Windows that are fired by watermarks.

use super::store::{WindowStore, state_in_store};
use crate::{
    batch::{Batch, NO_TIME},
    operators::{Collector, Flow, Operator, OperatorContext, OperatorMail},
    seam::{StreamEvent, TaskError},
};

/// The operator that groups the records of each key by windows of event time, which are in the store `W`, and emits the results of a window
/// once the watermark has reached its last millisecond, before the watermark goes on. The final watermark of bounded input fires all
/// windows. A record of a window that has fired fires the window again for its key within the allowed lateness, an extended session at
/// its new end; after that time the record goes to the side output of late records, or is dropped and counted. A record without an event
/// time fails the task with [`TaskError::Input`], so that the job is not restarted.
pub struct EventTimeWindows<S, W> {
    selector: S,
    store: W,
}

impl<S, W> EventTimeWindows<S, W> {
    /// Makes the operator of one subtask over the windows in `store`.
    pub(crate) fn new(selector: S, store: W) -> Self {
        Self { selector, store }
    }

    /// Returns the windows.
    #[cfg(test)]
    pub(super) fn store(&self) -> &W {
        &self.store
    }

    /// Returns the number of records that this attempt of the subtask has dropped because they came after the end of the allowed
    /// lateness; 0 if a side output takes such records. REST shows it as the metric `numLateRecordsDropped`.
    pub fn late_records<T>(&self) -> u64
    where
        W: WindowStore<T, S>,
    {
        self.store.late_records()
    }
}

/// Returns the smallest and the greatest event time of a batch, in milliseconds since 1970; `None` if the batch is empty.
///
/// # Errors
/// Returns an error if a record has no event time.
fn extent<T>(batch: &Batch<T>, context: &OperatorContext) -> Result<Option<(i64, i64)>, TaskError> {
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

impl<T, S, W> Operator<T> for EventTimeWindows<S, W>
where
    T: Send + 'static,
    S: Send,
    W: WindowStore<T, S>,
{
    type Out = W::Out;
    const HAS_STATE: bool = true;
    const ONLY_KEYED_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.store.open(context)
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        match extent(batch, context)? {
            Some(extent) => self.store.add(&self.selector, batch, extent, out, context),
            None => Ok(()),
        }
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.store.mail(&self.selector, mail, out, context)
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<W::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if self.store.waits() {
            return Ok(Flow::Waiting);
        }
        match event {
            StreamEvent::Watermark(ms) => self.store.fire(ms, out, context),
            StreamEvent::Barrier(_) | StreamEvent::Idle(_) | StreamEvent::EndOfInput => {
                Ok(Flow::Done)
            }
        }
    }

    state_in_store!();
}
