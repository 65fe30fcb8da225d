//! The programs that were uploaded to this endpoint: files in one folder, checked before they are kept.
//!
//! An upload is written under a name that no request can reach, and gets its id only once it is whole and
//! known to be a program. Then it is asked once for the names of its jobs, and the answer is kept beside it.
//! Nothing here executes anything itself, and nothing is executed before it is known to be a program.

use crate::decode;
use crate::error::ApiError;
use crate::messages::{JarEntry, JarFile};
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use model::ContentHash;
use platform::content::{Content, ContentHasher, hash_file};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;
use tokio::io::AsyncWriteExt;

/// Checks whether an uploaded file is a program that this cluster can run, and asks programs for their jobs. The process that starts the
/// endpoint implements it. A [`ProgramStore`] calls both once for each upload, in this order and before the upload gets its id: `check`
/// executes nothing, and a file that it refuses is deleted; `jobs`, called only for an allowed file, runs the program, whose upload is kept
/// without job names if that fails.
pub trait ProgramChecker: Send + Sync {
    /// Checks a file without executing it; blocks the calling thread. The error is the reason why the file is refused; the
    /// client sees it, so it names no path of this machine.
    fn check(&self, path: &Path) -> Result<(), String>;
    /// Runs the program, for a bounded time, and returns the names of the jobs that it registers. The error is the reason
    /// why they can't be known; the upload is kept all the same.
    fn jobs(&self, path: PathBuf) -> BoxFuture<'static, Result<Vec<String>, String>>;
}

/// The folder of uploaded programs of one endpoint, by which they are stored, found, listed and removed. Clones share it. The number of
/// programs has no bound. Programs stay in the folder until they are removed, also when the store is dropped or the process ends; the next
/// store that is opened there has them.
#[derive(Clone)]
pub struct ProgramStore {
    folder: PathBuf,
    bytes_max: u64,
    checker: Arc<dyn ProgramChecker>,
    /// Hash and size of each file: programs are run more often than they are uploaded. Files are never changed
    /// under their name.
    contents: Arc<Mutex<BTreeMap<PathBuf, Content>>>,
    /// Called with the contents that are stored here whenever they change.
    on_change: Arc<dyn Fn(BTreeSet<ContentHash>) + Send + Sync>,
}

/// One uploaded program in the folder of its store, from [`ProgramStore::store`] or [`ProgramStore::find`]: its file and its name. Its
/// content and job names are not in it. The file may have been removed since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredProgram {
    /// Path of the program's file on the endpoint's machine; its last part is the program's id, `<unique>_<name>`.
    pub path: PathBuf,
    /// Name of the file as the client sent it, without a folder and control characters and cut to 128 characters; it is not unique.
    pub name: String,
}

/// Between the drawn and the given part of an id.
const ID_SEPARATOR: char = '_';
/// The beginning of an upload's name while it is under way.
const PARTIAL_PREFIX: &str = ".partial-";
/// The beginning of the name of the file with the names of a program's jobs, before the drawn part of its id.
const JOBS_PREFIX: &str = ".jobs-";
/// Most bytes of such a file that are read.
const JOBS_BYTES_MAX: u64 = 1 << 20;

impl ProgramStore {
    /// Opens a store in `folder`, which is created where it is absent. `bytes_max` is the maximum size of an upload in bytes; larger ones
    /// are refused with 413. Programs in the folder stay, and so do pieces of uploads that a killed process has left there, which nothing
    /// lists or finds. Blocks the calling thread. An error means that the folder can't be created.
    pub fn open(
        folder: PathBuf,
        bytes_max: u64,
        checker: Arc<dyn ProgramChecker>,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let on_change = Arc::new(|_| ());
        Ok(Self { folder, bytes_max, checker, contents: Arc::default(), on_change })
    }

    /// Sets a function that is called with the SHA-256 hashes of all known programs whenever one is added, removed, found to be missing, or
    /// read for the first time, so that the BlobServer keeps the blobs with these hashes for further runs. A file of an earlier process is
    /// among them only once its content was asked for. The store is locked meanwhile: the function must neither wait long nor call the
    /// store.
    #[must_use]
    pub fn telling(
        self,
        on_change: impl Fn(BTreeSet<ContentHash>) + Send + Sync + 'static,
    ) -> Self {
        Self { on_change: Arc::new(on_change), ..self }
    }

