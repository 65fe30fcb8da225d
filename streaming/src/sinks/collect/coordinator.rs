//! The coordinator of a collecting sink: keeps the lines of all subtasks until a client reads them. It must never show a line that
//! a failure may make the job emit again.

use super::{
    Answer, Chunk, CollectChunk, CollectRequest, Encoded, INTERVAL, Origin, RETRY, VERSION,
};
use crate::{
    seam::{Coordinator, CoordinatorContext, CoordinatorFactory, EventReply},
    sinks::spool::{Kept, Spool},
    types::{CodecError, Reader, decode_one, encode_one},
};
use model::{ExecutionAttemptId, parse_duration};
use std::{collections::BTreeMap, time::Duration};

/// The options that say how long a checkpoint may take, 10 min if it is not set, and how many may fail in a row, none if it is not set.
const TIMEOUT: &str = "execution.checkpointing.timeout";
const TOLERABLE: &str = "execution.checkpointing.tolerable-failed-checkpoints";

/// The most bytes of results that a checkpoint keeps.
const SNAPSHOT_BYTES_MAX: u64 = 16 << 20;
/// The most bytes of results that wait for the checkpoint which shows them.
const HIDDEN_BYTES_MAX: usize = 64 << 20;
/// Maximum number of bytes of results in memory. Further results go to a file; but if an unbounded job has so many that a client may
/// see, they wait.
const MEMORY_BYTES: usize = 8 << 20;

/// A chunk that the coordinator has taken.
#[derive(Debug)]
struct Held {
    origin: Origin,
    sequence: u64,
    after: u64,
    lines: u64,
    kept: Kept,
}

/// The coordinator's snapshot: the number of the first line, the newest chunk of each origin, and the chunks.
type Snapshot = (u8, u64, Vec<(Origin, u64)>, Vec<Encoded>);

/// The coordinator of a collecting sink: stores the chunks of all subtasks, 8 MiB in memory, those of an unbounded job until a client asks
/// for later lines. Further chunks, of any job, go to files in the folder for temporary files; a file is deleted with its last chunk. If
/// an unbounded job has 8 MiB that a client may see, chunks are refused until a client has read some, and the sink sends them again after
/// 50 ms. If no client asks for anything for three quarters of the time that a checkpoint may take, and a checkpoint's barrier waits
/// behind the refused chunks, the sink's task fails and says so, unless the job tolerates checkpoints that fail. Chunks that no client may
/// see yet are taken, because the checkpoint for which they wait comes behind them: more than 64 MiB of them fail the sink's task, and so
/// do more than 16 MiB of a bounded job with periodic checkpoints, whose final checkpoint contains all of them. The coordinator's snapshot
/// fails, and aborts the checkpoint, if the stored lines have more than 16 MiB.
///
/// A client reads with [`CollectRequest`]s, which are answered at once, with no lines if there are none. A bounded job shows its lines
/// after it has finished, ordered by subtask.
///
/// With periodic checkpoints a client sees the chunks of an unbounded job in the order in which they came, each once a checkpoint is
/// complete whose barrier came after its lines: what a failure makes the job emit again was not seen before.
#[derive(Debug)]
pub struct CollectCoordinator {
    bounded: bool,
    /// True if the job has periodic checkpoints.
    periodic: bool,
    spool: Spool,
    chunks: Vec<Held>,
    /// The number of the newest chunk of each origin that was taken.
    newest: BTreeMap<Origin, u64>,
    /// Number of the first line of the first stored chunk.
    first: u64,
    /// The newest checkpoint for which a snapshot was taken, and the newest one that is complete.
    snapshot: u64,
    complete: u64,
    ended: bool,
    /// True from a snapshot until its checkpoint has ended.
    is_checkpointing: bool,
    /// True if a client has asked for results since the newest snapshot was taken, or the coordinator started.
    is_read: bool,
    /// The sink that was refused first since then, and how often.
    refused: Option<(Origin, u64)>,
    /// The number of refusals without a request from which on a checkpoint in progress will not be complete in time; `None` if the job
    /// goes on after that.
    patience: Option<u64>,
}

impl CollectCoordinator {
    /// Creates the coordinator without chunks. `bounded` is true if the job ends by itself: its lines are then shown after the end
    /// only. Touches no file.
    pub fn new(context: &CoordinatorContext, bounded: bool) -> Self {
        let name = format!("collect-{}-{}", context.job_id, context.operator);
        let periodic = context.options.contains_key(INTERVAL);
        let tolerates = context.options.get(TOLERABLE).is_some_and(|number| number != "0");
        Self {
            bounded,
            periodic,
            spool: Spool::new(context.tmp_dir.join(name), MEMORY_BYTES),
            chunks: Vec::new(),
            newest: BTreeMap::new(),
            first: 0,
            snapshot: 0,
            complete: 0,
            ended: false,
            is_checkpointing: false,
            is_read: true,
            refused: None,
            patience: (periodic && !tolerates).then(|| {
                let timeout = context.options.get(TIMEOUT).and_then(|text| parse_duration(text));
                patience(timeout.unwrap_or(Duration::from_secs(600)))
            }),
        }
    }

