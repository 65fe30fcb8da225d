//! What a running task asks of its host, over the runtime of the process: operator events in order, I/O,
//! timers. Nothing here may block the task's thread or touch operator state; answers come through the mailbox.

use super::mailbox::Mailbox;
use crate::{lock, seam::TaskUpcalls};
use futures::{FutureExt, future::BoxFuture};
use model::{ExecutionAttemptId, OperatorId};
use platform::Platform;
use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{runtime::Handle, task::AbortHandle};

/// The way to an operator's coordinator.
pub trait OperatorEvents: Send + Sync {
    /// Sends an event and returns the answer. One task's events are sent one after the other.
    fn send(
        &self,
        from: ExecutionAttemptId,
        operator: OperatorId,
        event: Vec<u8>,
    ) -> BoxFuture<'static, Result<Vec<u8>, String>>;
    /// Sends an event that may be sent twice and may overtake others, and returns the answer, which may come late.
    fn poll(
        &self,
        from: ExecutionAttemptId,
        operator: OperatorId,
        event: Vec<u8>,
    ) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        self.send(from, operator, event)
    }
    /// A checkpoint of this attempt is complete.
    fn acknowledge(
        &self,
        from: ExecutionAttemptId,
        checkpoint: u64,
        snapshots: Vec<(OperatorId, Vec<u8>)>,
    );
}

/// The upcalls of one task. I/O that is under way ends with the last handle to it.
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
    /// Whether somebody works on the queue.
    sending: bool,
    work: Vec<AbortHandle>,
}

impl Upcalls {
    /// The upcalls of an attempt.
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
        // Finished ones go now and then, so that the list stays as long as what runs.
        if state.work.len() >= 32 {
            state.work.retain(|work| !work.is_finished());
        }
        state.work.push(handle);
    }

    /// The next event to send; `None` ends the sender.
    fn next_event(&self) -> Option<(OperatorId, Vec<u8>, u64)> {
        let mut state = lock(&self.state);
        let next = state.queue.pop_front();
        state.sending = next.is_some();
        next
    }
}

/// Sends the queued events in order. Holds the upcalls weakly: a task that has ended stops it.
async fn send_queued(upcalls: Weak<Upcalls>) {
    loop {
        let Some(task) = upcalls.upgrade() else {
            return;
        };
        let Some((operator, event, ticket)) = task.next_event() else {
            return;
        };
        let answer = task.events.send(task.attempt, operator, event);
        let mailbox = Arc::clone(&task.mailbox);
        drop(task);
        mailbox.reply(ticket, answer.await);
    }
}

impl TaskUpcalls for Upcalls {
    fn operator_event(&self, operator: OperatorId, event: Vec<u8>, ticket: u64) {
        if self.mailbox.begin_upcall().is_err() {
            let why = "too many events are unanswered";
            self.mailbox.reply(ticket, Err(why.to_owned()));
            return;
        }
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
            let why = "too many events are unanswered";
            self.mailbox.reply(ticket, Err(why.to_owned()));
            return;
        }
        let answer = self.events.poll(self.attempt, operator, event);
        let mailbox = Arc::clone(&self.mailbox);
        self.spawn(async move { mailbox.reply(ticket, answer.await) });
    }

    fn spawn_io(&self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u64) {
        if self.mailbox.begin_upcall().is_err() {
            let why = "too many I/O calls are unanswered";
            self.mailbox.reply(ticket, Err(why.to_owned()));
            return;
        }
        let mailbox = Arc::clone(&self.mailbox);
        self.spawn(async move {
            // The work is a connector's or a user's: its panic is that call's failure.
            let result = AssertUnwindSafe(work).catch_unwind().await;
            let result = result.unwrap_or_else(|_| Err("the I/O panicked".to_owned()));
            mailbox.reply(ticket, result);
        });
    }

    fn now_unix_ms(&self) -> u64 {
        self.platform.unix_millis()
    }

    fn wake_at(&self, after: Duration, ticket: u64) {
        self.mailbox.wake_at(after, ticket);
    }

    fn acknowledge(&self, checkpoint: u64, snapshots: Vec<(OperatorId, Vec<u8>)>) {
        self.events.acknowledge(self.attempt, checkpoint, snapshots);
    }
}

impl Drop for Upcalls {
    fn drop(&mut self) {
        for work in lock(&self.state).work.drain(..) {
            work.abort();
        }
    }
}
