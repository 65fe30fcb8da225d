//! Port settings: 0, a number, a list, a range, or a mixture.

use std::{fmt, ops::RangeInclusive, str::FromStr};
use thiserror::Error;

/// Ports that a process may bind, to be tried in order; 0 means any free port. Parses `0`, `50100`, `50100,50101` and `50100-50200` (from
/// the smaller to the larger, both included, not from 0; spaces around numbers are allowed), with at most 1,024 parts between commas. A
/// text with more parts is refused.
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
    /// Parses the parts of a setting, each a number or a range as in [`PortSpec`]; `None` if one is neither (a range that ends below its
    /// start or begins at 0 is none), or if there is no part or more than 1,024.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut ranges = Vec::new();
        for part in parts {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high): (u16, u16) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            // More parts than there are ports say the same port twice.
            if high < low || (low == 0 && high != 0) || ranges.len() >= 1024 {
                return None;
            }
            ranges.push(low..=high);
        }
        (!ranges.is_empty()).then_some(Self(ranges))
    }
    /// Iterates over all ports to try, in the order written; 0 stands for any free one. A port that is written twice comes twice.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().cloned().flatten()
    }
    /// Returns the first of the ports, which a client dials if it needs one number. 0 if that is the system's choice,
    /// which cannot be dialled.
    pub fn first(&self) -> u16 {
        self.iter().next().unwrap_or(0)
    }
    /// Returns true if there is exactly one port to try, and it is not 0; false for 0, for a range or list of several, and for one port
    /// written twice.
    pub fn is_fixed(&self) -> bool {
        let mut ports = self.iter();
        ports.next().is_some_and(|port| port != 0) && ports.next().is_none()
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
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}", range.start())?;
            if range.start() != range.end() {
                write!(f, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}

/// The error of parsing a [`PortSpec`]: a part of the text is no number from 0 to 65535 and no range of two, a range ends below its start
/// or begins at 0, or there are more than 1,024 parts. Holds the text, cut after 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a port setting: 0, a number, a list (50100,50101) or a range (50100-50200)")]
pub struct ParsePortsError(String);

impl FromStr for PortSpec {
    type Err = ParsePortsError;

    fn from_str(text: &str) -> Result<Self, ParsePortsError> {
        Self::of_parts(text.split(','))
            .ok_or_else(|| ParsePortsError(text.chars().take(64).collect()))
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
        assert!(ports("0-7").is_err());
        assert_eq!(ports(&vec!["1"; 1_024].join(",")).map(|all| all.len()), Ok(1_024));
        assert!(ports(&vec!["1"; 1_025].join(",")).is_err());
        assert_eq!("1,3-4".parse::<PortSpec>().unwrap().to_string(), "1,3-4");
    }
}
