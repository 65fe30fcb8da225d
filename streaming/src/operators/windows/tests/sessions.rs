//! Sessions against a naive model, and programs with sessions and count windows.

use super::*;
use crate::operators::{
    KeyedOperator,
    windows::{
        counts::RowCounts,
        session_rule::{SessionCore, SessionRule},
    },
};

/// A session of the model: first and last millisecond, numbers.
type Merged = (i64, i64, BTreeSet<u32>);

/// Flink's merging windows.
#[derive(Clone)]
pub(super) struct Sessions {
    pub(super) gap: fn(u32) -> i64,
    pub(super) lateness: i64,
    pub(super) sessions: BTreeMap<u8, Vec<Merged>>,
    pub(super) watermarks: Watermarks,
    pub(super) late: u64,
}

pub(super) fn sessions(gap: fn(u32) -> i64, lateness: i64) -> Sessions {
    let (sessions, watermarks) = (BTreeMap::new(), BTreeMap::new());
    Sessions { gap, lateness, sessions, watermarks, late: 0 }
}

fn shown(key: u8, (start, last, numbers): &Merged) -> Shown {
    ((key, *start, *last, numbers.iter().copied().collect()), *last)
}

impl Reference for Sessions {
    fn record(&mut self, key: u8, number: u32, time: i64) -> Vec<Shown> {
        let watermark = self.watermarks.get(&key).copied().unwrap_or(i64::MIN);
        let last = time.saturating_add((self.gap)(number) - 1);
        let mut new = (time, last, BTreeSet::from([number]));
        let of_key = self.sessions.entry(key).or_default();
        // Until nothing touches any more.
        while let Some(place) = of_key.iter().position(|(start, last, _)| {
            i128::from(*start) <= i128::from(new.1) + 1
                && i128::from(new.0) <= i128::from(*last) + 1
        }) {
            let (start, last, mut numbers) = of_key.remove(place);
            new.2.append(&mut numbers);
            new = (new.0.min(start), new.1.max(last), new.2);
        }
        if new.1.saturating_add(self.lateness) <= watermark {
            assert_eq!(new.2.len(), 1, "a session that is kept takes any record that touches it");
            self.late += u64::from(time.saturating_add(self.lateness) <= watermark);
            return Vec::new();
        }
        of_key.push(new.clone());
        if new.1 <= watermark { vec![shown(key, &new)] } else { Vec::new() }
    }

    fn advance(&mut self, key: u8, ms: i64) -> Vec<Shown> {
        let before = self.watermarks.get(&key).copied().unwrap_or(i64::MIN);
        if ms <= before {
            return Vec::new();
        }
        self.watermarks.insert(key, ms);
        let of_key = self.sessions.entry(key).or_default();
        let due = of_key.iter().filter(|it| (before + 1..=ms).contains(&it.1));
        let fired = due.map(|it| shown(key, it)).collect();
        of_key.retain(|it| it.1.saturating_add(self.lateness) > ms);
        fired
    }

    fn late(&self) -> u64 {
        self.late
    }
}

/// A gap that a function computes from a record's number.
#[derive(Clone, Copy)]
pub(super) struct ByNumber(pub(super) fn(u32) -> i64);

impl SessionGap<Record> for ByNumber {
    fn gap_ms(&mut self, (_, number): &Record) -> i64 {
        (self.0)(*number)
    }
}

pub(super) type Core = SessionCore<Record, ByFirst, ProcessWindow<Show>, ByNumber>;

pub(super) fn core(gap: fn(u32) -> i64, lateness: i64) -> Core {
    SessionCore::new(ProcessWindow(Show), SessionRule(ByNumber(gap)), lateness)
}

/// Sessions in a backend that fetches, and keeps `room` keys in memory.
pub(super) fn fetching(
    gap: fn(u32) -> i64,
    lateness: i64,
    room: usize,
) -> impl WindowStore<Record, ByFirst, Out = (u8, i64, i64, Vec<u32>)> {
    SessionCore::<Record, ByFirst, _, _, _>::with_backend(
        ProcessWindow(Show),
        SessionRule(ByNumber(gap)),
        lateness,
        Slow::new(room),
    )
}

