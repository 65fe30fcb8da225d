//! The SlotManager: matches declared requirements with slots and requests them from TaskExecutors.
//!
//! Only its ResourceManager calls it, with facts (see `gateways::delivery`), and receives what is missing;
//! `control::slot_manager` decides which job gets a slot. The SlotManager must never talk to a JobMaster or to an
//! external resource system.

#[cfg(test)]
mod tests;

use crate::probe::Fact;
use crate::services::{ProcessServices, Running, TurnMarker, stops_at_once};
use crate::turns::{take_step, takes_steps};
use actix::{Actor, AsyncContext, Context, Handler};
use control::slot_manager::task_managers::NewTaskManager;
use control::slot_manager::{Command, Refusal, Settings, Shortage, SlotManager, SlotRequest};
use gateways::resource_manager::{
    AskToYield, DeclareNeededTaskManagers, ReleaseIdleTaskManager, ReportShortage,
    ResourceManagerFact, ResourceManagerGateway, ResourceOverview,
};
use gateways::slot_manager::{
    AddTaskExecutor, FreeSlot, ProcessRequirements, RequestSlotOverview, SlotManagerFact,
    SlotManagerGateway, SlotOverview, TakeFacts,
};
use gateways::task_executor::{self, RequestSlot, SlotRequestError, TaskExecutorGateway};
use gateways::{Answer, Ask, CallError, Courier, Inbox, Remote, TraceContext};
use metrics::Gauge;
use model::slots::SlotAllocation;
use model::{Fence, InstanceId, JobId, ResourceId, ResourceManagerId, SlotId, SlotManagerId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The endpoint name that the SlotManager of a leading ResourceManager is served under in the JobManager's process.
pub const ENDPOINT: &str = "slot_manager";

/// Interval at which waiting times are checked.
const TICK: Duration = Duration::from_millis(250);

/// The dependencies of a SlotManager, with which the ResourceManager starts it: services, the ResourceManager's session and
/// gateway, and the settings of the matching of slots.
#[derive(Debug)]
pub struct SlotManagerDeps {
    /// Services of the process: platform, RPC, options, heartbeats, leader retrieval, metrics and others.
    pub services: ProcessServices,
    /// Session of the ResourceManager that starts the SlotManager; the SlotManager's endpoint is fenced by the same
    /// session.
    pub resource_manager_id: ResourceManagerId,
    /// Gateway of the SlotManager's ResourceManager, to which it reports the TaskManagers that are missing or idle and the
    /// jobs that cannot get their slots.
    pub resource_manager: Remote<ResourceManagerGateway>,
    /// Settings of the matching of slots: supply of TaskManagers, time-outs, and whether slots are spread over them.
    pub settings: Settings,
    /// Time after a match of slots within which further changes wait, to be matched together (`slotmanager.requirement-check.delay`).
    /// The regular check every 250 ms does not wait for it.
    pub check_delay: Duration,
}

/// Starts a SlotManager on the current lane, in the session of the ResourceManager that calls this, and serves it as
/// [`ENDPOINT`], until the returned handle is stopped or dropped; the slots that jobs hold stay then. If it dies of a panic, the
/// process ends.
pub fn start(deps: SlotManagerDeps) -> Running<SlotManagerActor> {
    let (rpc, platform) = (deps.services.rpc.clone(), deps.services.platform.clone());
    let fatal = deps.services.fatal.clone();
    let fence = SlotManagerId::from_session(deps.resource_manager_id.session());
    let addr = SlotManagerActor::new(deps).start();
    let registration = rpc.serve(ENDPOINT, fence, SlotManagerGateway::endpoint(addr.clone()));
    Running::new(rpc.address_of(ENDPOINT), addr, registration).guarded(&platform, &fatal)
}

#[derive(Debug)]
struct TaskManagerInfo {
    resource_id: ResourceId,
    gateway: Remote<TaskExecutorGateway>,
}

/// The actor of a SlotManager in one leadership of its ResourceManager: matches the slots that jobs need with those of
/// the registered TaskExecutors, requests them there, and tells the ResourceManager which TaskManagers are missing or idle.
#[derive(Debug)]
pub struct SlotManagerActor {
    core: SlotManager,
    services: ProcessServices,
    resource_manager_id: ResourceManagerId,
    /// The gateway for hints to the ResourceManager.
    resource_manager: Remote<ResourceManagerGateway>,
    to_resource_manager: Courier<ResourceManagerFact>,
    /// The inbox for facts from the ResourceManager.
    facts: Inbox,
    /// The requirements of each job as last declared; slot requests are made from them.
    jobs: BTreeMap<JobId, ProcessRequirements>,
    /// The trace in which each job's requirements were declared, and in which its slots are requested.
    traces: BTreeMap<JobId, TraceContext>,
    task_managers: BTreeMap<InstanceId, TaskManagerInfo>,
    check_delay: Duration,
    checked_at: Option<Duration>,
    check_scheduled: bool,
    marker: TurnMarker,
    gauges: Gauges,
}

#[derive(Debug)]
struct Gauges {
    task_managers: Gauge,
    slots: Gauge,
    free: Gauge,
}

impl Actor for SlotManagerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        self.marker.tick(ctx, self.services.heartbeat.limits().interval);
        ctx.run_interval(TICK, Self::check_in);
    }
}