    /// Saves a program as it streams in, checks it, runs it to learn its job names, and then keeps it under the id `<unique>_<name>`, as an
    /// executable file (mode 0700); `unique` is written as 32 hexadecimal digits. Calls the function of [`ProgramStore::telling`] at the
    /// end. A program that does not name its jobs within its time is kept all the same, with a warning in the log.
    ///
    /// # Errors
    /// Returns status 400 for a bad name, a stream that fails or a refused program, 413 for a program larger than the store's `bytes_max`,
    /// 507 for a full disk, and 500 for other disk failures or a check that panicked. The program is not kept then, and what had come is
    /// deleted; so it is if the future is dropped.
    pub async fn store<S, E>(
        &self,
        name: &str,
        unique: u128,
        chunks: S,
    ) -> Result<StoredProgram, ApiError>
    where
        S: Stream<Item = Result<bytes::Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let name = decode::upload_name(name)?;
        let partial = Partial(self.folder.join(format!("{PARTIAL_PREFIX}{unique:032x}")));
        let content = self.write(&partial.0, chunks).await?;
        let checker = self.checker.clone();
        let path = partial.0.clone();
        let checked = tokio::task::spawn_blocking(move || checker.check(&path))
            .await
            .map_err(|e| ApiError::internal(format!("the upload could not be checked: {e}")))?;
        checked.map_err(|why| ApiError::bad_request(format!("'{name}' is refused: {why}")))?;
        let jobs = Partial(self.folder.join(format!("{JOBS_PREFIX}{unique:032x}")));
        self.ask_for_jobs(&partial.0, &name, &jobs.0).await?;
        let path = self.folder.join(format!("{unique:032x}{ID_SEPARATOR}{name}"));
        tokio::fs::rename(&partial.0, &path).await.map_err(|e| storage_error(&self.folder, &e))?;
        jobs.keep();
        self.note(&path, Some(content));
        Ok(StoredProgram { path, name })
    }

    /// Runs the program to learn its job names and writes the answer to `file`. A program that can't
    /// name them is kept without: it may still run, and reports the fault then.
    async fn ask_for_jobs(&self, program: &Path, name: &str, file: &Path) -> Result<(), ApiError> {
        let fail = |e: io::Error| storage_error(&self.folder, &e);
        let executable = Permissions::from_mode(0o700);
        tokio::fs::set_permissions(program, executable).await.map_err(fail)?;
        let jobs = match self.checker.jobs(program.to_owned()).await {
            Ok(jobs) => jobs,
            Err(why) => {
                tracing::warn!(program = %name, why, "an upload does not name its jobs");
                return Ok(());
            }
        };
        let bytes = serde_json::to_vec(&jobs).map_err(|e| ApiError::internal(e.to_string()))?;
        tokio::fs::write(file, bytes).await.map_err(fail)
    }

    /// Returns the file with the job names of the program of that id.
    fn jobs_file(&self, id: &str) -> Option<PathBuf> {
        let (unique, _) = id.split_once(ID_SEPARATOR)?;
        Some(self.folder.join(format!("{JOBS_PREFIX}{unique}")))
    }

    /// Returns the job names of the program of that id; empty if they are not known.
    fn jobs_of(&self, id: &str) -> Vec<String> {
        let file = self.jobs_file(id).and_then(|path| std::fs::File::open(path).ok());
        let Some(file) = file else { return Vec::new() };
        serde_json::from_reader(file.take(JOBS_BYTES_MAX)).unwrap_or_default()
    }

    /// Returns hash and size of a stored program; reads the file only if this process has neither stored nor read it
    /// before, and then calls the function of `ProgramStore::telling`. An error means that the file can't be read.
    pub async fn content(&self, program: &StoredProgram) -> io::Result<Content> {
        let known = self.contents().get(&program.path).copied();
        if let Some(content) = known {
            return Ok(content);
        }
        // Uploaded to an earlier process.
        let content = hash_file(&program.path).await?;
        self.note(&program.path, Some(content));
        Ok(content)
    }

    /// Records the content of a file, or with `None` that it does not exist any more.
    fn note(&self, path: &Path, content: Option<Content>) {
        let mut contents = self.contents();
        match content {
            Some(content) => contents.insert(path.to_owned(), content),
            None => contents.remove(path),
        };
        // While it is locked: the last word must be about the last change.
        (self.on_change)(contents.values().map(|(hash, _)| *hash).collect());
    }

    fn contents(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Content>> {
        // Every change is one insert or remove.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write<S, E>(&self, path: &Path, mut chunks: S) -> Result<Content, ApiError>
    where
        S: Stream<Item = Result<bytes::Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let fail = |e: io::Error| storage_error(&self.folder, &e);
        let mut file = tokio::fs::File::create(path).await.map_err(fail)?;
        let mut hasher = ContentHasher::default();
        while let Some(chunk) = chunks.next().await {
            let chunk =
                chunk.map_err(|e| ApiError::bad_request(format!("the upload broke off: {e}")))?;
            hasher.add(&chunk);
            if hasher.bytes() > self.bytes_max {
                return Err(ApiError::new(
                    actix_web::http::StatusCode::PAYLOAD_TOO_LARGE,
                    format!(
                        "the program is larger than {} bytes (web.max-upload-size)",
                        self.bytes_max
                    ),
                ));
            }
            file.write_all(&chunk).await.map_err(fail)?;
        }
        file.flush().await.map_err(fail)?;
        Ok(hasher.finish())
    }

    /// Returns the program of that id (`<unique>_<name>`); status 404 if there is none, also for a text that is no such id.
    /// Looks into the folder each time, which blocks the calling thread. If the file is missing, its content is forgotten
    /// and the function of [`ProgramStore::telling`] called.
    pub fn find(&self, id: &str) -> Result<StoredProgram, ApiError> {
        let missing = || {
            ApiError::not_found(format!(
                "there is no program '{id}' here: each JobManager keeps the programs that were uploaded to it only, so upload it \
             here, or ask the JobManager that it was uploaded to"
            ))
        };
        let id = decode::plain_file_name(id).map_err(|_| missing())?;
        let name = name_of(id).ok_or_else(missing)?.to_owned();
        let path = self.folder.join(id);
        if !path.is_file() {
            self.note(&path, None);
            return Err(missing());
        }
        Ok(StoredProgram { path, name })
    }

    /// Removes the program of that id, with its job names, from the folder, and calls the function of [`ProgramStore::telling`]; blocks the
    /// calling thread. Returns status 404 if there is none, or 500 if the disk failed (the program is still there then, perhaps without its
    /// job names). Its jobs go on; its blob stays as long as one of them needs it.
    pub fn remove(&self, id: &str) -> Result<(), ApiError> {
        let program = self.find(id)?;
        self.note(&program.path, None);
        if let Some(file) = self.jobs_file(id) {
            // Absent where the program did not say.
            let _ = std::fs::remove_file(file);
        }
        std::fs::remove_file(&program.path).map_err(|e| storage_error(&self.folder, &e))
    }

    /// Returns all programs in the folder, newest first, with the names of their jobs. Uploads under way are not among them. Blocks the
    /// calling thread. An error (status 500) means that the folder can't be read.
    pub fn list(&self) -> Result<Vec<JarFile>, ApiError> {
        let fail = |e: io::Error| storage_error(&self.folder, &e);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let id = entry.file_name().to_string_lossy().into_owned();
            let Some(name) = name_of(&id).map(str::to_owned) else {
                continue;
            };
            let uploaded = entry
                .metadata()
                .and_then(|m| m.modified())
                .ok()
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
            let jobs = self.jobs_of(&id);
            files.push(JarFile {
                id,
                name,
                uploaded,
                entry: jobs.into_iter().map(|name| JarEntry { name, description: None }).collect(),
            });
        }
        files.sort_by(|a, b| (b.uploaded, &b.id).cmp(&(a.uploaded, &a.id)));
        Ok(files)
    }
}

