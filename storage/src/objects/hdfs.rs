//! Objects as files below one directory of HDFS.
//!
//! A write goes to a temporary file in the object's folder, which is then renamed. A create-if-absent renames without
//! overwriting, so the NameNode decides between two writers. The configuration is Hadoop's own, in `HADOOP_CONF_DIR`.
//! This module must never rename a file that was not written to its end.

use super::file::TEMPORARY_PREFIX;
use super::remote::{Backend, Create, RANGES_AT_ONCE, folder_of};
use super::{FolderChoice, StoreError, unknown_uri};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use hdfs_native::client::FileStatus;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use platform::Platform;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Only the user may read folders and files, as in the file store: graphs contain arguments and environments.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Age in milliseconds at which a temporary file counts as abandoned; a write takes far less. The age is measured
/// against the newest modification time in the listing, so only the NameNode's clock is involved.
const ABANDONED_AFTER_MS: u64 = 3_600_000;
/// Maximum number of attempts: to create a file whose folder is removed again before its use, and to read a file that
/// is replaced meanwhile.
const TRIES: u32 = 20;

/// Limits of the HDFS client, which override Hadoop's configuration files: the client gives up on a NameNode that
/// refuses connections after about five seconds, and on a DataNode that does not answer after ten.
const LIMITS: [(&str, &str); 4] = [
    ("dfs.client.failover.max.attempts", "6"),
    ("dfs.client.failover.sleep.base.millis", "200"),
    ("dfs.client.failover.sleep.max.millis", "1000"),
    ("dfs.client.socket-timeout", "10000"),
];

/// Makes a client of the name service `hdfs://name`, for the URI that an error names. Contacts nothing.
fn client_of(service: &str, uri: &str) -> Result<Client, StoreError> {
    let client = ClientBuilder::new().with_url(format!("{service}/")).with_config(LIMITS).build();
    client.map_err(|error| {
        unknown_uri(uri, format!("no HDFS client can be made: {error}; check HADOOP_CONF_DIR"))
    })
}

/// A client that is made by the first call, inside of its future: it keeps the runtime that it is made in. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateClient(Arc<OnceLock<Client>>);

impl LateClient {
    /// Returns the client of the name service `hdfs://name`; makes it if this is the first call. An error names the URI.
    pub(crate) fn get(&self, service: &str, uri: &str) -> Result<Client, StoreError> {
        if let Some(client) = self.0.get() {
            return Ok(client.clone());
        }
        let client = client_of(service, uri)?;
        Ok(self.0.get_or_init(|| client).clone())
    }
}

/// An object store in a directory of HDFS.
#[derive(Debug)]
pub(super) struct Hdfs {
    client: Client,
    /// The URI `hdfs://nameservice`.
    service: String,
    /// The directory's absolute path, without a slash at its end.
    root: String,
    platform: Platform,
}

impl Hdfs {
    /// Makes a client without connecting. If `nameservice` is empty, the client uses that of `fs.defaultFS`.
    pub(super) fn open(
        uri: &str,
        nameservice: &str,
        path: &str,
        platform: Platform,
    ) -> Result<Self, StoreError> {
        let service = format!("hdfs://{nameservice}");
        let client = client_of(&service, uri)?;
        Ok(Self { client, service, root: path.trim_end_matches('/').to_owned(), platform })
    }

    fn path(&self, name: &str) -> String {
        match name {
            "" if self.root.is_empty() => "/".to_owned(),
            "" => self.root.clone(),
            name => format!("{}/{name}", self.root),
        }
    }

    fn error(&self, name: &str, error: &HdfsError) -> StoreError {
        store_error(self.place(name), error)
    }

    /// Writes a temporary file beside the object and renames it. On failure it deletes the temporary file.
    async fn put(&self, name: &str, object: Bytes, overwrite: bool) -> Result<(), HdfsError> {
        let folder = self.path(folder_of(name));
        let temporary = format!(
            "{}/{TEMPORARY_PREFIX}{:032x}",
            folder.trim_end_matches('/'),
            self.platform.random_u128()
        );
        let put = async {
            self.write(&folder, &temporary, object).await?;
            self.client.rename(&temporary, &self.path(name), overwrite).await
        };
        let done = put.await;
        if done.is_err() {
            // If this fails too, a later `list` removes the file.
            let _ = self.client.delete(&temporary, false).await;
        }
        done
    }

    /// Creates a file and its folders, writes it and syncs it to the disks of its DataNodes.
    async fn write(&self, folder: &str, path: &str, object: Bytes) -> Result<(), HdfsError> {
        let options = WriteOptions::default().permission(FILE_MODE).create_parent(false);
        let mut tries = 1;
        let mut file = loop {
            match self.client.create(path, &options).await {
                // A concurrent removal of the folder's last object may remove the folder before it is used.
                Err(error) if absent(&error) && tries < TRIES => tries += 1,
                created => break created?,
            }
            self.client.mkdirs(folder, FOLDER_MODE, true).await?;
        };
        file.write_bytes(object).await?;
        file.hsync().await?;
        file.close().await
    }

