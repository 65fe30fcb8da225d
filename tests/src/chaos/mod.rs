//! The chaos campaign (`cargo xtask chaos`): real clusters run a generated job mix while their processes are killed by
//! `kill -9` and their disks are slow or full. What each job has committed in the end must be what it commits undisturbed.
//!
//! `mix` is the job, `points` are the places at which half of the kills aim, `plan` is what a seed makes of a run, `run` does
//! it, `totals` decides whether a campaign shows anything. Nothing here may end or signal a process that the campaign has not
//! started, or that no such process has started.

pub mod cluster;
pub mod disk;
pub mod mix;
pub mod plan;
pub mod points;
pub mod processes;
pub mod run;
pub mod totals;
