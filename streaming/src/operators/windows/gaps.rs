//! Session gaps: how long a key must be without records for its session to end.

use super::whole_ms;
use std::time::Duration;

/// Computes the gap after a record of a session window: the session ends if no further record of the key comes within the gap. Each subtask
/// works on its own clone, which its session operator asks once for every record. Program code does not implement it: [`FixedGap`] and
/// [`GapOf`] do, which the constructors of sessions make.
///
/// ```
/// use std::time::Duration;
/// use streaming::{
///     Stream,
///     operators::{EventTimeSessionWindows, FixedGap, GapOf, SessionGap},
/// };
///
/// /// A user and the seconds that this user is waited for.
/// type Click = (u64, u64);
///
/// /// Counts the clicks of each visit, whichever gap ends it.
/// fn visits<G: SessionGap<Click>>(
///     clicks: &Stream<Click>,
///     sessions: EventTimeSessionWindows<G>,
/// ) -> Stream<(u64, u64)> {
///     clicks.key_by(|(user, _)| user).window(sessions).count()
/// }
///
/// let _same: EventTimeSessionWindows<FixedGap> =
///     EventTimeSessionWindows::with_gap(Duration::from_secs(30));
/// let _by_user: EventTimeSessionWindows<GapOf<_>> =
///     EventTimeSessionWindows::with_dynamic_gap(|(_, patience_s): &Click| {
///         Duration::from_secs(*patience_s)
///     });
/// ```
pub trait SessionGap<T>: Clone + Send + 'static {
    #[doc(hidden)]
    /// Returns the gap after `record` in milliseconds. Called once for each record, also a late one. A gap below 1 fails the task with
    /// `TaskError::User`.
    fn gap_ms(&mut self, record: &T) -> i64;
    #[doc(hidden)]
    /// Returns the reason why the gap is invalid for every record, for the error of the build; `None` if it may be valid. Called
    /// when the program is built. `None` by default.
    fn mistake(&self) -> Option<&'static str> {
        None
    }
}

/// A session gap that is the same after every record, in milliseconds, from `with_gap`. Below 1 ms it makes the program invalid.
#[derive(Debug, Clone, Copy)]
pub struct FixedGap(pub(super) i64);

impl<T> SessionGap<T> for FixedGap {
    #[inline]
    fn gap_ms(&mut self, _record: &T) -> i64 {
        self.0
    }
    fn mistake(&self) -> Option<&'static str> {
        (self.0 < 1)
            .then_some("the session gap is shorter than 1 ms; give 'with_gap' at least 1 ms")
    }
}

/// A session gap that a function computes from the record, rounded down to whole milliseconds, from `with_dynamic_gap`. Below 1 ms it fails
/// the task with `TaskError::User`.
#[derive(Debug, Clone, Copy)]
pub struct GapOf<F>(pub(super) F);

impl<T, F: FnMut(&T) -> Duration + Clone + Send + 'static> SessionGap<T> for GapOf<F> {
    #[inline]
    fn gap_ms(&mut self, record: &T) -> i64 {
        whole_ms((self.0)(record))
    }
}
