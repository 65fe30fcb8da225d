//! The test of one operator: how it is prepared, what is passed in, and what it shows. It must drive the operator by the link of a
//! chain only, as a task does.

use super::{
    gather::{Gather, Gathered},
    host::{self, Host},
};
use crate::{
    batch::{Batch, NO_TIME},
    operators::{
        ChainShared, Consumer, Control, Either, Flow, InspectBroadcast, InspectKeyed,
        InspectOperatorState, Link, Operator, OutputTag, SideOutput, SideOutputs, Timer,
        join_chunks, side_output,
    },
    seam::{Barrier, Interrupt, StreamEvent, TaskError},
    state::{Slice, StateDeclaration},
    types::Record,
};
use model::JobId;
use std::{
    any::Any,
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, atomic::Ordering},
};

/// The test of an operator before it is opened: place, options, side outputs and snapshots. By default the operator is the only
/// subtask, in attempt 0 of a job without options, and begins without state. Its clock stands at 0 until the test moves it. I/O that
/// the operator begins is done before the call that asks for it returns, a question to its coordinator is answered with an error, and
/// its folder for temporary files is the empty path, so that its files are in the working directory.
///
/// ```
/// use streaming::{
///     operators::{BoxError, CoProcessFunction, Collector},
///     testing::{self, HarnessBuilder, OperatorHarness},
/// };
///
/// /// Lets numbers through that are above the newest limit.
/// #[derive(Clone, Default)]
/// struct Beyond(u64);
///
/// impl CoProcessFunction<u64, u64> for Beyond {
///     type Out = u64;
///     fn process1(&mut self, number: u64, out: &mut Collector<u64>) -> Result<(), BoxError> {
///         if number > self.0 {
///             out.collect(number);
///         }
///         Ok(())
///     }
///     fn process2(&mut self, limit: u64, _: &mut Collector<u64>) -> Result<(), BoxError> {
///         self.0 = limit;
///         Ok(())
///     }
/// }
///
/// let builder: HarnessBuilder<_, _> = testing::connected(Beyond::default());
/// let mut test: OperatorHarness<_, _> = builder.interrupted().open()?;
/// test.push2(5)?;
/// test.push1(7)?;
/// test.push2_at(9, 1_000)?;
/// test.push1_at(8, 1_001)?;
/// test.watermark(1_001)?;
/// assert_eq!((test.output(), test.last_watermark()), (vec![7], Some(1_001)));
/// test.advance_clock_to(60_000)?;
/// test.end_of_input()?;
/// test.close()?;
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub struct HarnessBuilder<T, Op> {
    operator: Op,
    job: JobId,
    place: (u32, u32),
    attempt: u32,
    restore: Vec<Vec<u8>>,
    options: BTreeMap<String, String>,
    sides: Vec<(&'static str, Box<dyn SideOutput>)>,
    gathered: BTreeMap<&'static str, Box<dyn Any + Send>>,
    interrupt: Interrupt,
    /// The reason why the operator is impossible, `None` if it is possible.
    mistake: Option<&'static str>,
    record: PhantomData<fn(T)>,
}

impl<T, Op: Operator<T>> HarnessBuilder<T, Op> {
    /// Prepares the test of an operator that is the only subtask.
    pub(super) fn new(operator: Op) -> Self {
        Self {
            operator,
            job: JobId(0),
            place: (0, 1),
            attempt: 0,
            restore: Vec::new(),
            options: BTreeMap::new(),
            sides: Vec::new(),
            gathered: BTreeMap::new(),
            interrupt: Interrupt::default(),
            mistake: None,
            record: PhantomData,
        }
    }
}

impl<T: Send + 'static, Op: Operator<T>> HarnessBuilder<T, Op> {
    /// Makes the operator subtask number `subtask`, from 0, of `of` subtasks (0 counts as 1). By default it is the only one. `subtask`
    /// must be less than `of`, which is not checked. A record whose key belongs to another subtask makes a keyed operator fail with
    /// [`TaskError::Deployment`].
    pub fn subtask(self, subtask: u32, of: u32) -> Self {
        Self { place: (subtask, of.max(1)), ..self }
    }
    /// Sets the number of the execution attempt, from 0, which is 0 by default. In a job an attempt that is restored after a failure has a
    /// greater number than the one that failed, unless a new JobMaster starts it: that one begins with 0 again.
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }
    /// Makes the operator one of another job. By default all are of the same job.
    pub(super) fn job(self, job: JobId) -> Self {
        Self { job, ..self }
    }
    /// Makes [`HarnessBuilder::open`] fail with `mistake`, where building a program with the operator would fail.
    pub(super) fn mistaken(self, mistake: Option<&'static str>) -> Self {
        Self { mistake, ..self }
    }
    /// Restores the operator from snapshots of [`OperatorHarness::snapshot`], `barrier` or `savepoint`: of one subtask, or of
    /// several in the order of their indices; the last call counts. Their number is the parallelism that they were taken at; see
    /// [`HarnessBuilder::subtask`] for that of now.
    pub fn restore(self, snapshots: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { restore: snapshots.into_iter().collect(), ..self }
    }
    /// Sets an option of the job, which the operator's context returns; the last call for a key counts.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }
    /// Keeps the records of a side output for [`OperatorHarness::side_output`]. Records of other side outputs are dropped.
    pub fn side_output<U: Record>(mut self, tag: &OutputTag<U>) -> Self {
        let gathered = Gathered::<U>::default();
        self.sides.push((tag.name(), side_output(Box::new(Gather(gathered.clone())))));
        self.gathered.insert(tag.name(), Box::new(gathered));
        self
    }
    /// Interrupts every step of the operator after its first record, as mail to the task does; the operator is called again with
    /// the rest. The results must be the same.
    pub fn interrupted(self) -> Self {
        self.interrupt.raise();
        self
    }
    /// Opens the operator and returns its test, once the I/O is done that the operator has begun. Timers that are due when the clock
    /// begins fire before any record, as in a task.
    ///
    /// # Errors
    /// Fails with the operator's own error, for example when a snapshot is not its own; with [`TaskError::Deployment`] for windows that are
    /// impossible, such as windows without length, and for a snapshot with a state that the operator does not declare, in the words with
    /// which the Dispatcher refuses a job then, unless the job may drop the state (`--allowNonRestoredState`).
    pub fn open(self) -> Result<OperatorHarness<T, Op>, TaskError> {
        if let Some(mistake) = self.mistake {
            return Err(TaskError::Deployment(mistake.to_owned()));
        }
        let host = Arc::new(Host::default());
        let context = host::context_of(
            self.job,
            self.place,
            self.attempt,
            self.options,
            self.interrupt,
            host.clone(),
        );
        let context = context.restoring(self.restore);
        let output = Gathered::default();
        let next = Box::new(Gather(output.clone()));
        let sides = SideOutputs::new(self.sides);
        let shared = context.shared().clone();
        let mut link = Link::new(self.operator, next, sides, context);
        link.open()?;
        check_dropped(&link.dropped())?;
        let sides = self.gathered;
        let mut test = OperatorHarness { link, host, shared, output, sides, checkpoint: 0 };
        test.work_off()?;
        test.advance_clock_to(0)?;
        Ok(test)
    }
}

