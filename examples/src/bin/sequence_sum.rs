//! Numbers at a rate, counted and summed by key: a job whose duration and result are known beforehand.
//!
//! `sequence_sum --count N [--rate PER_SECOND] [--keys K] [--output PATH] [--parallelism N] [--fail-at N]` writes one
//! line `key<TAB>count<TAB>sum` per key.

use clap::Parser;
use flott::prelude::*;
use std::path::PathBuf;

/// Counts and sums the numbers 0 … N-1 by their remainder.
#[derive(Parser)]
struct Cli {
    /// How many numbers.
    #[arg(long)]
    count: u64,
    /// Numbers a second; as fast as possible without it.
    #[arg(long)]
    rate: Option<f64>,
    /// How many keys.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Where the sums go: a file, or a folder of parts where several subtasks write. Without it the client prints them.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Subtasks of every operator.
    #[arg(long)]
    parallelism: Option<u32>,
    /// Fails at this number, in the first attempt of its subtask.
    #[arg(long)]
    fail_at: Option<u64>,
}

/// Lets numbers through, but for one in a first attempt.
#[derive(Clone)]
struct FailAt {
    number: Option<u64>,
}

impl ProcessFunction<u64> for FailAt {
    type Out = u64;

    fn open(&mut self, context: &OperatorContext) -> Result<()> {
        if context.attempt().attempt > 0 {
            self.number = None;
        }
        Ok(())
    }

    fn process(&mut self, number: u64, out: &mut Collector<u64>) -> Result<()> {
        if self.number == Some(number) {
            return Err(format!("number {number} came, as it was asked for").into());
        }
        out.collect(number);
        Ok(())
    }
}

#[flott::main]
fn sequence_sum(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    if let Some(parallelism) = cli.parallelism {
        env.set_parallelism(parallelism);
    }

    let numbers = match cli.rate {
        Some(rate) => env.sequence_with_rate(0..cli.count, rate),
        None => env.sequence(0..cli.count),
    };
    let keys = cli.keys;
    let sums = numbers
        .process(FailAt { number: cli.fail_at })
        .key_by_value(move |number| number % keys)
        .at_end()
        .fold((0_u64, 0_u64), |(count, sum), number| {
            *count += 1;
            *sum = sum.wrapping_add(number);
        })
        .map(|(key, (count, sum))| (key, count, sum));

    match cli.output {
        Some(path) => sums.write_text(path),
        None => sums.collect(),
    };
    Ok(())
}
