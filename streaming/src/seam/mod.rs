//! The interface between the chains of a program and the tasks that drive them.
//!
//! Chains (API, operators, sources, sinks) implement [`Subtask`] and [`Coordinator`]; the task runtime implements the ports and
//! [`TaskUpcalls`]. All calls are dynamic and paid once per batch. Only [`Interrupt::is_raised`] may be called per record, and only
//! [`Subtask::open`], with the [`Restore`] that it reads, may block. Nothing here may read a clock.

mod building;
mod coordination;
mod error;
mod interrupt;
mod metrics;
mod restore;
mod upcalls;

pub use building::{BuildInputs, BuildProgramError, CoordinatorFactory, SubtaskFactory};
pub(crate) use building::{asks_for_help, help_of_several};
pub use coordination::{Coordinator, CoordinatorContext, CoordinatorWaker, EventReply, OnFailure};
pub use error::TaskError;
pub use interrupt::Interrupt;
pub(crate) use interrupt::RunningTask;
pub use metrics::FunctionMetrics;
pub use restore::Restore;
pub use upcalls::{StateChunk, TaskSnapshot, TaskUpcalls};

use crate::{batch::Batch, types::CodecError};
use model::{Devices, ExecutionAttemptId, JobVertexId, OperatorId};
use std::{
    any::Any,
    collections::BTreeMap,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// A checkpoint barrier: records before it belong to the checkpoint, those after it do not. Sources emit it at [`Mail::Trigger`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Barrier {
    /// Number of the checkpoint or savepoint, which no other one of the job has; it grows, also across JobMasters.
    pub checkpoint: u64,
    /// Time at which the checkpoint was triggered, by the JobManager's clock, in milliseconds since 1970.
    pub triggered_ms: u64,
    /// True if the task ends once this checkpoint is complete: its sources have no more data, or the job is stopped with a savepoint. After
    /// such a barrier no record follows, only the end of the channel if that has not come, and another barrier if the checkpoint fails.
    pub last: bool,
    /// True for a savepoint: what it refers to, such as a sink's prepared output, must stay usable after the end of the job.
    pub savepoint: bool,
    /// True if snapshots contain all state, and build on none before.
    pub full: bool,
}

/// A control element of a channel; it keeps its place among the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent {
    /// A watermark, in milliseconds since 1970 (`i64::MAX` at the end): records with an event time up to it that still follow are late.
    Watermark(i64),
    /// A change of the channel's status: idle (`true`), so that its watermark holds nothing back, or active again (`false`).
    Idle(bool),
    /// A checkpoint barrier.
    Barrier(Barrier),
    /// The end of the channel's data: no record follows, at most barriers up to that of the final checkpoint.
    EndOfInput,
}

impl StreamEvent {
    #[doc(hidden)]
    /// Appends the encoded event: a tag byte, then little-endian fields, at most 20 bytes together.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Watermark(ms) => {
                out.push(0);
                out.extend_from_slice(&ms.to_le_bytes());
            }
            Self::Idle(idle) => out.extend_from_slice(&[1, u8::from(idle)]),
            Self::Barrier(b) => {
                out.push(2);
                out.extend_from_slice(&b.checkpoint.to_le_bytes());
                out.extend_from_slice(&b.triggered_ms.to_le_bytes());
                out.extend_from_slice(&[b.last, b.savepoint, b.full].map(u8::from));
            }
            Self::EndOfInput => out.push(3),
        }
    }

    /// Decodes an event that [`StreamEvent::encode`] wrote.
    ///
    /// # Errors
    /// Fails with [`CodecError::Truncated`] or [`CodecError::Invalid`] if the bytes are not exactly one event.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        fn flag(byte: u8) -> Result<bool, CodecError> {
            match byte {
                0 => Ok(false),
                1 => Ok(true),
                _ => Err(CodecError::Invalid { what: "flag of an event" }),
            }
        }
        let (tag, rest) = bytes.split_first().ok_or(CodecError::Truncated)?;
        match (*tag, rest) {
            (0, rest) => {
                let ms: [u8; 8] = rest.try_into().map_err(|_| CodecError::Truncated)?;
                Ok(Self::Watermark(i64::from_le_bytes(ms)))
            }
            (1, [idle]) => Ok(Self::Idle(flag(*idle)?)),
            (2, rest) => {
                let (checkpoint, rest) = rest.split_first_chunk().ok_or(CodecError::Truncated)?;
                let (triggered, rest) = rest.split_first_chunk().ok_or(CodecError::Truncated)?;
                let [last, savepoint, full] = rest else { return Err(CodecError::Truncated) };
                Ok(Self::Barrier(Barrier {
                    checkpoint: u64::from_le_bytes(*checkpoint),
                    triggered_ms: u64::from_le_bytes(*triggered),
                    last: flag(*last)?,
                    savepoint: flag(*savepoint)?,
                    full: flag(*full)?,
                }))
            }
            (3, []) => Ok(Self::EndOfInput),
            _ => Err(CodecError::Invalid { what: "tag of an event" }),
        }
    }
}

