//! Port settings: 0, a number, a list, a range, or a mixture. Parsing only; nothing is bound here.

use std::{fmt, ops::RangeInclusive, str::FromStr};
use thiserror::Error;

/// Ports that a process may bind, to be tried in order; 0 means any free port. Parses `0`, `50100`, `50100,50101` and `50100-50200` (both
/// ends included; spaces around numbers are allowed), with at most 1,024 parts between commas; a text with more is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec(Vec<RangeInclusive<u16>>);

impl PortSpec {
    /// Returns the port setting that means any free port.
    pub fn any() -> Self {
        Self::one(0)
    }
    /// Returns the setting that allows only `port` (0: any free one).
    pub fn one(port: u16) -> Self {
        Self(vec![port..=port])
    }
    /// Iterates over all ports to try, in order; 0 stands for any free one.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().cloned().flatten()
    }
}

impl Default for PortSpec {
    fn default() -> Self {
        Self::any()
    }
}

impl From<u16> for PortSpec {
    fn from(port: u16) -> Self {
        Self::one(port)
    }
}

impl From<Vec<u16>> for PortSpec {
    fn from(ports: Vec<u16>) -> Self {
        Self(ports.into_iter().map(|p| p..=p).collect())
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            if range.start() == range.end() {
                write!(f, "{}", range.start())?;
            } else {
                write!(f, "{}-{}", range.start(), range.end())?;
            }
        }
        Ok(())
    }
}

/// The error of parsing a [`PortSpec`]: a part of the text is no number from 0 to 65535 and no range of two, a range ends below its start,
/// or there are more than 1,024 parts. Holds the text, cut after 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a port setting: 0, a number, a list (50100,50101) or a range (50100-50200)")]
pub struct ParsePortsError(String);

impl FromStr for PortSpec {
    type Err = ParsePortsError;

    fn from_str(text: &str) -> Result<Self, ParsePortsError> {
        let wrong = || ParsePortsError(text.chars().take(64).collect());
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let low: u16 = low.trim().parse().map_err(|_| wrong())?;
            let high: u16 = high.trim().parse().map_err(|_| wrong())?;
            if high < low || ranges.len() >= 1024 {
                return Err(wrong());
            }
            ranges.push(low..=high);
        }
        Ok(Self(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_setting_is_a_number_a_list_or_a_range() {
        let ports = |text: &str| text.parse::<PortSpec>().map(|p| p.iter().collect::<Vec<_>>());
        assert_eq!(ports("0"), Ok(vec![0]));
        assert_eq!(ports("6123, 6125-6127"), Ok(vec![6123, 6125, 6126, 6127]));
        assert!(ports("").is_err());
        assert!(ports("70000").is_err());
        assert!(ports("10-5").is_err());
        assert_eq!("1,3-4".parse::<PortSpec>().unwrap().to_string(), "1,3-4");
    }
}
