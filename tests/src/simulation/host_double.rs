//! A program host without a program: tasks initialise, run for the time that the job's options give, and finish or fail
//! as these say; coordinators accept everything.
//!
//! The double replaces the user code; everything above it is real. It reports in order and repeats each report until
//! its parent answers, as a host does.

use super::observer::{Noticed, Observer};
use super::plan::{PlannedJob, Trouble};
use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use gateways::job_master::{CoordinationError, TaskIo, TaskStateUpdate};
use gateways::job_services::HostAddress;
use gateways::program_host::{
    AttemptsEnded, BuildError, BuildGraph, CancelOnHost, CoordinatorsCheckpointEnded, DeployToHost,
    DescribeProgram, EndHost, HandleCoordinationRequest, HandleOperatorEvent, HostStarted,
    JobEnded, NotifyOnHost, ParentAlive, ProgramDescription, ProgramHostGateway, ReleaseSlot,
    SnapshotCoordinators, StartCoordinators, StartHost, TriggerOnHost,
};
use gateways::task_executor::{DeployError, ReportTaskStates, TaskExecutorGateway};
use gateways::{Answer, Ask, EndpointAddress, NodeAddress, Registration, Remote, RpcService};
use model::{
    AllocationId, ExecutionAttemptId, ExecutionState, FailureCause, JobId, JobVertexId,
    ProcessSession,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Option of a job: milliseconds that each task runs; absent: until it is cancelled.
const TASK_MS: &str = "program.task-ms";

/// Options of a job whose first subtask fails: the number of attempts that fail, the milliseconds that each runs
/// before, and whether the failure is fatal (`true` or `false`).
const FAIL_ATTEMPTS: &str = "program.fail-attempts";
const FAIL_AFTER_MS: &str = "program.fail-after-ms";
const FAIL_FATALLY: &str = "program.fail-fatally";

/// How long a task takes to rebuild and to open.
const SET_UP: Duration = Duration::from_millis(80);
/// Pause before a report is tried again.
const RETRY: Duration = Duration::from_millis(500);

struct Task {
    allocation: AllocationId,
    state: ExecutionState,
}

/// The double.
pub struct HostDouble {
    rpc: RpcService,
    job: JobId,
    parent: Option<Remote<TaskExecutorGateway>>,
    observer: Observer,
    knows_graph: bool,
    task_time: Option<Duration>,
    trouble: Option<Trouble>,
    tasks: BTreeMap<ExecutionAttemptId, Task>,
    unreported: VecDeque<TaskStateUpdate>,
    reporting: bool,
}

/// A running double; dropped, it is gone as if it had been killed.
#[derive(Debug)]
pub struct RunningHost {
    /// Where it answers.
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

/// Starts a double for a job, as the `serial`-th host of this process.
pub fn start(rpc: &RpcService, job: JobId, serial: u64, observer: Observer) -> RunningHost {
    let actor = HostDouble {
        rpc: rpc.clone(),
        job,
        parent: None,
        observer,
        knows_graph: false,
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
        if state.is_terminal() {
            self.tasks.remove(&attempt);
        }
        if state == ExecutionState::Finished {
            self.observer.notice(&Noticed::AttemptFinished { attempt });
        }
        let io = TaskIo::default();
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
            if let Some(time) = host.task_time {
                ctx.run_later(time, move |host, ctx| {
                    host.enter(attempt, ExecutionState::Finished, None, ctx);
                });
            }
        });
    }

    fn cancel(&mut self, attempts: Vec<ExecutionAttemptId>, ctx: &mut Context<Self>) {
        for attempt in attempts {
            self.enter(attempt, ExecutionState::Canceled, None, ctx);
        }
    }
}

/// The vertex whose first subtask fails.
const FIRST_VERTEX: JobVertexId = JobVertexId(1);

/// Returns the options of a job in the form that the double reads.
pub fn options_of(job: &PlannedJob) -> BTreeMap<String, String> {
    let task_ms = job.task_time.map(|time| (TASK_MS, time.as_millis().to_string()));
    let trouble = job.trouble.map(|trouble| {
        [
            (FAIL_ATTEMPTS, trouble.attempts.to_string()),
            (FAIL_AFTER_MS, trouble.after.as_millis().to_string()),
            (FAIL_FATALLY, trouble.fatal.to_string()),
        ]
    });
    let all = task_ms.into_iter().chain(trouble.into_iter().flatten());
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn number(options: &BTreeMap<String, String>, key: &str) -> Option<u64> {
    options.get(key).and_then(|value| value.parse().ok())
}

fn trouble_of(options: &BTreeMap<String, String>) -> Option<Trouble> {
    Some(Trouble {
        attempts: u32::try_from(number(options, FAIL_ATTEMPTS)?).ok()?,
        after: Duration::from_millis(number(options, FAIL_AFTER_MS)?),
        fatal: options.get(FAIL_FATALLY).is_some_and(|fatal| fatal == "true"),
    })
}

fn cause_of(trouble: Trouble) -> FailureCause {
    let (kind, message) = ("UserError", "the program fails on purpose");
    match trouble.fatal {
        true => FailureCause::fatal(kind, message),
        false => FailureCause::recoverable(kind, message),
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
            self.task_time = number(&graph.options, TASK_MS).map(Duration::from_millis);
            self.trouble = trouble_of(&graph.options);
            self.knows_graph = true;
        }
        if !self.knows_graph {
            return Err(DeployError::Host("the host was never sent the graph".to_owned()));
        }
        for task in deployment.tasks {
            let allocation = task.allocation_id;
            self.tasks.insert(task.attempt, Task { allocation, state: ExecutionState::Deploying });
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
    StartCoordinators => Ok(());
    AttemptsEnded => Ok(());
    JobEnded => Ok(());
    ParentAlive => Ok(());
    TriggerOnHost => Ok(());
    NotifyOnHost => Ok(());
    SnapshotCoordinators => Ok(Vec::new());
    CoordinatorsCheckpointEnded => Ok(());
    DescribeProgram => Ok(ProgramDescription::default());
    HandleOperatorEvent => Err(CoordinationError::Failed("no coordinator in a simulation".into()));
    HandleCoordinationRequest => Err(CoordinationError::Failed("no coordinator in a simulation".into()));
    BuildGraph => Err(BuildError::Invalid("nothing is built in a simulation".into()));
}
