//! Wake-ups that a task owes to others. A wake-up costs some microseconds, as much as a thousand records do: what a step sends is
//! handed over by one at the end of the step, not by one for each batch.
//!
//! Whoever parks gives what it owes first, or streams would stand still. A step that lasts long is no excuse: the host's regular
//! look at its tasks gives them, too.

use crate::lock;
use std::{
    mem,
    sync::{Arc, Mutex},
};

/// Somebody who may sleep although there is something to do.
pub trait Sleeper: Send + Sync {
    /// Wakes it, if it sleeps and has something to do. Never blocks.
    fn wake(&self);
}

/// What one task owes.
#[derive(Default)]
pub(super) struct OwedWakes(Mutex<Vec<Arc<dyn Sleeper>>>);

impl OwedWakes {
    /// Wakes it later.
    pub(super) fn owe(&self, sleeper: Arc<dyn Sleeper>) {
        lock(&self.0).push(sleeper);
    }

    /// Wakes all.
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
