//! Links of a chain whose end takes nothing for a while, and operators that are woken by the clock.

use super::*;
use crate::{
    batch::NO_TIME, seam::TaskUpcalls, state::slow::Reads, time::WatermarkStrategy, types::key_hash,
};
use futures::future::BoxFuture;
use model::{NodeId, OperatorId};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

/// A text, by which records are keyed, and a number.
pub(super) type OfText = (String, u32);

pub(super) fn by_text() -> ByReference<fn(&OfText) -> &String, String> {
    ByReference::new(|record| &record.0)
}

/// Counts the records of a text in its state.
#[derive(Clone)]
pub(super) struct Texts;

impl KeyedProcessFunction<String, OfText> for Texts {
    type State = Option<u64>;
    type Out = u64;
    fn process(
        &mut self,
        _: OfText,
        count: &mut Option<u64>,
        _: &mut Context<'_, String>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        *count = Some(count.unwrap_or(0) + 1);
        out.collect_all(*count);
        Ok(())
    }
}

/// Hands an operator two records, one with the hash of its key and one with that of another key, after so many records of other keys, and
/// expects the failure of the second one. An operator that hashes keys itself does not fail.
pub(super) fn refuses_the_hash_of_another_key(
    operator: impl Operator<OfText>,
    before: u32,
    times: [i64; 2],
) {
    let reads = Arc::new(Reads::default());
    let interrupt = crate::Interrupt::default();
    let context = crate::testing::context((0, 1), BTreeMap::new(), interrupt, reads.clone());
    let (next, sides) = (Box::new(crate::chain::NoConsumer), SideOutputs::default());
    let mut link = Link::new(operator, next, sides, context);
    link.open().unwrap();
    let mut batch = Batch::default();
    (0..before).for_each(|n| batch.push((n.to_string(), n), times[0]));
    link.batch(&mut batch).unwrap();
    let (right, wrong) = (key_hash(&"right".to_owned()), key_hash(&"other".to_owned()));
    batch.push_hashed(("right".to_owned(), 1), times[0], right);
    link.batch(&mut batch).unwrap();
    while let Some((node, mail)) = reads.answer(0) {
        link.deliver(node, mail).unwrap();
    }
    batch.push_hashed(("right".to_owned(), 2), times[0], right);
    batch.push_hashed(("wrong".to_owned(), 3), times[1], wrong);
    let failure = link.batch(&mut batch).and_then(|_| {
        // The key has to be fetched first.
        let (node, mail) = reads.answer(0).unwrap();
        link.deliver(node, mail)
    });
    let failure = failure.unwrap_err().to_string();
    assert!(failure.contains("the hash of another key"), "{failure}");
}

/// A clock that is moved by hand.
#[derive(Default)]
struct Clock(Mutex<Asked>);

/// The time that the clock shows, and the requested wake-ups, by their moments and their order.
#[derive(Default)]
struct Asked {
    now: u64,
    wake_ups: BTreeSet<(u64, u64)>,
    number: u64,
}

impl Clock {
    /// Moves on to the next wake-up and takes it out; the moment.
    fn next(&self) -> Option<u64> {
        let mut clock = self.0.lock().unwrap();
        let (moment, _) = clock.wake_ups.pop_first()?;
        clock.now = clock.now.max(moment);
        Some(moment)
    }
    fn wake_ups(&self) -> Vec<u64> {
        self.0.lock().unwrap().wake_ups.iter().map(|(moment, _)| *moment).collect()
    }
}

impl TaskUpcalls for Clock {
    fn operator_event(&self, _: OperatorId, _: Vec<u8>, _: u64) {}
    fn spawn_io(&self, _: BoxFuture<'static, Result<Vec<u8>, String>>, _: u64) {}
    fn now_unix_ms(&self) -> u64 {
        self.0.lock().unwrap().now
    }
    fn wake_at(&self, after: Duration, _: u64) {
        let mut clock = self.0.lock().unwrap();
        let moment = clock.now + u64::try_from(after.as_millis()).unwrap();
        clock.number += 1;
        let number = clock.number;
        clock.wake_ups.insert((moment, number));
    }
    fn acknowledge(&self, _: u64, _: crate::TaskSnapshot) {}
    fn stores_changes(&self) -> Option<u64> {
        Some(0)
    }
}

/// The end of a chain, which keeps what arrives in order: the number of records of each batch, and
/// control elements.
#[derive(Default)]
struct End {
    came: Vec<Result<usize, StreamEvent>>,
    closed: bool,
}

/// An end that is full and lets no event through while it is closed.
#[derive(Clone, Default)]
struct Door(Arc<Mutex<End>>);

impl Door {
    fn close(&self, closed: bool) {
        self.0.lock().unwrap().closed = closed;
    }
    fn came(&self) -> Vec<Result<usize, StreamEvent>> {
        self.0.lock().unwrap().came.clone()
    }
}

impl<T: Send> Consumer<T> for Door {
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError> {
        let mut end = self.0.lock().unwrap();
        end.came.push(Ok(batch.len()));
        batch.clear();
        Ok(!end.closed)
    }
}

impl Control for Door {
    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        let mut end = self.0.lock().unwrap();
        if end.closed {
            return Ok(Flow::More);
        }
        end.came.push(Err(event));
        Ok(Flow::Done)
    }
    fn full(&self) -> bool {
        self.0.lock().unwrap().closed
    }
    fn flush(&mut self, _partial: bool) -> Result<bool, TaskError> {
        Ok(!Control::full(self))
    }
}

