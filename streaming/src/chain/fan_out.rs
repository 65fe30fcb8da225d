//! Consumers at the end of a chain that write to no edge, or to several. They must hand every batch and event to each edge, in order.

use crate::{
    batch::Batch,
    operators::{BATCH_RECORDS, Consumer, Control, Flow},
    seam::{StreamEvent, TaskError},
    types::Record,
};

/// The end of a chain with several edges: sends a copy of every record and event on each of them. It is full while one of the edges is, so
/// that the slowest consumer holds up the others.
pub struct FanOut<T> {
    edges: Vec<Box<dyn Consumer<T>>>,
    copy: Batch<T>,
}

impl<T> FanOut<T> {
    /// Creates a fan-out to `edges`, which must be edge writers: they never make an event wait.
    pub fn new(edges: Vec<Box<dyn Consumer<T>>>) -> Self {
        Self { edges, copy: Batch::default() }
    }
}

impl<T: Record> Consumer<T> for FanOut<T> {
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError> {
        let mut takes_more = true;
        if let Some((last, others)) = self.edges.split_last_mut() {
            for edge in others {
                self.copy.append_copies(batch);
                takes_more &= edge.batch(&mut self.copy)?;
                self.copy.clear();
            }
            takes_more &= last.batch(batch)?;
        }
        batch.clear();
        Ok(takes_more)
    }
}

impl<T: Record> Control for FanOut<T> {
    fn open(&mut self) -> Result<(), TaskError> {
        self.edges.iter_mut().try_for_each(|edge| edge.open())
    }
    fn resume(&mut self) -> Result<(), TaskError> {
        for edge in &mut self.edges {
            edge.resume()?;
            if edge.is_interrupted() && !edge.full() {
                // The step is interrupted again: the edges after this one wait for the next step.
                break;
            }
        }
        Ok(())
    }
    fn is_interrupted(&self) -> bool {
        self.edges.iter().any(|edge| edge.is_interrupted())
    }
    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        for edge in &mut self.edges {
            edge.event(event)?;
        }
        Ok(Flow::Done)
    }
    fn full(&self) -> bool {
        self.edges.iter().any(|edge| edge.full())
    }
    fn most_at_once(&self) -> usize {
        // A loop: programs compile it for each record type, which makes adapters dear.
        let mut most = BATCH_RECORDS;
        for edge in &self.edges {
            most = most.min(edge.most_at_once());
        }
        most
    }
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        let mut sent = true;
        for edge in &mut self.edges {
            sent &= edge.flush(partial)?;
        }
        Ok(sent)
    }
    fn close(&mut self) -> Result<(), TaskError> {
        self.edges.iter_mut().try_for_each(|edge| edge.close())
    }
    fn dispose(&mut self) {
        self.edges.iter_mut().for_each(|edge| edge.dispose());
    }
}

/// The end of a chain without an edge, after a sink or after an operator whose stream is not used. Drops all records and events.
#[derive(Debug)]
pub struct NoConsumer;

impl<T: Send> Consumer<T> for NoConsumer {
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError> {
        batch.clear();
        Ok(true)
    }
}

impl Control for NoConsumer {
    fn event(&mut self, _event: StreamEvent) -> Result<Flow, TaskError> {
        Ok(Flow::Done)
    }
}
