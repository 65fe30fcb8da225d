//! Matches the requirements that jobs declare with the slots of TaskExecutors, and reports what is missing.
//!
//! There is one value per session of its ResourceManager, and it is dropped with that session. All input comes through
//! the ResourceManager, with the TaskManager's incarnation. The SlotManager never calls anybody: each method changes state,
//! and [`SlotManager::check`] returns the commands that follow.
//!
//! The cost of every method grows with its own input (a report, a job's slots) or with the logarithm of the numbers of
//! jobs, TaskManagers and slots: a submission costs the same with 10 and with 1,000 jobs waiting.
//!
//! Laws: a slot is never given twice; the slots requested for a requirement never exceed it; the TaskManagers asked for
//! never exceed what is declared; a report of one incarnation never changes another's slots.

mod choosing;
pub mod contention;
pub mod counts;
mod holdings;
pub mod matching;
mod queue;
mod shelves;
mod shortages;
mod supply;
pub mod task_managers;
#[cfg(test)]
mod tests;
mod types;
mod yielding;

pub use types::{Command, Overview, Refusal, Settings, Shortage, SlotRequest, Supply};

use crate::mutation::Rule;
use counts::Counts;
use matching::unmet_by;
use model::slots::SlotAllocation;
use model::{
    AllocationId, InstanceId, JobId, JobMasterId, ResourceRequirement, SlotReport,
    WorkerResourceSpec,
};
use queue::{Queue, Waiter};
use shortages::Agenda;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use task_managers::{NewTaskManager, SlotState, TaskManagers};
use yielding::Asked;

#[derive(Debug)]
struct Job {
    job_master_id: JobMasterId,
    /// The number of the job's first declaration, which gives its place in the queue.
    order: u64,
    requirements: Vec<ResourceRequirement>,
    short_since: Option<Duration>,
    told_at: Option<Duration>,
    /// The last time when the job was asked to yield, and whether it did.
    asked: Option<Asked>,
    /// The last time when other jobs were asked to yield to this job.
    promised_at: Option<Duration>,
}

/// The state of a SlotManager, which gives the slots of TaskManagers to jobs: TaskManagers and their slots, the jobs' requirements, and the
/// jobs that wait. In memory only; the next leader learns all of it from reports and declarations. Calls nobody: [`SlotManager::check`]
/// returns the commands; `report`, `slot_granted` and `remove_job` return their [`Command::FreeSlot`] at once.
#[derive(Debug)]
pub struct SlotManager {
    settings: Settings,
    task_managers: TaskManagers,
    jobs: BTreeMap<JobId, Job>,
    /// TaskManagers that can never be provided, each with the reason.
    never_met: BTreeMap<WorkerResourceSpec, String>,
    /// True if `never_met` has changed since the last check.
    refusals_changed: bool,
    /// Number of jobs with requirements.
    wanting: u32,
    /// Jobs whose requirements have changed since the last check.
    declared: BTreeSet<JobId>,
    /// Jobs with a shortage, as of the last check.
    queue: Queue,
    /// Times at which jobs are to be checked for requirements that cannot be met.
    agenda: Agenda,
    /// Removed jobs whose slots were not all reported free: these slots are freed when they are reported.
    ended: BTreeSet<JobId>,
    next_order: u64,
    drawn: u64,
    changes: u64,
    dirty: bool,
    /// The last time when it was decided which jobs should yield.
    queue_seen_at: Option<Duration>,
    needed: Option<(u64, BTreeMap<WorkerResourceSpec, u32>)>,
}

impl SlotManager {
    /// Makes a SlotManager without TaskManagers and jobs.
    pub fn new(settings: Settings) -> Self {
        Self {
            task_managers: TaskManagers::new(settings.mutation.keeps(Rule::PendingSlotIsTaken)),
            settings,
            jobs: BTreeMap::new(),
            never_met: BTreeMap::new(),
            refusals_changed: false,
            wanting: 0,
            declared: BTreeSet::new(),
            queue: Queue::default(),
            agenda: Agenda::default(),
            ended: BTreeSet::new(),
            next_order: 0,
            drawn: 0,
            changes: 0,
            dirty: false,
            queue_seen_at: None,
            needed: None,
        }
    }

    /// Returns true if TaskManagers, slots, requirements or blocked nodes have changed since the last [`SlotManager::check`], which should
    /// be called then. A granted request, newly refused TaskManager specs and time that has passed do not count.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Returns the registered TaskManagers and their slots.
    pub fn task_managers(&self) -> &TaskManagers {
        &self.task_managers
    }

