//! The table of a host's tasks: it admits attempts, cancels tasks, and ends the process if a task does not stop. Lock
//! order: a task's own state first, then this table; therefore no method of a task may be called while the table is
//! locked.

use super::reports::Reports;
use crate::{program::Place, sync::lock};
use model::{AllocationId, ExecutionAttemptId, ExecutionState, FailureCause};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use streaming::{
    Mail,
    task::{Mailbox, TaskControl, TaskObserver},
};
use tokio::{runtime::Handle, sync::Notify};

/// The tasks of a host that have not ended, and the newest attempt of each subtask.
pub(crate) struct Tasks {
    reports: Arc<Reports>,
    place: Place,
    /// The value of `task.cancellation.timeout`.
    cancellation_timeout: Duration,
    runtime: Handle,
    table: Mutex<Table>,
    /// Notified when a task has ended.
    ended: Notify,
    /// Notified when a task was added.
    added: Notify,
}

/// The interval at which long steps are looked for if no task asks for a shorter one: a step that lasts through one interval ends
/// after the record at work.
const LONG_STEP: Duration = Duration::from_millis(50);
/// The maximum time that the search for long steps keeps a table without tasks alive.
const REST: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Table {
    running: BTreeMap<ExecutionAttemptId, Task>,
    /// The number of the newest attempt of each subtask, by execution graph, vertex and subtask index.
    newest: BTreeMap<(u64, model::JobVertexId, u32), u32>,
}

/// A running task: its control, its mailbox and its slot.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) control: Arc<TaskControl>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) allocation: AllocationId,
}

/// The answer to an attempt that is to run here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The attempt is new and may run.
    New,
    /// The attempt runs or ran here: the call was repeated.
    Known,
    /// A later attempt of the subtask runs or ran here.
    Superseded {
        /// The number of the later attempt.
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

    /// Returns whether an attempt may run here, and remembers a new one as the newest of its subtask.
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

    /// Adds a task; its first state is reported to the parent.
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

    /// Forgets the newest attempts of all execution graphs but `graph`. Returns the ids of the graphs that were
    /// forgotten.
    pub(crate) fn keep_only(&self, graph: u64) -> Vec<u64> {
        let mut table = lock(&self.table);
        let mut gone: Vec<u64> = table.newest.keys().map(|key| key.0).collect();
        gone.dedup();
        gone.retain(|other| *other != graph);
        table.newest.retain(|key, _| key.0 == graph);
        gone
    }

    /// Returns the controls of all tasks that have not ended.
    pub(crate) fn all(&self) -> Vec<Arc<TaskControl>> {
        let table = lock(&self.table);
        table.running.values().map(|task| Arc::clone(&task.control)).collect()
    }

    /// Hands mail to those of these attempts that run here. A task whose mailbox is full fails: it must not miss that a checkpoint
    /// is complete.
    pub(crate) fn deliver(&self, attempts: &[ExecutionAttemptId], mail: impl Fn() -> Mail) {
        let tasks: Vec<Task> = {
            let table = lock(&self.table);
            attempts.iter().filter_map(|attempt| table.running.get(attempt).cloned()).collect()
        };
        for Task { control, mailbox, .. } in tasks {
            if mailbox.post(mail()).is_err() {
                let why = "the task does not take its mail, and its mailbox is full";
                control.fail(FailureCause::recoverable("MailboxFull", why));
            }
        }
    }

    /// Asks the tasks for which `which` returns true to stop; returns at once.
    pub(crate) fn cancel(&self, which: impl Fn(&ExecutionAttemptId, AllocationId) -> bool) {
        self.controls(which).iter().for_each(TaskControl::cancel);
    }

    /// Asks tasks to stop that their JobMaster cancels; returns at once.
    pub(crate) fn cancel_by_job_master(&self, attempts: &[ExecutionAttemptId]) {
        let controls = self.controls(|attempt, _| attempts.contains(attempt));
        controls.iter().for_each(TaskControl::cancel_by_job_master);
    }

    fn controls(
        &self,
        which: impl Fn(&ExecutionAttemptId, AllocationId) -> bool,
    ) -> Vec<Arc<TaskControl>> {
        lock(&self.table)
            .running
            .iter()
            .filter(|(attempt, task)| which(attempt, task.allocation))
            .map(|(_, task)| Arc::clone(&task.control))
            .collect()
    }

    /// Waits until all tasks have ended.
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

/// Interrupts steps that last longer than [`LONG_STEP`], or than a shorter time that a task asks for, and those in which a timer becomes
/// due, so that a task of slow records sends its output and fires its timers in time. Sleeps while there are no tasks.
async fn end_long_steps(tasks: Weak<Tasks>) {
    let mut pause = LONG_STEP;
    loop {
        tokio::time::sleep(pause).await;
        let Some(tasks) = tasks.upgrade() else { return };
        let running = tasks.all();
        if running.is_empty() {
            tokio::select! {
                biased;
                () = tasks.added.notified() => {}
                // The host may be dropped meanwhile, and this handle must not keep the table alive for long.
                () = tokio::time::sleep(REST) => {}
            }
        }
        let next = running.iter().map(|task| task.end_long_step()).min();
        pause = next.unwrap_or(LONG_STEP).min(LONG_STEP);
    }
}

impl TaskObserver for Tasks {
    fn changed(&self, task: &TaskControl, state: ExecutionState, cause: Option<FailureCause>) {
        match &cause {
            Some(cause) => tracing::info!(task = task.name(), %state, %cause, "task state"),
            None => tracing::debug!(task = task.name(), %state, "task state"),
        }
        self.reports.push(task, state, cause);
        if state.is_terminal() {
            lock(&self.table).running.remove(&task.attempt());
            self.ended.notify_waiters();
        }
    }

    fn counted(&self, task: &TaskControl) {
        self.reports.push(task, ExecutionState::Running, None);
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::JobVertexId;

    #[tokio::test]
    async fn a_notification_for_an_earlier_attempt_or_graph_reaches_no_task() {
        let place = Place::InProcess(Arc::new(|_| {}));
        let tasks = Tasks::new(Arc::default(), place, Duration::from_secs(10), Handle::current());
        let attempt = |graph, attempt| ExecutionAttemptId {
            graph,
            vertex: JobVertexId(1),
            subtask: 0,
            attempt,
        };
        let now = attempt(2, 1);
        let running = tasks.add(now, "sink".to_owned(), AllocationId(1));
        for stale in [attempt(2, 0), attempt(1, 1)] {
            tasks.deliver(&[stale], || Mail::NotifyComplete(7));
        }
        assert!(running.mailbox.take().is_none());
        tasks.deliver(&[attempt(2, 0), now], || Mail::NotifyComplete(8));
        assert!(matches!(running.mailbox.take(), Some(Mail::NotifyComplete(8))));
        assert!(running.mailbox.take().is_none());
    }
}
