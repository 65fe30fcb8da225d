//! Counts the clicks of each user and minute of event time; clicks that arrive too late for their minute go to a file
//! of their own.
//!
//! `late_clicks --input PATH --late PATH [--out-of-order MS] [--lateness MS]` reads lines `MILLISECONDS USER` and
//! prints `end of the minute<TAB>user<TAB>clicks`. The count of a minute is printed after a line was read whose time is
//! at least `--out-of-order` milliseconds (0) after the minute's end. A click for that minute that arrives within `--lateness`
//! milliseconds (0) of event time after that updates the count, which is printed again. Later clicks are written to
//! `--late` as `milliseconds<TAB>user`. Event time advances behind every batch of lines, not behind every line: a few lines
//! that are read at once have no late ones among them.

use clap::Parser;
use flott::prelude::*;
use std::{path::PathBuf, time::Duration};

/// Counts clicks per minute and writes those that arrive too late to a file.
#[derive(Parser)]
struct Cli {
    /// The clicks: a file, or a folder of files.
    #[arg(long)]
    input: PathBuf,
    /// The output for clicks that arrive too late: a file, or a folder of part files where several subtasks write.
    #[arg(long)]
    late: PathBuf,
    /// Milliseconds by which a line's time may be below the greatest time read before it.
    #[arg(long, default_value_t = 0)]
    out_of_order: u64,
    /// Milliseconds of event time for which a minute that was counted still accepts clicks.
    #[arg(long, default_value_t = 0)]
    lateness: u64,
}

/// The time of a click (milliseconds since 1970) and its user.
type Click = (i64, String);

/// The side output for clicks whose minute is closed.
const LATE: OutputTag<Click> = OutputTag::new("late");

fn click(line: &str) -> Result<Click> {
    let wrong = || format!("'{line}' is not MILLISECONDS USER");
    let (at_ms, user) = line.split_once(' ').ok_or_else(wrong)?;
    Ok((at_ms.parse().map_err(|_| wrong())?, user.to_owned()))
}

/// Adds the end of the minute to a count; a window's result has the window's last millisecond as event time.
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
        .uid("clicks")
        // One reader: whether a line is late depends on the lines before it alone, and not on the progress of other
        // readers.
        .set_parallelism(1)
        .try_map(|line| click(&line))
        .assign_timestamps_and_watermarks(strategy)
        .uid("times")
        .key_by(|(_, user)| user)
        .window(TumblingEventTimeWindows::of(Duration::from_secs(60)))
        .allowed_lateness(Duration::from_millis(cli.lateness))
        .side_output_late_data(&LATE)
        .count()
        .uid("counts");
    counts.side_output(&LATE).write_text(cli.late).uid("late");
    counts.process(WithEnd).collect().uid("results");
    Ok(())
}
