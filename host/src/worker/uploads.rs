//! The state of tasks on its way into objects while the tasks write it. The chunks of a snapshot go into parts of up to 32 MiB, each an
//! object: a store that takes pieces gets each chunk at once, another one the part as a whole when it is full. Few bytes are in memory
//! so, however large the state is.
//!
//! While two parts of an operator are being stored, or the store takes a piece, no more chunks of it are taken, so that its task waits for
//! a slow store instead of filling the memory. Parts of a snapshot that does not become complete are deleted: the upload failed, its
//! checkpoint was aborted, or its task ended. This module must never delete a part whose handle it has given out.

use bytes::Bytes;
use futures::{StreamExt as _, stream::FuturesUnordered};
use model::{ExecutionAttemptId, JobId, OperatorId, StateHandle, StatePart};
use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
};
use storage::checkpoints::{CheckpointDirectory, CheckpointError, PartWriter, Ranges};
use streaming::StateChunk;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

/// The size, in bytes, from which a part is full in a store that takes pieces: its bytes are not in memory, and each part costs the
/// creation, the sync and the deletion of a file.
const STREAMED_PART_BYTES: u64 = 16 << 20;
/// The shortest and the longest part, in bytes, in a store that takes only whole objects.
const PART_BYTES: RangeInclusive<u64> = 4 << 20..=32 << 20;
/// The divisor of the state's stored bytes that gives the longest part in a store that takes only whole objects: parts grow with the
/// state, and each stays small beside it.
const PART_OF_STATE: u64 = 16;
/// About the most bytes that the index of a part takes: 20 for each of 128 chunks, and more if chunks are small.
const INDEX_BYTES: usize = 8 << 10;
/// The number of parts of a snapshot that are stored at once.
const AT_ONCE: usize = 2;
/// The most runs of key groups that a part's handle lists; a part with more may have any.
const RUNS_MAX: usize = 64;

/// The snapshots that the tasks of one job in this host are writing to the checkpoint directory: one [`Upload`] per execution attempt,
/// checkpoint and operator. An entry is added by the first chunk, and removed when the snapshot is taken, its attempt gives the checkpoint
/// up, or the attempt ends; in the last two cases its parts are deleted. Clones share the table.
#[derive(Clone, Default)]
pub struct Uploads(Arc<Mutex<BTreeMap<Key, Upload>>>);

/// The key of an upload: execution attempt, checkpoint number, operator.
type Key = (ExecutionAttemptId, u64, OperatorId);
/// The handle of a stored state, or the reason, as text, why the state is not stored.
type Stored = Result<StateHandle, String>;

enum Step {
    Chunk(StateChunk),
    End(oneshot::Sender<Stored>),
}

/// The place where an upload stores state, and the size up to which state needs no object. Asked for once per snapshot, at its first chunk.
pub struct Target {
    /// The checkpoint directory in which the parts are stored.
    pub directory: CheckpointDirectory,
    /// The job that the state belongs to.
    pub job_id: JobId,
    /// Maximum size, in bytes, of a snapshot that becomes an inline handle instead of objects
    /// (`execution.checkpointing.data-inline-threshold`, at most 5 MiB); 0: every state that is not empty is stored in objects.
    pub inline_max: u64,
}

/// A handle to the running upload of one operator's snapshot: an async task that stores the chunks as parts. Each part but the last ones is
/// ended by the chunk with which it reaches 16 MiB in a store of files; in one that takes only whole objects, a sixteenth of the state so
/// far, at least 4 MiB and at most 32 MiB. If the handle is dropped before [`Upload::end`], the upload ends and deletes the parts that it
/// has stored.
pub struct Upload {
    steps: mpsc::UnboundedSender<Step>,
    /// Cancelled when the checkpoint is aborted.
    aborted: CancellationToken,
}

