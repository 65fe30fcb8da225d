//! A user's Kerberos tickets and their renewal. Everything that may ask a KDC runs on threads for blocking
//! work.

use super::renewal::{Ages, lasts_longer};
use super::{LoginError, Security};
use crate::gssapi::{
    Credential, CredentialSource, GssContext, GssError, GssTarget, Initiator, Library, Need,
};
use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::Instant;

/// How long `kinit` may take.
const KINIT_MAX: Duration = Duration::from_secs(60);

/// Tickets that are replaced when they are renewed: by whoever sets up a connection, and by a task that ends with
/// the last handle.
#[derive(Clone)]
pub(super) struct Tickets(Arc<Held>);

struct Held {
    library: Library,
    source: CredentialSource,
    kinit: String,
    /// Between two tries of renewal at least.
    between: Duration,
    now: RwLock<Current>,
    /// When renewal was last tried. Held while it is: others wait for the outcome.
    tried: Arc<Mutex<Option<Instant>>>,
    /// Dropped with the last handle, which ends the task.
    _alive: oneshot::Sender<Infallible>,
}

struct Current {
    credential: Credential,
    acquired: Instant,
}

impl Tickets {
    /// Logs in, and keeps the tickets fresh from then on.
    pub(super) async fn acquire(
        source: CredentialSource,
        security: &Security,
    ) -> Result<Self, LoginError> {
        let library = blocking(Library::load).await?;
        let first = login(&library, &source).await;
        let credential = match (first, &source) {
            // A cache whose ticket has run out may still hold one that can be renewed.
            (
                Err(LoginError::Gss(GssError::Credential { .. })),
                CredentialSource::TicketCache(_),
            ) if kinit(&security.kinit).await.is_ok() => login(&library, &source).await?,
            (first, _) => first?,
        };
        let (alive, gone) = oneshot::channel();
        let held = Arc::new(Held {
            library,
            source,
            kinit: security.kinit.clone(),
            between: security.between,
            now: RwLock::new(Current { credential, acquired: Instant::now() }),
            tried: Arc::default(),
            _alive: alive,
        });
        crate::client::start(keep_fresh(Arc::downgrade(&held), gone));
        Ok(Self(held))
    }

    /// The tickets as of whenever they are used.
    pub(super) fn initiator(&self) -> Arc<dyn Initiator> {
        Arc::new(self.clone())
    }

    pub(super) fn keytab(&self) -> Option<(&str, &Path)> {
        match &self.0.source {
            CredentialSource::TicketCache(_) => None,
            CredentialSource::Keytab { principal, keytab } => Some((principal, keytab)),
        }
    }

    pub(super) fn renew_in(&self) -> Option<Duration> {
        self.0.ages(None).renew_in()
    }

    pub(super) async fn renew(&self) -> Result<(), LoginError> {
        let tried = Arc::clone(&self.0.tried).lock_owned().await;
        self.begin(tried).await.unwrap_or(Err(LoginError::Stopped))
    }

    /// Begins a renewal, which ends as it ends, whoever waits for it: one that were broken off would count as tried.
    fn begin(
        &self,
        mut tried: OwnedMutexGuard<Option<Instant>>,
    ) -> oneshot::Receiver<Result<(), LoginError>> {
        let held = Arc::clone(&self.0);
        let (done, ended) = oneshot::channel();
        crate::client::start(async move {
            *tried = Some(Instant::now());
            let outcome = held.renew().await;
            if let Err(error) = &outcome {
                let from = &held.source;
                tracing::warn!(%from, %error, "Kerberos tickets were not renewed");
            }
            drop(tried);
            // Perhaps nobody waits.
            let _ = done.send(outcome);
        });
        ended
    }

    /// Makes the tickets look older by `by`.
    #[cfg(test)]
    pub(super) fn age(&self, by: Duration) {
        let mut now = self.0.now.write().unwrap();
        now.acquired = now.acquired.checked_sub(by).unwrap();
    }
}

