//! Amounts of memory in whole bytes, and how they are read and written as text.

use serde::{Deserialize, Serialize};
use std::{fmt, iter::Sum, ops::Add, str::FromStr};
use thiserror::Error;

/// An amount of memory in bytes. Displays with the largest unit of `t`, `g`, `m`, `k` (powers of 1024) that is exact, otherwise
/// as MiB with one decimal or as bytes. Parses `1728m`, `2 gb`, `512 kibibytes`; a bare number is bytes. Sums saturate at
/// `u64::MAX`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MemorySize(pub u64);

impl MemorySize {
    /// Converts MiB to bytes; saturates at `u64::MAX`.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }
    /// Returns the amount in whole MiB, rounded down.
    pub const fn mib(self) -> u64 {
        self.0 >> 20
    }
    /// Returns `self - other`; `None` if `other` is larger.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
}

impl Add for MemorySize {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl Sum for MemorySize {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), |a, b| a + b)
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 40, "t"), (1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")];
        match UNITS.iter().find(|(size, _)| self.0 >= *size && self.0.is_multiple_of(*size)) {
            Some((size, unit)) => write!(f, "{}{unit}", self.0 / size),
            None if self.0 >= 1 << 20 => write!(f, "{:.1}m", self.0 as f64 / f64::from(1 << 20)),
            None => write!(f, "{}b", self.0),
        }
    }
}

/// The error of parsing a [`MemorySize`]: not a whole number with a known unit, or 2^64 bytes or more. Holds the text,
/// cut after 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not an amount of memory: a number with b, k, m, g or t (powers of 1024), e.g. 1728m"
)]
pub struct ParseMemoryError(pub String);

impl FromStr for MemorySize {
    type Err = ParseMemoryError;
    fn from_str(s: &str) -> Result<Self, ParseMemoryError> {
        let wrong = || ParseMemoryError(s.chars().take(64).collect());
        let text = s.trim().to_ascii_lowercase();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim() {
            "" | "b" | "bytes" => 0,
            "k" | "kb" | "kib" | "kibibytes" => 10,
            "m" | "mb" | "mib" | "mebibytes" => 20,
            "g" | "gb" | "gib" | "gibibytes" => 30,
            "t" | "tb" | "tib" | "tebibytes" => 40,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_parse_with_flinks_units() {
        assert_eq!("1728m".parse(), Ok(MemorySize::from_mib(1728)));
        assert_eq!("1 gb".parse(), Ok(MemorySize::from_mib(1024)));
        assert_eq!("42".parse(), Ok(MemorySize(42)));
        assert!("1x".parse::<MemorySize>().is_err());
        assert!("99999999999t".parse::<MemorySize>().is_err());
    }

    #[test]
    fn amounts_print_in_the_largest_exact_unit() {
        assert_eq!(MemorySize::from_mib(1728).to_string(), "1728m");
        assert_eq!(MemorySize(1 << 31).to_string(), "2g");
        assert_eq!(MemorySize(5).to_string(), "5b");
    }
}
