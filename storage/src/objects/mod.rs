//! Object stores: small named byte strings that survive a process, opened from a URI.
//!
//! Every call returns a future at once and waits for the storage inside it, so that no actor's thread
//! waits (I-12). A read returns exactly the bytes that were written, or an error that names the object.
//! [`ObjectStore::put_new`] is create-if-absent, the one conditional call that local files, S3 and HDFS
//! share; fencing is built on it alone. A store must never interpret what it keeps.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod faulty;
pub(crate) mod file;
mod memory;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "testing"))]
pub use faulty::{Fault, FaultyObjects};
pub use file::FileObjects;
pub use memory::MemoryObjects;

use bytes::Bytes;
use futures::future::BoxFuture;
use std::{fmt, io, path::Path, sync::Arc};
use thiserror::Error;

/// Most bytes in an object's name.
pub const NAME_BYTES_MAX: usize = 512;

/// The answer of a store, in some time. Dropping it gives up waiting; a write that has begun may still
/// take effect.
pub type StoreFuture<T> = BoxFuture<'static, Result<T, StoreError>>;

/// Named byte strings. A write is durable when its future ends with `Ok`; a write whose future ended with
/// an error or was dropped may or may not have taken effect.
///
/// A name is one or more segments of `A-Z a-z 0-9 . _ -` separated by `/`; no segment starts with a dot.
pub trait ObjectStore: Send + Sync + fmt::Debug {
    /// Reads the whole object; `None` if there is none of that name.
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>>;
    /// Creates the object unless one of that name exists; atomic among all processes on the store.
    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew>;
    /// Creates or replaces the object; a reader sees the old or the new one, never a mixture.
    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()>;
    /// Removes the object. Returns whether there was one; a store that cannot tell returns `true`.
    fn delete(&self, name: &str) -> StoreFuture<bool>;
    /// Lists the names that start with `prefix` (a text prefix, not only whole segments), ascending.
    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>>;
    /// The store's place, for messages.
    fn location(&self) -> String;
}

/// What became of a create-if-absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an object that exists already was not written"]
pub enum PutNew {
    /// It was not there and is now.
    Created,
    /// It is there already and was left as it is.
    Exists,
}

/// Why a store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No room.
    #[error("the disk of {path} is full")]
    DiskFull {
        /// Where.
        path: String,
    },
    /// What must be there is not.
    #[error("{path} does not exist")]
    NotFound {
        /// What.
        path: String,
    },
    /// Access refused by the system.
    #[error("no permission to use {path}: {why}")]
    Permission {
        /// What.
        path: String,
        /// The system's words.
        why: String,
    },
    /// Damaged or truncated.
    #[error("{path} is corrupt: {why}")]
    Corrupt {
        /// What.
        path: String,
        /// How that was seen.
        why: String,
    },
    /// Not a name that objects can have.
    #[error(
        "'{name}' is not an object name: segments of A-Z a-z 0-9 . _ - separated by /, none starting with a dot"
    )]
    BadName {
        /// The name, cut to 100 characters.
        name: String,
    },
    /// Nothing here opens such a URI.
    #[error(
        "'{uri}' can't be used as storage: {why}; there are: a plain absolute path, file:///directory"
    )]
    UnknownUri {
        /// As given.
        uri: String,
        /// What is wrong with it.
        why: String,
    },
    /// Any other failure that the system reports.
    #[error("{path}: {why}")]
    Io {
        /// The object or directory.
        path: String,
        /// The system's words.
        why: String,
    },
}

impl StoreError {
    /// The typed form of a system error about `path`.
    pub fn from_io(path: &Path, error: &io::Error) -> Self {
        let path = path.display().to_string();
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::DiskFull { path },
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission { path, why: error.to_string() }
            }
            _ => Self::Io { path, why: error.to_string() },
        }
    }
}

/// Opens the store that a URI names, creating its directory: `file:///dir`, `file:/dir` or a plain path.
///
/// # Errors
/// [`StoreError::UnknownUri`], or the reason why the directory cannot be written to.
pub fn open(uri: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
    Ok(Arc::new(FileObjects::open(local_path(uri)?)?))
}

/// The directory that a `file:` URI or a plain path names.
pub fn local_path(uri: &str) -> Result<std::path::PathBuf, StoreError> {
    let wrong = |why: String| StoreError::UnknownUri { uri: uri.chars().take(200).collect(), why };
    let text = uri.trim();
    let path = match scheme(text) {
        None => text.to_owned(),
        Some(scheme) if scheme.eq_ignore_ascii_case("file") => {
            let rest = text.get(5..).unwrap_or_default();
            let path = match rest.strip_prefix("//") {
                None => rest,
                Some(authority) => {
                    let slash = authority.find('/').unwrap_or(authority.len());
                    let (host, path) = authority.split_at(slash);
                    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                        return Err(wrong(format!(
                            "it names the host '{host}', a file URI is local"
                        )));
                    }
                    path
                }
            };
            percent_decoded(path).ok_or_else(|| wrong("its percent encoding is broken".into()))?
        }
        Some(other) => return Err(wrong(format!("no file system has the scheme '{other}'"))),
    };
    if path.is_empty() {
        return Err(wrong("it names no directory".into()));
    }
    if path.contains('\0') {
        return Err(wrong("it contains a NUL".into()));
    }
    Ok(path.into())
}

/// What precedes the colon, if that is a URI scheme (a letter, then letters, digits, `+ - .`).
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let mut chars = scheme.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
    (starts && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))).then_some(scheme)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

/// Refuses what is not a name: whatever it becomes on disk, it stays inside the store.
fn check_name(name: &str) -> Result<(), StoreError> {
    let segment_ok = |s: &str| {
        !s.is_empty()
            && !s.starts_with('.')
            && s.len() <= 200
            && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    if name.len() <= NAME_BYTES_MAX && name.split('/').all(segment_ok) {
        return Ok(());
    }
    Err(StoreError::BadName { name: name.chars().take(100).collect() })
}
