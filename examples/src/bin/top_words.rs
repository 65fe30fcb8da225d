//! Finds the most frequent words of each minute of event time.
//!
//! `top_words --input PATH [--most N]` reads lines `MILLISECONDS WORD WORD …` and prints, for each minute in which there are
//! words, up to N lines `end of the minute<TAB>word<TAB>count`, the most frequent word first.

use clap::Parser;
use flott::prelude::*;
use std::{cmp::Reverse, path::PathBuf, time::Duration};

/// Counts words per minute and prints the most frequent ones.
#[derive(Parser)]
struct Cli {
    /// The text: a file, or a folder of files.
    #[arg(long)]
    input: PathBuf,
    /// How many words of each minute are printed.
    #[arg(long, default_value_t = 3)]
    most: usize,
}

/// Splits a line into its time (milliseconds since 1970) and the text after it.
fn timed(line: &str) -> Result<(i64, String)> {
    let (at_ms, text) = line.split_once(' ').unwrap_or((line, ""));
    let at_ms = at_ms.parse().map_err(|_| format!("'{line}' does not begin with milliseconds"))?;
    Ok((at_ms, text.to_owned()))
}

/// Adds the window's last millisecond, which is the event time of a window's result, to the result.
#[derive(Clone)]
struct WithEnd;

impl ProcessFunction<(String, u64)> for WithEnd {
    type Out = (i64, String, u64);

    fn process(
        &mut self,
        (word, count): (String, u64),
        out: &mut Collector<Self::Out>,
    ) -> Result<()> {
        let end = out.timestamp().ok_or("the result of a window has no event time")?;
        out.collect((end, word, count));
        Ok(())
    }
}

/// Keeps the counts of a window until all of them have arrived, then emits the greatest ones.
#[derive(Clone)]
struct Top {
    most: usize,
}

#[derive(State)]
struct Counts {
    counts: ListState<(String, u64)>,
}

impl KeyedProcessFunction<i64, (i64, String, u64)> for Top {
    type State = Counts;
    type Out = (i64, String, u64);

    fn process(
        &mut self,
        (end, word, count): (i64, String, u64),
        window: &mut Counts,
        ctx: &mut Context<'_, i64>,
        _: &mut Collector<Self::Out>,
    ) -> Result<()> {
        window.counts.push((word, count));
        // The watermark that passes the window's end follows all counts of the window.
        ctx.timers().event_time(end);
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer,
        window: &mut Counts,
        _: &mut Context<'_, i64>,
        out: &mut Collector<Self::Out>,
    ) -> Result<()> {
        let mut counts = window.counts.take()?;
        counts.sort_unstable_by_key(|(word, count)| (Reverse(*count), word.clone()));
        counts.truncate(self.most);
        out.collect_all(counts.into_iter().map(|(word, count)| (timer.timestamp + 1, word, count)));
        Ok(())
    }
}

#[flott::main]
fn top_words(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let strategy =
        WatermarkStrategy::for_monotonous_timestamps(|(at_ms, _): &(i64, String)| *at_ms);
    env.read_text_file(cli.input)
        .uid("lines")
        .try_map(|line| timed(&line))
        .assign_timestamps_and_watermarks(strategy)
        .uid("times")
        .flat_map(|(_, text): (i64, String), out| {
            out.collect_all(text.split_whitespace().map(str::to_owned));
        })
        .key_by(|word| word)
        .window(TumblingEventTimeWindows::of(Duration::from_secs(60)))
        .count()
        .uid("counts")
        .process(WithEnd)
        .key_by(|(end, ..)| end)
        .process(Top { most: cli.most })
        .uid("top")
        .collect()
        .uid("results");
    Ok(())
}
