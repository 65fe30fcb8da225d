//! Where the two ends of an edge find each other in a producing process: consumers, local or remote, say which
//! attempts of the producers they mean; producers look their consumers up with the first element. One table per
//! edge, not one per channel. It must never hold data.

use super::{gate::Gate, outflow::LinkOut};
use crate::{lock, task::TaskSignal};
use model::EdgeId;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// One edge of one execution graph.
pub(super) struct Hub {
    edge: EdgeId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By consuming subtask.
    consumers: BTreeMap<u32, Consumer>,
    /// Newest attempt of each producing subtask that was here.
    producers: BTreeMap<u32, u32>,
    /// Producers that found no consumer, by consuming and producing subtask.
    waiting: BTreeMap<(u32, u32), TaskSignal>,
}

struct Consumer {
    attempt: u32,
    target: Target,
}

/// Where a consumer is.
#[derive(Clone)]
pub(super) enum Target {
    /// In this process.
    Local(Arc<LocalTarget>),
    /// In another one.
    Remote(Arc<LinkOut>),
}

/// A gate, and which channels of it belong to this edge.
pub(super) struct LocalTarget {
    pub(super) gate: Arc<Gate>,
    /// Channel of producer 0; on a forward edge, of the only one.
    pub(super) base: u32,
    pub(super) expected: Expected,
}

/// The attempts of producers that a consumer means.
pub(super) enum Expected {
    /// Of one subtask: subtask, attempt.
    One(u32, u32),
    /// Of all, by subtask; shared by all consumers of the edge: attempt, address.
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
    /// The gate's channel of a producer.
    pub(super) fn channel(&self, producer: u32) -> u32 {
        match &self.expected {
            Expected::One(..) => self.base,
            Expected::All(_) => self.base + producer,
        }
    }
}

/// What a producer finds for one of its channels.
pub(super) enum Found {
    /// Its consumer.
    Target(Target),
    /// Nobody yet; the producer will be woken.
    NotYet,
    /// Its consumer means a later attempt.
    Superseded {
        /// Which.
        expected: u32,
    },
}

/// A later attempt of the same consumer is there already.
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

    /// Puts a consumer in the place of an earlier attempt, and wakes the producers that wait for it.
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
            state.consumers.insert(subtask, Consumer { attempt, target });
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

    /// A local consumer is gone; its place is kept with the attempt, so that an earlier one stays refused.
    pub(super) fn forget_gate(&self, subtask: u32, gate: &Arc<Gate>) {
        let mut state = lock(&self.state);
        if let Some(Consumer { target: Target::Local(there), .. }) = state.consumers.get(&subtask)
            && Arc::ptr_eq(&there.gate, gate)
        {
            state.consumers.remove(&subtask);
        }
    }

    /// A remote consumer is gone.
    pub(super) fn forget_link(&self, link: &LinkOut) {
        let mut state = lock(&self.state);
        if let Some(Consumer { target: Target::Remote(there), .. }) =
            state.consumers.get(&link.consumer.0)
            && there.is(link)
        {
            state.consumers.remove(&link.consumer.0);
        }
    }

    /// A producer is here from now on.
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
        lock(&self.state).consumers.contains_key(&subtask)
    }

    /// The newest attempt of a producer that was here.
    pub(super) fn producer(&self, subtask: u32) -> Option<u32> {
        lock(&self.state).producers.get(&subtask).copied()
    }

    /// The consumer of a producer's channel.
    pub(super) fn find(
        &self,
        consumer: u32,
        producer: u32,
        attempt: u32,
        signal: &TaskSignal,
    ) -> Found {
        let mut state = lock(&self.state);
        let expected = state.consumers.get(&consumer).and_then(|there| match &there.target {
            Target::Local(target) => target.expected.attempt(producer),
            Target::Remote(link) => link.expected(producer),
        });
        match expected {
            Some(expected) if expected > attempt => Found::Superseded { expected },
            Some(expected) if expected == attempt => match state.consumers.get(&consumer) {
                Some(there) => Found::Target(there.target.clone()),
                None => Found::NotYet,
            },
            _ => {
                state.waiting.insert((consumer, producer), signal.clone());
                Found::NotYet
            }
        }
    }
}
