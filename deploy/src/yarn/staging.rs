//! The staging directory of an application: the files that its containers get, on the cluster's HDFS.
//!
//! Every file is written to its end before it is named to YARN, for its owner alone. Size and time of a file are those
//! that HDFS reports after that: nodes refuse a file that differs. No local file is changed.

mod provided;

use super::contract::{LaunchFile, SHIP_FOLDER};
use super::error::{YarnFailure, hdfs_words};
use super::hdfs;
use bytes::Bytes;
use conf::{Options, yarn_client};
use hadoop::conf::Configuration;
use hadoop::hdfs::FileSystem;
use hadoop::login::Login;
use hadoop::yarn::YarnError;
use hadoop::yarn::messages::ApplicationId;
use hdfs_native::client::FileStatus;
use hdfs_native::{Client, WriteOptions};
use std::path::{Path, PathBuf};
use tokio::io::AsyncReadExt;

/// Mode of the folder: only the submitter may read it, because the options in it may be secret.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Bytes that are read and sent at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Most staging directories of other applications that one command looks at.
const OTHERS_MAX: usize = 20;
/// The folder of all applications below the base.
const FOLDER: &str = ".flott";
/// Most ship files: each is an entry in every container's launch context.
const SHIP_FILES_MAX: usize = 1_000;
/// Endings of archives that nodes unpack.
const ARCHIVES: [&str; 6] = [".zip", ".jar", ".tar", ".tar.gz", ".tgz", ".tar.bz2"];

/// A local file that goes into staging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upload {
    /// Path of the file below the container's working directory.
    pub(super) name: String,
    pub(super) local: PathBuf,
    /// Bytes, for the progress.
    pub(super) size: u64,
    /// True if nodes unpack it.
    pub(super) archive: bool,
}

impl Upload {
    /// # Errors
    /// A file that is absent or no plain file.
    pub(super) fn new(name: impl Into<String>, local: &Path) -> Result<Self, YarnFailure> {
        let unusable = |why: String| {
            YarnFailure::configuration(format!("'{}' cannot be shipped: {why}", local.display()))
        };
        let meta = std::fs::metadata(local).map_err(|e| unusable(e.to_string()))?;
        if !meta.is_file() {
            return Err(unusable("it is no file".to_owned()));
        }
        let (name, local) = (name.into(), local.to_owned());
        Ok(Self { name, local, size: meta.len(), archive: false })
    }
}

/// Returns the uploads of `yarn.ship-files` and `yarn.ship-archives`: directories with everything below them, under
/// `ship/<name of the directory>/`.
///
/// # Errors
/// A path that is absent; two of the same name; an archive of an unknown kind; more than [`SHIP_FILES_MAX`] files.
pub(super) fn ship_uploads(options: &Options) -> Result<Vec<Upload>, YarnFailure> {
    let mut found: Vec<Upload> = Vec::new();
    for path in options.get(&yarn_client::SHIP_FILES).0 {
        walk(Path::new(&path), SHIP_FOLDER, &mut found)?;
    }
    for path in options.get(&yarn_client::SHIP_ARCHIVES).0 {
        if !ARCHIVES.iter().any(|ending| path.ends_with(ending)) {
            return Err(YarnFailure::configuration(format!(
                "'{path}' in yarn.ship-archives is not an archive; possible: {}",
                ARCHIVES.join(", ")
            )));
        }
        let name = format!("{SHIP_FOLDER}/{}", file_name(Path::new(&path))?);
        found.push(Upload { archive: true, ..Upload::new(name, Path::new(&path))? });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = found.windows(2).find(|pair| matches!(pair, [a, b] if a.name == b.name)) {
        let places: Vec<String> = pair.iter().map(|u| u.local.display().to_string()).collect();
        return Err(YarnFailure::configuration(format!(
            "two ship files have the same name: {}",
            places.join(" and ")
        )));
    }
    Ok(found)
}

fn file_name(path: &Path) -> Result<String, YarnFailure> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        YarnFailure::configuration(format!(
            "'{}' cannot be shipped: it has no name in UTF-8",
            path.display()
        ))
    })
}

