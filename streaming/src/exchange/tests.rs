//! Exchanges of one or two processes with real task threads or with ports driven by hand.
#![allow(clippy::disallowed_methods, reason = "tests measure real time")]

mod credits;
mod debloat;
mod large;
mod memory;
mod tls;

use super::*;
use crate::{
    seam::{Barrier, Element, ErasedBatch, Polled, StreamEvent, TaskCounters},
    task::{TaskObserver, threads},
    types::CodecError,
};
use model::{ExecutionAttemptId, ExecutionState, JobVertexId};
use std::{ops::Range, sync::mpsc, time::Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Batches of u64, eight bytes each.
struct Numbers;

fn wrong() -> CodecError {
    CodecError::Invalid { what: "number" }
}

impl EdgeCodec for Numbers {
    fn encode_part(
        &self,
        batch: &ErasedBatch,
        part: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let numbers = batch.downcast_ref::<u64>().ok_or_else(wrong)?;
        out.extend(numbers.records()[part].iter().flat_map(|n| n.to_le_bytes()));
        Ok(())
    }
    fn decode(&self, bytes: &[u8]) -> Result<ErasedBatch, CodecError> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(CodecError::Truncated);
        }
        let numbers: Vec<u64> = numbers.iter().map(|n| u64::from_le_bytes(*n)).collect();
        Ok(ErasedBatch::new(numbers.into()))
    }
    fn duplicate(&self, batch: &ErasedBatch) -> Result<ErasedBatch, CodecError> {
        let numbers = batch.downcast_ref::<u64>().ok_or_else(wrong)?;
        Ok(ErasedBatch::new(numbers.clone()))
    }
    fn weight(&self, batch: &ErasedBatch) -> usize {
        batch.len() * 8
    }
}

struct Quiet;
impl TaskObserver for Quiet {
    fn changed(&self, _: &TaskControl, _: ExecutionState, _: Option<FailureCause>) {}
    fn stopping(&self, _: &Arc<TaskControl>) {}
}

/// Remembers why a task ended.
struct Causes(mpsc::Sender<FailureCause>);
impl TaskObserver for Causes {
    fn changed(&self, _: &TaskControl, _: ExecutionState, cause: Option<FailureCause>) {
        if let Some(cause) = cause {
            let _ = self.0.send(cause);
        }
    }
    fn stopping(&self, task: &Arc<TaskControl>) {
        task.end(Ok(()));
    }
}

fn task_with(
    vertex: u128,
    subtask: u32,
    attempt: u32,
    observer: Arc<dyn TaskObserver>,
) -> Arc<TaskControl> {
    let id = ExecutionAttemptId { graph: 9, vertex: JobVertexId(vertex), subtask, attempt };
    TaskControl::new(id, format!("v{vertex} ({subtask})"), observer)
}

fn task(vertex: u128, subtask: u32) -> Arc<TaskControl> {
    task_with(vertex, subtask, 0, Arc::new(Quiet))
}

