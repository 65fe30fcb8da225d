//! The driver's side of an active ResourceManager: events from the driver, requests and releases to it, and the
//! application's deregistration.
//!
//! This module must never decide which worker is needed.

use super::driver::{ResourceManagerDriver, WorkerRequest};
use super::handlers::millis;
use super::{Mode, ResourceManagerActor};
use crate::probe::Fact;
use crate::turns::take_step;
use actix::{Addr, Context, Handler, ResponseFuture};
use conf::memory::task_manager_memory_for;
use control::resource_manager::Command;
use control::resource_manager::pool::DriverEvent;
use gateways::resource_manager::{ApplicationStatus, DeregisterApplication, DeregisterError};
use gateways::{Answer, Ask};
use model::{Fence, WorkerResourceSpec};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The pause before the first repetition of a deregistration; it doubles up to [`RETRY_LONGEST`].
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LONGEST: Duration = Duration::from_secs(5);
/// An attempt to deregister gets the whole time divided by this, so that an unanswered attempt leaves time for others.
const ATTEMPTS_MIN: u32 = 4;

/// Hands the driver's events on, in order, until either side ends.
pub(super) async fn forward(
    mut events: mpsc::Receiver<DriverEvent>,
    to: Addr<ResourceManagerActor>,
) {
    while let Some(event) = events.recv().await {
        if take_step(&to, |actor, _| actor.heard(event)).await.is_err() {
            return;
        }
    }
}

impl ResourceManagerActor {
    pub(super) fn heard(&mut self, event: DriverEvent) {
        match &event {
            DriverEvent::Started { request, resource_id, host } => {
                tracing::info!(request, %resource_id, host, "worker started");
            }
            DriverEvent::StartFailed { request, cause, .. } => {
                tracing::warn!(request, cause, "worker could not be started");
            }
            DriverEvent::NeverMet { .. } | DriverEvent::Error { .. } => {}
            DriverEvent::Lost { resource_id, cause } if self.core.is_wanted(resource_id) => {
                tracing::warn!(%resource_id, cause, "worker has ended");
            }
            DriverEvent::Lost { resource_id, .. } => {
                tracing::info!(%resource_id, "released worker has ended");
            }
            DriverEvent::Recovered { workers } => {
                tracing::info!(workers = workers.len(), "workers of an earlier ResourceManager");
            }
        }
        let commands = self.core.driver(self.now(), event);
        self.obey(commands);
    }

    /// Passes a command on to the driver. Returns the event that the driver would have reported if the command cannot
    /// reach it.
    pub(super) fn obey_driver(&self, command: Command) -> Option<DriverEvent> {
        let Mode::Active { driver, .. } = &self.deps.mode else { return None };
        match command {
            Command::RequestWorker { request, spec } => return self.request_worker(request, spec),
            Command::CancelRequest { request } => driver.cancel(request),
            Command::ReleaseWorker { resource_id } => driver.release(&resource_id),
            Command::AvoidHosts(hosts) => driver.avoid(hosts),
            Command::Fatal(cause) => self.deps.services.fatal.report(super::ENDPOINT, cause),
            Command::CloseTaskExecutor { .. }
            | Command::BlockHosts(_)
            | Command::NeverMet(_)
            | Command::CloseJob { .. }
            | Command::RemoveJob { .. } => {}
        }
        None
    }

    fn request_worker(&self, request: u64, spec: WorkerResourceSpec) -> Option<DriverEvent> {
        let Mode::Active { driver, .. } = &self.deps.mode else { return None };
        match task_manager_memory_for(&self.deps.services.options, &spec) {
            Ok(memory) => {
                let (session, slots) = (self.fence.session(), spec.slots);
                self.note(Fact::WorkerRequested { session, request, slots });
                driver.request(WorkerRequest { request, spec, memory });
                None
            }
            // The options were checked at the start of the process, but not for this spec.
            Err(error) => {
                let cause = format!("its memory cannot be laid out: {error}");
                Some(DriverEvent::NeverMet { request, cause })
            }
        }
    }
}

impl Handler<Ask<DeregisterApplication>> for ResourceManagerActor {
    type Result = ResponseFuture<Answer<DeregisterApplication>>;

    fn handle(&mut self, ask: Ask<DeregisterApplication>, _: &mut Context<Self>) -> Self::Result {
        let DeregisterApplication { status, diagnostics } = ask.body;
        let Mode::Active { driver, .. } = &self.deps.mode else {
            // Workers that were started by hand have nothing left to do, and nobody else ends them.
            let cause = diagnostics.unwrap_or_else(|| "the application has ended".to_owned());
            let goodbyes = self.release_all(&cause);
            return Box::pin(async move {
                goodbyes.await;
                Ok(())
            });
        };
        let within = self.deps.services.options.get(&conf::resourcemanager::DEREGISTER_TIMEOUT);
        Box::pin(deregister(Arc::clone(driver), status, diagnostics, within))
    }
}

/// Deregisters the application at the external system. Repeats this after an error or an attempt that takes too long,
/// until `within` has passed.
async fn deregister(
    driver: Arc<dyn ResourceManagerDriver>,
    status: ApplicationStatus,
    diagnostics: Option<String>,
    within: Duration,
) -> Result<(), DeregisterError> {
    let (mut attempts, mut cause) = (0, String::new());
    let trying = async {
        let mut pause = RETRY_FIRST;
        loop {
            attempts += 1;
            let attempt = driver.deregister(status, diagnostics.clone());
            match tokio::time::timeout(within / ATTEMPTS_MIN, attempt).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => cause = error.to_string(),
                Err(elapsed) => cause = format!("no answer: {elapsed}"),
            }
            tracing::warn!(attempt = attempts, cause, "the application was not unregistered");
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(RETRY_LONGEST);
        }
    };
    if tokio::time::timeout(within, trying).await.is_ok() {
        return Ok(());
    }
    let error = DeregisterError { within_ms: millis(within), attempts, cause };
    tracing::error!(%error, "the external system may start the application again");
    Err(error)
}
