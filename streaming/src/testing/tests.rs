//! The operators that have no tests of their own elsewhere, each through the harness that users have.

use super::*;
use crate::batch::NO_TIME;
use crate::operators::{
    AssignWatermarks, BoxError, Collector, Either, Filter, FlatMap, Inspect, Map, OperatorContext,
    OutputTag, TimeWindow, Timer, TryFilter, TryFlatMap, TryMap, TumblingEventTimeWindows,
    WindowFunction, co_flat_map, co_map,
};
use crate::seam::TaskError;
use crate::sinks::{CommittingSinkWriter, NoCommitter, Sink, SinkWriter, WriterContext};
use crate::state::{ListState, OperatorState, StateField};
use crate::time::WatermarkStrategy;
use std::time::Duration;

mod interrupted;
mod keyed;
mod lines;

/// Returns the output of an operator for some numbers, whose times are the numbers themselves.
fn made<Op>(make: impl Fn() -> Op, numbers: &[u64]) -> Vec<(Op::Out, Option<i64>)>
where
    Op: Operator<u64>,
    Op::Out: PartialEq + std::fmt::Debug,
{
    let records = || numbers.iter().map(|n| (*n, *n as i64));
    let mut whole = operator(make()).open().unwrap();
    whole.push_batch(records()).unwrap();
    let mut interrupted = operator(make()).interrupted().open().unwrap();
    interrupted.push_batch(records()).unwrap();
    let seen = whole.timed_output();
    assert_eq!(interrupted.timed_output(), seen, "whatever a step's length");
    assert_eq!(whole.output(), [], "it is taken out once");
    whole.watermark(99).unwrap();
    assert_eq!(whole.last_watermark(), Some(99));
    seen
}

#[test]
fn records_keep_their_times_on_their_way() {
    let numbers = [1_u64, 2, 3];
    assert_eq!(
        made(|| Map::new(|n: u64| n * 10), &numbers),
        [(10, Some(1)), (20, Some(2)), (30, Some(3))]
    );
    assert_eq!(made(|| Filter::new(|n: &u64| *n != 2), &numbers), [(1, Some(1)), (3, Some(3))]);
    assert_eq!(made(|| Inspect::new(|_: &u64| {}), &numbers).len(), 3);
    let twice =
        |n: u64, out: &mut Collector<u64>| out.collect_all(std::iter::repeat_n(n, n as usize - 1));
    assert_eq!(made(|| FlatMap::new(twice), &numbers), [(2, Some(2)), (3, Some(3)), (3, Some(3))]);
    let all = |n: u64| Ok::<_, BoxError>(n);
    assert_eq!(made(|| TryMap::new(all), &numbers).len(), 3);
    let most = |n: &u64| Ok::<_, BoxError>(*n > 1);
    assert_eq!(made(|| TryFilter::new(most), &numbers), [(2, Some(2)), (3, Some(3))]);
    let one = |n: u64, out: &mut Collector<u64>| -> Result<(), BoxError> {
        out.collect_at(n, 7);
        Ok(())
    };
    assert_eq!(made(|| TryFlatMap::new(one), &numbers), [(1, Some(7)), (2, Some(7)), (3, Some(7))]);
}

#[test]
fn functions_of_connected_streams_get_the_records_of_their_stream() {
    let text = |text: &str| text.to_owned();
    let records =
        || [(Either::Left(2_u64), 1), (Either::Right(text("a")), 2), (Either::Left(0), 3)];
    for interrupted in [false, true] {
        let map = operator(co_map(|n: u64| n.to_string(), |text: String| text + "!"));
        let mut map = if interrupted { map.interrupted() } else { map }.open().unwrap();
        map.push_batch(records()).unwrap();
        map.watermark(3).unwrap();
        let mapped = [(text("2"), Some(1)), (text("a!"), Some(2)), (text("0"), Some(3))];
        assert_eq!((map.timed_output(), map.last_watermark()), (mapped.to_vec(), Some(3)));

        let flat = operator(co_flat_map(
            |n: u64, out: &mut Collector<String>| {
                (0..n).for_each(|i| out.collect(i.to_string()));
            },
            |text: String, out: &mut Collector<String>| out.collect_at(text, 9),
        ));
        let mut flat = if interrupted { flat.interrupted() } else { flat }.open().unwrap();
        flat.push_batch(records()).unwrap();
        let made = [(text("0"), Some(1)), (text("1"), Some(1)), (text("a"), Some(9))];
        assert_eq!(flat.timed_output(), made);
    }
}

