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

/// The process that holds, or last held, the leader's lease, as the election publishes it to all processes of the cluster: the number of
/// its leadership, its addresses and its identity. [`ElectionDriver::leader`] gives it; it does not say whether the lease still holds.
/// Ordered by `store_epoch` first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaderRecord {
    /// The counter of the leadership (the epoch), which rises with each leader. The record with the highest counter is valid; lower ones
    /// are ignored. If the object with the record in the store cannot be decoded, all other fields are empty.
    pub store_epoch: u64,
    /// The RPC address (`host:port`) of the process.
    pub node: String,
    /// The URL (`http://host:port`) of the process's REST endpoint, for people who look into the store: no process reads it. Empty if
    /// there is none.
    pub rest: String,
    /// The identity of the process on its machine, see [`process_identity`]; a rival on the same machine sees by it at once that the
    /// process has ended. Empty if unknown.
    pub identity: String,
}

/// The addresses of a process that stands for the leader's lease; the election publishes them in a [`LeaderRecord`] if it wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The RPC address (`host:port`) of the process.
    pub node: String,
    /// The URL (`http://host:port`) of the process's REST endpoint, for the record; empty if there is none.
    pub rest: String,
}

/// A change of the leader's lease for this process, which [`Campaign::next`] returns: granted or lost, by turns, granted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEvent {
    /// This process holds the lease from now on and leads, with a higher counter than any other leader before. ([`EmbeddedElection`] grants
    /// each campaign of its process the same counter.)
    Granted {
        /// The counter of this leadership in the store.
        store_epoch: u64,
    },
    /// This process no longer holds the lease, and [`Lease::holds`] is false already: its deadline passed without a renewal, a rival has a
    /// higher counter, or the record of its own counter is gone from the store. The campaign goes on, and the lease may be granted again,
    /// with a higher counter. Not reported after [`Campaign::resign`].
    Lost,
}

/// An election by which the processes of a cluster agree on one leader: [`FileElection`] over a shared object store, [`EmbeddedElection`]
/// for a process without rivals. A process that wants to lead calls `campaign` and checks `lease` before each write as the leader; one that
/// only follows the leader calls `leader`. Decides nothing about what the leader does.
pub trait ElectionDriver: Send + Sync + fmt::Debug {
    /// Makes this process stand for the lease, in the background, until the returned campaign is dropped or resigned. Returns at once,
    /// before the lease is granted; the lease's changes come through [`Campaign::next`]. Errors of the store are logged and the attempt is
    /// repeated without end. Called once in a JobManager, by its leader election when that starts.
    fn campaign(&self, candidate: Candidate) -> Campaign;
    /// Returns a watch on the record of the leader, whichever process leads; the value is `None` until a record is known. A record replaces
    /// it only if its counter is higher, or equal where the known record could not be decoded; with [`EmbeddedElection`] the record of each
    /// campaign does. The value stays after the leader has ended, until there is a new one. While there are watches, [`FileElection`] reads
    /// the store at every renewal interval.
    fn leader(&self) -> watch::Receiver<Option<LeaderRecord>>;
    /// Returns the lease of this process (see [`Lease::holds`]), to be checked before each write as the leader. The driver keeps it up to
    /// date; it is not held before the first grant ([`EmbeddedElection`]: it is always held).
    fn lease(&self) -> Lease;
}

/// A process's candidacy in the election, made by [`ElectionDriver::campaign`]: it reports the lease's grants and losses, until it is
/// resigned or dropped. Dropping it ends the candidacy and gives the lease up, without waiting for that ([`EmbeddedElection`] has no rival
/// and keeps the lease).
#[derive(Debug)]
pub struct Campaign {
    events: mpsc::Receiver<LeaseEvent>,
    /// Dropping the sender tells the driver to stop.
    stop: Option<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
}

/// The side of a [`Campaign`] that an election driver keeps, to report changes of the lease and to learn that the campaign is over. Made by
/// [`Campaign::new`]; the driver must drop it as a whole once the lease is given up.
#[derive(Debug)]
pub struct CampaignRun {
    /// The channel by which the driver reports the lease's changes, in order; it has room for 16 that nobody has read, then the driver
    /// waits. Closed when the campaign is dropped.
    pub events: mpsc::Sender<LeaseEvent>,
    /// Resolves when the campaign was dropped or resigned: the driver has to give the lease up.
    pub stop: oneshot::Receiver<()>,
    /// Never sent on: the driver drops this sender once the lease is given up, and [`Campaign::resign`] waits for that.
    pub stopped: oneshot::Sender<()>,
}

impl Campaign {
    /// Makes a campaign and the driver's side of it. An election driver calls this, hands the campaign to its caller and keeps the other
    /// side.
    pub fn new() -> (Self, CampaignRun) {
        let (events_in, events) = mpsc::channel(EVENTS_MAX);
        let (stop, stop_seen) = oneshot::channel();
        let (stopped_in, stopped) = oneshot::channel();
        let campaign = Self { events, stop: Some(stop), stopped };
        let run = CampaignRun { events: events_in, stop: stop_seen, stopped: stopped_in };
        (campaign, run)
    }

    /// Waits for the next change of the lease. `None` when the driver will report no more, which does not end a lease that it has granted:
    /// [`EmbeddedElection`] does so right after it has granted it, [`FileElection`] never while the campaign lives. The future may be dropped and
    /// the call made again.
    pub async fn next(&mut self) -> Option<LeaseEvent> {
        self.events.recv().await
    }

    /// Ends the campaign and gives the lease up, so that a rival need not wait until the lease ends by itself: [`Lease::holds`] is false
    /// from then on. Returns once the store has recorded that, has failed (rivals then wait for the end of the lease), or has not
    /// answered for the lease duration, after which the lease has ended by itself. With [`EmbeddedElection`] returns at once, and the
    /// lease stays held.
    pub async fn resign(mut self) {
        self.stop.take();
        // The driver has finished in either case.
        let _ = (&mut self.stopped).await;
    }
}
