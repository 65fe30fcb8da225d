//! The driver's side of an active ResourceManager: its events in, requests and releases out.

use super::driver::WorkerRequest;
use super::{Mode, ResourceManagerActor};
use crate::probe::Fact;
use actix::{Addr, Context, Handler};
use conf::memory::task_manager_memory_for;
use control::resource_manager::Command;
use control::resource_manager::pool::DriverEvent;
use model::{Fence, ResourceId, WorkerResourceSpec};
use tokio::sync::mpsc;

/// The driver reports.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub(super) struct FromDriver(DriverEvent);

/// Hands the driver's events on, in order, until either side ends.
pub(super) async fn forward(
    mut events: mpsc::Receiver<DriverEvent>,
    to: Addr<ResourceManagerActor>,
) {
    while let Some(event) = events.recv().await {
        if to.send(FromDriver(event)).await.is_err() {
            return;
        }
    }
}

impl Handler<FromDriver> for ResourceManagerActor {
    type Result = ();

    fn handle(&mut self, FromDriver(event): FromDriver, _: &mut Context<Self>) {
        match &event {
            DriverEvent::Started { request, resource_id, .. } => {
                tracing::info!(request, %resource_id, "worker started");
                // The same worker told twice, or another one for the same request, ends no request.
                if !self.started.values().any(|known| known == request) {
                    self.started.insert(resource_id.clone(), *request);
                }
            }
            DriverEvent::StartFailed { request, cause, .. } => {
                tracing::warn!(request, cause, "worker could not be started");
                self.request_ended(*request);
            }
            DriverEvent::Lost { resource_id, cause } => {
                tracing::warn!(%resource_id, cause, "worker has ended");
                self.start_ended(resource_id);
            }
            DriverEvent::Recovered { .. } | DriverEvent::Error { .. } => {}
        }
        let commands = self.core.driver(self.now(), event);
        self.obey(commands);
    }
}

impl ResourceManagerActor {
    pub(super) fn obey_driver(&mut self, command: Command) {
        let Mode::Active { driver, .. } = &self.deps.mode else {
            return;
        };
        match command {
            Command::RequestWorker { request, spec, avoid } => {
                self.request_worker(request, spec, avoid);
            }
            Command::CancelRequest { request } => {
                driver.cancel(request);
                self.request_ended(request);
            }
            Command::ReleaseWorker { resource_id } => {
                driver.release(&resource_id);
                self.start_ended(&resource_id);
            }
            Command::Fatal(cause) => self.deps.services.fatal.report(super::ENDPOINT, cause),
            Command::CloseTaskExecutor { .. } | Command::BlockHosts(_) => {}
        }
    }

    /// A started worker has registered, was given up or is gone.
    pub(super) fn start_ended(&mut self, resource_id: &ResourceId) {
        if let Some(request) = self.started.remove(resource_id) {
            self.request_ended(request);
        }
    }

    fn request_ended(&self, request: u64) {
        let session = self.fence.session();
        self.note(Fact::WorkerRequestEnded { session, request });
    }

    fn request_worker(&mut self, request: u64, spec: WorkerResourceSpec, avoid: Vec<String>) {
        let Mode::Active { driver, .. } = &self.deps.mode else {
            return;
        };
        match task_manager_memory_for(&self.deps.services.options, &spec) {
            Ok(memory) => {
                let (session, slots) = (self.fence.session(), spec.slots);
                self.deps.services.probe.note(Fact::WorkerRequested { session, request, slots });
                driver.request(WorkerRequest { request, spec, memory, avoid });
            }
            // The options were checked when the process started; the JobMaster is told in the end.
            Err(error) => {
                let cause = format!("a worker can't be described: {error}");
                let event = DriverEvent::StartFailed { request, host: None, cause };
                // Nothing follows at once: the failure starts a pause.
                let commands = self.core.driver(self.now(), event);
                debug_assert!(commands.is_empty(), "{commands:?}");
            }
        }
    }
}
