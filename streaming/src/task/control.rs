//! The state of one attempt as others see it: who may stop it, and in which order its states are told. It must
//! never run user code.

use super::{
    signal::TaskSignal,
    wakes::{OwedWakes, Sleeper},
};
use crate::{
    lock,
    seam::{TaskCounters, TaskError},
};
use model::{ExecutionAttemptId, ExecutionState, FailureCause};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Told of every state of every task of a host, in order per task. Called with the task's state locked: it must
/// only queue.
pub trait TaskObserver: Send + Sync {
    /// The attempt is in this state now.
    fn changed(&self, task: &TaskControl, state: ExecutionState, cause: Option<FailureCause>);
    /// The task was asked to stop and must do so within `task.cancellation.timeout`.
    fn stopping(&self, task: &Arc<TaskControl>);
}

/// The handle of one attempt.
pub struct TaskControl {
    attempt: ExecutionAttemptId,
    name: String,
    signal: TaskSignal,
    counters: Arc<TaskCounters>,
    observer: Arc<dyn TaskObserver>,
    state: Mutex<State>,
    stop: AtomicBool,
    succeeded: AtomicBool,
    /// Steps that the task has begun, and how many that were when it was last looked at.
    steps: AtomicU64,
    steps_seen: AtomicU64,
    owed: OwedWakes,
}

#[derive(Debug)]
struct State {
    state: ExecutionState,
    failure: Option<FailureCause>,
}

impl TaskControl {
    /// A task that is being deployed; its observer is told so.
    pub fn new(
        attempt: ExecutionAttemptId,
        name: String,
        observer: Arc<dyn TaskObserver>,
    ) -> Arc<Self> {
        let task = Self {
            attempt,
            name,
            signal: TaskSignal::new(),
            counters: Arc::new(TaskCounters::default()),
            observer,
            state: Mutex::new(State { state: ExecutionState::Deploying, failure: None }),
            stop: AtomicBool::new(false),
            succeeded: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            steps_seen: AtomicU64::new(0),
            owed: OwedWakes::default(),
        };
        task.observer.changed(&task, ExecutionState::Deploying, None);
        Arc::new(task)
    }

    /// Which attempt.
    pub fn attempt(&self) -> ExecutionAttemptId {
        self.attempt
    }
    /// For people, e.g. `split -> count (3/8)`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// What wakes it.
    pub fn signal(&self) -> &TaskSignal {
        &self.signal
    }
    /// What it has done so far.
    pub fn counters(&self) -> &Arc<TaskCounters> {
        &self.counters
    }
    /// Its state.
    pub fn state(&self) -> ExecutionState {
        lock(&self.state).state
    }
    /// Whether it was asked to stop, or has failed from outside.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
    /// Whether its work was done when its ports were dropped.
    pub fn has_succeeded(&self) -> bool {
        self.succeeded.load(Ordering::Acquire)
    }

    /// Asks it to stop. A task that has ended, or is stopping already, stays as it is.
    pub fn cancel(self: &Arc<Self>) {
        {
            let mut state = lock(&self.state);
            if state.state.is_terminal() || state.state == ExecutionState::Canceling {
                return;
            }
            state.state = ExecutionState::Canceling;
            self.observer.changed(self, ExecutionState::Canceling, None);
        }
        self.stop_now();
    }

    /// Fails it from outside (a lost connection, a superseded attempt). The first cause wins.
    pub fn fail(self: &Arc<Self>, cause: FailureCause) {
        {
            let mut state = lock(&self.state);
            if state.state.is_terminal()
                || state.state == ExecutionState::Canceling
                || state.failure.is_some()
            {
                return;
            }
            state.failure = Some(cause);
        }
        self.stop_now();
    }

    fn stop_now(self: &Arc<Self>) {
        if !self.stop.swap(true, Ordering::AcqRel) {
            self.observer.stopping(self);
        }
        self.signal.interrupt();
    }

    /// Begins a step: what asked for an end of the last one is looked at now.
    pub(crate) fn begin_step(&self) {
        self.signal.interruption().clear();
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a step that has lasted since the last call, behind the record at work, so that timers are looked at and what
    /// waits for its batch to fill is sent. Called at regular times.
    pub fn end_long_step(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        if self.steps_seen.swap(steps, Ordering::Relaxed) == steps {
            // Nothing came for a task that is parked: it is not woken.
            self.signal.interruption().raise();
        }
        self.owed.give();
    }

    /// Wakes somebody at the end of the step.
    pub(crate) fn owe_wake(&self, sleeper: Arc<dyn Sleeper>) {
        self.owed.owe(sleeper);
    }

    /// Gives the wake-ups that are owed: at the end of each step, before the task parks, and when it is over.
    pub(crate) fn give_wakes(&self) {
        self.owed.give();
    }

    /// Tells the observer its state again, with newer counts, while it runs.
    pub fn tell_again(&self) {
        let state = lock(&self.state);
        if state.state == ExecutionState::Running {
            self.observer.changed(self, ExecutionState::Running, None);
        }
    }

    /// Enters INITIALIZING or RUNNING, unless it was asked to stop.
    pub(crate) fn advance(&self, to: ExecutionState) {
        let mut state = lock(&self.state);
        if !state.state.is_terminal()
            && state.state != ExecutionState::Canceling
            && state.failure.is_none()
        {
            state.state = to;
            self.observer.changed(self, to, None);
        }
    }

    /// Its work is done: ports that are dropped from here on end well.
    pub(crate) fn set_succeeded(&self) {
        self.succeeded.store(true, Ordering::Release);
    }

    /// Ends it: as cancelled if it was told to, else as failed from outside, else with the outcome of its run.
    /// Also for a task that never got a thread.
    pub fn end(&self, outcome: Result<(), FailureCause>) {
        let mut state = lock(&self.state);
        if state.state.is_terminal() {
            return;
        }
        let (last, cause) = if state.state == ExecutionState::Canceling {
            (ExecutionState::Canceled, None)
        } else if let Some(cause) = state.failure.take() {
            (ExecutionState::Failed, Some(cause))
        } else {
            match outcome {
                Ok(()) => (ExecutionState::Finished, None),
                Err(cause) => (ExecutionState::Failed, Some(cause)),
            }
        };
        state.state = last;
        self.observer.changed(self, last, cause);
    }
}

/// How a task's error is told to people and to the restart strategy.
pub fn failure_of(error: &TaskError) -> FailureCause {
    // A panic and an error of user code are one kind to the restart strategy.
    let kind = match error {
        TaskError::Panicked { .. } | TaskError::User { .. } => "UserError",
        other => other.kind(),
    };
    FailureCause {
        kind: kind.to_owned(),
        message: error.to_string(),
        recoverable: error.is_recoverable(),
    }
}
