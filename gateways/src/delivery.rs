//! The delivery rule: how a fact that must arrive gets from one component to another. Pure: it decides what is
//! sent and taken; [`crate::Courier`] sends. It must never know what a fact means.
//!
//! What one component says to another is one of three things:
//!
//! - a *call* ([`crate::Remote::ask`]): the caller waits for the answer and decides what a failure means;
//! - a *hint* ([`crate::Remote::tell`]): it may be lost, because something else says the same again (a report in a
//!   heartbeat, a time-out). Every place that tells names what that is;
//! - a *fact*: nothing says it again, so it has to arrive, exactly once and behind the facts before it.
//!
//! Facts obey five rules:
//!
//! 1. A sender numbers its facts for one receiver from 0, and keeps each until the receiver has acknowledged it.
//! 2. One call with facts is under way at a time; facts that are added meanwhile wait for the next one.
//! 3. A call that failed is made again with the same numbers.
//! 4. The receiver takes the number that it expects next, skips lower ones, and answers with the number that it
//!    expects then.
//! 5. Numbers live as long as the pair of leader sessions. Where a pair breaks (the receiver is in another session,
//!    or has left [`KEPT_MAX`] facts unacknowledged), nothing is repaired: a new session starts with full state, as
//!    every TaskExecutor and JobMaster registers again.
//!
//! A fact that stands alone (nothing has to arrive before or after it, and taking it twice does no more than taking it
//! once) needs no number: [`crate::Remote::insist`] makes its call until it is answered.
//!
//! Example: the ResourceManager adds TaskExecutor A (fact 12). The call is executed, but its deadline passes, so
//! that the ResourceManager cannot know. Meanwhile A is lost (fact 13). The next call carries 12 and 13; the
//! SlotManager skips 12 and removes A. With two independent calls, the removal could have been lost, and slots of
//! a dead process would be requested for ever.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use thiserror::Error;

/// Facts that one call carries at most, so that taking them is a short turn.
const BATCH_MAX: usize = 256;
/// Facts that a sender keeps at most: those of 100,000 slots and 10,000 TaskExecutors several times over.
pub const KEPT_MAX: usize = 1 << 20;

/// Successive facts of one sender: the message of a gateway that takes facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts<F> {
    /// The number of the first one.
    pub first: u64,
    /// In the order in which they were sent.
    pub facts: Vec<F>,
}

/// Why a pair of sender and receiver is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BrokenPair {
    /// The receiver acknowledges nothing, for too long.
    #[error("{KEPT_MAX} facts are not acknowledged")]
    Full,
    /// The receiver expects a number that was acknowledged before, or never sent.
    #[error("the receiver expects fact {expected}, kept are {first} to {end} (exclusive)")]
    OutOfStep {
        /// What the receiver expects next.
        expected: u64,
        /// The oldest kept fact.
        first: u64,
        /// Behind the newest kept fact.
        end: u64,
    },
}

/// The sender's side of a pair: facts that are not acknowledged.
#[derive(Debug)]
pub struct Outbox<F> {
    first: u64,
    kept: VecDeque<F>,
    under_way: bool,
}

impl<F> Default for Outbox<F> {
    fn default() -> Self {
        Self { first: 0, kept: VecDeque::new(), under_way: false }
    }
}

impl<F: Clone> Outbox<F> {
    /// Adds a fact. Returns true if no call is under way: the caller then starts one with [`Outbox::next_call`].
    ///
    /// # Errors
    /// [`BrokenPair::Full`]: the fact was not added.
    pub fn push(&mut self, fact: F) -> Result<bool, BrokenPair> {
        if self.kept.len() >= KEPT_MAX {
            return Err(BrokenPair::Full);
        }
        self.kept.push_back(fact);
        Ok(!std::mem::replace(&mut self.under_way, true))
    }

    /// Returns what the next call carries: the oldest kept facts, at most 256. `None`: everything is acknowledged,
    /// and no call is under way any more.
    pub fn next_call(&mut self) -> Option<Facts<F>> {
        self.under_way = !self.kept.is_empty();
        let facts = self.kept.iter().take(BATCH_MAX).cloned().collect();
        self.under_way.then_some(Facts { first: self.first, facts })
    }

