//! Output files: written under hidden names, finished, and then published under their own names in one step. A folder is named
//! by a URI: a local path or `file:`, `hdfs://` or `s3://`.
//!
//! A file is *in progress* while it is written, *pending* when it is written to its end and safe from the loss of a process, and
//! *finished* when it is published. This module must never show a file that is not published, and never replace one that is.

#[cfg(feature = "hdfs")]
mod hdfs;
mod local;
#[cfg(feature = "s3")]
mod s3;
#[cfg(test)]
mod tests;

use crate::objects::{S3Settings, StoreError, StoreFuture, local_path, unknown_uri};
use bytes::Bytes;
use std::{fmt, path::PathBuf, sync::Arc};

/// The end of a hidden name while the file is written, and afterwards.
const IN_PROGRESS: &str = ".inprogress";
const PENDING: &str = ".pending";
/// The end of the hidden name of a pending file that a savepoint holds.
const KEPT: &str = ".kept";

/// A folder for output files of sinks: local, in HDFS or in S3. Files are invisible to readers until they are published.
pub trait OutputFolder: Send + Sync + fmt::Debug {
    /// Creates a file, in progress, that is to become `name`, and the folder where it is absent. `owner` is a part of the
    /// hidden name, so that [`OutputFolder::unpublished`] finds the files of one writer. Both consist of `A-Z a-z 0-9 . _ -`.
    fn create(&self, name: &str, owner: &str) -> StoreFuture<Box<dyn OutputFile>>;
    /// Makes a pending file visible under its name in one step; succeeds again if that is done already. See [`Published`] for a
    /// file that is gone.
    fn publish(&self, file: PendingOutput) -> StoreFuture<Published>;
    /// Keeps a pending file, by its [`PendingOutput::hidden`], from being listed by [`OutputFolder::unpublished`]: a savepoint holds it. It
    /// is published by the same [`PendingOutput`] afterwards. Does nothing with a file that is kept or published already, or is absent,
    /// and nothing in S3, where uploads are not listed.
    fn keep(&self, _hidden: String) -> StoreFuture<()> {
        Box::pin(async { Ok(()) })
    }
    /// Lists the files of an owner that are in progress or pending; empty if the folder is absent. S3 cannot tell and returns
    /// none.
    fn unpublished(&self, owner: &str) -> StoreFuture<Vec<Unpublished>>;
    /// Deletes a file that is not published; an absent one is no error. Does nothing in S3, where a lifecycle rule removes
    /// uploads.
    fn discard(&self, file: Unpublished) -> StoreFuture<()>;
    /// Creates an empty hidden file in the folder, and the folder where it is absent, by which another process sees that it uses
    /// the same folder. Returns the file's name; `None` without a file if all machines see the same folder under one URI.
    /// `name` and `owner` are those of [`OutputFolder::create`]: a mark that nobody takes is among the unpublished files.
    fn leave_mark(&self, _name: &str, _owner: &str) -> StoreFuture<Option<String>> {
        Box::pin(async { Ok(None) })
    }
    /// Deletes a mark of [`OutputFolder::leave_mark`]. Returns false if it is not in the folder, which is then another one.
    fn take_mark(&self, _mark: &str) -> StoreFuture<bool> {
        Box::pin(async { Ok(true) })
    }
    /// Deletes the mark of [`OutputFolder::leave_mark`] with these arguments, if it is in the folder; waits for the disk. Errors are
    /// ignored.
    fn remove_mark(&self, _name: &str, _owner: &str) {}
    /// Returns how many bytes to write at once.
    fn piece_bytes(&self) -> usize;
}

/// A file in progress. A local one is deleted when this value is dropped before [`OutputFile::finish`].
pub trait OutputFile: Send {
    /// Appends bytes and returns the file once they are written: exactly [`OutputFolder::piece_bytes`] of them, fewer in the
    /// last call only. After an error the file can't be used any more.
    fn write(self: Box<Self>, bytes: Bytes) -> StoreFuture<Box<dyn OutputFile>>;
    /// Makes the file pending: its content is durable when the future returns `Ok`, and still invisible.
    fn finish(self: Box<Self>) -> StoreFuture<PendingOutput>;
}

