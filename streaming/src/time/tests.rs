//! Event times and watermarks through whole small programs.

use super::*;
use crate::{
    api::tests::{built, run},
    batch::{Batch, NO_TIME},
    harness::Harness,
    operators::{
        BoxError, Collector, Context, Flow, KeyedProcessFunction, Operator, OperatorContext,
        ProcessFunction, TimeDomain, Timer,
    },
    seam::{StreamEvent, TaskError},
};
use std::time::Duration;

/// Shows every record with its time.
#[derive(Clone)]
struct Stamps;

impl ProcessFunction<u64> for Stamps {
    type Out = (u64, Option<i64>);
    fn process(&mut self, n: u64, out: &mut Collector<Self::Out>) -> Result<(), BoxError> {
        out.collect((n, out.timestamp()));
        Ok(())
    }
}

/// Shows what comes in, in its order: the times of records, watermarks and idleness.
#[derive(Default)]
struct Probe;

impl Operator<u64> for Probe {
    type Out = (String, i64);
    fn process(
        &mut self,
        batch: &mut Batch<u64>,
        out: &mut Collector<Self::Out>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        batch.each(|_, time| out.collect(("record".into(), time)));
        Ok(())
    }
    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<Self::Out>,
        _: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        match event {
            StreamEvent::Watermark(ms) => out.collect(("watermark".into(), ms)),
            StreamEvent::Idle(idle) => out.collect(("idle".into(), i64::from(idle))),
            StreamEvent::Barrier(_) | StreamEvent::EndOfInput => {}
        }
        Ok(Flow::Done)
    }
}

/// Returns the output of a [`Probe`] of one subtask.
fn probed(outcome: &crate::harness::Outcome) -> Vec<(String, i64)> {
    let line = |line: &Vec<u8>| {
        let line = String::from_utf8(line.clone()).unwrap();
        let (what, ms) = line.split_once('\t').unwrap();
        (what.to_owned(), ms.parse().unwrap())
    };
    outcome.collected[0].iter().map(line).collect()
}

fn times_of(shown: &[(String, i64)], what: &str) -> Vec<i64> {
    shown.iter().filter(|(kind, _)| kind == what).map(|(_, ms)| *ms).collect()
}

#[test]
fn a_record_keeps_its_time_through_operators_and_exchanges() {
    for serialize in [false, true] {
        let job = built(2, |env| {
            let numbers = env.sequence(0..5_000);
            numbers
                .assign_timestamps_and_watermarks(WatermarkStrategy::for_monotonous_timestamps(
                    |n: &u64| *n as i64 * 10,
                ))
                .filter(|n| n % 3 != 0)
                .rebalance()
                .map(|n| n + 1_000_000)
                .flat_map(|n, out| out.collect_all([n, n]))
                .try_map(|n| Ok::<_, BoxError>(n - 1_000_000))
                .key_by(|n| n)
                .flat_map_with_state("n", |_, n, _: &mut Option<u64>, out| out.collect(n))
                .inspect(|_| {})
                .process(Stamps)
                .map(|(n, time)| (n, time == Some(n as i64 * 10)))
                .collect();
        });
        let tmp = tempfile::tempdir().unwrap();
        let mut harness = Harness::new(tmp.path());
        if serialize {
            harness = harness.serialize();
        }
        let outcome = harness.run(&job).unwrap();
        let lines = crate::api::tests::lines(&outcome);
        assert_eq!(lines.len(), 2 * (5_000 - 1_667));
        assert!(lines.iter().all(|line| line.ends_with("\ttrue")), "{:?}", lines.first());
    }
}

#[test]
fn a_stream_has_no_times_until_it_is_given_some() {
    let job = built(1, |env| {
        let plain = env.sequence(0..3);
        plain.process(Stamps).map(|(n, time)| (n, time.unwrap_or(-1))).collect();
        plain
            .flat_map(|n, out| out.collect_at(n, 7))
            .process(Stamps)
            .map(|(n, time)| (n, time.unwrap_or(-1)))
            .collect();
    });
    let outcome = run(&job);
    let of = |sink: usize| String::from_utf8(outcome.collected[sink].join(&b' ')).unwrap();
    assert_eq!((of(0), of(1)), ("0\t-1 1\t-1 2\t-1".into(), "0\t7 1\t7 2\t7".into()));
}

