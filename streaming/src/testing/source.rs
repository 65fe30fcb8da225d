//! The test of a source: the readers of its subtasks and the enumerator run on the calling thread; the clock is moved by hand.

use super::{
    gather::{Gather, Gathered},
    host::{self, Host},
};
use crate::{
    chain::{Head, SourceHead},
    operators::{ChainShared, join_chunks},
    seam::{
        Barrier, Coordinator, CoordinatorContext, CoordinatorWaker, EventReply, OnFailure,
        Progress, TaskError,
    },
    sources::{Source, SplitEnumerator, intern::SourceCoordinator},
    time::{
        NoWatermarks, PerSplit, SourceTimestamps, SplitTimes, TimestampAssigner,
        WatermarkGenerator, WatermarkStrategy,
    },
    types::encode_one,
};
use model::JobId;
use std::{
    collections::BTreeMap,
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// Records that one poll of the reader may emit.
const BUDGET: usize = 1_024;

/// Prepares the test of a source: its enumerator and one reader or several, without a generator of watermarks. Nothing is opened before
/// [`SourceHarnessBuilder::open`]. [`Source`] has an example.
pub fn source<S: Source>(source: S) -> SourceHarnessBuilder<S, SourceTimestamps, NoWatermarks> {
    SourceHarnessBuilder {
        source,
        watermarks: WatermarkStrategy::no_watermarks(),
        readers: 0..1,
        parallelism: 1,
        options: BTreeMap::new(),
        restore: None,
    }
}

/// The test of a source before it is opened: strategy for watermarks, numbers of the subtasks, options and snapshot to restore; made by
/// [`source`]. By default one reader is the only subtask, the job has no options and nothing is restored. The clock begins at 0, and the
/// folder for temporary files is the empty path, so that files are in the working directory.
pub struct SourceHarnessBuilder<S: Source, F, G> {
    source: S,
    watermarks: WatermarkStrategy<S::Record, F, G>,
    /// The subtasks that have a reader.
    readers: Range<u32>,
    parallelism: u32,
    options: BTreeMap<String, String>,
    restore: Option<SourceSnapshot>,
}

/// A checkpoint of a source: the encoded snapshots of its enumerator and of all subtasks; those without a reader in the test hold no
/// splits. [`SourceHarness::snapshot`] and [`SourceHarness::barrier`] make it, [`SourceHarnessBuilder::restore`] reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSnapshot {
    enumerator: Vec<u8>,
    subtasks: Vec<SubtaskSnapshot>,
}

/// The part of a subtask in a [`SourceSnapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct SubtaskSnapshot {
    /// True if the subtask had reached the end of its data.
    ended: bool,
    state: Vec<u8>,
}

impl SourceSnapshot {
    /// Returns whether a subtask, of `parallelism` ones now, had reached the end of its data; with another parallelism, whether all had.
    fn has_ended(&self, subtask: u32, parallelism: u32) -> bool {
        match self.subtasks.get(subtask as usize) {
            Some(own) if self.subtasks.len() == parallelism as usize => own.ended,
            _ => self.subtasks.iter().all(|former| former.ended),
        }
    }
}