fn name_of(id: &str) -> Option<&str> {
    let (unique, name) = id.split_once(ID_SEPARATOR)?;
    let drawn = unique.len() == 32 && unique.bytes().all(|b| b.is_ascii_hexdigit());
    (drawn && !name.is_empty()).then_some(name)
}

fn storage_error(folder: &Path, e: &io::Error) -> ApiError {
    let message = format!("the upload folder {} failed: {e}", folder.display());
    if e.kind() == io::ErrorKind::StorageFull {
        return ApiError::new(
            actix_web::http::StatusCode::INSUFFICIENT_STORAGE,
            format!("{message}; free space there or set web.upload.dir"),
        );
    }
    ApiError::internal(message)
}

/// A file of an upload under way, which is deleted when the value is dropped, unless it was renamed or is to be kept.
struct Partial(PathBuf);

impl Partial {
    /// Keeps the file under its name.
    fn keep(mut self) {
        // An empty path names no file.
        self.0 = PathBuf::new();
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Absent after a rename: that is the good case.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    struct ByMagic;
    impl ProgramChecker for ByMagic {
        fn check(&self, path: &Path) -> Result<(), String> {
            let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
            match bytes.starts_with(b"ours") {
                true => Ok(()),
                false => Err("not a Flott program".to_owned()),
            }
        }
        /// The words behind the first, if the file may be executed.
        fn jobs(&self, path: PathBuf) -> BoxFuture<'static, Result<Vec<String>, String>> {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", path.display());
            let text = std::fs::read_to_string(&path).unwrap();
            let jobs: Vec<String> = text.split(' ').skip(1).map(str::to_owned).collect();
            let said = if jobs.is_empty() { Err("it is mute".to_owned()) } else { Ok(jobs) };
            Box::pin(std::future::ready(said))
        }
    }

