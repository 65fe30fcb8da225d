//! The keeper of a process's program hosts: starts, counts and ends them, one per job. On the JobManager, a host builds
//! a job's graph and then serves the job's coordinators if the job gets its slots at once; on a TaskManager the host
//! runs the job's tasks. `control::program_hosts` decides how many hosts may exist and which of them ends to make room.
//!
//! The keeper must never restart a host by itself: it reports that the host is gone, and the job's owner requests
//! another one if it needs it.

mod calls;
mod launcher;
#[cfg(test)]
mod tests;

pub use launcher::{
    ExitCause, HostRequest, HostSide, LaunchedHost, ProgramError, ProgramHostLauncher, Programs,
    program_key,
};

use crate::services::{ProcessServices, Running, stops_at_once};
use crate::turns::{Alarm, spawn_then, take_step, takes_steps};
use actix::{Actor, AsyncContext as _, Context};
use control::program_hosts::{Bounds, Command, Places, Purpose, Ticket};
use gateways::job_services::{HostAddress, HostExit, ProgramHostsGateway};
use gateways::program_host::{BuildError, ParentAlive, ProgramHostGateway};
use gateways::{Remote, TraceContext};
use model::{BlobKey, ContentHash, JobId};
use platform::watch;
use platform::{Lane, LaneEnded};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The endpoint name that a process's keeper of program hosts is served under.
pub const ENDPOINT: &str = "program_hosts";

/// The dependencies of a process's keeper of program hosts: a launcher, a source of executables, the side (JobManager or
/// TaskManager) of its hosts, and services of the process.
#[derive(Clone, derive_more::Debug)]
#[debug("HostsDeps {{ side: {:?}, .. }}", self.side)]
pub struct HostsDeps {
    /// Services of the process: platform, RPC, options, heartbeats, leader retrieval, metrics and others.
    pub services: ProcessServices,
    /// Launcher by which the keeper starts program hosts: as child processes, or inside this process.
    pub launcher: Arc<dyn ProgramHostLauncher>,
    /// Source from which the keeper gets a program's executable as a file, by the key of its blob.
    pub programs: Arc<dyn Programs>,
    /// Side of the jobs that the hosts of this process serve: building and coordinators (JobManager), or tasks
    /// (TaskManager).
    pub side: HostSide,
    /// Hash of the executable that this process itself runs, if that is a program: hosts for it run inside this
    /// process. `None` for the binary `flott`, all of whose hosts are child processes.
    pub own_program: Option<ContentHash>,
    /// True if programs may use relative paths, as only in an embedded cluster.
    pub embedded: bool,
}

/// Starts the keeper of program hosts on the work lane (thread of actors) and serves it as [`ENDPOINT`]. When the
/// returned handle is stopped or dropped, the keeper kills all its hosts without waiting for their ends; if it dies of a panic, the
/// process ends. No host is started before a call asks for one.
///
/// # Errors
/// Returns [`LaneEnded`] if the lane has ended, because the process is ending.
pub async fn start(deps: HostsDeps) -> Result<Running<ProgramHosts>, LaneEnded> {
    let services = deps.services.clone();
    let lane = services.platform.lane(Lane::Work);
    let addr = lane.run(move || async move { ProgramHosts::new(deps).start() }).await?;
    let endpoint = ProgramHostsGateway::endpoint(addr.clone());
    let registration = services.rpc.serve(ENDPOINT, services.session, endpoint);
    let running = Running::new(services.rpc.address_of(ENDPOINT), addr, registration);
    Ok(running.guarded(&services.platform, &services.fatal))
}

/// Ends a host at once.
type Kill = Arc<dyn Fn() + Send + Sync>;

/// The outcome of a launch.
type Launched = Result<HostAddress, BuildError>;

/// Maximum number of hosts on the JobManager that have built a graph and wait for their job's slots.
const IDLE_MAX: usize = 4;
/// Maximum time for which such a host waits.
const IDLE_FOR: Duration = Duration::from_secs(10);
/// Maximum number of submissions that wait for a host to build their graph in; more are refused at once.
const WAITING_MAX: usize = 256;

/// A request for a job's host that has no place yet.
struct Request {
    program: Option<BlobKey>,
    /// The trace of the call that asks.
    trace: TraceContext,
    answer: oneshot::Sender<Launched>,
}

/// One program host and its state.
struct Entry {
    /// Number of this launch; outcomes of earlier launches are ignored.
    number: u64,
    /// The trace of the call that caused the launch, later of that which has released the host.
    trace: TraceContext,
    state: State,
    /// Set once the host has ended.
    exit: watch::Sender<Option<HostExit>>,
}

enum State {
    /// Being started; dropping `give_up` ends that.
    Launching { waiting: Vec<oneshot::Sender<Launched>>, _give_up: oneshot::Sender<()> },
    /// The host answers; `ending` is true once it was asked to end.
    Up { address: HostAddress, kill: Kill, ending: bool },
}