    /// Reads the ranges of a file as far as they are in it.
    async fn read_once(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, HdfsError> {
        let file = self.client.read(&self.path(name)).await?;
        // The client panics behind the end.
        let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.file_length());
        let ranges = ranges.iter().map(|range| within(range.start)..within(range.end));
        let reads: Vec<_> = ranges
            .filter(|range| !range.is_empty())
            .map(|range| file.read_range(range.start, range.len()))
            .collect();
        stream::iter(reads).buffered(RANGES_AT_ONCE).try_collect().await
    }

    /// Removes the files among those of a listing that killed writers left long before the newest of them.
    async fn remove_abandoned(&self, seen: &[Listed]) {
        let newest = seen.iter().map(|listed| listed.status.modification_time).max();
        let newest = newest.unwrap_or_default();
        let old = |listed: &&Listed| {
            newest.saturating_sub(listed.status.modification_time) > ABANDONED_AFTER_MS
        };
        for listed in seen.iter().filter(|listed| listed.is_temporary()).filter(old) {
            // A file that cannot be deleted only takes up space, so the error is ignored.
            let _ = self.client.delete(&listed.status.path, false).await;
        }
    }

    /// Returns the files and folders in the deepest folder that `prefix` names completely and below its folders that begin with `prefix`;
    /// a folder comes before what is in it.
    async fn walk(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let mut seen = Vec::new();
        let mut folders = vec![folder_of(prefix).to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = match self.client.list_status(&self.path(&folder), false).await {
                Ok(entries) => entries,
                Err(error) if absent(&error) => continue,
                Err(error) => return Err(self.error(&folder, &error)),
            };
            for status in entries {
                let segment = last_segment(&status.path);
                let name = match folder.as_str() {
                    "" => segment.to_owned(),
                    folder => format!("{folder}/{segment}"),
                };
                if status.isdir && name.starts_with(prefix) && !segment.starts_with('.') {
                    folders.push(name.clone());
                }
                seen.push(Listed { name, status });
            }
        }
        Ok(seen)
    }

    /// Removes a folder of the store if it is empty, and then those above it; the store's own directory stays.
    async fn remove_empty_folders(&self, mut folder: &str) {
        while !folder.is_empty() {
            // HDFS refuses to remove a folder that is not empty; the folders above it are not empty either.
            if !matches!(self.client.delete(&self.path(folder), false).await, Ok(true)) {
                break;
            }
            folder = folder_of(folder);
        }
    }
}

impl Backend for Hdfs {
    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let pieces = self.read_ranges(name, std::slice::from_ref(&(0..u64::MAX))).await?;
        Ok(pieces.map(|pieces| pieces.into_iter().next().unwrap_or_default()))
    }

    async fn read_ranges(
        &self,
        name: &str,
        ranges: &[Range<u64>],
    ) -> Result<Option<Vec<Bytes>>, StoreError> {
        let mut tries = 1;
        loop {
            match self.read_once(name, ranges).await {
                Ok(pieces) => return Ok(Some(pieces)),
                Err(error) if absent(&error) => return Ok(None),
                // The file was replaced after it was opened, and its blocks were deleted.
                Err(
                    HdfsError::DataTransferError(_)
                    | HdfsError::BlocksNotFound(_)
                    | HdfsError::ChecksumError,
                ) if tries < TRIES => tries += 1,
                Err(error) => return Err(self.error(name, &error)),
            }
        }
    }

    async fn create(&self, name: &str, object: Bytes) -> Result<Create, StoreError> {
        let error = match self.put(name, object, false).await {
            Ok(()) => return Ok(Create::Done),
            Err(error) => self.error(name, &error),
        };
        match error {
            StoreError::Permission { .. } | StoreError::DiskFull { .. } => Err(error),
            // The NameNode may have carried out the rename.
            error => Ok(Create::Unclear(error)),
        }
    }

    async fn replace(&self, name: &str, object: Bytes) -> Result<(), StoreError> {
        self.put(name, object, true).await.map_err(|error| self.error(name, &error))
    }

    async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        let removed = self.client.delete(&self.path(name), false).await;
        if !removed.map_err(|error| self.error(name, &error))? {
            return Ok(false);
        }
        self.remove_empty_folders(folder_of(name)).await;
        Ok(true)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let seen = self.walk(prefix).await?;
        self.remove_abandoned(&seen).await;
        Ok(seen.into_iter().filter(|seen| !seen.status.isdir).map(|seen| seen.name).collect())
    }

    async fn sweep(&self, prefix: &str, chosen: FolderChoice) -> Result<(), StoreError> {
        let seen = self.walk(prefix).await?;
        let within = |listed: &&Listed| chosen(folder_of(&listed.name));
        for file in seen.iter().filter(|listed| listed.is_temporary()).filter(within) {
            let removed = self.client.delete(&file.status.path, false).await;
            removed.map_err(|error| self.error(&file.name, &error))?;
        }
        // A folder comes behind those in it.
        let folders = seen.iter().rev().filter(|listed| listed.status.isdir);
        let below =
            folders.map(|folder| folder.name.as_str()).filter(|name| name.starts_with(prefix));
        for folder in below.chain([folder_of(prefix)]).filter(|folder| chosen(folder)) {
            self.remove_empty_folders(folder).await;
        }
        Ok(())
    }

    fn place(&self, name: &str) -> String {
        format!("{}{}", self.service, self.path(name))
    }
}

