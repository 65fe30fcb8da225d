//! Windows of processing time against the same models, with a clock that jumps forward and back.

use super::{
    sessions::{core, fetching, harnesses},
    *,
};
use crate::seam::TaskUpcalls;
use futures::future::BoxFuture;
use model::OperatorId;

/// A clock, and the moments at which it wakes somebody.
#[derive(Default)]
struct Clock(Mutex<(u64, Vec<u64>)>, Arc<Reads>);

impl TaskUpcalls for Clock {
    fn operator_event(&self, _: OperatorId, _: Vec<u8>, _: u64) {}
    fn spawn_io(&self, read: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u64) {
        self.1.spawn_io(read, ticket);
    }
    fn now_unix_ms(&self) -> u64 {
        self.0.lock().unwrap().0
    }
    fn wake_at(&self, after: Duration, _: u64) {
        let mut clock = self.0.lock().unwrap();
        let due = clock.0 + u64::try_from(after.as_millis()).unwrap();
        clock.1.push(due);
    }
    fn acknowledge(&self, _: u64, _: crate::TaskSnapshot) {}
}

impl Clock {
    /// Shows another time; returns how many wake-ups are due.
    fn set(&self, ms: u64) -> usize {
        let mut clock = self.0.lock().unwrap();
        clock.0 = ms;
        let waiting = clock.1.len();
        clock.1.retain(|due| *due > ms);
        waiting - clock.1.len()
    }
}

