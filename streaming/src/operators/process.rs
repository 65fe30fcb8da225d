//! Functions with a life: opened, called for every record, closed.

use super::{BoxError, Collector, Flow, Operator, OperatorContext};
use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
    types::Record,
};

/// A function over a stream without keys that is opened and closed and may fail, for [`Stream::process`](crate::Stream::process). Each
/// subtask works on a clone of its own, on one thread. The task calls `open`, then `process` for each record, `finish` after the last
/// record of bounded input, and `close` at its end, however it ends. An error fails the task with [`TaskError::User`]. What the clone has
/// in its fields is in no checkpoint: after a restart a fresh clone begins.
///
/// ```
/// use streaming::{
///     operators::{BoxError, Collector, Counter, OperatorContext, ProcessFunction},
///     testing,
/// };
///
/// /// Emits the number of bytes of all lines when the input ends. The metric `bytes` shows the number before.
/// #[derive(Clone, Default)]
/// struct Bytes {
///     seen: Counter,
/// }
///
/// impl ProcessFunction<String> for Bytes {
///     type Out = u64;
///     fn open(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
///         self.seen = context.metrics().counter("bytes")?;
///         Ok(())
///     }
///     fn process(&mut self, line: String, _: &mut Collector<u64>) -> Result<(), BoxError> {
///         self.seen.add(line.len() as u64);
///         Ok(())
///     }
///     fn finish(&mut self, out: &mut Collector<u64>) -> Result<(), BoxError> {
///         out.collect(self.seen.get());
///         Ok(())
///     }
///     fn close(&mut self) {
///         eprintln!("{} bytes were read", self.seen.get());
///     }
/// }
///
/// let mut test = testing::process(Bytes::default()).open()?;
/// test.push("seven".to_owned())?;
/// test.end_of_input()?;
/// assert_eq!((test.output(), test.metric("bytes")), (vec![5], Some(5)));
/// test.close()?;
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub trait ProcessFunction<T>: Clone + Send + 'static {
    /// The type of the emitted records.
    type Out: Record;

    /// Called once per attempt in each subtask, before the first record. Answers to requests that are made with the context, such as
    /// `wake_after` or `spawn_io`, do not reach the function. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task with [`TaskError::User`].
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called for every record, in the order of the input; records of several producers come in any order. Records that it emits get the
    /// event time of `record`, unless it gives them another.
    ///
    /// # Errors
    /// A returned error fails the task with [`TaskError::User`]; `close` is still called.
    fn process(&mut self, record: T, out: &mut Collector<Self::Out>) -> Result<(), BoxError>;
    /// Called after the last record of bounded input; may still emit records, without an event time unless it gives them one. Not called
    /// if the job is cancelled, fails, or is stopped with a savepoint and not drained, nor once more after a restore from a checkpoint
    /// in which the subtask had ended. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn finish(&mut self, _out: &mut Collector<Self::Out>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called once at the end of the task, also if it was cancelled or has failed, and then perhaps without `open` before it. By
    /// default does nothing.
    fn close(&mut self) {}
}

/// Implements `open`, `finish` and `close` of a function by those of the function in a field of it.
macro_rules! lives_as {
    ($field:tt) => {
        fn open(
            &mut self,
            context: &$crate::operators::OperatorContext,
        ) -> Result<(), $crate::operators::BoxError> {
            self.$field.open(context)
        }
        fn finish(
            &mut self,
            out: &mut $crate::operators::Collector<Self::Out>,
        ) -> Result<(), $crate::operators::BoxError> {
            self.$field.finish(out)
        }
        fn close(&mut self) {
            self.$field.close();
        }
    };
}
pub(super) use lives_as;

/// The operator that runs a [`ProcessFunction`]: calls `open`, then `process` for each record, `finish` at the end of input, and `close`.
/// Keeps no state: what the function has in its fields is lost at a restart. Lets watermarks and barriers pass, and drops mail. An error
/// of the function fails the task with [`TaskError::User`].
#[derive(Debug)]
pub struct Process<F> {
    pub(super) function: F,
    finished: bool,
}

impl<F> Process<F> {
    /// Creates the operator of one subtask around its function.
    pub fn new(function: F) -> Self {
        Self { function, finished: false }
    }
}

impl<In, F: ProcessFunction<In>> Operator<In> for Process<F> {
    type Out = F::Out;
    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.function.open(context).map_err(|error| context.user_error(error))
    }
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        out.emit_each(batch, |record, out| {
            self.function.process(record, out).map_err(|error| context.user_error(error))
        })
    }
    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if event == StreamEvent::EndOfInput && !self.finished {
            self.finished = true;
            self.function.finish(out).map_err(|error| context.user_error(error))?;
        }
        Ok(Flow::Done)
    }
    fn close(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        self.function.close();
        Ok(())
    }
    fn dispose(&mut self, _context: &OperatorContext) {
        self.function.close();
    }
}
