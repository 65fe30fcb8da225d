//! Tumbling and sliding windows with one state per key, over a backend that fetches: against the naive model, and restored from the
//! state of windows in memory and the other way round.

use super::*;
use crate::{
    operators::windows::{
        key_core::KeyCore,
        key_panes::KeyPanes,
        pane_rule::{PaneCore, PaneRule},
    },
    state::{Kept, StateBackend, Table},
};
use std::cell::Cell;

type Out = (u8, i64, i64, Vec<u32>);
type Core<B> = PaneCore<Record, ByFirst, ProcessWindow<Show>, B>;

/// Windows in `backend`.
pub(super) fn over<B: StateBackend<u8, KeyPanes<Vec<Record>>>>(
    slices: Slices,
    lateness: i64,
    backend: B,
) -> Core<B> {
    KeyCore::with_backend(ProcessWindow(Show), PaneRule(slices), lateness, backend)
}

fn fetching(slices: Slices, lateness: i64) -> impl Operator<Record, Out = Out> {
    EventTimeWindows::new(by_first(), over(slices, lateness, Slow::new(1)))
}

/// Windows in any backend.
struct Any(Box<dyn WindowStore<Record, ByFirst, Out = Out>>);

impl WindowStore<Record, ByFirst> for Any {
    type Out = Out;
    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.0.open(context)
    }
    fn add(
        &mut self,
        selector: &ByFirst,
        batch: &mut Batch<Record>,
        extent: (i64, i64),
        out: &mut Collector<Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.0.add(selector, batch, extent, out, context)
    }
    fn mail(
        &mut self,
        selector: &ByFirst,
        mail: OperatorMail,
        out: &mut Collector<Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.0.mail(selector, mail, out, context)
    }
    fn waits(&self) -> bool {
        self.0.waits()
    }
    fn fire(
        &mut self,
        until: i64,
        out: &mut Collector<Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        self.0.fire(until, out, context)
    }
    fn next_end(&self) -> Option<i64> {
        self.0.next_end()
    }
    fn fired_until(&self) -> i64 {
        self.0.fired_until()
    }
    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }
    fn begin_snapshot(&mut self) -> bool {
        self.0.begin_snapshot()
    }
    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        self.0.write_snapshot(slice, context)
    }
    fn abort_snapshot(&mut self) -> bool {
        self.0.abort_snapshot()
    }
    fn snapshot(&mut self, context: &OperatorContext) -> Result<Option<Vec<u8>>, TaskError> {
        self.0.snapshot(context)
    }
    fn full(&self) -> bool {
        self.0.full()
    }
    fn late_records(&self) -> u64 {
        self.0.late_records()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn windows_over_a_backend_that_fetches_are_those_of_a_naive_model(
        acts in acts(), size in 1_i64..24, slide in 1_i64..24, tumbling: bool, offset in 0_i64..30,
        lateness in prop_oneof![Just(0), 1_i64..30], room in 0_usize..5, interrupted: bool,
    ) {
        let slide = if tumbling { size } else { slide };
        let store = || over(Slices::new(size, slide, offset), lateness, Slow::new(room));
        check(&acts, interrupted, store, &mut model(size, slide, offset, lateness))?;
    }

    #[test]
    fn windows_with_one_state_per_key_in_memory_are_those_of_a_naive_model(
        acts in acts(), size in 1_i64..24, slide in 1_i64..24, offset in 0_i64..30,
        lateness in prop_oneof![Just(0), 1_i64..30], interrupted: bool,
    ) {
        let store = || over(Slices::new(size, slide, offset), lateness, Table::default());
        check(&acts, interrupted, store, &mut model(size, slide, offset, lateness))?;
    }

    /// Every start of a subtask has another store than the one before.
    #[test]
    fn windows_go_on_in_every_store_with_the_state_that_another_one_wrote(
        acts in acts(), size in 1_i64..24, slide in 1_i64..24, offset in 0_i64..30,
        lateness in prop_oneof![Just(0), 1_i64..30], room in 0_usize..5, first in 0_usize..3,
    ) {
        let slices = Slices::new(size, slide, offset);
        let turn = Cell::new(first);
        let store = || {
            turn.set(turn.get() + 1);
            Any(match turn.get() % 3 {
                0 => Box::new(over(slices, lateness, Slow::new(room))),
                1 => Box::new(WindowCore::new(ProcessWindow(Show), slices, lateness)),
                _ => Box::new(over(slices, lateness, Table::default())),
            })
        };
        check(&acts, false, store, &mut model(size, slide, offset, lateness))?;
    }

    #[test]
    fn any_bytes_are_the_state_of_windows_over_a_backend_that_fetches_or_an_error(
        bytes: Vec<u8>, pane: i64, whole: bool,
    ) {
        let slices = Slices::new(10, 4, 1);
        let mut before = Subtask::new(fetching(slices, 0), (0, 1), &[], false);
        before.batch(&[(1, 1, pane.max(i64::MIN + 1))]);
        let mut snapshot = before.snapshot();
        if whole {
            snapshot.truncate(4);
        }
        snapshot.extend(bytes);
        let context = OperatorContext::for_tests(0, 1).restoring(vec![snapshot]);
        let _ = fetching(slices, 0).open(&context);
    }

    /// A pane that no program writes, because it lies between two windows, is discarded, and time goes on.
    #[test]
    fn a_restored_pane_of_any_number_is_fired_or_discarded(
        pane: i64, slide in 1_i64..24, lateness in prop_oneof![Just(0), 1_i64..30], watermark: i64,
    ) {
        let slices = Slices::new(10, slide, 1);
        let mut panes = KeyPanes::<Vec<Record>>::default();
        panes.add::<u8, _, _>(pane, (1, 1), &mut ProcessWindow(Show));
        let mut looks = 0;
        let mut moment = watermark;
        panes.give_up(&slices, slices.first_open(moment, lateness));
        while let Some(next) = panes.next(&slices, moment, lateness) {
            prop_assert!(next > moment, "{} after {}", next, moment);
            moment = next;
            panes.give_up(&slices, slices.first_open(moment, lateness));
            looks += 1;
        }
        prop_assert!(panes.holds_nothing());
        // At most once for each window, and for the end of the lateness.
        prop_assert!(looks <= 12, "{}", looks);
    }
}

