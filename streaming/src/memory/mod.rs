//! Memory budgets: the bytes that the exchange holds are counted, never allocated ahead. Nothing here may block or take a lock,
//! because counting is paid per batch. What a task holds in all is counted by the program's allocator ([`allocator`]); what
//! happens when that is too much is decided in [`limit`], and when a program gets huge pages in [`huge_pages`].

pub mod allocator;
pub mod huge_pages;
pub mod limit;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// An amount of memory, in bytes, that several parties share, such as the channels of a process. It only counts; no memory is allocated.
///
/// One rule limits a party's share: the party may take more if it would then hold at most as much as is free before. So a greedy party
/// that takes small pieces gets at most half of the budget. Of 1200 bytes the first one takes 600, the second one 300 of the other 600; a
/// party that comes later still finds 300 free. No party is registered or counted. The exchange has one, for the elements that wait in it.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes, all free.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        })
    }

    /// Takes `more` bytes for a party that holds `held`, if `held + more` is at most what is free, so that something is left for others.
    /// Returns true if it took them; false, with no effect, otherwise.
    pub fn try_take_share(&self, held: u64, more: u64) -> bool {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                let free = self.limit().saturating_sub(used);
                (held.saturating_add(more) <= free).then(|| used + more)
            })
            .map(|before| self.peak.fetch_max(before + more, Ordering::Relaxed))
            .is_ok()
    }

    /// Takes `more` bytes whether or not they are free, for work that must go on. Callers take one unit, such as one element, at a time.
    pub fn take(&self, more: u64) {
        let before = self.used.fetch_add(more, Ordering::AcqRel);
        self.peak.fetch_max(before.saturating_add(more), Ordering::Relaxed);
    }

    /// Gives back `less` bytes that were taken; at most all that are taken. Counts only: wakes nobody who waits for room.
    pub fn give_back(&self, less: u64) {
        // Saturating, because a mistake in accounting must not wrap around and leave the budget full for ever.
        let _ = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            Some(used.saturating_sub(less))
        });
    }

    /// Returns true if `held + more` is at most what is free, so that a party that holds `held` bytes may take `more` now. Takes nothing.
    pub fn has_share(&self, held: u64, more: u64) -> bool {
        held.saturating_add(more) <= self.free()
    }

    /// Returns the bytes that are not taken; 0 if more than the limit is taken.
    pub fn free(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    /// Returns the bytes that are taken, which may exceed the limit after [`MemoryBudget::take`] or [`MemoryBudget::set_limit`].
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Returns the greatest number of bytes that were ever taken at once, since the budget was created.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Returns the size of the whole budget in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Sets the size of the whole budget in bytes. Bytes that are taken stay taken, even beyond the new size; then nothing more is
    /// free until enough is given back.
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
        assert!(budget.try_take_share(0, 100));
        assert!(!budget.try_take_share(0, 1));
        budget.give_back(100);
        assert_eq!(budget.free(), 100);
        budget.give_back(5);
        assert_eq!(budget.used(), 0, "too much given back does not wrap");
        assert_eq!(budget.peak(), 100);
    }
}
