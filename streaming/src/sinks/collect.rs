//! The sink that collects results for a client: subtasks send lines to a coordinator, and the client reads them there by
//! offset.
//!
//! The client of a bounded job gets nothing before the job has finished, because no output of a failed attempt may be visible;
//! then it reads the whole result, as often as it likes. The client of an unbounded job gets the lines that have arrived, and
//! lines that it has read are dropped. While no client reads, an unbounded job is held up once 8 MiB wait.

use super::spool::{Kept, Spool};
use crate::{
    batch::Batch,
    operators::{Collector, Flow, Operator, OperatorContext, OperatorMail},
    seam::{
        Coordinator, CoordinatorContext, CoordinatorFactory, EventReply, StreamEvent, TaskError,
    },
    types::{CodecError, FlottType, Reader, ToLine, decode_one, encode_one, write_len},
};
use model::ExecutionAttemptId;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

const VERSION: u8 = 1;
/// The option that says whether the job has periodic checkpoints.
const INTERVAL: &str = "execution.checkpointing.interval";
/// The most bytes of results that a checkpoint keeps.
const SNAPSHOT_BYTES_MAX: u64 = 16 << 20;
/// Bytes from which on a sink takes no more records while its last chunk is unanswered.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum number of bytes of results in memory. Further results of a bounded job go to a file, those of an unbounded job wait.
const MEMORY_BYTES: usize = 8 << 20;
/// Time after which a sink whose chunk was refused sends it again.
const RETRY: Duration = Duration::from_millis(50);

/// A client's request for lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectRequest {
    /// Number of the first line to return, from 0. In an unbounded job the lines before it are dropped.
    pub offset: u64,
    /// Bytes of lines after which no further line is returned. The first line is returned whatever its size.
    pub max_bytes: u64,
}

impl CollectRequest {
    /// Encodes the request.
    pub fn encode(&self) -> Vec<u8> {
        encode_one(&(VERSION, self.offset, self.max_bytes))
    }
    /// Decodes a request that [`CollectRequest::encode`] wrote.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a request, or one of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match decode_one(bytes)? {
            (VERSION, offset, max_bytes) => Ok(Self { offset, max_bytes }),
            _ => Err(CodecError::Invalid { what: "version of a request" }),
        }
    }
}

/// The answer to a [`CollectRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectChunk {
    /// Number of the first line returned. Greater than the requested one if earlier lines were dropped.
    pub offset: u64,
    /// The lines without their line ends. Empty if no line is available yet, or, with `end`, if there are no more.
    pub lines: Vec<Vec<u8>>,
    /// Whether the result ends after these lines.
    pub end: bool,
}

impl CollectChunk {
    /// Encodes the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.offset.encode(&mut out);
        self.end.encode(&mut out);
        self.lines.encode(&mut out);
        out
    }
    /// Decodes an answer that [`CollectChunk::encode`] wrote.
    ///
    /// # Errors
    /// Returns an error if the bytes are not an answer, or one of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (version, offset, end, lines) = decode_one(bytes)?;
        match version {
            VERSION => Ok(Self { offset, lines, end }),
            _ => Err(CodecError::Invalid { what: "version of a chunk" }),
        }
    }
}

/// The attempt that made a chunk: execution graph, the halves of the vertex id, subtask, attempt. A chunk keeps it when it is
/// restored in another attempt, so that the coordinator recognises a chunk that it has taken.
type Origin = (u64, (u64, u64), u32, u32);

fn origin_of(attempt: ExecutionAttemptId) -> Origin {
    let vertex = attempt.vertex.0;
    // Both halves fit into 64 bits.
    let halves = ((vertex >> 64) as u64, vertex as u64);
    (attempt.graph, halves, attempt.subtask, attempt.attempt)
}

/// A chunk of lines: its origin, its number among those of its origin, the newest checkpoint whose barrier had passed before its
/// lines (0 if none had), the number of lines, and the lines, each after its length.
type Encoded = (Origin, u64, u64, u64, Vec<u8>);

/// A chunk of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chunk {
    origin: Origin,
    sequence: u64,
    after: u64,
    count: u64,
    lines: Vec<u8>,
}

impl Chunk {
    fn encoded(&self) -> Encoded {
        (self.origin, self.sequence, self.after, self.count, self.lines.clone())
    }
    fn of((origin, sequence, after, count, lines): Encoded) -> Self {
        Self { origin, sequence, after, count, lines }
    }
}

