//! The seam between the chains of a program and the tasks that drive them.
//!
//! Chains (this crate's API, operators, sources and sinks) implement [`Subtask`] and [`Coordinator`]; the task
//! runtime implements the ports and [`TaskUpcalls`]. Everything here is dynamic, paid once per batch; nothing
//! here may be called per record, block a thread or read a clock.

mod building;
mod coordination;
mod interrupt;
mod metrics;

pub use building::{BuildInputs, BuildProgramError, CoordinatorFactory, SubtaskFactory};
pub(crate) use building::{asks_for_help, help_of_several};
pub use coordination::{Coordinator, CoordinatorContext, EventReply, OnFailure};
pub use interrupt::Interrupt;
pub use metrics::FunctionMetrics;

use crate::{batch::Batch, types::CodecError};
use futures::future::BoxFuture;
use model::{Devices, ExecutionAttemptId, JobVertexId, OperatorId};
use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use thiserror::Error;

/// A checkpoint barrier: what came before it belongs to the checkpoint, what comes after does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Barrier {
    /// Id of the checkpoint; grows within a job.
    pub checkpoint: u64,
    /// When it was triggered, milliseconds since 1970.
    pub triggered_ms: u64,
    /// Whether this is the last checkpoint of the job: sources end behind it.
    pub last: bool,
}

/// Control elements; they travel in order with the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent {
    /// No record with an event time of at most this many milliseconds follows on this channel.
    Watermark(i64),
    /// The channel is idle (`true`): its watermark holds nobody back until it is active again.
    Idle(bool),
    /// A checkpoint barrier.
    Barrier(Barrier),
    /// Nothing follows on this channel.
    EndOfInput,
}

impl StreamEvent {
    /// Appends the event: a tag byte, then little-endian fields (at most 18 bytes).
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
                out.push(u8::from(b.last));
            }
            Self::EndOfInput => out.push(3),
        }
    }

    /// Reads what [`StreamEvent::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are no event, or more than one.
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
                let [last] = rest else {
                    return Err(CodecError::Truncated);
                };
                Ok(Self::Barrier(Barrier {
                    checkpoint: u64::from_le_bytes(*checkpoint),
                    triggered_ms: u64::from_le_bytes(*triggered),
                    last: flag(*last)?,
                }))
            }
            (3, []) => Ok(Self::EndOfInput),
            _ => Err(CodecError::Invalid { what: "tag of an event" }),
        }
    }
}

/// A [`Batch`] whose record type only its two ends know, and the watermark behind its records. Inside a process it is
/// handed over as it is.
pub struct ErasedBatch {
    batch: Box<dyn Any + Send>,
    len: usize,
    /// No record with an event time of at most this many milliseconds follows on the channel; `None`: as before.
    pub watermark: Option<i64>,
}

impl ErasedBatch {
    /// Hides the type of a batch with no watermark behind it.
    pub fn new<T: Send + 'static>(batch: Batch<T>) -> Self {
        let len = batch.len();
        Self { batch: Box::new(batch), len, watermark: None }
    }
    /// Puts a watermark behind the records.
    pub fn with_watermark(self, watermark: Option<i64>) -> Self {
        Self { watermark, ..self }
    }
    /// Records.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether it holds no record.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The records, where they are of this type.
    ///
    /// # Errors
    /// The batch itself, where they are of another.
    pub fn downcast<T: Send + 'static>(self) -> Result<Batch<T>, Self> {
        let Self { batch, len, watermark } = self;
        match batch.downcast::<Batch<T>>() {
            Ok(batch) => Ok(*batch),
            Err(batch) => Err(Self { batch, len, watermark }),
        }
    }
    /// The records in place, where they are of this type.
    pub fn downcast_ref<T: Send + 'static>(&self) -> Option<&Batch<T>> {
        self.batch.downcast_ref::<Batch<T>>()
    }
}

impl fmt::Debug for ErasedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErasedBatch({} records)", self.len)
    }
}

/// What travels on a channel.
#[derive(Debug)]
pub enum Element {
    /// Records.
    Batch(ErasedBatch),
    /// A control element.
    Event(StreamEvent),
}

/// What the exchange needs to know of an edge's record type.
pub trait EdgeCodec: Send + Sync {
    /// Appends a batch: its records, their times, and the watermark behind them.
    ///
    /// # Errors
    /// When the batch holds records of another type.
    fn encode(&self, batch: &ErasedBatch, out: &mut Vec<u8>) -> Result<(), CodecError>;
    /// Reads what [`EdgeCodec::encode`] wrote. Never panics, and allocates in proportion to the bytes given.
    ///
    /// # Errors
    /// When the bytes are not exactly one batch.
    fn decode(&self, bytes: &[u8]) -> Result<ErasedBatch, CodecError>;
    /// A copy (for broadcasting inside a process).
    ///
    /// # Errors
    /// When the batch holds records of another type.
    fn duplicate(&self, batch: &ErasedBatch) -> Result<ErasedBatch, CodecError>;
    /// Bytes in memory, for accounting: the sum of the records' sizes.
    fn weight(&self, batch: &ErasedBatch) -> usize;
}

