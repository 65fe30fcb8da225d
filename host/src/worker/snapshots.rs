//! The state of tasks on its way to and from the checkpoint directory: small state goes with the acknowledgement, the rest into
//! objects whose handles do. Keyed state comes in chunks while the task writes it (`uploads.rs`). Without a directory the task keeps the
//! chunks up to the limit; the rest is dropped, and the checkpoint fails at once. A checkpoint must never be acknowledged before its
//! objects are stored.

use super::{
    bases::Bases,
    uploads::{Target, Upload, Uploads},
};
use bytes::Bytes;
use futures::StreamExt as _;
use gateways::{
    CallError, Remote,
    job_master::CheckpointAnswer,
    task_executor::{CheckpointAnswerError, ForwardCheckpointAnswer, TaskExecutorGateway},
};
use model::{
    ExecutionAttemptId, FailureCause, JobId, MemorySize, OperatorId, StateHandle, SubtaskSnapshot,
};
use platform::Platform;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use storage::{
    checkpoints::CheckpointDirectory,
    objects::{self, S3Settings},
    state_reader::StateReader,
};
use streaming::{Restore, StateChunk, TaskError, TaskSnapshot};
use tokio::runtime::Handle;

/// Default of `execution.checkpointing.data-inline-threshold`, in bytes.
const INLINE_THRESHOLD: u64 = 20 << 10;
/// The most state of a task that goes with the acknowledgement, in bytes; as in Flink without a checkpoint directory.
const INLINE_MAX: u64 = 5 << 20;
/// The kind of the reason why a task has no part of a checkpoint.
const STATE_NOT_STORED: &str = "StateNotStored";
/// The number of objects that are read at once for an operator that is restored.
const READS_AT_ONCE: usize = 4;
/// The first and the last pause between two tries of a call.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_secs(1);
/// The time-out of one try.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The checkpoint directory of a job as its tasks use it. Clones share it.
#[derive(Clone)]
pub(crate) struct Snapshots {
    job_id: JobId,
    directory: Option<CheckpointDirectory>,
    reader: StateReader,
    inline_max: u64,
    uploads: Uploads,
    bases: Bases,
    kept: Kept,
}

/// The bytes of the snapshots that tasks are writing without a checkpoint directory, by attempt and checkpoint.
type Kept = Arc<Mutex<BTreeMap<(ExecutionAttemptId, u64), u64>>>;

