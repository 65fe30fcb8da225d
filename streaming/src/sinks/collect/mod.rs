//! The sink that collects results for a client: subtasks send lines to a coordinator, and the client reads them there by
//! offset.
//!
//! The client of a bounded job gets nothing before the job has finished, because no output of a failed attempt may be visible;
//! then it reads the whole result, as often as it likes. The client of an unbounded job gets the lines that have arrived, with
//! periodic checkpoints those that a complete checkpoint contains, and lines that it has read are dropped. While no client reads, an
//! unbounded job is held up once 8 MiB wait; with periodic checkpoints it fails then, because none is complete in time, and says why.

mod coordinator;
mod protocol;

pub use coordinator::CollectCoordinator;
pub(super) use coordinator::CollectFactory;
pub use protocol::{CollectChunk, CollectRequest};

use crate::{
    batch::Batch,
    operators::{Collector, Flow, Operator, OperatorContext, OperatorMail},
    seam::{StreamEvent, TaskError},
    types::{ToLine, decode_one, encode_one, write_len},
};
use model::{ExecutionAttemptId, graph::StateDeclaration};
use std::{collections::VecDeque, time::Duration};

const VERSION: u8 = 1;
/// The option that says whether the job has periodic checkpoints.
const INTERVAL: &str = "execution.checkpointing.interval";
/// Bytes from which on a sink takes no more records while its last chunk is unanswered.
const CHUNK_BYTES: usize = 256 << 10;
/// Time after which a sink whose chunk was refused sends it again.
const RETRY: Duration = Duration::from_millis(50);

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

/// Returns the declaration of the state of a collecting sink for the job graph.
pub(super) fn declare() -> Vec<StateDeclaration> {
    vec![StateDeclaration {
        name: "results".to_owned(),
        kind: StateDeclaration::COLLECTED.to_owned(),
        schemas: [("value".to_owned(), "lines".to_owned())].into(),
        types: Default::default(),
        ttl_ms: None,
        settings: None,
    }]
}

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

/// The operator of a sink that collects ([`Stream::collect`](crate::Stream::collect)): sends its subtask's records as lines to the
/// sink's coordinator, which keeps them for the client, in chunks, one at a time. It sends a chunk that the coordinator refuses
/// again after 50 ms; an error of the coordinator, or no answer in time, fails the task. It takes no more records while a chunk is
/// unanswered and 256 KiB of further lines wait; barriers and the end of input wait until every line is taken.
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
            // The coordinator takes a chunk once.
            context.poll_coordinator(encode_one(&(VERSION, chunk.encoded())), SENT);
        }
    }

    // The bodies of the operator's methods that see no record: compiled here, not in every program and for each of its record types.

    fn restore(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.keeps = context.option(INTERVAL).is_some();
        let former = context.snapshots()?;
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

    /// Returns the state for a checkpoint: what was taken and is not in the coordinator's snapshot.
    fn kept(&mut self, checkpoint: u64) -> Vec<u8> {
        self.after = checkpoint;
        let kept: Vec<Encoded> = self.taken.iter().map(|(_, chunk)| chunk.encoded()).collect();
        encode_one(&(checkpoint, kept))
    }

    fn forget_before(&mut self, checkpoint: u64) {
        // What was taken before the coordinator's snapshot for this checkpoint is in it.
        self.taken.retain(|(snapshot, _)| *snapshot >= checkpoint);
    }

    fn answered(&mut self, mail: OperatorMail, context: &OperatorContext) -> Result<(), TaskError> {
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

impl<T: ToLine> Operator<T> for CollectSink {
    type Out = ();
    const HAS_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.restore(context)
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        batch.try_each_while(|record, _| -> Result<bool, TaskError> {
            self.line.clear();
            record.write_line(&mut self.line);
            write_len(self.line.len(), &mut self.lines);
            self.lines.extend_from_slice(&self.line);
            self.count += 1;
            Ok(out.should_continue())
        })?;
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
        Ok(Some(self.kept(checkpoint)))
    }

    fn notify_complete(
        &mut self,
        checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.forget_before(checkpoint);
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
        self.answered(mail, context)
    }
}
