//! Flott's hash of keys, for the records that reach the sinks of the benchmark: the same bits in, the same bits out.
//!
//! A copy of `streaming/src/types/hash.rs`, because this package must not depend on the workspace. The tests of
//! `benches/src/throughput/renoir.rs` compile this file too and compare it with the original. It must use nothing but
//! the standard library.

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const K1: u64 = 0x9e37_79b9_7f4a_7c15;
const K2: u64 = 0xd1b5_4a32_d192_ed03;

/// A record with a hash.
pub(crate) trait KeyHash {
    /// Returns the state of the hash after the record was fed to `state`.
    fn feed(&self, state: u64) -> u64;

    /// Returns the record's hash, which equals Flott's `key_hash` of it.
    #[inline]
    fn key_hash(&self) -> u64 {
        fold(self.feed(SEED), K2)
    }
}

impl KeyHash for u64 {
    #[inline]
    fn feed(&self, state: u64) -> u64 {
        fold(state ^ *self, K1)
    }
}

impl KeyHash for String {
    #[inline]
    fn feed(&self, state: u64) -> u64 {
        bytes(self.as_bytes(), state)
    }
}

impl<A: KeyHash, B: KeyHash> KeyHash for (A, B) {
    #[inline]
    fn feed(&self, state: u64) -> u64 {
        self.1.feed(self.0.feed(state))
    }
}

/// Multiplies to 128 bits and folds the halves together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // Both halves are kept, each truncated to 64 bits.
    (product as u64) ^ ((product >> 64) as u64)
}

/// Feeds bytes and their number.
#[inline]
fn bytes(bytes: &[u8], mut state: u64) -> u64 {
    let mut chunks = bytes.chunks_exact(16);
    for chunk in &mut chunks {
        let (low, high) = chunk.split_at(8);
        state = fold(le(low) ^ state, le(high) ^ K2);
    }
    let rest = chunks.remainder();
    // Two overlapping reads cover 4 to 16 bytes; fewer are packed into one number.
    let (low, high) = match rest.len() {
        0 => (0, 0),
        1..=3 => (le(rest), 0),
        4..=8 => (le(rest.split_at(4).0), le(rest.split_at(rest.len() - 4).1)),
        n => (le(rest.split_at(8).0), le(rest.split_at(n - 8).1)),
    };
    fold(low ^ state, high ^ K2 ^ (bytes.len() as u64))
}

/// Returns at most eight bytes as a little-endian number.
#[inline]
fn le(bytes: &[u8]) -> u64 {
    if let Ok(eight) = bytes.try_into() {
        return u64::from_le_bytes(eight);
    }
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return u64::from(u32::from_le_bytes(four));
    }
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
