//! The bytes of batches move from the producer's account to the consumer's, whichever way they go.

use super::*;
use crate::{batch::Batch, memory::allocator, types::BatchCodec};

/// The number of batches: together they are far larger than what a mistake of one batch could hide in.
const BATCHES: u64 = 400;
/// The most bytes of each account that queues and connections may keep.
const REST: i64 = 256 << 10;

/// A batch of 100 strings of 1 KiB and more, in vectors with room for more.
fn strings(number: u64) -> Element {
    let text = |n: u64| {
        let mut text = String::with_capacity(1_500);
        text.push_str(&format!("{:1024}", number + n));
        text
    };
    let mut batch = Batch::with_capacity(150);
    (0..100).for_each(|n| batch.push(text(n), 7));
    Element::Batch(ErasedBatch::new(batch))
}

/// Sends batches from one task to another on this thread, which keeps or drops them. Returns the balances of both.
fn balances(from: &Exchange, to: &Exchange, keeps: bool, forced: bool) -> (i64, i64) {
    let (producer, consumer) = (task(1, 0), task(2, 0));
    let codec = || Arc::new(BatchCodec::<String>::new());
    // An edge of its own: the other process may not have heard yet that the consumer of the edge before has ended.
    let number = 1 + u32::from(keeps);
    let edge = InputEdge { codec: codec(), ..input(number, ShipStrategy::Forward, &[from]) };
    let mut inputs = to.open_input(&consumer, vec![edge]);
    let edge = output(number, ShipStrategy::Forward, 1);
    let edge = OutputEdge { codec: codec(), force_serialization: forced, ..edge };
    let mut outputs = from.open_output(&producer, edge);
    let mut kept = Vec::new();
    let begin = Instant::now();
    let (mut sent, mut received) = (0, 0);
    let mut refused = None;
    while received < BATCHES {
        assert!(begin.elapsed() < PATIENCE);
        if sent < BATCHES {
            let _at_work = producer.memory().enter();
            let element = refused.take().unwrap_or_else(|| strings(sent));
            match outputs.try_send(0, element) {
                Ok(()) => sent += 1,
                Err(element) => refused = Some(element),
            }
            producer.give_wakes();
        }
        let _at_work = consumer.memory().enter();
        while let Polled::Element { element: Element::Batch(batch), .. } = inputs.poll() {
            received += 1;
            if keeps {
                kept.push(batch);
            }
        }
    }
    let balances = (producer.memory().balance(), consumer.memory().balance());
    drop(kept);
    balances
}

fn check(from: &Exchange, to: &Exchange, forced: bool) {
    let (producer, consumer) = balances(from, to, false, forced);
    assert!(producer.abs() < REST && consumer.abs() < REST, "dropped: {producer} {consumer}");
    let (producer, consumer) = balances(from, to, true, forced);
    // What is kept, however it came: at least the texts themselves.
    let texts = i64::try_from(BATCHES * 100 * 1024).unwrap();
    assert!(producer.abs() < REST, "kept by the consumer: {producer}");
    assert!((texts..2 * texts).contains(&consumer), "kept: {consumer} of {texts}");
    allocator::settle();
}

#[test]
fn what_producers_hold_unsent_is_in_the_network_budget_until_their_ports_close() {
    let runtime = runtime();
    let exchange = local(&runtime, options(1_000));
    let open = |vertex: u128| {
        exchange.open_output(&task(vertex, 0), output(vertex as u32, ShipStrategy::Forward, 1))
    };
    let (mut one, mut other) = (open(1), open(2));
    let memory = exchange.memory();
    one.hold(600);
    assert_eq!((memory.used(), memory.free()), (600, 400));
    other.hold(700);
    assert_eq!((memory.used(), memory.free()), (1_300, 0), "it counts even beyond the limit");
    one.hold(100);
    one.hold(100);
    assert_eq!((memory.used(), memory.free()), (800, 200), "the total counts, not each call");
    drop(one);
    assert_eq!(memory.used(), 700);
    other.hold(0);
    drop(other);
    assert_eq!((memory.used(), memory.peak()), (0, 1_300));
}

#[test]
fn strings_that_the_consumer_keeps_are_its_own_within_a_process() {
    let runtime = runtime();
    let exchange = local(&runtime, options(64 << 20));
    check(&exchange, &exchange, false);
}

#[test]
fn encoded_batches_move_as_well() {
    let runtime = runtime();
    let exchange = local(&runtime, options(64 << 20));
    check(&exchange, &exchange, true);
}

#[test]
fn batches_to_another_process_leave_the_producer_and_reach_the_consumer() {
    let runtime = runtime();
    let (from, to) = (remote(&runtime, 64 << 20), remote(&runtime, 64 << 20));
    check(&from, &to, false);
}
