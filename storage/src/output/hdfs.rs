//! Output files in a folder of HDFS. The configuration is Hadoop's own, in `HADOOP_CONF_DIR`.

use super::{
    IN_PROGRESS, OutputFile, OutputFolder, PENDING, PendingOutput, Published, Unpublished, hidden,
    kept, unpublished,
};
use crate::objects::{
    StoreError, StoreFuture,
    hdfs::{LateClient, absent, store_error},
    unknown_uri,
};
use bytes::Bytes;
use hdfs_native::{Client, WriteOptions, file::FileWriter};
use std::sync::Arc;

const PIECE_BYTES: usize = 4 << 20;
/// The permissions that Hadoop's own clients set with the usual umask: output is for others to read.
const FOLDER_MODE: u32 = 0o755;

/// A folder of HDFS.
#[derive(Debug, Clone)]
pub(super) struct HdfsFolder {
    uri: Arc<str>,
    /// The URI `hdfs://nameservice`.
    service: Arc<str>,
    /// The folder's absolute path, without a slash at its end.
    path: Arc<str>,
    client: LateClient,
}

impl HdfsFolder {
    /// `rest` is the URI behind `hdfs://`.
    pub(super) fn open(uri: &str, rest: &str) -> Result<Self, StoreError> {
        let (service, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return Err(unknown_uri(uri, "it names no directory".to_owned()));
        }
        let service = format!("hdfs://{service}").into();
        Ok(Self { uri: uri.into(), service, path: path.into(), client: LateClient::default() })
    }

    fn client(&self) -> Result<Client, StoreError> {
        self.client.get(&self.service, &self.uri)
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    fn failed(&self, name: &str) -> impl FnOnce(hdfs_native::HdfsError) -> StoreError {
        let place = format!("{}{}", self.service, self.path_of(name));
        move |error| store_error(place, &error)
    }

    /// Returns the length of a file, `None` if there is none.
    async fn length(&self, client: &Client, name: &str) -> Result<Option<u64>, StoreError> {
        match client.get_file_info(&self.path_of(name)).await {
            Ok(status) => Ok(Some(status.length as u64)),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(self.failed(name)(error)),
        }
    }
}

impl OutputFolder for HdfsFolder {
    fn create(&self, name: &str, owner: &str) -> StoreFuture<Box<dyn OutputFile>> {
        let (folder, name, hidden) = (self.clone(), name.to_owned(), hidden(name, owner));
        Box::pin(async move {
            let client = folder.client()?;
            client.mkdirs(&folder.path, FOLDER_MODE, true).await.map_err(folder.failed(""))?;
            let in_progress = format!("{hidden}{IN_PROGRESS}");
            let options = WriteOptions::default().create_parent(false);
            let file = client.create(&folder.path_of(&in_progress), options).await;
            let file = file.map_err(folder.failed(&in_progress))?;
            Ok(Box::new(HdfsFile { folder, name, hidden, file, bytes: 0 }) as Box<dyn OutputFile>)
        })
    }

    fn publish(&self, pending: PendingOutput) -> StoreFuture<Published> {
        let folder = self.clone();
        Box::pin(async move {
            let client = folder.client()?;
            // Not the answer to the rename counts, but what is in the folder: an answer may be lost. A savepoint may rename the file at
            // this moment; the call then fails, and is repeated.
            for hidden in [&pending.hidden, &kept(&pending.hidden)] {
                let Some(found) = folder.length(&client, hidden).await? else { continue };
                if found != pending.bytes {
                    return Ok(Published::Damaged { found });
                }
                let (from, to) = (folder.path_of(hidden), folder.path_of(&pending.name));
                client.rename(&from, &to, false).await.map_err(folder.failed(&pending.name))?;
                break;
            }
            let length = folder.length(&client, &pending.name).await?;
            Ok(if length == Some(pending.bytes) { Published::Done } else { Published::Missing })
        })
    }

    fn keep(&self, hidden: String) -> StoreFuture<()> {
        let folder = self.clone();
        Box::pin(async move {
            let client = folder.client()?;
            if folder.length(&client, &hidden).await?.is_none() {
                return Ok(());
            }
            let (from, to) = (folder.path_of(&hidden), folder.path_of(&kept(&hidden)));
            match client.rename(&from, &to, false).await {
                Err(error) if !absent(&error) => Err(folder.failed(&hidden)(error)),
                _ => Ok(()),
            }
        })
    }

    fn unpublished(&self, owner: &str) -> StoreFuture<Vec<Unpublished>> {
        let (folder, owner) = (self.clone(), owner.to_owned());
        Box::pin(async move {
            let entries = match folder.client()?.list_status(&folder.path, false).await {
                Err(error) if absent(&error) => return Ok(Vec::new()),
                entries => entries.map_err(folder.failed(""))?,
            };
            let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
            let names = entries.iter().filter(|entry| !entry.isdir).map(|entry| name(&entry.path));
            Ok(names.filter_map(|name| unpublished(name, &owner)).collect())
        })
    }

    fn discard(&self, file: Unpublished) -> StoreFuture<()> {
        let folder = self.clone();
        Box::pin(async move {
            let deleted = folder.client()?.delete(&folder.path_of(&file.hidden), false).await;
            deleted.map(drop).map_err(folder.failed(&file.hidden))
        })
    }

    fn piece_bytes(&self) -> usize {
        PIECE_BYTES
    }
}

struct HdfsFile {
    folder: HdfsFolder,
    name: String,
    hidden: String,
    file: FileWriter,
    bytes: u64,
}

impl OutputFile for HdfsFile {
    fn write(mut self: Box<Self>, bytes: Bytes) -> StoreFuture<Box<dyn OutputFile>> {
        Box::pin(async move {
            self.bytes += bytes.len() as u64;
            let written = self.file.write_bytes(bytes).await;
            written.map_err(self.folder.failed(&self.hidden))?;
            Ok(self as Box<dyn OutputFile>)
        })
    }

    fn finish(mut self: Box<Self>) -> StoreFuture<PendingOutput> {
        Box::pin(async move {
            let failed = |error| self.folder.failed(&self.hidden)(error);
            if self.bytes > 0 {
                self.file.hsync().await.map_err(failed)?;
            }
            self.file.close().await.map_err(failed)?;
            let hidden = format!("{}{PENDING}", self.hidden);
            let from = self.folder.path_of(&format!("{}{IN_PROGRESS}", self.hidden));
            let client = self.folder.client()?;
            let renamed = client.rename(&from, &self.folder.path_of(&hidden), false).await;
            renamed.map_err(self.folder.failed(&hidden))?;
            Ok(PendingOutput { name: self.name, hidden, parts: Vec::new(), bytes: self.bytes })
        })
    }
}
