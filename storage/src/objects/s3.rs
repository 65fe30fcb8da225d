//! Objects in a bucket of S3 or of a compatible server.
//!
//! `If-None-Match: *` is the create-if-absent. The crate `object_store` repeats requests whose answers were lost and
//! reports 409 as "exists already". That answer is therefore always checked by reading the object back (see
//! [`Create::Unclear`]). This module must never log or show a key.

mod listing;
mod uploads;

use super::remote::{Backend, Create, RANGES_AT_ONCE, folder_of};
use super::{S3Settings, StoreError};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, GetOptions, GetRange, ObjectMeta, ObjectStore as _,
    ObjectStoreExt as _, PutMode, RetryConfig,
};
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;

/// Maximum duration of connecting: a running server accepts within one round trip.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Maximum duration of one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Time after which no request is repeated; the call ends at most [`REQUEST_LIMIT`] later.
const RETRY_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of repetitions of a request. With the pauses below, the client gives up on a server that refuses
/// connections after two seconds at most.
const RETRIES: usize = 4;
const PAUSES: BackoffConfig = BackoffConfig {
    init_backoff: Duration::from_millis(50),
    max_backoff: Duration::from_millis(500),
    base: 2.0,
};

/// An object store in a folder of a bucket.
#[derive(Debug)]
pub(crate) struct S3 {
    client: AmazonS3,
    /// The options of the client, for requests that it does not make itself.
    options: ClientOptions,
    bucket: String,
    /// The prefix of all names: empty, or ends with a slash.
    folder: String,
}

impl S3 {
    /// Makes a client without sending a request. `folder` is the path of the URI.
    pub(crate) fn open(
        uri: &str,
        bucket: &str,
        folder: &str,
        settings: &S3Settings,
    ) -> Result<Self, StoreError> {
        Self::open_within(uri, bucket, folder, settings, REQUEST_LIMIT)
    }

    /// Makes a client like [`S3::open`], whose requests may take as long as `limit` each.
    pub(crate) fn open_within(
        uri: &str,
        bucket: &str,
        folder: &str,
        settings: &S3Settings,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        // The HTTP client has no cryptography of its own. If a provider is installed already, that one is used.
        let _ = ring::default_provider().install_default();
        let options = ClientOptions::new()
            .with_connect_timeout(CONNECT_LIMIT)
            .with_timeout(limit)
            .with_allow_http(settings.endpoint.as_ref().is_some_and(|e| e.starts_with("http://")));
        let retry =
            RetryConfig { backoff: PAUSES, max_retries: RETRIES, retry_timeout: RETRY_LIMIT };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_client_options(options.clone())
            .with_retry(retry);
        if let Some(endpoint) = &settings.endpoint {
            let (endpoint, of_bucket) = endpoint_of(endpoint, bucket, settings.path_style_access);
            builder = builder.with_endpoint(endpoint).with_virtual_hosted_style_request(of_bucket);
        }
        if let Some(region) = &settings.region {
            builder = builder.with_region(region);
        }
        if let Some(key) = &settings.access_key {
            builder = builder.with_access_key_id(key);
        }
        if let Some(key) = &settings.secret_key {
            builder = builder.with_secret_access_key(key);
        }
        let client = builder.build().map_err(|error| StoreError::UnknownUri {
            uri: uri.to_owned(),
            why: format!("no S3 client can be made: {}", cause(&error)),
        })?;
        let folder = Path::from(folder).to_string();
        let folder = if folder.is_empty() { folder } else { folder + "/" };
        Ok(Self { client, options, bucket: bucket.to_owned(), folder })
    }

    pub(crate) fn path(&self, name: &str) -> Path {
        Path::from(format!("{}{name}", self.folder))
    }

    pub(crate) fn error(&self, name: &str, error: &Error) -> StoreError {
        let (path, why) = (self.place(name), cause(error));
        match error {
            error if no_keys(error) => StoreError::Permission {
                path,
                why: "there is no access key; set s3.access-key and s3.secret-key, or AWS_ACCESS_KEY_ID and \
                      AWS_SECRET_ACCESS_KEY in the environment of every process"
                    .to_owned(),
            },
            error if is_refused(error) => StoreError::Permission {
                path,
                why: format!("{why}; check s3.access-key and s3.secret-key"),
            },
            error if no_bucket(error) => {
                StoreError::NotFound { path: format!("the bucket s3://{}", self.bucket) }
            }
            Error::NotFound { .. } => StoreError::NotFound { path },
            _ if NO_ROOM.iter().any(|code| why.contains(code)) => StoreError::DiskFull { path },
            error if http_error(error).is_some_and(|e| no_answer(e.kind())) => {
                StoreError::Unreachable { path, why }
            }
            _ => StoreError::Io { path, why },
        }
    }

    /// Returns the bucket's name.
    pub(crate) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns the client of the bucket.
    pub(crate) fn client(&self) -> &AmazonS3 {
        &self.client
    }

