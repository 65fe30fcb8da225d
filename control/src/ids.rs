//! Ids from one random seed: a pure function, so that cores need no random source.

/// Returns the `n`th 128-bit id of the series that `seed` starts: always the same for the same arguments, distinct for distinct
/// `n`, and not to be guessed by somebody who knows neither the seed nor a whole id of the series (from one, seed and other ids follow:
/// the ids are no secrets). Ids of allocations and instances are made with it, and nonces of sessions from its low 64 bits.
pub fn nth_id(seed: u128, n: u64) -> u128 {
    let (high, low) = ((seed >> 64) as u64, seed as u64);
    let first = mix(high ^ mix(n));
    let second = mix(low ^ first.rotate_left(17) ^ n);
    (u128::from(first) << 64) | u128::from(second)
}

/// Applies SplitMix64's finaliser, which is a bijection.
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_of_one_seed_differ_and_repeat() {
        let ids: BTreeSet<u128> = (0..10_000).map(|n| nth_id(7, n)).collect();
        assert_eq!(ids.len(), 10_000);
        assert_eq!(nth_id(7, 3), nth_id(7, 3));
        assert_ne!(nth_id(7, 3), nth_id(8, 3));
    }
}
