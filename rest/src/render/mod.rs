//! Renders the components' answers as Flink's JSON: pure functions, no clock, no I/O.

mod checkpoints;
mod jobs;
mod metrics;
mod taskmanagers;
mod throwable;

pub use checkpoints::{
    checkpoint, checkpoint_config, checkpoint_of_vertex, checkpoints, operation,
    triggered_checkpoint,
};
pub use jobs::{
    execution_result, job_details, job_exceptions, job_ids, job_overview, jobs_overview, plan,
    vertex_details,
};
pub use metrics::{Wanted, aggregated_metrics, subtask_metrics, vertex_metrics};
pub use taskmanagers::{task_manager, task_manager_details};

/// Converts Unix milliseconds to Flink's signed number.
fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
