//! The interface of external resource systems for an active ResourceManager, implemented for each deployment target. A
//! driver decides nothing.

use conf::memory::TaskManagerMemory;
use control::resource_manager::pool::{DriverEvent, RecoveredWorker};
use futures::future::BoxFuture;
use gateways::resource_manager::ApplicationStatus;
use model::{ResourceId, WorkerResourceSpec};
use std::fmt;
use thiserror::Error;
use tokio::sync::mpsc;

/// Maximum number of a driver's events that wait for their ResourceManager; meanwhile the driver holds further ones back.
pub const EVENTS_MAX: usize = 4096;

/// A request for one TaskManager, from the ResourceManager to its driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRequest {
    /// Number of the request, by which events and [`ResourceManagerDriver::cancel`] name it; unique within one
    /// leadership.
    pub request: u64,
    /// Spec of the worker: the number of its slots and their resources, under which it counts once it has registered.
    pub spec: WorkerResourceSpec,
    /// Memory of the worker's process by part; their sum is the size of its container.
    pub memory: TaskManagerMemory,
}

/// The external resource system failed or refused; the text says how.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DriverError(pub String);

/// An external resource system, for one leadership at a time.
///
/// Contract: `initialize` is called first. Events come in the order in which things happened, `Started` before the
/// worker is launched where the system allows that. A request ends in one `Started`, `StartFailed` or `NeverMet`, or in
/// no event at all. `Started` may follow a `StartFailed` or a cancellation: the ResourceManager uses the worker if it
/// needs one and `resourcemanager.late-worker.grace-period` has not passed, otherwise it releases the worker. A worker
/// that was `Started` or recovered ends in one `Lost`. Calls return at once.
pub trait ResourceManagerDriver: Send + Sync + fmt::Debug {
    /// Connects to the external system, with an empty list of nodes to avoid. Events go to `events` from now on.
    /// Returns the workers that an earlier ResourceManager of this application has left, as far as the external system
    /// knows them; those found later come as [`DriverEvent::Recovered`].
    fn initialize(
        &self,
        events: mpsc::Sender<DriverEvent>,
    ) -> BoxFuture<'static, Result<Vec<RecoveredWorker>, DriverError>>;

    /// Replaces the list of nodes on which no worker should be started, if the external system supports that. The list
    /// applies to open requests too: with an empty list they may be met on every node again.
    fn avoid(&self, hosts: Vec<String>);

    /// Asks for a worker. The outcome comes as an event with the request's number.
    fn request(&self, request: WorkerRequest);

    /// Cancels a request that is not needed any more; the worker may have started already.
    fn cancel(&self, request: u64);

    /// Ends a worker, started or recovered. One that is not known is ended already.
    fn release(&self, resource_id: &ResourceId);

    /// Closes the application's entry in the external system, because the application has ended. Called again after an
    /// error, and after an attempt that took too long and was dropped.
    fn deregister(
        &self,
        status: ApplicationStatus,
        diagnostics: Option<String>,
    ) -> BoxFuture<'static, Result<(), DriverError>>;

    /// Disconnects. Workers continue. No event comes afterwards.
    fn terminate(&self) -> BoxFuture<'static, ()>;
}