#[test]
fn an_error_names_the_operator() {
    let refuse = |n: u64| if n == 2 { Err("two") } else { Ok(n) };
    let mut test = operator(TryMap::new(refuse)).open().unwrap();
    test.push(1).unwrap();
    let error = test.push(2).unwrap_err();
    assert_eq!(
        (test.output(), error.to_string().as_str()),
        (vec![1], "operator 'test' failed: two")
    );
}

#[test]
fn watermarks_are_those_of_the_strategy() {
    let strategy = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
    let mut test = operator(AssignWatermarks::new(strategy)).open().unwrap();
    test.push(10).unwrap();
    test.push(30).unwrap();
    test.advance_clock_to(1_000).unwrap();
    assert_eq!(test.last_watermark(), Some(29));
    test.watermark(5_000).unwrap();
    assert_eq!(test.last_watermark(), Some(29), "what came before the strategy does not count");
    assert_eq!(test.timed_output(), [(10, Some(10)), (30, Some(30))]);
}

const LATE: OutputTag<u64> = OutputTag::new("late");

#[test]
fn side_outputs_are_read_where_they_were_asked_for() {
    let function = |n: u64, out: &mut Collector<u64>| out.collect_to(&LATE, n);
    let mut test = operator(FlatMap::new(function)).side_output(&LATE).open().unwrap();
    test.push(1).unwrap();
    assert_eq!((test.side_output(&LATE).unwrap(), test.output()), (vec![1], vec![]));
    assert!(test.side_output(&LATE).unwrap().is_empty());
    let error = test.side_output(&OutputTag::<u64>::new("other")).unwrap_err().to_string();
    assert!(error.contains("'other'") && error.contains("before open"), "{error}");
    let mut other = operator(FlatMap::new(function)).open().unwrap();
    other.push(1).unwrap();
}

/// Emits the sum of a key's numbers 100 ms of the clock after the first.
#[derive(Clone)]
struct Sums;

impl KeyedProcessFunction<u64, (u64, u64)> for Sums {
    type State = Option<u64>;
    type Out = (u64, u64);
    fn process(
        &mut self,
        (_, n): (u64, u64),
        sum: &mut Option<u64>,
        ctx: &mut crate::operators::Context<'_, u64>,
        _out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        if sum.is_none() {
            let now = ctx.operator().now_unix_ms() as i64;
            ctx.timers().processing_time(now + 100);
        }
        *sum.get_or_insert(0) += n;
        Ok(())
    }
    fn on_timer(
        &mut self,
        _timer: Timer,
        sum: &mut Option<u64>,
        ctx: &mut crate::operators::Context<'_, u64>,
        out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        out.collect((*ctx.key(), sum.take().unwrap_or(0)));
        Ok(())
    }
}

#[test]
fn the_clock_fires_timers_and_snapshots_hold_them() {
    let mut test = keyed(|(key, _): &(u64, u64)| key, Sums).open().unwrap();
    test.push((1, 5)).unwrap();
    test.advance_clock_to(50).unwrap();
    test.push((2, 1)).unwrap();
    test.push((1, 6)).unwrap();
    assert_eq!((test.state(&1), test.state(&3)), (Some(&Some(11)), None));
    let timer =
        |timestamp| Timer { timestamp, domain: crate::operators::TimeDomain::ProcessingTime };
    assert_eq!(test.timers(), [(1, timer(100)), (2, timer(150))]);
    test.advance_clock_to(120).unwrap();
    assert_eq!((test.output(), test.state(&1)), (vec![(1, 11)], None));
    let snapshots = test.snapshot().unwrap();
    for parallelism in [1, 2] {
        let mut sums = Vec::new();
        for subtask in 0..parallelism {
            let key = |(key, _): &(u64, u64)| *key;
            let restored = keyed_by_value(key, Sums).subtask(subtask, parallelism);
            let mut restored = restored.restore(snapshots.clone()).open().unwrap();
            restored.advance_clock_to(1_000).unwrap();
            sums.append(&mut restored.output());
        }
        assert_eq!(sums, [(2, 1)]);
    }
    assert!(keyed(|(key, _): &(u64, u64)| key, Sums).restore([vec![1, 2, 3]]).open().is_err());
}

