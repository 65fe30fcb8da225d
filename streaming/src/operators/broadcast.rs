//! Functions over a stream and a broadcast one. Every subtask gets all records of the broadcast stream and keeps the same state
//! of them, such as rules, which it reads for the records of the first stream.
//!
//! Every subtask holds the broadcast state in memory. Only the first subtask writes it into snapshots, and all subtasks are
//! restored from that. It is one value, which is encoded at the barrier as a whole; the keyed state of the function is written while
//! records come.

mod reading;

pub use reading::Reading;

use super::{
    BoxError, Collector, Context, Either, Flow, InspectKeyed, Operator, OperatorContext,
    OperatorMail, Timer, keyed::failed,
};
use crate::{
    batch::{Batch, Columns},
    seam::{StreamEvent, TaskError},
    state::{Slice, State, StateDeclaration, StateError},
    types::{CodecError, FlottType, Reader, Record, check_written, fingerprint, structure},
};
use std::{collections::BTreeMap, marker::PhantomData};

/// A function over a keyed stream and a broadcast one. Each subtask works on its own clone, with state and timers per key and a copy of the
/// broadcast state in memory, which only `process_broadcast` changes. State and timers of keys are in checkpoints; subtask 0 alone writes
/// the broadcast state to them, all restore it. The task calls `create_broadcast` and `open`, then `process` and `process_broadcast` for
/// the records and `on_timer` for timers that are due, `finish` after the last record of both bounded inputs, and `close` at its end,
/// however it ends. An error fails the task with `TaskError::User`.
///
/// ```
/// use std::collections::BTreeMap;
/// use streaming::operators::{BoxError, Collector, Context, KeyedBroadcastProcessFunction};
///
/// /// Lets payments through that are above the limit of their country. Limits come as `(country, cents)`.
/// #[derive(Clone)]
/// struct Limits;
///
/// impl KeyedBroadcastProcessFunction<String, (String, u64), (String, u64)> for Limits {
///     type State = Option<u64>;
///     type Broadcast = BTreeMap<String, u64>;
///     type Out = (String, u64);
///
///     fn create_broadcast(&self) -> BTreeMap<String, u64> {
///         BTreeMap::new()
///     }
///     fn process(
///         &mut self,
///         (country, cents): (String, u64),
///         seen: &mut Option<u64>,
///         limits: &BTreeMap<String, u64>,
///         _ctx: &mut Context<'_, String>,
///         out: &mut Collector<(String, u64)>,
///     ) -> Result<(), BoxError> {
///         *seen.get_or_insert(0) += 1;
///         if limits.get(&country).is_some_and(|limit| cents > *limit) {
///             out.collect((country, cents));
///         }
///         Ok(())
///     }
///     fn process_broadcast(
///         &mut self,
///         (country, cents): (String, u64),
///         limits: &mut BTreeMap<String, u64>,
///         _out: &mut Collector<(String, u64)>,
///     ) -> Result<(), BoxError> {
///         limits.insert(country, cents);
///         Ok(())
///     }
///     /// Emits a last record, which has no country.
///     fn finish(&mut self, out: &mut Collector<(String, u64)>) -> Result<(), BoxError> {
///         out.collect((String::new(), 0));
///         Ok(())
///     }
///     fn close(&mut self) {
///         eprintln!("no more payments are looked at");
///     }
/// }
///
/// fn by_country((country, _): &(String, u64)) -> &String {
///     country
/// }
/// let mut test = streaming::testing::keyed_broadcast(by_country, Limits).open()?;
/// let of_sweden = |cents| ("se".to_owned(), cents);
/// test.push2(of_sweden(1_000))?;
/// test.push1(of_sweden(1_000))?;
/// test.push1(of_sweden(1_001))?;
/// test.end_of_input()?;
/// assert_eq!(test.output(), [of_sweden(1_001), (String::new(), 0)]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub trait KeyedBroadcastProcessFunction<K, A, B>: Clone + Send + 'static {
    /// The state of one key: a struct with `#[derive(State)]`, or an `Option<V>` alone for a single value.
    type State: State;
    /// The state of the broadcast stream, the same in every subtask: a map, a list, a struct.
    type Broadcast: FlottType;
    /// The type of the emitted records.
    type Out: Record;

    /// Returns the broadcast state before the first record of the broadcast stream. Called once per attempt in each subtask, before
    /// `open`; a state that is restored replaces the returned one.
    fn create_broadcast(&self) -> Self::Broadcast;
    /// Called once per attempt in each subtask, before the first record of either stream; can reach neither state of keys nor the
    /// broadcast state. Answers to requests that are made with the context do not reach the function. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called for every record of the keyed stream with the state of its key (an empty one if the key has none), which it changes in place,
    /// and with the current broadcast state. A key whose state is empty afterwards is removed; its timers stay. Records that it emits get
    /// the event time of `record`, unless it gives them another. The order between records of the two streams is undefined.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process(
        &mut self,
        record: A,
        state: &mut Self::State,
        broadcast: &Self::Broadcast,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called in every subtask for every record of the broadcast stream; records that it emits get that record's event time unless it
    /// gives them another, and every subtask emits them. State and timers of keys cannot be reached. Changes of the broadcast state must
    /// depend on the records alone, and not on the order in which records of several producers arrive: otherwise the state differs between
    /// subtasks.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process_broadcast(
        &mut self,
        record: B,
        broadcast: &mut Self::Broadcast,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called once for every timer that is due, with the state of its key (an empty one if the key has none) and the current broadcast
    /// state, as [`KeyedProcessFunction::on_timer`](super::KeyedProcessFunction::on_timer) is: records that it emits get the moment of a
    /// timer of event time as their event time, and none for a timer of processing time. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn on_timer(
        &mut self,
        _timer: Timer,
        _state: &mut Self::State,
        _broadcast: &Self::Broadcast,
        _ctx: &mut Context<'_, K>,
        _out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called after the last record of both inputs and the timers that fire there; can reach neither state of keys nor the broadcast
    /// state. May still emit records, without an event time unless it gives them one. Not called if the job is cancelled, fails, or is
    /// stopped with a savepoint and not drained, nor once more after a restore from a checkpoint in which the subtask had ended. By
    /// default does nothing.
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