const GAPS: [fn(u32) -> i64; 4] = [
    |_| 1,
    |_| 7,
    |number| 1 + i64::from(number % 13),
    |number| [2, i64::MAX][number as usize % 2],
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn sessions_are_those_of_a_naive_model(
        acts in acts(), gap in 0_usize..4, lateness in prop_oneof![Just(0), 1_i64..30], interrupted: bool,
    ) {
        let gap = GAPS[gap];
        check(&acts, interrupted, || core(gap, lateness), &mut sessions(gap, lateness))?;
    }

    #[test]
    fn sessions_over_a_backend_that_fetches_are_those_of_a_naive_model(
        acts in acts(), gap in 0_usize..4, lateness in prop_oneof![Just(0), 1_i64..30], room in 0_usize..5,
        interrupted: bool,
    ) {
        let gap = GAPS[gap];
        check(&acts, interrupted, || fetching(gap, lateness, room), &mut sessions(gap, lateness))?;
    }

    #[test]
    fn any_bytes_are_the_state_of_sessions_or_an_error(bytes: Vec<u8>, whole: bool) {
        let operator = || EventTimeWindows::new(by_first(), core(|_| 5, 0));
        let mut snapshot = Subtask::new(operator(), (0, 1), &[], false).snapshot();
        if whole {
            snapshot.truncate(4);
        }
        snapshot.extend(bytes);
        let context = OperatorContext::for_tests(0, 1).restoring(vec![snapshot]);
        let _ = operator().open(&context);
    }
}

fn of_gap(gap: fn(u32) -> i64, lateness: i64) -> Subtask<EventTimeWindows<ByFirst, Core>> {
    Subtask::new(EventTimeWindows::new(by_first(), core(gap, lateness)), (0, 1), &[], false)
}

#[test]
fn a_late_record_between_two_sessions_that_were_fired_makes_them_one_and_emits_that() {
    let mut windows = of_gap(|_| 10, 100);
    assert_eq!(windows.batch(&[(1, 1, 0), (1, 2, 20)]), []);
    let fired = windows.event(StreamEvent::Watermark(60));
    assert_eq!(fired, [((1, 0, 9, vec![1]), 9), ((1, 20, 29, vec![2]), 29)]);
    assert_eq!(windows.batch(&[(1, 3, 10)]), [((1, 0, 29, vec![1, 2, 3]), 29)]);
    // Longer than the watermark: fired when it comes.
    assert_eq!(windows.batch(&[(1, 4, 30), (1, 5, 39), (1, 6, 49), (1, 7, 58)]).len(), 3);
    let fired = windows.event(StreamEvent::Watermark(67));
    assert_eq!(fired, [((1, 0, 67, vec![1, 2, 3, 4, 5, 6, 7]), 67)]);
    assert_eq!(windows.event(StreamEvent::Watermark(167)), []);
    assert_eq!(windows.batch(&[(1, 8, 57)]), []);
    assert_eq!(windows.operator.late_records::<Record>(), 1);
    assert_eq!(windows.operator.store().queued(), 0);
}

#[test]
fn a_session_that_grows_has_one_place_in_the_queue() {
    let mut windows = of_gap(|_| 10, 0);
    for round in 0..100 {
        let records: Vec<_> = (0..100).map(|n| (1, n, round * 100 + i64::from(n))).collect();
        assert_eq!(windows.batch(&records), []);
        assert_eq!(windows.operator.store().queued(), 1);
        assert_eq!(windows.event(StreamEvent::Watermark(round * 100 + 50)), []);
        assert_eq!(windows.operator.store().queued(), 1);
    }
    assert_eq!(windows.event(StreamEvent::Watermark(i64::MAX)).len(), 1);
    assert_eq!(windows.operator.store().queued(), 0);
}

