//! `chaos_job --seed S --output FOLDER [--points FOLDER] [--gate FILE] [--pace MS] [--commits-early]`: the job of the chaos
//! campaign (`cargo xtask chaos`).
//!
//! It reads what [`Mix`] says from sources with splits, adds up by key, in windows and at the end, compares readings with
//! broadcast limits, counts clicks with late ones among them, and commits a line for each result. It stops at the campaign's
//! named points and holds the last readings back until the file of `--gate` exists.

use clap::Parser;
use flott::prelude::*;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use tests::chaos::{
    mix::{CLICK_WINDOW_MS, Fact, Mix, at, line},
    points::{Point, Points},
};

#[path = "chaos_job/sink.rs"]
mod sink;
#[path = "chaos_job/source.rs"]
mod source;

use sink::StoppingSink;
use source::{Feed, MixSource};

/// The job of the chaos campaign.
#[derive(Parser)]
struct Cli {
    /// The seed of which the job's shape and data are drawn
    #[arg(long)]
    seed: u64,
    /// The folder for the results, which all machines share
    #[arg(long)]
    output: String,
    /// The folder through which the campaign makes processes stop at named points
    #[arg(long)]
    points: Option<PathBuf>,
    /// The last fifth of each input is not read before this file exists; then all that is left is read at once
    #[arg(long)]
    gate: Option<PathBuf>,
    /// Time in milliseconds from one piece of input to the next; 0: as fast as possible
    #[arg(long, default_value_t = 0)]
    pace: u64,
    /// Breaks two-phase commit on purpose: what is prepared is committed at once
    #[arg(long)]
    commits_early: bool,
}

/// A record of a source; one without a fact only moves event time on.
#[derive(Debug, Clone, FlottType)]
struct Event {
    at_ms: i64,
    id: u64,
    key: u64,
    value: u64,
    is_tick: bool,
}

impl Event {
    fn of(fact: Fact) -> Self {
        let Fact { at_ms, id, key, value } = fact;
        Self { at_ms, id, key, value, is_tick: false }
    }
    /// Returns the event that moves event time on to that of `fact`, and is nothing else.
    fn tick(fact: Fact) -> Self {
        Self { is_tick: true, ..Self::of(fact) }
    }
}

/// The side output for clicks whose window has ended.
const LATE: OutputTag<Event> = OutputTag::new("late");

/// Makes lines of the results of windows. `length_ms` is the length of the windows.
#[derive(Clone)]
struct OfWindow {
    what: &'static str,
    length_ms: i64,
}

impl ProcessFunction<(u64, u64)> for OfWindow {
    type Out = String;

    fn process(&mut self, (key, n): (u64, u64), out: &mut Collector<String>) -> Result<()> {
        let last = out.timestamp().ok_or("the result of a window has no event time")?;
        out.collect(line(self.what, [key, at(last / self.length_ms), n]));
        Ok(())
    }
}

/// Compares readings with the limit of their key and time, once event time says that all limits until then have come.
#[derive(Clone)]
struct AboveLimit;

/// The readings of a key that wait for their limits: numbers and values by time.
#[derive(State)]
struct Waiting {
    by_time: MapState<i64, Vec<(u64, u64)>>,
}

impl KeyedBroadcastProcessFunction<u64, Event, Event> for AboveLimit {
    type State = Waiting;
    /// The limits, by key and the time from which each holds.
    type Broadcast = BTreeMap<(u64, i64), u64>;
    type Out = String;

    fn create_broadcast(&self) -> BTreeMap<(u64, i64), u64> {
        BTreeMap::new()
    }

    fn process(
        &mut self,
        reading: Event,
        waiting: &mut Waiting,
        _: &Self::Broadcast,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<String>,
    ) -> Result<()> {
        let at_time = waiting.by_time.get_or_insert_with(reading.at_ms, Vec::new)?;
        at_time.push((reading.id, reading.value));
        ctx.timers().event_time(reading.at_ms);
        Ok(())
    }

    fn process_broadcast(
        &mut self,
        limit: Event,
        limits: &mut Self::Broadcast,
        _: &mut Collector<String>,
    ) -> Result<()> {
        limits.insert((limit.key, limit.at_ms), limit.value);
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer,
        waiting: &mut Waiting,
        limits: &Self::Broadcast,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<String>,
    ) -> Result<()> {
        let readings = waiting.by_time.take(&timer.timestamp)?.unwrap_or_default();
        let key = *ctx.key();
        let until_then = (key, i64::MIN)..=(key, timer.timestamp);
        if let Some((_, limit)) = limits.range(until_then).next_back() {
            let above = readings.into_iter().filter(|(_, value)| value > limit);
            out.collect_all(above.map(|(id, _)| line("above", [id, key, *limit])));
        }
        Ok(())
    }
}

/// A source of the mix, with event times.
fn feed(env: &Environment, cli: &Cli, feed: Feed, name: &str) -> Stream<Event> {
    let source = MixSource {
        mix: Mix::of(cli.seed),
        feed,
        gate: cli.gate.clone(),
        pace: Duration::from_millis(cli.pace),
        points: Points::new(cli.points.clone()),
    };
    let stream = env.from_source(source, WatermarkStrategy::no_watermarks(), name).uid(name);
    let stream = match feed {
        Feed::Readings => stream,
        // One reader: its records alone decide what is late, and which limit came before which.
        Feed::Limits | Feed::Clicks => stream.set_parallelism(1),
    };
    let times = WatermarkStrategy::for_monotonous_timestamps(|event: &Event| event.at_ms);
    let timed = stream.assign_timestamps_and_watermarks(times).uid(format!("times of {name}"));
    timed.filter(|event| !event.is_tick)
}

#[flott::main]
fn chaos_job(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let mix = Mix::of(cli.seed);
    // Sends watermarks at once: a click is late for certain only if the watermark before it is not held back.
    env.set_option("execution.buffer-timeout", "0 ms");
    let length = |ms: i64| Duration::from_millis(at(ms));
    let readings = feed(env, &cli, Feed::Readings, "readings");
    let limits = feed(env, &cli, Feed::Limits, "limits");
    let clicks = feed(env, &cli, Feed::Clicks, "clicks");

    let all = readings.rebalance().map(|e: Event| line("reading", [e.id, e.key, e.value]));
    let keyed = readings.key_by(|event| &event.key);
    let sums = keyed.at_end().sum(|event| event.value).uid("sums");
    let sums = sums.map(|(key, sum)| line("sum", [key, sum]));
    let windows = keyed
        .window(TumblingEventTimeWindows::of(length(mix.window_ms)))
        .sum(|event: &Event| event.value)
        .uid("windows")
        .process(OfWindow { what: "window", length_ms: mix.window_ms });
    let above = keyed.connect_broadcast(&limits).process(AboveLimit).uid("above");
    let counts = clicks
        .key_by(|event| &event.key)
        .window(TumblingEventTimeWindows::of(length(CLICK_WINDOW_MS)))
        .side_output_late_data(&LATE)
        .count()
        .uid("counts");
    let late = counts.side_output(&LATE);
    let late = late.map(|event| line("late", [event.id, event.key, at(event.at_ms)]));
    let counts = counts.process(OfWindow { what: "clicks", length_ms: CLICK_WINDOW_MS });

    let sink = StoppingSink {
        files: FileSink::lines(cli.output.clone()),
        points: Points::new(cli.points.clone()),
        commits_early: cli.commits_early,
    };
    let lines = all.union(&sums).union(&windows).union(&above).union(&late).union(&counts);
    lines.sink_to(sink).uid("files");
    Ok(())
}
