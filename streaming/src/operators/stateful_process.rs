//! Functions with operator state: state that belongs to their subtask and to no key.

use super::{
    BoxError, Collector, Flow, Operator, OperatorContext, Process, ProcessFunction, keyed::failed,
};
use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
    state::{ListSnapshot, OperatorState, Share, Slice, read_share},
    types::Record,
};

/// A function with state of its subtask, such as records that it has begun to collect or values that concern all records. Each subtask
/// works on its own clone. The state is in checkpoints, but not what the clone has in its own fields; at a restore its lists are, as their
/// types say, given as a whole to every subtask, or dealt out anew if the parallelism is another one. State of keys belongs into a
/// [`KeyedProcessFunction`](super::KeyedProcessFunction). There are no timers. The task calls `open` with the restored state, then
/// `process` for each record, `finish` after the last record of bounded input, and `close` at its end, however it ends. An error fails the
/// task with [`TaskError::User`].
///
/// ```
/// use streaming::{
///     Stream,
///     operators::{BoxError, Collector, StatefulProcessFunction},
///     state::{ListState, OperatorState},
/// };
///
/// /// Emits records in packets of ten.
/// #[derive(Clone)]
/// struct Packets;
///
/// #[derive(OperatorState)]
/// # #[flott(crate = streaming)]
/// struct Begun {
///     records: ListState<u64>,
/// }
///
/// impl StatefulProcessFunction<u64> for Packets {
///     type State = Begun;
///     type Out = Vec<u64>;
///     fn process(
///         &mut self,
///         record: u64,
///         begun: &mut Begun,
///         out: &mut Collector<Vec<u64>>,
///     ) -> Result<(), BoxError> {
///         begun.records.push(record);
///         if begun.records.get()?.len() == 10 {
///             out.collect(begun.records.take()?);
///         }
///         Ok(())
///     }
///     fn finish(
///         &mut self,
///         begun: &mut Begun,
///         out: &mut Collector<Vec<u64>>,
///     ) -> Result<(), BoxError> {
///         out.collect(begun.records.take()?);
///         Ok(())
///     }
///     fn close(&mut self) {
///         eprintln!("no more packets are made");
///     }
/// }
///
/// fn packets(numbers: &Stream<u64>) -> Stream<Vec<u64>> {
///     numbers.process_with_state(Packets)
/// }
/// ```
pub trait StatefulProcessFunction<T>: Clone + Send + 'static {
    /// The state of a subtask: a struct with `#[derive(OperatorState)]`.
    type State: OperatorState;
    /// The type of the emitted records.
    type Out: Record;

    /// Called once per attempt, before the first record, with the restored state or an empty one, which it may change. Answers to requests
    /// that are made with the context do not reach the function. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn open(
        &mut self,
        _state: &mut Self::State,
        _context: &OperatorContext,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called for every record with the subtask's state, which it changes in place. Records that it emits get the event time of `record`,
    /// unless it gives them another.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process(
        &mut self,
        record: T,
        state: &mut Self::State,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called after the last record of bounded input; may still emit records, without an event time unless it gives them one. Not called
    /// if the job is cancelled, fails, or is stopped with a savepoint and not drained, nor once more after a restore from a checkpoint
    /// in which the subtask had ended. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn finish(
        &mut self,
        _state: &mut Self::State,
        _out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called once at the end of the task, also if it was cancelled or has failed, and then perhaps without `open` before it. By
    /// default does nothing.
    fn close(&mut self) {}
}

/// A function joined with its state, which makes it a [`ProcessFunction`].
struct Holding<F, S> {
    function: F,
    state: S,
}

impl<F: Clone, S: OperatorState> Clone for Holding<F, S> {
    /// Clones the function and begins with an empty state, because a clone works in another subtask.
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), state: S::empty() }
    }
}

impl<T, S: OperatorState, F: StatefulProcessFunction<T, State = S>> ProcessFunction<T>
    for Holding<F, S>
{
    type Out = F::Out;
    fn open(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        self.function.open(&mut self.state, context)
    }
    fn process(&mut self, record: T, out: &mut Collector<F::Out>) -> Result<(), BoxError> {
        self.function.process(record, &mut self.state, out)
    }
    fn finish(&mut self, out: &mut Collector<F::Out>) -> Result<(), BoxError> {
        self.function.finish(&mut self.state, out)
    }
    fn close(&mut self) {
        self.function.close();
    }
}

/// The operator that runs a [`StatefulProcessFunction`] with the state of its subtask. When it opens it restores its share of the state of
/// all former subtasks; at each barrier it begins to write its state, in slices while later records come. An error of the function fails
/// the task with [`TaskError::User`], state of another type than the program's with [`TaskError::Deployment`], and damaged state with
/// [`TaskError::Restore`].
pub struct StatefulProcess<F, S> {
    process: Process<Holding<F, S>>,
    snapshot: ListSnapshot,
}

impl<F, S: OperatorState> StatefulProcess<F, S> {
    /// Makes the operator of one subtask, with an empty state.
    pub fn new(function: F) -> Self {
        let process = Process::new(Holding { function, state: S::empty() });
        Self { process, snapshot: ListSnapshot::default() }
    }
}

