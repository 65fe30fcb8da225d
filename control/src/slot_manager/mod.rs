//! Matches what jobs declare with what TaskExecutors have, and says what is missing.
//!
//! One session, one value: it is made with its ResourceManager and dropped with it. Everything comes in
//! through the ResourceManager, stamped with the worker's incarnation. It never calls anybody: each
//! method changes state, and [`SlotManager::check`] answers the commands that follow.
//!
//! Laws: a slot is never given twice; a requirement is never exceeded by what is requested for it;
//! workers asked for never exceed what is declared; what one incarnation says never touches another's.

pub mod contention;
mod lacks;
pub mod matching;
mod queue;
#[cfg(test)]
mod tests;
mod types;
pub mod workers;

pub use types::{Command, Lack, Overview, Refusal, Settings, SlotRequest, Supply};

use crate::mutation::Rule;
use contention::Turn;
use matching::workers_for;
use model::slots::SlotAllocation;
use model::{
    AllocationId, InstanceId, JobId, JobMasterId, ResourceRequirement, SlotReport,
    WorkerResourceSpec,
};
use queue::Asked;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use workers::{NewWorker, Slot, SlotState, Worker, Workers};

#[derive(Debug)]
struct Job {
    job_master_id: JobMasterId,
    turn: Turn,
    requirements: Vec<ResourceRequirement>,
    lacking: Vec<ResourceRequirement>,
    lacking_since: Option<Duration>,
    told_at: Option<Duration>,
    /// When it was last asked to give way, and whether it did.
    asked: Option<Asked>,
    /// When others were asked to give way to it.
    promised_at: Option<Duration>,
}

/// The SlotManager's state.
#[derive(Debug)]
pub struct SlotManager {
    settings: Settings,
    workers: Workers,
    jobs: BTreeMap<JobId, Job>,
    blocked: BTreeSet<String>,
    /// Workers that can never be had, and why.
    never_met: BTreeMap<WorkerResourceSpec, String>,
    next_order: u64,
    drawn: u64,
    changes: u64,
    dirty: bool,
    /// When it was last looked who might give way.
    queue_seen_at: Option<Duration>,
    needed: Option<(u64, BTreeMap<WorkerResourceSpec, u32>)>,
}

