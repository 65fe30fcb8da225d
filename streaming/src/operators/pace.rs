//! The number of records between two looks of a loop at the interruption: large where a function is known to be quick.

use crate::seam::Interrupt;

/// Records between two looks at the interruption, for a function that is known to be quick.
const QUICK: usize = 16;
/// Records between two looks of the host, which come every 50 ms, that show that a function is quick: [`QUICK`] of them took 1.6 ms on the
/// average, pauses between them included. Fewer prove nothing, because a step that ends before the second look is never interrupted,
/// however long its records take.
const PROOF: usize = 512;

/// The number of records that a loop processes between two looks at the interruption: one until the function is known to be quick, which it
/// is while it works on what follows [`PROOF`] records since the host's latest look, or in the interval before. A function that was quick
/// and suddenly is slow delays one interruption by [`QUICK`] records.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The number of the host's latest look that a call has seen.
    look: u32,
    /// Records since that look, or since an interruption.
    calm: usize,
    /// True if the calls before that look had processed [`PROOF`] records since the one before it.
    was_quick: bool,
}

impl Pace {
    /// Returns true if the function is known to be quick, so that its work on [`QUICK`] records may be done ahead.
    pub(crate) fn is_quick(&self) -> bool {
        self.was_quick || self.calm >= PROOF
    }

    /// Notes the number of records that a call has processed with a look after each of them.
    pub(crate) fn count(&mut self, records: usize, interrupt: &Interrupt) {
        self.settle(interrupt);
        if !interrupt.is_raised() {
            self.calm = self.calm.saturating_add(records);
        }
    }

    /// Begins to count anew if the host has looked since, and forgets everything if the step is interrupted.
    fn settle(&mut self, interrupt: &Interrupt) {
        let look = interrupt.looks();
        if interrupt.is_raised() {
            *self = Self { look, ..Self::default() };
        } else if look != self.look {
            *self = Self { look, calm: 0, was_quick: self.calm >= PROOF };
        }
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
        self.settle(interrupt);
        let mut is_first = true;
        move || {
            if !std::mem::take(&mut is_first) && interrupt.is_raised() {
                (self.calm, self.was_quick) = (0, false);
                return 0;
            }
            let part = if self.is_quick() { quick } else { 1 };
            self.calm = self.calm.saturating_add(part);
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
        while done < records {
            let part = next();
            if part == 0 {
                break;
            }
            parts.push(part);
            done += part;
        }
        parts
    }

    #[test]
    fn few_records_between_two_looks_do_not_show_that_a_function_is_quick() {
        let (interrupt, mut pace) = (Interrupt::default(), Pace::default());
        for records in [1, 2, PROOF - 1] {
            for _ in 0..5_000 / records {
                interrupt.looked();
                assert_eq!(call(&mut pace, records, &interrupt), vec![1; records]);
                assert!(!pace.is_quick(), "parts of calls of {records} records");
            }
            for _ in 0..5_000 / records {
                interrupt.looked();
                pace.count(records, &interrupt);
                assert!(!pace.is_quick(), "calls of {records} records");
            }
        }
    }

    #[test]
    fn many_records_between_two_looks_show_it_until_few_come_or_an_interruption() {
        let (interrupt, mut pace) = (Interrupt::default(), Pace::default());
        let long = call(&mut pace, PROOF + 2 * QUICK, &interrupt);
        assert_eq!(long, [vec![1; PROOF], vec![QUICK; 2]].concat(), "from there on in one call");
        interrupt.looked();
        assert_eq!(call(&mut pace, 3, &interrupt), [QUICK], "and behind the next look");
        interrupt.looked();
        assert_eq!(call(&mut pace, 3, &interrupt), [1; 3], "few came in that interval");

        // Short calls count together.
        for _ in 0..PROOF / 4 {
            assert!(!pace.is_quick());
            pace.count(4, &interrupt);
        }
        assert!(pace.is_quick());
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
