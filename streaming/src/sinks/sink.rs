//! The traits of a sink: the writer, the committer and the global committer, named as in Flink's FLIP-143, FLIP-191 and
//! FLIP-372. `EXACTLY-ONCE.md` beside the crate's sources has the protocol. Traits and values only; the operators that call them
//! are in `two_phase`.

use crate::{
    operators::{BoxError, OperatorContext, OperatorMail},
    state::OperatorState,
    types::Record,
};
use futures::future::BoxFuture;
use std::{
    future::{Future, ready},
    ops::Deref,
};
use thiserror::Error;

/// Writes records in one subtask, on the task's thread. A writer that implements `Clone` is a sink by itself, without a
/// committer: [`Stream::sink_to`](crate::Stream::sink_to) takes it, and each subtask writes with its own clone.
///
/// A writer may write to local files on the task's thread, which is the task's own. What waits for another machine belongs
/// into [`OperatorContext::spawn_io`]; its result comes to [`SinkWriter::mail`]. Meanwhile [`SinkWriter::is_full`] holds up the
/// records, and [`SinkWriter::is_flushing`] the barrier.
///
/// Without a committer the records are written at least once: after a failure those since the last checkpoint are written
/// again.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use streaming::{
///     Stream,
///     operators::BoxError,
///     sinks::{SinkWriter, WriterContext},
///     testing,
/// };
///
/// /// Appends numbers to a list in memory.
/// #[derive(Clone)]
/// struct Append(Arc<Mutex<Vec<u64>>>);
///
/// impl SinkWriter<u64> for Append {
///     fn write(&mut self, number: u64, _: &WriterContext<'_>) -> Result<(), BoxError> {
///         self.0.lock().map_err(|_| "the list is broken")?.push(number);
///         Ok(())
///     }
/// }
///
/// fn to_list(numbers: &Stream<u64>, list: Arc<Mutex<Vec<u64>>>) {
///     numbers.sink_to(Append(list)).name("list");
/// }
///
/// let list = Arc::new(Mutex::new(Vec::new()));
/// let mut test = testing::sink(Append(list.clone())).open()?;
/// test.push(0, 7)?;
/// test.finish()?;
/// assert_eq!(*list.lock().unwrap(), [7]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub trait SinkWriter<T>: Send + 'static {
    /// Opens the writer. Called once, before every other method.
    ///
    /// # Errors
    /// The task fails with the returned error, as it does with the errors of the other methods. A
    /// [`TaskError`](crate::TaskError) is reported unchanged; any other error becomes an error of user code.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Writes a record, now or later.
    ///
    /// # Errors
    /// See [`SinkWriter::open`].
    fn write(&mut self, record: T, context: &WriterContext<'_>) -> Result<(), BoxError>;
    /// Begins to write everything that was taken. Called before a checkpoint's barrier goes on, and with `_end_of_input` after
    /// the last record.
    ///
    /// # Errors
    /// See [`SinkWriter::open`].
    fn flush(&mut self, _end_of_input: bool, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Takes the result of I/O or a timer that the writer asked its context for.
    ///
    /// # Errors
    /// See [`SinkWriter::open`].
    fn mail(&mut self, _mail: OperatorMail, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Returns true while the writer takes no more records. It must have asked its context for mail that will change that.
    fn is_full(&self) -> bool {
        false
    }
    /// Returns true while something is not written that [`SinkWriter::flush`] has begun to write. The barrier waits, and the
    /// writer must have asked its context for mail.
    fn is_flushing(&self) -> bool {
        false
    }
    /// Releases the writer's resources. Called once when the task is over, whether it finished, failed or was cancelled. What
    /// was prepared for a commit must stay; what was not will be written again and may be deleted.
    fn close(&mut self) {}
}

/// The announcement of a writer, once it is prepared: see [`CommittingSinkWriter::announce`].
pub type Announcement<C> = BoxFuture<'static, Result<Option<C>, BoxError>>;

/// A [`SinkWriter`] that prepares what it has written for a commit: the first of the two phases.
pub trait CommittingSinkWriter<T>: SinkWriter<T> {
    /// Names what the committer makes visible: a hidden file, an open transaction. It is kept in the checkpoint.
    type Committable: Record;
    /// The state of the writer: a struct with `#[derive(OperatorState)]`, [`NoWriterState`](super::NoWriterState) for none.
    type State: OperatorState;

    /// Returns what is to be committed when the checkpoint is complete. Called once per barrier, and once after the last
    /// record, after [`SinkWriter::flush`] and before [`CommittingSinkWriter::snapshot_state`]. What was written before must
    /// survive the process from now on.
    ///
    /// # Errors
    /// See [`SinkWriter::open`].
    fn prepare_commit(&mut self) -> Result<Vec<Self::Committable>, BoxError>;
    /// Returns the writer's state at a barrier, after everything before the barrier was prepared.
    ///
    /// # Errors
    /// See [`SinkWriter::open`].
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Self::State, BoxError> {
        Ok(<Self::State as crate::state::State>::empty())
    }
    /// Takes this subtask's share of the state of all former subtasks. Called after [`SinkWriter::open`] if the job was
    /// restored from a checkpoint.
    ///
    /// # Errors
    /// See [`SinkWriter::open`].
    fn restore_state(
        &mut self,
        _state: Self::State,
        _context: &OperatorContext,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Announces the writer to the sink's global committer: the future returns a committable that is not to be committed, but goes
    /// to [`GlobalCommitter::check`] at once. A writer can so have noticed at its start what would make each commit fail, for
    /// example a folder that the global committer does not share. Called once, after [`SinkWriter::open`] and the restore, if
    /// the sink has a global committer; not called if the subtask had reached the end of its data in the restored checkpoint. The
    /// future runs beside the task. Barriers wait for it, records do not.
    ///
    /// `None`, which is the default, and a future that returns `None` announce nothing.
    ///
    /// # Errors
    /// The task fails with the future's error, as in [`SinkWriter::open`].
    fn announce(&mut self, _context: &OperatorContext) -> Option<Announcement<Self::Committable>> {
        None
    }
    /// Takes back what [`CommittingSinkWriter::announce`] has left outside of the process. Called before [`SinkWriter::close`] if the
    /// JobMaster has cancelled the task: it has cancelled the global committer's as well then, so that the outcome of a check that is
    /// still under way does not count. Not called if the task itself has failed, because its announcement may still be checked.
    fn withdraw(&mut self) {}
    /// Deletes what earlier attempts have left over, of each subtask for which [`OperatorContext::takes_over`] is true. Called
    /// once, when the first checkpoint after the start is complete. By then the committers have committed all that the restored
    /// checkpoint held: what earlier attempts prepared and is still not committed belongs to no checkpoint.
    ///
    /// # Errors
    /// See [`SinkWriter::open`].
    fn abort_leftovers(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A sink with two-phase commit: it creates the writer and the committer of each subtask, and the global committer. Where one of
/// the committers is not needed, its type is [`NoCommitter`](super::NoCommitter).
///
/// A sink for records of every type (`impl<T: Record> Sink<T> for Files`) must not implement `Clone`, else the compiler takes it
/// for a [`SinkWriter`] that is a sink by itself.
///
/// The writer prepares what it has written before the barrier of a checkpoint goes on. The committer commits it when the
/// checkpoint is complete, and again after a failure in between; see [`Committer`].
///
/// A sink whose output appears by renaming files:
///
/// ```
/// use std::{fs, io::ErrorKind, path::PathBuf};
/// use streaming::{
///     Stream,
///     operators::{BoxError, OperatorContext},
///     sinks::*,
///     testing,
///     types::{CodecError, FlottType, KeyHasher, Reader, Schema},
/// };
///
/// /// A hidden file and its final name.
/// #[derive(Clone, derive::FlottType)]
/// #[flott(crate = streaming)]
/// struct Hidden {
///     file: String,
///     becomes: String,
/// }
///
/// /// Writes the numbers between two checkpoints to a file each.
/// struct Files {
///     folder: PathBuf,
/// }
///
/// impl Sink<u64> for Files {
///     type Committable = Hidden;
///     type Writer = FilesWriter;
///     type Committer = Rename;
///     type GlobalCommitter = NoCommitter;
///
///     fn create_writer(&self, context: &OperatorContext) -> Result<FilesWriter, BoxError> {
///         // The name differs in each attempt, so that no attempt replaces the file of another one.
///         let attempt = context.attempt();
///         let name = format!("{}-{:x}-{}", attempt.subtask, attempt.graph, attempt.attempt);
///         Ok(FilesWriter { folder: self.folder.clone(), name, files: 0, numbers: String::new() })
///     }
///     fn create_committer(&self, _: &OperatorContext) -> Result<Rename, BoxError> {
///         Ok(Rename)
///     }
///     fn create_global_committer(&self, _: &OperatorContext) -> Result<NoCommitter, BoxError> {
///         Ok(NoCommitter)
///     }
/// }
///
/// struct FilesWriter {
///     folder: PathBuf,
///     name: String,
///     files: u64,
///     numbers: String,
/// }
///
/// impl SinkWriter<u64> for FilesWriter {
///     fn write(&mut self, number: u64, _: &WriterContext<'_>) -> Result<(), BoxError> {
///         self.numbers += &format!("{number}\n");
///         Ok(())
///     }
/// }
///
/// impl CommittingSinkWriter<u64> for FilesWriter {
///     type Committable = Hidden;
///     type State = NoWriterState;
///
///     fn prepare_commit(&mut self) -> Result<Vec<Hidden>, BoxError> {
///         if self.numbers.is_empty() {
///             return Ok(Vec::new());
///         }
///         self.files += 1;
///         let becomes = self.folder.join(format!("{}-{}", self.name, self.files));
///         let file = self.folder.join(format!(".{}-{}", self.name, self.files));
///         fs::write(&file, std::mem::take(&mut self.numbers))?;
///         let text = |path: PathBuf| path.display().to_string();
///         Ok(vec![Hidden { file: text(file), becomes: text(becomes) }])
///     }
/// }
///
/// struct Rename;
///
/// impl Committer<Hidden> for Rename {
///     async fn commit(&self, request: CommitRequest<Hidden>) -> Result<(), CommitError> {
///         let Hidden { file, becomes } = request.committable;
///         match fs::rename(&file, &becomes) {
///             Ok(()) => Ok(()),
///             // The commit is repeated: it was done before, and the failure came afterwards.
///             Err(_) if fs::exists(&becomes).unwrap_or(false) => Ok(()),
///             Err(error) if error.kind() == ErrorKind::NotFound => {
///                 Err(CommitError::Failed(format!("'{file}' is gone")))
///             }
///             Err(error) => Err(CommitError::Retry(error.to_string())),
///         }
///     }
/// }
///
/// fn to_files(numbers: &Stream<u64>) {
///     numbers.sink_to(Files { folder: "/data/numbers".into() }).uid("numbers");
/// }
///
/// # fn test() -> Result<(), BoxError> {
/// # let tmp = std::env::temp_dir().join(format!("flott-doc-{}", std::process::id()));
/// # fs::create_dir_all(&tmp)?;
/// # let visible = || fs::read_dir(&tmp).unwrap().flatten()
/// #     .filter(|e| !e.file_name().to_string_lossy().starts_with('.')).count();
/// let mut test = testing::sink(Files { folder: tmp.clone() }).open()?;
/// test.push(0, 7)?;
/// let checkpoint = test.barrier(1, false)?;
/// assert_eq!(visible(), 0);
///
/// // The subtask fails, and the restored one commits what the checkpoint holds.
/// let sink = Files { folder: tmp.clone() };
/// let mut restored = testing::sink(sink).attempt(1).restore(checkpoint).open()?;
/// assert_eq!(visible(), 1);
/// restored.push(0, 8)?;
/// restored.finish()?;
/// assert_eq!(visible(), 2);
/// # fs::remove_dir_all(&tmp)?;
/// # Ok(())
/// # }
/// # test().unwrap();
/// ```
pub trait Sink<T>: Send + 'static {
    /// The type of what the writers prepare and the committers commit.
    type Committable: Record;
    /// The type of the writers, one per subtask.
    type Writer: CommittingSinkWriter<T, Committable = Self::Committable>;
    /// The type of the committers, one per subtask; [`NoCommitter`](super::NoCommitter) for none.
    type Committer: Committer<Self::Committable>;
    /// The type of the committer that gets what all writers have prepared; [`NoCommitter`](super::NoCommitter) for none.
    type GlobalCommitter: GlobalCommitter<Self::Committable>;

    /// Creates the writer of one subtask.
    ///
    /// # Errors
    /// The task fails with the returned error.
    fn create_writer(&self, context: &OperatorContext) -> Result<Self::Writer, BoxError>;
    /// Creates the committer of one subtask. Not called if the type is [`NoCommitter`](super::NoCommitter).
    ///
    /// # Errors
    /// The task fails with the returned error.
    fn create_committer(&self, context: &OperatorContext) -> Result<Self::Committer, BoxError>;
    /// Creates the global committer. Not called if the type is [`NoCommitter`](super::NoCommitter).
    ///
    /// # Errors
    /// The task fails with the returned error.
    fn create_global_committer(
        &self,
        context: &OperatorContext,
    ) -> Result<Self::GlobalCommitter, BoxError>;
}

/// Commits what the writer of its subtask has prepared, when the checkpoint is complete: the second of the two phases.
///
/// A commit must be idempotent. It is repeated if the process ends before the next checkpoint is complete, also by a job that
/// was restored from the checkpoint elsewhere: then the first commit may be done already, and the second one must succeed too.
/// The committables of one checkpoint are committed concurrently; all commits of a checkpoint are done before those of
/// the next one begin.
pub trait Committer<C>: Send + Sync + 'static {
    /// False for [`NoCommitter`](super::NoCommitter) only.
    #[doc(hidden)]
    const COMMITS: bool = true;
    /// Commits one committable. The future runs beside the task; work that blocks belongs into `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// [`CommitError::Retry`] to be called again later; [`CommitError::Failed`] to fail the job.
    fn commit(
        &self,
        request: CommitRequest<C>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send;
}

/// Commits together what the writers of all subtasks have prepared for a checkpoint. One global committer runs per sink, in a
/// task of its own with parallelism 1. It gets the committables from the writers: if the sink has a [`Committer`] too, the two
/// commit independently of each other.
///
/// A commit must be idempotent, as that of a [`Committer`]; where a part of it was done before, it does the rest.
pub trait GlobalCommitter<C>: Send + Sync + 'static {
    /// False for [`NoCommitter`](super::NoCommitter) only.
    #[doc(hidden)]
    const COMMITS: bool = true;
    /// True if nothing is committed before the end of bounded input: the only commit is that of the final checkpoint, with the
    /// committables of all checkpoints.
    const ONLY_AT_END: bool = false;
    /// Commits all committables of a checkpoint, in the order of the checkpoints. Not called for a checkpoint without
    /// committables. The future runs beside the task; work that blocks belongs into `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// [`CommitError::Retry`] to be called again later with the same committables; [`CommitError::Failed`] to fail the job.
    fn commit(
        &self,
        request: CommitRequest<Vec<C>>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send;
    /// Checks what a writer has announced by [`CommittingSinkWriter::announce`]. Called once per announcement, as soon as it comes;
    /// the future runs beside the task.
    ///
    /// # Errors
    /// [`CommitError::Failed`] to fail the job; [`CommitError::Retry`] to fail the task, after which the restarted writers
    /// announce themselves again.
    fn check(&self, _announced: C) -> impl Future<Output = Result<(), CommitError>> + Send {
        ready(Ok(()))
    }
}

/// A request to commit.
#[derive(Debug, Clone)]
pub struct CommitRequest<C> {
    /// The committable, or the committables of a group.
    pub committable: C,
    /// The checkpoint that it was prepared for.
    pub checkpoint: u64,
    /// How often this attempt of the task has tried it before.
    pub retries: u32,
}

/// The reason why a commit was not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommitError {
    /// The commit may succeed later. It is repeated after a pause that doubles each time, from 100 ms to 10 s, at most
    /// `sink.committer.retries` times (10 by default); then the task fails.
    #[error("{0}")]
    Retry(String),
    /// The commit can never succeed: the job fails, and is not restarted.
    #[error("{0}")]
    Failed(String),
}

/// The context of a record that is written. It dereferences to the context of the operator.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use streaming::{
///     operators::{BoxError, OperatorContext, OperatorMail},
///     sinks::{SinkWriter, WriterContext},
///     testing,
/// };
///
/// /// Sends words in packets to a service, which is a list here. A checkpoint waits until the packet at hand has arrived.
/// #[derive(Clone, Default)]
/// struct Packets {
///     service: Arc<Mutex<Vec<String>>>,
///     packet: Vec<String>,
///     under_way: bool,
/// }
///
/// impl SinkWriter<String> for Packets {
///     fn write(&mut self, word: String, context: &WriterContext<'_>) -> Result<(), BoxError> {
///         let time = context.timestamp();
///         let late = time.is_some_and(|time| Some(time) <= context.current_watermark());
///         self.packet.push(if late { format!("{word} (late)") } else { word });
///         Ok(())
///     }
///     fn flush(&mut self, _: bool, context: &OperatorContext) -> Result<(), BoxError> {
///         let (service, packet) = (self.service.clone(), std::mem::take(&mut self.packet));
///         self.under_way = true;
///         let send = async move {
///             service.lock().map_err(|error| error.to_string())?.extend(packet);
///             Ok(Vec::new())
///         };
///         context.spawn_io(Box::pin(send), 0);
///         Ok(())
///     }
///     fn mail(&mut self, mail: OperatorMail, _: &OperatorContext) -> Result<(), BoxError> {
///         if let OperatorMail::Reply { result, .. } = mail {
///             result?;
///             self.under_way = false;
///         }
///         Ok(())
///     }
///     fn is_flushing(&self) -> bool {
///         self.under_way
///     }
/// }
///
/// let packets = Packets::default();
/// let mut test = testing::sink(packets.clone()).open()?;
/// test.push(0, "a".to_owned())?;
/// assert!(packets.service.lock().unwrap().is_empty());
/// test.finish()?;
/// assert_eq!(*packets.service.lock().unwrap(), ["a"]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub struct WriterContext<'a> {
    pub(super) operator: &'a OperatorContext,
    pub(super) timestamp: Option<i64>,
    pub(super) watermark: Option<i64>,
}

impl WriterContext<'_> {
    /// Returns the event time of the record in milliseconds since 1970; `None` where the stream has no event times.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }
    /// Returns the newest watermark in milliseconds since 1970; `None` before the first one.
    pub fn current_watermark(&self) -> Option<i64> {
        self.watermark
    }
}

impl Deref for WriterContext<'_> {
    type Target = OperatorContext;
    fn deref(&self) -> &OperatorContext {
        self.operator
    }
}
