//! The traits of a sink's writer, the first of the two phases, and the context of a record that is written. The rest of a sink is in
//! `sink.rs`. Traits and values only.

use crate::{
    operators::{BoxError, OperatorContext, OperatorMail},
    state::OperatorState,
    types::Record,
};
use futures::future::BoxFuture;
use std::ops::Deref;

/// Writes records in one subtask, on the task's thread. A writer that implements `Clone` is a sink by itself, without a
/// committer: [`Stream::sink_to`](crate::Stream::sink_to) takes it, and each subtask writes with its own clone, made anew each time that
/// its task starts.
///
/// `open` comes first, then `write` for each record; `flush` before each barrier, and once more at the end of input, after which neither
/// is called again; `mail` whenever I/O or a timer that the writer asked for is done; `close` last. An error that a method returns fails
/// the task.
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
    /// A returned error fails the task. A [`TaskError`](crate::TaskError) is reported unchanged, a
    /// [`StateError`](crate::state::StateError) as one of codec, I/O or deployment; any other error becomes an error of user code.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Writes a record, now or later. A writer that cannot write now keeps the record.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn write(&mut self, record: T, context: &WriterContext<'_>) -> Result<(), BoxError>;
    /// Begins to write everything that was taken. Called before a checkpoint's barrier goes on, and once with `_end_of_input` true after
    /// the last record, but not at barriers after that, nor at the end of a job that is stopped without draining, of which the barrier of
    /// its savepoint is the last. The next `flush` comes only after [`SinkWriter::is_flushing`] has become false.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn flush(&mut self, _end_of_input: bool, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Takes the result of I/O ([`OperatorContext::spawn_io`]) or a timer ([`OperatorContext::wake_after`]) that the writer asked its
    /// context for. A timer that is due after the end of input, or after the savepoint of a stop, is dropped. The ticket `u32::MAX` must
    /// not be used: it is that of the writer's announcement.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn mail(&mut self, _mail: OperatorMail, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Returns true while the writer takes no more records: `write` is not called then. It must have asked its context for mail that will
    /// change that. False by default.
    fn is_full(&self) -> bool {
        false
    }
    /// Returns true while something is not written that [`SinkWriter::flush`] has begun to write. The barrier, or the end of input, waits,
    /// and the writer must have asked its context for mail. False by default.
    fn is_flushing(&self) -> bool {
        false
    }
    /// Releases the writer's resources. Called once when the task is over, whether it finished, failed or was cancelled, also if `open` has
    /// failed, but not if the process is killed. What was prepared for a commit must stay; what was not will be written again and may be
    /// deleted.
    fn close(&mut self) {}
}

/// A future of what a writer announces to the global committer, `None` for nothing: see [`CommittingSinkWriter::announce`].
pub type Announcement<C> = BoxFuture<'static, Result<Option<C>, BoxError>>;

