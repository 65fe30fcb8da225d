//! The course of one run, drawn from its seed alone. A pure function of the seed.

use super::points::Point;
use rand::{
    Rng, SeedableRng,
    seq::{IndexedRandom, SliceRandom},
};
use rand_chacha::ChaCha8Rng;

/// Points at which a run aims before the end of the input; one more is the final checkpoint.
const POINTS: u64 = 3;
/// Keeps the plan's numbers apart from those of the mix, which are drawn from the same seed.
const SALT: u64 = 0x0063_6861_6f73;

/// The kind of process that a step of a run kills by SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// The program host: at a point the one that waits there.
    Host,
    /// A TaskManager: at a point that of the waiting host. The points of the enumerator are in a host of the JobManager, which
    /// is killed then.
    TaskManager,
    /// The JobManager that leads the job; another one is started, or a standby takes over.
    JobManager,
}

impl Victim {
    /// All kinds of processes that are killed, every one of them in each campaign.
    pub const ALL: [Self; 3] = [Self::Host, Self::TaskManager, Self::JobManager];

    /// Returns the victim's name for what is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "program hosts",
            Self::TaskManager => "TaskManagers",
            Self::JobManager => "JobManagers",
        }
    }
}

/// A directory of a run that is on a disk of its own, which becomes slow and full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The directory of the job's checkpoints.
    Checkpoints,
    /// The folder to which the job's sink commits.
    Output,
    /// The JobManagers' `high-availability.storageDir`: leases, logs of jobs, and programs.
    HighAvailability,
}

impl Place {
    /// All places; each of them is disturbed once in each run.
    pub const ALL: [Self; 3] = [Self::Checkpoints, Self::Output, Self::HighAvailability];

    /// Returns the name of the place's folder in that of the run.
    pub fn name(self) -> &'static str {
        match self {
            Self::Checkpoints => "checkpoints",
            Self::Output => "output",
            Self::HighAvailability => "ha",
        }
    }
}

/// A fault of one of the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskFault {
    /// Every operation on the disk hangs until that many milliseconds have passed, once.
    Slow(u64),
    /// The disk has no room until a JobManager has logged that something failed for it.
    Full,
}

impl DiskFault {
    /// Returns the name of the fault at a place, as a campaign counts and prints it.
    pub fn name(self, place: Place) -> &'static str {
        match (self, place) {
            (Self::Slow(_), Place::Checkpoints) => "slow checkpoints",
            (Self::Slow(_), Place::Output) => "slow output",
            (Self::Slow(_), Place::HighAvailability) => "slow ha",
            (Self::Full, Place::Checkpoints) => "full checkpoints",
            (Self::Full, Place::Output) => "full output",
            (Self::Full, Place::HighAvailability) => "full ha",
        }
    }
}

/// One step of a run, done after the step before it: a wait, a kill, a fault of the disk, or the end of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Waits until that many more checkpoints of the job are complete than at the step's begin; 0 does not wait.
    Checkpoints(usize),
    /// Kills a process, wherever it is in its work; another one takes its place.
    Kill(Victim),
    /// Arms the point, unless it is that of the final checkpoint, which [`Step::OpenGate`] has armed, and kills the victim when a process
    /// waits there. If none comes within 15 s, the point is disarmed, and nothing is killed.
    KillAt(Point, Victim),
    /// Makes the disk of a place slow or full for a while.
    Disk(Place, DiskFault),
    /// Lets the job read the rest of its input, as soon as it has completed that many checkpoints in all; arms the final checkpoint's point
    /// before that.
    OpenGate(usize),
}

/// Everything that a seed decides about one chaos run besides the job itself (its `Mix`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// True: a standby JobManager takes over. False: the killed one is started again.
    pub has_standby: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Draws a run from its seed: three kills at points, three anywhere, a slow or a full disk at each place, and a kill at the final
    /// checkpoint. Two seeds in a row aim at all points between them, and have both faults at each place.
    pub fn of(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ SALT);
        let mut points: Vec<Point> = {
            let first = seed.wrapping_mul(POINTS) % Point::BEFORE_END.len() as u64;
            let rotation = Point::BEFORE_END.into_iter().cycle();
            rotation.skip(usize::try_from(first).unwrap_or(0)).take(3).collect()
        };
        points.shuffle(&mut random);
        // One kill of each kind at points, one of each kind anywhere.
        let (mut aimed, mut blind) = (Victim::ALL, Victim::ALL);
        aimed.shuffle(&mut random);
        blind.shuffle(&mut random);
        let mut faults: Vec<Step> = (seed % 2..)
            .zip(Place::ALL)
            .map(|(turn, place)| {
                let slow = DiskFault::Slow(random.random_range(200..1_500));
                Step::Disk(place, if turn.is_multiple_of(2) { slow } else { DiskFault::Full })
            })
            .collect();
        faults.shuffle(&mut random);
        let mut steps = Vec::new();
        let mut faults = faults.into_iter();
        for ((point, at_point), anywhere) in points.into_iter().zip(aimed).zip(blind) {
            steps.push(Step::Checkpoints(random.random_range(0..4)));
            let kill = Step::Kill(anywhere);
            let kill_at = Step::KillAt(point, at_point);
            // A restore follows a failure: the kill before it is the failure.
            let aims_first = point != Point::Restore && random.random_bool(0.5);
            steps.extend(if aims_first { [kill_at, kill] } else { [kill, kill_at] });
            steps.extend(faults.next());
        }
        steps.push(Step::OpenGate(10));
        let last = *Victim::ALL.choose(&mut random).unwrap_or(&Victim::Host);
        steps.push(Step::KillAt(Point::FinalCheckpoint, last));
        Self { has_standby: random.random_bool(0.5), steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn half_of_the_kills_aim_at_points_and_two_runs_aim_at_all_of_them() {
        for seed in 0..200 {
            let aims = |seed| {
                let steps = Plan::of(seed).steps.into_iter();
                steps.filter_map(|step| match step {
                    Step::KillAt(point, _) => Some(point),
                    _ => None,
                })
            };
            let blind =
                Plan::of(seed).steps.iter().filter(|step| matches!(step, Step::Kill(_))).count();
            assert!(aims(seed).count() >= blind && aims(seed).count() + blind >= 5, "seed {seed}");
            let both: BTreeSet<Point> = aims(seed).chain(aims(seed + 1)).collect();
            assert_eq!(both, Point::ALL.into_iter().collect(), "seed {seed}");
        }
    }

    #[test]
    fn each_run_disturbs_each_disk_and_two_runs_make_each_of_them_slow_and_full() {
        for seed in 0..200 {
            let faults = |seed| {
                let steps = Plan::of(seed).steps.into_iter();
                steps.filter_map(|step| match step {
                    Step::Disk(place, fault) => Some((place, fault.name(place))),
                    _ => None,
                })
            };
            let places: BTreeSet<Place> = faults(seed).map(|(place, _)| place).collect();
            assert_eq!((places.len(), faults(seed).count()), (3, 3), "seed {seed}");
            let both: BTreeSet<_> = faults(seed).chain(faults(seed + 1)).collect();
            assert_eq!(both.len(), 6, "seed {seed}: {both:?}");
        }
    }

    #[test]
    fn a_restore_is_aimed_at_right_after_a_kill() {
        for seed in 0..200 {
            let steps = Plan::of(seed).steps;
            for pair in steps.windows(2) {
                if matches!(pair[1], Step::KillAt(Point::Restore, _)) {
                    assert!(matches!(pair[0], Step::Kill(_)), "seed {seed}: {steps:?}");
                }
            }
        }
    }
}
