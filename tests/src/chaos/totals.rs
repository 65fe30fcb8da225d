//! The events of all runs of a campaign, and the decision whether they show anything: a campaign that has killed nobody at a point
//! says nothing about it, and fails.

use super::{plan::Victim, points::Point, run::Seen};
use std::collections::BTreeMap;

/// Number of runs from which on every point must be hit and every kind of fault must happen. A
/// single run is a replay.
const RUNS_THAT_SHOW: u64 = 2;
/// The faults of disks, by their names in [`Seen::disks`].
const DISKS: [&str; 6] =
    ["slow checkpoints", "slow output", "slow ha", "full checkpoints", "full output", "full ha"];

/// The kills and faults of all runs of a campaign.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    kills: BTreeMap<Victim, usize>,
    hits: BTreeMap<Point, usize>,
    disks: BTreeMap<&'static str, usize>,
}

impl Totals {
    /// Adds the events of a run that has succeeded.
    pub fn add(&mut self, seen: &Seen) {
        add(&mut self.kills, &seen.kills);
        add(&mut self.hits, &seen.hits);
        add(&mut self.disks, &seen.disks);
    }

    /// Returns the lines that tell a person how often each point was hit and each fault happened, those that never did included.
    pub fn lines(&self) -> Vec<String> {
        let line = |name: &str, n: usize| format!("  {name:<18} {n}");
        let mut lines = vec!["kills at points:".to_owned()];
        lines.extend(Point::ALL.map(|point| line(point.name(), of(&self.hits, &point))));
        lines.push("killed and disturbed:".to_owned());
        lines.extend(Victim::ALL.map(|victim| line(victim.name(), of(&self.kills, &victim))));
        lines.extend(DISKS.map(|disk| line(disk, of(&self.disks, &disk))));
        lines
    }

    /// Returns the names of the points and faults for which a campaign of this many runs fails because they never happened: a point at
    /// which nobody was killed, a kind of process that was not killed, a disk that was never slow or never full (if `disks`; a campaign
    /// without disks does not need those). Empty for a single run, which repeats another one.
    pub fn never_happened(&self, runs: u64, disks: bool) -> Vec<&'static str> {
        if runs < RUNS_THAT_SHOW {
            return Vec::new();
        }
        let points = Point::ALL.into_iter().filter(|point| of(&self.hits, point) == 0);
        let victims = Victim::ALL.into_iter().filter(|victim| of(&self.kills, victim) == 0);
        let disks = DISKS.into_iter().filter(|disk| disks && of(&self.disks, disk) == 0);
        points.map(Point::name).chain(victims.map(Victim::name)).chain(disks).collect()
    }
}

fn add<K: Ord + Copy>(totals: &mut BTreeMap<K, usize>, more: &BTreeMap<K, usize>) {
    for (what, n) in more {
        *totals.entry(*what).or_default() += n;
    }
}

fn of<K: Ord>(totals: &BTreeMap<K, usize>, what: &K) -> usize {
    totals.get(what).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a campaign in which everything happened, but for what `changed` takes away.
    fn totals(changed: impl Fn(&mut Seen)) -> Totals {
        let mut seen = Seen {
            kills: Victim::ALL.map(|victim| (victim, 1)).into(),
            hits: Point::ALL.map(|point| (point, 1)).into(),
            disks: DISKS.map(|disk| (disk, 1)).into(),
            ..Seen::default()
        };
        changed(&mut seen);
        let mut totals = Totals::default();
        totals.add(&seen);
        totals.add(&Seen::default());
        totals
    }

    #[test]
    fn a_campaign_without_a_hit_at_a_point_or_without_a_kind_of_fault_fails_by_its_name() {
        assert_eq!(totals(|_| ()).never_happened(2, true), [""; 0]);
        for point in Point::ALL {
            let without = totals(|seen| {
                seen.hits.remove(&point);
            });
            assert_eq!(without.never_happened(2, true), [point.name()]);
            // A point that was aimed at, and that nobody came to, is not hit.
            let missed = totals(|seen| {
                seen.hits.insert(point, 0);
                seen.missed.push(point);
            });
            assert_eq!(missed.never_happened(50, false), [point.name()]);
            let line = format!("  {:<18} 0", point.name());
            assert!(missed.lines().contains(&line), "{:?}", missed.lines());
        }
        for victim in Victim::ALL {
            let without = totals(|seen| {
                seen.kills.remove(&victim);
            });
            assert_eq!(without.never_happened(2, false), [victim.name()]);
        }
        let calm = totals(|seen| seen.disks.clear());
        assert_eq!(calm.never_happened(2, true), DISKS);
        assert_eq!(calm.never_happened(2, false), [""; 0], "disks were left out");
        assert_eq!(Totals::default().never_happened(1, true), [""; 0], "a replay");
    }
}
