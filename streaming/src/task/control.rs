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
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Minimum time between two looks of the host at a task whose timers are due: many timers must not keep the host busy.
const TIMERS_APART: Duration = Duration::from_millis(5);

/// Receives the states of all tasks of one program host. The host implements it and reports the states to its TaskManager. Each task is
/// reported as DEPLOYING when its handle is made, as INITIALIZING and RUNNING as far as it gets, as CANCELING if it is cancelled, and once,
/// as the last state, as FINISHED, FAILED or CANCELED. A task that is failed from outside is announced by `stopping` only until then.
pub trait TaskObserver: Send + Sync {
    /// Takes the report that the attempt of `task` has entered `state`; the reports of one task come in order. `cause` is set for FAILED
    /// only. Called with the task's state locked, except for DEPLOYING: the method may only queue the report, and would deadlock if it
    /// called a method of `task` that reads or changes the state.
    fn changed(&self, task: &TaskControl, state: ExecutionState, cause: Option<FailureCause>);
    /// Takes the report that a task that is RUNNING has newer counters. Called like `changed`, which the default calls with RUNNING.
    fn counted(&self, task: &TaskControl) {
        self.changed(task, ExecutionState::Running, None);
    }
    /// Takes the report that a task was cancelled or failed from outside, once per task; not called if the task ends by itself. Called on
    /// the thread that stops the task, without the lock on its state, and must not block. If the task has not ended within
    /// `task.cancellation.timeout`, the observer must end the program host.
    fn stopping(&self, task: &Arc<TaskControl>);
}

