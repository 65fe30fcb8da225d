//! The kinds of faults of a run.

use super::LEADER;
use std::time::Duration;

/// One fault and how long it lasts.
#[derive(Debug, Clone)]
pub struct PlannedFault {
    /// When it begins.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
    /// What it is.
    pub fault: Fault,
}

/// The fault of a host's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFault {
    /// Each call takes this much longer.
    Slow(Duration),
    /// Calls take effect only after the fault has ended.
    Hang,
    /// Calls fail.
    Fail,
}

/// A kind of fault.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Segments between two hosts are lost with this probability.
    Loss {
        /// One side.
        a: String,
        /// The other.
        b: String,
        /// 0 to 1.
        rate: f64,
    },
    /// Segments between two hosts take this long.
    Delay {
        /// One side.
        a: String,
        /// The other.
        b: String,
        /// One way.
        latency: Duration,
    },
    /// Segments between two hosts are held back and then delivered all at once, in their order.
    Hold {
        /// One side.
        a: String,
        /// The other.
        b: String,
    },
    /// No segment passes between two groups of hosts.
    Partition {
        /// One side.
        a: Vec<String>,
        /// The other.
        b: Vec<String>,
    },
    /// No segment passes in one direction.
    PartitionOneWay {
        /// Sender.
        from: String,
        /// Receiver.
        to: String,
    },
    /// A host stops dead and is started again when the fault is over.
    Crash {
        /// Which.
        host: String,
    },
    /// A host stops dead and is started again at once.
    Bounce {
        /// Which.
        host: String,
    },
    /// The object store is slow, hangs or fails for one host.
    Storage {
        /// The host.
        host: String,
        /// The fault of its calls.
        how: StorageFault,
    },
    /// A process stops as a whole and then continues; its clock has gone on meanwhile.
    Freeze {
        /// Which.
        host: String,
    },
    /// The connections between two hosts are reset; both hosts live.
    Reset {
        /// One side.
        a: String,
        /// The other.
        b: String,
    },
    /// The program hosts of a process crash.
    HostCrash {
        /// The host of the process.
        host: String,
    },
    /// The client makes more calls to the leaders than their mailboxes hold.
    Flood,
}

impl Fault {
    /// Its kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Loss { .. } => "loss",
            Self::Delay { .. } => "delay",
            Self::Hold { .. } => "hold",
            Self::Partition { .. } => "partition",
            Self::PartitionOneWay { .. } => "partition one way",
            Self::Crash { .. } => "crash",
            Self::Bounce { .. } => "bounce",
            Self::Storage { how: StorageFault::Slow(_), .. } => "storage slow",
            Self::Storage { how: StorageFault::Hang, .. } => "storage hangs",
            Self::Storage { how: StorageFault::Fail, .. } => "storage fails",
            Self::Freeze { .. } => "freeze",
            Self::Reset { .. } => "reset",
            Self::HostCrash { .. } => "program host crash",
            Self::Flood => "flood",
        }
    }

    /// Returns the fault with [`LEADER`] replaced by the given host.
    #[must_use]
    pub fn aimed_at(mut self, leader: &str) -> Self {
        let hosts = match &mut self {
            Self::Loss { a, b, .. }
            | Self::Delay { a, b, .. }
            | Self::Hold { a, b }
            | Self::Reset { a, b }
            | Self::PartitionOneWay { from: a, to: b } => vec![a, b],
            Self::Crash { host }
            | Self::Bounce { host }
            | Self::Freeze { host }
            | Self::HostCrash { host }
            | Self::Storage { host, .. } => vec![host],
            Self::Partition { .. } | Self::Flood => Vec::new(),
        };
        hosts.into_iter().filter(|host| *host == LEADER).for_each(|host| leader.clone_into(host));
        self
    }

    /// Returns true if calls between two hosts may suffer from the fault.
    pub fn concerns(&self, from: &str, to: &str) -> bool {
        let both = |a: &str, b: &str| (from, to) == (a, b) || (to, from) == (a, b);
        match self {
            Self::Loss { a, b, .. }
            | Self::Delay { a, b, .. }
            | Self::Hold { a, b }
            | Self::Reset { a, b }
            | Self::PartitionOneWay { from: a, to: b } => both(a, b),
            Self::Partition { a, b } => {
                let apart = |x: &str, y: &str| {
                    a.iter().any(|host| host == x) && b.iter().any(|host| host == y)
                };
                apart(from, to) || apart(to, from)
            }
            Self::Crash { host } | Self::Bounce { host } | Self::Freeze { host } => {
                from == host || to == host
            }
            Self::Storage { .. } | Self::HostCrash { .. } | Self::Flood => false,
        }
    }
}