impl SlotManagerActor {
    fn new(deps: SlotManagerDeps) -> Self {
        let scope = deps.services.metrics.scope("jobmanager");
        let gauges = Gauges {
            task_managers: scope.gauge("numRegisteredTaskManagers"),
            slots: scope.gauge("taskSlotsTotal"),
            free: scope.gauge("taskSlotsAvailable"),
        };
        let fatal = deps.services.fatal.clone();
        let broken = move |why| fatal.report(ENDPOINT, why);
        Self {
            to_resource_manager: Courier::new(deps.resource_manager.clone(), broken),
            facts: Inbox::default(),
            core: SlotManager::new(deps.settings),
            marker: deps.services.turn_marker(ENDPOINT),
            services: deps.services,
            resource_manager_id: deps.resource_manager_id,
            resource_manager: deps.resource_manager,
            jobs: BTreeMap::new(),
            traces: BTreeMap::new(),
            task_managers: BTreeMap::new(),
            check_delay: deps.check_delay,
            checked_at: None,
            check_scheduled: false,
            gauges,
        }
    }

    fn now(&self) -> Duration {
        self.services.platform.now()
    }

    /// Matches slots after a change: at once, unless the last match was within the delay; then once
    /// for all changes within it.
    fn changed(&mut self, ctx: &mut Context<Self>) {
        if !self.core.is_dirty() || self.check_scheduled {
            return;
        }
        let now = self.now();
        let due = self.checked_at.map_or(now, |at| at.saturating_add(self.check_delay));
        if due <= now {
            self.check_in(ctx);
            return;
        }
        self.check_scheduled = true;
        ctx.run_later(due.saturating_sub(now), |actor, ctx| {
            actor.check_scheduled = false;
            actor.check_in(ctx);
        });
    }

    fn check_in(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        self.checked_at = Some(now);
        let commands = self.core.check(now);
        self.obey_all(commands, ctx);
        let sums = self.core.overview();
        self.gauges.task_managers.set(f64::from(sums.task_managers));
        self.gauges.slots.set(f64::from(sums.slots));
        self.gauges.free.set(f64::from(sums.free_slots));
    }

    fn obey_all(&mut self, commands: impl IntoIterator<Item = Command>, ctx: &mut Context<Self>) {
        for command in commands {
            self.obey(command, ctx);
        }
    }

