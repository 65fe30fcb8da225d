//! The calls of a running task to its host, executed on the process's tokio runtime: operator events in order, I/O, timers.
//! Nothing here may block the task's thread or touch operator state; answers arrive through the mailbox.

use super::{mailbox::Mailbox, panics};
use crate::{
    lock,
    memory::allocator,
    seam::{StateChunk, TaskSnapshot, TaskUpcalls},
};
use futures::future::BoxFuture;
use model::{ExecutionAttemptId, OperatorId};
use platform::Platform;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{runtime::Handle, task::AbortHandle};

/// Carries what the tasks of a program host send: events to the coordinators of their operators, and snapshots to the checkpoint storage
/// and the JobMaster. The host implements it for all of its tasks, [`Upcalls`] calls it. No method blocks. For each attempt and
/// checkpoint `store_chunk` may come any number of times, then `acknowledge` once, or `give_up` if the checkpoint was aborted (also if no
/// chunk came). Neither comes if the attempt ends before, or if the barrier of an aborted checkpoint does not reach it. `ended` is the last
/// call for an attempt.
pub trait OperatorEvents: Send + Sync {
    /// Returns a future that sends an event to an operator's coordinator. Its result is the answer, or the reason, as text, why there is
    /// none; the host gives up after 120 s. The future is dropped unfinished if the task ends.
    ///
    /// Without `may_repeat` the coordinator must get the event once at most: an event that may have arrived is not sent again, unless the
    /// coordinator was unavailable for it. A task's next such event is sent only after this future has completed, so that events arrive
    /// in order. With `may_repeat` the event may arrive twice or overtake others, its answer may come late, and no other event waits for
    /// it.
    fn send(
        &self,
        from: ExecutionAttemptId,
        operator: OperatorId,
        event: Vec<u8>,
        may_repeat: bool,
    ) -> BoxFuture<'static, Result<Vec<u8>, String>>;
    /// Takes a chunk of an operator's snapshot for a checkpoint, to be stored while the task still writes the rest of the snapshot.
    ///
    /// # Errors
    /// Returns the chunk itself if chunks are not stored one by one, as by default: the task passes it to
    /// [`OperatorEvents::acknowledge`]. Chunks that nobody keeps, because the state is too large for that, are taken and dropped.
    fn store_chunk(
        &self,
        _from: ExecutionAttemptId,
        _checkpoint: u64,
        _operator: OperatorId,
        chunk: StateChunk,
    ) -> Result<(), StateChunk> {
        Err(chunk)
    }
    /// Returns whether the snapshot that [`OperatorEvents::acknowledge`] takes may contain only what has changed since that of an earlier
    /// checkpoint, as [`TaskUpcalls::stores_changes`] does. `None` by default.
    fn stores_changes(&self) -> Option<u64> {
        None
    }
    /// Drops or deletes the chunks that [`OperatorEvents::store_chunk`] took from an attempt for a checkpoint that was aborted; the
    /// attempt will not acknowledge it. Does nothing by default.
    fn give_up(&self, _from: ExecutionAttemptId, _checkpoint: u64) {}
    /// Takes the report that an attempt has ended and sends nothing more; the chunks of snapshots that it has handed over by
    /// [`OperatorEvents::store_chunk`] and not acknowledged are dropped, and what was stored of them is deleted. Nothing by default.
    fn ended(&self, _attempt: ExecutionAttemptId) {}
    /// Takes the attempt's complete part of a checkpoint; returns at once. Stores the snapshot in the background, and then tells the
    /// JobMaster that it is stored, or why it cannot be, for which the checkpoint is aborted. Not called again for the same checkpoint.
    fn acknowledge(&self, from: ExecutionAttemptId, checkpoint: u64, snapshot: TaskSnapshot);
}

/// The upcalls of one task: its calls to its program host, whose replies come by mail. Dropping the last handle aborts the task's events
/// and I/O that are under way, and reports the end of the attempt to [`OperatorEvents::ended`].
pub struct Upcalls {
    me: Weak<Self>,
    attempt: ExecutionAttemptId,
    mailbox: Arc<Mailbox>,
    events: Arc<dyn OperatorEvents>,
    platform: Platform,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(OperatorId, Vec<u8>, u64)>,
    /// True while a spawned sender works on the queue.
    sending: bool,
    work: Vec<AbortHandle>,
}

