//! The traits of a sink, its committer and its global committer, named as in Flink's FLIP-143, FLIP-191 and
//! FLIP-372. `EXACTLY-ONCE.md` beside the crate's sources has the protocol. Traits and values only; the operators that call them
//! are in `two_phase`, and the traits of the writer in `writer.rs`.

use super::writer::CommittingSinkWriter;
use crate::{
    operators::{BoxError, OperatorContext},
    types::Record,
};
use std::future::{Future, ready};
use thiserror::Error;

/// A sink with two-phase commit: it creates the writer and the committer of each subtask, and the global committer. Where one of
/// the committers is not needed, its type is [`NoCommitter`](super::NoCommitter).
///
/// Each process has one sink, which the program's build makes. Its `create_…` methods are called on the tasks' threads, one at a time,
/// each time that a task starts; an error of theirs fails the task.
///
/// A sink for records of every type (`impl<T: Record> Sink<T> for Files`) must not implement `Clone`, else the compiler takes it
/// for a [`SinkWriter`](super::SinkWriter) that is a sink by itself.
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
    /// The type of what the writers prepare and the committers commit; values are in checkpoints until they are committed.
    type Committable: Record;
    /// The type of the writers, one per subtask.
    type Writer: CommittingSinkWriter<T, Committable = Self::Committable>;
    /// The type of the committers, one per subtask; [`NoCommitter`](super::NoCommitter) for none.
    type Committer: Committer<Self::Committable>;
    /// The type of the committer that gets what all writers have prepared; [`NoCommitter`](super::NoCommitter) for none.
    type GlobalCommitter: GlobalCommitter<Self::Committable>;

    /// Creates the writer of one subtask, each time its task starts. Called on the task's thread, for one subtask of the process at a time.
    ///
    /// # Errors
    /// The task fails with the returned error: a [`TaskError`](crate::TaskError) is reported unchanged, a
    /// [`StateError`](crate::state::StateError) as one of codec, I/O or deployment, and any other becomes an error of user code.
    fn create_writer(&self, context: &OperatorContext) -> Result<Self::Writer, BoxError>;
    /// Creates the committer of one subtask, each time its task starts. Not called if the type is [`NoCommitter`](super::NoCommitter).
    ///
    /// # Errors
    /// The task fails with the returned error, as for [`Sink::create_writer`].
    fn create_committer(&self, context: &OperatorContext) -> Result<Self::Committer, BoxError>;
    /// Creates the global committer, each time its task starts. Not called if the type is [`NoCommitter`](super::NoCommitter).
    ///
    /// # Errors
    /// The task fails with the returned error, as for [`Sink::create_writer`].
    fn create_global_committer(
        &self,
        context: &OperatorContext,
    ) -> Result<Self::GlobalCommitter, BoxError>;
}

