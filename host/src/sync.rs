//! Short locks, as the data plane takes them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a poisoned lock is taken as it is: every critical section leaves its data whole at each step.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
