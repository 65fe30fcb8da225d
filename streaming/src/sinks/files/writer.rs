//! The writer of the file sink. Records are encoded on the task's thread; everything that a folder does is I/O beside the task,
//! one step at a time.

use super::{Encoder, RollingPolicy, commit::PendingPart, names::Names};
use crate::{
    lock,
    memory::allocator,
    operators::{BoxError, OperatorContext, OperatorMail},
    sinks::{Announcement, CommittingSinkWriter, NoWriterState, SinkWriter, WriterContext, marks},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};
use storage::{
    objects::StoreError,
    output::{OutputFile, OutputFolder, PendingOutput},
};

/// Pieces that wait to be written, from which on the writer takes no more records.
const PIECES_MAX: usize = 2;
/// Tickets of I/O: the next step of a part, and the deletion of leftovers. The tickets of timers are the numbers of parts.
const STEP: u32 = 0;
const ABORT: u32 = 1;

/// One step of writing a part.
enum Step {
    Create(String),
    Write(Vec<u8>),
    Finish,
}

/// The outcome of a step.
enum Stepped {
    /// The part is in progress.
    File(Box<dyn OutputFile>),
    /// The part is pending.
    Pending(PendingOutput),
}
type Slot = Arc<Mutex<Option<Result<Stepped, StoreError>>>>;

/// The writer of a [`FileSink`](super::FileSink) in one subtask: encodes records on the task's thread, cuts the bytes into pieces
/// of the size that the store writes at once, and writes them beside the task, one call at a time. It takes no more records while a
/// call is under way and two pieces wait. A part ends at the limits of the rolling policy, at each barrier and at the end of input. A
/// failed write fails the task with `TaskError::Io`; a failed deletion of what earlier attempts left is only logged.
pub struct PartWriter<E> {
    uri: String,
    folder: Arc<dyn OutputFolder>,
    names: Names,
    policy: RollingPolicy,
    encoder: E,
    /// The number of the next part.
    count: u32,
    /// The bytes of the part that records are written to; `None` if the next record begins a part.
    part_bytes: Option<u64>,
    /// Encoded records of that part that are no piece yet.
    piece: Vec<u8>,
    steps: VecDeque<Step>,
    /// The file of the part whose steps are at hand.
    file: Option<Box<dyn OutputFile>>,
    /// Receives the outcome of the step that is under way.
    under_way: Option<Slot>,
    pending: Vec<PendingPart>,
}

impl<E> PartWriter<E> {
    pub(super) fn new(
        uri: String,
        folder: Arc<dyn OutputFolder>,
        names: Names,
        policy: RollingPolicy,
        encoder: E,
    ) -> Self {
        Self {
            uri,
            folder,
            names,
            policy,
            encoder,
            count: 0,
            part_bytes: None,
            piece: Vec::new(),
            steps: VecDeque::new(),
            file: None,
            under_way: None,
            pending: Vec::new(),
        }
    }

    fn begin_part(&mut self, context: &OperatorContext) {
        self.steps.push_back(Step::Create(self.names.part(self.count)));
        if let Some(interval) = self.policy.rollover_interval {
            context.wake_after(interval, self.count);
        }
        self.count += 1;
        self.part_bytes = Some(0);
    }

    fn end_part(&mut self) {
        if self.part_bytes.take().is_some() {
            if !self.piece.is_empty() {
                self.steps.push_back(Step::Write(std::mem::take(&mut self.piece)));
            }
            self.steps.push_back(Step::Finish);
        }
    }

    /// Begins the next step, unless one is under way.
    fn step(&mut self, context: &OperatorContext) {
        if self.under_way.is_some() {
            return;
        }
        let Some(step) = self.steps.pop_front() else { return };
        if let Step::Write(bytes) = &step {
            // A thread of the store frees them.
            allocator::hand_over(bytes.capacity() as u64);
        }
        let slot = Slot::default();
        self.under_way = Some(slot.clone());
        let (folder, owner, file) =
            (self.folder.clone(), self.names.owner.clone(), self.file.take());
        let work = async move {
            let stepped = match (step, file) {
                (Step::Create(name), _) => folder.create(&name, &owner).await.map(Stepped::File),
                (Step::Write(bytes), Some(file)) => {
                    file.write(bytes.into()).await.map(Stepped::File)
                }
                (Step::Finish, Some(file)) => file.finish().await.map(Stepped::Pending),
                // A part begins with its creation.
                (Step::Write(_) | Step::Finish, None) => return Err("no part is begun".to_owned()),
            };
            *lock(&slot) = Some(stepped);
            Ok(Vec::new())
        };
        context.spawn_io(Box::pin(work), STEP);
    }

