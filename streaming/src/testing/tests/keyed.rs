//! The folds and windows of keyed streams, each through the harness that users have.

use super::*;
use crate::operators::{
    AggregateFunction, EventTimeSessionWindows, InspectKeyed, ProcessingTimeSessionWindows,
    SlidingEventTimeWindows, SlidingProcessingTimeWindows, TimeWindow, TumblingEventTimeWindows,
    TumblingProcessingTimeWindows, WindowFunction,
};
use std::fmt::Debug;

/// A key and a number.
type Pair = (u8, u64);

fn of_pair() -> KeyedTest<Pair, impl crate::operators::KeySelector<Pair, Key = u8>> {
    key_by(|(key, _): &Pair| key)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the output of a fold over records of two keys, which the fold emits after each record if `at_end` is false, and at the
/// end of input otherwise. The second half of the records goes to two subtasks that are restored from the snapshot of one, and each
/// step ends after one record.
fn folded<Op>(at_end: bool, make: impl Fn() -> HarnessBuilder<Pair, Op>) -> Vec<Op::Out>
where
    Op: Operator<Pair> + InspectKeyed<Key = u8>,
    Op::Out: Ord,
{
    let mut first = make().interrupted().open().unwrap();
    first.push_batch([((1, 3), 7), ((2, 5), 8), ((1, 4), 9)]).unwrap();
    assert!(first.timers().is_empty() && first.state(&3).is_none());
    assert!(first.state(&1).is_some() && first.metric("stateBytes").is_some_and(|n| n > 0));
    let mut seen = first.output();
    assert_eq!(seen.len(), if at_end { 0 } else { 3 });
    let snapshot = first.snapshot().unwrap();
    for subtask in 0..2 {
        let restored = make().subtask(subtask, 2).restore(snapshot.clone());
        let mut restored = restored.interrupted().open().unwrap();
        let own: Vec<u8> = [1, 2].into_iter().filter(|k| restored.state(k).is_some()).collect();
        restored.push_batch(own.iter().map(|key| ((*key, 10), 20))).unwrap();
        restored.end_of_input().unwrap();
        seen.append(&mut restored.output());
    }
    seen.sort();
    seen
}

#[test]
fn every_fold_emits_its_values_now_or_at_the_end() {
    let greatest = |most: &mut u64, (_, n): Pair| *most = n.max(*most);
    let merge = |all: &mut Pair, (_, n): Pair| all.1 += n;
    let keyed = of_pair();
    assert_eq!(folded(false, || keyed.count()), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]);
    let sums = [(1, 3), (1, 7), (1, 17), (2, 5), (2, 15)];
    assert_eq!(folded(false, || keyed.sum(|(_, n)| *n)), sums);
    assert_eq!(folded(false, || keyed.reduce(merge)), sums);
    assert_eq!(
        folded(false, || keyed.fold(4, greatest)),
        [(1, 4), (1, 4), (1, 10), (2, 5), (2, 10)]
    );
    let running = |key: &u8, (_, n): Pair, last: &mut Option<u64>, out: &mut Collector<Pair>| {
        out.collect((*key, n + last.replace(n).unwrap_or(0)));
    };
    let pairs = [(1, 3), (1, 7), (1, 14), (2, 5), (2, 15)];
    assert_eq!(folded(false, || keyed.flat_map_with_state(running)), pairs);

    let keyed = of_pair().at_end();
    assert_eq!(folded(true, || keyed.count()), [(1, 3), (2, 2)]);
    assert_eq!(folded(true, || keyed.sum(|(_, n)| *n)), [(1, 17), (2, 15)]);
    assert_eq!(folded(true, || keyed.reduce(merge)), [(1, 17), (2, 15)]);
    assert_eq!(folded(true, || keyed.fold(4, greatest)), [(1, 10), (2, 10)]);
}

/// Emits a window with its key and the numbers in it.
#[derive(Clone)]
struct Show;

type Shown = (u8, i64, i64, Vec<u64>);

impl WindowFunction<u8, Pair> for Show {
    type Out = Shown;
    fn process(
        &mut self,
        key: &u8,
        window: TimeWindow,
        records: Vec<Pair>,
        out: &mut Collector<Shown>,
    ) -> Result<(), BoxError> {
        let numbers = records.into_iter().map(|(_, n)| n).collect();
        out.collect((*key, window.start(), window.last(), numbers));
        Ok(())
    }
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}

