//! The limit of a host's memory: decides which task fails when the tasks hold more than they may, and when the host ends. Decisions only:
//! nothing here may read a clock or an account, or stop anything.

use model::MemorySize;
use std::{fmt, time::Duration};

/// The time that a task has, from the moment at which it is told to fail, to return from its code. Then its host ends.
const RETURN_WITHIN: Duration = Duration::from_secs(1);
/// The time for which the limit must be exceeded before a task with state fails: the sizes of its tables are up to date
/// after that time.
const STATE_LAG: Duration = Duration::from_millis(250);
/// The part of the limit by which it may be exceeded while a task is on its way out, and the least of that in bytes.
const SLACK_PART: u64 = 8;
const SLACK_LEAST: u64 = 32 << 20;
/// The memory of a host's own runtime, in bytes, which is not user code's: what no task holds counts only beyond it. A job
/// with one slot of many must not fail for what its process takes to be there.
const RUNTIME: u64 = 16 << 20;
/// The part of the limit by which the total grows between two looks beyond the limit, and its bounds in bytes.
const STEP_PART: u64 = 64;
const STEP_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 20;

/// The memory that the tasks of a program host may hold, in bytes: the TaskManager's memory divided by its slots, times the slots that the
/// host's job has there. The TaskManager sends it with each change of the slots; [`MemoryLimit`] reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Maximum bytes of user code's memory: the host's part of `taskmanager.memory.task.size`.
    pub task: u64,
    /// Bytes up to which the tables of the tasks' state do not count as user code's memory: the host's part of the managed memory.
    pub managed: u64,
}

/// The point that a task has reached on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The task was not told to stop and its code has not returned: it is opened, restored or runs. Only while all tasks are in this
    /// stage may one be failed for the limit.
    Working,
    /// The task was told to stop, and its code has not returned.
    Stopping,
    /// The task's code has returned, whether it was told to stop or not; what it holds is being freed. Until the task has ended, no
    /// further one is failed for the limit, and the host waits no longer for this one's return.
    Returned,
}

/// The memory of one task at the moment of a look, for [`MemoryUsage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskUsage<K> {
    /// Identifies the task in the [`Verdict`].
    pub key: K,
    /// Bytes in the task's account: allocated and received, less freed and given away; may be negative.
    pub held: i64,
    /// Bytes in the tables of the task's state, a part of `held`; the host gives all of `held` while the task is being restored.
    pub state: u64,
    /// The point that the task has reached on its way to its end.
    pub stage: Stage,
}

/// The memory that a program host uses at one moment, which its memory thread measures for each [`MemoryLimit::look`]. `K` names its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUsage<K> {
    /// Bytes that are counted for the host: those of its tasks, of its threads without a task, and of batches between tasks. For a host
    /// that shares its process with others, those of its tasks only.
    pub total: u64,
    /// Bytes of `total` that count as memory of the exchange, and not as user code's.
    pub network: u64,
    /// The tasks that have not ended.
    pub tasks: Vec<TaskUsage<K>>,
}

/// The memory of a host at a look that found its limit exceeded, in bytes, for a [`Verdict`]. Displays as the end of an error's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverLimit {
    /// Bytes of user code's memory: without the exchange, managed state, and up to 16 MiB that the host itself needs.
    pub used: u64,
    /// The limit of `used`, in bytes.
    pub limit: u64,
    /// The part of `used`, in bytes, that the task at fault holds, at most `used`; `None` if no task is at fault.
    pub of_task: Option<u64>,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In whole MiB, upwards: bytes would hide what matters.
        let rounded = |bytes: u64| MemorySize::from_mib(bytes.div_ceil(1 << 20));
        let (used, limit) = (rounded(self.used), MemorySize(self.limit));
        write!(f, "used {used} of {limit} (taskmanager.memory.task.size)")?;
        match self.of_task {
            Some(bytes) => write!(f, ", {} of it in this task", rounded(bytes)),
            None => f.write_str(", most of it outside of its tasks"),
        }
    }
}

/// The consequence of a look at the memory of a program host, which the caller carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<K> {
    /// Nothing is to be done: the limit is kept, or a task is on its way out, or the limit has not been exceeded for long enough.
    Fine,
    /// This task, which holds the most, must be failed; it is expected to return from its code within a second. Given once per task.
    Fail {
        /// The task that holds the most, less its share of the managed memory.
        task: K,
        /// The memory at the moment when the limit was exceeded.
        over: OverLimit,
    },
    /// The host must end at once: a task that was told to fail has not returned within a second and the limit is still exceeded, or the
    /// limit has been exceeded for a second by what no task holds, or is exceeded by an eighth (at least 32 MiB).
    End {
        /// The task that holds the most, less its share of the managed memory; `None` if no task holds any, or if after a second over the
        /// limit what is held outside of tasks alone exceeds it.
        task: Option<K>,
        /// The memory at the moment when the limit was exceeded.
        over: OverLimit,
    },
}

/// Decides when a task of a program host, or the host itself, must end for its memory. It remembers since when the limit is exceeded and
/// which task was told to fail, and does nothing itself. The host's memory thread asks it once a second while no task runs, ten times a
/// second while tasks run, a hundred times a second over the limit, and when the allocator's alarm comes.
#[derive(Debug)]
pub struct MemoryLimit<K> {
    limits: MemoryLimits,
    /// The time from which on the limit is exceeded without interruption, on the clock of [`MemoryLimit::look`].
    over_since: Option<Duration>,
    /// The task that was told to fail, and the time of that.
    failing: Option<(K, Duration)>,
}