/// Doubles the time that the source gave.
#[derive(Clone)]
struct Doubled;

impl TimestampAssigner<u64> for Doubled {
    fn timestamp(&mut self, _: &u64, given: i64) -> i64 {
        given * 2
    }
}

#[test]
fn an_assigner_of_ones_own_sees_the_time_that_the_source_gave() {
    let job = built(1, |env| {
        let generator = BoundedOutOfOrderness::new(Duration::ZERO);
        let strategy = WatermarkStrategy::for_source_timestamps(generator)
            .with_idleness(Duration::from_secs(60))
            .with_timestamp_assigner(Doubled);
        assert_eq!(strategy.idleness, Some(Duration::from_secs(60)));
        env.sequence(0..2)
            .flat_map(|n, out| out.collect_at(n, 7))
            .assign_timestamps_and_watermarks(strategy)
            .process(Stamps)
            .map(|(n, time)| (n, time.unwrap_or(-1)))
            .collect();
    });
    assert_eq!(crate::api::tests::lines(&run(&job)), ["0\t14", "1\t14"]);
}

#[test]
fn no_record_follows_a_watermark_that_has_passed_its_time() {
    for (parallelism, serialize) in [(1, false), (3, false), (3, true)] {
        let job = built(parallelism, |env| {
            let strategy = WatermarkStrategy::for_bounded_out_of_orderness(
                Duration::from_millis(300),
                // Up to 249 ms too late.
                |n: &u64| (*n as i64 / 250) * 250 + (n * 7 % 250) as i64,
            );
            env.sequence(0..20_000)
                .assign_timestamps_and_watermarks(strategy)
                .rebalance()
                .transform("probe", Probe::default)
                .set_parallelism(1)
                .collect();
        });
        let tmp = tempfile::tempdir().unwrap();
        let mut harness = Harness::new(tmp.path()).channel_batches(2);
        if serialize {
            harness = harness.serialize();
        }
        let shown = probed(&harness.run(&job).unwrap());
        assert_eq!(times_of(&shown, "record").len(), 20_000);
        let watermarks = times_of(&shown, "watermark");
        assert!(watermarks.len() > 5 && watermarks.is_sorted(), "{watermarks:?}");
        assert_eq!(watermarks.last(), Some(&i64::MAX));
        let mut passed = i64::MIN;
        for (what, ms) in &shown {
            match what.as_str() {
                "watermark" => passed = *ms,
                _ => assert!(*ms > passed, "{ms} after {passed}"),
            }
        }
    }
}

#[test]
fn watermarks_of_a_stream_end_where_it_is_given_new_times() {
    let job = built(1, |env| {
        let monotonous =
            |by: i64| WatermarkStrategy::for_monotonous_timestamps(move |n: &u64| *n as i64 + by);
        env.sequence(0..10)
            .assign_timestamps_and_watermarks(monotonous(1_000))
            .assign_timestamps_and_watermarks(monotonous(0))
            .transform("probe", Probe::default)
            .collect();
    });
    let shown = probed(&run(&job));
    assert_eq!(times_of(&shown, "record"), (0..10).collect::<Vec<i64>>());
    assert_eq!(times_of(&shown, "watermark"), [8, i64::MAX]);
}

/// Two subtasks of which one has no records, at a rate that takes two seconds.
fn one_sided(idleness: Option<Duration>) -> Vec<(String, i64)> {
    let job = built(2, move |env| {
        let mut strategy = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
        if let Some(timeout) = idleness {
            strategy = strategy.with_idleness(timeout);
        }
        env.sequence_with_rate(0..200, 100.0)
            .filter(|n| n % 2 == 0)
            .assign_timestamps_and_watermarks(strategy)
            .rebalance()
            .transform("probe", Probe::default)
            .set_parallelism(1)
            .collect();
    });
    probed(&run(&job))
}

