//! The flag that ends a step early. It must stay cheap enough to be read after every record.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that asks a running step to end after the current record. Raising it never blocks; the next step continues where this
/// one ended. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Raises the flag: the running step, or else the next one, ends early. Called from any thread; never blocks.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
    /// Lowers the flag. The task's thread calls this before it looks at mail and cancellation, so that what comes later raises the flag
    /// again.
    pub fn clear(&self) {
        // A swap, so that mail posted before the flag was raised is seen now; mail posted later raises the flag again.
        self.0.swap(false, Ordering::AcqRel);
    }
    /// Returns true if the flag is raised. Cheap enough to be called for every record.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
