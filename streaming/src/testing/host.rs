//! The task's host in a test of one operator: its clock is moved by hand, and I/O is done before the call that asks for it returns.

use crate::{
    lock,
    operators::{ChainShared, OnePiece, OperatorContext, OperatorMail, split_ticket},
    seam::{Interrupt, TaskSnapshot, TaskUpcalls},
};
use futures::future::BoxFuture;
use model::{ExecutionAttemptId, JobId, JobVertexId, NodeId, OperatorId};
use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex, mpsc},
    time::Duration,
};
use tokio::runtime::Runtime;

/// Name of the operator.
pub(super) const OPERATOR: &str = "test";
/// Id of the operator under test.
pub(super) const OPERATOR_ID: OperatorId = OperatorId(0);
/// The node of the operator under test.
pub(super) const NODE: NodeId = NodeId(0);

type Answer = Result<Vec<u8>, String>;

#[derive(Default)]
struct State {
    now_ms: u64,
    /// Tickets of timers, by due time (milliseconds) and order of registration.
    timers: BTreeMap<(u64, u64), u64>,
    asked: u64,
    replies: VecDeque<(u64, Answer)>,
    /// Polls of a source's reader that its enumerator has not yet been given.
    polls: VecDeque<(u64, Vec<u8>)>,
}

/// Stands in for the task's host.
#[derive(Default)]
pub(crate) struct Host {
    state: Mutex<State>,
}

impl Host {
    /// Takes out the next timer that is due at `until_ms` or before, and moves the clock to its due time. Returns its ticket, or
    /// `None` if no timer is due.
    pub(super) fn next_timer(&self, until_ms: u64) -> Option<u64> {
        let mut state = lock(&self.state);
        let entry = state.timers.first_entry().filter(|entry| entry.key().0 <= until_ms)?;
        let ((due, _), ticket) = entry.remove_entry();
        state.now_ms = state.now_ms.max(due);
        Some(ticket)
    }
    /// Moves the clock forward to `ms` milliseconds; never back.
    pub(super) fn set_clock(&self, ms: u64) {
        let mut state = lock(&self.state);
        state.now_ms = state.now_ms.max(ms);
    }
    /// Takes out the next poll that is meant for the source's enumerator: its ticket and its bytes.
    pub(super) fn next_poll(&self) -> Option<(u64, Vec<u8>)> {
        lock(&self.state).polls.pop_front()
    }
    /// Stores an answer of the enumerator, which [`Host::next_reply`] returns.
    pub(super) fn answered(&self, ticket: u64, answer: Answer) {
        lock(&self.state).replies.push_back((ticket, answer));
    }
    /// Returns whether an answer waits for the operator.
    pub(super) fn has_reply(&self) -> bool {
        !lock(&self.state).replies.is_empty()
    }
    /// Takes out the next answer for the operator: its ticket and the answer.
    pub(super) fn next_reply(&self) -> Option<(u64, Answer)> {
        lock(&self.state).replies.pop_front()
    }
}

impl TaskUpcalls for Host {
    fn operator_event(&self, _operator: OperatorId, _event: Vec<u8>, ticket: u64) {
        let none = "an operator under test has no coordinator".to_owned();
        lock(&self.state).replies.push_back((ticket, Err(none)));
    }
    fn operator_poll(&self, _operator: OperatorId, event: Vec<u8>, ticket: u64) {
        lock(&self.state).polls.push_back((ticket, event));
    }
    fn spawn_io(&self, work: BoxFuture<'static, Answer>, ticket: u64) {
        let answer = block_on(work);
        lock(&self.state).replies.push_back((ticket, answer));
    }
    fn now_unix_ms(&self) -> u64 {
        lock(&self.state).now_ms
    }
    fn wake_at(&self, after: Duration, ticket: u64) {
        let mut state = lock(&self.state);
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let due = (state.now_ms.saturating_add(after), state.asked);
        state.asked += 1;
        state.timers.insert(due, ticket);
    }
    fn acknowledge(&self, _checkpoint: u64, _snapshot: TaskSnapshot) {}
}

