//! Election drivers: one lease per process for all components that it leads, and the record of the process that holds
//! it.
//!
//! A driver grants the lease with a counter that only rises, and publishes the address of the holder. It must never
//! know which components lead, and never decide what a lost lease means.

mod contest;
mod embedded;
mod filesystem;
mod identity;
mod lease;
mod store_id;
#[cfg(test)]
mod tests;

pub use embedded::EmbeddedElection;
pub use filesystem::{FileElection, FileElectionSettings};
pub use identity::{is_gone, process_identity};
pub use lease::Lease;

use platform::watch;
use serde::{Deserialize, Serialize};
use std::fmt;
use tokio::sync::{mpsc, oneshot};

/// Events that a contender may leave unread; a lease changes hands rarely.
const EVENTS_MAX: usize = 16;

/// The process that holds, or last held, the lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaderRecord {
    /// The store's counter. The record with the highest counter is valid; lower ones are refused.
    pub store_epoch: u64,
    /// The address of the process's fabric, `host:port`.
    pub node: String,
    /// The address of its REST endpoint, for clients; empty if it has none.
    pub rest: String,
    /// The identity of the process on its machine, see [`process_identity`]; empty if unknown.
    pub identity: String,
}

/// A process that stands for the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The address of the process's fabric, `host:port`.
    pub node: String,
    /// The address of its REST endpoint; empty if it has none.
    pub rest: String,
}

/// A change of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEvent {
    /// The process holds the lease from now on, with a higher counter than any before.
    Granted {
        /// Counter of leaderships in the store.
        store_epoch: u64,
    },
    /// The process no longer holds the lease. It may be granted again, with a higher counter.
    Lost,
}

/// A driver by which processes of a cluster elect one leader.
pub trait ElectionDriver: Send + Sync + fmt::Debug {
    /// Stands for the lease until the answer is dropped or resigned.
    fn campaign(&self, candidate: Candidate) -> Campaign;
    /// Watches the record of the process that holds the lease; `None` until a record is known.
    fn leader(&self) -> watch::Receiver<Option<LeaderRecord>>;
    /// Returns the lease of this process's campaign.
    fn lease(&self) -> Lease;
}

/// A process's candidacy in the election. Dropping it gives the lease up.
#[derive(Debug)]
pub struct Campaign {
    events: mpsc::Receiver<LeaseEvent>,
    /// Dropping the sender tells the driver to stop.
    stop: Option<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
}

/// The driver's side of a [`Campaign`].
#[derive(Debug)]
pub struct CampaignRun {
    /// The channel for the lease's events, in order. Closed when the campaign is dropped.
    pub events: mpsc::Sender<LeaseEvent>,
    /// Ends when the lease is to be given up.
    pub stop: oneshot::Receiver<()>,
    /// Dropped once the lease is given up.
    pub stopped: oneshot::Sender<()>,
}

impl Campaign {
    /// Returns both sides of a new campaign.
    pub fn new() -> (Self, CampaignRun) {
        let (events_in, events) = mpsc::channel(EVENTS_MAX);
        let (stop, stop_seen) = oneshot::channel();
        let (stopped_in, stopped) = oneshot::channel();
        let campaign = Self { events, stop: Some(stop), stopped };
        let run = CampaignRun { events: events_in, stop: stop_seen, stopped: stopped_in };
        (campaign, run)
    }

    /// Waits for the next event; returns `None` when the driver has ended.
    pub async fn next(&mut self) -> Option<LeaseEvent> {
        self.events.recv().await
    }

    /// Gives the lease up and waits until that is done.
    pub async fn resign(mut self) {
        self.stop.take();
        // The driver has finished in either case.
        let _ = (&mut self.stopped).await;
    }
}