fn watched(
    vertex: u128,
    subtask: u32,
    attempt: u32,
) -> (Arc<TaskControl>, mpsc::Receiver<FailureCause>) {
    let (sender, causes) = mpsc::channel();
    (task_with(vertex, subtask, attempt, Arc::new(Causes(sender))), causes)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn options(network_memory: u64) -> ExchangeOptions {
    ExchangeOptions { network_memory, ..ExchangeOptions::default() }
}

fn local(runtime: &tokio::runtime::Runtime, options: ExchangeOptions) -> Exchange {
    Exchange::new(options, None, runtime.handle().clone())
}

fn remote_with(
    runtime: &tokio::runtime::Runtime,
    options: ExchangeOptions,
    key: &[u8],
) -> Exchange {
    remote_over(runtime, options, key, None)
}

fn remote_over(
    runtime: &tokio::runtime::Runtime,
    options: ExchangeOptions,
    key: &[u8],
    tls: Option<platform::Tls>,
) -> Exchange {
    let port = runtime
        .block_on(DataPort::bind(
            &platform::Platform::production(),
            "127.0.0.1",
            "127.0.0.1",
            &platform::PortSpec::any(),
            credentials(key),
            tls,
        ))
        .unwrap();
    Exchange::new(options, Some(port), runtime.handle().clone())
}

fn credentials(key: &[u8]) -> platform::Credentials {
    platform::Credentials {
        cluster: model::ClusterId::new("test"),
        identity: platform::Identity::Host(model::JobId(5)),
        secret: platform::Secret::new(key),
    }
}

fn remote(runtime: &tokio::runtime::Runtime, network_memory: u64) -> Exchange {
    remote_with(runtime, options(network_memory), b"the key of the job, 32 bytes ok!")
}

/// `producers[i]` says at which exchange producing subtask `i` runs.
fn input(edge: u32, ship: ShipStrategy, producers: &[&Exchange]) -> InputEdge {
    input_of(edge, ship, producers, 0)
}

fn input_of(edge: u32, ship: ShipStrategy, producers: &[&Exchange], attempt: u32) -> InputEdge {
    let mut addresses: Vec<String> = Vec::new();
    let subtasks: Vec<(u32, u32)> = producers
        .iter()
        .map(|exchange| {
            let address = exchange.address().to_owned();
            let index = addresses.iter().position(|a| *a == address);
            let index = index.unwrap_or_else(|| {
                addresses.push(address);
                addresses.len() - 1
            });
            (attempt, u32::try_from(index).unwrap())
        })
        .collect();
    InputEdge {
        edge: EdgeId(edge),
        ship,
        producers: Producers { addresses: addresses.into(), subtasks: subtasks.into() },
        codec: Arc::new(Numbers),
    }
}

fn output(edge: u32, ship: ShipStrategy, consumers: u32) -> OutputEdge {
    let codec = Arc::new(Numbers);
    OutputEdge { edge: EdgeId(edge), ship, consumers, codec, force_serialization: false }
}

fn batch(numbers: impl IntoIterator<Item = u64>) -> Element {
    Element::Batch(ErasedBatch::new(numbers.into_iter().collect::<Vec<u64>>().into()))
}

/// Sends, waiting on the task's signal while the channel is full; false: the task was stopped.
fn send(task: &TaskControl, port: &mut dyn OutputPort, channel: usize, element: Element) -> bool {
    let sent = send_in_step(task, port, channel, element);
    task.give_wakes();
    sent
}

/// Sends within a step: what has to be woken for it is owed until the step is over, or the task parks.
fn send_in_step(
    task: &TaskControl,
    port: &mut dyn OutputPort,
    channel: usize,
    element: Element,
) -> bool {
    let mut element = element;
    loop {
        match port.try_send(channel, element) {
            Ok(()) => return true,
            Err(back) => element = back,
        }
        while !port.writable() {
            if task.is_stopping() {
                return false;
            }
            task.give_wakes();
            task.signal().wait();
        }
    }
}

/// Everything of an input in order, waiting on the task's signal.
fn drain(task: &TaskControl, port: &mut dyn InputPort) -> Vec<(usize, Vec<u64>)> {
    let mut all = Vec::new();
    loop {
        match port.poll() {
            Polled::Element { channel, element: Element::Batch(batch) } => {
                all.push((channel, batch.downcast::<u64>().unwrap().into_parts().0))
            }
            Polled::Element { .. } => {}
            Polled::Empty => {
                if task.is_stopping() {
                    return all;
                }
                task.signal().wait();
            }
            Polled::Finished => return all,
        }
    }
}

/// A producer thread that sends `batches` of `size` numbers round robin, each number tagged with its producer.
fn produce(
    exchange: &Exchange,
    edge: OutputEdge,
    subtask: u32,
    batches: u64,
    size: u64,
) -> (Arc<TaskControl>, std::thread::JoinHandle<()>) {
    let task = task(1, subtask);
    let (control, exchange) = (Arc::clone(&task), exchange.clone());
    let broadcast = edge.ship == ShipStrategy::Broadcast;
    let thread = threads::spawn("producer", threads::STACK_BYTES, move || {
        task.signal().bind_current_thread();
        let mut port = exchange.open_output(&task, edge);
        let channels = port.channels();
        for n in 0..batches {
            if n % 4 == 0 {
                task.give_wakes();
            }
            let numbers = || (n * size..(n + 1) * size).map(|n| u64::from(subtask) << 32 | n);
            if broadcast {
                for channel in 0..channels {
                    assert!(send_in_step(&task, port.as_mut(), channel, batch(numbers())));
                }
            } else {
                let channel = usize::try_from(n).unwrap() % channels;
                assert!(send_in_step(&task, port.as_mut(), channel, batch(numbers())));
            }
        }
        for channel in 0..channels {
            let end = Element::Event(StreamEvent::EndOfInput);
            assert!(send_in_step(&task, port.as_mut(), channel, end));
        }
        task.set_succeeded();
        drop(port);
        task.give_wakes();
    })
    .unwrap();
    (control, thread)
}

type Received = Vec<(usize, Vec<u64>)>;

fn consume(
    exchange: &Exchange,
    edges: Vec<InputEdge>,
    subtask: u32,
) -> (Arc<TaskControl>, mpsc::Receiver<Received>) {
    let task = task(2, subtask);
    let (control, exchange) = (Arc::clone(&task), exchange.clone());
    let (sender, result) = mpsc::channel();
    threads::spawn("consumer", threads::STACK_BYTES, move || {
        task.signal().bind_current_thread();
        let mut port = exchange.open_input(&task, edges);
        let all = drain(&task, port.as_mut());
        if !task.is_stopping() {
            task.set_succeeded();
        }
        drop(port);
        let _ = sender.send(all);
    })
    .unwrap();
    (control, result)
}

/// Runs an edge between processes and checks that every number came, in order within its channel.
fn check_edge(
    ship: ShipStrategy,
    producers: &[&Exchange],
    consumers: &[&Exchange],
    batches: u64,
    size: u64,
) {
    check_edge_as(false, ship, (producers, consumers), batches, size);
}

fn check_edge_as(
    force_serialization: bool,
    ship: ShipStrategy,
    (producers, consumers): (&[&Exchange], &[&Exchange]),
    batches: u64,
    size: u64,
) {
    // Attempts of one edge run once: each check is an edge of its own.
    static EDGES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1_000);
    let edge = EDGES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let width = u32::try_from(consumers.len()).unwrap();
    let results: Vec<_> = (0..)
        .zip(consumers)
        .map(|(i, exchange)| consume(exchange, vec![input(edge, ship, producers)], i).1)
        .collect();
    let threads: Vec<_> = (0..)
        .zip(producers)
        .map(|(i, exchange)| {
            let edge = OutputEdge { force_serialization, ..output(edge, ship, width) };
            produce(exchange, edge, i, batches, size).1
        })
        .collect();
    let mut all: Vec<u64> = Vec::new();
    for result in results {
        let received = result.recv_timeout(PATIENCE).unwrap();
        let mut last: BTreeMap<usize, u64> = BTreeMap::new();
        for (channel, numbers) in received {
            for n in numbers {
                if ship != ShipStrategy::Forward {
                    assert_eq!(n >> 32, channel as u64, "channel = producing subtask");
                }
                assert!(last.insert(channel, n).is_none_or(|before| before < n), "in order");
                all.push(n);
            }
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    let copies = match ship {
        ShipStrategy::Broadcast => u64::from(width),
        _ => 1,
    };
    let total = batches * size * producers.len() as u64;
    assert_eq!(all.len() as u64, total * copies);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len() as u64, total);
}

#[test]
fn all_kinds_of_edges_inside_a_process() {
    let runtime = runtime();
    for forced in [false, true] {
        let exchange = local(&runtime, options(64 << 10));
        let all = |n| vec![&exchange; n];
        check_edge_as(forced, ShipStrategy::Forward, (&all(3), &all(3)), 100, 50);
        check_edge_as(forced, ShipStrategy::Rebalance, (&all(1), &all(5)), 100, 50);
        check_edge_as(forced, ShipStrategy::Hash, (&all(4), &all(3)), 100, 50);
        check_edge_as(forced, ShipStrategy::Broadcast, (&all(2), &all(3)), 100, 50);
        assert_eq!(exchange.memory().used(), 0, "everything is given back");
    }
}

#[test]
fn all_kinds_of_edges_between_processes() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 256 << 10), remote(&runtime, 256 << 10));
    check_edge(ShipStrategy::Forward, &[&a, &b], &[&b, &a], 200, 100);
    check_edge(ShipStrategy::Rebalance, &[&a], &[&b, &a, &b], 200, 100);
    check_edge(ShipStrategy::Hash, &[&a, &b, &a], &[&a, &b], 200, 100);
    check_edge(ShipStrategy::Broadcast, &[&a, &b], &[&b, &a, &b], 50, 100);
    assert_eq!((a.memory().used(), b.memory().used()), (0, 0));
    let connections = a.shared.peers.connections() + b.shared.peers.connections();
    assert_eq!(connections, 2, "one connection, seen from both sides");
}

