//! The JobLeaderService of a TaskExecutor: for each job that has slots there, finds the leading JobMaster
//! and registers at it, and again at each new one.
//!
//! It reports what it reached and what it lost, in order. It must never decide what a lost JobMaster
//! means for slots or tasks.

#[cfg(test)]
mod tests;

use crate::probe::{Fact, Probe};
use crate::services::{LeaderRetrieval, ProcessServices, Running, stops_at_once};
use actix::{
    Actor, ActorFutureExt as _, AsyncContext, Context, Handler, Message, Recipient, SpawnHandle,
    StreamHandler, WrapFuture as _,
};
use control::registration::{Next, Pauses, Registration};
use futures::stream;
use gateways::RpcService;
use gateways::job_master::{
    JobMasterGateway, RegisterTaskManager, RegistrationRefused, TaskManagerAccepted,
};
use gateways::job_services::{FollowJobs, JobLeaderFact, JobLeaderServiceGateway, WatchJob};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{Answer, Ask, CallError, EndpointAddress, Inbox};
use model::{Fence as _, InstanceId, JobId, JobMasterId, ProcessSession};
use platform::Platform;
use platform::watch;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The endpoint name that a TaskManager's JobLeaderService (which registers it at JobMasters) is served under.
pub const ENDPOINT: &str = "job_leader_service";

/// A report of the JobLeaderService to its TaskExecutor: what became of the registration at a job's JobMaster. The reports about one job
/// come in order; a registration that failed and is tried again is not reported.
#[derive(Debug, Clone, PartialEq, Message)]
#[rtype(result = "()")]
pub enum JobLeaderReport {
    /// The service has registered the TaskExecutor at a JobMaster, which leads the job and knows the TaskExecutor from
    /// now on.
    Gained {
        /// Job that the message concerns.
        job: JobId,
        /// Leader information of the job's JobMaster.
        leader: LeaderInformation,
        /// The incarnation under which the JobMaster knows the TaskExecutor.
        instance: InstanceId,
        /// The JobMaster's answer to the registration.
        accepted: TaskManagerAccepted,
    },
    /// The JobMaster at which the TaskExecutor was registered leads no more, as leader retrieval says, or a slot request that names a later
    /// one; the service looks for the job's next JobMaster. Missing heartbeats are not its matter. Not reported once the TaskExecutor has
    /// told the service to forget the job, or to register there anew.
    Lost {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
    },
    /// The JobMaster refused the registration for good, for example because the job has ended; the service does not ask
    /// this JobMaster again, only a later one of the job, unless it is told to forget the job and later to follow it anew.
    Refused {
        /// Job that the message concerns.
        job: JobId,
        /// Reason as text for people.
        reason: String,
    },
}

/// The data by which the JobLeaderService introduces its TaskExecutor to a JobMaster when it registers there.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// Resource id of this TaskExecutor's process.
    pub resource_id: model::ResourceId,
    /// Address of the TaskExecutor's endpoint.
    pub address: EndpointAddress,
    /// Session of the TaskExecutor's process, which calls to the TaskExecutor have to name: it refuses others.
    pub session: ProcessSession,
    /// Address of the heartbeat endpoint of the TaskExecutor's process, to which the JobMaster sends its beats.
    pub heartbeat: EndpointAddress,
    /// Host name of the TaskExecutor's node.
    pub host: String,
}

/// The owner's handle of a running JobLeaderService, which finds the JobMasters of the jobs that have slots here and
/// registers the TaskExecutor at them. Dropping the handle ends the service.
#[derive(Debug)]
pub struct JobLeaderServiceHandle {
    /// Address of the JobLeaderService's endpoint.
    pub address: EndpointAddress,
    /// Session of the process, which calls to its JobLeaderService have to name: it refuses others.
    pub session: ProcessSession,
    _running: Running<JobLeaderService>,
}

/// Starts the JobLeaderService of a TaskExecutor, which `introduction` describes, on the calling lane, and serves it as
/// [`ENDPOINT`]. It follows no job until it is told to ([`FollowJobs`]). Its reports come to `reports_to` in order, also if that mailbox
/// is full for a while. A failed registration is tried again after pauses (`cluster.registration.*`), without end. If the service dies of a
/// panic, the TaskExecutor reports a fatal error when it next tells it something.
pub fn start(
    services: &ProcessServices,
    introduction: Introduction,
    reports_to: Recipient<JobLeaderReport>,
) -> JobLeaderServiceHandle {
    let (report_to, reports) = mpsc::unbounded_channel();
    actix::spawn(forward(reports, reports_to));
    let actor = JobLeaderService {
        platform: services.platform.clone(),
        rpc: services.rpc.clone(),
        retrieval: Arc::clone(&services.retrieval),
        probe: Arc::clone(&services.probe),
        pauses: pauses(&services.options),
        introduction,
        report_to,
        jobs: BTreeMap::new(),
        facts: Inbox::default(),
        watches: 0,
    };
    let actor = actor.start();
    let endpoint = JobLeaderServiceGateway::endpoint(actor.clone());
    let address = services.rpc.address_of(ENDPOINT);
    let session = services.session;
    let registration = services.rpc.serve(ENDPOINT, session, endpoint);
    let running = Running::new(address.clone(), actor, registration);
    JobLeaderServiceHandle { address, session, _running: running }
}