/// Returns the output of a computation over windows of event time: half of the records come before a checkpoint, the other half to the
/// subtask that is restored from it.
fn windowed<Op>(make: impl Fn() -> HarnessBuilder<Pair, Op>) -> Vec<(Op::Out, Option<i64>)>
where
    Op: Operator<Pair>,
    Op::Out: Ord + Debug,
{
    let run = |interrupted: bool| {
        let prepared = || if interrupted { make().interrupted() } else { make() };
        let mut test = prepared().open().unwrap();
        test.push_batch([((1, 2), 2), ((2, 3), 3), ((1, 12), 12)]).unwrap();
        test.watermark(9).unwrap();
        let mut seen = test.timed_output();
        let snapshot = test.snapshot().unwrap();
        let mut test = prepared().restore(snapshot).open().unwrap();
        test.push_batch([((1, 14), 14), ((1, 40), 40)]).unwrap();
        test.end_of_input().unwrap();
        seen.append(&mut test.timed_output());
        sorted(seen)
    };
    let whole = run(false);
    assert_eq!(run(true), whole, "whatever the length of a step");
    whole
}

#[test]
fn every_kind_of_event_time_window_has_its_records() {
    let shown =
        |key, from: i64, to: i64, numbers: &[u64]| ((key, from, to, numbers.to_vec()), Some(to));
    let tumbling = || of_pair().window(TumblingEventTimeWindows::of(ms(10))).process(Show);
    assert_eq!(
        windowed(tumbling),
        [
            shown(1, 0, 9, &[2]),
            shown(1, 10, 19, &[12, 14]),
            shown(1, 40, 49, &[40]),
            shown(2, 0, 9, &[3])
        ]
    );
    let sliding = || of_pair().window(SlidingEventTimeWindows::of(ms(20), ms(10))).process(Show);
    assert_eq!(
        windowed(sliding),
        [
            shown(1, -10, 9, &[2]),
            shown(1, 0, 19, &[2, 12, 14]),
            shown(1, 10, 29, &[12, 14]),
            shown(1, 30, 49, &[40]),
            shown(1, 40, 59, &[40]),
            shown(2, -10, 9, &[3]),
            shown(2, 0, 19, &[3]),
        ]
    );
    let sessions = || of_pair().window(EventTimeSessionWindows::with_gap(ms(11))).process(Show);
    let merged = [shown(1, 2, 24, &[2, 12, 14]), shown(1, 40, 50, &[40]), shown(2, 3, 13, &[3])];
    assert_eq!(windowed(sessions), merged);
    let by_record = |(_, n): &Pair| ms(if *n == 2 { 5 } else { 11 });
    let dynamic = EventTimeSessionWindows::with_dynamic_gap(by_record);
    let apart = [
        shown(1, 2, 6, &[2]),
        shown(1, 12, 24, &[12, 14]),
        shown(1, 40, 50, &[40]),
        shown(2, 3, 13, &[3]),
    ];
    assert_eq!(windowed(|| of_pair().window(dynamic).process(Show)), apart);
}

#[test]
fn every_kind_of_processing_time_window_is_fired_by_the_clock() {
    fn shown<Op: Operator<Pair, Out = Shown>>(test: HarnessBuilder<Pair, Op>) -> Vec<Shown> {
        let mut test = test.open().unwrap();
        for at in [2, 12, 14, 40] {
            test.advance_clock_to(at).unwrap();
            test.push((1, at)).unwrap();
        }
        test.advance_clock_to(49).unwrap();
        let seen = test.output();
        assert!(seen.iter().all(|(.., last, _)| *last < 49), "{seen:?}");
        test.advance_clock_to(1_000).unwrap();
        test.push((1, 7)).unwrap();
        test.end_of_input().unwrap();
        let seen = [seen, test.output()].concat();
        test.advance_clock_to(10_000).unwrap();
        assert_eq!(test.output(), [], "behind the end of input");
        seen
    }
    let window = |from, to, numbers: &[u64]| (1, from, to, numbers.to_vec());
    let tumbling = TumblingProcessingTimeWindows::of(ms(10));
    assert_eq!(
        shown(of_pair().window(tumbling).process(Show)),
        [window(0, 9, &[2]), window(10, 19, &[12, 14]), window(40, 49, &[40])]
    );
    let sliding = SlidingProcessingTimeWindows::of(ms(20), ms(10));
    assert_eq!(
        shown(of_pair().window(sliding).process(Show)),
        [
            window(-10, 9, &[2]),
            window(0, 19, &[2, 12, 14]),
            window(10, 29, &[12, 14]),
            window(30, 49, &[40]),
            window(40, 59, &[40]),
        ]
    );
    let sessions = ProcessingTimeSessionWindows::with_gap(ms(11));
    assert_eq!(
        shown(of_pair().window(sessions).process(Show)),
        [window(2, 24, &[2, 12, 14]), window(40, 50, &[40])]
    );
}

