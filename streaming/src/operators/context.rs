//! The context of an operator: where it runs, what it restores, and how it asks its host for I/O, timers and its coordinator.

use super::{BoxError, Metrics, OnePiece, taken::Snapshots, text_of};
use crate::{
    lock,
    memory::allocator,
    seam::{Interrupt, Restore, TaskCounters, TaskError, TaskUpcalls},
    state::KeyGroups,
};
use futures::future::BoxFuture;
use model::{Devices, ExecutionAttemptId, JobId, NodeId, OperatorId, parse_duration};
use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The values that all operators of one subtask (one chain of operators) share; each operator's [`OperatorContext`] reads them. The chain's
/// assembly makes them anew for each execution attempt, of what the host has passed to it.
pub struct ChainShared {
    /// Id of the job.
    pub job_id: JobId,
    /// Index of the subtask, 0-based.
    pub subtask: u32,
    /// Number of subtasks of the chain.
    pub parallelism: u32,
    /// Number of key groups of the chain.
    pub max_parallelism: u32,
    /// Id of this execution attempt.
    pub attempt: ExecutionAttemptId,
    /// The task's calls to its host, the process that runs it: events for coordinators, I/O, timers, acknowledgements. Answers come
    /// by mail.
    pub upcalls: Arc<dyn TaskUpcalls>,
    /// Existing directory for temporary files, which the job's tasks on this TaskManager share and which is deleted when the job's process
    /// ends there.
    pub tmp_dir: PathBuf,
    /// Options by key: the job's, else the TaskManager's for the data plane; [`OperatorContext::option`] says what the two have.
    pub options: Arc<BTreeMap<String, String>>,
    /// The devices of external resources, such as GPUs, that belong to the subtask's slot: ranges of indices, by resource name.
    pub devices: Arc<Devices>,
    /// The subtask's counters of records, bytes and the metrics of functions, which REST shows.
    pub counters: Arc<TaskCounters>,
    /// The flag that makes operators stop after the record at hand. The host raises it for mail, timers that are due included, to stop
    /// the task and during a long step; the task lowers it before each step.
    pub interrupt: Interrupt,
    /// True if the subtask had reached the end of its data in the checkpoint that it is restored from: no records come, and of
    /// events only barriers, no watermarks and no end of input. Answers to requests, snapshots and notices of complete checkpoints come as
    /// ever; timers of the clock only to an operator that commits.
    pub restored_at_end: bool,
    /// True if the task waits, after the end of its data, for the job's final checkpoint: in a job with periodic checkpoints, sinks that
    /// commit, or an unbounded source. If false, the task finishes at once at the end of its data, and the job takes no checkpoint at all.
    pub ends_with_checkpoint: bool,
    /// True once the barrier of a stop has passed through the chain before the end of its data: see [`ChainShared::is_stopped`].
    pub(crate) stopped: AtomicBool,
    /// True once the JobMaster has cancelled the task, and with it those that it works with.
    pub(crate) cancelled: AtomicBool,
    /// The number after that of the newest checkpoint that was aborted, whose barrier may come later than the notice.
    pub(crate) aborted: AtomicU64,
    /// Snapshots of operators for barriers that are still in the chain, by checkpoint id.
    pub(crate) snapshots: Mutex<BTreeMap<u64, Snapshots>>,
    /// The operators whose snapshots may be built on, by checkpoint id, each with the checkpoint that it builds on.
    pub(crate) bases: Mutex<BTreeMap<(u64, OperatorId), Option<u64>>>,
}

