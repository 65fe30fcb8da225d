//! Looks at the memory of this process's tasks, on one thread for all hosts: ten times a second while tasks run, and
//! when the allocator reports that the process has reached a limit. `streaming::memory::limit` decides what follows; this
//! module must never wait for a task.

use super::tasks::Tasks;
use crate::{program::Place, sync::lock};
use model::{ExecutionAttemptId, ExecutionState, FailureCause, MemorySize};
use platform::Platform;
use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak, atomic::Ordering},
    thread::Thread,
    time::Duration,
};
use streaming::{
    memory::{
        MemoryBudget, allocator,
        limit::{MemoryLimit, MemoryLimits, MemoryUsage, OverLimit, TaskUsage, Verdict},
    },
    task::{TaskControl, threads},
};

/// The kind of a task's failure at the limit.
const KIND: &str = "MemoryLimitExceeded";
/// The pause between two looks: while a limit is exceeded, while tasks run, and while none do.
const OVER: Duration = Duration::from_millis(10);
const RUNNING: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_secs(1);

/// The memory of one host. Its limits hold until it is dropped.
pub(crate) struct HostMemory {
    platform: Platform,
    tasks: Weak<Tasks>,
    exchange: Arc<MemoryBudget>,
    place: Place,
    limit: Mutex<MemoryLimit<ExecutionAttemptId>>,
}

/// The hosts that the thread looks at.
static HOSTS: Mutex<Vec<Weak<HostMemory>>> = Mutex::new(Vec::new());

/// Starts to look at a host's memory. `exchange` is the budget of its exchange.
///
/// # Errors
/// Returns the system's error if there is no thread for it.
pub(crate) fn watch(
    platform: Platform,
    tasks: &Arc<Tasks>,
    exchange: Arc<MemoryBudget>,
    place: Place,
    limits: MemoryLimits,
) -> io::Result<Arc<HostMemory>> {
    let (tasks, limit) = (Arc::downgrade(tasks), Mutex::new(MemoryLimit::new(limits)));
    let host = Arc::new(HostMemory { platform, tasks, exchange, place, limit });
    lock(&HOSTS).push(Arc::downgrade(&host));
    wake()?;
    Ok(host)
}

impl HostMemory {
    /// Sets other limits, because the host has got or lost slots.
    pub(crate) fn resize(&self, limits: MemoryLimits) {
        lock(&self.limit).set(limits);
    }

    /// Looks at the host and does what follows. Returns the pause until the next look, and the total from which it is due
    /// earlier.
    fn look(&self) -> (Duration, u64) {
        let Some(tasks) = self.tasks.upgrade() else { return (IDLE, u64::MAX) };
        let running = tasks.all();
        let of_task = |task: &Arc<TaskControl>| TaskUsage {
            key: task.attempt(),
            held: task.memory().balance(),
            state: state_bytes(task),
            stage: task.stage(),
        };
        let usages: Vec<_> = running.iter().map(of_task).collect();
        let held: i64 = usages.iter().map(|usage| usage.held).fold(0, i64::saturating_add);
        // A child process is there for this host alone; elsewhere the rest of the process has memory of its own.
        let total = match self.place {
            Place::Child(_) => allocator::total(),
            Place::InProcess(_) => u64::try_from(held).unwrap_or(0).min(allocator::total()),
        };
        let network = self.exchange.used().min(self.exchange.limit());
        let usage = MemoryUsage { total, network, tasks: usages };
        let (verdict, over, alarm) = {
            let mut limit = lock(&self.limit);
            let verdict = limit.look(self.platform.now(), &usage);
            (verdict, limit.is_over(), limit.next_alarm(allocator::total()))
        };
        let name = |key| running.iter().find(|task| task.attempt() == key);
        match verdict {
            Verdict::Fine => {}
            Verdict::Fail { task, over } => {
                if let Some(task) = name(task) {
                    let why = text(Some(task.name()), over);
                    tracing::warn!(%why, "a task fails at the memory limit");
                    task.fail(FailureCause::recoverable(KIND, why));
                }
            }
            Verdict::End { task, over } => {
                let task = task.and_then(name);
                self.place.give_up(&text(task.map(|task| task.name()), over));
            }
        }
        let pause = match (over, running.is_empty()) {
            (true, _) => OVER,
            (false, false) => RUNNING,
            (false, true) => IDLE,
        };
        (pause, alarm)
    }
}

/// Returns the bytes of a task's state. What a task holds while it is being restored is taken for state, because the sizes of its
/// tables are not known before it runs.
fn state_bytes(task: &TaskControl) -> u64 {
    let known = task.counters().state_bytes.load(Ordering::Relaxed);
    match task.state() {
        ExecutionState::Deploying | ExecutionState::Initializing => {
            known.max(u64::try_from(task.memory().balance()).unwrap_or(0))
        }
        _ => known,
    }
}

/// Returns the cause of a failure at the limit.
fn text(task: Option<&str>, over: OverLimit) -> String {
    match task {
        Some(task) => format!("task '{task}': the job's tasks on this TaskManager {over}"),
        None => format!("the job's program on this TaskManager {over}"),
    }
}

/// Returns limits in bytes from amounts of memory.
pub(crate) fn limits(task: MemorySize, managed: MemorySize) -> MemoryLimits {
    MemoryLimits { task: task.0, managed: managed.0 }
}

/// Starts the thread if it does not run, and lets it look at once.
fn wake() -> io::Result<()> {
    static THREAD: Mutex<()> = Mutex::new(());
    static STARTED: OnceLock<Thread> = OnceLock::new();
    let _one = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(thread) = STARTED.get() {
        thread.unpark();
        return Ok(());
    }
    let thread = threads::spawn("flott-memory", threads::STACK_BYTES, run)?;
    let _ = STARTED.set(thread.thread().clone());
    Ok(())
}

fn run() {
    allocator::watch_alarm();
    loop {
        let hosts: Vec<Arc<HostMemory>> = {
            let mut hosts = lock(&HOSTS);
            hosts.retain(|host| host.strong_count() > 0);
            hosts.iter().filter_map(Weak::upgrade).collect()
        };
        let (mut pause, mut alarm) = (IDLE, u64::MAX);
        for host in &hosts {
            let (next, total) = host.look();
            (pause, alarm) = (pause.min(next), alarm.min(total));
        }
        drop(hosts);
        allocator::set_alarm(alarm);
        std::thread::park_timeout(pause);
    }
}
