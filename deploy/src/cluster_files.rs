//! The cluster's id and secret: two 0600 files that are made once, outlive every process, and that each
//! role reads (a TaskManager waits for them).
//!
//! The secret must never be logged, sent, or put where another user can read it.

use conf::{Options, cluster, logging, security};
use nix::unistd::getuid;
use platform::Platform;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;
/// Most bytes that are read from either file.
const FILE_BYTES_MAX: u64 = 4096;
/// Most names of partial files that are tried.
const PARTIALS_MAX: usize = 100;
/// Interval at which an absent file is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The id and secret with which a process proves to others that it belongs to the cluster. Read once at the process's start; the secret
/// itself is never sent, and is left out of debug output.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("ClusterIdentity({}, secret)", self.id)]
pub struct ClusterIdentity {
    /// Id of the cluster: the text of the id file, or the configured one; on YARN the application's id. Processes of
    /// other clusters are refused by it.
    pub id: String,
    /// The secret that only the cluster's processes know: the bytes of the secret file's text (at least 8), without
    /// white space around it; on YARN those in the container's credentials, for an embedded cluster 32 random bytes
    /// that are in no file.
    pub secret: Vec<u8>,
}

/// Errors of [`ClusterFiles::make`] and [`ClusterFiles::read`], the making and reading of the files with the cluster's id and secret: open
/// to other users, absent (only when they are read), unusable, or a failure of the disk; the process cannot start then.
#[derive(Debug, Error)]
pub enum ClusterFilesError {
    /// A file belongs to another user or is open to others, or others may write into its folder, so that they could read or replace
    /// the secret; the file is not used. A folder may belong to root, and a sticky one (`/tmp`) may be writable by all.
    #[error(
        "{path} must belong to this user and be closed to all others (mode {expected}); it has mode {mode:o}, owner {owner}"
    )]
    Open {
        /// Path of the file or folder.
        path: PathBuf,
        /// The mode that the file or folder must have, as text in octal.
        expected: &'static str,
        /// The permission bits that the file or folder has.
        mode: u32,
        /// User id of the owner of the file or folder.
        owner: u32,
    },
    /// The file with the id or secret did not appear within the time that [`ClusterFiles::read`] waits.
    #[error("{path} did not appear within {} s: make it with 'flott make-secret' on the JobManager's host and copy it here (start-cluster.sh does both)", waited.as_secs())]
    Absent {
        /// Path of the file concerned.
        path: PathBuf,
        /// The time for which the file was waited for.
        waited: Duration,
    },
    /// The file's content is shorter than 8 bytes (without white space around it) or longer than 4096 bytes, the path names no regular file
    /// or is a link that leads nowhere; or the file cannot be made because 100 partial files of earlier processes are in the way.
    #[error("{path} holds no usable value: {why}")]
    Unusable {
        /// Path of the file concerned.
        path: PathBuf,
        /// A description of what is wrong.
        why: String,
    },
    /// Reading, writing or making the file or its folder failed for another reason than that the file is absent, or the content is not
    /// UTF-8; with the system's error.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file concerned.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// The cluster's id, or the path of the file that holds it, and the path of the file that holds the cluster's secret; by id and secret
/// the cluster's processes recognise each other. The id itself is here if it is configured (`cluster.id`): there is no id file then. The
/// secret itself never is. Creating this value touches no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFiles {
    /// `Ok`: the id itself, from `cluster.id`; no file is used then. `Err`: the path of the file that holds
    /// the id.
    pub id: Result<String, PathBuf>,
    /// Path of the file that holds the cluster's secret.
    pub secret: PathBuf,
}

impl ClusterFiles {
    /// Returns where the id and the secret are: the configured id, or id file, and secret file; by default
    /// the files `cluster-id` and `cluster-secret` in the folder `flott-<user id>` under `env.pid.dir`.
    /// Touches no file.
    pub fn of(options: &Options) -> Self {
        let folder = options.get(&logging::PID_DIR).join(format!("flott-{}", getuid()));
        let id = match options.get(&cluster::ID) {
            Some(id) => Ok(id),
            None => {
                Err(options.get(&cluster::ID_FILE).unwrap_or_else(|| folder.join("cluster-id")))
            }
        };
        let secret = options
            .get(&security::CLUSTER_SECRET_FILE)
            .unwrap_or_else(|| folder.join("cluster-secret"));
        Self { id, secret }
    }

