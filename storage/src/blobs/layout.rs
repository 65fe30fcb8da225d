//! Names of the blobs in a directory of a store: `<job id or "shared">/<permanent or transient>-<hash>`.
//!
//! Must never list what has another name: a file that is being written, or one of somebody else.

use super::BlobStoreError;
use crate::objects::{StoreError, file::absent};
use model::{BlobKey, BlobKind, ContentHash, JobId};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const SHARED: &str = "shared";

/// Appends the keys of the blobs in one directory of a store.
pub(super) fn keys_in(root: &Path, keys: &mut Vec<BlobKey>) -> Result<(), BlobStoreError> {
    let failed = |path: &Path, e: io::Error| StoreError::from_io(path, &e);
    for folder in fs::read_dir(root).map_err(|e| failed(root, e))? {
        let folder = folder.map_err(|e| failed(root, e))?;
        let Some(job) = folder.file_name().to_str().and_then(parse_job) else {
            continue;
        };
        let path = folder.path();
        let files = match fs::read_dir(&path) {
            Ok(files) => files,
            Err(e) if absent(&e) => continue,
            Err(e) => return Err(failed(&path, e).into()),
        };
        for file in files.flatten() {
            let name = file.file_name();
            let Some((kind, hash)) = name.to_str().and_then(parse_file) else {
                continue;
            };
            // A blob that is removed while the folder is read is left out.
            let Ok(meta) = file.metadata() else { continue };
            keys.push(BlobKey { job, hash, kind, size: meta.len() });
        }
    }
    Ok(())
}

/// Returns the folder of a job's blobs, or of those of no job, in the directory `root` of a store.
pub(super) fn folder_in(root: &Path, job: Option<JobId>) -> PathBuf {
    root.join(job.map_or_else(|| SHARED.to_owned(), |job| job.to_string()))
}

/// Returns the name of a blob's file in that folder.
pub(super) fn file_name(kind: BlobKind, hash: ContentHash) -> String {
    format!("{}-{hash}", kind_name(kind))
}

fn kind_name(kind: BlobKind) -> &'static str {
    match kind {
        BlobKind::Permanent => "permanent",
        BlobKind::Transient => "transient",
    }
}

fn parse_job(folder: &str) -> Option<Option<JobId>> {
    match folder {
        SHARED => Some(None),
        id => id.parse().ok().map(Some),
    }
}

fn parse_file(name: &str) -> Option<(BlobKind, ContentHash)> {
    let (kind, hash) = name.split_once('-')?;
    let kind =
        [BlobKind::Permanent, BlobKind::Transient].into_iter().find(|k| kind_name(*k) == kind)?;
    Some((kind, hash.parse().ok()?))
}
