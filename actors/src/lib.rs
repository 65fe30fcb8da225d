//! One folder per component: thin Actix shells over `control`. It must never know the data plane or
//! a deployment target.

pub mod blob_server;
pub mod dispatcher;
pub mod heartbeat;
mod host_exit;
pub mod job_leader_service;
pub mod job_manager_runner;
pub mod job_master;
pub mod leader_election;
pub mod leader_retrieval;
pub mod leader_shell;
pub mod metric_query;
pub mod probe;
pub mod program_hosts;
pub mod resource_manager;
pub mod services;
pub mod slot_manager;
pub mod stores;
pub mod task_executor;
mod turns;

#[cfg(test)]
mod job_testing;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testkit;
