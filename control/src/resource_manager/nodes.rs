//! Nodes that get no new slots or TaskManagers for a while: an operator blocked them, or workers failed to start there.
//!
//! This module must never keep a node for ever: each entry has an end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thiserror::Error;

/// Maximum number of nodes that are blocked at the same time; blocking another one is refused with [`TooManyBlocked`] until a block ends. A
/// node that is blocked already may still be blocked for longer.
pub const BLOCKED_MAX: usize = 10_000;

/// The error of [`ResourceManager::block`](super::ResourceManager::block) that
/// [`BLOCKED_MAX`] other nodes are blocked already; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{BLOCKED_MAX} nodes are blocked already; unblock some of them first")]
pub struct TooManyBlocked;

/// The block of a node by an operator (over REST), for a limited time: no new slots or TaskManagers are placed there; slots in use and
/// running TaskManagers stay, but TaskManagers there that a driver started are released when they have been idle for the idle time-out,
/// even while jobs wait for slots. It ends at `until`, earlier if the operator unblocks the node or the ResourceManager's leadership ends
/// (it is kept in memory only). Nodes that are avoided after failed starts have no `Blocked`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The end of the block (monotonic); the first [`tick`](super::ResourceManager::tick) from then on removes the block.
    pub until: Duration,
    /// The reason for the block that the operator gave, for the list of blocked nodes; that of the block that ends last, if there were
    /// several.
    pub cause: String,
}

/// Blocked nodes and nodes with failed starts, each with the end of its entry.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    blocked: BTreeMap<String, Blocked>,
    failed: BTreeMap<String, Duration>,
    /// Blocked and failed nodes together, as [`Nodes::newly_avoided`] last returned them.
    avoided: BTreeSet<String>,
    /// True if an entry was added or removed since then.
    changed: bool,
}

impl Nodes {
    pub(super) fn blocked(&self) -> &BTreeMap<String, Blocked> {
        &self.blocked
    }

    /// Blocks a node for `period`; an existing block that ends later stays. Returns the block that holds.
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

    /// Unblocks a node and forgets the failed starts there. Returns true if the node was blocked.
    pub(super) fn unblock(&mut self, node: &str) -> bool {
        let failed = self.failed.remove(node).is_some();
        let blocked = self.blocked.remove(node).is_some();
        self.changed |= failed || blocked;
        blocked
    }

    /// Records that a worker failed to start on a node; the node is avoided until `until` (monotonic).
    pub(super) fn fail(&mut self, node: String, until: Duration) {
        self.changed |= self.failed.insert(node, until).is_none();
    }

    /// Removes the entries that have ended at `now`. Returns true if a block ended.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        let before = (self.blocked.len(), self.failed.len());
        self.blocked.retain(|_, blocked| blocked.until > now);
        self.failed.retain(|_, until| *until > now);
        self.changed |= before != (self.blocked.len(), self.failed.len());
        before.0 != self.blocked.len()
    }

    /// Returns all nodes to be avoided if the set has changed since the last call, otherwise `None`.
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