#[test]
fn a_shorter_lateness_does_not_fire_sessions_again_that_were_kept_for_a_longer_one() {
    let mut before = of_gap(|_| 10, 100);
    before.batch(&[(1, 1, 0), (1, 2, 50)]);
    assert_eq!(before.event(StreamEvent::Watermark(9)).len(), 1);
    let operator = EventTimeWindows::new(by_first(), core(|_| 10, 0));
    let mut after = Subtask::new(operator, (0, 1), &[before.snapshot()], false);
    let fired = after.event(StreamEvent::Watermark(i64::MAX));
    assert_eq!(fired, [((1, 50, 59, vec![2]), 59)]);
}

#[test]
fn a_session_that_a_late_record_begins_right_after_a_restore_is_fired_once() {
    let mut before = of_gap(|_| 10, 100);
    before.batch(&[(1, 1, 0)]);
    assert_eq!(before.event(StreamEvent::Watermark(29)).len(), 1);
    // The lateness is shorter now, so the key is queued to be removed at the watermark, which is also the end of the new session.
    let operator = EventTimeWindows::new(by_first(), fetching(|_| 10, 5, 1));
    let mut after = Subtask::new(operator, (0, 1), &[before.snapshot()], false);
    let mut fired = after.batch(&[(1, 2, 20)]);
    while after.answer(0) {}
    fired.append(&mut after.shown());
    assert_eq!(fired, [((1, 20, 29, vec![2]), 29)]);
    assert_eq!(after.fires(40), []);
}

#[test]
fn sessions_move_between_a_backend_that_fetches_and_memory() {
    let fetching = || EventTimeWindows::new(by_first(), fetching(|_| 10, 5, 1));
    let in_memory = || EventTimeWindows::new(by_first(), core(|_| 10, 5));
    let records = [(1, 1, 0), (2, 2, 3), (3, 3, -7), (1, 4, 12)];
    let mut slow = Subtask::new(fetching(), (0, 1), &[], false);
    assert_eq!(slow.batch(&records), []);
    assert!(!slow.reads.is_empty());
    assert_eq!(slow.event(StreamEvent::Watermark(10)).len(), 2);
    let from_slow = slow.snapshot();
    let mut memory = Subtask::new(in_memory(), (0, 1), &[], false);
    memory.batch(&records);
    memory.event(StreamEvent::Watermark(10));
    let mut to_memory = Subtask::new(in_memory(), (0, 1), &[from_slow], false);
    let mut to_slow = Subtask::new(fetching(), (0, 1), &[memory.snapshot()], false);
    for subtask in [&mut slow as &mut dyn Fires, &mut memory, &mut to_memory, &mut to_slow] {
        assert_eq!(subtask.fires(12), [((2, 3, 12, vec![2]), 12)]);
        assert_eq!(subtask.fires(i64::MAX), [((1, 12, 21, vec![4]), 21)]);
    }
}

#[test]
fn the_keys_that_a_watermark_looks_at_are_fetched_at_once() {
    let operator = EventTimeWindows::new(by_first(), fetching(|_| 10, 0, 0));
    let mut slow = Subtask::new(operator, (0, 1), &[], false);
    fetched_at_once(&mut slow);
}

#[test]
fn count_windows_are_the_same_over_a_backend_that_fetches() {
    for (size, slide) in [(5, 5), (6, 4), (1, 1), (2, 5)] {
        let function = CountWindow::new(RowCounts::new(size, slide), ProcessWindow(Show));
        let states =
            <CountWindows as WindowAssigner<Record>>::states::<ByFirst, ProcessWindow<Show>>;
        let memory = KeyedOperator::new(by_first(), function.clone(), states());
        let slow = KeyedOperator::with_backend(by_first(), function, states(), Slow::new(2));
        let mut memory = Subtask::new(memory, (0, 1), &[], false);
        let mut slow = Subtask::new(slow, (0, 1), &[], false);
        let (mut expected, mut shown) = (Vec::new(), Vec::new());
        for number in 0..200 {
            let records = [(number as u8 % 7, number, 0), (number as u8 % 3, 1_000 + number, 0)];
            expected.extend(memory.batch(&records));
            shown.extend(slow.batch(&records));
            if number % 5 == 0 {
                slow.answer(number as usize);
            }
        }
        shown.extend(slow.event(StreamEvent::EndOfInput));
        for key in 0..7 {
            let of_key = |shown: &[Shown]| -> Vec<Shown> {
                shown.iter().filter(|((of, ..), _)| *of == key).cloned().collect()
            };
            assert_eq!(of_key(&shown), of_key(&expected), "{size} {slide} {key}");
        }
    }
}

