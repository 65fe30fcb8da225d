//! Counts and sums a sequence of numbers by key, at a given rate: a job whose duration and result are known beforehand.
//!
//! `sequence_sum --count N [--rate PER_SECOND] [--keys K] [--output PATH] [--parallelism N] [--fail-at N]` writes one
//! line `key<TAB>count<TAB>sum` per key.

use clap::Parser;
use flott::prelude::*;
use std::path::PathBuf;

/// Counts and sums the numbers 0 … N-1 by their remainder.
#[derive(Parser)]
struct Cli {
    /// How many numbers the sequence has.
    #[arg(long)]
    count: u64,
    /// Numbers per second; by default as many as possible.
    #[arg(long)]
    rate: Option<f64>,
    /// How many keys there are: a number's key is its remainder.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// The output: a file, or a folder of part files where several subtasks write. By default the client prints the
    /// sums.
    #[arg(long)]
    output: Option<PathBuf>,
    /// The number of subtasks of every operator.
    #[arg(long)]
    parallelism: Option<u32>,
    /// The number at which the first attempt of its subtask fails.
    #[arg(long)]
    fail_at: Option<u64>,
}

/// Passes numbers on, and fails at one number in the first attempt of a subtask.
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
            return Err(format!(
                "number {number} arrived, at which --fail-at asks the job to fail"
            )
            .into());
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
    let numbers = numbers.uid("numbers");
    let keys = cli.keys;
    let sums = numbers
        .process(FailAt { number: cli.fail_at })
        .key_by_value(move |number| number % keys)
        .at_end()
        .fold((0_u64, 0_u64), |(count, sum), number| {
            *count += 1;
            *sum = sum.wrapping_add(number);
        })
        .uid("sums")
        .map(|(key, (count, sum))| (key, count, sum));

    let results = match cli.output {
        Some(path) => sums.write_text(path),
        None => sums.collect(),
    };
    results.uid("results");
    Ok(())
}
