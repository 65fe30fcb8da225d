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

/// Capacity of the channel from a driver to its ResourceManager, in events; while the channel is full the driver holds
/// further events back.
pub const EVENTS_MAX: usize = 4096;

/// A request for one worker (TaskManager process), from the ResourceManager to its driver. A worker that is still missing after a failed
/// request is requested under a new number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRequest {
    /// Number of the request, by which events and [`ResourceManagerDriver::cancel`] name it. Each leadership counts from 1, so numbers
    /// are unique within one leadership only.
    pub request: u64,
    /// Spec of the worker: the number of its slots and their resources. The driver starts the worker with it, and the
    /// ResourceManager counts the worker under it while it starts and once it has registered.
    pub spec: WorkerResourceSpec,
    /// Memory of the worker's process by part, laid out for the spec; the sum of the parts is the size of its
    /// container.
    pub memory: TaskManagerMemory,
}

/// The error of [`ResourceManagerDriver::initialize`] and [`ResourceManagerDriver::deregister`]: the external resource system failed,
/// was not reached or refused, or the driver has ended or is not registered there yet. The text says how. A failed request for a worker is
/// a [`DriverEvent`] instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DriverError(pub String);

/// An external resource system such as YARN, in which an active ResourceManager starts and ends its workers
/// (TaskManager processes); for one leadership at a time.
///
/// Contract: one driver lives as long as its process. In each leadership `initialize` is called first and `terminate` last, which the next
/// leadership waits for; `deregister` only if the application ends. Events come in the order in which things happened, `Started` before the
/// worker is launched where the system allows that. A request ends in one `Started`, `StartFailed` or `NeverMet`, or in
/// no event at all. `Started` may follow a `StartFailed` or a cancellation: the ResourceManager uses the worker if it
/// needs one and `resourcemanager.late-worker.grace-period` has not passed, otherwise it releases the worker. A worker
/// that was `Started` or recovered ends in one `Lost`. A connection that is lost for good is one `Error`, or a fatal error that the driver
/// reports itself; the process ends then. Calls return at once, before the external system has acted. The leader shell calls `initialize`
/// and `terminate`, the ResourceManager's actor the others.
pub trait ResourceManagerDriver: Send + Sync + fmt::Debug {
    /// Connects to the external system, with an empty list of nodes to avoid. Events go to `events` from now on.
    /// Returns the workers that an earlier ResourceManager of this application has left, as far as the external system
    /// knows them; those found later come as [`DriverEvent::Recovered`].
    ///
    /// # Errors
    /// Returns a [`DriverError`] if the external system cannot be reached or refuses, or the connection to it has ended; the caller then
    /// reports a fatal error, which ends the process.
    fn initialize(
        &self,
        events: mpsc::Sender<DriverEvent>,
    ) -> BoxFuture<'static, Result<Vec<RecoveredWorker>, DriverError>>;

    /// Replaces the list of host names of nodes on which no worker should be started, if the external system supports
    /// that; otherwise does nothing. Called at each change of the list. The list applies to open requests too: with an empty list they
    /// may be met on every node again. Workers that run there already stay.
    fn avoid(&self, hosts: Vec<String>);

    /// Requests one worker. Returns at once; the outcome comes as a [`DriverEvent`] with the request's number, without a time limit: the
    /// external system may have no room for as long as it likes.
    fn request(&self, request: WorkerRequest);

    /// Cancels the request with this number, because its worker is not needed any more. The worker may have started
    /// already; then its `Started` comes, and the ResourceManager releases the worker unless it needs one by then.
    fn cancel(&self, request: u64);

    /// Ends a worker that was started or recovered, because it is not needed, came too late or counts as dead; returns at once, and
    /// its end comes as [`DriverEvent::Lost`]. Does nothing if the driver does not know the worker, which has ended then.
    fn release(&self, resource_id: &ResourceId);

    /// Closes the application's entry in the external system with a final status and text for users (`None`: no text), because the
    /// application has ended; the system then ends its workers. The ResourceManager repeats the call after an error, and after an
    /// attempt that took a quarter of `resourcemanager.deregister.timeout`, whose future it has dropped, until that time-out has passed.
    ///
    /// # Errors
    /// Returns a [`DriverError`] if the external system did not confirm that the entry is closed.
    fn deregister(
        &self,
        status: ApplicationStatus,
        diagnostics: Option<String>,
    ) -> BoxFuture<'static, Result<(), DriverError>>;

    /// Disconnects from the external system, because the leadership has ended. Workers continue, for the next
    /// ResourceManager. No event comes afterwards. Called once at the end of each leadership, also if `initialize` has failed, its
    /// future was dropped before it was ready, or it was not called yet.
    fn terminate(&self) -> BoxFuture<'static, ()>;
}
