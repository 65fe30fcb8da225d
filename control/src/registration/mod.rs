//! Decides when to register at a leader: at once at a new one, with growing pauses after a failure, after
//! a long pause or never after a refusal.
//!
//! The caller finds out who leads. This module must never forget the newest leader it was given,
//! and never accept an answer from an earlier one.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// Pauses between attempts to register (`cluster.registration.*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// Pause after the first failure; it doubles with each further one.
    pub first: Duration,
    /// Upper bound of the pause after a failure.
    pub max: Duration,
    /// Pause after a refusal that allows another attempt.
    pub refused: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            max: Duration::from_secs(10),
            refused: Duration::from_secs(30),
        }
    }
}

/// The way to one registration; `I` names a leader by its session.
#[derive(Debug, Clone)]
pub struct Registration<I> {
    pauses: Pauses,
    state: State<I>,
    /// Failures since the leader is known or was registered at.
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State<I> {
    NoLeader,
    /// Asked, not answered.
    Asking(I),
    Pausing(I, Duration),
    Registered(I),
    /// Refused for good by this leader.
    Refused(I),
}

/// Step that a registration takes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next<I> {
    /// No attempt is due now; wait for the next event.
    Nothing,
    /// Ask this leader to register.
    Ask(I),
}

impl<I: Copy + Eq> Registration<I> {
    /// No leader is known.
    pub fn new(pauses: Pauses) -> Self {
        Self { pauses, state: State::NoLeader, failures: 0 }
    }

    /// The newest leader that is known.
    pub fn leader(&self) -> Option<I> {
        match self.state {
            State::NoLeader => None,
            State::Asking(id)
            | State::Pausing(id, _)
            | State::Registered(id)
            | State::Refused(id) => Some(id),
        }
    }

    /// The leader that accepted.
    pub fn registered(&self) -> Option<I> {
        match self.state {
            State::Registered(id) => Some(id),
            _ => None,
        }
    }

    /// Somebody leads, or nobody any more. The same leader again changes nothing.
    pub fn leader_changed(&mut self, leader: Option<I>) -> Next<I> {
        if leader == self.leader() {
            return Next::Nothing;
        }
        self.failures = 0;
        match leader {
            None => {
                self.state = State::NoLeader;
                Next::Nothing
            }
            Some(id) => self.ask(id),
        }
    }

    /// A leader accepted; whether it is the one that was asked.
    pub fn accepted(&mut self, by: I) -> bool {
        if self.state != State::Asking(by) {
            return false;
        }
        self.failures = 0;
        self.state = State::Registered(by);
        true
    }

    /// A leader did not answer, or answered with a failure.
    pub fn failed(&mut self, now: Duration, at: I) {
        if self.state == State::Asking(at) {
            self.pause(now, at);
        }
    }

    /// A leader refused; with `retry` it may accept later. Whether it was the one that was asked.
    pub fn refused(&mut self, now: Duration, by: I, retry: bool) -> bool {
        if self.state != State::Asking(by) {
            return false;
        }
        self.state = match retry {
            true => State::Pausing(by, now.saturating_add(self.pauses.refused)),
            false => State::Refused(by),
        };
        true
    }

    /// The connection to a registered leader is gone: the next try is after a short pause, because that
    /// leader may be on its way out. Whether it was the one registered at.
    pub fn lost(&mut self, now: Duration, with: I) -> bool {
        if self.state != State::Registered(with) {
            return false;
        }
        self.pause(now, with);
        true
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) -> Next<I> {
        match self.state {
            State::Pausing(id, until) if now >= until => self.ask(id),
            _ => Next::Nothing,
        }
    }

    /// Returns the monotonic time at which [`Registration::tick`] is due; `None` if no pause is
    /// running.
    pub fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::Pausing(_, until) => Some(until),
            _ => None,
        }
    }

    fn ask(&mut self, id: I) -> Next<I> {
        self.state = State::Asking(id);
        Next::Ask(id)
    }

    fn pause(&mut self, now: Duration, id: I) {
        let pause = backoff(self.pauses.first, self.pauses.max, self.failures);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Pausing(id, now.saturating_add(pause));
    }
}

/// The pause after so many failures before this one: doubles from `first` up to `max`.
pub fn backoff(first: Duration, max: Duration, failures: u32) -> Duration {
    let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(max.max(first))
}
