//! Event time: timestamps of records and watermarks of streams.
//!
//! Nothing here may read a clock: code that waits for processing time asks its host for a timer.

mod activity;
mod multiplexer;
mod per_split;
mod strategy;

pub(crate) use activity::Activity;
pub(crate) use per_split::{PerSplit, SplitTimes};
pub use strategy::{
    BoundedOutOfOrderness, NoWatermarks, SourceTimestamps, TimestampAssigner, WatermarkGenerator,
    WatermarkStrategy,
};

#[cfg(test)]
mod tests;
