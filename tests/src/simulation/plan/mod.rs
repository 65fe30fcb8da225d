//! The course of one simulated run, drawn from its seed alone: jobs, faults, and their times.
//!
//! A pure function of the seed. It must never look at the run itself.

mod checkpointing;
mod fault;

pub use checkpointing::Checkpointing;
pub use fault::{Fault, PlannedFault, StorageFault};

use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Number of JobManager hosts of a run, which contend for leadership.
pub const CANDIDATES: usize = 3;
/// Number of TaskManager hosts of a run.
pub const WORKERS: usize = 6;
/// Number of slots of each TaskManager.
pub const SLOTS_PER_WORKER: u32 = 2;
/// Virtual time since a run's start by which all faults have ended.
pub const FAULT_PHASE: Duration = Duration::from_secs(400);
/// The virtual length of a run. After [`FAULT_PHASE`] everything is healed, and the rest is the time in which the jobs must settle.
pub const RUN: Duration = Duration::from_secs(620);

/// Everything that a seed decides about one simulated run: the settings of its processes, its jobs, its faults and their times.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Seed of the run; the same seed gives the same trace.
    pub seed: u64,
    /// True if the ResourceManager requests its TaskManagers from the simulated external system; false if they run from the start.
    pub active: bool,
    /// The configuration of the run's processes.
    pub settings: Settings,
    /// Jobs to submit, ordered by time.
    pub jobs: Vec<PlannedJob>,
    /// Faults to inject, ordered by time.
    pub faults: Vec<PlannedFault>,
}

/// The options that all processes of a run share: time-outs, the size of mailboxes, and how many calls arrive late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Time after a ResourceManager's start during which missing TaskManagers are no failure
    /// (`resourcemanager.standalone.start-up-time`).
    pub start_up: Duration,
    /// Longest time that a request for a slot stays open before it fails (`slot.request.timeout`).
    pub slot_request: Duration,
    /// Time that a TaskManager has to register at a ResourceManager before its process ends (`taskmanager.registration.timeout`).
    pub registration: Duration,
    /// Number of calls that wait in one endpoint's mailbox; further calls are refused.
    pub mailbox_max: u64,
    /// Number of calls and answers out of a thousand that arrive late, where no order is promised.
    pub late_per_mille: u32,
}

/// The planned failure of a job's program, in the first subtask of its first vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trouble {
    /// Number of attempts that fail, counted anew under each JobMaster; later ones run.
    pub attempts: u32,
    /// Virtual time that each of these attempts runs before it fails.
    pub after: Duration,
    /// True if the failure is reported as fatal, so that the job fails without a restart.
    pub fatal: bool,
}

/// One job that the client of a run submits, and how its program behaves.
#[derive(Debug, Clone)]
pub struct PlannedJob {
    /// Virtual time since the run's start at which the client submits the job; it tries until a Dispatcher accepts.
    pub at: Duration,
    /// Parallelism of each of the job's vertices, which follow one another over hash edges; the first one is the source.
    pub parallelism: Vec<u32>,
    /// Run time of each of the job's tasks, whose data then ends; `None`: they run until they are cancelled.
    pub task_time: Option<Duration>,
    /// Virtual time since the run's start at which the client cancels the job, once it is accepted; `None`: never.
    pub cancel_at: Option<Duration>,
    /// The failure of the job's program; `None` if it does not fail by itself.
    pub trouble: Option<Trouble>,
    /// Number of restarts that its restart strategy allows; `None`: the cluster's strategy, which allows a million.
    pub restarts: Option<u32>,
    /// True if its first vertex has a coordinator, which takes part in checkpoints.
    pub coordinated: bool,
    /// The job's checkpoints; `None` if it takes none.
    pub checkpointing: Option<Checkpointing>,
}

/// Parallelism from which on a job needs more than half of all slots.
const WIDE: u32 = 7;