/// Hands reports on, each once the one before was taken in. A TaskExecutor whose mailbox is full gets them later: a
/// lost report would leave it with a JobMaster that leads no more.
async fn forward(
    mut reports: mpsc::UnboundedReceiver<JobLeaderReport>,
    to: Recipient<JobLeaderReport>,
) {
    while let Some(report) = reports.recv().await {
        if to.send(report).await.is_err() {
            return;
        }
    }
}

/// Reads the pauses between registrations from `cluster.registration.*`.
pub(crate) fn pauses(options: &conf::Options) -> Pauses {
    Pauses {
        first: options.get(&conf::taskmanager::REGISTRATION_RETRY),
        max: options.get(&conf::taskmanager::REGISTRATION_RETRY_MAX),
        refused: options.get(&conf::taskmanager::REFUSED_REGISTRATION_DELAY),
    }
}

/// Returns a stream of every value of a leader's watch, the present one first.
pub(crate) fn leaders(
    receiver: watch::Receiver<Option<LeaderInformation>>,
) -> impl stream::Stream<Item = Option<LeaderInformation>> {
    let first = true;
    stream::unfold((receiver, first), |(mut receiver, first)| async move {
        if !first {
            receiver.changed().await.ok()?;
        }
        let leader = receiver.borrow_and_update().clone();
        Some((leader, (receiver, false)))
    })
}

/// The actor that follows the JobMasters of this TaskExecutor's jobs.
struct JobLeaderService {
    platform: Platform,
    rpc: RpcService,
    retrieval: Arc<dyn LeaderRetrieval>,
    probe: Arc<dyn Probe>,
    pauses: Pauses,
    introduction: Introduction,
    report_to: mpsc::UnboundedSender<JobLeaderReport>,
    jobs: BTreeMap<JobId, Watched>,
    /// The inbox for facts from the TaskExecutor.
    facts: Inbox,
    watches: u64,
}

/// One job whose JobMaster is followed.
struct Watched {
    /// Number of this watch; reports of an earlier watch of the same job are ignored.
    number: u64,
    instance: InstanceId,
    registration: Registration<JobMasterId>,
    /// Newest leader that is known.
    leader: Option<LeaderInformation>,
    /// True once the retrieval has named a leader; from then on its reports count, also that there
    /// is none.
    retrieved: bool,
    stream: SpawnHandle,
    timer: Option<SpawnHandle>,
}

impl Actor for JobLeaderService {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
    }
}

/// A leader as the retrieval sees it.
struct Retrieved {
    job: JobId,
    number: u64,
    leader: Option<LeaderInformation>,
}

impl StreamHandler<Retrieved> for JobLeaderService {
    fn handle(&mut self, item: Retrieved, ctx: &mut Self::Context) {
        let Retrieved { job, number, leader } = item;
        let Some(watched) = self.jobs.get_mut(&job).filter(|w| w.number == number) else { return };
        if leader.is_none() && !watched.retrieved {
            return; // The hint is better than nothing.
        }
        watched.retrieved = true;
        let newest = match (&leader, &watched.leader) {
            // The ResourceManager knew a later one than the retrieval does yet.
            (Some(new), Some(known)) if new.session < known.session => return,
            _ => leader,
        };
        self.lead(job, newest, ctx);
    }

    /// The retrieval has ended with its process: nothing new will be heard.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl JobLeaderService {
    fn lead(&mut self, job: JobId, leader: Option<LeaderInformation>, ctx: &mut Context<Self>) {
        let Some(watched) = self.jobs.get_mut(&job) else { return };
        let registered = watched.registration.registered();
        let id = leader.as_ref().map(|l| JobMasterId::from_session(l.session));
        watched.leader = leader;
        let next = watched.registration.leader_changed(id);
        if let Some(id) = registered.filter(|id| watched.registration.registered() != Some(*id)) {
            self.report(JobLeaderReport::Lost { job, id });
        }
        self.follow(job, next, ctx);
    }

    fn follow(&mut self, job: JobId, next: Next<JobMasterId>, ctx: &mut Context<Self>) {
        if let Next::Ask(id) = next {
            self.ask(job, id, ctx);
        }
        let now = self.platform.now();
        let Some(watched) = self.jobs.get_mut(&job) else { return };
        if let Some(timer) = watched.timer.take() {
            ctx.cancel_future(timer);
        }
        if let Some(at) = watched.registration.deadline() {
            let tick = move |service: &mut Self, ctx: &mut Context<Self>| {
                let now = service.platform.now();
                if let Some(watched) = service.jobs.get_mut(&job) {
                    watched.timer = None;
                    let next = watched.registration.tick(now);
                    service.follow(job, next, ctx);
                }
            };
            watched.timer = Some(ctx.run_later(at.saturating_sub(now), tick));
        }
    }