/// The opened test of an operator; made by [`HarnessBuilder::open`]. Everything that is passed in is processed before the call returns.
/// After an error the test must not be used again. A panic of the operator or its function reaches the test; in a task it is an error.
/// An operator that waits at a control element for mail that it has not asked for, for which a task would wait for ever, fails the call
/// with [`TaskError::Deployment`].
///
/// The order of the calls is not checked, so a test can do what no task does. A record behind [`OperatorHarness::end_of_input`] is
/// processed like any other, but the final watermark has passed: it is late for windows of event time, and the timers of processing
/// time are over. A watermark that goes back is passed on as it is, so that [`OperatorHarness::last_watermark`] returns it; keyed
/// functions and windows keep to the greatest one that they have seen.
pub struct OperatorHarness<T, Op: Operator<T>> {
    link: Link<T, Op>,
    pub(super) host: Arc<Host>,
    shared: Arc<ChainShared>,
    pub(super) output: Gathered<Op::Out>,
    sides: BTreeMap<&'static str, Box<dyn Any + Send>>,
    checkpoint: u64,
}

/// Refuses snapshots with states that the operator has dropped, given as kinds by name, in the Dispatcher's words.
fn check_dropped(states: &BTreeMap<String, String>) -> Result<(), TaskError> {
    if states.is_empty() {
        return Ok(());
    }
    let operator = format!("operator '{}' (without a uid)", host::OPERATOR);
    let reasons: Vec<String> = states
        .iter()
        .map(|(name, kind)| StateDeclaration::undeclared(&operator, name, kind))
        .collect();
    let why = format!("the snapshot does not fit the program: {}", reasons.join("\n"));
    Err(TaskError::Deployment(why))
}

