//! Key groups, as in Flink: the units in which keyed state is assigned to subtasks.
//!
//! A key's group depends on the key and the max parallelism alone; the subtask that owns a group depends on the
//! parallelism too. Neither rule may ever change, because snapshots are divided by key groups.

use crate::types::{FlottType, key_hash};
use model::owned_key_groups;
use std::ops::Range;

/// The maximum number of key groups of an operator.
pub(super) const MAX_KEY_GROUPS: u32 = 32_768;

/// Returns Flink's default max parallelism: 1.5 times the parallelism, rounded up to a power of two, at least 128 and
/// at most 32,768.
pub fn default_max_parallelism(parallelism: u32) -> u32 {
    let wanted = parallelism.saturating_add(parallelism / 2).min(MAX_KEY_GROUPS);
    wanted.next_power_of_two().clamp(128, MAX_KEY_GROUPS)
}

/// Returns the key group of a hash: bits 32 to 56 of the hash, modulo the max parallelism; with 128 groups these are bits 32 to 38. A
/// max parallelism of 0 counts as 1. A hash table uses the lowest bits of the same hash for its buckets and the highest seven for its
/// tags; a group made of any of these bits would make them equal for all keys of a table.
#[inline]
pub fn key_group(hash: u64, max_parallelism: u32) -> u32 {
    // Truncation is the point: 25 bits are left.
    let middle = (hash >> 32) as u32 & 0x01ff_ffff;
    if max_parallelism.is_power_of_two() {
        middle & (max_parallelism - 1)
    } else {
        middle % max_parallelism.max(1)
    }
}

/// Returns the index, from 0, of the subtask that owns a key group: `group * parallelism / max_parallelism`, rounded down. `group` must
/// be less than `max_parallelism`, or the result means nothing. A `max_parallelism` of 0 counts as 1.
#[inline]
pub fn channel_of_group(group: u32, max_parallelism: u32, parallelism: u32) -> u32 {
    let channel = u64::from(group) * u64::from(parallelism) / u64::from(max_parallelism.max(1));
    // Less than `parallelism`, which is a u32.
    channel as u32
}

/// A key's hash and key group, which locate its state in a backend; [`KeyGroups::address`] makes it. Different keys may have the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyAddress {
    /// The 64-bit hash of the key, as [`key_hash`] returns it.
    pub hash: u64,
    /// The key group of the hash, from 0.
    pub group: u32,
}

/// The key groups that one subtask owns, a run of consecutive numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyGroups {
    /// The owned groups; empty if there are more subtasks than groups and none is left for this one.
    pub owned: Range<u32>,
    /// The number of key groups of the operator, of all subtasks together.
    pub max_parallelism: u32,
}

impl KeyGroups {
    /// Returns the key groups that the subtask with this index, from 0, owns: those for which [`channel_of_group`] returns the index.
    pub fn of_subtask(subtask: u32, parallelism: u32, max_parallelism: u32) -> Self {
        let owned = owned_key_groups(subtask, parallelism, max_parallelism);
        Self { owned, max_parallelism }
    }

    /// Returns the hash and the key group of a key. The group need not be an owned one.
    #[inline]
    pub fn address<K: FlottType>(&self, key: &K) -> KeyAddress {
        self.address_by(key, None)
    }

    /// Does what [`KeyGroups::address`] does, without hashing the key if its hash came with the record. A key that the state does not have
    /// must be compared with its hash before it is kept (`Keyed::into_new`).
    #[inline]
    pub(crate) fn address_by<K: FlottType>(&self, key: &K, hash: Option<u64>) -> KeyAddress {
        let hash = hash.unwrap_or_else(|| key_hash(key));
        KeyAddress { hash, group: key_group(hash, self.max_parallelism) }
    }
}
