//! The flag that ends a step early. It must stay cheap enough to be read after every record.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that asks a running step to end after the current record. Raising it never blocks; the next step continues where this
/// one ended. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    raised: AtomicBool,
    /// True once the task was told to stop: there is no next step.
    for_good: AtomicBool,
}

impl Interrupt {
    /// Raises the flag: the running step, or else the next one, ends early. Called from any thread; never blocks.
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
    fn is_for_good(&self) -> bool {
        self.0.for_good.load(Ordering::Acquire)
    }
    /// Returns true if the flag is raised. Cheap enough to be called for every record.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed)
    }
}
