//! Objects of S3 and of compatible servers as input files. A folder is what its name is in S3: the objects whose names begin
//! with the folder's name and a slash.

use super::{RemoteFile, RemoteFiles};
use crate::objects::s3::{S3, is_behind_end};
use crate::objects::{S3Settings, StoreError, StoreFuture, unknown_uri};
use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore as _, ObjectStoreExt as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum duration of one request. A block of 4 MiB arrives in time over 1.2 Mbit/s.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// The objects of one bucket; clones share one client.
#[derive(Debug, Clone)]
pub(super) struct S3Files {
    bucket: Arc<str>,
    settings: S3Settings,
    /// Made by the first call, so that a URI can be checked where no server is configured.
    store: Arc<OnceLock<Arc<S3>>>,
}

impl S3Files {
    /// Returns the files of the URI's bucket. No server is contacted.
    pub(super) fn of(uri: &str, settings: &S3Settings) -> Result<Self, StoreError> {
        let rest = uri.strip_prefix("s3://").unwrap_or_default();
        let bucket = rest.split('/').next().unwrap_or_default();
        if bucket.is_empty() {
            return Err(unknown_uri(uri, "it names no bucket".to_owned()));
        }
        let files =
            Self { bucket: bucket.into(), settings: settings.clone(), store: Arc::default() };
        files.path(uri)?;
        Ok(files)
    }

    fn store(&self) -> Result<Arc<S3>, StoreError> {
        if let Some(store) = self.store.get() {
            return Ok(store.clone());
        }
        let uri = format!("s3://{}", self.bucket);
        let store = S3::open_within(&uri, &self.bucket, "", &self.settings, REQUEST_LIMIT)?;
        Ok(self.store.get_or_init(|| Arc::new(store)).clone())
    }