fn walk(path: &Path, folder: &str, found: &mut Vec<Upload>) -> Result<(), YarnFailure> {
    let name = format!("{folder}/{}", file_name(path)?);
    if !path.is_dir() {
        if found.len() >= SHIP_FILES_MAX {
            return Err(YarnFailure::configuration(format!(
                "yarn.ship-files are more than {SHIP_FILES_MAX} files: ship an archive instead (yarn.ship-archives)"
            )));
        }
        found.push(Upload::new(name, path)?);
        return Ok(());
    }
    let unreadable = |e: std::io::Error| {
        YarnFailure::configuration(format!("'{}' cannot be shipped: {e}", path.display()))
    };
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        walk(&entry.map_err(unreadable)?.path(), &name, found)?;
    }
    Ok(())
}

/// An application's staging directory. Making the value touches nothing.
#[derive(derive_more::Debug)]
#[debug("Staging({})", self.url())]
pub(super) struct Staging {
    hdfs: Client,
    /// File system of the staging directory, `hdfs://authority`.
    file_system: String,
    /// Absolute, below the file system.
    path: String,
    replication: Option<u32>,
}

impl Staging {
    /// Returns the staging directory `<base>/.flott/<application>`; the base is `yarn.staging-directory`, else the
    /// user's home directory.
    ///
    /// # Errors
    /// A base that is not on HDFS.
    pub(super) fn new(
        conf: &Configuration,
        login: &Login,
        options: &Options,
        application: &str,
    ) -> Result<Self, YarnFailure> {
        let (file_system, base) = base(conf, login, options)?;
        Ok(Self {
            hdfs: hdfs::client(conf, login, &file_system)?,
            path: format!("{}/{FOLDER}/{application}", base.trim_end_matches('/')),
            file_system,
            replication: options.get(&yarn_client::FILE_REPLICATION).map(std::num::NonZeroU32::get),
        })
    }

