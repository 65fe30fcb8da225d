//! Clicks of each user and minute of event time; clicks that come too late for their minute go to a file of their own.
//!
//! `late_clicks --input PATH --late PATH [--out-of-order MS] [--lateness MS]` reads lines `MILLISECONDS USER` and prints `end of the
//! minute<TAB>user<TAB>clicks`. A minute is counted when a line is more than `--out-of-order` milliseconds (0) behind its end, and counted anew
//! with each click that comes within `--lateness` milliseconds (0) after that. Later clicks are written to `--late` as
//! `milliseconds<TAB>user`.

use clap::Parser;
use flott::prelude::*;
use std::{path::PathBuf, time::Duration};

/// Counts clicks by the minute, and keeps those that come too late.
#[derive(Parser)]
struct Cli {
    /// A file, or a folder of files.
    #[arg(long)]
    input: PathBuf,
    /// The file for clicks that come too late; a folder of files where several subtasks write.
    #[arg(long)]
    late: PathBuf,
    /// How much later than a click of a greater time a line may come, in milliseconds.
    #[arg(long, default_value_t = 0)]
    out_of_order: u64,
    /// For how long a minute that was counted still takes clicks, in milliseconds of event time.
    #[arg(long, default_value_t = 0)]
    lateness: u64,
}

/// The time of a click, and its user.
type Click = (i64, String);

/// Clicks that no minute takes any more.
const LATE: OutputTag<Click> = OutputTag::new("late");

fn click(line: &str) -> Result<Click> {
    let wrong = || format!("'{line}' is not MILLISECONDS USER");
    let (at_ms, user) = line.split_once(' ').ok_or_else(wrong)?;
    Ok((at_ms.parse().map_err(|_| wrong())?, user.to_owned()))
}

/// Brings a count together with the end of its minute.
#[derive(Clone)]
struct WithEnd;

impl ProcessFunction<(String, u64)> for WithEnd {
    type Out = (i64, String, u64);

    fn process(
        &mut self,
        (user, clicks): (String, u64),
        out: &mut Collector<Self::Out>,
    ) -> Result<()> {
        let last = out.timestamp().ok_or("the result of a window has no event time")?;
        out.collect((last + 1, user, clicks));
        Ok(())
    }
}

#[flott::main]
fn late_clicks(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let strategy = WatermarkStrategy::for_bounded_out_of_orderness(
        Duration::from_millis(cli.out_of_order),
        |(at_ms, _): &Click| *at_ms,
    );
    let counts = env
        .read_text_file(cli.input)
        // One reader: a line is late or not by the lines before it, and not by how far another reader is.
        .set_parallelism(1)
        .try_map(|line| click(&line))
        .assign_timestamps_and_watermarks(strategy)
        .key_by(|(_, user)| user)
        .window(TumblingEventTimeWindows::of(Duration::from_secs(60)))
        .allowed_lateness(Duration::from_millis(cli.lateness))
        .side_output_late_data(&LATE)
        .count();
    counts.side_output(&LATE).write_text(cli.late);
    counts.process(WithEnd).collect();
    Ok(())
}
