//! The context that a keyed function gets beside the record and the key's state. It must never give access to the state of another key.

use crate::{
    batch::NO_TIME,
    operators::{
        Metrics, OperatorContext,
        timers::{TimerService, Timers},
    },
    state::KeyAddress,
};

/// The context of one call of a keyed function, for a record or a timer: its key and time, the watermark, and the key's timers and the
/// operator's metrics, which the function can change. The function gets the record and the key's state beside it.
pub struct Context<'a, K> {
    pub(super) key: &'a K,
    pub(super) at: KeyAddress,
    pub(super) operator: &'a OperatorContext,
    pub(super) timestamp: i64,
    pub(super) watermark: i64,
    pub(super) timers: &'a mut Timers<K>,
}

impl<K> Context<'_, K> {
    /// Returns the key of the record, or of the timer.
    pub fn key(&self) -> &K {
        self.key
    }
    /// Returns the event time of the record, or the moment of the timer, also of one of processing time, in milliseconds since 1970;
    /// `None` if the record has no event time. A timer that depends on it needs it in a variable first, see [`Context::timers`].
    pub fn timestamp(&self) -> Option<i64> {
        (self.timestamp != NO_TIME).then_some(self.timestamp)
    }
    /// Returns the operator's watermark in milliseconds since 1970; `None` before the first watermark. It is `i64::MAX` once bounded input
    /// has ended. In `on_timer` of event time it is the watermark that fires the timer, not the timer's moment. A restored operator has
    /// that of the checkpoint, after a change of the parallelism the least one that those former subtasks had whose keys it takes over.
    pub fn watermark(&self) -> Option<i64> {
        (self.watermark != i64::MIN).then_some(self.watermark)
    }
    /// Returns the service that sets and deletes timers of this key. It borrows the context mutably: read what a timer depends on into a
    /// variable before the call. `ctx.timers().event_time(ctx.timestamp()..)` does not compile (E0502).
    ///
    /// ```
    /// # use streaming::operators::{BoxError, Context};
    /// # fn after_ten_seconds(ctx: &mut Context<'_, String>) -> Result<(), BoxError> {
    /// let at = ctx.timestamp().ok_or("a record without an event time")?;
    /// ctx.timers().event_time(at + 10_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn timers(&mut self) -> TimerService<'_, K> {
        TimerService { timers: self.timers, key: self.key, at: self.at }
    }
    /// Returns the metrics of this operator's subtask, which REST shows; they are not per key. Looking a metric up takes a lock: do it in
    /// `open`, by [`OperatorContext::metrics`], not per record.
    pub fn metrics(&self) -> Metrics<'_> {
        self.operator.metrics()
    }
    /// Returns the context of the operator: its subtask, the job's options, the machine's clock. Answers to requests that are made with it,
    /// such as `wake_after` or `spawn_io`, do not reach the function: timers are set by [`Context::timers`].
    pub fn operator(&self) -> &OperatorContext {
        self.operator
    }
}
