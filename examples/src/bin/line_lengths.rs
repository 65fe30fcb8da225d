//! How long the lines of a text are: two jobs in one program, asked for by name.
//!
//! `line_lengths --input PATH`: the job `lengths` gives how many lines there are of each length, the job `longest` the
//! longest line that begins with each character. `flott run --job longest line_lengths …` says which.

use clap::Parser;
use flott::prelude::*;
use std::{path::PathBuf, process::ExitCode};

/// Measures the lines of a text.
#[derive(Parser)]
struct Cli {
    /// A file, or a folder of files, as UTF-8.
    #[arg(long)]
    input: PathBuf,
}

fn lengths(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    env.read_text_file(cli.input)
        .map(|line| line.chars().count() as u64)
        .key_by(|length| length)
        .at_end()
        .count()
        .collect();
    Ok(())
}

fn longest(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    env.read_text_file(cli.input)
        .filter(|line| !line.is_empty())
        .key_by_value(|line| line.chars().next())
        .at_end()
        .reduce(|longest, line| {
            if line.chars().count() > longest.chars().count() {
                *longest = line;
            }
        })
        .collect();
    Ok(())
}

fn main() -> ExitCode {
    flott::run(ProgramEntry::new().job("lengths", lengths).job("longest", longest))
}
