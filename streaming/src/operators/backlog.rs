//! The bound of what one call of a function emits and the chain behind has not worked off.
//!
//! A call cannot be ended early. What it emits once its step was interrupted, or an output was full, is kept behind it. If that becomes
//! much, the chain behind works it off within the call, and if an output is full, the call waits for room as it would in a blocking write.
//! Mail that operators behind need to take more, such as the answer that a sink waits for, is handed to them meanwhile; other mail
//! waits for the end of the call, as it does during any long call. Nothing here may wait without a task that can be woken, or after the
//! task was told to stop.

use super::{Consumer, Control, OperatorMail, SideOutputs, load::Load, split_ticket};
use crate::{
    batch::{Batch, NO_TIME},
    seam::{Interrupt, Mail, RunningTask, TaskError},
    types::Record,
};

/// The bytes of records that may be kept before the chain behind works them off within the call, or the call waits for room.
const MOST_BYTES: usize = 4 << 20;
/// The bytes of records after which an output that was full is tried again within the call.
const AGAIN_BYTES: usize = 256 << 10;

/// The outcome of handing a batch to the chain behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandedOn {
    /// The chain behind has taken everything and takes more.
    TakesMore,
    /// The chain behind keeps a part of what it was given: the step is over after this call.
    Keeps,
    /// The chain behind keeps so much that the call should wait for room.
    KeepsMuch,
}

/// The bytes that an output has handed on since the chain behind last took everything.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    kept: usize,
    /// The bytes of them that were handed on since the chain behind was last made to work off what it keeps.
    since: usize,
}

impl Backlog {
    /// Hands a batch of that load on, or drops it if the task was told to stop, and lets the chain behind work off what it keeps if that
    /// has become much.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    pub(crate) fn hand_on<T: Record>(
        &mut self,
        batch: &mut Batch<T>,
        load: &Load,
        next: &mut dyn Consumer<T>,
        interrupt: &Interrupt,
    ) -> Result<HandedOn, TaskError> {
        if interrupt.is_for_good() {
            // There is no next step in which anybody would read it.
            batch.clear();
            return Ok(HandedOn::Keeps);
        }
        let bytes = load.bytes().max(batch.len() * (size_of::<T>() + size_of_val(&NO_TIME)));
        if next.batch(batch)? {
            self.clear();
            return Ok(HandedOn::TakesMore);
        }
        self.keep(bytes, next, interrupt)
    }

    /// Counts bytes that the chain behind has kept, which works them off if they have become much.
    fn keep(
        &mut self,
        bytes: usize,
        next: &mut dyn Control,
        interrupt: &Interrupt,
    ) -> Result<HandedOn, TaskError> {
        self.kept = self.kept.saturating_add(bytes);
        self.since = self.since.saturating_add(bytes);
        let most = if next.full() { AGAIN_BYTES } else { MOST_BYTES };
        if self.since >= most {
            self.since = 0;
            work_off(next, interrupt)?;
            if !next.full() && !next.is_interrupted() {
                self.kept = 0;
            } else if self.kept >= MOST_BYTES && next.full() {
                return Ok(HandedOn::KeepsMuch);
            }
        }
        // The step is over after this call all the same.
        Ok(HandedOn::Keeps)
    }

    /// Forgets what was handed on, because the chain behind has worked it off.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Lets the rest of the chain work on as in its next step, until nothing is left or an output is full. A task that was told to stop does
/// not.
fn work_off(next: &mut dyn Control, interrupt: &Interrupt) -> Result<(), TaskError> {
    keeping_raised(interrupt, || {
        // Mail, or a look at the clock, raises the flag meanwhile: then it goes on nevertheless, because the mail waits for the call
        // anyway.
        while interrupt.lower() {
            if next.flush(false)? {
                next.resume()?;
            }
            if !interrupt.is_raised() || !next.is_interrupted() || next.full() {
                break;
            }
        }
        Ok(())
    })
}

/// Does something that lowers the flag, and raises the flag again if it was raised before.
fn keeping_raised<T>(interrupt: &Interrupt, work: impl FnOnce() -> T) -> T {
    let is_raised = interrupt.is_raised();
    let done = work();
    if is_raised {
        interrupt.raise();
    }
    done
}

/// Waits until the rest of the chain and the side outputs have worked everything off and none of them is full, or the task is told to
/// stop. Returns at once where nothing can wake the caller, or calls must not wait.
///
/// # Errors
/// Fails as [`Consumer::batch`] does.
pub(crate) fn wait_for_room(
    next: &mut dyn Control,
    sides: &mut SideOutputs,
    interrupt: &Interrupt,
) -> Result<(), TaskError> {
    let Some(task) = interrupt.task().filter(|_| !interrupt.is_for_good()) else { return Ok(()) };
    // Outputs with room send what waits for its batch to fill.
    next.flush(true)?;
    sides.flush(true)?;
    hand_mail_on(task, next, interrupt)?;
    let mut waited = false;
    while (next.full() || sides.full()) && !interrupt.is_for_good() && task.wait() {
        waited = true;
        hand_mail_on(task, next, interrupt)?;
        work_off(next, interrupt)?;
        keeping_raised(interrupt, || {
            if interrupt.lower() {
                sides.flush(false)?;
                sides.resume()?;
            }
            Ok(())
        })?;
    }
    if waited {
        // What has woken the call, a cancellation for instance, may have been meant for the steps.
        task.step_again();
    }
    Ok(())
}

/// Hands the replies that have come for operators behind to them, and a timer that is due: what it does may set another one.
fn hand_mail_on(
    task: &dyn RunningTask,
    next: &mut dyn Control,
    interrupt: &Interrupt,
) -> Result<(), TaskError> {
    while !interrupt.is_for_good()
        && let Some(mail) = task.take_mail(&|ticket| next.runs(split_ticket(ticket).0))
    {
        match mail {
            Mail::Reply { ticket, result } => {
                let (node, ticket) = split_ticket(ticket);
                next.deliver(node, OperatorMail::Reply { ticket, result })?;
            }
            Mail::Timer { ticket } => {
                let (node, ticket) = split_ticket(ticket);
                return next.deliver(node, OperatorMail::Timer { ticket });
            }
            // Not addressed to an operator.
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{operators::Flow, seam::StreamEvent};

    /// Counts the records that it keeps, and never takes more.
    struct Full(usize);

    impl Consumer<u64> for Full {
        fn batch(&mut self, batch: &mut Batch<u64>) -> Result<bool, TaskError> {
            self.0 += batch.len();
            batch.clear();
            Ok(false)
        }
    }

    impl Control for Full {
        fn event(&mut self, _event: StreamEvent) -> Result<Flow, TaskError> {
            Ok(Flow::Done)
        }
    }

    #[test]
    fn what_a_call_emits_after_its_task_was_cancelled_is_dropped() {
        let (interrupt, mut backlog, mut next) =
            (Interrupt::default(), Backlog::default(), Full(0));
        let mut emit = |next: &mut Full| {
            let mut batch: Batch<u64> = vec![1, 2, 3].into();
            let handed_on = backlog.hand_on(&mut batch, &Load::default(), next, &interrupt);
            assert_eq!((handed_on.unwrap(), batch.len()), (HandedOn::Keeps, 0));
        };
        emit(&mut next);
        assert_eq!(next.0, 3);
        interrupt.raise_for_good();
        emit(&mut next);
        assert_eq!(next.0, 3);
    }
}
