//! Errors of authentication. They never hold a password, key or response.

/// The reason why authentication failed on this side, or why a protected message was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaslError {
    /// The server's message is not one of the mechanism.
    #[error("the server's challenge is malformed: {0}")]
    Challenge(String),
    /// The server did not prove that it knows the password.
    #[error("the server does not know the token's password: its proof is wrong")]
    ServerProof,
    /// The server says that the exchange is over before it is, or goes on after its end.
    #[error("the server is out of step: {0}")]
    OutOfStep(&'static str),
    /// The client can use none of the methods that the server offers.
    #[error("the server offers {offered}, and this client has {have}")]
    NoCommonMethod {
        /// The server's methods.
        offered: String,
        /// The methods that this client could use.
        have: String,
    },
    /// The server wants no authentication, and this client does.
    #[error(
        "the server asks for SIMPLE, that is no authentication at all, and it is not allowed: set \
         ipc.client.fallback-to-simple-auth-allowed if the server is to be trusted anyway"
    )]
    SimpleRefused,
    /// No protection is acceptable to both.
    #[error(
        "no common protection: the server offers {offered}, hadoop.rpc.protection asks for {wanted}"
    )]
    NoCommonQop {
        /// Protections that the server offers, by their SASL names.
        offered: String,
        /// Protections that the client accepts, by their SASL names.
        wanted: String,
    },
    /// No cipher is acceptable to both.
    #[error("no common cipher: the server offers {offered}")]
    NoCommonCipher {
        /// The server's ciphers, separated by commas.
        offered: String,
    },
    /// The server's Kerberos principal is not the one that the configuration names.
    #[error("the server says it is {advertised}, and the configuration expects {expected}")]
    Principal {
        /// The principal that the server claims, as `service/host`.
        advertised: String,
        /// The principal, or pattern, that the configuration has.
        expected: String,
    },
    /// A protected message was changed, repeated, left out or put out of order.
    #[error("a protected message failed its check: {0}")]
    Integrity(&'static str),
    /// Kerberos refused, or cannot be used here.
    #[error(transparent)]
    Gss(#[from] crate::gssapi::GssError),
}
