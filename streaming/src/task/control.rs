//! The state of one execution attempt as other threads see it: how it is stopped, and in which order its states are reported.
//! Nothing here may run user code.

use super::{
    signal::TaskSignal,
    wakes::{OwedWakes, Sleeper},
};
use crate::{
    lock,
    memory::{allocator::Account, limit::Stage},
    seam::{TaskCounters, TaskError},
};
use model::{ExecutionAttemptId, ExecutionState, FailureCause};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The observer of the states of all tasks of a host.
pub trait TaskObserver: Send + Sync {
    /// Takes the report that an attempt has entered a state, in order per task; RUNNING may be reported again for newer counters. `cause`
    /// is set for FAILED. Called with the task's state locked, so it may only queue the report and must not call the task's state
    /// methods.
    fn changed(&self, task: &TaskControl, state: ExecutionState, cause: Option<FailureCause>);
    /// Takes the report that a task was asked to stop, once per task. The task must end within `task.cancellation.timeout`, and the
    /// observer ends its host otherwise.
    fn stopping(&self, task: &Arc<TaskControl>);
}

/// The handle of one execution attempt: its state, counters and wake-up signal. Every thread may use it.
pub struct TaskControl {
    attempt: ExecutionAttemptId,
    name: String,
    signal: TaskSignal,
    counters: Arc<TaskCounters>,
    observer: Arc<dyn TaskObserver>,
    state: Mutex<State>,
    stop: AtomicBool,
    cancelled_by_job_master: AtomicBool,
    succeeded: AtomicBool,
    /// True once no code of the task runs any more but the drops of its values.
    returned: AtomicBool,
    memory: Account,
    /// Number of steps that the task has begun, now and at the last call of [`TaskControl::end_long_step`].
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
    /// Creates the handle of a task in state DEPLOYING, with an empty memory account, and reports that state to the observer. Starts no
    /// thread.
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
            cancelled_by_job_master: AtomicBool::new(false),
            succeeded: AtomicBool::new(false),
            returned: AtomicBool::new(false),
            memory: Account::open(),
            steps: AtomicU64::new(0),
            steps_seen: AtomicU64::new(0),
            owed: OwedWakes::default(),
        };
        task.observer.changed(&task, ExecutionState::Deploying, None);
        Arc::new(task)
    }

    /// Returns the id of the execution attempt.
    pub fn attempt(&self) -> ExecutionAttemptId {
        self.attempt
    }
    /// Returns the task's name for messages, like `split -> count (3/8)`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Returns the signal that wakes the task.
    pub fn signal(&self) -> &TaskSignal {
        &self.signal
    }
    /// Returns the task's counters.
    pub fn counters(&self) -> &Arc<TaskCounters> {
        &self.counters
    }
    /// Returns the attempt's current state.
    pub fn state(&self) -> ExecutionState {
        lock(&self.state).state
    }
    /// Returns true if the task was cancelled, or failed from outside by [`TaskControl::fail`]. Its code may still run.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
    /// Returns true if the task has done all its work, which decides whether its ports close as finished or as aborted.
    pub fn has_succeeded(&self) -> bool {
        self.succeeded.load(Ordering::Acquire)
    }

    /// Returns the account of the memory that the task holds.
    pub fn memory(&self) -> &Account {
        &self.memory
    }
    /// Returns the point that the task has reached on its way to its end.
    pub fn stage(&self) -> Stage {
        if self.returned.load(Ordering::Acquire) {
            Stage::Returned
        } else if self.is_stopping() {
            Stage::Stopping
        } else {
            Stage::Working
        }
    }

    /// Cancels the task: it becomes CANCELING and ends as CANCELED. Returns at once; interrupts the running step. Does nothing if the
    /// task has ended or is CANCELING already.
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

    /// Cancels the task as [`TaskControl::cancel`] does, on behalf of its JobMaster, which no longer acts on failures of the tasks that
    /// work with this one. The subtask gets [`Mail::Cancel`](crate::Mail::Cancel) before it is disposed of.
    pub fn cancel_by_job_master(self: &Arc<Self>) {
        self.cancelled_by_job_master.store(true, Ordering::Release);
        self.cancel();
    }

    /// Returns whether [`TaskControl::cancel_by_job_master`] was called.
    pub(crate) fn is_cancelled_by_job_master(&self) -> bool {
        self.cancelled_by_job_master.load(Ordering::Acquire)
    }

    /// Fails the task from outside, for instance because a connection is lost: it stops and ends as FAILED with `cause`. Returns at once;
    /// interrupts the running step. Does nothing if the task has ended, is CANCELING, or was failed before.
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

    /// Begins a step: counts it and lowers the interrupt flag, whose reason is looked at next.
    pub(crate) fn begin_step(&self) {
        self.signal.interruption().clear();
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Interrupts a step that has lasted since the last call, so that it ends after its current record and the task looks at its timers
    /// and sends partly filled batches. Also gives the wake-ups that the task owes. The host calls this every 50 ms.
    pub fn end_long_step(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        if self.steps_seen.swap(steps, Ordering::Relaxed) == steps {
            // The flag is raised without waking the thread: a parked task has nothing to look at.
            self.signal.interruption().raise();
        }
        self.owed.give();
    }

    /// Remembers a sleeper that is woken at the end of the step.
    pub(crate) fn owe_wake(&self, sleeper: Arc<dyn Sleeper>) {
        self.owed.owe(sleeper);
    }

    /// Wakes the sleepers that the task owes a wake-up: after at most eight steps, before the task parks, and when it is over.
    pub(crate) fn give_wakes(&self) {
        self.owed.give();
    }

    /// Reports the state RUNNING to the observer again, so that it reads newer counters. Does nothing in other states.
    pub fn tell_again(&self) {
        let state = lock(&self.state);
        if state.state == ExecutionState::Running {
            self.observer.changed(self, ExecutionState::Running, None);
        }
    }

    /// Enters the state INITIALIZING or RUNNING, unless the task has ended or was asked to stop.
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

    /// Records that the task's code has returned, whatever the outcome: its values are dropped next.
    pub(crate) fn set_returned(&self) {
        self.returned.store(true, Ordering::Release);
    }

    /// Records that the task has done all its work: ports dropped from here on close as finished.
    pub(crate) fn set_succeeded(&self) {
        self.succeeded.store(true, Ordering::Release);
    }

    /// Ends the attempt and reports its last state: CANCELED if it was cancelled, else FAILED if it was failed from outside, else
    /// FINISHED or FAILED by `outcome`. Also called for a task that never got a thread. Does nothing if the attempt has ended.
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

/// Returns the cause of a task's failure that is reported to users and to the restart strategy. Its kind is [`TaskError::kind`], but
/// `UserError` also for a panic.
pub fn failure_of(error: &TaskError) -> FailureCause {
    // The restart strategy does not distinguish a panic of user code from an error.
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