/// A [`Batch`] without its record type, which only the two ends of an edge know, and the watermark after its records. Inside a process a
/// batch is handed over without being encoded.
#[derive(derive_more::Debug)]
#[debug("ErasedBatch({} records)", self.len)]
pub struct ErasedBatch {
    batch: Box<dyn Any + Send>,
    len: usize,
    spare: usize,
    /// The channel's watermark after the records, in milliseconds since 1970; `None` if it does not change.
    pub watermark: Option<i64>,
}

impl ErasedBatch {
    /// Erases the record type of a batch, without copying its records; there is no watermark after it.
    pub fn new<T: Send + 'static>(batch: Batch<T>) -> Self {
        let (len, spare) = (batch.len(), batch.spare_bytes() + size_of::<Batch<T>>());
        Self { batch: Box::new(batch), len, spare, watermark: None }
    }
    /// Replaces the watermark after the records, in milliseconds since 1970; `None` for no watermark.
    pub fn with_watermark(self, watermark: Option<i64>) -> Self {
        Self { watermark, ..self }
    }
    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns true if the batch has no record; it may still carry a watermark.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the bytes of memory that the batch takes in addition to its records and what belongs to them: room for more.
    pub(crate) fn spare(&self) -> usize {
        self.spare
    }
    /// Returns the records if they are of type `T`; drops the watermark then.
    ///
    /// # Errors
    /// Returns the batch itself, with its watermark, if its records are of another type.
    pub fn downcast<T: Send + 'static>(self) -> Result<Batch<T>, Self> {
        let Self { batch, len, spare, watermark } = self;
        match batch.downcast::<Batch<T>>() {
            Ok(batch) => Ok(*batch),
            Err(batch) => Err(Self { batch, len, spare, watermark }),
        }
    }
    /// Borrows the records if they are of type `T`; `None` if they are of another.
    pub fn downcast_ref<T: Send + 'static>(&self) -> Option<&Batch<T>> {
        self.batch.downcast_ref::<Batch<T>>()
    }
}

/// The unit of transfer on a channel: a batch of records, or a control element.
#[derive(Debug)]
pub enum Element {
    /// A batch of records.
    Batch(ErasedBatch),
    /// A control element.
    Event(StreamEvent),
}