impl<S, F, G> SourceHarnessBuilder<S, F, G>
where
    S: Source,
    F: TimestampAssigner<S::Record>,
    G: WatermarkGenerator<S::Record>,
{
    /// Sets the strategy for event times and watermarks, as [`Environment::from_source`](crate::Environment::from_source) does. By default
    /// records keep the source's times, and only the source itself emits watermarks.
    pub fn watermarks<H, K>(
        self,
        strategy: WatermarkStrategy<S::Record, H, K>,
    ) -> SourceHarnessBuilder<S, H, K> {
        let Self { source, readers, parallelism, options, restore, .. } = self;
        SourceHarnessBuilder {
            source,
            watermarks: strategy,
            readers,
            parallelism,
            options,
            restore,
        }
    }
    /// Tests one reader, which is subtask number `subtask`, from 0, of `of` subtasks (0 counts as 1). By default it is the only one.
    /// `subtask` must be less than `of`, which is not checked; the other subtasks have no reader, and none of them registers with the
    /// enumerator. The last call of this method or of [`SourceHarnessBuilder::subtasks`] counts.
    pub fn subtask(self, subtask: u32, of: u32) -> Self {
        Self { readers: subtask..subtask.saturating_add(1), parallelism: of.max(1), ..self }
    }
    /// Tests the readers of all subtasks together, `parallelism` in number (0 counts as 1), with one enumerator. By default there is one.
    /// A snapshot can be restored with another number.
    pub fn subtasks(self, parallelism: u32) -> Self {
        let parallelism = parallelism.max(1);
        Self { readers: 0..parallelism, parallelism, ..self }
    }
    /// Sets an option of the job, which the contexts of reader and enumerator return; the last call for a key counts.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }
    /// Restores enumerator and readers from a snapshot of [`SourceHarness::snapshot`] or [`SourceHarness::barrier`], in
    /// [`SourceHarnessBuilder::open`]; the last call counts, and without this call they begin anew. With an unchanged number of subtasks
    /// each one gets its own splits, with another one about an equal part of all. As in a job, a subtask that had reached the end of its
    /// data in the snapshot (with another number, where all had) has ended again at its first poll: its reader is not started and does
    /// not register.
    pub fn restore(self, snapshot: SourceSnapshot) -> Self {
        Self { restore: Some(snapshot), ..self }
    }

    /// Starts the enumerator, then opens the readers, which register with it unless it is a [`NoEnumerator`](crate::sources::NoEnumerator);
    /// reads no record.
    ///
    /// # Errors
    /// Returns the error of a reader or, as [`TaskError::Coordinator`], that of the enumerator, for example when its input is absent.
    pub fn open(self) -> Result<SourceHarness<S>, TaskError> {
        let failure = Arc::new(Mutex::new(None));
        let failed = failure.clone();
        let source = Arc::new(Mutex::new(self.source));
        let waker = CoordinatorWaker::default();
        let mut coordinator = SourceCoordinator::new(
            source.clone(),
            CoordinatorContext {
                job_id: JobId(0),
                operator: host::OPERATOR_ID,
                parallelism: self.parallelism,
                tmp_dir: PathBuf::new(),
                options: Arc::new(self.options.clone()),
                on_failure: OnFailure::new(move |why| *crate::lock(&failed) = Some(why)),
                waker: waker.clone(),
            },
        );
        let enumerator = self.restore.as_ref().map(|snapshot| snapshot.enumerator.clone());
        coordinator.start(enumerator).map_err(coordinator_error)?;
        let place = |subtask| (subtask, self.parallelism);
        let open = |subtask| {
            let (options, restore) = (self.options.clone(), self.restore.as_ref());
            Subtask::open(&source, place(subtask), self.watermarks.clone(), options, restore)
        };
        let subtasks = self.readers.map(open).collect::<Result<Vec<_>, _>>()?;
        let parallelism = self.parallelism;
        let mut test =
            SourceHarness { subtasks, parallelism, coordinator, waker, failure, checkpoint: 0 };
        test.work_off()?;
        Ok(test)
    }
}

/// A subtask of a source under test: its reader, in the head of a chain.
struct Subtask<S: Source> {
    number: u32,
    head: SourceHead<S::Reader>,
    host: Arc<Host>,
    shared: Arc<ChainShared>,
    output: Gathered<S::Record>,
    ended: bool,
}

impl<S: Source> Subtask<S> {
    /// Creates and opens the reader of a subtask, whose place is its number (from 0) and the parallelism.
    fn open<F: TimestampAssigner<S::Record>, G: WatermarkGenerator<S::Record>>(
        source: &Mutex<S>,
        place: (u32, u32),
        watermarks: WatermarkStrategy<S::Record, F, G>,
        options: BTreeMap<String, String>,
        restore: Option<&SourceSnapshot>,
    ) -> Result<Self, TaskError> {
        let host = Arc::new(Host::default());
        let at_end = restore.is_some_and(|snapshot| snapshot.has_ended(place.0, place.1));
        let context = host::context_of_source(place, at_end, options, host.clone());
        let former = restore.into_iter().flat_map(|snapshot| &snapshot.subtasks);
        let context = context.restoring(former.map(|former| former.state.clone()).collect());
        let shared = context.shared().clone();
        let output = Gathered::default();
        let next = Box::new(Gather(output.clone()));
        let times: Box<dyn SplitTimes<S::Record>> = Box::new(PerSplit::new(watermarks));
        let reader = crate::lock(source).create_reader(&context);
        let coordinated = S::Enumerator::COORDINATED;
        let head = SourceHead::new(reader, coordinated, Some(times), next, context)?;
        let mut head = head.reading_first(BUDGET);
        head.open()?;
        Ok(Self { number: place.0, head, host, shared, output, ended: false })
    }

