//! The composition of a JobManager's and of a TaskManager's components, apart from files, sockets, REST and
//! signals: the same for real processes, for the embedded cluster and for simulated hosts.
//!
//! Components are started in order, each ready before the next one needs it, and stopped in reverse. What
//! differs between deployments is handed in; nothing here may read the environment.

mod base;
mod jobmanager;
mod taskmanager;

pub use base::{Base, BaseParts, ComponentError, process_session};
pub use jobmanager::{
    ClusterEnd, ClusterMode, JobManagerComponents, JobManagerParts, ReadyServices,
};
pub use taskmanager::{TaskManagerComponents, TaskManagerParts};
