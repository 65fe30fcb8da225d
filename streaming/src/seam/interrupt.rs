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
    /// Raises the flag: the running step, or else the next one, ends early.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
    /// Lowers the flag. Called before the mail and cancellation that it announces are looked at.
    pub fn clear(&self) {
        // A swap, so that mail posted before the flag was raised is seen now; mail posted later raises the flag again.
        self.0.swap(false, Ordering::AcqRel);
    }
    /// Returns whether the flag is raised. Cheap enough to be called for every record.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