    /// Passes in a barrier and returns the subtask's part of the checkpoint.
    fn pass_barrier(&mut self, checkpoint: u64) -> Result<SubtaskSnapshot, TaskError> {
        self.head.trigger(Barrier { checkpoint, ..Barrier::default() })?;
        let taken = self.shared.take_snapshots(checkpoint).into_iter().next();
        let (_, chunks) = taken.ok_or_else(|| {
            TaskError::Deployment(format!(
                "the source under test takes no snapshot for checkpoint {checkpoint}: numbers of checkpoints must ascend, from 1"
            ))
        })?;
        Ok(SubtaskSnapshot { ended: self.ended, state: join_chunks(&chunks) })
    }
}

/// Returns the enumerator's failure as a task error.
fn coordinator_error(why: String) -> TaskError {
    TaskError::Coordinator { operator: host::OPERATOR.to_owned(), why }
}

/// The opened test of a source: the enumerator and one reader or several, between which messages are passed on at once; made by
/// [`SourceHarnessBuilder::open`]. Nothing is read but in [`SourceHarness::poll`], [`SourceHarness::poll_subtask`] and
/// [`SourceHarness::run`], and the clock moves only in [`SourceHarness::advance_clock_to`]. A call returns when all that it has caused is
/// done, I/O of the reader included. The enumerator is woken by its own threads ([`EnumeratorWaker`](crate::sources::EnumeratorWaker)) in
/// the next call of [`SourceHarness::poll`] at the latest. The drop of the test closes the enumerator, but no reader. After an error the
/// test must not be used again.
///
/// ```
/// use std::time::Duration;
/// use streaming::{
///     TaskError,
///     sources::Source,
///     testing::{self, SourceHarness, SourceHarnessBuilder, SourceSnapshot},
///     time::{NoWatermarks, SourceTimestamps, WatermarkStrategy},
/// };
///
/// /// Prepares the first of two subtasks, which is idle when it has had no record for a minute.
/// fn first<S: Source>(source: S) -> SourceHarnessBuilder<S, SourceTimestamps, NoWatermarks> {
///     let idle = WatermarkStrategy::no_watermarks().with_idleness(Duration::from_secs(60));
///     testing::source(source).subtask(0, 2).option("program.x", "y").watermarks(idle)
/// }
///
/// /// Reads a part of a source, and the rest of it from a checkpoint.
/// fn in_two_parts<S: Source>(make: impl Fn() -> S) -> Result<Vec<S::Record>, TaskError> {
///     let mut test: SourceHarness<S> = first(make()).open()?;
///     test.poll()?;
///     let mut records = test.output();
///     let snapshot: SourceSnapshot = test.snapshot()?;
///     let mut test = first(make()).restore(snapshot).open()?;
///     test.run()?;
///     assert!(test.has_ended() && test.last_watermark().is_some());
///     records.extend(test.timed_output().into_iter().map(|(record, _time)| record));
///     Ok(records)
/// }
///
/// /// Lets a source become idle, and fails its subtask then.
/// fn idle_and_failed<S: Source>(test: &mut SourceHarness<S>) -> Result<(), TaskError> {
///     test.advance_clock_to(100_000)?;
///     assert!(test.is_idle());
///     test.give_back()
/// }
///
/// /// Reads with two subtasks, and with one from a checkpoint that was complete when the next one failed.
/// fn rescaled<S: Source>(before: S, after: S) -> Result<Vec<S::Record>, TaskError> {
///     let mut test = testing::source(before).subtasks(2).open()?;
///     test.poll_subtask(1)?;
///     let complete = test.barrier(1)?;
///     test.notify_complete(1)?;
///     let mut records = test.output();
///     test.poll()?;
///     test.barrier(2)?;
///     let mut test = testing::source(after).restore(complete).open()?;
///     test.run()?;
///     records.extend(test.output());
///     Ok(records)
/// }
/// ```
pub struct SourceHarness<S: Source> {
    subtasks: Vec<Subtask<S>>,
    parallelism: u32,
    coordinator: SourceCoordinator<S>,
    waker: CoordinatorWaker,
    failure: Arc<Mutex<Option<String>>>,
    checkpoint: u64,
}

