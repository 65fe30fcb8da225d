//! The state of tasks on its way to and from the checkpoint directory: small state goes with the acknowledgement, the rest into
//! objects whose handles do. A checkpoint must never be acknowledged before its objects are stored.

use bytes::Bytes;
use gateways::{
    CallError, Remote,
    job_master::CheckpointAnswer,
    task_executor::{CheckpointAnswerError, ForwardCheckpointAnswer, TaskExecutorGateway},
};
use model::{ExecutionAttemptId, JobId, MemorySize, OperatorId, StateHandle, SubtaskSnapshot};
use platform::Platform;
use std::{collections::BTreeMap, time::Duration};
use storage::{
    checkpoints::CheckpointDirectory,
    objects::{self, S3Settings},
    state_reader::StateReader,
};
use streaming::TaskSnapshot;
use tokio::runtime::Handle;

/// Default of `execution.checkpointing.data-inline-threshold`, in bytes.
const INLINE_THRESHOLD: u64 = 20 << 10;
/// The most state of a task that goes with the acknowledgement, in bytes; as in Flink without a checkpoint directory.
const INLINE_MAX: u64 = 5 << 20;
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
}

impl Snapshots {
    /// Opens the directory of this URI; without one, all state goes with the acknowledgements. Called on a thread that may wait.
    ///
    /// # Errors
    /// A text that says why the directory can't be used.
    pub(crate) fn open(
        job_id: JobId,
        uri: Option<&str>,
        options: &BTreeMap<String, String>,
        platform: &Platform,
        runtime: &Handle,
    ) -> Result<Self, String> {
        let threshold = options.get("execution.checkpointing.data-inline-threshold");
        let threshold = threshold.and_then(|text| text.parse::<MemorySize>().ok());
        let s3 = S3Settings::from_texts(|key| options.get(key).cloned());
        let reader = |directory| StateReader::new(directory, platform.clone(), s3.clone());
        let Some(uri) = uri else {
            let reader = reader(None);
            return Ok(Self { job_id, directory: None, reader, inline_max: INLINE_MAX });
        };
        let inline_max = threshold.map_or(INLINE_THRESHOLD, |size| size.0).min(INLINE_MAX);
        let wrong = |why: String| format!("execution.checkpointing.dir: {why}");
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
                Ok(Self { job_id, reader: reader(directory.clone()), directory, inline_max })
            }
            Ok(false) => Err(wrong(format!(
                "the JobManager's directory {uri} is another one than this machine's: name a directory that all machines share"
            ))),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Reads the states that a task is restored from. Called on the task's thread, which may wait.
    ///
    /// # Errors
    /// A text that names the object and what is wrong with it.
    pub(crate) fn read(
        &self,
        restore: Vec<(OperatorId, Vec<StateHandle>)>,
        runtime: &Handle,
    ) -> Result<BTreeMap<OperatorId, Vec<Vec<u8>>>, String> {
        let mut states = BTreeMap::new();
        for (operator, handles) in restore {
            let mut parts = Vec::with_capacity(handles.len());
            for handle in handles {
                parts.push(match handle {
                    StateHandle::Inline(bytes) => bytes,
                    handle => {
                        let read = runtime.block_on(self.reader.read(&handle));
                        read.map_err(|error| error.to_string())?.to_vec()
                    }
                });
            }
            states.insert(operator, parts);
        }
        Ok(states)
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
        async move {
            let answer = snapshots.store(attempt, checkpoint, snapshot).await;
            if let Err(why) = &answer {
                tracing::warn!(%attempt, checkpoint, why, "a part of a checkpoint is not stored");
            }
            let answer = CheckpointAnswer { attempt, checkpoint, answer };
            tell(&parent, ForwardCheckpointAnswer { job_id: snapshots.job_id, answer }).await;
        }
    }

    async fn store(
        &self,
        attempt: ExecutionAttemptId,
        checkpoint: u64,
        snapshot: TaskSnapshot,
    ) -> Result<SubtaskSnapshot, String> {
        let mut operators = Vec::with_capacity(snapshot.operators.len());
        let mut inline = 0;
        for (operator, chunks) in snapshot.operators {
            let state = tokio::task::spawn_blocking(move || joined(chunks)).await;
            let state = state.map_err(|error| error.to_string())?;
            let bytes = state.len() as u64;
            let handle = match &self.directory {
                Some(directory) if bytes > self.inline_max => {
                    let stored =
                        directory.put_state(self.job_id, checkpoint, attempt, operator, state);
                    stored.await.map_err(|error| error.to_string())?
                }
                _ => {
                    inline += bytes;
                    StateHandle::Inline(state.into())
                }
            };
            operators.push((operator, handle));
        }
        if inline > INLINE_MAX {
            return Err(format!(
                "its state of {inline} bytes is more than the {INLINE_MAX} that the JobManager keeps of a task: set \
                 execution.checkpointing.dir to a directory that all machines share"
            ));
        }
        Ok(SubtaskSnapshot { ended: snapshot.ended, operators })
    }
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

/// Repeats a call until it is answered, or nobody waits for the answer any more.
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