    fn obey(&mut self, command: Command, ctx: &mut Context<Self>) {
        match command {
            Command::RequestSlot(request) => self.request_slot(request, ctx),
            Command::FreeSlot { instance_id, allocation_id } => {
                if let Some(task_manager) = self.task_managers.get(&instance_id) {
                    let cause = "its job has ended, or nobody has led it for too long".to_owned();
                    // A hint that may be lost: while the slot is reported as held, the core gives the command again.
                    task_manager.gateway.tell(task_executor::FreeSlot { allocation_id, cause });
                }
            }
            Command::ReportShortage(shortage) => self.report_shortage(shortage),
            Command::AskToYield { job_id, job_master_id, slots } => {
                let count: u32 = slots.iter().map(|need| need.slots).fold(0, u32::saturating_add);
                tracing::info!(%job_id, slots = count, "asked the job to yield slots: another job could run with them");
                // A hint that may be lost: a job that keeps others waiting is asked again.
                self.resource_manager.tell(AskToYield { job_id, job_master_id, slots });
            }
            Command::NeedTaskManagers { seen, missing } => {
                let missing = missing.into_iter().collect();
                self.to_resource_manager.deliver(DeclareNeededTaskManagers { seen, missing });
            }
            Command::ReleaseTaskManager { instance_id } => {
                self.to_resource_manager.deliver(ReleaseIdleTaskManager { instance_id });
            }
        }
    }

    fn report_shortage(&self, shortage: Shortage) {
        let Shortage { job_id, job_master_id, message } = shortage;
        let name = self.jobs.get(&job_id).map_or("", |job| job.job_name.as_str());
        tracing::warn!(%job_id, name, message, "requirements can't be met");
        let report = ReportShortage { job_id, job_master_id, message };
        // A hint that may be lost: the shortage is reported again every few seconds while it lasts.
        self.resource_manager.tell(report);
    }

    fn request_slot(&mut self, request: SlotRequest, ctx: &mut Context<Self>) {
        let (Some(task_manager), Some(job)) =
            (self.task_managers.get(&request.instance_id), self.jobs.get(&request.job_id))
        else {
            // Forgotten in the same turn; the next check knows it too.
            self.core.slot_refused(self.now(), &request, Refusal::NotKnown);
            return;
        };
        let slot_id =
            SlotId { resource_id: task_manager.resource_id.clone(), index: request.index };
        let call = RequestSlot {
            slot_id: slot_id.clone(),
            job_id: request.job_id,
            allocation_id: request.allocation_id,
            profile: request.profile.clone(),
            job_master: job.target.clone(),
            job_master_id: job.job_master_id,
            resource_manager_id: self.resource_manager_id,
            program: job.program,
        };
        self.services.probe.note(Fact::SlotRequested {
            session: self.resource_manager_id.session(),
            instance_id: request.instance_id,
            slot_id: slot_id.clone(),
            job_id: request.job_id,
            allocation_id: request.allocation_id,
        });
        let trace = self.traces.get(&request.job_id).copied().unwrap_or_default();
        let (gateway, addr) = (task_manager.gateway.with_trace(trace), ctx.address());
        let probe = Arc::clone(&self.services.probe);
        // A task each: an actor polls all of its own futures at each turn.
        actix::spawn(async move {
            let refusal = match gateway.ask(call).await {
                Ok(()) => None,
                Err(CallError::Refused(SlotRequestError::Occupied {
                    job, allocation_id, ..
                })) => Some(Refusal::Occupied(SlotAllocation { job_id: job, allocation_id })),
                Err(error) => {
                    tracing::debug!(%slot_id, %error, "slot not given");
                    if let Some(fenced) = Fact::fenced::<RequestSlot>(&error) {
                        probe.note(fenced);
                    }
                    Some(Refusal::NotKnown)
                }
            };
            // An actor that has ended needs no answer.
            let answered = take_step(&addr, move |actor, ctx| {
                actor.slot_answered(&request, slot_id, refusal, ctx);
            });
            let _ = answered.await;
        });
    }

    /// Goes on after a TaskExecutor has answered a slot request, or will not; `refusal` is its reason if it did not give the slot.
    fn slot_answered(
        &mut self,
        request: &SlotRequest,
        slot_id: SlotId,
        refusal: Option<Refusal>,
        ctx: &mut Context<Self>,
    ) {
        self.services.probe.note(Fact::SlotAnswered {
            session: self.resource_manager_id.session(),
            slot_id,
            allocation_id: request.allocation_id,
            granted: refusal.is_none(),
        });
        let now = self.now();
        match refusal {
            None => {
                let command = self.core.slot_granted(now, request);
                self.obey_all(command, ctx);
            }
            Some(refusal) => self.core.slot_refused(now, request, refusal),
        }
        self.changed(ctx);
    }
}

