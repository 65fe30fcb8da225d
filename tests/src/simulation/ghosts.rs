//! Leaders that do not know that they were superseded, and find whoever leads now: what they say must
//! change nothing.
//!
//! Real ones are revoked and stop within moments, so that their stale calls are rare; a process that was
//! frozen for a minute would make them. A ghost makes the calls that such a leader would make, in the
//! session that it had.

use super::client::Client;
use super::hosts::{World, worker_spec};
use super::observer::Noticed;
use actors::services::LeaderRetrieval;
use gateways::dispatcher::{CancelJob, DispatcherGateway};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::{
    DeclareRequiredResources, RequestTaskManagers, ResourceManagerGateway, TaskManagerSummary,
};
use gateways::task_executor::{RequestSlot, TaskExecutorGateway};
use gateways::{Call, CallError, FabricError, Remote};
use model::{
    AllocationId, DispatcherId, Fence, JobId, JobMasterId, LeaderSession, ResourceManagerId, SlotId,
};
use platform::watch;
use std::time::Duration;

/// Number of times a ghost repeats its call after each change of leaders.
const TIMES: u32 = 4;
/// Pause between two times.
const PAUSE: Duration = Duration::from_secs(2);
/// A job that nobody has submitted.
const NO_JOB: JobId = JobId(u128::MAX);

/// Starts tasks that, whenever a Dispatcher, ResourceManager or JobMaster of `jobs` is superseded, make a call in the session of the old
/// leader, as one that was frozen meanwhile would: it must change nothing, and invariants judge that. They end with the client's host.
pub fn raise(world: &World, client: &Client, jobs: &[JobId]) {
    tokio::task::spawn_local(dispatchers(world.clone(), client.clone()));
    tokio::task::spawn_local(resource_managers(client.clone()));
    for job in jobs {
        tokio::task::spawn_local(job_masters(client.clone(), *job));
    }
}

/// The leaders of a component that follow one another.
struct Succession {
    leaders: watch::Receiver<Option<LeaderInformation>>,
    last: Option<LeaderInformation>,
}

impl Succession {
    fn of(client: &Client, component: Component) -> Self {
        Self { leaders: client.retrieval.watch(component), last: None }
    }

    /// Waits for a leader with a predecessor; both.
    async fn next(&mut self) -> Option<(LeaderInformation, LeaderInformation)> {
        loop {
            self.leaders.changed().await.ok()?;
            let Some(now) = self.leaders.borrow_and_update().clone() else { continue };
            let before = self.last.replace(now.clone());
            if let Some(before) = before
                && before.session < now.session
            {
                return Some((before, now));
            }
        }
    }
}

/// A call in the session of an old Dispatcher is fenced, whatever it asks.
async fn dispatchers(world: World, client: Client) {
    let mut succession = Succession::of(&client, Component::Dispatcher);
    while let Some((before, now)) = succession.next().await {
        let stale = DispatcherId::from_session(before.session);
        let gateway: Remote<DispatcherGateway> = client.rpc.gateway(&now.address, stale);
        match gateway.ask(CancelJob { job_id: NO_JOB }).await {
            Err(CallError::Fabric(FabricError::Fenced { .. })) => {}
            // It may be gone, or not be reached.
            Err(CallError::Fabric(_)) => {}
            Ok(()) | Err(CallError::Refused(_)) => world
                .observer
                .notice(&Noticed::StaleTaken { call: CancelJob::NAME, session: before.session }),
        }
    }
}

/// An old JobMaster declares at the ResourceManager that leads now that its job needs nothing.
async fn job_masters(client: Client, job_id: JobId) {
    let managers = client.retrieval.watch(Component::ResourceManager);
    let mut succession = Succession::of(&client, Component::JobMaster(job_id));
    while let Some((before, _)) = succession.next().await {
        for _ in 0..TIMES {
            tokio::time::sleep(PAUSE).await;
            let Some(manager) = managers.borrow().clone() else { continue };
            let gateway = manager_at(&client, &manager).with_session(before.session);
            let declaration = DeclareRequiredResources {
                job_id,
                job_master_id: JobMasterId::from_session(before.session),
                target: before.address.clone(),
                job_name: "ghost".to_owned(),
                program: None,
                requirements: Vec::new(),
            };
            // The outcome is seen where it is decided.
            let _ = gateway.ask(declaration).await;
        }
    }
}

/// Returns a gateway to the ResourceManager that `leader` describes, in that session.
pub fn manager_at(client: &Client, leader: &LeaderInformation) -> Remote<ResourceManagerGateway> {
    client.rpc.gateway(&leader.address, ResourceManagerId::from_session(leader.session))
}

/// An old ResourceManager wants slots of the TaskExecutors that are registered at the new one.
async fn resource_managers(client: Client) {
    let mut succession = Succession::of(&client, Component::ResourceManager);
    while let Some((before, now)) = succession.next().await {
        tokio::time::sleep(PAUSE).await;
        let gateway = manager_at(&client, &now);
        let Ok(workers) = gateway.ask(RequestTaskManagers {}).await else { continue };
        for (n, worker) in workers.into_iter().enumerate() {
            request_slot(&client, &before, worker, n as u128).await;
        }
    }
}

async fn request_slot(
    client: &Client,
    before: &LeaderInformation,
    worker: TaskManagerSummary,
    n: u128,
) {
    let session: LeaderSession = before.session;
    let to: Remote<TaskExecutorGateway> = client.rpc.gateway(&worker.address, worker.session);
    let request = RequestSlot {
        slot_id: SlotId { resource_id: worker.resource_id, index: 0 },
        job_id: NO_JOB,
        allocation_id: AllocationId((u128::from(session.nonce) << 64) | n),
        profile: worker_spec().slot_profile(),
        job_master: before.address.clone(),
        job_master_id: JobMasterId::from_session(session),
        resource_manager_id: ResourceManagerId::from_session(session),
        program: None,
    };
    let _ = to.with_session(session).ask(request).await;
}
