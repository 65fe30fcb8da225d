//! Limits the log lines about peers that did not prove themselves, so that a stranger who reaches
//! a port cannot fill the disk.
//!
//! This module must never decide whether a peer is refused, only whether the refusal is logged.

use std::time::Duration;

/// Number of lines in each period; refusals beyond it are counted, and the count is logged with the
/// first line of a later period.
const LINES: u32 = 10;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(60);

/// The number of log lines about refused peers of one port: at most ten in a minute, further refusals are only counted.
#[derive(Debug, Default)]
pub struct Strangers {
    since: Duration,
    logged: u32,
    kept_back: u64,
}

impl Strangers {
    /// Records that a peer was refused at `now` (monotonic). Returns the number of refusals before this one that were not logged, if the
    /// caller is to log this one with that number; `None` if this one is only counted.
    pub fn refused(&mut self, now: Duration) -> Option<u64> {
        if now.saturating_sub(self.since) >= PERIOD {
            self.since = now;
            self.logged = 0;
        }
        if self.logged >= LINES {
            self.kept_back = self.kept_back.saturating_add(1);
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.kept_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_strangers_is_a_few_lines_and_a_count() {
        let mut strangers = Strangers::default();
        let flood = |s: &mut Strangers, at: u64| {
            (0..1000).filter_map(|_| s.refused(Duration::from_secs(at))).collect::<Vec<_>>()
        };
        assert_eq!(flood(&mut strangers, 1), [0; 10]);
        let later = flood(&mut strangers, 61);
        assert_eq!((later.len(), later[0], later[1]), (10, 990, 0));
    }
}