#[derive(Debug, Clone)]
enum Act {
    Batch(Vec<u8>),
    /// The clock shows another time.
    Clock(i64),
    /// All subtasks write their state and are started again, that many.
    Rescale(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let batch = prop::collection::vec(0_u8..6, 1..12).prop_map(Act::Batch);
    let clock = prop_oneof![4 => 0_i64..12, 1 => 12_i64..80, 1 => -20_i64..0].prop_map(Act::Clock);
    let rescale = (1_u32..4).prop_map(Act::Rescale);
    prop::collection::vec(prop_oneof![6 => batch, 6 => clock, 1 => rescale], 1..40)
}

type Panes = WindowCore<Record, ByFirst, ProcessWindow<Show>>;
type Running<W> = (Subtask<ProcessingTimeWindows<ByFirst, W>>, Arc<Clock>);

/// Plays acts, and compares what every moment fires.
fn check<W: WindowStore<Record, ByFirst, Out = (u8, i64, i64, Vec<u32>)>>(
    acts: &[Act],
    interrupted: bool,
    store: impl Fn() -> W,
    model: &mut impl Reference,
) -> Result<(), TestCaseError> {
    let (mut clock, mut now, mut number) = (1_000_i64, 1_000_i64, 0);
    let start = |subtask, of, clock: i64, restore: &[Vec<u8>]| -> Running<W> {
        let upcalls = Arc::new(Clock::default());
        upcalls.set(clock.unsigned_abs());
        let context = OperatorContext::for_tests_with(subtask, of, upcalls.clone());
        let operator = ProcessingTimeWindows::new(by_first(), store());
        let reads = upcalls.1.clone();
        (Subtask::with_context(operator, context, reads, restore, interrupted), upcalls)
    };
    let mut subtasks = vec![start(0, 1, clock, &[])];
    for act in acts.iter().chain([&Act::Clock(1_000)]) {
        let (mut shown, mut expected) = (Vec::new(), Vec::new());
        match act {
            Act::Batch(keys) => {
                let mut parts = vec![Vec::new(); subtasks.len()];
                for key in keys {
                    number += 1;
                    // Times of the records' own count for nothing.
                    parts[subtask_of(*key, subtasks.len() as u32)].push((*key, number, 77));
                    expected.extend(model.record(*key, number, now));
                }
                for ((subtask, _), part) in subtasks.iter_mut().zip(parts) {
                    shown.extend(subtask.batch(&part));
                }
            }
            Act::Clock(by) => {
                clock = (clock + by).max(1);
                now = now.max(clock);
                for (subtask, upcalls) in &mut subtasks {
                    if *by < 0 {
                        // A wake-up too many fires nothing; the operator sees what the clock shows before it goes back.
                        let Subtask { operator, out, context, .. } = &mut *subtask;
                        operator.mail(OperatorMail::Timer { ticket: 0 }, out, context).unwrap();
                    }
                    let mut due = upcalls.set(clock.unsigned_abs());
                    loop {
                        for _ in 0..due {
                            let Subtask { operator, out, context, .. } = &mut *subtask;
                            operator.mail(OperatorMail::Timer { ticket: 0 }, out, context).unwrap();
                        }
                        // What an interrupted step has left of a window goes before any event.
                        shown.extend(subtask.event(StreamEvent::Watermark(5_000)));
                        // Records that waited for their keys may have set an alarm that is due already.
                        due = upcalls.set(clock.unsigned_abs());
                        if due == 0 {
                            break;
                        }
                    }
                }
                (0..6).for_each(|key| expected.extend(model.advance(key, now - 1)));
            }
            Act::Rescale(to) => {
                let restore: Vec<_> = subtasks.iter_mut().map(|(it, _)| it.snapshot()).collect();
                clock = now;
                subtasks = (0..*to).map(|number| start(number, *to, clock, &restore)).collect();
            }
        }
        prop_assert_eq!(sorted(shown), sorted(expected), "after {:?}", act);
    }
    for (subtask, _) in &mut subtasks {
        prop_assert_eq!(subtask.event(StreamEvent::Watermark(i64::MAX)), []);
        prop_assert_eq!(subtask.event(StreamEvent::EndOfInput), []);
    }
    prop_assert_eq!(model.late(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn windows_of_the_clock_are_those_of_a_naive_model(
        acts in acts(), size in 1_i64..24, slide in 1_i64..24, tumbling: bool, offset in 0_i64..30, interrupted: bool,
    ) {
        let slide = if tumbling { size } else { slide };
        let store = || WindowCore::new(ProcessWindow(Show), Slices::new(size, slide, offset), 0);
        check(&acts, interrupted, store, &mut model(size, slide, offset, 0))?;
    }

    #[test]
    fn windows_of_the_clock_over_a_backend_that_fetches_are_those_of_a_naive_model(
        acts in acts(), size in 1_i64..24, slide in 1_i64..24, tumbling: bool, offset in 0_i64..30, interrupted: bool,
        room in 0_usize..5,
    ) {
        let slide = if tumbling { size } else { slide };
        let slices = Slices::new(size, slide, offset);
        let store = || super::key_panes::over(slices, 0, Slow::new(room));
        check(&acts, interrupted, store, &mut model(size, slide, offset, 0))?;
    }

    #[test]
    fn sessions_of_the_clock_are_those_of_a_naive_model(acts in acts(), wide: bool, interrupted: bool) {
        let gap: fn(u32) -> i64 = if wide { |_| 20 } else { |number| 1 + i64::from(number % 9) };
        check(&acts, interrupted, || core(gap, 0), &mut super::sessions::sessions(gap, 0))?;
    }

    #[test]
    fn sessions_of_the_clock_over_a_backend_that_fetches_are_those_of_a_naive_model(
        acts in acts(), wide: bool, interrupted: bool, room in 0_usize..5,
    ) {
        let gap: fn(u32) -> i64 = if wide { |_| 20 } else { |number| 1 + i64::from(number % 9) };
        let store = || fetching(gap, 0, room);
        check(&acts, interrupted, store, &mut super::sessions::sessions(gap, 0))?;
    }
}

#[test]
fn windows_that_were_fired_take_no_records_on_a_machine_whose_clock_is_behind() {
    let start = |ms: u64, restore: &[Vec<u8>]| {
        let upcalls = Arc::new(Clock::default());
        upcalls.set(ms);
        let context = OperatorContext::for_tests_with(0, 1, upcalls.clone());
        let store = WindowCore::new(ProcessWindow(Show), Slices::new(10, 10, 0), 0);
        let operator = ProcessingTimeWindows::new(by_first(), store);
        let reads = upcalls.1.clone();
        (Subtask::with_context(operator, context, reads, restore, false), upcalls)
    };
    let wake = |(subtask, upcalls): &mut (Subtask<_>, Arc<Clock>), ms| {
        let due = upcalls.set(ms);
        let Subtask { operator, out, context, .. } = &mut *subtask;
        for _ in 0..due {
            let operator: &mut ProcessingTimeWindows<ByFirst, Panes> = operator;
            operator.mail(OperatorMail::Timer { ticket: 0 }, out, context).unwrap();
        }
        subtask.shown()
    };
    let mut before = start(1_000, &[]);
    before.0.batch(&[(1, 1, NO_TIME)]);
    assert_eq!(wake(&mut before, 1_009), []);
    assert_eq!(wake(&mut before, 1_010), [((1, 1_000, 1_009, vec![1]), 1_009)]);
    let mut after = start(900, &[before.0.snapshot()]);
    after.0.batch(&[(1, 2, NO_TIME)]);
    assert_eq!(wake(&mut after, 1_019), []);
    assert_eq!(wake(&mut after, 1_020), [((1, 1_010, 1_019, vec![2]), 1_019)]);
}

#[test]
fn programs_with_windows_of_the_clock_fire_all_but_the_last() {
    for way in 0..3 {
        let job = built(2, move |env| {
            let keyed = env.sequence_with_rate(0..3_000, 1_000.0).key_by_value(|n| n % 3);
            let ms = Duration::from_millis;
            match way {
                0 => keyed
                    .window(TumblingProcessingTimeWindows::of(ms(500)))
                    .count()
                    .process(Stamped),
                1 => keyed
                    .window(SlidingProcessingTimeWindows::of(ms(500), ms(250)))
                    .count()
                    .process(Stamped),
                _ => keyed
                    .window(ProcessingTimeSessionWindows::with_gap(ms(500)))
                    .count()
                    .process(Stamped),
            }
            .collect();
        });
        let tmp = tempfile::tempdir().unwrap();
        for harness in harnesses(tmp.path()) {
            let shown = lines(&harness.run(&job).unwrap());
            let counts: u64 = shown
                .iter()
                .map(|line| line.split('\t').nth(1).unwrap().parse::<u64>().unwrap())
                .sum();
            match way {
                0 => assert!((2_000..3_000).contains(&counts), "{counts}"),
                1 => assert!((4_000..6_000).contains(&counts), "{counts}"),
                // The only session is not over when the input ends.
                _ => assert_eq!(shown.len(), 0),
            }
            for line in shown {
                let last: i64 = line.split('\t').nth(2).unwrap().parse().unwrap();
                assert_eq!((last + 1) % 250, 0, "{line}");
            }
        }
    }
}

#[test]
fn windows_that_are_over_at_the_end_of_input_fire_although_their_wake_up_has_not_come() {
    for interrupted in [false, true] {
        for wakes in [false, true] {
            let clock = Arc::new(Clock::default());
            clock.set(1_000);
            let context = OperatorContext::for_tests_with(0, 1, clock.clone());
            let store = WindowCore::new(ProcessWindow(Show), Slices::new(10, 10, 0), 0);
            let operator = ProcessingTimeWindows::new(by_first(), store);
            let reads = clock.1.clone();
            let mut subtask = Subtask::with_context(operator, context, reads, &[], interrupted);
            subtask.batch(&[(1, 1, 0), (2, 2, 0), (3, 3, 0)]);
            clock.set(1_012);
            subtask.batch(&[(1, 4, 0)]);
            if wakes {
                // It begins the first window; the second one is over by the end only.
                let Subtask { operator, out, context, .. } = &mut subtask;
                operator.mail(OperatorMail::Timer { ticket: 0 }, out, context).unwrap();
            }
            assert_eq!(subtask.event(StreamEvent::Watermark(5)).is_empty(), !wakes);
            clock.set(1_020);
            let mut fired = subtask.event(StreamEvent::EndOfInput);
            fired.sort_unstable();
            let over = |key, number, start| ((key, start, start + 9, vec![number]), start + 9);
            let first = [over(1, 1, 1_000), over(2, 2, 1_000), over(3, 3, 1_000)];
            let expected = if wakes { Vec::new() } else { first.to_vec() };
            let mut expected: Vec<Shown> =
                expected.into_iter().chain([over(1, 4, 1_010)]).collect();
            expected.sort_unstable();
            assert_eq!(fired, expected, "{interrupted} {wakes}");
        }
    }
}
