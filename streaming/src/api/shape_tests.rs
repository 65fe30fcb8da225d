//! Operators of several inputs and outputs, routes of the program's own, and where chains end because of them.

use super::tests::{built, inputs, lines, try_built};
use crate::{
    BuiltJob, Environment, Interrupt,
    harness::{Harness, HarnessError},
    operators::{
        BoxError, BroadcastProcessFunction, CoProcessFunction, Collector, Context,
        KeyedBroadcastProcessFunction, KeyedCoProcessFunction, OutputTag, Timer,
    },
    time::WatermarkStrategy,
};
use model::ShipStrategy;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

const ODD: OutputTag<String> = OutputTag::new("odd");
const LARGE: OutputTag<u64> = OutputTag::new("large");

/// The sorted lines of each collect sink, in every manner of running a job.
fn in_every_manner(
    program: impl Fn(&Environment) + Send + Sync + Clone + 'static,
) -> Vec<Vec<String>> {
    let mut first: Option<Vec<Vec<String>>> = None;
    for parallelism in [1, 3] {
        let job = built(parallelism, program.clone());
        let tmp = tempfile::tempdir().unwrap();
        let plain = Harness::new(tmp.path());
        let interrupted = Interrupt::default();
        interrupted.raise();
        let manners = [
            plain.clone(),
            plain.clone().serialize().channel_batches(1).budget(7).checkpoint_after(&[3, 9]),
            plain.channel_batches(1).interrupt(interrupted),
        ];
        for harness in manners {
            let outcome = harness.run(&job).unwrap();
            let sinks = outcome.collected.into_iter().map(|sink| {
                let texts = sink.into_iter().map(|line| String::from_utf8(line).unwrap());
                let mut texts: Vec<String> = texts.collect();
                texts.sort();
                texts
            });
            let sinks: Vec<Vec<String>> = sinks.collect();
            match &first {
                None => first = Some(sinks),
                Some(first) => assert_eq!(*first, sinks),
            }
        }
    }
    first.unwrap()
}

fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

#[test]
fn each_side_output_gets_its_records_and_the_main_output_the_others() {
    let sinks = in_every_manner(|env| {
        let even = env.sequence(0..5_000).flat_map(|n: u64, out| {
            if n >= 4_990 {
                out.collect_to(&LARGE, n);
            }
            match n % 2 {
                0 => out.collect(n),
                _ => out.collect_to(&ODD, format!("odd {n}")),
            }
        });
        even.map(|n| n * 10).collect();
        even.side_output(&ODD).collect();
        even.side_output(&LARGE).map(|n| n + 1).collect();
        // Read twice.
        even.side_output(&LARGE).rebalance().collect();
    });
    assert_eq!(sinks[0], sorted((0..5_000_u64).step_by(2).map(|n| (n * 10).to_string())));
    assert_eq!(sinks[1], sorted((1..5_000_u64).step_by(2).map(|n| format!("odd {n}"))));
    assert_eq!(sinks[2], sorted((4_991..=5_000).map(|n| n.to_string())));
    assert_eq!(sinks[3], sorted((4_990..5_000).map(|n| n.to_string())));
}

#[test]
fn what_nothing_reads_is_dropped() {
    let sinks = in_every_manner(|env| {
        let all = env.sequence(0..100).flat_map(|n: u64, out| {
            out.collect_to(&LARGE, n);
            out.collect(n);
        });
        all.collect();
    });
    assert_eq!(sinks[0].len(), 100);
}

#[test]
fn records_of_a_side_output_keep_their_times_and_watermarks() {
    let sinks = in_every_manner(|env| {
        let strategy = WatermarkStrategy::for_monotonous_timestamps(|n: &u64| *n as i64);
        let timed = env.sequence(0..300).set_parallelism(1);
        let timed = timed.assign_timestamps_and_watermarks(strategy).set_parallelism(1);
        let timed = timed.flat_map(|n: u64, out| out.collect_to(&LARGE, n)).set_parallelism(1);
        let window =
            crate::operators::TumblingEventTimeWindows::of(std::time::Duration::from_millis(100));
        timed.side_output(&LARGE).key_by_value(|n| n % 2).window(window).count().collect();
        timed.map(|_: u64| 0_u64).collect();
    });
    assert_eq!(sinks[0], ["0\t50", "0\t50", "0\t50", "1\t50", "1\t50", "1\t50"]);
    assert_eq!(sinks[1], [""; 0]);
}

