//! A function that borrows what the build function owns.

use streaming::Environment;

fn program(env: &Environment) {
    let factors = vec![1, 2, 3];
    env.sequence(0..10).map(|n| n * factors[0]).print();
}

fn main() {}
