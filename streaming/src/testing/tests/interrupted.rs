//! Operators whose steps are all interrupted, against the same operators whose steps are not.

use super::*;
use crate::operators::{
    BroadcastProcessFunction, Context, KeyedBroadcastProcessFunction, KeyedProcessFunction,
    ProcessingTimeSessionWindows, SlidingProcessingTimeWindows, TumblingProcessingTimeWindows,
};
use proptest::prelude::*;

/// Emits each record with the newest broadcast record.
#[derive(Clone)]
struct WithNewest;

impl BroadcastProcessFunction<u64, u64> for WithNewest {
    type Broadcast = u64;
    type Out = (u64, u64);
    fn create_broadcast(&self) -> u64 {
        0
    }
    fn process(
        &mut self,
        record: u64,
        newest: &u64,
        out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        out.collect((record, *newest));
        Ok(())
    }
    fn process_broadcast(
        &mut self,
        record: u64,
        newest: &mut u64,
        out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        out.collect((100, record));
        *newest = record;
        Ok(())
    }
}

impl KeyedBroadcastProcessFunction<u64, u64, u64> for WithNewest {
    type State = Option<u64>;
    type Broadcast = u64;
    type Out = (u64, u64);
    fn create_broadcast(&self) -> u64 {
        0
    }
    fn process(
        &mut self,
        record: u64,
        _: &mut Option<u64>,
        newest: &u64,
        _: &mut Context<'_, u64>,
        out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        out.collect((record, *newest));
        Ok(())
    }
    fn process_broadcast(
        &mut self,
        record: u64,
        newest: &mut u64,
        out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        out.collect((100, record));
        *newest = record;
        Ok(())
    }
}

/// Returns what an operator emits for a batch: all in one step, or each record in its own.
fn emitted<T: Send + 'static, Op: Operator<T>>(
    prepared: HarnessBuilder<T, Op>,
    batch: impl IntoIterator<Item = (T, i64)>,
) -> Vec<(Op::Out, Option<i64>)> {
    let mut test = prepared.open().unwrap();
    test.push_batch(batch).unwrap();
    test.timed_output()
}

#[test]
fn a_broadcast_record_does_not_overtake_records_before_it_when_a_step_is_interrupted() {
    let batch = [Either::Left(1), Either::Left(2), Either::Right(9), Either::Left(3)]
        .map(|record| (record, NO_TIME));
    let right = [(1, 0), (2, 0), (100, 9), (3, 9)].map(|record| (record, None));
    assert_eq!(emitted(broadcast(WithNewest).interrupted(), batch.clone()), right);
    assert_eq!(emitted(keyed_broadcast(|n: &u64| n, WithNewest).interrupted(), batch), right);
}

/// Sets a timer at the moment that a record says, and another one when that fires at an even moment.
#[derive(Clone)]
struct AtMoment;

impl KeyedProcessFunction<u64, (u64, i64)> for AtMoment {
    type State = Option<u64>;
    type Out = (u64, i64);
    fn process(
        &mut self,
        (_, moment): (u64, i64),
        seen: &mut Option<u64>,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<(u64, i64)>,
    ) -> Result<(), BoxError> {
        *seen.get_or_insert(0) += 1;
        ctx.timers().processing_time(moment);
        Ok(())
    }
    fn on_timer(
        &mut self,
        timer: Timer,
        _: &mut Option<u64>,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<(u64, i64)>,
    ) -> Result<(), BoxError> {
        out.collect((*ctx.key(), timer.timestamp));
        if timer.timestamp % 2 == 0 {
            ctx.timers().processing_time(timer.timestamp + 3);
        }
        Ok(())
    }
}

fn key_of((key, _): &(u64, i64)) -> &u64 {
    key
}

/// Returns what an operator has emitted when the clock shows `ms`, without the later timers.
fn by_then<Op: Operator<(u64, i64)>>(
    prepared: HarnessBuilder<(u64, i64), Op>,
    records: &[(u64, i64)],
    ms: u64,
) -> Vec<(Op::Out, Option<i64>)> {
    let mut test = prepared.open().unwrap();
    test.push_batch(records.iter().map(|record| (*record, NO_TIME))).unwrap();
    test.advance_clock_to(ms).unwrap();
    test.timed_output()
}

