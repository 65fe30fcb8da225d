//! The upcalls of tasks in the harness: a clock that jumps, events for coordinators, I/O on a runtime of the harness.

use super::States;
use crate::{
    lock,
    operators::join_chunks,
    seam::{Mail, OnFailure, TaskSnapshot, TaskUpcalls},
};
use futures::future::BoxFuture;
use model::{ExecutionAttemptId, OperatorId};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

/// True if a task has a reason to be stepped.
#[derive(Debug)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn new(set: bool) -> Self {
        Self(AtomicBool::new(set))
    }
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// An event that waits for its coordinator.
pub(super) struct Asked {
    pub(super) from: ExecutionAttemptId,
    pub(super) operator: OperatorId,
    pub(super) event: Vec<u8>,
    pub(super) ticket: u64,
}

#[derive(Default)]
struct State {
    now_ms: u64,
    timers: BTreeMap<(u64, u64), (ExecutionAttemptId, u64)>,
    next: u64,
    events: VecDeque<Asked>,
    mail: BTreeMap<ExecutionAttemptId, Vec<Mail>>,
    io_under_way: usize,
    checkpoints: u64,
    acknowledged: BTreeMap<u64, (usize, usize)>,
    /// The snapshots of the tasks in each checkpoint, by attempt.
    snapshots: BTreeMap<u64, BTreeMap<ExecutionAttemptId, TaskSnapshot>>,
    /// A coordinator's name, and why it failed outside of a call.
    failure: Option<(String, String)>,
}

type IoDone = (ExecutionAttemptId, u64, Result<Vec<u8>, String>);

/// The clock, timers, mail, events and I/O of one run.
pub(super) struct World {
    state: Mutex<State>,
    runtime: tokio::runtime::Runtime,
    io: Mutex<mpsc::Receiver<IoDone>>,
    io_done: mpsc::Sender<IoDone>,
}

/// Time at which the harness's clock begins, in milliseconds since 1970.
const BEGIN_MS: u64 = 1_700_000_000_000;

impl World {
    pub(super) fn new(runtime: tokio::runtime::Runtime) -> Self {
        let (io_done, io) = mpsc::channel();
        let state = State { now_ms: BEGIN_MS, ..State::default() };
        Self { state: Mutex::new(state), runtime, io: Mutex::new(io), io_done }
    }

    pub(super) fn elapsed_ms(&self) -> u64 {
        lock(&self.state).now_ms - BEGIN_MS
    }
    pub(super) fn acknowledged(&self) -> BTreeMap<u64, (usize, usize)> {
        lock(&self.state).acknowledged.clone()
    }
    /// Returns the states of the newest checkpoint that all of `tasks` subtasks have acknowledged.
    pub(super) fn states(&self, tasks: usize) -> States {
        let state = lock(&self.state);
        let mut complete = state.snapshots.values().rev().filter(|of| of.len() == tasks);
        let mut states = States::new();
        for (operator, chunks) in
            complete.next().into_iter().flatten().flat_map(|(_, task)| &task.operators)
        {
            states.entry(*operator).or_default().push(join_chunks(chunks));
        }
        states
    }
    /// Returns how many subtasks have acknowledged a checkpoint.
    pub(super) fn acknowledgements(&self, checkpoint: u64) -> usize {
        lock(&self.state).acknowledged.get(&checkpoint).map_or(0, |(subtasks, _)| *subtasks)
    }
    pub(super) fn next_checkpoint(&self) -> u64 {
        let mut state = lock(&self.state);
        state.checkpoints += 1;
        state.checkpoints
    }
    pub(super) fn on_failure(self: &Arc<Self>, coordinator: &str) -> OnFailure {
        let (world, name) = (self.clone(), coordinator.to_owned());
        OnFailure::new(move |why| lock(&world.state).failure = Some((name.clone(), why)))
    }
    pub(super) fn failure(&self) -> Option<(String, String)> {
        lock(&self.state).failure.take()
    }
    pub(super) fn take_events(&self) -> VecDeque<Asked> {
        std::mem::take(&mut lock(&self.state).events)
    }
    pub(super) fn take_mail(&self, of: ExecutionAttemptId) -> Vec<Mail> {
        lock(&self.state).mail.remove(&of).unwrap_or_default()
    }
    pub(super) fn post(&self, to: ExecutionAttemptId, mail: Mail) {
        lock(&self.state).mail.entry(to).or_default().push(mail);
    }

    /// Drops timers, events and mail, after all attempts have ended.
    pub(super) fn forget(&self) {
        let mut state = lock(&self.state);
        state.timers.clear();
        state.events.clear();
        state.mail.clear();
    }

    /// Waits for I/O, or jumps to the next timer. Returns whether mail or events are there.
    pub(super) fn wait(&self) -> bool {
        loop {
            let io_under_way = lock(&self.state).io_under_way > 0;
            if io_under_way && self.turn_of_io() {
                return true;
            }
            let timer = lock(&self.state).timers.pop_first();
            if let Some(((due, _), (attempt, ticket))) = timer {
                let mut state = lock(&self.state);
                state.now_ms = state.now_ms.max(due);
                drop(state);
                self.post(attempt, Mail::Timer { ticket });
                return true;
            }
            if !io_under_way {
                return !lock(&self.state).mail.is_empty() || !lock(&self.state).events.is_empty();
            }
        }
    }

    /// Runs the I/O runtime, which has no thread but this one, for a millisecond. Returns whether some I/O is done, and posts its
    /// result.
    fn turn_of_io(&self) -> bool {
        self.runtime.block_on(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
        });
        let Ok((attempt, ticket, result)) = lock(&self.io).try_recv() else { return false };
        lock(&self.state).io_under_way -= 1;
        self.post(attempt, Mail::Reply { ticket, result });
        true
    }
}

/// The upcalls of one attempt.
pub(super) struct Upcalls {
    world: Arc<World>,
    attempt: ExecutionAttemptId,
    woken: Arc<Flag>,
}

impl Upcalls {
    pub(super) fn new(world: Arc<World>, attempt: ExecutionAttemptId, woken: Arc<Flag>) -> Self {
        Self { world, attempt, woken }
    }
}

impl TaskUpcalls for Upcalls {
    fn operator_event(&self, operator: OperatorId, event: Vec<u8>, ticket: u64) {
        let asked = Asked { from: self.attempt, operator, event, ticket };
        lock(&self.world.state).events.push_back(asked);
    }
    fn spawn_io(&self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u64) {
        lock(&self.world.state).io_under_way += 1;
        let (attempt, done) = (self.attempt, self.world.io_done.clone());
        self.world.runtime.spawn(async move {
            // The run may be over by now.
            let _ = done.send((attempt, ticket, work.await));
        });
    }
    fn now_unix_ms(&self) -> u64 {
        lock(&self.world.state).now_ms
    }
    fn wake_at(&self, after: Duration, ticket: u64) {
        let mut state = lock(&self.world.state);
        let due = state.now_ms + u64::try_from(after.as_millis()).unwrap_or(u64::MAX / 2);
        state.next += 1;
        let number = state.next;
        state.timers.insert((due, number), (self.attempt, ticket));
    }
    fn acknowledge(&self, checkpoint: u64, snapshot: TaskSnapshot) {
        self.woken.set();
        let mut state = lock(&self.world.state);
        let entry = state.acknowledged.entry(checkpoint).or_default();
        entry.0 += 1;
        entry.1 += snapshot.operators.len();
        state.snapshots.entry(checkpoint).or_default().insert(self.attempt, snapshot);
    }
}
