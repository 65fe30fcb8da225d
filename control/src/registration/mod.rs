//! Decides when to register at a leader: at once at a new one, with growing pauses after a failure, after
//! a long pause or never after a refusal.
//!
//! The caller finds out who leads. This module must never forget the newest leader it was given,
//! and never accept an answer from an earlier one.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// Pauses between attempts to register at a leader, a ResourceManager or JobMaster (`cluster.registration.*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// Pause after the first failure, and after the loss of a leader that had accepted; doubles with each further failure in a row.
    pub first: Duration,
    /// Upper bound of the pause after failures; if `first` is longer, every pause is `first`.
    pub max: Duration,
    /// Pause after a refusal that allows another attempt; does not grow.
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

/// The state of one registration at whoever leads (a ResourceManager or a JobMaster): asked, registered, pausing or refused.
/// [`Registration::leader_changed`] begins it; the outcome of each call is reported by `accepted`, `failed` or `refused`, the end of an
/// accepted one by `lost`, and [`Registration::tick`] asks again after the pause. `I` names a leader by its session. Decides when to ask;
/// the caller finds the leader and sends the calls.
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
    /// The leader was asked and has not answered.
    Asking(I),
    Pausing(I, Duration),
    Registered(I),
    /// Refused for good by this leader.
    Refused(I),
}

/// The step that the caller takes next for a registration, as the methods of [`Registration`] return it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next<I> {
    /// No attempt is due now; wait for the next event.
    Nothing,
    /// Send a registration to this leader now, and report its outcome with [`Registration::accepted`], [`Registration::failed`]
    /// or [`Registration::refused`].
    Ask(I),
}

impl<I: Copy + Eq> Registration<I> {
    /// Makes a registration without a leader and without failures; nothing is asked before [`Registration::leader_changed`].
    pub fn new(pauses: Pauses) -> Self {
        Self { pauses, state: State::NoLeader, failures: 0 }
    }

    /// Returns the newest known leader, registered or not; `None` if there is none.
    pub fn leader(&self) -> Option<I> {
        match self.state {
            State::NoLeader => None,
            State::Asking(id)
            | State::Pausing(id, _)
            | State::Registered(id)
            | State::Refused(id) => Some(id),
        }
    }

    /// Returns the leader that has accepted the registration; `None` while there is none.
    pub fn registered(&self) -> Option<I> {
        match self.state {
            State::Registered(id) => Some(id),
            _ => None,
        }
    }

    /// Records the present leader; `None`: there is none now. A registration at the former one ends. A new leader is asked at once,
    /// and earlier failures are forgotten. The same leader again changes nothing, also if it has refused for good.
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

    /// Records that a leader accepted the registration, which also ends the count of failures. Returns false, and changes
    /// nothing, if that leader is not the one that was asked last or it has answered already.
    pub fn accepted(&mut self, by: I) -> bool {
        if self.state != State::Asking(by) {
            return false;
        }
        self.failures = 0;
        self.state = State::Registered(by);
        true
    }

    /// Records that a leader did not answer, or answered with a failure; the next attempt follows after a pause from `now`
    /// (monotonic) on, which doubles from [`Pauses::first`] up to [`Pauses::max`]. Ignored if that leader is not the one that
    /// was asked last, or it has answered already.
    pub fn failed(&mut self, now: Duration, at: I) {
        if self.state == State::Asking(at) {
            self.pause(now, at);
        }
    }

    /// Records that a leader refused the registration; with `retry` another attempt follows after [`Pauses::refused`],
    /// otherwise none until another leader comes. Returns false, and changes nothing, if that leader is not the one that was
    /// asked last or it has answered already. `now` is monotonic.
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

    /// Records that the connection to the registered leader is lost; the next attempt follows after [`Pauses::first`],
    /// because that leader may be ending. Returns false, and changes nothing, if the process is not registered at that
    /// leader. `now` is monotonic.
    pub fn lost(&mut self, now: Duration, with: I) -> bool {
        if self.state != State::Registered(with) {
            return false;
        }
        self.pause(now, with);
        true
    }

    /// Starts the attempt whose pause is over at `now` (monotonic); [`Next::Nothing`] if none is due.
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

/// Returns the pause before the next try after `failures` earlier failures in a row: `first` for 0, doubling with each up to
/// `max`; always `first` if that is longer than `max`.
pub fn backoff(first: Duration, max: Duration, failures: u32) -> Duration {
    let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(max.max(first))
}