/// A [`SinkWriter`] that prepares what it has written for a commit: the first of the two phases.
///
/// At the start come `open`, then `restore_state` if a checkpoint has state of the writer, then `announce` if the sink has a global
/// committer. Before each barrier come `flush`, `prepare_commit`, `keep` if it is that of a savepoint, and `snapshot_state`; at the end of
/// input `flush` and `prepare_commit`, and at later barriers only `snapshot_state`. `abort_leftovers` comes once, after the first
/// complete checkpoint, unless the sink commits only at the end of its input. At the end comes `close`, after `withdraw` if the JobMaster
/// has cancelled the task or the task has failed before its announcement was sent.
///
/// A writer of packets of three numbers. Numbers of a packet that is not full at a barrier are its state; files that no checkpoint
/// holds are deleted by the attempt that takes over:
///
/// ```
/// use std::{fs, path::PathBuf};
/// use streaming::{
///     operators::{BoxError, OperatorContext},
///     sinks::*,
///     state::{ListState, OperatorState, State},
///     testing,
/// };
///
/// struct Packets {
///     folder: PathBuf,
/// }
///
/// impl Sink<u64> for Packets {
///     type Committable = String;
///     type Writer = Packer;
///     type Committer = Publish;
///     type GlobalCommitter = NoCommitter;
///
///     fn create_writer(&self, ctx: &OperatorContext) -> Result<Packer, BoxError> {
///         let (job, at) = (ctx.job_id().to_string(), ctx.attempt());
///         // Attempts are numbered anew by each JobMaster, which makes a graph with a number of its own.
///         let run = format!("{}.{}", at.graph, at.attempt);
///         let (folder, open, full) = (self.folder.clone(), Vec::new(), Vec::new());
///         Ok(Packer { folder, job, run, open, full, files: 0 })
///     }
///     fn create_committer(&self, _: &OperatorContext) -> Result<Publish, BoxError> {
///         Ok(Publish { folder: self.folder.clone() })
///     }
///     fn create_global_committer(&self, _: &OperatorContext) -> Result<NoCommitter, BoxError> {
///         Ok(NoCommitter)
///     }
/// }
///
/// struct Packer {
///     folder: PathBuf,
///     job: String,
///     run: String,
///     /// The numbers of the packet that is not full.
///     open: Vec<u64>,
///     full: Vec<String>,
///     files: u32,
/// }
///
/// #[derive(OperatorState)]
/// # #[flott(crate = streaming)]
/// struct Open {
///     numbers: ListState<u64>,
/// }
///
/// impl SinkWriter<u64> for Packer {
///     fn write(&mut self, number: u64, context: &WriterContext<'_>) -> Result<(), BoxError> {
///         self.open.push(number);
///         if self.open.len() == 3 {
///             // Hidden until the commit, and of this attempt of this job alone.
///             let Self { job, run, files, .. } = self;
///             let file = format!("hidden-{job}-{}-{run}-{files}", context.subtask());
///             fs::write(self.folder.join(&file), format!("{:?}", std::mem::take(&mut self.open)))?;
///             self.files += 1;
///             self.full.push(file);
///         }
///         Ok(())
///     }
/// }
///
/// impl CommittingSinkWriter<u64> for Packer {
///     type Committable = String;
///     type State = Open;
///
///     fn prepare_commit(&mut self) -> Result<Vec<String>, BoxError> {
///         Ok(std::mem::take(&mut self.full))
///     }
///     fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Open, BoxError> {
///         let mut state = Open::empty();
///         self.open.iter().for_each(|number| state.numbers.push(*number));
///         Ok(state)
///     }
///     fn restore_state(&mut self, mut state: Open, _: &OperatorContext) -> Result<(), BoxError> {
///         self.open = state.numbers.take()?;
///         Ok(())
///     }
///     fn abort_leftovers(&mut self, ctx: &OperatorContext) -> Result<(), BoxError> {
///         for entry in fs::read_dir(&self.folder)?.flatten() {
///             let name = entry.file_name().to_string_lossy().into_owned();
///             let parts: Vec<_> = name.split('-').collect();
///             if let ["hidden", job, subtask, run, _] = parts[..]
///                 && job == self.job
///                 && run != self.run
///                 && ctx.takes_over(subtask.parse()?)
///             {
///                 fs::remove_file(entry.path())?;
///             }
///         }
///         Ok(())
///     }
/// }
///
/// struct Publish {
///     folder: PathBuf,
/// }
///
/// impl Committer<String> for Publish {
///     async fn commit(&self, request: CommitRequest<String>) -> Result<(), CommitError> {
///         let hidden = self.folder.join(&request.committable);
///         let published = self.folder.join(request.committable.replace("hidden", "packet"));
///         // A commit that is repeated finds the file published.
///         if published.exists() {
///             return Ok(());
///         }
///         fs::rename(hidden, published).map_err(|error| CommitError::Retry(error.to_string()))
///     }
/// }
///
/// # fn test() -> Result<(), BoxError> {
/// let folder = tempfile::tempdir()?;
/// let sink = || Packets { folder: folder.path().to_owned() };
/// let mut test = testing::sink(sink()).open()?;
/// for number in 1..=4 {
///     test.push(0, number)?;
/// }
/// let checkpoint = test.barrier(1, false)?;
/// for number in 5..=7 {
///     // The packet of 4, 5 and 6 is in a file, and in no checkpoint.
///     test.push(0, number)?;
/// }
/// test.fail();
///
/// let mut restored = testing::sink(sink()).attempt(1).restore(checkpoint).open()?;
/// for number in 5..=6 {
///     restored.push(0, number)?;
/// }
/// restored.barrier(2, false)?;
/// restored.notify_complete(2)?;
/// let mut files: Vec<_> =
///     fs::read_dir(folder.path())?.flatten().map(|e| e.file_name().into_string().unwrap()).collect();
/// files.sort();
/// assert!(files[0].ends_with("-0-0.0-0") && files[1].ends_with("-0-0.1-0"), "{files:?}");
/// assert_eq!(fs::read_to_string(folder.path().join(&files[1]))?, "[4, 5, 6]");
/// # Ok(())
/// # }
/// # test().unwrap();
/// ```
pub trait CommittingSinkWriter<T>: SinkWriter<T> {
    /// Names what the committer makes visible: a hidden file, an open transaction. It is kept in the checkpoint.
    type Committable: Record;
    /// The state of the writer: a struct with `#[derive(OperatorState)]`, [`NoWriterState`](super::NoWriterState) for none.
    type State: OperatorState;
    /// True if [`CommittingSinkWriter::abort_leftovers`] is called also where the global committer commits only at the end. It must leave
    /// then what any attempt has ever prepared.
    #[doc(hidden)]
    const ABORTS_BEFORE_END: bool = false;

