//! Keyed operators over a backend that has to fetch: same results as in memory, and every key's records in order.

use super::*;
use crate::{
    batch::{Batch, NO_TIME},
    operators::{
        BoxError, Consumer, Context, Control, KeyedOperator, KeyedProcessFunction, Link,
        SideOutputs, TimeDomain, Timer, context::ChainShared, join_chunks,
    },
    seam::Barrier,
    state::{
        ListState, MapState, State,
        slow::{Reads, Slow},
    },
};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

type Record = (u16, u32);

/// The output in order: records, and control elements as `None`.
type Seen<T> = Arc<Mutex<Vec<Option<T>>>>;

struct Gather<T>(Seen<T>);

impl<T: Send> Consumer<T> for Gather<T> {
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError> {
        batch.each(|record, _| self.0.lock().unwrap().push(Some(record)));
        Ok(true)
    }
}

impl<T: Send> Control for Gather<T> {
    fn event(&mut self, _event: StreamEvent) -> Result<Flow, TaskError> {
        self.0.lock().unwrap().push(None);
        Ok(Flow::Done)
    }
}

/// One operator at work, and what came out of it.
struct Running<T> {
    link: Box<dyn Consumer<Record>>,
    reads: Arc<Reads>,
    shared: Arc<ChainShared>,
    seen: Seen<T>,
    /// Batches that began while earlier records waited.
    overtaking: usize,
    watermark: i64,
}

impl<T: Send + 'static> Running<T> {
    fn new<Op: Operator<Record, Out = T> + 'static>(operator: Op, restore: Vec<Vec<u8>>) -> Self {
        Self::with_interrupt(operator, restore, crate::Interrupt::default())
    }

    fn with_interrupt<Op: Operator<Record, Out = T> + 'static>(
        operator: Op,
        restore: Vec<Vec<u8>>,
        interrupt: crate::Interrupt,
    ) -> Self {
        let (reads, seen) = (Arc::new(Reads::default()), Seen::default());
        let place = (0, 1);
        let context = crate::testing::context(place, BTreeMap::new(), interrupt, reads.clone())
            .restoring(restore);
        let shared = context.shared.clone();
        let mut link = Box::new(Link::new(
            operator,
            Box::new(Gather(seen.clone())),
            SideOutputs::default(),
            context,
        ));
        link.open().unwrap();
        Self { link, reads, shared, seen, overtaking: 0, watermark: 0 }
    }

    fn batch(&mut self, records: Vec<Record>) {
        self.overtaking += usize::from(!self.reads.is_empty());
        self.link.batch(&mut records.into()).unwrap();
    }

    /// Answers one of the reads; false if there is none.
    fn answer(&mut self, which: usize) -> bool {
        let Some((node, mail)) = self.reads.answer(which) else { return false };
        self.link.deliver(node, mail).unwrap();
        true
    }

    fn event(&mut self, event: StreamEvent, mut which: usize) {
        while self.link.is_interrupted() {
            self.link.resume().unwrap();
        }
        loop {
            match self.link.event(event).unwrap() {
                Flow::Done => break,
                Flow::More => continue,
                Flow::Waiting => {}
            }
            assert!(self.answer(which), "an event waits and nothing is being read");
            which = which.wrapping_mul(7).wrapping_add(3);
        }
        assert!(!self.answer(0), "an event overtook a read");
    }

    fn end(&mut self, which: usize) {
        self.event(StreamEvent::Watermark(i64::MAX), which);
        self.event(StreamEvent::EndOfInput, which);
    }

    fn barrier(&mut self, which: usize) -> Vec<Vec<u8>> {
        let barrier = Barrier { checkpoint: 1, ..Barrier::default() };
        self.event(StreamEvent::Barrier(barrier), which);
        self.link.write_snapshots(&mut Slice::whole()).unwrap();
        let snapshots = self.shared.take_snapshots(1);
        snapshots.iter().map(|(_, chunks)| join_chunks(chunks)).collect()
    }
}

/// Between control elements, by key: what came out, in order.
fn by_key<T: Clone, K: Ord>(seen: &Seen<T>, key: impl Fn(&T) -> K) -> Vec<BTreeMap<K, Vec<T>>> {
    let seen = seen.lock().unwrap();
    let parts = seen.split(Option::is_none);
    let part = |part: &[Option<T>]| {
        let mut keys: BTreeMap<K, Vec<T>> = BTreeMap::new();
        for record in part.iter().flatten() {
            keys.entry(key(record)).or_default().push(record.clone());
        }
        keys
    };
    parts.map(part).collect()
}

