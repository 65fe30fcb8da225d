//! Results for the client: subtasks send lines to a coordinator, a client reads them there by offset.
//!
//! In a bounded job the client sees nothing before the job has finished, because nothing of an attempt that fails may be
//! seen; then it reads the whole result, as often as it likes. In an unbounded job it sees what has come, and what it has
//! read is dropped; while nobody reads, the job is held up when the bound is reached.

use super::spool::{Kept, Spool};
use crate::{
    batch::Batch,
    operators::{Collector, Flow, Operator, OperatorContext, OperatorMail},
    seam::{Coordinator, CoordinatorContext, CoordinatorFactory, StreamEvent, TaskError},
    types::{CodecError, FlottType, Reader, ToLine, decode_one, encode_one, write_len},
};
use model::ExecutionAttemptId;
use std::time::Duration;

const VERSION: u8 = 1;
/// A sink's chunk is sent when it has so many bytes, or nothing is under way.
const CHUNK_BYTES: usize = 256 << 10;
/// Results in memory; more of a bounded job go to a file, more of an unbounded one have to wait.
const MEMORY_BYTES: usize = 8 << 20;
/// After so long a sink that was told to wait asks again.
const RETRY: Duration = Duration::from_millis(50);

/// What a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectRequest {
    /// Number of the first line that is wanted, from 0. In an unbounded job those before are dropped.
    pub offset: u64,
    /// Bytes of lines that are wanted at most; one line at least is given.
    pub max_bytes: u64,
}

impl CollectRequest {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode_one(&(VERSION, self.offset, self.max_bytes))
    }
    /// Reads what [`CollectRequest::encode`] gave.
    ///
    /// # Errors
    /// When the bytes are no request.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match decode_one(bytes)? {
            (VERSION, offset, max_bytes) => Ok(Self { offset, max_bytes }),
            _ => Err(CodecError::Invalid { what: "version of a request" }),
        }
    }
}

/// What a client is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectChunk {
    /// Number of the first line given. Greater than what was asked for when earlier ones were dropped.
    pub offset: u64,
    /// Lines as they are printed, without their ends. None: there is nothing yet (or, with `end`, any more).
    pub lines: Vec<Vec<u8>>,
    /// Whether nothing comes behind these lines.
    pub end: bool,
}

impl CollectChunk {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.offset.encode(&mut out);
        self.end.encode(&mut out);
        self.lines.encode(&mut out);
        out
    }
    /// Reads what [`CollectChunk::encode`] gave.
    ///
    /// # Errors
    /// When the bytes are no chunk.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (version, offset, end, lines) = decode_one(bytes)?;
        match version {
            VERSION => Ok(Self { offset, lines, end }),
            _ => Err(CodecError::Invalid { what: "version of a chunk" }),
        }
    }
}

/// From sink to coordinator: a number that grows with every chunk, how many lines, and the lines, each behind its
/// length.
type Chunk = (u8, u64, u64, Vec<u8>);
/// The coordinator's answers.
const TAKEN: &[u8] = &[1];
const LATER: &[u8] = &[0];
/// Tickets of a sink.
const SENT: u32 = 0;
const AGAIN: u32 = 1;

/// Sends records to the coordinator.
#[derive(Debug, Default)]
pub struct CollectSink {
    /// What is not sent yet.
    lines: Vec<u8>,
    count: u64,
    line: Vec<u8>,
    /// What was sent and not taken yet.
    under_way: Option<Vec<u8>>,
    sequence: u64,
}

impl CollectSink {
    fn send(&mut self, context: &OperatorContext) {
        if self.under_way.is_some() || self.count == 0 {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        let chunk: Chunk = (VERSION, self.sequence, std::mem::take(&mut self.count), lines);
        let event = encode_one(&chunk);
        context.ask_coordinator(event.clone(), SENT);
        self.under_way = Some(event);
        self.sequence += 1;
    }
}

impl<T: ToLine> Operator<T> for CollectSink {
    type Out = ();

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
        self.under_way.is_some() && self.lines.len() >= CHUNK_BYTES
    }