    /// Makes the files with the id and the secret if they are absent, with random content and closed to other users,
    /// and their folder. Leaves existing files as they are, also one that another process makes at the same time, but checks them. A
    /// reader never sees half of a file. Makes no id file if the id is configured. Blocks while the disk works.
    ///
    /// # Errors
    /// Returns a [`ClusterFilesError`] if a file or its folder is open to other users, a file's content is unusable, or
    /// the disk fails.
    pub fn make(&self, platform: &Platform) -> Result<(), ClusterFilesError> {
        if let Err(path) = &self.id {
            make_absent(path, || hex(&platform.random_bytes::<16>()))?;
        }
        make_absent(&self.secret, || hex(&platform.random_bytes::<SECRET_BYTES>()))
    }

    /// Reads the id and the secret, one after the other, and waits up to `wait` for each of the files that is not
    /// there yet, looking every 20 ms; with zero, an absent file is an error at once. Other errors are returned at once. Writes nothing.
    ///
    /// # Errors
    /// Returns [`ClusterFilesError::Absent`] if a file is not there in time; the other errors if a file cannot be read
    /// or is not safe to use.
    pub async fn read(&self, wait: Duration) -> Result<ClusterIdentity, ClusterFilesError> {
        let id = match &self.id {
            Ok(id) => id.clone(),
            Err(path) => text(path, read_when_there(path, wait).await?)?,
        };
        let secret = text(&self.secret, read_when_there(&self.secret, wait).await?)?;
        Ok(ClusterIdentity { id, secret: secret.into_bytes() })
    }
}

/// Returns a random id (`embedded-…`) and secret that no other process has, for an embedded cluster. Writes
/// no file.
pub fn private_identity(platform: &Platform) -> ClusterIdentity {
    ClusterIdentity {
        id: format!("embedded-{}", hex(&platform.random_bytes::<8>())),
        secret: platform.random_bytes::<SECRET_BYTES>().to_vec(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn failed(path: &Path) -> impl Fn(io::Error) -> ClusterFilesError + '_ {
    move |source| ClusterFilesError::Io { path: path.to_owned(), source }
}

/// Makes a file unless there is one, which has to be usable: this user's alone, in a folder that nobody else may change.
fn make_absent(path: &Path, content: impl Fn() -> String) -> Result<(), ClusterFilesError> {
    if let Some(found) = read_file(path)? {
        return text(path, found).map(drop);
    }
    make_file(path, &content())?;
    match read_file(path)? {
        Some(_) => Ok(()),
        None => Err(ClusterFilesError::Unusable {
            path: path.to_owned(),
            why: "it is a link to a file that is not there".to_owned(),
        }),
    }
}

/// Makes a file for this user alone, whole before it gets its name, so that a reader never sees half of it. Returns whether
/// it was made: never over one that is there, whose content may be another.
pub(crate) fn make_file(path: &Path, content: &str) -> Result<bool, ClusterFilesError> {
    let partial = write_partial(path, content)?;
    let linked = std::fs::hard_link(&partial, path);
    // The partial file is not needed any more, whether the link was made or not.
    let _ = std::fs::remove_file(&partial);
    match linked {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(failed(path)(e)),
    }
}

/// Makes a file like [`make_file`], replacing an existing one.
#[cfg(any(test, feature = "yarn"))]
pub(crate) fn replace_file(path: &Path, content: &str) -> Result<(), ClusterFilesError> {
    let partial = write_partial(path, content)?;
    std::fs::rename(&partial, path).map_err(|e| {
        let _ = std::fs::remove_file(&partial);
        failed(path)(e)
    })
}

/// Writes a file beside `path` under an unused name, in a folder that no other user may change; a
/// link that another user left there is not followed. Files that a killed process left are skipped.
fn write_partial(path: &Path, content: &str) -> Result<PathBuf, ClusterFilesError> {
    let folder = path.parent().unwrap_or(path);
    make_folder(folder)?;
    check_folder(folder)?;
    let mut name = path.to_owned();
    for number in 0..PARTIALS_MAX {
        name.set_extension(format!("partial-{}-{number}", std::process::id()));
        match write_new(&name, content) {
            Ok(()) => return Ok(name),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(&name)(e)),
        }
    }
    Err(ClusterFilesError::Unusable {
        path: path.to_owned(),
        why: format!("remove the files beside it that are named like {}", name.display()),
    })
}

/// Makes a file, or nothing.
fn write_new(path: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut write = || {
        file.write_all(content.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

fn make_folder(folder: &Path) -> Result<(), ClusterFilesError> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))
}

/// Refuses a folder that other users may change: a user who may write in it can replace its files.
/// A sticky folder (`/tmp`) prevents that.
fn check_folder(folder: &Path) -> Result<(), ClusterFilesError> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let meta = std::fs::metadata(folder).map_err(failed(folder))?;
    let (mode, owner) = (meta.mode(), meta.uid());
    let foreign = owner != getuid().as_raw() && owner != 0;
    let open = mode & 0o022 != 0 && mode & 0o1000 == 0;
    if foreign || open {
        let path = folder.to_owned();
        let mode = mode & 0o7777;
        return Err(ClusterFilesError::Open { path, expected: "0700", mode, owner });
    }
    Ok(())
}