    /// Takes the receiver's answer: it has every fact below `expected`, which are kept no longer.
    ///
    /// # Errors
    /// [`BrokenPair::OutOfStep`]: nothing changed.
    pub fn acknowledged(&mut self, expected: u64) -> Result<(), BrokenPair> {
        let end = self.first + self.kept.len() as u64;
        let taken = expected.checked_sub(self.first).and_then(|taken| usize::try_from(taken).ok());
        let Some(taken) = taken.filter(|taken| *taken <= self.kept.len()) else {
            return Err(BrokenPair::OutOfStep { expected, first: self.first, end });
        };
        self.kept.drain(..taken);
        self.first = expected;
        Ok(())
    }
}

/// The receiver's side of a pair.
#[derive(Debug, Default)]
pub struct Inbox {
    expected: u64,
}

impl Inbox {
    /// Returns those facts that were not taken before, in order; they count as taken. Facts behind a gap are not
    /// taken: the answer tells their sender that it is out of step.
    pub fn take<F>(&mut self, facts: Facts<F>) -> Vec<F> {
        let Some(known) = self.expected.checked_sub(facts.first) else {
            return Vec::new();
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let fresh: Vec<F> = facts.facts.into_iter().skip(known).collect();
        self.expected += fresh.len() as u64;
        fresh
    }

    /// The number of the fact that is expected next: the answer to every call with facts.
    pub fn expected(&self) -> u64 {
        self.expected
    }
}

/// Declares the facts that a gateway takes as one enum, so that they have one order: each variant is the message of
/// that name, declared beside it, and is made from it.
#[macro_export]
macro_rules! facts {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($fact:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, ::serde::Serialize, ::serde::Deserialize)]
        $vis enum $name {
            $(#[doc = concat!("See [`struct@", stringify!($fact), "`].")] $fact($fact),)+
        }

        $(
            impl From<$fact> for $name {
                fn from(fact: $fact) -> Self {
                    Self::$fact(fact)
                }
            }
        )+
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_repeated_call_is_taken_once_and_brings_what_was_added_meanwhile() {
        let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
        assert_eq!(outbox.push("add A"), Ok(true));
        let lost_answer = outbox.next_call().unwrap();
        assert_eq!(inbox.take(lost_answer), ["add A"]);
        assert_eq!(outbox.push("remove A"), Ok(false), "a call is under way");
        assert_eq!(inbox.take(outbox.next_call().unwrap()), ["remove A"]);
        assert_eq!(outbox.acknowledged(inbox.expected()), Ok(()));
        assert_eq!(outbox.next_call(), None);
        assert_eq!(outbox.push("add B"), Ok(true), "none is under way");
    }

    #[test]
    fn a_receiver_that_has_forgotten_breaks_the_pair() {
        let mut outbox = Outbox::default();
        outbox.push(1).unwrap();
        outbox.next_call().unwrap();
        outbox.acknowledged(1).unwrap();
        outbox.push(2).unwrap();
        let mut another = Inbox::default();
        assert_eq!(another.take(outbox.next_call().unwrap()), [], "there is a gap");
        let out_of_step = BrokenPair::OutOfStep { expected: 0, first: 1, end: 2 };
        assert_eq!(outbox.acknowledged(another.expected()), Err(out_of_step));
    }

    #[test]
    fn more_facts_than_the_bound_are_not_kept() {
        let mut outbox = Outbox::default();
        for fact in 0..KEPT_MAX {
            outbox.push(fact).unwrap();
        }
        assert_eq!(outbox.push(0), Err(BrokenPair::Full));
    }

    proptest! {
        /// Whatever calls and answers are lost, delayed or executed twice: facts are taken once, in order, all.
        #[test]
        fn facts_arrive_once_and_in_order(fates in proptest::collection::vec((0u8..4, 0usize..3), 0..200)) {
            let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
            let (mut sent, mut taken, mut late) = (0u32, Vec::new(), Vec::new());
            for (fate, added) in fates {
                for _ in 0..added {
                    outbox.push(sent).unwrap();
                    sent += 1;
                }
                let Some(call) = outbox.next_call() else { continue };
                match fate {
                    0 => late.push(call), // executed when the sender has given it up
                    1 => taken.extend(inbox.take(call)), // its answer is lost
                    _ => {
                        taken.extend(inbox.take(call));
                        outbox.acknowledged(inbox.expected()).unwrap();
                        late.drain(..).for_each(|call| taken.extend(inbox.take(call)));
                    }
                }
            }
            while let Some(call) = outbox.next_call() {
                taken.extend(inbox.take(call));
                outbox.acknowledged(inbox.expected()).unwrap();
            }
            prop_assert_eq!(taken, (0..sent).collect::<Vec<_>>());
        }
    }
}