/// Runs I/O on a runtime of its own and waits for it. The test itself may run inside of another runtime, which would forbid that a
/// future is waited for on its thread.
fn block_on(work: BoxFuture<'static, Answer>) -> Answer {
    static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
    });
    let runtime = RUNTIME.as_ref().map_err(ToString::to_string)?;
    let (done, answer) = mpsc::channel();
    runtime.spawn(async move {
        // The receiver waits below.
        let _ = done.send(work.await);
    });
    answer.recv().unwrap_or_else(|_| Err("the I/O of the operator panicked".to_owned()))
}

/// Returns an answer as mail for the operator.
pub(super) fn reply(ticket: u64, result: Answer) -> OperatorMail {
    OperatorMail::Reply { ticket: split_ticket(ticket).1, result }
}

/// Returns a timer that is due as mail for the operator.
pub(super) fn timer(ticket: u64) -> OperatorMail {
    OperatorMail::Timer { ticket: split_ticket(ticket).1 }
}

/// Returns the context of an operator under test, with its place: subtask (from 0) and parallelism.
#[cfg(test)]
pub(crate) fn context(
    place: (u32, u32),
    options: BTreeMap<String, String>,
    interrupt: Interrupt,
    upcalls: Arc<dyn TaskUpcalls>,
) -> OperatorContext {
    context_of(JobId(0), place, 0, options, interrupt, upcalls)
}

/// Returns the context of a source under test, with its place: subtask (from 0) and parallelism. The subtask takes checkpoints also after
/// the end of its data, as in a job that takes any. `restored_at_end`: it had reached that end in the checkpoint that it is restored from.
pub(super) fn context_of_source(
    place: (u32, u32),
    restored_at_end: bool,
    options: BTreeMap<String, String>,
    upcalls: Arc<dyn TaskUpcalls>,
) -> OperatorContext {
    let shared = shared_of(JobId(0), place, 0, options, Interrupt::default(), upcalls);
    context_in(ChainShared { restored_at_end, ends_with_checkpoint: true, ..shared })
}

/// Returns the context of an operator under test: of a job, in its place, and in that attempt (from 0).
pub(super) fn context_of(
    job_id: JobId,
    place: (u32, u32),
    attempt: u32,
    options: BTreeMap<String, String>,
    interrupt: Interrupt,
    upcalls: Arc<dyn TaskUpcalls>,
) -> OperatorContext {
    context_in(shared_of(job_id, place, attempt, options, interrupt, upcalls))
}

/// Returns the context of the operator under test, the first one of a chain. It restores nothing.
fn context_in(shared: ChainShared) -> OperatorContext {
    OperatorContext {
        node: NODE,
        operator: OPERATOR_ID,
        name: OPERATOR.into(),
        restore: Mutex::default(),
        dropped: Mutex::default(),
        one_piece: OnePiece::default(),
        shared: Arc::new(shared),
    }
}

impl OperatorContext {
    /// Returns the same context with other snapshots to restore from.
    pub(crate) fn restoring(&self, restore: Vec<Vec<u8>>) -> Self {
        let (name, shared) = (self.name.clone(), self.shared.clone());
        let (restore, dropped) = (Mutex::new(restore.into()), Mutex::default());
        let (node, operator, one_piece) = (self.node, self.operator, OnePiece::default());
        Self { node, operator, name, restore, dropped, one_piece, shared }
    }
}

/// Returns what the operators of a chain under test share. The chain is not restored at its end, and finishes without a checkpoint.
fn shared_of(
    job_id: JobId,
    (subtask, parallelism): (u32, u32),
    attempt: u32,
    options: BTreeMap<String, String>,
    interrupt: Interrupt,
    upcalls: Arc<dyn TaskUpcalls>,
) -> ChainShared {
    let attempt = ExecutionAttemptId { graph: 0, vertex: JobVertexId(0), subtask, attempt };
    ChainShared {
        job_id,
        subtask,
        parallelism,
        max_parallelism: crate::state::default_max_parallelism(parallelism),
        attempt,
        upcalls,
        tmp_dir: PathBuf::new(),
        options: Arc::new(options),
        devices: Arc::default(),
        counters: Arc::default(),
        interrupt,
        restored_at_end: false,
        ends_with_checkpoint: false,
        stopped: false.into(),
        cancelled: false.into(),
        aborted: 0.into(),
        snapshots: Mutex::default(),
        bases: Mutex::default(),
    }
}
