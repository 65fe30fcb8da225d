//! Object stores: small named byte strings that survive a process, opened from a URI.
//!
//! Every call returns a future at once, and only the future waits for the storage, so that no actor's thread waits.
//! A read returns exactly the bytes that were written, or an error that names the object.
//! [`ObjectStore::put_new`] is create-if-absent, the one conditional call that local files, S3 and HDFS share; fencing
//! is built on it alone. A store must never interpret the bytes that it keeps.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod faulty;
pub(crate) mod file;
mod file_stream;
mod frame;
#[cfg(feature = "hdfs")]
pub(crate) mod hdfs;
mod memory;
mod probe;
#[cfg(any(test, feature = "hdfs", feature = "s3"))]
mod remote;
#[cfg(feature = "s3")]
pub(crate) mod s3;
mod stream;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "testing"))]
pub use faulty::{Fault, Faulty, FaultyObjects};
pub use file::FileObjects;
pub use memory::MemoryObjects;
pub use probe::probe;
pub use stream::ObjectStream;
pub(crate) use stream::PieceWriter;

use bytes::Bytes;
use futures::future::BoxFuture;
use platform::Platform;
use std::{fmt, io, ops::Range, path::Path, sync::Arc};
use thiserror::Error;

/// Maximum length of an object's name in bytes; each segment between two `/` may have 200 bytes. A call with a longer name fails with
/// [`StoreError::BadName`].
pub const NAME_BYTES_MAX: usize = 512;

/// The future answer of an object store, an input or an output. Nothing happens before it is polled (in memory: all has happened). Dropping
/// it gives up waiting; a write that has begun may still take effect.
pub type StoreFuture<T> = BoxFuture<'static, Result<T, StoreError>>;

/// Returns true for the folders, named as the objects of a store are and without a `/` at the end, that [`ObjectStore::sweep`] sweeps.
pub type FolderChoice = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// A store of named byte strings: checkpoints, job logs, leaders' records and copies of programs are in it, in memory, files, S3 or HDFS
/// (see [`open`]). An object is written whole or in pieces, and read whole. A write is durable when its future returns `Ok` (in memory it
/// is lost with the process); a write whose future returned an error or was dropped may or may not have taken effect. Reading or deleting
/// what is absent is no error. All calls for an object fail with [`StoreError::BadName`] for a name that is none. A store in S3 or HDFS
/// answers within 30 s or fails with [`StoreError::Unreachable`]; one in files waits as long as its disk hangs.
///
/// A name is one or more segments of `A-Z a-z 0-9 . _ -` separated by `/`; no segment starts with a dot.
pub trait ObjectStore: Send + Sync + fmt::Debug {
    /// Reads the whole object; `None` if there is no object of that name. [`StoreError::Corrupt`] if its content is damaged.
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>>;
    /// Reads these ranges of the object's content, in bytes, and returns them joined; `None` if there is no object of that name. Ranges
    /// end with the content, so that fewer bytes may come. The caller has a checksum of them: the store may check none. Files, S3 and HDFS
    /// are asked for these bytes alone, in one request for each range. By default the whole object is read, and checked.
    fn get_ranges(&self, name: &str, ranges: Vec<Range<u64>>) -> StoreFuture<Option<Bytes>> {
        let whole = self.get(name);
        Box::pin(async move { Ok(whole.await?.map(|whole| cut(&whole, &ranges))) })
    }
    /// Creates the object unless one of that name exists, which is no error ([`PutNew::Exists`]); atomic among all processes on
    /// the store.
    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew>;
    /// Creates the object or replaces one of that name; a reader sees the old or the new one, never a mixture.
    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()>;
    /// Creates an empty object or replaces one of that name, as [`ObjectStore::put`] does. All processes see it when the call returns, but
    /// a store of files waits until the disk has the folders that are new, on which later objects rely, but not until it has the object: when
    /// the machine stops, the object may be lost, or be there and damaged. For marks that are written again then.
    fn mark(&self, name: &str) -> StoreFuture<()> {
        self.put(name, Bytes::new())
    }
    /// Begins an object that is given in pieces and becomes visible at the end; see [`ObjectStream`]. Writes nothing yet: a bad name is
    /// reported by the first call of the stream. Returns `None`, as by default, if this store takes objects only whole: the caller then
    /// collects the pieces for [`ObjectStore::put`].
    fn begin(&self, _name: &str) -> Option<Box<dyn ObjectStream>> {
        None
    }
    /// Removes the object; it is no error if there is none. Returns true if there was one; a store that cannot tell (S3) returns true in
    /// either case.
    fn delete(&self, name: &str) -> StoreFuture<bool>;
    /// Lists the names that start with `prefix` in ascending order; empty if there are none. `prefix` may end within a segment; an empty
    /// one lists all. Files whose names are no names of objects are left out; the content is not looked at.
    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>>;
    /// Removes what interrupted writes of objects have left in the chosen ones of these folders, however young it is: the deepest folder
    /// that `prefix` names completely, and those below it whose names begin with `prefix`, which contains a `/`. The chosen folders that
    /// are empty then go too, and so do the folders above them if they are empty then. A write that is still under way there may fail. Does
    /// nothing by default, for stores in which interrupted writes leave nothing (memory, S3).
    fn sweep(&self, _prefix: &str, _chosen: FolderChoice) -> StoreFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Returns the place of the store (a path or URI, `memory` for one in memory), for messages. Asks nothing.
    fn location(&self) -> String;
}

