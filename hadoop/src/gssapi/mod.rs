//! Kerberos, through the system's GSSAPI library. The library is loaded when it is first needed: programs
//! start without it, and one that needs it and has none gets an error that says so. Calls may wait for a KDC,
//! so they must never run on a thread that serves other tasks.

mod raw;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Names by which [`Library::load`] looks for the system's GSSAPI library, tried in this order.
pub const LIBRARY_NAMES: &[&str] = &["libgssapi_krb5.so.2", "libgssapi_krb5.so"];

/// The reason why Kerberos could not be used or refused an operation: no library, no tickets, a server that did not prove who it is, a name
/// that cannot be passed on, or any other refusal of the library. [`Library`], [`GssContext`] and [`Initiator`] return it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GssError {
    /// There is no GSSAPI library on this machine, or one that lacks a function of MIT Kerberos. Holds what the loader says
    /// of each name it tried.
    #[error(
        "Kerberos is needed and no GSSAPI library could be loaded: install MIT Kerberos \
         (Debian: libgssapi-krb5-2, Red Hat: krb5-libs). {0}"
    )]
    Library(String),
    /// The library failed or refused an operation other than getting a user's credential.
    #[error("{call}: {reason}")]
    Refused {
        /// The operation that the library refused.
        call: &'static str,
        /// The library's words, of both status codes.
        reason: String,
    },
    /// The user has no Kerberos tickets and can get none from this source: there is no ticket cache, its tickets have run
    /// out, the keytab cannot be opened or lacks the user's key, or the Kerberos server (KDC) refuses or does not answer.
    #[error("no Kerberos tickets from {from}: {reason}")]
    Credential {
        /// The ticket cache or keytab.
        from: String,
        /// The library's words, or the system's for a keytab that cannot be opened.
        reason: String,
    },
    /// The server did not prove who it is, although Kerberos took the security context for established.
    #[error("the server did not prove who it is")]
    NotMutual,
    /// A principal, host or name of a ticket cache holds a zero byte, or a keytab's path is not UTF-8, which this module
    /// does not pass to the library.
    #[error("a name or path holds a zero byte")]
    Name,
}

/// The server that a security context authenticates to, by its whole principal or by service and host; given to [`Initiator::context`].
/// Whether there is such a server is not checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GssTarget {
    /// A principal with its realm, `yarn/rm.example.org@EXAMPLE.ORG`; without one, Kerberos' default realm is meant.
    Principal(String),
    /// A service on a host; Kerberos itself finds the realm.
    Service {
        /// The service, such as `yarn`.
        service: String,
        /// The host, such as `rm.example.org`.
        host: String,
    },
}

/// A message of the peer that [`GssContext::unwrap`] has checked, without its protection.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Opened({} bytes)", self.plain.len())]
pub struct Opened {
    /// The plain bytes of the message, as the peer gave them to its library.
    pub plain: Vec<u8>,
    /// True if the message was encrypted, not only signed.
    pub encrypted: bool,
}

/// One side of a GSSAPI security context: it exchanges tokens with the peer until both have proved who they are (`step`, until it returns
/// true), and protects messages to the peer afterwards (`plain_max`, then `wrap` and `unwrap`, in the order of the messages). Made by
/// [`Initiator::context`] for one connection, and driven by [`GssapiMechanism`](crate::sasl::GssapiMechanism). After an error it is of no
/// use any more. Dropping it forgets its keys.
pub trait GssContext: Send {
    /// Takes the peer's token (empty at the client's first step). Returns the token to send to the peer, and true once
    /// the context is established. It may ask a Kerberos server (KDC), and so may block.
    ///
    /// # Errors
    /// Fails with [`GssError::Refused`] if Kerberos does not authenticate, [`GssError::NotMutual`] if the context is
    /// established without the server's proof.
    fn step(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), GssError>;

    /// Returns a message for the peer in signed form, and encrypted if `encrypt` is true. To be called only once the
    /// context is established.
    ///
    /// # Errors
    /// Fails with [`GssError::Refused`] if the library does, or does not encrypt although it was asked to.
    fn wrap(&mut self, encrypt: bool, plain: &[u8]) -> Result<Vec<u8>, GssError>;

    /// Checks the peer's next message and returns it without its protection. To be called only once the context is
    /// established.
    ///
    /// # Errors
    /// Fails with [`GssError::Refused`] if the message was changed, repeated or is out of order.
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Opened, GssError>;

    /// Returns the largest number of bytes that a message may have so that its wrapped form, encrypted or only signed,
    /// has at most `raw_max` bytes.
    ///
    /// # Errors
    /// Fails with [`GssError::Refused`] if the library does.
    fn plain_max(&self, encrypt: bool, raw_max: u32) -> Result<usize, GssError>;
}

/// The reason for which [`Initiator::refresh`] is asked to get newer Kerberos tickets: a connection is about to be set up, which asks for
/// newer ones only if the present ones are old, or tickets were refused, which asks for newer ones whatever their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// A connection is about to be set up: newer tickets are got if the present ones have passed four fifths of their
    /// life.
    Connection,
    /// Kerberos has refused the present tickets, or a server has: newer ones are got whatever their age.
    Refusal,
}

/// Starts security contexts as one user: implemented by a Kerberos credential, by the tickets of a [`Login`](crate::login::Login), which
/// renews them, and by doubles in tests. A client calls `refresh` before it connects, then `context` for each stream that authenticates by
/// Kerberos.
pub trait Initiator: Send + Sync {
    /// Returns the user's principal, such as `alice@EXAMPLE.ORG`.
    fn principal(&self) -> String;