    /// Adds a TaskExecutor with its first slot report; an earlier registration (incarnation) of the same process is removed
    /// with its slots. The next [`SlotManager::check`] gives the free slots to jobs. `now` is monotonic.
    pub fn add_task_manager(&mut self, now: Duration, task_manager: NewTaskManager) {
        self.task_managers.add(now, task_manager);
        self.changes += 1;
        self.dirty = true;
    }

    /// Removes a TaskExecutor that is gone, with its slots; jobs that held some of them miss them from now on, and the next check looks for
    /// replacements. Slots stay as they are if the TaskExecutor is not registered; the removal is counted all the same
    /// ([`Command::NeedTaskManagers`]'s `seen`).
    pub fn remove_task_manager(&mut self, instance_id: InstanceId) {
        if self.settings.mutation.keeps(Rule::LostSlotsReplaced) {
            self.task_managers.remove(instance_id);
        }
        self.changes += 1;
        self.dirty = true;
    }

    /// Applies a TaskExecutor's full slot report, if it is registered. A slot with a pending request keeps its state, and so does one
    /// whose state was set less than [`Settings::settle`] ago (by an answer, a notice or a report). In any case returns a
    /// [`Command::FreeSlot`] for each reported slot of a removed job: an earlier command was lost, or the job got the slot after its
    /// removal. `now` is monotonic.
    pub fn report(
        &mut self,
        now: Duration,
        instance_id: InstanceId,
        report: SlotReport,
    ) -> Vec<Command> {
        let held: Vec<AllocationId> = report
            .slots
            .iter()
            .filter_map(|status| status.allocation)
            .filter(|held| self.ended.contains(&held.job_id))
            .map(|held| held.allocation_id)
            .collect();
        let settle = self.settings.settle;
        let before = self.held_on(instance_id);
        self.dirty |= self.task_managers.reconcile(now, instance_id, report, settle);
        self.note_given(instance_id, &before);
        let free = |allocation_id| Command::FreeSlot { instance_id, allocation_id };
        held.into_iter().map(free).collect()
    }

    /// Handles a TaskExecutor's notice that an allocation has ended: the slot with this index is free. Ignored if the slot is
    /// not held under that allocation. `now` is monotonic.
    pub fn free_slot(
        &mut self,
        now: Duration,
        instance_id: InstanceId,
        index: u32,
        allocation_id: AllocationId,
    ) {
        let held = self.task_managers.state(instance_id, index).and_then(|state| state.holder());
        if let Some(held) = held.filter(|held| held.allocation_id == allocation_id) {
            self.dirty |= self.task_managers.set(now, instance_id, index, SlotState::Free);
            if let Some(job) = self.jobs.get_mut(&held.job_id) {
                job.gave();
            }
        }
    }

    /// Handles a TaskExecutor's answer that it has allocated the requested slot, which is the job's from now on. Ignored if the
    /// slot is no longer held under that allocation. Returns [`Command::FreeSlot`] if the job was removed meanwhile, otherwise
    /// `None`. `now` is monotonic.
    pub fn slot_granted(&mut self, now: Duration, request: &SlotRequest) -> Option<Command> {
        let SlotRequest { instance_id, index, job_id, allocation_id, .. } = *request;
        // A notice that the slot is free again may have arrived first.
        if !self.task_managers.is_held_under(instance_id, index, allocation_id) {
            return None;
        }
        let held = SlotAllocation { job_id, allocation_id };
        self.task_managers.set(now, instance_id, index, SlotState::Allocated(held));
        let ended = self.ended.contains(&job_id);
        ended.then_some(Command::FreeSlot { instance_id, allocation_id })
    }

    /// Handles a TaskExecutor's answer that it did not allocate the slot, or a request that failed without a known result;
    /// `refusal` gives the slot's new state. The job misses the slot again, and the next check chooses another. Ignored if the
    /// slot is no longer held under that allocation. `now` is monotonic.
    pub fn slot_refused(&mut self, now: Duration, request: &SlotRequest, refusal: Refusal) {
        let (instance, index) = (request.instance_id, request.index);
        if self.task_managers.is_held_under(instance, index, request.allocation_id) {
            let state = match refusal {
                Refusal::Occupied(held) => SlotState::Allocated(held),
                Refusal::NotKnown => SlotState::Unknown,
            };
            self.task_managers.set(now, instance, index, state);
            self.dirty = true;
        }
    }

