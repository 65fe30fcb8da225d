//! The program of the word count benchmark: sequence → line → owned words → key by word → running count → checksum of
//! every update. `splitmix_words LINES` prints `records<TAB>checksum`.

use benches::throughput::programs;
use benches::words::WORDS_PER_LINE;
use flott::prelude::*;

#[flott::main]
fn splitmix_words(env: &Environment, args: Args) -> Result<()> {
    let lines: u64 = args.get(0).ok_or("how many lines?")?.parse()?;
    programs::word_count(env, lines * WORDS_PER_LINE).collect();
    Ok(())
}
