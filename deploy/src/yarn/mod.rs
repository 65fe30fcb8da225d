//! Clusters on YARN: the client that deploys them, what a process makes of its container, and the driver that asks for
//! TaskManagers.
//!
//! `contract` is what the client, the ApplicationMaster and the TaskManagers agree on. The client: `descriptor` is what
//! commands call, `deployment` the steps, `cluster`, `checks`, `staging` and `launch` one step each, `tls_files` the
//! part of staging that is about TLS, `states` the words for the wait, `session_files` what the client notes of its applications,
//! `logs` shows those of an application. In containers: `container` reads the container of this process, `master` is what a
//! JobManager does as ApplicationMaster, `web_proxy` who may use its REST endpoint, `driver` is the ResourceManager's driver.
//! Both: `hdfs` makes clients of HDFS.

mod checks;
mod cluster;
pub(crate) mod container;
pub(crate) mod contract;
mod deployment;
mod descriptor;
mod driver;
mod error;
mod hdfs;
mod launch;
mod logs;
pub(crate) mod master;
mod session_files;
mod signals;
mod staging;
mod states;
mod tls_files;
pub(crate) mod web_proxy;

pub(crate) use descriptor::{SessionState, YarnDescriptor, node_value};
pub(crate) use launch::ClusterKind;
