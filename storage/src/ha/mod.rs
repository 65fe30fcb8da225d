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

/// The process that holds, or last held, the lease, as the election publishes it. Ordered by `store_epoch` first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaderRecord {
    /// The counter of the leadership. The record with the highest counter is valid; lower ones are ignored.
    pub store_epoch: u64,
    /// The RPC address (`host:port`) of the process.
    pub node: String,
    /// The address (`host:port`) of the process's REST endpoint, for clients; empty if it has none.
    pub rest: String,
    /// The identity of the process on its machine, see [`process_identity`], by which a rival on it sees that it has ended;
    /// empty if unknown.
    pub identity: String,
}

/// A process that stands for the lease, with the addresses that are published if it wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The RPC address (`host:port`) of the process.
    pub node: String,
    /// The address (`host:port`) of the process's REST endpoint; empty if it has none.
    pub rest: String,
}

/// A change of the lease of this process's campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEvent {
    /// The process holds the lease from now on, with a higher counter than any leader before.
    Granted {
        /// The counter of this leadership in the store.
        store_epoch: u64,
    },
    /// The process no longer holds the lease. It may be granted again, with a higher counter.
    Lost,
}

/// A driver by which the processes of a cluster elect one leader. Decides nothing about what the leader does.
pub trait ElectionDriver: Send + Sync + fmt::Debug {
    /// Makes this process stand for the lease, until the returned campaign is dropped or resigned. The lease's changes come
    /// through [`Campaign::next`].
    fn campaign(&self, candidate: Candidate) -> Campaign;
    /// Watches the record of the process that leads, of any process; the value is `None` until a record is known. Only newer
    /// records replace it.
    fn leader(&self) -> watch::Receiver<Option<LeaderRecord>>;
    /// Returns the lease of this process's campaign, to be checked before each write as the leader.
    fn lease(&self) -> Lease;
}

/// A process's candidacy in the election. Dropping it gives the lease up, without waiting.
#[derive(Debug)]
pub struct Campaign {
    events: mpsc::Receiver<LeaseEvent>,
    /// Dropping the sender tells the driver to stop.
    stop: Option<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
}

/// The election driver's side of a [`Campaign`].
#[derive(Debug)]
pub struct CampaignRun {
    /// The channel by which the driver reports the lease's changes, in order. Closed when the campaign is dropped.
    pub events: mpsc::Sender<LeaseEvent>,
    /// Resolves when the campaign was dropped or resigned: the driver has to give the lease up.
    pub stop: oneshot::Receiver<()>,
    /// The driver drops this sender once the lease is given up, which ends [`Campaign::resign`].
    pub stopped: oneshot::Sender<()>,
}

impl Campaign {
    /// Makes both sides of a campaign: the contender's and the driver's.
    pub fn new() -> (Self, CampaignRun) {
        let (events_in, events) = mpsc::channel(EVENTS_MAX);
        let (stop, stop_seen) = oneshot::channel();
        let (stopped_in, stopped) = oneshot::channel();
        let campaign = Self { events, stop: Some(stop), stopped };
        let run = CampaignRun { events: events_in, stop: stop_seen, stopped: stopped_in };
        (campaign, run)
    }

    /// Waits for the next change of the lease; `None` when the driver has ended.
    pub async fn next(&mut self) -> Option<LeaseEvent> {
        self.events.recv().await
    }

    /// Gives the lease up and waits until that is done, so that a rival need not wait until the lease ends.
    pub async fn resign(mut self) {
        self.stop.take();
        // The driver has finished in either case.
        let _ = (&mut self.stopped).await;
    }
}
