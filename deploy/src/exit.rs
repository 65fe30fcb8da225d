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

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// It did what it was asked to, or was told to stop.
    Success,
    /// It could not start: configuration, ports, files, an unreachable cluster.
    StartUpFailed,
    /// A component failed in a way that the process cannot survive; or the application has ended but could not be
    /// deregistered at the external resource system, which may start it again.
    Fatal,
    /// The job failed.
    JobFailed,
    /// It is not known how the job ended.
    Unknown,
    /// Wrong arguments or options.
    Usage,
}

impl Exit {
    /// Its number.
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
    /// That of a process that ended with `code`; `None`: it is no failure of ours.
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
