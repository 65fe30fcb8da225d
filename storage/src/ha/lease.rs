//! The end of the leader's lease, for everything that writes as the leader. It must never be prolonged by
//! anybody but the election driver that owns it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The lease of one process; clones share it. It is not held at first.
///
/// A process that was stopped (SIGSTOP) for longer than its lease finds [`Lease::holds`] false in the first
/// instruction that it runs, before its election driver had a turn to say so.
#[derive(Debug, Clone, Default)]
pub struct Lease {
    /// Nanoseconds of the monotonic clock; 0: not held.
    until: Arc<AtomicU64>,
}

impl Lease {
    /// Returns a lease that is held for as long as the process lives.
    pub fn endless() -> Self {
        let lease = Self::default();
        lease.set(Some(Duration::MAX));
        lease
    }

    /// Sets the deadline on the process's monotonic clock; `None` if the lease is not held.
    pub fn set(&self, until: Option<Duration>) {
        let nanos = |at: Duration| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.until.store(until.map_or(0, nanos), Ordering::Release);
    }

    /// Returns whether the lease is held at `now` (monotonic).
    pub fn holds(&self, now: Duration) -> bool {
        let until = self.until.load(Ordering::Acquire);
        until == u64::MAX || now < Duration::from_nanos(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_until_its_deadline() {
        let lease = Lease::default();
        assert!(!lease.holds(Duration::ZERO));
        lease.set(Some(Duration::from_secs(3)));
        assert!(lease.clone().holds(Duration::from_millis(2_999)));
        assert!(!lease.holds(Duration::from_secs(3)));
        lease.set(None);
        assert!(!lease.holds(Duration::ZERO));
        assert!(Lease::endless().holds(Duration::MAX));
    }
}
