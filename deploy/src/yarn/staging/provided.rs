//! The shared cache of programs, `yarn.provided.lib.dirs`: files that every application may use, named by their hash.
//!
//! A program that is in the cache is not uploaded again, and nodes keep it for all applications. This module must never
//! replace or remove a file of the cache, and never fail a deployment because the cache cannot be used.

use super::{FILE_MODE, Staging, Upload};
use crate::yarn::contract::LaunchFile;
use crate::yarn::error::{YarnFailure, hdfs_words};
use hdfs_native::HdfsError;
use hdfs_native::client::FileStatus;
use platform::content::{Content, ContentHasher};

/// Mode of a file of the cache: every user may read it, none may change it.
const SHARED_FILE_MODE: u32 = 0o444;
const SHARED_FOLDER_MODE: u32 = 0o755;
const OTHERS_READ: u16 = 0o004;
const OTHERS_ENTER: u16 = 0o001;

/// A file that the nodes fetch, from the cache or from staging.
#[derive(Debug)]
pub(in crate::yarn) struct Provided {
    pub(in crate::yarn) file: LaunchFile,
    /// True if it was in the cache before.
    pub(in crate::yarn) found: bool,
    /// The reason why the cache is not used, or not in the way that it is meant to be.
    pub(in crate::yarn) note: Option<String>,
}

/// The place that a file has in the end; the status has its path.
#[derive(Debug)]
enum Placed {
    /// The file is in the cache; `found`: it was there before.
    Cached { status: FileStatus, found: bool },
    /// The file is in staging; `note` gives the reason if it was meant for the cache.
    Staged { status: FileStatus, note: Option<String> },
}

/// The calls to HDFS that decide where a file is.
trait Places {
    /// Copies the file into staging; `sent` gets every piece of the bytes that went.
    async fn stage(
        &self,
        upload: &Upload,
        sent: impl FnMut(&[u8]),
    ) -> Result<FileStatus, YarnFailure>;
    /// Looks at a file or folder; `None`: there is none.
    async fn look(&self, path: &str) -> Result<Option<FileStatus>, HdfsError>;
    /// Moves a staged file to a path in the folder `dir`, unless something is there.
    async fn move_into(&self, dir: &str, staged: &str, path: &str) -> Result<(), HdfsError>;
    /// Closes a staged file to others, as all others in staging are.
    async fn close(&self, staged: &str);
}

impl Places for Staging {
    async fn stage(
        &self,
        upload: &Upload,
        sent: impl FnMut(&[u8]),
    ) -> Result<FileStatus, YarnFailure> {
        self.upload_with(upload, SHARED_FILE_MODE, sent).await
    }

