//! The obstacle to finding leaders: logged once, and handed to a component that has to give up
//! because of it.
//!
//! This module decides nothing about leaders: the last known ones stay valid.

use gateways::FabricError;
use std::time::Duration;

/// Shortest time before another text is logged.
const TELL_OTHER: Duration = Duration::from_secs(5);
/// Time after which the same text is logged again.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Time for which a process refuses this one before that counts as final: secrets and cluster ids
/// are read once, at the start.
const GIVE_UP: Duration = Duration::from_secs(10);

/// The obstacle, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Obstacle {
    why: Option<String>,
    logged: Option<(Duration, String)>,
    refused_since: Option<Duration>,
}

/// The reaction to a failed question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// The obstacle is known already: log nothing.
    Quiet,
    /// The obstacle is new, or was last reported long enough ago: log it.
    Tell,
    /// Further tries are in vain.
    GiveUp,
}

impl Obstacle {
    /// Records that a question could not be sent, or was refused, at `now` (monotonic). Returns
    /// what to do.
    pub(super) fn met(&mut self, now: Duration, error: &FabricError) -> Reaction {
        let why = error.to_string();
        let refused =
            matches!(error, FabricError::Forbidden { .. } | FabricError::Incompatible { .. });
        self.refused_since = refused.then(|| self.refused_since.unwrap_or(now));
        self.why = Some(why.clone());
        if self.refused_since.is_some_and(|since| now.saturating_sub(since) >= GIVE_UP) {
            return Reaction::GiveUp;
        }
        let quiet = self.logged.as_ref().is_some_and(|(at, text)| {
            let pause = if *text == why { TELL_AGAIN } else { TELL_OTHER };
            now.saturating_sub(*at) < pause
        });
        if quiet {
            return Reaction::Quiet;
        }
        self.logged = Some((now, why));
        Reaction::Tell
    }

    /// Records that a question was answered. Returns true if an obstacle had been logged.
    pub(super) fn overcome(&mut self) -> bool {
        self.why = None;
        self.refused_since = None;
        self.logged.take().is_some()
    }

    /// Returns the present obstacle, `None` if there is none.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> FabricError {
        FabricError::Forbidden { why: "the peer does not know this cluster's secret".into() }
    }

    fn overloaded(what: &str) -> FabricError {
        FabricError::Overloaded { what: what.into() }
    }

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn an_obstacle_is_told_once_and_another_one_soon() {
        let mut obstacle = Obstacle::default();
        assert_eq!(obstacle.met(S(0), &overloaded("a")), Reaction::Tell);
        assert_eq!(obstacle.met(S(1), &overloaded("a")), Reaction::Quiet);
        assert_eq!(obstacle.met(S(2), &overloaded("b")), Reaction::Quiet);
        assert_eq!(obstacle.met(S(6), &overloaded("b")), Reaction::Tell);
        assert_eq!(obstacle.met(S(65), &overloaded("b")), Reaction::Quiet);
        assert_eq!(obstacle.met(S(66), &overloaded("b")), Reaction::Tell);
        assert_eq!(obstacle.why(), Some("overloaded: b"));
        assert!(obstacle.overcome());
        assert!(!obstacle.overcome());
        assert_eq!(obstacle.why(), None);
    }

    #[test]
    fn who_is_refused_all_the_time_gives_up() {
        let mut obstacle = Obstacle::default();
        assert_eq!(obstacle.met(S(0), &forbidden()), Reaction::Tell);
        assert_eq!(obstacle.met(S(9), &forbidden()), Reaction::Quiet);
        // Somebody else answered in between: another process has the address.
        assert_eq!(obstacle.met(S(9), &overloaded("a")), Reaction::Tell);
        assert_eq!(obstacle.met(S(11), &forbidden()), Reaction::Quiet);
        assert_eq!(obstacle.met(S(21), &forbidden()), Reaction::GiveUp);
    }
}
