//! The jobs of the benchmark `cancellation`: a slow function, and a sink that takes nothing.

use super::jobs::{First, folder, number};
use flott::prelude::*;
use std::time::Duration;
use streaming::operators::BoxError;

/// Bytes of a record of the job `stalled`.
const RECORD_BYTES: usize = 1_024;

/// `FOLDER MILLIS`: source with a `map` that sleeps so long for each record → sinks that write down when their first record came.
pub(super) fn slow_map(env: &Environment, args: &Args) -> flott::Result<()> {
    let (folder, each) = (folder(args)?, Duration::from_millis(number(args, 1)? as u64));
    env.sequence(0..u64::MAX)
        .uid("numbers")
        .map(move |n: u64| {
            std::thread::sleep(each);
            n
        })
        .rebalance()
        .process(First::new(folder))
        .discard();
    Ok(())
}

/// A writer that is full from the beginning, and waits for an answer that does not come, as one does whose server has stopped to answer.
#[derive(Clone)]
struct Stalled;

impl SinkWriter<Vec<u8>> for Stalled {
    fn open(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        context.spawn_io(Box::pin(futures::future::pending()), 0);
        Ok(())
    }
    fn write(&mut self, _: Vec<u8>, _: &WriterContext<'_>) -> Result<(), BoxError> {
        Err("a record was written, although the writer is full".into())
    }
    fn is_full(&self) -> bool {
        true
    }
}

/// Sources of records of a kibibyte, as fast as they can → one sink that takes none.
pub(super) fn stalled(env: &Environment) -> flott::Result<()> {
    env.sequence(0..u64::MAX)
        .uid("numbers")
        .map(|n: u64| vec![n.to_le_bytes()[0]; RECORD_BYTES])
        .rebalance()
        .sink_to(Stalled)
        .set_parallelism(1);
    Ok(())
}
