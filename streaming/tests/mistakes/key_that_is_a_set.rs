//! A key whose equal values need not have equal hashes.

use std::collections::HashSet;
use streaming::{Environment, types::Serde};

fn program(env: &Environment) {
    env.sequence(0..10).key_by_value(|n| Serde(HashSet::from([*n]))).count().print();
}

fn main() {}
