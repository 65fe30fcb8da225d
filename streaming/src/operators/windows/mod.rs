//! Windows on keyed streams: they group the records of a key by event time, by processing time, by gaps or by count.
//!
//! In memory, tumbling and sliding windows keep one table per pane and fire a whole window at a time. Sessions, and tumbling and
//! sliding windows in a backend that fetches, have one state per key, and each key has one live entry in a queue ordered by
//! time. All implement [`WindowStore`], which [`EventTimeWindows`] drives by
//! watermarks and [`ProcessingTimeWindows`] by the machine's clock; windows by count are a keyed function. Nothing here may
//! block or spawn, and only [`ProcessingTimeWindows`] may read a clock.

mod assigners;
mod core;
mod counts;
mod event_time;
mod folding;
mod gaps;
mod key_core;
mod key_panes;
mod key_rule;
mod late;
mod pane_rule;
mod panes;
mod processing_time;
mod queue;
mod restored;
mod session_rule;
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
