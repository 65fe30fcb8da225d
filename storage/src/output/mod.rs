//! Output files: written under hidden names, finished, and then published under their own names in one step. A folder is named
//! by a URI: a local path or `file:`, `hdfs://` or `s3://`.
//!
//! A file is *in progress* while it is written, *pending* when it is written to its end and safe from the loss of a process, and
//! *finished* when it is published. This module must never show a file that is not published. Names must be unique, as those of the file
//! sink are by a random part: a local folder and S3 replace a finished file of the same name, HDFS refuses to.

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

/// A folder for output files of sinks: local, in HDFS or in S3. Files are invisible to readers until they are published: a writer calls
/// `create`, writes the file in pieces of exactly `piece_bytes` bytes (only the last may be shorter) and finishes it, which makes it
/// *pending*; the sink's committer, perhaps in another process, calls `publish` once the checkpoint with the pending file is complete (at
/// the job's end without checkpoints), or `keep` for a savepoint. Later attempts of the writer find what was never published by
/// `unpublished` and `discard` it. Marks show whether both processes use the same folder. `publish`, `keep` and `discard` may be repeated
/// after an error.
pub trait OutputFolder: Send + Sync + fmt::Debug {
    /// Creates a hidden file, in progress, that gets `name` when it is published, and the folder where it is absent. `owner` is a part of
    /// the hidden name, so that [`OutputFolder::unpublished`] finds the files of one writer. Both consist of `A-Z a-z 0-9 . _ -`, which is
    /// not checked; `name` must be new in the folder, because a hidden file of the same name and owner may be replaced. In S3 this begins
    /// an upload instead, which has no hidden name: its owner is known if `name` contains [`tag`]`(owner)` between two hyphens.
    fn create(&self, name: &str, owner: &str) -> StoreFuture<Box<dyn OutputFile>>;
    /// Makes a pending file visible under its name in one step; called by the sink's committer. A repeated call for a file that is
    /// published returns [`Published::Done`] again; a file that is gone or was changed is no error but another [`Published`]. Another
    /// finished file of that name is replaced in a local folder and in S3; HDFS refuses with an error, and the file stays pending. After an
    /// error the file may be visible or not; the committer repeats the call.
    fn publish(&self, file: PendingOutput) -> StoreFuture<Published>;
    /// Renames a pending file, named by its [`PendingOutput::hidden`], so that [`OutputFolder::unpublished`] does not list it and no
    /// attempt discards it: a savepoint holds it. The unchanged [`PendingOutput`] still publishes it. Does nothing with a file that is
    /// kept or published already, or is absent. In S3 it does not look at the upload, and always creates an empty hidden object instead,
    /// also for one that is published or absent; [`OutputFolder::discard`] looks for that object. It is deleted only when this same
    /// [`OutputFolder`] value publishes the file afterwards, and stays if another one does, as after a restart.
    fn keep(&self, hidden: String) -> StoreFuture<()>;
    /// Lists the files of an owner (see [`OutputFolder::create`]) that are in progress or pending, without those that a savepoint holds,
    /// but with marks ([`OutputFolder::leave_mark`]); empty if the folder is absent. A new attempt of a writer discards by it what earlier
    /// ones left. In S3 files that a savepoint holds are listed too, and an access key without the permission to list uploads is an error.
    fn unpublished(&self, owner: &str) -> StoreFuture<Vec<Unpublished>>;
    /// Deletes a file that is not published; an absent one is no error. A file that was published or kept ([`OutputFolder::keep`]) since it
    /// was listed stays. In S3 the upload is aborted, unless a savepoint holds it.
    fn discard(&self, file: Unpublished) -> StoreFuture<()>;
    /// Creates a mark, an empty hidden file, in a local folder, and the folder where it is absent: the process that publishes files looks
    /// for it by [`OutputFolder::take_mark`], to see that it uses the same folder. A writer calls this at the start of an attempt. Returns
    /// the file's name; for HDFS and S3, where a URI means one folder on all machines, and for a mark that this value has removed
    /// meanwhile, it creates nothing and returns `None`. `name` and `owner` are those of [`OutputFolder::create`]: a mark that nobody takes
    /// is among the unpublished files.
    fn leave_mark(&self, _name: &str, _owner: &str) -> StoreFuture<Option<String>> {
        Box::pin(async { Ok(None) })
    }
    /// Deletes the mark of this name that another process left by [`OutputFolder::leave_mark`]. Returns false if it is not here: that
    /// process then uses another folder under the same path. Always true for HDFS and S3.
    fn take_mark(&self, _mark: &str) -> StoreFuture<bool> {
        Box::pin(async { Ok(true) })
    }
    /// Deletes the mark that this value left by [`OutputFolder::leave_mark`] with these arguments, if it is still in the folder, and keeps
    /// one from being created whose `leave_mark` is under way; blocks the calling thread for the disk. A writer calls this when it is
    /// cancelled or has not announced its mark. Errors are ignored. Does nothing for HDFS and S3.
    fn remove_mark(&self, _name: &str, _owner: &str) {}
    /// Returns the number of bytes that each [`OutputFile::write`] but the last must get: 1 MiB for a local folder, 4 MiB for HDFS, 8 MiB
    /// for S3.
    fn piece_bytes(&self) -> usize;
}