/// Commits what the writer of its subtask has prepared, when the checkpoint is complete: the second of the two phases.
///
/// A commit must be idempotent. It is repeated if the task fails before a checkpoint is complete whose barrier came after the commit, also
/// by a job that was restored elsewhere from a checkpoint or savepoint that holds the committable: then the first commit may be done
/// already, and the second one must succeed too. The committables of one checkpoint are committed concurrently, at most 64 at a time; all
/// commits of a checkpoint are done before those of the next one begin. A commit that fails with [`CommitError::Retry`] is repeated, and
/// later checkpoints wait for it; one that fails with [`CommitError::Failed`] fails the job. Records are processed meanwhile, except after
/// a restore.
pub trait Committer<C>: Send + Sync + 'static {
    /// False for [`NoCommitter`](super::NoCommitter) only.
    #[doc(hidden)]
    const COMMITS: bool = true;
    /// Commits one committable. The future runs beside the task, on the process's tokio runtime; work that blocks belongs into
    /// `tokio::task::spawn_blocking`. If the task ends meanwhile, the future is dropped, and a later attempt commits again. A panic fails
    /// the task.
    ///
    /// # Errors
    /// Returns [`CommitError::Retry`] to be called again later with this committable, [`CommitError::Failed`] to fail the job.
    fn commit(
        &self,
        request: CommitRequest<C>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send;
    /// Keeps committables that a savepoint holds from being aborted. Called at the barrier of a savepoint with all committables that are
    /// not committed by then, if there are any, before the savepoint's snapshot. If the job fails afterwards and restarts from an earlier
    /// checkpoint, its writers abort what they find ([`super::CommittingSinkWriter::abort_leftovers`]), and the savepoint must still be
    /// restorable. Must be idempotent, also with what is being committed at this moment. The default does nothing.
    ///
    /// ```
    /// use std::{fs, io, path::PathBuf};
    /// use streaming::sinks::{CommitError, CommitRequest, Committer};
    ///
    /// /// Makes files visible, whose names are hidden by a dot before. A second name keeps the bytes of those of a savepoint.
    /// struct Publish {
    ///     folder: PathBuf,
    /// }
    ///
    /// /// Lets what is done already count as done.
    /// fn once(result: io::Result<()>, done: io::ErrorKind) -> Result<(), CommitError> {
    ///     match result {
    ///         Err(error) if error.kind() != done => Err(CommitError::Retry(error.to_string())),
    ///         _ => Ok(()),
    ///     }
    /// }
    ///
    /// impl Committer<String> for Publish {
    ///     async fn commit(&self, request: CommitRequest<String>) -> Result<(), CommitError> {
    ///         let name = request.committable;
    ///         let hidden = self.folder.join(format!(".{name}"));
    ///         once(fs::rename(hidden, self.folder.join(name)), io::ErrorKind::NotFound)
    ///     }
    ///     async fn keep(&self, names: Vec<String>) -> Result<(), CommitError> {
    ///         names.iter().try_for_each(|name| {
    ///             let kept = self.folder.join(format!(".kept-{name}"));
    ///             let hidden = self.folder.join(format!(".{name}"));
    ///             once(fs::hard_link(hidden, kept), io::ErrorKind::AlreadyExists)
    ///         })
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The savepoint's task fails with either [`CommitError`].
    fn keep(&self, _committables: Vec<C>) -> impl Future<Output = Result<(), CommitError>> + Send {
        ready(Ok(()))
    }
}

