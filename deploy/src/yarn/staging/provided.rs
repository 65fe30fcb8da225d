//! The shared cache of programs, `yarn.provided.lib.dirs`: files that every application may use, named by their hash.
//!
//! A program that is in the cache is not uploaded again, and nodes keep it for all applications. This module must never
//! replace or remove a file of the cache, and never fail a deployment because the cache cannot be used.

use super::{FILE_MODE, Staging, Upload};
use crate::yarn::contract::LaunchFile;
use crate::yarn::error::{YarnFailure, hdfs_words};
use hdfs_native::HdfsError;
use hdfs_native::client::FileStatus;

/// Everybody may read a file of the cache and nobody change it.
const SHARED_FILE_MODE: u32 = 0o444;
const SHARED_FOLDER_MODE: u32 = 0o755;
const OTHERS_READ: u16 = 0o004;
const OTHERS_ENTER: u16 = 0o001;

/// A file that the nodes fetch, from the cache or from staging.
#[derive(Debug)]
pub(in crate::yarn) struct Provided {
    pub(in crate::yarn) file: LaunchFile,
    /// Whether it was in the cache before.
    pub(in crate::yarn) found: bool,
    /// Why the cache is not used, or not as it is meant to be.
    pub(in crate::yarn) note: Option<String>,
}

impl Staging {
    /// Finds a file in one of the directories, or uploads it and moves it into the first one; it stays in staging if that
    /// fails. `progress` is told the bytes of each piece.
    ///
    /// # Errors
    /// As [`Staging::upload`]; a directory on another file system.
    pub(in crate::yarn) async fn provide(
        &self,
        upload: &Upload,
        dirs: &[String],
        progress: impl Fn(u64),
    ) -> Result<Provided, YarnFailure> {
        let dirs: Vec<&str> = dirs.iter().map(|dir| self.shared(dir)).collect::<Result<_, _>>()?;
        let hashed = rest::programs::hash_file(&upload.local).await;
        let (hash, _) = hashed.map_err(|e| {
            YarnFailure::configuration(format!("cannot read {}: {e}", upload.local.display()))
        })?;
        for dir in &dirs {
            if let Some(status) = self.there(&format!("{dir}/{hash}"), upload.size).await {
                progress(upload.size);
                return Ok(self.provided(upload, dir, &status, true).await);
            }
        }
        let staged = self.upload_with(upload, SHARED_FILE_MODE, progress).await?;
        let Some(dir) = dirs.first() else {
            return Ok(Provided { file: staged, found: false, note: None });
        };
        let path = format!("{dir}/{hash}");
        let moved = self.move_into(dir, &upload.name, &path).await;
        match self.there(&path, upload.size).await {
            // Another client may have brought the same file just before.
            Some(status) => Ok(self.provided(upload, dir, &status, false).await),
            None => {
                let why = moved.err().map(|error| hdfs_words(&error)).unwrap_or_default();
                let private = format!("{}/{}", self.path, upload.name);
                // Only this user can enter its folder in any case.
                let _ = self.hdfs.set_permission(&private, FILE_MODE).await;
                let note =
                    format!("{} is not kept in yarn.provided.lib.dirs {dir}: {why}", upload.name);
                Ok(Provided { file: staged, found: false, note: Some(note) })
            }
        }
    }

    /// Returns the path of a directory of the cache, which must be on the file system of the staging directory: files
    /// are moved between them.
    fn shared<'a>(&self, dir: &'a str) -> Result<&'a str, YarnFailure> {
        let path = dir.strip_prefix(&self.file_system).unwrap_or(dir).trim_end_matches('/');
        match path.starts_with('/') {
            true => Ok(path),
            false => Err(YarnFailure::configuration(format!(
                "yarn.provided.lib.dirs '{dir}' is no absolute path or URL on {}",
                self.file_system
            ))),
        }
    }

    async fn there(&self, path: &str, size: u64) -> Option<FileStatus> {
        let status = self.hdfs.get_file_info(path).await.ok()?;
        (!status.isdir && u64::try_from(status.length) == Ok(size)).then_some(status)
    }

    async fn move_into(&self, dir: &str, name: &str, path: &str) -> Result<(), HdfsError> {
        if self.hdfs.get_file_info(dir).await.is_err() {
            self.hdfs.mkdirs(dir, SHARED_FOLDER_MODE, true).await?;
        }
        self.hdfs.rename(&format!("{}/{name}", self.path), path, false).await
    }

    async fn provided(
        &self,
        upload: &Upload,
        dir: &str,
        status: &FileStatus,
        found: bool,
    ) -> Provided {
        // A node refuses to share a file that not everybody can reach.
        let closed = self.closed_to_others(dir).await;
        let public = closed.is_none() && status.permission & OTHERS_READ != 0;
        let note = closed.map(|folder| {
            format!(
                "nodes fetch {} for this application alone: not everybody may enter {folder}",
                upload.name
            )
        });
        let name = status.path.rsplit('/').next().unwrap_or_default();
        let file = LaunchFile {
            name: upload.name.clone(),
            url: format!("{}{dir}/{name}", self.file_system),
            size: i64::try_from(status.length).unwrap_or(i64::MAX),
            timestamp: i64::try_from(status.modification_time).unwrap_or(i64::MAX),
            archive: upload.archive,
            public,
        };
        Provided { file, found, note }
    }

    /// Returns the first of the directory and those above it that not everybody may enter.
    async fn closed_to_others(&self, dir: &str) -> Option<String> {
        let mut folder = dir;
        loop {
            let shown = if folder.is_empty() { "/" } else { folder };
            let status = self.hdfs.get_file_info(shown).await;
            if status.is_ok_and(|status| status.permission & OTHERS_ENTER == 0) {
                return Some(shown.to_owned());
            }
            folder = folder.rsplit_once('/')?.0;
        }
    }
}