#[test]
fn batches_larger_than_the_budget_and_than_a_frame_go_through() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 64 << 10), remote(&runtime, 64 << 10));
    check_edge(ShipStrategy::Rebalance, &[&a, &a], &[&b], 3, 400_000);
    assert_eq!((a.memory().used(), b.memory().used()), (0, 0));
}

#[test]
fn several_edges_make_one_input() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 1 << 20), remote(&runtime, 1 << 20));
    let edges =
        vec![input(5, ShipStrategy::Rebalance, &[&a, &b]), input(6, ShipStrategy::Forward, &[&b])];
    let (_, result) = consume(&b, edges, 0);
    let threads = [
        produce(&a, output(5, ShipStrategy::Rebalance, 1), 0, 3, 10).1,
        produce(&b, output(5, ShipStrategy::Rebalance, 1), 1, 3, 10).1,
        produce(&b, output(6, ShipStrategy::Forward, 1), 0, 3, 10).1,
    ];
    let received = result.recv_timeout(PATIENCE).unwrap();
    for channel in 0..3 {
        let n: usize = received.iter().filter(|(c, _)| *c == channel).map(|(_, n)| n.len()).sum();
        assert_eq!(n, 30, "channel {channel}");
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Fills an output until it refuses; how many batches went in.
fn fill(port: &mut dyn OutputPort, channel: usize, size: u64) -> usize {
    let mut n = 0;
    while port.try_send(channel, batch(0..size)).is_ok() {
        n += 1;
        assert!(n < 100_000, "nothing holds the producer back");
    }
    n
}

/// Fills an output until it refuses for good: what is under way settles in between.
fn fill_settled(task: &TaskControl, port: &mut dyn OutputPort, channel: usize, size: u64) -> usize {
    let mut n = fill(port, channel, size);
    task.give_wakes();
    while task.signal().wait_at_most(Duration::from_millis(300)) {
        n += fill(port, channel, size);
        task.give_wakes();
    }
    n
}

fn poll_batch(task: &TaskControl, port: &mut dyn InputPort) -> (usize, Vec<u64>) {
    let limit = Instant::now() + PATIENCE;
    loop {
        match port.poll() {
            Polled::Element { channel, element: Element::Batch(batch) } => {
                return (channel, batch.downcast::<u64>().unwrap().into_parts().0);
            }
            Polled::Element { .. } => {}
            Polled::Empty => {
                assert!(Instant::now() < limit, "nothing came");
                task.signal().wait_at_most(Duration::from_millis(100));
            }
            Polled::Finished => panic!("finished"),
        }
    }
}

#[test]
fn a_slow_consumer_holds_its_own_producers_back_and_no_others() {
    let runtime = runtime();
    let budget = 1u64 << 20;
    let (a, b) = (remote(&runtime, budget), remote(&runtime, budget));
    let (slow, quick) = (task(2, 0), task(2, 1));
    slow.signal().bind_current_thread();
    quick.signal().bind_current_thread();
    let mut slow_in = b.open_input(&slow, vec![input(3, ShipStrategy::Rebalance, &[&a])]);
    let mut quick_in = b.open_input(&quick, vec![input(3, ShipStrategy::Rebalance, &[&a])]);
    let producer = task(1, 0);
    producer.signal().bind_current_thread();
    let mut out = a.open_output(&producer, output(3, ShipStrategy::Rebalance, 2));
    let sent = fill_settled(&producer, out.as_mut(), 0, 1_000);
    assert!(sent > 8, "{sent}");
    let most = budget + 2 * 8_100;
    assert!(a.memory().peak() <= most, "{} at the producer", a.memory().peak());
    assert!(b.memory().peak() <= most, "{} at the consumer", b.memory().peak());
    assert!(b.memory().free() > budget / 4, "others find room");
    for n in 0..50 {
        assert!(send(&producer, out.as_mut(), 1, batch([n])));
        assert_eq!(poll_batch(&quick, quick_in.as_mut()), (0, vec![n]));
    }
    for _ in 0..sent {
        assert_eq!(poll_batch(&slow, slow_in.as_mut()).1.len(), 1_000);
    }
    assert!(out.writable(), "room again");
    assert!(matches!(slow_in.poll(), Polled::Empty));
}

#[test]
fn events_reach_every_channel_in_order_with_the_data() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 1 << 20), remote(&runtime, 1 << 20));
    let consumers = [(&a, task(2, 0)), (&b, task(2, 1)), (&b, task(2, 2))];
    let mut inputs: Vec<_> = consumers
        .iter()
        .map(|(exchange, task)| {
            task.signal().bind_current_thread();
            exchange.open_input(task, vec![input(3, ShipStrategy::Broadcast, &[&a])])
        })
        .collect();
    let producer = task(1, 0);
    producer.signal().bind_current_thread();
    let mut out = a.open_output(&producer, output(3, ShipStrategy::Broadcast, 3));
    let barrier = |n| {
        StreamEvent::Barrier(Barrier {
            checkpoint: n,
            triggered_ms: 7,
            last: false,
            savepoint: n == 2,
            full: n == 3,
        })
    };
    for n in 0..200u64 {
        for channel in 0..3 {
            let watermark = StreamEvent::Watermark(i64::try_from(n).unwrap());
            assert!(send(&producer, out.as_mut(), channel, Element::Event(watermark)));
            assert!(send(&producer, out.as_mut(), channel, batch([n])));
            assert!(send(&producer, out.as_mut(), channel, Element::Event(barrier(n))));
        }
        for ((_, task), port) in consumers.iter().zip(&mut inputs) {
            let mut got = Vec::new();
            while got.len() < 3 {
                match port.poll() {
                    Polled::Element { element, .. } => got.push(element),
                    Polled::Empty => task.signal().wait(),
                    Polled::Finished => panic!("finished"),
                }
            }
            assert!(matches!(got[0], Element::Event(StreamEvent::Watermark(w)) if w == n as i64));
            assert!(
                matches!(&got[1], Element::Batch(b) if b.downcast_ref::<u64>().unwrap().records() == [n])
            );
            assert!(matches!(&got[2], Element::Event(e) if *e == barrier(n)));
        }
    }
    let end = || Element::Event(StreamEvent::EndOfInput);
    for channel in 0..3 {
        assert!(send(&producer, out.as_mut(), channel, end()));
    }
    producer.set_succeeded();
    drop(out);
    for ((_, task), port) in consumers.iter().zip(&mut inputs) {
        assert!(drain(task, port.as_mut()).is_empty());
        assert!(matches!(port.poll(), Polled::Finished));
    }
}