impl PlannedJob {
    /// Returns true if two such jobs cannot run at the same time.
    fn is_wide(&self) -> bool {
        self.parallelism.iter().any(|parallelism| *parallelism >= WIDE)
    }
}

/// Returns the host name of the JobManager number `i`, below [`CANDIDATES`]: `jobmanager-0`, ….
pub fn candidate(i: usize) -> String {
    format!("jobmanager-{i}")
}

/// Returns the host name of the TaskManager number `i`, below [`WORKERS`]: `taskmanager-0`, ….
pub fn worker(i: usize) -> String {
    format!("taskmanager-{i}")
}

/// Stands, as a host's name in a [`Fault`], for the host of the process that leads when the fault begins; see [`Fault::aimed_at`].
pub const LEADER: &str = "the leader";

/// Host name of the client, which submits the jobs and is no part of the cluster.
pub const CLIENT: &str = "client";

impl Plan {
    /// Draws the run of a seed: the same for the same seed, and with at least one fault of each kind.
    pub fn draw(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut jobs: Vec<_> = (0..rng.random_range(5..=7)).map(|_| draw_job(&mut rng)).collect();
        jobs.sort_by_key(|j| j.at);
        let mut faults: Vec<_> =
            (0..rng.random_range(20..=28)).map(|i| draw_fault(&mut rng, i)).collect();
        faults.push(draw_last_crash(&mut rng));
        faults.sort_by_key(|f| f.at);
        let active = rng.random_bool(0.5);
        jobs.extend(draw_wide_jobs(&mut rng));
        jobs.sort_by_key(|j| j.at);
        // These faults are drawn from random numbers of their own, so that a further kind of fault does not change the
        // other faults of a seed.
        let more = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x0b5e_17ed);
        faults.extend((0..more.random_range(7..=10)).map(|i| draw_process_fault(more, i)));
        faults.extend((0..more.random_range(4..=6)).map(|i| draw_storage_fault(more, i)));
        faults.extend(draw_revocation(more));
        faults.sort_by_key(|f| f.at);
        jobs.iter_mut().filter(|job| !job.is_wide()).for_each(|job| draw_trouble(more, job));
        // Checkpoints are drawn by a generator of their own, too.
        let checkpoints = &mut ChaCha8Rng::seed_from_u64(seed ^ 0xc4ec_4901);
        jobs.iter_mut().for_each(|job| checkpointing::draw_checkpointing(checkpoints, job));
        Self { seed, active, settings: draw_settings(more), jobs, faults }
    }
}

fn millis(rng: &mut ChaCha8Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.random_range(from..to))
}

fn draw_job(rng: &mut ChaCha8Rng) -> PlannedJob {
    let at = millis(rng, 1_000, 300_000);
    let vertices = rng.random_range(1..=3);
    let parallelism = (0..vertices).map(|_| rng.random_range(1..=3)).collect();
    let task_time = rng.random_bool(0.7).then(|| millis(rng, 5_000, 60_000));
    let cancel_at =
        (task_time.is_none() || rng.random_bool(0.1)).then(|| at + millis(rng, 30_000, 250_000));
    PlannedJob {
        at,
        parallelism,
        task_time,
        cancel_at,
        trouble: None,
        restarts: None,
        coordinated: false,
        checkpointing: None,
    }
}

/// Draws jobs at the same time of which each needs more than half of all slots: each may hold a
/// part of what it needs when something fails.
fn draw_wide_jobs(rng: &mut ChaCha8Rng) -> Vec<PlannedJob> {
    let from = rng.random_range(20_000..340_000);
    let wide = |rng: &mut ChaCha8Rng| PlannedJob {
        at: millis(rng, from, from + 5_000),
        // All of it at once, or subtask by subtask.
        parallelism: vec![rng.random_range(WIDE..=9); rng.random_range(1..=2)],
        task_time: Some(millis(rng, 10_000, 30_000)),
        cancel_at: None,
        trouble: None,
        restarts: None,
        coordinated: false,
        checkpointing: None,
    };
    (0..3).map(|_| wide(rng)).collect()
}