impl<T: Send + 'static, Op: Operator<T>> OperatorHarness<T, Op> {
    /// Passes in a record without an event time.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn push(&mut self, record: T) -> Result<(), TaskError> {
        self.push_batch([(record, NO_TIME)])
    }
    /// Passes in a record with an event time, in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn push_at(&mut self, record: T, timestamp: i64) -> Result<(), TaskError> {
        self.push_batch([(record, timestamp)])
    }
    /// Passes in records as one batch, each with its event time in milliseconds since 1970, or [`NO_TIME`](crate::batch::NO_TIME).
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn push_batch(
        &mut self,
        records: impl IntoIterator<Item = (T, i64)>,
    ) -> Result<(), TaskError> {
        let mut batch = Batch::default();
        records.into_iter().for_each(|(record, time)| batch.push(record, time));
        self.link.batch(&mut batch)?;
        self.work_off()
    }
    /// Passes in a watermark: no record with an event time of at most `ms` milliseconds since 1970 follows. The timers and windows that it
    /// makes due fire before the return. A task's watermarks never go back; one that does makes due only what the greatest one before it
    /// would, see [`OperatorHarness`].
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn watermark(&mut self, ms: i64) -> Result<(), TaskError> {
        self.event(StreamEvent::Watermark(ms))
    }
    /// Moves the clock to `ms` milliseconds since 1970, and fires each timer that is due on the way, with the clock at its time. A timer
    /// that is set for the present or the past does not fire by itself: it waits for this call, also with the clock's own time as `ms`.
    /// The clock begins at 0 and never goes back: an `ms` in the past does nothing.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn advance_clock_to(&mut self, ms: u64) -> Result<(), TaskError> {
        while let Some(ticket) = self.host.next_timer(ms) {
            self.deliver(ticket)?;
        }
        self.host.set_clock(ms);
        Ok(())
    }
    /// Passes in the final watermark, then the end of bounded input. As in a task, the timers of event time fire, and those of processing
    /// time that are due; later ones of processing time are dropped, from snapshots and the list of timers too. Where the operator waits
    /// for a timer, the clock moves to it. In a task nothing follows but the final checkpoint; what a test pushes all the same is
    /// processed, see [`OperatorHarness`].
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn end_of_input(&mut self) -> Result<(), TaskError> {
        self.watermark(i64::MAX)?;
        self.event(StreamEvent::EndOfInput)
    }
    /// Closes the operator, as a task does after the end of input. A test that is only dropped does not close its operator.
    ///
    /// # Errors
    /// Returns the error of the operator's own `close`. The `close` of a function returns none; its panic is not caught.
    pub fn close(mut self) -> Result<(), TaskError> {
        self.link.close()
    }
    /// Returns the records that were emitted since the last call of this method or of [`OperatorHarness::timed_output`], in their
    /// order.
    pub fn output(&mut self) -> Vec<Op::Out> {
        self.timed_output().into_iter().map(|(record, _)| record).collect()
    }
    /// Returns the records that were emitted since the last call of this method or of [`OperatorHarness::output`], each with its
    /// event time in milliseconds since 1970; `None`: the record has no event time.
    pub fn timed_output(&mut self) -> Vec<(Op::Out, Option<i64>)> {
        self.output.take_records()
    }
    /// Returns the newest watermark that the operator let through or emitted, in milliseconds since 1970; `None` before the first
    /// one. `i64::MAX` after [`OperatorHarness::end_of_input`].
    pub fn last_watermark(&self) -> Option<i64> {
        self.output.last_watermark()
    }
    /// Returns the records that were emitted to a side output since the last call, in their order.
    ///
    /// # Errors
    /// Fails with [`TaskError::Deployment`] when [`HarnessBuilder::side_output`] was not called with a tag of this name and record type.
    pub fn side_output<U: Record>(&mut self, tag: &OutputTag<U>) -> Result<Vec<U>, TaskError> {
        let found = self.sides.get(tag.name()).and_then(|side| side.downcast_ref::<Gathered<U>>());
        let gathered = found.ok_or_else(|| {
            let name = tag.name();
            TaskError::Deployment(format!(
                "side output '{name}' of {} is not kept: call HarnessBuilder::side_output with its tag before open",
                U::type_name()
            ))
        })?;
        Ok(gathered.take_records().into_iter().map(|(record, _)| record).collect())
    }
    /// Takes a checkpoint, with the number after that of the last one, and returns the operator's encoded state, for
    /// [`HarnessBuilder::restore`]; empty if the operator has none. As with [`OperatorHarness::barrier`], the clock moves where the
    /// operator waits for a timer. The operator is not told that the checkpoint is complete.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail, such as [`TaskError::Codec`] for state that cannot be encoded;
    /// [`TaskError::Deployment`] if the operator waits for mail that it has not asked for.
    pub fn snapshot(&mut self) -> Result<Vec<Vec<u8>>, TaskError> {
        self.barrier(self.checkpoint + 1, false)
    }
    /// Passes in the barrier of a checkpoint and returns the operator's encoded state, for [`HarnessBuilder::restore`]; empty if the
    /// operator has none. Numbers of checkpoints must ascend, which is not checked. `last` marks the job's final checkpoint, which comes
    /// after [`OperatorHarness::end_of_input`]. Where the operator waits for a timer, such as that of a repeated commit, the clock moves to
    /// it. The operator is not notified.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail, such as [`TaskError::Codec`] for state that cannot be encoded.
    pub fn barrier(&mut self, checkpoint: u64, last: bool) -> Result<Vec<Vec<u8>>, TaskError> {
        self.pass_barrier(Barrier { checkpoint, last, ..Barrier::default() })
    }
    /// Passes in the barrier of a savepoint after which the job continues, and returns the operator's encoded state, as
    /// [`OperatorHarness::barrier`] does.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail, such as [`TaskError::Codec`] for state that cannot be encoded.
    pub fn savepoint(&mut self, checkpoint: u64) -> Result<Vec<Vec<u8>>, TaskError> {
        self.pass_barrier(Barrier { checkpoint, savepoint: true, ..Barrier::default() })
    }
    pub(super) fn pass_barrier(&mut self, barrier: Barrier) -> Result<Vec<Vec<u8>>, TaskError> {
        self.checkpoint = barrier.checkpoint;
        self.event(StreamEvent::Barrier(barrier))?;
        self.link.write_snapshots(&mut Slice::whole())?;
        let snapshots = self.shared.take_snapshots(barrier.checkpoint);
        Ok(snapshots.iter().map(|(_, chunks)| join_chunks(chunks)).collect())
    }
    /// Tells the operator that a checkpoint is complete in the whole job, so that it commits what it has prepared for it and for earlier
    /// ones. A commit that fails and is to be repeated waits for the clock: see [`OperatorHarness::is_committing`].
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::Output`] if a commit can never succeed,
    /// [`TaskError::Io`] if it has not succeeded after `sink.committer.retries` (10 by default) repetitions.
    pub fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.link.notify_complete(checkpoint)?;
        self.work_off()
    }
    /// Returns true while the operator commits what a complete checkpoint has released; a task does not finish before.
    pub fn is_committing(&self) -> bool {
        self.link.is_committing()
    }
    /// Ends the test as a task ends that has failed: the operator is disposed of ([`Operator::dispose`]) and not closed; a function's
    /// `close` is called. A panic there is logged, not passed on.
    pub fn fail(mut self) {
        self.link.dispose();
    }

    /// Ends the test as a task ends that the JobMaster has cancelled, with all tasks that it works with: as [`OperatorHarness::fail`],
    /// but a sink's writer is first told to withdraw its announcement.
    pub fn cancel(self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
        self.fail();
    }

    /// Returns the value of a counter or gauge of the operator, by the name that its function gave it; `None` if there is none of that
    /// name. `stateBytes` is the memory of the tables and timers of its keyed state; see [`Operator::state_bytes`].
    pub fn metric(&self, name: &str) -> Option<i64> {
        let of_task = self.shared.counters.functions.values();
        of_task.get(&format!("{}.{name}", host::OPERATOR)).copied()
    }

    fn event(&mut self, event: StreamEvent) -> Result<(), TaskError> {
        loop {
            let flow = self.link.event(event)?;
            let waits = flow == Flow::Waiting && !self.host.has_reply();
            if waits && !self.fire_next_timer()? {
                return Err(TaskError::Deployment(
                    "the operator waits for mail that it has not asked for".to_owned(),
                ));
            }
            self.work_off()?;
            if flow == Flow::Done {
                return Ok(());
            }
        }
    }

    /// Moves the clock to the next timer and fires it. Returns false if none is set.
    pub(super) fn fire_next_timer(&mut self) -> Result<bool, TaskError> {
        let ticket = self.host.next_timer(u64::MAX);
        ticket.map_or(Ok(false), |ticket| self.deliver(ticket).map(|()| true))
    }

    /// Processes replies and interrupted records until none waits.
    fn work_off(&mut self) -> Result<(), TaskError> {
        loop {
            if let Some((ticket, result)) = self.host.next_reply() {
                self.link.deliver(host::NODE, host::reply(ticket, result))?;
            } else if self.link.is_interrupted() && !self.link.full() {
                self.link.resume()?;
            } else {
                return self.link.flush(true).map(drop);
            }
        }
    }

    fn deliver(&mut self, ticket: u64) -> Result<(), TaskError> {
        self.link.deliver(host::NODE, host::timer(ticket))?;
        self.work_off()
    }
}

impl<T: Send + 'static, Op: Operator<T> + InspectKeyed> OperatorHarness<T, Op> {
    /// Returns the state that the operator keeps of a key; `None` if the key has none.
    pub fn state(&self, key: &Op::Key) -> Option<&Op::State> {
        self.link.operator().state(key)
    }
    /// Returns the timers that are set, each with its key: those of event time first, and each clock's in the order of their
    /// moments. After [`OperatorHarness::end_of_input`] only timers that a test has set since then, which never fire.
    pub fn timers(&self) -> Vec<(Op::Key, Timer)> {
        self.link.operator().timers()
    }
}

impl<A: Send + 'static, B: Send + 'static, Op> OperatorHarness<Either<A, B>, Op>
where
    Op: Operator<Either<A, B>>,
{
    /// Passes in a record of the first input without an event time.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn push1(&mut self, record: A) -> Result<(), TaskError> {
        self.push(Either::Left(record))
    }
    /// Passes in a record of the first input with an event time, in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn push1_at(&mut self, record: A, timestamp: i64) -> Result<(), TaskError> {
        self.push_at(Either::Left(record), timestamp)
    }
    /// Passes in a record of the second input, or of the broadcast stream, without an event time.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn push2(&mut self, record: B) -> Result<(), TaskError> {
        self.push(Either::Right(record))
    }
    /// Passes in a record of the second input, or of the broadcast stream, with an event time in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns the error with which the operator's task would fail: [`TaskError::User`] for one of a function.
    pub fn push2_at(&mut self, record: B, timestamp: i64) -> Result<(), TaskError> {
        self.push_at(Either::Right(record), timestamp)
    }
}

impl<T: Send + 'static, Op: Operator<T> + InspectBroadcast> OperatorHarness<T, Op> {
    /// Returns the broadcast state as the operator's subtask has it now.
    pub fn broadcast_state(&self) -> &Op::State {
        self.link.operator().broadcast_state()
    }
}

impl<T: Send + 'static, Op: Operator<T> + InspectOperatorState> OperatorHarness<T, Op> {
    /// Returns the state of the operator's subtask, which the test may also change. It is mutable because lists are read with
    /// `&mut`.
    pub fn operator_state(&mut self) -> &mut Op::State {
        self.link.operator_mut().operator_state()
    }
}