/// A file that is written to its end and not published; kept in checkpoints until it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingOutput {
    /// The name, within the folder, that the file gets when it is published.
    pub name: String,
    /// Temporary place of the content: the hidden name, or in S3 the id of the upload.
    pub hidden: String,
    /// The tags of an S3 upload's parts, in order; empty where the content is a file.
    pub parts: Vec<String>,
    /// The length of the content in bytes.
    pub bytes: u64,
}

/// The outcome of [`OutputFolder::publish`] that is no error of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a file that is missing was not published"]
pub enum Published {
    /// The file is visible under its name, now or since an earlier call.
    Done,
    /// Neither the pending file nor a finished one of its name and length is in the folder: the data is lost, or an earlier call has
    /// published it and a reader has taken it away since.
    Missing,
    /// The pending file has another length than it was written with, and stays hidden: somebody has changed it.
    Damaged {
        /// The length of the pending file in bytes.
        found: u64,
    },
}

/// A file that is in progress or pending, as [`OutputFolder::unpublished`] found it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unpublished {
    /// The name that the file would have got by publishing.
    pub name: String,
    hidden: String,
}

/// Opens the folder that a URI names. Nothing is contacted or created.
///
/// # Errors
/// [`StoreError::UnknownUri`], also if this program was built without the cargo feature that the URI needs, or if a local path
/// is relative.
pub fn open(uri: &str, s3: &S3Settings) -> Result<Arc<dyn OutputFolder>, StoreError> {
    #[cfg(not(feature = "s3"))]
    let _ = s3;
    match uri.split_once("://") {
        #[cfg(feature = "hdfs")]
        Some(("hdfs", rest)) => Ok(Arc::new(hdfs::HdfsFolder::open(uri, rest)?)),
        #[cfg(feature = "s3")]
        Some(("s3", rest)) => Ok(Arc::new(s3::S3Folder::open(uri, rest, s3)?)),
        #[cfg_attr(
            any(feature = "hdfs", feature = "s3"),
            allow(unreachable_patterns, reason = "the scheme whose feature is built in")
        )]
        #[cfg(not(all(feature = "hdfs", feature = "s3")))]
        Some((scheme @ ("hdfs" | "s3"), _)) => Err(unknown_uri(
            uri,
            format!(
                "this program was built without the cargo feature '{scheme}', build it with --features {scheme}"
            ),
        )),
        _ => {
            let path = local_path(uri)?;
            if !path.is_absolute() {
                return Err(unknown_uri(uri, "the path is relative".to_owned()));
            }
            Ok(local(path))
        }
    }
}

/// Returns the folder at a path of a local or mounted file system. Nothing is touched or created.
pub fn local(folder: impl Into<PathBuf>) -> Arc<dyn OutputFolder> {
    Arc::new(local::LocalFolder::new(folder.into()))
}

/// Returns the hidden name of a file in progress, without its end.
fn hidden(name: &str, owner: &str) -> String {
    format!(".{name}.{owner}")
}

/// Returns the hidden name that a pending file gets when a savepoint holds it.
fn kept(hidden: &str) -> String {
    format!("{}{KEPT}", hidden.strip_suffix(PENDING).unwrap_or(hidden))
}

/// Returns the unpublished file that an entry of a folder is, `None` if it is another file or another owner's.
#[cfg_attr(not(feature = "hdfs"), allow(clippy::needless_pass_by_value, reason = "for iterators"))]
fn unpublished(entry: String, owner: &str) -> Option<Unpublished> {
    let rest = entry.strip_prefix('.')?;
    let rest = rest.strip_suffix(IN_PROGRESS).or_else(|| rest.strip_suffix(PENDING))?;
    let name = rest.strip_suffix(owner)?.strip_suffix('.')?.to_owned();
    Some(Unpublished { name, hidden: entry })
}