/// A function over a stream without keys and a broadcast one, otherwise like [`KeyedBroadcastProcessFunction`]: each subtask works on its
/// own clone, with a copy of the broadcast state in memory, which only `process_broadcast` changes. There is no state of keys and there are
/// no timers. Only the broadcast state is in checkpoints, written by subtask 0 and restored by all.
pub trait BroadcastProcessFunction<A, B>: Clone + Send + 'static {
    /// The state of the broadcast stream, the same in every subtask: a map, a list, a struct.
    type Broadcast: FlottType;
    /// The type of the emitted records.
    type Out: Record;

    /// Returns the broadcast state before the first record of the broadcast stream. Called once per attempt in each subtask, before
    /// `open`; a state that is restored replaces the returned one.
    fn create_broadcast(&self) -> Self::Broadcast;
    /// Called once per attempt in each subtask, before the first record of either stream; does not get the broadcast state. Answers to
    /// requests that are made with the context do not reach the function. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called for every record of the first stream with the current broadcast state. Records that it emits get the event time of
    /// `record`, unless it gives them another. The order between records of the two streams is undefined.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process(
        &mut self,
        record: A,
        broadcast: &Self::Broadcast,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called in every subtask for every record of the broadcast stream; records that it emits get that record's event time unless it
    /// gives them another, and every subtask emits them. Changes of the state must depend on the records alone, and not on the order in
    /// which records of several producers arrive: otherwise the state differs between subtasks.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process_broadcast(
        &mut self,
        record: B,
        broadcast: &mut Self::Broadcast,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called after the last record of both inputs; may still emit records, without an event time unless it gives them one. Not called if
    /// the job is cancelled, fails, or is stopped with a savepoint and not drained, nor once more after a restore from a checkpoint in
    /// which the subtask had ended. By default does nothing.
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

