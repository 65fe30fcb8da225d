//! Groups the clicks of each user into visits: two clicks in a row of one visit have at most the gap of event time between them.
//!
//! `clicks_sessions --input PATH [--gap MS] [--out-of-order MS]` reads lines `MILLISECONDS USER PAGE` and prints for each visit
//! `user<TAB>milliseconds of the first click<TAB>milliseconds between first and last<TAB>pages in the order of the clicks`. Lines may be
//! out of order by up to `--out-of-order` milliseconds (5000).

use clap::Parser;
use flott::prelude::*;
use std::{path::PathBuf, time::Duration};

/// Groups clicks into visits.
#[derive(Parser)]
struct Cli {
    /// The clicks: a file, or a folder of files.
    #[arg(long)]
    input: PathBuf,
    /// The shortest time without a click between two visits of a user, in milliseconds.
    #[arg(long, default_value_t = 1_800_000)]
    gap: u64,
    /// Milliseconds by which a line's time may be below the greatest time read before it.
    #[arg(long, default_value_t = 5_000)]
    out_of_order: u64,
}

#[derive(Clone, FlottType)]
struct Click {
    at_ms: i64,
    user: String,
    page: String,
}

impl Click {
    fn parse(line: &str) -> Result<Self> {
        let wrong = || format!("'{line}' is not MILLISECONDS USER PAGE");
        let [at_ms, user, page] = line.split_ascii_whitespace().collect::<Vec<_>>()[..] else {
            return Err(wrong().into());
        };
        let at_ms = at_ms.parse().map_err(|_| wrong())?;
        Ok(Self { at_ms, user: user.to_owned(), page: page.to_owned() })
    }
}

/// Turns the clicks of a visit into one row.
#[derive(Clone)]
struct Visit;

impl WindowFunction<String, Click> for Visit {
    type Out = (String, i64, i64, String);

    fn process(
        &mut self,
        user: &String,
        visit: TimeWindow,
        mut clicks: Vec<Click>,
        out: &mut Collector<Self::Out>,
    ) -> Result<()> {
        // The records of a window are in the order of their arrival.
        clicks.sort_by_key(|click| click.at_ms);
        let last = clicks.last().map_or(visit.start(), |click| click.at_ms);
        let pages: Vec<&str> = clicks.iter().map(|click| click.page.as_str()).collect();
        let length = last.saturating_sub(visit.start());
        out.collect((user.clone(), visit.start(), length, pages.join(" ")));
        Ok(())
    }
}

#[flott::main]
fn clicks_sessions(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let strategy = WatermarkStrategy::for_bounded_out_of_orderness(
        Duration::from_millis(cli.out_of_order),
        |click: &Click| click.at_ms,
    );
    env.read_text_file(cli.input)
        .uid("clicks")
        .try_map(|line| Click::parse(&line))
        .assign_timestamps_and_watermarks(strategy)
        .uid("times")
        .key_by(|click| &click.user)
        .window(EventTimeSessionWindows::with_gap(Duration::from_millis(cli.gap)))
        .process(Visit)
        .uid("visits")
        .collect()
        .uid("results");
    Ok(())
}
