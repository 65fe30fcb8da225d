//! The bound of what one call of a function emits and the chain behind has not worked off.
//!
//! A call cannot be suspended. What it emits once its step was interrupted, or an output was full, is kept behind it; without a bound,
//! that is everything it emits until it returns.

use super::{Consumer, load::Load};
use crate::{
    batch::{Batch, NO_TIME},
    seam::{Interrupt, TaskError},
    types::Record,
};

/// The bytes of records that may be kept before the chain behind works them off within the call.
const MOST_BYTES: usize = 4 << 20;
/// The bytes of records after which an output that was full is tried again within the call.
const AGAIN_BYTES: usize = 256 << 10;

/// The bytes that an output has handed on since the chain behind last took everything.
#[derive(Debug, Default)]
pub(crate) struct Backlog(usize);

impl Backlog {
    /// Hands a batch of that load on, and lets the chain behind work off what it keeps if that has become much. Returns true if the chain
    /// takes more.
    ///
    /// # Errors
    /// Fails as [`Consumer::batch`] does.
    pub(crate) fn hand_on<T: Record>(
        &mut self,
        batch: &mut Batch<T>,
        load: &Load,
        next: &mut dyn Consumer<T>,
        interrupt: &Interrupt,
    ) -> Result<bool, TaskError> {
        let bytes = load.bytes().max(batch.len() * (size_of::<T>() + size_of_val(&NO_TIME)));
        if next.batch(batch)? {
            self.0 = 0;
            return Ok(true);
        }
        self.0 = self.0.saturating_add(bytes);
        let most = if next.full() { AGAIN_BYTES } else { MOST_BYTES };
        if self.0 >= most {
            self.0 = 0;
            work_off(next, interrupt)?;
        }
        // The step is over after this call all the same.
        Ok(false)
    }

    /// Forgets what was handed on, because the chain behind has worked it off.
    pub(crate) fn clear(&mut self) {
        self.0 = 0;
    }
}

/// Lets the rest of the chain work on as in its next step, until nothing is left or an output is full. A task that was told to stop does
/// not.
fn work_off<T>(next: &mut dyn Consumer<T>, interrupt: &Interrupt) -> Result<(), TaskError> {
    let is_raised = interrupt.is_raised();
    let mut result = Ok(());
    // Mail, or a look at the clock, raises the flag meanwhile: then it goes on nevertheless, because the mail waits for the call anyway.
    while interrupt.lower() {
        result = next.flush(false).and_then(|sent| if sent { next.resume() } else { Ok(()) });
        if result.is_err() || !interrupt.is_raised() || !next.is_interrupted() || next.full() {
            break;
        }
    }
    if is_raised {
        interrupt.raise();
    }
    result
}
