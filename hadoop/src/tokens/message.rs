//! Tokens inside messages. Only declarations and conversions belong here.

use super::{Secret, Token};

/// A [`Token`] as a protobuf message (`hadoop.common.TokenProto`), which YARN's and HDFS's messages share. Its `Debug` shows kind and
/// service only. `From` converts it to a [`Token`] and back.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct TokenProto {
    /// The encoded identity of the bearer, which only the issuer reads.
    #[prost(bytes = "vec", required, tag = "1")]
    pub identifier: Vec<u8>,
    /// The token's password, which proves the identity: secret.
    #[prost(bytes = "vec", required, tag = "2")]
    pub password: Vec<u8>,
    /// The token's kind, such as those in [`kinds`](super::kinds).
    #[prost(string, required, tag = "3")]
    pub kind: String,
    /// The service that takes the token, as [`Token::service`] has it.
    #[prost(string, required, tag = "4")]
    pub service: String,
}

impl std::fmt::Debug for TokenProto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenProto")
            .field("kind", &self.kind)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl From<TokenProto> for Token {
    fn from(message: TokenProto) -> Self {
        let password = Secret::new(message.password);
        Self {
            identifier: message.identifier,
            password,
            kind: message.kind,
            service: message.service,
        }
    }
}

impl From<&Token> for TokenProto {
    fn from(token: &Token) -> Self {
        Self {
            identifier: token.identifier.clone(),
            password: token.password.expose().to_vec(),
            kind: token.kind.clone(),
            service: token.service.clone(),
        }
    }
}

/// One entry of a storage of the newer format.
#[derive(Clone, PartialEq, prost::Message, derive_more::Debug)]
#[prost(skip_debug)]
#[debug("CredentialsKv {{ alias: {:?}, .. }}", self.alias)]
pub(super) struct CredentialsKv {
    #[prost(string, required, tag = "1")]
    pub(super) alias: String,
    #[prost(message, optional, tag = "2")]
    pub(super) token: Option<TokenProto>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) secret: Option<Vec<u8>>,
}

/// A storage of the newer format.
#[derive(Clone, PartialEq, prost::Message, derive_more::Debug)]
#[prost(skip_debug)]
#[debug("CredentialsProto {{ .. }}")]
pub(super) struct CredentialsProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) tokens: Vec<CredentialsKv>,
    #[prost(message, repeated, tag = "2")]
    pub(super) secrets: Vec<CredentialsKv>,
}
