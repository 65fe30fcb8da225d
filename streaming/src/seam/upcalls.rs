//! The calls of a running task to its host. Values and one trait only.

#[cfg(doc)]
use super::Mail;
use bytes::Bytes;
use futures::future::BoxFuture;
use model::OperatorId;
use std::time::Duration;

/// The calls of a running task to its host. None of them blocks; replies come back as [`Mail`] with the call's ticket.
pub trait TaskUpcalls: Send + Sync {
    /// Sends an event to the operator's coordinator. The answer comes as [`Mail::Reply`]. A task's events arrive in order: each is
    /// sent after the answer to the one before.
    fn operator_event(&self, operator: OperatorId, event: Vec<u8>, ticket: u64);
    /// Sends an event like [`TaskUpcalls::operator_event`], but out of order: it may overtake others, be overtaken or arrive twice.
    /// Its answer may come late, and no other event waits for it.
    fn operator_poll(&self, operator: OperatorId, event: Vec<u8>, ticket: u64) {
        self.operator_event(operator, event, ticket);
    }
    /// Runs I/O on the process's tokio runtime. The result comes as [`Mail::Reply`]; the I/O is aborted when the task ends.
    fn spawn_io(&self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u64);
    /// Returns the time in milliseconds since 1970.
    fn now_unix_ms(&self) -> u64;
    /// Sends [`Mail::Timer`] with this ticket after the duration `after`.
    fn wake_at(&self, after: Duration, ticket: u64);
    /// Takes a chunk of an operator's snapshot while the snapshot is being written. Chunks may be stored in any order and joined at
    /// will. The chunk's memory is used again when it is dropped; the operator writes no more than it must while eight chunks are
    /// not dropped yet, and takes no more records if a sixteenth of its state waits as well.
    ///
    /// # Errors
    /// Returns the chunk if the host does not store chunks one by one; this and all later chunks then go with the acknowledgement.
    fn store_chunk(
        &self,
        _checkpoint: u64,
        _operator: OperatorId,
        chunk: StateChunk,
    ) -> Result<(), StateChunk> {
        Err(chunk)
    }
    /// Gives up what [`TaskUpcalls::store_chunk`] has taken for a checkpoint: it was aborted, and no acknowledgement follows.
    fn give_up(&self, _checkpoint: u64) {}
    /// Returns true if the task has been woken since it last waited: input, room in an output or mail may be there.
    fn is_woken(&self) -> bool {
        false
    }
    /// Makes the task's next wait end at once. The host may send [`Mail::Timer`] with this ticket to do so.
    fn step_again(&self, ticket: u64) {
        self.wake_at(Duration::ZERO, ticket);
    }
    /// Reports that this subtask has completed its part of a checkpoint.
    fn acknowledge(&self, checkpoint: u64, snapshot: TaskSnapshot);
}

/// A part of an operator's snapshot that can be restored without the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChunk {
    /// The key groups that its entries may have, ascending; `None`: any that the subtask owns.
    pub groups: Option<Vec<u32>>,
    /// Its content; never empty.
    pub bytes: Bytes,
}

/// A subtask's part of a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskSnapshot {
    /// True if the subtask had reached the end of its data before the barrier.
    pub ended: bool,
    /// The encoded snapshot of each operator that has state, as chunks that belong together; none if the host has all of them.
    pub operators: Vec<(OperatorId, Vec<Bytes>)>,
}