/// The operator over the first stream (records `A`) inside a [`BroadcastOperator`], which alone calls these methods. Its function also
/// takes the records `B` of the broadcast stream, from which each subtask builds the same state, the broadcast state: `take` hands it one,
/// and `broadcast`, `broadcast_mut` and `beside` serve snapshots and restores. A [`Process`](super::Process) or
/// [`KeyedOperator`](super::KeyedOperator) around a [`Reading`] implements it.
pub trait TakesBroadcast<A, B>: Operator<A> {
    /// The type of the broadcast state.
    type Broadcast: FlottType;
    /// Calls the function's `process_broadcast` with a record of the broadcast stream, which may change the broadcast state and emit.
    /// Records that it emits with [`Collector::collect`] get the event time that `out` has: the caller sets the record's before.
    ///
    /// # Errors
    /// Returns the error of the function.
    fn take(&mut self, record: B, out: &mut Collector<Self::Out>) -> Result<(), BoxError>;
    /// Returns this subtask's copy of the broadcast state. [`BroadcastOperator`] encodes it at a barrier, in subtask 0 alone.
    fn broadcast(&self) -> &Self::Broadcast;
    /// Returns this subtask's copy of the broadcast state, to be replaced by the restored one.
    fn broadcast_mut(&mut self) -> &mut Self::Broadcast;
    /// Returns the buffer for the encoded broadcast state: what the caller puts in, the operator adds to its next snapshot and takes out
    /// of the buffer. After `open` the buffer has what the restored snapshots had there; empty if nothing was found. `None` if the
    /// operator writes no state, so that the caller writes the snapshot itself.
    fn beside(&mut self) -> Option<&mut Vec<u8>>;
}

/// The name of broadcast state.
pub(super) const BROADCAST: &str = "broadcast";

/// Returns the declaration of broadcast state of type `V` for the job graph.
pub(crate) fn broadcast_state<V: FlottType>() -> StateDeclaration {
    StateDeclaration {
        name: BROADCAST.to_owned(),
        kind: StateDeclaration::BROADCAST.to_owned(),
        schemas: BTreeMap::from([("value".to_owned(), fingerprint::<V>())]),
        types: BTreeMap::from([("value".to_owned(), structure::<V>())]),
        ttl_ms: None,
        settings: None,
    }
}

const VERSION: u8 = 2;
/// Before, the state of the operator over the first stream was inside of the broadcast state.
pub(super) const OTHER_VERSION: &str = "version of a broadcast state, which is not version 2";

/// The operator over a stream and a broadcast stream: hands the records of the first one to `Op`, and those of the broadcast stream to the
/// function inside of `Op`. Subtask 0 alone writes the broadcast state to checkpoints; every subtask restores it. Snapshots are full ones,
/// also with `execution.checkpointing.incremental`. Broadcast state of another type than the program's fails the task with
/// [`TaskError::Deployment`], damaged state with [`TaskError::Restore`].
pub struct BroadcastOperator<Op, A, B> {
    operator: Op,
    /// Consecutive records of the first stream in a batch; empty between batches.
    run: Batch<A>,
    broadcast: PhantomData<fn(B)>,
}

impl<A, B, Op: TakesBroadcast<A, B>> BroadcastOperator<Op, A, B> {
    /// Makes the operator of one subtask around the operator over the first stream.
    pub fn new(operator: Op) -> Self {
        Self { operator, run: Batch::default(), broadcast: PhantomData }
    }

    /// Returns the broadcast state as bytes, in the first subtask alone: a version byte, the fingerprint of its type, and its value.
    fn written(&self, context: &OperatorContext) -> Result<Vec<u8>, TaskError> {
        let mut bytes = Vec::new();
        if context.subtask() == 0 {
            bytes.push(VERSION);
            fingerprint::<Op::Broadcast>().encode(&mut bytes);
            self.operator.broadcast().encode(&mut bytes);
        }
        check_written().map_err(|error| context.codec_error(error))?;
        context.one_piece.written(context.name(), bytes.len());
        Ok(bytes)
    }

