//! Pure decisions: each is a function of state, now and event that returns commands. It must never
//! touch a clock, a thread, I/O or a random source.

pub mod checkpoints;
pub mod dispatcher;
pub mod execution_graph;
pub mod ids;
pub mod job_graph;
pub mod job_master;
pub mod job_table;
pub mod leader_process;
pub mod leadership;
pub mod liveness;
pub mod mutation;
pub mod program_hosts;
pub mod registration;
pub mod resource_manager;
pub mod restart;
pub mod scheduler;
pub mod slot_manager;
pub mod slot_pool;
pub mod slot_table;
pub mod task_executor;

#[cfg(test)]
mod testing;
