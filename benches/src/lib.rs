//! The tools that benchmarks share: JSON lines on standard output, medians, CPU time and memory of
//! processes.
//!
//! Nothing but JSON lines may reach standard output; remarks for people go to standard error. Timings are
//! never asserted: goals are compared in `RESULTS.md`.

pub mod cluster;
pub mod continuous;
pub mod control_plane;
pub mod peers;
pub mod process;
pub mod report;
pub mod throughput;
pub mod yarn;

pub use ::words::text as words;
pub use process::{
    CpuTime, children_of, cpu_of_children, cpu_of_self, descriptors_of, rss_mib, threads_of,
};
pub use report::{Report, median};