impl<K: Clone + PartialEq> MemoryLimit<K> {
    /// Creates the part of a host that decides for these limits. They count as kept until a call of [`MemoryLimit::look`] finds one
    /// exceeded.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits, over_since: None, failing: None }
    }

    /// Replaces the limits, when the host gets or loses slots. They count from the next look on.
    pub fn set(&mut self, limits: MemoryLimits) {
        self.limits = limits;
    }

    /// Decides what follows from the memory `usage` at `now`, a monotonic time that must not go back.
    ///
    /// Over the limit, the task that holds the most, less its share of the managed memory, fails: at once, or after 250 ms if tasks have
    /// state. While that task, or another that was told to stop or has returned, is on its way out, no further task fails, because what it
    /// holds will be free soon. The host ends if the limit is still exceeded and the failed task has not returned from its code within a
    /// second, if the limit is exceeded for a second and so much is held outside of tasks that no task's failure would help, or at once if
    /// the limit is exceeded by an eighth (at least 32 MiB).
    pub fn look(&mut self, now: Duration, usage: &MemoryUsage<K>) -> Verdict<K> {
        if let Some((failing, _)) = &self.failing
            && !usage.tasks.iter().any(|task| task.key == *failing)
        {
            self.failing = None;
        }
        let exempt = self.exempt_state(usage);
        let held = usage.tasks.iter().map(|task| positive(task.held));
        let of_tasks = held.fold(0, u64::saturating_add);
        let counted = usage.total.saturating_sub(usage.network);
        let outside = counted.saturating_sub(of_tasks);
        let used = counted.saturating_sub(exempt).saturating_sub(outside.min(RUNTIME));
        let limit = self.limits.task;
        if used <= limit {
            self.over_since = None;
            return Verdict::Fine;
        }
        let since = *self.over_since.get_or_insert(now);
        let largest = self.largest(usage, exempt);
        // The account of a task is read at another moment than the total, and a batch that it fills may count as the exchange's.
        let over =
            |held: Option<u64>| OverLimit { used, limit, of_task: held.map(|held| held.min(used)) };
        let end = |largest: Option<(K, u64)>| match largest {
            Some((task, bytes)) => Verdict::End { task: Some(task), over: over(Some(bytes)) },
            None => Verdict::End { task: None, over: over(None) },
        };
        if used > limit.saturating_add((limit / SLACK_PART).max(SLACK_LEAST)) {
            return end(largest);
        }
        if let Some((failing, told)) = &self.failing {
            let stage = usage.tasks.iter().find(|task| task.key == *failing).map(|task| task.stage);
            let late = now.saturating_sub(*told) >= RETURN_WITHIN;
            return match stage {
                Some(Stage::Returned) | None => Verdict::Fine,
                Some(_) if late => end(largest),
                Some(_) => Verdict::Fine,
            };
        }
        if usage.tasks.iter().any(|task| task.stage != Stage::Working) {
            return Verdict::Fine;
        }
        let lasts = now.saturating_sub(since);
        match largest {
            Some((task, bytes)) if outside.saturating_sub(RUNTIME) <= limit => {
                let may_be_state = usage.tasks.iter().any(|task| task.state > 0);
                if may_be_state && lasts < STATE_LAG {
                    return Verdict::Fine;
                }
                self.failing = Some((task.clone(), now));
                Verdict::Fail { task, over: over(Some(bytes)) }
            }
            _ if lasts >= RETURN_WITHIN => end(None),
            _ => Verdict::Fine,
        }
    }

    /// Returns the total of the process, in bytes, from which the next look is due, whatever the time is: the limit, or a 64th of it (1
    /// to 16 MiB) above `total`, whichever is more.
    pub fn next_alarm(&self, total: u64) -> u64 {
        let limit = self.limits.task;
        let step = (limit / STEP_PART).clamp(*STEP_BYTES.start(), *STEP_BYTES.end());
        limit.max(total.saturating_add(step))
    }

    /// Returns true if the limit was exceeded at the last look, so that the next one is due soon.
    pub fn is_over(&self) -> bool {
        self.over_since.is_some()
    }

    /// Returns the bytes of state that are managed memory.
    fn exempt_state(&self, usage: &MemoryUsage<K>) -> u64 {
        let state = usage.tasks.iter().map(|task| task.state).fold(0, u64::saturating_add);
        state.min(self.limits.managed)
    }

    /// Returns the task that holds the most user memory, with its bytes; `None` if no task holds any. Managed memory is
    /// divided among tasks in proportion to their state.
    fn largest(&self, usage: &MemoryUsage<K>, exempt: u64) -> Option<(K, u64)> {
        let state = usage.tasks.iter().map(|task| task.state).fold(0, u64::saturating_add);
        let charged = |task: &TaskUsage<K>| {
            let part = u128::from(exempt) * u128::from(task.state) / u128::from(state.max(1));
            positive(task.held).saturating_sub(u64::try_from(part).unwrap_or(u64::MAX))
        };
        let charges = usage.tasks.iter().map(|task| (task, charged(task)));
        let (task, bytes) = charges.filter(|(_, bytes)| *bytes > 0).max_by_key(|(_, b)| *b)?;
        Some((task.key.clone(), bytes))
    }
}

fn positive(balance: i64) -> u64 {
    u64::try_from(balance).unwrap_or(0)
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
