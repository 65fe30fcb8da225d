//! The exit codes of every role: one table.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | succeeded, or cancelled |
//! | 1 | start-up failed |
//! | 2 | fatal error; also: the application could not be unregistered at YARN or Kubernetes |
//! | 3 | the job failed |
//! | 4 | the job's state is not known |
//! | 64 | wrong usage |

use std::process::ExitCode;

/// The outcome of a Flott process of any role. Its exit code is 0 for success, 1 for a failed start, 2 for a
/// fatal error, 3 for a failed job, 4 for an unknown outcome, 64 for wrong usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// The process did what it was asked to do, or was told to stop.
    Success,
    /// The process could not start: configuration, ports, files, an unreachable cluster.
    StartUpFailed,
    /// A component failed in a way that the process cannot survive; or the application has ended but could not be
    /// deregistered at the external resource system, which may start it again.
    Fatal,
    /// The job failed.
    JobFailed,
    /// The outcome of the job is unknown.
    Unknown,
    /// The command line has wrong arguments or options.
    Usage,
}

impl Exit {
    /// Returns the exit code of the process for this outcome: 0, 1, 2, 3, 4 or 64, see `Exit`.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::StartUpFailed => 1,
            Self::Fatal => 2,
            Self::JobFailed => 3,
            Self::Unknown => 4,
            Self::Usage => 64,
        }
    }
}

impl Exit {
    /// Returns the failure for which a process ends with `code`; `None` for 0 and for every code that no
    /// failure of a Flott process has.
    pub fn from_code(code: i32) -> Option<Self> {
        let failures =
            [Self::StartUpFailed, Self::Fatal, Self::JobFailed, Self::Unknown, Self::Usage];
        failures.into_iter().find(|exit| i32::from(exit.code()) == code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
