//! Lateness of windows that go by the machine's clock.

use std::time::Duration;
use streaming::{Environment, operators::TumblingProcessingTimeWindows};

fn program(env: &Environment) {
    let second = Duration::from_secs(1);
    let windows = TumblingProcessingTimeWindows::of(second);
    env.sequence(0..10).key_by(|n| n).window(windows).allowed_lateness(second).count().print();
}

fn main() {}