/// Commits together what the writers of all subtasks have prepared for a checkpoint. One global committer runs per sink, in a
/// task of its own with parallelism 1. It gets the committables from the writers: if the sink has a [`Committer`] too, the two
/// commit independently of each other.
///
/// A commit must be idempotent, as that of a [`Committer`]; where a part of it was done before, it does the rest. Errors are those of a
/// [`Committer`]: `Retry` repeats the whole commit, `Failed` fails the job.
///
/// A sink that adds the numbers of a checkpoint to a table of totals, in one transaction for all subtasks. The table keeps the checkpoint
/// of its last transaction, so that a repeated one adds nothing. Each writer announces the table that it writes for, and the job fails at
/// its start if that is not the committer's:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use streaming::{
///     operators::{BoxError, OperatorContext},
///     sinks::*,
///     testing,
/// };
///
/// /// Stands in for a table of a database: the sum, and the checkpoint of the last transaction.
/// type Table = Arc<Mutex<(u64, u64)>>;
///
/// #[derive(Clone)]
/// struct Totals {
///     name: &'static str,
///     table: Table,
/// }
/// struct ToTotals(Totals);
///
/// /// The name of the table and the sum of one subtask.
/// type Part = (String, u64);
///
/// impl Sink<u64> for ToTotals {
///     type Committable = Part;
///     type Writer = Summing;
///     type Committer = NoCommitter;
///     type GlobalCommitter = Totals;
///
///     fn create_writer(&self, context: &OperatorContext) -> Result<Summing, BoxError> {
///         let table = context.option("program.table").unwrap_or(self.0.name);
///         Ok(Summing { table: table.to_owned(), sum: 0 })
///     }
///     fn create_committer(&self, _: &OperatorContext) -> Result<NoCommitter, BoxError> {
///         Ok(NoCommitter)
///     }
///     fn create_global_committer(&self, _: &OperatorContext) -> Result<Totals, BoxError> {
///         Ok(self.0.clone())
///     }
/// }
///
/// struct Summing {
///     table: String,
///     sum: u64,
/// }
///
/// impl SinkWriter<u64> for Summing {
///     fn write(&mut self, number: u64, _: &WriterContext<'_>) -> Result<(), BoxError> {
///         self.sum += number;
///         Ok(())
///     }
/// }
///
/// impl CommittingSinkWriter<u64> for Summing {
///     type Committable = Part;
///     type State = NoWriterState;
///
///     fn prepare_commit(&mut self) -> Result<Vec<Part>, BoxError> {
///         Ok(vec![(self.table.clone(), std::mem::take(&mut self.sum))])
///     }
///     fn announce(&mut self, _: &OperatorContext) -> Option<Announcement<Part>> {
///         let table = self.table.clone();
///         Some(Box::pin(async move { Ok(Some((table, 0))) }))
///     }
/// }
///
/// impl GlobalCommitter<Part> for Totals {
///     async fn commit(&self, request: CommitRequest<Vec<Part>>) -> Result<(), CommitError> {
///         let mut table = self.table.lock().map_err(|e| CommitError::Retry(e.to_string()))?;
///         if request.is_repeated() && table.1 >= request.checkpoint {
///             return Ok(()); // It was committed before, and the failure came afterwards.
///         }
///         table.0 += request.committable.iter().map(|(_, sum)| sum).sum::<u64>();
///         table.1 = request.checkpoint;
///         Ok(())
///     }
///     async fn check(&self, (table, _): Part) -> Result<(), CommitError> {
///         match table == self.name {
///             true => Ok(()),
///             false => Err(CommitError::Failed(format!("'{table}' is not '{}'", self.name))),
///         }
///     }
/// }
///
/// let table = Table::default();
/// let sink = || ToTotals(Totals { name: "totals", table: table.clone() });
/// let mut test = testing::sink(sink()).subtasks(2).open()?;
/// test.push(0, 3)?;
/// test.push(1, 4)?;
/// let checkpoint = test.barrier(1, false)?;
/// assert_eq!(*table.lock().unwrap(), (0, 0));
/// test.notify_complete(1)?;
/// assert_eq!(*table.lock().unwrap(), (7, 1));
///
/// // All tasks fail, and the restored ones repeat the commit of what the checkpoint holds.
/// test.fail();
/// let restored = testing::sink(sink()).subtasks(3).attempt(1).restore(checkpoint).open()?;
/// assert_eq!(*table.lock().unwrap(), (7, 1));
/// restored.finish()?;
///
/// assert!(testing::sink(sink()).option("program.table", "other").open().is_err());
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub trait GlobalCommitter<C>: Send + Sync + 'static {
    /// False for [`NoCommitter`](super::NoCommitter) only.
    #[doc(hidden)]
    const COMMITS: bool = true;
    /// True if nothing is committed before the input has ended, by itself or because the job is stopped and drained: the only commit is
    /// that of the final checkpoint or of the stop's savepoint, with the committables of all checkpoints.
    /// Writers abort no leftovers then: what a failed attempt has prepared for no checkpoint stays until this commit, which may delete all
    /// of its job that is neither among the committables nor kept for a savepoint ([`GlobalCommitter::keep`]).
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use streaming::sinks::{CommitError, CommitRequest, GlobalCommitter};
    ///
    /// /// Publishes the names of all files in one list when the input has ended.
    /// #[derive(Default)]
    /// struct Catalogue {
    ///     published: Mutex<Vec<String>>,
    ///     /// The files of savepoints, which nothing may delete.
    ///     kept: Mutex<Vec<String>>,
    /// }
    ///
    /// fn broken(error: impl ToString) -> CommitError {
    ///     CommitError::Retry(error.to_string())
    /// }
    ///
    /// impl GlobalCommitter<String> for Catalogue {
    ///     const ONLY_AT_END: bool = true;
    ///     async fn commit(&self, request: CommitRequest<Vec<String>>) -> Result<(), CommitError> {
    ///         *self.published.lock().map_err(broken)? = request.committable;
    ///         Ok(())
    ///     }
    ///     async fn keep(&self, files: Vec<String>) -> Result<(), CommitError> {
    ///         let mut kept = self.kept.lock().map_err(broken)?;
    ///         kept.retain(|file| !files.contains(file));
    ///         kept.extend(files);
    ///         Ok(())
    ///     }
    /// }
    /// ```
    const ONLY_AT_END: bool = false;
    /// Commits all committables of a checkpoint, in the order of the checkpoints, one checkpoint at a time. Not called for a checkpoint
    /// without committables, nor while a [`GlobalCommitter::check`] is under way. The future runs beside the task, on the process's tokio
    /// runtime, and is dropped if the task ends; work that blocks belongs into `tokio::task::spawn_blocking`. A panic fails the task.
    ///
    /// # Errors
    /// Returns [`CommitError::Retry`] to be called again later with the same committables, [`CommitError::Failed`] to fail the job.
    fn commit(
        &self,
        request: CommitRequest<Vec<C>>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send;
    /// Keeps committables that a savepoint holds from being aborted by the writers of a later attempt. Called as [`Committer::keep`]
    /// is; the default does nothing.
    ///
    /// # Errors
    /// Fails the savepoint's task with either [`CommitError`].
    fn keep(&self, _committables: Vec<C>) -> impl Future<Output = Result<(), CommitError>> + Send {
        ready(Ok(()))
    }
    /// Checks what a writer has announced by [`CommittingSinkWriter::announce`]. Called once per announcement, as soon as it comes;
    /// the future runs beside the task.
    ///
    /// # Errors
    /// Returns [`CommitError::Failed`] to fail the job, [`CommitError::Retry`] to fail the task, after which the restarted writers
    /// announce themselves again.
    fn check(&self, _announced: C) -> impl Future<Output = Result<(), CommitError>> + Send {
        ready(Ok(()))
    }
}