    /// Returns the URL of the directory.
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.file_system, self.path)
    }

    fn failure(&self, what: &str, error: &hdfs_native::HdfsError) -> YarnFailure {
        let (words, url) = (hdfs_words(error), self.url());
        let advice = if words.contains("AccessControlException") {
            "; set yarn.staging-directory to a directory that this user may write".to_owned()
        } else if matches!(error, hdfs_native::HdfsError::IOError(_)) {
            format!("; is the NameNode of {} running?", self.file_system)
        } else {
            String::new()
        };
        YarnFailure::cluster(format!("cannot {what} staging directory {url}: {words}{advice}"))
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// HDFS is away, in safe mode, or lets this user not write there.
    pub(super) async fn make(&self) -> Result<(), YarnFailure> {
        let made = self.hdfs.mkdirs(&self.path, FOLDER_MODE, true).await;
        made.map_err(|error| self.failure("make", &error))
    }

    /// Writes a file of these bytes.
    ///
    /// # Errors
    /// The same as those of [`Staging::upload`].
    pub(super) async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<LaunchFile, YarnFailure> {
        let failed = |error| self.failure(&format!("write {name} to"), &error);
        let mut file = self.create(name, FILE_MODE).await.map_err(failed)?;
        file.write_bytes(Bytes::from(bytes)).await.map_err(failed)?;
        file.close().await.map_err(failed)?;
        let status = self.written(name).await?;
        Ok(self.launch_file(name, &status, false))
    }

    /// Copies a local file; calls `progress` with the number of bytes of each piece.
    ///
    /// # Errors
    /// The local file cannot be read; HDFS is away, full, or refuses the file.
    pub(super) async fn upload(
        &self,
        upload: &Upload,
        progress: impl Fn(u64),
    ) -> Result<LaunchFile, YarnFailure> {
        let sent = |piece: &[u8]| progress(piece.len() as u64);
        let status = self.upload_with(upload, FILE_MODE, sent).await?;
        Ok(self.launch_file(&upload.name, &status, upload.archive))
    }

    /// Copies a local file; `sent` gets every piece of the bytes that went.
    async fn upload_with(
        &self,
        upload: &Upload,
        mode: u32,
        mut sent: impl FnMut(&[u8]),
    ) -> Result<FileStatus, YarnFailure> {
        let unread = |e: std::io::Error| {
            YarnFailure::configuration(format!("cannot read {}: {e}", upload.local.display()))
        };
        let failed = |error| self.failure(&format!("write {} to", upload.name), &error);
        let mut local = tokio::fs::File::open(&upload.local).await.map_err(unread)?;
        let mut file = self.create(&upload.name, mode).await.map_err(failed)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = local.read(&mut chunk).await.map_err(unread)?;
            let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            file.write_bytes(Bytes::copy_from_slice(bytes)).await.map_err(failed)?;
            sent(bytes);
        }
        file.close().await.map_err(failed)?;
        self.written(&upload.name).await
    }

    /// Creates a file and the folders in its name, but never the staging directory: the call of a client that is interrupted may reach the
    /// NameNode after the deletion of the directory, and would leave it there again.
    async fn create(
        &self,
        name: &str,
        mode: u32,
    ) -> hdfs_native::Result<hdfs_native::file::FileWriter> {
        for (end, _) in name.match_indices('/') {
            let folder = name.get(..end).unwrap_or_default();
            self.hdfs.mkdirs(&format!("{}/{folder}", self.path), FOLDER_MODE, false).await?;
        }
        let options = WriteOptions::default().permission(mode).create_parent(false);
        let options = match self.replication {
            Some(copies) => options.replication(copies),
            None => options,
        };
        self.hdfs.create(&format!("{}/{name}", self.path), options).await
    }

    async fn written(&self, name: &str) -> Result<FileStatus, YarnFailure> {
        let status = self.hdfs.get_file_info(&format!("{}/{name}", self.path)).await;
        status.map_err(|error| self.failure(&format!("look at {name} in"), &error))
    }

    /// Describes the file that nodes have to find, for this application alone.
    fn launch_file(&self, name: &str, status: &FileStatus, archive: bool) -> LaunchFile {
        LaunchFile {
            name: name.to_owned(),
            url: format!("{}{}", self.file_system, status.path),
            size: i64::try_from(status.length).unwrap_or(i64::MAX),
            timestamp: i64::try_from(status.modification_time).unwrap_or(i64::MAX),
            archive,
            public: false,
            hash: None,
        }
    }

    /// Returns the applications beside this one that have left a staging directory, with the Unix milliseconds of its
    /// last change. Empty where nothing can be listed: this is only tidiness.
    pub(super) async fn others(&self) -> Vec<(ApplicationId, u64)> {
        let Some((folder, own)) = self.path.rsplit_once('/') else { return Vec::new() };
        let Ok(found) = self.hdfs.list_status(folder, false).await else { return Vec::new() };
        let other = |status: &FileStatus| {
            let name = status.path.rsplit('/').next().filter(|name| *name != own)?;
            Some((name.parse().ok()?, status.modification_time))
        };
        found.iter().filter(|status| status.isdir).filter_map(other).take(OTHERS_MAX).collect()
    }

    /// Removes the staging directory of another application; a failure is only logged.
    pub(super) async fn delete_other(&self, application: ApplicationId) {
        let Some((folder, _)) = self.path.rsplit_once('/') else { return };
        if let Err(error) = self.hdfs.delete(&format!("{folder}/{application}"), true).await {
            tracing::debug!(%application, %error, "an old staging directory stays");
        }
    }

    /// Removes the directory with everything in it. One that is absent is fine.
    ///
    /// # Errors
    /// HDFS is away or does not let this user remove it.
    pub(super) async fn delete(&self) -> Result<(), YarnFailure> {
        match self.hdfs.delete(&self.path, true).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failure("remove", &error)),
        }
    }
}

