//! The program host's actor: a thin shell that passes calls to the side that serves a TaskManager ([`Worker`]) or the
//! side that serves a JobManager ([`Coordination`]). No user code may run on its thread, and no handler may block it.

use crate::{coordination::Coordination, program::Place, worker::Worker};
use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, ResponseActFuture,
    ResponseFuture, WrapFuture,
};
use futures::{FutureExt, channel::oneshot};
use gateways::{
    Answer, Ask, Entered, Registration, RpcService, TraceContext,
    job_master::{CoordinationError, CoordinatorFailed, JobMasterGateway},
    program_host::{
        BuildError, BuildGraph, CancelOnHost, CoordinatorsCheckpointEnded, DeployToHost,
        DescribeProgram, EndHost, HandleCoordinationRequest, HandleOperatorEvent, HostStarted,
        JobEnded, NotifyOnHost, ParentAlive, ProgramDescription, ReleaseSlot, ResetSubtasks,
        SnapshotCoordinators, StartCoordinators, StartHost, TriggerOnHost,
    },
    task_executor::DeployError,
};
use model::{CheckpointBarrier, FailureCause};
use std::{path::PathBuf, sync::Arc, time::Duration};
use streaming::{Barrier, Mail, OnFailure, ProgramEntry};

/// The time that a host waits for its tasks after `EndHost`. Then its actor stops, whether or not they have ended.
const END_WITHIN: Duration = Duration::from_secs(15);

/// Called for every sign of life of the parent. `Some` sets the silence that is allowed from now on, in milliseconds
/// (0: unlimited).
pub(crate) type Heard = Arc<dyn Fn(Option<u64>) + Send + Sync>;

/// The actor of one program host.
pub(crate) struct ProgramHost {
    pub(crate) program: ProgramEntry,
    pub(crate) rpc: RpcService,
    pub(crate) place: Place,
    /// True if relative paths in the program resolve against the working directory.
    pub(crate) embedded: bool,
    /// The directory for temporary files of coordinators.
    pub(crate) tmp_dir: PathBuf,
    pub(crate) heard: Option<Heard>,
    pub(crate) worker: Side<Worker>,
    pub(crate) coordination: Option<Coordination>,
    /// The endpoint's registration, which is dropped when the actor stops.
    pub(crate) registration: Option<Registration>,
    /// Receives a message when the actor has stopped.
    pub(crate) ended: Option<oneshot::Sender<()>>,
}

/// A side of the host that is started by a call and takes time to start.
pub(crate) enum Side<T> {
    None,
    Starting,
    Up(T),
}

impl<T> Side<T> {
    fn up(&mut self) -> Option<&mut T> {
        match self {
            Self::Up(side) => Some(side),
            Self::None | Self::Starting => None,
        }
    }
}

impl Actor for ProgramHost {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.registration = None;
        if let Some(ended) = self.ended.take() {
            let _ = ended.send(());
        }
    }
}

impl ProgramHost {
    /// Enters the trace of a call that starts or ends work for the host's job. A child process, which serves one job alone, stays in
    /// it until the next such call.
    fn enter(&self, trace: TraceContext) -> Entered {
        if matches!(self.place, Place::Child(_)) {
            trace.enter_process();
        }
        trace.enter()
    }

    fn coordination(&mut self) -> Result<&Coordination, BuildError> {
        if self.coordination.is_none() {
            let started = Coordination::start(self.program.clone(), self.tmp_dir.clone());
            let started = started
                .map_err(|e| BuildError::Process(format!("no thread for coordinators: {e}")))?;
            self.coordination = Some(started);
        }
        self.coordination.as_ref().ok_or_else(|| BuildError::Process("no coordinators".to_owned()))
    }

    fn running_coordination(&self) -> Result<&Coordination, CoordinationError> {
        let unavailable = || CoordinationError::Unavailable("none is started here".to_owned());
        self.coordination.as_ref().ok_or_else(unavailable)
    }
}

/// Returns a future that is ready with `answer`.
fn now<T: 'static>(answer: T) -> ResponseFuture<T> {
    Box::pin(futures::future::ready(answer))
}

/// Reports a sign of life of the parent to its watch, if this host has one (a child process).
fn heard(host: &ProgramHost, silence_ms: Option<u64>) {
    if let Some(heard) = &host.heard {
        heard(silence_ms);
    }
}

impl Handler<Ask<BuildGraph>> for ProgramHost {
    type Result = ResponseFuture<Answer<BuildGraph>>;

    fn handle(&mut self, ask: Ask<BuildGraph>, _: &mut Self::Context) -> Self::Result {
        let _entered = self.enter(ask.caller.trace);
        match self.coordination() {
            Ok(coordination) => coordination.build(ask.body).boxed_local(),
            Err(error) => now(Err(error)),
        }
    }
}

impl Handler<Ask<StartHost>> for ProgramHost {
    type Result = ResponseActFuture<Self, Answer<StartHost>>;

