//! The test of a sink: its writers, committers and global committer, connected as in a job. It must drive each of them by the
//! link of a chain only, as a task does.

use super::{HarnessBuilder, OperatorHarness};
use crate::{
    batch::NO_TIME,
    seam::{Barrier, TaskError},
    sinks::{
        Sink,
        two_phase::{
            self, CommitterOf, GlobalCommitterOf, Prepared, Shared, SinkWriterOperator, committer,
            global_committer,
        },
    },
};
use model::JobId;
use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, Mutex},
};

/// The encoded snapshots of all operators of a sink (writers, committers, global committer) in one checkpoint or savepoint, as
/// [`SinkHarness::barrier`] returns them; [`SinkHarnessBuilder::restore`] restores a sink from them. The default has none, as at a job's
/// first start.
#[derive(Debug, Clone, Default)]
pub struct SinkSnapshot {
    writers: Vec<Vec<u8>>,
    committers: Vec<Vec<u8>>,
    global_committer: Vec<Vec<u8>>,
}

/// The test of a sink before it is opened; made by [`sink`]. By default the sink has one subtask, in attempt 0 of a job without
/// options.
pub struct SinkHarnessBuilder<T, S> {
    sink: Shared<S>,
    job: JobId,
    parallelism: u32,
    attempt: u32,
    options: BTreeMap<String, String>,
    restore: SinkSnapshot,
    record: PhantomData<fn(T)>,
}

/// Prepares the test of a [`Sink`]. The test passes in records, barriers and notifications, fails, and restores the sink, also
/// with another number of subtasks.
///
/// ```
/// use streaming::{
///     sinks::Sink,
///     testing::{self, SinkHarness, SinkHarnessBuilder, SinkSnapshot},
/// };
///
/// /// Fails after the first checkpoint was taken, and ends with another number of subtasks.
/// fn rescaled<S: Sink<u64>>(before: S, after: S) -> Result<(), streaming::TaskError> {
///     let builder: SinkHarnessBuilder<u64, S> = testing::sink(before).subtasks(2);
///     let mut test: SinkHarness<u64, S> = builder.open()?;
///     test.push(1, 10)?;
///     let checkpoint: SinkSnapshot = test.barrier(1, false)?;
///     test.push(0, 11)?;
///     test.fail();
///
///     let builder = testing::sink(after).subtasks(3).attempt(1);
///     let builder = builder.option("sink.committer.retries", "2").restore(checkpoint);
///     let mut restored = builder.open()?;
///     restored.push_at(2, 11, 1_000)?;
///     restored.barrier(2, false)?;
///     restored.notify_complete(2)?;
///     assert!(!restored.is_committing());
///     restored.finish()
/// }
///
/// /// Restores a savepoint in another job, which is cancelled when its input has ended and before anything of it is committed.
/// fn moved<S: Sink<u64>>(before: S, after: S) -> Result<(), streaming::TaskError> {
///     let mut test = testing::sink(before).open()?;
///     test.push(0, 10)?;
///     let savepoint = test.savepoint(1)?;
///     test.finish()?;
///
///     let mut moved = testing::sink(after).job(7).restore(savepoint).open()?;
///     moved.push(0, 11)?;
///     moved.advance_clock_to(60_000)?;
///     moved.end_of_input()?;
///     moved.cancel();
///     Ok(())
/// }
/// ```
pub fn sink<T, S: Sink<T>>(sink: S) -> SinkHarnessBuilder<T, S> {
    SinkHarnessBuilder {
        sink: Arc::new(Mutex::new(sink)),
        job: JobId(0),
        parallelism: 1,
        attempt: 0,
        options: BTreeMap::new(),
        restore: SinkSnapshot::default(),
        record: PhantomData,
    }
}

