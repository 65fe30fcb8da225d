//! Windows on keyed streams: records of a key that are put together by their time.
//!
//! Tumbling and sliding windows keep one table per pane and fire whole windows; there is no timer per key. Nothing here
//! may block, spawn, or read a clock.

mod assigners;
mod core;
mod event_time;
mod folding;
mod panes;
mod restored;
mod slices;

pub(crate) use assigners::whole_ms;
pub use assigners::{
    EventTimeAssigner, SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner,
};
pub use event_time::EventTimeWindows;
pub use folding::{
    AggregateFunction, AggregateWindow, ProcessWindow, WindowFolding, WindowFunction,
};
pub use slices::{Slices, TimeWindow};

#[cfg(test)]
mod tests;
