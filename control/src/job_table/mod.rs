//! The jobs of one TaskExecutor: for each its program host, its JobMaster, its tasks, and the reports that
//! the JobMaster has not confirmed yet.
//!
//! Reports leave in the order in which they were made, one batch at a time. A report must never be
//! dropped while its JobMaster is connected, and never go to another JobMaster.

#[cfg(test)]
mod tests;

use crate::registration::backoff;
use model::job::{TaskIo, TaskMetrics, TaskStateUpdate};
use model::{
    AllocationId, BlobKey, ExecutionAttemptId, ExecutionState, FailureCause, InstanceId,
    JobMasterId,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of state updates of tasks in one call to a JobMaster; more wait for the next call.
pub const UPDATES_PER_CALL_MAX: usize = 2_000;
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// One job on this TaskExecutor: its program host (the process that runs the job's tasks here), its JobMaster, its tasks and the reports
/// that wait to be sent to the JobMaster (without a bound). The TaskExecutor's core makes it with the job's first slot, and drops it when
/// the job has no slot and no host here, and no report that a connected JobMaster has not confirmed.
#[derive(Debug, Clone)]
pub struct Job {
    /// The program that the job's host runs, by the key of its stored file; `None`: this process itself is the program.
    pub program: Option<BlobKey>,
    /// The state of the job's program host on this TaskExecutor.
    pub host: Host,
    /// True if a host is to be launched as soon as the job has none: at once, or when the one that ends has ended.
    pub wants_host: bool,
    /// True if the JobLeaderService watches which JobMaster leads the job and registers this TaskExecutor there.
    pub watched: bool,
    /// The connection to the JobMaster that accepted this TaskExecutor; `None` if there is none now.
    pub job_master: Option<Connection>,
    /// The allocations (ids under which slots are held) in the slot offer that the JobMaster has not answered; `None` if no
    /// offer is under way.
    pub offering: Option<BTreeSet<AllocationId>>,
    offer_retry_at: Option<Duration>,
    offer_failures: u32,
    tasks: BTreeMap<ExecutionAttemptId, Task>,
    outbox: Outbox,
}

/// The state of a job's program host, the process that runs the job's tasks on this TaskExecutor. `launch` numbers the launches
/// of this process, so that reports about an earlier host are not taken for the present one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The job has no program host here.
    Absent,
    /// The host is being launched; its success or failure has not been reported.
    Launching {
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// The host runs and takes tasks.
    Up {
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// The host has been asked to end; it takes no more tasks.
    Ending {
        /// Number of the launch, unique within this process.
        launch: u64,
    },
}

/// The connection of this TaskExecutor to a job's JobMaster, from the registration there to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The leader session of the JobMaster, which tells it from earlier and later JobMasters of the job.
    pub id: JobMasterId,
    /// The instance id under which the JobMaster knows this TaskExecutor; it differs with each registration at a
    /// ResourceManager.
    pub instance: InstanceId,
    /// Number of the connection, unique within this process: answers that belong to an earlier connection are ignored.
    pub number: u64,
}

/// One attempt that runs, or whose end was not confirmed yet.
#[derive(Debug, Clone, PartialEq)]
struct Task {
    allocation: AllocationId,
    state: ExecutionState,
    cause: Option<FailureCause>,
    io: TaskIo,
    metrics: Arc<TaskMetrics>,
}

/// A report to the JobMaster, which waits until the JobMaster has confirmed it and is repeated until then; it is dropped when the
/// connection to the JobMaster ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The state of a task, which is new, or is reported again because its data has ended; with its counts of records and bytes.
    State(TaskStateUpdate),
    /// A slot was lost, because its program host has ended, is being killed or could not be started.
    SlotFailed {
        /// Allocation of the slot concerned.
        allocation: AllocationId,
        /// True if the JobMaster is known to have accepted the slot's offer.
        accepted: bool,
        /// Failure that is the reason, as users see it.
        cause: FailureCause,
    },
}