#[derive(Debug, Clone)]
enum Act {
    Batch(Vec<Record>),
    Answer(usize),
    Watermark(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let batch = prop::collection::vec((0_u16..40, 0_u32..20), 1..30).prop_map(Act::Batch);
    let answer = any::<usize>().prop_map(Act::Answer);
    let watermark = any::<usize>().prop_map(Act::Watermark);
    prop::collection::vec(prop_oneof![6 => batch, 5 => answer, 1 => watermark], 1..60)
}

fn play<T: Send + 'static>(running: &mut Running<T>, acts: &[Act]) {
    for act in acts {
        match act {
            Act::Batch(records) => running.batch(records.clone()),
            Act::Answer(which) => {
                running.answer(*which);
            }
            Act::Watermark(which) => {
                running.watermark += 3;
                running.event(StreamEvent::Watermark(running.watermark), *which);
            }
        }
    }
}

/// Keeps one of everything; a record of 0 forgets its key. Sets a timer for the value of each record, and deletes the one
/// behind where the value is odd.
#[derive(Clone)]
struct Ledger;

#[derive(State)]
#[flott(crate = crate)]
struct Account {
    records: Option<u64>,
    values: ListState<u32>,
    often: MapState<u32, u64>,
}

impl KeyedProcessFunction<u16, Record> for Ledger {
    type State = Account;
    type Out = (u16, Vec<u32>, u64);

