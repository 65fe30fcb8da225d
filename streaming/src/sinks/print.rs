//! The sink that prints records in the process that runs the task.

use crate::{
    batch::Batch,
    operators::{Collector, Operator, OperatorContext},
    seam::TaskError,
    types::ToLine,
};
use std::io::{self, Write};

/// An operator that writes each record as one line ([`ToLine`]), which ends with `\n`, to a writer that is flushed after each
/// batch; [`Stream::print`](crate::Stream::print) adds it. A failed write fails the task. With several subtasks each line begins
/// with the subtask's number from 1, like `3> `, as in Flink. It does not wait for checkpoints: a record may come twice after a failure.
pub struct Print<W> {
    writer: fn() -> W,
    lines: Vec<u8>,
    prefix: String,
}

impl Print<io::Stdout> {
    /// Creates a sink that prints to the process's standard output.
    pub fn to_stdout() -> Self {
        Self::to(io::stdout)
    }
}

impl<W> Print<W> {
    /// Creates a sink that prints to the writer that `writer` returns; `writer` is called on the task's thread, at least once per batch.
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
        out: &mut Collector<()>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.lines.clear();
        batch.try_each_while(|record, _| -> Result<bool, TaskError> {
            self.lines.extend_from_slice(self.prefix.as_bytes());
            record.write_line(&mut self.lines);
            self.lines.push(b'\n');
            Ok(out.should_continue())
        })?;
        // All lines of a call are written at once, so that lines of several subtasks do not mix.
        let mut writer = (self.writer)();
        let written = writer.write_all(&self.lines).and_then(|()| writer.flush());
        written.map_err(|error| context.io_error("can't print", error))
    }
}
