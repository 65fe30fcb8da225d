//! Begins and ends the faults of a plan at their times, and restarts processes that ended by
//! themselves, as their supervisor would.

use super::hosts::World;
use super::plan::{CANDIDATES, Fault, Plan, PlannedFault, WORKERS, candidate, worker};
use std::collections::BTreeMap;
use std::time::Duration;
use turmoil::Sim;

/// Time after which a process that ended by itself is started again.
const SUPERVISOR: Duration = Duration::from_secs(2);
/// The usual longest latency of a link.
const LATENCY_MAX: Duration = Duration::from_millis(60);

struct UnderWay {
    until: Duration,
    /// The number that the observer gave the fault.
    number: u64,
    fault: Fault,
}

/// Begins and ends the planned faults of one run at their times, and starts processes again that ended by themselves.
pub struct Faults {
    /// The faults that have not begun, the last one first.
    to_come: Vec<PlannedFault>,
    /// The faults under way, ordered by end.
    under_way: Vec<UnderWay>,
    /// Hosts that a fault keeps down.
    down: BTreeMap<String, u32>,
    /// Since when a host has had no process, by itself.
    ended: BTreeMap<String, Duration>,
}

impl Faults {
    /// Prepares the faults of a plan, which must be ordered by time; begins none.
    pub fn of(plan: &Plan) -> Self {
        let mut to_come = plan.faults.clone();
        to_come.reverse();
        Self { to_come, under_way: Vec::new(), down: BTreeMap::new(), ended: BTreeMap::new() }
    }

    /// Does what is due at the simulation's present time; to be called after each of its steps. Begins faults, aims those at the leader at
    /// the present one, ends faults, and starts processes that ended by themselves 2 s before. Tells the observer of each fault.
    pub fn apply(&mut self, sim: &mut Sim<'_>, world: &World) {
        let now = sim.elapsed();
        while let Some(fault) = self.to_come.pop_if(|f| f.at <= now) {
            let PlannedFault { lasts, fault, .. } = fault;
            let fault = fault.aimed_at(&world.storage.leader().unwrap_or_else(|| candidate(0)));
            world.observer.remark(now, &format!("{fault:?} for {lasts:?}"));
            let number = world.observer.fault_begins(&fault, now);
            self.begin(sim, world, &fault, number);
            self.under_way.push(UnderWay { until: now + lasts, number, fault });
        }
        let (over, under_way) =
            std::mem::take(&mut self.under_way).into_iter().partition(|fault| fault.until <= now);
        self.under_way = under_way;
        for UnderWay { number, fault, .. } in over {
            world.observer.remark(now, &format!("over: {fault:?}"));
            self.end(sim, world, &fault, number);
            world.observer.fault_ends(number, now);
        }
        self.supervise(sim, now);
    }

    fn begin(&mut self, sim: &mut Sim<'_>, world: &World, fault: &Fault, number: u64) {
        match fault {
            Fault::Loss { a, b, rate } => sim.set_link_fail_rate(a.as_str(), b.as_str(), *rate),
            Fault::Delay { a, b, latency } => {
                sim.set_link_max_message_latency(a.as_str(), b.as_str(), *latency);
            }
            Fault::Hold { a, b } => sim.hold(a.as_str(), b.as_str()),
            Fault::Partition { a, b } => each_pair(a, b, |x, y| sim.partition(x, y)),
            Fault::PartitionOneWay { from, to } => {
                sim.partition_oneway(from.as_str(), to.as_str());
            }
            Fault::Crash { host } | Fault::Bounce { host } => {
                *self.down.entry(host.clone()).or_default() += 1;
                sim.crash(host.as_str());
                world.system.ended(host, "its host crashed");
            }
            Fault::Storage { host, how } => world.storage.set_fault(host, Some((*how, number))),
            Fault::Freeze { host } => world.freezer.freeze(host),
            Fault::Reset { a, b } => {
                world.connections.reset(a, b);
            }
            Fault::HostCrash { host } => world.programs.crash(host, number),
            Fault::Flood => world.flood.begin(number),
        }
        if let Fault::Bounce { host } = fault {
            self.up(sim, host);
        }
    }

    fn end(&mut self, sim: &mut Sim<'_>, world: &World, fault: &Fault, number: u64) {
        match fault {
            Fault::Loss { a, b, .. } => sim.set_link_fail_rate(a.as_str(), b.as_str(), 0.0),
            Fault::Delay { a, b, .. } => {
                sim.set_link_max_message_latency(a.as_str(), b.as_str(), LATENCY_MAX);
            }
            Fault::Hold { a, b } => sim.release(a.as_str(), b.as_str()),
            Fault::Partition { a, b } => each_pair(a, b, |x, y| sim.repair(x, y)),
            Fault::PartitionOneWay { from, to } => sim.repair_oneway(from.as_str(), to.as_str()),
            Fault::Crash { host } => self.up(sim, host),
            Fault::Bounce { .. } | Fault::Reset { .. } | Fault::HostCrash { .. } => {}
            Fault::Storage { host, .. } => world.storage.set_fault(host, None),
            Fault::Freeze { host } => world.freezer.thaw(host),
            Fault::Flood => world.flood.end(number),
        }
    }

    /// One fault less keeps a host down.
    fn up(&mut self, sim: &mut Sim<'_>, host: &str) {
        let faults = self.down.entry(host.to_owned()).or_default();
        *faults = faults.saturating_sub(1);
        if *faults == 0 {
            sim.bounce(host);
        }
    }

    fn supervise(&mut self, sim: &mut Sim<'_>, now: Duration) {
        for host in (0..CANDIDATES).map(candidate).chain((0..WORKERS).map(worker)) {
            if self.down.get(&host).is_some_and(|n| *n > 0) || sim.is_host_running(host.as_str()) {
                self.ended.remove(&host);
                continue;
            }
            let since = *self.ended.entry(host.clone()).or_insert(now);
            if now.saturating_sub(since) >= SUPERVISOR {
                self.ended.remove(&host);
                sim.bounce(host.as_str());
            }
        }
    }
}

fn each_pair(a: &[String], b: &[String], mut f: impl FnMut(&str, &str)) {
    for x in a {
        for y in b {
            f(x, y);
        }
    }
}
