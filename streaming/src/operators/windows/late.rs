//! Records that come too late: how long windows are kept, and the one place where a record is dropped or goes to a side output.

use crate::{
    operators::{Collector, Counter, OperatorContext, OutputTag},
    seam::TaskError,
    types::Record,
};

/// The allowed lateness of windows, where records go that come later still, and how many were dropped.
#[derive(Debug, Clone)]
pub struct Lateness<T> {
    /// Milliseconds that a window is kept after its last one.
    pub(super) ms: i64,
    output: Option<OutputTag<T>>,
    /// Records that were dropped since the start.
    dropped: Counter,
}

impl<T> From<i64> for Lateness<T> {
    /// Keeps windows for so many milliseconds.
    fn from(ms: i64) -> Self {
        Self { ms, output: None, dropped: Counter::default() }
    }
}

impl<T> Lateness<T> {
    /// Sends late records to a side output.
    pub(crate) fn with_output(self, tag: OutputTag<T>) -> Self {
        Self { output: Some(tag), ..self }
    }

    /// Keeps windows for so many milliseconds.
    pub(crate) fn with_ms(self, ms: i64) -> Self {
        Self { ms, ..self }
    }

    /// Returns the moment at which a window with that last millisecond is given up, in milliseconds since 1970.
    #[inline]
    pub(super) fn end(&self, last: i64) -> i64 {
        last.saturating_add(self.ms)
    }
}

impl<T: Record> Lateness<T> {
    /// Begins to count what is dropped where REST shows it, under Flink's name.
    pub(super) fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let counter = context.metrics().counter("numLateRecordsDropped");
        self.dropped = counter.map_err(|error| context.user_error(error))?;
        Ok(())
    }

    /// Returns how many records were dropped since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Takes a record that no window takes. If it came too late when event time was at `watermark`, it goes to the side output, or
    /// is dropped and counted; a record between two windows is dropped.
    pub(super) fn no_window<Out>(
        &mut self,
        record: T,
        time: i64,
        watermark: i64,
        out: &mut Collector<Out>,
    ) {
        if self.end(time) > watermark {
            return;
        }
        match &self.output {
            Some(tag) => {
                out.set_time(time);
                out.collect_to(tag, record);
            }
            None => self.dropped.inc(),
        }
    }
}