    /// Lists the objects below a folder of the bucket, except those whose names the client cannot express.
    pub(crate) async fn list_below(&self, folder: &Path) -> Result<Vec<ObjectMeta>, Error> {
        listing::list(&self.client, folder, &self.bucket).await
    }

    async fn put(&self, name: &str, object: Bytes, mode: PutMode) -> Result<(), Error> {
        self.client.put_opts(&self.path(name), object.into(), mode.into()).await.map(drop)
    }

    /// Reads an object, or a range of it as far as it is in the object; returns `None` if there is no object.
    async fn read_range(
        &self,
        name: &str,
        range: Option<Range<u64>>,
    ) -> Result<Option<Bytes>, StoreError> {
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let read = match self.client.get_opts(&self.path(name), options).await {
            Ok(answer) => answer.bytes().await,
            Err(error) => Err(error),
        };
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_behind_end(&error) => Ok(Some(Bytes::new())),
            Err(error @ Error::NotFound { .. }) if !no_bucket(&error) => Ok(None),
            Err(error) => Err(self.error(name, &error)),
        }
    }
}

impl Backend for S3 {
    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        self.read_range(name, None).await
    }

    async fn read_ranges(
        &self,
        name: &str,
        ranges: &[Range<u64>],
    ) -> Result<Option<Vec<Bytes>>, StoreError> {
        let reads: Vec<_> =
            ranges.iter().map(|range| self.read_range(name, Some(range.clone()))).collect();
        stream::iter(reads)
            .buffered(RANGES_AT_ONCE)
            .try_collect::<Vec<_>>()
            .await
            .map(|pieces| pieces.into_iter().collect())
    }

    async fn create(&self, name: &str, object: Bytes) -> Result<Create, StoreError> {
        match self.put(name, object, PutMode::Create).await {
            Ok(()) => Ok(Create::Done),
            Err(error @ Error::AlreadyExists { .. }) => Ok(Create::Unclear(StoreError::Io {
                path: self.place(name),
                why: format!("other writes of it are under way: {}", cause(&error)),
            })),
            Err(error) => match self.error(name, &error) {
                refused @ (StoreError::Permission { .. }
                | StoreError::NotFound { .. }
                | StoreError::DiskFull { .. }) => Err(refused),
                // The server may have carried out the request.
                unclear => Ok(Create::Unclear(unclear)),
            },
        }
    }

    async fn replace(&self, name: &str, object: Bytes) -> Result<(), StoreError> {
        let put = self.put(name, object, PutMode::Overwrite).await;
        put.map_err(|error| self.error(name, &error))
    }

    async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        match self.client.delete(&self.path(name)).await {
            // S3 does not say whether the object existed.
            Ok(()) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.error(name, &error)),
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let found = self.list_below(&self.path(folder_of(prefix))).await;
        let name = |path: &Path| path.as_ref().strip_prefix(&self.folder).map(str::to_owned);
        let found = found.map_err(|error| self.error("", &error))?;
        Ok(found.iter().filter_map(|object| name(&object.location)).collect())
    }

    fn place(&self, name: &str) -> String {
        format!("s3://{}/{}{name}", self.bucket, self.folder).trim_end_matches('/').to_owned()
    }
}

/// Returns true if the bucket itself is missing, which is not the same as a missing object.
fn no_bucket(error: &Error) -> bool {
    cause(error).starts_with("NoSuchBucket")
}

/// Returns true if the server has refused the access key or what it asks for. The client has no error type of its own for a
/// listing that is refused.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
        || has_status(error, "403")
        || has_status(error, "401")
}

/// Returns true if a range was asked for that begins at the object's end or behind it.
pub(crate) fn is_behind_end(error: &Error) -> bool {
    has_status(error, "416") || cause(error).starts_with("InvalidRange")
}

/// The beginning of the client's text for an answer with an HTTP status other than 2xx, before the status.
const BAD_STATUS: &str = "Server returned non-2xx status code: ";

/// Returns true if the server has answered with this HTTP status, which the client gives in a text only.
fn has_status(error: &Error, status: &str) -> bool {
    let text = innermost(error);
    text.strip_prefix(BAD_STATUS).is_some_and(|t| t.starts_with(status))
}

/// Returns true if no access key is configured, and none could be had from the service that gives machines in Amazon's cloud theirs.
fn no_keys(error: &Error) -> bool {
    chain(error).any(|error| error.to_string().contains("http://169.254.169.254"))
}

/// Texts in error answers by which servers say that the storage is full.
const NO_ROOM: [&str; 4] = ["QuotaExceeded", "StorageFull", "507 ", "Insufficient Storage"];

