//! How containers end, by YARN's own numbers (`ContainerExitStatus`). Only names belong here.

/// The way in which a container ended, by YARN's exit status. Comes with [`MasterEvent::Completed`](super::MasterEvent::Completed); the
/// program's own codes and YARN's reasons are one number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ContainerExit {
    /// The program ended with code 0.
    Success,
    /// The program ended with a code of its own, 1 to 255; the code is 128 plus a signal's number if the signal killed
    /// the program.
    Code(i32),
    /// The container has not ended, or nobody knows how. Status -1000, which YARN also reports for containers that run.
    Unknown,
    /// The container was lost with its node, released by its ApplicationMaster, or not started in time.
    Aborted,
    /// Too many of the node's disks failed, so the container was killed.
    DisksFailed,
    /// The scheduler took the container away for another application or queue.
    Preempted,
    /// The node killed the container because it used more virtual memory than it may.
    VirtualMemoryExceeded,
    /// The node killed the container because it used more memory than it may.
    MemoryExceeded,
    /// The ApplicationMaster had the container's node stop it (`stopContainers`); one that it releases ends as
    /// `Aborted`.
    KilledByMaster,
    /// The ResourceManager killed the container.
    KilledByResourceManager,
    /// The container was killed after its application had ended.
    KilledAfterApplication,
    /// The container's node killed it to make room for a guaranteed container; only opportunistic containers end so.
    KilledByScheduler,
    /// The node killed the container because it wrote more logs than it may.
    LogsExceeded,
    /// An exit status that this library does not know.
    Other(i32),
}

impl ContainerExit {
    /// Returns the end that this exit status of YARN means: 0 is success, 1 to 255 the program's code, negative numbers
    /// YARN's reasons.
    #[must_use]
    pub fn from_status(status: i32) -> Self {
        match status {
            0 => Self::Success,
            1..=255 => Self::Code(status),
            -1000 => Self::Unknown,
            -100 => Self::Aborted,
            -101 => Self::DisksFailed,
            -102 => Self::Preempted,
            -103 => Self::VirtualMemoryExceeded,
            -104 => Self::MemoryExceeded,
            -105 => Self::KilledByMaster,
            -106 => Self::KilledByResourceManager,
            -107 => Self::KilledAfterApplication,
            -108 => Self::KilledByScheduler,
            -109 => Self::LogsExceeded,
            other => Self::Other(other),
        }
    }

    /// Returns true if the program in the container is to blame (a code other than 0, too much
    /// memory or logs), rather than the cluster or whoever stopped it.
    #[must_use]
    pub fn is_own_fault(self) -> bool {
        matches!(
            self,
            Self::Code(_) | Self::VirtualMemoryExceeded | Self::MemoryExceeded | Self::LogsExceeded
        )
    }
}