/// The actor that keeps this process's program hosts, at most one per job: launches them on request, watches them, ends
/// them. On a JobManager that is not a program itself the number of hosts is limited (`jobmanager.program-hosts.max`): requests wait for a
/// place, and are refused with [`BuildError::NoRoom`] if none is free in time, builds also if 256 wait already. A host there that has built
/// a graph is ended if its job does not get its slots within 10 s, if more than four such hosts wait (the longest waiting one), or when
/// others need its place; a host that only serves collected results, when others need its place and nobody has asked for them for 5 s. A
/// request also waits, on either side, while its job's former host is being ended, and is refused the same way if that takes too long.
#[derive(derive_more::Debug)]
#[debug("ProgramHosts({} hosts)", self.hosts.len())]
pub struct ProgramHosts {
    deps: HostsDeps,
    hosts: BTreeMap<JobId, Entry>,
    places: Places,
    requests: BTreeMap<Ticket, Request>,
    timer: Alarm,
    launches: u64,
    start_within: Duration,
    end_within: Duration,
}

impl ProgramHosts {
    fn new(deps: HostsDeps) -> Self {
        let options = &deps.services.options;
        Self {
            start_within: options.get(&conf::taskmanager::HOST_START_TIMEOUT),
            end_within: options.get(&conf::taskmanager::CANCELLATION_TIMEOUT),
            places: Places::new(bounds(&deps)),
            deps,
            hosts: BTreeMap::new(),
            requests: BTreeMap::new(),
            timer: Alarm::default(),
            launches: 0,
        }
    }

    /// Requests a job's host. The receiver gets the existing or starting host, or a new one; if the host is being
    /// ended, a new one after it. Without a place `within` that time the receiver gets [`BuildError::NoRoom`].
    fn launch(
        &mut self,
        (job, program): (JobId, Option<BlobKey>),
        purpose: Purpose,
        within: Duration,
        ctx: &mut Context<Self>,
    ) -> oneshot::Receiver<Launched> {
        let (answer, launched) = oneshot::channel();
        let deadline = self.deps.services.platform.now().saturating_add(within);
        let ticket = self.places.request(job, purpose, deadline);
        let trace = TraceContext::current();
        self.requests.insert(ticket, Request { program, trace, answer });
        self.turn(ctx);
        launched
    }

    /// Carries out the decisions that follow from a change of places, and sets the timer for the next decision.
    fn turn(&mut self, ctx: &mut Context<Self>) {
        for command in self.places.decide(self.deps.services.platform.now()) {
            match command {
                Command::Grant { ticket, job } => {
                    if let Some(request) = self.requests.remove(&ticket) {
                        self.launch_for(job, request, ctx);
                    }
                }
                Command::Refuse { ticket, why } => {
                    if let Some(request) = self.requests.remove(&ticket) {
                        let _ = request.answer.send(Err(BuildError::NoRoom(why.to_string())));
                    }
                }
                Command::End { job, why } => {
                    tracing::debug!(%job, why, "program host is ended");
                    actix::spawn(self.end(job, true));
                }
            }
        }
        let (due, now) = (self.places.next_deadline(), self.deps.services.platform.now());
        self.timer.set(due, now, ctx, |actor, ctx| {
            actor.timer.clear();
            actor.turn(ctx);
        });
    }

    fn launch_for(
        &mut self,
        job: JobId,
        Request { program, trace, answer }: Request,
        ctx: &mut Context<Self>,
    ) {
        if let Some(entry) = self.hosts.get_mut(&job) {
            match &mut entry.state {
                State::Up { address, .. } => {
                    let _ = answer.send(Ok(address.clone()));
                }
                State::Launching { waiting, .. } => waiting.push(answer),
            }
            return;
        }
        self.launches += 1;
        let (give_up, given_up) = oneshot::channel();
        let entry = Entry {
            number: self.launches,
            trace,
            state: State::Launching { waiting: vec![answer], _give_up: give_up },
            exit: watch::Sender::new(None),
        };
        self.hosts.insert(job, entry);
        let (number, addr) = (self.launches, ctx.address());
        let start = trace.carry(start_host(self.deps.clone(), job, program, self.start_within));
        actix::spawn(async move {
            let outcome = tokio::select! {
                biased;
                // The keeper let go of the launch: dropping `start` leaves no process behind.
                _ = given_up => return,
                outcome = start => outcome,
            };
            let ended = take_step(&addr, move |actor, ctx| {
                actor.launch_ended(job, number, outcome, ctx);
            });
            let _ = ended.await;
        });
    }

    fn current(&mut self, job: JobId, number: u64) -> Option<&mut Entry> {
        self.hosts.get_mut(&job).filter(|entry| entry.number == number)
    }

    fn gateway(&self, address: &HostAddress) -> Remote<ProgramHostGateway> {
        self.deps.services.rpc.gateway(&address.address, address.session)
    }