impl ChainShared {
    /// Returns true once the job is stopped without the end of its data. The snapshot of the stop is all that remains of the chain: its
    /// operators are called no more, and the end of input passes them by, so that they emit nothing of what they hold.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Records that a checkpoint was aborted.
    pub(crate) fn abort(&self, checkpoint: u64) {
        self.aborted.fetch_max(checkpoint.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns true if a checkpoint was aborted, or an older one than one that was. One is taken at a time, and numbers grow, so that
    /// none of these will be complete.
    pub(crate) fn is_aborted(&self, checkpoint: u64) -> bool {
        checkpoint < self.aborted.load(Ordering::Relaxed)
    }

    /// Returns a job option as a duration, such as `100 ms`: the first of `keys` that is set; `default` if none is set.
    ///
    /// # Errors
    /// Returns [`TaskError::InvalidOption`] if the value is not a duration.
    pub(crate) fn duration_option(
        &self,
        keys: &[&str],
        default: Duration,
    ) -> Result<Duration, TaskError> {
        let set = keys.iter().find_map(|key| self.options.get_key_value(*key));
        let Some((key, text)) = set else { return Ok(default) };
        let wrong = || TaskError::InvalidOption { key: key.clone(), text: text.clone() };
        parse_duration(text).ok_or_else(wrong)
    }
}

/// The context of one operator's subtask: its identity, the job's options, its snapshots to restore, and its requests to the host (I/O,
/// timers, events for the coordinator). None of the requests blocks; answers come as [`OperatorMail`] to
/// [`Operator::mail`](super::Operator::mail) of an operator of one's own, and never to a function such as a
/// [`ProcessFunction`](super::ProcessFunction). The methods whose names end in `_error` make the errors that an operator returns to fail
/// its task; if a function of the program returns one of them, the task fails with [`TaskError::User`] all the same.
///
/// ```
/// use std::{fs::File, path::PathBuf};
/// use streaming::operators::{BoxError, Collector, OperatorContext, ProcessFunction};
///
/// /// Writes each line to a file of its subtask, whose name contains the subtask's first GPU.
/// #[derive(Clone, Default)]
/// struct Scratch {
///     place: PathBuf,
/// }
///
/// impl ProcessFunction<String> for Scratch {
///     type Out = (u32, String);
///     fn open(&mut self, ctx: &OperatorContext) -> Result<(), BoxError> {
///         let device = ctx.external_resource("gpu").next();
///         let file = format!("{}-{}-{}-{device:?}", ctx.job_id(), ctx.name(), ctx.subtask());
///         self.place = ctx.tmp_dir().join(file);
///         File::create(&self.place).map_err(|error| ctx.io_error("scratch", error))?;
///         if ctx.max_parallelism() < ctx.parallelism() {
///             return Err(Box::new(ctx.user_error("too few key groups".into())));
///         }
///         Ok(())
///     }
///     fn process(&mut self, line: String, out: &mut Collector<Self::Out>) -> Result<(), BoxError> {
///         std::fs::write(&self.place, &line)?;
///         // The emitted record has the event time 0, whatever the time of the line.
///         out.collect_at((0, line), 0);
///         Ok(())
///     }
/// }
/// ```
pub struct OperatorContext {
    pub(crate) node: NodeId,
    pub(crate) operator: OperatorId,
    pub(crate) name: String,
    pub(crate) restore: Mutex<Restore>,
    /// The kinds of the states that the operator has dropped from the restored snapshots, by name.
    pub(crate) dropped: Mutex<BTreeMap<String, String>>,
    /// Warns if the operator writes much in one piece at a barrier.
    pub(crate) one_piece: OnePiece,
    pub(crate) shared: Arc<ChainShared>,
}

/// Mail for one operator: the answer to what it has asked for with [`OperatorContext::wake_after`], [`OperatorContext::spawn_io`] or
/// [`OperatorContext::ask_coordinator`]. Its `ticket` is the number that the operator gave with the request; the runtime does not look at
/// it, so several requests may have the same. Mail is in no checkpoint: what was asked for before a restart is never answered after it.
///
/// ```
/// use std::time::Duration;
/// use streaming::{
///     Stream, TaskError,
///     batch::Batch,
///     operators::{Collector, Operator, OperatorContext, OperatorMail},
/// };
///
/// /// Emits the number of records every second, and once a greeting that it fetches from a service.
/// #[derive(Default)]
/// struct Pulse {
///     records: u64,
/// }
///
/// impl Operator<String> for Pulse {
///     type Out = String;
///     fn open(&mut self, ctx: &OperatorContext) -> Result<(), TaskError> {
///         ctx.wake_after(Duration::from_secs(1), 0);
///         ctx.spawn_io(Box::pin(async { Ok(b"hello".to_vec()) }), 1);
///         Ok(())
///     }
///     fn process(
///         &mut self,
///         batch: &mut Batch<String>,
///         _: &mut Collector<String>,
///         _: &OperatorContext,
///     ) -> Result<(), TaskError> {
///         self.records += batch.len() as u64;
///         batch.clear();
///         Ok(())
///     }
///     fn mail(
///         &mut self,
///         mail: OperatorMail,
///         out: &mut Collector<String>,
///         ctx: &OperatorContext,
///     ) -> Result<(), TaskError> {
///         match mail {
///             OperatorMail::Timer { .. } => {
///                 if !out.is_full() {
///                     out.set_time(ctx.now_unix_ms() as i64);
///                     out.collect(format!("{} records", std::mem::take(&mut self.records)));
///                 }
///                 ctx.wake_after(Duration::from_secs(1), 0);
///             }
///             OperatorMail::Reply { result, .. } => {
///                 let greeting = result.map_err(|why| ctx.io_error("the greeting", why))?;
///                 out.collect(String::from_utf8_lossy(&greeting).into_owned());
///             }
///         }
///         Ok(())
///     }
/// }
///
/// fn pulse(lines: &Stream<String>) -> Stream<String> {
///     lines.transform("pulse", Pulse::default)
/// }
/// ```
#[derive(Debug)]
pub enum OperatorMail {
    /// The result of I/O, or the coordinator's answer. One comes for every [`OperatorContext::spawn_io`] and
    /// [`OperatorContext::ask_coordinator`], also after the end of the operator's input, unless the task ends before.
    Reply {
        /// The number that the operator gave its request.
        ticket: u32,
        /// The bytes of the answer, or the reason, as text, why there is none: the I/O failed or panicked, the coordinator refused or did
        /// not answer in time (60 to 120 s), the operator has no coordinator, or 4,096 requests of the task had no answer yet.
        result: Result<Vec<u8>, String>,
    },
    /// The time of [`OperatorContext::wake_after`] has passed. Dropped instead once the operator has seen the end of its input (also before
    /// a restore) or the barrier of a stop that is not drained, unless [`Operator::is_committing`](super::Operator::is_committing) is true.
    Timer {
        /// The number that the operator gave its request.
        ticket: u32,
    },
}

impl OperatorContext {
    /// Returns the operator's name, as errors and metrics show it.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Returns the id of the job.
    pub fn job_id(&self) -> JobId {
        self.shared.job_id
    }
    /// Returns the index of this subtask, from 0 to [`OperatorContext::parallelism`] less 1.
    pub fn subtask(&self) -> u32 {
        self.shared.subtask
    }
    /// Returns the number of subtasks of this operator.
    pub fn parallelism(&self) -> u32 {
        self.shared.parallelism
    }
    /// Returns true if this subtask takes over from the subtask with the index `former` of an earlier attempt: its leftover files, and what
    /// an operator of one's own restores by this rule. Keyed state and the lists of an [`OperatorState`](crate::state::OperatorState) are
    /// dealt out by other rules. Each former subtask has exactly one successor, whatever the parallelism was and is: subtask 1 of 3
    /// succeeds the subtasks 1, 4, 7 and so on.
    pub fn takes_over(&self, former: u32) -> bool {
        former % self.parallelism().max(1) == self.subtask()
    }
    /// Returns the number of key groups of this operator, the greatest parallelism that it can be restored with.
    pub fn max_parallelism(&self) -> u32 {
        self.shared.max_parallelism
    }
    /// Returns the key groups that this subtask owns.
    pub(crate) fn key_groups(&self) -> KeyGroups {
        KeyGroups::of_subtask(self.subtask(), self.parallelism(), self.max_parallelism())
    }
    /// Returns the id of this execution attempt. No other attempt has the same, also under another JobMaster; its number `attempt` alone
    /// begins with 0 again under the next JobMaster.
    pub fn attempt(&self) -> ExecutionAttemptId {
        self.shared.attempt
    }
    /// Returns the value of an option that client or program set for the job, or that the cluster set for jobs if the key begins with
    /// `pipeline.` or `execution.checkpointing.`; else that of the TaskManager if it begins with `s3.`, `exchange.`, `execution.`, `task.`,
    /// `taskmanager.network.` or `taskmanager.memory.segment`; else `None`. Of defaults only `parallelism.default` is filled in.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.shared.options.get(key).map(String::as_str)
    }
    /// Returns the devices of an external resource (`external-resource.<name>.amount`), such as `gpu`, that belong to the slot of this
    /// subtask: indices from 0 on its TaskManager, an empty range if there are none. Subtasks in the same slot share them; other slots
    /// have others.
    pub fn external_resource(&self, name: &str) -> Range<u64> {
        self.shared.devices.get(name).cloned().unwrap_or_default()
    }
    /// Returns the metrics of this operator's subtask, which REST shows. Look metrics up in `open`, not per record.
    pub fn metrics(&self) -> Metrics<'_> {
        Metrics { operator: &self.name, of_task: &self.shared.counters.functions }
    }
    /// Returns an existing directory for temporary files. The job's tasks on this TaskManager share it, so file names should contain
    /// operator and subtask. It is deleted with its content when the job's process on the TaskManager ends, not at the end of a task. In a
    /// test of one operator it is the empty path.
    pub fn tmp_dir(&self) -> &std::path::Path {
        &self.shared.tmp_dir
    }
    /// Returns the time of the machine's clock in milliseconds since 1970, which may jump or go back; in a test, of the test's clock.
    pub fn now_unix_ms(&self) -> u64 {
        self.shared.upcalls.now_unix_ms()
    }
    /// Returns true if there are snapshots to restore, also after all of them were read. False without a restore, and if the checkpoint or
    /// savepoint has no state of this operator or, for an operator with keyed state only, none for this subtask's key groups.
    pub fn is_restored(&self) -> bool {
        !lock(&self.restore).is_empty()
    }
    /// Returns the next snapshot to restore from, and forgets it: a large state is never in memory twice. Each former subtask that wrote
    /// state has one snapshot, or several if its state was written in chunks; they come in the order of the former subtasks. An operator
    /// that declares keyed state only gets what may have keys of its key groups, any other operator the snapshots of all former subtasks.
    /// `None` once all were returned. May block while storage is read.
    ///
    /// # Errors
    /// Returns [`TaskError::Unreadable`] if the snapshot is lost or damaged, [`TaskError::Io`] if it cannot be read for now. The
    /// operator returns the error to fail its task.
    pub fn next_snapshot(&self) -> Result<Option<Vec<u8>>, TaskError> {
        let snapshot = lock(&self.restore).next().transpose()?;
        if let Some(bytes) = &snapshot {
            // A thread that reads objects has allocated them.
            allocator::take_over(bytes.capacity() as u64);
        }
        Ok(snapshot)
    }
    /// Returns all snapshots that [`Self::next_snapshot`] has not returned, in memory at once: for small state. Empty if there are none.
    ///
    /// # Errors
    /// Fails as [`Self::next_snapshot`] does.
    ///
    /// ```
    /// use streaming::{
    ///     TaskError,
    ///     batch::Batch,
    ///     operators::{Collector, Operator, OperatorContext},
    ///     testing,
    ///     types::{decode_one, encode_one},
    /// };
    ///
    /// /// Emits the number of records so far. After a restore each former subtask's number goes to its successor.
    /// #[derive(Default)]
    /// struct Counted(u64);
    ///
    /// impl Operator<String> for Counted {
    ///     type Out = u64;
    ///     const HAS_STATE: bool = true;
    ///     fn open(&mut self, ctx: &OperatorContext) -> Result<(), TaskError> {
    ///         for snapshot in ctx.snapshots()? {
    ///             let (subtask, count): (u32, u64) =
    ///                 decode_one(&snapshot).map_err(|error| ctx.codec_error(error))?;
    ///             self.0 += if ctx.takes_over(subtask) { count } else { 0 };
    ///         }
    ///         Ok(())
    ///     }
    ///     fn process(
    ///         &mut self,
    ///         batch: &mut Batch<String>,
    ///         out: &mut Collector<u64>,
    ///         _: &OperatorContext,
    ///     ) -> Result<(), TaskError> {
    ///         self.0 += batch.len() as u64;
    ///         batch.clear();
    ///         out.collect(self.0);
    ///         Ok(())
    ///     }
    ///     fn snapshot(
    ///         &mut self,
    ///         _checkpoint: u64,
    ///         ctx: &OperatorContext,
    ///     ) -> Result<Option<Vec<u8>>, TaskError> {
    ///         Ok(Some(encode_one(&(ctx.subtask(), self.0))))
    ///     }
    /// }
    ///
    /// let of_two = [encode_one(&(0_u32, 5_u64)), encode_one(&(1_u32, 7_u64))];
    /// let mut restored = testing::operator(Counted::default()).restore(of_two).open()?;
    /// restored.push("a".to_owned())?;
    /// assert_eq!(restored.output(), [13]);
    /// assert_eq!(restored.snapshot()?, [encode_one(&(0_u32, 13_u64))]);
    /// # Ok::<(), TaskError>(())
    /// ```
    pub fn snapshots(&self) -> Result<Vec<Vec<u8>>, TaskError> {
        lock(&self.restore).by_ref().collect()
    }
    /// Returns the values that all operators of the subtask share.
    pub(crate) fn shared(&self) -> &Arc<ChainShared> {
        &self.shared
    }
    /// Sends an event to the operator's coordinator; returns at once. The answer comes as [`OperatorMail::Reply`] with `ticket`; only then
    /// the next event of this task is sent, of whatever operator, so that events arrive in order. Events that are not sent when the task
    /// ends are dropped. The answer is an error if the coordinator refuses or does not answer in time (60 to 120 s), if there is no
    /// coordinator (as for [`Stream::transform`](crate::Stream::transform)), or if 4,096 requests of the task have no answer yet.
    ///
    /// ```
    /// use streaming::{
    ///     TaskError,
    ///     batch::Batch,
    ///     operators::{Collector, Operator, OperatorContext, OperatorMail},
    ///     testing,
    /// };
    ///
    /// /// Passes even numbers, and says to its coordinator that it has started.
    /// struct Even;
    ///
    /// impl Operator<u64> for Even {
    ///     type Out = u64;
    ///     fn open(&mut self, ctx: &OperatorContext) -> Result<(), TaskError> {
    ///         ctx.ask_coordinator(b"started".to_vec(), 0);
    ///         Ok(())
    ///     }
    ///     fn process(
    ///         &mut self,
    ///         batch: &mut Batch<u64>,
    ///         out: &mut Collector<u64>,
    ///         ctx: &OperatorContext,
    ///     ) -> Result<(), TaskError> {
    ///         if let Some(odd) = batch.records().iter().find(|n| **n % 2 == 1) {
    ///             return Err(ctx.input_error(format!("contains the odd number {odd}")));
    ///         }
    ///         batch.each(|n, time| out.collect_at(n, time));
    ///         Ok(())
    ///     }
    ///     fn mail(
    ///         &mut self,
    ///         mail: OperatorMail,
    ///         _: &mut Collector<u64>,
    ///         ctx: &OperatorContext,
    ///     ) -> Result<(), TaskError> {
    ///         match mail {
    ///             OperatorMail::Reply { ticket: 0, result } => {
    ///                 result.map(drop).map_err(|why| ctx.coordinator_error(why))
    ///             }
    ///             _ => Ok(()),
    ///         }
    ///     }
    /// }
    ///
    /// // An operator under test has no coordinator.
    /// assert!(matches!(testing::operator(Even).open(), Err(TaskError::Coordinator { .. })));
    /// ```
    pub fn ask_coordinator(&self, event: Vec<u8>, ticket: u32) {
        self.shared.upcalls.operator_event(self.operator, event, self.ticket(ticket));
    }
    /// Sends a request like [`OperatorContext::ask_coordinator`], and again if its answer is lost: it must do no harm twice.
    pub(crate) fn poll_coordinator(&self, event: Vec<u8>, ticket: u32) {
        self.shared.upcalls.operator_poll(self.operator, event, self.ticket(ticket));
    }
    /// Runs I/O on the process's runtime, beside the task; returns at once. The future's output comes as [`OperatorMail::Reply`] with
    /// `ticket`, an error if it panics, or if 4,096 requests of the task have no answer yet: then the future is not run at all. Futures of
    /// several calls run at the same time, and answers come in any order. Work not done when the task ends is dropped.
    pub fn spawn_io(&self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u32) {
        self.shared.upcalls.spawn_io(work, self.ticket(ticket));
    }
    /// Asks for one [`OperatorMail::Timer`] with `ticket` once the duration `after` has passed on the monotonic clock, or later if the task
    /// is busy. The request cannot be taken back; several may have one ticket. A timer that is due after the end of the operator's input
    /// (also one before a restore) or after the barrier of a stop that is not drained is dropped, unless
    /// [`Operator::is_committing`](super::Operator::is_committing) is true then.
    pub fn wake_after(&self, after: Duration, ticket: u32) {
        self.shared.upcalls.wake_at(after, self.ticket(ticket));
    }