    fn take(&mut self, chunk: Chunk) -> Result<Answer, String> {
        if self.newest.get(&chunk.origin).is_some_and(|newest| *newest >= chunk.sequence) {
            // The chunk was taken before, and the answer got lost.
            return Ok(Some(self.snapshot));
        }
        let bytes = (self.spool.bytes() + chunk.lines.len()) as u64;
        if self.bounded && self.periodic && bytes > SNAPSHOT_BYTES_MAX {
            // The final checkpoint contains all results, and without it the job would not end.
            return Err(too_much(bytes));
        }
        // All chunks are looked at only if there is so much of them that one of the bounds may be reached.
        if !self.bounded && bytes > MEMORY_BYTES as u64 {
            let (seen, hidden) = self.chunks.split_at_checked(self.visible()).unwrap_or_default();
            let bytes = |held: &[Held]| held.iter().map(|held| held.kept.len()).sum::<usize>();
            let unread = bytes(seen);
            if unread > 0 && unread + chunk.lines.len() > MEMORY_BYTES {
                return self.refuse(chunk.origin, unread);
            }
            if bytes(hidden) > HIDDEN_BYTES_MAX {
                return Err(format!(
                    "more than {HIDDEN_BYTES_MAX} bytes were collected and no checkpoint is complete that contains them: write large results to files"
                ));
            }
        }
        self.keep(chunk)?;
        Ok(Some(self.snapshot))
    }

    /// Refuses a chunk, because a client has yet to read what it may see. A barrier waits behind it: if no client has asked for anything
    /// for most of the time that a checkpoint may take, the sink's task fails with that, because a checkpoint that is late would not say
    /// it.
    fn refuse(&mut self, origin: Origin, unread: usize) -> Result<Answer, String> {
        let (first, times) = self.refused.get_or_insert((origin, 0));
        *times += u64::from(*first == origin);
        let is_late = self.patience.is_some_and(|patience| *times >= patience);
        match is_late && self.is_checkpointing && !self.is_read {
            true => Err(nobody_reads(unread, "and the barrier of a checkpoint waits behind them")),
            false => Ok(None),
        }
    }

    fn keep(&mut self, chunk: Chunk) -> Result<(), String> {
        let Chunk { origin, sequence, after, count: lines, lines: bytes } = chunk;
        let kept = self.spool.keep(bytes)?;
        self.refused = None;
        self.newest.insert(origin, sequence);
        self.chunks.push(Held { origin, sequence, after, lines, kept });
        Ok(())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), String> {
        let wrong = |error: CodecError| format!("cannot decode the results to restore: {error}");
        let (version, first, newest, chunks): Snapshot = decode_one(snapshot).map_err(wrong)?;
        if version != VERSION {
            return Err("the results to restore have an unknown version".into());
        }
        self.first = first;
        // All of these lines were emitted before the barrier of a complete checkpoint.
        for chunk in chunks {
            self.keep(Chunk { after: 0, ..Chunk::of(chunk) })?;
        }
        self.newest = newest.into_iter().collect();
        self.complete = self.complete.max(1);
        Ok(())
    }

    fn write_snapshot(&mut self) -> Result<Vec<u8>, String> {
        let bytes = self.spool.bytes() as u64;
        if bytes > SNAPSHOT_BYTES_MAX {
            let seen = self.chunks.iter().take(self.visible());
            let unread = seen.map(|held| held.kept.len()).sum();
            return Err(match !self.bounded && !self.is_read && unread > 0 {
                true => nobody_reads(unread, "and a checkpoint keeps at most 16 MiB of results"),
                false => too_much(bytes),
            });
        }
        let mut chunks: Vec<Encoded> = Vec::with_capacity(self.chunks.len());
        for Held { origin, sequence, after, lines, kept } in &self.chunks {
            let bytes =
                self.spool.read(kept).map_err(|error| format!("results can't be read: {error}"))?;
            chunks.push((*origin, *sequence, *after, *lines, bytes));
        }
        let newest = self.newest.iter().map(|(origin, newest)| (*origin, *newest)).collect();
        let snapshot: Snapshot = (VERSION, self.first, newest, chunks);
        Ok(encode_one(&snapshot))
    }

    /// Returns the number of chunks that a client may see, from the first one on.
    fn visible(&self) -> usize {
        let hidden = |held: &Held| self.periodic && !self.ended && held.after >= self.complete;
        self.chunks.iter().position(hidden).unwrap_or(self.chunks.len())
    }

