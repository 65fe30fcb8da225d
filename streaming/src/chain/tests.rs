//! Chains, heads and edges by themselves.

use super::*;
use crate::{
    harness::Harness,
    operators::{ByValue, Consumer},
    seam::{Element, ErasedBatch, OutputPort, StreamEvent, TaskCounters},
    state::{channel_of_group, key_group},
    types::key_hash,
};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

type Sent = Arc<Mutex<Vec<(usize, Result<Vec<u64>, StreamEvent>)>>>;

/// Takes so many elements per channel until it is emptied.
struct Port {
    sent: Sent,
    free: Arc<Mutex<Vec<usize>>>,
}

impl OutputPort for Port {
    fn channels(&self) -> usize {
        self.free.lock().unwrap().len()
    }
    fn try_send(&mut self, channel: usize, element: Element) -> Result<(), Element> {
        let mut free = self.free.lock().unwrap();
        if free[channel] == 0 {
            return Err(element);
        }
        free[channel] -= 1;
        let element = match element {
            Element::Batch(batch) => Ok(ErasedBatch::downcast::<u64>(batch).unwrap()),
            Element::Event(event) => Err(event),
        };
        self.sent.lock().unwrap().push((channel, element));
        Ok(())
    }
    fn writable(&mut self) -> bool {
        self.free.lock().unwrap().iter().all(|free| *free > 0)
    }
}

fn writer(
    channels: usize,
    room: usize,
    partitioner: Box<dyn Partitioner<u64>>,
) -> (EdgeWriter<u64>, Sent, Arc<Mutex<Vec<usize>>>) {
    let (sent, free) = (Sent::default(), Arc::new(Mutex::new(vec![room; channels])));
    let port = Port { sent: sent.clone(), free: free.clone() };
    (EdgeWriter::new(Box::new(port), partitioner, Arc::new(TaskCounters::default())), sent, free)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever room there is: nothing is lost, nothing comes twice, order within a channel is kept, and an event is
    /// behind all records that came before it, on every channel.
    #[test]
    fn an_edge_loses_nothing(
        batches in prop::collection::vec(0_u64..3_000, 1..12), channels in 1_usize..6, room in 0_usize..4, by_key: bool,
    ) {
        let partitioner: Box<dyn Partitioner<u64>> = if by_key {
            Box::new(HashByKey::new(ByValue::new(|n: &u64| *n), channels, 128))
        } else {
            Box::new(RoundRobin::new(1))
        };
        let (mut writer, sent, free) = writer(channels, room, partitioner);
        let mut next = 0;
        for size in &batches {
            let mut records: Vec<u64> = (next..next + size).collect();
            next += size;
            writer.batch(&mut records).unwrap();
            prop_assert!(records.is_empty());
        }
        writer.event(StreamEvent::Watermark(5)).unwrap();
        for _ in 0..10_000 {
            if writer.flush(true).unwrap() {
                break;
            }
            prop_assert!(writer.full());
            free.lock().unwrap().iter_mut().for_each(|free| *free += 1);
        }
        prop_assert!(!writer.full());
        let mut all = Vec::new();
        let mut marked = vec![false; channels];
        let mut last = vec![None; channels];
        for (channel, element) in sent.lock().unwrap().iter() {
            match element {
                Ok(records) => {
                    prop_assert!(!marked[*channel]);
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
        let (mut writer, sent, _) = writer(channels, 1_000, Box::new(Broadcast));
        let mut records: Vec<u64> = (0..size).collect();
        writer.batch(&mut records).unwrap();
        prop_assert!(writer.flush(true).unwrap());
        for channel in 0..channels {
            let sent = sent.lock().unwrap();
            let of_channel = sent.iter().filter(|(to, _)| *to == channel);
            let got: Vec<u64> = of_channel.flat_map(|(_, element)| element.clone().unwrap()).collect();
            prop_assert_eq!(got, (0..size).collect::<Vec<_>>());
        }
    }

    /// Every record that goes in comes out, whatever the shape of the plumbing.
    #[test]
    fn nothing_is_lost_between_subtasks(
        count in 0_u64..5_000, source in 1_u32..5, middle in 1_u32..5, room in 1_usize..5, budget in 1_usize..2_000,
        serialize: bool,
    ) {
        let job = crate::api::tests::built(source, move |env| {
            let numbers = env.sequence(0..count).flat_map(|n, out| out.collect_all([n, n + 1_000_000]));
            let [a, b] = numbers.rebalance().map(|n| n).set_parallelism(middle).split();
            a.union(&b.key_by(|n| n).count().map(|(n, _)| n)).checksum().collect();
            numbers.union(&numbers).checksum().collect();
        });
        let tmp = tempfile::tempdir().unwrap();
        let mut harness = Harness::new(tmp.path()).channel_batches(room).budget(budget);
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

#[test]
fn large_records_make_small_batches() {
    let tmp = tempfile::tempdir().unwrap();
    let job = crate::api::tests::built(1, |env| {
        env.sequence(0..300)
            .map(|_| vec![0_u8; 64 << 10])
            .rebalance()
            .map(|bytes| bytes.len() as u64)
            .checksum()
            .collect();
    });
    let outcome = Harness::new(tmp.path()).channel_batches(1).run(&job).unwrap();
    assert!(outcome.collected[0][0].starts_with(b"300\t"));
    // 300 × 64 KiB do not fit into batches of 256 KiB other than four by four.
    assert!(outcome.steps > 75, "{}", outcome.steps);
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
