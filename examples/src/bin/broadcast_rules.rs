//! Finds sensor readings above a limit, where limits change while the job runs and every subtask knows all of them.
//!
//! `broadcast_rules --readings PATH --limits PATH` reads lines `MILLISECONDS SENSOR VALUE` and lines `MILLISECONDS SENSOR LIMIT`,
//! each in the order of their times. A limit holds from its own time until the time of the sensor's next limit. A
//! reading is compared with the limit that holds at the reading's time, however late either line is read. The program
//! prints `sensor<TAB>milliseconds<TAB>value<TAB>limit` for each reading above its limit.

use clap::Parser;
use flott::prelude::*;
use std::{collections::BTreeMap, path::PathBuf};

/// Finds readings above the limit of their time.
#[derive(Parser)]
struct Cli {
    /// The readings: a file, or a folder of files.
    #[arg(long)]
    readings: PathBuf,
    /// The limits: a file, or a folder of files.
    #[arg(long)]
    limits: PathBuf,
}

/// A reading of a sensor, or a limit that holds for the sensor from `at_ms` on (milliseconds since 1970).
#[derive(Clone, FlottType)]
struct Point {
    at_ms: i64,
    sensor: String,
    value: u64,
}

impl Point {
    fn parse(line: &str) -> Result<Self> {
        let wrong = || format!("'{line}' is not MILLISECONDS SENSOR NUMBER");
        let [at_ms, sensor, value] = line.split_ascii_whitespace().collect::<Vec<_>>()[..] else {
            return Err(wrong().into());
        };
        Ok(Self {
            at_ms: at_ms.parse().map_err(|_| wrong())?,
            sensor: sensor.to_owned(),
            value: value.parse().map_err(|_| wrong())?,
        })
    }
}

/// Keeps readings until the watermark has reached their times: every limit that holds for them has arrived by then.
#[derive(Clone)]
struct AboveLimit;

/// The readings of one sensor that have not been compared with a limit yet.
#[derive(State)]
struct Readings {
    by_time: MapState<i64, Vec<u64>>,
}

impl KeyedBroadcastProcessFunction<String, Point, Point> for AboveLimit {
    type State = Readings;
    /// The limits, by sensor and the time from which each holds.
    type Broadcast = BTreeMap<(String, i64), u64>;
    type Out = (String, i64, u64, u64);

    fn create_broadcast(&self) -> BTreeMap<(String, i64), u64> {
        BTreeMap::new()
    }

    fn process(
        &mut self,
        reading: Point,
        readings: &mut Readings,
        _: &Self::Broadcast,
        ctx: &mut Context<'_, String>,
        _: &mut Collector<Self::Out>,
    ) -> Result<()> {
        readings.by_time.get_or_insert_with(reading.at_ms, Vec::new)?.push(reading.value);
        ctx.timers().event_time(reading.at_ms);
        Ok(())
    }

    fn process_broadcast(
        &mut self,
        limit: Point,
        limits: &mut Self::Broadcast,
        _: &mut Collector<Self::Out>,
    ) -> Result<()> {
        limits.insert((limit.sensor, limit.at_ms), limit.value);
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer,
        readings: &mut Readings,
        limits: &Self::Broadcast,
        ctx: &mut Context<'_, String>,
        out: &mut Collector<Self::Out>,
    ) -> Result<()> {
        let at_ms = timer.timestamp;
        let values = readings.by_time.take(&at_ms)?.unwrap_or_default();
        let sensor = ctx.key();
        let until_then = (sensor.clone(), i64::MIN)..=(sensor.clone(), at_ms);
        if let Some((_, limit)) = limits.range(until_then).next_back() {
            let above = values.into_iter().filter(|value| value > limit);
            out.collect_all(above.map(|value| (sensor.clone(), at_ms, value, *limit)));
        }
        Ok(())
    }
}

#[flott::main]
fn broadcast_rules(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let points = |path: PathBuf, uid: &str| {
        let in_order = WatermarkStrategy::for_monotonous_timestamps(|point: &Point| point.at_ms);
        env.read_text_file(path)
            .uid(uid)
            .try_map(|line| Point::parse(&line))
            .assign_timestamps_and_watermarks(in_order)
            .uid(format!("times of {uid}"))
    };
    let (readings, limits) = (points(cli.readings, "readings"), points(cli.limits, "limits"));
    readings
        .key_by(|reading| &reading.sensor)
        .connect_broadcast(&limits)
        .process(AboveLimit)
        .uid("above limit")
        .collect()
        .uid("results");
    Ok(())
}
