//! The Dispatcher's part of the leader shell.

use super::{Dispatcher, DispatcherDeps, leader};
use crate::leader_shell::{self, LeaderShell, Led};
use crate::services::{ConfirmError, Contention, Leadership, ProcessServices, Running};
use actix::Recipient;
use futures::future::BoxFuture;
use gateways::dispatcher::RequestJobStatus;
use gateways::leader_election::{Component, LeaderInformation};
use model::{DispatcherId, Fence, JobId, LeaderSession};
use platform::LaneEnded;

/// The handle of a process's leader shell of the Dispatcher: the actor that stands for election and runs a Dispatcher
/// while this process leads. Stopping it stops a leading Dispatcher and the JobMasters of its jobs, which are suspended
/// for the next leader; dropping it does the same without waiting.
pub type DispatcherHandle = Running<LeaderShell<DispatcherDeps>>;

/// Stands for election and runs a Dispatcher, which recovers stored jobs, whenever this process leads, on the work lane (thread
/// of actors), until the returned handle is stopped or dropped. Returns at once, without waiting for leadership. If the leader shell or a
/// Dispatcher dies of a panic, the process ends.
///
/// # Errors
/// Returns [`LaneEnded`] if the lane has ended, because the process is ending.
pub async fn start(deps: DispatcherDeps) -> Result<DispatcherHandle, LaneEnded> {
    leader_shell::start(deps).await
}

impl Led for DispatcherDeps {
    type Leader = Dispatcher;
    type Probe = RequestJobStatus;

    fn component(&self) -> Component {
        Component::Dispatcher
    }

    fn services(&self) -> &ProcessServices {
        &self.services
    }

    fn contend(&self, shell: Recipient<Leadership>) -> Contention {
        self.election.contend(Component::Dispatcher, shell)
    }

    fn confirm(&self, leader: LeaderInformation) -> BoxFuture<'static, Result<(), ConfirmError>> {
        self.election.confirm(Component::Dispatcher, leader)
    }

    fn start(&self, session: LeaderSession) -> BoxFuture<'static, Running<Dispatcher>> {
        let deps = self.clone();
        Box::pin(async move { leader::start(deps, DispatcherId::from_session(session)) })
    }

    fn probe(&self) -> RequestJobStatus {
        // Any answer will do, and this question does not wait for a job.
        RequestJobStatus { job_id: JobId(0) }
    }
}
