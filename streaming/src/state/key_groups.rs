//! Key groups, as in Flink: the unit in which keyed state is given to subtasks.
//!
//! A key's group depends on the key and the maximal parallelism alone; which subtask owns a group depends on the
//! parallelism too. Neither rule may ever change: snapshots are cut by it.

use crate::types::{FlottType, key_hash};
use std::ops::Range;

/// The most key groups a job can have.
pub(super) const MAX_KEY_GROUPS: u32 = 32_768;

/// Flink's default: one and a half times the parallelism rounded up to a power of two, at least 128, at most 32,768.
pub fn default_max_parallelism(parallelism: u32) -> u32 {
    let wanted = parallelism.saturating_add(parallelism / 2).min(MAX_KEY_GROUPS);
    wanted.next_power_of_two().clamp(128, MAX_KEY_GROUPS)
}

/// MurmurHash3's 32-bit mix of one number, as Flink spreads hash codes.
#[inline]
fn murmur(code: u32) -> u32 {
    let k = code.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut h = k.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64) ^ 4;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// The key group of a hash.
#[inline]
pub fn key_group(hash: u64, max_parallelism: u32) -> u32 {
    let spread = murmur((hash ^ (hash >> 32)) as u32);
    if max_parallelism.is_power_of_two() {
        spread & (max_parallelism - 1)
    } else {
        spread % max_parallelism.max(1)
    }
}

/// Which subtask owns a key group.
#[inline]
pub fn channel_of_group(group: u32, max_parallelism: u32, parallelism: u32) -> u32 {
    let channel = u64::from(group) * u64::from(parallelism) / u64::from(max_parallelism.max(1));
    // Less than `parallelism`, which is a u32.
    channel as u32
}

/// Where a key's state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyAddress {
    /// Of the key.
    pub hash: u64,
    /// Of the hash.
    pub group: u32,
}

/// The key groups that one subtask owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyGroups {
    /// The groups.
    pub owned: Range<u32>,
    /// All groups of the operator.
    pub max_parallelism: u32,
}

impl KeyGroups {
    /// Of that subtask.
    pub fn of_subtask(subtask: u32, parallelism: u32, max_parallelism: u32) -> Self {
        let first = |subtask: u32| {
            let numerator = u64::from(subtask) * u64::from(max_parallelism);
            // At most `max_parallelism`, which is a u32.
            numerator.div_ceil(u64::from(parallelism.max(1))) as u32
        };
        Self {
            owned: first(subtask)..first(subtask.saturating_add(1)).min(max_parallelism),
            max_parallelism,
        }
    }

    /// Where a key's state is.
    #[inline]
    pub fn address<K: FlottType>(&self, key: &K) -> KeyAddress {
        let hash = key_hash(key);
        KeyAddress { hash, group: key_group(hash, self.max_parallelism) }
    }
}
