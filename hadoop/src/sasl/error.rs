//! Errors of authentication. They never hold a password, key or response.

/// The reason why this side, the client, gave up an authentication or refused a message of a protected stream. It ends the connection,
/// whose calls fail with it in [`ConnectionError::Sasl`](crate::rpc::ConnectionError::Sasl); only tickets that are refused or missing (in
/// `Gss`) are tried again, on another stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaslError {
    /// The server's message breaks the rules of the mechanism (DIGEST-MD5 or GSSAPI); the text says how.
    #[error("the server's challenge is malformed: {0}")]
    Challenge(String),
    /// The server did not prove that it knows the token's password: in DIGEST-MD5 its proof is missing or wrong.
    #[error("the server does not know the token's password: its proof is wrong")]
    ServerProof,
    /// The server's messages are out of order: it ends the exchange too early, goes on after the end, makes a second offer, sends a
    /// challenge without content or before the choice of a method, sends a message that only clients send, or does not end after 32
    /// messages. The text says which.
    #[error("the server is out of step: {0}")]
    OutOfStep(&'static str),
    /// The client has the credentials for none of the authentication methods that the server offers. The server does not offer `SIMPLE`
    /// either; with that offer the error is `SimpleRefused`.
    #[error("the server offers {offered}, and this client has {have}")]
    NoCommonMethod {
        /// The server's methods, in its order, separated by commas.
        offered: String,
        /// The credentials that this client has, in words, such as `a token of kind …`.
        have: String,
    },
    /// The server wants no authentication (`SIMPLE`), or offers nothing else that this client can use, and the client's
    /// configuration refuses that.
    #[error(
        "the server asks for SIMPLE, that is no authentication at all, and it is not allowed: set \
         ipc.client.fallback-to-simple-auth-allowed if the server is to be trusted anyway"
    )]
    SimpleRefused,
    /// No protection of the stream (none, signatures, encryption) is acceptable to both client and server.
    #[error(
        "no common protection: the server offers {offered}, hadoop.rpc.protection asks for {wanted}"
    )]
    NoCommonQop {
        /// Protections that the server offers, by their SASL names.
        offered: String,
        /// Protections that the client accepts, by their SASL names.
        wanted: String,
    },
    /// The stream is to be encrypted by DIGEST-MD5, and no cipher is acceptable to both client and server.
    #[error("no common cipher: the server offers {offered}")]
    NoCommonCipher {
        /// The server's ciphers, separated by commas.
        offered: String,
    },
    /// The server claims another Kerberos principal than the client's configuration names, or one that its pattern
    /// excludes, and offers no other method that the client can use.
    #[error("the server says it is {advertised}, and the configuration expects {expected}")]
    Principal {
        /// The principal that the server claims, as `service/host`.
        advertised: String,
        /// The principal, or pattern, that the configuration has.
        expected: String,
    },
    /// A message of a protected stream was changed, repeated, left out or put out of order, or is not encrypted as
    /// agreed; the text says what is wrong. With Kerberos only the last is found here: the library's own refusals come
    /// as `Gss`.
    #[error("a protected message failed its check: {0}")]
    Integrity(&'static str),
    /// Kerberos refused an operation, or its library cannot be used on this machine.
    #[error(transparent)]
    Gss(#[from] crate::gssapi::GssError),
}
