//! The job's coordinators in the JobManager-side program host: found or launched, started, asked,
//! published, watched. A host that dies is a failover of the job, decided by the core.

use super::JobMaster;
use super::checkpoints::states_of;
use crate::host_exit::exit_behind;
use crate::turns::{spawn_then, take_step};
use actix::{AsyncContext as _, Context, ResponseFuture};
use control::job_master::Unroutable;
use control::restart::NO_RESOURCE;
use gateways::job_master::CoordinationError;
use gateways::job_services::{AwaitHostExit, LaunchHost, ProgramHostsGateway};
use gateways::program_host::{
    BuildError, JobEnded, ProgramHostGateway, ResetSubtasks, StartCoordinators,
};
use gateways::{Call, CallError, FabricError, Remote};
use model::{ExecutionAttemptId, FailureCause, JobId, OperatorId, ProcessSession, StateHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest the start of all coordinators may take; the host may have to rebuild the program.
const START_WITHIN: Duration = Duration::from_secs(120);
/// Longest the enumerators may take to take splits back.
const RESET_WITHIN: Duration = Duration::from_secs(60);
/// Longest the publication of results may take.
const PUBLISH_WITHIN: Duration = Duration::from_secs(600);
/// Time for which one request for the host's exit stays open.
const EXIT_WAIT: Duration = Duration::from_secs(30);
/// The calls to a host in the words of the job's failures.
const START: &str = "starting the coordinators";
const PUBLISH: &str = "publishing the results";
const RESET: &str = "giving splits back to the enumerators";
pub(super) const SNAPSHOT: &str = "taking the coordinators' snapshots";

/// The host that runs the coordinators.
#[derive(Debug)]
pub(super) struct HostLink {
    pub(super) session: ProcessSession,
    pub(super) gateway: Remote<ProgramHostGateway>,
}

impl JobMaster {
    /// Starts the coordinators of some operators anew, in the present host or a new one.
    pub(super) fn start_coordinators(
        &mut self,
        round: u64,
        operators: BTreeSet<OperatorId>,
        restore: Vec<(OperatorId, StateHandle)>,
        ctx: &mut Context<Self>,
    ) {
        let (hosts, rpc) = (self.deps.hosts.clone(), self.rpc().clone());
        let launch = LaunchHost { job_id: self.job_id(), program: self.deps.program };
        let reader = self.state_reader();
        let mut options = self.deps.options.to_map();
        options.retain(|key, _| key.starts_with("s3."));
        let start = StartCoordinators {
            graph: self.core.graph().clone(),
            job_master: self.address.clone(),
            job_master_id: self.deps.session,
            round,
            operators,
            restore: Vec::new(),
            embedded: self.deps.embedded,
            options,
        };
        let (addr, job_id) = (ctx.address(), self.job_id());
        actix::spawn(async move {
            let say_started = |outcome| {
                take_step(&addr, move |actor, ctx| actor.coordinators_started(round, outcome, ctx))
            };
            let host = match hosts.ask_within(launch, START_WITHIN).await {
                Ok(host) => host,
                Err(error) => {
                    let _ = say_started(Err(build_failure(error))).await;
                    return;
                }
            };
            // Known before it is asked, so that its death while it starts is seen.
            let session = host.session;
            let gateway: Remote<ProgramHostGateway> = rpc.gateway(&host.address, session);
            let link = HostLink { session, gateway: gateway.clone() };
            let found = take_step(&addr, move |actor, ctx| actor.host_found(round, link, ctx));
            if found.await.is_err() {
                return;
            }
            let outcome = match states_of(&reader, restore).await {
                Ok(restore) => {
                    let start = StartCoordinators { restore, ..start };
                    match gateway.ask_within(start, START_WITHIN).await {
                        Err(CallError::Fabric(error)) => {
                            Err(told_by_exit(&hosts, job_id, session, START, &error).await)
                        }
                        started => started.map_err(build_failure),
                    }
                }
                Err(cause) => Err(cause),
            };
            let _ = say_started(outcome).await;
        });
    }

    /// Has enumerators take back what they have assigned to attempts that have ended.
    pub(super) fn reset_subtasks(
        &self,
        round: u64,
        attempts: BTreeMap<OperatorId, Vec<ExecutionAttemptId>>,
        checkpoint: Option<u64>,
        ctx: &mut Context<Self>,
    ) {
        let subtasks = attempts.values().map(Vec::len).sum::<usize>();
        tracing::info!(job = %self.job_id(), subtasks, checkpoint, "subtasks are reset");
        let told = self.told(ResetSubtasks { attempts, checkpoint }, RESET_WITHIN, RESET);
        spawn_then(ctx, told, move |actor, outcome, ctx| {
            actor.core.subtasks_reset(actor.now(), round, outcome);
            actor.turn(ctx);
        });
    }

    /// Makes the coordinators publish, because every task has finished.
    pub(super) fn publish_results(&mut self, round: u64, ctx: &mut Context<Self>) {
        let published = self.told(JobEnded { finished: true }, PUBLISH_WITHIN, PUBLISH);
        spawn_then(ctx, published, move |actor, outcome, ctx| {
            actor.core.results_published(actor.now(), round, outcome);
            actor.turn(ctx);
        });
    }

    /// Makes a call to the coordinators' host; a failure is that of the job's regions. `what` is the call in the words of the failure.
    fn told<C>(
        &self,
        call: C,
        within: Duration,
        what: &'static str,
    ) -> impl Future<Output = Result<(), FailureCause>> + use<C>
    where
        C: Call<Gateway = ProgramHostGateway, Reply = (), Error = CoordinationError>,
    {
        let host = self.host.as_ref().map(|host| (host.gateway.clone(), host.session));
        let (hosts, job_id) = (self.deps.hosts.clone(), self.job_id());
        async move {
            let Some((gateway, session)) = host else {
                let gone = "the job's coordinators are gone";
                return Err(FailureCause::recoverable("CoordinatorHostLost", gone));
            };
            match gateway.ask_within(call, within).await {
                Ok(()) => Ok(()),
                Err(CallError::Refused(error)) => {
                    Err(FailureCause::recoverable("CoordinatorFailed", error.to_string()))
                }
                Err(CallError::Fabric(error)) => {
                    Err(told_by_exit(&hosts, job_id, session, what, &error).await)
                }
            }
        }
    }

    /// Notes that the host is up which the start number `round` has found.
    fn host_found(&mut self, round: u64, found: HostLink, ctx: &mut Context<Self>) {
        let session = found.session;
        match &self.host {
            Some(known) if known.session == session => return,
            // The end of the known one was not heard yet.
            Some(_) => {
                let cause = host_lost("another one has taken its place");
                self.core.coordinator_host_replaced(self.now(), round, cause);
                self.turn(ctx);
            }
            None => {}
        }
        self.host = Some(found);
        let (hosts, job) = (self.deps.hosts.clone(), self.job_id());
        let exit = async move { exit_of(&hosts, job, session).await };
        spawn_then(ctx, exit, move |actor, cause, ctx| actor.host_ended(session, &cause, ctx));
    }

    /// Reports the end of the coordinators' host to the core.
    fn host_ended(&mut self, session: ProcessSession, cause: &str, ctx: &mut Context<Self>) {
        if self.host.as_ref().is_none_or(|host| host.session != session) {
            return;
        }
        self.host = None;
        self.core.coordinator_host_lost(self.now(), host_lost(cause));
        self.turn(ctx);
    }

    /// Reports to the core that coordinators were started, or could not be.
    fn coordinators_started(
        &mut self,
        round: u64,
        outcome: Result<(), FailureCause>,
        ctx: &mut Context<Self>,
    ) {
        if let Err(cause) = &outcome {
            tracing::warn!(job = %self.job_id(), %cause, "the coordinators are not started");
        }
        self.core.coordinators_started(self.now(), round, outcome);
        self.turn(ctx);
    }

    /// Tells the coordinators that the job ends without results.
    pub(super) fn abandon_results(&self) {
        if let Some(host) = &self.host {
            // A hint that may be lost: the Dispatcher ends the host with the job.
            host.gateway.tell(JobEnded { finished: false });
        }
    }

    /// Hands a message on to a coordinator.
    pub(super) fn to_coordinator<C>(
        &self,
        routed: Result<(), CoordinationError>,
        message: C,
        within: Duration,
    ) -> ResponseFuture<Result<C::Reply, CoordinationError>>
    where
        C: Call<Gateway = ProgramHostGateway, Error = CoordinationError>,
    {
        let gateway = self.host.as_ref().map(|host| host.gateway.clone());
        Box::pin(async move {
            routed?;
            let gateway = gateway.ok_or_else(|| {
                CoordinationError::Unavailable("their process is being started".to_owned())
            })?;
            gateway.ask_within(message, within).await.map_err(CoordinationError::from)
        })
    }
}

/// Converts the reason to the error of the call.
pub(super) fn unroutable(
    why: Unroutable,
    attempt: Option<ExecutionAttemptId>,
    operator: OperatorId,
) -> CoordinationError {
    match (why, attempt) {
        (Unroutable::StaleAttempt, Some(attempt)) => CoordinationError::StaleAttempt { attempt },
        (Unroutable::StaleAttempt | Unroutable::NoSuchOperator, _) => {
            CoordinationError::NoSuchOperator { operator }
        }
        (Unroutable::Unavailable, _) => CoordinationError::Unavailable(why.to_string()),
    }
}

/// Makes the job's failure from a failed call.
pub(super) fn cause_of_fabric(kind: &str, what: &str, error: &FabricError) -> FailureCause {
    FailureCause::recoverable(kind, format!("{what} failed: {error}"))
}

fn build_failure(error: CallError<BuildError>) -> FailureCause {
    match error {
        CallError::Refused(BuildError::Process(why)) => {
            FailureCause::recoverable("CoordinatorHostLost", why)
        }
        CallError::Refused(BuildError::NoRoom(why)) => FailureCause::recoverable(NO_RESOURCE, why),
        CallError::Refused(error @ BuildError::Differs(_)) => {
            FailureCause::fatal("ProgramDiffers", error.to_string())
        }
        CallError::Refused(error) => FailureCause::fatal("ProgramBuildFailed", error.to_string()),
        CallError::Fabric(error) => cause_of_fabric("CoordinatorHostLost", START, &error),
    }
}

fn host_lost(why: &str) -> FailureCause {
    let message = format!("the process of the job's coordinators is gone: {why}");
    FailureCause::recoverable("CoordinatorHostLost", message)
}

/// Makes the job's failure from a call to a host that got no answer. If the connection is lost because the host has ended, the failure
/// says how it ended ("killed by SIGABRT" after a stack overflow).
pub(super) async fn told_by_exit(
    hosts: &Remote<ProgramHostsGateway>,
    job: JobId,
    session: ProcessSession,
    what: &str,
    error: &FabricError,
) -> FailureCause {
    match exit_behind(error, async { Some(exit_of(hosts, job, session).await) }).await {
        Some(how) => host_lost(&format!("{how}, while {what}")),
        None => cause_of_fabric("CoordinatorHostLost", what, error),
    }
}

/// Waits until a host has ended.
async fn exit_of(
    hosts: &Remote<ProgramHostsGateway>,
    job_id: JobId,
    session: ProcessSession,
) -> String {
    let wait_ms = u64::try_from(EXIT_WAIT.as_millis()).unwrap_or(u64::MAX);
    loop {
        let ask = AwaitHostExit { job_id, session, wait_ms };
        match hosts.ask_within(ask, EXIT_WAIT * 2).await {
            Ok(Some(exit)) => return exit.cause,
            Ok(None) => {}
            Err(error) => return format!("its keeper does not answer: {error}"),
        }
    }
}