/// The coordinator's answers to a chunk: it is taken, and the coordinator's newest snapshot was taken for this checkpoint (0:
/// none was); or it is to be sent again later.
type Answer = Option<u64>;

/// A sink's tickets: of a chunk that was sent, and of the timer to send it again.
const SENT: u32 = 0;
const AGAIN: u32 = 1;

/// The sink's part in a task: sends records as lines to the coordinator, one chunk at a time.
///
/// In a job with periodic checkpoints the sink keeps a chunk in its state until the chunk is certainly in a snapshot of the
/// coordinator. Suppose a chunk is taken after the coordinator's snapshot for checkpoint 4 and before the sink's barrier. A job
/// that is restored from checkpoint 4 does not read the chunk's records again, and the coordinator does not know the chunk: the
/// restored sink sends it again.
#[derive(Debug, Default)]
pub struct CollectSink {
    /// The encoded lines of the next chunk, and their number.
    lines: Vec<u8>,
    count: u64,
    line: Vec<u8>,
    /// Chunks to be sent; the first one is on its way if `sending`.
    unsent: VecDeque<Chunk>,
    sending: bool,
    /// Chunks that were taken, each with the coordinator's newest snapshot at that time.
    taken: VecDeque<(u64, Chunk)>,
    /// True if the job has periodic checkpoints.
    keeps: bool,
    sequence: u64,
    after: u64,
}

impl CollectSink {
    /// Makes a chunk of the lines that wait, and sends the first unsent chunk unless one is on its way.
    fn send(&mut self, context: &OperatorContext) {
        if self.unsent.is_empty() && self.count > 0 {
            self.unsent.push_back(Chunk {
                origin: origin_of(context.attempt()),
                sequence: self.sequence,
                after: self.after,
                count: std::mem::take(&mut self.count),
                lines: std::mem::take(&mut self.lines),
            });
            self.sequence += 1;
        }
        if let Some(chunk) = self.unsent.front()
            && !std::mem::replace(&mut self.sending, true)
        {
            context.ask_coordinator(encode_one(&(VERSION, chunk.encoded())), SENT);
        }
    }
}

impl<T: ToLine> Operator<T> for CollectSink {
    type Out = ();

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.keeps = context.option(INTERVAL).is_some();
        let former = context.restore();
        let (subtask, parallelism) = (context.subtask() as usize, context.parallelism() as usize);
        for (index, snapshot) in former.iter().enumerate() {
            // Whoever sends a chunk again, the coordinator takes it once.
            if index % parallelism.max(1) == subtask {
                let (after, chunks): (u64, Vec<Encoded>) =
                    decode_one(snapshot).map_err(|error| context.codec_error(error))?;
                self.after = self.after.max(after);
                self.unsent.extend(chunks.into_iter().map(Chunk::of));
            }
        }
        self.send(context);
        Ok(())
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        for record in batch.records() {
            self.line.clear();
            record.write_line(&mut self.line);
            write_len(self.line.len(), &mut self.lines);
            self.lines.extend_from_slice(&self.line);
            self.count += 1;
        }
        batch.clear();
        self.send(context);
        Ok(())
    }

    fn full(&self) -> bool {
        !self.unsent.is_empty() && self.lines.len() >= CHUNK_BYTES
    }

    fn event(
        &mut self,
        event: StreamEvent,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if !matches!(event, StreamEvent::EndOfInput | StreamEvent::Barrier(_)) {
            return Ok(Flow::Done);
        }
        // The end of input waits until every line was taken, so that a FINISHED task has nothing left to lose. A barrier waits so
        // that a chunk has lines from one side of it only.
        self.send(context);
        Ok(if self.unsent.is_empty() { Flow::Done } else { Flow::Waiting })
    }

    fn snapshot(
        &mut self,
        checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        self.after = checkpoint;
        let kept: Vec<Encoded> = self.taken.iter().map(|(_, chunk)| chunk.encoded()).collect();
        Ok(Some(encode_one(&(checkpoint, kept))))
    }

    fn notify_complete(
        &mut self,
        checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        // What was taken before the coordinator's snapshot for this checkpoint is in it.
        self.taken.retain(|(snapshot, _)| *snapshot >= checkpoint);
        Ok(())
    }

    fn is_committing(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        if let OperatorMail::Reply { result, .. } = mail {
            let answer = result.map_err(|why| context.coordinator_error(why))?;
            let answer: Answer = decode_one(&answer).map_err(|error| context.codec_error(error))?;
            let Some(snapshot) = answer else {
                context.wake_after(RETRY, AGAIN);
                return Ok(());
            };
            if let Some(chunk) = self.unsent.pop_front().filter(|_| self.keeps) {
                self.taken.push_back((snapshot, chunk));
            }
        }
        self.sending = false;
        self.send(context);
        Ok(())
    }
}

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

