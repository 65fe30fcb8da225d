//! The flag that ends a step early. It must stay cheap enough to be read behind every record.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Asks a step to end behind the record at work. Whoever raises it does not wait; the step begins again where it ended.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks the step at work, or the next one.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }
    /// Takes it back: what it was raised for is looked at now.
    pub fn clear(&self) {
        // Before mail and cancellation are looked at: what is posted afterwards raises it again.
        self.0.swap(false, Ordering::AcqRel);
    }
    /// Whether it is raised. Cheap enough for every record.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
