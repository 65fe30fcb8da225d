//! One process's decisions in an election over a store: when to renew, look and claim, and when its lease has ended.
//! Pure: reads and writes are [`Step`]s, and their results come back as [`Done`]. This module must never wait or read a
//! clock. All times are on this process's monotonic clock.

use super::{LeaderRecord, LeaseEvent, is_gone};
use bytes::Bytes;
use std::time::Duration;

/// The state of the newest epoch in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) record: LeaderRecord,
    /// The content of the holder's last beat; only a change of it means anything.
    pub(super) beat: Option<Bytes>,
    /// True if the holder has resigned.
    pub(super) resigned: bool,
}

/// The next read or write that the driver does on the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Renew the lease that this process holds.
    Renew { epoch: u64, beat: u64 },
    /// Read the newest epoch from the store.
    Look,
    /// Create the record of `epoch`, if no process has created it.
    Claim { epoch: u64 },
}

/// The result of a [`Step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Done {
    /// The newest epoch in the store. The beat was written if this is the epoch that the process holds.
    Renewed(Option<u64>),
    /// The newest epoch's state; `None` if the store has no epoch.
    Looked(Option<Seen>),
    /// True if this process created the epoch's record and no higher epoch exists.
    Claimed(bool),
}

#[derive(Debug)]
struct Held {
    epoch: u64,
    beats: u64,
    deadline: Duration,
}

/// The election state of one candidate process.
#[derive(Debug)]
pub(super) struct Contest {
    lease_duration: Duration,
    epoch_max: u64,
    held: Option<Held>,
    /// The rival's state as last seen, and the time since when it has not changed.
    rival: Option<(Seen, Duration)>,
    /// The newest epoch that the last look showed, if this process may claim the epoch after it.
    free: Option<u64>,
}

impl Contest {
    /// Returns a contest in which this process holds no lease. It never claims an epoch above `epoch_max`.
    pub(super) fn new(lease_duration: Duration, epoch_max: u64) -> Self {
        Self { lease_duration, epoch_max, held: None, rival: None, free: None }
    }

    /// Returns the next step, or `None` if no epoch is left to claim. `highest` is the highest epoch that this process
    /// has ever seen; a claimed epoch is always above it.
    pub(super) fn next_step(&self, highest: u64) -> Option<Step> {
        match (&self.held, self.free) {
            (Some(held), _) => Some(Step::Renew { epoch: held.epoch, beat: held.beats + 1 }),
            (None, None) => Some(Step::Look),
            (None, Some(free)) => {
                let epoch = free.max(highest);
                (epoch < self.epoch_max).then_some(Step::Claim { epoch: epoch + 1 })
            }
        }
    }

    /// Applies the result of a step that began at `started`. Returns the change of the lease, if there is one.
    pub(super) fn done(
        &mut self,
        step: Step,
        done: Done,
        started: Duration,
        now: Duration,
    ) -> Option<LeaseEvent> {
        match (step, done) {
            (Step::Renew { epoch, beat }, Done::Renewed(newest)) => {
                let deadline = self.deadline_after(started);
                let held = self.held.as_mut().filter(|held| held.epoch == epoch)?;
                if newest != Some(epoch) {
                    return self.lose();
                }
                held.beats = beat;
                held.deadline = held.deadline.max(deadline);
                self.expire(now)
            }
            (Step::Look, Done::Looked(seen)) => {
                self.looked(seen, now);
                None
            }
            (Step::Claim { epoch }, Done::Claimed(won)) => {
                self.free = None;
                self.rival = None;
                let deadline = self.deadline_after(started);
                // Rivals count the lease from the time when they first see the claim. A claim that took longer than the
                // lease would have ended already, so this process does not use it.
                if !won || now >= deadline {
                    return None;
                }
                self.held = Some(Held { epoch, beats: 0, deadline });
                Some(LeaseEvent::Granted { store_epoch: epoch })
            }
            _ => None,
        }
    }

    /// Records that a step failed. After a failed claim it is unknown whether the claim took effect, so the next step
    /// is to look.
    pub(super) fn failed(&mut self, step: Step) {
        if matches!(step, Step::Claim { .. }) {
            self.free = None;
            self.rival = None;
        }
    }

    /// Ends the lease if its deadline has passed at `now`.
    pub(super) fn expire(&mut self, now: Duration) -> Option<LeaseEvent> {
        self.held.as_ref().is_some_and(|held| now >= held.deadline).then(|| self.lose())?
    }

