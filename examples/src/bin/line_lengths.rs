//! Measures the lines of a text: two jobs in one program, selected by name.
//!
//! `line_lengths --input PATH`: the job `lengths` returns the number of lines of each length, the job `longest` the
//! longest of the lines that begin with the same character. `flott run --job longest line_lengths …` selects a job.

use clap::Parser;
use flott::prelude::*;
use std::{path::PathBuf, process::ExitCode};

/// Measures the lines of a text.
#[derive(Parser)]
struct Cli {
    /// The text in UTF-8: a file, or a folder of files.
    #[arg(long)]
    input: PathBuf,
}

fn lengths(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    env.read_text_file(cli.input)
        .uid("lines")
        .map(|line| line.chars().count() as u64)
        .key_by(|length| length)
        .at_end()
        .count()
        .uid("lengths")
        .collect()
        .uid("results");
    Ok(())
}

fn longest(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    env.read_text_file(cli.input)
        .uid("lines")
        .filter(|line| !line.is_empty())
        .key_by_value(|line| line.chars().next())
        .at_end()
        .reduce(|longest, line| {
            if line.chars().count() > longest.chars().count() {
                *longest = line;
            }
        })
        .uid("longest")
        .collect()
        .uid("results");
    Ok(())
}

fn main() -> ExitCode {
    flott::run(ProgramEntry::new().job("lengths", lengths).job("longest", longest))
}