    fn event(
        &mut self,
        event: StreamEvent,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if event != StreamEvent::EndOfInput {
            return Ok(Flow::Done);
        }
        // The end goes on when everything was taken: a task that is FINISHED has nothing to lose any more.
        self.send(context);
        Ok(if self.under_way.is_some() { Flow::Waiting } else { Flow::Done })
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        match mail {
            OperatorMail::Reply { result, .. } => {
                let answer = result.map_err(|why| context.coordinator_error(why))?;
                if answer == LATER {
                    context.wake_after(RETRY, AGAIN);
                } else {
                    self.under_way = None;
                    self.send(context);
                }
            }
            OperatorMail::Timer { .. } => {
                if let Some(event) = &self.under_way {
                    context.ask_coordinator(event.clone(), SENT);
                }
            }
        }
        Ok(())
    }
}

/// A chunk that a client can read.
#[derive(Debug)]
struct Held {
    from: ExecutionAttemptId,
    sequence: u64,
    lines: u64,
    kept: Kept,
}

/// Keeps what the sinks send until a client reads it.
#[derive(Debug)]
pub struct CollectCoordinator {
    bounded: bool,
    spool: Spool,
    chunks: Vec<Held>,
    /// Number of the first line of the first chunk.
    first: u64,
    ended: bool,
}

impl CollectCoordinator {
    /// Of a job that ends by itself, or not.
    pub fn new(context: &CoordinatorContext, bounded: bool) -> Self {
        let name = format!("collect-{}-{}", context.job_id, context.operator);
        Self {
            bounded,
            spool: Spool::new(context.tmp_dir.join(name), MEMORY_BYTES),
            chunks: Vec::new(),
            first: 0,
            ended: false,
        }
    }

    fn take(&mut self, from: ExecutionAttemptId, chunk: Chunk) -> Result<&'static [u8], String> {
        let (version, sequence, lines, bytes) = chunk;
        if version != VERSION {
            return Err("a sink of another version sent results".into());
        }
        let newest = self.chunks.iter().rev().find(|held| held.from == from);
        if newest.is_some_and(|held| held.sequence >= sequence) {
            // It was taken before, and the answer got lost.
            return Ok(TAKEN);
        }
        let held_up = !self.bounded && self.spool.in_memory() > 0;
        if held_up && self.spool.in_memory() + bytes.len() > MEMORY_BYTES {
            return Ok(LATER);
        }
        let kept =
            self.spool.keep(bytes).map_err(|error| format!("results can't be kept: {error}"))?;
        self.chunks.push(Held { from, sequence, lines, kept });
        Ok(TAKEN)
    }

    /// Lines from `offset` on, of the chunk that holds it.
    fn read(&mut self, request: CollectRequest) -> Result<CollectChunk, String> {
        let mut begins = self.first;
        let wanted = request.offset.max(self.first);
        for (index, held) in self.chunks.iter().enumerate() {
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

    /// In an unbounded job: what was read is not needed again.
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

/// Lines of a chunk from the `skip`-th on; whether they reach its end.
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
    fn start(&mut self, _restore: Option<Vec<u8>>) -> Result<(), String> {
        Ok(())
    }

    fn handle_event(&mut self, from: ExecutionAttemptId, event: &[u8]) -> Result<Vec<u8>, String> {
        let chunk =
            decode_one(event).map_err(|error| format!("a sink sent no results: {error}"))?;
        self.take(from, chunk).map(<[u8]>::to_vec)
    }

    fn handle_request(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        let request = CollectRequest::decode(request)
            .map_err(|error| format!("not a request for results: {error}"))?;
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
            // It may have been seen already; what is replayed comes again.
            return;
        }
        let (gone, kept) = std::mem::take(&mut self.chunks)
            .into_iter()
            .partition(|held| attempts.contains(&held.from));
        self.chunks = kept;
        let gone: Vec<Held> = gone;
        gone.into_iter().for_each(|held| self.spool.release(held.kept));
    }

    fn job_ended(&mut self, finished: bool) -> Result<(), String> {
        if finished && !self.ended && self.bounded {
            self.chunks.sort_by_key(|held| (held.from.subtask, held.sequence));
        }
        self.ended |= finished;
        Ok(())
    }
}

/// Makes the coordinator of a collect sink.
pub(super) struct CollectFactory {
    pub(super) bounded: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl CoordinatorFactory for CollectFactory {
    fn coordinator(&mut self, context: CoordinatorContext) -> Box<dyn Coordinator> {
        let bounded = self.bounded.load(std::sync::atomic::Ordering::Relaxed);
        Box::new(CollectCoordinator::new(&context, bounded))
    }
}
