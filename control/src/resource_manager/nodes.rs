//! Nodes that get no new slots or workers for a while: blocked by somebody, or because workers failed to start there.
//!
//! It must never keep a node for ever: each entry has an end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thiserror::Error;

/// Maximum number of nodes that are blocked at the same time.
pub const BLOCKED_MAX: usize = 10_000;

/// The limit of blocked nodes is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{BLOCKED_MAX} nodes are blocked already; unblock some of them first")]
pub struct TooManyBlocked;

/// A node that is blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// When the block ends, on the monotonic clock.
    pub until: Duration,
    /// The reason that was given for the block.
    pub cause: String,
}

/// Blocked nodes and nodes with failed starts, each with the time when it is forgotten.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    blocked: BTreeMap<String, Blocked>,
    failed: BTreeMap<String, Duration>,
    /// Blocked and failed nodes together, as they were answered last by [`Nodes::newly_avoided`].
    avoided: BTreeSet<String>,
    /// Whether an entry came or went since then.
    changed: bool,
}

impl Nodes {
    pub(super) fn blocked(&self) -> &BTreeMap<String, Blocked> {
        &self.blocked
    }

    /// Blocks a node for `period`; a block of the node that ends later stands as it is. Returns the block that holds.
    pub(super) fn block(
        &mut self,
        now: Duration,
        node: &str,
        period: Duration,
        cause: String,
    ) -> Result<Blocked, TooManyBlocked> {
        let until = now.saturating_add(period);
        let full = self.blocked.len() >= BLOCKED_MAX;
        let new = Blocked { until, cause };
        match self.blocked.get_mut(node) {
            Some(blocked) if blocked.until >= until => Ok(blocked.clone()),
            None if full => Err(TooManyBlocked),
            before => {
                self.changed |= before.is_none();
                self.blocked.insert(node.to_owned(), new.clone());
                Ok(new)
            }
        }
    }

    /// Ends the block of a node, and forgets the failed starts there. Returns whether the node was blocked.
    pub(super) fn unblock(&mut self, node: &str) -> bool {
        let failed = self.failed.remove(node).is_some();
        let blocked = self.blocked.remove(node).is_some();
        self.changed |= failed || blocked;
        blocked
    }

    /// Records that a worker failed to start on a node, which is avoided until `until`.
    pub(super) fn fail(&mut self, node: String, until: Duration) {
        self.changed |= self.failed.insert(node, until).is_none();
    }

    /// Forgets what is over at `now`. Returns whether a block ended.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        let before = (self.blocked.len(), self.failed.len());
        self.blocked.retain(|_, blocked| blocked.until > now);
        self.failed.retain(|_, until| *until > now);
        self.changed |= before != (self.blocked.len(), self.failed.len());
        before.0 != self.blocked.len()
    }

    /// Returns all nodes to be avoided if they are others than at the last call, else `None`.
    pub(super) fn newly_avoided(&mut self) -> Option<Vec<String>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let avoided: BTreeSet<String> =
            self.blocked.keys().chain(self.failed.keys()).cloned().collect();
        if avoided == self.avoided {
            return None;
        }
        self.avoided = avoided;
        Some(self.avoided.iter().cloned().collect())
    }
}