    fn store(folder: &Path) -> ProgramStore {
        ProgramStore::open(folder.to_owned(), 64, Arc::new(ByMagic)).unwrap()
    }

    fn chunks(parts: &[&'static [u8]]) -> impl Stream<Item = Result<bytes::Bytes, String>> + Unpin {
        stream::iter(parts.iter().map(|p| Ok(bytes::Bytes::from_static(p))).collect::<Vec<_>>())
    }

    #[tokio::test]
    async fn a_program_is_kept_found_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let kept = store.store("../word_count", 7, chunks(&[b"ours", b" and more"])).await.unwrap();
        assert_eq!(kept.name, "word_count");
        let id = kept.path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(store.find(&id).unwrap(), kept);
        let listed = store.list().unwrap();
        assert_eq!(listed.len(), 1);
        let names: Vec<&str> = listed[0].entry.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["and", "more"]);
        let content = store.content(&kept).await.unwrap();
        assert_eq!(content, hash_file(&kept.path).await.unwrap());
        assert_eq!(content.1, 13);
        store.remove(&id).unwrap();
        assert!(store.find(&id).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays");
    }

    #[tokio::test]
    async fn somebody_is_told_what_is_here() {
        let folder = tempfile::tempdir().unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let store = store(folder.path()).telling(move |here| heard.lock().unwrap().push(here));
        let kept = store.store("one", 1, chunks(&[b"ours"])).await.unwrap();
        let again = store.store("two", 2, chunks(&[b"ours"])).await.unwrap();
        let hash = store.content(&kept).await.unwrap().0;
        let id = |program: &StoredProgram| {
            program.path.file_name().unwrap().to_str().unwrap().to_owned()
        };
        store.remove(&id(&kept)).unwrap();
        assert_eq!(*told.lock().unwrap(), [[hash].into(), [hash].into(), [hash].into()]);
        // The file was removed by another process, which is noticed when it is asked for.
        std::fs::remove_file(&again.path).unwrap();
        assert!(store.find(&id(&again)).is_err());
        assert_eq!(told.lock().unwrap().last(), Some(&BTreeSet::new()));
    }

    #[tokio::test]
    async fn a_program_that_does_not_name_its_jobs_is_kept_without() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let kept = store.store("mute", 8, chunks(&[b"ours"])).await.unwrap();
        assert!(store.list().unwrap()[0].entry.is_empty());
        let id = kept.path.file_name().unwrap().to_str().unwrap().to_owned();
        // A file that another process wrote there.
        std::fs::write(folder.path().join(format!("{JOBS_PREFIX}{:032x}", 8)), "{").unwrap();
        assert!(store.list().unwrap()[0].entry.is_empty());
        store.remove(&id).unwrap();
    }

    #[tokio::test]
    async fn what_is_refused_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let foreign = store.store("x", 1, chunks(&[b"#!/bin/sh"])).await;
        assert!(foreign.unwrap_err().errors[0].contains("not a Flott program"));
        let large: &'static [u8] = &[0; 65];
        assert_eq!(store.store("x", 2, chunks(&[large])).await.unwrap_err().status, 413);
        let broken = stream::iter(vec![Ok(bytes::Bytes::from_static(b"ours")), Err("reset")]);
        assert!(store.store("x", 3, broken).await.is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn an_upload_that_cannot_get_its_name_leaves_no_job_names_behind() {
        let folder = tempfile::tempdir().unwrap();
        // A folder that is not empty has the name which the program is to get: the rename fails.
        let taken = folder.path().join(format!("{:032x}{ID_SEPARATOR}x", 4));
        std::fs::create_dir_all(taken.join("mine")).unwrap();
        let failed = store(folder.path()).store("x", 4, chunks(&[b"ours and more"])).await;
        assert_eq!(failed.unwrap_err().status, 500);
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [taken]);
    }

    #[tokio::test]
    async fn ids_that_lead_elsewhere_are_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        for id in ["..", "../x", "", "plain", "00_x"] {
            assert_eq!(store.find(id).unwrap_err().status, 404, "{id}");
        }
    }
}