impl Uploads {
    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Upload>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a chunk of the snapshot `(attempt, checkpoint, operator)` and returns at once. The first chunk of a snapshot calls `target`
    /// and starts its upload as a task of `runtime`.
    ///
    /// The queue has no bound: the task that makes the snapshot must wait by itself while too many of its chunks are not dropped yet (a
    /// chunk is dropped when its bytes are stored or copied). A chunk of an upload that has failed or was aborted is dropped unstored;
    /// [`Upload::end`] returns the reason.
    pub fn add(
        &self,
        (attempt, checkpoint, operator): Key,
        chunk: StateChunk,
        runtime: &Handle,
        target: impl FnOnce() -> Target,
    ) {
        let mut open = self.open();
        let upload = open.entry((attempt, checkpoint, operator)).or_insert_with(|| {
            let (steps, receiver) = mpsc::unbounded_channel();
            let aborted = CancellationToken::new();
            let uploading = Uploading::new(target(), (attempt, checkpoint, operator));
            runtime.spawn(uploading.run(receiver, aborted.clone()));
            Upload { steps, aborted }
        });
        // The upload takes steps until this sender is dropped.
        let _ = upload.steps.send(Step::Chunk(chunk));
    }

    /// Removes the upload of a snapshot whose last chunk has been added, and returns it for [`Upload::end`]; `None` if no chunk has been
    /// added, or the upload was removed already. The upload runs on meanwhile. A chunk that is added later begins a new upload.
    pub fn take(&self, key: Key) -> Option<Upload> {
        self.open().remove(&key)
    }

    /// Drops the chunks that these attempts still write for a checkpoint that is not taken any
    /// more, so that none of them waits for the store.
    pub(crate) fn aborted(&self, attempts: &[ExecutionAttemptId], of: u64) {
        for ((attempt, checkpoint, _), upload) in self.open().iter() {
            if *checkpoint == of && attempts.contains(attempt) {
                upload.aborted.cancel();
            }
        }
    }

    /// An attempt writes no more for a checkpoint and will not acknowledge it: its uploads end, and what they have stored is deleted.
    pub(crate) fn give_up(&self, of: ExecutionAttemptId, aborted: u64) {
        self.open().retain(|(attempt, checkpoint, _), _| (*attempt, *checkpoint) != (of, aborted));
    }

    /// Ends the uploads of an attempt that has ended; nothing refers to what they have stored.
    pub(crate) fn ended(&self, of: ExecutionAttemptId) {
        self.open().retain(|(attempt, ..), _| *attempt != of);
    }
}

impl Upload {
    /// Adds `rest`, the last chunks, which came with the task's acknowledgement, and waits until the whole snapshot is stored. Returns an
    /// inline handle, which holds the bytes themselves, if the snapshot has at most [`Target::inline_max`] bytes, else the handles of its
    /// parts.
    ///
    /// # Errors
    /// Returns a text that says why the snapshot is not stored: the store failed (perhaps long before this call), the checkpoint was
    /// aborted, or the runtime has ended. Nothing is tried again.
    /// The parts that were stored are deleted in the background, also if the caller drops the future; only if the runtime has ended, they
    /// stay.
    pub async fn end(self, rest: Vec<Bytes>) -> Stored {
        for bytes in rest {
            let _ =
                self.steps.send(Step::Chunk(StateChunk { groups: None, is_early: true, bytes }));
        }
        let (reply, stored) = oneshot::channel();
        let _ = self.steps.send(Step::End(reply));
        stored.await.unwrap_or_else(|_| Err("the upload of the state has ended".to_owned()))
    }
}

/// A part that is being filled.
struct Part {
    /// The key groups of its entries; `None`: any.
    groups: Option<Vec<u32>>,
    /// The ranges of its chunks.
    ranges: Ranges,
    /// A copy of its chunks, while the snapshot may still be small enough for an inline handle.
    held: Vec<u8>,
    /// The bytes of all its chunks.
    bytes: u64,
    /// Its object; `None` before the first chunk that is not held.
    writer: Option<PartWriter>,
}

