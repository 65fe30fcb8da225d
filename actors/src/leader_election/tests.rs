use super::*;
use crate::services::{ConfirmError, LeaderRetrieval};
use crate::testing::{TestProcess, settle};
use actix::ResponseFuture;
use control::mutation::Mutation;
use gateways::leader_election::NotLeader;
use model::{Epoch, Fence};
use platform::watch;
use std::sync::Mutex;
use storage::ha::{CampaignRun, LeaderRecord};
use tokio::sync::mpsc;

/// A driver that the test holds the other end of.
#[derive(Debug, Default, Clone)]
struct HandDriven {
    run: Arc<Mutex<Option<CampaignRun>>>,
}

impl HandDriven {
    async fn say(&self, event: LeaseEvent) {
        let events = self.run.lock().expect("lock").as_ref().map(|run| run.events.clone());
        events.expect("campaigning").send(event).await.expect("heard");
        settle().await;
    }
}

impl ElectionDriver for HandDriven {
    fn campaign(&self, _: Candidate) -> Campaign {
        let (campaign, run) = Campaign::new();
        *self.run.lock().expect("lock") = Some(run);
        campaign
    }
    fn leader(&self) -> watch::Receiver<Option<LeaderRecord>> {
        watch::Sender::new(None).subscribe()
    }
    fn lease(&self) -> storage::ha::Lease {
        storage::ha::Lease::endless()
    }
}

/// A contender that ends what was revoked when the test says so.
struct Component1 {
    heard: mpsc::UnboundedSender<Leadership>,
    end: Option<tokio::sync::oneshot::Receiver<()>>,
}
impl Actor for Component1 {
    type Context = Context<Self>;
}
impl Handler<Leadership> for Component1 {
    type Result = ResponseFuture<()>;
    fn handle(&mut self, leadership: Leadership, _: &mut Context<Self>) -> Self::Result {
        self.heard.send(leadership).expect("the test listens");
        let end = match leadership {
            Leadership::Revoked(_) => self.end.take(),
            Leadership::Granted(_) => None,
        };
        Box::pin(async move {
            if let Some(end) = end {
                let _ = end.await;
            }
        })
    }
}

struct World {
    process: TestProcess,
    driver: HandDriven,
    service: ElectionService,
}

async fn world(mutation: Mutation) -> World {
    let process = TestProcess::start_with(&[], mutation).await;
    let driver = HandDriven::default();
    let services = &process.services;
    let service = start(ElectionDeps {
        platform: services.platform.clone(),
        rpc: services.rpc.clone(),
        session: services.session,
        driver: Arc::new(driver.clone()),
        candidate: Candidate { node: "local:1".into(), rest: String::new() },
        leaders: process.leaders.clone(),
        mutation,
        probe: services.probe.clone(),
        fatal: services.fatal.clone(),
        heartbeat: services.heartbeat.clone(),
    })
    .await
    .expect("started");
    settle().await;
    World { process, driver, service }
}

type Heard = mpsc::UnboundedReceiver<Leadership>;

fn contend(world: &World) -> (Contention, Heard, tokio::sync::oneshot::Sender<()>) {
    let (heard, hears) = mpsc::unbounded_channel();
    let (end, ended) = tokio::sync::oneshot::channel();
    let addr = Component1 { heard, end: Some(ended) }.start();
    let contention = world.service.handle().contend(Component::ResourceManager, addr.recipient());
    (contention, hears, end)
}

fn granted(heard: &mut Heard) -> LeaderSession {
    match heard.try_recv() {
        Ok(Leadership::Granted(session)) => session,
        other => unreachable!("no grant but {other:?}"),
    }
}

fn leader(world: &World, session: LeaderSession) -> LeaderInformation {
    let address = world.process.services.rpc.address_of("resource_manager");
    LeaderInformation { session, address }
}

fn published(world: &World) -> Option<LeaderInformation> {
    world.process.leaders.watch(Component::ResourceManager).borrow().clone()
}

