//! Memory by accounting: what the exchange and the operators may hold is counted in bytes, never allocated
//! ahead. It must never block and never take a lock: counting is paid per batch.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// An amount of memory that several parties share.
///
/// Parties are kept apart by one rule: a party may hold at most as much as is left free. One greedy party so
/// gets half of the budget, two get a third each, and there is always something left for a party that comes
/// later, without counting or registering anybody.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl MemoryBudget {
    /// A budget of so many bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        })
    }

    /// Takes `more` bytes for a party that holds `held`, if its share allows it.
    pub fn try_take_share(&self, held: u64, more: u64) -> bool {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                let free = self.limit().saturating_sub(used);
                (held.saturating_add(more) <= free).then(|| used + more)
            })
            .map(|before| self.peak.fetch_max(before + more, Ordering::Relaxed))
            .is_ok()
    }

    /// Takes `more` bytes if they are free.
    pub fn try_take(&self, more: u64) -> bool {
        self.try_take_share(0, more)
    }

    /// Takes `more` bytes whether or not they are free: for what must go on, one unit at a time.
    pub fn take(&self, more: u64) {
        let before = self.used.fetch_add(more, Ordering::AcqRel);
        self.peak.fetch_max(before.saturating_add(more), Ordering::Relaxed);
    }

    /// Gives back what was taken.
    pub fn give_back(&self, less: u64) {
        // Saturating: an accounting mistake must not wrap into "everything is taken" for ever.
        let _ = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            Some(used.saturating_sub(less))
        });
    }

    /// Whether a party that holds `held` has room for `more` now.
    pub fn has_share(&self, held: u64, more: u64) -> bool {
        held.saturating_add(more) <= self.free()
    }

    /// Bytes that are not taken.
    pub fn free(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    /// Bytes that are taken.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// The most that was ever taken.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// The whole budget.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Another size for the whole budget; what is taken stays taken.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(budget: &MemoryBudget) -> u64 {
        let mut held = 0;
        while budget.try_take_share(held, 1) {
            held += 1;
        }
        held
    }

    #[test]
    fn one_greedy_party_gets_half_and_leaves_room_for_the_next() {
        let budget = MemoryBudget::new(1200);
        let first = fill(&budget);
        let second = fill(&budget);
        assert_eq!(first, 600);
        assert_eq!(second, 300);
        assert!(fill(&budget) > 0, "a third party still finds room");
        assert!(budget.peak() <= 1200);
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let budget = MemoryBudget::new(100);
        assert!(budget.try_take(100));
        assert!(!budget.try_take(1));
        budget.give_back(100);
        assert_eq!(budget.free(), 100);
        budget.give_back(5);
        assert_eq!(budget.used(), 0, "too much given back does not wrap");
        assert_eq!(budget.peak(), 100);
    }
}
