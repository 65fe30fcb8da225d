//! Values that the program has in its hands.

use crate::{
    chain::{ReadProgress, SourceReader},
    graph::draft::lock,
    operators::{Collector, OperatorContext},
    seam::TaskError,
    types::Record,
};
use std::sync::{Arc, Mutex};

/// Emits every n-th value, n being the parallelism.
#[derive(Debug)]
pub struct CollectionReader<T> {
    all: Arc<Mutex<Vec<T>>>,
    own: std::vec::IntoIter<T>,
}

impl<T> CollectionReader<T> {
    /// Of these values; all subtasks share them.
    pub fn new(all: Arc<Mutex<Vec<T>>>) -> Self {
        Self { all, own: Vec::new().into_iter() }
    }
}

impl<T: Record> SourceReader for CollectionReader<T> {
    type Record = T;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let all = lock(&self.all);
        let own = all
            .iter()
            .skip(context.subtask() as usize)
            .step_by(context.parallelism().max(1) as usize);
        self.own = own.cloned().collect::<Vec<_>>().into_iter();
        Ok(())
    }

    fn read(
        &mut self,
        most: usize,
        out: &mut Collector<T>,
        _context: &OperatorContext,
    ) -> Result<ReadProgress, TaskError> {
        out.collect_all(self.own.by_ref().take(most));
        Ok(if self.own.len() == 0 { ReadProgress::Ended } else { ReadProgress::More })
    }
}
