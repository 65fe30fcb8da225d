//! Measures how many CPU-seconds a million records cost: the workloads, each as a Flott program, as
//! a hand-written loop, as a job for Flink and most of them as a program for Renoir, and how one
//! run of each is measured.
//!
//! Every side computes the same [`Checksum`]; a run whose checksums differ is an error and never a figure. CPU is counted
//! over whole processes, start-up included: workloads are so large that start-up is less than 5 % of a run. The
//! alternative, the slope between two sizes, needs twice the runs and subtracts two noisy figures from each other.

pub mod by_hand;
pub mod flink;
pub mod loops;
pub mod measure;
pub mod ours;
pub mod outcome;
pub mod programs;
pub mod renoir;
pub mod workloads;

pub use loops::Checksum;
pub use measure::Run;
pub use workloads::{Place, WORKLOADS, Workload};