    fn process(
        &mut self,
        (_, value): Record,
        account: &mut Account,
        ctx: &mut Context<'_, u16>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        *account.records.get_or_insert(0) += 1;
        account.values.push(value);
        *account.often.get_or_insert_with(value, || 0)? += 1;
        let mut sum = account.records.unwrap_or(0) * 1_000_000;
        account.often.for_each(|(value, times)| sum += u64::from(*value) * times)?;
        out.collect((*ctx.key(), account.values.get()?.to_vec(), sum));
        if value == 0 {
            account.records = None;
            account.values.clear();
            account.often.clear();
        }
        ctx.timers().event_time(i64::from(value));
        if value % 2 == 1 {
            ctx.timers().delete_event_time(i64::from(value) + 1);
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer,
        account: &mut Account,
        ctx: &mut Context<'_, u16>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        assert!(ctx.watermark() >= Some(timer.timestamp));
        assert_eq!((ctx.timestamp(), timer.domain), (Some(timer.timestamp), TimeDomain::EventTime));
        assert_eq!(out.timestamp(), ctx.timestamp());
        let values = account.values.get()?.to_vec();
        out.collect((*ctx.key(), values, timer.timestamp.unsigned_abs()));
        if account.values.get()?.len() > 3 {
            // A chain of timers, which the same watermark may reach.
            ctx.timers().event_time(timer.timestamp + 2);
            account.values.clear();
        }
        Ok(())
    }
}

type ByFirst = ByReference<fn(&Record) -> &u16, u16>;

fn by_first() -> ByFirst {
    ByReference::new(|record| &record.0)
}

fn ledger_in_memory(restore: Vec<Vec<u8>>) -> Running<(u16, Vec<u32>, u64)> {
    Running::new(KeyedOperator::new(by_first(), Ledger, Account::declare()), restore)
}

fn ledger_that_fetches(room: usize, restore: Vec<Vec<u8>>) -> Running<(u16, Vec<u32>, u64)> {
    let fields = Account::declare();
    Running::new(KeyedOperator::with_backend(by_first(), Ledger, fields, Slow::new(room)), restore)
}

type Sums = crate::operators::Fold<u64, fn(&mut u64, Record)>;

fn sums() -> Sums {
    Fold::new(0, |sum, record| *sum = sum.wrapping_mul(31).wrapping_add(u64::from(record.1)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_function_sees_the_same_over_a_backend_that_fetches(
        acts in acts(), room in 0_usize..20, interrupted: bool,
    ) {
        let (mut memory, mut slow) = (ledger_in_memory(Vec::new()), ledger_that_fetches(room, Vec::new()));
        if interrupted {
            slow.shared.interrupt.raise();
        }
        play(&mut memory, &acts);
        play(&mut slow, &acts);
        memory.end(0);
        slow.end(5);
        let key = |out: &(u16, Vec<u32>, u64)| out.0;
        prop_assert_eq!(by_key(&slow.seen, key), by_key(&memory.seen, key));
    }

    #[test]
    fn state_moves_between_backends_at_a_barrier(
        before in acts(), after in acts(), room in 0_usize..20, to_memory: bool,
    ) {
        let mut memory = ledger_in_memory(Vec::new());
        play(&mut memory, &before);
        let from_memory = memory.barrier(0);
        let mut slow = ledger_that_fetches(room, Vec::new());
        play(&mut slow, &before);
        let from_slow = slow.barrier(9);
        memory.seen.lock().unwrap().clear();
        let mut moved = match to_memory {
            true => ledger_in_memory(from_slow),
            false => ledger_that_fetches(room, from_memory),
        };
        moved.watermark = memory.watermark;
        play(&mut memory, &after);
        play(&mut moved, &after);
        memory.end(0);
        moved.end(5);
        let key = |out: &(u16, Vec<u32>, u64)| out.0;
        prop_assert_eq!(by_key(&moved.seen, key), by_key(&memory.seen, key));
    }

    /// Records, timers and removals while a snapshot is being written are no part of it.
    #[test]
    fn a_snapshot_that_is_written_beside_the_work_is_the_state_at_its_barrier(
        before in acts(), meanwhile in acts(), after in acts(), slices in prop::collection::vec(1_usize..2_000, 60),
    ) {
        let mut running = ledger_in_memory(Vec::new());
        play(&mut running, &before);
        let at_barrier = running.watermark;
        let at_once = running.barrier(0);
        running.event(StreamEvent::Barrier(SECOND), 0);
        for (act, work) in meanwhile.iter().zip(slices) {
            play(&mut running, std::slice::from_ref(act));
            if running.link.writes().is_some() {
                prop_assert!(running.shared.take_snapshots(2).is_empty());
                running.link.write_snapshots(&mut Slice::new(work, work, &|| true)).unwrap();
            }
        }
        running.link.write_snapshots(&mut Slice::whole()).unwrap();
        let snapshots = running.shared.take_snapshots(2);
        let beside = snapshots.iter().map(|(_, chunks)| join_chunks(chunks)).collect();
        let mut restored = [at_once, beside].map(ledger_in_memory);
        for running in &mut restored {
            running.watermark = at_barrier;
            play(running, &after);
            running.end(0);
        }
        let key = |out: &(u16, Vec<u32>, u64)| out.0;
        prop_assert_eq!(by_key(&restored[0].seen, key), by_key(&restored[1].seen, key));
    }

    #[test]
    fn folds_are_the_same_over_a_backend_that_fetches(acts in acts(), room in 0_usize..20, at_end: bool) {
        let mode = if at_end { UpdateMode::AtEnd } else { UpdateMode::EveryUpdate };
        let mut memory = Running::new(KeyedFold::new(by_first(), sums(), mode), Vec::new());
        let slow = KeyedFold::with_backend(by_first(), sums(), mode, Slow::new(room));
        let mut slow = Running::new(slow, Vec::new());
        play(&mut memory, &acts);
        play(&mut slow, &acts);
        memory.event(StreamEvent::EndOfInput, 0);
        slow.event(StreamEvent::EndOfInput, 5);
        let key = |out: &(u16, u64)| out.0;
        prop_assert_eq!(by_key(&slow.seen, key), by_key(&memory.seen, key));
    }
}

const SECOND: Barrier =
    Barrier { checkpoint: 2, triggered_ms: 0, last: false, savepoint: false, full: false };

#[test]
fn a_barrier_waits_until_the_snapshot_of_the_one_before_is_complete() {
    let mut memory = ledger_in_memory(Vec::new());
    memory.batch((0..100).map(|key| (key, 1)).collect());
    memory.event(StreamEvent::Barrier(Barrier { checkpoint: 1, ..SECOND }), 0);
    assert_eq!(memory.link.writes(), Some(1));
    assert_eq!(memory.link.event(StreamEvent::Barrier(SECOND)).unwrap(), Flow::More);
    memory.link.write_snapshots(&mut Slice::whole()).unwrap();
    assert_eq!(memory.link.writes(), None);
    assert_eq!(memory.shared.take_snapshots(1).len(), 1);
    assert_eq!(memory.link.event(StreamEvent::Barrier(SECOND)).unwrap(), Flow::Done);
    assert_eq!(memory.link.writes(), Some(2));
}

#[test]
fn a_fold_emits_its_state_at_the_end_only_when_the_snapshot_is_complete() {
    let fold = KeyedFold::new(by_first(), sums(), UpdateMode::AtEnd);
    let mut memory = Running::new(fold, Vec::new());
    memory.batch((0..100).map(|key| (key, 1)).collect());
    memory.event(StreamEvent::Barrier(SECOND), 0);
    assert_eq!(memory.link.event(StreamEvent::EndOfInput).unwrap(), Flow::More);
    memory.link.write_snapshots(&mut Slice::whole()).unwrap();
    assert_eq!(memory.link.event(StreamEvent::EndOfInput).unwrap(), Flow::Done);
    assert_eq!(memory.seen.lock().unwrap().iter().flatten().count(), 100);
}

/// The format before timers came first.
#[test]
fn a_snapshot_whose_state_is_before_its_timers_is_read() {
    let mut memory = ledger_in_memory(Vec::new());
    memory.batch(vec![(1, 5), (2, 7)]);
    let [bytes] = memory.barrier(0).try_into().unwrap();
    let mut input = crate::types::Reader::new(&bytes);
    let (_, mut timers) = crate::operators::keyed_process::snapshots::parts_of(&mut input).unwrap();
    let state = input.take(input.remaining()).unwrap();
    let mut old = Vec::new();
    crate::types::write_len(state.len(), &mut old);
    old.extend_from_slice(state);
    old.extend_from_slice(timers.take(timers.remaining()).unwrap());
    let mut restored = [bytes, old].map(|bytes| ledger_in_memory(vec![bytes]));
    restored.iter_mut().for_each(|running| running.end(0));
    let seen = restored.map(|running| running.seen.lock().unwrap().clone());
    assert_eq!(seen[0].iter().flatten().count(), 2);
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn keyed_operators_take_the_hash_that_came_with_the_record_and_no_other_key() {
    use crate::operators::tests::{Texts, by_text, refuses_the_hash_of_another_key};
    let fold = || KeyedFold::new(by_text(), Count, UpdateMode::EveryUpdate);
    let slow = KeyedFold::with_backend(by_text(), Count, UpdateMode::AtEnd, Slow::new(1));
    refuses_the_hash_of_another_key(fold(), 0, [NO_TIME, NO_TIME]);
    refuses_the_hash_of_another_key(fold(), 0, [5, 6]);
    refuses_the_hash_of_another_key(fold(), 20_000, [NO_TIME, NO_TIME]);
    refuses_the_hash_of_another_key(slow, 0, [5, 6]);
    let function = || KeyedOperator::new(by_text(), Texts, <Option<u64> as State>::declare());
    refuses_the_hash_of_another_key(function(), 0, [NO_TIME, NO_TIME]);
    refuses_the_hash_of_another_key(function(), 20_000, [5, 6]);
}

#[test]
fn batches_go_on_while_earlier_records_wait() {
    let mut slow = ledger_that_fetches(0, Vec::new());
    for round in 0..100 {
        slow.batch((0..20).map(|key| (key + round % 3 * 20, 1)).collect());
        if round % 3 == 2 {
            for which in 0..4 {
                slow.answer(which);
            }
        }
    }
    slow.event(StreamEvent::EndOfInput, 0);
    assert!(slow.overtaking > 60, "{}", slow.overtaking);
    assert_eq!(slow.seen.lock().unwrap().iter().flatten().count(), 2_000);
}

#[test]
fn too_many_parked_records_stop_the_input() {
    let mut slow = ledger_that_fetches(0, Vec::new());
    let mut batches = 0;
    while !slow.link.full() && batches < 100 {
        slow.batch((0..1_000).map(|key| (key, 1)).collect());
        batches += 1;
    }
    assert_eq!(batches, 17);
    while slow.answer(0) {}
    assert!(!slow.link.full());
}

#[test]
fn a_read_that_fails_fails_the_task() {
    let mut slow = ledger_that_fetches(0, Vec::new());
    slow.batch(vec![(1, 1), (2, 1)]);
    let Some((node, OperatorMail::Reply { ticket, .. })) = slow.reads.answer(0) else { panic!() };
    let mail = OperatorMail::Reply { ticket, result: Err("the disk is gone".into()) };
    let failure = slow.link.deliver(node, mail).unwrap_err().to_string();
    assert!(
        failure.contains("the state of 1 keys cannot be fetched: the disk is gone"),
        "{failure}"
    );
}

#[test]
fn a_key_whose_state_is_empty_again_is_forgotten() {
    let snapshot_after = |records: Vec<Record>| {
        let mut memory = ledger_in_memory(Vec::new());
        memory.batch(records);
        let [bytes] = memory.barrier(0).try_into().unwrap();
        let mut input = crate::types::Reader::new(&bytes);
        crate::operators::keyed_process::snapshots::parts_of(&mut input).unwrap();
        input.take(input.remaining()).unwrap().to_vec()
    };
    let forgotten = snapshot_after(vec![(1, 5), (2, 5), (1, 0), (3, 0)]);
    assert_eq!(forgotten, snapshot_after(vec![(2, 5)]));
}

#[test]
fn a_snapshot_is_read_when_the_one_before_is_decoded_and_dropped() {
    use crate::seam::{Restore, TaskError};
    let context = OperatorContext::for_tests(0, 1);
    let mut left = vec![vec![2], vec![1]];
    let snapshots = std::iter::from_fn(move || match left.pop() {
        Some(snapshot) => Some(Ok(snapshot)),
        None => Some(Err(TaskError::Unreadable("the third".to_owned()))),
    });
    *crate::lock(&context.restore) = Restore::new(snapshots, false);
    assert!(context.is_restored());
    assert_eq!(context.next_snapshot().unwrap(), Some(vec![1]));
    assert_eq!(context.next_snapshot().unwrap(), Some(vec![2]));
    let error = context.next_snapshot().unwrap_err();
    assert_eq!(error.to_string(), "the state to restore can't be read: the third");
    let kept = context.restoring(vec![vec![7], vec![8]]);
    assert_eq!(kept.next_snapshot().unwrap(), Some(vec![7]));
    assert_eq!(kept.snapshots().unwrap(), [vec![8]]);
    assert_eq!((kept.next_snapshot().unwrap(), kept.is_restored()), (None, true));
}

/// Emits the watermark for each record, -1 before the first one.
#[derive(Clone)]
struct Marks;

impl KeyedProcessFunction<u64, u64> for Marks {
    type State = Option<u64>;
    type Out = i64;
    fn process(
        &mut self,
        _: u64,
        _: &mut Option<u64>,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<i64>,
    ) -> Result<(), BoxError> {
        out.collect(ctx.watermark().unwrap_or(-1));
        Ok(())
    }
}

#[test]
fn a_restored_operator_has_the_least_watermark_of_its_snapshots_and_never_goes_back() {
    let marks = || crate::testing::keyed_by_value(|n: &u64| *n, Marks);
    let snapshots = [700, 500].map(|watermark| {
        let mut test = marks().open().unwrap();
        test.push(1).unwrap();
        test.watermark(watermark).unwrap();
        assert_eq!(test.output(), [-1]);
        test.snapshot().unwrap()
    });
    let mut test = marks().restore(snapshots.concat()).open().unwrap();
    test.push(1).unwrap();
    for watermark in [400, 900] {
        test.watermark(watermark).unwrap();
        test.push(1).unwrap();
    }
    assert_eq!(test.output(), [500, 500, 900]);
}

#[test]
fn a_function_over_a_backend_that_fetches_is_interrupted_after_the_record_at_work() {
    let interrupt = crate::Interrupt::default();
    let raised = interrupt.clone();
    let last = Fold::new(0, move |last: &mut u32, (_, value): Record| {
        *last = value;
        if value % 10 == 2 {
            raised.raise();
        }
    });
    let slow = Slow::new(20);
    let fold = KeyedFold::with_backend(by_first(), last, UpdateMode::EveryUpdate, slow);
    let mut running = Running::with_interrupt(fold, Vec::new(), interrupt.clone());
    let seen = |running: &Running<(u16, u32)>| -> Vec<u32> {
        let seen = running.seen.lock().unwrap();
        seen.iter().flatten().map(|(_, value)| *value).collect()
    };
    // The key is fetched: its records are processed when it has arrived.
    running.batch(vec![(1, 1), (1, 2), (1, 3), (2, 4)]);
    assert!(running.answer(0));
    assert_eq!(seen(&running), [1, 2]);
    // A record that comes meanwhile waits behind the others of its key.
    interrupt.clear();
    running.batch(vec![(1, 5)]);
    assert_eq!(seen(&running), [1, 2]);
    while running.answer(0) {}
    assert_eq!(by_key(&running.seen, |(key, _)| *key)[0][&1].len(), 4);
    assert_eq!(
        seen(&running).iter().filter(|n| **n != 4).copied().collect::<Vec<_>>(),
        [1, 2, 3, 5]
    );
    // The key is resident: the batch is interrupted.
    running.batch(vec![(1, 11), (1, 12), (1, 13)]);
    assert_eq!(seen(&running)[5..], [11, 12]);
    assert!(running.link.is_interrupted());
    interrupt.clear();
    running.link.resume().unwrap();
    assert_eq!(seen(&running)[5..], [11, 12, 13]);
}

#[test]
fn keys_of_large_state_are_computed_ahead_only_where_that_delays_no_mail() {
    /// A record with this number interrupts the step while its key is computed, as mail does that comes during a slow key.
    const SLOW: u32 = 7;
    let interrupt = crate::Interrupt::default();
    let raised = interrupt.clone();
    let computed = Arc::new(AtomicUsize::new(0));
    let (keys, seen) = (Arc::clone(&computed), Arc::clone(&computed));
    let key = ByValue::new(move |(key, number): &Record| {
        keys.fetch_add(1, Ordering::Relaxed);
        if *number == SLOW {
            raised.raise();
        }
        *key
    });
    // The number of keys that were computed when the first record was processed.
    let first = Arc::new(AtomicUsize::new(0));
    let at_first = Arc::clone(&first);
    let last = Fold::new(0, move |last: &mut u32, (_, number): Record| {
        *last = number;
        let keys = seen.load(Ordering::Relaxed);
        let _ = at_first.compare_exchange(0, keys, Ordering::Relaxed, Ordering::Relaxed);
    });
    let fold = KeyedFold::new(key, last, UpdateMode::AtEnd);
    let mut running = Running::<(u16, u32)>::with_interrupt(fold, Vec::new(), interrupt.clone());
    let took = || (computed.swap(0, Ordering::Relaxed), first.swap(0, Ordering::Relaxed));
    running.batch((0..60_000).map(|key| (key, 1)).collect());
    assert_eq!(took().0, 60_000);
    running.batch(vec![(1, 1); 100]);
    assert_eq!(took(), (100, 17), "the state is large and keys are quick");

    running.batch(vec![(1, SLOW); 100]);
    assert_eq!(took(), (1, 1), "mail waits for one key and its record");
    for _ in 1..100 {
        assert!(running.link.is_interrupted());
        interrupt.clear();
        running.link.resume().unwrap();
        assert_eq!(took(), (1, 1), "no key is computed twice");
    }
    assert!(!running.link.is_interrupted());
    interrupt.clear();
    for (records, keys) in [(1_024, 1), (100, 17)] {
        running.batch(vec![(1, 1); records]);
        assert_eq!(took(), (records, keys), "keys have to show again that they are quick");
    }
}

/// Sets a timer for each number, and emits the number when it fires.
#[derive(Clone)]
struct Alarms;

impl KeyedProcessFunction<u64, u64> for Alarms {
    type State = Option<u64>;
    type Out = u64;
    fn process(
        &mut self,
        n: u64,
        _: &mut Option<u64>,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        ctx.timers().event_time(n as i64 % 50);
        Ok(())
    }
    fn on_timer(
        &mut self,
        _: Timer,
        _: &mut Option<u64>,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        out.collect(*ctx.key());
        Ok(())
    }
}

#[test]
fn more_timers_than_are_written_at_the_barrier_fire_once_at_another_parallelism() {
    let alarms = || crate::testing::keyed_by_value(|n: &u64| *n, Alarms);
    let mut before = alarms().open().unwrap();
    (0..5_000).for_each(|n| before.push(n).unwrap());
    let snapshot = before.snapshot().unwrap();
    let mut fired = Vec::new();
    for subtask in 0..2 {
        let mut after = alarms().subtask(subtask, 2).restore(snapshot.clone()).open().unwrap();
        after.watermark(i64::MAX).unwrap();
        fired.append(&mut after.output());
    }
    fired.sort_unstable();
    assert_eq!(fired, (0..5_000).collect::<Vec<_>>());
}
