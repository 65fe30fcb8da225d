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

/// How the stream is protected once both sides know each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Qop {
    /// Not at all: `auth`, in Hadoop's words `authentication`.
    Authentication,
    /// Nothing can be changed unnoticed: `auth-int`, `integrity`.
    Integrity,
    /// Nor read: `auth-conf`, `privacy`.
    Privacy,
}

impl Qop {
    /// The name in `hadoop.rpc.protection`.
    #[must_use]
    pub fn from_hadoop(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "authentication" => Some(Self::Authentication),
            "integrity" => Some(Self::Integrity),
            "privacy" => Some(Self::Privacy),
            _ => None,
        }
    }

    /// The name in SASL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Authentication => "auth",
            Self::Integrity => "auth-int",
            Self::Privacy => "auth-conf",
        }
    }
}

/// The client's half of a SASL mechanism.
pub trait Mechanism: Send {
    /// The mechanism's name.
    fn name(&self) -> &'static str;

    /// Answers the server's challenge; `None` begins where the client speaks first.
    ///
    /// # Errors
    /// A challenge that is malformed or comes out of turn, or whatever the mechanism needs and lacks.
    fn step(&mut self, challenge: Option<&[u8]>) -> Result<Vec<u8>, SaslError>;

    /// Takes the server's word that the exchange is over, and checks that it is. What protects the stream
    /// from now on comes back, if anything does.
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
    /// Bytes that one wrapped message may hold at most.
    fn plain_max(&self) -> usize;

    /// Protects a message of at most [`plain_max`](Self::plain_max) bytes.
    ///
    /// # Errors
    /// Only where the mechanism's own library fails.
    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, SaslError>;

    /// Checks a message and takes the protection off.
    ///
    /// # Errors
    /// [`SaslError::Integrity`] for anything that the peer did not send exactly so and now.
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, SaslError>;
}
