//! A program host without a program: tasks initialise, run for the time that the job's options give, and finish or fail
//! as these say; coordinators accept everything. Tasks and coordinators take part in checkpoints with states that name the
//! checkpoint (see `checkpoints`).
//!
//! The double replaces the user code; everything above it is real. It reports in order and repeats each report until
//! its parent answers, as a host does.

mod checkpoints;
mod options;

pub use options::options_of;

use super::barriers::Barriers;
use super::observer::{Noticed, Observer};
use super::plan::Trouble;
use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use checkpoints::Part;
use gateways::job_master::{CoordinationError, TaskIo, TaskStateUpdate};
use gateways::job_services::HostAddress;
use gateways::program_host::{
    BuildError, BuildGraph, CancelOnHost, CoordinatorsCheckpointEnded, DeployToHost,
    DescribeProgram, EndHost, HandleCoordinationRequest, HandleOperatorEvent, HostStarted,
    JobEnded, ParentAlive, ProgramDescription, ProgramHostGateway, ReleaseSlot, StartHost,
};
use gateways::task_executor::{DeployError, ReportTaskStates, TaskExecutorGateway};
use gateways::{Answer, Ask, EndpointAddress, NodeAddress, Registration, Remote, RpcService};
use model::{
    AllocationId, ExecutionAttemptId, ExecutionState, FailureCause, Fence, JobGraph, JobId,
    LeaderSession, ProcessSession,
};
use options::{FIRST_VERTEX, cause_of, task_time_of, trouble_of};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Time that a task takes to rebuild and to open.
const SET_UP: Duration = Duration::from_millis(80);
/// Pause before a report is tried again.
const RETRY: Duration = Duration::from_millis(500);

struct Task {
    allocation: AllocationId,
    state: ExecutionState,
    /// The JobMaster that deployed the task.
    job_master: LeaderSession,
    part: Part,
}

/// A double of a program host, as an actor: it runs a job's tasks without user code, for the times and with the failures that the job's
/// options give, and takes part in checkpoints.
pub struct HostDouble {
    rpc: RpcService,
    job: JobId,
    parent: Option<Remote<TaskExecutorGateway>>,
    observer: Observer,
    barriers: Barriers,
    /// The graph of the newest deployment, or of the coordinators.
    graph: Option<Arc<JobGraph>>,
    /// The JobMaster that has started coordinators here last.
    coordinators_of: Option<LeaderSession>,
    task_time: Option<Duration>,
    trouble: Option<Trouble>,
    tasks: BTreeMap<ExecutionAttemptId, Task>,
    unreported: VecDeque<TaskStateUpdate>,
    reporting: bool,
}

/// A running program host double. Dropping it ends it as if it had been killed: its tasks report nothing more.
#[derive(Debug)]
pub struct RunningHost {
    /// Address and session by which the parent process calls the double.
    pub address: HostAddress,
    actor: actix::Addr<HostDouble>,
    _registration: Registration,
}

impl Drop for RunningHost {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.actor.clone().try_send(Kill);
    }
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Kill;

/// Starts a double for a job and serves it on the fabric `rpc`, as number `serial` of this process's hosts. `barriers` travel between all
/// doubles of the run; `observer` learns which attempts finish and what they are restored from.
pub fn start(
    rpc: &RpcService,
    job: JobId,
    serial: u64,
    observer: Observer,
    barriers: Barriers,
) -> RunningHost {
    let actor = HostDouble {
        rpc: rpc.clone(),
        job,
        parent: None,
        observer,
        barriers,
        graph: None,
        coordinators_of: None,
        task_time: None,
        trouble: None,
        tasks: BTreeMap::new(),
        unreported: VecDeque::new(),
        reporting: false,
    }
    .start();
    let name = format!("program_host/{job}/{serial}");
    let mut session = ProcessSession::default();
    session.0.nonce = rpc.platform().random_u64();
    session.0.epoch.process = serial;
    let registration =
        rpc.serve(name.clone(), session, ProgramHostGateway::endpoint(actor.clone()));
    RunningHost {
        address: HostAddress { address: rpc.address_of(&name), session, pid: None },
        actor,
        _registration: registration,
    }
}

impl Actor for HostDouble {
    type Context = Context<Self>;
}

impl HostDouble {
    fn enter(
        &mut self,
        attempt: ExecutionAttemptId,
        state: ExecutionState,
        cause: Option<FailureCause>,
        ctx: &mut Context<Self>,
    ) {
        let Some(task) = self.tasks.get_mut(&attempt) else { return };
        if task.state.is_terminal() {
            return;
        }
        task.state = state;
        let io = TaskIo { end_of_data: task.part.at_end(), ..TaskIo::default() };
        if state.is_terminal() {
            self.tasks.remove(&attempt);
        }
        if state == ExecutionState::Finished {
            self.observer.notice(&Noticed::AttemptFinished { attempt });
        }
        self.unreported.push_back(TaskStateUpdate {
            attempt,
            state,
            cause,
            io,
            metrics: Default::default(),
        });
        self.report(ctx);
    }

    fn report(&mut self, ctx: &mut Context<Self>) {
        let Some(parent) = self.parent.clone() else { return };
        if self.reporting || self.unreported.is_empty() {
            return;
        }
        self.reporting = true;
        let updates: Vec<_> = self.unreported.iter().cloned().collect();
        let told = updates.len();
        let message = ReportTaskStates { job_id: self.job, updates };
        let call = async move { parent.ask(message).await.is_ok() };
        ctx.spawn(call.into_actor(self).map(move |answered, host, ctx| {
            host.reporting = false;
            if answered {
                host.unreported.drain(..told);
                host.report(ctx);
            } else {
                ctx.run_later(RETRY, |host, ctx| host.report(ctx));
            }
        }));
    }

