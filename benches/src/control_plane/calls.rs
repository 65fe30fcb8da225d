//! Answers the calls to a virtual TaskExecutor: requests for slots, deployments, cancellations,
//! heartbeats.
//!
//! A virtual TaskExecutor must never refuse what a real one would accept, nor accept what a real
//! one would refuse: the core decides.

use super::resolve;
use super::worker::VirtualWorker;
use actix::{Context, Handler};
use control::task_executor::{Event, SlotRequest};
use gateways::heartbeat::{Beat, BeatPayload, BeatReply, Newest, Party};
use gateways::job_master::CoordinationError;
use gateways::leader_election::LeaderInformation;
use gateways::task_executor::{
    CancelTasks, DeployError, DeployTasks, DisconnectJobMaster, DisconnectResourceManager,
    ForwardCheckpointAnswer, ForwardOperatorEvent, FreeSlot, LogError, NotifyCheckpoint, ReadLog,
    ReportTaskStates, RequestLogs, RequestSlot, SlotRequestError, TriggerCheckpoint,
};
use gateways::{Answer, Ask};
use model::{ExecutionState, Fence as _, JobGraph, JobId, JobMasterId, testing::state_of};
use std::sync::Arc;

impl Handler<Ask<RequestSlot>> for VirtualWorker {
    type Result = Answer<RequestSlot>;

    fn handle(&mut self, ask: Ask<RequestSlot>, ctx: &mut Context<Self>) -> Answer<RequestSlot> {
        let body = ask.body;
        let request = SlotRequest {
            by: body.resource_manager_id,
            index: body.slot_id.index,
            job: body.job_id,
            allocation: body.allocation_id,
            need: body.profile,
            program: body.program,
        };
        match self.core.request_slot(self.now(), &request) {
            Ok(commands) => {
                let job = self.jobs.entry(body.job_id).or_default();
                let session = body.job_master_id.session();
                job.leader = Some(LeaderInformation { session, address: body.job_master });
                self.apply(commands, ctx);
                Ok(())
            }
            Err(refusal) => {
                self.tally.failed(&format!("slot request: {refusal}"));
                Err(SlotRequestError::Unsuitable(refusal.to_string()))
            }
        }
    }
}

impl Handler<Ask<FreeSlot>> for VirtualWorker {
    type Result = Answer<FreeSlot>;

    fn handle(&mut self, ask: Ask<FreeSlot>, ctx: &mut Context<Self>) -> Answer<FreeSlot> {
        let by = ask.caller.session.ok_or(SlotRequestError::NotMyJobMaster)?;
        let by = JobMasterId::from_session(by);
        match self.core.free_slot(self.now(), by, ask.body.allocation_id) {
            Ok(commands) => {
                self.apply(commands, ctx);
                Ok(())
            }
            Err(refusal) => Err(SlotRequestError::NoSuchSlot(refusal.to_string())),
        }
    }
}

impl Handler<Ask<DeployTasks>> for VirtualWorker {
    type Result = Answer<DeployTasks>;

    fn handle(&mut self, ask: Ask<DeployTasks>, ctx: &mut Context<Self>) -> Answer<DeployTasks> {
        let deployment = ask.body;
        let job = deployment.job_id;
        let tasks: Vec<_> = deployment.tasks.iter().map(|t| (t.attempt, t.allocation_id)).collect();
        let decided = self.core.deploy(self.now(), job, deployment.job_master_id, &tasks);
        let decided = match decided {
            Ok(decided) if decided.refused.is_empty() => decided,
            Ok(_) => return Err(self.refuse("a task was refused")),
            Err(refusal) => return Err(self.refuse(&refusal.to_string())),
        };
        self.apply(decided.commands, ctx);
        let Some(graph) = self.graph_of(job, &deployment) else {
            return Err(self.refuse("the first deployment came without the graph"));
        };
        self.jobs.entry(job).or_default().hosted.extend(tasks);
        self.report_all(&deployment, ExecutionState::Initializing, ctx);
        match resolve::producers(&deployment, &graph) {
            Ok(found) => self.tally.resolved(job, found),
            Err(error) => return Err(self.refuse(&error.to_string())),
        }
        self.report_all(&deployment, ExecutionState::Running, ctx);
        Ok(Vec::new())
    }
}

impl VirtualWorker {
    fn refuse(&self, why: &str) -> DeployError {
        self.tally.failed(&format!("deployment: {why}"));
        DeployError::Host(why.to_owned())
    }

