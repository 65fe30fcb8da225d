//! Decides when a peer counts as dead, when silence is a reason to end one's own work, and when an actor
//! of this process is stuck.
//!
//! Times are durations since some fixed start. Nothing here sends, waits or reads a clock; nothing here
//! decides what a lost peer means.

#[cfg(test)]
mod tests;

use std::time::Duration;
use thiserror::Error;

/// Limits of the heartbeats (`heartbeat.*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Interval between two beats (`heartbeat.interval`).
    pub interval: Duration,
    /// Silence after which a peer is declared dead (`heartbeat.timeout`).
    pub timeout: Duration,
    /// Time without a finished turn after which an actor is declared dead although its process
    /// answers (`heartbeat.stuck-after`).
    pub stuck_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            stuck_after: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Silence after which the watched side must have ended its work: 0.6 of the time-out. So it
    /// stops before the watching side can declare it dead and start the work elsewhere.
    pub fn fence_after(&self) -> Duration {
        self.timeout.saturating_mul(3) / 5
    }
}

/// The side of a pair that this process is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends the beats and declares the other dead.
    Watching,
    /// Answers the beats, and ends its own work when they stay out.
    Watched,
}

/// An event that the core is to take into account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The peer was heard; its actor finished a turn that long ago.
    Heard {
        /// Age of the last finished turn.
        turn_age: Duration,
    },
    /// The peer answers, but it is another incarnation or knows nothing of this pair. Believed once it had
    /// known the pair: before, the answer to its registration may still be under way.
    NotKnown,
    /// The fabric found the peer's process dead: closed, and refused within the time for a suspicion.
    Confirmed {
        /// The fabric's observation, as text for people.
        why: String,
    },
    /// Time has passed: deadlines are checked.
    Tick,
}

/// Consequence of an event or of the passing of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is to be done.
    Fine,
    /// Watched side, once per silence: end what the watching side may soon declare dead.
    Silent {
        /// Duration of the silence.
        since: Duration,
    },
    /// The pair is over; reported once.
    Lost(Loss),
}

/// The reason why a peer is lost.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Loss {
    /// The peer was not heard within the time-out.
    #[error("not heard for {} ms", silent_for.as_millis())]
    Timeout {
        /// Duration of the silence.
        silent_for: Duration,
    },
    /// The peer's process has ended.
    #[error("its process is gone: {why}")]
    Connection {
        /// The fabric's observation, as text for people.
        why: String,
    },
    /// The peer's process answers, but its actor finishes no turns.
    #[error("stuck: no turn finished for {} ms", turn_age.as_millis())]
    Stuck {
        /// Age of its last finished turn.
        turn_age: Duration,
    },
    /// The peer is another incarnation, or has forgotten this pair.
    #[error("it does not know this connection (any more)")]
    Unknown,
}

/// One side's view of the other side of a pair.
#[derive(Debug, Clone)]
pub struct Liveness {
    role: Role,
    limits: Limits,
    heard_at: Duration,
    ticked_at: Duration,
    known: bool,
    silent: bool,
    over: bool,
}

impl Liveness {
    /// Starts a pair at `now` (monotonic); the registration counts as hearing from the peer.
    pub fn new(role: Role, limits: Limits, now: Duration) -> Self {
        Self {
            role,
            limits,
            heard_at: now,
            ticked_at: now,
            known: false,
            silent: false,
            over: false,
        }
    }

    /// Time since the peer was last heard.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.heard_at)
    }

    /// Returns true if the pair is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the monotonic time at which silence has its next consequence, if the peer is not
    /// heard before. Until then [`Event::Tick`] is needed only so often that this process's own
    /// stops can be told from the peer's silence.
    pub fn deadline(&self) -> Duration {
        let fences = self.role == Role::Watched && !self.silent;
        let wait = if fences { self.limits.fence_after() } else { self.limits.timeout };
        self.heard_at.saturating_add(wait)
    }

    /// Takes an event. After [`Verdict::Lost`] every event is fine.
    pub fn step(&mut self, now: Duration, event: Event) -> Verdict {
        if self.over {
            return Verdict::Fine;
        }
        match event {
            Event::Heard { turn_age } if turn_age > self.limits.stuck_after => {
                self.lose(Loss::Stuck { turn_age })
            }
            Event::Heard { .. } => {
                self.heard_at = self.heard_at.max(now);
                self.silent = false;
                self.known = true;
                Verdict::Fine
            }
            Event::NotKnown if !self.known => Verdict::Fine,
            Event::NotKnown => self.lose(Loss::Unknown),
            Event::Confirmed { why } => self.lose(Loss::Connection { why }),
            Event::Tick => self.tick(now),
        }
    }

    fn tick(&mut self, now: Duration) -> Verdict {
        let passed = now.saturating_sub(self.ticked_at);
        self.ticked_at = now;
        let expected = self.limits.interval.saturating_mul(2);
        // A watcher that was stopped itself has heard no peer and must not blame any: the time in
        // which it did not run does not count. The watched side counts that time, since others may
        // have given up on it.
        if self.role == Role::Watching && passed > expected {
            self.heard_at = self.heard_at.saturating_add(passed.saturating_sub(expected)).min(now);
        }
        let silent_for = self.silence(now);
        if silent_for >= self.limits.timeout {
            return self.lose(Loss::Timeout { silent_for });
        }
        if self.role == Role::Watched && !self.silent && silent_for >= self.limits.fence_after() {
            self.silent = true;
            return Verdict::Silent { since: silent_for };
        }
        Verdict::Fine
    }

    fn lose(&mut self, loss: Loss) -> Verdict {
        self.over = true;
        Verdict::Lost(loss)
    }
}

/// The age of an actor's last finished turn, from a counter that the actor raises with every turn.
///
/// Age grows only while the observer itself runs: after a stop of the whole process no actor looks
/// stuck that had no chance to run.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurnAge {
    turns: u64,
    age: Duration,
}

impl TurnAge {
    /// Records the counter after `passed` has gone by since the last observation, and returns the
    /// age. `passed` counts as two intervals at most.
    pub fn observe(&mut self, turns: u64, passed: Duration, interval: Duration) -> Duration {
        if turns == self.turns {
            self.age = self.age.saturating_add(passed.min(interval.saturating_mul(2)));
        } else {
            self.turns = turns;
            self.age = Duration::ZERO;
        }
        self.age
    }
}
