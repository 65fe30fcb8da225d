//! Election drivers: one lease per process for all components that it leads, and the record of who holds it.
//!
//! A driver hands out the lease with a counter that only grows, and says where the holder's process is.
//! It must never know which components are led, and never decide what a lost lease means.

mod contest;
mod embedded;
mod filesystem;
mod identity;
mod lease;
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
    /// The store's counter: the highest one wins, a lower one is refused.
    pub store_epoch: u64,
    /// Where its fabric answers, `host:port`.
    pub node: String,
    /// Where its REST endpoint answers, for clients; empty where it has none.
    pub rest: String,
    /// Which process it is on its machine, see [`process_identity`]; empty: not known.
    pub identity: String,
}

/// Who stands for the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where its fabric answers, `host:port`.
    pub node: String,
    /// Where its REST endpoint answers; empty where it has none.
    pub rest: String,
}

/// What happened to the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEvent {
    /// It is held from now on, with this counter: higher than any before.
    Granted {
        /// The store's counter.
        store_epoch: u64,
    },
    /// It is held no more. It may be granted again, with a higher counter.
    Lost,
}

/// An election among processes.
pub trait ElectionDriver: Send + Sync + fmt::Debug {
    /// Stands for the lease until the answer is dropped or resigned.
    fn campaign(&self, candidate: Candidate) -> Campaign;
    /// Watches the record of the process that holds the lease; `None` until a record is known.
    fn leader(&self) -> watch::Receiver<Option<LeaderRecord>>;
    /// Returns the lease of this process's campaign.
    fn lease(&self) -> Lease;
}

/// A process's place in the election. Dropping it gives the lease up.
#[derive(Debug)]
pub struct Campaign {
    events: mpsc::Receiver<LeaseEvent>,
    /// Dropped: stop.
    stop: Option<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
}

/// The driver's side of a [`Campaign`].
#[derive(Debug)]
pub struct CampaignRun {
    /// Where events go, in order. Closed when nobody stands any more.
    pub events: mpsc::Sender<LeaseEvent>,
    /// Ends when the lease is to be given up.
    pub stop: oneshot::Receiver<()>,
    /// Dropped once it is.
    pub stopped: oneshot::Sender<()>,
}

impl Campaign {
    /// Both sides.
    pub fn new() -> (Self, CampaignRun) {
        let (events_in, events) = mpsc::channel(EVENTS_MAX);
        let (stop, stop_seen) = oneshot::channel();
        let (stopped_in, stopped) = oneshot::channel();
        let campaign = Self { events, stop: Some(stop), stopped };
        let run = CampaignRun { events: events_in, stop: stop_seen, stopped: stopped_in };
        (campaign, run)
    }

    /// The next event; `None` when the driver has ended.
    pub async fn next(&mut self) -> Option<LeaseEvent> {
        self.events.recv().await
    }

    /// Gives the lease up and waits until that is done.
    pub async fn resign(mut self) {
        self.stop.take();
        // Dropped or sent: either way the driver has finished.
        let _ = (&mut self.stopped).await;
    }
}
