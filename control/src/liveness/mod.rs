//! Decides when a peer counts as dead, when silence is a reason to end one's own work, and when an actor
//! of this process is stuck.
//!
//! Times are durations since some fixed start. Nothing here sends, waits or reads a clock; nothing here
//! decides what a lost peer means.

#[cfg(test)]
mod tests;

use std::time::Duration;
use thiserror::Error;

/// Limits of the heartbeats between two processes, of which one watches the other (`heartbeat.*`): the interval of beats, the silence after
/// which the other counts as dead, and the time after which its actor counts as stuck; by default 1 s, 5 s and 10 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Interval between two beats (`heartbeat.interval`).
    pub interval: Duration,
    /// Silence after which a peer is declared dead (`heartbeat.timeout`).
    pub timeout: Duration,
    /// Time without a finished turn (handling of a message) after which an actor is declared dead although its process answers
    /// (`heartbeat.stuck-after`).
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
    /// Returns the silence after which the watched side ends its work: 0.6 of the time-out. So it stops before the watching side can
    /// declare it dead and start the work elsewhere.
    pub fn fence_after(&self) -> Duration {
        self.timeout.saturating_mul(3) / 5
    }
}

/// The side of a heartbeat pair that this process is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends the beats, and counts the peer as lost when no answer comes within the time-out, its actor is stuck, its process is gone, or
    /// it does not know the pair any more.
    Watching,
    /// Answers the beats, ends its own work when no beat comes for [`Limits::fence_after`], and counts the peer as lost when none comes
    /// within the time-out, the peer's actor is stuck, or its process is gone.
    Watched,
}

/// An event about the peer that [`Liveness::step`] takes into account: a beat or answer of it, news of its process, or time that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A beat or an answer of the peer has come. The peer is lost all the same if its actor is stuck.
    Heard {
        /// The time since the peer's actor last finished a turn, as the peer reports it.
        turn_age: Duration,
    },
    /// The peer's process answers, but is another incarnation (it has restarted or registered anew) or knows nothing of this
    /// pair. Ignored until the peer was heard once: before, the answer to its registration may still be under way.
    NotKnown,
    /// The RPC layer has found the peer's process dead: its connection was closed, and new ones were refused. The peer is lost
    /// at once.
    Confirmed {
        /// The fabric's observation, as text for people.
        why: String,
    },
    /// Time has passed: deadlines are checked. To be sent about once per heartbeat interval.
    Tick,
}

/// The consequence of an event or of the passing of time, which the caller carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The caller has nothing to do.
    Fine,
    /// Watched side only, once per silence: end the work here, because the watching side may soon declare this process dead. `since` is the
    /// length of the silence so far, not a point in time.
    Silent {
        /// Duration of the silence so far.
        since: Duration,
    },
    /// The heartbeats between the two are over, and the peer counts as dead, for this reason; returned once.
    Lost(Loss),
}

/// The reason why a peer counts as dead: silence, the end of its process, a stuck actor, or a process that does not know this pair.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Loss {
    /// The peer was not heard within the time-out.
    #[error("not heard for {} ms", silent_for.as_millis())]
    Timeout {
        /// Time since the peer was last heard.
        silent_for: Duration,
    },
    /// The peer's process has ended, as the RPC layer has found.
    #[error("its process is gone: {why}")]
    Connection {
        /// The fabric's observation, as text for people.
        why: String,
    },
    /// The peer's process answers, but says that its actor has finished no turn for longer than [`Limits::stuck_after`].
    #[error("stuck: no turn finished for {} ms", turn_age.as_millis())]
    Stuck {
        /// Time since the peer's actor last finished a turn.
        turn_age: Duration,
    },
    /// The peer is another incarnation (it has restarted or registered anew), or has forgotten this pair ([`Event::NotKnown`] after it
    /// was heard once).
    #[error("it does not know this connection (any more)")]
    Unknown,
}

/// One side's view of the other side of a heartbeat pair: decides when the peer counts as dead. The owner hands in what it hears and the
/// time by [`Liveness::step`] and carries out the verdict. Once the peer is lost the value is of no more use: a new connection gets a new
/// one. Sends and waits for nothing itself.
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
    /// Starts a pair of heartbeats at `now` (monotonic); the peer counts as heard at that time.
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

    /// Returns the time since the peer was last heard. On the watching side the time in which this process itself did not run does not
    /// count: from the next [`Event::Tick`] on, what lay between two ticks beyond two intervals. `now` is monotonic.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.heard_at)
    }

    /// Returns true if the pair is over: [`Verdict::Lost`] was returned.
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

    /// Takes an event at `now` (monotonic) and returns its consequence. After [`Verdict::Lost`] every event returns
    /// [`Verdict::Fine`].
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

/// Computes the time since an actor's last finished turn (handling of a message) from a counter that the actor raises with
/// every turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurnAge {
    turns: u64,
    age: Duration,
}

impl TurnAge {
    /// Records that the counter stands at `turns` after `passed` has gone by since the last observation, and returns the time
    /// since the last turn: zero if the counter has changed. `passed` counts as two `interval`s at most, since the process
    /// itself may have been stopped.
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
