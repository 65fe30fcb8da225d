//! The calls of a running task to its host. Values and one trait only.

#[cfg(doc)]
use super::Mail;
use bytes::Bytes;
use futures::future::BoxFuture;
use model::OperatorId;
use std::time::Duration;

/// The calls of a running task to its host. None of them blocks; answers come later as [`Mail`] with the call's ticket, between two
/// steps. While 4,096 events (polls included) and I/O calls of the task are unanswered, further ones are not made, and answered with an
/// error; timers are not counted. The host makes the upcalls of an attempt and passes them in `SubtaskContext::upcalls`.
///
/// For each checkpoint whose barrier has passed, the task may hand over chunks of its operators' snapshots by `store_chunk`, and then calls
/// `acknowledge` once, or `give_up` if the checkpoint was aborted meanwhile. Neither is called if the task ends before.
pub trait TaskUpcalls: Send + Sync {
    /// Sends an event to the operator's coordinator; returns at once. The answer, or the reason why there is none, comes as [`Mail::Reply`]
    /// with `ticket`, within 120 s of the event's turn. A task's events arrive in order: each is sent after the answer to the one before.
    fn operator_event(&self, operator: OperatorId, event: Vec<u8>, ticket: u64);
    /// Sends an event like [`TaskUpcalls::operator_event`], but out of order: it may overtake others, be overtaken or arrive twice. Its
    /// answer may come late, and no other event waits for it: after 60 s without an answer the event is sent again, and after 120 s the
    /// reply is an error. By default the same as [`TaskUpcalls::operator_event`].
    fn operator_poll(&self, operator: OperatorId, event: Vec<u8>, ticket: u64) {
        self.operator_event(operator, event, ticket);
    }
    /// Runs the future `work`, some I/O, on the process's tokio runtime. Its result comes as [`Mail::Reply`] with `ticket`, an error also
    /// if it panics, with the panic's message and place; the I/O is aborted when the task ends.
    fn spawn_io(&self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u64);
    /// Returns the time of the machine's clock in milliseconds since 1970.
    fn now_unix_ms(&self) -> u64;
    /// Sends [`Mail::Timer`] with `ticket` once the duration `after` has passed on the monotonic clock, or later if the task is busy. A
    /// timer cannot be removed, and several may have one ticket.
    fn wake_at(&self, after: Duration, ticket: u64);
    /// Hands a chunk of an operator's snapshot to the host, which stores it while the operator writes the next ones. The host may store
    /// chunks in any order and join several. A chunk's memory is used again when the host drops the chunk. While eight chunks are not
    /// dropped yet, the operator writes only what changing records force it to; if a sixteenth of its state (at most 64 MiB) waits as
    /// well, it takes no more records.
    ///
    /// # Errors
    /// Returns the chunk itself if the host does not store chunks one by one, as by default; it goes with the acknowledgement then. A host
    /// that does not keep so much state takes later chunks nevertheless and drops them, and the checkpoint fails.
    fn store_chunk(
        &self,
        _checkpoint: u64,
        _operator: OperatorId,
        chunk: StateChunk,
    ) -> Result<(), StateChunk> {
        Err(chunk)
    }
    /// Returns the size in bytes up to which a snapshot should contain all state, because it needs no object then; a larger one may contain
    /// only what has changed since that of an earlier checkpoint, and the host keeps the places of both. `None`, the default: no snapshot
    /// may.
    fn stores_changes(&self) -> Option<u64> {
        None
    }
    /// Makes the host drop or delete the chunks that [`TaskUpcalls::store_chunk`] has taken for a checkpoint that was aborted; the task
    /// does not acknowledge it. Returns at once. Also called if no chunk was handed over. Does nothing by default.
    fn give_up(&self, _checkpoint: u64) {}
    /// Returns true if the task has been woken since it last waited: input, room in an output or mail may be there. False by default.
    fn is_woken(&self) -> bool {
        false
    }
    /// Makes the task's next wait end at once, so that the task is stepped although nothing came. By default sets a timer without delay,
    /// so that [`Mail::Timer`] with `ticket` comes; other hosts may send no mail.
    fn step_again(&self, ticket: u64) {
        self.wake_at(Duration::ZERO, ticket);
    }
    /// Reports that this subtask has completed its part of a checkpoint; returns at once. The host stores the snapshot in the background
    /// and then tells the JobMaster, which may still abort the checkpoint. If the snapshot cannot be stored, the host tells the JobMaster
    /// that, and the checkpoint is aborted; the task learns of an abort only by [`Mail::NotifyAborted`].
    fn acknowledge(&self, checkpoint: u64, snapshot: TaskSnapshot);
}

/// A part of an operator's snapshot that can be restored without the other parts; one of a snapshot of changes, on top of its base.
/// Operators with keyed state write their snapshots in such chunks, and hand each one to [`TaskUpcalls::store_chunk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChunk {
    /// The key groups that the chunk's entries may have, ascending; `None`: any that the subtask owns.
    pub groups: Option<Vec<u32>>,
    /// True if its entries were written before their turn, because they were about to change: its groups are not near those of the chunks
    /// before and after it.
    pub is_early: bool,
    /// The encoded entries; never empty. Each chunk has the form of a whole snapshot, so that it can be read alone.
    pub bytes: Bytes,
}

/// A subtask's part of a checkpoint: the snapshots of its operators at the barrier. The task makes it when all of them are written, and
/// hands it to [`TaskUpcalls::acknowledge`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskSnapshot {
    /// True if the subtask had reached the end of its data before the barrier.
    pub ended: bool,
    /// The encoded snapshot of each operator that has state, as chunks that belong together. The list of chunks is empty if the host has
    /// taken all of them by [`TaskUpcalls::store_chunk`].
    pub operators: Vec<(OperatorId, Vec<Bytes>)>,
    /// The operators whose snapshots a later one may build on, each with the number of the complete checkpoint whose snapshot of the same
    /// operator this one is restored on top of; `None` for a full snapshot.
    pub bases: Vec<(OperatorId, Option<u64>)>,
    /// The longest time for which the task has handled no records because of the snapshot: that of the operators at the barrier, with the
    /// slices of the snapshot that were written after it while input waited, or such slices alone. The time for which a store that is
    /// slower than the task held up the task is not counted, nor is that in which a function that takes a list away encodes what is not
    /// written.
    pub pause: Duration,
}
