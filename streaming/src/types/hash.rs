//! The hash of keys. It decides the key group of a key, hence its subtask and its part of a snapshot: it must never change
//! between processes, machines or versions.

use super::FlottType;

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const K1: u64 = 0x9e37_79b9_7f4a_7c15;
const K2: u64 = 0xd1b5_4a32_d192_ed03;

/// Multiplies to 128 bits and folds the halves together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // The casts truncate on purpose: both halves of the product are used.
    (product as u64) ^ ((product >> 64) as u64)
}

/// The hasher of stream keys, whose 64-bit hash decides the key group of a key and hence its subtask. It is fast and has fixed constants,
/// so that every process gets the same hash. It does not withstand keys that are chosen to collide.
#[derive(Debug, Clone)]
pub struct KeyHasher {
    state: u64,
}

impl Default for KeyHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyHasher {
    /// Creates a hasher in its initial state, which is the same in every process.
    #[inline]
    pub fn new() -> Self {
        Self { state: SEED }
    }

    /// Feeds a number of 64 bits; the order of calls matters.
    #[inline]
    pub fn write_u64(&mut self, value: u64) {
        self.state = fold(self.state ^ value, K1);
    }

    /// Feeds bytes and their number: `ab` and then `c` give another hash than `a` and then `bc`.
    #[inline]
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(16);
        for chunk in &mut chunks {
            let (low, high) = chunk.split_at(8);
            self.state = fold(le(low) ^ self.state, le(high) ^ K2);
        }
        let rest = chunks.remainder();
        // Two reads, which may overlap, cover 4 to 16 bytes; fewer bytes are packed into one number.
        let (low, high) = match rest.len() {
            0 => (0, 0),
            1..=3 => (le(rest), 0),
            4..=8 => (le(rest.split_at(4).0), le(rest.split_at(rest.len() - 4).1)),
            n => (le(rest.split_at(8).0), le(rest.split_at(n - 8).1)),
        };
        self.state = fold(low ^ self.state, high ^ K2 ^ (bytes.len() as u64));
    }

    /// Returns the hash of everything that was fed so far; more can be fed afterwards.
    #[inline]
    pub fn finish(&self) -> u64 {
        fold(self.state, K2)
    }
}

/// Reads at most eight bytes as a little-endian number.
#[inline]
fn le(bytes: &[u8]) -> u64 {
    if let Ok(eight) = bytes.try_into() {
        return u64::from_le_bytes(eight);
    }
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return u64::from(u32::from_le_bytes(four));
    }
    bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Returns the 64-bit hash of a key, which is the same in every process and version; its bits 32 to 56 decide the key group.
#[inline]
pub fn key_hash<K: FlottType>(key: &K) -> u64 {
    let mut hasher = KeyHasher::new();
    key.hash_key(&mut hasher);
    hasher.finish()
}
