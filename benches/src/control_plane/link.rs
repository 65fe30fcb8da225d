//! Makes the calls of a virtual TaskExecutor to the ResourceManager and to JobMasters.
//!
//! A call that fails is reported as a failure of the benchmark: it must never be repeated in
//! silence.

use super::worker::VirtualWorker;
use actix::Context;
use control::job_table::Connection;
use control::task_executor::Event;
use gateways::Remote;
use gateways::job_master::{
    JobMasterGateway, OfferSlots, RegisterTaskManager, SlotOffer, TaskStateUpdate, UpdateTaskStates,
};
use gateways::resource_manager::{RegisterTaskExecutor, ResourceManagerGateway, SendSlotReport};
use model::{ExecutionState, Fence as _, InstanceId, JobId, JobMasterId, ResourceManagerId};

impl VirtualWorker {
    pub(super) fn register(&mut self, at: ResourceManagerId, ctx: &mut Context<Self>) {
        let remote = self.rpc.gateway::<ResourceManagerGateway>(&self.leader.address, at);
        let message = RegisterTaskExecutor {
            resource_id: self.me.resource_id.clone(),
            address: self.me.address.clone(),
            session: self.me.session,
            heartbeat: self.me.heartbeat.clone(),
            host: self.me.address.node.host().to_owned(),
            process_memory: self.me.spec.task,
            facts: model::TaskManagerFacts::default(),
            spec: self.me.spec.clone(),
            pid: std::process::id(),
        };
        let asked = async move { (remote.ask(message).await, remote) };
        self.ask(asked, ctx, move |worker, (answer, remote), ctx| match answer {
            Ok(accepted) => {
                worker.manager = Some(remote);
                let instance = accepted.instance_id;
                worker.step(Event::RegistrationAccepted { by: at, instance }, ctx);
            }
            Err(error) => worker.tally.failed(&format!("registration: {error}")),
        });
    }

    pub(super) fn send_report(&mut self, instance_id: InstanceId, ctx: &mut Context<Self>) {
        let Some(manager) = self.manager.clone() else { return };
        self.publish_slots();
        let resource_id = self.me.resource_id.clone();
        let message = SendSlotReport { resource_id, instance_id, report: self.report.clone() };
        let asked = async move { manager.ask(message).await };
        self.ask(asked, ctx, |worker, answer, _| match answer {
            Ok(()) => {
                worker.tally.registered();
                // Whoever started it may have given up.
                let _ = worker.registered.take().map(|told| told.send(()));
            }
            Err(error) => worker.tally.failed(&format!("slot report: {error}")),
        });
    }

    pub(super) fn watch_job(&mut self, job: JobId, instance: InstanceId, ctx: &mut Context<Self>) {
        let known = self.jobs.entry(job).or_default();
        let Some(leader) = known.leader.clone() else {
            return self.tally.failed("a slot was requested without a JobMaster");
        };
        if known.watched.replace(leader.session) == Some(leader.session) {
            return;
        }
        let id = JobMasterId::from_session(leader.session);
        let remote: Remote<JobMasterGateway> = self.rpc.gateway(&leader.address, id);
        let message = RegisterTaskManager {
            resource_id: self.me.resource_id.clone(),
            instance_id: instance,
            address: self.me.address.clone(),
            session: self.me.session,
            heartbeat: self.me.heartbeat.clone(),
            host: self.me.address.node.host().to_owned(),
        };
        let asked = async move { (remote.ask(message).await, remote) };
        self.ask(asked, ctx, move |worker, (answer, remote), ctx| match answer {
            Ok(_) => {
                worker.jobs.entry(job).or_default().master = Some(remote);
                worker.step(Event::JobMasterGained { job, id, instance }, ctx);
            }
            Err(error) => worker.tally.failed(&format!("registration at the JobMaster: {error}")),
        });
    }

    pub(super) fn offer(
        &mut self,
        job: JobId,
        to: Connection,
        slots: Vec<SlotOffer>,
        ctx: &mut Context<Self>,
    ) {
        let Some(master) = self.master_of(job) else { return };
        let message = OfferSlots {
            resource_id: self.me.resource_id.clone(),
            instance_id: to.instance,
            slots,
            data_address: self.me.address.node.clone(),
        };
        let connection = to.number;
        let asked = async move { master.ask(message).await };
        self.ask(asked, ctx, move |worker, answer, ctx| match answer {
            Ok(accepted) => {
                worker.step(Event::OffersAnswered { job, connection, accepted }, ctx);
            }
            Err(error) => worker.tally.failed(&format!("offer of slots: {error}")),
        });
    }

    pub(super) fn update_states(
        &mut self,
        job: JobId,
        to: Connection,
        updates: Vec<TaskStateUpdate>,
        ctx: &mut Context<Self>,
    ) {
        let Some(master) = self.master_of(job) else { return };
        let in_state = |state| updates.iter().filter(move |u| u.state == state).count() as u64;
        let (running, ending) =
            (in_state(ExecutionState::Running), in_state(ExecutionState::Canceled) > 0);
        let resource_id = self.me.resource_id.clone();
        let message = UpdateTaskStates { resource_id, instance_id: to.instance, updates };
        let connection = to.number;
        let asked = async move { master.ask(message).await };
        self.ask(asked, ctx, move |worker, answer, ctx| match answer {
            Ok(unknown) if unknown.is_empty() || ending => {
                worker.confirmed_running(job, running);
                worker.step(Event::ReportsTaken { job, connection, unknown }, ctx);
            }
            Ok(_) => worker.tally.failed("the JobMaster does not know a task that it deployed"),
            // A cancelled job's JobMaster may have ended before it answered.
            Err(_) if ending => {}
            Err(error) => worker.tally.failed(&format!("report of task states: {error}")),
        });
    }

    fn confirmed_running(&self, job: JobId, tasks: u64) {
        let graph = self.jobs.get(&job).and_then(|job| job.graph.as_ref());
        if let Some(graph) = graph {
            self.tally.running(job, tasks, graph.total_subtasks());
        }
    }

    fn master_of(&self, job: JobId) -> Option<Remote<JobMasterGateway>> {
        self.jobs.get(&job)?.master.clone()
    }
}
