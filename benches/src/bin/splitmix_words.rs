//! The program of the word count benchmark: sequence → line → owned words → key by word → running count → checksum of
//! every update. `splitmix_words LINES` prints `records<TAB>checksum`.

use benches::words::line;
use flott::prelude::*;

#[flott::main]
fn splitmix_words(env: &Environment, args: Args) -> Result<()> {
    let lines: u64 = args.get(0).ok_or("how many lines?")?.parse()?;
    env.sequence(0..lines)
        .map(line)
        .flat_map(|line: String, out| {
            out.collect_all(line.split_ascii_whitespace().map(str::to_owned));
        })
        .key_by(|word| word)
        .count()
        .checksum()
        .collect();
    Ok(())
}