    fn graph_of(&mut self, job: JobId, deployment: &DeployTasks) -> Option<Arc<JobGraph>> {
        let known = self.jobs.entry(job).or_default();
        if let Some(graph) = &deployment.graph {
            known.graph = Some(Arc::clone(graph));
        }
        known.graph.clone()
    }

    /// The host reports a state of all tasks of a deployment.
    fn report_all(
        &mut self,
        deployment: &DeployTasks,
        state: ExecutionState,
        ctx: &mut Context<Self>,
    ) {
        let updates = deployment.tasks.iter().map(|task| state_of(task.attempt, state)).collect();
        self.step(Event::TaskStates { job: deployment.job_id, updates }, ctx);
    }
}

impl Handler<Ask<CancelTasks>> for VirtualWorker {
    type Result = Answer<CancelTasks>;

    fn handle(&mut self, ask: Ask<CancelTasks>, ctx: &mut Context<Self>) -> Answer<CancelTasks> {
        let CancelTasks { job_id, attempts } = ask.body;
        if let Some(by) = ask.caller.session
            && let Ok(commands) = self.core.cancel(job_id, JobMasterId::from_session(by), &attempts)
        {
            self.apply(commands, ctx);
        }
        Ok(())
    }
}

impl Handler<Ask<DisconnectJobMaster>> for VirtualWorker {
    type Result = Answer<DisconnectJobMaster>;

    fn handle(
        &mut self,
        ask: Ask<DisconnectJobMaster>,
        ctx: &mut Context<Self>,
    ) -> Answer<DisconnectJobMaster> {
        let DisconnectJobMaster { job_id: job, job_master_id: id, cause } = ask.body;
        let reason = cause.to_string();
        self.step(Event::JobMasterLost { job, id, reason, reconnect: true }, ctx);
        Ok(())
    }
}

impl Handler<Ask<DisconnectResourceManager>> for VirtualWorker {
    type Result = Answer<DisconnectResourceManager>;

    fn handle(
        &mut self,
        ask: Ask<DisconnectResourceManager>,
        _: &mut Context<Self>,
    ) -> Answer<DisconnectResourceManager> {
        self.tally.failed(&format!("the ResourceManager disconnects: {}", ask.body.cause));
        Ok(())
    }
}

/// Answers a beat with the newest report, whatever else is going on. In a real TaskExecutor its
/// heartbeat service does this.
impl Handler<Ask<Beat>> for VirtualWorker {
    type Result = Answer<Beat>;

    fn handle(&mut self, ask: Ask<Beat>, _: &mut Context<Self>) -> Answer<Beat> {
        let Beat { from, to, newest: theirs, .. } = ask.body;
        let registered = self.core.registered_at();
        let (known, newest) = match (&to, from) {
            (Party::TaskExecutor { instance_id, .. }, Party::ResourceManager { session }) => {
                let known = registered.is_some_and(|(id, instance)| {
                    (id.session(), instance) == (session, *instance_id)
                });
                let report = || BeatPayload::Slots(self.report.clone());
                (known, Newest::of(self.reports, report, theirs.heard, theirs.version))
            }
            (Party::TaskExecutor { .. }, Party::JobMaster { job_id, session }) => {
                let master = self.core.job_master(job_id);
                let (allocations, tasks) = self.core.job_report(job_id);
                let known = master.is_some_and(|master| master.id.session() == session);
                // The benchmark keeps no versions of its payloads, so each counts as a new one.
                let payload = BeatPayload::Job { allocations, tasks };
                let version = theirs.heard + 1;
                (known, Newest::of(version, || payload, theirs.heard, theirs.version))
            }
            _ => (false, Newest::default()),
        };
        Ok(BeatReply { known, turn_age_ms: 0, newest })
    }
}

/// Calls that nobody makes here.
macro_rules! unused {
    ($($call:ty => $answer:expr;)*) => {$(
        impl Handler<Ask<$call>> for VirtualWorker {
            type Result = Answer<$call>;
            fn handle(&mut self, _: Ask<$call>, _: &mut Context<Self>) -> Answer<$call> {
                $answer
            }
        }
    )*};
}

unused! {
    TriggerCheckpoint => Ok(());
    NotifyCheckpoint => Ok(());
    ForwardCheckpointAnswer => Ok(());
    ReportTaskStates => Ok(());
    ForwardOperatorEvent => Err(CoordinationError::Unavailable("no program runs here".to_owned()));
    RequestLogs => Ok(Vec::new());
    ReadLog => Err(LogError::NoSuchFile("no log is written here".to_owned()));
}