#[test]
fn no_timer_fires_behind_the_end_of_input() {
    let mut test = keyed(|(key, _): &(u64, u64)| key, Sums).open().unwrap();
    test.push((1, 5)).unwrap();
    test.advance_clock_to(99).unwrap();
    test.end_of_input().unwrap();
    assert_eq!(test.output(), []);
    // While the task waits for the final checkpoint.
    test.advance_clock_to(1_000).unwrap();
    assert_eq!(test.output(), []);
    assert_eq!(test.state(&1), Some(&Some(5)));
    test.close().unwrap();
}

#[test]
fn the_end_of_input_drops_timers_of_processing_time_from_the_list_and_from_snapshots() {
    let make = || keyed(|(key, _): &(u64, u64)| key, Sums);
    let mut test = make().open().unwrap();
    (0..2_000).for_each(|key| test.push((key, 5)).unwrap());
    let during = test.snapshot().unwrap();
    test.advance_clock_to(1).unwrap();
    test.push((9_999, 5)).unwrap();
    assert_eq!(test.timers().len(), 2_001);
    test.advance_clock_to(100).unwrap();
    assert_eq!((test.output().len(), test.timers().len()), (2_000, 1));
    test.end_of_input().unwrap();
    assert_eq!((test.output(), test.timers()), (Vec::new(), Vec::new()));
    let last = test.barrier(2, true).unwrap();
    for (snapshot, fires) in [(during, 2_000), (last, 0)] {
        let mut restored = make().restore(snapshot).open().unwrap();
        restored.advance_clock_to(1_000).unwrap();
        assert_eq!(restored.output().len(), fires);
    }
    // A whole job does the same: its clock does not reach the timers before its end.
    let job = crate::api::tests::built(1, |env| {
        let pairs = env.from_collection([(1_u64, 5_u64), (2, 6)]);
        pairs.key_by_value(|(key, _)| *key).process(Sums).collect();
    });
    assert!(crate::api::tests::lines(&crate::api::tests::run(&job)).is_empty());
}

/// Sends on what is not forbidden.
#[derive(Clone)]
struct Allowed;

impl KeyedBroadcastProcessFunction<u64, (u64, u64), u64> for Allowed {
    type State = Option<u64>;
    type Broadcast = Vec<u64>;
    type Out = u64;
    fn create_broadcast(&self) -> Vec<u64> {
        Vec::new()
    }
    fn process(
        &mut self,
        (key, n): (u64, u64),
        last: &mut Option<u64>,
        forbidden: &Vec<u64>,
        _ctx: &mut crate::operators::Context<'_, u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        if !forbidden.contains(&key) {
            *last = Some(n);
            out.collect(n);
        }
        Ok(())
    }
    fn process_broadcast(
        &mut self,
        key: u64,
        forbidden: &mut Vec<u64>,
        _out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        forbidden.push(key);
        Ok(())
    }
}

impl BroadcastProcessFunction<u64, u64> for Allowed {
    type Broadcast = Vec<u64>;
    type Out = u64;
    fn create_broadcast(&self) -> Vec<u64> {
        Vec::new()
    }
    fn process(
        &mut self,
        key: u64,
        forbidden: &Vec<u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        if !forbidden.contains(&key) {
            out.collect(key);
        }
        Ok(())
    }
    fn process_broadcast(
        &mut self,
        key: u64,
        forbidden: &mut Vec<u64>,
        _out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        forbidden.push(key);
        Ok(())
    }
}

