//! Operator events on their way to the coordinator, over the parent. An event is never sent twice: a split
//! request that was executed twice would lose a split.

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
        let (parent, job_id) = (self.parent.clone(), self.job_id);
        async move {
            let ask = ForwardOperatorEvent { job_id, attempt: from, operator, event };
            match tokio::time::timeout(TRIES_WITHIN + ANSWER_WITHIN, send(&parent, ask)).await {
                Ok(result) => result,
                Err(_) => Err("there was no answer in time".to_owned()),
            }
        }
        .boxed()
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

async fn send(
    parent: &Remote<TaskExecutorGateway>,
    ask: ForwardOperatorEvent,
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
            CallError::Fabric(fabric) => fabric.is_retriable() && !fabric.may_have_run(),
        };
        if !again || tried >= TRIES_WITHIN {
            return Err(error.to_string());
        }
        tokio::time::sleep(pause).await;
        tried += pause;
        pause = (pause * 2).min(RETRY_LAST);
    }
}