/// Returns these ranges of an object's content, joined.
fn cut(whole: &[u8], ranges: &[Range<u64>]) -> Bytes {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(whole.len());
    let of = |range: &Range<u64>| whole.get(place(range.start)..place(range.end));
    ranges.iter().filter_map(of).collect::<Vec<_>>().concat().into()
}

/// The outcome of [`ObjectStore::put_new`], which creates an object only if it is absent, when the call did not fail: created, or left as
/// it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an object that exists already was not written"]
pub enum PutNew {
    /// There was no such object; this call created it.
    Created,
    /// The object exists already and was left unchanged.
    Exists,
}

/// The reason why a call of an object store (or of an input, output or blob store, which share this type), or its opening, failed: no
/// room, no answer, no permission, damage, a wrong name or URI, a store without create-if-absent, or another failure of the system.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The disk is full, a quota is used up, or the file would exceed the largest size of the system.
    #[error("the disk of {path} is full")]
    DiskFull {
        /// Path of the object or directory.
        path: String,
    },
    /// A remote system refuses connections or does not answer in time (30 s for a call of an object store), or a checkpoint directory
    /// does not take a state in time; a write may take effect all the same.
    #[error("{path} can't be reached: {why}; check the address and whether the server runs")]
    Unreachable {
        /// The URI of the object or store.
        path: String,
        /// Message of the system.
        why: String,
    },
    /// A bucket, directory or file that must exist does not: that of the store, or an input file. A missing object of a store is no error.
    #[error("{path} does not exist")]
    NotFound {
        /// The missing file or directory.
        path: String,
    },
    /// The system refuses access: permissions, a read-only file system, access keys or a Kerberos login.
    #[error("no permission to use {path}: {why}")]
    Permission {
        /// Path of the object or directory.
        path: String,
        /// Message of the system.
        why: String,
    },
    /// The object's content does not match the length and checksum in its header (it is damaged or truncated) or cannot be decoded, or
    /// the file in its place is no regular one.
    #[error("{path} is corrupt: {why}")]
    Corrupt {
        /// Path of the object in its store.
        path: String,
        /// A description of the damage.
        why: String,
    },
    /// The name is not allowed for objects (or, in `list` and `sweep`, the folders in a prefix); nothing was read or written.
    #[error(
        "'{name}' is not an object name: segments of A-Z a-z 0-9 . _ - separated by /, none starting with a dot"
    )]
    BadName {
        /// The name, cut to 100 characters.
        name: String,
    },
    /// The URI can't be used: it is malformed, names an unknown system or another one than the client's, names an output folder by a
    /// relative path, or needs a cargo feature that was not built in; or no HDFS client can be made with Hadoop's configuration, or no S3
    /// client with the settings.
    #[error(
        "'{uri}' can't be used as storage: {why}; there are: a plain absolute path, file:///directory, \
         s3://bucket/prefix, hdfs://nameservice/path"
    )]
    UnknownUri {
        /// The URI as given, cut to 200 characters if it is malformed or foreign; if no client can be made, the URI in full, or only that
        /// of its system or bucket.
        uri: String,
        /// A description of what is wrong with the URI.
        why: String,
    },
    /// The store replaces an object that exists where it was told to create one, as [`probe()`] has found, so that it can't tell which of
    /// two leaders came first.
    #[error(
        "{path} does not refuse to create an object that exists (If-None-Match): two JobManagers could lead at once, so \
         it can't be used for high availability"
    )]
    Unconditional {
        /// The URI of the store.
        path: String,
    },
    /// Any other failure that the system reports; may pass when the call is repeated.
    #[error("{path}: {why}")]
    Io {
        /// Path of the object or directory.
        path: String,
        /// Message of the system.
        why: String,
    },
}