    fn begin(&mut self, attempt: ExecutionAttemptId, ctx: &mut Context<Self>) {
        self.enter(attempt, ExecutionState::Initializing, None, ctx);
        ctx.run_later(SET_UP, move |host, ctx| {
            host.enter(attempt, ExecutionState::Running, None, ctx);
            let first = (attempt.vertex, attempt.subtask) == (FIRST_VERTEX, 0);
            let fails = |trouble: &Trouble| first && attempt.attempt < trouble.attempts;
            if let Some(trouble) = host.trouble.filter(fails) {
                ctx.run_later(trouble.after, move |host, ctx| {
                    let cause = cause_of(trouble);
                    host.enter(attempt, ExecutionState::Failed, Some(cause), ctx);
                });
            }
            if let Some(time) = host.remaining_time(attempt) {
                ctx.run_later(time, move |host, ctx| host.end_data(attempt, ctx));
            }
            host.await_barriers(attempt, ctx);
        });
    }

    fn cancel(&mut self, attempts: Vec<ExecutionAttemptId>, ctx: &mut Context<Self>) {
        for attempt in attempts {
            self.enter(attempt, ExecutionState::Canceled, None, ctx);
        }
    }
}

impl Handler<Kill> for HostDouble {
    type Result = ();
    fn handle(&mut self, _: Kill, ctx: &mut Context<Self>) {
        actix::ActorContext::terminate(ctx);
    }
}

impl Handler<Ask<StartHost>> for HostDouble {
    type Result = Answer<StartHost>;
    fn handle(&mut self, ask: Ask<StartHost>, _: &mut Context<Self>) -> Answer<StartHost> {
        let StartHost { parent, parent_session, .. } = ask.body;
        self.parent = Some(self.rpc.gateway(&parent, parent_session));
        let EndpointAddress { node, .. } = self.rpc.address_of("data");
        Ok(HostStarted { data_address: NodeAddress::clone(&node) })
    }
}

impl Handler<Ask<DeployToHost>> for HostDouble {
    type Result = Answer<DeployToHost>;
    fn handle(&mut self, ask: Ask<DeployToHost>, ctx: &mut Context<Self>) -> Answer<DeployToHost> {
        let deployment = ask.body.deployment;
        if let Some(graph) = &deployment.graph {
            self.task_time = task_time_of(&graph.options);
            self.trouble = trouble_of(&graph.options);
            self.graph = Some(graph.clone());
        }
        if self.graph.is_none() {
            return Err(DeployError::Host("the host was never sent the graph".to_owned()));
        }
        let job_master = deployment.job_master_id.session();
        for task in deployment.tasks {
            let part = self.restore(&task, job_master, deployment.ends_with_checkpoint);
            let (allocation, state) = (task.allocation_id, ExecutionState::Deploying);
            self.tasks.insert(task.attempt, Task { allocation, state, job_master, part });
            self.begin(task.attempt, ctx);
        }
        Ok(Vec::new())
    }
}

impl Handler<Ask<CancelOnHost>> for HostDouble {
    type Result = Answer<CancelOnHost>;
    fn handle(&mut self, ask: Ask<CancelOnHost>, ctx: &mut Context<Self>) -> Answer<CancelOnHost> {
        self.cancel(ask.body.attempts, ctx);
        Ok(())
    }
}

impl Handler<Ask<ReleaseSlot>> for HostDouble {
    type Result = Answer<ReleaseSlot>;
    fn handle(&mut self, ask: Ask<ReleaseSlot>, ctx: &mut Context<Self>) -> Answer<ReleaseSlot> {
        let held = |t: &Task| t.allocation == ask.body.allocation_id;
        let attempts = self.tasks.iter().filter(|(_, t)| held(t)).map(|(id, _)| *id).collect();
        self.cancel(attempts, ctx);
        Ok(())
    }
}

impl Handler<Ask<EndHost>> for HostDouble {
    type Result = Answer<EndHost>;
    fn handle(&mut self, _: Ask<EndHost>, ctx: &mut Context<Self>) -> Answer<EndHost> {
        let attempts = self.tasks.keys().copied().collect();
        self.cancel(attempts, ctx);
        Ok(())
    }
}

/// Calls that the double agrees to without doing anything.
macro_rules! agrees {
    ($($call:ty => $answer:expr;)*) => {$(
        impl Handler<Ask<$call>> for HostDouble {
            type Result = Answer<$call>;
            fn handle(&mut self, _: Ask<$call>, _: &mut Context<Self>) -> Answer<$call> {
                $answer
            }
        }
    )*};
}

agrees! {
    JobEnded => Ok(());
    ParentAlive => Ok(());
    CoordinatorsCheckpointEnded => Ok(());
    DescribeProgram => Ok(ProgramDescription::default());
    HandleOperatorEvent => Err(CoordinationError::Failed("no coordinator in a simulation".into()));
    HandleCoordinationRequest => Err(CoordinationError::Failed("no coordinator in a simulation".into()));
    BuildGraph => Err(BuildError::Invalid("nothing is built in a simulation".into()));
}
