//! Records just below the maximum size of an element, which is lowered for tests.

use super::*;
use crate::{batch::Batch, exchange::parcel::PARCEL_BYTES_MAX, types::BatchCodec};

type Bytes = Vec<u8>;

/// Sends one batch and then the end of the channel; returns the received batches: records, event times and watermark of each.
fn sent_and_received(
    from: &Exchange,
    to: &Exchange,
    forced: bool,
    batch: ErasedBatch,
) -> Vec<(Vec<Bytes>, Vec<i64>, Option<i64>)> {
    let (producer, causes) = watched(1, 0, 0);
    let consumer = task(2, 0);
    consumer.signal().bind_current_thread();
    producer.signal().bind_current_thread();
    let codec = || Arc::new(BatchCodec::<Bytes>::new());
    let edge = InputEdge { codec: codec(), ..input(3, ShipStrategy::Forward, &[from]) };
    let mut inputs = to.open_input(&consumer, vec![edge]);
    let edge = output(3, ShipStrategy::Forward, 1);
    let edge = OutputEdge { codec: codec(), force_serialization: forced, ..edge };
    let mut outputs = from.open_output(&producer, edge);
    let mut unsent =
        VecDeque::from([Element::Batch(batch), Element::Event(StreamEvent::EndOfInput)]);
    let mut received = Vec::new();
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE);
        assert_eq!(causes.try_recv().ok(), None, "the producer failed");
        if let Some(element) = unsent.pop_front()
            && let Err(refused) = outputs.try_send(0, element)
        {
            unsent.push_front(refused);
        }
        producer.give_wakes();
        match inputs.poll() {
            Polled::Element { element: Element::Batch(batch), .. } => {
                let watermark = batch.watermark;
                let (records, times) = batch.downcast::<Bytes>().unwrap().into_parts();
                received.push((records, times, watermark));
            }
            Polled::Element { .. } => {}
            Polled::Empty => {
                consumer.signal().wait_at_most(Duration::from_millis(10));
            }
            Polled::Finished => return received,
        }
    }
}

/// A small record, one just below the limit and two small ones; the watermark is behind the last one.
fn batch_with_a_large_record() -> ErasedBatch {
    let large = vec![7; PARCEL_BYTES_MAX - 64];
    let records: Vec<Bytes> = vec![vec![1; 100], large, vec![2], vec![3]];
    ErasedBatch::new(Batch::with_times(records, vec![10, 20, 30, 40])).with_watermark(Some(5))
}

fn check(from: &Exchange, to: &Exchange, forced: bool) {
    let received = sent_and_received(from, to, forced, batch_with_a_large_record());
    let (expected, _) = batch_with_a_large_record().downcast::<Bytes>().unwrap().into_parts();
    assert_eq!(received.len(), 4, "each record comes by itself");
    for (n, (records, times, watermark)) in received.into_iter().enumerate() {
        assert!(records == expected[n..=n], "record {n}");
        assert_eq!(times, [10 * (i64::try_from(n).unwrap() + 1)]);
        assert_eq!(watermark, (n == 3).then_some(5), "the watermark follows the last record");
    }
    assert_eq!((from.memory().used(), to.memory().used()), (0, 0));
}

#[test]
fn a_record_just_below_the_limit_passes_behind_a_small_one_in_its_batch() {
    let runtime = runtime();
    // A budget that is smaller than the record, and one that is larger.
    for budget in [64 << 10, 64 << 20] {
        let (from, to) = (remote(&runtime, budget), remote(&runtime, budget));
        check(&from, &to, false);
    }
}

#[test]
fn a_record_just_below_the_limit_passes_encoded_within_its_process_too() {
    let runtime = runtime();
    let exchange = local(&runtime, options(64 << 10));
    check(&exchange, &exchange, true);
}

#[test]
fn a_record_beyond_the_limit_fails_its_task_and_names_the_size() {
    let runtime = runtime();
    let (from, to) = (remote(&runtime, 64 << 20), remote(&runtime, 64 << 20));
    let _consumer = consume(&to, vec![input(3, ShipStrategy::Forward, &[&from])], 0);
    let (producer, causes) = watched(1, 0, 0);
    let edge = OutputEdge {
        codec: Arc::new(BatchCodec::<Bytes>::new()),
        ..output(3, ShipStrategy::Forward, 1)
    };
    let mut outputs = from.open_output(&producer, edge);
    let large = vec![7; PARCEL_BYTES_MAX];
    let mut encoded = Vec::new();
    let alone = ErasedBatch::new(Batch::from(vec![large.clone()]));
    BatchCodec::<Bytes>::new().encode(&alone, &mut encoded).unwrap();
    let records: Vec<Bytes> = vec![vec![1], large];
    let mut element = Element::Batch(ErasedBatch::new(Batch::from(records)));
    let begin = Instant::now();
    let cause = loop {
        assert!(begin.elapsed() < PATIENCE);
        match outputs.try_send(0, element) {
            Ok(()) => panic!("a record beyond the limit was sent"),
            Err(refused) => element = refused,
        }
        match causes.try_recv() {
            Ok(cause) => break cause,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(cause.kind, "CodecError");
    let (size, limit) = (encoded.len(), PARCEL_BYTES_MAX);
    let named = format!("1 record(s) of together {size} bytes exceed the limit of {limit} bytes");
    assert!(cause.message.contains(&named), "{named}: {cause}");
    assert!(cause.message.contains("split large records"), "{cause}");
    drop(outputs);
    from.shutdown();
}
