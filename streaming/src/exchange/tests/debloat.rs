//! The time that a barrier takes through a full exchange to a slow consumer: edge writers and ports as in a job, in one
//! thread, by a clock that stands still while nothing works.

use super::*;
use crate::{
    batch::Batch,
    chain::{EdgeWriter, RoundRobin},
    exchange::outgoing::Outgoing,
    operators::{Consumer, Control},
    seam::Interrupt,
};
use std::sync::Weak;
use tokio::time::{Instant as VirtualInstant, advance};

/// A job of producers that are always ready and one slow consumer.
struct Flood {
    producers: Vec<(Arc<TaskControl>, EdgeWriter<u64>)>,
    input: Box<dyn InputPort>,
    /// Number of the next record.
    next: u64,
    barriers: usize,
    /// Moves what is on the wire between the processes; returns whether anything moved.
    flow: Box<dyn FnMut() -> bool>,
}

const PRODUCERS: u32 = 8;

const SLOW: Duration = Duration::from_millis(1);
const FAST: Duration = Duration::from_nanos(50);

/// A producer's end of the edge to the only consumer.
fn writer(exchange: &Exchange, subtask: u32) -> (Arc<TaskControl>, EdgeWriter<u64>) {
    let task = task(1, subtask);
    let port = exchange.open_output(&task, output(1, ShipStrategy::Hash, 1));
    let counters = Arc::new(TaskCounters::default());
    let writer =
        EdgeWriter::new(port, Box::new(RoundRobin::new(0)), counters, Interrupt::default());
    (task, writer)
}

/// Hands all frames over; returns whether there were any.
fn deliver(bytes: &mut Vec<u8>, to: &Arc<Connection>, shared: &Weak<Shared>) -> bool {
    let mut from = 0;
    while let Some((frame, taken)) = wire::decode(&bytes[from..]).unwrap() {
        if let Some(gate) = to.handle(frame, shared).unwrap() {
            gate.raise_consumer();
        }
        from += taken;
    }
    bytes.clear();
    from > 0
}

impl Flood {
    /// All tasks in one process.
    fn local(options: ExchangeOptions) -> Self {
        let exchange = Exchange::new(options, None, Handle::current());
        let inputs: Vec<_> = (0..PRODUCERS).map(|_| &exchange).collect();
        let input = exchange.open_input(&task(2, 0), vec![input(1, ShipStrategy::Hash, &inputs)]);
        let producers = (0..PRODUCERS).map(|subtask| writer(&exchange, subtask)).collect();
        Self { producers, input, next: 0, barriers: 0, flow: Box::new(|| false) }
    }

    /// The consumer in another process than its producers; what they write to each other arrives at once.
    fn remote(options: ExchangeOptions) -> Self {
        let (there, here) = (
            Exchange::new(options.clone(), None, Handle::current()),
            Exchange::new(options, None, Handle::current()),
        );
        let (producing, consuming) = (Connection::new("p".into()), Connection::new("c".into()));
        let consumer = task(2, 0);
        let gate = Gate::new(
            PRODUCERS as usize,
            consumer.signal().clone(),
            Arc::clone(&here.shared.memory),
            here.shared.options.debloat_target,
        );
        let asked: Vec<_> = (0..PRODUCERS).map(|channel| (channel, 0, channel)).collect();
        consuming.request(&consumer, &gate, 1, 0, &asked);
        let input = Box::new(InPort {
            task: consumer,
            gate,
            edges: vec![InEdge {
                base: 0,
                edge: EdgeId(1),
                codec: Arc::new(Numbers),
                hub: None,
                links: Arc::default(),
            }],
            channels: PRODUCERS as usize,
            ended: 0,
            records: 0,
        });
        let shared = Arc::downgrade(&there.shared);
        let (mut to_consumer, mut to_producer) = (Vec::new(), Vec::new());
        let producers = (0..PRODUCERS).map(|subtask| writer(&there, subtask)).collect();
        let flow = move || {
            // Owned here, so that the exchange lives as long as its connection.
            let _there = &there;
            producing.write_control(&mut to_consumer);
            let mut out = Outgoing::new(false);
            while producing.write_part(&mut out) {}
            to_consumer.append(out.frames());
            let moved = deliver(&mut to_consumer, &consuming, &Weak::new());
            consuming.write_control(&mut to_producer);
            deliver(&mut to_producer, &producing, &shared) | moved
        };
        Self { producers, input, next: 0, barriers: 0, flow: Box::new(flow) }
    }

