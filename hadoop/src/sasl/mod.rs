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

/// The protection of the stream once both sides know each other.
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
    /// Returns the protection of this name in `hadoop.rpc.protection`, in upper or lower case; `None` for any other
    /// name.
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

/// The client's half of a SASL mechanism, for one exchange.
pub trait Mechanism: Send {
    /// Returns the mechanism's name, such as `GSSAPI`.
    fn name(&self) -> &'static str;

    /// Answers the server's challenge; `None` begins where the client speaks first. With Kerberos it may ask a KDC, and
    /// so may block.
    ///
    /// # Errors
    /// A challenge that is malformed or comes out of turn, or the mechanism's own failure.
    fn step(&mut self, challenge: Option<&[u8]>) -> Result<Vec<u8>, SaslError>;

    /// Takes the server's word that the exchange is over, with its last token, and checks that it is. Returns the
    /// protection that was agreed on, and the layer that the stream must pass from now on; `None` for
    /// [`Qop::Authentication`].
    ///
    /// # Errors
    /// A server that ends too early or whose proof is wrong.
    fn finish(
        &mut self,
        token: Option<&[u8]>,
    ) -> Result<(Qop, Option<Box<dyn SecurityLayer>>), SaslError>;
}

/// Protection of a stream: messages in order, each wrapped by one side and unwrapped by the other.
pub trait SecurityLayer: Send {
    /// Returns the largest number of bytes that one wrapped message may hold.
    fn plain_max(&self) -> usize;

    /// Protects the next message, of at most [`plain_max`](Self::plain_max) bytes.
    ///
    /// # Errors
    /// Only where the mechanism's own library fails.
    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, SaslError>;

    /// Checks the peer's next message and takes its protection off. After an error the stream is of no use any more.
    ///
    /// # Errors
    /// [`SaslError::Integrity`] for anything that is not exactly the peer's next message; the mechanism's own failure.
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, SaslError>;
}