impl Default for Part {
    fn default() -> Self {
        let (ranges, held) = (Ranges::default(), Vec::new());
        Self { groups: Some(Vec::new()), ranges, held, bytes: 0, writer: None }
    }
}

/// The upload of one snapshot.
struct Uploading {
    target: Target,
    key: Key,
    /// The part with entries in the order of their key groups, and the one with all others.
    ordered: Part,
    other: Part,
    /// The bytes of all chunks so far.
    bytes: u64,
    /// The number of the next part.
    next: u32,
    parts: Vec<StatePart>,
}

/// The reason that is given for the snapshot of an aborted checkpoint.
const ABORTED: &str = "the checkpoint was aborted";

/// The future of a part that is being stored.
type Storing = futures::future::BoxFuture<'static, Result<StatePart, CheckpointError>>;

impl Uploading {
    fn new(target: Target, key: Key) -> Self {
        let (ordered, other) = (Part::default(), Part::default());
        Self { target, key, ordered, other, bytes: 0, next: 0, parts: Vec::new() }
    }

    /// Stores chunks until the last one, or until nobody waits for the snapshot any more.
    async fn run(mut self, mut steps: mpsc::UnboundedReceiver<Step>, aborted: CancellationToken) {
        let mut storing = FuturesUnordered::new();
        let mut failed = None;
        let reply = loop {
            let step = tokio::select! {
                biased;
                Some(stored) = storing.next(), if !storing.is_empty() => {
                    self.stored(stored, &mut failed);
                    continue;
                }
                () = aborted.cancelled(), if failed.is_none() => {
                    failed = Some(ABORTED.to_owned());
                    continue;
                }
                // Chunks of a snapshot that has failed are dropped, so that its task does not wait.
                step = steps.recv(), if failed.is_some() || storing.len() < AT_ONCE => step,
            };
            match step {
                Some(Step::Chunk(chunk)) if failed.is_none() => {
                    let added = tokio::select! {
                        biased;
                        added = self.add(chunk) => added.map_err(|error| error.to_string()),
                        () = aborted.cancelled() => Err(ABORTED.to_owned()),
                    };
                    match added {
                        Ok(full) => storing.extend(full),
                        Err(why) => failed = Some(why),
                    }
                }
                Some(Step::Chunk(_)) => {}
                Some(Step::End(reply)) => break Some(reply),
                None => break None,
            }
        };
        let Some(reply) = reply else { return self.give_up(storing).await };
        if failed.is_none() && self.next == 0 && self.bytes <= self.target.inline_max {
            let all =
                [std::mem::take(&mut self.ordered.held), std::mem::take(&mut self.other.held)];
            let _ = reply.send(Ok(StateHandle::Inline(all.concat())));
            return;
        }
        for is_ordered in [true, false] {
            if failed.is_none() {
                match self.store(is_ordered).await {
                    Ok(stored) => storing.extend(stored),
                    Err(error) => failed = Some(error.to_string()),
                }
            }
        }
        while failed.is_none()
            && let Some(stored) = storing.next().await
        {
            self.stored(stored, &mut failed);
        }
        if let Some(why) = failed {
            let _ = reply.send(Err(why));
            return self.give_up(storing).await;
        }
        let parts = std::mem::take(&mut self.parts);
        if reply.send(Ok(StateHandle::Parts(parts))).is_err() {
            self.give_up(storing).await;
        }
    }

    /// Deletes what was stored, once nothing is being stored any more.
    async fn give_up(self, mut storing: FuturesUnordered<Storing>) {
        while storing.next().await.is_some() {}
        if self.next > 0 {
            let (attempt, checkpoint, operator) = self.key;
            let parts = (operator, self.next);
            self.target
                .directory
                .delete_parts(self.target.job_id, checkpoint, attempt, parts)
                .await;
        }
    }

    fn stored(&mut self, stored: Result<StatePart, CheckpointError>, failed: &mut Option<String>) {
        match stored {
            Ok(part) => self.parts.push(part),
            Err(error) => *failed = Some(error.to_string()),
        }
    }

