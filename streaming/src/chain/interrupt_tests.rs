//! Steps that are interrupted in functions of the program outside of operators: partitioners, keys and timestamps.

use super::{fixtures::TestPort, *};
use crate::{
    batch::Batch,
    harness::Harness,
    operators::{ByValue, Collector, Consumer, Control, OutputTag},
    seam::{Interrupt, StreamEvent},
    sources::CollectionSource,
    time::WatermarkStrategy,
};
use std::sync::{Arc, Mutex};

/// The records that a function of the program was called for.
type Calls = Arc<Mutex<Vec<u64>>>;

/// A function of the program that raises the interruption when it is called for the record 3.
fn raising(interrupt: &Interrupt, calls: &Calls) -> impl Fn(&u64) -> u64 + Clone + use<> {
    let (interrupt, calls) = (interrupt.clone(), calls.clone());
    move |n| {
        calls.lock().unwrap().push(*n);
        if *n == 3 {
            interrupt.raise();
        }
        n % 2
    }
}

fn edge(
    partitioner: Box<dyn Partitioner<u64>>,
    interrupt: &Interrupt,
) -> (EdgeWriter<u64>, TestPort<u64>) {
    let port = TestPort::new(2, 100);
    (port.writer(partitioner, interrupt), port)
}

/// A partitioner that calls [`raising`] for each record.
fn custom(interrupt: &Interrupt, calls: &Calls) -> Box<dyn Partitioner<u64>> {
    let function = raising(interrupt, calls);
    Box::new(ByFunction::new(move |n: &u64, _| function(n) as usize))
}

#[test]
fn a_custom_partitioner_is_interrupted_after_the_record_at_work() {
    let (interrupt, calls) = (Interrupt::default(), Calls::default());
    let (mut writer, port) = edge(custom(&interrupt, &calls), &interrupt);
    let mut batch = Batch::from((0..10).collect::<Vec<u64>>());
    assert!(!writer.batch(&mut batch).unwrap(), "it takes no more in this step");
    assert!(batch.is_empty() && writer.is_interrupted() && !writer.full());
    assert_eq!(*calls.lock().unwrap(), [0, 1, 2, 3]);
    // What comes meanwhile waits behind the rest, and calls nothing.
    writer.batch(&mut Batch::from(vec![10, 11])).unwrap();
    writer.event(StreamEvent::EndOfInput).unwrap();
    writer.flush(true).unwrap();
    let records = |records: [u64; 2]| Ok((records.to_vec(), None));
    assert_eq!(port.state().sent, [(0, records([0, 2])), (1, records([1, 3]))]);
    assert_eq!(calls.lock().unwrap().len(), 4);
    // While the flag stays up, each step processes one record.
    writer.resume().unwrap();
    assert_eq!(calls.lock().unwrap().len(), 5);
    interrupt.clear();
    writer.resume().unwrap();
    assert!(!writer.is_interrupted());
    assert_eq!(*calls.lock().unwrap(), (0..12).collect::<Vec<_>>());
    let end = Err(StreamEvent::EndOfInput);
    let rest = [
        (0, Ok((vec![4, 6, 8, 10], None))),
        (1, Ok((vec![5, 7, 9, 11], None))),
        (0, end.clone()),
        (1, end.clone()),
    ];
    assert_eq!(port.state().sent[2..], rest);
}

#[test]
fn a_computed_key_is_interrupted_after_the_record_at_work() {
    let (interrupt, calls) = (Interrupt::default(), Calls::default());
    let key = ByValue::new(raising(&interrupt, &calls));
    let (mut writer, port) = edge(Box::new(HashByKey::new(key, 2, 128)), &interrupt);
    writer.batch(&mut Batch::from((0..10).collect::<Vec<u64>>())).unwrap();
    assert!(writer.is_interrupted());
    assert_eq!(*calls.lock().unwrap(), [0, 1, 2, 3]);
    interrupt.clear();
    writer.resume().unwrap();
    assert_eq!(*calls.lock().unwrap(), (0..10).collect::<Vec<_>>());
    writer.flush(true).unwrap();
    assert_eq!(port.take_lengths().iter().map(|(_, records)| records).sum::<usize>(), 10);
}

#[test]
fn records_are_not_handed_to_a_slow_partitioner_when_the_step_is_over() {
    let (interrupt, calls) = (Interrupt::default(), Calls::default());
    let (mut writer, _) = edge(custom(&interrupt, &calls), &interrupt);
    interrupt.raise();
    assert!(!writer.batch(&mut Batch::from(vec![0])).unwrap());
    assert!(calls.lock().unwrap().is_empty());
    writer.resume().unwrap();
    assert!(!writer.is_interrupted());
    assert_eq!(*calls.lock().unwrap(), [0]);
}