fn link<T: Send + 'static, Op>(operator: Op, next: impl Consumer<Op::Out> + 'static) -> Link<T, Op>
where
    Op: Operator<T>,
{
    hosted(operator, next, Arc::new(Clock::default()))
}

fn hosted<T: Send + 'static, Op>(
    operator: Op,
    next: impl Consumer<Op::Out> + 'static,
    clock: Arc<Clock>,
) -> Link<T, Op>
where
    Op: Operator<T>,
{
    let context = OperatorContext::for_tests_with(0, 1, clock);
    let mut link = Link::new(operator, Box::new(next), SideOutputs::default(), context);
    Control::open(&mut link).unwrap();
    link
}

/// Returns the context of an operator whose steps are ended by `interrupt`.
fn interrupted_by(interrupt: &crate::Interrupt) -> OperatorContext {
    let clock = Arc::new(Clock::default());
    crate::testing::context((0, 1), Default::default(), interrupt.clone(), clock)
}

fn ring<T>(link: &mut impl Consumer<T>, ticket: u32) {
    let to = OperatorContext::for_tests(0, 1).node;
    link.deliver(to, OperatorMail::Timer { ticket }).unwrap();
}

/// Implements `process` of an operator that hands its records on.
macro_rules! passes {
    () => {
        fn process(
            &mut self,
            batch: &mut Batch<u64>,
            out: &mut Collector<u64>,
            _: &OperatorContext,
        ) -> Result<(), TaskError> {
            out.pass(batch);
            Ok(())
        }
    };
}

/// Emits a watermark of its own with each mail: the mail's ticket.
struct Own;

impl Operator<u64> for Own {
    type Out = u64;
    passes!();
    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<u64>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        if let OperatorMail::Timer { ticket } = mail {
            out.emit(StreamEvent::Watermark(i64::from(ticket)));
        }
        Ok(())
    }
}

/// Keeps the control elements that it sees.
struct Sees(Arc<Mutex<Vec<StreamEvent>>>);

impl Operator<u64> for Sees {
    type Out = u64;
    passes!();
    fn event(
        &mut self,
        event: StreamEvent,
        _: &mut Collector<u64>,
        _: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        self.0.lock().unwrap().push(event);
        Ok(Flow::Done)
    }
}

#[test]
fn an_operator_sees_each_control_element_once_though_others_come_while_one_waits() {
    let (door, seen) = (Door::default(), Arc::new(Mutex::new(Vec::new())));
    let node = OperatorContext::for_tests(0, 1).node;
    let mut behind = link(Sees(seen.clone()), door.clone());
    behind.set_node(NodeId(node.0 + 1));
    let mut link = link(Own, behind);
    let watermarks =
        |ms: &[i64]| ms.iter().map(|ms| StreamEvent::Watermark(*ms)).collect::<Vec<_>>();

    // One that passes waits, and the operator emits one of its own meanwhile.
    door.close(true);
    assert_eq!(link.event(StreamEvent::Watermark(1)).unwrap(), Flow::More);
    ring(&mut link, 2);
    assert_eq!(link.event(StreamEvent::Watermark(1)).unwrap(), Flow::More);
    door.close(false);
    assert_eq!(link.event(StreamEvent::Watermark(1)).unwrap(), Flow::Done);
    link.flush(true).unwrap();
    assert_eq!(*seen.lock().unwrap(), watermarks(&[1, 2]));

    // Its own one waits, and newer ones of its own come, and one that passes.
    door.close(true);
    ring(&mut link, 3);
    ring(&mut link, 4);
    ring(&mut link, 5);
    assert_eq!(link.event(StreamEvent::Watermark(6)).unwrap(), Flow::More);
    door.close(false);
    assert_eq!(link.event(StreamEvent::Watermark(6)).unwrap(), Flow::Done);
    assert_eq!(*seen.lock().unwrap(), watermarks(&[1, 2, 3, 5, 6]));
    let came: Vec<_> = watermarks(&[1, 2, 3, 5, 6]).into_iter().map(Err).collect();
    assert_eq!(door.came(), came);
}

#[test]
fn a_subtask_whose_records_wait_for_room_is_not_idle() {
    let (door, clock) = (Door::default(), Arc::new(Clock::default()));
    let strategy = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64)
        .with_idleness(Duration::from_millis(100));
    let mut link = hosted(AssignWatermarks::new(strategy), door.clone(), clock.clone());
    link.batch(&mut Batch::from(vec![10])).unwrap();
    door.close(true);
    link.batch(&mut Batch::from(vec![20])).unwrap();
    for _ in 0..10 {
        clock.next().unwrap();
        ring(&mut link, 0);
    }
    door.close(false);
    link.flush(true).unwrap();
    assert!(!door.came().contains(&Err(StreamEvent::Idle(true))), "{:?}", door.came());
    clock.next().unwrap();
    ring(&mut link, 0);
    assert_eq!(door.came().last(), Some(&Err(StreamEvent::Idle(true))), "now it is");
}

#[test]
fn batches_that_wait_are_worked_off_one_by_one() {
    let door = Door::default();
    let interrupt = crate::Interrupt::default();
    let context = interrupted_by(&interrupt);
    let map = Map::new(|n: u64| n);
    let mut link = Link::new(map, Box::new(door.clone()), SideOutputs::default(), context);
    interrupt.raise();
    for _ in 0..3 {
        link.batch(&mut Batch::from((0..1_000).collect::<Vec<u64>>())).unwrap();
    }
    assert_eq!(door.came(), [Ok(1)], "the first record, and the others wait");
    interrupt.clear();
    link.resume().unwrap();
    assert_eq!(door.came(), [Ok(1), Ok(999), Ok(1_000), Ok(1_000)]);
}

