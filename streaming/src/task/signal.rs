//! How a parked task thread is woken: by input, room in an output, mail, a timer or a cancellation.
//! Waking must never block, and a wake-up before the thread parks must not be lost.

use crate::seam::Interrupt;
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::Thread,
    time::Duration,
};

/// Wakes one task. Cheap to clone and to raise twice.
#[derive(Clone, Debug, Default)]
pub struct TaskSignal(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    raised: AtomicBool,
    interrupt: Interrupt,
    thread: OnceLock<Thread>,
}

impl TaskSignal {
    /// A signal that nobody waits on yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the calling thread the one that waits.
    pub fn bind_current_thread(&self) {
        let _ = self.0.thread.set(std::thread::current());
    }

    /// Whether the caller is the task that waits on it.
    pub fn is_own_thread(&self) -> bool {
        self.0.thread.get().is_some_and(|own| own.id() == std::thread::current().id())
    }

    /// Wakes the task, or makes its next wait return at once.
    pub fn raise(&self) {
        // The swap orders this against the waiter's swap: either it sees `raised`, or we see its thread.
        if !self.0.raised.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.0.thread.get()
        {
            thread.unpark();
        }
    }

    /// Wakes the task, or makes its step end behind the record at work: something came that it has to look at.
    pub fn interrupt(&self) {
        self.0.interrupt.raise();
        self.raise();
    }

    /// The part of the signal that a step looks at.
    pub fn interruption(&self) -> &Interrupt {
        &self.0.interrupt
    }

    /// Takes the signal back if it is raised.
    pub fn take(&self) -> bool {
        self.0.raised.swap(false, Ordering::AcqRel)
    }

    /// Parks the calling thread (the bound one) until the signal is raised.
    pub fn wait(&self) {
        // User code may have used up the thread's park token; the flag is what counts.
        while !self.take() {
            std::thread::park();
        }
    }

    /// As [`TaskSignal::wait`], but at most about so long; whether the signal was raised.
    pub fn wait_at_most(&self, limit: Duration) -> bool {
        if self.take() {
            return true;
        }
        std::thread::park_timeout(limit);
        self.take()
    }

    /// Whether both wake the same task.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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
