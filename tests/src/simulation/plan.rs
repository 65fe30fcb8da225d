//! What happens in one simulated run, drawn from its seed alone: jobs, faults, and their times.
//!
//! A pure function of the seed. It must never look at the run itself.

use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// JobManager candidates of a run.
pub const CANDIDATES: usize = 3;
/// TaskManager hosts of a run.
pub const WORKERS: usize = 6;
/// Slots of each TaskManager.
pub const SLOTS_PER_WORKER: u32 = 2;
/// Faults happen before this time.
pub const FAULT_PHASE: Duration = Duration::from_secs(400);
/// The run's virtual length: behind the fault phase everything is healed.
pub const RUN: Duration = Duration::from_secs(620);

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its seed.
    pub seed: u64,
    /// Whether the ResourceManager starts its workers itself.
    pub active: bool,
    /// By time.
    pub jobs: Vec<PlannedJob>,
    /// By time.
    pub faults: Vec<PlannedFault>,
}

/// One job that the client submits.
#[derive(Debug, Clone)]
pub struct PlannedJob {
    /// When.
    pub at: Duration,
    /// Parallelism of each of its vertices, chained by hash edges.
    pub parallelism: Vec<u32>,
    /// How long each of its tasks runs; `None`: until it is cancelled.
    pub task_time: Option<Duration>,
    /// Whether the client cancels it, and when.
    pub cancel_at: Option<Duration>,
}

/// One fault and how long it lasts.
#[derive(Debug, Clone)]
pub struct PlannedFault {
    /// When it begins.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
    /// What it is.
    pub fault: Fault,
}

/// A kind of fault.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Segments between two hosts are lost with this probability.
    Loss {
        /// One side.
        a: String,
        /// The other.
        b: String,
        /// 0 to 1.
        rate: f64,
    },
    /// Segments between two hosts take this long.
    Delay {
        /// One side.
        a: String,
        /// The other.
        b: String,
        /// One way.
        latency: Duration,
    },
    /// Segments between two hosts are held back and then delivered at once, behind younger ones.
    Reorder {
        /// One side.
        a: String,
        /// The other.
        b: String,
    },
    /// No segment passes between two groups of hosts.
    Partition {
        /// One side.
        a: Vec<String>,
        /// The other.
        b: Vec<String>,
    },
    /// No segment passes in one direction.
    PartitionOneWay {
        /// Sender.
        from: String,
        /// Receiver.
        to: String,
    },
    /// A host stops dead and is started again when the fault is over.
    Crash {
        /// Which.
        host: String,
    },
    /// A host stops dead and is started again at once.
    Bounce {
        /// Which.
        host: String,
    },
    /// A candidate does not reach the lease store.
    LeaseStoreLost {
        /// Which.
        host: String,
    },
}

impl Fault {
    /// Its kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Loss { .. } => "loss",
            Self::Delay { .. } => "delay",
            Self::Reorder { .. } => "reorder",
            Self::Partition { .. } => "partition",
            Self::PartitionOneWay { .. } => "partition one way",
            Self::Crash { .. } => "crash",
            Self::Bounce { .. } => "bounce",
            Self::LeaseStoreLost { .. } => "lease store lost",
        }
    }
}

/// Host name of a JobManager candidate.
pub fn candidate(i: usize) -> String {
    format!("jobmanager-{i}")
}

/// Host name of a TaskManager.
pub fn worker(i: usize) -> String {
    format!("taskmanager-{i}")
}

/// Host name of the client.
pub const CLIENT: &str = "client";

impl Plan {
    /// The run of a seed.
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
        Self { seed, active, jobs, faults }
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
    PlannedJob { at, parallelism, task_time, cancel_at }
}

/// Jobs beside each other of which each needs more than half of all slots: each may hold a part of what it
/// needs when something goes wrong.
fn draw_wide_jobs(rng: &mut ChaCha8Rng) -> Vec<PlannedJob> {
    let from = rng.random_range(20_000..340_000);
    let wide = |rng: &mut ChaCha8Rng| PlannedJob {
        at: millis(rng, from, from + 5_000),
        // All of it at once, or subtask by subtask.
        parallelism: vec![rng.random_range(7..=9); rng.random_range(1..=2)],
        task_time: Some(millis(rng, 10_000, 30_000)),
        cancel_at: None,
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
    let (a, b) = pair(rng);
    let fault = match kind {
        0 => Fault::Loss { a, b, rate: rng.random_range(0.01..0.3) },
        1 => Fault::Delay { a, b, latency: millis(rng, 100, 3_000) },
        2 => Fault::Reorder { a, b },
        3 => draw_partition(rng, &hosts),
        4 => Fault::PartitionOneWay { from: a, to: b },
        5 => Fault::Crash { host: draw_host(rng) },
        6 => Fault::Bounce { host: draw_host(rng) },
        _ => Fault::LeaseStoreLost { host: candidate(rng.random_range(0..CANDIDATES)) },
    };
    PlannedFault { at, lasts, fault }
}

/// A TaskManager is lost when hardly any election follows: whoever leads then must replace it by itself.
fn draw_last_crash(rng: &mut ChaCha8Rng) -> PlannedFault {
    let (at, lasts) = (millis(rng, 385_000, 395_000), millis(rng, 500, 5_000));
    PlannedFault { at, lasts, fault: Fault::Crash { host: worker(rng.random_range(0..WORKERS)) } }
}

/// A JobManager a third of the time: there are fewer of them, and they have more to lose.
fn draw_host(rng: &mut ChaCha8Rng) -> String {
    if rng.random_bool(0.34) {
        candidate(rng.random_range(0..CANDIDATES))
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
            assert_eq!(kinds.len(), 8, "seed {seed}: {kinds:?}");
            assert!(plan.faults.iter().all(|f| f.at + f.lasts <= FAULT_PHASE));
        }
    }
}
