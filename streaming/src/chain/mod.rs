//! A chain that runs in one subtask: its head (a source, or the inputs), its operators, its outputs, and the
//! [`Subtask`](crate::seam::Subtask) around them.
//!
//! Nothing here may block: a full output or an empty input is returned to the caller as
//! [`Progress`](crate::seam::Progress), and the caller parks the thread.

mod align;
mod assembly;
mod edge_writer;
mod fan_out;
mod head;
mod partition;
mod runner;
mod source;

pub use align::{Alignment, Step};
pub use assembly::{Assembly, ChainInfo, NodeInfo};
pub use edge_writer::EdgeWriter;
pub use fan_out::{FanOut, NoConsumer};
pub(crate) use head::{Feed, InputHead, feed};
pub use head::{Head, OpenBatch, PassedBarrier};
pub use partition::{Broadcast, ByFunction, HashByKey, Partitioner, RoundRobin};
pub use runner::ChainTask;
pub use source::SourceHead;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod interrupt_tests;
#[cfg(test)]
mod stop_tests;
#[cfg(test)]
mod tests;
