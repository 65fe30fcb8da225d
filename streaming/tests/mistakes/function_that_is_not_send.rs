//! A function with something that may not go to another thread.

use std::{cell::Cell, rc::Rc};
use streaming::Environment;

fn program(env: &Environment) {
    let seen = Rc::new(Cell::new(0));
    env.sequence(0..10).inspect(move |_| seen.set(seen.get() + 1)).print();
}

fn main() {}
