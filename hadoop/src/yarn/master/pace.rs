//! When an ApplicationMaster asks again: soon after something has changed, and the less often the longer nothing
//! comes of it. It knows no clock, and must never make a tight loop.

use super::AmRmOptions;
use crate::rpc::Time;
use std::time::Duration;

/// From one beat to the next right after a change.
const QUICK: Duration = Duration::from_millis(10);
/// The divisor of the time waited so far that gives the pause before the next beat: beats become fewer the longer the
/// wait is, and an answer is heard at most a tenth of the wait late.
const LATE: u32 = 10;
/// How many times as long as its answers took a ResourceManager is left in peace: many ask one that is busy.
const PEACE: u32 = 4;
/// The time that must pass per beat that comes sooner than the options have it. An ApplicationMaster that changes
/// something all the time makes, over a longer time, at most 20 such beats per second.
const COST: Duration = Duration::from_millis(50);

/// When the last beats were, and why.
#[derive(Debug)]
pub(super) struct Pace {
    idle: Duration,
    busy: Duration,
    /// When the change was that is waited upon.
    since: Time,
    /// When the last beat was, if there was any.
    last: Option<Time>,
    /// How long the last two answers took. One that is slow says nothing of a ResourceManager.
    took: [Duration; 2],
    /// When the beats so far are paid for.
    paid: Time,
}

impl Pace {
    /// For one that has just begun.
    pub(super) fn new(options: AmRmOptions) -> Self {
        let AmRmOptions { idle, busy, .. } = options;
        let zero = Time::ZERO;
        Self { idle, busy, since: zero, last: None, took: [zero; 2], paid: zero }
    }

    /// Something has changed.
    pub(super) fn changed(&mut self, now: Time) {
        if self.paid <= now {
            self.since = now;
        }
    }

    /// A beat begins.
    pub(super) fn beats(&mut self, now: Time) {
        let early = self.last.is_some_and(|last| now < last.saturating_add(self.busy));
        self.last = Some(now);
        if early {
            self.paid = self.paid.max(now).saturating_add(COST);
        }
    }

    /// It has been answered.
    pub(super) fn answered(&mut self, now: Time) {
        let [_, before] = self.took;
        self.took = [before, now.saturating_sub(self.last.unwrap_or(now))];
    }

    /// When the next beat is due; containers are wanted, or something is unsaid, while it is `busy`.
    pub(super) fn due(&self, busy: bool) -> Time {
        match (self.last, busy) {
            // What is asked for right after the registration need not wait.
            (None, true) => Time::ZERO,
            (None, false) => self.idle,
            (Some(last), false) => last.saturating_add(self.idle),
            (Some(last), true) => {
                let late = last.saturating_sub(self.since) / LATE;
                let [before, took] = self.took;
                let peace = before.min(took).saturating_mul(PEACE);
                let pause = QUICK.max(late).max(peace).min(self.busy);
                last.saturating_add(pause)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    /// The beats from `now` on until `end`, each answered after `took`.
    fn beats(pace: &mut Pace, mut now: Time, end: Time, took: Duration) -> Vec<Time> {
        let mut seen = Vec::new();
        loop {
            now = now.max(pace.due(true));
            if now > end {
                return seen;
            }
            pace.beats(now);
            seen.push(now);
            now += took;
            pace.answered(now);
        }
    }

    #[test]
    fn a_first_wish_is_told_at_once() {
        let mut pace = Pace::new(AmRmOptions::default());
        assert_eq!(pace.due(false), AmRmOptions::default().idle);
        pace.changed(3 * MS);
        assert_eq!(pace.due(true), Time::ZERO);
    }

    #[test]
    fn what_is_waited_for_is_heard_of_late_by_a_tenth_at_most() {
        let mut pace = Pace::new(AmRmOptions::default());
        let asked = 7000 * MS;
        pace.beats(asked - 4000 * MS);
        pace.changed(asked);
        let seen = beats(&mut pace, asked, asked + 10_000 * MS, MS);
        assert_eq!(seen.first(), Some(&asked));
        for pair in seen.windows(2) {
            let (waited, pause) = (pair[0] - asked, pair[1] - pair[0]);
            assert!(pause >= 10 * MS && pause <= 200 * MS, "{waited:?} {pause:?}");
            assert!(pause <= (waited / 10).max(10 * MS), "{waited:?} {pause:?}");
        }
        let within = |time: Duration| seen.iter().filter(|beat| **beat - asked <= time).count();
        assert_eq!((within(100 * MS), within(1000 * MS)), (11, 35));
        // From 2 s on every 200 ms.
        assert_eq!(within(10_000 * MS) - within(5000 * MS), 25);
    }

    #[test]
    fn a_resource_manager_that_goes_on_answering_late_is_left_in_peace() {
        let mut pace = Pace::new(AmRmOptions::default());
        pace.changed(Time::ZERO);
        for (beat, took, due) in
            [(0, 8, 10), (10, 5, 30), (30, 1, 40), (40, 900, 50), (50, 900, 250)]
        {
            pace.beats(beat * MS);
            pace.answered((beat + took) * MS);
            assert_eq!(pace.due(true), due * MS, "{beat}");
        }
    }

    #[test]
    fn the_options_bound_it() {
        let (idle, busy) = (8 * MS, 3 * MS);
        let mut pace = Pace::new(AmRmOptions { idle, busy, events: 1 });
        pace.changed(Time::ZERO);
        pace.beats(100 * MS);
        pace.answered(101 * MS);
        assert_eq!((pace.due(true), pace.due(false)), (103 * MS, 108 * MS));
        // Who wants to beat often owes nothing for it.
        let options = AmRmOptions { busy: 45 * MS, ..AmRmOptions::default() };
        let (mut pace, end) = (Pace::new(options), 60_000 * MS);
        pace.changed(Time::ZERO);
        let last = *beats(&mut pace, Time::ZERO, end, MS).last().unwrap();
        assert_eq!(pace.due(true), last + 45 * MS, "until something changes");
        pace.changed(last + MS);
        assert_eq!(pace.due(true), last + 10 * MS);
    }

    proptest! {
        /// However often something changes, there are 20 quick beats in a second on the whole.
        #[test]
        fn who_changes_something_all_the_time_is_not_quick_all_the_time(
            pauses in proptest::collection::vec(1_u32..900, 100..300),
            took in 0_u32..4,
        ) {
            let mut pace = Pace::new(AmRmOptions::default());
            let (mut now, mut count) = (10_000 * MS, 0);
            let began = now;
            for pause in pauses {
                pace.changed(now);
                let end = now + pause * MS;
                count += beats(&mut pace, now, end, took * MS).len();
                now = end;
            }
            // What is quick at the end is paid for later.
            let time = (now - began).as_millis();
            let most = time / COST.as_millis() + time / 200 + 80;
            prop_assert!(count as u128 <= most, "{count} in {time} ms");
        }
    }
}
