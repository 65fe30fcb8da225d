//! Clusters on YARN: what a process makes of its container, and the driver that asks for TaskManagers.
//!
//! `contract` is what the client, the ApplicationMaster and the TaskManagers agree on. `container` reads the container
//! of this process; `master` is what a JobManager does as ApplicationMaster; `driver` is the ResourceManager's driver.

pub(crate) mod container;
pub(crate) mod contract;
mod driver;
pub(crate) mod master;