#[test]
fn a_paused_remote_channel_waits_without_holding_up_the_others() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 64 << 10), remote(&runtime, 64 << 10));
    let consumer = task(2, 0);
    consumer.signal().bind_current_thread();
    let mut port = b.open_input(&consumer, vec![input(3, ShipStrategy::Rebalance, &[&a, &a])]);
    let producers = [task(1, 0), task(1, 1)];
    let mut outs: Vec<_> = producers
        .iter()
        .map(|task| {
            task.signal().bind_current_thread();
            a.open_output(task, output(3, ShipStrategy::Rebalance, 1))
        })
        .collect();
    assert!(send(&producers[0], outs[0].as_mut(), 0, batch([1])));
    assert_eq!(poll_batch(&consumer, port.as_mut()), (0, vec![1]));
    port.pause(0, true);
    let waiting = fill_settled(&producers[0], outs[0].as_mut(), 0, 1_000);
    for n in 0..30 {
        assert!(send(&producers[1], outs[1].as_mut(), 0, batch([n; 2_000])));
        assert_eq!(poll_batch(&consumer, port.as_mut()), (1, vec![n; 2_000]));
    }
    port.pause(0, false);
    for _ in 0..waiting {
        assert_eq!(poll_batch(&consumer, port.as_mut()).0, 0);
    }
}