#[test]
fn both_inputs_are_pushed_to() {
    let mut keyed = keyed_broadcast(|(key, _): &(u64, u64)| key, Allowed).open().unwrap();
    keyed.push1((1, 10)).unwrap();
    keyed.push2(1).unwrap();
    keyed.push1((1, 11)).unwrap();
    keyed.push1_at((2, 20), 5).unwrap();
    assert_eq!(keyed.timed_output(), [(10, None), (20, Some(5))]);
    assert_eq!((keyed.broadcast_state(), keyed.state(&1)), (&vec![1], Some(&Some(10))));
    let snapshot = keyed.snapshot().unwrap();
    let restored = keyed_broadcast(|(key, _): &(u64, u64)| key, Allowed).restore(snapshot);
    let mut restored = restored.open().unwrap();
    restored.push1((1, 12)).unwrap();
    assert_eq!((restored.output(), restored.state(&2)), (vec![], Some(&Some(20))));

    let mut plain = broadcast::<u64, u64, _>(Allowed).open().unwrap();
    plain.push2_at(3, 9).unwrap();
    plain.push_batch([3, 4].map(|n| (Either::Left(n), NO_TIME))).unwrap();
    assert_eq!(plain.output(), [4]);
}

/// Answers with the clock, whenever it is asked.
#[derive(Clone)]
struct Clock;

impl crate::time::WatermarkGenerator<u64> for Clock {
    const PERIODIC: bool = true;
    fn on_event(&mut self, _: &u64, _: i64) -> Option<i64> {
        None
    }
    fn on_periodic(&mut self, now_ms: u64) -> Option<i64> {
        Some(now_ms as i64)
    }
}

#[test]
fn an_interval_of_zero_asks_a_generator_behind_batches_alone() {
    let assign =
        || AssignWatermarks::new(WatermarkStrategy::for_generator(Clock, |n: &u64| *n as i64));
    let mut asked =
        operator(assign()).option("pipeline.auto-watermark-interval", "1 s").open().unwrap();
    asked.advance_clock_to(2_500).unwrap();
    assert_eq!(asked.last_watermark(), Some(2_000));
    let mut off =
        operator(assign()).option("pipeline.auto-watermark-interval", "0").open().unwrap();
    off.advance_clock_to(2_500).unwrap();
    assert_eq!(off.last_watermark(), None);
    off.push(1).unwrap();
    assert_eq!(off.last_watermark(), Some(2_500));
}

#[test]
fn the_last_number_there_is_comes_from_a_sequence_without_an_end() {
    let job = crate::api::tests::built(1, |env| drop(env.sequence(u64::MAX - 1..).collect()));
    let outcome = crate::api::tests::run(&job);
    let last = [u64::MAX - 1, u64::MAX].map(|n| n.to_string());
    assert_eq!(crate::api::tests::lines(&outcome), last);
    let job = crate::api::tests::built(1, |env| {
        env.sequence(u64::MAX - 1..=u64::MAX).collect();
    });
    let bounded = crate::api::tests::lines(&crate::api::tests::run(&job));
    assert_eq!(bounded, [(u64::MAX - 1).to_string()], "as the description of the method says");
}

#[test]
fn what_no_task_passes_in_is_passed_on_as_the_description_says() {
    let windows = crate::operators::TumblingEventTimeWindows::of(Duration::from_millis(10));
    let mut test = key_by_value(|n: &u64| n % 2).window(windows).count().open().unwrap();
    test.push_at(2, 5).unwrap();
    test.watermark(20).unwrap();
    assert_eq!(test.output(), [(0, 1)]);
    test.watermark(3).unwrap();
    assert_eq!(test.last_watermark(), Some(3), "it is passed on as it is");
    test.push_at(2, 6).unwrap();
    test.end_of_input().unwrap();
    assert_eq!(test.output(), [], "the record is late by the greatest watermark");

    let mut map = operator(Map::new(|n: u64| n * 10)).open().unwrap();
    map.end_of_input().unwrap();
    map.push(4).unwrap();
    assert_eq!(map.output(), [40]);
}

/// Hands numbers on in pairs.
#[derive(Clone)]
struct Pairs;

#[derive(derive::OperatorState)]
#[flott(crate = crate)]
struct Half {
    first: ListState<u64>,
}

