//! The simulated cluster, the chaos campaign and the whole-process tests: the real actors under seeded faults, and real
//! processes under real signals.

pub mod chaos;
pub mod simulation;