    /// Adds a chunk to its part. Returns the storing of the part if that is full.
    async fn add(&mut self, chunk: StateChunk) -> Result<Option<Storing>, CheckpointError> {
        let is_ordered = chunk.groups.is_some() && !chunk.is_early;
        let length = chunk.bytes.len() as u64;
        self.bytes += length;
        let part = self.part(is_ordered);
        part.bytes += length;
        // Chunks list their groups in ascending order; one without entries has the names of fields, which anybody may check.
        let groups = chunk.groups.as_deref().unwrap_or_default();
        let ends = groups.first().zip(groups.last());
        let ends = ends.map_or((0, u32::MAX), |(first, last)| (*first, *last));
        part.ranges.add(ends, &chunk.bytes);
        match (&mut part.groups, chunk.groups) {
            (Some(groups), Some(more)) => groups.extend(more),
            (groups, None) => *groups = None,
            (None, _) => {}
        }
        if self.bytes <= self.target.inline_max {
            self.part(is_ordered).held.extend_from_slice(&chunk.bytes);
            return Ok(None);
        }
        self.write(is_ordered, chunk.bytes).await?;
        let bytes = self.bytes;
        let part = self.part(is_ordered);
        let most = match &part.writer {
            Some(writer) if writer.is_streamed() => STREAMED_PART_BYTES,
            _ => (bytes / PART_OF_STATE).clamp(*PART_BYTES.start(), *PART_BYTES.end()),
        };
        if part.bytes >= most { self.store(is_ordered).await } else { Ok(None) }
    }

    fn part(&mut self, is_ordered: bool) -> &mut Part {
        if is_ordered { &mut self.ordered } else { &mut self.other }
    }

    /// Writes what a part holds, and then these bytes, into its object.
    async fn write(&mut self, is_ordered: bool, bytes: Bytes) -> Result<(), CheckpointError> {
        let part = if is_ordered { &mut self.ordered } else { &mut self.other };
        for bytes in [std::mem::take(&mut part.held).into(), bytes] {
            if bytes.is_empty() {
                continue;
            }
            let writer = match &mut part.writer {
                Some(writer) => writer,
                none => {
                    let (attempt, checkpoint, operator) = self.key;
                    let place = (operator, self.next);
                    self.next += 1;
                    // Its length once the state has as many bytes again, a chunk more that may fill it beyond its limit, and its index.
                    let most = (self.bytes / PART_OF_STATE).min(*PART_BYTES.end());
                    let expected = usize::try_from(most).unwrap_or(0) + bytes.len() + INDEX_BYTES;
                    let job = self.target.job_id;
                    let directory = &self.target.directory;
                    none.insert(directory.begin_part(job, checkpoint, attempt, place, expected))
                }
            };
            writer.write(bytes).await?;
        }
        Ok(())
    }

    /// Returns the storing of a part, unless that is empty.
    async fn store(&mut self, is_ordered: bool) -> Result<Option<Storing>, CheckpointError> {
        self.write(is_ordered, Bytes::new()).await?;
        let part = std::mem::take(self.part(is_ordered));
        let Part { groups, mut ranges, writer: Some(writer), .. } = part else { return Ok(None) };
        let groups = groups.map_or_else(Vec::new, runs_of);
        let (index, bytes) = ranges.index().unzip();
        Ok(Some(Box::pin(async move {
            let state = writer.finish(bytes.unwrap_or_default()).await?;
            Ok(StatePart { groups, state, ranges: ranges.take(), index })
        })))
    }
}

/// Returns numbers as runs, each with its first and its last number; nothing if there are too many runs.
fn runs_of(mut numbers: Vec<u32>) -> Vec<(u32, u32)> {
    numbers.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    if runs.len() > RUNS_MAX { Vec::new() } else { runs }
}

#[cfg(test)]
mod tests;
