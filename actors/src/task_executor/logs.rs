//! Reads the log files of this process and its hosts, for requests through REST.
//!
//! This module must never open anything but a regular file directly in the log folder, nor read on
//! the thread of a lane: a disk that hangs delays only the requests for logs.

use gateways::task_executor::{LogError, LogFile};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use tokio::sync::Semaphore;

/// Most bytes that one call reads.
const READ_BYTES_MAX: u64 = 1 << 20;

/// Calls that may occupy a blocking thread at a time; with a disk that hangs, the number of threads that hang with it.
const CALLS_MAX: usize = 4;

/// The folder of the log files that a TaskExecutor shows to users through REST: it answers their listing, and reads of at most 1 MiB each.
/// At most four calls read it at the same time, over all clones, each on a thread that may block; further ones wait.
#[derive(Debug, Clone)]
pub struct LogFolder {
    dir: PathBuf,
    prefixes: Vec<String>,
    places: Arc<Semaphore>,
}

impl LogFolder {
    /// Makes the value; opens nothing. Of the regular files directly in the folder `dir` only those whose names begin with one
    /// of `prefixes` (and not with a dot) are shown, because other processes may log into the same folder; without prefixes, none.
    /// Links and files in subfolders are not shown.
    pub fn new(dir: PathBuf, prefixes: Vec<String>) -> Self {
        Self { dir, prefixes, places: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Lists the files by name.
    pub(super) async fn list(self) -> Result<Vec<LogFile>, LogError> {
        self.call(Self::list_now).await
    }

    /// Reads at most `max` bytes of a file from `offset` on; none at its end.
    pub(super) async fn read(
        self,
        name: String,
        offset: u64,
        max: u64,
    ) -> Result<Vec<u8>, LogError> {
        self.call(move |folder| folder.read_now(&name, offset, max)).await
    }

    /// Runs `work` on a blocking thread once a place is free.
    async fn call<T: Send + 'static>(
        self,
        work: impl FnOnce(&Self) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let failed = |why: String| LogError::Io(why);
        let place = self.places.clone().acquire_owned().await.map_err(|e| failed(e.to_string()))?;
        let done = platform::blocking(move || {
            let done = work(&self);
            drop(place);
            done
        });
        done.await.unwrap_or_else(|why| Err(failed(why.to_string())))
    }

    fn list_now(&self) -> Result<Vec<LogFile>, LogError> {
        let entries = fs::read_dir(&self.dir).map_err(|e| LogError::Io(e.to_string()))?;
        let files = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let meta = entry.metadata().ok()?;
            let ours = self.has(&name) && meta.is_file();
            ours.then(|| LogFile { size: meta.len(), modified_ms: modified_ms(&meta), name })
        });
        let mut files: Vec<LogFile> = files.collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn read_now(&self, name: &str, offset: u64, max: u64) -> Result<Vec<u8>, LogError> {
        let absent = || LogError::NoSuchFile(name.chars().take(200).collect());
        if !self.has(name) {
            return Err(absent());
        }
        let path = self.dir.join(name);
        // Metadata of the name itself: a link could lead anywhere.
        let meta = fs::symlink_metadata(&path).map_err(|_| absent())?;
        if !meta.is_file() {
            return Err(absent());
        }
        let failed = |e: io::Error| LogError::Io(e.to_string());
        let file = File::open(&path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let n = size.saturating_sub(offset).min(max).min(READ_BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(n).unwrap_or(0)];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes)
    }

    /// Returns true if this could be the name of a log file of this process: no folder in it, not hidden.
    fn has(&self, name: &str) -> bool {
        let plain = !name.contains(['/', '\\', '\0']) && !name.starts_with('.') && !name.is_empty();
        plain && self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

fn modified_ms(meta: &Metadata) -> u64 {
    let age = meta.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}
