//! Who waits for steps of a leadership's hand-over: an election for the end of what was revoked, an owner
//! for the end of everything. Shared by the shells around `control::leader_process`; it decides nothing.

use model::LeaderSession;
use tokio::sync::oneshot;

/// Those who wait. Dropping it lets them all go: what they wait for is gone with its owner.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    revocations: Vec<(LeaderSession, oneshot::Sender<()>)>,
    closed: Vec<oneshot::Sender<()>>,
}

impl Waiting {
    /// Resolves when nothing of a session is left.
    pub(crate) fn for_revocation(&mut self, session: LeaderSession) -> Wait {
        let (done, wait) = oneshot::channel();
        self.revocations.push((session, done));
        Wait(wait)
    }

    /// Resolves when everything has ended.
    pub(crate) fn for_close(&mut self) -> Wait {
        let (done, wait) = oneshot::channel();
        self.closed.push(done);
        Wait(wait)
    }

    /// Nothing of a session is left.
    pub(crate) fn revoked(&mut self, session: LeaderSession) {
        let done = self.revocations.extract_if(.., |(known, _)| *known == session);
        for (_, answer) in done {
            let _ = answer.send(());
        }
    }

    /// Everything has ended.
    pub(crate) fn closed(&mut self) {
        for answer in self.closed.drain(..) {
            let _ = answer.send(());
        }
    }
}

/// A wait.
pub(crate) struct Wait(oneshot::Receiver<()>);

impl Wait {
    /// Until it is over.
    pub(crate) async fn over(self) {
        // An error says that the owner has ended, and with it what was waited for.
        let _ = self.0.await;
    }
}
