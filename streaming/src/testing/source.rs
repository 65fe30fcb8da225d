//! The test of a source: one subtask's reader and the enumerator run on the calling thread; the clock is moved by hand.

use super::{
    gather::{Gather, Gathered},
    host::{self, Host},
};
use crate::{
    chain::{Head, SourceHead},
    operators::{ChainShared, join_chunks},
    seam::{
        Barrier, Coordinator, CoordinatorContext, EventReply, Interrupt, OnFailure, Progress,
        TaskError,
    },
    sources::{Source, SplitEnumerator, intern::SourceCoordinator},
    time::{
        NoWatermarks, PerSplit, SourceTimestamps, SplitTimes, TimestampAssigner,
        WatermarkGenerator, WatermarkStrategy,
    },
};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// Records that one poll of the reader may emit.
const BUDGET: usize = 1_024;

/// Prepares the test of a source: one subtask's reader and the enumerator, without a generator of watermarks. No other subtask registers
/// with the enumerator. Nothing is opened before [`SourceHarnessBuilder::open`]. [`Source`] has an example.
pub fn source<S: Source>(source: S) -> SourceHarnessBuilder<S, SourceTimestamps, NoWatermarks> {
    SourceHarnessBuilder {
        source,
        watermarks: WatermarkStrategy::no_watermarks(),
        place: (0, 1),
        options: BTreeMap::new(),
        restore: None,
    }
}

/// The test of a source before it is opened: strategy for watermarks, number of the subtask, options and snapshot to restore; made by
/// [`source`]. By default the reader is the only subtask, the job has no options and nothing is restored. The clock begins at 0, and the
/// folder for temporary files is the empty path, so that files are in the working directory.
pub struct SourceHarnessBuilder<S: Source, F, G> {
    source: S,
    watermarks: WatermarkStrategy<S::Record, F, G>,
    place: (u32, u32),
    options: BTreeMap<String, String>,
    restore: Option<SourceSnapshot>,
}

/// A checkpoint of a source: the encoded snapshots of its enumerator and of one reader. [`SourceHarness::snapshot`] makes it,
/// [`SourceHarnessBuilder::restore`] reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSnapshot {
    enumerator: Vec<u8>,
    reader: Vec<Vec<u8>>,
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
        let Self { source, place, options, restore, .. } = self;
        SourceHarnessBuilder { source, watermarks: strategy, place, options, restore }
    }
    /// Makes the reader subtask number `subtask`, from 0, of `of` subtasks (0 counts as 1). By default it is the only one. `subtask` must
    /// be less than `of`, which is not checked; the readers of the other subtasks do not exist.
    pub fn subtask(self, subtask: u32, of: u32) -> Self {
        Self { place: (subtask, of.max(1)), ..self }
    }
    /// Sets an option of the job, which the contexts of reader and enumerator return; the last call for a key counts.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }
    /// Restores enumerator and reader from a snapshot of [`SourceHarness::snapshot`], in [`SourceHarnessBuilder::open`]; without this call
    /// they begin anew.
    pub fn restore(self, snapshot: SourceSnapshot) -> Self {
        Self { restore: Some(snapshot), ..self }
    }

    /// Starts the enumerator, then opens the reader, which registers with it unless it is a [`NoEnumerator`](crate::sources::NoEnumerator);
    /// reads no record.
    ///
    /// # Errors
    /// Returns the error of the reader or, as [`TaskError::Coordinator`], that of the enumerator, for example when its input is absent.
    pub fn open(self) -> Result<SourceHarness<S>, TaskError> {
        let host = Arc::new(Host::default());
        let upcalls = host.clone();
        let options = self.options;
        let context = host::context(self.place, options.clone(), Interrupt::default(), upcalls);
        let (enumerator, reader) = match self.restore {
            Some(SourceSnapshot { enumerator, reader }) => (Some(enumerator), reader),
            None => (None, Vec::new()),
        };
        let context = context.restoring(reader);
        let shared = context.shared().clone();
        let failure = Arc::new(Mutex::new(None));
        let failed = failure.clone();
        let source = Arc::new(Mutex::new(self.source));
        let mut coordinator = SourceCoordinator::new(
            source.clone(),
            CoordinatorContext {
                job_id: context.job_id(),
                operator: context.operator,
                parallelism: self.place.1,
                tmp_dir: PathBuf::new(),
                options: Arc::new(options),
                on_failure: OnFailure::new(move |why| *crate::lock(&failed) = Some(why)),
            },
        );
        coordinator.start(enumerator).map_err(|why| context.coordinator_error(why))?;
        let output = Gathered::default();
        let next = Box::new(Gather(output.clone()));
        let times: Box<dyn SplitTimes<S::Record>> = Box::new(PerSplit::new(self.watermarks));
        let reader = crate::lock(&source).create_reader(&context);
        let coordinated = S::Enumerator::COORDINATED;
        let mut head = SourceHead::new(reader, coordinated, Some(times), next, context)?;
        head.open()?;
        let mut test = SourceHarness {
            head,
            coordinator,
            host,
            shared,
            output,
            failure,
            checkpoint: 0,
            ended: false,
        };
        test.work_off()?;
        Ok(test)
    }
}