#[test]
fn windows_move_between_a_backend_that_fetches_and_memory() {
    let slices = Slices::new(20, 10, 0);
    let in_memory =
        || EventTimeWindows::new(by_first(), WindowCore::new(ProcessWindow(Show), slices, 5));
    let records = [(1, 1, 0), (2, 2, 3), (3, 3, -7), (1, 4, 12)];
    let mut slow = Subtask::new(fetching(slices, 5), (0, 1), &[], false);
    assert_eq!(slow.batch(&records), []);
    assert!(!slow.reads.is_empty());
    let mut memory = Subtask::new(in_memory(), (0, 1), &[], false);
    memory.batch(&records);
    let fired = sorted(slow.event(StreamEvent::Watermark(9)));
    assert_eq!(fired, sorted(memory.event(StreamEvent::Watermark(9))));
    assert_eq!(fired.len(), 4);
    let mut to_memory = Subtask::new(in_memory(), (0, 1), &[slow.snapshot()], false);
    let mut to_slow = Subtask::new(fetching(slices, 5), (0, 1), &[memory.snapshot()], false);
    for subtask in [&mut slow as &mut dyn Fires, &mut memory, &mut to_memory, &mut to_slow] {
        let fired = [((1, 0, 19, vec![1, 4]), 19), ((2, 0, 19, vec![2]), 19)];
        assert_eq!(sorted(subtask.fires(19)), fired);
        assert_eq!(subtask.fires(i64::MAX), [((1, 10, 29, vec![4]), 29)]);
    }
}

#[test]
fn panes_of_a_key_that_are_in_many_chunks_become_one_state() {
    let (mut before, records) = many_records();
    before.snapshot();
    assert!(before.chunks.len() > 7);
    let mut restored = 0;
    for subtask in 0..4 {
        let own = chunks_of((subtask, 4), &before.chunks);
        let operator = fetching(Slices::new(30, 10, 0), 0);
        let mut after = Subtask::new(operator, (subtask, 4), &own, false);
        let fired = after.event(StreamEvent::Watermark(i64::MAX));
        restored += fired.iter().map(|((.., numbers), _)| numbers.len()).sum::<usize>();
    }
    assert_eq!(restored, 3 * records);
}

#[test]
fn the_keys_of_a_window_that_ends_are_fetched_at_once() {
    let store = over(Slices::new(10, 10, 0), 0, Slow::new(0));
    let mut slow = Subtask::new(EventTimeWindows::new(by_first(), store), (0, 1), &[], false);
    fetched_at_once(&mut slow);
    assert_eq!(slow.operator.store().queued(), 0);
}