    /// Replaces a job's requirements, which its JobMaster declares, with these whole amounts; entries with 0 slots are dropped, and none at
    /// all means that the job needs no slots (it keeps those that it has). The next check gives slots. The job keeps the place in the order
    /// of service that its first declaration gave it; a removed job is known again, with a new place. Ignored for an earlier JobMaster of
    /// the job than the last one that declared.
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
            order,
            requirements: Vec::new(),
            short_since: None,
            told_at: None,
            asked: None,
            promised_at: None,
        });
        if job.order == order {
            self.next_order += 1;
        }
        let stale = job_master_id < job.job_master_id;
        if stale && self.settings.mutation.keeps(Rule::OnlyLeaderDeclares) {
            return;
        }
        job.job_master_id = job_master_id;
        self.wanting -= u32::from(!job.requirements.is_empty());
        self.wanting += u32::from(!requirements.is_empty());
        job.requirements = requirements;
        // Earlier reports and requests answered another declaration.
        (job.told_at, job.asked) = (None, None);
        self.ended.remove(&job_id);
        self.declared.insert(job_id);
        self.dirty = true;
    }

    /// Removes a job and its requirements. Returns a [`Command::FreeSlot`] for each slot that is allocated to it, because
    /// nobody else frees these slots. Slots whose request is pending are freed when the request is answered: otherwise a
    /// TaskExecutor could be asked to free a slot before it is asked to allocate it. May be repeated, also for an unknown job.
    pub fn remove_job(&mut self, job_id: JobId) -> Vec<Command> {
        if let Some(job) = self.jobs.remove(&job_id) {
            self.wanting -= u32::from(!job.requirements.is_empty());
            self.queue.remove(job_id);
            self.agenda.cancel(job_id);
            self.dirty = true;
        }
        self.ended.insert(job_id);
        let given = |slot: &task_managers::Slot| match slot.state {
            SlotState::Allocated(held) => Some(held.allocation_id),
            SlotState::Pending(_) | SlotState::Free | SlotState::Unknown => None,
        };
        let held = self.task_managers.held_by(job_id);
        held.filter_map(|(instance_id, _, slot)| {
            Some(Command::FreeSlot { instance_id, allocation_id: given(slot)? })
        })
        .collect()
    }

    /// Replaces the set of blocked nodes (host names, spelled as the TaskManagers register them): no new slots on them are given to jobs;
    /// held slots stay. Nodes that are no longer in the set count as usable again from the next check on.
    pub fn block_hosts(&mut self, hosts: impl IntoIterator<Item = String>) {
        self.task_managers.block_hosts(hosts.into_iter().collect());
        self.dirty = true;
    }

    /// Replaces the set of TaskManager specs that the external resource system can never provide, each with the reason. The next
    /// [`SlotManager::check`] reports the shortage ([`Command::ReportShortage`]) for the jobs that miss slots of one of them, at the
    /// earliest 0.5 s after their shortage began, instead of only after `slot.request.timeout`.
    pub fn refuse_task_managers(
        &mut self,
        specs: impl IntoIterator<Item = (WorkerResourceSpec, String)>,
    ) {
        self.never_met = specs.into_iter().collect();
        self.refusals_changed = true;
    }

    /// Gives free slots to jobs with a shortage, and returns all commands that follow at `now` (monotonic): slot requests,
    /// requests to yield, reports of shortages, and, if TaskManagers are requested, released idle and missing TaskManagers. To be
    /// called after changes and at regular intervals.
    pub fn check(&mut self, now: Duration) -> Vec<Command> {
        let mut commands = Vec::new();
        let mut changed = self.refresh();
        if std::mem::take(&mut self.dirty) {
            self.serve(now, &mut commands);
            changed.append(&mut self.refresh());
        }
        self.note_waiting(now, &changed);
        self.ask_to_yield(now, &mut commands);
        self.report_shortages(now, &mut commands);
        self.release_idle(now, &mut commands);
        self.declare_task_managers(&mut commands);
        let Self { ended, task_managers, .. } = self;
        // A slot in an unknown state may turn out to belong to one of these jobs.
        ended.retain(|job| {
            task_managers.holdings().of(*job).is_some() || task_managers.unknown() > 0
        });
        commands
    }

    /// Recomputes the shortage of the jobs that declared or whose slots changed, and returns these jobs.
    fn refresh(&mut self) -> BTreeSet<JobId> {
        let mut changed = std::mem::take(&mut self.declared);
        changed.append(&mut self.task_managers.take_touched());
        for job_id in &changed {
            let Some(job) = self.jobs.get(job_id) else {
                continue;
            };
            let held = self.task_managers.holdings().of(*job_id);
            let slots = held.map(|held| held.all.as_slots()).unwrap_or_default();
            let unfulfilled = unmet_by(&job.requirements, slots);
            if unfulfilled.is_empty() {
                self.queue.remove(*job_id);
                continue;
            }
            let waiter = Waiter {
                order: job.order,
                unfulfilled,
                own: held.map(|held| held.usable.clone()).unwrap_or_default(),
                gives: held.is_some_and(|held| !held.given.is_empty()),
            };
            self.queue.put(*job_id, waiter);
        }
        changed
    }

    /// Records since when jobs have waited, and schedules their checks for requirements that cannot be met.
    fn note_waiting(&mut self, now: Duration, changed: &BTreeSet<JobId>) {
        for job_id in changed {
            let Some(job) = self.jobs.get_mut(job_id) else {
                continue;
            };
            if self.queue.get(*job_id).is_none() {
                job.short_since = None;
                self.agenda.cancel(*job_id);
            } else {
                let since = *job.short_since.get_or_insert(now);
                self.agenda.plan(*job_id, shortages::first_look(&self.settings.supply, since));
            }
        }
    }

    /// Returns the slots that waiting jobs could be given: the free ones and those that waiting jobs hold.
    fn pool(&self) -> Counts {
        let mut pool = self.task_managers.shelves().free().clone();
        pool.add_all(self.queue.own());
        pool
    }

    /// Gives free slots to waiting jobs in the order of their declarations: first to jobs that can be met without the
    /// end of a running job, then to the others. Stops when no free slot fits any job.
    fn serve(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let mut open = self.queue.unfulfilled().clone();
        if !self.fits_somebody(&open) {
            return;
        }
        let pool = self.pool();
        let mut served = BTreeSet::new();
        let mut last = None;
        while let Some((order, job_id)) = self.queue.next_within(pool.total(), last) {
            last = Some(order);
            if self.queue.get(job_id).is_none_or(|waiter| Queue::exceeds(waiter, &pool)) {
                continue;
            }
            served.insert(order);
            self.serve_job(now, job_id, &mut open, commands);
            if !self.fits_somebody(&open) {
                return;
            }
        }
        last = None;
        while let Some((order, job_id)) = self.queue.next(last) {
            last = Some(order);
            if served.contains(&order) {
                continue;
            }
            self.serve_job(now, job_id, &mut open, commands);
            if !self.fits_somebody(&open) {
                return;
            }
        }
    }

    /// Returns true if a free slot fulfils one of the requirements in `open`.
    fn fits_somebody(&self, open: &Counts) -> bool {
        let free = self.task_managers.shelves();
        open.iter().any(|(need, _)| free.fulfilling(need).next().is_some())
    }

    /// Requests free slots for a job's whole shortage, and removes the requested slots from `open`.
    fn serve_job(
        &mut self,
        now: Duration,
        job_id: JobId,
        open: &mut Counts,
        commands: &mut Vec<Command>,
    ) {
        let Some(unfulfilled) = self.queue.get(job_id).map(|waiter| waiter.unfulfilled.clone())
        else {
            return;
        };
        for need in &unfulfilled {
            let requested = self.request_slots(now, job_id, need, commands);
            open.take(&need.profile, requested);
        }
    }

    /// Requests free slots for a requirement. Returns the number of slots requested.
    fn request_slots(
        &mut self,
        now: Duration,
        job_id: JobId,
        need: &ResourceRequirement,
        commands: &mut Vec<Command>,
    ) -> u32 {
        let chosen = choosing::choose(&self.task_managers, job_id, need, self.settings.spread_out);
        let mut requested = 0;
        for (instance_id, index) in chosen {
            let allocation_id = self.draw_allocation();
            let pending = SlotState::Pending(SlotAllocation { job_id, allocation_id });
            if self.task_managers.set(now, instance_id, index, pending) {
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

    fn draw_allocation(&mut self) -> AllocationId {
        self.drawn += 1;
        AllocationId(crate::ids::nth_id(self.settings.seed, self.drawn))
    }

    /// Returns the numbers of registered and of blocked TaskManagers, of all their slots and of the free ones, for REST.
    pub fn overview(&self) -> Overview {
        let (task_managers, slots, free_slots) = self.task_managers.totals();
        let mut sums = Overview { task_managers, slots, free_slots, ..Overview::default() };
        for task_manager in self.task_managers.on_blocked_hosts() {
            sums.blocked_task_managers += 1;
            sums.blocked_free_slots +=
                u32::try_from(task_manager.free().count()).unwrap_or(u32::MAX);
        }
        sums
    }
}
