//! A computed key, borrowed as the compiler advises where `key_by` expects a reference.

use streaming::Environment;

fn program(env: &Environment) {
    env.sequence(0..10).key_by(|n| &(n % 10)).count().print();
}

fn main() {}