impl StoreError {
    /// Returns true for [`StoreError::Unreachable`] and [`StoreError::Io`], after which a repeated call may succeed: the store did not answer,
    /// or failed for an unknown reason. A write that failed so may have been done all the same.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Io { .. })
    }

    /// Converts an I/O error of the system into the variant that fits it (disk full, not found, no permission), otherwise
    /// [`StoreError::Io`]. `path` is the file or directory that the error names.
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

/// Settings for reaching a server that speaks S3, as the options `s3.…` give them. The environment (`AWS_…`) supplies those that are
/// `None`. Whoever opens a store, input or output passes them; they matter for `s3://` only. The debug text shows no key.
#[derive(Clone, Default)]
pub struct S3Settings {
    /// The server's `http://host:port` or `https://host:port`; `None`: from the environment (there only `https://` is accepted), or else
    /// Amazon's endpoint for the region.
    pub endpoint: Option<String>,
    /// The region that requests are signed for; `None`: from the environment, or else `us-east-1`.
    pub region: Option<String>,
    /// The id of the access key; `None`: from the environment, or else from the service that gives keys to machines in Amazon's cloud.
    pub access_key: Option<String>,
    /// The secret of the access key; `None`: from the same places as the id. Never shown in logs or `Debug` output.
    pub secret_key: Option<String>,
    /// True if requests to [`S3Settings::endpoint`] name the bucket as the first segment of the path instead of in the host name; they
    /// always do if the endpoint's host is an IP address or `localhost`.
    pub path_style_access: bool,
}

impl S3Settings {
    /// Collects the settings from options as texts: `option` returns the value of a key such as `s3.endpoint`, `None` if it is
    /// not set. Path-style access is true only for the value `true`.
    pub fn from_texts(option: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            endpoint: option("s3.endpoint"),
            region: option("s3.region"),
            access_key: option("s3.access-key"),
            secret_key: option("s3.secret-key"),
            path_style_access: option("s3.path.style.access").is_some_and(|v| v.trim() == "true"),
        }
    }
}

impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, region, path_style_access, .. } = self;
        write!(
            f,
            "S3Settings({endpoint:?}, {region:?}, path style {path_style_access}, keys masked)"
        )
    }
}

/// Opens the store that a URI names: a plain path (absolute, or below the working directory) or `file:///dir`, where the directory is
/// created, `s3://bucket/prefix`, or `hdfs://nameservice/path`. A directory is checked at once, which blocks the calling thread; a
/// remote system is contacted only by the first call.
///
/// # Errors
/// Returns [`StoreError::UnknownUri`] for a wrong URI, also if the program was built without the cargo feature that the URI needs, or if no
/// client can be made with the settings or Hadoop's configuration; or the reason why the directory cannot be created or written to.
pub fn open(
    uri: &str,
    platform: &Platform,
    s3: &S3Settings,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    match Remote::of(uri)? {
        None => Ok(Arc::new(FileObjects::open(local_path(uri)?)?)),
        Some(remote) => remote.open(uri, platform, s3),
    }
}

/// Opens a store like [`open`], for reading a snapshot, say: a local directory must exist and need not be writable; nothing is created, and
/// the listings of a local store never remove what interrupted writes left.
///
/// # Errors
/// Returns the errors of [`open`]; [`StoreError::NotFound`] if a local directory does not exist.
pub fn open_existing(
    uri: &str,
    platform: &Platform,
    s3: &S3Settings,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    match Remote::of(uri)? {
        None => Ok(Arc::new(FileObjects::open_existing(local_path(uri)?)?)),
        Some(remote) => remote.open(uri, platform, s3),
    }
}

