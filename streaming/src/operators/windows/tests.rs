//! Windows against naive models: the operators alone with watermarks, interruptions and changes of parallelism at any moment,
//! and whole programs.

use super::{core::WindowCore, key_core::KeyCore, pane_rule::PaneRule, *};
use crate::{
    api::tests::{built, lines},
    batch::{Batch, NO_TIME},
    harness::Harness,
    operators::{
        BoxError, ByReference, Collector, Flow, Operator, OperatorContext, OperatorMail,
        SideOutputs,
    },
    seam::{Barrier, Interrupt, StateChunk, StreamEvent, TaskError},
    state::{
        KeyGroups, Slice, Table, channel_of_group,
        slow::{Reads, Slow},
    },
    testing::gather::{Gather, Gathered},
    time::WatermarkStrategy,
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

mod clock;
mod key_panes;
mod sessions;

/// A key and a number that tells records apart.
type Record = (u8, u32);
/// Key, first and last millisecond of the window, numbers of its records in order; and the event time.
type Shown = ((u8, i64, i64, Vec<u32>), i64);

/// Shows each window with its records.
#[derive(Clone)]
struct Show;

impl WindowFunction<u8, Record> for Show {
    type Out = (u8, i64, i64, Vec<u32>);
    fn process(
        &mut self,
        key: &u8,
        window: TimeWindow,
        records: Vec<Record>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        assert!(records.iter().all(|(of, _)| of == key));
        let mut numbers: Vec<u32> = records.into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        out.collect((*key, window.start(), window.last(), numbers));
        Ok(())
    }
}

type ByFirst = ByReference<fn(&Record) -> &u8, u8>;
type Windows = EventTimeWindows<ByFirst, WindowCore<Record, ByFirst, ProcessWindow<Show>>>;

fn windows(slices: Slices, lateness: i64) -> Windows {
    EventTimeWindows::new(by_first(), WindowCore::new(ProcessWindow(Show), slices, lateness))
}

fn by_first() -> ByFirst {
    ByReference::new(|record| &record.0)
}

/// One subtask of an operator.
struct Subtask<Op: Operator<Record, Out = (u8, i64, i64, Vec<u32>)>> {
    operator: Op,
    out: Collector<Op::Out>,
    context: OperatorContext,
    seen: Gathered<Op::Out>,
    /// The reads of a backend that fetches.
    reads: Arc<Reads>,
    /// The chunks of the snapshot that was begun last, and whether they are all.
    chunks: Vec<StateChunk>,
    complete: bool,
}

impl<Op: Operator<Record, Out = (u8, i64, i64, Vec<u32>)>> Subtask<Op> {
    fn new(
        operator: Op,
        (subtask, of): (u32, u32),
        restore: &[Vec<u8>],
        interrupted: bool,
    ) -> Self {
        let reads = Arc::new(Reads::default());
        let context = OperatorContext::for_tests_with(subtask, of, reads.clone());
        Self::with_context(operator, context, reads, restore, interrupted)
    }

    fn with_context(
        operator: Op,
        mut context: OperatorContext,
        reads: Arc<Reads>,
        restore: &[Vec<u8>],
        interrupted: bool,
    ) -> Self {
        let seen = Gathered::default();
        let interrupt = Interrupt::default();
        if interrupted {
            interrupt.raise();
            context.shared().interrupt.raise();
        }
        context = context.restoring(restore.to_vec());
        let next = Box::new(Gather(seen.clone()));
        let out = Collector::new(next, SideOutputs::default(), interrupt);
        let chunks = Vec::new();
        let mut subtask = Self { operator, out, context, seen, reads, chunks, complete: true };
        subtask.operator.open(&subtask.context).unwrap();
        subtask
    }

    fn batch(&mut self, records: &[(u8, u32, i64)]) -> Vec<Shown> {
        let mut batch = Batch::default();
        records.iter().for_each(|(key, number, time)| batch.push((*key, *number), *time));
        while !batch.is_empty() {
            let before = batch.len();
            self.operator.process(&mut batch, &mut self.out, &self.context).unwrap();
            assert!(batch.len() < before, "no record was worked on");
        }
        self.shown()
    }

    fn event(&mut self, event: StreamEvent) -> Vec<Shown> {
        let mut calls = 0;
        loop {
            match self.operator.event(event, &mut self.out, &self.context).unwrap() {
                Flow::Done => break,
                Flow::More => self.out.flush().unwrap(),
                Flow::Waiting => assert!(self.answer(calls * 7), "nothing is being read"),
            }
            calls += 1;
            assert!(calls < 100_000, "no end");
        }
        assert!(self.reads.is_empty(), "an event overtook a read");
        self.shown()
    }

    /// Answers one of the reads; false if there is none.
    fn answer(&mut self, which: usize) -> bool {
        let Some((_, mail)) = self.reads.answer(which) else { return false };
        self.operator.mail(mail, &mut self.out, &self.context).unwrap();
        true
    }

    /// Begins a snapshot, or writes it at once if the backend cannot write it later. Returns what waited before.
    fn barrier(&mut self) -> Vec<Shown> {
        let waited = !self.reads.is_empty();
        let barrier = Barrier { checkpoint: 1, ..Barrier::default() };
        let shown = self.event(StreamEvent::Barrier(barrier));
        assert!(waited || shown.is_empty());
        self.complete = !self.operator.begin_snapshot(1, &self.context).unwrap();
        self.chunks.clear();
        if self.complete {
            let bytes = self.operator.snapshot(1, &self.context).unwrap().unwrap().into();
            self.chunks.push(StateChunk { groups: None, is_early: false, bytes });
        }
        shown
    }

    /// Writes a slice of the snapshot, unless it is complete.
    fn slice(&mut self, work: usize) {
        if !self.complete {
            let mut slice = Slice::new(work, work, &|| true);
            self.complete = self.operator.write_snapshot(&mut slice, &self.context).unwrap();
            self.chunks.append(&mut slice.chunks);
        }
    }

    /// Drops the snapshot, unless it is complete.
    fn abort(&mut self) {
        if !self.complete {
            assert!(self.operator.abort_snapshot(), "it has to be written to its end");
        }
        self.chunks.clear();
        self.complete = true;
    }

    fn snapshot(&mut self) -> Vec<u8> {
        self.barrier();
        self.slice(usize::MAX);
        assert!(self.complete);
        self.chunks.iter().map(|chunk| &chunk.bytes[..]).collect::<Vec<_>>().concat()
    }

    fn shown(&mut self) -> Vec<Shown> {
        self.out.flush().unwrap();
        let records = self.seen.take_records().into_iter();
        records.map(|(record, time)| (record, time.unwrap_or(NO_TIME))).collect()
    }
}

/// A subtask of any operator.
trait Fires {
    fn takes(&mut self, records: &[(u8, u32, i64)]);
    fn fires(&mut self, watermark: i64) -> Vec<Shown>;
}

impl<Op: Operator<Record, Out = (u8, i64, i64, Vec<u32>)>> Fires for Subtask<Op> {
    fn takes(&mut self, records: &[(u8, u32, i64)]) {
        assert_eq!(self.batch(records), []);
    }
    fn fires(&mut self, watermark: i64) -> Vec<Shown> {
        self.event(StreamEvent::Watermark(watermark))
    }
}

/// Returns the bytes of the chunks that a subtask must read, as the index tells.
fn chunks_of((subtask, of): (u32, u32), chunks: &[StateChunk]) -> Vec<Vec<u8>> {
    let owned = KeyGroups::of_subtask(subtask, of, 128).owned;
    let has = |chunk: &&StateChunk| {
        chunk.groups.as_ref().is_none_or(|groups| groups.iter().any(|group| owned.contains(group)))
    };
    chunks.iter().filter(has).map(|chunk| chunk.bytes.to_vec()).collect()
}

/// The subtask that a key belongs to.
fn subtask_of(key: u8, parallelism: u32) -> usize {
    let group = KeyGroups::of_subtask(0, 1, 128).address(&key).group;
    channel_of_group(group, 128, parallelism) as usize
}

#[derive(Debug, Clone)]
enum Act {
    /// Keys and times.
    Batch(Vec<(u8, i64)>),
    /// The watermark of one subtask advances.
    Watermark(usize, i64),
    /// All subtasks begin a snapshot, and write a slice of so much work after each of the next acts.
    Barrier(usize),
    /// The snapshot that all subtasks have begun is given up.
    Abort,
    /// All subtasks are started again, that many, from the snapshot that they have begun, or from the present state.
    Rescale(u32),
}

/// Generates sequences of acts whose times lie around one moment.
fn acts() -> impl Strategy<Value = Vec<Act>> {
    let around = prop_oneof![3 => Just(0), 1 => Just(i64::MAX - 60), 1 => Just(i64::MIN + 60)];
    around.prop_flat_map(|around| {
        let moment = move || {
            (-50_i64..50, 0_i64..20)
                .prop_map(move |(a, b)| i64::saturating_add(around, a + if a > 30 { b } else { 0 }))
        };
        let batch = prop::collection::vec((0_u8..6, moment()), 1..12).prop_map(Act::Batch);
        let watermark =
            (any::<usize>(), moment()).prop_map(|(subtask, ms)| Act::Watermark(subtask, ms));
        let barrier = (1_usize..400).prop_map(Act::Barrier);
        let rescale = (1_u32..4).prop_map(Act::Rescale);
        let act = prop_oneof![
            12 => batch, 12 => watermark, 2 => barrier, 1 => Just(Act::Abort), 2 => rescale
        ];
        prop::collection::vec(act, 1..40)
    })
}

/// How far time has come for each key, whatever subtask it is in.
type Watermarks = BTreeMap<u8, i64>;

/// Flink's window operator with event time, by the letter and slowly.
trait Reference {
    /// Returns what a record makes windows emit.
    fn record(&mut self, key: u8, number: u32, time: i64) -> Vec<Shown>;
    /// Returns what a key's windows emit when event time comes to `ms`.
    fn advance(&mut self, key: u8, ms: i64) -> Vec<Shown>;
    /// Returns how many records were late.
    fn late(&self) -> u64;
}

/// Tumbling and sliding windows.
#[derive(Clone)]
struct Model {
    size: i64,
    slide: i64,
    offset: i64,
    lateness: i64,
    contents: BTreeMap<(i128, u8), BTreeSet<u32>>,
    watermarks: Watermarks,
    late: u64,
}

impl Model {
    fn watermark(&self, key: u8) -> i64 {
        self.watermarks.get(&key).copied().unwrap_or(i64::MIN)
    }
    /// The last millisecond of a window that begins there.
    fn last(&self, start: i128) -> i64 {
        i64::try_from(start + i128::from(self.size) - 1).unwrap_or(i64::MAX)
    }
    fn show(&self, start: i128, key: u8) -> Shown {
        let numbers = self.contents[&(start, key)].iter().copied().collect();
        let first = i64::try_from(start).unwrap_or(i64::MIN);
        ((key, first, self.last(start), numbers), self.last(start))
    }
}

impl Reference for Model {
    fn late(&self) -> u64 {
        self.late
    }
    fn record(&mut self, key: u8, number: u32, time: i64) -> Vec<Shown> {
        let (slide, time_) = (i128::from(self.slide), i128::from(time));
        let offset = i128::from(self.offset) % slide;
        let mut start = (time_ - offset).div_euclid(slide) * slide + offset;
        let (mut skipped, mut shown) = (true, Vec::new());
        while start > time_ - i128::from(self.size) {
            let last = self.last(start);
            if last.saturating_add(self.lateness) > self.watermark(key) {
                skipped = false;
                self.contents.entry((start, key)).or_default().insert(number);
                if last <= self.watermark(key) {
                    shown.push(self.show(start, key));
                }
            }
            start -= slide;
        }
        let late = time.saturating_add(self.lateness) <= self.watermark(key);
        self.late += u64::from(skipped && late);
        shown
    }
    fn advance(&mut self, key: u8, ms: i64) -> Vec<Shown> {
        let before = self.watermark(key);
        if ms <= before {
            return Vec::new();
        }
        self.watermarks.insert(key, ms);
        let due = |start: &i128| (before + 1..=ms).contains(&self.last(*start));
        let of_key = self.contents.keys().filter(|(_, of)| *of == key).map(|(start, _)| *start);
        of_key.filter(due).map(|start| self.show(start, key)).collect()
    }
}

/// Checks that a watermark fetches the keys of all windows that it ends at once; the windows are those of 10 ms, over a backend
/// without room.
fn fetched_at_once<Op: Operator<Record, Out = (u8, i64, i64, Vec<u32>)>>(slow: &mut Subtask<Op>) {
    let records: Vec<_> = (0..100).map(|key| (key, 1, 0)).collect();
    slow.batch(&records);
    // Two reads per batch, by the backend.
    assert_eq!((0..3).filter(|_| slow.answer(0)).count(), 2);
    // Writes are under way for some batches, and read from there.
    (0..6).for_each(|number| {
        slow.batch(&[(200, number, 0)]);
        while slow.answer(0) {}
    });
    let mut ended = slow.operator.event(StreamEvent::Watermark(9), &mut slow.out, &slow.context);
    assert_eq!(ended, Ok(Flow::Waiting));
    assert_eq!((0..3).filter(|_| slow.answer(0)).count(), 2);
    ended = slow.operator.event(StreamEvent::Watermark(9), &mut slow.out, &slow.context);
    assert_eq!((ended, slow.shown().len()), (Ok(Flow::Done), 101));
}

fn sorted(mut shown: Vec<Shown>) -> Vec<Shown> {
    shown.sort();
    shown
}

/// Windows over a store, and what stands for it. Whatever happens while a snapshot is being written: what is restored from it goes on
/// as the model at the barrier does.
fn check<W: WindowStore<Record, ByFirst, Out = (u8, i64, i64, Vec<u32>)>>(
    acts: &[Act],
    interrupted: bool,
    store: impl Fn() -> W,
    model: &mut (impl Reference + Clone),
) -> Result<(), TestCaseError> {
    let subtask = |number, of, restore: &[Vec<u8>]| {
        let operator = EventTimeWindows::new(by_first(), store());
        Subtask::new(operator, (number, of), restore, interrupted)
    };
    let mut subtasks = vec![subtask(0, 1, &[])];
    let (mut number, mut late) = (0, 0);
    let mut begun = None;
    // What came out, and what had to, since nothing waited for a read.
    let (mut shown, mut expected) = (Vec::new(), Vec::new());
    let end =
        [Act::Watermark(0, i64::MAX), Act::Watermark(1, i64::MAX), Act::Watermark(2, i64::MAX)];
    let late_in = |subtasks: &[Subtask<EventTimeWindows<ByFirst, W>>]| {
        subtasks.iter().map(|subtask| subtask.operator.late_records::<Record>()).sum::<u64>()
    };
    for act in acts.iter().chain(&end) {
        let parallelism = subtasks.len() as u32;
        match act {
            Act::Batch(records) => {
                let mut parts = vec![Vec::new(); subtasks.len()];
                for (key, time) in records.iter().filter(|(_, time)| *time != NO_TIME) {
                    number += 1;
                    parts[subtask_of(*key, parallelism)].push((*key, number, *time));
                    expected.extend(model.record(*key, number, *time));
                }
                for (subtask, part) in subtasks.iter_mut().zip(parts) {
                    shown.extend(subtask.batch(&part));
                    if number % 3 == 0 && subtask.answer(number as usize) {
                        shown.extend(subtask.shown());
                    }
                }
            }
            Act::Watermark(which, ms) => {
                let which = which % subtasks.len();
                let waited = !subtasks[which].reads.is_empty();
                let fired = subtasks[which].event(StreamEvent::Watermark(*ms));
                prop_assert!(
                    waited || fired.is_sorted_by_key(|(_, time)| *time),
                    "not in order: {:?}",
                    fired
                );
                shown.extend(fired);
                for key in (0..6).filter(|key| subtask_of(*key, parallelism) == which) {
                    expected.extend(model.advance(key, *ms));
                }
            }
            Act::Barrier(work) => {
                // The next barrier waits for the snapshot.
                subtasks.iter_mut().for_each(|subtask| subtask.slice(usize::MAX));
                shown.extend(subtasks.iter_mut().flat_map(Subtask::barrier));
                begun = Some((*work, model.clone(), late + late_in(&subtasks)));
            }
            Act::Abort => {
                subtasks.iter_mut().for_each(Subtask::abort);
                begun = None;
            }
            Act::Rescale(to) => {
                for subtask in &mut subtasks {
                    while subtask.answer(0) {}
                    shown.extend(subtask.shown());
                }
                late += late_in(&subtasks);
                match begun.take() {
                    Some((_, at_barrier, late_then)) => (*model, late) = (at_barrier, late_then),
                    None => shown.extend(subtasks.iter_mut().flat_map(Subtask::barrier)),
                }
                subtasks.iter_mut().for_each(|subtask| subtask.slice(usize::MAX));
                let chunks = subtasks.into_iter().flat_map(|subtask| subtask.chunks);
                let mut chunks: Vec<_> = chunks.collect();
                if number % 2 == 0 {
                    chunks.reverse();
                }
                let restored = |n| subtask(n, *to, &chunks_of((n, *to), &chunks));
                subtasks = (0..*to).map(restored).collect();
            }
        }
        if let Some((work, ..)) = begun {
            subtasks.iter_mut().for_each(|subtask| subtask.slice(work));
        }
        if subtasks.iter().all(|subtask| subtask.reads.is_empty()) {
            let (shown, expected) = (std::mem::take(&mut shown), std::mem::take(&mut expected));
            prop_assert_eq!(sorted(shown), sorted(expected), "after {:?}", act);
        }
    }
    prop_assert_eq!((shown, expected), (Vec::new(), Vec::new()));
    prop_assert_eq!(late + late_in(&subtasks), model.late());
    Ok(())
}

fn model(size: i64, slide: i64, offset: i64, lateness: i64) -> Model {
    let (contents, watermarks) = (BTreeMap::new(), BTreeMap::new());
    Model { size, slide, offset, lateness, contents, watermarks, late: 0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn windows_are_those_of_a_naive_model(
        acts in acts(), size in 1_i64..24, slide in 1_i64..24, tumbling: bool, offset in 0_i64..30,
        lateness in prop_oneof![Just(0), 1_i64..30], interrupted: bool,
    ) {
        let slide = if tumbling { size } else { slide };
        let store = || WindowCore::new(ProcessWindow(Show), Slices::new(size, slide, offset), lateness);
        check(&acts, interrupted, store, &mut model(size, slide, offset, lateness))?;
    }

    #[test]
    fn any_bytes_are_the_state_of_windows_or_an_error(bytes: Vec<u8>, whole: bool) {
        let operator = || windows(Slices::new(10, 4, 1), 0);
        let mut snapshot = Subtask::new(operator(), (0, 1), &[], false).snapshot();
        if whole {
            snapshot.truncate(4);
        }
        snapshot.extend(bytes);
        let context = OperatorContext::for_tests(0, 1).restoring(vec![snapshot]);
        let _ = operator().open(&context);
    }
}

/// Writes some state, or reads the fixture of this name, and compares what becomes of both.
fn check_fixture<Op>(name: &str, operator: impl Fn() -> Op)
where
    Op: Operator<Record, Out = (u8, i64, i64, Vec<u32>)>,
{
    let mut before = Subtask::new(operator(), (0, 1), &[], false);
    before.event(StreamEvent::Watermark(-20));
    before.batch(&[(1, 1, 0), (2, 2, 3), (3, 3, -7), (1, 4, 12)]);
    let bytes = crate::state::fixtures::fixture(name, &before.snapshot());
    let mut after = Subtask::new(operator(), (0, 1), std::slice::from_ref(&bytes), false);
    assert_eq!(after.snapshot(), bytes, "{name} is written alike");
    let mut fired = [&mut before, &mut after].map(|w| w.event(StreamEvent::Watermark(i64::MAX)));
    fired.iter_mut().for_each(|fired| fired.sort());
    assert!(!fired[0].is_empty());
    assert_eq!(fired[0], fired[1], "{name}");
    for length in 0..bytes.len() {
        let context = OperatorContext::for_tests(0, 1).restoring(vec![bytes[..length].to_vec()]);
        assert!(operator().open(&context).is_err(), "{name} cut to {length}");
    }
}

#[test]
fn the_fixtures_of_windows_and_sessions_are_read_and_written_alike() {
    check_fixture("windows-3.bin", || windows(Slices::new(10, 4, 1), 5));
    check_fixture("sessions.bin", || EventTimeWindows::new(by_first(), sessions::core(|_| 10, 5)));
}

#[test]
fn state_in_the_first_format_of_windows_is_refused_and_its_version_named() {
    let context = OperatorContext::for_tests(0, 1);
    let context = context.restoring(vec![crate::state::fixtures::fixture("windows.bin", &[])]);
    let refused = windows(Slices::new(10, 4, 1), 5).open(&context).unwrap_err().to_string();
    assert!(refused.contains("has version 1") && refused.contains("in version 3"), "{refused}");
}

/// Sliding windows with 700 records of each of 256 keys in each of three panes, and the number of their records.
fn many_records() -> (Subtask<Windows>, usize) {
    let mut subtask = Subtask::new(windows(Slices::new(30, 10, 0), 0), (0, 1), &[], false);
    let mut records = Vec::new();
    for number in 0..700 {
        for pane in 0..3 {
            let of_key = |key| (key, number << 10 | u32::from(key), pane * 10 + 5);
            records.extend((0..=u8::MAX).map(of_key));
        }
    }
    subtask.batch(&records);
    (subtask, records.len())
}

#[test]
fn chunks_of_panes_have_few_key_groups_and_a_subtask_reads_those_alone_that_may_have_its_own() {
    let (mut before, records) = many_records();
    before.snapshot();
    let listed: Vec<_> = before.chunks.iter().filter_map(|chunk| chunk.groups.as_ref()).collect();
    assert!(listed.len() > 6 && before.chunks.len() - listed.len() == 1, "{}", listed.len());
    assert!(listed.iter().all(|groups| groups.len() < 24), "{listed:?}");
    let mut restored = 0;
    for subtask in 0..4 {
        let own = chunks_of((subtask, 4), &before.chunks);
        assert!(own.len() < before.chunks.len() / 2 + 2, "{} chunks", own.len());
        let operator = windows(Slices::new(30, 10, 0), 0);
        let mut after = Subtask::new(operator, (subtask, 4), &own, false);
        let fired = after.event(StreamEvent::Watermark(i64::MAX));
        restored += fired.iter().map(|((.., numbers), _)| numbers.len()).sum::<usize>();
    }
    // Each pane is in three windows.
    assert_eq!(restored, 3 * records);
}

#[test]
fn a_storage_that_is_too_slow_stops_the_records_of_windows_and_what_fires_is_still_written() {
    let (mut subtask, records) = many_records();
    subtask.barrier();
    let mut slice = Slice::whole();
    slice.stored = true;
    assert!(!subtask.operator.write_snapshot(&mut slice, &subtask.context).unwrap());
    assert!(slice.waits() && subtask.operator.full(), "eight chunks wait");
    // A watermark that was under way drops all panes.
    let fired = subtask.event(StreamEvent::Watermark(i64::MAX));
    assert_eq!(fired.iter().map(|((.., numbers), _)| numbers.len()).sum::<usize>(), 3 * records);
    subtask.chunks.append(&mut slice.chunks);
    subtask.slice(usize::MAX);
    assert!(subtask.complete && !subtask.operator.full());
    let chunks = chunks_of((0, 1), &subtask.chunks);
    let mut after = Subtask::new(windows(Slices::new(30, 10, 0), 0), (0, 1), &chunks, false);
    let again = after.event(StreamEvent::Watermark(i64::MAX));
    assert!(sorted(fired) == sorted(again));
}

#[test]
fn an_aborted_snapshot_of_windows_is_dropped_with_the_panes_that_waited_for_it() {
    let (mut subtask, records) = many_records();
    subtask.barrier();
    subtask.slice(100_000);
    let before = subtask.operator.store().memory_bytes();
    // All panes are dropped, and wait to be written.
    let fired = subtask.event(StreamEvent::Watermark(i64::MAX));
    assert_eq!(fired.iter().map(|((.., numbers), _)| numbers.len()).sum::<usize>(), 3 * records);
    subtask.abort();
    let after = subtask.operator.store().memory_bytes();
    assert!(after < before * 3 / 4, "{after} of {before} bytes");
    let mut slice = Slice::whole();
    assert!(subtask.operator.write_snapshot(&mut slice, &subtask.context).unwrap());
    assert!(slice.chunks.is_empty());
    let empty = subtask.snapshot();
    let mut restored = Subtask::new(windows(Slices::new(30, 10, 0), 0), (0, 1), &[empty], false);
    assert_eq!(restored.event(StreamEvent::Watermark(i64::MAX)), []);
}

#[test]
fn windows_take_the_hash_that_came_with_the_record_and_no_other_key() {
    use crate::operators::{
        Count,
        tests::{OfText, by_text, refuses_the_hash_of_another_key},
    };
    let panes = || WindowCore::new(Count, Slices::new(10, 10, 0), 0);
    for (before, times) in [(0, [5, 6]), (20_000, [5, 6]), (0, [5, 15])] {
        refuses_the_hash_of_another_key(EventTimeWindows::new(by_text(), panes()), before, times);
    }
    type OfKeys<R> = KeyCore<OfText, ByReference<fn(&OfText) -> &String, String>, Count, R>;
    for before in [0, 20_000] {
        let panes = OfKeys::new(Count, PaneRule(Slices::new(10, 10, 0)), 0);
        let sessions = OfKeys::new(Count, session_rule::SessionRule(FixedGap(10)), 0);
        refuses_the_hash_of_another_key(EventTimeWindows::new(by_text(), panes), before, [5, 6]);
        refuses_the_hash_of_another_key(EventTimeWindows::new(by_text(), sessions), before, [5, 6]);
    }
}

#[test]
fn records_of_windows_still_come_while_a_sixteenth_of_the_first_snapshot_waits_for_its_storage() {
    use crate::{chain::NoConsumer, operators::ByValue};
    let of_itself: ByValue<fn(&u64) -> u64, u64> = ByValue::new(|n| *n);
    let core = WindowCore::new(crate::operators::Count, Slices::new(10, 10, 0), 0);
    let mut operator = EventTimeWindows::new(of_itself, core);
    let context = OperatorContext::for_tests(0, 1);
    let (no_sides, interrupt) = (SideOutputs::default(), Interrupt::default());
    let mut out = Collector::new(Box::new(NoConsumer), no_sides, interrupt);
    operator.open(&context).unwrap();
    let mut add = |operator: &mut EventTimeWindows<_, _>, numbers: std::ops::Range<u64>| {
        let times = vec![5; numbers.clone().count()];
        let mut batch = Batch::with_times(numbers.collect(), times);
        operator.process(&mut batch, &mut out, &context).unwrap();
    };
    add(&mut operator, 0..300_000);
    assert!(operator.begin_snapshot(1, &context).unwrap());
    let mut slice = Slice::whole();
    slice.stored = true;
    assert!(!operator.write_snapshot(&mut slice, &context).unwrap());
    assert_eq!((slice.waits(), slice.chunks.len()), (true, 8));
    assert!(!operator.full(), "5 MB allow another chunk");
    // The old values of the keys that are not written fill it.
    add(&mut operator, 0..300_000);
    assert!(operator.full());
    drop(std::mem::take(&mut slice.chunks));
    assert!(!operator.full());
}

#[test]
fn state_of_other_windows_is_refused() {
    let of = |size| windows(Slices::new(size, size, 0), 0);
    let snapshot = Subtask::new(of(10), (0, 1), &[], false).snapshot();
    let context = || OperatorContext::for_tests(0, 1).restoring(vec![snapshot.clone()]);
    assert!(of(10).open(&context()).is_ok());
    let refused = of(11).open(&context()).unwrap_err().to_string();
    for part in ["windows with size 10 ms, slide 10 ms and offset 0 ms", "have size 11 ms", "uid"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn the_output_can_stop_a_window_between_any_two_keys() {
    let mut windows = Subtask::new(windows(Slices::new(10, 10, 0), 0), (0, 1), &[], true);
    let records: Vec<_> = (0..200).map(|n| (n as u8, n, 5)).collect();
    windows.batch(&records);
    let mut calls = 0;
    let event = StreamEvent::Watermark(9);
    while windows.operator.event(event, &mut windows.out, &windows.context).unwrap() != Flow::Done {
        calls += 1;
    }
    assert_eq!((calls, windows.shown().len()), (200, 200));
}

#[test]
fn keys_of_a_large_window_are_computed_ahead_only_where_that_delays_no_mail() {
    let context = OperatorContext::for_tests(0, 1);
    let interrupt = context.shared().interrupt.clone();
    let next = Box::new(crate::chain::NoConsumer);
    let mut out = Collector::new(next, SideOutputs::default(), interrupt.clone());
    let (raised, keys) = (interrupt.clone(), Arc::new(AtomicU32::new(0)));
    let computed = Arc::clone(&keys);
    // Mail comes while the key of a negative number is computed.
    let selector = crate::operators::ByValue::new(move |number: &i64| {
        computed.fetch_add(1, Ordering::Relaxed);
        if *number < 0 {
            raised.raise();
        }
        number.unsigned_abs()
    });
    let mut core = WindowCore::new(crate::operators::Count, Slices::new(10, 10, 0), 0);
    core.open(&context).unwrap();
    let mut add = |batch: &mut Batch<i64>| {
        core.add(&selector, batch, (5, 5), &mut out, &context).unwrap();
        keys.swap(0, Ordering::Relaxed)
    };
    assert_eq!(add(&mut (0..40_000).collect::<Vec<i64>>().into()), 40_000);
    let mut batch = Batch::from(vec![-1; 100]);
    for left in (0..100).rev() {
        assert_eq!((add(&mut batch), batch.len()), (1, left), "one key and its record");
        interrupt.clear();
    }
}

#[test]
fn the_last_moment_there_is_has_a_window() {
    let windows = windows(Slices::new(3, 1, 0), 0);
    let mut windows = Subtask::new(windows, (0, 1), &[], false);
    windows.batch(&[(1, 1, i64::MAX)]);
    let last = windows.event(StreamEvent::Watermark(i64::MAX));
    assert_eq!(last.len(), 3);
    assert!(last.iter().all(|(_, time)| *time == i64::MAX));
}

/// Counts how often the kept value of a key in a pane is made or changed. The value is of one record, so that each call is one entry of
/// a table.
#[derive(Clone, Default)]
struct Changes(Arc<AtomicU32>);

impl WindowFolding<u8, Record> for Changes {
    type Kept = u32;
    type Out = (u8, i64, i64, Vec<u32>);
    fn first(&mut self, (_, number): Record) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed);
        number
    }
    fn add(&mut self, kept: &mut u32, (_, number): Record) {
        self.0.fetch_add(1, Ordering::Relaxed);
        *kept += number;
    }
    fn merge(&mut self, kept: &mut u32, later: u32) {
        *kept += later;
    }
    fn emit(
        &mut self,
        key: u8,
        window: TimeWindow,
        kept: u32,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        out.collect((key, window.start(), window.last(), vec![kept]));
        Ok(())
    }
}

#[test]
fn a_record_of_sliding_windows_changes_one_entry_however_many_windows_it_is_in() {
    // Windows in memory have a table per pane; the others have one state per key, a map of panes.
    for windows in [1, 2, 10, 1_000] {
        let slices = || Slices::new(windows * 10, 10, 0);
        let in_memory = Changes::default();
        let store = WindowCore::new(in_memory.clone(), slices(), 0);
        let mut subtask =
            Subtask::new(EventTimeWindows::new(by_first(), store), (0, 1), &[], false);
        let per_key = Changes::default();
        let store = KeyCore::with_backend(per_key.clone(), PaneRule(slices()), 0, Table::default());
        let mut one_state =
            Subtask::new(EventTimeWindows::new(by_first(), store), (0, 1), &[], false);
        // Two records in one pane, one in the next, and one of another key.
        let records = [(1, 1, 100_000), (1, 2, 100_009), (1, 3, 100_010), (2, 4, 100_000)];
        for (subtask, changes) in
            [(&mut subtask as &mut dyn Fires, &in_memory), (&mut one_state, &per_key)]
        {
            for (taken, record) in (1..).zip(records) {
                subtask.takes(&[record]);
                assert_eq!(changes.0.load(Ordering::Relaxed), taken, "{windows} windows");
            }
            // Each of the windows is fired, and none of them has changed an entry by that.
            let fired = subtask.fires(i64::MAX);
            let of_the_first = fired.iter().filter(|((key, first, last, _), _)| {
                *key == 2 && *first <= 100_000 && 100_000 <= *last
            });
            assert_eq!(of_the_first.count() as i64, windows, "{fired:?}");
            assert_eq!(changes.0.load(Ordering::Relaxed), 4);
        }
    }
}

#[test]
fn a_step_that_is_over_leaves_all_records_but_one() {
    fn left<Op: Operator<Record, Out = (u8, i64, i64, Vec<u32>)>>(operator: Op) -> usize {
        let mut windows = Subtask::new(operator, (0, 1), &[], true);
        let mut batch = Batch::with_times(vec![(1, 1); 10], (0..10).collect());
        windows.operator.process(&mut batch, &mut windows.out, &windows.context).unwrap();
        batch.len()
    }
    let store = |size| WindowCore::new(ProcessWindow(Show), Slices::new(size, size, 0), 0);
    // In one pane, in several; and both clocks.
    assert_eq!(left(EventTimeWindows::new(by_first(), store(100))), 9);
    assert_eq!(left(EventTimeWindows::new(by_first(), store(3))), 9);
    assert_eq!(left(EventTimeWindows::new(by_first(), sessions::core(|_| 5, 0))), 9);
    assert_eq!(left(ProcessingTimeWindows::new(by_first(), store(100))), 9);
    assert_eq!(left(ProcessingTimeWindows::new(by_first(), sessions::core(|_| 5, 0))), 9);
}

/// Counts of numbers by their remainder in windows, as lines.
fn expected_counts(numbers: std::ops::Range<u64>, size: i64, slide: i64) -> Vec<String> {
    let mut counts: BTreeMap<(u64, i64), u64> = BTreeMap::new();
    for n in numbers {
        let time = time_of(n);
        let newest = time.div_euclid(slide) * slide;
        for start in (0..).map(|back| newest - back * slide).take_while(|s| *s > time - size) {
            *counts.entry((n % 7, start + size - 1)).or_default() += 1;
        }
    }
    let mut lines: Vec<_> =
        counts.iter().map(|((key, last), count)| format!("{key}\t{count}\t{last}")).collect();
    lines.sort();
    lines
}

/// Out of order by less than 250 ms.
fn time_of(n: u64) -> i64 {
    (n as i64 / 25) * 25 + (n * 7 % 225) as i64
}

/// Shows counts with their event times.
#[derive(Clone)]
struct Stamped;

impl crate::operators::ProcessFunction<(u64, u64)> for Stamped {
    type Out = (u64, u64, i64);
    fn process(
        &mut self,
        (key, count): (u64, u64),
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        out.collect((key, count, out.timestamp().unwrap()));
        Ok(())
    }
}

#[test]
fn programs_with_windows_give_the_same_through_any_exchange() {
    for (size, slide) in [(1_000, 1_000), (1_000, 250), (300, 200), (100, 270)] {
        let job = built(3, move |env| {
            let ms = |ms: i64| Duration::from_millis(ms.unsigned_abs());
            let strategy =
                WatermarkStrategy::for_bounded_out_of_orderness(ms(250), |n: &u64| time_of(*n));
            let keyed = env
                .sequence(0..6_000)
                .assign_timestamps_and_watermarks(strategy)
                .key_by_value(|n| n % 7);
            if size == slide {
                keyed
                    .window(TumblingEventTimeWindows::of(ms(size)))
                    .count()
                    .process(Stamped)
                    .collect();
            } else {
                let windows = SlidingEventTimeWindows::of(ms(size), ms(slide));
                keyed.window(windows).sum(|_| 1_u64).process(Stamped).collect();
            }
        });
        let tmp = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        interrupt.raise();
        let harnesses = [
            Harness::new(tmp.path()),
            Harness::new(tmp.path()).channel_batches(1).budget(64).serialize(),
            Harness::new(tmp.path()).channel_batches(2).interrupt(interrupt),
            Harness::new(tmp.path()).checkpoint_after(&[3, 9, 30]).fail_after(&[20]),
        ];
        for harness in harnesses {
            let outcome = harness.run(&job).unwrap();
            let expected = expected_counts(0..6_000, size, slide);
            assert_eq!(lines(&outcome), expected, "{size}, {slide}");
        }
    }
}

#[test]
fn a_record_without_an_event_time_fails_the_task_and_the_message_says_what_is_missing() {
    let job = built(1, |env| {
        let windows = TumblingEventTimeWindows::of(Duration::from_secs(1));
        env.sequence(0..10).key_by(|n| n).window(windows).count().collect();
    });
    let tmp = tempfile::tempdir().unwrap();
    let failure = Harness::new(tmp.path()).run(&job).unwrap_err().to_string();
    assert!(failure.contains("call assign_timestamps_and_watermarks"), "{failure}");
}

#[test]
fn windows_of_no_length_are_refused_when_the_program_is_built() {
    let refused = crate::api::tests::try_built(crate::api::tests::inputs(1), |env| {
        let windows = TumblingEventTimeWindows::of(Duration::from_micros(10));
        env.sequence(0..10).key_by(|n| n).window(windows).count().collect();
    });
    assert!(refused.unwrap_err().to_string().contains("at least 1 ms"));
}

#[test]
fn a_window_of_several_panes_is_interrupted_between_two_merges() {
    let interrupt = Interrupt::default();
    let (calls, raised) = (Arc::new(Mutex::new(0)), interrupt.clone());
    let counted = calls.clone();
    let merge = crate::operators::Reduce::new(move |all: &mut Record, (_, number): Record| {
        all.1 += number;
        *counted.lock().unwrap() += 1;
        raised.raise();
    });
    let context = OperatorContext::for_tests(0, 1);
    let core = WindowCore::new(merge, Slices::new(30, 10, 0), 0);
    let mut operator = EventTimeWindows::new(by_first(), core);
    let next = Box::new(crate::chain::NoConsumer);
    let mut out = Collector::new(next, SideOutputs::default(), interrupt.clone());
    operator.open(&context).unwrap();
    let mut batch = Batch::default();
    for key in 0..200 {
        [0, 10, 20].iter().for_each(|time| batch.push((key, 1), *time));
    }
    operator.process(&mut batch, &mut out, &context).unwrap();
    assert_eq!((batch.len(), *calls.lock().unwrap()), (0, 0));
    // Three windows end: with one, two and three panes of each key.
    let mut steps = 0;
    loop {
        interrupt.clear();
        let before = *calls.lock().unwrap();
        let flow = operator.event(StreamEvent::Watermark(29), &mut out, &context).unwrap();
        assert!(*calls.lock().unwrap() - before <= 1, "a step ends after one call");
        steps += 1;
        if flow == Flow::Done {
            break;
        }
    }
    assert_eq!(*calls.lock().unwrap(), 600);
    assert!(steps > 600);
}
