//! The *trivial* program of the deploy benchmark: rate-limited source → key by → map → discard.

use flott::prelude::*;

/// Records a second and subtask of the source: next to nothing, so that deployment alone is measured.
const RATE: f64 = 10.0;
/// Number of distinct keys.
const KEYS: u64 = 1_000;

#[flott::main]
fn trivial(env: &Environment, _args: Args) -> Result<()> {
    env.sequence_with_rate(0.., RATE)
        .key_by_value(|n| n % KEYS)
        .flat_map_with_state("last", |_, n, last: &mut Option<u64>, out| {
            *last = Some(n);
            out.collect(n + 1);
        })
        .uid("last")
        .discard();
    Ok(())
}