/// Returns the URI (or path) of `folder` below the given URI or plain path: both joined by one `/`. Neither is checked, and nothing is
/// opened or created.
pub fn below(uri: &str, folder: &str) -> String {
    let uri = uri.trim();
    match uri.trim_end_matches('/') {
        // A scheme with nothing behind it is refused when the URI is opened, in the words that were given.
        scheme if scheme.ends_with(':') => format!("{uri}/{folder}"),
        whole => format!("{whole}/{folder}"),
    }
}

/// Returns true if the URI names a remote system (`s3:` or `hdfs:`), also if the rest of it is wrong; false for local paths.
pub fn is_remote(uri: &str) -> bool {
    !matches!(Remote::of(uri), Ok(None))
}

/// The parts of a remote store's URI.
struct Remote<'a> {
    scheme: &'a str,
    /// The bucket or the name service.
    host: &'a str,
    /// The path including its leading slash; empty if the URI has none.
    path: &'a str,
}

impl<'a> Remote<'a> {
    /// Parses the URI; returns `None` if its scheme is not a remote one.
    fn of(uri: &'a str) -> Result<Option<Self>, StoreError> {
        let text = uri.trim();
        let Some(scheme) = scheme(text).filter(|s| REMOTE.contains(s)) else { return Ok(None) };
        let rest = text.get(scheme.len() + 1..).and_then(|rest| rest.strip_prefix("//"));
        let (host, path) = match rest {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => return Err(unknown_uri(uri, format!("'{scheme}:' is not followed by '//'"))),
        };
        Ok(Some(Self { scheme, host, path }))
    }

    #[cfg_attr(
        not(all(feature = "s3", feature = "hdfs")),
        allow(unused_variables, reason = "of a client that is not built in")
    )]
    fn open(
        &self,
        uri: &str,
        platform: &Platform,
        s3: &S3Settings,
    ) -> Result<Arc<dyn ObjectStore>, StoreError> {
        match self.scheme {
            "s3" if self.host.is_empty() => Err(unknown_uri(uri, "it names no bucket".into())),
            "hdfs" if self.path.trim_end_matches('/').is_empty() => {
                Err(unknown_uri(uri, "it names no directory".into()))
            }
            #[cfg(feature = "s3")]
            "s3" => {
                let s3 = s3::S3::open(uri, self.host, self.path, s3)?;
                Ok(Arc::new(remote::RemoteObjects::new(s3, platform.clone())))
            }
            #[cfg(feature = "hdfs")]
            "hdfs" => {
                let hdfs = hdfs::Hdfs::open(uri, self.host, self.path, platform.clone())?;
                Ok(Arc::new(remote::RemoteObjects::new(hdfs, platform.clone())))
            }
            feature => {
                let why = "this program was built without the cargo feature";
                Err(unknown_uri(
                    uri,
                    format!("{why} '{feature}', build it with --features {feature}"),
                ))
            }
        }
    }
}

/// The schemes of remote systems. Each is also the name of the cargo feature that supports it.
const REMOTE: [&str; 2] = ["s3", "hdfs"];

pub(crate) fn unknown_uri(uri: &str, why: String) -> StoreError {
    StoreError::UnknownUri { uri: uri.chars().take(200).collect(), why }
}

/// Returns the path that a `file:` URI (percent-decoded) or a plain path names. Touches no file.
///
/// # Errors
/// Returns [`StoreError::UnknownUri`] for another scheme, a foreign host, broken percent encoding, an empty path, or one with a NUL.
pub fn local_path(uri: &str) -> Result<std::path::PathBuf, StoreError> {
    let wrong = |why: String| unknown_uri(uri, why);
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

/// Returns the text before the colon if it is a URI scheme (a letter, then letters, digits, `+ - .`).
pub(crate) fn scheme(text: &str) -> Option<&str> {
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

/// Returns true if the text may be a segment of an object's name: 1 to 200 of `A-Z a-z 0-9 . _ -`, the first no dot.
pub fn is_segment(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !text.is_empty() && !text.starts_with('.') && text.len() <= 200 && text.bytes().all(allowed)
}

/// Refuses a text that is not an object's name, so that it stays inside the store whatever it
/// becomes on disk.
pub(crate) fn check_name(name: &str) -> Result<(), StoreError> {
    if name.len() <= NAME_BYTES_MAX && name.split('/').all(is_segment) {
        return Ok(());
    }
    Err(StoreError::BadName { name: name.chars().take(100).collect() })
}
