//! The kinds of faults of a run.

use super::LEADER;
use std::time::Duration;

/// One fault of a run's plan, when it begins, and how long it lasts.
#[derive(Debug, Clone)]
pub struct PlannedFault {
    /// Virtual time since the run's start at which the fault begins.
    pub at: Duration,
    /// Duration of the fault in virtual time; without a meaning for `Bounce`, `Reset` and `HostCrash`, which are over at once.
    pub lasts: Duration,
    /// Fault that is injected.
    pub fault: Fault,
}

/// The way in which the shared object store fails for the calls of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFault {
    /// Each call to the store takes this much longer, in virtual time.
    Slow(Duration),
    /// Calls do not return while the fault lasts; they take effect after it has ended.
    Hang,
    /// Every call to the store fails at once with an I/O error, without an effect.
    Fail,
}

/// A fault of a simulated run: of the links between hosts, of a host, of its storage or program hosts, or too many calls.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Segments between two hosts are lost with this probability.
    Loss {
        /// Host on one side of the link.
        a: String,
        /// Host on the other side of the link.
        b: String,
        /// Probability with which each segment is lost, 0 to 1.
        rate: f64,
    },
    /// Segments between two hosts take up to this long, instead of 60 ms.
    Delay {
        /// Host on one side of the link.
        a: String,
        /// Host on the other side of the link.
        b: String,
        /// Maximum delay of each segment in one direction; each draws its own.
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
    /// No segment passes in one direction between two hosts; the other direction works.
    PartitionOneWay {
        /// Host that sends.
        from: String,
        /// Host that receives.
        to: String,
    },
    /// A host stops dead, with all that its process holds in memory, and is started again when the fault is over.
    Crash {
        /// Name of the simulated host.
        host: String,
    },
    /// A host stops dead and is started again at once, unless another fault keeps it down.
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
    /// A process stops as a whole, as by SIGSTOP, and continues when the fault is over; its clock has advanced meanwhile.
    Freeze {
        /// Name of the simulated host.
        host: String,
    },
    /// The connections between two hosts are reset, once; both hosts live and may connect again.
    Reset {
        /// Host on one side of the link.
        a: String,
        /// Host on the other side of the link.
        b: String,
    },
    /// The program hosts of a process crash, once; the process itself lives and sees that they are gone.
    HostCrash {
        /// Name of the simulated host of the process that started the program hosts.
        host: String,
    },
    /// The client makes more calls to the leaders than their mailboxes hold, again and again while the fault lasts.
    Flood,
}

impl Fault {
    /// Returns the kind of the fault in words, under which it is counted: `loss`, `storage hangs`, ….
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

    /// Returns the fault with [`LEADER`], where a host's name is that, replaced by the host `leader`. Groups of a `Partition` stay.
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

    /// Returns true if calls between two hosts, in either direction, may be lost or slow because of the fault. Always false for faults of
    /// storage and program hosts and for floods, which are observed elsewhere.
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