/// The coordinator of a collecting sink: stores the chunks of all subtasks until a client reads them.
///
/// With periodic checkpoints a client sees a chunk of an unbounded job once a checkpoint is complete whose barrier came after
/// the chunk's lines: what a failure makes the job emit again was not seen before.
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
}

impl CollectCoordinator {
    /// Creates the coordinator; `bounded` tells whether the job ends by itself.
    pub fn new(context: &CoordinatorContext, bounded: bool) -> Self {
        let name = format!("collect-{}-{}", context.job_id, context.operator);
        Self {
            bounded,
            periodic: context.options.contains_key(INTERVAL),
            spool: Spool::new(context.tmp_dir.join(name), MEMORY_BYTES),
            chunks: Vec::new(),
            newest: BTreeMap::new(),
            first: 0,
            snapshot: 0,
            complete: 0,
            ended: false,
        }
    }

    fn take(&mut self, chunk: Chunk) -> Result<Answer, String> {
        if self.newest.get(&chunk.origin).is_some_and(|newest| *newest >= chunk.sequence) {
            // The chunk was taken before, and the answer got lost.
            return Ok(Some(self.snapshot));
        }
        let held_up = !self.bounded && self.spool.in_memory() > 0;
        if held_up && self.spool.in_memory() + chunk.lines.len() > MEMORY_BYTES {
            return Ok(None);
        }
        self.keep(chunk)?;
        Ok(Some(self.snapshot))
    }

    fn keep(&mut self, chunk: Chunk) -> Result<(), String> {
        let Chunk { origin, sequence, after, count: lines, lines: bytes } = chunk;
        let kept =
            self.spool.keep(bytes).map_err(|error| format!("cannot store results: {error}"))?;
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
        let bytes: u64 = self.chunks.iter().map(|held| held.kept.len() as u64).sum();
        if bytes > SNAPSHOT_BYTES_MAX {
            return Err(format!(
                "{bytes} bytes are collected, and a checkpoint keeps at most {SNAPSHOT_BYTES_MAX} of them: write large results to files"
            ));
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
        reply.send(self.write_snapshot());
    }

    fn checkpoint_ended(&mut self, checkpoint: u64, complete: bool) -> Result<(), String> {
        if complete {
            self.complete = self.complete.max(checkpoint);
        }
        Ok(())
    }

    fn handle_request(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        let request = CollectRequest::decode(request)
            .map_err(|error| format!("cannot decode a request for results: {error}"))?;
        if !self.bounded {
            self.forget(request.offset);
        } else if !self.ended {
            return Ok(
                CollectChunk { offset: request.offset, lines: Vec::new(), end: false }.encode()
            );
        }
        self.read(request).map(|chunk| chunk.encode())
    }

    fn attempts_ended(&mut self, attempts: &[ExecutionAttemptId]) {
        if !self.bounded {
            // A client may have read the attempt's lines already; what the next attempt replays comes again.
            return;
        }
        let ended: Vec<Origin> = attempts.iter().map(|attempt| origin_of(*attempt)).collect();
        let (gone, kept) = std::mem::take(&mut self.chunks)
            .into_iter()
            .partition(|held| ended.contains(&held.origin));
        self.chunks = kept;
        let gone: Vec<Held> = gone;
        gone.into_iter().for_each(|held| self.spool.release(held.kept));
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
pub(super) struct CollectFactory {
    pub(super) bounded: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl CoordinatorFactory for CollectFactory {
    fn coordinator(&mut self, context: CoordinatorContext) -> Box<dyn Coordinator> {
        let bounded = self.bounded.load(std::sync::atomic::Ordering::Relaxed);
        Box::new(CollectCoordinator::new(&context, bounded))
    }
}