#[test]
fn records_get_their_times_one_by_one_where_the_step_is_interrupted() {
    let door = Door::default();
    let interrupt = crate::Interrupt::default();
    let context = interrupted_by(&interrupt);
    let times = crate::time::WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
    let assign = super::AssignWatermarks::new(times);
    let mut link = Link::new(assign, Box::new(door.clone()), SideOutputs::default(), context);
    interrupt.raise();
    link.batch(&mut Batch::from((0..1_000).collect::<Vec<u64>>())).unwrap();
    assert_eq!(door.came().first(), Some(&Ok(1)), "a slow function delays mail by one record");
    assert!(link.is_interrupted());
    interrupt.clear();
    link.resume().unwrap();
    let watermark = Err(StreamEvent::Watermark(998));
    assert_eq!(door.came().last(), Some(&watermark), "behind all records");
    assert!(door.came().contains(&Ok(999)) && !link.is_interrupted());
}

/// Sets a timer of processing time for each record, that many milliseconds ahead.
#[derive(Clone)]
struct Sleeps;

impl KeyedProcessFunction<u64, u64> for Sleeps {
    type State = Option<u64>;
    type Out = u64;
    fn process(
        &mut self,
        ahead: u64,
        _: &mut Option<u64>,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        let moment = ctx.operator().now_unix_ms() + ahead;
        ctx.timers().processing_time(i64::try_from(moment)?);
        Ok(())
    }
    fn on_timer(
        &mut self,
        timer: Timer,
        _: &mut Option<u64>,
        _: &mut Context<'_, u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        out.collect(u64::try_from(timer.timestamp)?);
        Ok(())
    }
}

fn sleeping(door: &Door, clock: &Arc<Clock>) -> impl Consumer<u64> + use<> {
    let fields = <Option<u64> as crate::state::State>::declare();
    let operator = KeyedOperator::new(ByValue::new(|n: &u64| *n), Sleeps, fields);
    hosted(operator, door.clone(), clock.clone())
}

#[test]
fn short_timers_before_a_long_one_leave_one_wake_up() {
    let (door, clock) = (Door::default(), Arc::new(Clock::default()));
    let mut link = sleeping(&door, &clock);
    link.batch(&mut Batch::from(vec![100_000])).unwrap();
    for _ in 0..50 {
        link.batch(&mut Batch::from(vec![10])).unwrap();
        clock.next().unwrap();
        ring(&mut link, 0);
    }
    assert_eq!(door.came(), [Ok(1); 50]);
    assert_eq!(clock.wake_ups(), [100_000], "that of the long one");
    // Wake-ups that have become late are none too many, and fire everything in time.
    link.batch(&mut Batch::from(vec![40, 30, 20, 10])).unwrap();
    let begun = clock.now_unix_ms();
    let mut rang = Vec::new();
    while let Some(moment) = clock.next() {
        rang.push(moment - begun.min(moment));
        ring(&mut link, 0);
    }
    assert_eq!(rang, [10, 20, 30, 40, 100_000 - begun]);
}

#[test]
fn timers_that_were_due_when_they_were_restored_fire_before_records() {
    let (door, clock) = (Door::default(), Arc::new(Clock::default()));
    let context = OperatorContext::for_tests_with(0, 1, clock.clone());
    let sleeps = || {
        let fields = <Option<u64> as crate::state::State>::declare();
        KeyedOperator::new(ByValue::new(|n: &u64| *n), Sleeps, fields)
    };
    let mut before = sleeps();
    let mut out =
        Collector::new(Box::new(door.clone()), SideOutputs::default(), crate::Interrupt::default());
    before.open(&context).unwrap();
    before.process(&mut Batch::from(vec![10, 11, 12]), &mut out, &context).unwrap();
    let snapshot = before.snapshot(1, &context).unwrap().unwrap();
    // The first of the timers is due.
    assert_eq!(clock.next(), Some(10));
    let context = context.restoring(vec![snapshot]);
    let mut link: Link<u64, _> =
        Link::new(sleeps(), Box::new(door.clone()), SideOutputs::default(), context);
    Control::open(&mut link).unwrap();
    assert!(Control::full(&link), "no record comes before the timer");
    door.close(true);
    clock.next().unwrap();
    ring(&mut link, 0);
    door.close(false);
    assert!(Control::full(&link), "it could not fire");
    clock.next().unwrap();
    ring(&mut link, 0);
    assert!(!Control::full(&link));
    assert_eq!(door.came(), [Ok(3)], "the others are due by now too");
}

#[test]
fn timers_of_the_clock_do_not_fire_into_a_full_output() {
    let (door, clock) = (Door::default(), Arc::new(Clock::default()));
    let mut link = sleeping(&door, &clock);
    link.batch(&mut Batch::from(vec![10, 11, 12])).unwrap();
    door.close(true);
    for _ in 0..20 {
        clock.next().unwrap();
        ring(&mut link, 0);
    }
    assert_eq!(door.came(), []);
    assert_eq!(clock.wake_ups().len(), 1);
    door.close(false);
    clock.next().unwrap();
    ring(&mut link, 0);
    assert_eq!(door.came(), [Ok(3)]);
    assert!(clock.wake_ups().is_empty());
}

