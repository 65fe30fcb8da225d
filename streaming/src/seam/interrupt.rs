//! The flag that ends a step early, and the handle of its task for a call that cannot be ended. The flag must stay cheap enough to be
//! read after every record.

use super::Mail;
use std::{
    fmt::Debug,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The maximum interval in milliseconds at which the host looks for long steps.
const LOOK_MS: u64 = 50;

/// A running task as a call of a function sees it that emits more than its consumer takes: the call waits for room.
pub(crate) trait RunningTask: Debug + Send + Sync {
    /// Parks the task's thread until the task is woken, for instance by room in an output, or its next timer is due; for 10 ms at most.
    /// Returns false, and does not park, if the calling thread is another one or the task has ended.
    fn wait(&self) -> bool;
    /// Removes and returns the first reply whose ticket `is_for` accepts, or else the earliest such timer that is due; other mail stays.
    fn take_mail(&self, is_for: &dyn Fn(u64) -> bool) -> Option<Mail>;
    /// Returns the time until the task's earliest timer is due, zero if one is; `None` if the task has no timer.
    fn until_timer(&self) -> Option<Duration>;
    /// Makes the task's next wait between two steps end at once, because what woke it in a call may have been meant for the steps.
    fn step_again(&self);
}

/// A flag that asks a running step of a task to end after the current record; the next step continues where this one ended. The host raises
/// it for mail, timers that are due included, to stop the task, and during a long step; the task lowers it before each step. A function
/// call that does not return is not ended by it. Raising it never blocks. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    raised: AtomicBool,
    /// True once the task was told to stop: there is no next step.
    for_good: AtomicBool,
    task: OnceLock<Box<dyn RunningTask>>,
    /// True while a call must not wait.
    hurries: AtomicBool,
    /// The milliseconds by which the interval of the host's looks for a long step is shorter than [`LOOK_MS`].
    look_earlier_ms: AtomicU64,
    /// The number of the host's looks.
    looks: AtomicU32,
}

impl Interrupt {
    /// Raises the flag: the running step ends early, or else the next one if the task does not lower the flag before it. Called from any
    /// thread; never blocks.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::Release);
    }
    /// Raises the flag because the task is told to stop: the running step does not lower it any more. Called from any thread; never
    /// blocks.
    pub(crate) fn raise_for_good(&self) {
        self.0.for_good.store(true, Ordering::Release);
        self.raise();
    }
    /// Lowers the flag. The task's thread calls this before it looks at mail and cancellation, so that what comes later raises the flag
    /// again.
    pub fn clear(&self) {
        // A swap, so that mail posted before the flag was raised is seen now; mail posted later raises the flag again.
        self.0.raised.swap(false, Ordering::AcqRel);
    }
    /// Lowers the flag within a step, whose caller raises it again if it was raised. Returns false, and leaves the flag raised, if the
    /// task was told to stop.
    pub(crate) fn lower(&self) -> bool {
        if self.is_for_good() {
            return false;
        }
        self.clear();
        // What raised the flag before that may have been the end of the task.
        let goes_on = !self.is_for_good();
        if !goes_on {
            self.raise();
        }
        goes_on
    }
    /// Sets the task that the flag belongs to. Only the first call has an effect.
    pub(crate) fn bind(&self, task: Box<dyn RunningTask>) {
        let _ = self.0.task.set(task);
    }
    /// Returns the task that the flag belongs to, so that a call waits; `None` if there is none, as in the test harness, or calls must
    /// not wait.
    pub(crate) fn task(&self) -> Option<&dyn RunningTask> {
        let waits = !self.0.hurries.load(Ordering::Relaxed);
        self.0.task.get().filter(|_| waits).map(|task| &**task)
    }
    /// Returns the time until the earliest timer of the flag's task is due, zero if one is; `None` if there is no timer or no task.
    pub(crate) fn until_timer(&self) -> Option<Duration> {
        self.0.task.get()?.until_timer()
    }
    /// Sets whether calls must not wait. Called by the task's thread.
    pub(crate) fn set_hurries(&self, hurries: bool) {
        self.0.hurries.store(hurries, Ordering::Relaxed);
    }
    /// Sets for how long a step should last at most. The host looks for long steps at half of that interval, between 1 and 50 ms.
    pub(crate) fn set_longest_step(&self, longest_ms: u64) {
        let every = (longest_ms / 2).clamp(1, LOOK_MS);
        self.0.look_earlier_ms.store(LOOK_MS - every, Ordering::Relaxed);
    }
    /// Returns the interval at which the host looks whether a step lasts: one that lasts through an interval is interrupted.
    pub(crate) fn look_every(&self) -> Duration {
        Duration::from_millis(LOOK_MS - self.0.look_earlier_ms.load(Ordering::Relaxed))
    }
    /// Notes that the host has looked whether a step lasts.
    pub(crate) fn looked(&self) {
        self.0.looks.fetch_add(1, Ordering::Relaxed);
    }
    /// Returns the number of looks of the host so far, modulo 2³²: functions of which many records were processed between two looks are
    /// quick.
    pub(crate) fn looks(&self) -> u32 {
        self.0.looks.load(Ordering::Relaxed)
    }
    /// Returns true if the task was told to stop.
    pub(crate) fn is_for_good(&self) -> bool {
        self.0.for_good.load(Ordering::Acquire)
    }
    /// Returns true if the flag is raised. Cheap enough to be called for every record.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed)
    }
}
