//! The key groups that a subtask owns. The rule must never change, because snapshots are divided by key groups.

use std::ops::Range;

/// Returns the key groups (sets of keys, by hash; end exclusive) whose keys and keyed state the subtask of this index
/// owns: group `g` belongs to subtask `g * parallelism / max_parallelism`, rounded down. Subtask 1 of 3 owns groups 43
/// to 85 of 128. The range is empty if there are more subtasks than groups and none is left for this one, or if the index is not below the
/// parallelism. A parallelism of 0 counts as 1.
pub fn owned_key_groups(subtask: u32, parallelism: u32, max_parallelism: u32) -> Range<u32> {
    let first = |subtask: u32| {
        let numerator = u64::from(subtask) * u64::from(max_parallelism);
        let first = numerator.div_ceil(u64::from(parallelism.max(1)));
        u32::try_from(first).unwrap_or(u32::MAX)
    };
    first(subtask)..first(subtask.saturating_add(1)).min(max_parallelism)
}