    /// Everything but the consumer goes on until nothing moves.
    fn fill(&mut self) {
        loop {
            let mut moved = false;
            for (task, writer) in &mut self.producers {
                let before = writer.full();
                writer.flush(before).unwrap();
                while !writer.full() {
                    let most = u64::try_from(writer.most_at_once()).unwrap();
                    let numbers: Vec<u64> = (self.next..self.next + most).collect();
                    self.next += most;
                    writer.batch(&mut Batch::from(numbers)).unwrap();
                    moved = true;
                }
                task.give_wakes();
            }
            if !((self.flow)() | moved) {
                return;
            }
        }
    }

    /// The consumer takes an element and needs `each` for each of its records.
    async fn consume(&mut self, each: Duration) {
        match self.input.poll() {
            Polled::Element { element: Element::Batch(batch), .. } => {
                advance(each * u32::try_from(batch.len()).unwrap()).await;
            }
            Polled::Element { channel, element: Element::Event(StreamEvent::Barrier(_)) } => {
                self.barriers += 1;
                self.input.pause(channel, true);
            }
            Polled::Element { element, .. } => panic!("{element:?} was not sent"),
            Polled::Empty | Polled::Finished => {
                panic!("the consumer has to wait for its producers")
            }
        }
        self.fill();
    }

    async fn run(&mut self, lasts: Duration, each: Duration) {
        let began = VirtualInstant::now();
        self.fill();
        while began.elapsed() < lasts {
            self.consume(each).await;
        }
    }

    /// Returns the time from a barrier in all producers until the consumer has it from all.
    async fn barrier(&mut self, each: Duration) -> Duration {
        let began = VirtualInstant::now();
        let barrier = Barrier { checkpoint: 1, ..Barrier::default() };
        for (_, writer) in &mut self.producers {
            writer.event(StreamEvent::Barrier(barrier)).unwrap();
        }
        self.barriers = 0;
        self.fill();
        while self.barriers < PRODUCERS as usize {
            self.consume(each).await;
        }
        for channel in 0..PRODUCERS as usize {
            self.input.pause(channel, false);
        }
        began.elapsed()
    }
}

/// Runs a test by a clock that only the test moves, with the tasks in one process and in two.
fn by_hand<F: Future<Output = ()>>(options: ExchangeOptions, test: impl Fn(Flood) -> F) {
    for remote in [false, true] {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(async {
            let options = options.clone();
            test(if remote { Flood::remote(options) } else { Flood::local(options) }).await;
        });
    }
}

#[test]
fn a_barrier_passes_a_consumer_of_a_thousand_records_per_second_in_seconds() {
    by_hand(options(64 << 20), async |mut flood| {
        flood.fill();
        let first = flood.barrier(SLOW).await;
        assert!(first <= Duration::from_secs(3), "before the rate was measured: {first:?}");
        flood.run(Duration::from_secs(4), SLOW).await;
        let later = flood.barrier(SLOW).await;
        assert!(later <= Duration::from_millis(1_500), "with the rate known: {later:?}");
    });
}

#[test]
fn without_a_target_a_barrier_waits_for_full_channels() {
    let unbounded = ExchangeOptions { debloat_target: None, ..options(64 << 20) };
    by_hand(unbounded, async |mut flood| {
        flood.fill();
        let barrier = flood.barrier(SLOW).await;
        assert!(barrier >= Duration::from_secs(500), "{barrier:?}");
    });
}