#[test]
fn several_edges_of_an_output_share_a_step() {
    let interrupt = Interrupt::default();
    let calls: [Calls; 2] = Default::default();
    let edges = calls.each_ref().map(|calls| {
        Box::new(edge(custom(&interrupt, calls), &interrupt).0) as Box<dyn Consumer<u64>>
    });
    let mut all = FanOut::new(edges.into());
    let seen = || calls.each_ref().map(|calls| calls.lock().unwrap().len());
    assert!(!all.batch(&mut Batch::from((0..10).collect::<Vec<u64>>())).unwrap());
    assert_eq!(seen(), [4, 0], "the second edge is not begun after the interruption");
    all.resume().unwrap();
    assert_eq!(seen(), [5, 0]);
    interrupt.clear();
    all.resume().unwrap();
    assert!(all.is_interrupted(), "the second edge was interrupted at its own fourth record");
    assert_eq!(seen(), [10, 4]);
    interrupt.clear();
    all.resume().unwrap();
    assert!(!all.is_interrupted());
    assert_eq!(seen(), [10, 10]);
}

const ASIDE: OutputTag<u64> = OutputTag::new("aside");

/// Runs a job whose steps are all interrupted, and returns the two sorted outputs.
fn outputs(
    interrupted: bool,
    program: impl Fn(&crate::Environment) + Send + Sync + 'static,
) -> Vec<Vec<Vec<u8>>> {
    let interrupt = Interrupt::default();
    if interrupted {
        interrupt.raise();
    }
    let job = crate::api::tests::built(2, program);
    let tmp = tempfile::tempdir().unwrap();
    let harness = Harness::new(tmp.path()).channel_batches(1).interrupt(interrupt);
    let mut outcome = harness.run(&job).unwrap();
    outcome.collected.iter_mut().for_each(|lines| lines.sort_unstable());
    outcome.collected
}

#[test]
fn side_outputs_with_a_partitioner_lose_nothing_at_the_end_of_input() {
    let program = |env: &crate::Environment| {
        let numbers = env.sequence(0..300).flat_map(|n: u64, out: &mut Collector<u64>| {
            out.collect_to(&ASIDE, n);
            out.collect(n);
        });
        let aside = numbers.side_output(&ASIDE);
        aside.partition_custom(|n, of| *n as usize % of).map(|n: u64| n).collect();
        aside.key_by_value(|n| n % 7).count().collect();
        numbers.partition_custom(|n, of| *n as usize / 3 % of).map(|n: u64| n).collect();
    };
    let whole = outputs(false, program);
    assert_eq!(whole.iter().map(Vec::len).collect::<Vec<_>>(), [300; 3]);
    assert_eq!(outputs(true, program), whole);
}

#[test]
fn a_timestamp_function_of_a_source_is_interrupted_after_the_record_at_work() {
    let interrupt = Interrupt::default();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (raised, seen) = (interrupt.clone(), log.clone());
    let job = crate::api::tests::built(1, move |env| {
        let (raised, timed, mapped) = (raised.clone(), seen.clone(), seen.clone());
        let strategy = WatermarkStrategy::for_monotonous_timestamps(move |n: &u64| {
            timed.lock().unwrap().push(("timed", *n));
            if *n == 500 {
                raised.raise();
            }
            *n as i64
        });
        let numbers = env.from_source(
            CollectionSource::new((0..1_000).collect::<Vec<u64>>()),
            strategy,
            "numbers",
        );
        let mapped = numbers.map(move |n| {
            mapped.lock().unwrap().push(("mapped", n));
            n
        });
        mapped.checksum().collect();
    });
    let tmp = tempfile::tempdir().unwrap();
    let outcome = Harness::new(tmp.path()).interrupt(interrupt).run(&job).unwrap();
    assert!(outcome.collected[0][0].starts_with(b"1000\t"));
    let log = log.lock().unwrap();
    for what in ["timed", "mapped"] {
        let numbers = log.iter().filter(|(who, _)| *who == what).map(|(_, n)| *n);
        assert!(numbers.eq(0..1_000), "{what}: each record once and in order");
    }
    let at = log.iter().position(|seen| *seen == ("timed", 500)).unwrap();
    assert_eq!(log[at + 1].0, "mapped", "the rest of the batch waits for its times");
}