#[test]
fn a_superseded_attempt_is_refused_on_both_sides() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 1 << 20), remote(&runtime, 1 << 20));
    // The consumer means attempt 1, the producer is attempt 0: in the same process …
    let consumer = task_with(2, 0, 1, Arc::new(Quiet));
    let edge = |producers: &[&Exchange], attempt| {
        vec![input_of(3, ShipStrategy::Rebalance, producers, attempt)]
    };
    let _port = a.open_input(&consumer, edge(&[&a], 1));
    let (old, causes) = watched(1, 0, 0);
    let mut out = a.open_output(&old, output(3, ShipStrategy::Rebalance, 1));
    assert!(out.try_send(0, batch([1])).is_err());
    assert_eq!(causes.recv_timeout(PATIENCE).unwrap().kind, "Superseded");
    // … an old consumer of a newer producer in another process …
    let newer = task_with(1, 0, 2, Arc::new(Quiet));
    let _newer = a.open_output(&newer, output(3, ShipStrategy::Rebalance, 1));
    let (stale, causes) = watched(2, 0, 1);
    let _stale = b.open_input(&stale, edge(&[&a], 1));
    let cause = causes.recv_timeout(PATIENCE).unwrap();
    assert_eq!(cause.kind, "DataRequestRefused");
    assert!(cause.message.contains("superseded"), "{cause}");
    assert!(cause.message.contains(a.address()), "{cause}");
    // … and an old attempt of a producer that comes after a newer one.
    let (late, causes) = watched(1, 0, 1);
    let _late = a.open_output(&late, output(3, ShipStrategy::Rebalance, 1));
    assert_eq!(causes.recv_timeout(PATIENCE).unwrap().kind, "Superseded");
}

