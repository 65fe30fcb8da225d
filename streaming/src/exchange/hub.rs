//! The table by which the two ends of an edge find each other in a producing process. Consumers, local or remote, register
//! with the attempts of the producers that they expect; producers look up their consumers with the first element. There is one
//! table per edge, not one per channel. It must never hold data.

use super::{gate::Gate, outflow::LinkOut};
use crate::{lock, task::TaskSignal};
use model::EdgeId;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// The table of one edge of one execution graph.
pub(super) struct Hub {
    edge: EdgeId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest attempt of each consuming subtask that has registered, by subtask.
    consumers: BTreeMap<u32, Consumer>,
    /// The newest attempt of each producing subtask that has opened its output here.
    producers: BTreeMap<u32, u32>,
    /// Signals of the producers that found no consumer, by consuming and producing subtask.
    waiting: BTreeMap<(u32, u32), TaskSignal>,
}

struct Consumer {
    attempt: u32,
    /// The attempt's place; `None` after the attempt was aborted. The entry remains, so that earlier attempts stay refused.
    target: Option<Target>,
}

/// The place of a consumer.
#[derive(Clone)]
pub(super) enum Target {
    /// A consumer in this process.
    Local(Arc<LocalTarget>),
    /// A consumer in another process.
    Remote(Arc<LinkOut>),
}

/// A consumer's gate, and the gate's channels that belong to this edge.
pub(super) struct LocalTarget {
    pub(super) gate: Arc<Gate>,
    /// Channel of producer 0, or of the only producer on a forward edge.
    pub(super) base: u32,
    pub(super) expected: Expected,
}

/// The attempts of its producers that a consumer expects.
pub(super) enum Expected {
    /// One producer: subtask, attempt.
    One(u32, u32),
    /// All producers, by subtask: attempt, address index. The table is shared by all consumers of the edge.
    All(Arc<[(u32, u32)]>),
}

impl Expected {
    fn attempt(&self, producer: u32) -> Option<u32> {
        match self {
            Self::One(subtask, attempt) => (*subtask == producer).then_some(*attempt),
            Self::All(table) => table.get(producer as usize).map(|(attempt, _)| *attempt),
        }
    }
}

impl LocalTarget {
    /// Returns the gate's channel of a producer.
    pub(super) fn channel(&self, producer: u32) -> u32 {
        match &self.expected {
            Expected::One(..) => self.base,
            Expected::All(_) => self.base + producer,
        }
    }
}

/// The result of a producer's lookup for one of its channels.
pub(super) enum Found {
    /// The channel's consumer.
    Target(Target),
    /// No consumer that expects this attempt is registered yet; the producer will be woken when one registers.
    NotYet,
    /// The consumer expects a later attempt of the producer.
    Superseded {
        /// The attempt that the consumer expects.
        expected: u32,
    },
}

/// The error of an attempt whose subtask is registered with a later attempt, `by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Superseded {
    pub(super) by: u32,
}

impl Hub {
    pub(super) fn new(edge: EdgeId) -> Self {
        Self { edge, state: Mutex::new(State::default()) }
    }

    pub(super) fn edge(&self) -> EdgeId {
        self.edge
    }

    /// Registers a consumer, replacing an earlier attempt, and wakes the producers that wait for it.
    pub(super) fn put_consumer(
        &self,
        subtask: u32,
        attempt: u32,
        target: Target,
    ) -> Result<(), Superseded> {
        let wake: Vec<TaskSignal> = {
            let mut state = lock(&self.state);
            if let Some(there) = state.consumers.get(&subtask)
                && there.attempt > attempt
            {
                return Err(Superseded { by: there.attempt });
            }
            state.consumers.insert(subtask, Consumer { attempt, target: Some(target) });
            let keys: Vec<_> = state
                .waiting
                .range((subtask, 0)..=(subtask, u32::MAX))
                .map(|(key, _)| *key)
                .collect();
            keys.iter().filter_map(|key| state.waiting.remove(key)).collect()
        };
        for producer in wake {
            producer.raise();
        }
        Ok(())
    }

    /// Removes a local consumer, unless a later attempt has replaced it. Earlier attempts of its subtask stay refused.
    pub(super) fn forget_gate(&self, subtask: u32, gate: &Arc<Gate>) {
        self.forget(subtask, |target| match target {
            Target::Local(there) => Arc::ptr_eq(&there.gate, gate),
            Target::Remote(_) => false,
        });
    }

    /// Removes a remote consumer, unless a later attempt has replaced it. Earlier attempts of its subtask stay refused.
    pub(super) fn forget_link(&self, link: &LinkOut) {
        self.forget(link.consumer.0, |target| match target {
            Target::Local(_) => false,
            Target::Remote(there) => there.is(link),
        });
    }

    /// Removes the place of a subtask's newest attempt if `is_meant` returns true for it.
    fn forget(&self, subtask: u32, is_meant: impl FnOnce(&Target) -> bool) {
        if let Some(Consumer { target, .. }) = lock(&self.state).consumers.get_mut(&subtask) {
            target.take_if(|target| is_meant(target));
        }
    }

    /// Records that an attempt of a producing subtask has opened its output here.
    pub(super) fn put_producer(&self, subtask: u32, attempt: u32) -> Result<(), Superseded> {
        let mut state = lock(&self.state);
        let newest = state.producers.entry(subtask).or_insert(attempt);
        if *newest > attempt {
            return Err(Superseded { by: *newest });
        }
        *newest = attempt;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn has_consumer(&self, subtask: u32) -> bool {
        lock(&self.state).consumers.get(&subtask).is_some_and(|there| there.target.is_some())
    }

    /// Returns the newest attempt of a producing subtask that has opened its output here.
    pub(super) fn producer(&self, subtask: u32) -> Option<u32> {
        lock(&self.state).producers.get(&subtask).copied()
    }

    /// Looks up the consumer of a producer's channel. If none expects this attempt, `signal` is raised when one registers.
    pub(super) fn find(
        &self,
        consumer: u32,
        producer: u32,
        attempt: u32,
        signal: &TaskSignal,
    ) -> Found {
        let mut state = lock(&self.state);
        let target = state.consumers.get(&consumer).and_then(|there| there.target.clone());
        let expected = target.as_ref().and_then(|target| match target {
            Target::Local(target) => target.expected.attempt(producer),
            Target::Remote(link) => link.expected(producer),
        });
        match (expected, target) {
            (Some(expected), _) if expected > attempt => Found::Superseded { expected },
            (Some(expected), Some(target)) if expected == attempt => Found::Target(target),
            _ => {
                state.waiting.insert((consumer, producer), signal.clone());
                Found::NotYet
            }
        }
    }
}
