//! Counts the words of a text: the main example, with lines as bytes, a count per key at the end of the input, and a
//! sink.
//!
//! `word_count --input PATH [--output PATH] [--without FILE] [--parallelism N]` writes one line `word<TAB>count` per word.
//! Words are separated by the bytes 09-0D and 20; they need not be UTF-8.

use clap::Parser;
use examples::text::words;
use flott::prelude::*;
use std::collections::HashSet;
use std::path::PathBuf;

/// Counts the words of a text.
#[derive(Parser)]
struct Cli {
    /// The text: a file, or a folder of files.
    #[arg(long)]
    input: PathBuf,
    /// The output: a file, or a folder of part files where several subtasks write. By default the client prints the
    /// counts.
    #[arg(long)]
    output: Option<PathBuf>,
    /// The name of a shipped file; its words are left out.
    #[arg(long)]
    without: Option<String>,
    /// The number of subtasks of every operator.
    #[arg(long)]
    parallelism: Option<u32>,
}

#[flott::main]
fn word_count(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    if let Some(parallelism) = cli.parallelism {
        env.set_parallelism(parallelism);
    }

    let without: HashSet<Vec<u8>> = match &cli.without {
        Some(name) => words(&std::fs::read(env.shipped(name)?)?).map(<[u8]>::to_vec).collect(),
        None => HashSet::new(),
    };

    let counts = env
        .read_lines(&cli.input)
        .uid("lines")
        .flat_map(move |line: Vec<u8>, out| {
            let counted = words(&line).filter(|word| !without.contains(*word));
            out.collect_all(counted.map(<[u8]>::to_vec))
        })
        .name("words")
        .key_by(|word| word)
        .at_end()
        .count()
        .uid("counts");

    let results = match cli.output {
        Some(path) => counts.write_text(path),
        None => counts.collect(),
    };
    results.uid("results");
    Ok(())
}
