//! The number of records between two looks of a loop at the interruption: large where a function is known to be quick.

use crate::seam::Interrupt;

/// Records between two looks at the interruption, for a function that is known to be quick.
const QUICK: usize = 16;
/// Records that one call processes without an interruption if its function is quick. A step that lasts through two looks of the host, which
/// come every 50 ms, is interrupted: so many records of one call took less than 100 ms, and [`QUICK`] of them 3 ms on the average. Several
/// short calls prove nothing, because a step that ends before the second look is never interrupted, however long its records take.
const PROOF: usize = 512;

/// The number of records that a loop processes between two looks at the interruption: one until the function is known to be quick, which it
/// is while it works on what follows [`PROOF`] records, in the same call and in the next one. A function that was quick and suddenly is slow
/// delays one interruption by [`QUICK`] records.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Records that the newest call has processed since it began; 0 if it was interrupted.
    calm: usize,
}

impl Pace {
    /// Returns true if the function is known to be quick, so that its work on [`QUICK`] records may be done ahead.
    pub(crate) fn is_quick(&self) -> bool {
        self.calm >= PROOF
    }

    /// Notes the number of records that a call has processed with a look after each of them.
    pub(crate) fn count(&mut self, records: usize, interrupt: &Interrupt) {
        self.calm = if interrupt.is_raised() { 0 } else { records };
    }

    /// Begins a call. Returns a function that says how many records to process next, and 0 once the step is interrupted. Its first answer is
    /// never 0, and 1 if the step is interrupted already. `In` and `Out` are the types of what goes into the function of the program and of
    /// what it returns.
    #[inline]
    pub(crate) fn parts<In, Out>(&mut self, interrupt: &Interrupt) -> impl FnMut() -> usize {
        // A look costs half a nanosecond, which is nothing beside the work on a type that has memory on the heap.
        let quick = match std::mem::needs_drop::<In>() || std::mem::needs_drop::<Out>() {
            true => 1,
            false => QUICK,
        };
        let proof = if self.is_quick() && !interrupt.is_raised() { 0 } else { PROOF };
        self.calm = 0;
        let mut part = 0;
        move || {
            if part > 0 && interrupt.is_raised() {
                self.calm = 0;
                return 0;
            }
            self.calm = self.calm.saturating_add(part);
            part = if self.calm < proof { 1 } else { quick };
            part
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes `records` in one call and looks where `pace` says. Returns the lengths of the parts between two looks.
    fn call(pace: &mut Pace, records: usize, interrupt: &Interrupt) -> Vec<usize> {
        let (mut next, mut parts, mut done) = (pace.parts::<u64, u64>(interrupt), Vec::new(), 0);
        loop {
            let part = next();
            if part == 0 || done >= records {
                return parts;
            }
            parts.push(part);
            done += part;
        }
    }

    #[test]
    fn many_short_calls_do_not_show_that_a_function_is_quick() {
        let (interrupt, mut pace) = (Interrupt::default(), Pace::default());
        for records in [1, 2, PROOF - 1] {
            for _ in 0..5_000 / records {
                assert_eq!(call(&mut pace, records, &interrupt), vec![1; records]);
                assert!(!pace.is_quick(), "parts of calls of {records} records");
            }
            for _ in 0..5_000 / records {
                pace.count(records, &interrupt);
                assert!(!pace.is_quick(), "calls of {records} records");
            }
        }
    }

    #[test]
    fn a_long_call_shows_that_a_function_is_quick_until_one_is_short_or_interrupted() {
        let (interrupt, mut pace) = (Interrupt::default(), Pace::default());
        let long = call(&mut pace, PROOF + 2 * QUICK, &interrupt);
        assert_eq!(long, [vec![1; PROOF], vec![QUICK; 2]].concat(), "from there on in one call");
        assert_eq!(call(&mut pace, 2 * QUICK, &interrupt), [QUICK; 2], "and in the next one");
        assert_eq!(call(&mut pace, 3, &interrupt), [1; 3], "which was short");

        call(&mut pace, PROOF, &interrupt);
        interrupt.raise();
        assert_eq!(call(&mut pace, 3, &interrupt), [1], "interrupted before the call");
        interrupt.clear();
        assert_eq!(call(&mut pace, PROOF, &interrupt), [1; PROOF]);
        let mut next = pace.parts::<u64, u64>(&interrupt);
        assert_eq!(next(), QUICK);
        interrupt.raise();
        assert_eq!(next(), 0, "interrupted in the call");
        drop(next);
        interrupt.clear();
        assert_eq!(call(&mut pace, 3, &interrupt), [1; 3]);

        pace.count(PROOF, &interrupt);
        assert!(pace.is_quick());
        interrupt.raise();
        pace.count(PROOF, &interrupt);
        assert!(!pace.is_quick());
    }
}