#[test]
fn timers_of_the_clock_that_are_due_at_the_end_of_input_fire_before_it() {
    for found_it_full in [true, false] {
        let (door, clock) = (Door::default(), Arc::new(Clock::default()));
        let mut link = sleeping(&door, &clock);
        link.batch(&mut Batch::from(vec![10, 10, 12, 100_000])).unwrap();
        link.batch(&mut Batch::from(vec![11])).unwrap();
        door.close(true);
        // The clock moves to 12 ms and beyond; the wake-up has found the output full, or has not come yet.
        while clock.now_unix_ms() < 12 {
            clock.next().unwrap();
            if found_it_full {
                ring(&mut link, 0);
            } else {
                clock.wake_at(Duration::from_millis(12), 0);
            }
        }
        door.close(false);
        assert_eq!(link.event(StreamEvent::EndOfInput).unwrap(), Flow::Done);
        assert_eq!(door.came(), [Ok(3), Err(StreamEvent::EndOfInput)], "{found_it_full}");
        while clock.next().is_some() {
            ring(&mut link, 0);
        }
        assert_eq!(door.came().len(), 2, "nothing fires behind the end");
    }
}

#[test]
fn due_timers_fire_before_finish_when_the_output_is_full_at_the_end_of_input() {
    let (door, clock) = (Door::default(), Arc::new(Clock::default()));
    let mut link = sleeping(&door, &clock);
    link.batch(&mut Batch::from(vec![10, 11, 12])).unwrap();
    door.close(true);
    for _ in 0..3 {
        clock.next().unwrap();
        ring(&mut link, 0);
    }
    assert!(clock.now_unix_ms() >= 12);
    for _ in 0..10 {
        assert_ne!(link.event(StreamEvent::EndOfInput).unwrap(), Flow::Done);
    }
    door.close(false);
    link.resume().unwrap();
    assert_eq!(link.event(StreamEvent::EndOfInput).unwrap(), Flow::Done);
    let came = door.came();
    assert_eq!(came.last(), Some(&Err(StreamEvent::EndOfInput)));
    assert_eq!(came.iter().flatten().sum::<usize>(), 3);
}

#[test]
fn the_memory_of_state_and_timers_is_a_metric() {
    let mut test = crate::testing::keyed(|n: &u64| n, Sleeps).open().unwrap();
    let empty = test.metric("stateBytes").unwrap();
    for ahead in 0..1_000 {
        test.push(1_000_000 + ahead).unwrap();
    }
    let with_timers = test.metric("stateBytes").unwrap();
    assert!(with_timers >= empty + 1_000 * 8, "{empty} {with_timers}");
    test.advance_clock_to(2_000_000).unwrap();
    let fired = test.metric("stateBytes").unwrap();
    assert!(fired < with_timers, "{with_timers} {fired}");
    let counted = crate::operators::KeyedFold::new(
        crate::operators::ByValue::new(|n: &u64| *n),
        crate::operators::Count,
        crate::operators::UpdateMode::EveryUpdate,
    );
    let mut test = crate::testing::operator(counted).open().unwrap();
    let empty = test.metric("stateBytes").unwrap();
    (0..10_000).for_each(|n| test.push(n).unwrap());
    assert!(test.metric("stateBytes").unwrap() >= empty + 10_000 * 16);
    let stateless = crate::testing::operator(Map::new(|n: u64| n)).open().unwrap();
    assert_eq!(stateless.metric("stateBytes"), None);
}

/// Counts how often it is closed or disposed of. `close` fails if `fails` is true, and `dispose` panics then.
struct Closing {
    ends: Arc<Mutex<u32>>,
    fails: bool,
}

impl Operator<u64> for Closing {
    type Out = u64;
    passes!();
    fn close(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        *self.ends.lock().unwrap() += 1;
        if self.fails { Err(context.user_error("stuck".into())) } else { Ok(()) }
    }
    fn dispose(&mut self, _: &OperatorContext) {
        *self.ends.lock().unwrap() += 1;
        assert!(!self.fails, "it cannot delete its files");
    }
}

#[test]
fn each_operator_is_closed_or_disposed_of_once_though_one_fails_to_close() {
    for failing in 0..3 {
        let ends: [Arc<Mutex<u32>>; 3] = Default::default();
        let closing = |n: usize| Closing { ends: ends[n].clone(), fails: n == failing };
        let mut chain = link(closing(0), link(closing(1), link(closing(2), Door::default())));
        assert!(chain.close().is_err());
        chain.dispose();
        assert_eq!(ends.map(|ends| *ends.lock().unwrap()), [1; 3], "operator {failing} fails");
    }
}

#[test]
fn each_operator_is_disposed_of_though_one_panics() {
    for failing in 0..3 {
        let ends: [Arc<Mutex<u32>>; 3] = Default::default();
        let closing = |n: usize| Closing { ends: ends[n].clone(), fails: n == failing };
        let mut chain = link(closing(0), link(closing(1), link(closing(2), Door::default())));
        chain.dispose();
        assert_eq!(ends.map(|ends| *ends.lock().unwrap()), [1; 3], "operator {failing} panics");
    }
}

/// The numbers of records that came at once.
fn batches(door: &Door) -> Vec<usize> {
    door.came().into_iter().filter_map(Result::ok).collect()
}