fn draw_fault(rng: &mut ChaCha8Rng, i: usize) -> PlannedFault {
    let at = millis(rng, 5_000, 380_000);
    let lasts = millis(rng, 200, 18_000);
    let hosts: Vec<String> =
        (0..CANDIDATES).map(candidate).chain((0..WORKERS).map(worker)).collect();
    let pair = |rng: &mut ChaCha8Rng| {
        let mut two = hosts.choose_multiple(rng, 2).cloned();
        // There are more than two hosts.
        (two.next().unwrap_or_default(), two.next().unwrap_or_default())
    };
    // Every kind comes up in every run; the rest of the run's faults are of any kind.
    let kind = if i < 8 { i } else { rng.random_range(0..8) };
    let (mut a, mut b) = pair(rng);
    // TaskManagers do not call each other here, so most failing links lead to the leader.
    match rng.random_range(0..3) {
        0 => a = LEADER.to_owned(),
        1 => b = LEADER.to_owned(),
        _ => {}
    }
    let fault = match kind {
        0 => Fault::Loss { a, b, rate: rng.random_range(0.01..0.3) },
        1 => Fault::Delay { a, b, latency: millis(rng, 100, 3_000) },
        2 => Fault::Hold { a, b },
        3 => draw_partition(rng, &hosts),
        4 => Fault::PartitionOneWay { from: a, to: b },
        5 => Fault::Crash { host: draw_host(rng) },
        6 => Fault::Bounce { host: draw_host(rng) },
        _ => draw_storage(rng),
    };
    PlannedFault { at, lasts, fault }
}

/// Draws a storage fault, mostly longer than a lease. The first three of a run are one of each kind.
fn draw_storage_fault(rng: &mut ChaCha8Rng, i: usize) -> PlannedFault {
    let (at, lasts) = (millis(rng, 5_000, 370_000), millis(rng, 1_000, 25_000));
    let fault = match (i, draw_storage(rng)) {
        (0, Fault::Storage { host, .. }) => Fault::Storage { host, how: StorageFault::Hang },
        (1, Fault::Storage { host, .. }) => Fault::Storage { host, how: StorageFault::Fail },
        (2, Fault::Storage { host, .. }) => {
            Fault::Storage { host, how: StorageFault::Slow(millis(rng, 100, 3_000)) }
        }
        (_, fault) => fault,
    };
    PlannedFault { at, lasts, fault }
}

/// Draws a fault of a process whose hosts and links work.
fn draw_process_fault(rng: &mut ChaCha8Rng, i: usize) -> PlannedFault {
    let at = millis(rng, 5_000, 380_000);
    let lasts = millis(rng, 1_000, 18_000);
    let host = draw_host(rng);
    let kind = if i < 4 { i } else { rng.random_range(0..4) };
    let fault = match kind {
        0 => Fault::Freeze { host },
        1 => {
            let b = if host == LEADER {
                worker(rng.random_range(0..WORKERS))
            } else {
                LEADER.to_owned()
            };
            Fault::Reset { a: host, b }
        }
        2 => Fault::HostCrash { host },
        _ => Fault::Flood,
    };
    PlannedFault { at, lasts, fault }
}

/// Draws a revocation: the leader loses its storage while many calls to it are pending.
fn draw_revocation(rng: &mut ChaCha8Rng) -> [PlannedFault; 2] {
    let (at, lasts) = (millis(rng, 5_000, 360_000), millis(rng, 10_000, 18_000));
    let lost = Fault::Storage { host: LEADER.to_owned(), how: StorageFault::Fail };
    [lost, Fault::Flood].map(|fault| PlannedFault { at, lasts, fault })
}

