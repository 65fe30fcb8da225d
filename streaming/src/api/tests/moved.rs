//! A job with every kind of state is stopped, goes on from its states with keyed state in a backend that keeps bytes alone, is stopped
//! again, and goes on with keyed state in memory.

use super::built;
use crate::{
    BuiltJob, Environment,
    harness::{Harness, States},
    lock,
    operators::{
        BoxError, BroadcastOperator, ByValue, Collector, Context, Count,
        KeyedBroadcastProcessFunction, KeyedOperator, KeyedProcessFunction, Lateness, Reading,
        SlidingEventTimeWindows, StatefulProcessFunction, Timer, TumblingEventTimeWindows,
    },
    sources::CollectionSource,
    state::{
        AggregatingState, ListState, MapState, OperatorState, Reduce, ReducingState, State,
        UnionListState, slow::Slow, tests::Mean,
    },
    time::WatermarkStrategy,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// A time, which no other record has, a key, and a value.
type Record = (i64, u64, u64);
/// A time, and the limit for values from then on.
type Limit = (i64, u64);
type Lines = Arc<Mutex<Vec<String>>>;

const RECORDS: i64 = 800;
/// The keys that the backend that keeps bytes has in memory, of 23.
const ROOM: usize = 8;
/// Time after a record at which a timer emits what was seen with it.
const LATER: i64 = 7;

/// The place of keyed state.
#[derive(Debug, Clone, Copy)]
enum Backend {
    Memory,
    Bytes,
}

struct Highest;

impl Reduce for Highest {
    type Value = u64;
    fn merge(kept: &mut u64, next: u64) {
        *kept = (*kept).max(next);
    }
}

#[derive(State)]
#[flott(crate = crate)]
struct Kept {
    count: Option<u64>,
    last: ListState<u64>,
    highest: ReducingState<Highest>,
    mean: AggregatingState<Mean>,
    waiting: MapState<i64, String>,
}

/// Emits what the state was with each record, when event time says so.
#[derive(Clone)]
struct AllKinds;

impl KeyedProcessFunction<u64, Record> for AllKinds {
    type State = Kept;
    type Out = String;
    fn process(
        &mut self,
        (at, key, value): Record,
        kept: &mut Kept,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<String>,
    ) -> Result<(), BoxError> {
        let count = kept.count.get_or_insert(0);
        *count += 1;
        if count.is_multiple_of(7) {
            kept.last.clear();
        }
        kept.last.push(value);
        kept.highest.add(value);
        kept.mean.add(value);
        let (last, highest, mean) = (kept.last.get()?, kept.highest.get(), kept.mean.get());
        let line = format!("all {key} {at} {count} {last:?} {highest:?} {mean:?}");
        kept.waiting.insert(at, line);
        ctx.timers().event_time(at + LATER);
        Ok(())
    }
    fn on_timer(
        &mut self,
        timer: Timer,
        kept: &mut Kept,
        _: &mut Context<'_, u64>,
        out: &mut Collector<String>,
    ) -> Result<(), BoxError> {
        out.collect_all(kept.waiting.take(&(timer.timestamp - LATER))?);
        Ok(())
    }
}

/// Emits the values above the limit of their time, once event time says that all limits until then have come.
#[derive(Clone)]
struct Above;

impl KeyedBroadcastProcessFunction<u64, Record, Limit> for Above {
    type State = Option<BTreeMap<i64, u64>>;
    type Broadcast = BTreeMap<i64, u64>;
    type Out = String;
    fn create_broadcast(&self) -> BTreeMap<i64, u64> {
        BTreeMap::new()
    }
    fn process(
        &mut self,
        (at, _, value): Record,
        waiting: &mut Self::State,
        _: &BTreeMap<i64, u64>,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<String>,
    ) -> Result<(), BoxError> {
        waiting.get_or_insert_default().insert(at, value);
        ctx.timers().event_time(at);
        Ok(())
    }
    fn process_broadcast(
        &mut self,
        (from, limit): Limit,
        limits: &mut BTreeMap<i64, u64>,
        _: &mut Collector<String>,
    ) -> Result<(), BoxError> {
        limits.insert(from, limit);
        Ok(())
    }
    fn on_timer(
        &mut self,
        timer: Timer,
        waiting: &mut Self::State,
        limits: &BTreeMap<i64, u64>,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<String>,
    ) -> Result<(), BoxError> {
        let value = waiting.as_mut().and_then(|waiting| waiting.remove(&timer.timestamp));
        let limit = limits.range(..=timer.timestamp).next_back().map(|(_, limit)| *limit);
        if let (Some(value), Some(limit)) = (value, limit)
            && value > limit
        {
            out.collect(format!("above {} {value} {limit}", ctx.key()));
        }
        Ok(())
    }
}

#[derive(OperatorState)]
#[flott(crate = crate)]
struct Begun {
    values: ListState<u64>,
    packets: UnionListState<u64>,
}

/// Emits the values in packets of ten, with the number of the packet.
#[derive(Clone)]
struct Packets;

impl StatefulProcessFunction<Record> for Packets {
    type State = Begun;
    type Out = String;
    fn process(
        &mut self,
        (_, _, value): Record,
        begun: &mut Begun,
        out: &mut Collector<String>,
    ) -> Result<(), BoxError> {
        begun.values.push(value);
        if begun.values.get()?.len() == 10 {
            begun.packets.push(value);
            let (values, number) = (begun.values.take()?, begun.packets.get()?.len());
            out.collect(format!("packet {number} {values:?}"));
        }
        Ok(())
    }
}

type ByKey = ByValue<fn(&Record) -> u64, u64>;

fn by_key() -> ByKey {
    let key: fn(&Record) -> u64 = |record| record.1;
    ByValue::new(key)
}

/// The job, which adds what it emits to `lines`. Its keyed state is in memory as that of any job, or in a backend that keeps most keys as
/// bytes.
fn job(backend: Backend, lines: &Lines) -> BuiltJob {
    let lines = Arc::clone(lines);
    built(2, move |env: &Environment| {
        let values = (0..RECORDS).map(|at| (at, at as u64 * 7 % 23, at as u64 * 31 % 101));
        let limits = (0..30).map(|n| (n * 27, n as u64 * 13 % 97));
        let times = WatermarkStrategy::for_monotonous_timestamps(|record: &Record| record.0);
        let records = env
            .from_source(CollectionSource::new(values.collect::<Vec<Record>>()), times, "records")
            .uid("records")
            .set_parallelism(1);
        let times = WatermarkStrategy::for_monotonous_timestamps(|limit: &Limit| limit.0);
        let limits = env
            .from_source(CollectionSource::new(limits.collect::<Vec<Limit>>()), times, "limits")
            .uid("limits")
            .set_parallelism(1);
        let ms = Duration::from_millis;
        let (tumbling, sliding) =
            (TumblingEventTimeWindows::of(ms(50)), SlidingEventTimeWindows::of(ms(60), ms(20)));
        let key: fn(&Record) -> u64 = |record| record.1;
        let keyed = records.key_by_value(key);
        let (all, tumbling, sliding, above) = match backend {
            Backend::Memory => (
                keyed.process(AllKinds),
                keyed.window(tumbling).count(),
                keyed.window(sliding).count(),
                keyed.connect_broadcast(&limits).process(Above),
            ),
            Backend::Bytes => (
                keyed.transform("all", || {
                    KeyedOperator::with_backend(
                        by_key(),
                        AllKinds,
                        Kept::declare(),
                        Slow::new(ROOM),
                    )
                }),
                keyed.transform("tumbling", move || {
                    let late = Lateness::from(0);
                    tumbling.operator_with_backend(by_key(), Count, late, Slow::new(ROOM))
                }),
                keyed.transform("sliding", move || {
                    let late = Lateness::from(0);
                    sliding.operator_with_backend(by_key(), Count, late, Slow::new(ROOM))
                }),
                records.connect(&limits).transform("above", || {
                    let function = Reading::new(Above, Above::create_broadcast);
                    let fields = Option::<BTreeMap<i64, u64>>::declare();
                    let slow = Slow::new(ROOM);
                    BroadcastOperator::<_, Record, Limit>::new(KeyedOperator::with_backend(
                        by_key(),
                        function,
                        fields,
                        slow,
                    ))
                }),
            ),
        };
        let line = |what: &'static str| move |(key, n): (u64, u64)| format!("{what} {key} {n}");
        let lines = Arc::clone(&lines);
        all.uid("all")
            // One subtask, because a stream that is not keyed is not distributed by key.
            .union(&above.uid("above").set_parallelism(1))
            .union(&tumbling.uid("tumbling").map(line("tumbling")))
            .union(&sliding.uid("sliding").map(line("sliding")))
            .union(&records.process_with_state(Packets).uid("packets").set_parallelism(1))
            .map(move |line: String| lock(&lines).push(line))
            .discard();
    })
}

#[test]
fn a_stopped_job_goes_on_with_its_keyed_state_in_another_backend_and_back() {
    let tmp = tempfile::tempdir().unwrap();
    let harness = || Harness::new(tmp.path()).budget(16);
    let whole = Lines::default();
    harness().run(&job(Backend::Memory, &whole)).unwrap();
    let mut whole = lock(&whole).clone();
    whole.sort();
    for backends in [
        [Backend::Memory, Backend::Bytes, Backend::Memory],
        [Backend::Bytes, Backend::Memory, Backend::Bytes],
    ] {
        let (lines, mut states) = (Lines::default(), States::new());
        for (leg, backend) in backends.into_iter().enumerate() {
            let before = lock(&lines).len();
            let harness = harness().restore(std::mem::take(&mut states));
            let harness = if leg < 2 { harness.stop_after(40, false) } else { harness };
            states = harness.run(&job(backend, &lines)).unwrap().states;
            assert!(lock(&lines).len() > before, "{backends:?}: leg {leg} emits something");
            if leg < 2 {
                assert_eq!(states.len(), 7, "{backends:?}: operators with state");
                assert!(
                    lock(&lines).len() < whole.len(),
                    "{backends:?}: leg {leg} is not the last"
                );
            }
        }
        let mut lines = lock(&lines).clone();
        lines.sort();
        assert!(lines == whole, "{backends:?}: {} lines, {} expected", lines.len(), whole.len());
    }
}
