//! A record that its side output does not carry.

use streaming::{Environment, operators::OutputTag};

const ODD: OutputTag<String> = OutputTag::new("odd");

fn program(env: &Environment) {
    env.sequence(0..10).flat_map(|n: u64, out| {
        out.collect_to(&ODD, n);
        out.collect(n);
    });
}

fn main() {}