/// Renews tickets whenever they need it, until nobody has them any more.
async fn keep_fresh(held: Weak<Held>, mut gone: oneshot::Receiver<Infallible>) {
    loop {
        let Some(after) = due_in(&held).await else { return };
        tokio::select! {
            biased;
            _ = &mut gone => return,
            // Never in a tight loop, whatever the tickets say of themselves.
            () = tokio::time::sleep(after.max(Duration::from_secs(1))) => {}
        }
        let Some(held) = held.upgrade() else { return };
        Tickets(held).refresh(Need::Connection).await;
    }
}

async fn due_in(held: &Weak<Held>) -> Option<Duration> {
    let held = held.upgrade()?;
    let tried = *held.tried.lock().await;
    held.ages(tried).due_in(held.between)
}

impl Held {
    fn ages(&self, tried: Option<Instant>) -> Ages {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Ages {
            lifetime: now.credential.lifetime(),
            age: now.acquired.elapsed(),
            tried: tried.map(|at| at.elapsed()),
        }
    }

    async fn renew(&self) -> Result<(), LoginError> {
        let renewed = match &self.source {
            CredentialSource::TicketCache(_) => kinit(&self.kinit).await,
            CredentialSource::Keytab { .. } => Ok(()),
        };
        let read = login(&self.library, &self.source).await;
        if let Ok(read) = &read {
            self.is_same_user(read)?;
        }
        let credential = match renewed {
            Ok(()) => read?,
            // Somebody else may look after the cache, and tickets that nobody can renew may be in it: what
            // counts is whether it has newer ones.
            Err(error) => match read {
                Ok(credential) if self.is_newer(&credential) => credential,
                _ => return Err(error),
            },
        };
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        *now = Current { credential, acquired: Instant::now() };
        Ok(())
    }

    fn principal(&self) -> String {
        self.now.read().unwrap_or_else(PoisonError::into_inner).credential.principal()
    }

    /// Somebody else may have logged in to the same cache. This login and its connections are not theirs.
    fn is_same_user(&self, read: &Credential) -> Result<(), LoginError> {
        let (was, now) = (self.principal(), read.principal());
        match was == now {
            true => Ok(()),
            false => Err(LoginError::OtherUser { from: self.source.to_string(), was, now }),
        }
    }

    fn is_newer(&self, read: &Credential) -> bool {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        lasts_longer(read.lifetime(), now.credential.lifetime(), now.acquired.elapsed())
    }
}

impl Initiator for Tickets {
    fn principal(&self) -> String {
        self.0.principal()
    }

    fn context(&self, target: &GssTarget) -> Result<Box<dyn GssContext>, GssError> {
        let now = &self.0.now;
        let credential = now.read().unwrap_or_else(PoisonError::into_inner).credential.clone();
        credential.context(target)
    }

    fn refresh(&self, need: Need) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let waits = self.0.ages(None).waits(need);
            let tried = Arc::clone(&self.0.tried);
            // Whoever waits here for another's try finds that there has been one.
            let tried = match Arc::clone(&tried).try_lock_owned() {
                Ok(tried) => tried,
                Err(_) if !waits => return,
                Err(_) => tried.lock_owned().await,
            };
            if !self.0.ages(*tried).is_due(need, self.0.between) {
                return;
            }
            let ended = self.begin(tried);
            if waits {
                // How it ended is logged, and with old tickets the next context says what is wrong.
                let _ = ended.await;
            }
        })
    }
}

async fn login(library: &Library, source: &CredentialSource) -> Result<Credential, LoginError> {
    let (library, source) = (library.clone(), source.clone());
    blocking(move || library.credential(&source)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GssError> + Send + 'static,
) -> Result<T, LoginError> {
    let worked = tokio::task::spawn_blocking(work).await;
    Ok(worked.map_err(|_| LoginError::Stopped)??)
}

/// Renews the tickets of the ticket cache, as Hadoop's own login does.
async fn kinit(program: &str) -> Result<(), LoginError> {
    let failed = |reason: String| LoginError::Renew { command: format!("{program} -R"), reason };
    let mut command = tokio::process::Command::new(program);
    command.arg("-R").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.kill_on_drop(true).output();
    let output = match tokio::time::timeout(KINIT_MAX, output).await {
        Ok(output) => output.map_err(|error| failed(error.to_string()))?,
        Err(_) => return Err(failed(format!("no end within {KINIT_MAX:?}"))),
    };
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