    /// Restores the broadcast state from what [`BroadcastOperator::written`] returned.
    fn restore(&mut self, written: &[u8]) -> Result<(), StateError> {
        let mut input = Reader::new(written);
        if input.byte()? != VERSION {
            return Err(CodecError::Invalid { what: OTHER_VERSION }.into());
        }
        let (written, declared) = (String::decode(&mut input)?, fingerprint::<Op::Broadcast>());
        if written != declared {
            let declared = format!("{}, {declared}", structure::<Op::Broadcast>());
            return Err(StateError::Schema { name: BROADCAST.to_owned(), written, declared });
        }
        *self.operator.broadcast_mut() = Op::Broadcast::decode(&mut input)?;
        input.finish()?;
        Ok(())
    }
}

/// The access of a test (`testing::OperatorHarness`) to the broadcast state of an operator; [`BroadcastOperator`] has it.
pub trait InspectBroadcast {
    /// The type of the broadcast state.
    type State;
    /// Returns the broadcast state as the operator's subtask has it now.
    fn broadcast_state(&self) -> &Self::State;
}

impl<A, B, Op: TakesBroadcast<A, B>> InspectBroadcast for BroadcastOperator<Op, A, B> {
    type State = Op::Broadcast;
    fn broadcast_state(&self) -> &Op::Broadcast {
        self.operator.broadcast()
    }
}

impl<A, B, Op: InspectKeyed> InspectKeyed for BroadcastOperator<Op, A, B> {
    type Key = Op::Key;
    type State = Op::State;
    fn state(&self, key: &Op::Key) -> Option<&Op::State> {
        self.operator.state(key)
    }
    fn timers(&self) -> Vec<(Op::Key, Timer)> {
        self.operator.timers()
    }
}