async fn read_when_there(path: &Path, wait: Duration) -> Result<String, ClusterFilesError> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(content) = read_file(path)? {
            return Ok(content);
        }
        if waited >= wait {
            return Err(ClusterFilesError::Absent { path: path.to_owned(), waited });
        }
        if waited.is_zero() {
            tracing::info!(path = %path.display(), "waiting for the cluster's file");
        }
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
}

/// Reads a file that only this user may read; `None` if there is none.
pub(crate) fn read_file(path: &Path) -> Result<Option<String>, ClusterFilesError> {
    // A pipe would be waited for without end.
    let file =
        OpenOptions::new().read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path);
    match file {
        Ok(file) => read_private(path, file).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => match std::fs::metadata(path) {
            Ok(meta) if meta.uid() != getuid().as_raw() => Err(not_private(path, &meta)),
            _ => Err(failed(path)(e)),
        },
    }
}

fn not_private(path: &Path, meta: &Metadata) -> ClusterFilesError {
    let (mode, owner) = (meta.mode() & 0o777, meta.uid());
    ClusterFilesError::Open { path: path.to_owned(), expected: "0600", mode, owner }
}

fn read_private(path: &Path, file: File) -> Result<String, ClusterFilesError> {
    let meta = file.metadata().map_err(failed(path))?;
    if meta.uid() != getuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(not_private(path, &meta));
    }
    if let Some(folder) = path.parent() {
        check_folder(folder)?;
    }
    let unusable =
        |why: &str| ClusterFilesError::Unusable { path: path.to_owned(), why: why.into() };
    if !meta.is_file() {
        return Err(unusable("it is not a file"));
    }
    if meta.len() > FILE_BYTES_MAX {
        return Err(unusable("it is longer than 4096 bytes"));
    }
    let mut content = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut content).map_err(failed(path))?;
    Ok(content)
}

