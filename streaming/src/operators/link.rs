//! One link of a chain: an operator, its output, and what every operator has in common.

use super::{Collector, Consumer, Flow, Operator, OperatorContext, OperatorMail};
use crate::seam::{StreamEvent, TaskError};
use model::NodeId;

/// Records that are handed at once to an operator that may make many of each.
const CAREFUL_RECORDS: usize = 64;

/// Makes a [`Consumer`] of an [`Operator`] and the rest of the chain.
pub struct Link<In, Op: Operator<In>> {
    operator: Op,
    out: Collector<Op::Out>,
    context: OperatorContext,
    /// The operator is done with the event that is passing; what follows is not.
    passing: bool,
}

impl<In, Op: Operator<In>> Link<In, Op> {
    /// In front of the rest of the chain.
    pub fn new(operator: Op, next: Box<dyn Consumer<Op::Out>>, context: OperatorContext) -> Self {
        Self { operator, out: Collector::new(next), context, passing: false }
    }
}

impl<In: Send + 'static, Op: Operator<In>> Consumer<In> for Link<In, Op> {
    fn open(&mut self) -> Result<(), TaskError> {
        self.out.next_mut().open()?;
        self.operator.open(&self.context)
    }

    fn batch(&mut self, records: &mut Vec<In>) -> Result<(), TaskError> {
        self.operator.process(records, &mut self.out, &self.context)?;
        records.clear();
        self.out.flush()
    }

    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        if !self.passing {
            let flow = self.operator.event(event, &mut self.out, &self.context)?;
            self.out.flush()?;
            if flow != Flow::Done {
                return Ok(flow);
            }
            if let StreamEvent::Barrier(barrier) = event
                && let Some(bytes) = self.operator.snapshot(barrier.checkpoint, &self.context)?
            {
                let shared = &self.context.shared;
                shared.add_snapshot(barrier.checkpoint, self.context.operator, bytes);
            }
        }
        let flow = self.out.event(event)?;
        self.passing = flow != Flow::Done;
        Ok(flow)
    }

    fn full(&self) -> bool {
        self.operator.full() || self.out.is_full()
    }

    fn most_at_once(&self) -> usize {
        let behind = self.out.next().most_at_once();
        if self.operator.expands() { behind.min(CAREFUL_RECORDS) } else { behind }
    }

    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        self.out.flush()?;
        self.out.next_mut().flush(partial)
    }

    fn deliver(&mut self, to: NodeId, mail: OperatorMail) -> Result<(), TaskError> {
        if to == self.context.node {
            self.operator.mail(mail, &mut self.out, &self.context)?;
            return self.out.flush();
        }
        self.out.next_mut().deliver(to, mail)
    }

    fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.operator.notify_complete(checkpoint, &self.context)?;
        self.out.next_mut().notify_complete(checkpoint)
    }

    fn close(&mut self) -> Result<(), TaskError> {
        self.operator.close(&self.context)?;
        self.out.next_mut().close()
    }

    fn dispose(&mut self) {
        self.operator.dispose(&self.context);
        self.out.next_mut().dispose();
    }
}
