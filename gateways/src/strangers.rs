//! What is logged of peers that did not prove themselves: whoever reaches the port may not fill the disk.
//!
//! It never decides whether a peer is refused, only whether that is told.

use std::time::Duration;

/// Lines a period; what is over is counted and told with the first line of a later one.
const LINES: u32 = 10;
/// The period.
const PERIOD: Duration = Duration::from_secs(60);

/// The lines of the current period.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    since: Duration,
    told: u32,
    kept_back: u64,
}

impl Strangers {
    /// A peer was refused at `now`. `Some`: tell it, and how many were not told before.
    pub(crate) fn refused(&mut self, now: Duration) -> Option<u64> {
        if now.saturating_sub(self.since) >= PERIOD {
            self.since = now;
            self.told = 0;
        }
        if self.told >= LINES {
            self.kept_back = self.kept_back.saturating_add(1);
            return None;
        }
        self.told += 1;
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
