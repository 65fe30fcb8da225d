//! The delivery rule: how a fact that must arrive gets from one component to another. Pure: this module decides what is
//! sent and accepted, and [`crate::Courier`] sends. It must never know what a fact means.
//!
//! A message from one component to another is one of three things:
//!
//! - a *call* ([`crate::Remote::ask`]): the caller waits for the answer and decides what a failure means;
//! - a *hint* ([`crate::Remote::tell`]): it may be lost, because something else has the same effect later (a report in
//!   a heartbeat, a time-out). Every place that sends a hint names what that is;
//! - a *fact*: nothing repeats it, so it has to arrive exactly once and after the facts before it.
//!
//! Facts obey five rules:
//!
//! 1. A sender numbers its facts for one receiver from 0, and keeps each until the receiver has acknowledged it.
//! 2. Only one call with facts is pending at a time; facts that are added meanwhile wait for the next one.
//! 3. A call that failed is made again with the same numbers.
//! 4. The receiver accepts the number that it expects next, skips lower ones, and answers with the number that it
//!    expects then.
//! 5. Numbers live as long as the pair of leader sessions. If a pair breaks (the receiver is in another session, or has
//!    left [`KEPT_MAX`] facts unacknowledged), nothing is repaired: a new session starts with full state, because every
//!    TaskExecutor and JobMaster registers again.
//!
//! An independent fact (nothing has to arrive before or after it, and executing it twice has the same effect as once)
//! needs no number: [`crate::Remote::insist`] repeats its call until it is answered.
//!
//! Example: the ResourceManager adds TaskExecutor A (fact 12). The call is executed, but its deadline passes, so the
//! ResourceManager does not know that. Meanwhile A is lost (fact 13). The next call carries 12 and 13; the SlotManager
//! skips 12 and removes A. With two independent calls, the removal could have been lost, and the SlotManager would
//! request slots of a dead process for ever.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use thiserror::Error;

/// Maximum number of facts in one call, so that handling a call is a short turn.
const BATCH_MAX: usize = 256;
/// Maximum number of unacknowledged facts (messages that must arrive) that a sender keeps for one receiver; one more
/// breaks the pair. It is several times the facts of 100,000 slots and 10,000 TaskExecutors.
pub const KEPT_MAX: usize = 1 << 20;

/// Consecutive facts (messages that must arrive exactly once and in order) of one sender to one receiver, as one call
/// carries them: at most 256, made by [`Outbox::next_call`] and taken in by [`Inbox::take`]. The answer to the call is the number
/// of the fact that the receiver expects next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts<F> {
    /// Number of the first fact, counted from 0 over all facts of this sender to this receiver; each following fact has the
    /// next number.
    pub first: u64,
    /// The facts, in the order in which they were added.
    pub facts: Vec<F>,
}

/// The reason why a sender can deliver no more facts to its receiver, as an [`Outbox`] finds it. Nothing is repaired: the two
/// components begin anew in another leader session. [`Courier`](crate::Courier) passes it on as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BrokenPair {
    /// [`KEPT_MAX`] facts are unacknowledged, so no further one can be kept.
    #[error("{KEPT_MAX} facts are not acknowledged")]
    Full,
    /// The receiver has answered that it expects a fact that it acknowledged earlier, or one that was never sent.
    #[error("the receiver expects fact {expected}, kept are {first} to {end} (exclusive)")]
    OutOfStep {
        /// The number that the receiver expects next.
        expected: u64,
        /// The number of the oldest kept fact.
        first: u64,
        /// The number after the newest kept fact.
        end: u64,
    },
}

/// The sender's side of the delivery of facts to one receiver: numbers the facts, and keeps each until it is
/// acknowledged, in memory only. It decides what goes into a call, and makes no call itself ([`Courier`](crate::Courier) does). One
/// call is under way at a time.
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
    /// Adds a fact and sends nothing. Returns true if no call was under way: one counts as under way from now on, and the caller must
    /// make it with the facts of [`Outbox::next_call`]. False: the fact goes with a later call.
    ///
    /// # Errors
    /// Returns [`BrokenPair::Full`] if `KEPT_MAX` facts are unacknowledged; the fact was not added.
    pub fn push(&mut self, fact: F) -> Result<bool, BrokenPair> {
        if self.kept.len() >= KEPT_MAX {
            return Err(BrokenPair::Full);
        }
        self.kept.push_back(fact);
        Ok(!std::mem::replace(&mut self.under_way, true))
    }

    /// Returns the facts of the next call: the oldest kept ones, at most 256; the call counts as under way from now on.
    /// Returns `None` if everything is acknowledged; no call is under way then. The caller asks again after each
    /// answer, and after a failed call, which is repeated with the same facts and perhaps newer ones.
    pub fn next_call(&mut self) -> Option<Facts<F>> {
        self.under_way = !self.kept.is_empty();
        let facts = self.kept.iter().take(BATCH_MAX).cloned().collect();
        self.under_way.then_some(Facts { first: self.first, facts })
    }

    /// Applies the receiver's answer to a call: drops every fact below `expected`, because the receiver has it.
    ///
    /// # Errors
    /// Returns [`BrokenPair::OutOfStep`] if `expected` is below the oldest kept fact, or above the number after the
    /// newest one; nothing changes.
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

/// The receiver's side of the delivery of facts from one sender: counts the facts that were accepted, by which it
/// recognises repeated ones. A new one expects fact 0, so it is made anew together with its sender, for each leader session. The
/// count is in memory only.
#[derive(Debug, Default)]
pub struct Inbox {
    expected: u64,
}

impl Inbox {
    /// Takes the facts of one call. Returns those that were not accepted before, in order, and counts them as accepted.
    /// If the first one is beyond the expected number (a gap), none is accepted: the answer then tells the sender that
    /// it is out of step.
    pub fn take<F>(&mut self, facts: Facts<F>) -> Vec<F> {
        let Some(known) = self.expected.checked_sub(facts.first) else {
            return Vec::new();
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let fresh: Vec<F> = facts.facts.into_iter().skip(known).collect();
        self.expected += fresh.len() as u64;
        fresh
    }

    /// Returns the number of the fact that is expected next, which is the answer to every call with facts.
    pub fn expected(&self) -> u64 {
        self.expected
    }
}

/// Declares the facts that a gateway receives as one enum, so that they have one order. Each variant holds the message
/// of the same name, which is declared beside it, and can be made from it.
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
        /// Calls and answers are lost, delayed or executed twice: each fact is still accepted once, in order.
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