#[test]
fn records_that_become_large_go_on_in_batches_of_a_few() {
    let large = |_: u64| "x".repeat(100_000);
    let numbers = || Batch::from((0..10).collect::<Vec<u64>>());
    let mapped = Door::default();
    let mut map = link(Map::new(large), mapped.clone());
    map.batch(&mut numbers()).unwrap();
    assert_eq!(batches(&mapped), [3, 3, 3, 1]);
    let emitted = Door::default();
    let each = move |n: u64, out: &mut Collector<String>| out.collect(large(n));
    let mut flat_map = link(FlatMap::new(each), emitted.clone());
    flat_map.batch(&mut numbers()).unwrap();
    assert_eq!(batches(&emitted), [3, 3, 3, 1]);
    // A type without memory on the heap is bounded by its size.
    let arrays = Door::default();
    let mut map = link(Map::new(|n: u64| [n; 8_000]), arrays.clone());
    map.batch(&mut numbers()).unwrap();
    assert_eq!(batches(&arrays), [4, 4, 2]);
    let small = Door::default();
    let mut map = link(Map::new(|n: u64| n.to_string()), small.clone());
    map.batch(&mut Batch::from((0..3_000).collect::<Vec<u64>>())).unwrap();
    assert_eq!(batches(&small), [1_024, 1_024, 952]);
}

#[test]
fn records_that_become_large_stay_small_while_the_chain_is_full() {
    let door = Door::default();
    let mut map = link(Map::new(|_: u64| "x".repeat(100_000)), door.clone());
    door.close(true);
    assert!(!map.batch(&mut Batch::from((0..10).collect::<Vec<u64>>())).unwrap());
    assert_eq!(batches(&door), [3], "the other numbers wait as numbers");
    assert!(map.is_interrupted());
    door.close(false);
    map.resume().unwrap();
    assert_eq!(batches(&door), [3, 3, 3, 1]);

    for time in [NO_TIME, 7] {
        let door = Door::default();
        let large = |_: u64, out: &mut Collector<String>| out.collect("x".repeat(100_000));
        let mut emits = link(FlatMap::new(large), door.clone());
        door.close(true);
        let mut numbers = Batch::default();
        (0..10).for_each(|n: u64| numbers.push(n, time));
        assert!(!emits.batch(&mut numbers).unwrap());
        assert_eq!((batches(&door), emits.is_interrupted()), (vec![3], true), "time {time}");
        door.close(false);
        emits.resume().unwrap();
        assert_eq!(batches(&door), [3, 3, 3, 1]);
    }
}

/// The end of a chain of a stream without times.
struct Untimed;

impl<T: Send> Consumer<T> for Untimed {
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError> {
        assert!(batch.times().is_empty(), "{} of {} have times", batch.times().len(), batch.len());
        batch.clear();
        Ok(true)
    }
}

impl Control for Untimed {
    fn event(&mut self, _: StreamEvent) -> Result<Flow, TaskError> {
        Ok(Flow::Done)
    }
}

#[test]
fn functions_write_no_times_of_a_stream_without() {
    let numbers = || Batch::from((0..3_000).collect::<Vec<u64>>());
    let twice = |n: u64, out: &mut Collector<u64>| out.collect_all([n, n]);
    link(FlatMap::new(twice), Untimed).batch(&mut numbers()).unwrap();
    let tries = |n: u64| Ok::<u64, BoxError>(n + 1);
    link(TryMap::new(tries), Untimed).batch(&mut numbers()).unwrap();
    let fields = <Option<u64> as crate::state::State>::declare();
    let counts =
        StatefulFlatMap::new(|_: &u64, n, seen: &mut Option<u64>, out: &mut Collector<u64>| {
            out.collect(*seen.insert(n));
        });
    let keyed = KeyedOperator::new(ByValue::new(|n: &u64| n % 7), counts, fields);
    link(keyed, Untimed).batch(&mut numbers()).unwrap();
}

#[test]
fn side_outputs_are_bounded_by_bytes() {
    const LARGE: OutputTag<String> = OutputTag::new("large");
    let aside = Door::default();
    let sides = SideOutputs::new(vec![("large", side_output::<String>(Box::new(aside.clone())))]);
    let to_side = |_: u64, out: &mut Collector<u64>| out.collect_to(&LARGE, "x".repeat(100_000));
    let context = OperatorContext::for_tests(0, 1);
    let next = Box::new(Door::default());
    let mut link = Link::new(FlatMap::<_, u64>::new(to_side), next, sides, context);
    link.batch(&mut Batch::from((0..10).collect::<Vec<u64>>())).unwrap();
    assert_eq!(batches(&aside), [3, 3, 3, 1]);
}

/// Writes its snapshots in slices, and counts those that it has dropped.
#[derive(Default)]
struct InSlices {
    dropped: u32,
}

impl Operator<u64> for InSlices {
    type Out = u64;
    fn process(
        &mut self,
        batch: &mut Batch<u64>,
        _: &mut Collector<u64>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        batch.clear();
        Ok(())
    }
    fn begin_snapshot(&mut self, _: u64, _: &OperatorContext) -> Result<bool, TaskError> {
        Ok(true)
    }
    fn abort_snapshot(&mut self) -> bool {
        self.dropped += 1;
        true
    }
}

