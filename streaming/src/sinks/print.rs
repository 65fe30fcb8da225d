//! Prints records where the task runs.

use crate::{
    batch::Batch,
    operators::{Collector, Operator, OperatorContext},
    seam::TaskError,
    types::ToLine,
};
use std::io::{self, Write};

/// One line per record; behind `3> ` where there are several subtasks, as Flink numbers them from 1.
pub struct Print<W> {
    writer: fn() -> W,
    lines: Vec<u8>,
    prefix: String,
}

impl Print<io::Stdout> {
    /// To the process's standard output.
    pub fn to_stdout() -> Self {
        Self::to(io::stdout)
    }
}

impl<W> Print<W> {
    /// To what that gives.
    pub fn to(writer: fn() -> W) -> Self {
        Self { writer, lines: Vec::new(), prefix: String::new() }
    }
}

impl<T: ToLine, W: Write + Send> Operator<T> for Print<W> {
    type Out = ();

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        if context.parallelism() > 1 {
            self.prefix = format!("{}> ", context.subtask() + 1);
        }
        Ok(())
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        _out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.lines.clear();
        for record in batch.records() {
            self.lines.extend_from_slice(self.prefix.as_bytes());
            record.write_line(&mut self.lines);
            self.lines.push(b'\n');
        }
        batch.clear();
        // One write per batch, so that lines of several subtasks are not mixed.
        let mut writer = (self.writer)();
        let written = writer.write_all(&self.lines).and_then(|()| writer.flush());
        written.map_err(|error| context.io_error("can't print", error))
    }
}
