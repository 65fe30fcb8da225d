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

/// The outcome of a Flott process of any role (client, JobManager, TaskManager, program), which gives its exit code: 0
/// for success, 1 for a failed start or client command, 2 for a fatal error, 3 for a failed job, 4 for an unknown outcome,
/// 64 for wrong usage or options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// The process did what it was asked to do; also if the job was cancelled, if a program printed its help, and if a
    /// JobManager or TaskManager was told to stop by a signal or the ResourceManager released the TaskManager. Exit code 0.
    Success,
    /// A role could not start (ports, files, stores, options that contradict each other or do not fit the machine), or a client's command
    /// failed: no cluster is reached, the request is refused, a savepoint fails. Exit code 1.
    StartUpFailed,
    /// A component failed in a way that the process cannot survive (also while it starts), a second signal ended the process at once, or
    /// results could not be written to standard output; or the application has ended, with any outcome of its job, but could not be
    /// deregistered at the external resource system, which may start it again. Exit code 2.
    Fatal,
    /// The job that the process ran or waited for has failed, or the application on YARN that it waited for has ended
    /// without success. Exit code 3.
    JobFailed,
    /// The outcome of the job, savepoint or stop that the process waited for is unknown, because the cluster does not
    /// answer or has lost it or the user detached; not all results of a finished job could be read or were shown; or the
    /// session on YARN that the process watched has ended. Exit code 4.
    Unknown,
    /// The command line has wrong arguments, or an option there, in `flott.yaml` or in the environment is unknown or has a wrong value.
    /// Values that only contradict each other are [`Exit::StartUpFailed`]. Exit code 64.
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
    /// Returns the failure that a Flott process reports by exiting with `code`; `None` for 0 (success) and for every
    /// code that Flott does not use, such as that of a panic. Never returns [`Exit::Success`].
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