impl StatefulProcessFunction<u64> for Pairs {
    type State = Half;
    type Out = (u64, u64);
    fn process(
        &mut self,
        n: u64,
        half: &mut Half,
        out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        match half.first.take()?.pop() {
            Some(first) => out.collect((first, n)),
            None => half.first.push(n),
        }
        Ok(())
    }
}

#[test]
fn a_subtask_finds_its_own_state_again() {
    let opened = |subtask, of, snapshots: &[Vec<u8>]| {
        let test = process_with_state(Pairs).subtask(subtask, of).restore(snapshots.to_vec());
        test.open().unwrap()
    };
    let mut test = opened(0, 1, &[]);
    for n in [1, 2, 3] {
        test.push(n).unwrap();
    }
    assert_eq!(test.output(), [(1, 2)]);
    assert_eq!(test.operator_state().first.get().unwrap(), [3]);
    let snapshots = test.snapshot().unwrap();
    let mut seen = Vec::new();
    for subtask in 0..2 {
        let mut restored = opened(subtask, 2, &snapshots);
        for n in [4, 5] {
            restored.push(n).unwrap();
        }
        seen.push(restored.output());
    }
    assert_eq!(seen, [vec![(4, 5)], vec![(3, 4)]], "the waiting number is in one of two subtasks");
    let error = process_with_state(Pairs).restore([vec![1, 2, 3]]).open().map(drop).unwrap_err();
    assert!(error.to_string().contains("cannot decode"), "{error}");
}

/// Returns a subtask that is idle after `timeout`.
fn idle_after(timeout: Duration) -> OperatorHarness<u64, impl Operator<u64, Out = u64>> {
    let strategy = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
    operator(AssignWatermarks::new(strategy.with_idleness(timeout))).open().unwrap()
}

#[test]
fn a_subtask_is_idle_no_sooner_than_its_timeout_after_a_record() {
    for timeout in [1, 3, 100, 101] {
        for offset in 0..timeout {
            let mut test = idle_after(Duration::from_millis(timeout));
            test.advance_clock_to(offset).unwrap();
            test.push(1).unwrap();
            test.advance_clock_to(offset + timeout - 1).unwrap();
            assert!(!test.output.is_idle(), "{timeout} ms, record at {offset}");
            test.advance_clock_to(offset + timeout + timeout.div_ceil(2) + 2).unwrap();
            assert!(test.output.is_idle(), "{timeout} ms, record at {offset}");
            let again = offset + 2 * timeout + 10;
            test.advance_clock_to(again).unwrap();
            test.push(2).unwrap();
            test.advance_clock_to(again + timeout - 1).unwrap();
            assert!(!test.output.is_idle(), "{timeout} ms, record at {again}");
        }
    }
}

#[test]
fn a_subtask_with_a_timeout_of_zero_looks_at_most_once_a_millisecond() {
    let mut test = idle_after(Duration::ZERO);
    test.push(1).unwrap();
    assert_eq!(test.host.next_timer(0), None);
    test.advance_clock_to(10).unwrap();
    assert!(test.output.is_idle());
}

#[test]
fn an_option_that_is_no_duration_fails_the_task_and_is_named() {
    let assign =
        || AssignWatermarks::new(WatermarkStrategy::for_generator(Clock, |n: &u64| *n as i64));
    let key = "pipeline.auto-watermark-interval";
    let mut test = operator(assign()).option(key, "1 second").open().unwrap();
    test.advance_clock_to(2_500).unwrap();
    assert_eq!(test.last_watermark(), Some(2_000), "each unit that the configuration takes");
    let error = operator(assign()).option(key, "1 parsec").open().map(drop).unwrap_err();
    assert!(
        error.to_string().contains("'pipeline.auto-watermark-interval': '1 parsec'"),
        "{error}"
    );
    assert!(!error.is_recoverable());
    let mut short = operator(assign()).option(key, "1 ns").open().unwrap();
    short.advance_clock_to(10).unwrap();
    assert_eq!(short.last_watermark(), Some(10), "at most once a millisecond");
}

