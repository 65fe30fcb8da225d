//! The simulated cluster and the whole-process tests: the real actors under seeded faults, and real
//! processes under real signals.

pub mod simulation;
