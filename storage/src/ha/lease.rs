//! The leader's lease, shared with everything that writes as the leader. Only the election driver that owns the lease
//! may prolong it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The leader's lease of one process: the time, on its monotonic clock, until which it may write as the leader. Holds nothing else: neither
/// the epoch nor the leader. Made and prolonged by the election driver, checked by [`JobLogs`](crate::jobs::JobLogs) before each append to
/// a job's log and before each deletion of one. Clones share it. A new lease is not held.
///
/// A process that was stopped (SIGSTOP) for longer than its lease finds [`Lease::holds`] false in the first check that it makes, before its
/// election driver has run again and reported the loss.
#[derive(Debug, Clone, Default)]
pub struct Lease {
    /// The deadline in nanoseconds of the monotonic clock; 0 if the lease is not held.
    until: Arc<AtomicU64>,
}

impl Lease {
    /// Returns a lease that is held as long as the process lives, for a process without rivals. No clock is looked at; only [`Lease::set`]
    /// could end it.
    pub fn endless() -> Self {
        let lease = Self::default();
        lease.set(Some(Duration::MAX));
        lease
    }

    /// Sets the time, on the process's monotonic clock, at which the lease ends; `None`: the lease is not held. Only the election driver
    /// that owns the lease may call this. Takes effect at once for all clones.
    pub fn set(&self, until: Option<Duration>) {
        let nanos = |at: Duration| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.until.store(until.map_or(0, nanos), Ordering::Release);
    }

    /// Returns true if the lease is held at `now` on the process's monotonic clock (`Platform::now`). Looks at memory only, not at the
    /// store. False from the deadline on, for a new lease, and after a loss; another process may lead then.
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
