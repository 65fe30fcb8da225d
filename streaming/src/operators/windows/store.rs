//! What the operators of windows ask of the windows' contents, whatever clock they go by.

use crate::{
    batch::Batch,
    operators::{Collector, Flow, OperatorContext},
    seam::TaskError,
    types::Record,
};

/// The windows of one operator's subtask: takes records and gives the results of windows when time has passed them. It never
/// asks a clock: time is what it is handed.
pub trait WindowStore<T, S>: Send + 'static {
    /// What goes out.
    type Out: Record;

    /// Begins with the state that the context restores, as far as it is of the subtask's key groups.
    ///
    /// # Errors
    /// When the state is none of these windows.
    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError>;

    /// Adds the records of a batch to their windows, until the output says that the step is over; the others stay. All of them
    /// have a time, between the two of `extent`. A window that was fired before and takes a late record is fired once more,
    /// for the record's key; a record that no window takes is dropped.
    ///
    /// # Errors
    /// When the user's code fails, or a key is not the subtask's.
    fn add(
        &mut self,
        selector: &S,
        batch: &mut Batch<T>,
        extent: (i64, i64),
        out: &mut Collector<Self::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError>;

    /// Fires the windows whose last millisecond is at most `until`, in the order of their last milliseconds. Where the output
    /// takes no more, the answer is [`Flow::More`]: it is called again then, with the same moment.
    ///
    /// # Errors
    /// When the user's code fails.
    fn fire(
        &mut self,
        until: i64,
        out: &mut Collector<Self::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError>;

    /// Returns a moment at which to fire: no window that has records and was not fired ends before it. `None` where there is no
    /// such window.
    fn next_end(&self) -> Option<i64>;

    /// Returns the moment up to which windows were fired, in this run or before the state was written, whatever the key.
    fn fired_until(&self) -> i64;

    /// Returns the bytes of memory that the windows' tables take; the heap of keys and kept values does not count.
    fn memory_bytes(&self) -> u64;

    /// Returns the state.
    ///
    /// # Errors
    /// When a value refuses to be written.
    fn snapshot(&mut self, context: &OperatorContext) -> Result<Vec<u8>, TaskError>;

    /// Returns how many records were dropped since the start because they came after the end of the allowed lateness.
    fn late_records(&self) -> u64;
}