#[test]
fn an_earlier_attempt_of_a_consumer_stays_refused_after_the_later_one_was_aborted() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 1 << 20), remote(&runtime, 1 << 20));
    let input = |producers: &[&Exchange]| vec![input(3, ShipStrategy::Rebalance, producers)];
    drop(a.open_input(&task_with(2, 0, 2, Arc::new(Quiet)), input(&[&a])));
    assert!(!a.shared.hub(9, EdgeId(3)).has_consumer(0));
    let (late, causes) = watched(2, 0, 1);
    let _late = a.open_input(&late, input(&[&a]));
    assert_eq!(causes.recv_timeout(PATIENCE).unwrap().kind, "Superseded");
    let (elsewhere, causes) = watched(2, 0, 1);
    let _elsewhere = b.open_input(&elsewhere, input(&[&a]));
    assert_eq!(causes.recv_timeout(PATIENCE).unwrap().kind, "DataRequestRefused");
    // A new attempt is accepted.
    let _next = a.open_input(&task_with(2, 0, 3, Arc::new(Quiet)), input(&[&a]));
    assert!(a.shared.hub(9, EdgeId(3)).has_consumer(0));
}

#[test]
fn the_newest_retired_graphs_are_remembered_whatever_their_ids() {
    let runtime = runtime();
    let exchange = local(&runtime, options(1 << 20));
    let is_retired = |graph| lock(&exchange.shared.hubs).retired.contains(&graph);
    for graph in 1_000..1_064 {
        exchange.retire(graph);
    }
    exchange.retire(1);
    exchange.retire(1);
    assert!(is_retired(1), "the newest one has the smallest id");
    assert!(!is_retired(1_000));
    assert!((1_001..1_064).all(is_retired));
}

