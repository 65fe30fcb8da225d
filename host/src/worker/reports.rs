//! Task states on their way to the parent: in order, in batches, repeated until the parent has them. It must
//! never drop a state while the parent lives, and never reorder two of one task.

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

/// Updates that one call carries.
const BATCH_MAX: usize = 4096;
/// How often the counts of running tasks are told.
const COUNTS_EVERY: Duration = Duration::from_secs(1);
/// Between two tries.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_secs(1);
/// One try.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What was told of running tasks last.
type Told = BTreeMap<ExecutionAttemptId, (TaskIo, Arc<TaskMetrics>)>;

/// States that are not told yet.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queue: Mutex<VecDeque<TaskStateUpdate>>,
    wake: Notify,
}

impl Reports {
    /// Queues a state. Called with the task's own state locked, so that the order is the task's.
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

/// What is told of a task whose counts are these.
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
    }
}

/// Why reporting ended.
#[derive(Debug)]
pub(crate) enum ReportingEnded {
    /// The parent is another incarnation, or will never take reports.
    Orphaned(FabricError),
    /// The host ended.
    HostEnded,
}

/// Tells the parent until the host ends or the parent is another one.
pub(crate) async fn report(
    reports: Arc<Reports>,
    tasks: Weak<Tasks>,
    parent: Remote<TaskExecutorGateway>,
    job_id: JobId,
) -> ReportingEnded {
    let mut told = Told::new();
    let mut tick = tokio::time::interval(COUNTS_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let updates = reports.take();
        if !updates.is_empty() {
            remember(&mut told, &updates);
            if let Err(error) = tell(&parent, job_id, updates).await {
                return ReportingEnded::Orphaned(error);
            }
            continue;
        }
        tokio::select! {
            biased;
            () = reports.wake.notified() => {}
            _ = tick.tick() => match tasks.upgrade() {
                Some(tasks) => queue_counts(&tasks, &told),
                None => return ReportingEnded::HostEnded,
            },
        }
    }
}

fn remember(told: &mut Told, updates: &[TaskStateUpdate]) {
    for update in updates {
        if update.state.is_terminal() {
            told.remove(&update.attempt);
        } else {
            told.insert(update.attempt, (update.io, update.metrics.clone()));
        }
    }
}

/// Tells the state of running tasks again whose counts have changed.
fn queue_counts(tasks: &Tasks, told: &Told) {
    for task in tasks.all() {
        let counters = task.counters();
        let same = told.get(&task.attempt()).is_some_and(|(io, metrics)| {
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
        // A panicking parent comes back or ends this host; everything else that can't be repeated means that
        // these reports are for somebody who is gone.
        let panicked = matches!(error, FabricError::HandlerPanicked { .. });
        if !error.is_retriable() && !panicked {
            return Err(error);
        }
        tracing::debug!(%error, "the parent did not take task states; again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_LAST);
    }
}