#[test]
fn state_of_sessions_and_of_panes_is_told_apart() {
    let panes = Subtask::new(windows(Slices::new(10, 10, 0), 0), (0, 1), &[], false).snapshot();
    let sessions = of_gap(|_| 10, 0).snapshot();
    let context = OperatorContext::for_tests(0, 1).restoring(vec![panes]);
    assert!(EventTimeWindows::new(by_first(), core(|_| 10, 0)).open(&context).is_err());
    let context = context.restoring(vec![sessions]);
    assert!(windows(Slices::new(10, 10, 0), 0).open(&context).is_err());
}

/// Bursts of a hundred numbers a second, out of order by less than 90 ms.
fn burst_time(n: u64) -> i64 {
    (n / 100) as i64 * 1_000 + (n % 100) as i64 + (n * 7 % 90) as i64
}

/// Mean of numbers, as their sum and count.
#[derive(Clone)]
struct Mean;

impl AggregateFunction<u64> for Mean {
    type Accumulator = (u64, u64);
    type Out = u64;
    fn create_accumulator(&mut self) -> (u64, u64) {
        (0, 0)
    }
    fn add(&mut self, accumulator: &mut (u64, u64), record: u64) {
        self.merge(accumulator, (record, 1));
    }
    fn merge(&mut self, accumulator: &mut (u64, u64), later: (u64, u64)) {
        *accumulator = (accumulator.0 + later.0, accumulator.1 + later.1);
    }
    fn result(&mut self, (sum, count): (u64, u64)) -> u64 {
        sum / count
    }
}

/// Shows the bounds of a session and its records' sum.
#[derive(Clone)]
struct Bounds;

impl WindowFunction<u64, u64> for Bounds {
    type Out = (u64, i64, i64, u64);
    fn process(
        &mut self,
        key: &u64,
        window: TimeWindow,
        records: Vec<u64>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        out.collect((*key, window.start(), window.end(), records.into_iter().sum()));
        Ok(())
    }
}

/// One burst has one session of every key: keys and their numbers.
fn expected_bursts(line: impl Fn(u64, &[u64]) -> String) -> Vec<String> {
    let mut sessions: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for n in 0..3_000 {
        sessions.entry((n / 100, n % 7)).or_default().push(n);
    }
    let mut lines: Vec<_> =
        sessions.iter().map(|((_, key), numbers)| line(*key, numbers)).collect();
    lines.sort();
    lines
}

pub(super) fn harnesses(tmp: &std::path::Path) -> [Harness; 4] {
    let interrupt = Interrupt::default();
    interrupt.raise();
    [
        Harness::new(tmp),
        Harness::new(tmp).channel_batches(1).budget(64).serialize(),
        Harness::new(tmp).channel_batches(2).interrupt(interrupt),
        Harness::new(tmp).checkpoint_after(&[3, 9, 30]).fail_after(&[20]),
    ]
}