/// A file in progress, made by [`OutputFolder::create`]: it is being written and hidden until [`OutputFile::finish`] makes it pending. A
/// local one is deleted when this value is dropped before; in HDFS and S3 it stays until it is discarded.
pub trait OutputFile: Send {
    /// Appends bytes and returns the file once they are written: exactly [`OutputFolder::piece_bytes`] of them, fewer in the last call
    /// only. They may be lost with the machine until the file is finished. After an error the file is dropped, and can't be finished any
    /// more.
    fn write(self: Box<Self>, bytes: Bytes) -> StoreFuture<Box<dyn OutputFile>>;
    /// Ends the file and makes it pending: its content is durable when the future returns `Ok`, and still invisible. The result is what
    /// [`OutputFolder::publish`] needs.
    fn finish(self: Box<Self>) -> StoreFuture<PendingOutput>;
}

/// A file that is written to its end and not yet published: its names, its length and what completes it, not its content. Made by
/// [`OutputFile::finish`]. A sink keeps this value in its checkpoints until [`OutputFolder::publish`] has taken it, perhaps in another
/// process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingOutput {
    /// The name, within the folder, that the file gets when it is published.
    pub name: String,
    /// The temporary place of the content: the hidden name in the folder, or in S3 the id of the upload.
    pub hidden: String,
    /// The tags that S3 has given to the upload's parts, in order, which complete the upload; empty for local files and HDFS.
    pub parts: Vec<String>,
    /// The length of the content in bytes.
    pub bytes: u64,
}

/// The outcome of an [`OutputFolder::publish`] that did not fail with an error of the system. The file sink's committer takes `Missing` for
/// a failure of the job, except where it repeats a commit, and `Damaged` always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a file that is missing was not published"]
pub enum Published {
    /// The file is visible under its name, now or since an earlier call.
    Done,
    /// Neither the pending file nor a finished one of its name and length is in the folder: the data is lost, or an earlier call has
    /// published it and a reader has taken it away since.
    Missing,
    /// The pending file has another length than it was written with, and stays hidden: somebody has changed it. Not in S3, where nobody
    /// can change an upload's parts.
    Damaged {
        /// The length of the pending file in bytes.
        found: u64,
    },
}

/// A file that is in progress or pending, or a mark, as [`OutputFolder::unpublished`] found it; given to [`OutputFolder::discard`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unpublished {
    /// The name that the file would have got by publishing.
    pub name: String,
    hidden: String,
}

/// Opens the folder for output files that a URI names: an absolute local path, `file:`, `hdfs://` or `s3://`. `s3` is for folders in S3
/// only. Nothing is contacted or created.
///
/// # Errors
/// Returns [`StoreError::UnknownUri`] for other and malformed URIs, also if this program was built without the cargo feature that the URI
/// needs, if a local path is relative, or if no S3 client can be made; that no HDFS client can be made, the folder's first call reports.
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

/// Returns the folder for output files at a path of a local or mounted file system. Nothing is touched or created.
pub fn local(folder: impl Into<PathBuf>) -> Arc<dyn OutputFolder> {
    Arc::new(local::LocalFolder::new(folder.into()))
}

/// Returns the 16 hexadecimal digits that stand for an owner in the names of its files ([`OutputFolder::create`]). Files whose owners
/// differ have the same ones with a probability of 2⁻⁶⁴.
pub fn tag(owner: &str) -> String {
    digits(owner, 8)
}

/// Returns the first bytes of a text's SHA-256, as two hexadecimal digits each.
fn digits(text: &str, bytes: usize) -> String {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(text.as_bytes()).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
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
