//! The keeper's calls.

use super::{HostSide, ProgramHosts, State};
use crate::host_exit::{EXIT_WITHIN, exit_behind};
use crate::turns::take_step;
use actix::{AsyncContext, Context, Handler, ResponseFuture};
use control::program_hosts::Purpose;
use gateways::job_services::{
    AwaitHostExit, BuildInHost, BuiltInHost, FindHost, HostAddress, HostExit, LaunchHost,
    ReleaseHost, ServeCollected,
};
use gateways::program_host::{BuildError, BuildGraph, EndHost, ProgramHostGateway};
use gateways::{Answer, Ask, CallError, FabricError, Remote};
use model::{JobId, ProcessSession};
use platform::watch;
use std::time::Duration;
use tokio::sync::oneshot;

/// Longest a build of a graph may take.
const BUILD_WITHIN: Duration = Duration::from_secs(120);
/// The part of its caller's time for which a build waits for a place among the program hosts, in percent: 120 s of the
/// Dispatcher's 150 s. The rest is for the start of the host and the build.
const BUILD_WAITS_PERCENT: u32 = 80;
/// Maximum time for which coordinators wait for a place; the job keeps its slots meanwhile.
const COORDINATORS_WAIT: Duration = Duration::from_secs(10);
/// Maximum time for which tasks wait for the end of their job's previous host.
const TASKS_WAIT: Duration = Duration::from_secs(120);
/// Longest one call waits for the end of a host.
const WAIT_MAX: Duration = Duration::from_secs(60);

impl Handler<Ask<LaunchHost>> for ProgramHosts {
    type Result = ResponseFuture<Answer<LaunchHost>>;

    fn handle(&mut self, ask: Ask<LaunchHost>, ctx: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let within = match self.deps.side {
            HostSide::JobManager => COORDINATORS_WAIT,
            HostSide::TaskManager => TASKS_WAIT,
        };
        let LaunchHost { job_id, program } = ask.body;
        let launched = self.launch((job_id, program), Purpose::Run, within, ctx);
        Box::pin(async move { came_up(launched.await) })
    }
}

fn came_up(
    outcome: Result<Result<HostAddress, BuildError>, oneshot::error::RecvError>,
) -> Result<HostAddress, BuildError> {
    outcome.unwrap_or_else(|_| Err(BuildError::Process("it was released while it started".into())))
}

impl Handler<Ask<BuildInHost>> for ProgramHosts {
    type Result = ResponseFuture<Answer<BuildInHost>>;

    fn handle(&mut self, ask: Ask<BuildInHost>, ctx: &mut Context<Self>) -> Self::Result {
        let trace = ask.caller.trace;
        let _entered = trace.enter();
        let BuildInHost { program, job_id, parallelism, options, defaults, keep } = ask.body;
        let deadline = ask.caller.deadline;
        let key = super::program_key(&program);
        let waits = deadline.remaining().saturating_mul(BUILD_WAITS_PERCENT) / 100;
        let launched = self.launch((job_id, Some(key)), Purpose::Build, waits, ctx);
        let (deps, addr) = (self.deps.clone(), ctx.address());
        let embedded = self.deps.embedded;
        Box::pin(trace.carry(async move {
            let host = came_up(launched.await)?;
            let gateway: Remote<ProgramHostGateway> =
                deps.services.rpc.gateway(&host.address, host.session);
            let build = BuildGraph { program, job_id, parallelism, options, defaults, embedded };
            let within = BUILD_WITHIN.min(deadline.remaining());
            let exit = addr.send(ExitOf { job: job_id, session: host.session }).await;
            let exit = exit.ok().flatten();
            let built = match gateway.ask_within(build, within).await {
                Ok(graph) => Ok(graph),
                Err(CallError::Refused(error)) => Err(error),
                Err(CallError::Fabric(error)) => Err(unanswered(error, exit).await),
            };
            if built.is_ok() && keep {
                let _ = take_step(&addr, move |actor, ctx| actor.host_built(job_id, ctx)).await;
            } else {
                let _ = addr.send(End { job: job_id, at_once: built.is_err() }).await;
            }
            Ok(BuiltInHost { graph: built? })
        }))
    }
}

