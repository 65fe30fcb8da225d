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

/// The reason why tokens could not be read or written: a file's I/O error, bytes that are no token storage, more than 4
/// MiB of them, or a storage of an unknown format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// A token storage file could not be read or written, or does not hold a token storage.
    #[error("token file {path}: {source}")]
    File {
        /// The file that was to be read or written.
        path: PathBuf,
        /// The I/O error; of kind `InvalidData`, with the [`TokenError`] inside, if the file holds no token storage.
        source: std::io::Error,
    },
    /// The bytes are no token storage (from [`Credentials::from_bytes`]), or bytes or a file have more than 4 MiB; the text
    /// says what is wrong.
    #[error("not a token storage: {0}")]
    Malformed(&'static str),
    /// The token storage has a format, with this number, that this library does not know (not 0 or 1). Of a file this error
    /// comes inside [`TokenError::File`].
    #[error("token storage of unknown format {0}")]
    UnknownFormat(u8),
}

/// Secret bytes, such as a token's password: never shown in `Debug`, and overwritten when they are dropped. How long a
/// comparison takes depends on the lengths of two secrets, not on their bytes.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Secret({} bytes)", self.0.len())]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Makes a secret of these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the secret bytes, for protocols and files that need them; they must never be logged.
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

/// A token of Hadoop, by which its bearer authenticates without Kerberos: the bearer's identity (encoded by the issuer), the password that
/// proves it, the token's kind, and the service that takes it. Its expiry is known to the issuer only. Its `Debug` shows neither identity
/// nor password.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    identifier: Vec<u8>,
    password: Secret,
    kind: String,
    service: String,
}

impl Token {
    /// Makes a token of these parts. `identifier` is the bearer's identity in the issuer's encoding; `kind` and
    /// `service` are as in [`kinds`] and [`Token::service`].
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

    /// Returns the secret password that proves the bearer's identity.
    #[must_use]
    pub fn password(&self) -> &Secret {
        &self.password
    }

    /// Returns the token's kind, which says what service takes it, such as those in [`kinds`].
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the name of the service that takes the token: `ip:port` or `host:port`, `ha-hdfs:NAME` for all NameNodes
    /// of a file system, several with commas between them (ResourceManagers with failover), or empty.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the same token with another [`service`](Self::service), so that clients of that service find it.
    #[must_use]
    pub fn with_service(mut self, service: impl Into<String>) -> Self {
        self.service = service.into();
        self
    }

    /// Returns true if `service` is exactly the token's service, or one of those in its list between commas; in the
    /// same case.
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

/// Returns the service name that a token for the server at `address`, named `host`, carries: `ip:port`, or `host:port`
/// with `host` in lower case if `use_ip` (`hadoop.security.token.service.use_ip`) is false. Looks nothing up.
#[must_use]
pub fn service_of(host: &str, address: SocketAddr, use_ip: bool) -> String {
    match use_ip {
        // Java writes the address of either family without brackets.
        true => format!("{}:{}", address.ip(), address.port()),
        false => format!("{}:{}", host.to_ascii_lowercase(), address.port()),
    }
}

/// A user's tokens and secret keys by alias (a name of the holder's choice), in the order of their aliases. A token and a key may have the
/// same alias. They are in memory only until they are written to a file or a launch context; nothing here renews them.
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

    /// Adds a token under this alias, in place of an earlier token with the same alias.
    pub fn add(&mut self, alias: impl Into<String>, token: Token) {
        self.tokens.insert(alias.into(), token);
    }

    /// Adds a secret key under this alias, in place of an earlier secret key with the same alias.
    pub fn add_secret(&mut self, alias: impl Into<String>, secret: Secret) {
        self.secrets.insert(alias.into(), secret);
    }

    /// Adds all tokens and secret keys of `other`, in place of those with the same alias here.
    pub fn extend(&mut self, other: Self) {
        self.tokens.extend(other.tokens);
        self.secrets.extend(other.secrets);
    }

    /// Removes the token of this alias and returns it; `None` if there is none.
    pub fn remove(&mut self, alias: &str) -> Option<Token> {
        self.tokens.remove(alias)
    }

    /// Removes the tokens for which `keep`, called once for each alias and token, returns false; for example the token
    /// of the ApplicationMaster, which its containers must not have. Secret keys stay.
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

    /// Returns all tokens with their aliases, in the order of the aliases.
    pub fn tokens(&self) -> impl Iterator<Item = (&str, &Token)> {
        self.tokens.iter().map(|(alias, token)| (alias.as_str(), token))
    }

    /// Returns all secret keys with their aliases, in the order of the aliases.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.secrets.iter().map(|(alias, secret)| (alias.as_str(), secret))
    }

    /// Returns the first token of this kind in the order of aliases, whatever its service: right for the token of an
    /// ApplicationMaster, whose service is empty in its file. `None` if there is none.
    #[must_use]
    pub fn by_kind(&self, kind: &str) -> Option<&Token> {
        self.tokens.values().find(|token| token.kind == kind)
    }

    /// Returns the first token of this kind, in the order of aliases, that [`serves`](Token::serves) this service;
    /// `None` if there is none.
    #[must_use]
    pub fn by_service(&self, kind: &str, service: &str) -> Option<&Token> {
        self.tokens.values().find(|token| token.kind == kind && token.serves(service))
    }

    /// Reads tokens and secret keys from a token storage, in either of Hadoop's formats, of at most 4 MiB. Bytes after
    /// the storage are not looked at.
    ///
    /// # Errors
    /// Fails with [`TokenError::Malformed`] for bytes that are no storage or too many, [`TokenError::UnknownFormat`]
    /// for another format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        storage::decode(bytes)
    }

    /// Returns a token storage in the older format, which every Hadoop reads and which `hdfs-native` and launch
    /// contexts (`ContainerLaunchContext.tokens`) take. It holds the passwords in clear.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        storage::encode_writable(self)
    }

    /// Returns a token storage in the newer format, which Hadoop 3 reads. It holds the passwords in clear.
    #[must_use]
    pub fn to_proto_bytes(&self) -> Vec<u8> {
        storage::encode_proto(self)
    }

    /// Reads a token storage file, in either of Hadoop's formats. Blocks on the file system.
    ///
    /// # Errors
    /// Fails with [`TokenError::File`] if the file cannot be read or is no token storage, [`TokenError::Malformed`] if
    /// it has more than 4 MiB.
    pub fn read_file(path: &Path) -> Result<Self, TokenError> {
        storage::read_file(path)
    }

    /// Reads the token storage file that the process's variable `HADOOP_TOKEN_FILE_LOCATION` names; returns no
    /// credentials if the variable is not set or empty. Blocks on the file system.
    ///
    /// # Errors
    /// Fails as [`Credentials::read_file`] does: a variable that names no readable file is an error.
    pub fn from_environment() -> Result<Self, TokenError> {
        match std::env::var_os(TOKEN_FILE_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::read_file(Path::new(&path)),
            None => Ok(Self::new()),
        }
    }

    /// Writes a token storage file in the older format, whole or not at all, in place of an existing one, by way of a file beside it
    /// (`NAME.PID.tmp`). Only the file's owner may read it (mode 0600). Blocks on the file system.
    ///
    /// # Errors
    /// Fails with [`TokenError::File`] if the file cannot be written; an existing one then stays.
    pub fn write_file(&self, path: &Path) -> Result<(), TokenError> {
        storage::write_file(path, &self.to_bytes())
    }
}
