//! The life cycle of tasks: one thread per subtask with one bounded mailbox, woken by events. This module must never poll or
//! sleep, nor touch operator state from another thread than the task's own.

mod control;
mod mailbox;
pub mod panics;
mod run;
mod signal;
pub mod threads;
mod upcalls;
mod wakes;

#[cfg(test)]
mod tests;

pub use control::{TaskControl, TaskObserver, failure_of};
pub use mailbox::{MAIL_MAX, Mailbox, MailboxFull, UPCALLS_MAX};
pub use run::{MakeSubtask, STEP_RECORDS, start};
pub use signal::TaskSignal;
pub use upcalls::{OperatorEvents, Upcalls};
pub use wakes::Sleeper;

/// Returns the name of this machine, for messages; `unknown host` if the system does not tell it.
pub fn host_name() -> String {
    let name = nix::unistd::gethostname();
    name.map_or_else(|_| "unknown host".to_owned(), |name| name.to_string_lossy().into_owned())
}
