//! Windows of a stream that has no keys.

use std::time::Duration;
use streaming::{Environment, operators::TumblingProcessingTimeWindows};

fn program(env: &Environment) {
    let windows = TumblingProcessingTimeWindows::of(Duration::from_secs(1));
    env.sequence(0..10).window(windows).count().print();
}

fn main() {}