/// The producing side of an edge in one subtask.
pub trait OutputPort: Send {
    /// Consuming subtasks this producer is connected with: 1 on a forward edge, else the consumer's parallelism.
    /// On a forward edge channel 0 is the consumer of the same index.
    fn channels(&self) -> usize;
    /// Sends one element, in order within its channel.
    ///
    /// # Errors
    /// The element itself, when the channel is full; the task's waker is registered then.
    fn try_send(&mut self, channel: usize, element: Element) -> Result<(), Element>;
    /// Whether each channel takes at least one element; when not, the task's waker is registered.
    fn writable(&mut self) -> bool;
    /// Says how many bytes the producer holds that it has not sent: they count as the exchange's memory.
    fn hold(&mut self, _bytes: u64) {}
}

/// What a poll of an input found.
#[derive(Debug)]
pub enum Polled {
    /// The next element of some channel.
    Element {
        /// Which channel: the producer's subtask index on all-to-all edges, 0 on forward ones.
        channel: usize,
        /// The element.
        element: Element,
    },
    /// Nothing yet; the task's waker is registered.
    Empty,
    /// Every channel has delivered its [`StreamEvent::EndOfInput`] (as an element, before this).
    Finished,
}

/// The consuming side of an edge in one subtask.
pub trait InputPort: Send {
    /// Producing subtasks this consumer is connected with.
    fn channels(&self) -> usize;
    /// The next element. Fair between channels.
    fn poll(&mut self) -> Polled;
    /// Keeps the elements of a channel where they are until it is let go again (barrier alignment).
    fn pause(&mut self, channel: usize, paused: bool);
}

/// What a running task asks of its host. Replies come back as [`Mail`] through the mailbox, with the ticket.
pub trait TaskUpcalls: Send + Sync {
    /// Sends an event to the operator's coordinator; its answer comes as [`Mail::Reply`].
    fn operator_event(&self, operator: OperatorId, event: Vec<u8>, ticket: u64);
    /// As [`TaskUpcalls::operator_event`], for an event that may be sent twice and may overtake others and be overtaken: its
    /// answer may come late, and no other event waits for it.
    fn operator_poll(&self, operator: OperatorId, event: Vec<u8>, ticket: u64) {
        self.operator_event(operator, event, ticket);
    }
    /// Runs I/O on the process's runtime; what it returns comes as [`Mail::Reply`]. Dropped with the task.
    fn spawn_io(&self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u64);
    /// Milliseconds since 1970.
    fn now_unix_ms(&self) -> u64;
    /// [`Mail::Timer`] with this ticket comes after so long.
    fn wake_at(&self, after: Duration, ticket: u64);
    /// A checkpoint of this subtask is complete: each operator's snapshot, opaque.
    fn acknowledge(&self, checkpoint: u64, snapshots: Vec<(OperatorId, Vec<u8>)>);
}

/// What comes to a task from outside of its inputs. Mail is delivered between two steps.
#[derive(Debug)]
pub enum Mail {
    /// The answer to an upcall; `Err` says why there is none.
    Reply {
        /// Of the upcall.
        ticket: u64,
        /// Opaque.
        result: Result<Vec<u8>, String>,
    },
    /// The time of [`TaskUpcalls::wake_at`] is up.
    Timer {
        /// Of the upcall.
        ticket: u64,
    },
    /// Start a checkpoint (sources only).
    Trigger(Barrier),
    /// This checkpoint is complete everywhere.
    NotifyComplete(u64),
    /// Stop taking input: the next step returns [`Progress::Finished`] or an error without more work.
    Cancel,
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do at once.
    Busy,
    /// Nothing to do: park until woken (input, mail, timer).
    Starved,
    /// An output is full: park until woken.
    Blocked,
    /// Everything is sent, [`StreamEvent::EndOfInput`] included: close.
    Finished,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TaskError {
    /// The user's code returned an error.
    #[error("operator '{operator}' failed: {message}")]
    User {
        /// Name of the operator.
        operator: String,
        /// What it said.
        message: String,
    },
    /// The user's code panicked.
    #[error("the code of chain '{chain}' panicked: {message}")]
    Panicked {
        /// Name of the chain.
        chain: String,
        /// What the panic said.
        message: String,
    },
    /// A source or sink could not reach its system.
    #[error("operator '{operator}': {what}: {why}")]
    Io {
        /// Name of the operator.
        operator: String,
        /// What was being done, to what.
        what: String,
        /// The system's error.
        why: String,
    },
    /// A source's input is not what it was when the job started, or not what can be read: another try finds the same.
    #[error("operator '{operator}': the input {what}")]
    Input {
        /// Name of the operator.
        operator: String,
        /// Which input, and what is wrong with it.
        what: String,
    },
    /// The operator's coordinator refused or can't be reached.
    #[error("operator '{operator}' got no answer of its coordinator: {why}")]
    Coordinator {
        /// Name of the operator.
        operator: String,
        /// Why.
        why: String,
    },
    /// Bytes from an edge, a coordinator or a snapshot are not what they must be.
    #[error("'{place}' was given bytes that it can't read: {source}")]
    Codec {
        /// Where.
        place: String,
        /// Why.
        source: CodecError,
    },
    /// The deployment does not fit the program.
    #[error("the task does not fit the program: {0}")]
    Deployment(String),
}

impl TaskError {
    /// Whether a restart may help: another machine, another try. A deployment that does not fit never will, and an
    /// input that was changed can't be read twice.
    pub fn is_recoverable(&self) -> bool {
        !matches!(self, Self::Deployment(_) | Self::Input { .. })
    }
    /// A stable name of the kind, for `FailureCause::kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User { .. } => "UserError",
            Self::Panicked { .. } => "UserPanic",
            Self::Io { .. } => "IoError",
            Self::Input { .. } => "InputError",
            Self::Coordinator { .. } => "CoordinatorUnavailable",
            Self::Codec { .. } => "CodecError",
            Self::Deployment(_) => "DeploymentMismatch",
        }
    }
}