impl<T: Send + 'static, S: Sink<T>> SinkHarnessBuilder<T, S> {
    /// Sets the number of writers and of their committers, 1 by default (0 counts as 1). A global committer is always one.
    pub fn subtasks(self, parallelism: u32) -> Self {
        Self { parallelism: parallelism.max(1), ..self }
    }
    /// Sets the number of the execution attempt of all subtasks, from 0; 0 by default. In a job an attempt that is restored after a failure
    /// has a greater number than the one that failed, unless a new JobMaster starts it: that one begins with 0 again.
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }
    /// Sets the id of the job that the sink belongs to, 0 by default: a sink that is restored from a savepoint by another job has
    /// another one.
    pub fn job(self, job: u128) -> Self {
        Self { job: JobId(job), ..self }
    }
    /// Sets an option of the job, which the contexts of all operators of the sink return; the last call for a key counts.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }
    /// Restores the sink in [`SinkHarnessBuilder::open`] from what [`SinkHarness::barrier`] or [`SinkHarness::savepoint`] returned, with
    /// any number of subtasks; the last call counts. Without this call the sink begins without state.
    pub fn restore(self, restore: SinkSnapshot) -> Self {
        Self { restore, ..self }
    }

    fn prepare<R: Send + 'static, Op: crate::operators::Operator<R>>(
        &self,
        operator: Op,
        place: (u32, u32),
        restore: &[Vec<u8>],
    ) -> HarnessBuilder<R, Op> {
        let builder = HarnessBuilder::new(operator).subtask(place.0, place.1).job(self.job);
        let builder = builder.attempt(self.attempt).restore(restore.to_vec());
        self.options.iter().fold(builder, |builder, (key, value)| builder.option(key, value))
    }

    /// Opens the sink, the committers first, and returns its test. What a restored snapshot holds is committed when this returns; where a
    /// commit is to be repeated, the clock of its committer moves.
    ///
    /// # Errors
    /// Returns the error with which a task of the sink would fail when it opens, or when it commits what was restored.
    pub fn open(self) -> Result<SinkHarness<T, S>, TaskError> {
        let (commits, commits_globally) = two_phase::commits::<T, S>();
        let places = || (0..self.parallelism).map(|subtask| (subtask, self.parallelism));
        let (mut writers, mut committers) = (Vec::new(), Vec::new());
        // As in a job, the last operators are opened first.
        let global = commits_globally.then(|| {
            let operator = global_committer::<T, S>(self.sink.clone());
            self.prepare(operator, (0, 1), &self.restore.global_committer).open()
        });
        for place in places().filter(|_| commits) {
            let operator = committer::<T, S>(self.sink.clone());
            committers.push(self.prepare(operator, place, &self.restore.committers).open()?);
        }
        for place in places() {
            let operator = SinkWriterOperator::<T, S>::new(self.sink.clone());
            writers.push(self.prepare(operator, place, &self.restore.writers).open()?);
        }
        let global = global.transpose()?;
        let mut test = SinkHarness { writers, committers, global, checkpoint: 0, ended: false };
        test.commit()?;
        test.pass_on()?;
        Ok(test)
    }
}

/// The opened test of one of a sink's committers.
type CommitterHarness<T, S, Op> = OperatorHarness<Prepared<<S as Sink<T>>::Committable>, Op>;

/// The opened test of a sink: its writers, one per subtask, their committers and the global committer, as far as the sink has them; made by
/// [`SinkHarnessBuilder::open`]. Everything that is passed in is processed before the call returns, and what the writers emit goes to the
/// committers at once. Each operator has a clock of its own. A test that is only dropped closes and commits nothing. After an error the
/// test must not be used again.
pub struct SinkHarness<T: Send + 'static, S: Sink<T>> {
    writers: Vec<OperatorHarness<T, SinkWriterOperator<T, S>>>,
    committers: Vec<CommitterHarness<T, S, CommitterOf<T, S>>>,
    global: Option<CommitterHarness<T, S, GlobalCommitterOf<T, S>>>,
    checkpoint: u64,
    /// True once the end of input was passed in.
    ended: bool,
}