#[test]
fn a_key_has_one_place_in_the_queue_however_many_records_and_panes() {
    let store = over(Slices::new(40, 10, 0), 0, Table::default());
    let mut windows = Subtask::new(EventTimeWindows::new(by_first(), store), (0, 1), &[], false);
    let records: Vec<_> = (0..400).map(|n| (1, n, i64::from(n % 40))).collect();
    assert_eq!(windows.batch(&records), []);
    assert_eq!(windows.operator.store().queued(), 1);
    for (last, count) in
        [(9, 100), (19, 200), (29, 300), (39, 400), (49, 300), (59, 200), (69, 100)]
    {
        let fired = windows.event(StreamEvent::Watermark(last));
        assert_eq!(
            fired.iter().map(|((.., numbers), _)| numbers.len()).collect::<Vec<_>>(),
            [count]
        );
        assert_eq!(windows.operator.store().queued(), usize::from(last < 69));
    }
}

#[test]
fn the_last_moment_there_is_has_a_window_of_one_state_per_key() {
    let mut windows = Subtask::new(fetching(Slices::new(3, 1, 0), 0), (0, 1), &[], false);
    windows.batch(&[(1, 1, i64::MAX)]);
    let last = windows.event(StreamEvent::Watermark(i64::MAX));
    assert_eq!(last.len(), 3);
    assert!(last.iter().all(|(_, time)| *time == i64::MAX));
}

#[test]
fn a_shorter_lateness_does_not_fire_windows_again_that_were_kept_for_a_longer_one() {
    let slices = Slices::new(10, 10, 0);
    let mut before = Subtask::new(fetching(slices, 100), (0, 1), &[], false);
    before.batch(&[(1, 1, 0), (1, 2, 50)]);
    assert_eq!(before.event(StreamEvent::Watermark(9)).len(), 1);
    let snapshot = before.snapshot();
    let mut after =
        Subtask::new(fetching(slices, 1), (0, 1), std::slice::from_ref(&snapshot), false);
    // The window of the first record ended at 9 and is kept until 10: the late record fires it once, and only once.
    assert_eq!(after.batch(&[(1, 3, 5)]), []);
    let fired = after.event(StreamEvent::Watermark(i64::MAX));
    assert_eq!(fired, [((1, 0, 9, vec![1, 3]), 9), ((1, 50, 59, vec![2]), 59)]);
    let mut after = Subtask::new(fetching(slices, 0), (0, 1), &[snapshot], false);
    let fired = after.event(StreamEvent::Watermark(i64::MAX));
    assert_eq!(fired, [((1, 50, 59, vec![2]), 59)]);
}

#[test]
fn every_kind_of_windows_runs_over_a_backend_that_fetches() {
    let ms = Duration::from_millis;
    let by = by_first;
    let lateness = || Lateness::from(0);
    let tumbling = TumblingEventTimeWindows::of(ms(10));
    let sliding = SlidingEventTimeWindows::of(ms(10), ms(5));
    let show = || ProcessWindow(Show);
    let tumbling = tumbling.operator_with_backend(by(), show(), lateness(), Slow::new(0));
    let sliding = sliding.operator_with_backend(by(), show(), lateness(), Slow::new(0));
    let mut tumbling = Subtask::new(tumbling, (0, 1), &[], false);
    let mut sliding = Subtask::new(sliding, (0, 1), &[], false);
    let windows = |subtask: &mut dyn Fires| {
        subtask.takes(&[(1, 1, 7)]);
        let fired = subtask.fires(i64::MAX);
        fired.into_iter().map(|((_, first, last, _), _)| (first, last)).collect::<Vec<_>>()
    };
    assert_eq!(windows(&mut tumbling), [(0, 9)]);
    assert_eq!(windows(&mut sliding), [(0, 9), (5, 14)]);
    // The clock of these stands at 0.
    let tumbling = TumblingProcessingTimeWindows::of(ms(10));
    let sliding = SlidingProcessingTimeWindows::of(ms(10), ms(5));
    let tumbling = tumbling.operator_with_backend(by(), show(), lateness(), Slow::new(0));
    let sliding = sliding.operator_with_backend(by(), show(), lateness(), Slow::new(0));
    let mut tumbling = Subtask::new(tumbling, (0, 1), &[], false);
    let mut sliding = Subtask::new(sliding, (0, 1), &[], false);
    assert_eq!(windows(&mut tumbling), []);
    assert_eq!(windows(&mut sliding), []);
}
