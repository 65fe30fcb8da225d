//! A field of state that a new key has no value for.

use streaming::state::State;

#[derive(State)]
#[flott(crate = streaming)]
struct Account {
    balance: u64,
}

fn main() {}
