//! The operator that runs a sink's writer: hands on what the writer prepares before each barrier, and at the end of input.

use super::{Prepared, Shared, Slot, beside, commits, failed};
use crate::{
    batch::{Batch, NO_TIME},
    lock,
    operators::{BoxError, Collector, Flow, Operator, OperatorContext, OperatorMail},
    seam::{StreamEvent, TaskError},
    sinks::{CommittingSinkWriter, GlobalCommitter, Sink, SinkWriter, WriterContext},
    state::{Share, State, read_share, write_operator_state},
};
use std::sync::atomic::Ordering;

/// The operator's own ticket: the announcement is prepared. The other tickets are the writer's.
const ANNOUNCE: u32 = u32::MAX;

/// Receives the announcement of a writer.
type Announced<C> = Slot<Result<Option<C>, BoxError>>;

/// Runs the [`SinkWriter`] of one subtask. Emits the writer's announcement, and before each barrier and at the end of input the
/// committables that the writer has prepared; none at barriers after the end. A barrier, and the end of input, wait for the announcement
/// and while the writer flushes. After the first complete checkpoint the operator has the writer delete leftovers of earlier attempts,
/// unless the global committer commits only at the end.
pub struct SinkWriterOperator<T, S: Sink<T>> {
    sink: Shared<S>,
    /// Made when the task opens.
    writer: Option<S::Writer>,
    watermark: Option<i64>,
    /// Receives the writer's announcement while it is being prepared.
    announcing: Option<Announced<S::Committable>>,
    /// True while the writer flushes for the event at hand.
    flushing: bool,
    /// True once the end of input was seen: everything is prepared, and no committable may be emitted any more, because nothing
    /// follows the end of input on an edge.
    ended: bool,
    /// True once the writer was told to abort what earlier attempts left over.
    aborted: bool,
}

impl<T, S: Sink<T>> SinkWriterOperator<T, S> {
    /// Makes the operator of one subtask. The writer is created when the task opens.
    pub fn new(sink: Shared<S>) -> Self {
        let (writer, watermark, announcing) = (None, None, None);
        Self { sink, writer, watermark, announcing, flushing: false, ended: false, aborted: false }
    }

    /// Begins to prepare the writer's announcement, if it has one.
    fn announce(&mut self, context: &OperatorContext) {
        let (_, globally) = commits::<T, S>();
        let Some(writer) = self.writer.as_mut().filter(|_| globally && !self.ended) else { return };
        let Some(announcement) = writer.announce(context) else { return };
        self.announcing = Some(beside(announcement, ANNOUNCE, context));
    }

    /// Flushes the writer, and emits what it prepares.
    fn prepare(
        &mut self,
        end_of_input: bool,
        out: &mut Collector<Prepared<S::Committable>>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        let Some(writer) = &mut self.writer else { return Ok(Flow::Done) };
        if self.announcing.is_some() {
            return Ok(Flow::Waiting);
        }
        if !std::mem::replace(&mut self.flushing, true) {
            writer.flush(end_of_input, context).map_err(|error| failed(context, error))?;
        }
        if writer.is_flushing() {
            return Ok(Flow::Waiting);
        }
        self.flushing = false;
        self.ended |= end_of_input;
        let prepared = writer.prepare_commit().map_err(|error| failed(context, error))?;
        out.collect_all(prepared.into_iter().map(Prepared::Committable));
        Ok(Flow::Done)
    }

    fn close_writer(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.close();
        }
    }
}

impl<T: Send + 'static, S: Sink<T>> Operator<T> for SinkWriterOperator<T, S> {
    type Out = Prepared<S::Committable>;
    const HAS_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        // Then the operator does not see the end of input again, and may emit nothing.
        self.ended = context.shared().restored_at_end;
        let created = lock(&self.sink).create_writer(context);
        let writer = self.writer.insert(created.map_err(|error| failed(context, error))?);
        writer.open(context).map_err(|error| failed(context, error))?;
        if context.is_restored() {
            let share = Share::new(context.subtask(), context.parallelism());
            let read = read_share(&context.snapshots()?, share);
            let (state, dropped) = read.map_err(|error| failed(context, error.into()))?;
            context.note_dropped(dropped);
            writer.restore_state(state, context).map_err(|error| failed(context, error))?;
        }
        self.announce(context);
        Ok(())
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<Prepared<S::Committable>>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut at =
            WriterContext { operator: context, timestamp: None, watermark: self.watermark };
        batch.try_each_while(|record, time| {
            at.timestamp = (time != NO_TIME).then_some(time);
            writer.write(record, &at).map_err(|error| failed(context, error))?;
            Ok(out.should_continue() && !writer.is_full())
        })
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<Prepared<S::Committable>>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        match event {
            StreamEvent::Watermark(ms) => self.watermark = Some(ms),
            StreamEvent::Barrier(barrier) if !self.ended => {
                let flow = self.prepare(false, out, context)?;
                if flow == Flow::Done
                    && barrier.savepoint
                    && let Some(writer) = &mut self.writer
                {
                    writer.keep(context).map_err(|error| failed(context, error))?;
                }
                return Ok(flow);
            }
            StreamEvent::EndOfInput if !self.ended => return self.prepare(true, out, context),
            StreamEvent::Idle(_) | StreamEvent::Barrier(_) | StreamEvent::EndOfInput => {}
        }
        Ok(Flow::Done)
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<Prepared<S::Committable>>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        if let OperatorMail::Reply { ticket: ANNOUNCE, result } = &mail
            && let Some(slot) = self.announcing.take()
        {
            if let Err(why) = result {
                return Err(context.io_error("the writer could not announce itself", why));
            }
            let announced = lock(&slot).take().unwrap_or(Ok(None));
            let announced = announced.map_err(|error| failed(context, error))?;
            out.collect_all(announced.map(Prepared::Announcement));
            return Ok(());
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.mail(mail, context).map_err(|error| failed(context, error))
    }

    fn full(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.is_full())
    }

    fn snapshot(
        &mut self,
        checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        let Some(writer) = &mut self.writer else { return Ok(None) };
        if <S::Writer as CommittingSinkWriter<T>>::State::declare().is_empty() {
            return Ok(None);
        }
        let state = writer.snapshot_state(checkpoint).map_err(|error| failed(context, error))?;
        let bytes = write_operator_state(&state).map_err(|error| failed(context, error.into()))?;
        Ok(Some(bytes))
    }

    fn notify_complete(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        // What waits for the end is in checkpoints until then, and only the global committer has it.
        let waits = <S::GlobalCommitter as GlobalCommitter<S::Committable>>::ONLY_AT_END;
        let aborts = !waits || <S::Writer as CommittingSinkWriter<T>>::ABORTS_BEFORE_END;
        match &mut self.writer {
            Some(writer) if aborts && !std::mem::replace(&mut self.aborted, true) => {
                writer.abort_leftovers(context).map_err(|error| failed(context, error))
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        self.close_writer();
        Ok(())
    }

    fn dispose(&mut self, context: &OperatorContext) {
        // An announcement that was not emitted reaches no committer, for example if another operator of the chain cannot be restored.
        let unheard = self.announcing.is_some();
        if let Some(writer) = &mut self.writer
            && (unheard || context.shared().cancelled.load(Ordering::Relaxed))
        {
            writer.withdraw();
        }
        self.close_writer();
    }
}
