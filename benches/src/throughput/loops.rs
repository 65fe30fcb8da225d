//! The hand-written, single-threaded loops that programs are compared with. Each makes its input and computes the
//! checksum itself, with the hash and the hash table that Flott has. They must use nothing else of Flott.

use crate::words::{line, splitmix64};
use flott::types::{FlottType, key_hash};
use hashbrown::{HashTable, hash_table::Entry};
use std::{fmt, ops::Add, str::FromStr};

/// The number of records and the wrapping sum of their hashes: equal for the same records in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checksum {
    /// Number of records.
    pub count: u64,
    /// Wrapping sum of `key_hash` of each record.
    pub sum: u64,
}

impl Checksum {
    /// Counts one record and adds its hash.
    #[inline]
    pub fn add_record<T: FlottType>(&mut self, record: &T) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(key_hash(record));
    }
}

impl Add for Checksum {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// `count<TAB>sum`, as a Flott program prints it.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.count, self.sum)
    }
}

impl FromStr for Checksum {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts = text.trim().split_once('\t').and_then(|(count, sum)| {
            Some(Self { count: count.parse().ok()?, sum: sum.parse().ok()? })
        });
        parts.ok_or_else(|| anyhow::anyhow!("'{text}' is no checksum: COUNT<TAB>SUM is expected"))
    }
}

/// Computes the first `map` of the workload `chain`.
#[inline]
pub fn first_map(number: u64) -> u64 {
    number.wrapping_mul(31).wrapping_add(7)
}

/// Returns true if the `filter` of the workload `chain` keeps the number: if it is not a multiple of eight.
#[inline]
pub fn is_kept(number: u64) -> bool {
    number & 7 != 0
}

/// Computes the last `map` of the workload `chain`.
#[inline]
pub fn last_map(number: u64) -> u64 {
    number ^ (number >> 17)
}

/// Runs the workload `chain` on the numbers below `records`: map, filter, map. Returns the checksum of the results.
pub fn chain(records: u64) -> Checksum {
    let mut checksum = Checksum::default();
    for number in 0..records {
        let mapped = first_map(number);
        if is_kept(mapped) {
            checksum.add_record(&last_map(mapped));
        }
    }
    checksum
}

/// Runs the word count: one owned string and one clone per word, one table, one hash of every update. `records` are words, ten to a line;
/// an incomplete last line is left out. Returns the checksum of all updates, which are words with their new counts.
pub fn word_count(records: u64) -> Checksum {
    let mut counts = HashTable::new();
    let mut checksum = Checksum::default();
    for number in 0..records / crate::words::WORDS_PER_LINE {
        for word in line(number).split_ascii_whitespace() {
            checksum.add_record(&counted(&mut counts, word.to_owned()));
        }
    }
    checksum
}

/// Counts the records of each of `KEYS` keys, for `records` numbers. Returns the checksum of all updates, which are keys with their new
/// counts.
pub fn count<const KEYS: u64>(records: u64) -> Checksum {
    let mut counts = HashTable::new();
    let mut checksum = Checksum::default();
    for number in 0..records {
        checksum.add_record(&counted(&mut counts, splitmix64(number) % KEYS));
    }
    checksum
}

/// Length of a window in milliseconds of event time.
pub const WINDOW_MS: u64 = 5_000;

/// Counts the records of each of `KEYS` keys in each window of [`WINDOW_MS`]; record n has the event time n ÷ `PER_MS` in
/// milliseconds. There is one table at a time: times do not go back, so a window ends with the first record behind it, and its
/// table, then empty, is the next window's. Returns the checksum of the keys with their counts, of all windows.
pub fn window<const KEYS: u64, const PER_MS: u64>(records: u64) -> Checksum {
    let mut counts: HashTable<(u64, u64)> = HashTable::new();
    let mut checksum = Checksum::default();
    let mut end = WINDOW_MS;
    for number in 0..records {
        let time = number / PER_MS;
        if time >= end {
            counts.drain().for_each(|counted| checksum.add_record(&counted));
            end = (time / WINDOW_MS + 1) * WINDOW_MS;
        }
        counted(&mut counts, splitmix64(number) % KEYS);
    }
    counts.drain().for_each(|counted| checksum.add_record(&counted));
    checksum
}

/// Counts one record of a key. Returns the key and its new count.
#[inline]
fn counted<K: FlottType + Eq + Clone>(counts: &mut HashTable<(K, u64)>, key: K) -> (K, u64) {
    let hash = key_hash(&key);
    let entry = match counts.entry(hash, |(other, _)| *other == key, |(key, _)| key_hash(key)) {
        Entry::Occupied(mut entry) => {
            entry.get_mut().1 += 1;
            entry
        }
        Entry::Vacant(entry) => entry.insert((key, 1)),
    };
    let (key, count) = entry.get();
    (key.clone(), *count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_read_back_as_it_was_printed() {
        let checksum = chain(1_000);
        assert_eq!(checksum.to_string().parse::<Checksum>().unwrap(), checksum);
        for wrong in ["", "1", "1 2", "1\tx", "1\t2\t3"] {
            assert!(wrong.parse::<Checksum>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn checksums_of_parts_add_up_in_any_order() {
        let (mut one, mut other) = (Checksum::default(), Checksum::default());
        one.add_record(&7_u64);
        other.add_record(&9_u64);
        let mut both = Checksum::default();
        both.add_record(&9_u64);
        both.add_record(&7_u64);
        assert_eq!(one + other, both);
        assert_eq!(other + one, both);
    }
}
