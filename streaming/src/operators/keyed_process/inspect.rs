//! The view of a keyed operator that tests have.

use super::{KeyedOperator, KeyedProcessFunction};
use crate::operators::{
    KeySelector,
    timers::{Queue, TimeDomain, Timer},
};

/// The access of a test (`testing::OperatorHarness`) to the keyed state and the timers of an operator that keeps its state in memory: a
/// fold, a keyed function, also one of two streams or with a broadcast stream, or windows by count. Windows of time do not have it.
pub trait InspectKeyed {
    /// The type of the keys.
    type Key;
    /// The type of a key's state.
    type State;
    /// Returns the state of a key, `None` if the key has none.
    fn state(&self, key: &Self::Key) -> Option<&Self::State>;
    /// Returns the timers that are set, with their keys: those of event time first, each clock's in the order of firing. Empty for an
    /// operator without timers, such as a fold.
    fn timers(&self) -> Vec<(Self::Key, Timer)>;
}

impl<T, S, F> InspectKeyed for KeyedOperator<T, S, F>
where
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
{
    type Key = S::Key;
    type State = F::State;
    fn state(&self, key: &S::Key) -> Option<&F::State> {
        let at = self.resident.groups().address(key);
        self.resident.backend.get(at, key)
    }
    fn timers(&self) -> Vec<(S::Key, Timer)> {
        let of = |queue: &Queue<S::Key>, domain| -> Vec<(S::Key, Timer)> {
            let timer =
                |(timestamp, key): (i64, &S::Key)| (key.clone(), Timer { timestamp, domain });
            queue.iter().map(timer).collect()
        };
        let mut timers = of(&self.timers.event, TimeDomain::EventTime);
        timers.append(&mut of(&self.timers.processing, TimeDomain::ProcessingTime));
        timers
    }
}