/// Returns the file system, and the path that the folder of all applications is below.
fn base(
    conf: &Configuration,
    login: &Login,
    options: &Options,
) -> Result<(String, String), YarnFailure> {
    let named = options.get(&yarn_client::STAGING_DIRECTORY);
    let url = named.as_deref().filter(|text| text.contains(':'));
    let file_system = FileSystem::from_conf(conf, url).map_err(|error| {
        YarnFailure::configuration(format!(
            "files are staged on HDFS only: {error}; set fs.defaultFS in core-site.xml, or yarn.staging-directory to a \
             URL hdfs://host/path"
        ))
    })?;
    let path = match (&named, url) {
        (Some(_), Some(url)) => url.strip_prefix(&file_system.uri).unwrap_or_default().to_owned(),
        (Some(path), None) if path.starts_with('/') => path.clone(),
        (Some(path), None) => {
            return Err(YarnFailure::configuration(format!(
                "yarn.staging-directory '{path}' is neither an absolute path nor a URL"
            )));
        }
        (None, _) => {
            let homes = conf.get_trimmed("dfs.user.home.dir.prefix").map_err(YarnError::from)?;
            format!("{}/{}", homes.as_deref().unwrap_or("/user"), login.short_name())
        }
    };
    Ok((file_system.uri, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hadoop::tokens::Credentials;

    fn conf(default_fs: &str) -> Configuration {
        let mut conf = Configuration::with_defaults();
        conf.set("fs.defaultFS", default_fs);
        conf
    }

    fn base_of(default_fs: &str, staging: Option<&str>) -> Result<(String, String), String> {
        let conf = conf(default_fs);
        let login = Login::simple(&conf, "alice", Credentials::new()).unwrap();
        let staging = staging.map(|dir| ("yarn.staging-directory", dir));
        let options = Options::from_map(staging).unwrap();
        base(&conf, &login, &options).map_err(|error| error.to_string())
    }

    #[test]
    fn staging_is_on_hdfs_at_home_or_where_the_option_says() {
        let of = |fs: &str, staging| base_of(fs, staging).unwrap();
        let hdfs = "hdfs://h:8020";
        assert_eq!(of(hdfs, None), (hdfs.to_owned(), "/user/alice".to_owned()));
        assert_eq!(of(hdfs, Some("/tmp/s")), (hdfs.to_owned(), "/tmp/s".to_owned()));
        let other = of("file:///", Some("hdfs://o:9000/x/y"));
        assert_eq!(other, ("hdfs://o:9000".to_owned(), "/x/y".to_owned()));
        let text = base_of("file:///", None).unwrap_err();
        assert!(text.contains("on HDFS only") && text.contains("fs.defaultFS"), "{text}");
        assert!(base_of(hdfs, Some("relative")).unwrap_err().contains("neither an absolute path"));
        assert!(base_of(hdfs, Some("s3://b/x")).unwrap_err().contains("on HDFS only"));
    }

    #[test]
    fn ship_files_keep_their_place_below_their_directory() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("models");
        std::fs::create_dir_all(dir.join("deep")).unwrap();
        for name in ["models/a.txt", "models/deep/b.txt", "c.zip", "d.bin"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let path = |name: &str| folder.path().join(name).display().to_string();
        let options = |files: &str, archives: &str| {
            Options::from_map([("yarn.ship-files", files), ("yarn.ship-archives", archives)])
                .unwrap()
        };
        let files = format!("{},{}", path("models"), path("d.bin"));
        let uploads = ship_uploads(&options(&files, &path("c.zip"))).unwrap();
        let names: Vec<_> = uploads.iter().map(|u| (u.name.as_str(), u.archive)).collect();
        let expected = [
            ("ship/c.zip", true),
            ("ship/d.bin", false),
            ("ship/models/a.txt", false),
            ("ship/models/deep/b.txt", false),
        ];
        assert_eq!(names, expected);
        let text = |options: &Options| ship_uploads(options).unwrap_err().to_string();
        assert!(text(&options("/absent", "")).contains("'/absent' cannot be shipped"));
        assert!(text(&options("", &path("d.bin"))).contains("is not an archive"));
        let twice = format!("{0},{0}", path("d.bin"));
        assert!(text(&options(&twice, "")).contains("the same name"));
    }
}