const GRANT: LeaseEvent = LeaseEvent::Granted { store_epoch: 5 };

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_address_is_published_when_it_is_confirmed_under_the_session_that_leads() {
    let world = world(Mutation::None).await;
    let (_contention, mut heard, _end) = contend(&world);
    world.driver.say(GRANT).await;
    let session = granted(&mut heard);
    assert_eq!(session.epoch, Epoch { store: 5, process: 1 });
    assert_eq!(published(&world), None, "not before it answers");
    let handle = world.service.handle();
    let stale = LeaderSession { nonce: 1, ..session };
    let refused = handle.confirm(Component::ResourceManager, leader(&world, stale)).await;
    assert_eq!(refused, Err(ConfirmError::NotLeader(NotLeader { session: stale })));
    let future = LeaderSession { epoch: Epoch { store: 9, process: 9 }, ..session };
    assert!(handle.confirm(Component::ResourceManager, leader(&world, future)).await.is_err());
    assert_eq!(published(&world), None);
    handle.confirm(Component::ResourceManager, leader(&world, session)).await.expect("leads");
    assert_eq!(published(&world), Some(leader(&world, session)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_next_grant_waits_until_what_was_revoked_has_ended() {
    let world = world(Mutation::None).await;
    let (_contention, mut heard, end) = contend(&world);
    world.driver.say(GRANT).await;
    let session = granted(&mut heard);
    let handle = world.service.handle();
    handle.confirm(Component::ResourceManager, leader(&world, session)).await.expect("leads");
    world.driver.say(LeaseEvent::Lost).await;
    assert_eq!(heard.try_recv(), Ok(Leadership::Revoked(session)));
    assert_eq!(published(&world), None, "taken back");
    world.driver.say(LeaseEvent::Granted { store_epoch: 6 }).await;
    assert!(heard.try_recv().is_err(), "something of it still runs");
    let confirmed = handle.confirm(Component::ResourceManager, leader(&world, session)).await;
    assert!(confirmed.is_err(), "it leads no more");
    end.send(()).expect("waits");
    settle().await;
    let again = granted(&mut heard);
    assert_eq!(again.epoch, Epoch { store: 6, process: 2 });
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn who_withdraws_while_leading_is_taken_back() {
    let world = world(Mutation::None).await;
    let (contention, mut heard, _end) = contend(&world);
    world.driver.say(GRANT).await;
    let session = granted(&mut heard);
    let handle = world.service.handle();
    handle.confirm(Component::ResourceManager, leader(&world, session)).await.expect("leads");
    drop(contention);
    settle().await;
    assert_eq!(published(&world), None);
    let (_contention, mut heard, _end) = contend(&world);
    settle().await;
    assert!(granted(&mut heard) > session, "a successor has a session of its own");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_contender_that_dies_has_ended() {
    let world = world(Mutation::None).await;
    let (contention, heard, _end) = contend(&world);
    drop(heard); // its handler panics
    world.driver.say(GRANT).await;
    world.driver.say(LeaseEvent::Lost).await;
    world.driver.say(LeaseEvent::Granted { store_epoch: 6 }).await;
    drop(contention);
    let (_contention, mut heard, _end) = contend(&world);
    settle().await;
    assert_eq!(granted(&mut heard).epoch.store, 6);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stopping_revokes_and_gives_the_lease_up() {
    let world = world(Mutation::None).await;
    let (_contention, mut heard, _end) = contend(&world);
    world.driver.say(GRANT).await;
    let session = granted(&mut heard);
    let run = world.driver.run.lock().expect("lock").take().expect("campaigning");
    let stopping = actix::spawn(world.service.stop());
    let _ = run.stop.await;
    assert_eq!(heard.try_recv(), Ok(Leadership::Revoked(session)));
    settle().await;
    assert!(!stopping.is_finished(), "the driver has not given it up yet");
    drop(run.stopped);
    stopping.await.expect("stopped");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_endpoint_is_fenced_by_the_process() {
    let world = world(Mutation::None).await;
    let rpc = &world.process.services.rpc;
    for (process, fenced) in [(0, true), (1, false), (2, true)] {
        let fence = ProcessSession::from_session(crate::testing::session(process));
        let gateway = rpc.gateway::<LeaderElectionGateway>(world.service.address(), fence);
        let leader = leader(&world, LeaderSession::default());
        let component = Component::Dispatcher;
        match gateway.ask(ConfirmLeadership { component, leader }).await {
            Err(CallError::Fabric(gateways::FabricError::Fenced { .. })) => assert!(fenced),
            Err(CallError::Refused(NotLeader { .. })) => assert!(!fenced),
            answer => panic!("{answer:?}"),
        }
    }
}

#[cfg(feature = "mutants")]
#[tokio::test(flavor = "local", start_paused = true)]
async fn the_mutant_publishes_too_early() {
    let world = world(Mutation::PublishAtGrant).await;
    let (_contention, _heard, _end) = contend(&world);
    world.driver.say(GRANT).await;
    assert!(published(&world).is_some());
}
