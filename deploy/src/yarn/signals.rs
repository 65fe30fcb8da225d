//! The signals that end a deployment. Must never listen for a closed terminal where the session continues without its client: the
//! runtime keeps a handler for the life of the process.

use super::error::YarnFailure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a deployment: Ctrl-C, SIGTERM, and a closed terminal (SIGHUP) if the session is to end with its client. Otherwise
/// SIGHUP keeps its effect on the client, also after the deployment.
pub(super) struct Signals {
    interrupts: Signal,
    terminations: Signal,
    hangups: Option<Signal>,
}

impl Signals {
    /// Begins to listen; for a closed terminal too if the session is `bound` to its client.
    ///
    /// # Errors
    /// The system has refused a handler.
    pub(super) fn listen(bound: bool) -> Result<Self, YarnFailure> {
        let failed = |e: std::io::Error| YarnFailure::cluster(format!("no signal handler: {e}"));
        Ok(Self {
            interrupts: signal(SignalKind::interrupt()).map_err(failed)?,
            terminations: signal(SignalKind::terminate()).map_err(failed)?,
            hangups: bound.then(|| signal(SignalKind::hangup())).transpose().map_err(failed)?,
        })
    }

    /// Waits for the next of the signals.
    pub(super) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangups {
                Some(hangups) => hangups.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.interrupts.recv() => {}
            _ = self.terminations.recv() => {}
            _ = hangup => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a handler the signal would end this process, and the test with it.
    #[tokio::test]
    async fn a_closed_terminal_ends_the_deployment_of_a_session_that_ends_with_its_client() {
        let mut signals = Signals::listen(true).unwrap();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGHUP).unwrap();
        signals.next().await;
        assert!(Signals::listen(false).unwrap().hangups.is_none(), "others leave it its effect");
    }
}
