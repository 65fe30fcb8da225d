//! Where an operator puts its records: a buffer that goes on to the next operator when it is full.

use super::{Consumer, Flow};
use crate::seam::{StreamEvent, TaskError};

/// Records that make a batch.
pub const BATCH_RECORDS: usize = 1_024;

/// Takes what a function emits.
pub struct Collector<T> {
    buffer: Vec<T>,
    next: Box<dyn Consumer<T>>,
    /// The first failure behind; user functions that emit do not see it, the operator's caller does.
    failure: Option<TaskError>,
}

impl<T> Collector<T> {
    pub(crate) fn new(next: Box<dyn Consumer<T>>) -> Self {
        Self { buffer: Vec::new(), next, failure: None }
    }

    /// Emits a record.
    #[inline]
    pub fn collect(&mut self, record: T) {
        self.buffer.push(record);
        if self.buffer.len() >= BATCH_RECORDS {
            self.send();
        }
    }

    /// Emits records, in their order.
    #[inline]
    pub fn collect_all(&mut self, records: impl IntoIterator<Item = T>) {
        for record in records {
            self.collect(record);
        }
    }

    /// Emits as many records as a batch may have, in one go.
    #[inline]
    pub(crate) fn extend(&mut self, records: impl Iterator<Item = T>) {
        self.buffer.extend(records);
        if self.buffer.len() >= BATCH_RECORDS {
            self.send();
        }
    }

    /// Emits a whole vector, which comes back empty.
    pub(crate) fn pass(&mut self, records: &mut Vec<T>) {
        if self.buffer.is_empty() {
            std::mem::swap(&mut self.buffer, records);
        } else {
            self.buffer.append(records);
        }
        if self.buffer.len() >= BATCH_RECORDS {
            self.send();
        }
    }

    #[cold]
    fn send(&mut self) {
        if self.failure.is_none()
            && let Err(failure) = self.next.batch(&mut self.buffer)
        {
            self.failure = Some(failure);
        }
        self.buffer.clear();
    }

    /// Hands on what was emitted.
    pub(crate) fn flush(&mut self) -> Result<(), TaskError> {
        if !self.buffer.is_empty() {
            self.send();
        }
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// A control element goes on, behind what was emitted.
    pub(crate) fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        self.flush()?;
        self.next.event(event)
    }

    /// Whether the rest of the chain takes nothing more for now. A function that emits a lot of its own accord
    /// stops then and goes on later.
    pub fn is_full(&self) -> bool {
        self.failure.is_some() || self.next.full()
    }

    /// How many records to work on at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.next.most_at_once()
    }

    pub(crate) fn next(&self) -> &dyn Consumer<T> {
        &*self.next
    }
    pub(crate) fn next_mut(&mut self) -> &mut dyn Consumer<T> {
        &mut *self.next
    }
}
