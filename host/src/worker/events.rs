//! Operator events on their way to the coordinator, over the parent. An event is never sent twice, because its coordinator may heed
//! it twice; a poll is, because whoever sends polls numbers what they say.

use futures::{FutureExt, future::BoxFuture};
use gateways::{
    CallError, Remote,
    job_master::CoordinationError,
    task_executor::{ForwardOperatorEvent, TaskExecutorGateway},
};
use model::{ExecutionAttemptId, JobId, OperatorId};
use std::time::Duration;
use streaming::task::OperatorEvents;

/// How long a coordinator may take: it may list files, or wait for another system.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long a coordinator that is not there is asked again.
const TRIES_WITHIN: Duration = Duration::from_secs(60);
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_LAST: Duration = Duration::from_millis(500);

/// The way over the parent.
pub(crate) struct ParentEvents {
    pub(crate) parent: Remote<TaskExecutorGateway>,
    pub(crate) job_id: JobId,
}

impl OperatorEvents for ParentEvents {
    fn send(
        &self,
        from: ExecutionAttemptId,
        operator: OperatorId,
        event: Vec<u8>,
    ) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let ask = ForwardOperatorEvent { job_id: self.job_id, attempt: from, operator, event };
        within(send(self.parent.clone(), ask, false)).boxed()
    }

    fn poll(
        &self,
        from: ExecutionAttemptId,
        operator: OperatorId,
        event: Vec<u8>,
    ) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let ask = ForwardOperatorEvent { job_id: self.job_id, attempt: from, operator, event };
        within(send(self.parent.clone(), ask, true)).boxed()
    }

    fn acknowledge(
        &self,
        from: ExecutionAttemptId,
        checkpoint: u64,
        snapshots: Vec<(OperatorId, Vec<u8>)>,
    ) {
        // Nobody triggers checkpoints yet, so none can complete.
        tracing::warn!(%from, checkpoint, n = snapshots.len(), "a checkpoint that nobody asked for");
    }
}

async fn within(answer: impl Future<Output = Result<Vec<u8>, String>>) -> Result<Vec<u8>, String> {
    match tokio::time::timeout(TRIES_WITHIN + ANSWER_WITHIN, answer).await {
        Ok(result) => result,
        Err(_) => Err("there was no answer in time".to_owned()),
    }
}

/// Sends an event until it is answered. `twice`: also where it may have been heeded already.
async fn send(
    parent: Remote<TaskExecutorGateway>,
    ask: ForwardOperatorEvent,
    twice: bool,
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
            CallError::Refused(_) => false,
            CallError::Fabric(fabric) => fabric.is_retriable() && (twice || !fabric.may_have_run()),
        };
        if !again || tried >= TRIES_WITHIN {
            return Err(error.to_string());
        }
        tokio::time::sleep(pause).await;
        tried += pause;
        pause = (pause * 2).min(RETRY_LAST);
    }
}
