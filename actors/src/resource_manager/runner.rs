//! The ResourceManager's part of the leader shell.

use super::{ENDPOINT, Mode, ResourceManagerActor, ResourceManagerDeps, lead};
use crate::leader_shell::{self, LeaderShell, Led};
use crate::services::{
    ConfirmError, Contention, LeaderElection, Leadership, ProcessServices, Running,
};
use actix::Recipient;
use futures::future::BoxFuture;
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::RequestResourceOverview;
use model::{Fence, LeaderSession, ResourceManagerId};
use platform::LaneEnded;
use std::sync::Arc;

/// The handle of a process's leader shell of the ResourceManager: the actor that stands for election and runs a
/// ResourceManager while this process leads. Stopping it stops both, and leaves the TaskManagers running; dropping it does the same without
/// waiting.
pub type ResourceManagerService = Running<LeaderShell<ResourceManagerLeader>>;

/// Stands for election at `election` and runs a ResourceManager whenever this process leads, on the work lane (thread
/// of actors), until the returned handle is stopped or dropped. Returns at once, without waiting for leadership. If the leader shell, a
/// ResourceManager or its SlotManager dies of a panic, or the driver of an active ResourceManager cannot be initialised for a new
/// leadership, the process ends.
///
/// # Errors
/// Returns [`LaneEnded`] if the lane has ended, because the process is ending.
pub async fn start(
    deps: ResourceManagerDeps,
    election: Arc<dyn LeaderElection>,
) -> Result<ResourceManagerService, LaneEnded> {
    leader_shell::start(ResourceManagerLeader { deps, election }).await
}

/// The ResourceManager's part of its leader shell: stands for election, starts and confirms a ResourceManager in each
/// leadership, and disconnects the driver of the external resource system when the leadership has ended.
#[derive(derive_more::Debug)]
#[debug("ResourceManagerLeader({:?})", self.deps.mode)]
pub struct ResourceManagerLeader {
    deps: ResourceManagerDeps,
    election: Arc<dyn LeaderElection>,
}

impl Led for ResourceManagerLeader {
    type Leader = ResourceManagerActor;
    type Probe = RequestResourceOverview;

    fn component(&self) -> Component {
        Component::ResourceManager
    }

    fn services(&self) -> &ProcessServices {
        &self.deps.services
    }

    fn contend(&self, shell: Recipient<Leadership>) -> Contention {
        self.election.contend(Component::ResourceManager, shell)
    }

    fn confirm(&self, leader: LeaderInformation) -> BoxFuture<'static, Result<(), ConfirmError>> {
        self.election.confirm(Component::ResourceManager, leader)
    }

    fn start(&self, session: LeaderSession) -> BoxFuture<'static, Running<ResourceManagerActor>> {
        let (deps, fatal) = (self.deps.clone(), self.deps.services.fatal.clone());
        Box::pin(async move {
            match lead(deps, ResourceManagerId::from_session(session)).await {
                Ok(running) => running,
                Err(error) => {
                    fatal.report(ENDPOINT, format!("it could not start: {error}"));
                    std::future::pending().await
                }
            }
        })
    }

    fn probe(&self) -> RequestResourceOverview {
        RequestResourceOverview {}
    }

    /// Terminates the driver, even if it was still being initialised.
    fn release(&self, _: LeaderSession) -> BoxFuture<'static, ()> {
        match &self.deps.mode {
            Mode::Active { driver, .. } => {
                let driver = Arc::clone(driver);
                Box::pin(async move { driver.terminate().await })
            }
            Mode::Standalone => Box::pin(std::future::ready(())),
        }
    }
}
