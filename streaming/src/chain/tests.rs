//! Chains, heads and edges by themselves.

use super::{fixtures::TestPort, *};
use crate::{
    batch::{Batch, NO_TIME},
    harness::Harness,
    operators::{
        BoxError, ByReference, ByValue, Collector, Consumer, Control, KeySelector, Link, Operator,
        OperatorContext, ProcessFunction, SideOutputs,
    },
    seam::{Element, ErasedBatch, Interrupt, Progress, StreamEvent, TaskCounters, TaskError},
    state::{channel_of_group, key_group},
    types::{FlottType, Record, Serde, key_hash},
};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Sends records through an edge with that many channels. Returns whether each came with the hash of its key, all of them or none, and the
/// most bytes that the producer has held.
fn sent_with_hashes<T, S>(selector: S, records: Vec<T>, channels: usize, time: i64) -> (bool, u64)
where
    T: Record,
    S: KeySelector<T>,
{
    let port = TestPort::new(channels, 0);
    let partitioner = Box::new(HashByKey::new(selector.clone(), channels, 128));
    let mut writer = port.writer(partitioner, &Interrupt::default());
    // They come with the hashes of another edge.
    let mut batch = Batch::default();
    records.into_iter().for_each(|record| batch.push_hashed(record, time, 7));
    writer.batch(&mut batch).unwrap();
    writer.flush(true).unwrap();
    let held = port.state().held;
    port.state().room.iter_mut().for_each(|room| *room = 100);
    assert!(writer.flush(true).unwrap());
    let state = port.state();
    let sent = state.sent.iter().flat_map(|(_, content)| &content.as_ref().unwrap().0);
    let hashes: Vec<u64> = sent.map(|record| selector.with(record, key_hash)).collect();
    assert_eq!(hashes.len(), 2_000);
    assert!(state.hashes.is_empty() || state.hashes == hashes, "hashes of other keys");
    (!state.hashes.is_empty(), held)
}

