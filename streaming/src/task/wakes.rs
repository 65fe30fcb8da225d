//! The wake-ups that a task owes to the receivers of its output. A wake-up costs some microseconds, as much as a thousand records:
//! a task therefore wakes each receiver at most once for several steps, not once per batch.
//!
//! A task must give the wake-ups that it owes before it parks, or its receivers would sleep for ever. During a long step the host
//! gives them.

use crate::lock;
use std::{
    mem,
    sync::{Arc, Mutex},
};

/// A receiver of a task's output, such as the input of another task or a connection, that may sleep although work is waiting for it: the
/// task puts its wake-up off to the end of a few steps.
pub trait Sleeper: Send + Sync {
    /// Wakes the receiver if it sleeps and has work. Never blocks. Called after at most eight steps of the task, before the task parks and
    /// at its end; during a long step by the host, on another thread. May be called more often than needed.
    fn wake(&self);
}

/// The wake-ups that one task owes.
#[derive(Default)]
pub(super) struct OwedWakes(Mutex<Vec<Arc<dyn Sleeper>>>);

impl OwedWakes {
    /// Adds a receiver to be woken later.
    pub(super) fn owe(&self, sleeper: Arc<dyn Sleeper>) {
        lock(&self.0).push(sleeper);
    }

    /// Wakes all receivers that are owed a wake-up.
    pub(super) fn give(&self) {
        let owed = {
            let mut owed = lock(&self.0);
            if owed.is_empty() {
                return;
            }
            mem::take(&mut *owed)
        };
        owed.iter().for_each(|sleeper| sleeper.wake());
    }
}
