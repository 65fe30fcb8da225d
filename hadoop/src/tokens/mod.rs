//! Tokens and secret keys as Hadoop's processes hand them on: in memory, and in token storage files of
//! both formats. Passwords and keys must never reach `Debug` output, logs or error messages.
//!
//! ```
//! use hadoop::tokens::{Credentials, Token};
//!
//! # fn main() -> Result<(), hadoop::tokens::TokenError> {
//! let token = Token::new(b"who".to_vec(), b"password".to_vec(), "YARN_AM_RM_TOKEN", "");
//! assert!(!format!("{token:?}").contains("password"));
//! let mut credentials = Credentials::new();
//! credentials.add("", token);
//! let read = Credentials::from_bytes(&credentials.to_bytes())?;
//! assert_eq!(read.by_kind("YARN_AM_RM_TOKEN").map(|token| token.identifier()), Some(&b"who"[..]));
//! # Ok(()) }
//! ```

pub mod kinds;
mod message;
mod storage;
#[cfg(test)]
mod tests;
mod writable;

pub use message::TokenProto;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The environment variable that names the token storage file which YARN made for a container; read by
/// [`Credentials::from_environment`].
pub const TOKEN_FILE_VARIABLE: &str = "HADOOP_TOKEN_FILE_LOCATION";

/// The reason why tokens could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// A file could not be read or written.
    #[error("token file {path}: {source}")]
    File {
        /// The file that was to be read or written.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The bytes are no token storage; the text says why.
    #[error("not a token storage: {0}")]
    Malformed(&'static str),
    /// A storage format that this version does not know.
    #[error("token storage of unknown format {0}")]
    UnknownFormat(u8),
}

/// Bytes that are never shown in `Debug`, and overwritten when they are dropped. Two secrets are compared in constant
/// time for their length.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Secret({} bytes)", self.0.len())]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Makes a secret of these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the secret's bytes, for protocols and files that need them; they must never be logged.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        self.0.len() == other.0.len() && differ == 0
    }
}
impl Eq for Secret {}

impl Drop for Secret {
    fn drop(&mut self) {
        // Not proof against a determined optimiser, but what is freed does not keep the password.
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

/// A token: who its bearer is (identifier, opaque here), the password that proves it, its kind, and the
/// service that takes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    identifier: Vec<u8>,
    password: Secret,
    kind: String,
    service: String,
}

impl Token {
    /// Makes a token of these parts; `kind` and `service` as in [`kinds`] and [`Token::service`].
    #[must_use]
    pub fn new(
        identifier: Vec<u8>,
        password: Vec<u8>,
        kind: impl Into<String>,
        service: impl Into<String>,
    ) -> Self {
        let password = Secret::new(password);
        Self { identifier, password, kind: kind.into(), service: service.into() }
    }

    /// Returns the bearer's identity in the issuer's own encoding. It is no secret.
    #[must_use]
    pub fn identifier(&self) -> &[u8] {
        &self.identifier
    }

    /// Returns the password that proves the identity.
    #[must_use]
    pub fn password(&self) -> &Secret {
        &self.password
    }

    /// Returns the token's kind, such as those in [`kinds`].
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the service that takes the token, as text: `ip:port` or `host:port`, `ha-hdfs:NAME`, several with
    /// commas between them (ResourceManagers with failover), or empty.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the same token with another service.
    #[must_use]
    pub fn with_service(mut self, service: impl Into<String>) -> Self {
        self.service = service.into();
        self
    }

    /// Returns true if `service` is the token's service or one of those in its list, letter for letter.
    #[must_use]
    pub fn serves(&self, service: &str) -> bool {
        self.service == service || self.service.split(',').any(|one| one.trim() == service)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token")
            .field("kind", &self.kind)
            .field("service", &self.service)
            .field("identifier", &format_args!("{} bytes", self.identifier.len()))
            .finish_non_exhaustive()
    }
}

/// Returns the service that a token for the server at `address`, named `host`, carries: `ip:port`, or `host:port`
/// with `host` in lower case if `use_ip` (`hadoop.security.token.service.use_ip`) is false. Looks nothing up.
#[must_use]
pub fn service_of(host: &str, address: SocketAddr, use_ip: bool) -> String {
    match use_ip {
        // Java writes the address of either family without brackets.
        true => format!("{}:{}", address.ip(), address.port()),
        false => format!("{}:{}", host.to_ascii_lowercase(), address.port()),
    }
}

/// Tokens and secret keys by alias, in the order of their aliases. A token and a key may have the same alias.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Credentials {
    tokens: BTreeMap<String, Token>,
    secrets: BTreeMap<String, Secret>,
}