/// A record with memory on the heap is looked behind even if the function is known to be quick.
#[test]
fn quick_functions_on_texts_look_at_the_interruption_after_every_record() {
    let interrupt = Interrupt::default();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (raised, seen) = (interrupt.clone(), log.clone());
    let job = crate::api::tests::built(1, move |env| {
        let (raised, first, second) = (raised.clone(), seen.clone(), seen.clone());
        let texts = env.sequence(0..2_000).map(move |n| {
            first.lock().unwrap().push("first");
            if n == 1_500 {
                raised.raise();
            }
            n.to_string()
        });
        let long = texts.filter(move |text| {
            second.lock().unwrap().push("second");
            text.len() > 3
        });
        long.collect();
    });
    let tmp = tempfile::tempdir().unwrap();
    let outcome = Harness::new(tmp.path()).interrupt(interrupt).run(&job).unwrap();
    assert_eq!(outcome.collected[0].len(), 1_000);
    let log = log.lock().unwrap();
    let at = log.iter().enumerate().filter(|(_, who)| **who == "first").nth(1_500).unwrap().0;
    assert_eq!(log[at + 1], "second", "the rest of the batch waits");
}

/// Emits a million numbers in one call to an edge, whose consumer takes what it was sent after every 1,000; `aside`: to a side
/// output. Returns the maximum number of records that were kept in the task.
fn kept_by_an_edge(partitioner: Box<dyn Partitioner<u64>>, aside: bool) -> usize {
    use crate::operators::{FlatMap, Link, OperatorContext, SideOutputs, side_output};
    const RECORDS: u64 = 1_000_000;
    let (narrow, kept) = (TestPort::<u64>::new(2, 0), Arc::new(Mutex::new(0)));
    // Nothing is sent to the other channel.
    narrow.state().room[1] = 1;
    let (port, most) = (narrow.clone(), kept.clone());
    let context = OperatorContext::for_tests(0, 1);
    let interrupt = context.shared().interrupt.clone();
    let writer = Box::new(narrow.writer(partitioner, &interrupt));
    let many = FlatMap::new(move |of: u64, out: &mut Collector<u64>| {
        for n in 0..of {
            match aside {
                true => out.collect_to(&ASIDE, n),
                false => out.collect(n),
            }
            if n % 1_000 == 0 {
                let mut port = port.state();
                port.room[0] = 64;
                let sent: usize =
                    port.sent.iter().map(|(_, batch)| batch.as_ref().unwrap().0.len()).sum();
                let mut most = most.lock().unwrap();
                *most = (n as usize + 1 - sent).max(*most);
            }
        }
    });
    let (next, sides): (Box<dyn Consumer<u64>>, _) = match aside {
        true => {
            (Box::new(NoConsumer), SideOutputs::new(vec![("aside", side_output::<u64>(writer))]))
        }
        false => (writer, SideOutputs::default()),
    };
    let mut link = Link::new(many, next, sides, context);
    interrupt.raise();
    link.batch(&mut Batch::from(vec![RECORDS])).unwrap();
    interrupt.clear();
    for _ in 0..10_000 {
        narrow.state().room[0] = 64;
        link.flush(true).unwrap();
        link.resume().unwrap();
    }
    let sent = std::mem::take(&mut narrow.state().sent);
    let records = sent.into_iter().flat_map(|(channel, batch)| {
        assert_eq!(channel, 0);
        batch.unwrap().0
    });
    assert!(records.eq(0..RECORDS), "once and in order");
    *kept.lock().unwrap()
}

#[test]
fn an_output_takes_what_a_call_emits_while_the_call_runs() {
    for aside in [false, true] {
        // What a full channel has refused, 256 KiB at most.
        let refused = kept_by_an_edge(Box::new(Narrowed), aside);
        assert!(refused <= 40_000, "{refused} records of 16 bytes at once");
        // What waits for a function of the program, 4 MiB at most.
        let waits = kept_by_an_edge(Box::new(ByFunction::new(|_: &u64, _| 0)), aside);
        assert!(waits <= 300_000, "{waits} records of 16 bytes at once");
    }
}

/// A partitioner that selects the first channel, and calls no function.
struct Narrowed;

impl Partitioner<u64> for Narrowed {
    fn partition(
        &mut self,
        batch: &mut Batch<u64>,
        buffers: &mut [Batch<u64>],
        limit: usize,
        ready: &mut Vec<usize>,
        _: &Interrupt,
    ) -> Result<(), crate::TaskError> {
        let before = buffers[0].len();
        buffers[0].append(batch);
        if before < limit && buffers[0].len() >= limit {
            ready.push(0);
        }
        Ok(())
    }
}
