//! The tasks of a host: who is there, and what happens to those that do not stop. Lock order: a task's own state
//! first, then this table; so nothing is asked of a task while the table is locked.

use super::reports::Reports;
use crate::{program::Place, sync::lock};
use model::{AllocationId, ExecutionAttemptId, ExecutionState, FailureCause};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use streaming::task::{Mailbox, TaskControl, TaskObserver};
use tokio::{runtime::Handle, sync::Notify};

/// All tasks that have not ended.
pub(crate) struct Tasks {
    reports: Arc<Reports>,
    place: Place,
    /// `task.cancellation.timeout`.
    cancellation_timeout: Duration,
    runtime: Handle,
    table: Mutex<Table>,
    /// Told when one has ended.
    ended: Notify,
    /// Told when one was added.
    added: Notify,
}

/// A step that lasts through one such interval ends behind the record at work.
const LONG_STEP: Duration = Duration::from_millis(50);
/// How long the one who looks for long steps holds a table without tasks.
const REST: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Table {
    running: BTreeMap<ExecutionAttemptId, Task>,
    /// The newest attempt of each subtask that was here: graph, vertex, subtask.
    newest: BTreeMap<(u64, model::JobVertexId, u32), u32>,
}

/// One task.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) control: Arc<TaskControl>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) allocation: AllocationId,
}

/// What the table says to a new attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is new.
    New,
    /// It is, or was, here: the call was repeated.
    Known,
    /// A later one was here.
    Superseded {
        /// Which.
        by: u32,
    },
}

impl Tasks {
    pub(crate) fn new(
        reports: Arc<Reports>,
        place: Place,
        cancellation_timeout: Duration,
        runtime: Handle,
    ) -> Arc<Self> {
        let tasks = Arc::new(Self {
            reports,
            place,
            cancellation_timeout,
            runtime: runtime.clone(),
            table: Mutex::default(),
            ended: Notify::new(),
            added: Notify::new(),
        });
        runtime.spawn(end_long_steps(Arc::downgrade(&tasks)));
        tasks
    }

    /// Whether an attempt may run here; a new one is remembered.
    pub(crate) fn admit(&self, attempt: ExecutionAttemptId) -> Admission {
        let mut table = lock(&self.table);
        let key = (attempt.graph, attempt.vertex, attempt.subtask);
        match table.newest.get(&key) {
            Some(newest) if *newest > attempt.attempt => Admission::Superseded { by: *newest },
            Some(newest) if *newest == attempt.attempt => Admission::Known,
            _ => {
                table.newest.insert(key, attempt.attempt);
                Admission::New
            }
        }
    }

    /// A new task; its first state is reported.
    pub(crate) fn add(
        self: &Arc<Self>,
        attempt: ExecutionAttemptId,
        name: String,
        allocation: AllocationId,
    ) -> Task {
        let observer = Arc::clone(self) as Arc<dyn TaskObserver>;
        let control = TaskControl::new(attempt, name, observer);
        let mailbox = Arc::new(Mailbox::new(control.signal().clone()));
        let task = Task { control, mailbox, allocation };
        lock(&self.table).running.insert(attempt, task.clone());
        self.added.notify_one();
        task
    }

    /// Forgets which attempts of other execution graphs were here.
    pub(crate) fn keep_only(&self, graph: u64) -> Vec<u64> {
        let mut table = lock(&self.table);
        let mut gone: Vec<u64> = table.newest.keys().map(|key| key.0).collect();
        gone.dedup();
        gone.retain(|other| *other != graph);
        table.newest.retain(|key, _| key.0 == graph);
        gone
    }

    /// All that have not ended.
    pub(crate) fn all(&self) -> Vec<Arc<TaskControl>> {
        let table = lock(&self.table);
        table.running.values().map(|task| Arc::clone(&task.control)).collect()
    }

    /// Asks those to stop for which `which` is true.
    pub(crate) fn cancel(&self, which: impl Fn(&ExecutionAttemptId, AllocationId) -> bool) {
        let controls: Vec<_> = lock(&self.table)
            .running
            .iter()
            .filter(|(attempt, task)| which(attempt, task.allocation))
            .map(|(_, task)| Arc::clone(&task.control))
            .collect();
        for control in controls {
            control.cancel();
        }
    }

    /// Waits until none is left.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if lock(&self.table).running.is_empty() {
                return;
            }
            ended.await;
        }
    }
}

/// Ends steps that take long, so that a task of slow records sends its output in time. Rests while there are no tasks.
async fn end_long_steps(tasks: Weak<Tasks>) {
    let mut tick = tokio::time::interval(LONG_STEP);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(tasks) = tasks.upgrade() else { return };
        let running = tasks.all();
        if running.is_empty() {
            tokio::select! {
                biased;
                () = tasks.added.notified() => {}
                // The host may go meanwhile: the handle must not keep the table.
                () = tokio::time::sleep(REST) => {}
            }
        }
        running.iter().for_each(|task| task.end_long_step());
    }
}

impl TaskObserver for Tasks {
    fn changed(&self, task: &TaskControl, state: ExecutionState, cause: Option<FailureCause>) {
        match &cause {
            Some(cause) => tracing::info!(task = task.name(), %state, %cause, "task"),
            None => tracing::debug!(task = task.name(), %state, "task"),
        }
        self.reports.push(task, state, cause);
        if state.is_terminal() {
            lock(&self.table).running.remove(&task.attempt());
            self.ended.notify_waiters();
        }
    }

    fn stopping(&self, task: &Arc<TaskControl>) {
        let (task, place) = (Arc::clone(task), self.place.clone());
        let limit = self.cancellation_timeout;
        self.runtime.spawn(async move {
            tokio::time::sleep(limit).await;
            if !task.state().is_terminal() {
                place.give_up(&format!(
                    "task '{}' did not stop within {} ms (task.cancellation.timeout): its code does not return",
                    task.name(),
                    limit.as_millis()
                ));
            }
        });
    }
}