/// The reports that go into the next call to the JobMaster, from [`Job::next_batch`].
#[derive(Debug, Clone, PartialEq)]
pub enum Batch {
    /// States of tasks, in the order in which they came about; at most [`UPDATES_PER_CALL_MAX`].
    States(Vec<TaskStateUpdate>),
    /// The loss of one slot, which goes in a call of its own.
    SlotFailed {
        /// Allocation of the slot concerned.
        allocation: AllocationId,
        /// True if the JobMaster is known to have accepted the slot's offer.
        accepted: bool,
        /// Failure that is the reason, as users see it.
        cause: FailureCause,
    },
}

#[derive(Debug, Clone, Default)]
struct Outbox {
    waiting: VecDeque<Report>,
    /// The number of reports, from the front of `waiting`, in the call that is under way.
    under_way: usize,
    retry_at: Option<Duration>,
    failures: u32,
}

impl Job {
    /// Creates the entry of a job that got its first slot: without host, JobMaster or tasks, and with a host wanted. `program`
    /// is what the host is to run; `None`: this process itself is the program.
    pub fn new(program: Option<BlobKey>) -> Self {
        Self {
            program,
            host: Host::Absent,
            wants_host: true,
            watched: false,
            job_master: None,
            offering: None,
            offer_retry_at: None,
            offer_failures: 0,
            tasks: BTreeMap::new(),
            outbox: Outbox::default(),
        }
    }

    /// Returns the launch number of the job's host if it runs and takes tasks, otherwise `None`.
    pub fn host_up(&self) -> Option<u64> {
        match self.host {
            Host::Up { launch } => Some(launch),
            _ => None,
        }
    }

    /// Returns true if a JobMaster is connected and this is the connection's number ([`Connection::number`]).
    pub fn is_connection(&self, number: u64) -> bool {
        self.job_master.is_some_and(|c| c.number == number)
    }

    /// Returns true if the JobMaster with this session is connected; false if none or another one is.
    pub fn is_connected_to(&self, id: JobMasterId) -> bool {
        self.job_master.is_some_and(|c| c.id == id)
    }

    /// Adds a task, in state DEPLOYING, that is deployed into the slot of that allocation. An attempt that is here already is
    /// replaced.
    pub fn add_task(&mut self, attempt: ExecutionAttemptId, allocation: AllocationId) {
        let task = Task {
            allocation,
            state: ExecutionState::Deploying,
            cause: None,
            io: TaskIo::default(),
            metrics: Arc::default(),
        };
        self.tasks.insert(attempt, task);
    }

    /// Removes a task that never started (which is not checked), and reports nothing to the JobMaster. Returns false if the task was
    /// not here.
    pub fn remove_task(&mut self, attempt: ExecutionAttemptId) -> bool {
        self.tasks.remove(&attempt).is_some()
    }

    /// Returns true if the attempt is here: it runs, or has ended and the JobMaster has not confirmed its end.
    pub fn has_task(&self, attempt: ExecutionAttemptId) -> bool {
        self.tasks.contains_key(&attempt)
    }

    /// Returns true if the attempt is here and has not ended (it may still be starting).
    pub fn is_running(&self, attempt: ExecutionAttemptId) -> bool {
        self.tasks.get(&attempt).is_some_and(|t| !t.state.is_terminal())
    }

    /// Iterates over the attempts that are here and have not ended.
    pub fn running(&self) -> impl Iterator<Item = ExecutionAttemptId> {
        let running = self.tasks.iter().filter(|(_, t)| !t.state.is_terminal());
        running.map(|(attempt, _)| *attempt)
    }

    /// Returns true if a task that has not ended is in the slot of this allocation.
    pub fn slot_is_busy(&self, allocation: AllocationId) -> bool {
        let mut tasks = self.tasks.values();
        tasks.any(|t| t.allocation == allocation && !t.state.is_terminal())
    }