/// Returns the endpoint in the form that the client needs, and true if it is the bucket's own (`https://bucket.host`).
/// An IP address cannot have the bucket as a subdomain.
fn endpoint_of(endpoint: &str, bucket: &str, path_style: bool) -> (String, bool) {
    let (scheme, host) = endpoint.split_once("://").unwrap_or(("https", endpoint));
    let host = host.trim_end_matches('/');
    let bare = host.rsplit_once(':').map_or(host, |(bare, _)| bare);
    let address = bare == "localhost" || bare.starts_with('[') || bare.parse::<IpAddr>().is_ok();
    match path_style || address {
        true => (format!("{scheme}://{host}"), false),
        false => (format!("{scheme}://{bucket}.{host}"), true),
    }
}

fn no_answer(kind: HttpErrorKind) -> bool {
    use HttpErrorKind::{Connect, Interrupted, Timeout};
    matches!(kind, Connect | Interrupted | Timeout)
}

/// Returns `error` and its chain of sources.
fn chain<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

fn http_error(error: &Error) -> Option<&HttpError> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn innermost(error: &Error) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Returns the server's own code and message, or the innermost error's text.
fn cause(error: &Error) -> String {
    let between = |text: &str, tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once(&format!("</{tag}>"))?.0.to_owned())
    };
    let inner = innermost(error);
    match (between(&inner, "Code"), between(&inner, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code,
        _ => inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_the_bucket_in_its_host_unless_it_is_an_address_or_told_otherwise() {
        let of = |endpoint, path_style| endpoint_of(endpoint, "b", path_style);
        assert_eq!(of("https://s3.eu.example", false), ("https://b.s3.eu.example".into(), true));
        assert_eq!(of("s3.eu.example:9/", true), ("https://s3.eu.example:9".into(), false));
        assert_eq!(of("http://127.0.0.1:9000", false), ("http://127.0.0.1:9000".into(), false));
        assert_eq!(of("http://localhost:9000", false), ("http://localhost:9000".into(), false));
        assert_eq!(of("http://[::1]:9000", false), ("http://[::1]:9000".into(), false));
    }

    #[test]
    fn answers_of_servers_are_typed() {
        let store = S3::open("s3://b/x", "b", "/x/", &S3Settings::default()).unwrap();
        let source = |text: &str| text.to_owned().into();
        let error = |error: Error| store.error("a", &error);
        let missing = |text| Error::NotFound { path: "x/a".into(), source: source(text) };
        let no_bucket = "404: <Error><Code>NoSuchBucket</Code><Message>None.</Message></Error>";
        let path = "the bucket s3://b".to_owned();
        assert_eq!(error(missing(no_bucket)), StoreError::NotFound { path });
        let path = "s3://b/x/a".to_owned();
        assert_eq!(error(missing("NoSuchKey")), StoreError::NotFound { path: path.clone() });
        let full = Error::Generic { store: "S3", source: source("<Code>XMinioStorageFull</Code>") };
        assert_eq!(error(full), StoreError::DiskFull { path: path.clone() });
        let denied = "<Code>AccessDenied</Code><Message>Access Denied.</Message>";
        let why = "AccessDenied: Access Denied.; check s3.access-key and s3.secret-key".to_owned();
        let denied = Error::PermissionDenied { path: "x/a".into(), source: source(denied) };
        assert_eq!(error(denied), StoreError::Permission { path: path.clone(), why });
        // The client's errors for listings have the type `Generic` whatever the server has answered.
        let generic = |text: &str| Error::Generic { store: "S3", source: source(text) };
        let status = "Server returned non-2xx status code: ";
        let listing = generic(&format!("{status}{no_bucket}"));
        assert_eq!(error(listing), StoreError::NotFound { path: "the bucket s3://b".to_owned() });
        let refused = error(generic(&format!("{status}403 Forbidden: <Code>AccessDenied</Code>")));
        let why = "AccessDenied; check s3.access-key and s3.secret-key".to_owned();
        assert_eq!(refused, StoreError::Permission { path: path.clone(), why });
        let no_keys =
            "Error performing PUT http://169.254.169.254/latest/api/token in 3s - timed out";
        let text = error(generic(no_keys)).to_string();
        assert!(text.contains("there is no access key; set s3.access-key"), "{text}");
        let behind = "416 Range Not Satisfiable: <Code>InvalidRange</Code>";
        assert!(is_behind_end(&generic(&format!("{status}{behind}"))));
        assert!(!is_behind_end(&missing("NoSuchKey")) && !is_behind_end(&generic("416 odd")));
        let other = Error::Generic { store: "S3", source: source("odd") };
        assert_eq!(error(other), StoreError::Io { path, why: "odd".to_owned() });
    }

    #[tokio::test]
    async fn a_refused_port_is_an_error_in_seconds_that_says_where() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let settings = S3Settings {
            endpoint: Some(endpoint),
            access_key: Some("a".into()),
            secret_key: Some("b".into()),
            ..S3Settings::default()
        };
        let store = S3::open("s3://bucket/x", "bucket", "x", &settings).unwrap();
        let begin = tokio::time::Instant::now();
        let error = store.read("a").await.unwrap_err();
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("s3://bucket/x/a") && text.contains("refused"), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}
