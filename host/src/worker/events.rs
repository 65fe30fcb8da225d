//! Sends operator events to their coordinators through the parent. An event that may have been processed is not sent
//! again, because the coordinator would process it twice. A poll is sent again, because the messages in it are
//! numbered.

use super::snapshots::Snapshots;
use futures::{FutureExt, future::BoxFuture};
use gateways::{
    CallError, Remote,
    job_master::CoordinationError,
    task_executor::{ForwardOperatorEvent, TaskExecutorGateway},
};
use model::{ExecutionAttemptId, JobId, OperatorId};
use std::time::Duration;
use streaming::{StateChunk, TaskSnapshot, task::OperatorEvents};
use tokio::runtime::Handle;

/// The time in which a coordinator must answer a call; it may list files, or wait for another system.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Total of the pauses after which an unavailable coordinator is not asked again.
const TRIES_WITHIN: Duration = Duration::from_secs(60);
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_LAST: Duration = Duration::from_millis(500);

/// Sends operator events of one job through the parent TaskManager.
pub(crate) struct ParentEvents {
    pub(crate) parent: Remote<TaskExecutorGateway>,
    pub(crate) job_id: JobId,
    /// Receiver of the tasks' state.
    pub(crate) snapshots: Snapshots,
    pub(crate) runtime: Handle,
}

impl OperatorEvents for ParentEvents {
    fn send(
        &self,
        from: ExecutionAttemptId,
        operator: OperatorId,
        event: Vec<u8>,
        may_repeat: bool,
    ) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let ask = ForwardOperatorEvent { job_id: self.job_id, attempt: from, operator, event };
        within(send(self.parent.clone(), ask, may_repeat)).boxed()
    }

    fn store_chunk(
        &self,
        from: ExecutionAttemptId,
        checkpoint: u64,
        operator: OperatorId,
        chunk: StateChunk,
    ) -> Result<(), StateChunk> {
        let through = (&self.runtime, &self.parent);
        self.snapshots.store_chunk((from, checkpoint, operator), chunk, through)
    }

    fn stores_changes(&self) -> Option<u64> {
        self.snapshots.stores_changes()
    }

    fn give_up(&self, from: ExecutionAttemptId, checkpoint: u64) {
        self.snapshots.give_up(from, checkpoint);
    }

    fn ended(&self, attempt: ExecutionAttemptId) {
        self.snapshots.ended(attempt);
    }

    fn acknowledge(&self, from: ExecutionAttemptId, checkpoint: u64, snapshot: TaskSnapshot) {
        let answer = self.snapshots.answer(self.parent.clone(), from, checkpoint, snapshot);
        self.runtime.spawn(answer);
    }
}

async fn within(answer: impl Future<Output = Result<Vec<u8>, String>>) -> Result<Vec<u8>, String> {
    match tokio::time::timeout(TRIES_WITHIN + ANSWER_WITHIN, answer).await {
        Ok(result) => result,
        Err(_) => Err("no answer of the coordinator within 120 s".to_owned()),
    }
}

/// Sends an event until it is answered or refused. With `may_repeat` it is also sent again if it may have been processed
/// already.
async fn send(
    parent: Remote<TaskExecutorGateway>,
    ask: ForwardOperatorEvent,
    may_repeat: bool,
) -> Result<Vec<u8>, String> {
    let mut pause = RETRY_FIRST;
    let mut tried = Duration::ZERO;
    loop {
        let error = match parent.ask_within(ask.clone(), ANSWER_WITHIN).await {
            Ok(answer) => return Ok(answer.into_vec()),
            Err(error) => error,
        };
        let again = match &error {
            CallError::Refused(CoordinationError::Unavailable(_)) => true,
            CallError::Refused(CoordinationError::Unanswered(_)) => may_repeat,
            CallError::Refused(_) => false,
            CallError::Fabric(fabric) => {
                fabric.is_retriable() && (may_repeat || !fabric.may_have_run())
            }
        };
        if !again || tried >= TRIES_WITHIN {
            return Err(error.to_string());
        }
        tokio::time::sleep(pause).await;
        tried += pause;
        pause = (pause * 2).min(RETRY_LAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix::Actor as _;
    use gateways::{Double, RpcOptions, RpcService};
    use model::{Epoch, JobVertexId, LeaderSession, ProcessSession};
    use platform::{Lane, Platform};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Sends an event to a coordinator whose first answer is lost; returns the outcome and how often the event came there.
    async fn first_answer_is_lost(may_repeat: bool) -> (Result<Vec<u8>, String>, usize) {
        let platform = Platform::production();
        let rpc = RpcService::start(platform.clone(), RpcOptions::in_process()).await.unwrap();
        let came = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&came);
        let serving = rpc.clone();
        let session =
            ProcessSession(LeaderSession { epoch: Epoch { store: 1, process: 1 }, nonce: 1 });
        let registration = platform.lane(Lane::Work).run(move || async move {
            let parent = Double::of(()).on(move |_, call: ForwardOperatorEvent| {
                match counted.fetch_add(1, Ordering::SeqCst) {
                    0 => Err(CoordinationError::Unanswered("lost".to_owned())),
                    _ => Ok(call.event.into()),
                }
            });
            let endpoint = TaskExecutorGateway::endpoint(parent.start());
            serving.serve("task_executor", session, endpoint)
        });
        let _registration = registration.await.unwrap();
        let parent = rpc.gateway(&rpc.address_of("task_executor"), session);
        let attempt =
            ExecutionAttemptId { graph: 1, vertex: JobVertexId(2), subtask: 0, attempt: 1 };
        let ask = ForwardOperatorEvent {
            job_id: JobId(7),
            attempt,
            operator: OperatorId(3),
            event: vec![9],
        };
        (send(parent, ask, may_repeat).await, came.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn an_event_whose_answer_is_lost_is_not_sent_again_but_a_poll_is() {
        let (answer, came) = first_answer_is_lost(false).await;
        assert!(answer.unwrap_err().contains("the coordinator's answer is missing: lost"));
        assert_eq!(came, 1);
        assert_eq!(first_answer_is_lost(true).await, (Ok(vec![9]), 2));
    }
}