#[test]
fn windows_by_count_have_the_last_records_of_a_key() {
    let numbers = |of: Vec<Shown>| of.into_iter().map(|(.., n)| n).collect::<Vec<_>>();
    let mut global = of_pair().count_window(2).process(Show).open().unwrap();
    let mut sliding = of_pair().count_window_sliding(3, 2).process(Show).open().unwrap();
    for n in 1..=4 {
        global.push((1, n)).unwrap();
        sliding.push((1, n)).unwrap();
    }
    global.push((1, 5)).unwrap();
    assert_eq!(numbers(global.output()), [[1, 2], [3, 4]]);
    assert_eq!(numbers(sliding.output()), [vec![1, 2], vec![2, 3, 4]]);
    let restored = of_pair().count_window(2).process(Show).restore(global.snapshot().unwrap());
    let mut restored = restored.open().unwrap();
    assert_eq!(restored.state(&1), Some(&Some((1, vec![vec![(1, 5)]]))));
    restored.push((1, 6)).unwrap();
    assert_eq!(numbers(restored.output()), [[5, 6]]);
}

/// Computes the mean of numbers, rounded down.
#[derive(Clone)]
struct Mean;

impl AggregateFunction<Pair> for Mean {
    type Accumulator = (u64, u64);
    type Out = u64;
    fn create_accumulator(&mut self) -> (u64, u64) {
        (0, 0)
    }
    fn add(&mut self, mean: &mut (u64, u64), (_, n): Pair) {
        self.merge(mean, (n, 1));
    }
    fn merge(&mut self, mean: &mut (u64, u64), (sum, count): (u64, u64)) {
        *mean = (mean.0 + sum, mean.1 + count);
    }
    fn result(&mut self, (sum, count): (u64, u64)) -> u64 {
        sum / count.max(1)
    }
}

#[test]
fn every_computation_over_windows_is_made_of_their_parts() {
    // The windows of the panes 0-9 and 10-19, which are merged for the second one.
    let sliding = SlidingEventTimeWindows::of(ms(20), ms(10));
    let of_key_1 = |seen: Vec<(Pair, Option<i64>)>| -> Vec<u64> {
        let own = sorted(seen.into_iter().map(|((key, n), at)| (at, key, n)).collect());
        own.into_iter().filter(|(_, key, _)| *key == 1).map(|(.., n)| n).collect()
    };
    let windows = of_pair().window(sliding);
    assert_eq!(of_key_1(windowed(|| windows.count())), [1, 3, 2, 1, 1]);
    assert_eq!(of_key_1(windowed(|| windows.sum(|(_, n)| *n))), [2, 28, 26, 40, 40]);
    let merge = |all: &mut Pair, (_, n): Pair| all.1 = n.max(all.1);
    assert_eq!(of_key_1(windowed(|| windows.reduce(merge))), [2, 14, 14, 40, 40]);
    assert_eq!(of_key_1(windowed(|| windows.aggregate(Mean))), [2, 9, 13, 40, 40]);
    let sessions = of_pair().window(EventTimeSessionWindows::with_gap(ms(11)));
    assert_eq!(of_key_1(windowed(|| sessions.aggregate(Mean))), [9, 40]);
}

#[test]
fn a_late_record_changes_its_window_or_goes_aside() {
    let late = OutputTag::<Pair>::new("late");
    let windows = of_pair().window(TumblingEventTimeWindows::of(ms(10))).allowed_lateness(ms(5));
    let mut test = windows
        .clone()
        .side_output_late_data(&late)
        .sum(|(_, n)| *n)
        .side_output(&late)
        .open()
        .unwrap();
    let mut dropping = windows.count().open().unwrap();
    dropping.push_at((1, 1), 5).unwrap();
    dropping.watermark(14).unwrap();
    dropping.push_at((1, 1), 5).unwrap();
    assert_eq!(dropping.metric("numLateRecordsDropped"), Some(1));
    test.push_at((1, 1), 5).unwrap();
    test.watermark(9).unwrap();
    test.push_at((1, 2), 6).unwrap();
    assert_eq!(test.timed_output(), [((1, 1), Some(9)), ((1, 3), Some(9))]);
    test.watermark(14).unwrap();
    test.push_at((1, 4), 7).unwrap();
    assert_eq!((test.output(), test.side_output(&late).unwrap()), (vec![], vec![(1, 4)]));
    let error = test.push((1, 4)).unwrap_err().to_string();
    assert!(error.contains("without an event time"), "{error}");
}

#[test]
fn impossible_windows_are_not_opened() {
    let error = |opened: Result<(), TaskError>| opened.unwrap_err().to_string();
    let none = TumblingEventTimeWindows::of(Duration::ZERO);
    let without_length = error(of_pair().window(none).count().open().map(drop));
    assert!(without_length.contains("at least 1 ms"), "{without_length}");
    let without_records = error(of_pair().count_window(0).count().open().map(drop));
    assert!(without_records.contains("at least 1 record"), "{without_records}");
    let gap = ProcessingTimeSessionWindows::with_dynamic_gap(|_: &Pair| Duration::ZERO);
    let mut test = of_pair().window(gap).count().open().unwrap();
    assert!(test.push((1, 1)).is_err(), "a gap is known with its record");
}