    /// Takes in a program host's report of a task: records its state, counts and metrics. Queues a report to the JobMaster, and
    /// returns true, if the state is later than the known one or terminal, or if the task is reported for the first time to have reached
    /// the end of its data; otherwise returns false. Changes nothing if the attempt is unknown or has ended.
    pub fn update(&mut self, update: TaskStateUpdate) -> bool {
        let Some(task) = self.tasks.get_mut(&update.attempt) else {
            return false;
        };
        if task.state.is_terminal() {
            return false;
        }
        let at_end = update.io.end_of_data && !task.io.end_of_data;
        task.io = update.io;
        task.metrics.clone_from(&update.metrics);
        // A host repeats what was not answered: an earlier state again changes nothing. Any end does, and so does the end of the data, for
        // which the JobMaster takes the final checkpoint.
        if update.state <= task.state && !update.state.is_terminal() {
            if at_end {
                self.outbox.waiting.push_back(Report::State(update));
            }
            return at_end;
        }
        task.state = update.state;
        task.cause.clone_from(&update.cause);
        self.outbox.waiting.push_back(Report::State(update));
        true
    }

    /// Marks every task that has not ended as FAILED with this cause, because its host has ended or is being killed, and queues the
    /// reports.
    pub fn fail_running(&mut self, cause: &FailureCause) {
        for (attempt, task) in &mut self.tasks {
            if task.state.is_terminal() {
                continue;
            }
            task.state = ExecutionState::Failed;
            task.cause = Some(cause.clone());
            self.outbox.waiting.push_back(Report::State(TaskStateUpdate {
                attempt: *attempt,
                state: ExecutionState::Failed,
                cause: Some(cause.clone()),
                io: task.io,
                metrics: task.metrics.clone(),
            }));
        }
    }

    /// Queues a report to the JobMaster that a slot is lost, for the reason `cause`. `accepted` is true if the JobMaster is
    /// known to have accepted the slot's offer.
    pub fn slot_failed(&mut self, allocation: AllocationId, accepted: bool, cause: FailureCause) {
        let report = Report::SlotFailed { allocation, accepted, cause };
        self.outbox.waiting.push_back(report);
    }

    /// Returns true if no report waits: the JobMaster has confirmed every one.
    pub fn reported_all(&self) -> bool {
        self.outbox.waiting.is_empty()
    }

    /// Returns the reports of the next call to the JobMaster and marks them as under way, until [`Job::batch_confirmed`] or
    /// [`Job::batch_failed`]; `None` if there are none, a call is under way, or the pause after a failure is not over at `now`
    /// (monotonic).
    pub fn next_batch(&mut self, now: Duration) -> Option<Batch> {
        let outbox = &mut self.outbox;
        if outbox.under_way > 0 || outbox.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        if let Some(Report::SlotFailed { allocation, accepted, cause }) = outbox.waiting.front() {
            outbox.under_way = 1;
            let (allocation, accepted, cause) = (*allocation, *accepted, cause.clone());
            return Some(Batch::SlotFailed { allocation, accepted, cause });
        }
        let states = outbox.waiting.iter().map_while(|report| match report {
            Report::State(update) => Some(update.clone()),
            Report::SlotFailed { .. } => None,
        });
        let states: Vec<_> = states.take(UPDATES_PER_CALL_MAX).collect();
        outbox.under_way = states.len();
        (!states.is_empty()).then_some(Batch::States(states))
    }

