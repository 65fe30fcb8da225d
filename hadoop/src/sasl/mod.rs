//! Authentication: what the server offers, what this client has, the mechanisms, and the protection of the
//! stream afterwards. Bytes in, bytes out: no socket, no clock; entropy is handed in. A server that
//! asks for no authentication is refused unless the caller allowed it.

mod cipher;
mod digest;
mod directives;
mod error;
mod gss;
mod layer;
mod negotiate;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use cipher::Cipher;
pub use digest::DigestMd5;
pub use error::SaslError;
pub use gss::GssapiMechanism;
pub use negotiate::{
    AuthMethod, Kerberos, Negotiation, Outcome, SaslConfig, ServerPrincipal, SimpleFallback, Step,
};

/// The protection of the stream after authentication ("quality of protection" in SASL), on which both sides agree: none, signatures, or
/// encryption. From `hadoop.rpc.protection`; the first of the client's that the server offers too is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Qop {
    /// The stream is not protected: `auth`, in Hadoop's words `authentication`.
    Authentication,
    /// Messages are signed, so that nothing can be changed unnoticed: `auth-int`, `integrity`.
    Integrity,
    /// Messages are signed and encrypted: `auth-conf`, `privacy`.
    Privacy,
}

impl Qop {
    /// Returns the protection that one entry of `hadoop.rpc.protection` names: `authentication`, `integrity` or
    /// `privacy`, in upper or lower case, with or without blanks around it. `None` for any other text, such as a whole
    /// list.
    #[must_use]
    pub fn from_hadoop(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "authentication" => Some(Self::Authentication),
            "integrity" => Some(Self::Integrity),
            "privacy" => Some(Self::Privacy),
            _ => None,
        }
    }

    /// Returns the protection's name in SASL, such as `auth-int`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Authentication => "auth",
            Self::Integrity => "auth-int",
            Self::Privacy => "auth-conf",
        }
    }
}

/// The client's half of a SASL mechanism (a way to authenticate), for one exchange. [`Negotiation`] calls `step` for each challenge of the
/// server, then `finish` once, which gives the protection of the stream. After an error the exchange is over. Implemented by [`DigestMd5`]
/// (tokens) and [`GssapiMechanism`] (Kerberos).
pub trait Mechanism: Send {
    /// Returns the mechanism's name, such as `GSSAPI`.
    fn name(&self) -> &'static str;

    /// Takes the server's challenge and returns the client's answer to it. `None` stands for no challenge, where the
    /// client speaks first. With Kerberos it may ask a Kerberos server (KDC), and so may block.
    ///
    /// # Errors
    /// Fails with [`SaslError::Challenge`] for a challenge that is malformed, [`SaslError::OutOfStep`] for one out of
    /// turn, and for lack of agreement ([`SaslError::NoCommonQop`], [`SaslError::NoCommonCipher`]) or Kerberos'
    /// refusal.
    fn step(&mut self, challenge: Option<&[u8]>) -> Result<Vec<u8>, SaslError>;

    /// Checks the server's last message, which says that the exchange has succeeded; `token` is what the mechanism has
    /// in that message. Returns the agreed protection, and the layer that all later bytes of the stream must pass; no
    /// layer with [`Qop::Authentication`].
    ///
    /// # Errors
    /// Fails with [`SaslError::OutOfStep`] if the server ends too early, or GSSAPI with a token; in DIGEST-MD5 with
    /// [`SaslError::ServerProof`] if the server's proof is missing or wrong, [`SaslError::Challenge`] if it is malformed.
    fn finish(
        &mut self,
        token: Option<&[u8]>,
    ) -> Result<(Qop, Option<Box<dyn SecurityLayer>>), SaslError>;
}

/// Protects a stream after authentication: signs each message and, if agreed, encrypts it. Made by [`Mechanism::finish`], unless the stream
/// is not protected. Both sides count the messages, so they must be wrapped, sent and unwrapped in the same order. A
/// [`Connection`](crate::rpc::Connection) wraps and unwraps all its frames with the layer that the authentication gave it.
pub trait SecurityLayer: Send {
    /// Returns the largest number of bytes that one call of `wrap` may be given, so that the peer accepts the wrapped
    /// message.
    fn plain_max(&self) -> usize;

    /// Returns the next message to send in protected form; `plain` has at most [`plain_max`](Self::plain_max) bytes,
    /// which is not checked.
    ///
    /// # Errors
    /// Fails with [`SaslError::Gss`] if the Kerberos library does; DIGEST-MD5 never fails.
    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, SaslError>;

    /// Checks that `wrapped` is exactly the peer's next message, and returns the plain bytes. After an error the stream
    /// is of no use any more.
    ///
    /// # Errors
    /// Fails with [`SaslError::Integrity`], or with [`SaslError::Gss`] where the Kerberos library made the check.
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, SaslError>;
}
