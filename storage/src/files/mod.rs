//! Input files of other systems, read by byte range: what a source with a URI reads. Local files are no business of this
//! module: sources read them directly.
//!
//! This module must never write, and never hold more of a file than one range that was asked for.

#[cfg(feature = "hdfs")]
mod hdfs;

use crate::objects::{StoreError, StoreFuture};
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// Files below the URIs of one system.
pub trait RemoteFiles: Send + Sync + fmt::Debug {
    /// Lists the file of this URI, or all files below the folder, with their lengths in bytes, in the order of their names.
    /// Inside folders those whose names begin with `.` or `_` are left out, as in Flink.
    fn list(&self, uri: &str) -> StoreFuture<Vec<(String, u64)>>;
    /// Opens a file for reading.
    fn open(&self, uri: &str) -> StoreFuture<Arc<dyn RemoteFile>>;
}

/// A file as it was when it was opened.
pub trait RemoteFile: Send + Sync + fmt::Debug {
    /// Reads at most `most` bytes from `offset` on. Returns no bytes at the end of the file only.
    fn read(&self, offset: u64, most: usize) -> StoreFuture<Bytes>;
}

/// Makes the client of a URI's system.
pub type OpenRemoteFiles = fn(&str) -> Result<Arc<dyn RemoteFiles>, StoreError>;

/// Returns the client of the system that the URI names. Nothing is contacted, and no configuration is read.
///
/// # Errors
/// [`StoreError::UnknownUri`], also if this program was built without the cargo feature that the URI needs.
pub fn open(uri: &str) -> Result<Arc<dyn RemoteFiles>, StoreError> {
    let unknown = |why: &str| StoreError::UnknownUri {
        uri: uri.chars().take(200).collect(),
        why: why.to_owned(),
    };
    if !uri.starts_with("hdfs://") {
        return Err(unknown("input is read from local files and from hdfs://"));
    }
    #[cfg(feature = "hdfs")]
    return Ok(Arc::new(hdfs::HdfsFiles::of(uri)));
    #[cfg(not(feature = "hdfs"))]
    Err(unknown("this program was built without the cargo feature 'hdfs' (or 'yarn') of flott"))
}

/// Returns true if the text is a URI whose files only this module reads.
pub fn is_remote(path: &str) -> bool {
    path.starts_with("hdfs://")
}

/// Lists files on the calling thread, which waits for them.
///
/// # Errors
/// The system's error.
pub fn list_now(files: &dyn RemoteFiles, uri: &str) -> Result<Vec<(String, u64)>, StoreError> {
    let failed =
        |error: std::io::Error| StoreError::Io { path: uri.to_owned(), why: error.to_string() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(failed)?.block_on(files.list(uri))
}