    fn ask(&mut self, job: JobId, id: JobMasterId, ctx: &mut Context<Self>) {
        let Some(watched) = self.jobs.get(&job) else { return };
        let Some(leader) = watched.leader.clone() else { return };
        let (number, instance) = (watched.number, watched.instance);
        let me = &self.introduction;
        let message = RegisterTaskManager {
            resource_id: me.resource_id.clone(),
            instance_id: instance,
            address: me.address.clone(),
            session: me.session,
            heartbeat: me.heartbeat.clone(),
            host: me.host.clone(),
        };
        let remote = self.rpc.gateway::<JobMasterGateway>(&leader.address, id);
        let asked = async move { remote.ask(message).await };
        let answered = asked.into_actor(self).map(move |answer, service, ctx| {
            service.answered(job, number, instance, leader, answer, ctx);
        });
        ctx.spawn(answered);
    }

    fn answered(
        &mut self,
        job: JobId,
        number: u64,
        instance: InstanceId,
        leader: LeaderInformation,
        answer: Result<TaskManagerAccepted, CallError<RegistrationRefused>>,
        ctx: &mut Context<Self>,
    ) {
        let now = self.platform.now();
        let id = JobMasterId::from_session(leader.session);
        let Some(watched) = self.jobs.get_mut(&job).filter(|w| w.number == number) else { return };
        match answer {
            Ok(accepted) => {
                if watched.registration.accepted(id) {
                    self.report(JobLeaderReport::Gained { job, leader, instance, accepted });
                }
            }
            Err(CallError::Refused(RegistrationRefused { reason, retry })) => {
                tracing::info!(%job, %reason, retry, "the JobMaster refused the registration");
                if watched.registration.refused(now, id, retry) && !retry {
                    self.report(JobLeaderReport::Refused { job, reason });
                }
            }
            Err(error @ CallError::Fabric(_)) => {
                if let Some(fact) = Fact::fenced::<RegisterTaskManager>(&error) {
                    self.probe.note(fact);
                }
                tracing::debug!(%job, %error, "registration at the JobMaster failed");
                watched.registration.failed(now, id);
            }
        }
        self.follow(job, Next::Nothing, ctx);
    }

    fn report(&self, report: JobLeaderReport) {
        // Its receiver is gone only after the TaskExecutor.
        let _ = self.report_to.send(report);
    }
}

impl Handler<Ask<FollowJobs>> for JobLeaderService {
    type Result = Answer<FollowJobs>;

    fn handle(&mut self, ask: Ask<FollowJobs>, ctx: &mut Self::Context) -> Self::Result {
        for fact in self.facts.take(ask.body) {
            match fact {
                JobLeaderFact::WatchJob(watch) => self.watch(watch, ctx),
                JobLeaderFact::ForgetJob(forget) => self.forget(forget.job_id, ctx),
                JobLeaderFact::Reconnect(reconnect) => self.reconnect(reconnect.job_id, ctx),
            }
        }
        Ok(self.facts.expected())
    }
}

impl JobLeaderService {
    fn watch(&mut self, watch: WatchJob, ctx: &mut Context<Self>) {
        let WatchJob { job_id: job, hint, instance_id } = watch;
        if let Some(watched) = self.jobs.get_mut(&job) {
            watched.instance = instance_id;
            let known = watched.leader.as_ref().map(|leader| leader.session);
            if let Some(hint) = hint.filter(|hint| known.is_none_or(|known| known < hint.session)) {
                self.lead(job, Some(hint), ctx);
            }
            return;
        }
        self.watches = self.watches.wrapping_add(1);
        let number = self.watches;
        let receiver = self.retrieval.watch(Component::JobMaster(job));
        let stream = futures::StreamExt::map(leaders(receiver), move |leader| Retrieved {
            job,
            number,
            leader,
        });
        let stream = ctx.add_stream(stream);
        let watched = Watched {
            number,
            instance: instance_id,
            registration: Registration::new(self.pauses),
            leader: None,
            retrieved: false,
            stream,
            timer: None,
        };
        self.jobs.insert(job, watched);
        if let Some(hint) = hint {
            self.lead(job, Some(hint), ctx);
        }
    }

    fn forget(&mut self, job: JobId, ctx: &mut Context<Self>) {
        if let Some(watched) = self.jobs.remove(&job) {
            ctx.cancel_future(watched.stream);
            watched.timer.map(|timer| ctx.cancel_future(timer));
        }
    }

    fn reconnect(&mut self, job: JobId, ctx: &mut Context<Self>) {
        let now = self.platform.now();
        if let Some(watched) = self.jobs.get_mut(&job)
            && let Some(id) = watched.registration.registered()
        {
            watched.registration.lost(now, id);
            self.follow(job, Next::Nothing, ctx);
        }
    }
}

stops_at_once!(JobLeaderService);
