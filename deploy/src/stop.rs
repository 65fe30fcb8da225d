//! The end of a process: by a signal, a fatal error or the end of the application. The first
//! trigger wins; a second signal ends the process at once.

use crate::exit::Exit;
use actors::services::FatalErrorHandler;
use gateways::resource_manager::ApplicationStatus;
use platform::watch;
use std::fmt;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The effect of a process's end on its application (the cluster's session or single job, which may outlive this process), as its [`Stop`]
/// says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// The application ends with the process and gets this final status, because its job has ended or was refused, or a client has shut the
    /// cluster down; only a JobManager ends so. The application is deregistered at the external resource system (YARN), or without one its
    /// TaskManagers are told to end; and what its high availability has stored is deleted (as far as that succeeds within 10 s), except
    /// checkpoints, the store's identity, the leader's record and, in a cluster of one job, the job's log and details.
    StopApplication(ApplicationStatus),
    /// Only this process ends, because of a signal or a fatal error, or because the ResourceManager has released this TaskManager. Data
    /// that another JobManager needs are kept, and the application may go on there.
    StopProcess,
}

/// The order to end a process, from a signal, a fatal error, the end of the application or a TaskManager's release: the reason, the exit
/// code, and what becomes of the application. The first order counts; later ones are only logged, but a second signal ends the process at
/// once with exit code 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Reason for the log and, if the application ends, for the external resource system and its users.
    pub reason: String,
    /// Effect on the application: whether it ends with the process.
    pub behaviour: Behaviour,
    /// Outcome whose exit code the process ends with; [`Exit::Fatal`] instead if the application cannot be deregistered. A process that
    /// could not start ends with code 1 if `behaviour` ends the application.
    pub exit: Exit,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match self.behaviour {
            Behaviour::StopApplication(_) => "the application ends",
            Behaviour::StopProcess => "the process ends",
        };
        write!(f, "{} ({kept})", self.reason)
    }
}

/// The receiver of triggers. The first one counts, later ones are logged.
#[derive(Debug, Clone)]
pub(crate) struct StopTrigger {
    first: Arc<watch::Sender<Option<Stop>>>,
}

impl Default for StopTrigger {
    fn default() -> Self {
        Self { first: Arc::new(watch::Sender::new(None)) }
    }
}

impl StopTrigger {
    /// Says that the process is to end.
    pub(crate) fn pull(&self, stop: Stop) {
        let late = stop.clone();
        if !self.first.set_first(stop) {
            tracing::info!(reason = %late, "already stopping");
        }
    }

    /// Waits for the first trigger and returns it.
    pub(crate) async fn pulled(&self) -> Stop {
        match self.first.subscribe().some().await {
            Ok(stop) => stop,
            // Can't happen while `self` holds the sender.
            Err(watch::Closed) => std::future::pending().await,
        }
    }

    /// Turns the first fatal error into a trigger.
    pub(crate) async fn watch_fatal(self, fatal: FatalErrorHandler) {
        let error = fatal.reported().await;
        self.pull(Stop {
            reason: error.to_string(),
            behaviour: Behaviour::StopProcess,
            exit: Exit::Fatal,
        });
    }

    /// Returns a trigger that signals pull for as long as the process lives; the second signal ends it at once. Must be
    /// called inside a `LocalSet`. From its return on no signal ends the process in any other way, however early the
    /// signal comes.
    pub(crate) fn of_signals() -> Self {
        let trigger = Self::default();
        match Signals::watch() {
            Ok(signals) => {
                tokio::task::spawn_local(signals.pull(trigger.clone()));
            }
            Err(error) => tracing::error!(%error, "signals can't be watched"),
        }
        trigger
    }
}

/// The signals that ask for the end of the process.
struct Signals {
    term: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn watch() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn pull(mut self, trigger: StopTrigger) {
        let mut seen = false;
        loop {
            let name = tokio::select! {
                biased;
                _ = self.term.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.hangup.recv() => "SIGHUP",
            };
            if seen {
                tracing::warn!(signal = name, "second signal: ending at once");
                end_at_once();
            }
            seen = true;
            tracing::info!(signal = name, "received signal: shutting down");
            trigger.pull(Stop {
                reason: format!("received signal {name}"),
                behaviour: Behaviour::StopProcess,
                exit: Exit::Success,
            });
        }
    }
}

/// Ends the process without any order.
pub(crate) fn end_at_once() -> ! {
    std::process::exit(i32::from(Exit::Fatal.code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(reason: &str, exit: Exit) -> Stop {
        Stop { reason: reason.to_owned(), behaviour: Behaviour::StopProcess, exit }
    }

    #[tokio::test]
    async fn the_first_trigger_wins() {
        let trigger = StopTrigger::default();
        trigger.pull(stop("first", Exit::Success));
        trigger.pull(stop("second", Exit::Fatal));
        assert_eq!(trigger.pulled().await, stop("first", Exit::Success));
    }

    #[tokio::test]
    async fn a_fatal_error_is_a_trigger() {
        let trigger = StopTrigger::default();
        let fatal = FatalErrorHandler::default();
        fatal.report("dispatcher", "no disk");
        trigger.clone().watch_fatal(fatal).await;
        let stop = trigger.pulled().await;
        assert_eq!(stop.exit, Exit::Fatal);
        assert!(stop.reason.contains("no disk"));
    }
}