/// The Dispatcher compares them with those of a savepoint before it stops anything.
#[test]
fn size_slide_and_offset_of_windows_are_declared_with_their_state() {
    use crate::operators::{SlidingEventTimeWindows, TumblingEventTimeWindows};
    use std::time::Duration;
    let ms = Duration::from_millis;
    let tumbling = |size: u64, offset: u64| {
        built(1, move |env| {
            let windows = TumblingEventTimeWindows::of(ms(size)).with_offset(ms(offset));
            env.sequence(0..3).key_by_value(|n| n % 2).window(windows).count().discard();
        })
    };
    let settings = |job: &BuiltJob| {
        let states: Vec<_> = job.graph().nodes.iter().flat_map(|node| &node.states).collect();
        let kept = states.iter().find(|state| state.name == "window-contents");
        kept.expect("a window has state").settings.clone()
    };
    let text = |parts: &str| Some(format!("windows with {parts}"));
    let ten = tumbling(10, 13);
    assert_eq!(settings(&ten), text("size 10 ms, slide 10 ms and offset 3 ms"));
    assert_eq!(settings(&tumbling(10, 3)), settings(&ten), "they can read each other's state");
    let twenty = tumbling(20, 3);
    assert_eq!(settings(&twenty), text("size 20 ms, slide 20 ms and offset 3 ms"));
    assert!(ten.difference_from(twenty.graph()).is_some());
    let sliding = built(1, move |env| {
        let windows = SlidingEventTimeWindows::of(ms(10), ms(4));
        env.sequence(0..3).key_by_value(|n| n % 2).window(windows).count().discard();
    });
    assert_eq!(settings(&sliding), text("size 10 ms, slide 4 ms and offset 0 ms"));
}

#[test]
fn side_outputs_leave_a_chain_that_goes_on() {
    let job = built(2, |env| {
        let numbers = env.sequence(0..10).flat_map(|n: u64, out| out.collect(n)).name("split");
        numbers.side_output(&LARGE).discard();
        numbers.map(|n| n).discard();
    });
    let graph = job.graph();
    let names: Vec<_> = graph.vertices.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["sequence -> split -> map -> discard", "discard"]);
    let [edge] = graph.edges.as_slice() else { panic!("{:?}", graph.edges) };
    assert_eq!((edge.side.as_deref(), edge.ship), (Some("large"), ShipStrategy::Forward));
    let other = built(2, |env| {
        let numbers = env.sequence(0..10).flat_map(|n: u64, out| out.collect(n)).name("split");
        numbers.side_output(&OutputTag::<u64>::new("small")).discard();
        numbers.map(|n| n).discard();
    });
    assert!(other.difference_from(graph).is_some());
}

#[test]
fn mistakes_with_side_outputs_are_named() {
    let wrong = |program: fn(&Environment)| try_built(inputs(2), program).unwrap_err().to_string();
    let other = wrong(|env| {
        let numbers = env.sequence(0..1).map(|n| n);
        numbers.side_output(&LARGE).discard();
        numbers.side_output(&OutputTag::<String>::new("large")).discard();
    });
    assert!(other.contains("'large'") && other.contains("u64"), "{other}");
    let source = wrong(|env| drop(env.sequence(0..1).side_output(&LARGE).discard()));
    assert!(source.contains("the operator is a source"), "{source}");
    let nowhere = wrong(|env| drop(env.sequence(0..1).rebalance().side_output(&LARGE).discard()));
    assert!(nowhere.contains("side_output() must follow an operator"), "{nowhere}");
    let emitted = failure(&built(1, |env| {
        let numbers = env.sequence(0..9).flat_map(|n: u64, out| {
            out.collect_to(&OutputTag::<String>::new("large"), n.to_string());
            out.collect(n);
        });
        numbers.side_output(&LARGE).discard();
    }));
    assert!(emitted.contains("side output 'large' is emitted to as"), "{emitted}");
}