    /// Returns lines from the requested one on, all of the chunk that contains it.
    fn read(&mut self, request: CollectRequest) -> Result<CollectChunk, String> {
        let mut begins = self.first;
        let wanted = request.offset.max(self.first);
        let visible = self.visible();
        for (index, held) in self.chunks.iter().take(visible).enumerate() {
            if wanted >= begins + held.lines {
                begins += held.lines;
                continue;
            }
            let bytes = self
                .spool
                .read(&held.kept)
                .map_err(|error| format!("results can't be read: {error}"))?;
            let (lines, all) = cut(&bytes, wanted - begins, request.max_bytes)
                .map_err(|error| format!("results can't be read: {error}"))?;
            let last = all && index + 1 == self.chunks.len();
            return Ok(CollectChunk { offset: wanted, lines, end: last && self.ended });
        }
        Ok(CollectChunk { offset: wanted, lines: Vec::new(), end: self.ended })
    }

    /// Drops the chunks whose lines are all before line `before`; for unbounded jobs.
    fn forget(&mut self, before: u64) {
        let mut gone = 0;
        while let Some(held) = self.chunks.get(gone)
            && self.first + held.lines <= before
        {
            self.first += held.lines;
            gone += 1;
        }
        for held in self.chunks.drain(..gone) {
            self.spool.release(held.kept);
        }
    }
}

/// Returns the error for more collected results than a checkpoint keeps.
fn too_much(bytes: u64) -> String {
    format!(
        "{bytes} bytes are collected, and a checkpoint keeps at most {SNAPSHOT_BYTES_MAX} (16 MiB) of them: write large results to files"
    )
}

/// Returns the error for an unbounded job whose client is gone, or does not ask any more.
fn nobody_reads(unread: usize, what_follows: &str) -> String {
    format!(
        "nobody reads the collected results: {unread} bytes wait for a client, {what_follows}; keep the client attached that reads \
         them, or write the results to files"
    )
}

/// Returns the number of refusals that take three quarters of this time, as each is followed by a pause.
fn patience(timeout: Duration) -> u64 {
    let pauses = timeout.as_millis() / RETRY.as_millis().max(1) * 3 / 4;
    u64::try_from(pauses).unwrap_or(u64::MAX).max(1)
}

/// Returns the lines of a chunk after the first `skip` ones, and whether they reach its end.
fn cut(bytes: &[u8], skip: u64, max_bytes: u64) -> Result<(Vec<Vec<u8>>, bool), CodecError> {
    let mut input = Reader::new(bytes);
    let (mut lines, mut taken) = (Vec::new(), 0_u64);
    let mut number = 0;
    while input.remaining() > 0 {
        if !lines.is_empty() && taken >= max_bytes {
            return Ok((lines, false));
        }
        let len = input.count()?;
        let line = input.take(len)?;
        if number >= skip {
            taken += line.len() as u64;
            lines.push(line.to_vec());
        }
        number += 1;
    }
    Ok((lines, true))
}

impl Coordinator for CollectCoordinator {
    fn start(&mut self, restore: Option<Vec<u8>>) -> Result<(), String> {
        restore.map_or(Ok(()), |snapshot| self.restore(&snapshot))
    }

    fn handle_event(&mut self, _from: ExecutionAttemptId, event: &[u8]) -> Result<Vec<u8>, String> {
        let (version, chunk): (u8, Encoded) =
            decode_one(event).map_err(|error| format!("cannot decode results: {error}"))?;
        if version != VERSION {
            return Err("the results of a sink have an unknown version".into());
        }
        self.take(Chunk::of(chunk)).map(|answer| encode_one(&answer))
    }

    fn snapshot(&mut self, checkpoint: u64, reply: EventReply) {
        self.snapshot = checkpoint;
        let snapshot = self.write_snapshot();
        self.is_checkpointing = true;
        self.is_read = false;
        self.refused = None;
        reply.send(snapshot);
    }

    fn checkpoint_ended(&mut self, checkpoint: u64, complete: bool) -> Result<(), String> {
        self.is_checkpointing &= self.snapshot > checkpoint;
        if complete {
            self.complete = self.complete.max(checkpoint);
        }
        Ok(())
    }

    fn handle_request(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        let request = CollectRequest::decode(request)
            .map_err(|error| format!("cannot decode a request for results: {error}"))?;
        self.is_read = true;
        self.refused = None;
        if !self.bounded {
            self.forget(request.offset);
        } else if !self.ended {
            return Ok(
                CollectChunk { offset: request.offset, lines: Vec::new(), end: false }.encode()
            );
        }
        self.read(request).map(|chunk| chunk.encode())
    }

    fn job_ended(&mut self, finished: bool) -> Result<(), String> {
        if finished && !self.ended && self.bounded {
            self.chunks.sort_by_key(|held| {
                let (_, _, subtask, attempt) = held.origin;
                (subtask, attempt, held.sequence)
            });
        }
        self.ended |= finished;
        Ok(())
    }
}

/// Creates the coordinator of a collecting sink.
pub(in crate::sinks) struct CollectFactory {
    pub(in crate::sinks) bounded: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl CoordinatorFactory for CollectFactory {
    fn coordinator(&mut self, context: CoordinatorContext) -> Box<dyn Coordinator> {
        let bounded = self.bounded.load(std::sync::atomic::Ordering::Relaxed);
        Box::new(CollectCoordinator::new(&context, bounded))
    }
}
