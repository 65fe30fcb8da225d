//! Sends task states to the parent: in order, in batches, repeated until the parent confirms them. This module must
//! never drop a state while the parent lives, and never reorder two states of one task.

use super::tasks::Tasks;
use crate::sync::lock;
use gateways::{
    FabricError, Remote,
    task_executor::{ReportTaskStates, TaskExecutorGateway},
};
use model::{
    ExecutionAttemptId, ExecutionState, FailureCause, JobId,
    job::{TaskIo, TaskMetrics, TaskStateUpdate},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, Weak, atomic::Ordering},
    time::Duration,
};
use streaming::{TaskCounters, task::TaskControl};
use tokio::sync::Notify;

/// The maximum number of updates in one call.
const BATCH_MAX: usize = 4096;
/// The interval at which changed counts and metrics of running tasks are reported.
const COUNTS_EVERY: Duration = Duration::from_secs(1);
/// The first and the last pause between two tries of a call.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_secs(1);
/// The time-out of one try.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The counts and metrics of each running task in its last report.
type Reported = BTreeMap<ExecutionAttemptId, (TaskIo, Arc<TaskMetrics>)>;

/// A queue of states that have not been reported yet.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queue: Mutex<VecDeque<TaskStateUpdate>>,
    wake: Notify,
}

impl Reports {
    /// Queues a state. The caller holds the lock of the task's own state, so that states are queued in order.
    pub(crate) fn push(
        &self,
        task: &TaskControl,
        state: ExecutionState,
        cause: Option<FailureCause>,
    ) {
        let update = update_of(task, state, cause);
        lock(&self.queue).push_back(update);
        self.wake.notify_one();
    }

    fn take(&self) -> Vec<TaskStateUpdate> {
        let mut queue = lock(&self.queue);
        let n = queue.len().min(BATCH_MAX);
        queue.drain(..n).collect()
    }
}

/// Returns an update with the state and the task's present counts and metrics.
fn update_of(
    task: &TaskControl,
    state: ExecutionState,
    cause: Option<FailureCause>,
) -> TaskStateUpdate {
    let (attempt, counters) = (task.attempt(), task.counters());
    let metrics = Arc::new(counters.functions.values());
    TaskStateUpdate { attempt, state, cause, io: counts(counters), metrics }
}

fn counts(counters: &TaskCounters) -> TaskIo {
    TaskIo {
        records_in: counters.records_in.load(Ordering::Relaxed),
        records_out: counters.records_out.load(Ordering::Relaxed),
        bytes_in: counters.bytes_in.load(Ordering::Relaxed),
        bytes_out: counters.bytes_out.load(Ordering::Relaxed),
        end_of_data: counters.end_of_data.load(Ordering::Relaxed),
    }
}

/// Reasons for the end of reporting.
#[derive(Debug)]
pub(crate) enum ReportingEnded {
    /// The parent is another incarnation, or will never accept reports of this host.
    Orphaned(FabricError),
    /// The host ended.
    HostEnded,
}

/// Reports queued states, and once a second changed counts, until the host has ended or the parent refuses the reports.
pub(crate) async fn report(
    reports: Arc<Reports>,
    tasks: Weak<Tasks>,
    parent: Remote<TaskExecutorGateway>,
    job_id: JobId,
) -> ReportingEnded {
    let mut reported = Reported::new();
    let mut tick = tokio::time::interval(COUNTS_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let updates = reports.take();
        if !updates.is_empty() {
            remember(&mut reported, &updates);
            if let Err(error) = tell(&parent, job_id, updates).await {
                return ReportingEnded::Orphaned(error);
            }
            continue;
        }
        tokio::select! {
            biased;
            () = reports.wake.notified() => {}
            _ = tick.tick() => match tasks.upgrade() {
                Some(tasks) => queue_counts(&tasks, &reported),
                None => return ReportingEnded::HostEnded,
            },
        }
    }
}

fn remember(reported: &mut Reported, updates: &[TaskStateUpdate]) {
    for update in updates {
        if update.state.is_terminal() {
            reported.remove(&update.attempt);
        } else {
            reported.insert(update.attempt, (update.io, update.metrics.clone()));
        }
    }
}

/// Queues the state of each running task whose counts or metrics differ from its last report.
fn queue_counts(tasks: &Tasks, reported: &Reported) {
    for task in tasks.all() {
        let counters = task.counters();
        let same = reported.get(&task.attempt()).is_some_and(|(io, metrics)| {
            *io == counts(counters) && **metrics == counters.functions.values()
        });
        if !same {
            task.tell_again();
        }
    }
}

async fn tell(
    parent: &Remote<TaskExecutorGateway>,
    job_id: JobId,
    updates: Vec<TaskStateUpdate>,
) -> Result<(), FabricError> {
    let mut pause = RETRY_FIRST;
    loop {
        let report = ReportTaskStates { job_id, updates: updates.clone() };
        let error = match parent.ask_within(report, ANSWER_WITHIN).await {
            Ok(()) => return Ok(()),
            Err(gateways::CallError::Fabric(error)) => error,
            Err(gateways::CallError::Refused(never)) => match never {},
        };
        // A parent whose handler panicked is restarted or ends this host. Every other error that is not retriable means
        // that the parent for which these reports are is gone.
        let panicked = matches!(error, FabricError::HandlerPanicked { .. });
        if !error.is_retriable() && !panicked {
            return Err(error);
        }
        tracing::debug!(%error, "the parent did not accept task states; they are sent again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_LAST);
    }
}