impl<S: Source> SourceHarness<S> {
    /// Polls each reader once, for at most 1,024 records. Returns true if a reader has more to read at once, or got an answer of the
    /// enumerator or the result of its I/O after it had read; false if each has ended or waits for the enumerator or a timer.
    ///
    /// # Errors
    /// Returns the error of a reader or, as [`TaskError::Coordinator`], that of the enumerator.
    pub fn poll(&mut self) -> Result<bool, TaskError> {
        let mut more = false;
        for index in 0..self.subtasks.len() {
            more |= self.poll_at(index)?;
        }
        Ok(more)
    }
    /// Polls the reader of one subtask, from 0, as [`SourceHarness::poll`] polls all. The result is true also if another reader got an
    /// answer of the enumerator.
    ///
    /// # Errors
    /// Returns the error of the reader or, as [`TaskError::Coordinator`], that of the enumerator; [`TaskError::Deployment`] if the test has
    /// no reader of this subtask.
    pub fn poll_subtask(&mut self, subtask: u32) -> Result<bool, TaskError> {
        let index = self.subtasks.iter().position(|reader| reader.number == subtask);
        let index = index.ok_or_else(|| {
            TaskError::Deployment(format!("the source under test has no subtask {subtask}"))
        })?;
        self.poll_at(index)
    }
    /// Polls the readers until each has ended or waits for the enumerator or for a timer; [`SourceHarness::has_ended`] tells which. Does
    /// not return for a source that always has more to read.
    ///
    /// # Errors
    /// Returns the error of a reader or, as [`TaskError::Coordinator`], that of the enumerator.
    pub fn run(&mut self) -> Result<(), TaskError> {
        while self.poll()? {}
        Ok(())
    }
    /// Returns true if all readers have ended and the final watermarks were emitted.
    pub fn has_ended(&self) -> bool {
        self.subtasks.iter().all(|subtask| subtask.ended)
    }
    /// Returns the records that were emitted since the last call of this method or of [`SourceHarness::timed_output`]: those of each
    /// subtask in their order, one subtask after the other.
    pub fn output(&mut self) -> Vec<S::Record> {
        self.timed_output().into_iter().map(|(record, _)| record).collect()
    }
    /// Returns the records that were emitted since the last call of this method or of `output`, each with its event time in
    /// milliseconds since 1970; `None`: the record has no event time.
    pub fn timed_output(&mut self) -> Vec<(S::Record, Option<i64>)> {
        self.subtasks.iter().flat_map(|subtask| subtask.output.take_records()).collect()
    }
    /// Returns the newest watermark that the subtask has emitted, in milliseconds since 1970: of several subtasks the smallest one. `None`
    /// while a subtask has emitted none, `i64::MAX` once all readers have ended.
    pub fn last_watermark(&self) -> Option<i64> {
        // `None` is less than every watermark.
        self.subtasks.iter().map(|subtask| subtask.output.last_watermark()).min().flatten()
    }
    /// Returns true while all subtasks are idle, so that watermarks do not wait for them.
    pub fn is_idle(&self) -> bool {
        self.subtasks.iter().all(|subtask| subtask.output.is_idle())
    }
    /// Moves the clock to `ms` milliseconds since 1970, and fires each timer that is due on the way, with the clock of its subtask at its
    /// time, one subtask after the other. Clocks begin at 0 and never go back: an `ms` in the past does nothing. No reader is polled.
    ///
    /// # Errors
    /// Returns the error of a reader or, as [`TaskError::Coordinator`], that of the enumerator.
    pub fn advance_clock_to(&mut self, ms: u64) -> Result<(), TaskError> {
        for index in 0..self.subtasks.len() {
            while let Some(subtask) = self.subtasks.get_mut(index)
                && let Some(ticket) = subtask.host.next_timer(ms)
            {
                subtask.head.deliver(host::NODE, host::timer(ticket))?;
                self.work_off()?;
            }
        }
        self.subtasks.iter().for_each(|subtask| subtask.host.set_clock(ms));
        Ok(())
    }
    /// Ends the attempts of all readers at the enumerator, which gets back the splits that it has assigned since the newest checkpoint that
    /// was complete ([`SplitEnumerator::add_splits_back`]). The readers are not touched.
    ///
    /// # Errors
    /// Returns the enumerator's error as [`TaskError::Coordinator`].
    pub fn give_back(&mut self) -> Result<(), TaskError> {
        for subtask in &self.subtasks {
            self.coordinator.give_back(subtask.number, None).map_err(coordinator_error)?;
            // The attempt has ended, so that nobody hears what its open poll is answered with.
            while subtask.host.next_reply().is_some() {}
        }
        self.work_off().map(drop)
    }
    /// Takes a checkpoint, with the number after that of the last one (1 at first), tells enumerator and readers that it is complete, and
    /// returns it for [`SourceHarnessBuilder::restore`]: [`SourceHarness::barrier`], then [`SourceHarness::notify_complete`].
    ///
    /// # Errors
    /// Returns the error of a reader or, as [`TaskError::Coordinator`], that of the enumerator, or that a reader has not confirmed what the
    /// enumerator has sent.
    pub fn snapshot(&mut self) -> Result<SourceSnapshot, TaskError> {
        let checkpoint = self.checkpoint + 1;
        let snapshot = self.barrier(checkpoint)?;
        self.notify_complete(checkpoint)?;
        Ok(snapshot)
    }
    /// Takes a checkpoint of the enumerator, then of the readers, also of those that have ended, and returns it for
    /// [`SourceHarnessBuilder::restore`]. Nobody is notified: without [`SourceHarness::notify_complete`] the checkpoint is one that has
    /// failed. Numbers of checkpoints must ascend, from 1.
    ///
    /// # Errors
    /// Returns the error of a reader or, as [`TaskError::Coordinator`], that of the enumerator, or that a reader has not confirmed what the
    /// enumerator has sent; [`TaskError::Deployment`] if the number is not above all earlier ones.
    pub fn barrier(&mut self, checkpoint: u64) -> Result<SourceSnapshot, TaskError> {
        self.checkpoint = checkpoint;
        let taken = Arc::new(Mutex::new(None));
        let put = taken.clone();
        let reply = EventReply::new(move |answer| *crate::lock(&put) = Some(answer));
        self.coordinator.snapshot(checkpoint, reply);
        self.work_off()?;
        let late = || Err("the reader has not confirmed what the enumerator has sent".to_owned());
        let enumerator = crate::lock(&taken).take().unwrap_or_else(late);
        let enumerator = enumerator.map_err(coordinator_error)?;
        let nothing = encode_one(&Vec::<(S::Split, i64)>::new());
        let absent = SubtaskSnapshot { ended: false, state: nothing };
        let mut subtasks = vec![absent; self.parallelism as usize];
        for subtask in &mut self.subtasks {
            let part = subtask.pass_barrier(checkpoint)?;
            if let Some(place) = subtasks.get_mut(subtask.number as usize) {
                *place = part;
            }
        }
        self.work_off()?;
        Ok(SourceSnapshot { enumerator, subtasks })
    }
    /// Notifies the enumerator, then the readers, that a checkpoint is complete; does not check that there was one of this number.
    ///
    /// # Errors
    /// Returns the error of a reader or, as [`TaskError::Coordinator`], that of the enumerator.
    pub fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.coordinator.checkpoint_ended(checkpoint, true).map_err(coordinator_error)?;
        let mut subtasks = self.subtasks.iter_mut();
        subtasks.try_for_each(|subtask| subtask.head.notify_complete(checkpoint))?;
        self.work_off().map(drop)
    }

    /// Polls the reader at an index of the test's readers, as [`SourceHarness::poll`] does.
    fn poll_at(&mut self, index: usize) -> Result<bool, TaskError> {
        self.work_off()?;
        let Some(subtask) = self.subtasks.get_mut(index) else { return Ok(false) };
        let progress = subtask.head.step(BUDGET)?;
        subtask.ended = progress == Progress::Finished;
        subtask.head.flush(true)?;
        Ok(self.work_off()? || progress == Progress::Busy)
    }

    /// Delivers all messages between readers and enumerator. Returns whether a reader got one.
    fn work_off(&mut self) -> Result<bool, TaskError> {
        let mut heard = false;
        loop {
            let mut done = true;
            if self.waker.take() {
                self.coordinator.woken().map_err(coordinator_error)?;
                done = false;
            }
            for subtask in &mut self.subtasks {
                if let Some(why) = crate::lock(&self.failure).take() {
                    return Err(coordinator_error(why));
                }
                if let Some((ticket, poll)) = subtask.host.next_poll() {
                    let host = subtask.host.clone();
                    let reply = EventReply::new(move |answer| host.answered(ticket, answer));
                    self.coordinator.answer_event(subtask.shared.attempt, &poll, reply);
                    done = false;
                } else if let Some((ticket, answer)) = subtask.host.next_reply() {
                    subtask.head.deliver(host::NODE, host::reply(ticket, answer))?;
                    (heard, done) = (true, false);
                }
            }
            if done {
                return Ok(heard);
            }
        }
    }
}
