//! The number of records between two looks of a loop at the interruption: large where a function is known to be quick.

use crate::seam::Interrupt;

/// Records between two looks at the interruption, for a function that is known to be quick.
const QUICK: usize = 16;
/// Records without an interruption after which a function is known to be quick. A step is interrupted after 50 ms: so many records
/// took less, and [`QUICK`] of them take less than a millisecond.
const PROOF: usize = 1_024;

/// The number of records that a loop processes between two looks at the interruption: one until the function is known to be quick.
/// A function that was quick and suddenly is slow delays one interruption by [`QUICK`] records.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Records since the last interruption.
    calm: usize,
}

impl Pace {
    /// Returns true if the function is known to be quick, so that its work on [`QUICK`] records may be done ahead.
    pub(crate) fn is_quick(&self) -> bool {
        self.calm >= PROOF
    }

    /// Counts records that were processed with a look after each of them.
    pub(crate) fn count(&mut self, records: usize, interrupt: &Interrupt) {
        self.calm = match interrupt.is_raised() {
            true => 0,
            false => self.calm.saturating_add(records),
        };
    }

    /// Returns a function that says how many records to process next, and 0 once the step is interrupted. Its first answer is never 0.
    /// `In` and `Out` are the types of what goes into the function of the program and of what it returns.
    #[inline]
    pub(crate) fn parts<In, Out>(&mut self, interrupt: &Interrupt) -> impl FnMut() -> usize {
        // A look costs half a nanosecond, which is nothing beside the work on a type that has memory on the heap.
        let quick = match std::mem::needs_drop::<In>() || std::mem::needs_drop::<Out>() {
            true => 1,
            false => QUICK,
        };
        let mut part = 0;
        move || {
            if part > 0 && interrupt.is_raised() {
                self.calm = 0;
                return 0;
            }
            self.calm = self.calm.saturating_add(part);
            part = if self.calm < PROOF { 1 } else { quick };
            part
        }
    }
}
