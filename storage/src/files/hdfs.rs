//! Files of HDFS. The configuration is Hadoop's own, in `HADOOP_CONF_DIR`.

use super::{RemoteFile, RemoteFiles};
use crate::objects::hdfs::{LateClient, store_error};
use crate::objects::{StoreError, StoreFuture};
use bytes::Bytes;
use hdfs_native::Client;
use hdfs_native::file::FileReader;
use std::sync::Arc;
use std::time::Duration;

/// Longest time that a listing, the opening of a file or the reading of a range may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The files of one name service; clones are handles to the same client.
#[derive(Debug, Clone)]
pub(super) struct HdfsFiles {
    /// The URI `hdfs://nameservice`; without a name it is that of `fs.defaultFS`.
    service: Arc<str>,
    client: LateClient,
}

impl HdfsFiles {
    /// Returns the files of the URI's name service. Nothing is read or contacted.
    pub(super) fn of(uri: &str) -> Self {
        let rest = uri.strip_prefix("hdfs://").unwrap_or_default();
        let name = rest.split('/').next().unwrap_or_default();
        Self { service: format!("hdfs://{name}").into(), client: LateClient::default() }
    }

    fn client(&self) -> Result<Client, StoreError> {
        self.client.get(&self.service, &self.service)
    }

    fn path(&self, uri: &str) -> Result<String, StoreError> {
        match uri.strip_prefix(&*self.service) {
            Some("") => Ok("/".to_owned()),
            Some(path) if path.starts_with('/') => Ok(path.to_owned()),
            _ => Err(StoreError::UnknownUri {
                uri: uri.chars().take(200).collect(),
                why: format!("it is not on {}", self.service),
            }),
        }
    }

    /// Returns the file of the URI, or the files below the folder, in any order.
    async fn find(&self, uri: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let (client, path) = (self.client()?, self.path(uri)?);
        let failed = |error| store_error(uri.to_owned(), &error);
        let root = client.get_file_info(&path).await.map_err(failed)?;
        if !root.isdir {
            return Ok(vec![(uri.to_owned(), root.length as u64)]);
        }
        let (mut folders, mut files) = (vec![path], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in client.list_status(&folder, false).await.map_err(failed)? {
                match entry.isdir {
                    _ if is_hidden(&entry.path) => {}
                    true => folders.push(entry.path),
                    false => {
                        files
                            .push((format!("{}{}", self.service, entry.path), entry.length as u64));
                    }
                }
            }
        }
        Ok(files)
    }
}

fn is_hidden(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(['.', '_']))
}

/// Gives up on a system that does not answer.
async fn in_time<T>(
    uri: &str,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let unanswered = |_| StoreError::Unreachable {
        path: uri.to_owned(),
        why: format!("no answer within {} s", ANSWER_WITHIN.as_secs()),
    };
    tokio::time::timeout(ANSWER_WITHIN, work).await.map_err(unanswered)?
}

impl RemoteFiles for HdfsFiles {
    fn list(&self, uri: &str) -> StoreFuture<Vec<(String, u64)>> {
        let (store, uri) = (self.clone(), uri.to_owned());
        Box::pin(async move {
            let mut files = in_time(&uri, store.find(&uri)).await?;
            files.sort();
            Ok(files)
        })
    }

    fn open(&self, uri: &str) -> StoreFuture<Arc<dyn RemoteFile>> {
        let (store, uri) = (self.clone(), uri.to_owned());
        Box::pin(async move {
            let opened = async {
                let (client, path) = (store.client()?, store.path(&uri)?);
                client.read(&path).await.map_err(|error| store_error(uri.clone(), &error))
            };
            let reader = Arc::new(in_time(&uri, opened).await?);
            Ok(Arc::new(HdfsFile { reader, uri }) as Arc<dyn RemoteFile>)
        })
    }
}

#[derive(derive_more::Debug)]
#[debug("HdfsFile({})", self.uri)]
struct HdfsFile {
    reader: Arc<FileReader>,
    uri: String,
}

impl RemoteFile for HdfsFile {
    fn read(&self, offset: u64, most: usize) -> StoreFuture<Bytes> {
        let (reader, uri) = (Arc::clone(&self.reader), self.uri.clone());
        Box::pin(async move {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            // The client panics behind the end.
            let most = most.min(reader.file_length().saturating_sub(offset));
            match most {
                0 => Ok(Bytes::new()),
                _ => {
                    let read = reader.read_range(offset, most);
                    let read = async { read.await.map_err(|e| store_error(uri.clone(), &e)) };
                    in_time(&uri, read).await
                }
            }
        })
    }
}
