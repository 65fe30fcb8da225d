//! A record type without `#[derive(Clone, FlottType)]`.

use streaming::Environment;

#[derive(Clone)]
struct Order {
    id: u64,
}

fn program(env: &Environment) {
    env.sequence(0..10).map(|id| Order { id }).print();
}

fn main() {}