#[test]
fn the_barrier_of_a_checkpoint_that_was_aborted_before_starts_no_slices() {
    let context = OperatorContext::for_tests(0, 1);
    let (shared, door) = (context.shared().clone(), Door::default());
    let next = Box::new(door.clone());
    let mut link = Link::new(InSlices::default(), next, SideOutputs::default(), context);
    let barrier = |checkpoint| {
        StreamEvent::Barrier(crate::seam::Barrier { checkpoint, ..crate::seam::Barrier::default() })
    };
    shared.abort(7);
    for aborted in [6, 7] {
        assert_eq!(link.event(barrier(aborted)).unwrap(), Flow::Done);
        assert_eq!(link.writes(), None);
    }
    assert_eq!(link.operator().dropped, 2);
    assert_eq!(link.event(barrier(8)).unwrap(), Flow::Done);
    assert_eq!(link.writes(), Some(8));
    assert_eq!(door.came(), [6, 7, 8].map(|n| Err(barrier(n))), "all of them are handed on");
}

/// Writes what has changed since checkpoint 1 wherever it may.
struct Incremental;

impl Operator<u64> for Incremental {
    type Out = u64;
    passes!();
    fn begin_snapshot(&mut self, _: u64, _: &OperatorContext) -> Result<bool, TaskError> {
        Ok(true)
    }
    fn begin_incremental(
        &mut self,
        _: u64,
        _: &OperatorContext,
    ) -> Result<Option<SnapshotKind>, TaskError> {
        Ok(Some(SnapshotKind::Changes { base: 1 }))
    }
    fn write_snapshot(
        &mut self,
        _: &mut Slice<'_>,
        _: &OperatorContext,
    ) -> Result<bool, TaskError> {
        Ok(true)
    }
}

fn link_of_incremental(options: &[(&str, &str)]) -> Link<u64, Incremental> {
    let options = options.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    let context = crate::testing::context(
        (0, 1),
        options.collect(),
        crate::Interrupt::default(),
        Arc::new(Clock::default()),
    );
    Link::new(Incremental, Box::new(Door::default()), SideOutputs::default(), context)
}

#[test]
fn snapshots_build_on_earlier_ones_unless_the_job_may_fall_back_or_says_otherwise() {
    let incremental = "execution.checkpointing.incremental";
    let fallback = "execution.checkpointing.fallback";
    let changes = SnapshotKind::Changes { base: 1 };
    for (options, kind) in [
        (&[][..], changes),
        (&[(fallback, "false")], changes),
        (&[(fallback, "true")], SnapshotKind::Full),
        (&[(fallback, "true"), (incremental, "true")], changes),
        (&[(incremental, "false")], SnapshotKind::Full),
    ] {
        let mut link = link_of_incremental(options);
        let barrier = crate::seam::Barrier { checkpoint: 2, ..crate::seam::Barrier::default() };
        assert_eq!(link.event(StreamEvent::Barrier(barrier)).unwrap(), Flow::Done);
        assert_eq!(link.begun(), Some(kind), "{options:?}");
    }
}

#[test]
fn a_snapshot_builds_on_an_earlier_one_unless_its_barrier_asks_for_a_full_one() {
    let mut link = link_of_incremental(&[]);
    let changes = SnapshotKind::Changes { base: 1 };
    let barriers = [
        (false, false, changes),
        (false, true, SnapshotKind::Full),
        (true, false, SnapshotKind::Full),
        (false, false, changes),
    ];
    for ((savepoint, full, kind), checkpoint) in barriers.into_iter().zip(2..) {
        let barrier =
            crate::seam::Barrier { checkpoint, savepoint, full, ..crate::seam::Barrier::default() };
        assert_eq!(link.event(StreamEvent::Barrier(barrier)).unwrap(), Flow::Done);
        assert_eq!(link.begun(), Some(kind), "checkpoint {checkpoint}");
        link.write_snapshots(&mut Slice::whole()).unwrap();
    }
}

/// Has keyed state.
struct HasKeys;

impl Operator<u64> for HasKeys {
    type Out = u64;
    passes!();
    const ONLY_KEYED_STATE: bool = true;
    fn begin_snapshot(&mut self, _: u64, _: &OperatorContext) -> Result<bool, TaskError> {
        Ok(true)
    }
}

/// Has keyed state, and commits that wait in its snapshot for the checkpoint to be complete.
struct HasCommits(Arc<std::sync::atomic::AtomicU32>);

impl Operator<u64> for HasCommits {
    type Out = u64;
    passes!();
    const HAS_STATE: bool = true;
    fn state_bytes(&self) -> Option<u64> {
        Some(1)
    }
    fn snapshot(&mut self, _: u64, _: &OperatorContext) -> Result<Option<Vec<u8>>, TaskError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Some(vec![1]))
    }
}