/// The operations on an edge's batches for which the exchange has to know the record type. Called on the threads of both tasks.
pub trait EdgeCodec: Send + Sync {
    /// Appends the encoded batch to `out`: its records, their event times, the watermark after them. An error may leave a part of it.
    ///
    /// # Errors
    /// Fails with [`CodecError::OtherType`] if the records are of another type than the edge's, or with the error of a value in the batch.
    fn encode(&self, batch: &ErasedBatch, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.encode_part(batch, 0..batch.len(), out)
    }
    /// Appends the encoded records of `part`, a range of the batch's records, as a batch of their own, with their event times. A part that
    /// ends where the batch ends has the batch's watermark, even if the part is empty. An error may leave a part of the bytes.
    ///
    /// # Errors
    /// Fails with [`CodecError::OtherType`] if the records are of another type than the edge's, with [`CodecError::Invalid`] if the range
    /// is not within the batch, or with the error of a value in the part.
    fn encode_part(
        &self,
        batch: &ErasedBatch,
        part: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError>;
    /// Decodes a batch that [`EdgeCodec::encode`] wrote. Never panics, and allocates memory only in proportion to the bytes.
    ///
    /// # Errors
    /// Fails with [`CodecError`] if the bytes are not exactly one batch.
    fn decode(&self, bytes: &[u8]) -> Result<ErasedBatch, CodecError>;
    /// Copies a batch with all that belongs to its records, and its watermark.
    ///
    /// # Errors
    /// Fails with [`CodecError::OtherType`] if the records are of another type than the edge's.
    fn duplicate(&self, batch: &ErasedBatch) -> Result<ErasedBatch, CodecError>;
    /// Returns the number of bytes that a batch counts for in the network budget: about the sizes in memory of its records, their
    /// event times and the hashes of their keys; 0 if the records are of another type.
    fn weight(&self, batch: &ErasedBatch) -> usize;
}

/// The producing side of an edge in one subtask. Its methods are called on the task's thread and never block.
pub trait OutputPort: Send {
    /// Returns the number of consuming subtasks: the consumer's parallelism, or 1 on a forward edge, that of the same subtask index.
    fn channels(&self) -> usize;
    /// Queues one element for the consumer of a channel, or drops it if the consumer has finished. The order within a channel is kept.
    ///
    /// # Errors
    /// Returns the element itself if the channel takes none now: its consumer is not there yet, was stopped, or has too much waiting. The
    /// task is woken when it may take one. It also comes back if it cannot be encoded or the attempt is superseded: the task has failed.
    fn try_send(&mut self, channel: usize, element: Element) -> Result<(), Element>;
    /// Returns true if every channel that refused an element takes one again. If false, the task is woken when that may have changed.
    fn writable(&mut self) -> bool;
    /// Returns how many records the caller should put into a batch for that channel at most, at least 1, so that the consumer does not
    /// need too long for what waits for it; `None` until a sent element has found the consumer. The number follows the consumer's rate;
    /// `usize::MAX`, as by default, means no limit.
    fn batch_records(&self, _channel: usize) -> Option<usize> {
        Some(usize::MAX)
    }
    /// Sets the bytes that the producer holds unsent, in total; they count in the network budget, even beyond it. Does nothing by default.
    fn hold(&mut self, _bytes: u64) {}
}

/// The result of [`InputPort::poll`].
#[derive(Debug)]
pub enum Polled {
    /// The next element of a channel.
    Element {
        /// The channel: the edge's first channel plus the producer's subtask index, or plus 0 on a forward edge.
        channel: usize,
        /// The element, which the port has given up.
        element: Element,
    },
    /// No channel that is not paused has an element, or bytes could not be decoded and the task has failed. The next element wakes it.
    Empty,
    /// Every channel has delivered its [`StreamEvent::EndOfInput`] before, and nothing waits. Only barriers may still follow.
    Finished,
}

/// The consuming side of an input in one subtask. Its methods are called on the task's thread and never block.
pub trait InputPort: Send {
    /// Returns the number of channels, numbered from 0: one per producing subtask that this consumer is connected with.
    fn channels(&self) -> usize;
    /// Takes the next element of the channels that are not paused; no channel starves. Fails the task if bytes can't be decoded.
    fn poll(&mut self) -> Polled;
    /// Pauses a channel (`true`): its elements stay in the port until it is resumed (`false`). Used to align checkpoint barriers.
    fn pause(&mut self, channel: usize, paused: bool);
}

/// A message to a task from outside its inputs. The task's thread delivers mail to [`Subtask::deliver`] between two steps; but while a
/// function's call waits for room in an output, replies and timers of the operators behind it are handed to these during the call.
#[derive(Debug)]
pub enum Mail {
    /// The answer to an upcall, a call of the task to its host.
    Reply {
        /// The number that the task gave the upcall, by which it recognises the reply.
        ticket: u64,
        /// The answer's bytes, or the reason why there is none: refused, not in time, failed or panicked I/O, 4,096 unanswered calls.
        result: Result<Vec<u8>, String>,
    },
    /// A timer set by [`TaskUpcalls::wake_at`] is due.
    Timer {
        /// The number that the task gave the timer, by which it recognises the timer.
        ticket: u64,
    },
    /// Ends the data of a source at its current position. Sent to sources only, before the trigger of a stop that drains the job.
    Drain,
    /// Starts a checkpoint or savepoint; sent to sources only. One that is not newer than the last one is ignored.
    Trigger(Barrier),
    /// Reports that this checkpoint, or the savepoint of a stop, is complete everywhere: sinks commit what it holds. May come twice.
    NotifyComplete(u64),
    /// Reports that nothing is committed for this checkpoint: it was aborted, or is a savepoint after which the job goes on. The task
    /// drops the snapshots that it still writes for the checkpoint and does not acknowledge it, even if its barrier comes only later.
    NotifyAborted(u64),
    /// Delivered right before [`Subtask::dispose`] if the JobMaster has cancelled the task and those that it works with: sinks then take
    /// back what they have announced. A step after it would do nothing and return [`Progress::Finished`].
    Cancel,
}

/// The outcome of a step, which says when the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More work is available: step again at once.
    Busy,
    /// No work is available: park until input, mail or a timer wakes the task.
    Starved,
    /// An output or a sink is full: park until the task is woken.
    Blocked,
    /// All output was sent, [`StreamEvent::EndOfInput`] included, and the final checkpoint, if the job takes one, is complete and
    /// committed: close the subtask. A step of a cancelled or failed subtask returns it too.
    Finished,
}

