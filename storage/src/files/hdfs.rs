//! Files of HDFS. The configuration is Hadoop's own, in `HADOOP_CONF_DIR`.

use super::{RemoteFile, RemoteFiles};
use crate::objects::hdfs::{LIMITS, store_error};
use crate::objects::{StoreError, StoreFuture};
use bytes::Bytes;
use hdfs_native::file::FileReader;
use hdfs_native::{Client, ClientBuilder};
use std::fmt;
use std::sync::Arc;

/// The files of one name service.
#[derive(Debug)]
pub(super) struct HdfsFiles {
    client: Client,
    /// The URI `hdfs://nameservice`.
    service: String,
}

impl HdfsFiles {
    /// Makes a client without connecting. If the URI names no service, the client uses that of `fs.defaultFS`.
    pub(super) fn of(uri: &str) -> Result<Self, StoreError> {
        let rest = uri.strip_prefix("hdfs://").unwrap_or_default();
        let name = rest.split('/').next().unwrap_or_default();
        let service = format!("hdfs://{name}");
        let client = ClientBuilder::new().with_url(format!("{service}/")).with_config(LIMITS);
        let client = client.build().map_err(|error| StoreError::UnknownUri {
            uri: uri.chars().take(200).collect(),
            why: format!("no HDFS client can be made: {error}; check HADOOP_CONF_DIR"),
        })?;
        Ok(Self { client, service })
    }

    fn path(&self, uri: &str) -> Result<String, StoreError> {
        match uri.strip_prefix(&self.service) {
            Some("") => Ok("/".to_owned()),
            Some(path) if path.starts_with('/') => Ok(path.to_owned()),
            _ => Err(StoreError::UnknownUri {
                uri: uri.chars().take(200).collect(),
                why: format!("it is not on {}", self.service),
            }),
        }
    }
}

fn is_hidden(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(['.', '_']))
}

impl RemoteFiles for HdfsFiles {
    fn list(&self, uri: &str) -> StoreFuture<Vec<(String, u64)>> {
        let (client, service, path) = (self.client.clone(), self.service.clone(), self.path(uri));
        let uri = uri.to_owned();
        Box::pin(async move {
            let path = path?;
            let failed = |error| store_error(uri.clone(), &error);
            let root = client.get_file_info(&path).await.map_err(failed)?;
            if !root.isdir {
                return Ok(vec![(uri, root.length as u64)]);
            }
            let (mut folders, mut files) = (vec![path], Vec::new());
            while let Some(folder) = folders.pop() {
                for entry in client.list_status(&folder, false).await.map_err(failed)? {
                    if is_hidden(&entry.path) {
                        continue;
                    }
                    match entry.isdir {
                        true => folders.push(entry.path),
                        false => {
                            files.push((format!("{service}{}", entry.path), entry.length as u64))
                        }
                    }
                }
            }
            files.sort();
            Ok(files)
        })
    }

    fn open(&self, uri: &str) -> StoreFuture<Arc<dyn RemoteFile>> {
        let (client, path, uri) = (self.client.clone(), self.path(uri), uri.to_owned());
        Box::pin(async move {
            let reader =
                client.read(&path?).await.map_err(|error| store_error(uri.clone(), &error))?;
            Ok(Arc::new(HdfsFile { reader: Arc::new(reader), uri }) as Arc<dyn RemoteFile>)
        })
    }
}

struct HdfsFile {
    reader: Arc<FileReader>,
    uri: String,
}

impl fmt::Debug for HdfsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HdfsFile({})", self.uri)
    }
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
                    reader.read_range(offset, most).await.map_err(|error| store_error(uri, &error))
                }
            }
        })
    }
}