/// Emits the sum of both inputs of a key.
#[derive(Clone)]
struct Both;

impl KeyedCoProcessFunction<u64, u64, (u64, u64)> for Both {
    type State = Option<u64>;
    type Out = u64;
    fn process1(
        &mut self,
        n: u64,
        sum: &mut Option<u64>,
        _ctx: &mut crate::operators::Context<'_, u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        let sum = sum.get_or_insert(0);
        *sum += n;
        out.collect(*sum);
        Ok(())
    }
    fn process2(
        &mut self,
        (_, n): (u64, u64),
        sum: &mut Option<u64>,
        _ctx: &mut crate::operators::Context<'_, u64>,
        _out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        *sum.get_or_insert(0) += n;
        Ok(())
    }
}

#[test]
fn both_inputs_of_a_key_share_its_state() {
    let made = || keyed_connected(|n: &u64| n, |(key, _): &(u64, u64)| key, Both);
    let mut test = made().open().unwrap();
    test.push2((7, 10)).unwrap();
    test.push1_at(7, 5).unwrap();
    test.push1(8).unwrap();
    assert_eq!(test.timed_output(), [(17, Some(5)), (8, None)]);
    assert_eq!(test.state(&7), Some(&Some(17)));
    let mut restored = made().restore(test.snapshot().unwrap()).open().unwrap();
    restored.push1(7).unwrap();
    assert_eq!(restored.output(), [24]);
}

/// Returns the words of `control::checkpoints::Incompatible` for a state that the operator does not declare.
fn undeclared(name: &str, kind: &str) -> String {
    format!(
        "does not fit the program: operator 'test' (without a uid) has the {kind} state '{name}' in it, which the program's operator does \
         not declare: declare it, or drop it (--allowNonRestoredState)"
    )
}

/// The Dispatcher refuses a job with such a savepoint.
#[test]
fn a_snapshot_with_broadcast_state_is_refused_by_an_operator_without_any() {
    let broadcast = || keyed_broadcast(|(key, _): &(u64, u64)| key, Allowed);
    let connected = || keyed_connected(|n: &u64| n, |(key, _): &(u64, u64)| key, Both);
    let mut written = broadcast().open().unwrap();
    written.push1((1, 10)).unwrap();
    let snapshot = written.snapshot().unwrap();
    let refused = connected().restore(snapshot.clone()).open().map(drop).unwrap_err();
    assert!(matches!(refused, TaskError::Deployment(_)), "{refused:?}");
    assert!(refused.to_string().ends_with(&undeclared("broadcast", "broadcast")), "{refused}");
    assert!(broadcast().restore(snapshot).open().is_ok());
    // State that is new in the program is no reason.
    let mut without = connected().open().unwrap();
    without.push2((1, 10)).unwrap();
    let restored = broadcast().restore(without.snapshot().unwrap()).open().unwrap();
    assert_eq!((restored.state(&1), restored.broadcast_state()), (Some(&Some(10)), &vec![]));
}

/// The state of the first version of a function, per key or per subtask.
#[derive(derive::OperatorState)]
#[flott(crate = crate)]
struct First {
    kept: ListState<u64>,
    gone: ListState<u64>,
}

/// The state of its second version.
#[derive(derive::OperatorState)]
#[flott(crate = crate)]
struct Second {
    kept: ListState<u64>,
}

/// A version of the function, by the way in which it adds a number to its state.
struct Version<S>(fn(&mut S, u64));

const FIRST: Version<First> = Version(|state, n| {
    state.kept.push(n);
    state.gone.push(n);
});
const SECOND: Version<Second> = Version(|state, n| state.kept.push(n));

impl<S> Clone for Version<S> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<S: OperatorState> KeyedProcessFunction<u64, u64> for Version<S> {
    type State = S;
    type Out = u64;
    fn process(
        &mut self,
        n: u64,
        state: &mut S,
        _ctx: &mut crate::operators::Context<'_, u64>,
        _out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        self.0(state, n);
        Ok(())
    }
}

impl<S: OperatorState> StatefulProcessFunction<u64> for Version<S> {
    type State = S;
    type Out = u64;
    fn process(
        &mut self,
        n: u64,
        state: &mut S,
        _out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        self.0(state, n);
        Ok(())
    }
}

