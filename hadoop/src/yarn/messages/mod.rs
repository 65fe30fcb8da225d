//! YARN's messages, as Hadoop 3.4 has them; earlier lines of Hadoop 3 leave the newer fields out. Enumerations
//! are numbers with typed accessors, so that values this library does not know yet are kept; defaults of
//! absent fields are Hadoop's and come from the accessors too.

mod applications;
mod basics;
mod client_protocol;
mod cluster_protocol;
mod container_protocol;
mod containers;
mod identifiers;
mod ids;
mod master_protocol;
mod nodes;
mod placement;
mod queues;
mod redacted;
#[cfg(feature = "reservations")]
mod reservations;

pub use applications::*;
pub use basics::*;
pub use client_protocol::*;
pub use cluster_protocol::*;
pub use container_protocol::*;
pub use containers::*;
pub use identifiers::*;
pub use ids::IdError;
pub use master_protocol::*;
pub use nodes::*;
pub use placement::*;
pub use queues::*;
#[cfg(feature = "reservations")]
pub use reservations::*;