/// The handle by which other threads see and stop one execution attempt (one try of a subtask): its state, counters and wake-up signal.
/// Every thread may use it. The host makes it before the task's thread starts, and may keep it after the task's end. User code that does
/// not return cannot be stopped: the task then stays in its state until the host ends.
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
    /// thread: [`start`](super::start) does.
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
    /// Returns the signal that wakes the task's thread and interrupts its steps.
    pub fn signal(&self) -> &TaskSignal {
        &self.signal
    }
    /// Returns the task's counters, to which its ports and its subtask add and which the host reports.
    pub fn counters(&self) -> &Arc<TaskCounters> {
        &self.counters
    }
    /// Returns the attempt's current state.
    pub fn state(&self) -> ExecutionState {
        lock(&self.state).state
    }
    /// Returns true if the task was cancelled, or failed from outside by [`TaskControl::fail`]; never false again after that. Its code may
    /// still run. False for a task that has ended by itself.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
    /// Returns true once the task has done all its work and its subtask is closed. Input ports that are dropped from then on close as
    /// finished, so that producers drop what they still send; before, they close as aborted, and producers wait until they are stopped
    /// too. The attempt may end as CANCELED or FAILED all the same, if it was stopped meanwhile or the drop of its values panics.
    pub fn has_succeeded(&self) -> bool {
        self.succeeded.load(Ordering::Acquire)
    }

    /// Returns the account in which the program's allocator counts the bytes of memory that the task holds.
    pub fn memory(&self) -> &Account {
        &self.memory
    }
    /// Returns whether the task works, was told to stop, or has returned from its code; the memory limit asks for this.
    pub fn stage(&self) -> Stage {
        if self.returned.load(Ordering::Acquire) {
            Stage::Returned
        } else if self.is_stopping() {
            Stage::Stopping
        } else {
            Stage::Working
        }
    }

    /// Cancels the task: it becomes CANCELING at once, also if it was failed from outside before, and CANCELED when its code has
    /// returned, even if the code has done all its work by then. Returns at once; interrupts the running step, and calls the observer's
    /// `changed` and, the first time that the task is stopped, its `stopping`. Does nothing if the task has ended or is CANCELING already.
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

    /// Cancels the task as [`TaskControl::cancel`] does, because its JobMaster asked for it. The JobMaster cancels the tasks that work
    /// with this one too, and no longer acts on their failures. Only after this call does the subtask get
    /// [`Mail::Cancel`](crate::Mail::Cancel) before it is disposed of; that holds also for a task that was CANCELING or failed before the
    /// call, as long as it has not been disposed of.
    pub fn cancel_by_job_master(self: &Arc<Self>) {
        self.cancelled_by_job_master.store(true, Ordering::Release);
        self.cancel();
    }

    /// Returns whether [`TaskControl::cancel_by_job_master`] was called.
    pub(crate) fn is_cancelled_by_job_master(&self) -> bool {
        self.cancelled_by_job_master.load(Ordering::Acquire)
    }

    /// Fails the task from outside, for instance because a connection is lost: it stops and ends as FAILED with `cause`, or as CANCELED if
    /// it is cancelled before its end, even if its code has done all its work by then. Returns at once; interrupts the running step, and
    /// calls the observer's `stopping`. The task's state stays what it is until its code has returned, unless the task is cancelled
    /// meanwhile. Does nothing if the task has ended, is CANCELING, or was failed before.
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
        self.signal.interrupt_for_good();
    }

    /// Begins a step: counts it and lowers the interrupt flag, whose reason is looked at next.
    pub(crate) fn begin_step(&self) {
        self.signal.interruption().clear();
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Interrupts the running step if it has lasted since the last call or a timer of the task is due, so that it ends after its current
    /// record and the task looks at its timers and sends partly filled batches. Also wakes the receivers of the task's output whose
    /// wake-ups the task has put off. Returns the time after which the host is to call this again: 50 ms, or half of the job's buffer
    /// timeout if that is shorter, at least 1 ms; less if a timer is due earlier, but then 5 ms at least. A timer that the running step
    /// has not seen is therefore late by the step's current record and, if it was set since the last call, by 50 ms at most.
    pub fn end_long_step(&self) -> Duration {
        let interrupt = self.signal.interruption();
        interrupt.looked();
        let steps = self.steps.load(Ordering::Relaxed);
        let lasts = self.steps_seen.swap(steps, Ordering::Relaxed) == steps;
        let until_timer = interrupt.until_timer();
        if lasts || until_timer == Some(Duration::ZERO) {
            // The flag is raised without waking the thread: a parked task has nothing to look at.
            interrupt.raise();
        }
        self.owed.give();
        let timer = until_timer.unwrap_or(Duration::MAX).max(TIMERS_APART);
        interrupt.look_every().min(timer)
    }

    /// Remembers a sleeper that is woken at the end of the step.
    pub(crate) fn owe_wake(&self, sleeper: Arc<dyn Sleeper>) {
        self.owed.owe(sleeper);
    }

    /// Wakes the sleepers that the task owes a wake-up: after at most eight steps, before the task parks, and when it is over.
    pub(crate) fn give_wakes(&self) {
        self.owed.give();
    }

    /// Tells the observer that the task, if it is RUNNING, has newer counters ([`TaskObserver::counted`]). Does nothing in other states.
    /// Called by the host once a second if counters have changed, and by the task when all of its data was read and has left it.
    pub fn tell_again(&self) {
        let state = lock(&self.state);
        if state.state == ExecutionState::Running {
            self.observer.counted(self);
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

/// Returns the cause with which a task that ended with `error` is reported as FAILED, to users and to the restart strategy. Its kind is
/// [`TaskError::kind`], but `UserError` also for a panic; its message is the error's text, before which [`start`](super::start) puts the
/// task's name, but not for a panic, whose text names the task or chain. It is fatal, so that the job is not restarted, if
/// [`TaskError::is_recoverable`] is false.
pub fn failure_of(error: &TaskError) -> FailureCause {
    // The restart strategy does not distinguish a panic of user code from an error.
    let kind = match error {
        TaskError::Panicked { .. } | TaskError::User { .. } => "UserError",
        other => other.kind(),
    };
    match error.is_recoverable() {
        true => FailureCause::recoverable(kind, error.to_string()),
        false => FailureCause::fatal(kind, error.to_string()),
    }
}