/// Lets some programs fail, some of them fatally.
fn draw_trouble(rng: &mut ChaCha8Rng, job: &mut PlannedJob) {
    job.coordinated = rng.random_bool(0.4);
    job.restarts = rng.random_bool(0.12).then(|| rng.random_range(0..=4));
    if rng.random_bool(0.3) {
        let attempts = rng.random_range(1..=3);
        let fatal = rng.random_bool(0.15);
        job.trouble = Some(Trouble { attempts, after: millis(rng, 0, 10_000), fatal });
    } else if rng.random_bool(0.08) {
        job.restarts = Some(rng.random_range(0..=4));
        job.trouble =
            Some(Trouble { attempts: u32::MAX, after: millis(rng, 0, 10_000), fatal: false });
    }
}

/// Draws the settings. Half of all runs never reach a time-out; in the others most time-outs are shorter than many
/// faults.
fn draw_settings(rng: &mut ChaCha8Rng) -> Settings {
    let patient = rng.random_bool(0.5);
    let short = |rng: &mut ChaCha8Rng, from, to| match !patient && rng.random_bool(0.7) {
        true => millis(rng, from, to),
        false => RUN * 2,
    };
    Settings {
        start_up: short(rng, 10_000, 40_000),
        slot_request: short(rng, 10_000, 40_000),
        registration: short(rng, 8_000, 20_000),
        mailbox_max: if rng.random_bool(0.75) { 48 } else { 256 },
        // Late calls of a burst arrive one by one, so a mailbox is full only in runs without late calls.
        late_per_mille: if rng.random_bool(0.4) { 0 } else { rng.random_range(1..=150) },
    }
}

/// Draws the loss of a TaskManager at a time after which an election is unlikely: the present
/// leader must replace it by itself.
fn draw_last_crash(rng: &mut ChaCha8Rng) -> PlannedFault {
    let (at, lasts) = (millis(rng, 385_000, 395_000), millis(rng, 500, 5_000));
    PlannedFault { at, lasts, fault: Fault::Crash { host: worker(rng.random_range(0..WORKERS)) } }
}

/// Draws a storage fault, mostly of the leader: the other processes use their storage only to find the leader.
fn draw_storage(rng: &mut ChaCha8Rng) -> Fault {
    let host = if rng.random_bool(0.6) { LEADER.to_owned() } else { draw_host(rng) };
    let how = match rng.random_range(0..4) {
        0 => StorageFault::Slow(millis(rng, 100, 3_000)),
        1 => StorageFault::Fail,
        _ => StorageFault::Hang,
    };
    Fault::Storage { host, how }
}

/// Draws a host, in a third of all cases a JobManager: there are fewer of them, and they have more to lose.
fn draw_host(rng: &mut ChaCha8Rng) -> String {
    if rng.random_bool(0.34) {
        match rng.random_bool(0.5) {
            true => LEADER.to_owned(),
            false => candidate(rng.random_range(0..CANDIDATES)),
        }
    } else {
        worker(rng.random_range(0..WORKERS))
    }
}

fn draw_partition(rng: &mut ChaCha8Rng, hosts: &[String]) -> Fault {
    let mut a = Vec::new();
    let mut b = Vec::new();
    for host in hosts {
        if rng.random_bool(0.5) { a.push(host.clone()) } else { b.push(host.clone()) }
    }
    Fault::Partition { a, b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_one_plan() {
        assert_eq!(format!("{:?}", Plan::draw(7)), format!("{:?}", Plan::draw(7)));
        assert_ne!(format!("{:?}", Plan::draw(7)), format!("{:?}", Plan::draw(8)));
    }

    #[test]
    fn every_plan_has_enough_of_everything() {
        for seed in 0..200 {
            let plan = Plan::draw(seed);
            assert!(plan.jobs.len() >= 5 && plan.faults.len() >= 20);
            let kinds: BTreeSet<_> = plan.faults.iter().map(|f| f.fault.kind()).collect();
            assert_eq!(kinds.len(), 14, "seed {seed}: {kinds:?}");
            assert!(plan.faults.iter().all(|f| f.at + f.lasts <= FAULT_PHASE));
        }
    }
}
