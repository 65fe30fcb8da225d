//! The JobLeaderService through its gateway, with JobMasters that the test plays.

use super::*;
use crate::testing::session;
use crate::testkit::{Script, World};
use gateways::job_services::{ForgetJob, Reconnect};
use gateways::{FabricError, NodeAddress, Remote};
use model::ResourceId;
use std::cell::Cell;
use std::time::Duration;
use tokio::sync::mpsc;

const JOB: JobId = JobId(5);
const ME: InstanceId = InstanceId(9);

/// Hands reports to the test.
struct Reports(mpsc::UnboundedSender<JobLeaderReport>);

impl Actor for Reports {
    type Context = Context<Self>;
}
impl Handler<JobLeaderReport> for Reports {
    type Result = ();

    fn handle(&mut self, report: JobLeaderReport, _: &mut Self::Context) {
        let _ = self.0.send(report);
    }
}

struct Setup {
    world: World,
    service: Remote<JobLeaderServiceGateway>,
    told: Cell<u64>,
    reports: mpsc::UnboundedReceiver<JobLeaderReport>,
    handle: JobLeaderServiceHandle,
}

impl Setup {
    async fn new() -> Self {
        let world = World::new(&[]).await;
        let (seen, reports) = mpsc::unbounded_channel();
        let introduction = Introduction {
            resource_id: ResourceId::new("tm-1"),
            address: world.services.rpc.address_of("task_executor"),
            session: world.services.session,
            heartbeat: world.services.heartbeat_address(),
            host: "node-1".into(),
        };
        let sink = Reports(seen).start().recipient();
        let handle = start(&world.services, introduction, sink);
        let service = world.services.rpc.gateway(&handle.address, handle.session);
        Self { world, service, told: Cell::new(0), reports, handle }
    }
    fn job_master(&self, n: u64) -> Script {
        let (name, fence) = (format!("job_master/{n}"), JobMasterId(session(n)));
        self.world.double(&name, fence, JobMasterGateway::endpoint)
    }
    async fn watch(&self, hint: Option<LeaderInformation>) {
        let watch = WatchJob { job_id: JOB, hint, instance_id: ME };
        self.tell(watch).await;
    }
    async fn tell(&self, fact: impl Into<JobLeaderFact>) {
        let (first, facts) = (self.told.get(), vec![fact.into()]);
        let expected = self.service.ask(FollowJobs { first, facts }).await.unwrap();
        assert_eq!(expected, first + 1);
        self.told.set(expected);
    }
    fn lead(&self, leader: Option<LeaderInformation>) {
        self.world.leaders.set(Component::JobMaster(JOB), leader);
    }
    async fn report(&mut self) -> JobLeaderReport {
        let wait = tokio::time::timeout(Duration::from_secs(600), self.reports.recv());
        wait.await.expect("no report").unwrap()
    }
    async fn quiet(&mut self) {
        let wait = tokio::time::timeout(Duration::from_secs(100), self.reports.recv());
        assert!(wait.await.is_err());
    }
}