#[test]
fn all_timers_that_are_due_fire_at_their_moment_when_steps_are_interrupted() {
    let records: Vec<_> = (0..5).map(|key| (key, 11)).collect();
    let fired = by_then(keyed(key_of, AtMoment).interrupted(), &records, 11);
    assert_eq!(fired.into_iter().map(|((key, _), _)| key).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn timers_that_are_due_after_a_restore_fire_before_the_first_record() {
    let mut first = keyed(key_of, AtMoment).open().unwrap();
    first.push_batch((0..5).map(|key| ((key, -1), NO_TIME))).unwrap();
    let snapshot = first.snapshot().unwrap();
    for interrupted in [false, true] {
        let restored = keyed(key_of, AtMoment).restore(snapshot.clone());
        let restored = if interrupted { restored.interrupted() } else { restored };
        let mut restored = restored.open().unwrap();
        assert_eq!(restored.output().len(), 5, "{interrupted}");
        restored.push_batch((0..5).map(|key| ((key, 7), NO_TIME))).unwrap();
        assert!((0..5).all(|key| restored.state(&key) == Some(&Some(2))), "{interrupted}");
    }
}

#[test]
fn all_keys_of_a_window_of_processing_time_fire_at_its_end_when_steps_are_interrupted() {
    let records: Vec<_> = (0..5).map(|key| (key, 0)).collect();
    let window = Duration::from_millis(10);
    let tumbling = key_by(key_of).window(TumblingProcessingTimeWindows::of(window));
    assert_eq!(by_then(tumbling.count().interrupted(), &records, 10).len(), 5);
    let sessions = key_by(key_of).window(ProcessingTimeSessionWindows::with_gap(window));
    assert_eq!(by_then(sessions.count().interrupted(), &records, 10).len(), 5);
}

proptest! {
    #[test]
    fn a_broadcast_operator_emits_the_same_whatever_the_length_of_a_step(
        batch in prop::collection::vec((any::<bool>(), 0_u64..9, -3_i64..3), 0..20),
    ) {
        let records = || batch.iter().map(|(left, n, time)| {
            let time = if *time == 0 { NO_TIME } else { *time };
            (if *left { Either::Left(*n) } else { Either::Right(*n) }, time)
        });
        let plain = emitted(broadcast(WithNewest), records());
        prop_assert_eq!(&emitted(broadcast(WithNewest).interrupted(), records()), &plain);
        let keyed = || keyed_broadcast(|n: &u64| n, WithNewest);
        prop_assert_eq!(&emitted(keyed(), records()), &plain);
        prop_assert_eq!(&emitted(keyed().interrupted(), records()), &plain);
    }

    #[test]
    fn timers_and_windows_of_processing_time_emit_the_same_whatever_the_length_of_a_step(
        records in prop::collection::vec((0_u64..9, -3_i64..20), 0..20), ms in 0_u64..40, size in 1_u64..20,
    ) {
        let timers = || keyed(key_of, AtMoment);
        prop_assert_eq!(by_then(timers().interrupted(), &records, ms), by_then(timers(), &records, ms));
        let size = Duration::from_millis(size);
        let half = (size / 2).max(Duration::from_millis(1));
        let sorted = |mut seen: Vec<((u64, u64), Option<i64>)>| {
            seen.sort_unstable();
            seen
        };
        let run = |prepared: HarnessBuilder<_, _>| sorted(by_then(prepared, &records, ms));
        let tumbling = key_by(key_of).window(TumblingProcessingTimeWindows::of(size));
        prop_assert_eq!(run(tumbling.count().interrupted()), run(tumbling.count()));
        let run = |prepared: HarnessBuilder<_, _>| sorted(by_then(prepared, &records, ms));
        let sliding = key_by(key_of).window(SlidingProcessingTimeWindows::of(size, half));
        prop_assert_eq!(run(sliding.count().interrupted()), run(sliding.count()));
        let run = |prepared: HarnessBuilder<_, _>| sorted(by_then(prepared, &records, ms));
        let sessions = key_by(key_of).window(ProcessingTimeSessionWindows::with_gap(size));
        prop_assert_eq!(run(sessions.count().interrupted()), run(sessions.count()));
    }
}
