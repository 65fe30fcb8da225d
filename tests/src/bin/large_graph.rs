//! `large_graph BYTES [KEY=VALUE]`: a program whose job graph carries a value of that many bytes, and an option that the program sets
//! itself, for the tests of large messages and of options.

use flott::prelude::*;

#[flott::main]
fn large_graph(env: &Environment, args: Args) -> Result<()> {
    let bytes: usize = args.get(0).unwrap_or("0").parse()?;
    if let Some((key, value)) = args.get(1).and_then(|option| option.split_once('=')) {
        env.set_option(key, value);
    }
    let text = env.once("text", || "x".repeat(bytes))?;
    let length = text.len() as u64;
    env.sequence(0..3_u64).map(move |number| number + length).collect();
    Ok(())
}