fn failure(job: &BuiltJob) -> String {
    let tmp = tempfile::tempdir().unwrap();
    match Harness::new(tmp.path()).run(job) {
        Err(HarnessError::Task { error, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_streams_of_different_records_meet_in_one_operator() {
    let sinks = in_every_manner(|env| {
        let numbers = env.sequence(0..2_000);
        let words = env.from_collection(["a".to_owned(), "b".to_owned()]);
        let both = numbers.connect(&words);
        both.map(|n| n.to_string(), |word| word).collect();
        both.flat_map(|n, out| out.collect_all([n, n]), |_, _| {}).collect();
        both.process(Tagged { seen: 0 }).collect();
        // A stream may meet itself.
        numbers.connect(&numbers).map(|n| n, |n| n).collect();
    });
    let numbers = || (0..2_000).map(|n| n.to_string());
    assert_eq!(sinks[0], sorted(numbers().chain(["a".to_owned(), "b".to_owned()])));
    assert_eq!(sinks[1], sorted(numbers().chain(numbers())));
    assert_eq!(
        sinks[2],
        sorted(numbers().map(|n| format!("1 {n}")).chain(["2 a".into(), "2 b".into()]))
    );
    assert_eq!(sinks[3], sorted(numbers().chain(numbers())));
}

#[derive(Clone)]
struct Tagged {
    seen: u64,
}

impl CoProcessFunction<u64, String> for Tagged {
    type Out = String;
    fn process1(&mut self, record: u64, out: &mut Collector<String>) -> Result<(), BoxError> {
        self.seen += 1;
        out.collect(format!("1 {record}"));
        Ok(())
    }
    fn process2(&mut self, record: String, out: &mut Collector<String>) -> Result<(), BoxError> {
        out.collect(format!("2 {record}"));
        Ok(())
    }
}

/// Adds up both streams per key, and emits when event time is over.
#[derive(Clone)]
struct AddUp;

impl KeyedCoProcessFunction<u64, (u64, u64), (String, u64)> for AddUp {
    type State = Option<(u64, String)>;
    type Out = (u64, u64, String);
    fn process1(
        &mut self,
        (_, n): (u64, u64),
        state: &mut Self::State,
        ctx: &mut Context<'_, u64>,
        _out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        state.get_or_insert_default().0 += n;
        ctx.timers().event_time(i64::MAX);
        Ok(())
    }
    fn process2(
        &mut self,
        (text, _): (String, u64),
        state: &mut Self::State,
        _ctx: &mut Context<'_, u64>,
        _out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        state.get_or_insert_default().1.push_str(&text);
        Ok(())
    }
    fn on_timer(
        &mut self,
        _timer: Timer,
        state: &mut Self::State,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        let (sum, texts) = state.take().unwrap_or_default();
        out.collect((*ctx.key(), sum, texts));
        Ok(())
    }
}

#[test]
fn two_keyed_streams_share_the_state_of_a_key() {
    let sinks = in_every_manner(|env| {
        let numbers = env.sequence(0..3_000).map(|n| (n % 5, n));
        let texts = env.from_collection((0..10_u64).map(|n| ("x".to_owned(), n % 5)));
        let both = numbers.connect(&texts).key_by(|(key, _)| key, |(_, key)| key);
        both.process(AddUp).collect();
        let computed = numbers.key_by_value(|(_, n)| n % 5);
        computed.connect(&texts.key_by(|(_, key)| key)).process(AddUp).collect();
    });
    let sum = |key: u64| (0..3_000).filter(|n| n % 5 == key).sum::<u64>();
    let expected: Vec<String> = (0..5).map(|key| format!("{key}\t{}\txx", sum(key))).collect();
    assert_eq!(sinks[0], expected);
    assert_eq!(sinks[1], expected);
}

/// Counts what is above the limit of its key; the limits come before everything else, in the test by a bound on time.
#[derive(Clone)]
struct Above;

impl KeyedBroadcastProcessFunction<u64, u64, (u64, u64)> for Above {
    type State = Option<u64>;
    type Broadcast = BTreeMap<u64, u64>;
    type Out = (u64, u64);
    fn create_broadcast(&self) -> BTreeMap<u64, u64> {
        BTreeMap::new()
    }
    fn process(
        &mut self,
        record: u64,
        waiting: &mut Option<u64>,
        _limits: &BTreeMap<u64, u64>,
        ctx: &mut Context<'_, u64>,
        _out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        *waiting.get_or_insert(0) += record;
        ctx.timers().event_time(i64::MAX);
        Ok(())
    }
    fn process_broadcast(
        &mut self,
        (key, limit): (u64, u64),
        limits: &mut BTreeMap<u64, u64>,
        _out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        limits.insert(key, limit);
        Ok(())
    }
    fn on_timer(
        &mut self,
        _timer: Timer,
        sum: &mut Option<u64>,
        limits: &BTreeMap<u64, u64>,
        ctx: &mut Context<'_, u64>,
        out: &mut Collector<(u64, u64)>,
    ) -> Result<(), BoxError> {
        out.collect((sum.take().unwrap_or(0), limits.get(ctx.key()).copied().unwrap_or(0)));
        Ok(())
    }
}

/// Emits how many limits it knows at the end.
#[derive(Clone)]
struct Known(u64);

impl BroadcastProcessFunction<u64, (u64, u64)> for Known {
    type Broadcast = BTreeMap<u64, u64>;
    type Out = u64;
    fn create_broadcast(&self) -> BTreeMap<u64, u64> {
        BTreeMap::new()
    }
    fn process(
        &mut self,
        _record: u64,
        _limits: &BTreeMap<u64, u64>,
        _out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        self.0 += 1;
        Ok(())
    }
    fn process_broadcast(
        &mut self,
        (key, limit): (u64, u64),
        limits: &mut BTreeMap<u64, u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        limits.insert(key, limit);
        if limits.len() == 7 {
            out.collect(7);
        }
        Ok(())
    }
}

#[test]
fn every_subtask_knows_what_was_broadcast() {
    let sinks = in_every_manner(|env| {
        let numbers = env.sequence(0..700);
        let limits = env.sequence(0..7).map(|n| (n, n * 100));
        numbers.key_by_value(|n| n % 7).connect_broadcast(&limits).process(Above).collect();
        let known = numbers.connect_broadcast(&limits).process(Known(0)).set_parallelism(2);
        known.collect();
    });
    let sum = |key: u64| (0..700).filter(|n| n % 7 == key).sum::<u64>();
    assert_eq!(sinks[0], sorted((0..7).map(|key| format!("{}\t{}", sum(key), key * 100))));
    assert_eq!(sinks[1], ["7", "7"]);
}

#[test]
fn a_function_of_the_program_chooses_the_subtask() {
    let job = built(3, |env| {
        let to_last = env.sequence(0..9_000).partition_custom(|n, subtasks| match n % 2 {
            0 => 0,
            _ => subtasks - 1,
        });
        to_last.process(Where(0)).collect();
    });
    assert_eq!(job.graph().edges[0].ship, ShipStrategy::Custom);
    let tmp = tempfile::tempdir().unwrap();
    for harness in
        [Harness::new(tmp.path()), Harness::new(tmp.path()).serialize().channel_batches(1)]
    {
        let outcome = harness.run(&job).unwrap();
        assert_eq!(lines(&outcome), ["0\t4500", "2\t4500"]);
    }
    let outside = failure(&built(3, |env| {
        drop(env.sequence(0..9).partition_custom(|_, subtasks| subtasks).discard());
    }));
    assert_eq!(
        outside,
        "operator 'partition_custom' failed: it chose subtask 3 of 3; the first one is 0"
    );
}

/// Counts the records of a subtask, and checks that they are all even or all odd.
#[derive(Clone)]
struct Where(u64);

impl crate::operators::ProcessFunction<u64> for Where {
    type Out = (u32, u64);
    fn process(&mut self, record: u64, out: &mut Collector<(u32, u64)>) -> Result<(), BoxError> {
        self.0 += 1;
        if self.0 == 4_500 {
            out.collect((if record.is_multiple_of(2) { 0 } else { 2 }, self.0));
        }
        Ok(())
    }
}

#[test]
fn setting_the_same_parallelism_again_does_not_cut_a_chain() {
    let names = |program: fn(&Environment)| -> Vec<String> {
        let job = built(2, program);
        job.graph().vertices.iter().map(|v| format!("{} x{}", v.name, v.parallelism)).collect()
    };
    let same = names(|env| {
        let source = env.sequence(0..9).set_parallelism(4).map(|n| n).set_parallelism(4);
        source.discard().set_parallelism(4);
    });
    assert_eq!(same, ["sequence -> map -> discard x4"]);
    let other = names(|env| {
        let source = env.sequence(0..9).set_parallelism(4).map(|n| n).set_parallelism(3);
        source.discard().set_parallelism(4);
    });
    assert_eq!(other, ["sequence x4", "map x3", "discard x4"]);
    // The number that a client sets never decides a shape, even where it is the same.
    let by_client = names(|env| drop(env.sequence(0..9).discard().set_parallelism(2)));
    assert_eq!(by_client, ["sequence x2", "discard x2"]);
    let of_the_job = names(|env| {
        env.set_parallelism(2);
        env.sequence(0..9).discard().set_parallelism(2);
    });
    assert_eq!(of_the_job, ["sequence -> discard x2"]);
}

#[test]
fn setting_the_parallelism_that_the_program_has_read_does_not_cut_a_chain() {
    let names = |program: fn(&Environment)| -> Vec<String> {
        let job = built(2, program);
        job.graph().vertices.iter().map(|v| format!("{} x{}", v.name, v.parallelism)).collect()
    };
    let read = names(|env| {
        let mapped = env.sequence(0..9).map(|n| n).set_parallelism(env.parallelism());
        mapped.discard().set_parallelism(env.parallelism());
    });
    assert_eq!(read, ["sequence -> map -> discard x2"]);
    let source_only = names(|env| {
        env.sequence(0..9).set_parallelism(env.parallelism()).map(|n| n).discard();
    });
    assert_eq!(source_only, ["sequence -> map -> discard x2"]);
    let another = names(|env| {
        env.sequence(0..9).map(|n| n).set_parallelism(env.parallelism() + 1).discard();
    });
    assert_eq!(another, ["sequence x2", "map -> discard x3"]);
    // The number that the program sets afterwards is the one that the operators before it get.
    let set_later = names(|env| {
        let read = env.parallelism();
        env.set_parallelism(3);
        env.sequence(0..9).map(|n| n).set_parallelism(read).discard().set_parallelism(3);
    });
    assert_eq!(set_later, ["sequence x3", "map x2", "discard x3"]);
}

#[test]
fn an_operator_without_a_parallelism_has_that_of_its_chain() {
    let widths = |program: fn(&Environment)| -> Vec<String> {
        let job = built(2, program);
        job.graph().vertices.iter().map(|v| format!("{} x{}", v.name, v.parallelism)).collect()
    };
    let one_reader = widths(|env| {
        env.sequence(0..9).set_parallelism(3).map(|n| n).discard();
    });
    assert_eq!(one_reader, ["sequence -> map -> discard x3"]);
    let two_readers = widths(|env| {
        let numbers = env.sequence(0..9).set_parallelism(3);
        numbers.map(|n| n).discard();
        numbers.discard();
    });
    assert_eq!(two_readers, ["sequence x3", "map -> discard x2", "discard x2"]);
}

#[test]
fn a_key_function_that_returns_different_keys_for_a_record_is_named_as_the_cause() {
    let error = failure(&built(2, |env| {
        let calls = Arc::new(AtomicU64::new(0));
        let key = move |_: &u64| calls.fetch_add(1, Ordering::Relaxed);
        env.sequence(0..1_000).key_by_value(key).count().discard();
    }));
    let named = "does the key function return the same key each time it is called for a record?";
    assert!(error.contains("'count'") && error.contains(named), "{error}");
}

#[test]
fn functions_that_fail_fail_the_task() {
    let filter = failure(&built(1, |env| {
        let texts = env.from_collection(["1".to_owned(), "x".to_owned()]);
        texts.try_filter(|text| text.parse::<u64>().map(|n| n > 0)).name("numbers").discard();
    }));
    assert_eq!(filter, "operator 'numbers' failed: invalid digit found in string");
    let flat_map = failure(&built(1, |env| {
        let texts = env.from_collection(["1".to_owned(), "x".to_owned()]);
        let parse =
            |text: String, out: &mut Collector<u64>| -> Result<(), std::num::ParseIntError> {
                out.collect(text.parse()?);
                Ok(())
            };
        texts.try_flat_map(parse).name("numbers").discard();
    }));
    assert_eq!(flat_map, "operator 'numbers' failed: invalid digit found in string");
}

#[test]
fn results_at_the_end_leave_the_updates_alone() {
    let sinks = in_every_manner(|env| {
        let keyed = env.sequence(0..6).key_by_value(|n| n % 2);
        keyed.count().map(|(key, _)| key).collect();
        keyed.at_end().count().collect();
    });
    assert_eq!(sinks[0], ["0", "0", "0", "1", "1", "1"]);
    assert_eq!(sinks[1], ["0\t3", "1\t3"]);
}