    /// Records that the JobMaster has answered the call under way: its reports are removed and returned, and the tasks whose
    /// end was among them are removed. Also ends the pauses after failures. The list is empty if no call is under way.
    pub fn batch_confirmed(&mut self) -> Vec<Report> {
        let n = self.outbox.under_way.min(self.outbox.waiting.len());
        debug_assert_eq!(n, self.outbox.under_way, "more reports are under way than wait");
        let done: Vec<Report> = self.outbox.waiting.drain(..n).collect();
        self.outbox.under_way = 0;
        self.outbox.retry_at = None;
        self.outbox.failures = 0;
        for report in &done {
            if let Report::State(update) = report
                && update.state.is_terminal()
            {
                self.tasks.remove(&update.attempt);
            }
        }
        done
    }

    /// Records that the call under way failed at `now` (monotonic); the same reports are sent again after a pause of 50 ms,
    /// doubling with each failure in a row up to 2 s. Does nothing if no call is under way.
    pub fn batch_failed(&mut self, now: Duration) {
        let outbox = &mut self.outbox;
        if outbox.under_way == 0 {
            return;
        }
        outbox.under_way = 0;
        outbox.retry_at =
            Some(now.saturating_add(backoff(RETRY_FIRST, RETRY_MAX, outbox.failures)));
        outbox.failures = outbox.failures.saturating_add(1);
    }

    /// Returns the earliest monotonic time at which reports or offers whose call failed may be sent again; `None` if nothing waits
    /// for one.
    pub fn deadline(&self) -> Option<Duration> {
        let reports = match (self.outbox.waiting.is_empty(), self.outbox.under_way) {
            (false, 0) => self.outbox.retry_at,
            _ => None,
        };
        [reports, self.offer_retry_at].into_iter().flatten().min()
    }

    /// Returns true if slots may be offered at `now` (monotonic): no offer is under way, and the pause after a failed one is
    /// over. That pause is then forgotten, so that [`Job::deadline`] does not name its end any more.
    pub fn may_offer(&mut self, now: Duration) -> bool {
        if self.offer_retry_at.is_some_and(|at| now < at) {
            return false;
        }
        self.offer_retry_at = None;
        self.offering.is_none()
    }

    /// Records that the JobMaster has answered the offer under way, and returns the allocations that were offered and not freed
    /// since, whether or not the JobMaster accepts them; empty if none was under way.
    pub fn offer_answered(&mut self) -> BTreeSet<AllocationId> {
        self.offer_failures = 0;
        self.offering.take().unwrap_or_default()
    }

    /// Records that the offer under way failed at `now` (monotonic); slots may be offered again after a pause of 50 ms,
    /// doubling with each failure in a row up to 2 s.
    pub fn offer_failed(&mut self, now: Duration) {
        let pause = backoff(RETRY_FIRST, RETRY_MAX, self.offer_failures);
        self.offering = None;
        self.offer_failures = self.offer_failures.saturating_add(1);
        self.offer_retry_at = Some(now.saturating_add(pause));
    }

    /// Records that a host is to be launched as soon as the job has none ([`Job::wants_host`]); without effect if one runs or
    /// is being launched. Launches nothing itself.
    pub fn want_host(&mut self) {
        self.wants_host = !matches!(self.host, Host::Launching { .. } | Host::Up { .. });
    }

    /// Ends the connection to the JobMaster: forgets all tasks, offers and reports that belong to it, sent or not. Ends no host
    /// and tells nobody. Returns the connection that was open; `None` if there was none.
    pub fn disconnect(&mut self) -> Option<Connection> {
        self.offering = None;
        self.offer_retry_at = None;
        self.offer_failures = 0;
        self.tasks.clear();
        self.outbox = Outbox::default();
        self.job_master.take()
    }

    /// Returns every task that is here with its newest state, counts and metrics; ended tasks too, until the JobMaster has
    /// confirmed their end.
    pub fn snapshot(&self) -> Vec<TaskStateUpdate> {
        let tasks = self.tasks.iter().map(|(attempt, task)| TaskStateUpdate {
            attempt: *attempt,
            state: task.state,
            cause: task.cause.clone(),
            io: task.io,
            metrics: task.metrics.clone(),
        });
        tasks.collect()
    }
}
