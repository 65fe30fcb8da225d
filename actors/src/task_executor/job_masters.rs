//! The TaskExecutor's connections to JobMasters: watches for them, connects, offers slots, reports
//! tasks.

use super::{MasterConnection, TaskExecutor};
use crate::job_leader_service::JobLeaderReport;
use actix::{ActorFutureExt as _, AsyncContext as _, Context, Handler, WrapFuture as _};
use control::job_table::Connection;
use control::task_executor::Event;
use gateways::heartbeat::{BeatPayload, Party};
use gateways::job_master::{
    DisconnectTaskManager, FailSlot, JobMasterError, JobMasterGateway, OfferSlots, SlotOffer,
    TaskManagerAccepted, TaskStateUpdate, UpdateTaskStates,
};
use gateways::job_services::{ForgetJob, Reconnect, WatchJob};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{Call, CallError, FabricError};
use model::{FailureCause, Fence as _, InstanceId, JobId, JobMasterId};
use std::time::Duration;

/// An offer that is not answered so soon is made again: the slot is given up before a call's usual time.
const OFFER_WITHIN: Duration = Duration::from_secs(3);

/// A JobMaster that accepted this TaskExecutor.
pub(super) struct JobMaster {
    leader: LeaderInformation,
    accepted: TaskManagerAccepted,
}

impl Handler<JobLeaderReport> for TaskExecutor {
    type Result = ();

    fn handle(&mut self, report: JobLeaderReport, ctx: &mut Self::Context) {
        if self.leaving {
            return;
        }
        match report {
            JobLeaderReport::Gained { job, leader, instance, accepted } => {
                let id = JobMasterId::from_session(leader.session);
                let shell = self.jobs.entry(job).or_default();
                shell.leader = Some(JobMaster { leader, accepted });
                self.step(Event::JobMasterGained { job, id, instance }, ctx);
            }
            JobLeaderReport::Lost { job, id } => {
                let reason = "the JobMaster leads no more".to_owned();
                self.step(Event::JobMasterLost { job, id, reason, reconnect: false }, ctx);
            }
            JobLeaderReport::Refused { job, reason } => {
                self.step(Event::JobMasterRefused { job, reason }, ctx);
            }
        }
    }
}

impl TaskExecutor {
    pub(super) fn watch_job(&mut self, job: JobId, instance_id: InstanceId) {
        let hint = self.jobs.get(&job).and_then(|shell| shell.hint.clone());
        self.job_leaders.deliver(WatchJob { job_id: job, hint, instance_id });
    }

    pub(super) fn reconnect_job(&mut self, job: JobId) {
        self.job_leaders.deliver(Reconnect { job_id: job });
    }

    pub(super) fn forget_job(&mut self, job: JobId) {
        self.job_leaders.deliver(ForgetJob { job_id: job });
        self.jobs.remove(&job);
    }

    pub(super) fn connect_job_master(
        &mut self,
        job: JobId,
        id: JobMasterId,
        instance: InstanceId,
        ctx: &mut Context<Self>,
    ) {
        let me = self.party(instance);
        let Some(shell) = self.jobs.get_mut(&job) else { return };
        let Some(master) = shell.leader.take().filter(|m| m.leader.session == id.session()) else {
            return;
        };
        let _entered = shell.trace.enter();
        tracing::info!(%job, session = %id, "registered at the JobMaster");
        let remote = self.services.rpc.gateway::<JobMasterGateway>(&master.leader.address, id);
        let peer = Party::JobMaster { job_id: job, session: id.session() };
        let node = master.accepted.heartbeat.node;
        let reports = ctx.address().recipient();
        let watch = self.services.heartbeat.expect(me, peer, node, &self.marker, reports);
        shell.connection = Some(MasterConnection { remote, watch });
        self.note_followed(Component::JobMaster(job), id.session());
    }

    pub(super) fn drop_job_master(
        &mut self,
        job: JobId,
        id: JobMasterId,
        instance_id: InstanceId,
        tell: Option<FailureCause>,
    ) {
        let _entered = self.jobs.get(&job).map(|shell| shell.trace.enter());
        let cause = tell.as_ref().map(|cause| cause.message.as_str());
        tracing::info!(%job, session = %id, cause, "the connection to the JobMaster is over");
        self.note_left(Component::JobMaster(job), id.session());
        let connection = self.jobs.get_mut(&job).and_then(|shell| shell.connection.take());
        if let (Some(connection), Some(cause)) = (connection, tell) {
            let resource_id = self.services.resource_id.clone();
            // A hint that may be lost: the missing heartbeats have the same effect.
            connection.remote.tell(DisconnectTaskManager { resource_id, instance_id, cause });
        }
    }