#[test]
fn a_producer_that_comes_late_is_waited_for_and_one_that_never_comes_is_named() {
    let runtime = runtime();
    let a = remote(&runtime, 1 << 20);
    let b = remote_with(
        &runtime,
        ExchangeOptions { producer_timeout: Duration::from_millis(400), ..options(1 << 20) },
        b"the key of the job, 32 bytes ok!",
    );
    let (control, result) = consume(&b, vec![input(3, ShipStrategy::Hash, &[&a])], 0);
    // The request is there when the link is known at the producer's side.
    while !a.shared.hub(9, EdgeId(3)).has_consumer(0) {
        std::thread::yield_now();
    }
    let (_, thread) = produce(&a, output(3, ShipStrategy::Hash, 1), 0, 1, 5);
    assert_eq!(result.recv_timeout(PATIENCE).unwrap().len(), 1);
    thread.join().unwrap();
    assert!(!control.is_stopping());

    let (lonely, causes) = watched(2, 1, 0);
    let _port = b.open_input(&lonely, vec![input(4, ShipStrategy::Hash, &[&a, &a])]);
    let cause = causes.recv_timeout(PATIENCE).unwrap();
    assert!(cause.message.contains("2 of its producers did not start"), "{cause}");
    assert!(cause.recoverable);
}

#[test]
fn a_lost_connection_fails_both_ends_and_names_the_peer() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 1 << 20), remote(&runtime, 1 << 20));
    let (consumer, consumer_causes) = watched(2, 0, 0);
    consumer.signal().bind_current_thread();
    let mut port = b.open_input(&consumer, vec![input(3, ShipStrategy::Rebalance, &[&a])]);
    let (producer, producer_causes) = watched(1, 0, 0);
    producer.signal().bind_current_thread();
    let mut out = a.open_output(&producer, output(3, ShipStrategy::Rebalance, 1));
    assert!(send(&producer, out.as_mut(), 0, batch([1])));
    assert_eq!(poll_batch(&consumer, port.as_mut()), (0, vec![1]));
    b.shutdown();
    let cause = producer_causes.recv_timeout(PATIENCE).unwrap();
    assert_eq!(cause.kind, "DataConnectionLost");
    assert!(cause.recoverable && cause.message.contains(b.address()), "{cause}");
    let cause = consumer_causes.recv_timeout(PATIENCE).unwrap();
    assert!(cause.recoverable && cause.message.contains(a.address()), "{cause}");
}

#[test]
fn a_process_with_another_key_gets_nothing() {
    let runtime = runtime();
    let a = remote(&runtime, 1 << 20);
    let stranger = remote_with(&runtime, options(1 << 20), b"some other key of 32 bytes, yes!");
    let (consumer, causes) = watched(2, 0, 0);
    let _port = stranger.open_input(&consumer, vec![input(3, ShipStrategy::Rebalance, &[&a])]);
    let cause = causes.recv_timeout(PATIENCE).unwrap();
    assert_eq!(cause.kind, "DataConnectionFailed");
    assert!(cause.message.contains(a.address()), "{cause}");
    assert!(cause.message.contains("handshake"), "{cause}");
    assert_eq!(a.shared.peers.connections(), 0);
}