/// The counters of one subtask: the exchange adds bytes, the chain the rest. Its host reports all but `watermark_ms` and `state_bytes`.
#[derive(Debug, Default)]
pub struct TaskCounters {
    /// Records taken from inputs; 0 for a source.
    pub records_in: AtomicU64,
    /// Records handed to outputs, where they may still wait; counted once per output edge, also where an edge broadcasts them.
    pub records_out: AtomicU64,
    /// Bytes taken from inputs: encoded size, or an estimate for batches handed over inside the process; 32 more for each batch or event.
    pub bytes_in: AtomicU64,
    /// Bytes sent to outputs, counted like `bytes_in`, for each channel that a batch or event goes to.
    pub bytes_out: AtomicU64,
    /// The newest watermark handed to an output, in milliseconds since 1970, as the bits of an `i64`; 0 before, or without an output.
    pub watermark_ms: AtomicU64,
    /// True once all data was read and has left the task. The final checkpoint of tasks that are connected begins when all their sources
    /// have reported this.
    pub end_of_data: AtomicBool,
    /// Bytes of memory that the tables and timers of the task's state take; updated at the start and when the task sends partly filled
    /// batches (at least every 100 ms by default). The memory limit reads them.
    pub state_bytes: AtomicU64,
    /// Metrics that the program's functions registered, and those of the runtime for its operators, such as `stateBytes`.
    pub functions: FunctionMetrics,
}

impl TaskCounters {
    /// Adds `n` to a counter atomically, from any thread; wraps at 2^64. Additions to different counters may be seen in any order.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// The values that a host passes to [`SubtaskFactory::subtask`]: the subtask's place, ports, options, state to restore and upcalls.
pub struct SubtaskContext {
    /// Id of the subtask's vertex.
    pub vertex: JobVertexId,
    /// Index of the subtask, from 0.
    pub subtask: u32,
    /// Parallelism of the vertex, from the submitted graph.
    pub parallelism: u32,
    /// Number of key groups of the vertex, from the submitted graph.
    pub max_parallelism: u32,
    /// Id of this execution attempt.
    pub attempt: ExecutionAttemptId,
    /// Input ports, indexed by `JobEdge::input`.
    pub inputs: Vec<Box<dyn InputPort>>,
    /// Output ports, indexed by `JobEdge::output`.
    pub outputs: Vec<Box<dyn OutputPort>>,
    /// Number of key groups of each output's consumer, indexed like `outputs`; from the submitted graph.
    pub output_key_groups: Vec<u32>,
    /// The task's calls to its host.
    pub upcalls: Arc<dyn TaskUpcalls>,
    /// An existing folder for temporary files, which the host's tasks share; it is deleted when the host ends.
    pub tmp_dir: PathBuf,
    /// Options by key: the TaskManager's for the data plane (`s3.`, `task.` and others), overridden by the job's.
    pub options: Arc<BTreeMap<String, String>>,
    /// The devices of the subtask's slot: by the resource's name, a range of device indices on the TaskManager.
    pub devices: Arc<Devices>,
    /// The snapshots to restore from, by operator, as former subtasks passed them to [`TaskUpcalls::acknowledge`]; empty if there are none.
    pub restore: BTreeMap<OperatorId, Restore>,
    /// True if the subtask had reached the end of its data in the checkpoint that it is restored from: it processes nothing more.
    pub restored_at_end: bool,
    /// True if the task waits, after the end of its data, for a final checkpoint; if false, it finishes at once.
    pub ends_with_checkpoint: bool,
    /// The subtask's counters, which its ports share.
    pub counters: Arc<TaskCounters>,
    /// The flag that ends a step early: raised for mail, for due timers, to stop, and in a long step (50 ms; less with a short buffer
    /// timeout).
    pub interrupt: Interrupt,
}

/// One subtask of a chain. The task's thread calls `open`, then mail and steps in turn until a step is `Finished`, then `close`. After an
/// error, or if the task is stopped, it calls `dispose` instead, before which only `Mail::Cancel` may come. One thread at a time calls it.
pub trait Subtask: Send {
    /// Opens the operators: restores their state, for which it may block, and calls the user's `open`. Called once, before all else.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if user code fails or state cannot be restored; the subtask is disposed of then.
    fn open(&mut self) -> Result<(), TaskError>;
    /// Processes about `budget` records, or fewer if the context's [`Interrupt`] is raised, and returns when the next step is due.
    ///
    /// # Errors
    /// Fails with the error that the task fails with, mostly one of user code; only [`Subtask::dispose`] is called then.
    fn step(&mut self, budget: usize) -> Result<Progress, TaskError>;
    /// Delivers one piece of mail. Called between steps: posted mail and replies in the order of arrival, after them timers that are due.
    ///
    /// # Errors
    /// Fails as [`Subtask::step`] does.
    fn deliver(&mut self, mail: Mail) -> Result<(), TaskError>;
    /// Closes the operators, after a step returned [`Progress::Finished`].
    ///
    /// # Errors
    /// Fails as [`Subtask::step`] does.
    fn close(&mut self) -> Result<(), TaskError>;
    /// Releases the resources of a cancelled or failed task; sinks delete their hidden local files that no checkpoint can hold. Called
    /// instead of [`Subtask::close`], or after it failed.
    fn dispose(&mut self);
    /// Returns the subtask's counters.
    fn counters(&self) -> Arc<TaskCounters>;
}
