//! The interface between the operators of windows and the contents of the windows, the same for both clocks.

use crate::{
    batch::Batch,
    operators::{Collector, Flow, OperatorContext, OperatorMail},
    seam::TaskError,
    state::Slice,
    types::Record,
};

/// The windows of one operator's subtask: `add` takes records, and `fire` emits the results of windows when time has passed their end;
/// `open` comes before both, and the other methods serve snapshots and state that is not in memory. A store never reads a clock: its caller
/// passes the time, [`EventTimeWindows`](super::EventTimeWindows) the watermark and [`ProcessingTimeWindows`](super::ProcessingTimeWindows)
/// the clock's time less 1 ms.
pub trait WindowStore<T, S>: Send + 'static {
    /// The type of the emitted records.
    type Out: Record;

    /// Restores the state in the context's snapshots, as far as it belongs to the subtask's key groups, and registers the metric
    /// `numLateRecordsDropped`. Called once, before any record.
    ///
    /// # Errors
    /// Returns [`TaskError::Deployment`] if the state belongs to windows of another kind, size, slide or offset, or to other types;
    /// [`TaskError::Unreadable`], [`TaskError::Io`] or [`TaskError::Codec`] if it cannot be read or decoded; [`TaskError::User`] if the
    /// task has too many metrics.
    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError>;

    /// Adds the records of a batch to their windows, until the output interrupts the step; the records that are left stay in the batch.
    /// Records whose keys are not resident (their state is not in memory) are kept aside until it has been fetched. All records have an
    /// event time, between the two of `extent`. A late record for a window that was fired and is still kept fires that window once more,
    /// for the record's key; a session that thereby ends later than the time that has passed fires at its new end. A late record that no
    /// window takes goes to the side output of late records, or is dropped and counted; a record between two windows that is not late is
    /// dropped uncounted.
    ///
    /// # Errors
    /// Returns [`TaskError::User`] if the user's code fails, also for a session gap below 1 ms; [`TaskError::Deployment`] if the subtask
    /// does not own a key; [`TaskError::Codec`] if a value that a snapshot needs before it changes cannot be encoded.
    fn add(
        &mut self,
        selector: &S,
        batch: &mut Batch<T>,
        extent: (i64, i64),
        out: &mut Collector<Self::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError>;

    /// Takes the answer to a read of the store's backend: the keys that it fetched become resident, and the records and windows
    /// that wait for them are processed, until the step is interrupted; the store then continues with a mail that it asks for. Does
    /// nothing by default, as in memory, where nothing is fetched.
    ///
    /// # Errors
    /// Returns an error if the state cannot be read, or if the user's code fails.
    fn mail(
        &mut self,
        _selector: &S,
        _mail: OperatorMail,
        _out: &mut Collector<Self::Out>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        Ok(())
    }

    /// Returns true while records, or windows that are being fired, wait until the state of their keys is fetched; false by
    /// default. The caller holds back control elements as long.
    fn waits(&self) -> bool {
        false
    }

    /// Fires the windows whose last millisecond is at most `until`, in milliseconds since 1970, in the order of their last milliseconds,
    /// and discards those that were kept long enough for late records. `i64::MAX` ends all windows. Returns [`Flow::Done`] if all are
    /// fired, also if there were none; [`Flow::More`] if the output is full or the step interrupted before; [`Flow::Waiting`] if keys are
    /// not resident. In the last two cases the caller calls again with the same `until`, in the last one when [`WindowStore::waits`] is
    /// false. An `until` that is smaller than an earlier one fires nothing.
    ///
    /// # Errors
    /// Returns an error if the user's code fails, or if state cannot be read.
    fn fire(
        &mut self,
        until: i64,
        out: &mut Collector<Self::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError>;

    /// Returns a moment, in milliseconds since 1970, that is at or before the end of every window that has records and was not fired.
    /// `None` says that there is no such window; a moment may come without one, left by a window that has grown or is over. The operator
    /// of processing time fires next after this moment.
    fn next_end(&self) -> Option<i64>;

    /// Returns the greatest moment, in milliseconds since 1970, up to which windows of any key group were fired, in this run or
    /// before the restored state was written; `i64::MIN` if none were.
    fn fired_until(&self) -> i64;

    /// Returns the bytes of memory that the windows' tables and queues take, about; what keys and kept values have on the heap does not
    /// count.
    fn memory_bytes(&self) -> u64;

    /// Begins the snapshot of the present state, always a full one, which [`WindowStore::write_snapshot`] writes while records come.
    /// Must not be called while another one is being written. Returns false and does nothing if the store's backend cannot:
    /// [`WindowStore::snapshot`] is called then.
    fn begin_snapshot(&mut self) -> bool;

    /// Writes as much of the snapshot that was begun as the slice (a number of bytes) allows, as
    /// [`Operator::write_snapshot`](crate::operators::Operator::write_snapshot) does. Returns true if the snapshot is complete, false if
    /// this is to be called again.
    ///
    /// # Errors
    /// Returns [`TaskError::Codec`] if a value cannot be encoded.
    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError>;

    /// Drops the snapshot that was begun, as [`Operator::abort_snapshot`](crate::operators::Operator::abort_snapshot) does. Returns
    /// false, and does nothing, if the store has to write it to its end.
    fn abort_snapshot(&mut self) -> bool;

    /// Returns the whole encoded state at once; called only if [`WindowStore::begin_snapshot`] returned false. `None` by default.
    ///
    /// # Errors
    /// Returns an error if the state cannot be read or encoded.
    fn snapshot(&mut self, _context: &OperatorContext) -> Result<Option<Vec<u8>>, TaskError> {
        Ok(None)
    }

    /// Returns true while the caller should hand in no more records, because too many chunks of a snapshot wait to be stored, or
    /// too many records wait for the state of their keys.
    fn full(&self) -> bool;

    /// Returns the number of records that this attempt of the subtask has dropped because they came after the end of the allowed
    /// lateness; 0 if a side output takes such records. Records that fall between two windows and are not late are dropped uncounted.
    fn late_records(&self) -> u64;
}

/// Implements the methods of an [`Operator`](crate::operators::Operator) that concern its state by those of the store in the field
/// `store`.
macro_rules! state_in_store {
    () => {
        fn state_bytes(&self) -> Option<u64> {
            Some(self.store.memory_bytes())
        }

        fn full(&self) -> bool {
            self.store.full()
        }

        fn begin_snapshot(
            &mut self,
            _checkpoint: u64,
            _context: &OperatorContext,
        ) -> Result<bool, TaskError> {
            Ok(self.store.begin_snapshot())
        }

        fn write_snapshot(
            &mut self,
            slice: &mut $crate::state::Slice<'_>,
            context: &OperatorContext,
        ) -> Result<bool, TaskError> {
            self.store.write_snapshot(slice, context)
        }

        fn abort_snapshot(&mut self) -> bool {
            self.store.abort_snapshot()
        }

        fn snapshot(
            &mut self,
            _checkpoint: u64,
            context: &OperatorContext,
        ) -> Result<Option<Vec<u8>>, TaskError> {
            self.store.snapshot(context)
        }
    };
}
pub(super) use state_in_store;