impl Handler<Ask<FindHost>> for ProgramHosts {
    type Result = Answer<FindHost>;

    fn handle(&mut self, ask: Ask<FindHost>, _: &mut Context<Self>) -> Answer<FindHost> {
        Ok(self.hosts.get(&ask.body.job_id).and_then(|entry| match &entry.state {
            State::Up { address, ending: false, .. } => Some(address.clone()),
            State::Up { .. } | State::Launching { .. } => None,
        }))
    }
}

impl Handler<Ask<AwaitHostExit>> for ProgramHosts {
    type Result = ResponseFuture<Answer<AwaitHostExit>>;

    fn handle(&mut self, ask: Ask<AwaitHostExit>, _: &mut Context<Self>) -> Self::Result {
        let AwaitHostExit { job_id, session, wait_ms } = ask.body;
        let wait = Duration::from_millis(wait_ms).min(WAIT_MAX);
        let exit = self.exit_of(job_id, session);
        Box::pin(async move {
            let Some(exit) = exit else {
                let cause = "it is not known here (any more)".to_owned();
                return Ok(Some(HostExit { cause, released: false }));
            };
            Ok(gone(exit, wait).await)
        })
    }
}

/// Returns the error of a build that a host did not answer. If the host closed its connection because it ends, the error
/// says how the host ended.
async fn unanswered(
    error: FabricError,
    exit: Option<watch::Receiver<Option<HostExit>>>,
) -> BuildError {
    let ended = async { gone(exit?, EXIT_WITHIN).await };
    BuildError::Process(match exit_behind(&error, ended).await {
        Some(exit) => format!("it {} while it built the graph", exit.cause),
        None => error.to_string(),
    })
}

/// Asks the keeper where the end of a host will be said; `None` if that host is gone already.
#[derive(actix::Message)]
#[rtype(result = "Option<watch::Receiver<Option<HostExit>>>")]
struct ExitOf {
    job: JobId,
    session: ProcessSession,
}

impl Handler<ExitOf> for ProgramHosts {
    type Result = Option<watch::Receiver<Option<HostExit>>>;
    fn handle(&mut self, ExitOf { job, session }: ExitOf, _: &mut Context<Self>) -> Self::Result {
        self.exit_of(job, session)
    }
}

/// Waits for a host's exit. Returns `None` if the host has not ended after `wait`.
async fn gone(mut exit: watch::Receiver<Option<HostExit>>, wait: Duration) -> Option<HostExit> {
    match tokio::time::timeout(wait, exit.wait_for(Option::is_some)).await {
        Ok(Ok(exit)) => exit.clone(),
        // The keeper forgot it without a word: it can't be waited for any more.
        Ok(Err(_)) => Some(HostExit { cause: "its keeper has ended".to_owned(), released: false }),
        Err(_) => None,
    }
}

impl Handler<Ask<ReleaseHost>> for ProgramHosts {
    type Result = ResponseFuture<Answer<ReleaseHost>>;

    fn handle(&mut self, ask: Ask<ReleaseHost>, ctx: &mut Context<Self>) -> Self::Result {
        let trace = ask.caller.trace;
        let _entered = trace.enter();
        if let Some(entry) = self.hosts.get_mut(&ask.body.job_id) {
            entry.trace = trace.or_else(|| entry.trace);
        }
        let ending = self.release(ask.body.job_id, ask.body.at_once, ctx);
        Box::pin(async move {
            ending.await;
            Ok(())
        })
    }
}

impl Handler<Ask<ServeCollected>> for ProgramHosts {
    type Result = Answer<ServeCollected>;

    fn handle(&mut self, ask: Ask<ServeCollected>, ctx: &mut Context<Self>) -> Self::Result {
        let job = ask.body.job_id;
        self.places.serving(self.deps.services.platform.now(), job);
        if let Some(State::Up { address, .. }) = self.hosts.get(&job).map(|entry| &entry.state)
            && let Some(pid) = address.pid
        {
            self.deps.launcher.serves_collected(pid);
        }
        self.turn(ctx);
        Ok(())
    }
}