impl SlotManager {
    /// Without workers and jobs.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            workers: Workers::default(),
            jobs: BTreeMap::new(),
            blocked: BTreeSet::new(),
            never_met: BTreeMap::new(),
            next_order: 0,
            drawn: 0,
            changes: 0,
            dirty: false,
            queue_seen_at: None,
            needed: None,
        }
    }

    /// Whether [`SlotManager::check`] has something to look at, time aside.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The workers and their slots.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// What is missing beyond the known workers, as it was last told.
    pub fn missing_workers(&self) -> BTreeMap<WorkerResourceSpec, u32> {
        self.needed.as_ref().map(|(_, missing)| missing.clone()).unwrap_or_default()
    }

    /// A TaskExecutor was registered.
    pub fn add_worker(&mut self, now: Duration, worker: NewWorker) {
        self.workers.add(now, worker);
        self.changes += 1;
        self.dirty = true;
    }

    /// A TaskExecutor is gone.
    pub fn remove_worker(&mut self, instance_id: InstanceId) {
        if self.settings.mutation.keeps(Rule::LostSlotsReplaced) {
            self.workers.remove(instance_id);
        }
        self.changes += 1;
        self.dirty = true;
    }

    /// A TaskExecutor reports its slots.
    pub fn report(&mut self, now: Duration, instance_id: InstanceId, report: SlotReport) {
        let settle = self.settings.settle;
        self.dirty |= self.workers.reconcile(now, instance_id, report, settle);
    }

    /// A TaskExecutor says that an allocation has ended.
    pub fn free_slot(
        &mut self,
        now: Duration,
        instance_id: InstanceId,
        index: u32,
        allocation_id: AllocationId,
    ) {
        let held = self.workers.state(instance_id, index).and_then(|state| state.holder());
        if let Some(held) = held.filter(|held| held.allocation_id == allocation_id) {
            self.dirty |= self.workers.set(now, instance_id, index, SlotState::Free);
            if let Some(job) = self.jobs.get_mut(&held.job_id) {
                job.gave();
            }
        }
    }

    /// A TaskExecutor gave the slot that it was asked for.
    pub fn slot_granted(&mut self, now: Duration, request: &SlotRequest) {
        let held = SlotAllocation { job_id: request.job_id, allocation_id: request.allocation_id };
        // A notice that the slot is free again may have come first.
        if self.workers.is_held_under(request.instance_id, request.index, held.allocation_id) {
            self.workers.set(now, request.instance_id, request.index, SlotState::Allocated(held));
        }
    }

    /// A TaskExecutor did not give the slot, or nothing is known of the request.
    pub fn slot_refused(&mut self, now: Duration, request: &SlotRequest, refusal: Refusal) {
        let (instance, index) = (request.instance_id, request.index);
        if self.workers.is_held_under(instance, index, request.allocation_id) {
            let state = match refusal {
                Refusal::Occupied(held) => SlotState::Allocated(held),
                Refusal::NotKnown => SlotState::Unknown,
            };
            self.workers.set(now, instance, index, state);
            self.dirty = true;
        }
    }

    /// A job declares all that it needs. An earlier JobMaster's declaration is not taken any more.
    pub fn require(
        &mut self,
        job_id: JobId,
        job_master_id: JobMasterId,
        mut requirements: Vec<ResourceRequirement>,
    ) {
        requirements.retain(|requirement| requirement.slots > 0);
        let order = self.next_order;
        let job = self.jobs.entry(job_id).or_insert_with(|| Job {
            job_master_id,
            turn: Turn { exceeds: false, order },
            requirements: Vec::new(),
            lacking: Vec::new(),
            lacking_since: None,
            told_at: None,
            asked: None,
            promised_at: None,
        });
        if job.turn.order == order {
            self.next_order += 1;
        }
        let stale = job_master_id < job.job_master_id;
        if stale && self.settings.mutation.keeps(Rule::OnlyLeaderDeclares) {
            return;
        }
        job.job_master_id = job_master_id;
        job.requirements = requirements;
        // What was told before was an answer to another declaration.
        (job.told_at, job.asked) = (None, None);
        self.dirty = true;
    }

    /// A job is gone. Its slots come back as their TaskExecutors free them.
    pub fn remove_job(&mut self, job_id: JobId) {
        self.dirty |= self.jobs.remove(&job_id).is_some();
    }

    /// The blocked nodes, whole.
    pub fn block_hosts(&mut self, hosts: impl IntoIterator<Item = String>) {
        self.blocked = hosts.into_iter().collect();
        self.dirty = true;
    }

    /// Replaces the workers that can never be had, each with the reason. A job that needs one of them is told so at the
    /// next [`SlotManager::check`], not only after `slot.request.timeout`.
    pub fn refuse_workers(
        &mut self,
        specs: impl IntoIterator<Item = (WorkerResourceSpec, String)>,
    ) {
        self.never_met = specs.into_iter().collect();
    }

    /// Matches, and answers everything that follows at `now`.
    pub fn check(&mut self, now: Duration) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.dirty {
            self.dirty = false;
            self.match_all(now, &mut commands);
        }
        self.ask_to_give_way(now, &mut commands);
        self.tell_lacks(now, &mut commands);
        self.release_idle(now, &mut commands);
        self.declare_workers(&mut commands);
        commands
    }

    fn match_all(&mut self, now: Duration, commands: &mut Vec<Command>) {
        for (_, job_id, mut lacking) in self.lacks_by_turn() {
            for need in &mut lacking {
                need.slots -= self.request_slots(now, job_id, need, commands);
            }
            lacking.retain(|need| need.slots > 0);
            if let Some(job) = self.jobs.get_mut(&job_id) {
                job.lacking_since = match (lacking.is_empty(), job.lacking_since) {
                    (true, _) => None,
                    (false, since) => Some(since.unwrap_or(now)),
                };
                job.lacking = lacking;
            }
        }
    }

    /// Requests free slots for a need; answers how many.
    fn request_slots(
        &mut self,
        now: Duration,
        job_id: JobId,
        need: &ResourceRequirement,
        commands: &mut Vec<Command>,
    ) -> u32 {
        let chosen = self.choose(job_id, need);
        let mut requested = 0;
        for (instance_id, index) in chosen {
            let allocation_id = self.draw_allocation();
            let pending = SlotState::Pending(SlotAllocation { job_id, allocation_id });
            if self.workers.set(now, instance_id, index, pending) {
                requested += 1;
                commands.push(Command::RequestSlot(SlotRequest {
                    instance_id,
                    index,
                    job_id,
                    allocation_id,
                    profile: need.profile.clone(),
                }));
            }
        }
        requested
    }

    /// Free slots for a need, at most as many as it asks for: the smallest that fulfil it; workers that the
    /// job is on already and that are used most come first, or, spread out, those used least in turn.
    fn choose(&self, job_id: JobId, need: &ResourceRequirement) -> Vec<(InstanceId, u32)> {
        let mut of_job: BTreeMap<InstanceId, u32> = BTreeMap::new();
        for (instance, _, _) in self.workers.held_by(job_id) {
            *of_job.entry(instance).or_default() += 1;
        }
        let mut candidates = Vec::new();
        for (instance, worker) in self.workers.iter().filter(|(_, worker)| self.usable(worker)) {
            let used = worker.slots.values().filter(|s| s.state.holder().is_some()).count();
            let own = of_job.get(instance).copied().unwrap_or(0);
            for (nth, (index, slot)) in self.free_slots(worker).enumerate() {
                if !slot.profile.fulfils(&need.profile) {
                    continue;
                }
                let preference = if self.settings.spread_out {
                    (used + nth, u32::MAX - own)
                } else {
                    (usize::MAX - used, u32::MAX - own)
                };
                candidates.push((&slot.profile, preference, *instance, index));
            }
        }
        if !self.settings.spread_out {
            // The job's own workers before those that are merely used.
            candidates.sort_by_key(|(profile, (used, own), instance, index)| {
                (*profile, *own, *used, *instance, *index)
            });
        } else {
            candidates.sort();
        }
        let wanted = usize::try_from(need.slots).unwrap_or(usize::MAX);
        let chosen = candidates.into_iter().take(wanted);
        chosen.map(|(_, _, instance, index)| (instance, index)).collect()
    }

    fn free_slots<'w>(
        &self,
        worker: &'w Worker,
    ) -> impl Iterator<Item = (u32, &'w Slot)> + use<'w> {
        let strict = self.settings.mutation.keeps(Rule::PendingSlotIsTaken);
        worker.slots.iter().filter_map(move |(index, slot)| {
            let free = match slot.state {
                SlotState::Free => true,
                SlotState::Pending(_) => !strict,
                SlotState::Allocated(_) | SlotState::Unknown => false,
            };
            free.then_some((*index, slot))
        })
    }

    fn usable(&self, worker: &Worker) -> bool {
        !worker.releasing && !self.blocked.contains(&worker.host)
    }

    /// The slots of all usable workers, held or free.
    fn usable_slots(&self) -> impl Iterator<Item = &Slot> {
        let usable = self.workers.iter().filter(|(_, worker)| self.usable(worker));
        usable.flat_map(|(_, worker)| worker.slots.values())
    }

    fn draw_allocation(&mut self) -> AllocationId {
        self.drawn += 1;
        AllocationId(crate::ids::nth_id(self.settings.seed, self.drawn))
    }

    fn release_idle(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let Supply::Active { idle_timeout, redundant, .. } = &self.settings.supply else {
            return;
        };
        let idle: Vec<(Duration, InstanceId)> = self
            .workers
            .iter()
            .filter(|(_, worker)| !worker.releasing)
            .filter_map(|(id, worker)| Some((worker.idle_since?, *id)))
            .collect();
        let needed = self.jobs.values().any(|job| job.lacking_since.is_some());
        let keep = usize::try_from(*redundant).unwrap_or(usize::MAX);
        let spare = idle.len().saturating_sub(keep);
        let mut due: Vec<_> = idle
            .into_iter()
            .filter(|(since, id)| {
                let blocked = self.workers.get(*id).is_some_and(|worker| !self.usable(worker));
                // What lacks slots would be given these, were they good for it; on a blocked node they are not.
                now.saturating_sub(*since) >= *idle_timeout && (!needed || blocked)
            })
            .collect();
        due.sort_unstable();
        for (_, instance_id) in due.into_iter().take(spare) {
            self.workers.release(instance_id);
            commands.push(Command::ReleaseWorker { instance_id });
        }
    }

    fn declare_workers(&mut self, commands: &mut Vec<Command>) {
        let Supply::Active { worker, slots_max, redundant, .. } = &self.settings.supply else {
            return;
        };
        let lacking: Vec<ResourceRequirement> =
            self.jobs.values().flat_map(|job| job.lacking.iter().cloned()).collect();
        let mut missing = workers_for(&lacking, worker).workers;
        let idle = self.workers.iter().filter(|(_, w)| self.usable(w) && w.idle_since.is_some());
        let ready = u32::try_from(idle.count()).unwrap_or(u32::MAX);
        let wanted = self.jobs.values().any(|job| !job.requirements.is_empty());
        let spare = redundant.saturating_sub(ready);
        if wanted && spare > 0 {
            let of_default = missing.entry(worker.clone()).or_default();
            *of_default = of_default.saturating_add(spare);
        }
        if let Some(max) = slots_max {
            let known: usize = self.workers.iter().map(|(_, worker)| worker.slots.len()).sum();
            cap(&mut missing, max.saturating_sub(u32::try_from(known).unwrap_or(u32::MAX)));
        }
        let needed = (self.changes, missing);
        if self.needed.as_ref() != Some(&needed) {
            commands.push(Command::NeedWorkers { seen: needed.0, missing: needed.1.clone() });
            self.needed = Some(needed);
        }
    }

    /// Sums over all workers.
    pub fn overview(&self) -> Overview {
        let (workers, slots, free_slots) = self.workers.totals();
        let mut sums = Overview { workers, slots, free_slots, ..Overview::default() };
        let all = self.workers.iter().map(|(_, worker)| worker);
        // Hardly ever is a node blocked.
        for worker in all.filter(|w| !self.blocked.is_empty() && self.blocked.contains(&w.host)) {
            sums.blocked_workers += 1;
            sums.blocked_free_slots += u32::try_from(worker.free().count()).unwrap_or(u32::MAX);
        }
        sums
    }
}

/// Cuts workers so that they have `slots` slots at most.
fn cap(workers: &mut BTreeMap<WorkerResourceSpec, u32>, mut slots: u32) {
    for (spec, n) in workers.iter_mut() {
        let each = spec.slots.max(1);
        *n = (*n).min(slots / each);
        slots = slots.saturating_sub(n.saturating_mul(each));
    }
    workers.retain(|_, n| *n > 0);
}