#[test]
fn garbage_at_the_data_port_is_closed_and_harms_nobody() {
    use std::io::{Read, Write};
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 1 << 20), remote(&runtime, 1 << 20));
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096][..]] {
        let mut stream = std::net::TcpStream::connect(a.address()).unwrap();
        stream.write_all(garbage).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink);
    }
    check_edge(ShipStrategy::Rebalance, &[&a], &[&b], 10, 10);
}

#[test]
fn many_channels_cost_little_and_open_fast() {
    let runtime = runtime();
    let exchange = local(&runtime, options(64 << 20));
    let began = Instant::now();
    let width = 128u32;
    let producers = vec![&exchange; width as usize];
    let shared = input(3, ShipStrategy::Hash, &producers);
    let mut ports: Vec<Box<dyn InputPort>> = Vec::new();
    let mut outs: Vec<Box<dyn OutputPort>> = Vec::new();
    for i in 0..width {
        ports.push(exchange.open_input(&task(2, i), vec![shared.clone()]));
        outs.push(exchange.open_output(&task(1, i), output(3, ShipStrategy::Hash, width)));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_millis(50), "16,384 channels took {took:?}");
    let channels: usize = ports.iter().map(|p| p.channels()).sum();
    assert_eq!(channels, 16_384);
    let mut sent = 0;
    for out in &mut outs {
        for channel in 0..out.channels() {
            out.try_send(channel, Element::Event(StreamEvent::EndOfInput)).unwrap();
            sent += 1;
        }
    }
    assert_eq!(sent, 16_384);
    for port in &mut ports {
        let mut n = 0;
        while let Polled::Element { .. } = port.poll() {
            n += 1;
        }
        assert_eq!(n, 128);
        assert!(matches!(port.poll(), Polled::Finished));
    }
}

#[test]
fn bytes_are_counted_on_both_sides() {
    let runtime = runtime();
    let exchange = local(&runtime, options(1 << 20));
    let (producer, consumer) = (task(1, 0), task(2, 0));
    consumer.signal().bind_current_thread();
    let mut port = exchange.open_input(&consumer, vec![input(3, ShipStrategy::Hash, &[&exchange])]);
    let mut out = exchange.open_output(&producer, output(3, ShipStrategy::Hash, 1));
    out.try_send(0, batch(0..10)).unwrap();
    poll_batch(&consumer, port.as_mut());
    let of =
        |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    let counters: (&TaskCounters, &TaskCounters) = (producer.counters(), consumer.counters());
    assert!(of(&counters.0.bytes_out) >= 80);
    assert_eq!(of(&counters.0.bytes_out), of(&counters.1.bytes_in));
}

#[test]
fn a_finished_consumer_lets_its_producers_finish() {
    let runtime = runtime();
    let (a, b) = (remote(&runtime, 64 << 10), remote(&runtime, 64 << 10));
    for (edge, consumer_at) in [(3, &a), (4, &b)] {
        let consumer = task(2, 0);
        let edges = vec![input(edge, ShipStrategy::Rebalance, &[&a])];
        let port = consumer_at.open_input(&consumer, edges);
        let (_, thread) = produce(&a, output(edge, ShipStrategy::Rebalance, 1), 0, 200, 1_000);
        consumer.set_succeeded();
        drop(port);
        thread.join().unwrap();
    }
}

#[test]
fn the_receiver_of_a_full_channel_is_woken_during_the_step() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let exchange = local(&runtime, options(1 << 20));
    let (producer, consumer) = (task(1, 0), task(2, 0));
    let mut outputs = exchange.open_output(&producer, output(7, ShipStrategy::Forward, 1));
    let mut inputs =
        exchange.open_input(&consumer, vec![input(7, ShipStrategy::Forward, &[&exchange])]);
    assert!(matches!(inputs.poll(), Polled::Empty));
    consumer.signal().take();
    // No call of `give_wakes`, as within one call of a function of the program.
    let sent = fill(outputs.as_mut(), 0, 20_000);
    assert!((1..8).contains(&sent), "{sent}: so few do not wake it by themselves");
    assert!(consumer.signal().is_raised());
}