impl<A, B, Op> Operator<Either<A, B>> for BroadcastOperator<Op, A, B>
where
    A: Send,
    Op: TakesBroadcast<A, B>,
{
    type Out = Op::Out;
    const HAS_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        if self.operator.beside().is_none() {
            while let Some(snapshot) = context.next_snapshot()? {
                self.restore(&snapshot).map_err(|error| failed(context, error))?;
            }
        }
        self.operator.open(context)?;
        let beside = self.operator.beside().map(std::mem::take).unwrap_or_default();
        if beside.is_empty() {
            return Ok(());
        }
        self.restore(&beside).map_err(|error| failed(context, error))
    }

    fn process(
        &mut self,
        batch: &mut Batch<Either<A, B>>,
        out: &mut Collector<Op::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { operator, run, .. } = self;
        // A broadcast record whose turn has not come, because records of the first stream before it are left.
        let mut kept = None;
        let columns = Columns { times: true, hashes: true };
        batch.try_each(columns, |record, time, hash| match record {
            Either::Left(record) => {
                match hash {
                    Some(hash) => run.push_hashed(record, time, hash),
                    None => run.push(record, time),
                }
                Ok(true)
            }
            Either::Right(record) => {
                if !run.is_empty() {
                    operator.process(run, out, context)?;
                }
                if !run.is_empty() {
                    kept = Some((record, time));
                    return Ok(false);
                }
                out.set_time(time);
                operator.take(record, out).map_err(|error| context.user_error(error))?;
                Ok(out.should_continue())
            }
        })?;
        if !run.is_empty() && kept.is_none() {
            operator.process(run, out, context)?;
        }
        if !run.is_empty() {
            // The step was interrupted: these records are handed in again, before the others.
            let mut rest = std::mem::take(run).wrap(Either::Left);
            if let Some((record, time)) = kept {
                rest.push(Either::Right(record), time);
            }
            rest.append(batch);
            *batch = rest;
        }
        Ok(())
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<Op::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        self.operator.event(event, out, context)
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<Op::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.operator.mail(mail, out, context)
    }

    fn full(&self) -> bool {
        self.operator.full()
    }

    fn state_bytes(&self) -> Option<u64> {
        self.operator.state_bytes()
    }

    fn abort_snapshot(&mut self) -> bool {
        self.operator.abort_snapshot()
    }

    fn begin_snapshot(
        &mut self,
        checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        let written = self.written(context)?;
        let Some(beside) = self.operator.beside() else { return Ok(false) };
        *beside = written;
        self.operator.begin_snapshot(checkpoint, context)
    }

    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        self.operator.write_snapshot(slice, context)
    }

    fn snapshot(
        &mut self,
        checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        let written = self.written(context)?;
        let Some(beside) = self.operator.beside() else {
            return Ok((!written.is_empty()).then_some(written));
        };
        *beside = written;
        self.operator.snapshot(checkpoint, context)
    }

    fn close(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.operator.close(context)
    }

    fn dispose(&mut self, context: &OperatorContext) {
        self.operator.dispose(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chain::NoConsumer,
        operators::{ByValue, KeyedOperator, SideOutputs},
        seam::Interrupt,
    };

    /// Remembers per key how many limits were known when its last record came.
    #[derive(Clone)]
    struct Seen;

    impl KeyedBroadcastProcessFunction<u64, u64, (u64, u64)> for Seen {
        type State = Option<u64>;
        type Broadcast = BTreeMap<u64, u64>;
        type Out = u64;
        fn create_broadcast(&self) -> BTreeMap<u64, u64> {
            BTreeMap::new()
        }
        fn process(
            &mut self,
            _record: u64,
            seen: &mut Option<u64>,
            limits: &BTreeMap<u64, u64>,
            _ctx: &mut Context<'_, u64>,
            _out: &mut Collector<u64>,
        ) -> Result<(), BoxError> {
            *seen = Some(limits.len() as u64);
            Ok(())
        }
        fn process_broadcast(
            &mut self,
            (key, limit): (u64, u64),
            limits: &mut BTreeMap<u64, u64>,
            _out: &mut Collector<u64>,
        ) -> Result<(), BoxError> {
            limits.insert(key, limit);
            Ok(())
        }
    }

    type Reader = KeyedOperator<
        u64,
        ByValue<fn(&u64) -> u64, u64>,
        Reading<Seen, (u64, u64), BTreeMap<u64, u64>>,
    >;

    fn operator() -> BroadcastOperator<Reader, u64, (u64, u64)> {
        let key: fn(&u64) -> u64 = |n| *n;
        let function = Reading::new(Seen, Seen::create_broadcast);
        BroadcastOperator::new(KeyedOperator::new(
            ByValue::new(key),
            function,
            Option::<u64>::declare(),
        ))
    }

    fn opened(
        subtask: u32,
        parallelism: u32,
        restore: Vec<Vec<u8>>,
    ) -> Result<BroadcastOperator<Reader, u64, (u64, u64)>, TaskError> {
        let mut operator = operator();
        let context = OperatorContext::for_tests(subtask, parallelism).restoring(restore);
        operator.open(&context)?;
        Ok(operator)
    }

    fn with_two_limits() -> Vec<u8> {
        let mut operator = opened(0, 1, Vec::new()).unwrap();
        let interrupt = Interrupt::default();
        let mut out =
            Collector::new(Box::new(NoConsumer), SideOutputs::default(), interrupt.clone());
        let context = OperatorContext::for_tests(0, 1);
        let right = |key| Either::Right((key, key * 10));
        let mut batch = Batch::from(vec![
            right(1),
            Either::Left(7),
            Either::Left(8),
            right(2),
            Either::Left(9),
        ]);
        // Every call is interrupted behind its first record.
        interrupt.raise();
        let mut calls = 0;
        while !batch.is_empty() {
            operator.process(&mut batch, &mut out, &context).unwrap();
            calls += 1;
        }
        assert!(calls > 2, "{calls}");
        operator.snapshot(1, &context).unwrap().unwrap()
    }

    /// A job that drops the broadcast state (`--allowNonRestoredState`) wrote it into its next checkpoint once more.
    #[test]
    fn broadcast_state_that_nobody_declares_is_dropped_at_the_restore_and_not_written_again() {
        let key: fn(&u64) -> u64 = |n| *n;
        let keyed = |restore| {
            let function = Reading::new(Seen, Seen::create_broadcast);
            let mut keyed: Reader =
                KeyedOperator::new(ByValue::new(key), function, Option::<u64>::declare());
            let context = OperatorContext::for_tests(0, 1).restoring(restore);
            keyed.open(&context).unwrap();
            keyed
        };
        let context = OperatorContext::for_tests(0, 1);
        let mut dropped = keyed(vec![with_two_limits()]);
        assert_eq!(dropped.drop_undeclared(), Some("broadcast"));
        let written = dropped.snapshot(1, &context).unwrap().unwrap();
        let mut restored = keyed(vec![written]);
        assert_eq!(restored.drop_undeclared(), None);
        assert_eq!(restored.state(&7).copied().flatten(), Some(1));
        let mut declared = opened(0, 1, vec![with_two_limits()]).unwrap();
        assert_eq!(declared.drop_undeclared(), None);
        assert_eq!(declared.operator.drop_undeclared(), None);
    }

    #[test]
    fn every_subtask_is_restored_with_what_the_first_one_wrote() {
        let first = with_two_limits();
        let second =
            opened(1, 2, Vec::new()).unwrap().snapshot(1, &OperatorContext::for_tests(1, 2));
        let second = second.unwrap().unwrap();
        for parallelism in 1..4 {
            for subtask in 0..parallelism {
                let restore = vec![second.clone(), first.clone()];
                let restored = opened(subtask, parallelism, restore).unwrap();
                assert_eq!(*restored.operator.broadcast(), BTreeMap::from([(1, 10), (2, 20)]));
            }
        }
    }

    #[test]
    fn the_fixture_of_broadcast_state_is_read_and_written_alike_also_while_records_come() {
        let bytes = crate::state::fixtures::fixture("broadcast.bin", &with_two_limits());
        let context = OperatorContext::for_tests(0, 1);
        for sliced in [false, true] {
            let mut after = opened(0, 1, vec![bytes.clone()]).unwrap();
            assert_eq!(*after.operator.broadcast(), BTreeMap::from([(1, 10), (2, 20)]));
            let seen = |key| after.state(&key).copied().flatten();
            assert_eq!([7, 8, 9].map(seen), [Some(1), Some(2), Some(2)]);
            if !sliced {
                assert_eq!(after.snapshot(1, &context).unwrap(), Some(bytes.clone()));
                continue;
            }
            assert!(after.begin_snapshot(1, &context).unwrap());
            after.operator.broadcast_mut().insert(3, 30);
            let mut slice = Slice::whole();
            assert!(after.write_snapshot(&mut slice, &context).unwrap());
            assert_eq!(slice.chunks.len(), 1);
            assert_eq!(slice.chunks[0].bytes, bytes, "with the broadcast state at the barrier");
        }
    }

    #[test]
    fn broadcast_state_that_takes_long_at_the_barrier_is_warned_of_in_the_subtask_that_writes_it() {
        for (subtask, limits, warns) in [(0, 1_000, false), (0, 300_000, true), (1, 300_000, false)]
        {
            let mut large = opened(subtask, 2, Vec::new()).unwrap();
            let numbers = (u64::MAX - limits..u64::MAX).map(|n| (n, n));
            *large.operator.broadcast_mut() = numbers.collect();
            let context = OperatorContext::for_tests(subtask, 2);
            assert!(large.begin_snapshot(1, &context).unwrap());
            assert_eq!(context.one_piece.has_warned(), warns, "{subtask}: {limits}");
        }
    }

    #[test]
    fn broadcast_state_of_the_first_format_is_refused_and_its_version_named() {
        let refused = opened(0, 1, vec![vec![1, 0, 0]]).map(drop).unwrap_err().to_string();
        assert!(refused.contains("broadcast state, which is not version 2"), "{refused}");
    }

    #[test]
    fn a_snapshot_of_something_else_is_refused() {
        let bytes = with_two_limits();
        for length in 0..bytes.len() {
            assert!(opened(0, 1, vec![bytes[..length].to_vec()]).is_err(), "{length}");
        }
        let other = bytes.iter().map(|byte| byte ^ 1).collect();
        assert!(opened(0, 1, vec![other]).is_err());
    }
}