    fn ticket(&self, local: u32) -> u64 {
        ticket_of(self.node, local)
    }

    /// Makes a [`TaskError::User`] of an error of user code; the operator returns it to fail its task. The text joins the error's message
    /// and causes with `: `; of more than 20 KiB only the first 16 stay. The job's restart strategy decides on a restart; if the job has
    /// none, it fails at once.
    pub fn user_error(&self, error: BoxError) -> TaskError {
        TaskError::User { operator: self.name.clone(), message: text_of(&error) }
    }
    /// Makes a [`TaskError::Io`], which the operator returns to fail its task: `what` was being done, and `why` it failed. The job's
    /// restart strategy decides on a restart; a job without one is restarted up to 10 times in a row.
    pub fn io_error(&self, what: impl Into<String>, why: impl fmt::Display) -> TaskError {
        TaskError::Io { operator: self.name.clone(), what: what.into(), why: why.to_string() }
    }
    /// Makes a [`TaskError::Input`] for wrong input, which the operator returns to fail its task. `what` continues the sentence "the
    /// input …". The job is not restarted, whatever its restart strategy.
    pub fn input_error(&self, what: impl Into<String>) -> TaskError {
        TaskError::Input { operator: self.name.clone(), what: what.into() }
    }
    /// Makes a [`TaskError::Coordinator`] for a coordinator that refused or did not answer, which the operator returns to fail its task.
    /// The job's restart strategy decides on a restart; a job without one is restarted up to 10 times in a row.
    pub fn coordinator_error(&self, why: impl Into<String>) -> TaskError {
        TaskError::Coordinator { operator: self.name.clone(), why: why.into() }
    }
    /// Makes a [`TaskError::Codec`] for bytes or a value that the codec refuses, which the operator returns to fail its task; `open` of a
    /// restored operator fails with [`TaskError::Restore`] instead. The restart strategy decides; a job without one fails at once.
    pub fn codec_error(&self, source: crate::types::CodecError) -> TaskError {
        TaskError::Codec { place: self.name.clone(), source }
    }
}

/// Returns the ticket of an operator's request: the operator in the upper 32 bits, so that the answer finds it, and the
/// operator's own number in the lower ones.
pub(crate) fn ticket_of(node: NodeId, local: u32) -> u64 {
    u64::from(node.0) << 32 | u64::from(local)
}

/// Splits a ticket into its operator and the operator's own number.
pub(crate) fn split_ticket(ticket: u64) -> (NodeId, u32) {
    // Both halves fit into 32 bits, because that is how the ticket was made.
    (NodeId((ticket >> 32) as u32), ticket as u32)
}

#[cfg(test)]
impl OperatorContext {
    /// Makes the context of a subtask without a host, for tests.
    pub(crate) fn for_tests(subtask: u32, parallelism: u32) -> Self {
        Self::for_tests_with(subtask, parallelism, Arc::new(crate::state::slow::Reads::default()))
    }

    /// Makes the context of a subtask whose host is `upcalls`, for tests.
    pub(crate) fn for_tests_with(
        subtask: u32,
        parallelism: u32,
        upcalls: Arc<dyn TaskUpcalls>,
    ) -> Self {
        let place = (subtask, parallelism);
        crate::testing::context(place, BTreeMap::new(), Interrupt::default(), upcalls)
    }
}
