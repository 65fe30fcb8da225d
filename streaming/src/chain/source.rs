//! The head of a chain that is a source.

use super::Head;
use crate::{
    operators::{
        BATCH_RECORDS, Collector, Consumer, Flow, OperatorContext, OperatorMail, SideOutputs,
    },
    seam::{Barrier, Progress, StreamEvent, TaskError},
};
use model::NodeId;
use std::collections::VecDeque;

/// How a read went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadProgress {
    /// There is more at once.
    More,
    /// Nothing until mail comes.
    Waiting,
    /// Never anything more.
    Ended,
}

/// Where a source's records come from. Reading must return within milliseconds.
pub trait SourceReader: Send + 'static {
    /// What it reads.
    type Record: Send + 'static;

    /// Before the first read.
    ///
    /// # Errors
    /// When it can't work.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        Ok(())
    }
    /// Emits at most about `most` records, fewer when the output says it is full.
    ///
    /// # Errors
    /// When the task must fail.
    fn read(
        &mut self,
        most: usize,
        out: &mut Collector<Self::Record>,
        context: &OperatorContext,
    ) -> Result<ReadProgress, TaskError>;
    /// Mail for the source.
    ///
    /// # Errors
    /// When the task must fail.
    fn mail(&mut self, _mail: OperatorMail, _context: &OperatorContext) -> Result<(), TaskError> {
        Ok(())
    }
    /// Where it is, behind the records emitted so far.
    ///
    /// # Errors
    /// When it can't be written.
    fn snapshot(&mut self, _context: &OperatorContext) -> Result<Option<Vec<u8>>, TaskError> {
        Ok(None)
    }
    /// When the task is over, whichever way.
    fn close(&mut self) {}
}

/// A source and the rest of its chain.
pub struct SourceHead<R: SourceReader> {
    reader: R,
    out: Collector<R::Record>,
    context: OperatorContext,
    /// Events that have to go through the chain, in order.
    events: VecDeque<StreamEvent>,
    passed: Vec<Barrier>,
    read_to_end: bool,
    ended: bool,
}

impl<R: SourceReader> SourceHead<R> {
    /// Reads with that reader.
    pub fn new(reader: R, next: Box<dyn Consumer<R::Record>>, context: OperatorContext) -> Self {
        let out = Collector::new(next, SideOutputs::default(), context.shared.interrupt.clone());
        Self {
            reader,
            out,
            context,
            events: VecDeque::new(),
            passed: Vec::new(),
            read_to_end: false,
            ended: false,
        }
    }

    /// Sends on what waits of events. `None`: nothing does.
    fn do_events(&mut self) -> Result<Option<Progress>, TaskError> {
        while let Some(event) = self.events.front().copied() {
            match self.out.event(event)? {
                Flow::Done => {}
                Flow::More => return Ok(Some(Progress::Blocked)),
                Flow::Waiting => return Ok(Some(Progress::Starved)),
            }
            self.events.pop_front();
            match event {
                StreamEvent::Barrier(barrier) => self.passed.push(barrier),
                StreamEvent::EndOfInput => self.ended = true,
                StreamEvent::Watermark(_) | StreamEvent::Idle(_) => {}
            }
        }
        Ok(None)
    }
}

impl<R: SourceReader> Head for SourceHead<R> {
    fn open(&mut self) -> Result<(), TaskError> {
        self.out.next_mut().open()?;
        self.reader.open(&self.context)
    }

    fn step(&mut self, budget: usize) -> Result<Progress, TaskError> {
        if let Some(progress) = self.do_events()? {
            return Ok(progress);
        }
        if self.ended {
            return Ok(Progress::Finished);
        }
        if self.read_to_end {
            // Event time is over too: what waits for it must not wait for ever.
            self.events.extend([StreamEvent::Watermark(i64::MAX), StreamEvent::EndOfInput]);
            return Ok(Progress::Busy);
        }
        if self.out.is_full() {
            return Ok(Progress::Blocked);
        }
        let most = budget.min(BATCH_RECORDS).min(self.out.most_at_once());
        let read = self.reader.read(most, &mut self.out, &self.context)?;
        self.out.flush()?;
        Ok(match read {
            ReadProgress::More => Progress::Busy,
            ReadProgress::Waiting => Progress::Starved,
            ReadProgress::Ended => {
                self.read_to_end = true;
                Progress::Busy
            }
        })
    }

    fn trigger(&mut self, barrier: Barrier) -> Result<(), TaskError> {
        if self.read_to_end {
            return Ok(());
        }
        if let Some(bytes) = self.reader.snapshot(&self.context)? {
            let shared = &self.context.shared;
            shared.add_snapshot(barrier.checkpoint, self.context.operator, bytes);
        }
        self.events.push_back(StreamEvent::Barrier(barrier));
        Ok(())
    }

    fn deliver(&mut self, to: NodeId, mail: OperatorMail) -> Result<(), TaskError> {
        if to == self.context.node {
            return self.reader.mail(mail, &self.context);
        }
        self.out.next_mut().deliver(to, mail)
    }
    fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.out.next_mut().notify_complete(checkpoint)
    }
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        self.out.flush_all(partial)
    }
    fn full(&self) -> bool {
        self.out.is_full()
    }
    fn resume(&mut self) -> Result<(), TaskError> {
        self.out.resume()
    }
    fn is_interrupted(&self) -> bool {
        self.out.next().is_interrupted()
    }
    fn passed_barriers(&mut self) -> Vec<Barrier> {
        std::mem::take(&mut self.passed)
    }
    fn close(&mut self) -> Result<(), TaskError> {
        self.reader.close();
        self.out.next_mut().close()
    }
    fn dispose(&mut self) {
        self.reader.close();
        self.out.next_mut().dispose();
    }
}