    pub(super) fn offer_slots(
        &mut self,
        job: JobId,
        to: Connection,
        slots: Vec<SlotOffer>,
        ctx: &mut Context<Self>,
    ) {
        let number = to.number;
        let data_address = self.hosts.get(&job).and_then(|host| host.data_address());
        let connection = self.connection(job, to);
        let (Some(connection), Some(data_address)) = (connection, data_address) else {
            // The core hears of the lost host or JobMaster by itself; until then the offer has failed.
            self.later(Event::OffersFailed { job, connection: number }, ctx);
            return;
        };
        let remote = connection.remote.clone();
        let resource_id = self.services.resource_id.clone();
        let message = OfferSlots { resource_id, instance_id: to.instance, slots, data_address };
        let asked = async move { remote.ask_within(message, OFFER_WITHIN).await };
        let answered = asked.into_actor(self).map(move |answer, executor, ctx| match answer {
            Ok(accepted) => {
                let answered = Event::OffersAnswered { job, connection: number, accepted };
                executor.step(answered, ctx);
            }
            Err(error) => {
                let failed = Event::OffersFailed { job, connection: number };
                executor.call_failed::<OfferSlots>(job, to, failed, error, ctx);
            }
        });
        ctx.spawn(answered);
    }

    pub(super) fn update_task_states(
        &mut self,
        job: JobId,
        to: Connection,
        updates: Vec<TaskStateUpdate>,
        ctx: &mut Context<Self>,
    ) {
        let number = to.number;
        let Some(connection) = self.connection(job, to) else {
            self.later(Event::ReportsFailed { job, connection: number }, ctx);
            return;
        };
        let remote = connection.remote.clone();
        let resource_id = self.services.resource_id.clone();
        let message = UpdateTaskStates { resource_id, instance_id: to.instance, updates };
        let asked = async move { remote.ask(message).await };
        let answered = asked.into_actor(self).map(move |answer, executor, ctx| match answer {
            Ok(unknown) => {
                executor.step(Event::ReportsTaken { job, connection: number, unknown }, ctx);
            }
            Err(error) => {
                let failed = Event::ReportsFailed { job, connection: number };
                executor.call_failed::<UpdateTaskStates>(job, to, failed, error, ctx);
            }
        });
        ctx.spawn(answered);
    }

    pub(super) fn fail_slot(
        &mut self,
        job: JobId,
        to: Connection,
        message: FailSlot,
        ctx: &mut Context<Self>,
    ) {
        let number = to.number;
        let Some(connection) = self.connection(job, to) else {
            self.later(Event::ReportsFailed { job, connection: number }, ctx);
            return;
        };
        let remote = connection.remote.clone();
        let asked = async move { remote.ask(message).await };
        let answered = asked.into_actor(self).map(move |answer, executor, ctx| match answer {
            Ok(()) => {
                let unknown = Vec::new();
                executor.step(Event::ReportsTaken { job, connection: number, unknown }, ctx);
            }
            Err(error) => {
                let failed = Event::ReportsFailed { job, connection: number };
                executor.call_failed::<FailSlot>(job, to, failed, error, ctx);
            }
        });
        ctx.spawn(answered);
    }

    /// Handles a failed call to a JobMaster: it is repeated, unless the error says that this
    /// process is unknown there.
    fn call_failed<C: Call<Error = JobMasterError>>(
        &mut self,
        job: JobId,
        to: Connection,
        failed: Event,
        error: CallError<JobMasterError>,
        ctx: &mut Context<Self>,
    ) {
        self.note_fenced::<C>(&error);
        tracing::debug!(%job, %error, "a call to the JobMaster failed");
        let stranger = match &error {
            CallError::Refused(JobMasterError::NotRegistered { .. }) => true,
            CallError::Fabric(FabricError::Fenced { .. }) => true,
            CallError::Fabric(_) => false,
        };
        let current = self.core.job_master(job).is_some_and(|c| c.number == to.number);
        if stranger && current {
            let reason = error.to_string();
            self.step(Event::JobMasterLost { job, id: to.id, reason, reconnect: true }, ctx);
        } else {
            self.step(failed, ctx);
        }
    }

    /// Updates the payload that heartbeats carry to a job's JobMaster.
    pub(super) fn publish_job(&mut self, job: JobId) {
        let connection = self.jobs.get(&job).and_then(|shell| shell.connection.as_ref());
        if let Some(connection) = connection {
            let (allocations, tasks) = self.core.job_report(job);
            connection.watch.publish(BeatPayload::Job { allocations, tasks });
        }
    }

    /// Gives an event to the core after the present one.
    fn later(&mut self, event: Event, ctx: &mut Context<Self>) {
        let later = std::future::ready(()).into_actor(self);
        ctx.spawn(later.map(move |(), executor, ctx| executor.step(event, ctx)));
    }
}
