//! Windows on keyed streams: records of a key that are put together by their time, or by their number.
//!
//! Tumbling and sliding windows keep one table per pane and fire whole windows; sessions merge key by key and have one place in
//! a queue per key. Both are a [`WindowStore`], which an operator runs by event time or by the machine's clock. Nothing here
//! may block or spawn, and only the operator of processing time may read a clock.

mod assigners;
mod core;
mod counts;
mod event_time;
mod folding;
mod gaps;
mod late;
mod panes;
mod processing_time;
mod restored;
mod session_core;
mod sessions;
mod slices;
mod store;

pub(crate) use assigners::whole_ms;
pub use assigners::{
    CountWindows, EventTimeAssigner, EventTimeSessionWindows, ProcessingTimeSessionWindows,
    SlidingEventTimeWindows, SlidingProcessingTimeWindows, TumblingEventTimeWindows,
    TumblingProcessingTimeWindows, WindowAssigner,
};
pub use counts::CountWindow;
pub use event_time::EventTimeWindows;
pub use folding::{
    AggregateFunction, AggregateWindow, ProcessWindow, WindowFolding, WindowFunction,
};
pub use gaps::{FixedGap, GapOf, SessionGap};
pub use late::Lateness;
pub use processing_time::ProcessingTimeWindows;
pub use slices::{Slices, TimeWindow};
pub use store::WindowStore;

#[cfg(test)]
mod tests;