impl<T: Send + 'static, S: Sink<T>> SinkHarness<T, S> {
    /// Passes a record without an event time to the writer of a subtask, from 0.
    ///
    /// # Errors
    /// Returns the error with which the writer's task would fail, or [`TaskError::Deployment`] if there is no such subtask, or after
    /// [`SinkHarness::end_of_input`].
    pub fn push(&mut self, subtask: u32, record: T) -> Result<(), TaskError> {
        self.push_at(subtask, record, NO_TIME)
    }
    /// Passes a record to the writer of a subtask, from 0, with an event time in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns the error with which the writer's task would fail, or [`TaskError::Deployment`] if there is no such subtask, or after
    /// [`SinkHarness::end_of_input`]: the record would never be prepared.
    pub fn push_at(&mut self, subtask: u32, record: T, timestamp: i64) -> Result<(), TaskError> {
        let writer = self.writers.get_mut(subtask as usize).ok_or_else(|| {
            TaskError::Deployment(format!("the sink under test has no subtask {subtask}"))
        })?;
        if self.ended {
            return Err(TaskError::Deployment(format!(
                "subtask {subtask} of the sink under test takes no record after the end of input: push it before end_of_input"
            )));
        }
        writer.push_at(record, timestamp)?;
        self.pass_on()
    }
    /// Moves the clock of all subtasks to `ms` milliseconds since 1970, and fires each timer that is due on the way: first those of the
    /// writers, then those of the committers. Clocks begin at 0 and never go back: one that is past `ms` already stays where it is.
    ///
    /// # Errors
    /// Returns the error with which a task of the sink would fail: [`TaskError::Output`] if a commit can never succeed.
    pub fn advance_clock_to(&mut self, ms: u64) -> Result<(), TaskError> {
        self.writers.iter_mut().try_for_each(|writer| writer.advance_clock_to(ms))?;
        self.pass_on()?;
        self.committers.iter_mut().try_for_each(|committer| committer.advance_clock_to(ms))?;
        self.global.iter_mut().try_for_each(|committer| committer.advance_clock_to(ms))
    }
    /// Passes the final watermark, then the end of bounded input, to the writers and the committers. What is prepared then is
    /// committed when the final checkpoint is complete: [`SinkHarness::barrier`] with `last`, then [`SinkHarness::notify_complete`].
    ///
    /// # Errors
    /// Returns the error with which a task of the sink would fail: [`TaskError::Output`] if a commit can never succeed.
    pub fn end_of_input(&mut self) -> Result<(), TaskError> {
        self.ended = true;
        self.writers.iter_mut().try_for_each(OperatorHarness::end_of_input)?;
        self.pass_on()?;
        self.committers.iter_mut().try_for_each(OperatorHarness::end_of_input)?;
        self.global.iter_mut().try_for_each(OperatorHarness::end_of_input)
    }
    /// Passes in the barrier of a checkpoint and returns the snapshots of all operators. Nothing of it is committed before
    /// [`SinkHarness::notify_complete`]. Numbers of checkpoints must ascend, which is not checked. `last` marks the job's final checkpoint,
    /// which comes after [`SinkHarness::end_of_input`].
    ///
    /// # Errors
    /// Returns the error with which a task of the sink would fail: [`TaskError::Output`] if a commit can never succeed.
    pub fn barrier(&mut self, checkpoint: u64, last: bool) -> Result<SinkSnapshot, TaskError> {
        self.pass_barrier((checkpoint, last), false)
    }
    /// Passes in the barrier of a savepoint after which the job continues, and returns the snapshots of all operators. Committers
    /// first keep what the savepoint holds ([`Committer::keep`](crate::sinks::Committer::keep)).
    ///
    /// # Errors
    /// Returns the error with which a task of the sink would fail.
    pub fn savepoint(&mut self, checkpoint: u64) -> Result<SinkSnapshot, TaskError> {
        self.pass_barrier((checkpoint, false), true)
    }
    fn pass_barrier(
        &mut self,
        (checkpoint, last): (u64, bool),
        savepoint: bool,
    ) -> Result<SinkSnapshot, TaskError> {
        self.checkpoint = checkpoint;
        let barrier = Barrier { checkpoint, last, savepoint, ..Barrier::default() };
        let mut snapshot = SinkSnapshot::default();
        for writer in &mut self.writers {
            snapshot.writers.extend(writer.pass_barrier(barrier)?);
        }
        self.pass_on()?;
        for committer in &mut self.committers {
            snapshot.committers.extend(committer.pass_barrier(barrier)?);
        }
        if let Some(committer) = &mut self.global {
            snapshot.global_committer.extend(committer.pass_barrier(barrier)?);
        }
        Ok(snapshot)
    }
    /// Tells the sink, writers first, that a checkpoint is complete, and returns when what it and earlier ones have released is committed:
    /// where one is to be repeated, the clock of its committer moves, and not those of the writers.
    ///
    /// # Errors
    /// Returns the error with which a task of the sink would fail: [`TaskError::Output`] if a commit can never succeed,
    /// [`TaskError::Io`] if it has not succeeded after `sink.committer.retries` (10 by default) repetitions.
    pub fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.writers.iter_mut().try_for_each(|writer| writer.notify_complete(checkpoint))?;
        for committer in &mut self.committers {
            committer.notify_complete(checkpoint)?;
        }
        if let Some(committer) = &mut self.global {
            committer.notify_complete(checkpoint)?;
        }
        self.commit()
    }
    /// Returns true while a committer commits what a complete checkpoint has released, or waits to repeat a commit.
    pub fn is_committing(&self) -> bool {
        self.committers.iter().any(OperatorHarness::is_committing)
            || self.global.as_ref().is_some_and(OperatorHarness::is_committing)
    }
    /// Ends the sink as a job does that finishes: the end of input, the final checkpoint (with the number after the last one), its
    /// commits, and then the operators are closed. A test need not call [`SinkHarness::end_of_input`] before, but may.
    ///
    /// # Errors
    /// Returns the error with which a task of the sink would fail, for a commit as [`SinkHarness::notify_complete`] does.
    pub fn finish(mut self) -> Result<(), TaskError> {
        self.end_of_input()?;
        let last = self.checkpoint + 1;
        self.barrier(last, true)?;
        self.notify_complete(last)?;
        self.writers.into_iter().try_for_each(OperatorHarness::close)?;
        self.committers.into_iter().try_for_each(OperatorHarness::close)?;
        self.global.into_iter().try_for_each(OperatorHarness::close)
    }
    /// Ends the sink as a job does in which each of its tasks fails: the operators are disposed of, each writer's
    /// [`close`](crate::sinks::SinkWriter::close) is called, and nothing is committed.
    pub fn fail(self) {
        self.writers.into_iter().for_each(OperatorHarness::fail);
        self.committers.into_iter().for_each(OperatorHarness::fail);
        self.global.into_iter().for_each(OperatorHarness::fail);
    }

    /// Ends the sink as a job does that is cancelled, or in which another task has failed: as [`SinkHarness::fail`], but writers first
    /// withdraw their announcements.
    pub fn cancel(self) {
        self.writers.into_iter().for_each(OperatorHarness::cancel);
        self.committers.into_iter().for_each(OperatorHarness::cancel);
        self.global.into_iter().for_each(OperatorHarness::cancel);
    }

    /// Passes what the writers emitted to the committers.
    fn pass_on(&mut self) -> Result<(), TaskError> {
        for (subtask, writer) in self.writers.iter_mut().enumerate() {
            for prepared in writer.output() {
                if let Some(global) = &mut self.global {
                    global.push(prepared.clone())?;
                }
                if let Some(committer) = self.committers.get_mut(subtask) {
                    committer.push(prepared)?;
                }
            }
        }
        Ok(())
    }

    /// Fires the timers of repeated commits until none is left to be done.
    fn commit(&mut self) -> Result<(), TaskError> {
        for committer in &mut self.committers {
            while committer.is_committing() && committer.fire_next_timer()? {}
        }
        if let Some(committer) = &mut self.global {
            while committer.is_committing() && committer.fire_next_timer()? {}
        }
        Ok(())
    }
}
