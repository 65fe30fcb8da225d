//! The programming API. A program's build function gets an [`Environment`] and declares sources, streams and sinks on it.
//! Building processes no records; every process of the job builds the same graph.

mod args;
mod builder;
mod connected;
mod environment;
mod inputs;
mod keyed;
mod program;
mod sink;
mod stream;
mod windows;

pub use args::Args;
pub use connected::{
    BroadcastConnectedStream, ConnectedStreams, KeyedBroadcastConnectedStream,
    KeyedConnectedStreams,
};
pub use environment::{Environment, SHIPPED_VARIABLE};
pub use keyed::{AtEnd, KeyedStream};
pub use program::{JobEntry, NormaliseOptions, ProgramEntry, build};
pub use sink::StreamSink;
pub use stream::Stream;
pub use windows::WindowedStream;

pub(crate) use builder::Builder;
pub(crate) use sink::{Committers, CommittersOf};

#[cfg(test)]
mod shape_tests;
#[cfg(test)]
pub(crate) mod tests;
