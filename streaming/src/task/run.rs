//! The life of one task thread: initialise, open, step until finished or stopped, close or dispose. Every call into user code is
//! guarded against panics. The loop must wait for nothing but the task's signal and timers.

use super::{
    control::{TaskControl, failure_of},
    mailbox::Mailbox,
    panics, threads,
};
use crate::{
    memory::allocator,
    seam::{Mail, Progress, RunningTask, Subtask, TaskError},
};
use model::{ExecutionState, FailureCause};
use std::{
    io,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

/// The number of records that a task passes to [`Subtask::step`]: about so many are processed before mail, timers and cancellation are
/// looked at, unless the step is interrupted earlier. With a buffer timeout of 0 the subtask takes one record of a source, or one batch of
/// an input, at a time all the same.
pub const STEP_RECORDS: usize = 4096;

/// Number of steps after which a task that never parks gives the wake-ups that it owes. If steps are long, the host gives them
/// earlier, by [`TaskControl::end_long_step`].
const STEPS_PER_WAKE: u32 = 8;

/// Maximum time for which a call of a function waits for room before it asks again, and looks at timers that have become due meanwhile.
const ROOM_WITHIN: Duration = Duration::from_millis(10);

/// A function that creates the subtask: opens its ports and clones the program's functions. Called once, on the task's own thread; an
/// error or a panic of it ends the task as FAILED. Dropped without a call if the task was stopped before it began or gets no thread.
pub type MakeSubtask = Box<dyn FnOnce() -> Result<Box<dyn Subtask>, TaskError> + Send>;

/// Starts the thread of a task, which runs the task to its end: it creates, opens, steps, and closes or disposes of the subtask. Returns
/// once the thread is started. The task's states, the last one included, are reported to the observer of `control`.
///
/// # Errors
/// Returns the system's error if it cannot create another thread; the task has then ended, as FAILED with the kind `NoThread`, or as it was
/// told before.
pub fn start(
    control: Arc<TaskControl>,
    mailbox: Arc<Mailbox>,
    stack_bytes: usize,
    make: MakeSubtask,
) -> io::Result<()> {
    let task = Arc::clone(&control);
    let spawned = threads::spawn(control.name(), stack_bytes, move || {
        run(&task, &mailbox, make);
    });
    match spawned {
        // The thread is not joined: it reports its own end, and may never end if user code does not return.
        Ok(_) => Ok(()),
        Err(error) => {
            control.end(Err(FailureCause::recoverable(
                "NoThread",
                format!("cannot start a thread for task '{}': {error}", control.name()),
            )));
            Err(error)
        }
    }
}

fn run(control: &Arc<TaskControl>, mailbox: &Arc<Mailbox>, make: MakeSubtask) {
    control.signal().bind_current_thread();
    let (task, mail) = (Arc::downgrade(control), Arc::downgrade(mailbox));
    control.signal().interruption().bind(Box::new(Running { control: task, mailbox: mail }));
    let entered = control.memory().enter();
    control.advance(ExecutionState::Initializing);
    let outcome = if control.is_stopping() {
        // The task was stopped before it began. Dropping `make` is guarded because it may hold user values.
        guard(control, move || drop(make)).map(|()| false)
    } else {
        live(control, mailbox, make)
    };
    drop(entered);
    // If the task was stopped from outside, `end` ignores the outcome.
    control.end(outcome.map(drop).map_err(|error| named(control, &error)));
}

/// The task as its interrupt flag knows it, which the task holds.
#[derive(Debug)]
struct Running {
    control: Weak<TaskControl>,
    mailbox: Weak<Mailbox>,
}

impl RunningTask for Running {
    fn wait(&self) -> bool {
        let (Some(control), Some(mailbox)) = (self.control.upgrade(), self.mailbox.upgrade())
        else {
            return false;
        };
        if !control.signal().is_own_thread() {
            return false;
        }
        control.give_wakes();
        mailbox.wait_at_most(ROOM_WITHIN);
        true
    }

    fn take_mail(&self, is_for: &dyn Fn(u64) -> bool) -> Option<Mail> {
        self.mailbox.upgrade()?.take_for(is_for).inspect(take_over)
    }

    fn until_timer(&self) -> Option<Duration> {
        self.mailbox.upgrade()?.until_timer()
    }

    fn step_again(&self) {
        if let Some(control) = self.control.upgrade() {
            control.signal().raise();
        }
    }
}

/// Counts the memory of mail that another thread has allocated as the task's.
fn take_over(mail: &Mail) {
    if let Mail::Reply { result: Ok(bytes), .. } = mail {
        allocator::take_over(bytes.capacity() as u64);
    }
}

/// Runs the subtask from its creation to its drop. Returns true if it finished, false if it was stopped from outside.
fn live(
    control: &Arc<TaskControl>,
    mailbox: &Mailbox,
    make: MakeSubtask,
) -> Result<bool, TaskError> {
    let mut subtask = guard(control, make)??;
    let mut outcome = work(control, mailbox, subtask.as_mut());
    if let Ok(true) = outcome {
        outcome = guard(control, || subtask.close()).and_then(|closed| closed).map(|()| true);
    }
    if let Ok(true) = outcome {
        control.set_succeeded();
    } else if let Err(error) = guard(control, || {
        if control.is_cancelled_by_job_master() {
            // A subtask that has failed takes no mail.
            let _ = subtask.deliver(Mail::Cancel);
        }
        subtask.dispose();
    }) {
        tracing::warn!(task = control.name(), %error, "disposing of a task failed");
    }
    control.set_returned();
    // Ports close when the subtask is dropped: before the end is reported, so that a new attempt finds them gone.
    let dropped = guard(control, move || drop(subtask));
    control.give_wakes();
    match (outcome, dropped) {
        (Ok(true), Err(error)) => Err(error),
        (outcome, _) => outcome,
    }
}

/// Opens the subtask and steps it. Returns true if it finished, false if it was stopped from outside.
fn work(
    control: &Arc<TaskControl>,
    mailbox: &Mailbox,
    subtask: &mut dyn Subtask,
) -> Result<bool, TaskError> {
    guard(control, || subtask.open())??;
    control.advance(ExecutionState::Running);
    // One guard surrounds the loop: a guard per step would cost more than the mailbox.
    guard(control, || {
        let mut steps = 0;
        let mut told_end = false;
        loop {
            control.begin_step();
            if control.is_stopping() {
                return Ok(false);
            }
            while !control.is_stopping()
                && let Some(mail) = mailbox.take()
            {
                take_over(&mail);
                let is_timer = matches!(mail, Mail::Timer { .. });
                subtask.deliver(mail)?;
                if is_timer {
                    // What the timer has done may have set another one that is due: records and other mail come between the two.
                    break;
                }
            }
            let progress = subtask.step(STEP_RECORDS);
            steps += 1;
            if steps >= STEPS_PER_WAKE || !matches!(progress, Ok(Progress::Busy)) {
                steps = 0;
                control.give_wakes();
            }
            let at_end = control.counters().end_of_data.load(Ordering::Relaxed);
            if at_end && !std::mem::replace(&mut told_end, at_end) {
                // The JobMaster triggers the final checkpoint when all sources have said this.
                control.tell_again();
            }
            match progress? {
                Progress::Busy => {}
                Progress::Starved | Progress::Blocked => mailbox.wait(),
                Progress::Finished => return Ok(true),
            }
        }
    })?
}

fn guard<T>(control: &TaskControl, run: impl FnOnce() -> T) -> Result<T, TaskError> {
    panics::catch(run)
        .map_err(|message| TaskError::Panicked { chain: control.name().to_owned(), message })
}

/// Converts an error to the reported cause, prefixed with the task's name unless the error contains it.
fn named(control: &TaskControl, error: &TaskError) -> FailureCause {
    let mut cause = failure_of(error);
    if !matches!(error, TaskError::Panicked { .. }) {
        cause.message = format!("task '{}': {}", control.name(), cause.message);
    }
    cause
}
