//! The signal that wakes a parked task thread: for input, room in an output, mail, a timer or a cancellation. Raising it must
//! never block, and a wake-up before the thread parks must not be lost.

use crate::seam::Interrupt;
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::Thread,
    time::Duration,
};

/// The signal that wakes one task's thread and interrupts its steps. Clones share the signal; raising it twice costs little, and counts
/// once: it stays raised until the bound thread waits. Every thread may raise it; only the bound one waits.
#[derive(Clone, Debug, Default)]
pub struct TaskSignal(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    raised: AtomicBool,
    interrupt: Interrupt,
    thread: OnceLock<Thread>,
}

impl TaskSignal {
    /// Creates a signal that is not raised and has no thread.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds the calling thread as the one that the signal wakes. Only the first call has an effect.
    pub fn bind_current_thread(&self) {
        let _ = self.0.thread.set(std::thread::current());
    }

    /// Returns true if the calling thread is the bound one; false if none is bound.
    pub fn is_own_thread(&self) -> bool {
        self.0.thread.get().is_some_and(|own| own.id() == std::thread::current().id())
    }

    /// Raises the signal: wakes the task, or makes its next wait return at once; a running step goes on. Never blocks.
    pub fn raise(&self) {
        // The swap is ordered against the waiter's swap: either the waiter sees `raised`, or this thread sees the waiter's.
        if !self.0.raised.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.0.thread.get()
        {
            thread.unpark();
        }
    }

    /// Raises the signal and the interrupt flag, so that a running step ends after the current record. The mailbox calls this for each
    /// mail that is posted. Never blocks.
    pub fn interrupt(&self) {
        self.0.interrupt.raise();
        self.raise();
    }

    /// Raises the signal and the interrupt flag because the task is told to stop: the running step works off nothing more.
    pub(crate) fn interrupt_for_good(&self) {
        self.0.interrupt.raise_for_good();
        self.raise();
    }

    /// Returns the flag that [`TaskSignal::interrupt`] raises, and at which a running step ends.
    pub fn interruption(&self) -> &Interrupt {
        &self.0.interrupt
    }

    /// Returns true if the signal is raised; does not lower it.
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed)
    }

    /// Lowers the signal and returns true if it was raised.
    pub fn take(&self) -> bool {
        self.0.raised.swap(false, Ordering::AcqRel)
    }

    /// Parks the calling thread, which must be the bound one, until the signal is raised, however long that takes, and lowers the signal.
    /// Returns at once if it is raised already.
    pub fn wait(&self) {
        // User code may have used up the thread's park token, or left one: only the flag counts.
        while !self.take() {
            std::thread::park();
        }
    }

    /// Parks the calling thread, which must be the bound one, until the signal is raised, for about `limit` at most; may return earlier.
    /// Returns true if the signal was raised, and lowers it.
    pub fn wait_at_most(&self, limit: Duration) -> bool {
        if self.take() {
            return true;
        }
        std::thread::park_timeout(limit);
        self.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::threads;

    #[test]
    fn a_signal_raised_before_the_wait_is_not_lost() {
        let signal = TaskSignal::new();
        signal.raise();
        signal.bind_current_thread();
        signal.wait();
        assert!(!signal.take());
    }

    #[test]
    fn a_stolen_park_token_does_not_lose_the_wake_up() {
        let signal = TaskSignal::new();
        signal.bind_current_thread();
        signal.raise();
        std::thread::park();
        signal.wait();
    }

    #[test]
    fn a_parked_thread_is_woken_by_another() {
        let signal = TaskSignal::new();
        let waiter = signal.clone();
        let thread = threads::spawn("waiter", threads::STACK_BYTES, move || {
            waiter.bind_current_thread();
            waiter.wait();
        })
        .unwrap();
        signal.raise();
        thread.join().unwrap();
    }
}
