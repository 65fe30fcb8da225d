//! Input files of other systems, read by byte range: what a source with a URI reads. Local files are no business of this
//! module: sources read them directly.
//!
//! This module must never write, and never hold more of a file than one range that was asked for.

#[cfg(feature = "hdfs")]
mod hdfs;
#[cfg(feature = "s3")]
mod s3;

use crate::objects::{S3Settings, StoreError, StoreFuture, unknown_uri};
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// Read access to the input files of one remote system (a name service of HDFS, a bucket of S3), for sources: their enumerators list files,
/// their readers open them. Made by [`open`]. Writes nothing. Calls fail with [`StoreError::Unreachable`] if the system does not answer in
/// time (60 s for a call to HDFS, 30 s for a request to S3), and with [`StoreError::UnknownUri`] for a URI of another system or if no
/// client can be made; they may be repeated.
pub trait RemoteFiles: Send + Sync + fmt::Debug {
    /// Lists the file of this URI, or all files below the folder (also in folders inside it), as URIs with their lengths in bytes, in the
    /// order of their names. Inside folders, files and folders whose names begin with `.` or `_` are left out, as in Flink. In S3, where an
    /// object and a folder can have the same name, the folder is listed. Empty if a folder has no such files. Fails with
    /// [`StoreError::NotFound`] if there is neither; in S3 an empty folder does not exist.
    fn list(&self, uri: &str) -> StoreFuture<Vec<(String, u64)>>;
    /// Opens the file of this URI for reading. An absent file is an error ([`StoreError::NotFound`]); in S3, where opening sends no
    /// request, the first read fails with it.
    fn open(&self, uri: &str) -> StoreFuture<Arc<dyn RemoteFile>>;
}

/// An open file of a remote system, read by byte ranges; made by [`RemoteFiles::open`]. HDFS shows its content as of its opening; in S3, a
/// read fails with [`StoreError::Io`] if the object was replaced after the first read. Dropping it closes nothing that others use.
pub trait RemoteFile: Send + Sync + fmt::Debug {
    /// Reads `most` bytes from `offset` (in bytes) on, or fewer if the file ends before; empty at or behind the end. Calls may be made in
    /// any order.
    fn read(&self, offset: u64, most: usize) -> StoreFuture<Bytes>;
}

/// The type of [`open`]: makes the client of a URI's system, with the settings for S3. A parameter of sources, so that a test
/// can pass another function.
pub type OpenRemoteFiles = fn(&str, &S3Settings) -> Result<Arc<dyn RemoteFiles>, StoreError>;

/// Returns the client of the system that the URI names, `hdfs://nameservice/path` or `s3://bucket/path`. Nothing is contacted, and
/// no configuration is read: that is done by the client's first call.
///
/// # Errors
/// Returns [`StoreError::UnknownUri`] for other and malformed URIs (the path of an `hdfs://` URI is checked by the client's calls), also
/// if this program was built without the cargo feature that the URI needs.
pub fn open(uri: &str, s3: &S3Settings) -> Result<Arc<dyn RemoteFiles>, StoreError> {
    #[cfg(not(feature = "s3"))]
    let _ = s3;
    let unknown = |why: &str| Err(unknown_uri(uri, why.to_owned()));
    match uri.split_once("://").map(|(scheme, _)| scheme) {
        #[cfg(feature = "hdfs")]
        Some("hdfs") => Ok(Arc::new(hdfs::HdfsFiles::of(uri))),
        #[cfg(not(feature = "hdfs"))]
        Some("hdfs") => {
            unknown("this program was built without the cargo feature 'hdfs' (or 'yarn') of flott")
        }
        #[cfg(feature = "s3")]
        Some("s3") => Ok(Arc::new(s3::S3Files::of(uri, s3)?)),
        #[cfg(not(feature = "s3"))]
        Some("s3") => unknown("this program was built without the cargo feature 's3' of flott"),
        _ => unknown("input is read from local files, hdfs:// and s3://"),
    }
}

/// Returns true if the path of an input begins with `hdfs://` or `s3://`, so that it is read by this module and not as a local file.
pub fn is_remote(path: &str) -> bool {
    path.starts_with("hdfs://") || path.starts_with("s3://")
}

/// Lists files like [`RemoteFiles::list`] and blocks the calling thread until the answer is there. Must not be called inside of an async
/// runtime (it panics).
///
/// # Errors
/// Returns the errors of [`RemoteFiles::list`], or [`StoreError::Io`] if no runtime can be made.
pub fn list_now(files: &dyn RemoteFiles, uri: &str) -> Result<Vec<(String, u64)>, StoreError> {
    let failed =
        |error: std::io::Error| StoreError::Io { path: uri.to_owned(), why: error.to_string() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(failed)?.block_on(files.list(uri))
}