    fn handle(&mut self, ask: Ask<StartHost>, _: &mut Self::Context) -> Self::Result {
        let _entered = self.enter(ask.caller.trace);
        let start = ask.body;
        match &self.worker {
            // A repeated call changes the host's share of the memory.
            Side::Up(worker) if worker.job_id() == start.job_id => {
                worker.resize(&start);
                let data_address = worker.data_address().clone();
                return Box::pin(now(Ok(HostStarted { data_address })).into_actor(self));
            }
            Side::Up(worker) => {
                let why = format!("this host runs job {}", worker.job_id());
                return Box::pin(now(Err(BuildError::Invalid(why))).into_actor(self));
            }
            Side::Starting => {
                let why = "the host is starting already".to_owned();
                return Box::pin(now(Err(BuildError::Invalid(why))).into_actor(self));
            }
            Side::None => self.worker = Side::Starting,
        }
        // A parent that is silent for 0.6 of its heartbeat time-out may already have been declared dead.
        heard(self, Some(start.heartbeat_timeout_ms.saturating_mul(6) / 10));
        let (program, rpc) = (self.program.clone(), self.rpc.clone());
        let (tmp_dir, place) = (self.tmp_dir.clone(), self.place.clone());
        let starting = Worker::start(start, program, rpc, tmp_dir, place, self.embedded);
        Box::pin(starting.into_actor(self).map(|started, host, _| match started {
            Ok(worker) => {
                let data_address = worker.data_address().clone();
                host.worker = Side::Up(worker);
                Ok(HostStarted { data_address })
            }
            Err(error) => {
                host.worker = Side::None;
                Err(error)
            }
        }))
    }
}

impl Handler<Ask<DeployToHost>> for ProgramHost {
    type Result = Answer<DeployToHost>;

    fn handle(&mut self, ask: Ask<DeployToHost>, _: &mut Self::Context) -> Self::Result {
        let _entered = self.enter(ask.caller.trace);
        match self.worker.up() {
            Some(worker) => worker.deploy(ask.body),
            None => Err(DeployError::Host("the host is not started yet".to_owned())),
        }
    }
}

impl Handler<Ask<CancelOnHost>> for ProgramHost {
    type Result = Answer<CancelOnHost>;

    fn handle(&mut self, ask: Ask<CancelOnHost>, _: &mut Self::Context) -> Self::Result {
        let _entered = self.enter(ask.caller.trace);
        if let Some(worker) = self.worker.up() {
            worker.cancel(&ask.body.attempts);
        }
        Ok(())
    }
}

impl Handler<Ask<ReleaseSlot>> for ProgramHost {
    type Result = Answer<ReleaseSlot>;

    fn handle(&mut self, ask: Ask<ReleaseSlot>, _: &mut Self::Context) -> Self::Result {
        if let Some(worker) = self.worker.up() {
            worker.release(ask.body.allocation_id);
        }
        Ok(())
    }
}

impl Handler<Ask<TriggerOnHost>> for ProgramHost {
    type Result = Answer<TriggerOnHost>;

    fn handle(&mut self, ask: Ask<TriggerOnHost>, _: &mut Self::Context) -> Self::Result {
        let TriggerOnHost { attempts, barrier } = ask.body;
        let CheckpointBarrier { checkpoint, triggered_ms, last, drain, savepoint, full } = barrier;
        let _entered = last.then(|| self.enter(ask.caller.trace));
        if let Some(worker) = self.worker.up() {
            let barrier = Barrier { checkpoint, triggered_ms, last, savepoint, full };
            if drain {
                worker.deliver(&attempts, || Mail::Drain);
            }
            worker.deliver(&attempts, || Mail::Trigger(barrier));
        }
        Ok(())
    }
}

impl Handler<Ask<NotifyOnHost>> for ProgramHost {
    type Result = Answer<NotifyOnHost>;

    fn handle(&mut self, ask: Ask<NotifyOnHost>, _: &mut Self::Context) -> Self::Result {
        let NotifyOnHost { attempts, checkpoint, complete } = ask.body;
        match self.worker.up() {
            Some(worker) if complete => {
                worker.deliver(&attempts, || Mail::NotifyComplete(checkpoint));
            }
            Some(worker) => worker.checkpoint_aborted(&attempts, checkpoint),
            None => {}
        }
        Ok(())
    }
}

impl Handler<Ask<SnapshotCoordinators>> for ProgramHost {
    type Result = ResponseFuture<Answer<SnapshotCoordinators>>;

    fn handle(&mut self, ask: Ask<SnapshotCoordinators>, _: &mut Self::Context) -> Self::Result {
        match self.running_coordination() {
            Ok(coordination) => coordination.snapshot(ask.body).boxed_local(),
            Err(error) => now(Err(error)),
        }
    }
}

impl Handler<Ask<CoordinatorsCheckpointEnded>> for ProgramHost {
    type Result = ResponseFuture<Answer<CoordinatorsCheckpointEnded>>;

