//! Object stores: small named byte strings that survive a process, opened from a URI.
//!
//! What is read is exactly what was written: every stored object carries its length and SHA-256, so a
//! truncated or damaged one is an error by path, never other bytes. `put_new` is create-if-absent and
//! is what higher layers build fencing on. A store must never interpret what it keeps, retry, or read
//! a clock.

pub(crate) mod file;
mod memory;
#[cfg(test)]
mod tests;

pub use file::FileObjects;
pub use memory::MemoryObjects;

use bytes::Bytes;
use std::{fmt, io, path::Path, sync::Arc};
use thiserror::Error;

/// Most bytes in an object's name.
pub const NAME_BYTES_MAX: usize = 512;

/// Named byte strings. All calls block until done; writes are durable when they return.
///
/// Names are one or more segments of `A-Z a-z 0-9 . _ -` separated by `/`; no segment starts with a dot.
pub trait ObjectStore: Send + Sync + fmt::Debug {
    /// The whole object, or `None` if there is none of that name.
    fn get(&self, name: &str) -> Result<Option<Bytes>, StoreError>;
    /// Creates the object unless one of that name exists; atomic among all processes on the store.
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<PutNew, StoreError>;
    /// Creates or replaces the object; a reader sees the old or the new one, never a mixture.
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), StoreError>;
    /// Removes the object; whether there was one.
    fn delete(&self, name: &str) -> Result<bool, StoreError>;
    /// Names that start with `prefix` (a text prefix, not only whole segments), ascending.
    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError>;
    /// Where it is, for messages.
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
    /// Anything else the system reports.
    #[error("{path}: {why}")]
    Io {
        /// What.
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