fn text(path: &Path, content: String) -> Result<String, ClusterFilesError> {
    let trimmed = content.trim();
    if trimmed.len() < 8 {
        return Err(ClusterFilesError::Unusable {
            path: path.to_owned(),
            why: "it is shorter than 8 characters".to_owned(),
        });
    }
    Ok(trimmed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn files(folder: &Path) -> ClusterFiles {
        let options = Options::from_map([("env.pid.dir", folder.display().to_string())]).unwrap();
        ClusterFiles::of(&options)
    }

    #[tokio::test]
    async fn what_is_made_once_stays() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let platform = Platform::production();
        files.make(&platform).unwrap();
        let first = files.read(Duration::ZERO).await.unwrap();
        files.make(&platform).unwrap();
        assert_eq!(files.read(Duration::ZERO).await.unwrap(), first);
        assert_eq!(first.secret.len(), 2 * SECRET_BYTES);
        let mode = std::fs::metadata(&files.secret).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(!format!("{first:?}").contains(std::str::from_utf8(&first.secret).unwrap()));
    }

    #[test]
    fn what_a_killed_process_has_left_keeps_no_file_from_being_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster-secret");
        let stale = path.with_extension(format!("partial-{}-0", std::process::id()));
        let target = folder.path().join("target");
        std::fs::write(&target, "another's").unwrap();
        for plant in [&(|| std::fs::write(&stale, "ha").unwrap()) as &dyn Fn(), &|| {
            std::os::unix::fs::symlink(&target, &stale).unwrap()
        }] {
            plant();
            assert!(make_file(&path, "the secret").unwrap());
            assert_eq!(read_file(&path).unwrap().as_deref(), Some("the secret\n"));
            assert!(!make_file(&path, "other").unwrap());
            replace_file(&path, "replaced").unwrap();
            assert_eq!(read_file(&path).unwrap().as_deref(), Some("replaced\n"));
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read(&target).unwrap(), b"another's");
            std::fs::remove_file(&stale).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left");
        }
    }

    #[test]
    fn nothing_is_made_or_believed_in_a_folder_that_others_may_change() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        files.make(&Platform::production()).unwrap();
        let parent = files.secret.parent().unwrap();
        std::fs::set_permissions(parent, PermissionsExt::from_mode(0o777)).unwrap();
        let is_open = |made: Result<(), ClusterFilesError>| {
            assert!(matches!(made, Err(ClusterFilesError::Open { mode: 0o777, .. })), "{made:?}");
        };
        is_open(files.make(&Platform::production()));
        std::fs::remove_file(&files.secret).unwrap();
        is_open(make_file(&files.secret, "x").map(drop));
        is_open(replace_file(&files.secret, "x"));
        assert!(!files.secret.exists());
    }

    #[test]
    fn nothing_is_made_beside_files_that_this_user_could_not_use() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        files.make(&Platform::production()).unwrap();
        std::fs::set_permissions(&files.secret, PermissionsExt::from_mode(0o640)).unwrap();
        let made = files.make(&Platform::production());
        assert!(matches!(made, Err(ClusterFilesError::Open { mode: 0o640, .. })), "{made:?}");
        // Another user's file, which root could read all the same.
        let foreign = match getuid().is_root() {
            true => {
                std::fs::set_permissions(&files.secret, PermissionsExt::from_mode(0o600)).unwrap();
                std::os::unix::fs::chown(&files.secret, Some(1), None).unwrap();
                files.secret.clone()
            }
            false => PathBuf::from("/etc/shadow"),
        };
        let owner = std::fs::metadata(&foreign).unwrap().uid();
        let said = make_absent(&foreign, || "secret of this test".to_owned()).unwrap_err();
        assert!(matches!(said, ClusterFilesError::Open { owner: of, .. } if of == owner), "{said}");
        assert!(said.to_string().contains(&format!("owner {owner}")), "{said}");
        std::fs::remove_file(&files.secret).unwrap();
        std::os::unix::fs::symlink(folder.path().join("absent"), &files.secret).unwrap();
        let said = files.make(&Platform::production()).unwrap_err();
        assert!(said.to_string().contains("a link to a file that is not there"), "{said}");
    }

    #[tokio::test]
    async fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        files.make(&Platform::production()).unwrap();
        std::fs::set_permissions(&files.secret, PermissionsExt::from_mode(0o644)).unwrap();
        let error = files.read(Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, ClusterFilesError::Open { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_folder_that_others_can_write_in_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        files.make(&Platform::production()).unwrap();
        let parent = files.secret.parent().unwrap();
        std::fs::set_permissions(parent, PermissionsExt::from_mode(0o777)).unwrap();
        let error = files.read(Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, ClusterFilesError::Open { mode: 0o777, .. }), "{error}");
        std::fs::set_permissions(parent, PermissionsExt::from_mode(0o1777)).unwrap();
        files.read(Duration::ZERO).await.unwrap();
    }

    #[tokio::test]
    async fn a_pipe_or_a_large_file_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        files.make(&Platform::production()).unwrap();
        std::fs::remove_file(&files.secret).unwrap();
        nix::unistd::mkfifo(&files.secret, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = files.read(Duration::ZERO).await.unwrap_err();
        assert!(error.to_string().contains("not a file"), "{error}");
        std::fs::remove_file(&files.secret).unwrap();
        write_new(&files.secret, &"x".repeat(5000)).unwrap();
        let error = files.read(Duration::ZERO).await.unwrap_err();
        assert!(error.to_string().contains("4096"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_absent_file_is_waited_for_and_then_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = files(folder.path()).read(Duration::from_secs(10)).await.unwrap_err();
        assert!(error.to_string().contains("make-secret"), "{error}");
    }
}
