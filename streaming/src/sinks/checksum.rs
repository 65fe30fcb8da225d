//! Sinks for measurements: one drops records, one computes their checksum.

use crate::{
    batch::Batch,
    operators::{BoxError, Collector, Flow, Operator, OperatorContext, ProcessFunction},
    seam::{StreamEvent, TaskError},
    types::{FlottType, key_hash},
};

/// The operator of a sink that drops every record, for measurements.
///
/// ```
/// use streaming::{Stream, sinks::{Checksum, Discard, Print}};
///
/// /// The three ways to look at a stream without a system to write to, as operators of one's own.
/// fn looked_at(words: &Stream<String>) {
///     words.transform("discard", || Discard);
///     words.transform("print", Print::to_stdout);
///     // Each subtask emits its number of records and the sum of their hashes.
///     words.transform("checksum", Checksum::default).print();
/// }
/// ```
#[derive(Debug, Default)]
pub struct Discard;

impl<T: Send> Operator<T> for Discard {
    type Out = ();
    fn process(
        &mut self,
        batch: &mut Batch<T>,
        _out: &mut Collector<()>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        batch.clear();
        Ok(())
    }
}

/// An operator that emits one record at the end of input, for measurements: the number of records of its subtask and the sum of
/// their hashes, which wraps at 2^64. Both are equal for equal multisets of records, whatever their order. The operator has no
/// state in checkpoints: after a restore it begins at 0. It emits nothing if the job is cancelled, fails, or is stopped without draining,
/// nor once more after a restore from a checkpoint after the end of its input.
#[derive(Debug, Default)]
pub struct Checksum {
    count: u64,
    sum: u64,
    emitted: bool,
}

impl<T: FlottType> Operator<T> for Checksum {
    type Out = (u64, u64);
    fn process(
        &mut self,
        batch: &mut Batch<T>,
        _out: &mut Collector<(u64, u64)>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.count += batch.len() as u64;
        for record in batch.records() {
            self.sum = self.sum.wrapping_add(key_hash(record));
        }
        batch.clear();
        Ok(())
    }
    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<(u64, u64)>,
        _context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if event == StreamEvent::EndOfInput && !self.emitted {
            self.emitted = true;
            out.collect((self.count, self.sum));
        }
        Ok(Flow::Done)
    }
}

/// Emits the total of all partial checksums at the end of input; runs with one subtask.
#[derive(Debug, Clone, Default)]
pub(super) struct Total {
    count: u64,
    sum: u64,
}

impl ProcessFunction<(u64, u64)> for Total {
    type Out = (u64, u64);
    fn process(
        &mut self,
        (count, sum): (u64, u64),
        _out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        self.count += count;
        self.sum = self.sum.wrapping_add(sum);
        Ok(())
    }
    fn finish(&mut self, out: &mut Collector<(u64, u64)>) -> Result<(), BoxError> {
        out.collect((self.count, self.sum));
        Ok(())
    }
}