#[test]
fn the_hash_of_a_text_goes_with_its_record_where_it_was_computed() {
    fn text(record: &(String, u64)) -> &String {
        &record.0
    }
    fn number(record: &(String, u64)) -> &u64 {
        &record.1
    }
    let texts = || (0..2_000_u64).map(|n| (format!("{n}"), n)).collect::<Vec<_>>();
    for time in [NO_TIME, 7] {
        let (with, bytes) = sent_with_hashes(ByReference::new(text), texts(), 3, time);
        let (alone, bytes_alone) = sent_with_hashes(ByReference::new(text), texts(), 1, time);
        assert_eq!((with, alone), (true, false), "one channel needs no hash");
        // Each batch's bytes are rounded down.
        let hashes = bytes - bytes_alone;
        assert!((2_000 * 8 - 100..=2_000 * 8).contains(&hashes), "{bytes} {bytes_alone}");
        let computed = ByValue::new(|record: &(String, u64)| record.0.clone());
        assert!(sent_with_hashes(computed, texts(), 3, time).0);
        let number = sent_with_hashes(ByReference::new(number), texts(), 3, time).0;
        assert!(!number, "a number is hashed as fast as its hash is read");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever room there is: nothing is lost, nothing comes twice, order within a channel is kept, and a watermark is
    /// behind all records that came before it, once on every channel.
    #[test]
    fn an_edge_loses_nothing(
        batches in prop::collection::vec(0_u64..3_000, 1..12), channels in 1_usize..6, room in 0_usize..4, by_key: bool,
    ) {
        let partitioner: Box<dyn Partitioner<u64>> = if by_key {
            Box::new(HashByKey::new(ByValue::new(|n: &u64| *n), channels, 128))
        } else {
            Box::new(RoundRobin::new(1))
        };
        let port = TestPort::new(channels, room);
        let mut writer = port.writer(partitioner, &Interrupt::default());
        let mut next = 0;
        for size in &batches {
            let mut batch = Batch::from((next..next + size).collect::<Vec<u64>>());
            next += size;
            writer.batch(&mut batch).unwrap();
            prop_assert!(batch.is_empty());
        }
        writer.event(StreamEvent::Watermark(5)).unwrap();
        for _ in 0..10_000 {
            if writer.flush(true).unwrap() {
                break;
            }
            prop_assert!(writer.full());
            port.state().room.iter_mut().for_each(|room| *room += 1);
        }
        prop_assert!(!writer.full());
        let mut all = Vec::new();
        let mut marked = vec![false; channels];
        let mut last = vec![None; channels];
        for (channel, element) in &port.state().sent {
            match element {
                Ok((records, watermark)) => {
                    prop_assert!(!marked[*channel]);
                    marked[*channel] = *watermark == Some(5);
                    for record in records {
                        prop_assert!(last[*channel].is_none_or(|last| last < *record));
                        last[*channel] = Some(*record);
                        if by_key {
                            let group = key_group(key_hash(record), 128);
                            prop_assert_eq!(channel_of_group(group, 128, channels as u32), *channel as u32);
                        }
                    }
                    all.extend(records.iter().copied());
                }
                Err(event) => {
                    prop_assert_eq!(*event, StreamEvent::Watermark(5));
                    prop_assert!(!marked[*channel]);
                    marked[*channel] = true;
                }
            }
        }
        all.sort_unstable();
        prop_assert_eq!(all, (0..next).collect::<Vec<_>>());
        prop_assert!(marked.iter().all(|marked| *marked));
    }

    #[test]
    fn broadcast_gives_every_channel_everything(size in 0_u64..5_000, channels in 1_usize..5) {
        let port = TestPort::<u64>::new(channels, 1_000);
        let mut writer = port.writer(Box::new(Broadcast), &Interrupt::default());
        writer.batch(&mut Batch::from((0..size).collect::<Vec<u64>>())).unwrap();
        prop_assert!(writer.flush(true).unwrap());
        for channel in 0..channels {
            let state = port.state();
            let of_channel = state.sent.iter().filter(|(to, _)| *to == channel);
            let got: Vec<u64> = of_channel.flat_map(|(_, element)| element.clone().unwrap().0).collect();
            prop_assert_eq!(got, (0..size).collect::<Vec<_>>());
        }
    }

    /// Every record that goes in comes out, whatever the shape of the plumbing.
    #[test]
    fn nothing_is_lost_between_subtasks(
        count in 0_u64..5_000, source in 1_u32..5, middle in 1_u32..5, room in 1_usize..5, budget in 1_usize..2_000,
        serialize: bool, interrupted in any::<prop::sample::Index>(),
    ) {
        // In two cases of three, something interrupts every step from some record on.
        let interrupt = Interrupt::default();
        let (raised, at) = (interrupt.clone(), interrupted.index(count as usize * 3 / 2 + 1) as u64);
        let job = crate::api::tests::built(source, move |env| {
            let raised = raised.clone();
            let numbers = env.sequence(0..count).flat_map(move |n, out| {
                if n == at {
                    raised.raise();
                }
                out.collect_all([n, n + 1_000_000]);
            });
            let [a, b] = numbers.rebalance().map(|n| n).set_parallelism(middle).split();
            a.union(&b.key_by(|n| n).count().map(|(n, _)| n)).checksum().collect();
            b.key_by(|n| n).at_end().count().filter(|_| true).process(Twice).discard();
            let to = |n: &u64, of: usize| *n as usize % of;
            numbers.union(&numbers.partition_custom(to).map(|n| n)).checksum().collect();
        });
        let tmp = tempfile::tempdir().unwrap();
        let mut harness =
            Harness::new(tmp.path()).channel_batches(room).budget(budget).interrupt(interrupt);
        if serialize {
            harness = harness.serialize();
        }
        let outcome = harness.run(&job).unwrap();
        prop_assert_eq!(outcome.collected.len(), 2);
        prop_assert_eq!(&outcome.collected[0], &outcome.collected[1]);
        let line = String::from_utf8(outcome.collected[0][0].clone()).unwrap();
        prop_assert!(line.starts_with(&format!("{}\t", count * 4)), "{}", line);
    }
}

#[derive(Clone)]
struct Twice;

impl ProcessFunction<(u64, u64)> for Twice {
    type Out = u64;
    fn process(&mut self, record: (u64, u64), out: &mut Collector<u64>) -> Result<(), BoxError> {
        out.collect_all([record.0, record.1]);
        Ok(())
    }
}

/// Returns the records that a map and the filter after it work on, in order, if the step is
/// interrupted at a record of the map and ever after.
fn worked_on(interrupted_at: u64) -> Vec<(&'static str, u64)> {
    let interrupt = Interrupt::default();
    let worked = Arc::new(Mutex::new(Vec::new()));
    let (raised, log) = (interrupt.clone(), worked.clone());
    let job = crate::api::tests::built(1, move |env| {
        let (raised, first, second) = (raised.clone(), log.clone(), log.clone());
        env.sequence(0..2_000)
            .map(move |n| {
                first.lock().unwrap().push(("first", n));
                if n == interrupted_at {
                    raised.raise();
                }
                n
            })
            .filter(move |n| {
                second.lock().unwrap().push(("second", *n));
                n % 2 == 0
            })
            .checksum()
            .collect();
    });
    let tmp = tempfile::tempdir().unwrap();
    let outcome = Harness::new(tmp.path()).interrupt(interrupt).run(&job).unwrap();
    assert!(outcome.collected[0][0].starts_with(b"1000\t"));
    let worked = worked.lock().unwrap().clone();
    assert_eq!(worked.len(), 4_000);
    for operator in ["first", "second"] {
        let seen = worked.iter().filter(|(who, _)| *who == operator).map(|(_, n)| *n);
        assert!(seen.is_sorted(), "in order");
    }
    worked
}

#[test]
fn a_step_that_is_interrupted_ends_behind_the_record_at_work() {
    let worked = worked_on(500);
    let first = worked.iter().position(|seen| *seen == ("first", 500)).unwrap();
    assert_eq!(worked[first + 1].0, "second", "the rest of the batch waits");
    let after: Vec<_> = worked[first + 1..].windows(2).filter(|two| two[0].0 == two[1].0).collect();
    assert!(after.len() < 504, "records go one by one: {} runs", after.len());
}

#[test]
fn functions_that_are_known_to_be_quick_look_behind_every_16_records() {
    let worked = worked_on(1_500);
    let first = worked.iter().position(|seen| *seen == ("first", 1_500)).unwrap();
    let more = worked[first + 1..].iter().take_while(|(who, _)| *who == "first").count();
    assert!(more < 16, "{more}");
    // What followed was interrupted at once: it is not known to be quick any more.
    let last = &worked[worked.len() - 400..];
    let runs = last.windows(2).filter(|two| two[0].0 == two[1].0).count();
    assert!(runs < 20, "records go one by one: {runs} runs");
}

#[test]
fn a_watermark_rides_on_the_next_batch_of_each_channel() {
    let port = TestPort::<u64>::new(2, 100);
    let mut writer = port.writer(Box::new(RoundRobin::new(0)), &Interrupt::default());
    writer.batch(&mut Batch::from(vec![1, 2])).unwrap();
    writer.event(StreamEvent::Watermark(10)).unwrap();
    assert_eq!(port.state().sent, [], "it ships nothing by itself");
    writer.batch(&mut Batch::from((0..2_046).collect::<Vec<u64>>())).unwrap();
    writer.event(StreamEvent::Watermark(20)).unwrap();
    let of = |channel: usize| -> Vec<(usize, Option<i64>)> {
        let sent = &port.state().sent;
        let batches = sent.iter().filter(|(to, _)| *to == channel);
        batches.map(|(_, content)| content.clone().map(|(r, w)| (r.len(), w)).unwrap()).collect()
    };
    assert_eq!(of(0), [(1_024, Some(10))]);
    assert_eq!(of(1), [(1_024, Some(10))]);
    port.state().sent.clear();
    // Nothing takes the second one along: it goes alone when all that waits is sent.
    assert!(writer.flush(true).unwrap());
    let alone = Err(StreamEvent::Watermark(20));
    assert_eq!(port.state().sent, [(0, alone.clone()), (1, alone)]);
    assert!(writer.flush(true).unwrap());
    assert_eq!(port.state().sent.len(), 2, "and once");
}

#[test]
fn buffers_that_are_beyond_the_limit_of_larger_records_go_first() {
    let port = TestPort::<String>::new(2, 100);
    let by_first = |text: &String, _: usize| usize::from(text.starts_with('b'));
    let mut writer = port.writer(Box::new(ByFunction::new(by_first)), &Interrupt::default());
    writer.batch(&mut Batch::from(vec!["a".to_owned(); 500])).unwrap();
    assert_eq!(port.take_lengths(), []);
    // Of these, three make a batch.
    let large = || "b".repeat(80 << 10);
    writer.batch(&mut Batch::from(vec![large(), large()])).unwrap();
    assert_eq!(port.take_lengths(), [(0, 500)]);
    writer.batch(&mut Batch::from(vec![large()])).unwrap();
    assert_eq!(port.take_lengths(), [(1, 3)]);
}

#[test]
fn a_port_is_told_what_is_open_or_waits() {
    let port = TestPort::<String>::new(2, 0);
    let mut writer = port.writer(Box::new(RoundRobin::new(0)), &Interrupt::default());
    let text = || "a".repeat(1_000);
    let weight = crate::types::FlottType::weight(&text()) as u64;
    writer.batch(&mut Batch::from(vec![text(); 200])).unwrap();
    assert_eq!(port.state().held, 200 * weight, "half-filled buffers");
    writer.batch(&mut Batch::from(vec![text(); 800])).unwrap();
    assert!(writer.full());
    assert_eq!(port.state().held, 1_000 * weight, "batches that found no room");
    port.state().room.fill(100);
    assert!(writer.flush(true).unwrap());
    assert_eq!(port.state().held, 0);
    writer.batch(&mut Batch::with_times(vec![text(); 200], vec![7; 200])).unwrap();
    assert_eq!(port.state().held, 200 * (weight + 8), "event times take memory too");
}

/// Sends 300 records of 64 KiB each through a channel that takes one batch at a time. Returns how many steps the tasks took.
fn steps_of_large_records<T: Record>(make: fn(Vec<u8>) -> T, length: fn(&T) -> usize) -> u64 {
    let tmp = tempfile::tempdir().unwrap();
    let job = crate::api::tests::built(1, move |env| {
        let large = env.sequence(0..300).map(move |_| make(vec![b'0'; 64 << 10]));
        large.rebalance().map(move |record| length(&record) as u64).checksum().collect();
    });
    let outcome = Harness::new(tmp.path()).channel_batches(1).run(&job).unwrap();
    assert!(outcome.collected[0][0].starts_with(b"300\t"));
    outcome.steps
}

#[test]
fn large_records_make_small_batches() {
    let texts: fn(Vec<u8>) -> _ = |bytes| Serde(vec![String::from_utf8(bytes).unwrap()]);
    // 300 × 64 KiB do not fit into batches of 256 KiB other than four by four.
    for steps in [
        steps_of_large_records(|bytes| bytes, Vec::len),
        steps_of_large_records(texts, |texts| texts.len()),
    ] {
        assert!(steps > 75, "{steps}");
    }
}

#[test]
fn a_serde_value_weighs_about_what_it_owns() {
    let texts = vec!["a".repeat(3_000), "b".repeat(70_000)];
    let weight = Serde(texts).weight();
    assert!((73_000..73_100).contains(&weight), "{weight}");
    assert_eq!(Serde((7_u64, 8_u8)).weight(), 16, "without memory on the heap");
}

#[test]
fn one_record_that_becomes_many_does_not_overrun_its_channel() {
    let tmp = tempfile::tempdir().unwrap();
    let job = crate::api::tests::built(1, |env| {
        let many = env
            .sequence(0..3)
            .flat_map(|n, out| out.collect_all((0..100_000).map(|i| n * 100_000 + i)));
        many.rebalance().filter(|n| n % 2 == 0).checksum().collect();
    });
    let outcome = Harness::new(tmp.path()).channel_batches(1).run(&job).unwrap();
    assert!(outcome.collected[0][0].starts_with(b"150000\t"));
}

/// Batches of one record each, without an end.
struct Drops;

impl crate::seam::InputPort for Drops {
    fn channels(&self) -> usize {
        1
    }
    fn poll(&mut self) -> crate::seam::Polled {
        let batch = ErasedBatch::new(Batch::from(vec![7_u64]));
        crate::seam::Polled::Element { channel: 0, element: Element::Batch(batch) }
    }
    fn pause(&mut self, _channel: usize, _paused: bool) {}
}

/// Is told to end the step with the third record.
struct RaisesAtThird {
    interrupt: Interrupt,
    records: Arc<Mutex<usize>>,
}

impl Operator<u64> for RaisesAtThird {
    type Out = u64;
    fn process(
        &mut self,
        batch: &mut Batch<u64>,
        _: &mut Collector<u64>,
        _: &OperatorContext,
    ) -> Result<(), TaskError> {
        let mut records = self.records.lock().unwrap();
        *records += batch.len();
        batch.clear();
        if *records == 3 {
            self.interrupt.raise();
        }
        Ok(())
    }
}

#[test]
fn a_step_that_is_interrupted_takes_no_further_batch() {
    let (interrupt, records) = (Interrupt::default(), Arc::new(Mutex::new(0)));
    let told = RaisesAtThird { interrupt: interrupt.clone(), records: records.clone() };
    let context = OperatorContext::for_tests(0, 1);
    let link = Link::new(told, Box::new(NoConsumer), SideOutputs::default(), context);
    let open: OpenBatch<u64> = |batch| ErasedBatch::downcast::<u64>(batch);
    let mut head = InputHead::new(
        vec![Box::new(Drops)],
        feed(vec![open], Box::new(link)),
        Arc::new(TaskCounters::default()),
        interrupt.clone(),
        false,
        "test".to_owned(),
    );
    assert_eq!(head.step(100).unwrap(), Progress::Busy);
    assert_eq!(*records.lock().unwrap(), 3);
    interrupt.clear();
    assert_eq!(head.step(100).unwrap(), Progress::Busy);
    assert_eq!(*records.lock().unwrap(), 103);
}

/// A port whose consumers ask for batches of so many records.
fn paced(asked: [usize; 2]) -> TestPort<u64> {
    let port = TestPort::new(2, 100);
    port.state().asked = asked.map(Some).into();
    port
}

#[test]
fn batches_are_as_small_as_the_slowest_consumer_asks_and_grow_when_it_is_fast_again() {
    let port = paced([100, 400]);
    let to = |n: &u64, _: usize| usize::from(*n > 0);
    let mut writer = port.writer(Box::new(ByFunction::new(to)), &Interrupt::default());
    let mut batch = |channel: u64, records: usize| {
        writer.batch(&mut Batch::from(vec![channel; records])).unwrap();
        port.take_lengths()
    };
    assert_eq!(batch(1, 60), []);
    port.state().asked[0] = Some(40);
    assert_eq!(batch(0, 100), [(0, 100)], "the port is asked with the batch that is sent");
    assert_eq!(batch(1, 1), [(1, 60)], "60 records are more than 40, and not left to grow");
    assert_eq!(batch(1, 39), [(1, 40)]);
    port.state().asked = vec![Some(400), Some(300)];
    assert_eq!(batch(0, 39), [], "still 40");
    writer.flush(true).unwrap();
    assert_eq!(port.take_lengths(), [(0, 39)]);
    assert_eq!(writer.most_at_once(), 300, "everything that waits was sent, and all were asked");
}

#[test]
fn a_consumer_that_gets_no_records_makes_no_batch_small() {
    // The consumer of channel 1 has never worked, and its share is the first guess.
    let port = paced([400, 8]);
    let to_first = Box::new(ByFunction::new(|_: &u64, _: usize| 0));
    let mut writer = port.writer(to_first, &Interrupt::default());
    writer.batch(&mut Batch::from(vec![1; 10])).unwrap();
    writer.flush(true).unwrap();
    port.state().sent.clear();
    writer.batch(&mut Batch::from(vec![1; 399])).unwrap();
    assert_eq!(port.take_lengths(), []);
    writer.batch(&mut Batch::from(vec![1])).unwrap();
    assert_eq!(port.take_lengths(), [(0, 400)]);
}

#[test]
fn a_chain_from_which_nothing_comes_works_on_more_at_once() {
    let mut writer = paced([16, 16]).writer(Box::new(RoundRobin::new(0)), &Interrupt::default());
    let grows: Vec<usize> = (0..8).map(|_| writer.most_at_once()).collect();
    assert_eq!(grows, [16, 32, 64, 128, 256, 512, 1_024, 1_024]);
    writer.batch(&mut Batch::from(vec![1])).unwrap();
    assert_eq!(writer.most_at_once(), 16);
    let texts = TestPort::<String>::new(2, 100);
    let writer = texts.writer(Box::new(RoundRobin::new(0)), &Interrupt::default());
    assert!((0..8).all(|_| writer.most_at_once() == 32), "they may be large");
}