impl ProgramHosts {
    /// Returns where the end of a job's host will be said; `None` if the job's host is another one, or none.
    fn exit_of(
        &self,
        job: JobId,
        session: ProcessSession,
    ) -> Option<watch::Receiver<Option<HostExit>>> {
        let entry = self.hosts.get(&job)?;
        match &entry.state {
            State::Up { address, .. } if address.session == session => Some(entry.exit.subscribe()),
            State::Up { .. } | State::Launching { .. } => None,
        }
    }

    /// Ends a job's host and withdraws requests for another one. The future resolves when the host
    /// has ended.
    fn release(
        &mut self,
        job: JobId,
        at_once: bool,
        ctx: &mut Context<Self>,
    ) -> ResponseFuture<()> {
        for ticket in self.places.withdraw(job) {
            // Dropping the request tells its caller that the host was released.
            self.requests.remove(&ticket);
        }
        let ending = self.end(job, at_once);
        self.turn(ctx);
        ending
    }

    /// Notes that the host of a job has built the job's graph.
    fn host_built(&mut self, job: JobId, ctx: &mut Context<Self>) {
        self.places.built(self.deps.services.platform.now(), job);
        self.turn(ctx);
    }

    /// Ends a job's host; the future resolves when it has ended.
    pub(super) fn end(&mut self, job: JobId, at_once: bool) -> ResponseFuture<()> {
        self.places.ending(job);
        let Some(entry) = self.hosts.get_mut(&job) else { return Box::pin(async {}) };
        let exit = entry.exit.subscribe();
        match &mut entry.state {
            State::Launching { .. } => {
                // Dropping the entry gives the launch up and answers its waiting callers.
                let cause = "released while it started".to_owned();
                self.forget(job, HostExit { cause, released: true });
                Box::pin(async {})
            }
            State::Up { address, kill, ending } => {
                let again = std::mem::replace(ending, true);
                if at_once {
                    kill();
                }
                let gateway: Remote<ProgramHostGateway> =
                    self.deps.services.rpc.gateway(&address.address, address.session);
                let ask_first = !at_once && !again;
                let (kill, within) = (kill.clone(), self.end_within);
                Box::pin(async move {
                    if ask_first {
                        let _ = gateway.ask_within(EndHost {}, within).await;
                    }
                    if gone(exit.clone(), within).await.is_none() {
                        kill();
                        gone(exit, within).await;
                    }
                })
            }
        }
    }
}

/// Ends a job's host, from inside.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct End {
    job: JobId,
    at_once: bool,
}

impl Handler<End> for ProgramHosts {
    type Result = ResponseFuture<()>;
    fn handle(&mut self, End { job, at_once }: End, ctx: &mut Context<Self>) -> Self::Result {
        self.release(job, at_once, ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateways::{Executed, NodeAddress};

    #[tokio::test(start_paused = true)]
    async fn a_build_that_ends_its_process_is_told_by_the_processs_end() {
        let lost = || FabricError::Unreachable {
            peer: NodeAddress::new("host:1"),
            executed: Executed::Maybe,
            why: "the connection was lost".to_owned(),
        };
        let exit = watch::Sender::new(None);
        let ended = async {
            tokio::time::sleep(EXIT_WITHIN / 2).await;
            let cause = "was ended by SIGABRT".to_owned();
            exit.send_replace(Some(HostExit { cause, released: false }));
        };
        let (error, ()) = futures::join!(unanswered(lost(), Some(exit.subscribe())), ended);
        let expected =
            "the program's process failed: it was ended by SIGABRT while it built the graph";
        assert_eq!(error.to_string(), expected);
        let alive = watch::Sender::new(None);
        for exit in [None, Some(alive.subscribe())] {
            let error = unanswered(lost(), exit).await.to_string();
            assert!(error.contains("the connection was lost"), "{error}");
        }
    }
}