/// A file or folder that was found in the store's directory.
struct Listed {
    /// The name in the store.
    name: String,
    status: FileStatus,
}

impl Listed {
    /// Returns true for a file with a name that a write gives first; false for a user's file whose name begins alike.
    fn is_temporary(&self) -> bool {
        let drawn = last_segment(&self.name).strip_prefix(TEMPORARY_PREFIX);
        let digits =
            |drawn: &str| drawn.len() == 32 && drawn.bytes().all(|b| b.is_ascii_hexdigit());
        !self.status.isdir && drawn.is_some_and(digits)
    }
}

/// Types an error of the HDFS client about the file or folder of a URI.
pub(crate) fn store_error(path: String, error: &HdfsError) -> StoreError {
    let why = match error {
        // Java's messages contain a stack trace after the first line.
        HdfsError::RPCError(class, text) | HdfsError::FatalRPCError(class, text) => {
            let text = text.lines().next().unwrap_or_default();
            format!("{}: {text}", class.rsplit('.').next().unwrap_or_default())
        }
        error => error.to_string(),
    };
    let is = |part: &str| why.contains(part);
    match error {
        HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) | HdfsError::NoSASLMechanism => {
            StoreError::Permission { path, why: format!("{why}; check the Kerberos login") }
        }
        HdfsError::IOError(_) => StoreError::Unreachable { path, why },
        error if absent(error) => StoreError::NotFound { path },
        _ if is("AccessControlException") || is("AuthorizationException") => {
            StoreError::Permission { path, why }
        }
        _ if is("QuotaExceeded") || is("could only be written to 0 of") => {
            StoreError::DiskFull { path }
        }
        _ => StoreError::Io { path, why },
    }
}

fn last_segment(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns true if the error says that there is no such file: it is missing, or a file is where a folder would be.
pub(crate) fn absent(error: &HdfsError) -> bool {
    match error {
        HdfsError::FileNotFound(_) | HdfsError::IsADirectoryError(_) => true,
        HdfsError::RPCError(class, text) => {
            class.ends_with(".FileNotFoundException")
                || class.ends_with(".ParentNotDirectoryException")
                || class.ends_with(".AccessControlException")
                    && text.contains("(is not a directory)")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_refused_port_is_an_error_in_seconds_that_says_where() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let store = Hdfs::open("hdfs://x", &address, "/ha/", Platform::production()).unwrap();
        let begin = tokio::time::Instant::now();
        let error = store.read("a").await.unwrap_err();
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("hdfs://{address}/ha/a")), "{text}");
        assert!(text.contains("refused"), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    }

    #[test]
    fn java_errors_are_typed() {
        let store = Hdfs::open("hdfs://x", "127.0.0.1:1", "/ha", Platform::production()).unwrap();
        let error = |class: &str, text: &str| {
            store.error("a", &HdfsError::RPCError(class.to_owned(), text.to_owned()))
        };
        let denied = "Permission denied: user=eve\n\tat org.apache";
        match error("org.apache.hadoop.security.AccessControlException", denied) {
            StoreError::Permission { path, why } => {
                assert_eq!(path, "hdfs://127.0.0.1:1/ha/a");
                assert_eq!(why, "AccessControlException: Permission denied: user=eve");
            }
            other => panic!("{other:?}"),
        }
        let quota = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException";
        assert!(matches!(error(quota, "full"), StoreError::DiskFull { .. }));
        assert!(matches!(
            error("java.io.FileNotFoundException", "no"),
            StoreError::NotFound { .. }
        ));
        let safe_mode = "org.apache.hadoop.hdfs.server.namenode.SafeModeException";
        assert!(matches!(error(safe_mode, "Cannot create"), StoreError::Io { .. }));
    }
}