impl Upcalls {
    /// Creates the upcalls of an execution attempt, which run on `runtime`; replies go to `mailbox`. At most
    /// [`UPCALLS_MAX`](super::UPCALLS_MAX) upcalls may be unanswered: further ones are answered with an error.
    pub fn new(
        attempt: ExecutionAttemptId,
        mailbox: Arc<Mailbox>,
        events: Arc<dyn OperatorEvents>,
        platform: Platform,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            attempt,
            mailbox,
            events,
            platform,
            runtime,
            state: Mutex::new(State::default()),
        })
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let handle = self.runtime.spawn(work).abort_handle();
        let mut state = lock(&self.state);
        // Handles of finished work are removed now and then, so that the list does not grow.
        if state.work.len() >= 32 {
            state.work.retain(|work| !work.is_finished());
        }
        state.work.push(handle);
    }

    /// Takes the next event to send; `None` ends the sender.
    fn next_event(&self) -> Option<(OperatorId, Vec<u8>, u64)> {
        let mut state = lock(&self.state);
        let next = state.queue.pop_front();
        state.sending = next.is_some();
        next
    }
}

/// Sends the queued events in order until the queue is empty. It holds the upcalls weakly, so that it stops with the task.
async fn send_queued(upcalls: Weak<Upcalls>) {
    loop {
        let Some(task) = upcalls.upgrade() else {
            return;
        };
        let Some((operator, event, ticket)) = task.next_event() else {
            return;
        };
        let answer = task.events.send(task.attempt, operator, event, false);
        let mailbox = Arc::clone(&task.mailbox);
        drop(task);
        mailbox.reply(ticket, answer.await);
    }
}

impl TaskUpcalls for Upcalls {
    fn operator_event(&self, operator: OperatorId, event: Vec<u8>, ticket: u64) {
        if self.mailbox.begin_upcall().is_err() {
            self.mailbox.refuse(ticket, "too many events are unanswered");
            return;
        }
        allocator::hand_over(event.capacity() as u64);
        let start = {
            let mut state = lock(&self.state);
            state.queue.push_back((operator, event, ticket));
            !std::mem::replace(&mut state.sending, true)
        };
        if start {
            self.spawn(send_queued(Weak::clone(&self.me)));
        }
    }

    fn operator_poll(&self, operator: OperatorId, event: Vec<u8>, ticket: u64) {
        if self.mailbox.begin_upcall().is_err() {
            self.mailbox.refuse(ticket, "too many events are unanswered");
            return;
        }
        allocator::hand_over(event.capacity() as u64);
        let answer = self.events.send(self.attempt, operator, event, true);
        let mailbox = Arc::clone(&self.mailbox);
        self.spawn(async move { mailbox.reply(ticket, answer.await) });
    }

    fn spawn_io(&self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u64) {
        if self.mailbox.begin_upcall().is_err() {
            self.mailbox.refuse(ticket, "too many I/O calls are unanswered");
            return;
        }
        let mailbox = Arc::clone(&self.mailbox);
        self.spawn(async move {
            // The work is code of a connector or user: a panic fails that call only.
            let result = panics::catch_in(work).await;
            let result = result.unwrap_or_else(|said| Err(format!("the I/O panicked: {said}")));
            mailbox.reply(ticket, result);
        });
    }

    fn now_unix_ms(&self) -> u64 {
        self.platform.unix_millis()
    }

    fn wake_at(&self, after: Duration, ticket: u64) {
        self.mailbox.wake_at(after, ticket);
    }

    fn store_chunk(
        &self,
        checkpoint: u64,
        operator: OperatorId,
        chunk: StateChunk,
    ) -> Result<(), StateChunk> {
        self.events.store_chunk(self.attempt, checkpoint, operator, chunk)
    }

    fn stores_changes(&self) -> Option<u64> {
        self.events.stores_changes()
    }

    fn give_up(&self, checkpoint: u64) {
        self.events.give_up(self.attempt, checkpoint);
    }

    fn is_woken(&self) -> bool {
        self.mailbox.signal().is_raised()
    }

    fn step_again(&self, _ticket: u64) {
        self.mailbox.signal().raise();
    }

    fn acknowledge(&self, checkpoint: u64, snapshot: TaskSnapshot) {
        self.events.acknowledge(self.attempt, checkpoint, snapshot);
    }
}

impl Drop for Upcalls {
    fn drop(&mut self) {
        for work in lock(&self.state).work.drain(..) {
            work.abort();
        }
        self.events.ended(self.attempt);
    }
}