    /// Returns the deadline of the lease that this process holds.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.held.as_ref().map(|held| held.deadline)
    }

    /// Returns the epoch that this process holds.
    pub(super) fn held(&self) -> Option<u64> {
        self.held.as_ref().map(|held| held.epoch)
    }

    /// Returns true if the next step is a claim, which must not wait for the renewal interval.
    pub(super) fn is_urgent(&self) -> bool {
        self.free.is_some()
    }

    fn looked(&mut self, seen: Option<Seen>, now: Duration) {
        let Some(seen) = seen else {
            self.free = Some(0);
            return;
        };
        let unchanged_since = match &self.rival {
            Some((before, since)) if *before == seen => *since,
            _ => now,
        };
        let expired = now.saturating_sub(unchanged_since) >= self.lease_duration;
        if expired || seen.resigned || is_gone(&seen.record.identity) {
            self.free = Some(seen.record.store_epoch);
        }
        self.rival = Some((seen, unchanged_since));
    }

    fn lose(&mut self) -> Option<LeaseEvent> {
        self.rival = None;
        self.free = None;
        self.held.take().map(|_| LeaseEvent::Lost)
    }

    /// Returns the holder's deadline: 0.6 of the lease duration after `started`. A rival may claim only after the whole
    /// duration, so the margin between the two is 0.4 of it.
    fn deadline_after(&self, started: Duration) -> Duration {
        started.saturating_add(self.lease_duration.saturating_mul(3) / 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn seen(epoch: u64, beat: &'static str) -> Seen {
        let record = LeaderRecord {
            store_epoch: epoch,
            node: "far:6123".into(),
            rest: String::new(),
            identity: "far-machine/1/1".into(),
        };
        Seen { record, beat: Some(beat.into()), resigned: false }
    }

    /// Returns a contest that holds epoch 1 until 6 s (duration 10 s, claim begun at 0 s).
    fn holder() -> Contest {
        let mut contest = Contest::new(s(10), u64::MAX);
        assert_eq!(contest.next_step(0), Some(Step::Look));
        assert_eq!(contest.done(Step::Look, Done::Looked(None), s(0), s(0)), None);
        assert!(contest.is_urgent());
        let claim = Step::Claim { epoch: 1 };
        assert_eq!(contest.next_step(0), Some(claim));
        let granted = contest.done(claim, Done::Claimed(true), s(0), s(1));
        assert_eq!(granted, Some(LeaseEvent::Granted { store_epoch: 1 }));
        assert_eq!(contest.deadline(), Some(s(6)));
        contest
    }

    #[test]
    fn the_deadline_counts_from_the_start_of_the_last_good_renewal() {
        let mut contest = holder();
        let renew = Step::Renew { epoch: 1, beat: 1 };
        assert_eq!(contest.next_step(1), Some(renew));
        assert_eq!(contest.done(renew, Done::Renewed(Some(1)), s(2), s(5)), None);
        assert_eq!(contest.deadline(), Some(s(8)));
        contest.failed(Step::Renew { epoch: 1, beat: 2 });
        assert_eq!(contest.expire(s(7)), None);
        assert_eq!(contest.expire(s(8)), Some(LeaseEvent::Lost));
        assert_eq!((contest.expire(s(9)), contest.held()), (None, None));
    }

    #[test]
    fn a_renewal_that_returns_after_the_deadline_brings_nothing_back() {
        let mut contest = holder();
        let renew = Step::Renew { epoch: 1, beat: 1 };
        assert_eq!(contest.expire(s(6)), Some(LeaseEvent::Lost));
        assert_eq!(contest.done(renew, Done::Renewed(Some(1)), s(2), s(60)), None);
        assert_eq!(contest.held(), None);
        // The whole process was stopped meanwhile, so the result arrives before anything has checked the deadline.
        let mut stopped = holder();
        let lost = stopped.done(renew, Done::Renewed(Some(1)), s(2), s(60));
        assert_eq!((lost, stopped.held()), (Some(LeaseEvent::Lost), None));
    }

    #[test]
    fn a_claim_that_took_longer_than_the_lease_is_left_unused() {
        let mut contest = Contest::new(s(10), u64::MAX);
        contest.done(Step::Look, Done::Looked(None), s(0), s(0));
        let claim = Step::Claim { epoch: 1 };
        assert_eq!(contest.done(claim, Done::Claimed(true), s(0), s(6)), None);
        assert_eq!(contest.next_step(1), Some(Step::Look));
    }

    #[test]
    fn a_rival_waits_for_the_whole_lease_from_the_last_change_it_saw() {
        let mut contest = Contest::new(s(10), u64::MAX);
        let look = |contest: &mut Contest, beat, at| {
            contest.done(Step::Look, Done::Looked(Some(seen(4, beat))), s(at), s(at));
            contest.next_step(4)
        };
        assert_eq!(look(&mut contest, "1", 0), Some(Step::Look));
        assert_eq!(look(&mut contest, "2", 9), Some(Step::Look));
        assert_eq!(look(&mut contest, "2", 18), Some(Step::Look));
        assert_eq!(look(&mut contest, "2", 19), Some(Step::Claim { epoch: 5 }));
        assert_eq!(contest.next_step(9), Some(Step::Claim { epoch: 10 }), "a higher one was seen");
        contest.failed(Step::Claim { epoch: 5 });
        assert_eq!(contest.next_step(5), Some(Step::Look), "the claim may have taken effect");
    }

    #[test]
    fn a_higher_epoch_ends_the_lease_and_the_last_epoch_is_never_passed() {
        let mut contest = holder();
        let renew = Step::Renew { epoch: 1, beat: 1 };
        let lost = contest.done(renew, Done::Renewed(Some(2)), s(1), s(1));
        assert_eq!(lost, Some(LeaseEvent::Lost));
        let mut last = Contest::new(s(10), 7);
        last.done(
            Step::Look,
            Done::Looked(Some(Seen { resigned: true, ..seen(7, "") })),
            s(0),
            s(0),
        );
        assert_eq!(last.next_step(7), None);
    }
}
