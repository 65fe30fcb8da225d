//! How containers end, by YARN's own numbers (`ContainerExitStatus`). Only names belong here.

/// How a container has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerExit {
    /// With code 0.
    Success,
    /// With a code of its own, 1 to 255; 128 and a signal's number where it was killed by one.
    Code(i32),
    /// It has not ended, or nobody knows how.
    Unknown,
    /// Lost with its node, released before it was started, or not started in time.
    Aborted,
    /// Its node's disks failed.
    DisksFailed,
    /// Taken away for another application.
    Preempted,
    /// It used more virtual memory than it may.
    VirtualMemoryExceeded,
    /// It used more memory than it may.
    MemoryExceeded,
    /// Stopped or released by its ApplicationMaster.
    KilledByMaster,
    /// Killed by the ResourceManager.
    KilledByResourceManager,
    /// Killed after its application had ended.
    KilledAfterApplication,
    /// Killed by its node for a guaranteed container.
    KilledByScheduler,
    /// It wrote more logs than it may.
    LogsExceeded,
    /// A number that this library does not know.
    Other(i32),
}

impl ContainerExit {
    /// From the number.
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

    /// Whether the program in it is to blame, rather than the cluster or whoever stopped it.
    #[must_use]
    pub fn is_own_fault(self) -> bool {
        matches!(
            self,
            Self::Code(_) | Self::VirtualMemoryExceeded | Self::MemoryExceeded | Self::LogsExceeded
        )
    }
}