/// A request to a [`Committer`] (one committable) or a [`GlobalCommitter`] (all committables of a checkpoint) to make visible what
/// writers have prepared. The outcome is what the committer returns: an error says whether the request is repeated. A repeated
/// request may be for something that is visible already, and must then succeed.
#[derive(Debug, Clone)]
pub struct CommitRequest<C> {
    /// The committable, or, for a [`GlobalCommitter`], all committables of the checkpoint that are not committed (with
    /// [`GlobalCommitter::ONLY_AT_END`] those of all checkpoints).
    pub committable: C,
    /// Number of the checkpoint that the committable was prepared for; of the last one, if the request has committables of several.
    pub checkpoint: u64,
    /// Number of times that this attempt of the task has tried to commit it before; 0 at first.
    pub retries: u32,
    /// True if the committable, or at least one of several, is from the snapshot that the task was restored from: an earlier attempt, or
    /// the job that the savepoint was taken of, may have committed it already, and a reader may have consumed the result.
    pub restored: bool,
}

impl<C> CommitRequest<C> {
    /// Returns true if the committable may be committed already, because it was tried before or was restored.
    pub fn is_repeated(&self) -> bool {
        self.restored || self.retries > 0
    }
}

/// The reason why a commit was not done; the variant says whether it is tried again or fails the job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommitError {
    /// The commit may succeed later. It is repeated after a pause that doubles each time, from 100 ms to 10 s, at most
    /// `sink.committer.retries` times (10 by default; with 0 never); then the task fails. Returned by `keep` or `check`, it fails the task
    /// at once. The restart strategy decides what follows.
    #[error("{0}")]
    Retry(String),
    /// The commit can never succeed: the job fails with this text, and is not restarted. Returned by `keep`, it fails the task as `Retry`
    /// does.
    #[error("{0}")]
    Failed(String),
}
