//! A computed key where a reference is expected.

use streaming::Environment;

fn program(env: &Environment) {
    env.sequence(0..10).key_by(|n| n % 10).count().print();
}

fn main() {}