/// The opened test of a source: one reader and the enumerator, between which messages are passed on at once; made by
/// [`SourceHarnessBuilder::open`]. Nothing is read but in [`SourceHarness::poll`] and [`SourceHarness::run`], and the clock moves only in
/// [`SourceHarness::advance_clock_to`]. A call returns when all that it has caused is done, I/O of the reader included. After an error the
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
/// ```
pub struct SourceHarness<S: Source> {
    head: SourceHead<S::Reader>,
    coordinator: SourceCoordinator<S>,
    host: Arc<Host>,
    shared: Arc<ChainShared>,
    output: Gathered<S::Record>,
    failure: Arc<Mutex<Option<String>>>,
    checkpoint: u64,
    ended: bool,
}

impl<S: Source> SourceHarness<S> {
    /// Polls the reader once, for at most 1,024 records. Returns true if the reader has more to read at once, or got an answer of the
    /// enumerator or the result of its I/O after it had read; false if it has ended or waits for the enumerator or a timer.
    ///
    /// # Errors
    /// Returns the error of the reader or, as [`TaskError::Coordinator`], that of the enumerator.
    pub fn poll(&mut self) -> Result<bool, TaskError> {
        self.work_off()?;
        let progress = self.head.step(BUDGET)?;
        self.ended = progress == Progress::Finished;
        self.head.flush(true)?;
        Ok(self.work_off()? || progress == Progress::Busy)
    }
    /// Polls the reader until it has ended or waits for the enumerator or for a timer; [`SourceHarness::has_ended`] tells which. Does not
    /// return for a source that always has more to read.
    ///
    /// # Errors
    /// Returns the error of the reader or, as [`TaskError::Coordinator`], that of the enumerator.
    pub fn run(&mut self) -> Result<(), TaskError> {
        while self.poll()? {}
        Ok(())
    }
    /// Returns true if the reader has ended and the final watermark was emitted.
    pub fn has_ended(&self) -> bool {
        self.ended
    }
    /// Returns the records that were emitted since the last call of this method or of [`SourceHarness::timed_output`], in their
    /// order.
    pub fn output(&mut self) -> Vec<S::Record> {
        self.timed_output().into_iter().map(|(record, _)| record).collect()
    }
    /// Returns the records that were emitted since the last call of this method or of `output`, each with its event time in
    /// milliseconds since 1970; `None`: the record has no event time.
    pub fn timed_output(&mut self) -> Vec<(S::Record, Option<i64>)> {
        self.output.take_records()
    }
    /// Returns the newest watermark that the subtask has emitted, in milliseconds since 1970; `None` before the first one, `i64::MAX` once
    /// the reader has ended.
    pub fn last_watermark(&self) -> Option<i64> {
        self.output.last_watermark()
    }
    /// Returns true while the subtask is idle, so that watermarks do not wait for it.
    pub fn is_idle(&self) -> bool {
        self.output.is_idle()
    }
    /// Moves the clock to `ms` milliseconds since 1970, and fires each timer that is due on the way, with the clock at its time. The clock
    /// begins at 0 and never goes back: an `ms` in the past does nothing. The reader is not polled.
    ///
    /// # Errors
    /// Returns the error of the reader or, as [`TaskError::Coordinator`], that of the enumerator.
    pub fn advance_clock_to(&mut self, ms: u64) -> Result<(), TaskError> {
        while let Some(ticket) = self.host.next_timer(ms) {
            self.head.deliver(host::NODE, host::timer(ticket))?;
            self.work_off()?;
        }
        self.host.set_clock(ms);
        Ok(())
    }
    /// Ends the subtask's attempt at the enumerator, which gets back the splits that it has assigned since the last snapshot
    /// ([`SplitEnumerator::add_splits_back`]). The reader is not touched.
    ///
    /// # Errors
    /// Returns the enumerator's error as [`TaskError::Coordinator`].
    pub fn give_back(&mut self) -> Result<(), TaskError> {
        let given_back = self.coordinator.give_back(self.shared.attempt.subtask);
        given_back.map_err(|why| self.coordinator_error(why))?;
        self.work_off().map(drop)
    }
    /// Takes a checkpoint of the enumerator, then of the reader, notifies both that it is complete, and returns it for
    /// [`SourceHarnessBuilder::restore`]. Checkpoints are numbered from 1. Once the reader has ended, its part of the snapshot is empty: a
    /// reader restored from it holds no split.
    ///
    /// # Errors
    /// Returns the reader's error or, as [`TaskError::Coordinator`], that of the enumerator, or that the reader has not confirmed what the
    /// enumerator has sent.
    pub fn snapshot(&mut self) -> Result<SourceSnapshot, TaskError> {
        self.checkpoint += 1;
        let checkpoint = self.checkpoint;
        let taken = Arc::new(Mutex::new(None));
        let put = taken.clone();
        let reply = EventReply::new(move |answer| *crate::lock(&put) = Some(answer));
        self.coordinator.snapshot(checkpoint, reply);
        self.work_off()?;
        let late = || Err("the reader has not confirmed what the enumerator has sent".to_owned());
        let enumerator = crate::lock(&taken).take().unwrap_or_else(late);
        let enumerator = enumerator.map_err(|why| self.coordinator_error(why))?;
        self.head.trigger(Barrier { checkpoint, ..Barrier::default() })?;
        self.work_off()?;
        let reader = self.shared.take_snapshots(checkpoint);
        let ended = self.coordinator.checkpoint_ended(checkpoint, true);
        ended.map_err(|why| self.coordinator_error(why))?;
        self.head.notify_complete(checkpoint)?;
        self.work_off()?;
        let reader = reader.iter().map(|(_, chunks)| join_chunks(chunks)).collect();
        Ok(SourceSnapshot { enumerator, reader })
    }

    /// Returns the enumerator's failure as a task error.
    fn coordinator_error(&self, why: String) -> TaskError {
        TaskError::Coordinator { operator: "test".to_owned(), why }
    }

    /// Delivers all messages between reader and enumerator. Returns whether the reader got one.
    fn work_off(&mut self) -> Result<bool, TaskError> {
        let mut heard = false;
        loop {
            if let Some(why) = crate::lock(&self.failure).take() {
                return Err(self.coordinator_error(why));
            }
            if let Some((ticket, poll)) = self.host.next_poll() {
                let host = self.host.clone();
                let reply = EventReply::new(move |answer| host.answered(ticket, answer));
                self.coordinator.answer_event(self.shared.attempt, &poll, reply);
            } else if let Some((ticket, answer)) = self.host.next_reply() {
                self.head.deliver(host::NODE, host::reply(ticket, answer))?;
                heard = true;
            } else {
                return Ok(heard);
            }
        }
    }
}