impl Snapshots {
    /// Opens the directory of this URI; without one, all state goes with the acknowledgements. Called on a thread that may wait.
    ///
    /// # Errors
    /// Returns a text that says why the directory can't be used.
    pub(crate) fn open(
        job_id: JobId,
        uri: Option<&str>,
        options: &BTreeMap<String, String>,
        platform: &Platform,
        (runtime, uploads): (&Handle, &Uploads),
    ) -> Result<Self, String> {
        let threshold = options.get("execution.checkpointing.data-inline-threshold");
        let threshold = threshold.and_then(|text| text.parse::<MemorySize>().ok());
        let s3 = S3Settings::from_texts(|key| options.get(key).cloned());
        let reader = |directory| StateReader::new(directory, platform.clone(), s3.clone());
        let Some(uri) = uri else {
            let reader = reader(None);
            let uploads = uploads.clone();
            let (inline_max, bases, kept) = (INLINE_MAX, Bases::default(), Kept::default());
            return Ok(Self { job_id, directory: None, reader, inline_max, uploads, bases, kept });
        };
        let inline_max = threshold.map_or(INLINE_THRESHOLD, |size| size.0).min(INLINE_MAX);
        let wrong = |why: String| {
            format!(
                "a TaskManager on '{}' cannot use the checkpoint directory '{uri}': {why}; set execution.checkpointing.dir to a directory that \
                 all machines share, or set execution.checkpointing.storage to jobmanager",
                streaming::task::host_name()
            )
        };
        let objects = {
            // The client of a remote system belongs to the runtime that polls its sockets.
            let _runtime = runtime.enter();
            objects::open(uri, platform, &s3)
        };
        let directory =
            CheckpointDirectory::new(objects.map_err(|error| wrong(error.to_string()))?);
        let shared = runtime.block_on(directory.is_shared(job_id));
        match shared {
            Ok(true) => {
                let directory = Some(directory);
                let (reader, uploads) = (reader(directory.clone()), uploads.clone());
                let (bases, kept) = (Bases::default(), Kept::default());
                Ok(Self { job_id, reader, directory, inline_max, uploads, bases, kept })
            }
            Ok(false) => {
                let host = streaming::task::host_name();
                Err(wrong(format!(
                    "the JobManager's directory {uri} is another one than {uri} on '{host}'"
                )))
            }
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Returns the states that a task is restored from. Each is read when its operator asks for it, or shortly before: the state is
    /// decoded while the next parts come. Called and used on the task's thread, which may wait.
    pub(crate) fn restore(
        &self,
        restore: Vec<(OperatorId, Vec<StateHandle>)>,
        vertex: &str,
        runtime: &Handle,
    ) -> BTreeMap<OperatorId, Restore> {
        let restore = restore.into_iter();
        restore.map(|(operator, handles)| (operator, self.read(handles, vertex, runtime))).collect()
    }

    fn read(&self, handles: Vec<StateHandle>, vertex: &str, runtime: &Handle) -> Restore {
        let (is_empty, vertex, runtime) = (handles.is_empty(), vertex.to_owned(), runtime.clone());
        let (reader, on) = (self.reader.clone(), runtime.clone());
        let reads = handles.into_iter().map(move |handle| {
            let reader = reader.clone();
            on.spawn(async move {
                match handle {
                    StateHandle::Inline(bytes) => Ok(bytes),
                    handle => reader.read(&handle).await.map(Vec::from),
                }
            })
        });
        let mut reads = futures::stream::iter(reads).buffered(READS_AT_ONCE);
        let snapshots = std::iter::from_fn(move || {
            let read = runtime.block_on(reads.next())?;
            Some(match read {
                Ok(Ok(bytes)) => Ok(bytes),
                Ok(Err(error)) if error.is_lost() => Err(TaskError::Unreadable(error.to_string())),
                Ok(Err(error)) => Err(not_read(&vertex, &error)),
                Err(error) => Err(not_read(&vertex, &error)),
            })
        });
        Restore::new(snapshots, is_empty)
    }

    /// Takes a chunk of a snapshot that is being written. Without a checkpoint directory a chunk beyond the limit is dropped, and with the
    /// first one of them the JobMaster is told that the checkpoint fails.
    ///
    /// # Errors
    /// Returns the chunk if there is no checkpoint directory: all state goes with the acknowledgement then.
    pub(crate) fn store_chunk(
        &self,
        key: (ExecutionAttemptId, u64, OperatorId),
        chunk: StateChunk,
        (runtime, parent): (&Handle, &Remote<TaskExecutorGateway>),
    ) -> Result<(), StateChunk> {
        let Some(directory) = &self.directory else {
            let (attempt, checkpoint, _) = key;
            let mut kept = self.kept();
            let bytes = kept.entry((attempt, checkpoint)).or_default();
            let before = *bytes;
            *bytes += chunk.bytes.len() as u64;
            return match *bytes {
                ..=INLINE_MAX => Err(chunk),
                bytes => {
                    if before <= INLINE_MAX {
                        let answer = Err(too_large(bytes));
                        let answer = CheckpointAnswer { attempt, checkpoint, answer };
                        let (parent, job_id) = (parent.clone(), self.job_id);
                        runtime.spawn(async move {
                            tell(&parent, ForwardCheckpointAnswer { job_id, answer }).await;
                        });
                    }
                    Ok(())
                }
            };
        };
        self.uploads.add(key, chunk, runtime, || Target {
            directory: directory.clone(),
            job_id: self.job_id,
            inline_max: self.inline_max,
        });
        Ok(())
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeMap<(ExecutionAttemptId, u64), u64>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size up to which a state goes inline, if there is a checkpoint directory, so that the snapshot of a larger one may refer
    /// to what an earlier one has stored.
    pub(crate) fn stores_changes(&self) -> Option<u64> {
        self.directory.is_some().then_some(self.inline_max)
    }

    /// Gives up an attempt's part of a checkpoint that was aborted: ends its uploads and deletes what they have stored.
    pub(crate) fn give_up(&self, attempt: ExecutionAttemptId, checkpoint: u64) {
        self.uploads.give_up(attempt, checkpoint);
        self.kept().remove(&(attempt, checkpoint));
    }

    /// Gives up the uploads of an attempt that has ended, and deletes what they have stored.
    pub(crate) fn ended(&self, attempt: ExecutionAttemptId) {
        self.uploads.ended(attempt);
        self.bases.ended(attempt);
        self.kept().retain(|(of, _), _| *of != attempt);
    }

    /// Returns a future that stores a task's part of a checkpoint and tells the JobMaster.
    pub(crate) fn answer(
        &self,
        parent: Remote<TaskExecutorGateway>,
        attempt: ExecutionAttemptId,
        checkpoint: u64,
        snapshot: TaskSnapshot,
    ) -> impl Future<Output = ()> + Send + 'static {
        let snapshots = self.clone();
        // Taken now, because the attempt may end before the future is polled.
        let upload = |operator: &OperatorId| {
            Some((*operator, self.uploads.take((attempt, checkpoint, *operator))?))
        };
        let uploads = snapshot.operators.iter().filter_map(|(id, _)| upload(id)).collect();
        let kept = self.kept().remove(&(attempt, checkpoint)).filter(|bytes| *bytes > INLINE_MAX);
        async move {
            let pause_us = u64::try_from(snapshot.pause.as_micros()).unwrap_or(u64::MAX);
            let mut stored =
                SubtaskSnapshot { ended: snapshot.ended, operators: Vec::new(), pause_us };
            let outcome = match kept {
                Some(bytes) => Err(too_large(bytes)),
                None => snapshots.store(attempt, checkpoint, snapshot, uploads, &mut stored).await,
            };
            let mut left = BTreeSet::new();
            if let Err(why) = &outcome {
                tracing::warn!(%attempt, checkpoint, why = why.message, "the state of a task is not stored, so that the checkpoint fails");
                // A snapshot of changes also refers to what complete checkpoints refer to.
                let own = format!("{}/chk-{checkpoint}/", snapshots.job_id);
                let objects = stored.objects().filter(|name| name.starts_with(&own));
                left.extend(objects.map(str::to_owned));
            }
            let answer = outcome.map(|()| stored);
            let answer = CheckpointAnswer { attempt, checkpoint, answer };
            tell(&parent, ForwardCheckpointAnswer { job_id: snapshots.job_id, answer }).await;
            if let Some(directory) = &snapshots.directory {
                directory.give_up(&left).await;
            }
        }
    }

    /// Stores the states of a task's operators, and adds their handles to `stored`.
    async fn store(
        &self,
        attempt: ExecutionAttemptId,
        checkpoint: u64,
        snapshot: TaskSnapshot,
        mut uploads: BTreeMap<OperatorId, Upload>,
        stored: &mut SubtaskSnapshot,
    ) -> Result<(), FailureCause> {
        let failed = |why: String| FailureCause::recoverable(STATE_NOT_STORED, why);
        let bases: BTreeMap<_, _> = snapshot.bases.into_iter().collect();
        for (operator, chunks) in snapshot.operators {
            let mut handle = match uploads.remove(&operator) {
                Some(upload) => upload.end(chunks).await,
                None => self.store_state((attempt, checkpoint, operator), chunks).await,
            }
            .map_err(failed)?;
            if let Some(base) = bases.get(&operator) {
                let joined = self.on_base((attempt, checkpoint, operator), *base, handle, stored);
                handle = joined.await.map_err(failed)?;
            }
            stored.operators.push((operator, handle));
        }
        check_inline(stored)
    }

    /// Returns the handle of a whole state of which `handle` is the snapshot, or the changes since the checkpoint `base`. If there is none,
    /// `handle` is added to `stored`, so that its objects are found.
    async fn on_base(
        &self,
        (attempt, checkpoint, operator): (ExecutionAttemptId, u64, OperatorId),
        base: Option<u64>,
        mut handle: StateHandle,
        stored: &mut SubtaskSnapshot,
    ) -> Result<StateHandle, String> {
        if let (Some(_), StateHandle::Inline(bytes), Some(directory)) =
            (base, &handle, &self.directory)
        {
            // The bytes of many such snapshots in a row would be inline together.
            let bytes = Bytes::copy_from_slice(bytes);
            let put = directory.put_state(self.job_id, checkpoint, attempt, operator, bytes);
            handle = put.await.map_err(|error| error.to_string())?;
        }
        let joined = self.bases.join((attempt, operator), checkpoint, base, handle.clone());
        if joined.is_err() {
            stored.operators.push((operator, handle));
        }
        joined
    }

    /// Stores the state of an operator that writes it in one piece.
    async fn store_state(
        &self,
        (attempt, checkpoint, operator): (ExecutionAttemptId, u64, OperatorId),
        chunks: Vec<Bytes>,
    ) -> Result<StateHandle, String> {
        let state = tokio::task::spawn_blocking(move || joined(chunks)).await;
        let state = state.map_err(|error| error.to_string())?;
        match &self.directory {
            Some(directory) if state.len() as u64 > self.inline_max => {
                let stored = directory.put_state(self.job_id, checkpoint, attempt, operator, state);
                stored.await.map_err(|error| error.to_string())
            }
            _ => Ok(StateHandle::Inline(state.into())),
        }
    }
}

/// Checks that the JobManager takes the state that goes with the acknowledgement.
fn check_inline(snapshot: &SubtaskSnapshot) -> Result<(), FailureCause> {
    let places = snapshot.operators.iter().flat_map(|(_, handle)| handle.places());
    let inline = places.map(|handle| match handle {
        StateHandle::Inline(bytes) => bytes.len() as u64,
        _ => 0,
    });
    match inline.sum::<u64>() {
        ..=INLINE_MAX => Ok(()),
        inline => Err(too_large(inline)),
    }
}

/// Returns the reason of a checkpoint that fails because a task has at least so many bytes of state and no directory for them.
fn too_large(bytes: u64) -> FailureCause {
    let why = format!(
        "its state of {bytes} bytes or more is more than the {INLINE_MAX} that the JobManager keeps of a task: start the job with \
         execution.checkpointing.dir set to a directory that all machines share, and execution.checkpointing.storage, if it is set, to \
         filesystem"
    );
    FailureCause::fatal(STATE_NOT_STORED, why)
}

fn not_read(vertex: &str, error: &dyn std::error::Error) -> TaskError {
    let what = "reading the state to restore".to_owned();
    TaskError::Io { operator: vertex.to_owned(), what, why: error.to_string() }
}

/// Joins the chunks of a snapshot, because an object is stored in one piece. Each chunk is freed once it is copied.
fn joined(mut chunks: Vec<Bytes>) -> Bytes {
    if chunks.len() == 1 {
        return chunks.swap_remove(0);
    }
    let mut state = Vec::with_capacity(chunks.iter().map(Bytes::len).sum());
    for chunk in chunks {
        state.extend_from_slice(&chunk);
    }
    state.into()
}

/// Repeats a call until it is answered, or its answer is not needed any more.
async fn tell(parent: &Remote<TaskExecutorGateway>, answer: ForwardCheckpointAnswer) {
    let mut pause = RETRY_FIRST;
    loop {
        let error = match parent.ask_within(answer.clone(), ANSWER_WITHIN).await {
            Ok(()) | Err(CallError::Refused(CheckpointAnswerError::StaleAttempt { .. })) => return,
            Err(CallError::Refused(error)) => error.to_string(),
            Err(CallError::Fabric(error)) if error.is_retriable() => error.to_string(),
            Err(CallError::Fabric(error)) => {
                tracing::warn!(%error, "the parent does not take a part of a checkpoint");
                return;
            }
        };
        tracing::debug!(error, "a part of a checkpoint is sent again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_LAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateways::{RpcOptions, RpcService};
    use model::{Epoch, JobVertexId, LeaderSession, ProcessSession};

    #[tokio::test]
    async fn without_a_directory_no_more_chunks_are_kept_than_go_with_the_acknowledgement() {
        let platform = Platform::production();
        let rpc = RpcService::start(platform.clone(), RpcOptions::in_process()).await.unwrap();
        let epoch = Epoch { store: 1, process: 1 };
        let session = ProcessSession(LeaderSession { epoch, nonce: 1 });
        let parent = rpc.gateway(&rpc.address_of("task_executor"), session);
        let (runtime, uploads) = (Handle::current(), Uploads::default());
        let around = (&runtime, &uploads);
        let snapshots =
            Snapshots::open(JobId(1), None, &BTreeMap::new(), &platform, around).unwrap();
        let attempt =
            ExecutionAttemptId { graph: 7, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
        let kept = |checkpoint| {
            let bytes = Bytes::from(vec![0; 100 << 10]);
            let chunks = (0..1000u32).map(|n| {
                let chunk = StateChunk { groups: None, bytes: bytes.clone(), is_early: false };
                let key = (attempt, checkpoint, OperatorId(u128::from(n % 2)));
                snapshots.store_chunk(key, chunk, (&runtime, &parent))
            });
            chunks.filter_map(Result::err).map(|chunk| chunk.bytes.len() as u64).sum::<u64>()
        };
        // 51 chunks of 100 KiB, of 1,000, whichever of the two operators of the task they are of.
        assert_eq!(kept(1), 51 * (100 << 10));
        assert_eq!(snapshots.kept().get(&(attempt, 1)), Some(&(1000 * (100 << 10))));
        snapshots.give_up(attempt, 1);
        assert_eq!(kept(2), 51 * (100 << 10), "the next checkpoint begins anew");
        snapshots.ended(attempt);
        assert!(snapshots.kept().is_empty());
        let why = too_large(INLINE_MAX + 1);
        assert!(!why.recoverable, "a final checkpoint is not tried again: {why}");
    }
}