    /// Returns the name of the URI's object or folder in the bucket; the whole bucket has an empty name.
    fn path(&self, uri: &str) -> Result<Path, StoreError> {
        let rest = uri.strip_prefix("s3://").and_then(|rest| rest.strip_prefix(&*self.bucket));
        match rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            Some(rest) => Path::parse(rest).map_err(|error| unknown_uri(uri, error.to_string())),
            None => Err(unknown_uri(uri, format!("it is not in the bucket s3://{}", self.bucket))),
        }
    }

    /// Returns the objects below the folder, or else the object of this name, in any order.
    async fn find(&self, uri: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let (store, path) = (self.store()?, self.path(uri)?);
        let failed = |error| store.error(path.as_ref(), &error);
        let listed = store.list_below(&path).await;
        let is_folder = uri.ends_with('/') || path.as_ref().is_empty();
        let not_listed = match listed.map_err(failed) {
            Ok(found) if !found.is_empty() || path.as_ref().is_empty() => {
                let visible = found.into_iter().filter(|object| !is_hidden(&path, object));
                let uri = |object: &ObjectMeta| format!("s3://{}/{}", self.bucket, object.location);
                return Ok(visible.map(|object| (uri(&object), object.size)).collect());
            }
            Ok(_) => StoreError::NotFound { path: uri.to_owned() },
            // An access key may be allowed to read an object and not to list its folder.
            Err(refused @ StoreError::Permission { .. }) => refused,
            Err(error) => return Err(error),
        };
        if is_folder {
            return Err(not_listed);
        }
        match store.client().head(&path).await.map_err(|error| store.error(path.as_ref(), &error)) {
            Ok(object) => Ok(vec![(uri.to_owned(), object.size)]),
            Err(StoreError::NotFound { .. }) => Err(not_listed),
            Err(StoreError::Permission { .. })
                if matches!(not_listed, StoreError::Permission { .. }) =>
            {
                // The answer to HEAD has no text that says why.
                Err(not_listed)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns true if a segment of the object's name below the folder begins with `.` or `_`.
fn is_hidden(folder: &Path, object: &ObjectMeta) -> bool {
    let below = object.location.as_ref().strip_prefix(folder.as_ref()).unwrap_or_default();
    below.split('/').any(|name| name.starts_with(['.', '_']))
}

impl RemoteFiles for S3Files {
    fn list(&self, uri: &str) -> StoreFuture<Vec<(String, u64)>> {
        let (files, uri) = (self.clone(), uri.to_owned());
        Box::pin(async move {
            let mut found = files.find(&uri).await?;
            found.sort();
            Ok(found)
        })
    }

    fn open(&self, uri: &str) -> StoreFuture<Arc<dyn RemoteFile>> {
        let opened = self.store().and_then(|store| {
            let object = S3Object { store, path: self.path(uri)?, first: OnceLock::new() };
            Ok(Arc::new(S3File(Arc::new(object))) as Arc<dyn RemoteFile>)
        });
        Box::pin(std::future::ready(opened))
    }
}

/// An object that is read range by range. Opening it sends no request.
#[derive(derive_more::Debug)]
#[debug("S3File(s3://{}/{})", self.0.store.bucket(), self.0.path)]
struct S3File(Arc<S3Object>);

struct S3Object {
    store: Arc<S3>,
    path: Path,
    /// The object's version at the first read.
    first: OnceLock<Version>,
}

/// The version of an object; an object that has replaced another one has a different version.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    /// Length in bytes.
    length: u64,
    tag: Option<String>,
}

impl S3Object {
    fn replaced(&self) -> StoreError {
        let path = format!("s3://{}/{}", self.store.bucket(), self.path);
        let why = "the object was replaced while it was read; start the job again, and write new input under new names";
        StoreError::Io { path, why: why.to_owned() }
    }

    async fn read(&self, offset: u64, most: usize) -> Result<Bytes, StoreError> {
        if most == 0 || self.first.get().is_some_and(|first| offset >= first.length) {
            return Ok(Bytes::new());
        }
        let range = offset..offset.saturating_add(most as u64);
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let failed = |error| self.store.error(self.path.as_ref(), &error);
        let answer = match self.store.client().get_opts(&self.path, options).await {
            Ok(answer) => answer,
            Err(error) if is_behind_end(&error) => {
                // An object that had bytes here when it was first read is another one now.
                return if self.first.get().is_none() {
                    Ok(Bytes::new())
                } else {
                    Err(self.replaced())
                };
            }
            Err(error) => return Err(failed(error)),
        };
        let version = Version { length: answer.meta.size, tag: answer.meta.e_tag.clone() };
        if *self.first.get_or_init(|| version.clone()) != version {
            return Err(self.replaced());
        }
        answer.bytes().await.map_err(failed)
    }
}

impl RemoteFile for S3File {
    fn read(&self, offset: u64, most: usize) -> StoreFuture<Bytes> {
        let object = self.0.clone();
        Box::pin(async move { object.read(offset, most).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(uri: &str) -> Result<S3Files, StoreError> {
        S3Files::of(uri, &S3Settings::default())
    }

    #[test]
    fn a_uri_names_a_bucket_and_the_object_as_it_is_written() {
        let all = files("s3://b/in").unwrap();
        for (uri, name) in [
            ("s3://b", ""),
            ("s3://b/", ""),
            ("s3://b/in/", "in"),
            ("s3://b/a b%20ü#1", "a b%20ü#1"),
        ] {
            assert_eq!(all.path(uri).unwrap().as_ref(), name);
        }
        for (uri, why) in [
            ("s3://", "it names no bucket"),
            ("s3:///in", "it names no bucket"),
            ("s3://b/in//a", "empty path segment"),
            ("s3://b/../a", "\"..\""),
        ] {
            let error = files(uri).unwrap_err().to_string();
            assert!(error.contains(uri) && error.contains(why), "{error}");
        }
        let error = all.path("s3://bc/in").unwrap_err().to_string();
        assert!(error.contains("it is not in the bucket s3://b"), "{error}");
    }

    #[test]
    fn names_below_the_folder_that_begin_with_a_dot_or_underscore_are_hidden() {
        let hidden = |name: &str| {
            let location = Path::parse(name).unwrap();
            let (last_modified, e_tag, version) = (Default::default(), None, None);
            let object = ObjectMeta { location, last_modified, size: 1, e_tag, version };
            is_hidden(&Path::parse("_in/.x").unwrap(), &object)
        };
        assert!(!hidden("_in/.x/a") && !hidden("_in/.x/a/b_c.d"));
        assert!(hidden("_in/.x/_SUCCESS") && hidden("_in/.x/.a/b") && hidden("_in/.x/a/.b"));
    }
}
