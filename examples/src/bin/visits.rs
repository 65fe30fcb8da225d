//! Counts the visits of each page per minute, exactly once whatever fails: a source with splits, event times, windows, and
//! files that appear when a checkpoint is complete.
//!
//! `visits --input FOLDER --output FOLDER` reads lines `MILLISECONDS PAGE` and writes lines `PAGE<TAB>MINUTE<TAB>VISITS`. Run it
//! with checkpoints, kill whatever you like, and compare:
//!
//! ```text
//! flott run -D execution.checkpointing.interval=1s -D execution.checkpointing.dir=/shared/checkpoints \
//!     target/release/visits --input /shared/in --output /shared/out
//! ```

use clap::Parser;
use flott::prelude::*;
use std::{hint::black_box, time::Duration};

/// Counts the visits of each page per minute.
#[derive(Parser)]
struct Cli {
    /// The visits: a folder of files with lines `MILLISECONDS PAGE`, ordered by time in each file and from file to file, in the order of
    /// their names.
    #[arg(long)]
    input: String,
    /// The folder for the counts: a path or URI that all machines share.
    #[arg(long)]
    output: String,
    /// Rounds of arithmetic per line, to make the job last long enough to watch it.
    #[arg(long, default_value_t = 0)]
    work: u64,
}

/// A visit of a page at a time in milliseconds.
#[derive(Clone, Debug, FlottType)]
struct Visit {
    at: i64,
    page: String,
}

/// The time of a line; 0 if it has none, which fails the task in [`parse`].
fn time(line: &str) -> i64 {
    line.split(' ').next().and_then(|at| at.parse().ok()).unwrap_or_default()
}

fn parse(line: &str, work: u64) -> Result<Visit> {
    let (at, page) = line.split_once(' ').ok_or_else(|| format!("no page in '{line}'"))?;
    let at: i64 = at.parse().map_err(|error| format!("no time in '{line}': {error}"))?;
    let mut number = black_box(1u64);
    for _ in 0..work {
        number = black_box(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    Ok(Visit { at, page: page.to_owned() })
}

/// Adds the minute of a window, which ends at the event time of the window's result.
#[derive(Clone)]
struct WithMinute;

impl ProcessFunction<(String, u64)> for WithMinute {
    type Out = String;

    fn process(&mut self, count: (String, u64), out: &mut Collector<String>) -> Result<()> {
        let (page, visits) = count;
        let end = out.timestamp().ok_or("the result of a window has no event time")?;
        out.collect(format!("{page}\t{}\t{visits}", end / 60_000));
        Ok(())
    }
}

#[flott::main]
fn visits(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let work = cli.work;
    // Each file has watermarks of its own: after a restart with another parallelism, subtasks read the files in another order.
    let in_order = WatermarkStrategy::for_monotonous_timestamps(|line: &String| time(line));
    env.from_source(FileSource::text(&cli.input), in_order, "lines")
        .uid("lines")
        .try_map(move |line: String| parse(&line, work))
        .key_by(|visit| &visit.page)
        .window(TumblingEventTimeWindows::of(Duration::from_secs(60)))
        .count()
        .uid("counts")
        .process(WithMinute)
        .sink_to(FileSink::lines(cli.output))
        .uid("files");
    Ok(())
}
