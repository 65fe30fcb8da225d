//! A user's Kerberos tickets and their renewal. Everything that may ask a KDC runs on threads for blocking
//! work.

use super::{LoginError, Security};
use crate::gssapi::{
    Credential, CredentialSource, GssContext, GssError, GssTarget, Initiator, Library,
};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;

/// The part of their life after which tickets are renewed, in tenths.
const RENEW_AT: u32 = 8;
/// How long `kinit` may take.
const KINIT_MAX: Duration = Duration::from_secs(60);
/// Tickets that last longer than others by no more than this are the same: lifetimes are rounded.
const SAME: Duration = Duration::from_secs(5);

/// Tickets that are replaced when they are renewed.
pub(super) struct Tickets {
    library: Library,
    source: CredentialSource,
    now: Arc<RwLock<Current>>,
}

struct Current {
    credential: Credential,
    acquired: Instant,
}

impl Tickets {
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
            ) if kinit(security).await.is_ok() => login(&library, &source).await?,
            (first, _) => first?,
        };
        let now = Current { credential, acquired: Instant::now() };
        Ok(Self { library, source, now: Arc::new(RwLock::new(now)) })
    }

    pub(super) fn principal(&self) -> String {
        self.initiator().principal()
    }

    /// The tickets as of whenever they are used.
    pub(super) fn initiator(&self) -> Arc<dyn Initiator> {
        Arc::new(Newest(Arc::clone(&self.now)))
    }

    pub(super) fn keytab(&self) -> Option<(&str, &Path)> {
        match &self.source {
            CredentialSource::TicketCache(_) => None,
            CredentialSource::Keytab { principal, keytab } => Some((principal, keytab)),
        }
    }

    pub(super) fn renew_in(&self) -> Option<Duration> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let at = now.credential.lifetime()?.saturating_mul(RENEW_AT) / 10;
        Some(at.saturating_sub(now.acquired.elapsed()))
    }

    pub(super) async fn renew(&self, security: &Security) -> Result<(), LoginError> {
        let renewed = match &self.source {
            CredentialSource::TicketCache(_) => kinit(security).await,
            CredentialSource::Keytab { .. } => Ok(()),
        };
        let read = login(&self.library, &self.source).await;
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

    fn is_newer(&self, read: &Credential) -> bool {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        lasts_longer(read.lifetime(), now.credential.lifetime(), now.acquired.elapsed())
    }
}

/// Whether tickets of this lifetime last longer than others had so long ago. `None` lasts for ever.
pub(super) fn lasts_longer(
    read: Option<Duration>,
    held: Option<Duration>,
    since: Duration,
) -> bool {
    match (read, held) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(read), Some(held)) => read > held.saturating_sub(since).saturating_add(SAME),
    }
}

/// The tickets that there are at the moment of use.
struct Newest(Arc<RwLock<Current>>);

impl Initiator for Newest {
    fn principal(&self) -> String {
        self.0.read().unwrap_or_else(PoisonError::into_inner).credential.principal()
    }

    fn context(&self, target: &GssTarget) -> Result<Box<dyn GssContext>, GssError> {
        let credential = self.0.read().unwrap_or_else(PoisonError::into_inner).credential.clone();
        credential.context(target)
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
async fn kinit(security: &Security) -> Result<(), LoginError> {
    let failed =
        |reason: String| LoginError::Renew { command: format!("{} -R", security.kinit), reason };
    let mut command = tokio::process::Command::new(&security.kinit);
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
