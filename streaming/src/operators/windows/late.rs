//! Late records: how long windows are kept for them, and the one place where a record is dropped or goes to a side output.

use crate::{
    operators::{Collector, Counter, OperatorContext, OutputTag},
    seam::TaskError,
    types::Record,
};

/// The treatment of late records: the allowed lateness of windows (0 unless set), the side output of records that come later still, if
/// there is one, and the number of dropped records. The windowed stream makes it and passes it to `WindowAssigner::operator`.
#[derive(Debug, Clone)]
pub struct Lateness<T> {
    /// Time in milliseconds for which a window is kept after its last millisecond.
    pub(super) ms: i64,
    output: Option<OutputTag<T>>,
    /// Number of records dropped since the subtask started.
    dropped: Counter,
}

impl<T> From<i64> for Lateness<T> {
    /// Makes a lateness of `ms` milliseconds, without a side output.
    fn from(ms: i64) -> Self {
        Self { ms, output: None, dropped: Counter::default() }
    }
}

impl<T> Lateness<T> {
    /// Sends records that come too late to a side output instead of dropping them.
    pub(crate) fn with_output(self, tag: OutputTag<T>) -> Self {
        Self { output: Some(tag), ..self }
    }

    /// Keeps windows for `ms` milliseconds after their last one.
    pub(crate) fn with_ms(self, ms: i64) -> Self {
        Self { ms, ..self }
    }

    /// Returns the moment, in milliseconds since 1970, at which a window with the last millisecond `last` is discarded.
    #[inline]
    pub(super) fn end(&self, last: i64) -> i64 {
        last.saturating_add(self.ms)
    }
}

impl<T: Record> Lateness<T> {
    /// Registers the counter of dropped records with the operator's metrics, under Flink's name `numLateRecordsDropped`.
    pub(super) fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let counter = context.metrics().counter("numLateRecordsDropped");
        self.dropped = counter.map_err(|error| context.user_error(error))?;
        Ok(())
    }

    /// Returns how many records were dropped since the subtask started.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Takes a record that belongs to no open window. If the record is late, the side output gets it, or it is dropped and
    /// counted if there is none. A record between two windows that is not late is dropped without being counted.
    pub(super) fn take_late<Out: Record>(
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