#[test]
fn a_subtask_without_records_holds_the_others_back_until_it_is_declared_idle() {
    let held_back = one_sided(None);
    assert_eq!(times_of(&held_back, "record").len(), 100);
    assert_eq!(times_of(&held_back, "watermark"), [i64::MAX]);

    let idle = one_sided(Some(Duration::from_millis(300)));
    assert_eq!(times_of(&idle, "record").len(), 100);
    let watermarks = times_of(&idle, "watermark");
    assert!(watermarks.len() > 10, "{watermarks:?}");
    let last_record = idle.iter().rposition(|(what, _)| what == "record");
    let first_idle = idle.iter().position(|(what, _)| what == "idle");
    assert!(
        first_idle.is_none() || first_idle > last_record,
        "one of them has records all the time"
    );
}

#[test]
fn a_subtask_is_active_again_with_its_next_record() {
    let job = built(1, |env| {
        let strategy = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
        // A record every 500 ms.
        env.sequence_with_rate(0..4, 2.0)
            .assign_timestamps_and_watermarks(strategy.with_idleness(Duration::from_millis(100)))
            .rebalance()
            .transform("probe", Probe::default)
            .collect();
    });
    let shown = probed(&run(&job));
    assert_eq!(times_of(&shown, "idle"), [1, 0, 1, 0, 1, 0]);
    let order: Vec<&str> = shown.iter().map(|(what, _)| what.as_str()).collect();
    let active_first = order.windows(2).filter(|two| two == &["idle", "record"]).count();
    assert_eq!(active_first, 3, "{order:?}");
    assert_eq!(times_of(&shown, "watermark"), [-1, 0, 1, 2, i64::MAX]);
}

/// Promises by the machine's clock that nothing older than a second comes.
#[derive(Clone)]
struct ByTheClock;

impl WatermarkGenerator<u64> for ByTheClock {
    const PERIODIC: bool = true;
    fn on_event(&mut self, _: &u64, _: i64) -> Option<i64> {
        None
    }
    fn on_periodic(&mut self, now_ms: u64) -> Option<i64> {
        Some(now_ms as i64 - 1_000)
    }
}

#[test]
fn a_generator_that_works_by_the_clock_is_asked_while_no_records_come() {
    let job = built(1, |env| {
        let strategy = WatermarkStrategy::for_generator(ByTheClock, |n: &u64| *n as i64);
        env.sequence_with_rate(0..2, 0.5)
            .assign_timestamps_and_watermarks(strategy)
            .transform("probe", Probe::default)
            .collect();
    });
    let watermarks = times_of(&probed(&run(&job)), "watermark");
    let steps: Vec<i64> = watermarks.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(steps[..8].iter().all(|step| *step == 200), "{watermarks:?}");
}

/// Promises after each record what its own number says.
#[derive(Clone)]
struct Punctuated;

impl WatermarkGenerator<u64> for Punctuated {
    fn on_event(&mut self, n: &u64, timestamp: i64) -> Option<i64> {
        n.is_multiple_of(100).then_some(timestamp)
    }
    fn on_periodic(&mut self, _: u64) -> Option<i64> {
        None
    }
}

#[test]
fn a_watermark_for_a_record_goes_behind_its_batch_and_never_back() {
    let job = built(1, |env| {
        let strategy =
            WatermarkStrategy::for_generator(
                Punctuated,
                |n: &u64| if *n == 300 { 0 } else { *n as i64 },
            );
        env.sequence(0..350)
            .assign_timestamps_and_watermarks(strategy)
            .transform("probe", Probe::default)
            .collect();
    });
    let shown = probed(&run(&job));
    // Batches of 32, 64, 128 and 126 records.
    assert_eq!(times_of(&shown, "watermark"), [0, 200, i64::MAX]);
    assert!(times_of(&shown, "record").iter().all(|ms| *ms != NO_TIME));
}

/// Counts the records of a key in each second of event time.
#[derive(Clone)]
struct BySecond;

