//! Finds the begun faults that a component observed: a fault that nothing noticed has tested nothing.
//!
//! A fault of hosts or links is observed by a call between two hosts that it concerns, if the call was pending during
//! the fault and was lost or took longer than [`SLOW`]. Other faults are observed where they are caused, by the
//! component that gets the error.

use super::plan::Fault;
use std::collections::BTreeMap;
use std::time::Duration;

/// Virtual duration from which a call counts as slow, and so observes a fault of its link or hosts. Without faults no call is slow.
pub const SLOW: Duration = Duration::from_secs(1);
/// Maximum time after a fault in which a call ends that was pending during the fault.
const AFTERMATH: Duration = Duration::from_secs(15);

#[derive(Debug)]
struct Begun {
    fault: Fault,
    since: Duration,
    until: Option<Duration>,
}

/// The faults of one run that have begun: which of them may still be observed, and how many of each kind there were.
#[derive(Debug, Default)]
pub struct Faults {
    /// Faults that may still be observed, by number.
    open: BTreeMap<u64, Begun>,
    begun: BTreeMap<&'static str, u64>,
    last: u64,
}

impl Faults {
    /// Records that a fault begins at the virtual time `now`. Returns its number, from 1 on.
    pub fn begin(&mut self, fault: &Fault, now: Duration) -> u64 {
        self.last += 1;
        *self.begun.entry(fault.kind()).or_default() += 1;
        self.open.insert(self.last, Begun { fault: fault.clone(), since: now, until: None });
        self.last
    }

    /// Records that the fault of this number has ended at `now`, and forgets all faults that ended more than 15 s before: nothing observes
    /// those any more.
    pub fn end(&mut self, number: u64, now: Duration) {
        if let Some(begun) = self.open.get_mut(&number) {
            begun.until = Some(now);
        }
        self.open.retain(|_, begun| begun.until.is_none_or(|until| now <= until + AFTERMATH));
    }

    /// Records that a component got this fault's error. Returns the fault's kind the first time, then `None`.
    pub fn observe(&mut self, number: u64) -> Option<&'static str> {
        self.open.remove(&number).map(|begun| begun.fault.kind())
    }

    /// Records that a call from one host to another, which ended at `now` and `took` that long, was lost or slow. Returns the kinds of the
    /// faults that it observes: those between these hosts that lasted meanwhile. Each fault is observed once.
    pub fn bad_call(
        &mut self,
        (from, to): (&str, &str),
        now: Duration,
        took: Duration,
    ) -> Vec<&'static str> {
        let asked = now.saturating_sub(took);
        let during =
            |begun: &Begun| begun.since <= now && begun.until.is_none_or(|until| asked <= until);
        let seen = |begun: &Begun| during(begun) && begun.fault.concerns(from, to);
        let seen: Vec<u64> =
            self.open.iter().filter(|(_, begun)| seen(begun)).map(|(n, _)| *n).collect();
        seen.into_iter().filter_map(|number| self.observe(number)).collect()
    }

    /// Returns the number of begun faults of each kind, observed or not.
    pub fn begun(&self) -> BTreeMap<&'static str, u64> {
        self.begun.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn crash() -> Fault {
        Fault::Crash { host: "taskmanager-1".to_owned() }
    }

    #[test]
    fn a_crash_is_observed_once_by_a_lost_call_that_was_under_way() {
        let mut faults = Faults::default();
        let crash = faults.begin(&crash(), s(10));
        faults.end(crash, s(12));
        assert!(faults.bad_call(("client", "taskmanager-2"), s(11), s(1)).is_empty());
        assert!(faults.bad_call(("client", "taskmanager-1"), s(20), s(5)).is_empty());
        assert_eq!(faults.bad_call(("client", "taskmanager-1"), s(20), s(9)), ["crash"]);
        assert!(faults.bad_call(("client", "taskmanager-1"), s(20), s(9)).is_empty());
        assert_eq!(faults.begun(), BTreeMap::from([("crash", 1)]));
    }

    #[test]
    fn what_is_long_over_is_not_observed() {
        let mut faults = Faults::default();
        let first = faults.begin(&crash(), s(10));
        faults.end(first, s(12));
        let second = faults.begin(&crash(), s(100));
        faults.end(second, s(101));
        assert_eq!(faults.observe(first), None);
        assert_eq!(faults.observe(second), Some("crash"));
    }
}