    /// Makes a new security context for authenticating to this server; no Kerberos server (KDC) is asked before its
    /// first step.
    ///
    /// # Errors
    /// Fails with a [`GssError`], for example for a name that Kerberos cannot parse.
    fn context(&self, target: &GssTarget) -> Result<Box<dyn GssContext>, GssError>;

    /// Gets newer tickets if `need` asks for them and no try was made just before (by [`Login`](crate::login::Login): 60 s, as configured).
    /// Waits for the outcome if the present ones have run out or were refused; otherwise they are got in the background. If none can be
    /// had, that is logged and the present ones stay: contexts use them, and fail once they have run out. The default does nothing. A
    /// client calls this before it connects, unless it has a token for the server, and after each stream on which Kerberos failed.
    fn refresh(&self, need: Need) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let _ = need;
        Box::pin(std::future::ready(()))
    }
}

/// The source from which a user's Kerberos tickets come: a ticket cache that somebody else fills, or a keytab, by which this process gets
/// them. Given to [`Library::credential`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialSource {
    /// A ticket cache that `kinit` has filled: the one of this name; `None`: that of `KRB5CCNAME`, or Kerberos'
    /// default.
    TicketCache(Option<String>),
    /// A keytab (a file with a user's keys), by which tickets are got; these are kept in this process's memory.
    Keytab {
        /// The user: `alice@EXAMPLE.ORG`.
        principal: String,
        /// Path of the keytab, which must hold a key of `principal`.
        keytab: PathBuf,
    },
}

impl std::fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TicketCache(Some(cache)) => write!(f, "the ticket cache {cache}"),
            Self::TicketCache(None) => f.write_str("the default ticket cache"),
            Self::Keytab { principal, keytab } => {
                write!(f, "the keytab {} for {principal}", keytab.display())
            }
        }
    }
}

/// The system's GSSAPI library, loaded into this process, by which users' credentials are acquired. Clones share it.
#[derive(Clone, derive_more::Debug)]
#[debug("Library")]
pub struct Library(Arc<raw::Functions>);

impl Library {
    /// Loads the first of [`LIBRARY_NAMES`] that this machine has. May block on the file system.
    ///
    /// # Errors
    /// Fails with [`GssError::Library`], which holds what the loader says of each name.
    pub fn load() -> Result<Self, GssError> {
        Self::load_from(LIBRARY_NAMES)
    }

    /// Loads the first of these libraries that there is. Loading runs the library's own code: `names` must be those of
    /// GSSAPI libraries.
    ///
    /// # Errors
    /// Fails with [`GssError::Library`].
    pub(crate) fn load_from(names: &[&str]) -> Result<Self, GssError> {
        let mut tried = Vec::new();
        for name in names {
            match raw::Functions::load(name) {
                Ok(functions) => return Ok(Self(Arc::new(functions))),
                Err(reason) => tried.push(reason),
            }
        }
        Err(GssError::Library(tried.join("; ")))
    }

    /// Acquires a user's credential: reads the ticket cache, or gets tickets with a keytab. It may ask a Kerberos server (KDC), and so may
    /// block. The cache is not changed; each call acquires anew.
    ///
    /// # Errors
    /// Fails with [`GssError::Credential`] if there are no tickets, the keytab cannot be opened or lacks the user's key, or the KDC does
    /// not answer; [`GssError::Name`] for a principal or cache name with a zero byte, or a keytab path that is not UTF-8.
    pub fn credential(&self, source: &CredentialSource) -> Result<Credential, GssError> {
        let none = |reason: String| GssError::Credential { from: source.to_string(), reason };
        if let CredentialSource::Keytab { keytab, .. } = source {
            // The library's own words for it are about tickets that it has not tried to get.
            std::fs::File::open(keytab).map_err(|error| none(error.to_string()))?;
        }
        let acquire = || {
            let raw = raw::Credential::acquire(&self.0, source)?;
            let (principal, lifetime) = raw.inquire()?;
            Ok((raw, principal, lifetime))
        };
        let (raw, principal, lifetime) = acquire().map_err(|error: GssError| match error {
            GssError::Refused { reason, .. } => none(reason),
            error => error,
        })?;
        Ok(Credential(Arc::new(Inner { raw, principal, lifetime })))
    }
}

/// A user's Kerberos credential: the tickets that it had when it was acquired ([`Library::credential`]). It never renews them: its
/// [`Initiator::refresh`] does nothing. Those of a keytab are forgotten with the last clone and context.
#[derive(Clone)]
pub struct Credential(Arc<Inner>);

struct Inner {
    raw: raw::Credential,
    principal: String,
    lifetime: Option<Duration>,
}

impl Credential {
    /// Returns how long the tickets were still valid when this credential was acquired; `None` if they last for ever.
    /// The value does not shrink with time.
    #[must_use]
    pub fn lifetime(&self) -> Option<Duration> {
        self.0.lifetime
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("principal", &self.0.principal)
            .field("lifetime", &self.0.lifetime)
            .finish()
    }
}

impl Initiator for Credential {
    fn principal(&self) -> String {
        self.0.principal.clone()
    }

    fn context(&self, target: &GssTarget) -> Result<Box<dyn GssContext>, GssError> {
        Ok(Box::new(raw::Context::new(Arc::clone(&self.0), target)?))
    }
}