    fn handle(
        &mut self,
        ask: Ask<CoordinatorsCheckpointEnded>,
        _: &mut Self::Context,
    ) -> Self::Result {
        let CoordinatorsCheckpointEnded { checkpoint, complete } = ask.body;
        match self.running_coordination() {
            Ok(coordination) => coordination.checkpoint_ended(checkpoint, complete).boxed_local(),
            Err(error) => now(Err(error)),
        }
    }
}

impl Handler<Ask<ResetSubtasks>> for ProgramHost {
    type Result = ResponseFuture<Answer<ResetSubtasks>>;

    fn handle(&mut self, ask: Ask<ResetSubtasks>, _: &mut Self::Context) -> Self::Result {
        match self.running_coordination() {
            Ok(coordination) => coordination.reset_subtasks(ask.body).boxed_local(),
            Err(error) => now(Err(error)),
        }
    }
}

impl Handler<Ask<StartCoordinators>> for ProgramHost {
    type Result = ResponseFuture<Answer<StartCoordinators>>;

    fn handle(&mut self, ask: Ask<StartCoordinators>, _: &mut Self::Context) -> Self::Result {
        let _entered = self.enter(ask.caller.trace);
        let start = ask.body;
        let job_master =
            self.rpc.gateway::<JobMasterGateway>(&start.job_master, start.job_master_id);
        let round = start.round;
        let on_failure = OnFailure::new(move |why: String| {
            let cause = FailureCause::recoverable("CoordinatorFailed", why);
            // Executing the call twice has no effect: the round identifies the start that it is about.
            job_master.insist(CoordinatorFailed { round, cause });
        });
        match self.coordination() {
            Ok(coordination) => coordination.start_coordinators(start, on_failure).boxed_local(),
            Err(error) => now(Err(error)),
        }
    }
}

impl Handler<Ask<HandleOperatorEvent>> for ProgramHost {
    type Result = ResponseFuture<Answer<HandleOperatorEvent>>;

    fn handle(&mut self, ask: Ask<HandleOperatorEvent>, _: &mut Self::Context) -> Self::Result {
        let HandleOperatorEvent { attempt, operator, event } = ask.body;
        match self.running_coordination() {
            Ok(coordination) => coordination.event(attempt, operator, event).boxed_local(),
            Err(error) => now(Err(error)),
        }
    }
}

impl Handler<Ask<HandleCoordinationRequest>> for ProgramHost {
    type Result = ResponseFuture<Answer<HandleCoordinationRequest>>;

    fn handle(
        &mut self,
        ask: Ask<HandleCoordinationRequest>,
        _: &mut Self::Context,
    ) -> Self::Result {
        let HandleCoordinationRequest { operator, request } = ask.body;
        match self.running_coordination() {
            Ok(coordination) => coordination.client(operator, request).boxed_local(),
            Err(error) => now(Err(error)),
        }
    }
}

impl Handler<Ask<JobEnded>> for ProgramHost {
    type Result = ResponseFuture<Answer<JobEnded>>;

    fn handle(&mut self, ask: Ask<JobEnded>, _: &mut Self::Context) -> Self::Result {
        match &self.coordination {
            Some(coordination) => coordination.job_ended(ask.body.finished).boxed_local(),
            // A job without coordinators has nothing to publish: success.
            None => now(Ok(())),
        }
    }
}

impl Handler<Ask<ParentAlive>> for ProgramHost {
    type Result = Answer<ParentAlive>;

    fn handle(&mut self, _: Ask<ParentAlive>, _: &mut Self::Context) -> Self::Result {
        heard(self, None);
        Ok(())
    }
}

impl Handler<Ask<DescribeProgram>> for ProgramHost {
    type Result = Answer<DescribeProgram>;

    fn handle(&mut self, _: Ask<DescribeProgram>, _: &mut Self::Context) -> Self::Result {
        let jobs = self.program.jobs().iter().map(|job| job.name().to_owned()).collect();
        Ok(ProgramDescription { jobs })
    }
}

impl Handler<Ask<EndHost>> for ProgramHost {
    type Result = Answer<EndHost>;

    /// Cancels the tasks and answers at once; the actor stops when the tasks have ended, or after [`END_WITHIN`].
    fn handle(&mut self, _: Ask<EndHost>, ctx: &mut Self::Context) -> Self::Result {
        match self.worker.up() {
            Some(worker) => {
                let stopped = worker.stop();
                let bounded = async move {
                    // A task that does not return ends the process by its own time-out (`task.cancellation.timeout`).
                    let _ = tokio::time::timeout(END_WITHIN, stopped).await;
                };
                ctx.spawn(bounded.into_actor(self).map(|(), _, ctx| ctx.stop()));
            }
            None => {
                // Stopped in a later turn, so that this call is still answered.
                ctx.spawn(futures::future::ready(()).into_actor(self).map(|(), _, ctx| ctx.stop()));
            }
        }
        Ok(())
    }
}