    /// Sends a host, from the heartbeat lane, signs that its TaskManager lives, until the host has
    /// ended.
    fn keep_alive(&self, address: &HostAddress, mut gone: watch::Receiver<Option<HostExit>>) {
        if self.deps.side == HostSide::JobManager || address.pid.is_none() {
            return;
        }
        let (gateway, services) = (self.gateway(address), &self.deps.services);
        let interval = services.heartbeat.limits().interval;
        services.platform.lane(Lane::Heartbeat).spawn_local(async move {
            loop {
                let said = gateway.ask_within(ParentAlive {}, interval);
                let pause = async {
                    let _ = said.await;
                    tokio::time::sleep(interval / 2).await;
                };
                tokio::select! {
                    biased;
                    _ = gone.wait_for(Option::is_some) => return,
                    () = pause => {}
                }
            }
        });
    }

    /// Removes a host that has ended, frees its place and notifies the callers that wait for its
    /// end.
    fn forget(&mut self, job: JobId, exit: HostExit) -> Option<State> {
        self.places.gone(job);
        let entry = self.hosts.remove(&job)?;
        entry.exit.send_replace(Some(exit));
        Some(entry.state)
    }
}

/// Returns the limits on hosts. Only child processes of a JobManager are limited; those of a TaskManager are limited by
/// its slots.
fn bounds(deps: &HostsDeps) -> Option<Bounds> {
    let children = deps.own_program.is_none() && !deps.embedded;
    (deps.side == HostSide::JobManager && children).then(|| Bounds {
        max: deps.services.options.get(&conf::jobmanager::PROGRAM_HOSTS_MAX) as usize,
        idle: IDLE_MAX,
        idle_for: IDLE_FOR,
        waiting: WAITING_MAX,
    })
}

async fn start_host(
    deps: HostsDeps,
    job: JobId,
    program: Option<BlobKey>,
    within: Duration,
) -> Result<LaunchedHost, BuildError> {
    let inside = program.is_none_or(|key| deps.own_program == Some(key.hash));
    let file = match program.filter(|_| !inside) {
        Some(key) => {
            let fetched = deps.programs.fetch(key).await;
            Some(fetched.map_err(|error| {
                let why = format!("the program can't be fetched: {error}");
                match error {
                    // The job can't run again before somebody submits it with its program.
                    ProgramError::Gone(_) => BuildError::Invalid(why),
                    ProgramError::Failed(_) => BuildError::Process(why),
                }
            })?)
        }
        None => None,
    };
    let request = HostRequest { job_id: job, program: file, side: deps.side };
    match tokio::time::timeout(within, deps.launcher.launch(request)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(BuildError::Process(format!(
            "it did not answer within {} s (taskmanager.program-host.start-timeout)",
            within.as_secs()
        ))),
    }
}

impl Actor for ProgramHosts {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        for (job, entry) in std::mem::take(&mut self.hosts) {
            if let State::Up { kill, .. } = &entry.state {
                kill();
            }
            let cause = "its keeper has ended".to_owned();
            entry.exit.send_replace(Some(HostExit { cause, released: true }));
            tracing::debug!(%job, "program host ended with its keeper");
        }
    }
}

stops_at_once!(ProgramHosts);
takes_steps!(ProgramHosts);

impl ProgramHosts {
    /// Goes on after a launch: the host answers, or could not be started.
    fn launch_ended(
        &mut self,
        job: JobId,
        number: u64,
        outcome: Result<LaunchedHost, BuildError>,
        ctx: &mut Context<Self>,
    ) {
        let Some(entry) = self.current(job, number) else {
            if let Ok(host) = outcome {
                (host.kill)();
            }
            return;
        };
        let _entered = entry.trace.enter();
        match outcome {
            Ok(host) => {
                let address = host.address.clone();
                let kill: Kill = Arc::from(host.kill);
                let state = State::Up { address: address.clone(), kill, ending: false };
                let before = std::mem::replace(&mut entry.state, state);
                let gone = entry.exit.subscribe();
                if let State::Launching { waiting, .. } = before {
                    for waiter in waiting {
                        let _ = waiter.send(Ok(address.clone()));
                    }
                }
                tracing::info!(%job, address = %address.address, pid = address.pid, "program host is up");
                self.keep_alive(&address, gone);
                spawn_then(ctx, host.exited, move |actor, cause, ctx| {
                    actor.host_gone(job, number, cause, ctx);
                });
            }
            Err(error) => {
                tracing::warn!(%job, %error, "program host could not be started");
                let exit = HostExit { cause: error.to_string(), released: false };
                if let Some(State::Launching { waiting, .. }) = self.forget(job, exit) {
                    for waiter in waiting {
                        let _ = waiter.send(Err(error.clone()));
                    }
                }
                self.turn(ctx);
            }
        }
    }

    /// Forgets a host that has ended.
    fn host_gone(&mut self, job: JobId, number: u64, cause: ExitCause, ctx: &mut Context<Self>) {
        let Some(entry) = self.current(job, number) else { return };
        let _entered = entry.trace.enter();
        let released = matches!(entry.state, State::Up { ending: true, .. });
        if released {
            tracing::info!(%job, cause = %cause.0, "program host has ended");
        } else {
            tracing::warn!(%job, cause = %cause.0, "program host is gone");
        }
        self.forget(job, HostExit { cause: cause.0, released });
        self.turn(ctx);
    }
}
