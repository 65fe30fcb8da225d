//! The life of one task thread: initialise, open, step until finished or stopped, close or dispose. Every call
//! into user code is guarded; the loop itself only waits on the task's signal.

use super::{
    control::{TaskControl, failure_of},
    mailbox::Mailbox,
    panics, threads,
};
use crate::seam::{Progress, Subtask, TaskError};
use model::{ExecutionState, FailureCause};
use std::{io, sync::Arc};

/// Records that a step works on before mail and cancellation are looked at.
pub const STEP_RECORDS: usize = 4096;

/// Steps after which a task that never parks gives the wake-ups that it owes. The host's regular look gives them too, where
/// steps are long.
const STEPS_PER_WAKE: u32 = 8;

/// Makes the subtask, on the task's own thread: ports are opened and user functions cloned there.
pub type MakeSubtask = Box<dyn FnOnce() -> Result<Box<dyn Subtask>, TaskError> + Send>;

/// Starts the thread of a task. Its states are told to the observer of `control`.
///
/// # Errors
/// When the system has no room for another thread; the task has ended as failed then.
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
        // The thread is not joined: it reports its own end, and may never come if user code does not return.
        Ok(_) => Ok(()),
        Err(error) => {
            control.end(Err(FailureCause::recoverable(
                "NoThread",
                format!("no thread for task '{}': {error}", control.name()),
            )));
            Err(error)
        }
    }
}

fn run(control: &Arc<TaskControl>, mailbox: &Mailbox, make: MakeSubtask) {
    control.signal().bind_current_thread();
    control.advance(ExecutionState::Initializing);
    let outcome = if control.is_stopping() {
        // Stopped before it began: `make` may hold user values.
        guard(control, move || drop(make)).map(|()| false)
    } else {
        live(control, mailbox, make)
    };
    // Where it was stopped, `end` knows better than the outcome says.
    control.end(outcome.map(drop).map_err(|error| named(control, &error)));
}

/// Whether the subtask came to its own end.
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
    } else if let Err(error) = guard(control, || subtask.dispose()) {
        tracing::warn!(task = control.name(), %error, "disposing of a task failed");
    }
    // Ports close with the subtask: before the end is told, so that a new attempt finds them gone.
    let dropped = guard(control, move || drop(subtask));
    control.give_wakes();
    match (outcome, dropped) {
        (Ok(true), Err(error)) => Err(error),
        (outcome, _) => outcome,
    }
}

/// Opens and steps; true: finished, false: stopped from outside.
fn work(
    control: &Arc<TaskControl>,
    mailbox: &Mailbox,
    subtask: &mut dyn Subtask,
) -> Result<bool, TaskError> {
    guard(control, || subtask.open())??;
    control.advance(ExecutionState::Running);
    // One guard around the loop: entering it per step would cost more than the mailbox.
    guard(control, || {
        let mut steps = 0;
        loop {
            control.begin_step();
            if control.is_stopping() {
                return Ok(false);
            }
            while !control.is_stopping()
                && let Some(mail) = mailbox.take()
            {
                subtask.deliver(mail)?;
            }
            let progress = subtask.step(STEP_RECORDS);
            steps += 1;
            if steps >= STEPS_PER_WAKE || !matches!(progress, Ok(Progress::Busy)) {
                steps = 0;
                control.give_wakes();
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

/// The cause as it is reported, with the task's name in front where the error does not carry it.
fn named(control: &TaskControl, error: &TaskError) -> FailureCause {
    let mut cause = failure_of(error);
    if !matches!(error, TaskError::Panicked { .. }) {
        cause.message = format!("task '{}': {}", control.name(), cause.message);
    }
    cause
}