    async fn look(&self, path: &str) -> Result<Option<FileStatus>, HdfsError> {
        match self.hdfs.get_file_info(path).await {
            Ok(status) => Ok(Some(status)),
            Err(HdfsError::FileNotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn move_into(&self, dir: &str, staged: &str, path: &str) -> Result<(), HdfsError> {
        if !matches!(self.look(dir).await, Ok(Some(_))) {
            self.hdfs.mkdirs(dir, SHARED_FOLDER_MODE, true).await?;
        }
        self.hdfs.rename(staged, path, false).await
    }

    async fn close(&self, staged: &str) {
        // Only this user can enter its folder in any case.
        let _ = self.hdfs.set_permission(staged, FILE_MODE).await;
    }
}

impl Staging {
    /// Finds a file in one of the directories, or uploads it and moves it into the first one; if
    /// the move fails, the file stays in staging. Calls `progress` with the number of bytes of each
    /// piece.
    ///
    /// # Errors
    /// Those of [`Staging::upload`]; a directory on another file system.
    pub(in crate::yarn) async fn provide(
        &self,
        upload: &Upload,
        dirs: &[String],
        progress: impl Fn(u64),
    ) -> Result<Provided, YarnFailure> {
        let dirs: Vec<&str> = dirs.iter().map(|dir| self.shared(dir)).collect::<Result<_, _>>()?;
        let hashed = platform::content::hash_file(&upload.local).await;
        let wanted = hashed.map_err(|e| {
            YarnFailure::configuration(format!("cannot read {}: {e}", upload.local.display()))
        })?;
        match place(self, upload, &dirs, wanted, progress).await? {
            Placed::Cached { status, found } => {
                let mut provided = self.cached(upload, &status, found).await;
                provided.file.hash = Some(wanted.0);
                Ok(provided)
            }
            Placed::Staged { status, note } => {
                let file = self.launch_file(&upload.name, &status, upload.archive);
                Ok(Provided { file, found: false, note })
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
                "yarn.provided.lib.dirs '{dir}' is not an absolute path, nor a URL on {}",
                self.file_system
            ))),
        }
    }

    async fn cached(&self, upload: &Upload, status: &FileStatus, found: bool) -> Provided {
        // A node refuses to share a file that not everybody can reach.
        let closed = self.closed_to_others(&status.path).await;
        let public = closed.is_none() && status.permission & OTHERS_READ != 0;
        let note = closed.map(|folder| {
            format!(
                "nodes fetch {} for this application alone: not everybody may enter {folder}",
                upload.name
            )
        });
        let file = self.launch_file(&upload.name, status, upload.archive);
        Provided { file: LaunchFile { public, ..file }, found, note }
    }

    /// Returns the first of the folders above a file, from below, that not everybody may enter.
    async fn closed_to_others(&self, path: &str) -> Option<String> {
        let mut folder = path;
        loop {
            folder = folder.rsplit_once('/')?.0;
            let shown = if folder.is_empty() { "/" } else { folder };
            let status = self.hdfs.get_file_info(shown).await;
            if status.is_ok_and(|status| status.permission & OTHERS_ENTER == 0) {
                return Some(shown.to_owned());
            }
        }
    }
}

/// Finds the file with the wanted content in one of the directories, or uploads it. It is moved into the first of them if
/// that content is what was sent: another program may have been built after the hash was taken.
async fn place(
    places: &impl Places,
    upload: &Upload,
    dirs: &[&str],
    wanted: Content,
    progress: impl Fn(u64),
) -> Result<Placed, YarnFailure> {
    let (hash, size) = wanted;
    for dir in dirs {
        // A directory that cannot be looked at is none to find something in.
        if let Ok(Some(status)) = there(places, &format!("{dir}/{hash}"), size).await {
            progress(upload.size);
            return Ok(Placed::Cached { status, found: true });
        }
    }
    let mut hasher = ContentHasher::default();
    let sent = |piece: &[u8]| {
        hasher.add(piece);
        progress(piece.len() as u64);
    };
    let staged = places.stage(upload, sent).await?;
    let Some(dir) = dirs.first() else { return Ok(Placed::Staged { status: staged, note: None }) };
    let path = format!("{dir}/{hash}");
    let why = match hasher.finish() == wanted {
        false => "it was changed while it was uploaded".to_owned(),
        true => match keep(places, dir, &path, &staged, size).await? {
            Ok(status) => return Ok(Placed::Cached { status, found: false }),
            Err(error) => hdfs_words(&error),
        },
    };
    places.close(&staged.path).await;
    let note = format!("{} is not kept in yarn.provided.lib.dirs {dir}: {why}", upload.name);
    Ok(Placed::Staged { status: staged, note: Some(note) })
}

/// Moves a staged file to its path in the cache. Returns the file that is there then, or why the staged one is not, which
/// is still in staging.
async fn keep(
    places: &impl Places,
    dir: &str,
    path: &str,
    staged: &FileStatus,
    size: u64,
) -> Result<Result<FileStatus, HdfsError>, YarnFailure> {
    // HDFS changes neither length nor time of a file that it moves.
    let moved = FileStatus { path: path.to_owned(), ..staged.clone() };
    let Err(error) = places.move_into(dir, &staged.path, path).await else { return Ok(Ok(moved)) };
    // Another client may have brought the same file just before.
    if let Ok(Some(status)) = there(places, path, size).await {
        return Ok(Ok(status));
    }
    match places.look(&staged.path).await {
        Ok(Some(_)) => Ok(Err(error)),
        // It was moved, and only the answer was lost.
        Ok(None) => Ok(Ok(moved)),
        Err(unseen) => Err(YarnFailure::cluster(format!(
            "it is not known whether {} was moved to {path}: {}; {}",
            staged.path,
            hdfs_words(&error),
            hdfs_words(&unseen)
        ))),
    }
}

/// Returns the status of a file of that size; `None` if there is none. A failure says nothing about that.
async fn there(
    places: &impl Places,
    path: &str,
    size: u64,
) -> Result<Option<FileStatus>, HdfsError> {
    let fits = |status: &FileStatus| !status.isdir && u64::try_from(status.length) == Ok(size);
    Ok(places.look(path).await?.filter(fits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::path::Path;

    const STAGED: &str = "/user/alice/.flott/application_1_0001/bin/program";

    /// Says of which paths nothing can be learnt.
    type Blind = fn(&str) -> bool;

    /// A file system in memory that fails on demand.
    #[derive(Default)]
    struct Fake {
        files: RefCell<BTreeMap<String, Vec<u8>>>,
        /// Looks are refused once a file was to be moved.
        blind: Option<Blind>,
        moving: Cell<bool>,
        refuses_moves: bool,
        loses_answers: bool,
        closed: Cell<bool>,
    }

    impl Fake {
        fn status(&self, path: &str) -> Option<FileStatus> {
            let length = self.files.borrow().get(path)?.len();
            Some(FileStatus {
                path: path.to_owned(),
                length,
                isdir: false,
                permission: 0o444,
                owner: "alice".to_owned(),
                group: "users".to_owned(),
                modification_time: 7,
                access_time: 0,
                replication: None,
                blocksize: None,
            })
        }

        fn names(&self) -> Vec<String> {
            self.files.borrow().keys().cloned().collect()
        }
    }

    fn away() -> HdfsError {
        HdfsError::OperationFailed("the NameNode is away".to_owned())
    }

    impl Places for Fake {
        async fn stage(
            &self,
            upload: &Upload,
            mut sent: impl FnMut(&[u8]),
        ) -> Result<FileStatus, YarnFailure> {
            let bytes = std::fs::read(&upload.local).unwrap();
            bytes.chunks(3).for_each(&mut sent);
            self.files.borrow_mut().insert(STAGED.to_owned(), bytes);
            Ok(self.status(STAGED).unwrap())
        }

        async fn look(&self, path: &str) -> Result<Option<FileStatus>, HdfsError> {
            match self.blind {
                Some(blind) if self.moving.get() && blind(path) => Err(away()),
                _ => Ok(self.status(path)),
            }
        }

        async fn move_into(&self, dir: &str, staged: &str, path: &str) -> Result<(), HdfsError> {
            assert!(path.starts_with(dir));
            self.moving.set(true);
            let mut files = self.files.borrow_mut();
            if self.refuses_moves {
                return Err(away());
            }
            if files.contains_key(path) {
                return Err(HdfsError::AlreadyExists(path.to_owned()));
            }
            let file = files.remove(staged).unwrap();
            files.insert(path.to_owned(), file);
            if self.loses_answers { Err(away()) } else { Ok(()) }
        }

        async fn close(&self, staged: &str) {
            assert!(self.files.borrow().contains_key(staged));
            self.closed.set(true);
        }
    }

    fn content(bytes: &[u8]) -> Content {
        let mut hasher = ContentHasher::default();
        hasher.add(bytes);
        hasher.finish()
    }

    /// Places a file of `now` that had the content `then` when it was hashed.
    async fn placed(fake: &Fake, then: &[u8], now: &[u8]) -> Result<Placed, YarnFailure> {
        let folder = tempfile::tempdir().unwrap();
        let local = folder.path().join("program");
        std::fs::write(&local, now).unwrap();
        let upload = Upload::new("bin/program", Path::new(&local)).unwrap();
        let told = Cell::new(0);
        let progress = |bytes| told.set(told.get() + bytes);
        let placed = place(fake, &upload, &["/cache", "/other"], content(then), progress).await;
        assert_eq!(told.get(), now.len() as u64);
        placed
    }

    fn in_cache(bytes: &[u8]) -> String {
        format!("/cache/{}", content(bytes).0)
    }

    #[tokio::test]
    async fn bytes_that_are_not_those_that_were_hashed_never_go_into_the_cache() {
        for now in [&b"program two"[..], b"a longer program"] {
            let fake = Fake::default();
            let Ok(Placed::Staged { status, note }) = placed(&fake, b"program one", now).await
            else {
                panic!("it was kept: {:?}", fake.names())
            };
            assert_eq!((status.path.as_str(), status.length), (STAGED, now.len()));
            let note = note.unwrap();
            assert!(note.contains("changed while it was uploaded"), "{note}");
            assert_eq!(fake.names(), [STAGED]);
            assert!(fake.closed.get());
        }
    }

    #[tokio::test]
    async fn a_file_that_was_moved_is_named_where_it_is_though_nobody_can_look_then() {
        let own = in_cache(b"program");
        let everywhere: Blind = |_| true;
        let in_the_cache: Blind = |path| path.starts_with("/cache");
        // Also where the answer to the move was lost.
        for (blind, loses_answers) in [(everywhere, false), (in_the_cache, true)] {
            let fake = Fake { blind: Some(blind), loses_answers, ..Fake::default() };
            let placed = placed(&fake, b"program", b"program").await.unwrap();
            let Placed::Cached { status, found: false } = placed else { panic!("{placed:?}") };
            assert_eq!(fake.names(), std::slice::from_ref(&own));
            let expected = (own.as_str(), 7, 7, 0o444);
            let has =
                (status.path.as_str(), status.length, status.modification_time, status.permission);
            assert_eq!(has, expected);
        }
        let fake = Fake { blind: Some(everywhere), loses_answers: true, ..Fake::default() };
        let error = placed(&fake, b"program", b"program").await.unwrap_err().to_string();
        assert!(error.contains("not known") && error.contains(&own), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_moved_stays_in_staging() {
        for blind in [None, Some((|path: &str| path.starts_with("/cache")) as Blind)] {
            let fake = Fake { refuses_moves: true, blind, ..Fake::default() };
            let placed = placed(&fake, b"program", b"program").await.unwrap();
            let Placed::Staged { status, note: Some(note) } = placed else { panic!("{placed:?}") };
            assert_eq!(status.path, STAGED);
            assert!(note.contains("is not kept") && note.contains("NameNode is away"), "{note}");
            assert!(fake.closed.get());
        }
    }

    #[tokio::test]
    async fn a_file_of_the_cache_is_used_if_it_has_the_size_and_is_never_replaced() {
        let fake = Fake::default();
        let other = format!("/other/{}", content(b"program").0);
        fake.files.borrow_mut().insert(other.clone(), b"program".to_vec());
        let found = placed(&fake, b"program", b"program").await.unwrap();
        let Placed::Cached { status, found: true } = found else { panic!("{found:?}") };
        assert_eq!(status.path, other);

        let fake = Fake::default();
        fake.files.borrow_mut().insert(in_cache(b"program"), b"short".to_vec());
        let found = placed(&fake, b"program", b"program").await.unwrap();
        assert!(matches!(found, Placed::Staged { note: Some(_), .. }), "{found:?}");
        assert_eq!(fake.files.borrow().get(&in_cache(b"program")).unwrap(), b"short");
    }
}
