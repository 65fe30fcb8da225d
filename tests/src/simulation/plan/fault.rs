//! The kinds of faults of a run.

use super::LEADER;
use std::time::Duration;

/// One fault and how long it lasts.
#[derive(Debug, Clone)]
pub struct PlannedFault {
    /// Virtual time at which the fault begins.
    pub at: Duration,
    /// Duration of the fault.
    pub lasts: Duration,
    /// Fault that is injected.
    pub fault: Fault,
}

/// The fault of a host's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFault {
    /// Each call takes this much longer.
    Slow(Duration),
    /// Calls take effect only after the fault has ended.
    Hang,
    /// Every call to the store fails at once.
    Fail,
}

/// A kind of fault.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Segments between two hosts are lost with this probability.
    Loss {
        /// Host on one side of the link.
        a: String,
        /// Host on the other side of the link.
        b: String,
        /// Share of the messages that are lost, 0 to 1.
        rate: f64,
    },
    /// Segments between two hosts take this long.
    Delay {
        /// Host on one side of the link.
        a: String,
        /// Host on the other side of the link.
        b: String,
        /// Delay of each message in one direction.
        latency: Duration,
    },
    /// Segments between two hosts are held back and then delivered all at once, in their order.
    Hold {
        /// Host on one side of the link.
        a: String,
        /// Host on the other side of the link.
        b: String,
    },
    /// No segment passes between two groups of hosts.
    Partition {
        /// Hosts on one side of the cut.
        a: Vec<String>,
        /// Hosts on the other side of the cut.
        b: Vec<String>,
    },
    /// No segment passes in one direction.
    PartitionOneWay {
        /// Host that sends.
        from: String,
        /// Host that receives.
        to: String,
    },
    /// A host stops dead and is started again when the fault is over.
    Crash {
        /// Name of the simulated host.
        host: String,
    },
    /// A host stops dead and is started again at once.
    Bounce {
        /// Name of the simulated host.
        host: String,
    },
    /// The object store is slow, hangs or fails for one host.
    Storage {
        /// Name of the simulated host.
        host: String,
        /// The fault of its calls.
        how: StorageFault,
    },
    /// A process stops as a whole and then continues; its clock has advanced meanwhile.
    Freeze {
        /// Name of the simulated host.
        host: String,
    },
    /// The connections between two hosts are reset; both hosts live.
    Reset {
        /// Host on one side of the link.
        a: String,
        /// Host on the other side of the link.
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
    /// Returns the kind of the fault, for counting.
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