    /// Returns what is to be committed when the checkpoint is complete. Called once per barrier, and once after the last
    /// record, after [`SinkWriter::flush`] and before [`CommittingSinkWriter::snapshot_state`]; not at barriers after the last record.
    /// Everything that was written before must survive the process from now on.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn prepare_commit(&mut self) -> Result<Vec<Self::Committable>, BoxError>;
    /// Returns the writer's state at a barrier, after everything before the barrier was prepared. Called also at barriers after the last
    /// record; not called if the state type has no field. By default the state is empty.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Self::State, BoxError> {
        Ok(<Self::State as crate::state::State>::empty())
    }
    /// Keeps what the state at the barrier of a savepoint refers to, such as a file that is being written, from what the job does later: a
    /// restart that deletes it, the end of the job. Called between [`CommittingSinkWriter::prepare_commit`] and
    /// [`CommittingSinkWriter::snapshot_state`], not after the last record. Prepared committables are kept by their committer
    /// ([`super::Committer::keep`], [`super::GlobalCommitter::keep`]). The default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn keep(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Takes this subtask's share of the state of all former subtasks. Called after [`SinkWriter::open`] if the job was
    /// restored from a checkpoint that has state of the writer. The default drops the state.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn restore_state(
        &mut self,
        _state: Self::State,
        _context: &OperatorContext,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Announces the writer to the sink's global committer: the future returns a committable that is not to be committed, but goes to
    /// [`GlobalCommitter::check`](super::GlobalCommitter::check) at once. So the job fails at its start for what would make each commit
    /// fail, for example a folder that the global committer does not share. Called once, after [`SinkWriter::open`] and the restore, if the
    /// sink has a global committer; not called if the subtask had reached the end of its data in the restored checkpoint. The future runs
    /// beside the task. Barriers and the end of input wait for it, records do not.
    ///
    /// `None`, which is the default, and a future that returns `None` announce nothing.
    ///
    /// # Errors
    /// The task fails with the future's error, as in [`SinkWriter::open`].
    fn announce(&mut self, _context: &OperatorContext) -> Option<Announcement<Self::Committable>> {
        None
    }
    /// Takes back what [`CommittingSinkWriter::announce`] has left outside of the process, or is about to leave: its future may still be
    /// running. Called before [`SinkWriter::close`] if the task has failed before it has sent the announcement, for example because another
    /// operator of its chain cannot be restored, or if the JobMaster has cancelled the task: it has cancelled the global committer's as
    /// well then, so that the outcome of a check that is still under way does not count. Not called if the task itself has failed later,
    /// because its announcement may still be checked.
    ///
    /// ```
    /// use std::{fs, path::PathBuf};
    /// use streaming::{
    ///     operators::{BoxError, OperatorContext},
    ///     sinks::{Announcement, CommittingSinkWriter, NoWriterState, SinkWriter, WriterContext},
    /// };
    ///
    /// /// Proves by a file, which the global committer looks for, that its folder is the committer's too.
    /// struct Proving {
    ///     file: PathBuf,
    /// }
    ///
    /// impl SinkWriter<u64> for Proving {
    ///     fn write(&mut self, _number: u64, _context: &WriterContext<'_>) -> Result<(), BoxError> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// impl CommittingSinkWriter<u64> for Proving {
    ///     type Committable = String;
    ///     type State = NoWriterState;
    ///     fn prepare_commit(&mut self) -> Result<Vec<String>, BoxError> {
    ///         Ok(Vec::new())
    ///     }
    ///     fn announce(&mut self, _: &OperatorContext) -> Option<Announcement<String>> {
    ///         let file = self.file.clone();
    ///         Some(Box::pin(async move {
    ///             fs::write(&file, "")?;
    ///             Ok(Some(file.display().to_string()))
    ///         }))
    ///     }
    ///     fn withdraw(&mut self) {
    ///         // The file may not be there yet.
    ///         let _ = fs::remove_file(&self.file);
    ///     }
    /// }
    /// ```
    fn withdraw(&mut self) {}
    /// Deletes what earlier attempts have left over, of each subtask for which [`OperatorContext::takes_over`] is true. Called
    /// once, when the first checkpoint after the start is complete. By then the committers have committed all that the restored
    /// checkpoint held: what earlier attempts prepared and is still not committed belongs to no checkpoint.
    ///
    /// Not called if the sink has a global committer with [`ONLY_AT_END`](super::GlobalCommitter::ONLY_AT_END): what earlier attempts
    /// prepared stays in the checkpoints until the end, and its one commit can tell the leftovers.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn abort_leftovers(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
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
///     /// Takes no word while a packet is under way; its answer changes that.
///     fn is_full(&self) -> bool {
///         self.under_way
///     }
///     fn close(&mut self) {
///         eprintln!("{} words were not sent", self.packet.len());
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
    /// Returns the event time of the record in milliseconds since 1970; `None` if the record has none.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }
    /// Returns the newest watermark in milliseconds since 1970; `None` before the first one of this attempt, also after a restore.
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
