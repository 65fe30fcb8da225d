//! The election of a process that has no rival: high availability `none`.

use super::{Campaign, Candidate, ElectionDriver, LeaderRecord, Lease, LeaseEvent};
use platform::watch;
use std::sync::Arc;

/// The election of a process that has no rival (high availability `none`): every campaign gets the lease at once, with the same counter,
/// and keeps it for as long as the process lives. The first call of [`Campaign::next`] returns this grant, each later one `None`, although
/// the lease stays held. [`ElectionDriver::lease`] is held even before a campaign and after its end. Stores nothing; clones share the
/// leader's record.
#[derive(Debug, Clone)]
pub struct EmbeddedElection {
    store_epoch: u64,
    leader: Arc<watch::Sender<Option<LeaderRecord>>>,
}

impl EmbeddedElection {
    /// Makes the driver. `store_epoch` is the counter of its leadership: the process's start in Unix milliseconds (on YARN the attempt
    /// number), so that a later process has a higher one. [`ElectionDriver::leader`] gives no record before the first campaign.
    pub fn new(store_epoch: u64) -> Self {
        Self { store_epoch, leader: Arc::new(watch::Sender::new(None)) }
    }
}

impl ElectionDriver for EmbeddedElection {
    fn campaign(&self, candidate: Candidate) -> Campaign {
        let (campaign, run) = Campaign::new();
        let store_epoch = self.store_epoch;
        self.leader.send_replace(Some(LeaderRecord {
            store_epoch,
            node: candidate.node,
            rest: candidate.rest,
            identity: String::new(),
        }));
        // A new channel has room. It closes once this value is dropped, which says nothing about the lease:
        // the sender goes along with the receiver's own end.
        let _ = run.events.try_send(LeaseEvent::Granted { store_epoch });
        campaign
    }

    fn leader(&self) -> watch::Receiver<Option<LeaderRecord>> {
        self.leader.subscribe()
    }

    fn lease(&self) -> Lease {
        Lease::endless()
    }
}
