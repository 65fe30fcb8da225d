//! The sink that collects lines, with its coordinator, through the harness that users have.

use super::*;
use crate::{
    Coordinator, CoordinatorContext,
    sinks::{CollectChunk, CollectCoordinator, CollectRequest, CollectSink},
};
use model::{ExecutionAttemptId, JobId, JobVertexId, OperatorId};
use std::path::Path;

type Sink = OperatorHarness<String, CollectSink>;

/// The attempt that the operator under test runs in.
const ATTEMPT: ExecutionAttemptId =
    ExecutionAttemptId { graph: 0, vertex: JobVertexId(0), subtask: 0, attempt: 0 };

fn coordinator(tmp: &Path) -> CollectCoordinator {
    let context = CoordinatorContext {
        job_id: JobId(0),
        operator: OperatorId(0),
        parallelism: 1,
        tmp_dir: tmp.to_owned(),
        options: Default::default(),
        on_failure: Default::default(),
        waker: Default::default(),
    };
    CollectCoordinator::new(&context, true)
}

/// Has the coordinator take the next chunk that the sink has sent; the sink gets the answer with the next call. Returns the chunk.
fn take(sink: &Sink, coordinator: &mut CollectCoordinator) -> Vec<u8> {
    let (ticket, chunk) = sink.host.next_poll().unwrap();
    let answer = coordinator.handle_event(ATTEMPT, &chunk).unwrap();
    sink.host.answered(ticket, Ok(answer));
    chunk
}

/// Returns the result that a client reads when the job has finished.
fn result(mut coordinator: CollectCoordinator) -> Vec<String> {
    coordinator.job_ended(true).unwrap();
    let request = CollectRequest { offset: 0, max_bytes: 1 << 20 };
    let answer = coordinator.handle_request(&request.encode()).unwrap();
    let lines = CollectChunk::decode(&answer).unwrap().lines;
    lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

#[test]
fn a_restored_collecting_sink_sends_what_no_checkpoint_of_its_coordinator_may_have() {
    let tmp = tempfile::tempdir().unwrap();
    let mut coordinator = coordinator(tmp.path());
    let made = || operator(CollectSink::default()).option("execution.checkpointing.interval", "1s");
    let mut sink: Sink = made().open().unwrap();
    sink.push("a".to_owned()).unwrap();
    let chunk = take(&sink, &mut coordinator);
    let snapshot = sink.snapshot().unwrap();

    let mut restored: Sink = made().restore(snapshot).open().unwrap();
    assert_eq!(take(&restored, &mut coordinator), chunk);
    restored.end_of_input().unwrap();
    assert_eq!(result(coordinator), ["a"], "the coordinator takes it once");
}
