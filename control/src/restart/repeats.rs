//! Decides which failures of a job are logged: a failure that repeats is logged once, then with a count. A pure function of the
//! time that its caller passes. This module must never decide how the job reacts to a failure.

use std::time::Duration;

/// Maximum time for which repetitions of a failure are only counted.
const SILENT_FOR: Duration = Duration::from_secs(60);

/// Decides which failures of a job are logged, so that one that repeats fills no log: keeps the failure that was logged last, and how often
/// it has come again since. Logs nothing itself. The JobMaster has one for each job.
#[derive(Debug, Clone, Default)]
pub struct Repeats {
    logged: Option<(String, Duration)>,
    unlogged: u64,
}

impl Repeats {
    /// Counts a failure at `now` (monotonic), and decides whether it is logged. Failures count as the same if their `words`
    /// agree without the digits, which are often those of a record or an attempt. `None`: the failure repeats the one that
    /// was logged last, less than a minute ago; do not log it. `Some(n)`: log it; the failure that was logged before it had
    /// come `n` more times without being logged, not counting those that [`Repeats::take`] has returned.
    pub fn count(&mut self, words: &str, now: Duration) -> Option<u64> {
        let words: String = words.chars().filter(|c| !c.is_ascii_digit()).collect();
        let repeats = self
            .logged
            .as_ref()
            .is_some_and(|(logged, at)| *logged == words && now.saturating_sub(*at) < SILENT_FOR);
        if repeats {
            self.unlogged = self.unlogged.saturating_add(1);
            return None;
        }
        self.logged = Some((words, now));
        Some(self.take())
    }

    /// Returns true if the failure that was logged last came again since, so that a count waits to be logged. The JobMaster logs it with
    /// its next line, and meanwhile not that the job is RUNNING again.
    pub fn is_counting(&self) -> bool {
        self.unlogged > 0
    }

    /// Returns how often the failure that was logged last came again since, and sets that number to 0. Which failure was logged last, and
    /// when, stays known.
    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.unlogged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_repeats_is_logged_once_and_then_with_a_count() {
        let mut repeats = Repeats::default();
        let at = Duration::from_secs;
        assert_eq!(repeats.count("disk full, attempt 0", at(0)), Some(0));
        for second in 1..=50 {
            let words = format!("disk full, attempt {second}");
            assert_eq!(repeats.count(&words, at(second)), None);
        }
        assert_eq!(repeats.count("host lost", at(51)), Some(50), "another one");
        assert_eq!(repeats.count("host lost", at(52)), None);
        assert_eq!(repeats.count("host lost", at(111)), Some(1), "a minute later");
        assert_eq!(repeats.count("host lost", at(112)), None);
        assert_eq!((repeats.take(), repeats.take()), (1, 0));
    }
}
