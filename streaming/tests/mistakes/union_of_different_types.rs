//! Two streams of different records as one.

use streaming::Environment;

fn program(env: &Environment) {
    let numbers = env.sequence(0..10);
    let texts = numbers.map(|n| n.to_string());
    numbers.union(&texts).print();
}

fn main() {}