/// The access of a test (`testing::OperatorHarness`) to the operator state, the state per subtask, of an operator; [`StatefulProcess`] has
/// it.
pub trait InspectOperatorState {
    /// The type of the state.
    type State;
    /// Returns the subtask's state, which a test may also change; mutable because reading a list needs `&mut`.
    fn operator_state(&mut self) -> &mut Self::State;
}

impl<F, S> InspectOperatorState for StatefulProcess<F, S> {
    type State = S;
    fn operator_state(&mut self) -> &mut S {
        &mut self.process.function.state
    }
}

impl<T, S, F> Operator<T> for StatefulProcess<F, S>
where
    S: OperatorState,
    F: StatefulProcessFunction<T, State = S>,
{
    type Out = F::Out;
    const HAS_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let share = Share::new(context.subtask(), context.parallelism());
        if context.is_restored() {
            let read = read_share(&context.snapshots()?, share);
            let (state, dropped) = read.map_err(|error| failed(context, error))?;
            self.process.function.state = state;
            context.note_dropped(dropped);
        }
        self.process.open(context)
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.process.process(batch, out, context)
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        self.process.event(event, out, context)
    }

    fn begin_snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        self.snapshot.begin(&mut self.process.function.state, context.subtask());
        Ok(true)
    }

    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        let written = self.snapshot.write(&mut self.process.function.state, slice);
        written.map_err(|error| failed(context, error))
    }

    fn abort_snapshot(&mut self) -> bool {
        self.snapshot.abort();
        true
    }

    fn close(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        Operator::<T>::close(&mut self.process, context)
    }

    fn dispose(&mut self, context: &OperatorContext) {
        Operator::<T>::dispose(&mut self.process, context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chain::NoConsumer,
        operators::SideOutputs,
        seam::Interrupt,
        state::{ListState, UnionListState},
    };

    #[derive(derive::OperatorState)]
    #[flott(crate = crate)]
    struct Seen {
        all: ListState<u64>,
        maxima: UnionListState<u64>,
    }

    /// Keeps all numbers and forgets them at 0.
    #[derive(Clone)]
    struct Keep;

    impl StatefulProcessFunction<u64> for Keep {
        type State = Seen;
        type Out = u64;
        fn process(
            &mut self,
            n: u64,
            seen: &mut Seen,
            _out: &mut Collector<u64>,
        ) -> Result<(), BoxError> {
            if n == 0 {
                seen.all.take()?;
                seen.maxima.clear();
            }
            seen.all.push(n);
            seen.maxima.push(n);
            Ok(())
        }
    }

    fn run(
        operator: &mut StatefulProcess<Keep, Seen>,
        numbers: impl Iterator<Item = u64>,
        context: &OperatorContext,
    ) {
        let (sides, interrupt) = (SideOutputs::default(), Interrupt::default());
        let mut out = Collector::new(Box::new(NoConsumer), sides, interrupt);
        let mut batch = Batch::from(numbers.collect::<Vec<_>>());
        operator.process(&mut batch, &mut out, context).unwrap();
        assert!(batch.is_empty());
    }

    #[test]
    fn state_at_the_barrier_is_written_while_records_change_it() {
        let context = OperatorContext::for_tests(0, 1);
        for aborted in [false, true] {
            let mut operator = StatefulProcess::<Keep, Seen>::new(Keep);
            run(&mut operator, 1..10_000, &context);
            let begun = Operator::<u64>::begin_snapshot(&mut operator, 1, &context).unwrap();
            assert!(begun);
            run(&mut operator, 10_000..10_100, &context);
            let mut slice = Slice::new(1_000, 1_000, &|| true);
            let mut write = |operator: &mut StatefulProcess<Keep, Seen>| {
                let done = Operator::<u64>::write_snapshot(operator, &mut slice, &context);
                (done.unwrap(), std::mem::take(&mut slice.chunks))
            };
            assert!(!write(&mut operator).0);
            run(&mut operator, 0..5, &context);
            if aborted {
                assert!(Operator::<u64>::abort_snapshot(&mut operator));
                assert_eq!(write(&mut operator), (true, Vec::new()));
                continue;
            }
            let mut slice = Slice::whole();
            assert!(Operator::<u64>::write_snapshot(&mut operator, &mut slice, &context).unwrap());
            let snapshots = slice.chunks.iter().map(|chunk| chunk.bytes.to_vec()).collect();
            let context = OperatorContext::for_tests(0, 1).restoring(snapshots);
            let mut restored = StatefulProcess::<Keep, Seen>::new(Keep);
            Operator::<u64>::open(&mut restored, &context).unwrap();
            let state = restored.operator_state();
            assert!(state.all.get().unwrap().iter().copied().eq(1..10_000));
            assert!(state.maxima.get().unwrap().iter().copied().eq(1..10_000));
            assert_eq!(operator.operator_state().all.get().unwrap(), [0, 1, 2, 3, 4]);
        }
    }
}