    fn stepped(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        let Some(stepped) = self.under_way.take().and_then(|slot| lock(&slot).take()) else {
            return Ok(());
        };
        let stepped = stepped.map_err(|error| {
            context.io_error(format!("cannot write to the folder '{}'", self.uri), error)
        })?;
        match stepped {
            Stepped::File(file) => self.file = Some(file),
            Stepped::Pending(pending) => {
                self.pending.push(PendingPart::of(&self.uri, self.names.subtask(), pending));
            }
        }
        self.step(context);
        Ok(())
    }
}

impl<T, E: Encoder<T>> SinkWriter<T> for PartWriter<E> {
    fn write(&mut self, record: T, context: &WriterContext<'_>) -> Result<(), BoxError> {
        let before = self.piece.len();
        self.encoder.encode(&record, &mut self.piece)?;
        if self.piece.len() == before {
            // No part is empty: S3 has no upload without a part.
            return Ok(());
        }
        if self.part_bytes.is_none() {
            self.begin_part(context);
        }
        let bytes = self.part_bytes.unwrap_or(0) + (self.piece.len() - before) as u64;
        self.part_bytes = Some(bytes);
        let size = self.folder.piece_bytes();
        while self.piece.len() > size {
            // All pieces but the last have one size; the rest of the record is in the next piece.
            let rest = self.piece.split_off(size);
            self.steps.push_back(Step::Write(std::mem::replace(&mut self.piece, rest)));
        }
        if bytes >= self.policy.max_part_bytes {
            self.end_part();
        }
        if self.under_way.is_none() && !self.steps.is_empty() {
            self.step(context);
        }
        Ok(())
    }

    fn flush(&mut self, _end_of_input: bool, context: &OperatorContext) -> Result<(), BoxError> {
        self.end_part();
        self.step(context);
        Ok(())
    }

    fn mail(&mut self, mail: OperatorMail, context: &OperatorContext) -> Result<(), BoxError> {
        match mail {
            OperatorMail::Timer { ticket } => {
                // Of an older part the timer comes too late.
                if ticket + 1 == self.count {
                    self.end_part();
                    self.step(context);
                }
                Ok(())
            }
            OperatorMail::Reply { ticket: STEP, result } => {
                result.map_err(|why| {
                    context.io_error(format!("cannot write to the folder '{}'", self.uri), why)
                })?;
                self.stepped(context)
            }
            OperatorMail::Reply { result, .. } => {
                if let Err(why) = result {
                    tracing::warn!(folder = self.uri, %why, "cannot delete what earlier attempts left over");
                }
                Ok(())
            }
        }
    }

    fn is_full(&self) -> bool {
        let written = self.steps.iter().filter(|step| matches!(step, Step::Write(_))).count();
        self.under_way.is_some() && written >= PIECES_MAX
    }

    fn is_flushing(&self) -> bool {
        self.under_way.is_some() || !self.steps.is_empty()
    }
}

impl<T, E: Encoder<T>> CommittingSinkWriter<T> for PartWriter<E> {
    type Committable = PendingPart;
    // A checkpoint ends every part.
    type State = NoWriterState;

    fn prepare_commit(&mut self) -> Result<Vec<PendingPart>, BoxError> {
        Ok(std::mem::take(&mut self.pending))
    }

    fn announce(&mut self, context: &OperatorContext) -> Option<Announcement<PendingPart>> {
        let (uri, subtask) = (self.uri.clone(), self.names.subtask());
        let left = marks::leave(&self.folder, &uri, &self.names, context);
        let part = move |mark| PendingPart::mark(&uri, subtask, mark);
        Some(Box::pin(async move { Ok(left.await?.map(part)) }))
    }

    fn withdraw(&mut self) {
        marks::withdraw(&*self.folder, &self.names);
    }

    fn abort_leftovers(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        let (folder, names) = (self.folder.clone(), self.names.clone());
        let work = async move {
            let failed = |error: StoreError| error.to_string();
            for file in folder.unpublished(&names.owner).await.map_err(failed)? {
                if names.is_leftover(&file.name) {
                    folder.discard(file).await.map_err(failed)?;
                }
            }
            Ok(Vec::new())
        };
        context.spawn_io(Box::pin(work), ABORT);
        Ok(())
    }
}
