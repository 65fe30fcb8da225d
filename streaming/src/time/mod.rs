//! Event time: how a stream gets it, and how far it has come.
//!
//! Nothing here may read a clock: what waits for processing time asks its host for a timer.

mod strategy;

pub use strategy::{BoundedOutOfOrderness, WatermarkGenerator, WatermarkStrategy};

#[cfg(test)]
mod tests;