impl Credentials {
    /// Returns credentials without tokens and secret keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a token, in place of an earlier one of this alias.
    pub fn add(&mut self, alias: impl Into<String>, token: Token) {
        self.tokens.insert(alias.into(), token);
    }

    /// Adds a secret key, in place of an earlier one of this alias.
    pub fn add_secret(&mut self, alias: impl Into<String>, secret: Secret) {
        self.secrets.insert(alias.into(), secret);
    }

    /// Takes over all tokens and keys of `other`, in place of those with the same alias here.
    pub fn extend(&mut self, other: Self) {
        self.tokens.extend(other.tokens);
        self.secrets.extend(other.secrets);
    }

    /// Removes the token of this alias and returns it; `None` if there is none.
    pub fn remove(&mut self, alias: &str) -> Option<Token> {
        self.tokens.remove(alias)
    }

    /// Keeps only the tokens for which `keep` returns true, such as all but the token of the ApplicationMaster, which
    /// its containers must not have. Secret keys stay.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Token) -> bool) {
        self.tokens.retain(|alias, token| keep(alias, token));
    }

    /// Returns the token of this alias; `None` if there is none.
    #[must_use]
    pub fn get(&self, alias: &str) -> Option<&Token> {
        self.tokens.get(alias)
    }

    /// Returns the secret key of this alias; `None` if there is none.
    #[must_use]
    pub fn secret(&self, alias: &str) -> Option<&Secret> {
        self.secrets.get(alias)
    }

    /// Returns all tokens with their aliases.
    pub fn tokens(&self) -> impl Iterator<Item = (&str, &Token)> {
        self.tokens.iter().map(|(alias, token)| (alias.as_str(), token))
    }

    /// Returns all secret keys with their aliases.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.secrets.iter().map(|(alias, secret)| (alias.as_str(), secret))
    }

    /// Returns the first token of this kind, whatever its service: right for the token of an ApplicationMaster, whose
    /// service is empty in its file. `None` if there is none.
    #[must_use]
    pub fn by_kind(&self, kind: &str) -> Option<&Token> {
        self.tokens.values().find(|token| token.kind == kind)
    }

    /// Returns the first token of this kind that [`serves`](Token::serves) this service; `None` if there is none.
    #[must_use]
    pub fn by_service(&self, kind: &str, service: &str) -> Option<&Token> {
        self.tokens.values().find(|token| token.kind == kind && token.serves(service))
    }

    /// Reads a token storage of either format, of at most 4 MiB.
    ///
    /// # Errors
    /// [`TokenError::Malformed`], [`TokenError::UnknownFormat`]. Bytes behind the storage are not looked at.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        storage::decode(bytes)
    }

    /// Returns the storage in the older format, which every Hadoop reads and which `hdfs-native` and launch contexts
    /// (`ContainerLaunchContext.tokens`) take. It holds the passwords in clear.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        storage::encode_writable(self)
    }

    /// Returns the storage in the newer format, of Hadoop 3. It holds the passwords in clear.
    #[must_use]
    pub fn to_proto_bytes(&self) -> Vec<u8> {
        storage::encode_proto(self)
    }

    /// Reads a token storage file of either format. Blocks on the file system.
    ///
    /// # Errors
    /// [`TokenError::File`], also where the bytes are no token storage; [`TokenError::Malformed`] above 4 MiB.
    pub fn read_file(path: &Path) -> Result<Self, TokenError> {
        storage::read_file(path)
    }

    /// Reads the file that `HADOOP_TOKEN_FILE_LOCATION` names; returns no credentials if the variable is not set or
    /// empty.
    ///
    /// # Errors
    /// Fails as [`Credentials::read_file`] does: a variable that names no readable file is an error.
    pub fn from_environment() -> Result<Self, TokenError> {
        match std::env::var_os(TOKEN_FILE_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::read_file(Path::new(&path)),
            None => Ok(Self::new()),
        }
    }

    /// Writes a token storage file of the older format that its owner alone may read, whole or not at all, in place of
    /// an existing one. Blocks on the file system.
    ///
    /// # Errors
    /// [`TokenError::File`].
    pub fn write_file(&self, path: &Path) -> Result<(), TokenError> {
        storage::write_file(path, &self.to_bytes())
    }
}