impl Handler<Ask<TakeFacts>> for SlotManagerActor {
    type Result = Answer<TakeFacts>;

    fn handle(&mut self, ask: Ask<TakeFacts>, ctx: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let now = self.now();
        for fact in self.facts.take(ask.body) {
            self.learn(now, fact, ctx);
        }
        self.changed(ctx);
        Ok(self.facts.expected())
    }
}

impl SlotManagerActor {
    fn learn(&mut self, now: Duration, fact: SlotManagerFact, ctx: &mut Context<Self>) {
        match fact {
            SlotManagerFact::AddTaskExecutor(add) => self.add_task_manager(now, add),
            SlotManagerFact::RemoveTaskExecutor(removed) => {
                self.task_managers.remove(&removed.instance_id);
                self.core.remove_task_manager(removed.instance_id);
            }
            SlotManagerFact::ReportSlots(of) => {
                let commands = self.core.report(now, of.instance_id, of.report);
                self.obey_all(commands, ctx);
            }
            SlotManagerFact::FreeSlot(FreeSlot { instance_id, slot_id, allocation_id }) => {
                self.core.free_slot(now, instance_id, slot_id.index, allocation_id);
                let session = self.resource_manager_id.session();
                self.services.probe.note(Fact::SlotFreed { session, slot_id, allocation_id });
            }
            SlotManagerFact::ProcessRequirements(declared) => self.require(declared),
            SlotManagerFact::RemoveJob(removed) => {
                self.jobs.remove(&removed.job_id);
                self.traces.remove(&removed.job_id);
                let commands = self.core.remove_job(removed.job_id);
                self.obey_all(commands, ctx);
            }
            SlotManagerFact::BlockHosts(blocked) => self.core.block_hosts(blocked.hosts),
            SlotManagerFact::RefuseTaskManagers(refused) => {
                self.core.refuse_task_managers(refused.specs);
            }
        }
    }

    fn add_task_manager(&mut self, now: Duration, add: AddTaskExecutor) {
        let gateway = self.services.rpc.gateway(&add.address, add.session);
        let gateway = gateway.with_session(self.resource_manager_id.session());
        let info = TaskManagerInfo { resource_id: add.resource_id.clone(), gateway };
        self.task_managers.insert(add.instance_id, info);
        self.core.add_task_manager(
            now,
            NewTaskManager {
                instance_id: add.instance_id,
                resource_id: add.resource_id,
                host: add.host,
                spec: add.spec,
                report: add.report,
            },
        );
    }

    fn require(&mut self, declared: ProcessRequirements) {
        let (job_id, master) = (declared.job_id, declared.job_master_id);
        let requirements = declared.requirements.clone();
        // A declaration of an earlier JobMaster may arrive late: it must not direct slot offers to that JobMaster.
        if self.jobs.get(&job_id).is_none_or(|job| job.job_master_id <= master) {
            self.jobs.insert(job_id, declared);
            self.traces.insert(job_id, TraceContext::current());
        }
        self.core.require(job_id, master, requirements);
    }
}

impl Handler<Ask<RequestSlotOverview>> for SlotManagerActor {
    type Result = Answer<RequestSlotOverview>;

    fn handle(&mut self, _: Ask<RequestSlotOverview>, _: &mut Context<Self>) -> Self::Result {
        let sums = self.core.overview();
        let mut task_managers = Vec::new();
        for (instance, task_manager) in self.core.task_managers().iter() {
            let free = u32::try_from(task_manager.free().count()).unwrap_or(u32::MAX);
            let slots = task_manager.slots.values();
            let allocated = slots
                .filter_map(|slot| Some((slot.state.holder()?.job_id, slot.profile.clone())))
                .collect();
            task_managers.push((*instance, free, allocated));
        }
        Ok(SlotOverview {
            totals: ResourceOverview {
                task_managers: sums.task_managers,
                slots: sums.slots,
                free_slots: sums.free_slots,
                blocked_task_managers: sums.blocked_task_managers,
                blocked_free_slots: sums.blocked_free_slots,
            },
            task_managers,
        })
    }
}

stops_at_once!(SlotManagerActor);
takes_steps!(SlotManagerActor);