/// The Dispatcher refuses a job with such a savepoint.
#[test]
fn a_field_that_the_new_version_of_a_function_dropped_is_refused_and_a_new_one_is_empty() {
    fn snapshot<Op: Operator<u64>>(made: HarnessBuilder<u64, Op>) -> Vec<Vec<u8>> {
        let mut test = made.open().unwrap();
        test.push(7).unwrap();
        test.snapshot().unwrap()
    }
    fn refused<Op: Operator<u64>>(made: HarnessBuilder<u64, Op>) {
        let refused = made.open().map(drop).unwrap_err();
        assert!(matches!(refused, TaskError::Deployment(_)), "{refused:?}");
        assert!(refused.to_string().ends_with(&undeclared("gone", "list")), "{refused}");
    }
    let key = |n: &u64| *n;
    let of_keys = snapshot(keyed_by_value(key, FIRST));
    refused(keyed_by_value(key, SECOND).restore(of_keys.clone()));
    assert!(keyed_by_value(key, FIRST).restore(of_keys).open().is_ok());
    let of_keys = snapshot(keyed_by_value(key, SECOND));
    let test = keyed_by_value(key, FIRST).restore(of_keys).open().unwrap();
    let empty = |state: &First| [&state.kept, &state.gone].map(StateField::holds_nothing);
    assert_eq!(test.state(&7).map(empty), Some([false, true]));

    let of_subtask = snapshot(process_with_state(FIRST));
    refused(process_with_state(SECOND).restore(of_subtask));
    let of_subtask = snapshot(process_with_state(SECOND));
    let mut test = process_with_state(FIRST).restore(of_subtask).open().unwrap();
    let state = test.operator_state();
    assert_eq!([state.kept.get().unwrap(), state.gone.get().unwrap()], [&[7][..], &[]]);
}

/// The writer of a version's sink.
struct Keeping<S>(Version<S>, S);

impl<S: OperatorState> SinkWriter<u64> for Keeping<S> {
    fn write(&mut self, n: u64, _: &WriterContext<'_>) -> Result<(), BoxError> {
        (self.0.0)(&mut self.1, n);
        Ok(())
    }
}

impl<S: OperatorState> CommittingSinkWriter<u64> for Keeping<S> {
    type Committable = u64;
    type State = S;
    fn prepare_commit(&mut self) -> Result<Vec<u64>, BoxError> {
        Ok(Vec::new())
    }
    fn snapshot_state(&mut self, _: u64) -> Result<S, BoxError> {
        Ok(std::mem::replace(&mut self.1, S::empty()))
    }
}