#[test]
fn the_final_snapshot_has_what_an_operator_still_commits() {
    let taken = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let (operator, context) = (HasCommits(Arc::clone(&taken)), OperatorContext::for_tests(0, 1));
    let mut link = Link::new(operator, Box::new(Door::default()), SideOutputs::default(), context);
    Control::open(&mut link).unwrap();
    assert_eq!(link.event(StreamEvent::EndOfInput).unwrap(), Flow::Done);
    let barrier =
        crate::seam::Barrier { checkpoint: 2, last: true, ..crate::seam::Barrier::default() };
    assert_eq!(link.event(StreamEvent::Barrier(barrier)).unwrap(), Flow::Done);
    assert_eq!(taken.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn the_final_snapshot_has_keyed_state_only_for_a_savepoint_or_a_directory() {
    use crate::seam::Barrier;
    let written = |at_end: bool, barrier: Barrier, context: OperatorContext| {
        let mut link =
            Link::new(HasKeys, Box::new(Door::default()), SideOutputs::default(), context);
        Control::open(&mut link).unwrap();
        if at_end {
            assert_eq!(link.event(StreamEvent::EndOfInput).unwrap(), Flow::Done);
        }
        let barrier = Barrier { checkpoint: 2, ..barrier };
        assert_eq!(link.event(StreamEvent::Barrier(barrier)).unwrap(), Flow::Done);
        link.writes() == Some(2)
    };
    let without = || OperatorContext::for_tests(0, 1);
    let with = OperatorContext::for_tests_with(0, 1, Arc::new(Clock::default()));
    let last = Barrier { last: true, ..Barrier::default() };
    assert!(!written(true, last, without()), "nothing is processed after a restore");
    assert!(written(false, last, without()), "the job is stopped before its end");
    assert!(written(true, Barrier::default(), without()), "the task goes on");
    assert!(written(true, Barrier { savepoint: true, ..last }, without()));
    assert!(written(true, last, with), "another job may begin with a retained checkpoint");
}

/// Has state of so many bytes, which it writes in one piece.
struct InOnePiece(usize);

impl Operator<u64> for InOnePiece {
    type Out = u64;
    const HAS_STATE: bool = true;
    passes!();
    fn snapshot(&mut self, _: u64, _: &OperatorContext) -> Result<Option<Vec<u8>>, TaskError> {
        Ok(Some(vec![0; self.0]))
    }
}

#[test]
fn state_that_takes_long_at_the_barrier_is_warned_of() {
    for (bytes, warns) in [(4 << 20, false), ((4 << 20) + 1, true)] {
        let mut link = link(InOnePiece(bytes), Door::default());
        link.event(StreamEvent::Barrier(crate::seam::Barrier::default())).unwrap();
        assert_eq!(link.has_warned(), warns, "{bytes} bytes");
        assert_eq!(link.snapshots(0)[0].len(), bytes);
    }
}

/// The progress of a chain of a long call and the function behind it.
#[derive(Default)]
struct Counts {
    emitted: u64,
    /// The numbers that the second function was called for.
    mapped: Vec<u64>,
    /// The maximum number of records that were emitted and not worked on.
    kept: u64,
}

/// Emits so many texts of 1,000 bytes in one call while the step is interrupted. `emits` is called before each, `maps` in the function
/// behind.
fn long_call(
    records: u64,
    interrupt: &crate::Interrupt,
    emits: impl Fn(u64) + Send + 'static,
    maps: impl Fn(u64) + Send + 'static,
) -> (Vec<usize>, Counts) {
    let counts = Arc::new(Mutex::new(Counts::default()));
    let (emitted, mapped) = (counts.clone(), counts.clone());
    let door = Door::default();
    let map = Map::new(move |text: String| {
        let n = text.trim_start().parse().unwrap();
        maps(n);
        mapped.lock().unwrap().mapped.push(n);
        n
    });
    let behind =
        Link::new(map, Box::new(door.clone()), SideOutputs::default(), interrupted_by(interrupt));
    let many = FlatMap::new(move |of: u64, out: &mut Collector<String>| {
        for n in 0..of {
            emits(n);
            {
                let mut counts = emitted.lock().unwrap();
                counts.emitted += 1;
                let kept = counts.emitted - counts.mapped.len() as u64;
                counts.kept = counts.kept.max(kept);
            }
            out.collect(format!("{n:>1000}"));
        }
    });
    let mut link =
        Link::new(many, Box::new(behind), SideOutputs::default(), interrupted_by(interrupt));
    interrupt.raise();
    link.batch(&mut Batch::from(vec![records])).unwrap();
    assert!(interrupt.is_raised(), "the step is over after the call");
    let after = batches(&door);
    // The next step, unless there is none.
    if interrupt.lower() {
        while link.is_interrupted() {
            interrupt.clear();
            link.resume().unwrap();
        }
    }
    drop(link);
    (after, Arc::into_inner(counts).unwrap().into_inner().unwrap())
}

#[test]
fn what_one_interrupted_call_emits_is_worked_off_during_the_call() {
    let interrupt = crate::Interrupt::default();
    let again = interrupt.clone();
    // Mail comes all the time.
    let maps = move |n: u64| {
        if n.is_multiple_of(100) {
            again.raise();
        }
    };
    let (_, counts) = long_call(40_000, &interrupt, |_| (), maps);
    assert!(counts.mapped.into_iter().eq(0..40_000), "each record once and in order");
    assert!(counts.kept <= 5_000, "{} records of 1,000 bytes at once", counts.kept);
}

#[test]
fn a_short_interrupted_call_is_not_made_longer() {
    let interrupt = crate::Interrupt::default();
    let (after, counts) = long_call(3_000, &interrupt, |_| (), |_| ());
    assert_eq!(after.iter().sum::<usize>(), 1, "the first record of the first batch");
    assert!(counts.mapped.into_iter().eq(0..3_000));
}

#[test]
fn a_cancelled_task_works_nothing_off_during_a_call() {
    let interrupt = crate::Interrupt::default();
    let cancel = interrupt.clone();
    let emits = move |n: u64| {
        if n == 10_000 {
            cancel.raise_for_good();
        }
    };
    let (_, counts) = long_call(40_000, &interrupt, emits, |_| ());
    assert_eq!(counts.emitted, 40_000);
    assert!((4_000..=10_000).contains(&counts.mapped.len()), "{}", counts.mapped.len());

    // Cancelled while it works off: after the record at work.
    let interrupt = crate::Interrupt::default();
    let cancel = interrupt.clone();
    let maps = move |n: u64| {
        if n == 1_000 {
            cancel.raise_for_good();
        }
    };
    let (_, counts) = long_call(40_000, &interrupt, |_| (), maps);
    assert!(counts.mapped.into_iter().eq(0..=1_000));
}

/// Reads a number from its snapshots, and from each record.
struct Decodes;

impl Operator<Vec<u8>> for Decodes {
    type Out = u64;
    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        context.snapshots()?.iter().try_for_each(|snapshot| {
            let number = crate::types::decode_one::<u64>(snapshot);
            number.map(drop).map_err(|error| context.codec_error(error))
        })
    }
    fn process(
        &mut self,
        batch: &mut Batch<Vec<u8>>,
        _: &mut Collector<u64>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let mut read = Ok(());
        batch.each(|bytes, _| read = crate::types::decode_one::<u64>(&bytes).map(drop));
        read.map_err(|error| context.codec_error(error))
    }
}

#[test]
fn bytes_of_a_snapshot_that_cannot_be_decoded_are_told_from_others() {
    let restored = crate::testing::operator(Decodes).restore([vec![0xff]]).open().map(drop);
    let error = restored.unwrap_err();
    let source = crate::types::CodecError::Truncated;
    assert_eq!(error, TaskError::Restore { operator: "test".to_owned(), source });
    assert_eq!(error.kind(), "CodecError");
    let text = error.to_string();
    let says = "operator 'test' cannot decode its state of the checkpoint or savepoint";
    assert!(text.starts_with(says) && text.contains("the bytes end too early"), "{text}");
    let mut running = crate::testing::operator(Decodes).open().unwrap();
    let error = running.push(vec![0xff]).unwrap_err();
    assert!(matches!(error, TaskError::Codec { .. }), "{error}");
    assert!(!error.to_string().contains("received"), "{error}");
}

/// One thing that a function does with a record, which emits its number.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Emits so many, with the time that is set.
    Collect(usize),
    CollectAt(i64),
    SetTime(i64),
    Interrupt,
}