/// What a subtask has done so far; the exchange adds bytes, the chain adds records.
#[derive(Debug, Default)]
pub struct TaskCounters {
    /// Records taken from inputs; for a source, 0.
    pub records_in: AtomicU64,
    /// Records given to outputs, once per record and output.
    pub records_out: AtomicU64,
    /// Bytes taken from inputs (encoded ones, estimated where nothing was encoded).
    pub bytes_in: AtomicU64,
    /// Bytes given to outputs.
    pub bytes_out: AtomicU64,
    /// Milliseconds since 1970 of the newest watermark that was sent on, as `i64` bits; 0: none yet.
    pub watermark_ms: AtomicU64,
    /// What the program's functions count.
    pub functions: FunctionMetrics,
}

impl TaskCounters {
    /// Adds; the order between counters is not kept.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// What a subtask is made with.
pub struct SubtaskContext {
    /// The vertex.
    pub vertex: JobVertexId,
    /// 0-based.
    pub subtask: u32,
    /// Of the vertex, from the submitted graph.
    pub parallelism: u32,
    /// Key groups of the vertex, from the submitted graph.
    pub max_parallelism: u32,
    /// This attempt.
    pub attempt: ExecutionAttemptId,
    /// One per input, by `JobEdge::input`.
    pub inputs: Vec<Box<dyn InputPort>>,
    /// One per output, by `JobEdge::output`.
    pub outputs: Vec<Box<dyn OutputPort>>,
    /// Key groups of the consumer, one per output, from the submitted graph.
    pub output_key_groups: Vec<u32>,
    /// The host.
    pub upcalls: Arc<dyn TaskUpcalls>,
    /// For temporary files; exists.
    pub tmp_dir: PathBuf,
    /// The job's options.
    pub options: Arc<BTreeMap<String, String>>,
    /// The devices of its slot.
    pub devices: Arc<Devices>,
    /// What to restore from, by operator: the snapshots that [`TaskUpcalls::acknowledge`] was given.
    pub restore: BTreeMap<OperatorId, Vec<Vec<u8>>>,
    /// Shared with the ports.
    pub counters: Arc<TaskCounters>,
    /// Ends a step early.
    pub interrupt: Interrupt,
}

/// One subtask of a chain. One thread at a time calls it.
pub trait Subtask: Send {
    /// Before the first step.
    ///
    /// # Errors
    /// When the user's code or a resource fails.
    fn open(&mut self) -> Result<(), TaskError>;
    /// Works on about `budget` records, fewer where the context's [`Interrupt`] is raised, then returns.
    ///
    /// # Errors
    /// When the task has failed; it is only disposed of then.
    fn step(&mut self, budget: usize) -> Result<Progress, TaskError>;
    /// Hands in mail, in the order of arrival.
    ///
    /// # Errors
    /// As [`Subtask::step`].
    fn deliver(&mut self, mail: Mail) -> Result<(), TaskError>;
    /// After the last step of a finished task.
    ///
    /// # Errors
    /// As [`Subtask::step`].
    fn close(&mut self) -> Result<(), TaskError>;
    /// Instead of `close`, when cancelled or failed: private files of the attempt go.
    fn dispose(&mut self);
    /// What it has done so far.
    fn counters(&self) -> Arc<TaskCounters>;
}