#[test]
fn programs_with_sessions_give_the_same_through_any_exchange() {
    let sum = |numbers: &[u64]| numbers.iter().sum::<u64>();
    let bounds = |key: u64, numbers: &[u64]| {
        let times = || numbers.iter().map(|n| burst_time(*n));
        let (start, end) = (times().min().unwrap(), times().max().unwrap() + 300);
        format!("{key}\t{start}\t{end}\t{}", sum(numbers))
    };
    let expected: [Vec<String>; 5] = [
        expected_bursts(|key, numbers| format!("{key}\t{}", numbers.len())),
        expected_bursts(|key, numbers| format!("{key}\t{}", sum(numbers))),
        expected_bursts(|_, numbers| sum(numbers).to_string()),
        expected_bursts(|key, numbers| format!("{key}\t{}", sum(numbers) / numbers.len() as u64)),
        expected_bursts(bounds),
    ];
    for (way, expected) in expected.into_iter().enumerate() {
        let job = built(3, move |env| {
            let strategy = WatermarkStrategy::for_bounded_out_of_orderness(
                Duration::from_millis(90),
                |n: &u64| burst_time(*n),
            );
            let numbers = env.sequence(0..3_000).assign_timestamps_and_watermarks(strategy);
            let gap = Duration::from_millis(300);
            let fixed =
                numbers.key_by_value(|n| n % 7).window(EventTimeSessionWindows::with_gap(gap));
            let computed = EventTimeSessionWindows::with_dynamic_gap(move |_: &u64| gap);
            let computed = numbers.key_by_value(|n| n % 7).window(computed);
            let computed = computed.allowed_lateness(gap);
            match way {
                0 => fixed.count().collect(),
                1 => computed.sum(|n| *n).collect(),
                2 => fixed.reduce(|sum, next| *sum += next).collect(),
                3 => computed.aggregate(Mean).collect(),
                _ => fixed.process(Bounds).collect(),
            };
        });
        let tmp = tempfile::tempdir().unwrap();
        for harness in harnesses(tmp.path()) {
            assert_eq!(lines(&harness.run(&job).unwrap()), expected, "{way}");
        }
    }
}

#[test]
fn a_computed_gap_of_nothing_fails_the_task_and_a_fixed_one_the_program() {
    let job = built(1, |env| {
        let strategy = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
        let gap = EventTimeSessionWindows::with_dynamic_gap(|_: &u64| Duration::from_micros(10));
        let numbers = env.sequence(0..10).assign_timestamps_and_watermarks(strategy);
        numbers.key_by(|n| n).window(gap).count().collect();
    });
    let tmp = tempfile::tempdir().unwrap();
    let failure = Harness::new(tmp.path()).run(&job).unwrap_err().to_string();
    assert!(
        failure.contains("the time 0 is 0 ms") && failure.contains("at least 1 ms"),
        "{failure}"
    );
    let refused = crate::api::tests::try_built(crate::api::tests::inputs(1), |env| {
        let gap = EventTimeSessionWindows::with_gap(Duration::from_micros(10));
        env.sequence(0..10).key_by(|n| n).window(gap).count().collect();
    });
    assert!(refused.unwrap_err().to_string().contains("at least 1 ms"));
}

#[test]
fn count_windows_have_so_many_records_of_a_key_and_the_event_time_of_the_last_one() {
    let lines_of = |size: u64, slide: u64| {
        let mut lines = Vec::new();
        for key in 0..7_u64 {
            let numbers: Vec<u64> = (0..1_000).filter(|n| n % 7 == key).collect();
            for end in (1..=numbers.len()).filter(|end| (*end as u64).is_multiple_of(slide)) {
                let window = &numbers[end.saturating_sub(size as usize)..end];
                let (sum, last) = (window.iter().sum::<u64>(), numbers[end - 1]);
                lines.push(format!("{key}\t{sum}\t{last}"));
            }
        }
        lines.sort();
        lines
    };
    for (size, slide) in [(5, 5), (6, 4), (1, 1), (2, 5)] {
        let job = built(3, move |env| {
            let strategy = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
            // One source, so that the records of a key come in their order.
            let numbers = env.from_collection(0..1_000_u64).set_parallelism(1);
            let timed = numbers.assign_timestamps_and_watermarks(strategy).set_parallelism(1);
            let keyed = timed.key_by_value(|n| n % 7);
            let windows = match size == slide {
                true => keyed.count_window(size),
                false => keyed.count_window_sliding(size, slide),
            };
            windows.sum(|n| *n).process(Stamped).collect();
        });
        let tmp = tempfile::tempdir().unwrap();
        for harness in harnesses(tmp.path()) {
            assert_eq!(lines(&harness.run(&job).unwrap()), lines_of(size, slide), "{size} {slide}");
        }
    }
    let refused = crate::api::tests::try_built(crate::api::tests::inputs(1), |env| {
        env.sequence(0..10).key_by(|n| n).count_window(0).count().collect();
    });
    assert!(refused.unwrap_err().to_string().contains("at least 1 record"));
}