#[derive(crate::state::State)]
#[flott(crate = crate)]
struct Seconds {
    counts: crate::state::MapState<i64, u64>,
}

impl KeyedProcessFunction<u64, u64> for BySecond {
    type State = Seconds;
    type Out = (u64, u64);

    fn process(
        &mut self,
        _: u64,
        seconds: &mut Seconds,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        let last = ctx.timestamp().ok_or("no time")? / 1_000 * 1_000 + 999;
        *seconds.counts.get_or_insert_with(last, || 0)? += 1;
        ctx.timers().event_time(last);
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer,
        seconds: &mut Seconds,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        let count = seconds.counts.take(&timer.timestamp)?.ok_or("no such second")?;
        out.collect((*ctx.key(), count));
        Ok(())
    }
}

#[test]
fn timers_of_event_time_fire_where_time_has_come() {
    for interrupted in [false, true] {
        let interrupt = crate::Interrupt::default();
        if interrupted {
            interrupt.raise();
        }
        let job = built(2, |env| {
            // Ten keys, each with 20 records a second, some of them late by up to 380 ms.
            let time = |n: &u64| (*n / 200) as i64 * 1_000 + (n * 7 % 20) as i64 * 20;
            env.sequence(0..2_000)
                .assign_timestamps_and_watermarks(WatermarkStrategy::for_bounded_out_of_orderness(
                    Duration::from_millis(500),
                    time,
                ))
                .key_by_value(|n| n % 10)
                .process(BySecond)
                .process(Stamped)
                .collect();
        });
        let tmp = tempfile::tempdir().unwrap();
        let harness = Harness::new(tmp.path()).channel_batches(2).interrupt(interrupt);
        let lines = crate::api::tests::lines(&harness.run(&job).unwrap());
        let expected = (0..10).flat_map(|key| (0..10).map(move |second| (key, second)));
        let mut expected: Vec<String> =
            expected.map(|(key, second)| format!("{key}\t20\t{}", second * 1_000 + 999)).collect();
        expected.sort();
        assert_eq!(lines, expected);
    }
}

/// Shows a pair with its time.
#[derive(Clone)]
struct Stamped;

impl ProcessFunction<(u64, u64)> for Stamped {
    type Out = (u64, u64, i64);
    fn process(
        &mut self,
        pair: (u64, u64),
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        let time = out.timestamp().ok_or("no time")?;
        out.collect((pair.0, pair.1, time));
        Ok(())
    }
}

/// Emits a second after the first record of a key.
#[derive(Clone)]
struct Later;

impl KeyedProcessFunction<u64, u64> for Later {
    type State = Option<u64>;
    type Out = u64;

    fn process(
        &mut self,
        n: u64,
        first: &mut Option<u64>,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        if first.is_none() {
            let now = i64::try_from(ctx.operator().now_unix_ms())?;
            ctx.timers().processing_time(now + 1_000);
            ctx.timers().processing_time(now + 50);
            ctx.timers().delete_processing_time(now + 50);
            *first = Some(n);
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer,
        first: &mut Option<u64>,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        assert!(i64::try_from(ctx.operator().now_unix_ms())? >= timer.timestamp);
        assert_eq!((timer.domain, out.timestamp()), (TimeDomain::ProcessingTime, None));
        out.collect(first.take().ok_or("nothing is kept")?);
        Ok(())
    }
}

#[test]
fn timers_of_processing_time_fire_while_no_records_come() {
    let job = built(1, |env| {
        // A record each 700 ms; two keys.
        env.sequence_with_rate(0..8, 1.0 / 0.7).key_by_value(|n| n % 2).process(Later).collect();
    });
    let outcome = run(&job);
    // Key 0 is set at 0 ms, fires at 1000, is set anew by record 2 at 1400 (fires at 2400) and by 4 at 2800 (at 3800), and by
    // record 6 at 4200, which the end of input comes before; key 1 by the records at 700, 2100 and 3500 ms.
    let lines = crate::api::tests::lines(&outcome);
    assert_eq!(lines, ["0", "1", "2", "3", "4", "5"]);
}