#[test]
fn a_consumer_that_becomes_fast_gets_full_batches_within_a_second_and_one_that_becomes_slow_gets_few()
 {
    by_hand(options(64 << 20), async |mut flood| {
        flood.run(Duration::from_secs(4), SLOW).await;
        assert!(flood.producers.iter().all(|(_, writer)| writer.most_at_once() < 64));
        flood.run(Duration::from_secs(1), FAST).await;
        assert!(flood.producers.iter().all(|(_, writer)| writer.most_at_once() == 1_024));
        // What waits when the consumer becomes slow has to be worked off first.
        flood.barrier(SLOW).await;
        let barrier = flood.barrier(SLOW).await;
        assert!(barrier <= Duration::from_secs(2), "{barrier:?}");
    });
}

#[test]
fn a_consumer_slower_than_a_record_per_second_still_gets_one_after_the_other() {
    by_hand(options(64 << 20), async |mut flood| {
        let minute = Duration::from_secs(60);
        flood.run(300 * minute, minute / 12).await;
        let barrier = flood.barrier(minute / 12).await;
        // One in the gate, one refused, one in the producer's batch, one that it had begun.
        assert!(barrier <= minute / 12 * 4 * PRODUCERS, "{barrier:?}");
    });
}

/// A record takes as long as the call of a slow service.
const SLOWEST: Duration = Duration::from_millis(50);

/// Two producers of two consumers in one process, whose channels are full before anything was taken. Returns the records that each
/// consumer has to take until it has the barriers that follow, and the time for that.
async fn before_the_rate_is_known(options: ExchangeOptions) -> Vec<(usize, Duration)> {
    let exchange = Exchange::new(options, None, Handle::current());
    let both = [&exchange, &exchange];
    let mut inputs: Vec<_> = (0..2)
        .map(|n| exchange.open_input(&task(2, n), vec![input(1, ShipStrategy::Hash, &both)]))
        .collect();
    let writer = |subtask| {
        let port = exchange.open_output(&task(1, subtask), output(1, ShipStrategy::Hash, 2));
        let first = Box::new(RoundRobin::new(subtask as usize));
        EdgeWriter::new(port, first, Arc::new(TaskCounters::default()), Interrupt::default())
    };
    let mut writers: Vec<EdgeWriter<u64>> = (0..2).map(writer).collect();
    let barrier = Barrier { checkpoint: 1, ..Barrier::default() };
    let fill = |writers: &mut Vec<EdgeWriter<u64>>| {
        for writer in writers {
            writer.flush(false).unwrap();
            while !writer.full() {
                let most = writer.most_at_once();
                writer.batch(&mut Batch::from(vec![7; most])).unwrap();
            }
        }
    };
    fill(&mut writers);
    let mut taken = Vec::new();
    for writer in &mut writers {
        writer.event(StreamEvent::Barrier(barrier)).unwrap();
    }
    for input in &mut inputs {
        let began = VirtualInstant::now();
        let (mut records, mut barriers) = (0, 0);
        while barriers < 2 {
            match input.poll() {
                Polled::Element { element: Element::Batch(batch), .. } => {
                    records += batch.len();
                    advance(SLOWEST * u32::try_from(batch.len()).unwrap()).await;
                }
                Polled::Element { channel, .. } => {
                    input.pause(channel, true);
                    barriers += 1;
                }
                Polled::Empty | Polled::Finished => {}
            }
            for writer in &mut writers {
                writer.flush(false).unwrap();
            }
        }
        taken.push((records, began.elapsed()));
    }
    taken
}

#[test]
fn few_records_wait_for_a_consumer_that_takes_50_ms_for_each_before_its_rate_is_known() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(async {
        for (records, took) in before_the_rate_is_known(options(64 << 20)).await {
            assert!(records <= 256, "{records} records waited");
            assert!(took <= Duration::from_secs(13), "{took:?}");
        }
    });
}
