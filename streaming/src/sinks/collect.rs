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
    seam::{Coordinator, CoordinatorContext, CoordinatorFactory, StreamEvent, TaskError},
    types::{CodecError, FlottType, Reader, ToLine, decode_one, encode_one, write_len},
};
use model::ExecutionAttemptId;
use std::time::Duration;

const VERSION: u8 = 1;
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

/// A chunk on its way to the coordinator: version, sequence number, number of lines, and the lines, each after its length.
type Chunk = (u8, u64, u64, Vec<u8>);
/// The coordinator's answers to a chunk: taken, or to be sent again later.
const TAKEN: &[u8] = &[1];
const LATER: &[u8] = &[0];
/// A sink's tickets: of a chunk that was sent, and of the timer to send it again.
const SENT: u32 = 0;
const AGAIN: u32 = 1;

/// The sink's part in a task: sends records as lines to the coordinator, one chunk at a time.
#[derive(Debug, Default)]
pub struct CollectSink {
    /// The encoded lines of the next chunk, and their number.
    lines: Vec<u8>,
    count: u64,
    line: Vec<u8>,
    /// The encoded chunk that was sent and has not been taken.
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
        // The end of input waits until every line was taken, so that a FINISHED task has nothing left to lose.
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

/// A chunk that the coordinator has taken.
#[derive(Debug)]
struct Held {
    from: ExecutionAttemptId,
    sequence: u64,
    lines: u64,
    kept: Kept,
}

/// The coordinator of a collecting sink: stores the chunks of all subtasks until a client reads them.
#[derive(Debug)]
pub struct CollectCoordinator {
    bounded: bool,
    spool: Spool,
    chunks: Vec<Held>,
    /// Number of the first line of the first stored chunk.
    first: u64,
    ended: bool,
}

impl CollectCoordinator {
    /// Creates the coordinator; `bounded` tells whether the job ends by itself.
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
            return Err("the results of a sink have an unknown version".into());
        }
        let newest = self.chunks.iter().rev().find(|held| held.from == from);
        if newest.is_some_and(|held| held.sequence >= sequence) {
            // The chunk was taken before, and the answer got lost.
            return Ok(TAKEN);
        }
        let held_up = !self.bounded && self.spool.in_memory() > 0;
        if held_up && self.spool.in_memory() + bytes.len() > MEMORY_BYTES {
            return Ok(LATER);
        }
        let kept =
            self.spool.keep(bytes).map_err(|error| format!("cannot store results: {error}"))?;
        self.chunks.push(Held { from, sequence, lines, kept });
        Ok(TAKEN)
    }

    /// Returns lines from the requested one on, all of the chunk that contains it.
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
    fn start(&mut self, _restore: Option<Vec<u8>>) -> Result<(), String> {
        Ok(())
    }

    fn handle_event(&mut self, from: ExecutionAttemptId, event: &[u8]) -> Result<Vec<u8>, String> {
        let chunk = decode_one(event).map_err(|error| format!("cannot decode results: {error}"))?;
        self.take(from, chunk).map(<[u8]>::to_vec)
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
