//! One simulated run: the real actors of JobManagers and TaskManagers in turmoil hosts, under the faults of
//! a plan that is drawn from a seed.
//!
//! The same seed gives the same trace. Nothing here may read the machine's clock or draw from the system.

pub mod lease;
pub mod net;
pub mod plan;
