//! `large_graph BYTES`: a program whose job graph carries a value of that many bytes, for the tests of large messages.

use flott::prelude::*;

#[flott::main]
fn large_graph(env: &Environment, args: Args) -> Result<()> {
    let bytes: usize = args.get(0).unwrap_or("0").parse()?;
    let text = env.once("text", || "x".repeat(bytes))?;
    let length = text.len() as u64;
    env.sequence(0..3_u64).map(move |number| number + length).collect();
    Ok(())
}
