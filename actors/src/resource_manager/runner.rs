//! Stands for election as the ResourceManager and runs one per leadership.
//!
//! A grant starts a new ResourceManager under a new fence; its address is confirmed once it answers; a
//! revocation is answered when everything of it has ended, also when it comes during the start.

use super::{ENDPOINT, Mode, ResourceManagerDeps, lead};
use crate::services::{ConfirmError, Contention, LeaderElection, Leadership, Stop};
use actix::{Actor, ActorContext, Addr, Context, Handler, ResponseFuture};
use gateways::leader_election::{Component, LeaderInformation};
use model::{Fence, LeaderSession, ResourceManagerId};
use platform::{Lane, LaneEnded};
use std::fmt;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A process's ResourceManager, whether it leads or not.
#[derive(Debug)]
pub struct ResourceManagerService {
    addr: Addr<RunnerActor>,
    contention: Option<Contention>,
}

/// Stands for election and runs a ResourceManager whenever this process leads, on the work lane.
///
/// # Errors
/// The lane has ended.
pub async fn start(
    deps: ResourceManagerDeps,
    election: Arc<dyn LeaderElection>,
) -> Result<ResourceManagerService, LaneEnded> {
    let lane = deps.services.platform.lane(Lane::Work);
    let actor = RunnerActor { deps, election: Arc::clone(&election), current: None };
    let addr = lane.run(|| async move { actor.start() }).await?;
    let contention = election.contend(Component::ResourceManager, addr.clone().recipient());
    Ok(ResourceManagerService { addr, contention: Some(contention) })
}

impl ResourceManagerService {
    /// Stands no more, then ends what leads.
    pub async fn stop(mut self) {
        self.contention.take();
        // A runner that is dead has nothing to end.
        let _ = self.addr.clone().send(EndCurrent).await;
        let _ = self.addr.clone().send(Stop).await;
    }
}

impl Drop for ResourceManagerService {
    fn drop(&mut self) {
        self.contention.take();
        let _ = self.addr.clone().try_send(Stop);
    }
}

/// The actor that is told of leaderships.
pub(super) struct RunnerActor {
    deps: ResourceManagerDeps,
    election: Arc<dyn LeaderElection>,
    current: Option<Current>,
}

/// One leadership's task. Dropping `revoke` ends it.
struct Current {
    session: LeaderSession,
    revoke: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl fmt::Debug for RunnerActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunnerActor")
    }
}

impl Actor for RunnerActor {
    type Context = Context<Self>;
}

impl RunnerActor {
    fn end(&mut self) -> ResponseFuture<()> {
        let current = self.current.take();
        Box::pin(async move {
            if let Some(Current { revoke, ended, .. }) = current {
                drop(revoke);
                // Dropped when the task is over.
                let _ = ended.await;
            }
        })
    }
}

impl Handler<Leadership> for RunnerActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, leadership: Leadership, _: &mut Context<Self>) -> Self::Result {
        match leadership {
            Leadership::Granted(session) => {
                let before = self.end();
                let (revoke, revoked) = oneshot::channel();
                let (ending, ended) = oneshot::channel();
                self.current = Some(Current { session, revoke, ended });
                let (deps, election) = (self.deps.clone(), Arc::clone(&self.election));
                actix::spawn(async move {
                    before.await;
                    run(deps, election, session, revoked).await;
                    drop(ending);
                });
                Box::pin(std::future::ready(()))
            }
            Leadership::Revoked(session) => {
                let current = self.current.as_ref().is_some_and(|c| c.session == session);
                if current { self.end() } else { Box::pin(std::future::ready(())) }
            }
        }
    }
}

/// One leadership from grant to end.
async fn run(
    deps: ResourceManagerDeps,
    election: Arc<dyn LeaderElection>,
    session: LeaderSession,
    mut revoked: oneshot::Receiver<()>,
) {
    let fatal = deps.services.fatal.clone();
    let driver = match &deps.mode {
        Mode::Active { driver, .. } => Some(Arc::clone(driver)),
        Mode::Standalone => None,
    };
    let fence = ResourceManagerId::from_session(session);
    let started = tokio::select! {
        biased;
        _ = &mut revoked => None,
        started = lead(deps, fence) => Some(started),
    };
    match started {
        None => {}
        Some(Err(error)) => fatal.report(ENDPOINT, format!("it could not start: {error}")),
        Some(Ok(running)) => {
            let address = running.address().clone();
            let confirming = election
                .confirm(Component::ResourceManager, LeaderInformation { session, address });
            let confirmed = tokio::select! {
                biased;
                _ = &mut revoked => None,
                confirmed = confirming => Some(confirmed),
            };
            if let Some(Err(error @ ConfirmError::Fabric(_))) = &confirmed {
                fatal.report(ENDPOINT, error.to_string());
            }
            // Also one that leads no more by now: its revocation follows. Dropping the sender is one too.
            if confirmed.is_some() {
                let _ = revoked.await;
            }
            running.stop().await;
        }
    }
    if let Some(driver) = driver {
        driver.terminate().await;
    }
}

/// Ends the leadership that there is.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
struct EndCurrent;

impl Handler<EndCurrent> for RunnerActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: EndCurrent, _: &mut Context<Self>) -> Self::Result {
        self.end()
    }
}

impl Handler<Stop> for RunnerActor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        self.current.take();
        ctx.stop();
    }
}