impl<S: OperatorState> Sink<u64> for Version<S> {
    type Committable = u64;
    type Writer = Keeping<S>;
    type Committer = NoCommitter;
    type GlobalCommitter = NoCommitter;
    fn create_writer(&self, _: &OperatorContext) -> Result<Keeping<S>, BoxError> {
        Ok(Keeping(self.clone(), S::empty()))
    }
    fn create_committer(&self, _: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
    fn create_global_committer(&self, _: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
}

#[test]
fn a_field_that_the_new_version_of_a_sinks_writer_dropped_is_refused() {
    let mut test = sink::<u64, _>(FIRST).open().unwrap();
    test.push(0, 7).unwrap();
    let checkpoint = test.barrier(1, false).unwrap();
    assert!(sink::<u64, _>(FIRST).restore(checkpoint.clone()).open().is_ok());
    let refused = sink::<u64, _>(SECOND).restore(checkpoint).open().map(drop).unwrap_err();
    assert!(refused.to_string().ends_with(&undeclared("gone", "list")), "{refused}");
}

#[test]
fn checksums_and_sinks_take_every_record() {
    let mut sum = operator(crate::sinks::Checksum::default()).interrupted().open().unwrap();
    sum.push_batch([3_u64, 4].map(|n| (n, NO_TIME))).unwrap();
    assert_eq!(sum.output(), []);
    sum.end_of_input().unwrap();
    let hashes = crate::types::key_hash(&3_u64).wrapping_add(crate::types::key_hash(&4_u64));
    assert_eq!(sum.output(), [(2, hashes)]);
    let mut discard = operator::<u64, _>(crate::sinks::Discard).open().unwrap();
    discard.push(1).unwrap();
    discard.end_of_input().unwrap();
    assert_eq!(discard.output(), []);
}

/// A rule, of which none is there by default.
#[derive(derive::FlottType)]
#[flott(crate = crate)]
struct AtMost(u64);

/// Lets numbers through that are at most as large as the newest limit, which is `first` at the beginning.
#[derive(Clone)]
struct Limited {
    first: u64,
}

impl BroadcastProcessFunction<u64, u64> for Limited {
    type Broadcast = AtMost;
    type Out = u64;
    fn create_broadcast(&self) -> AtMost {
        AtMost(self.first)
    }
    fn process(&mut self, n: u64, most: &AtMost, out: &mut Collector<u64>) -> Result<(), BoxError> {
        if n <= most.0 {
            out.collect(n);
        }
        Ok(())
    }
    fn process_broadcast(
        &mut self,
        limit: u64,
        most: &mut AtMost,
        _out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        *most = AtMost(limit);
        Ok(())
    }
}

#[test]
fn broadcast_state_begins_as_the_function_says_and_continues_from_a_snapshot() {
    let made = |first| broadcast::<u64, u64, _>(Limited { first });
    let mut test = made(3).open().unwrap();
    for n in [3, 4] {
        test.push1(n).unwrap();
    }
    test.push2(10).unwrap();
    test.push1(9).unwrap();
    assert_eq!(test.output(), [3, 9]);
    let restored = made(1).restore(test.snapshot().unwrap()).open().unwrap();
    assert_eq!(restored.broadcast_state().0, 10);
}

/// Emits each key of a window, the even ones at a time of their own.
#[derive(Clone)]
struct OwnTimes;

impl WindowFunction<u64, u64> for OwnTimes {
    type Out = u64;
    fn process(
        &mut self,
        key: &u64,
        _window: TimeWindow,
        _records: Vec<u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        if key.is_multiple_of(2) {
            out.set_time(42);
        }
        out.collect(*key);
        Ok(())
    }
}

#[test]
fn a_time_that_a_window_function_sets_is_that_of_its_call_alone() {
    let windows = TumblingEventTimeWindows::of(Duration::from_millis(100));
    let mut test = key_by_value(|n: &u64| *n).window(windows).process(OwnTimes).open().unwrap();
    (0..50).for_each(|n| test.push_at(n, 110).unwrap());
    test.watermark(199).unwrap();
    let emitted = test.timed_output();
    assert_eq!(emitted.len(), 50);
    for (key, time) in emitted {
        assert_eq!(time, Some(if key % 2 == 0 { 42 } else { 199 }), "key {key}");
    }
}

/// Sets a time in its timer, and emits a record at the end.
#[derive(Clone)]
struct Ends;

impl KeyedProcessFunction<u64, u64> for Ends {
    type State = Option<u64>;
    type Out = u64;
    fn process(
        &mut self,
        _: u64,
        _: &mut Option<u64>,
        ctx: &mut crate::operators::Context<'_, u64>,
        _: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        let now = ctx.operator().now_unix_ms() as i64;
        ctx.timers().processing_time(now);
        Ok(())
    }
    fn on_timer(
        &mut self,
        _: Timer,
        _: &mut Option<u64>,
        _: &mut crate::operators::Context<'_, u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        out.set_time(42);
        out.collect(1);
        Ok(())
    }
    fn finish(&mut self, out: &mut Collector<u64>) -> Result<(), BoxError> {
        out.collect(2);
        Ok(())
    }
}

#[test]
fn what_is_emitted_at_the_end_does_not_get_the_time_that_a_timer_has_set() {
    let mut test = key_by_value(|n: &u64| *n).process(Ends).open().unwrap();
    test.push(5).unwrap();
    test.end_of_input().unwrap();
    assert_eq!(test.timed_output(), [(1, Some(42)), (2, None)]);
}