fn accepted() -> TaskManagerAccepted {
    let node = NodeAddress::of("jm", 1);
    TaskManagerAccepted {
        resource_id: ResourceId::new("jm"),
        heartbeat: EndpointAddress::new(node, "heartbeat"),
    }
}
fn gained(leader: LeaderInformation) -> JobLeaderReport {
    JobLeaderReport::Gained { job: JOB, leader, instance: ME, accepted: accepted() }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn it_registers_at_the_hint_before_the_retrieval_knows_anything() {
    let mut s = Setup::new().await;
    let mut jm = s.job_master(1);
    s.watch(Some(jm.leader())).await;
    let asked = jm.next::<RegisterTaskManager>().await.answer(Ok(accepted()));
    assert_eq!((asked.instance_id, asked.host.as_str()), (ME, "node-1"));
    assert_eq!(s.report().await, gained(jm.leader()));
    s.lead(Some(jm.leader()));
    s.watch(Some(jm.leader())).await;
    jm.silent_for(Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn it_follows_the_retrieval_from_leader_to_leader() {
    let mut s = Setup::new().await;
    let (mut old, mut new) = (s.job_master(1), s.job_master(2));
    s.watch(None).await;
    s.lead(Some(old.leader()));
    old.next::<RegisterTaskManager>().await.answer(Ok(accepted()));
    assert_eq!(s.report().await, gained(old.leader()));
    s.lead(Some(new.leader()));
    let lost = JobLeaderReport::Lost { job: JOB, id: JobMasterId(session(1)) };
    assert_eq!(s.report().await, lost);
    new.next::<RegisterTaskManager>().await.answer(Ok(accepted()));
    assert_eq!(s.report().await, gained(new.leader()));
    s.lead(None);
    let lost = JobLeaderReport::Lost { job: JOB, id: JobMasterId(session(2)) };
    assert_eq!(s.report().await, lost);
    s.quiet().await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_later_hint_is_followed_and_an_earlier_leader_is_not() {
    let mut s = Setup::new().await;
    let (mut old, mut new) = (s.job_master(1), s.job_master(2));
    s.lead(Some(old.leader()));
    s.watch(None).await;
    let waiting = old.next::<RegisterTaskManager>().await;
    s.watch(Some(new.leader())).await;
    new.next::<RegisterTaskManager>().await.answer(Ok(accepted()));
    assert_eq!(s.report().await, gained(new.leader()));
    waiting.answer(Ok(accepted()));
    s.watch(Some(old.leader())).await;
    s.quiet().await;
    old.silent_for(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn failures_are_retried_and_refusals_are_not() {
    let mut s = Setup::new().await;
    let mut jm = s.job_master(1);
    let leader = jm.leader();
    jm.vanish();
    s.watch(Some(leader)).await;
    s.quiet().await;
    let mut jm = s.job_master(1);
    let asked = jm.next::<RegisterTaskManager>().await;
    let refuse = |retry| Err(RegistrationRefused { reason: "blocked".into(), retry });
    asked.answer(refuse(true));
    let before = tokio::time::Instant::now();
    let asked = jm.next::<RegisterTaskManager>().await;
    assert_eq!(before.elapsed().as_secs(), 30);
    asked.answer(refuse(false));
    let refused = JobLeaderReport::Refused { job: JOB, reason: "blocked".into() };
    assert_eq!(s.report().await, refused);
    jm.silent_for(Duration::from_secs(300)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_lost_connection_is_made_again_with_the_newest_incarnation() {
    let mut s = Setup::new().await;
    let mut jm = s.job_master(1);
    s.watch(Some(jm.leader())).await;
    jm.next::<RegisterTaskManager>().await.answer(Ok(accepted()));
    s.report().await;
    let newer = InstanceId(10);
    let again = WatchJob { job_id: JOB, hint: Some(jm.leader()), instance_id: newer };
    s.tell(again).await;
    s.tell(Reconnect { job_id: JOB }).await;
    let asked = jm.next::<RegisterTaskManager>().await.answer(Ok(accepted()));
    assert_eq!(asked.instance_id, newer);
    assert!(
        matches!(s.report().await, JobLeaderReport::Gained { instance, .. } if instance == newer)
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_forgotten_job_is_followed_no_more() {
    let mut s = Setup::new().await;
    let mut jm = s.job_master(1);
    s.watch(Some(jm.leader())).await;
    let asked = jm.next::<RegisterTaskManager>().await;
    s.tell(ForgetJob { job_id: JOB }).await;
    asked.answer(Ok(accepted()));
    s.lead(Some(jm.leader()));
    s.quiet().await;
    jm.silent_for(Duration::from_secs(1)).await;
    // Watched again, what the first watch had asked is not believed, but asked anew.
    s.watch(None).await;
    jm.next::<RegisterTaskManager>().await.answer(Ok(accepted()));
    assert_eq!(s.report().await, gained(jm.leader()));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_and_future_sessions_are_fenced() {
    let s = Setup::new().await;
    for wrong in [session(0), session(2)] {
        let remote: Remote<JobLeaderServiceGateway> =
            s.world.services.rpc.gateway(&s.handle.address, ProcessSession(wrong));
        let facts = vec![ForgetJob { job_id: JOB }.into()];
        let refused = remote.ask(FollowJobs { first: 0, facts }).await.unwrap_err();
        assert!(matches!(refused, CallError::Fabric(FabricError::Fenced { .. })), "{refused:?}");
    }
}