/// The end of a chain, which keeps all records with their times.
#[derive(Clone, Default)]
struct Timed(Arc<Mutex<Vec<(usize, i64)>>>);

impl Consumer<usize> for Timed {
    fn batch(&mut self, batch: &mut Batch<usize>) -> Result<bool, TaskError> {
        let mut seen = self.0.lock().unwrap();
        assert!(batch.len() <= BATCH_RECORDS && batch.times().len() <= batch.len());
        batch.each(|record, time| seen.push((record, time)));
        Ok(true)
    }
}

impl Control for Timed {
    fn event(&mut self, _: StreamEvent) -> Result<Flow, TaskError> {
        Ok(Flow::Done)
    }
}

fn any_time() -> impl Strategy<Value = i64> {
    prop_oneof![Just(NO_TIME), -3_i64..3]
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop_oneof![0_usize..3, Just(BATCH_RECORDS - 1)].prop_map(Act::Collect),
        1 => any_time().prop_map(Act::CollectAt),
        1 => any_time().prop_map(Act::SetTime),
        1 => Just(Act::Interrupt),
    ]
}

proptest! {
    /// Records have the time of the record that the function was called for, or the one that it has set in that call.
    #[test]
    fn what_a_function_emits_has_the_time_that_is_set_then(
        records in prop::collection::vec((any_time(), prop::collection::vec(any_act(), 0..5)), 0..12),
        batches in prop::collection::vec((1_usize..5, any::<bool>()), 12),
    ) {
        let (end, interrupt) = (Timed::default(), crate::Interrupt::default());
        let (acts, raised) = (records.clone(), interrupt.clone());
        let function = move |number: usize, out: &mut Collector<usize>| {
            for act in &acts[number].1 {
                match *act {
                    Act::Collect(copies) => out.collect_all(std::iter::repeat_n(number, copies)),
                    Act::CollectAt(time) => out.collect_at(number, time),
                    Act::SetTime(time) => out.set_time(time),
                    Act::Interrupt => raised.raise(),
                }
            }
        };
        let operator = super::FlatMap::new(function);
        let context = interrupted_by(&interrupt);
        let mut link = Link::new(operator, Box::new(end.clone()), SideOutputs::default(), context);
        let (mut numbers, mut expected) = ((0..records.len()).peekable(), Vec::new());
        for (length, has_times) in batches {
            let mut batch = Batch::default();
            for number in numbers.by_ref().take(length) {
                let mut time = if has_times { records[number].0 } else { NO_TIME };
                batch.push(number, time);
                for act in &records[number].1 {
                    match *act {
                        Act::Collect(copies) => {
                            expected.extend(std::iter::repeat_n((number, time), copies));
                        }
                        Act::CollectAt(own) => expected.push((number, own)),
                        Act::SetTime(set) => time = set,
                        Act::Interrupt => {}
                    }
                }
            }
            link.batch(&mut batch).unwrap();
            while link.is_interrupted() {
                interrupt.clear();
                link.resume().unwrap();
            }
            prop_assert_eq!(&*end.0.lock().unwrap(), &expected);
        }
        prop_assert!(numbers.peek().is_none());
    }
}
