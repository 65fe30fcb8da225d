//! A record type that cannot be cloned.

use derive::FlottType;
use streaming::Environment;

#[derive(FlottType)]
#[flott(crate = streaming)]
struct Order {
    id: u64,
}

fn program(env: &Environment) {
    env.sequence(0..10).map(|id| Order { id }).discard();
}

fn main() {}
