//! An S3 server for tests: the crate `s3s` with its files in a temporary directory, on a free port of loopback.
//!
//! The server checks signatures, and `If-None-Match: *` is atomic as it is with Amazon. The crate itself looks for the
//! object and only then writes it, so two writers could both win; the server therefore handles conditional requests one
//! at a time. It lists uploads, which the crate does not, and says of one that is gone that there is none.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use hyper::header::{IF_NONE_MATCH, RANGE};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::dto::*;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use std::collections::BTreeSet;
use std::sync::Arc;
use storage::objects::S3Settings;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// The bucket that every server has.
pub const BUCKET: &str = "flott-tests";
/// The one access key that the server knows.
pub const ACCESS_KEY: &str = "access-of-tests";
/// The secret of this access key.
pub const SECRET_KEY: &str = "secret-of-tests";

/// A running server. Dropping it stops the server and deletes its objects.
pub struct S3Server {
    /// The endpoint for clients: `http://127.0.0.1:PORT`.
    pub endpoint: String,
    /// The directory that holds a directory for each bucket, with a file for each object.
    pub folder: TempDir,
    /// The reads of objects so far, each as its path and its `Range` header; listings are no reads.
    pub reads: Arc<std::sync::Mutex<Vec<String>>>,
    uploads: Uploads,
    runtime: Option<Runtime>,
}

impl S3Server {
    /// Starts a server with one empty bucket, [`BUCKET`].
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let (files, uploads) = (FileSystem::new(folder.path()).unwrap(), Uploads::default());
        let mut builder =
            S3ServiceBuilder::new(WithUploads { files, uploads: Arc::clone(&uploads) });
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let reads = Arc::default();
        runtime.spawn(serve(listener, builder.build(), Arc::clone(&reads)));
        Self { endpoint, folder, reads, uploads, runtime: Some(runtime) }
    }

    /// Returns the settings by which processes reach the server, with this secret.
    pub fn settings(&self, secret: &str) -> S3Settings {
        S3Settings {
            endpoint: Some(self.endpoint.clone()),
            region: Some("us-east-1".to_owned()),
            access_key: Some(ACCESS_KEY.to_owned()),
            secret_key: Some(secret.to_owned()),
            path_style_access: true,
        }
    }

    /// Returns the options of the same meaning, for a cluster or a job.
    pub fn options<'a>(&'a self, secret: &'a str) -> [(&'static str, &'a str); 5] {
        [
            ("s3.endpoint", &self.endpoint),
            ("s3.region", "us-east-1"),
            ("s3.access-key", ACCESS_KEY),
            ("s3.secret-key", secret),
            ("s3.path.style.access", "true"),
        ]
    }

    /// Returns the keys of the uploads that are neither completed nor aborted, sorted.
    pub fn open_uploads(&self) -> Vec<String> {
        self.uploads.lock().unwrap().iter().map(|(key, _)| key.clone()).collect()
    }

    /// Creates or replaces the object `name` of [`BUCKET`] by writing its file, without a request to the server.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder.path().join(BUCKET).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

impl Drop for S3Server {
    /// Stops the server without waiting for requests.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns a read of an object as text, `None` for other requests.
fn read_of<B>(request: &hyper::Request<B>) -> Option<String> {
    let path = request.uri().path();
    let is_read = request.method() == hyper::Method::GET && path.matches('/').count() > 1;
    let range = request.headers().get(RANGE).map_or("whole", |range| range.to_str().unwrap());
    is_read.then(|| format!("{path} {range}"))
}

type Reads = Arc<std::sync::Mutex<Vec<String>>>;

async fn serve(listener: std::net::TcpListener, s3: S3Service, reads: Reads) {
    let listener = TcpListener::from_std(listener).unwrap();
    let conditional = Arc::new(Mutex::new(()));
    while let Ok((stream, _)) = listener.accept().await {
        let (s3, conditional, reads) = (s3.clone(), Arc::clone(&conditional), Arc::clone(&reads));
        let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let (s3, conditional) = (s3.clone(), Arc::clone(&conditional));
            reads.lock().unwrap().extend(read_of(&request));
            async move {
                let _one_at_a_time = match request.headers().contains_key(IF_NONE_MATCH) {
                    true => Some(conditional.lock().await),
                    false => None,
                };
                s3.call(request.map(s3s::Body::from)).await
            }
        });
        let connection = async move {
            let builder = Builder::new(TokioExecutor::new());
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), answer).await {
                eprintln!("the S3 server's connection ended: {error}");
            }
        };
        tokio::task::spawn(connection);
    }
}

/// The open uploads of the bucket: key and id of each.
type Uploads = Arc<std::sync::Mutex<BTreeSet<(String, String)>>>;

/// The most uploads in a page of a list: few, so that tests have several pages.
const PAGE: usize = 2;

/// The files of a server, and the list of its uploads.
struct WithUploads {
    files: FileSystem,
    uploads: Uploads,
}

impl WithUploads {
    /// Refuses a request for an upload that is not open.
    fn check(&self, key: &str, id: &str) -> S3Result<()> {
        let is_open = self.uploads.lock().unwrap().contains(&(key.to_owned(), id.to_owned()));
        is_open.then_some(()).ok_or_else(|| s3_error!(NoSuchUpload))
    }

    fn list(&self, asked: &ListMultipartUploadsInput) -> ListMultipartUploadsOutput {
        let prefix = asked.prefix.clone().unwrap_or_default();
        let after = asked.key_marker.clone().zip(asked.upload_id_marker.clone());
        let is_asked_for = |(key, id): &&(String, String)| {
            let rest = key.strip_prefix(&prefix);
            let is_deeper = |rest: &str| asked.delimiter.as_ref().is_some_and(|d| rest.contains(d));
            rest.is_some_and(|rest| !is_deeper(rest))
                && after.as_ref().is_none_or(|after| (key, id) > (&after.0, &after.1))
        };
        let uploads = self.uploads.lock().unwrap();
        let all: Vec<_> = uploads.iter().filter(is_asked_for).collect();
        let page = &all[..all.len().min(PAGE)];
        let last = page.last().filter(|_| all.len() > PAGE);
        let upload = |(key, id): &&(String, String)| MultipartUpload {
            key: Some(key.clone()),
            upload_id: Some(id.clone()),
            ..MultipartUpload::default()
        };
        ListMultipartUploadsOutput {
            is_truncated: Some(last.is_some()),
            next_key_marker: last.map(|(key, _)| key.clone()),
            next_upload_id_marker: last.map(|(_, id)| id.clone()),
            uploads: Some(page.iter().map(upload).collect()),
            ..ListMultipartUploadsOutput::default()
        }
    }
}

/// Implements the requests that the files answer, and those that concern uploads.
macro_rules! server {
    ($($call:ident $input:ident $output:ident),+ $(,)?) => {
        #[async_trait::async_trait]
        impl S3 for WithUploads {
            $(
                async fn $call(&self, asked: S3Request<$input>) -> S3Result<S3Response<$output>> {
                    self.files.$call(asked).await
                }
            )+
            async fn create_multipart_upload(
                &self,
                asked: S3Request<CreateMultipartUploadInput>,
            ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
                let answer = self.files.create_multipart_upload(asked).await?;
                let CreateMultipartUploadOutput { key, upload_id, .. } = &answer.output;
                let upload = (key.clone().unwrap(), upload_id.clone().unwrap());
                self.uploads.lock().unwrap().insert(upload);
                Ok(answer)
            }
            async fn complete_multipart_upload(
                &self,
                asked: S3Request<CompleteMultipartUploadInput>,
            ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
                let upload = (asked.input.key.clone(), asked.input.upload_id.clone());
                self.check(&upload.0, &upload.1)?;
                let answer = self.files.complete_multipart_upload(asked).await?;
                self.uploads.lock().unwrap().remove(&upload);
                Ok(answer)
            }
            async fn abort_multipart_upload(
                &self,
                asked: S3Request<AbortMultipartUploadInput>,
            ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
                let upload = (asked.input.key.clone(), asked.input.upload_id.clone());
                self.check(&upload.0, &upload.1)?;
                let answer = self.files.abort_multipart_upload(asked).await?;
                self.uploads.lock().unwrap().remove(&upload);
                Ok(answer)
            }
            async fn list_multipart_uploads(
                &self,
                asked: S3Request<ListMultipartUploadsInput>,
            ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
                Ok(S3Response::new(self.list(&asked.input)))
            }
        }
    };
}

server!(
    delete_object DeleteObjectInput DeleteObjectOutput,
    delete_objects DeleteObjectsInput DeleteObjectsOutput,
    get_object GetObjectInput GetObjectOutput,
    head_bucket HeadBucketInput HeadBucketOutput,
    head_object HeadObjectInput HeadObjectOutput,
    list_objects ListObjectsInput ListObjectsOutput,
    list_objects_v2 ListObjectsV2Input ListObjectsV2Output,
    put_object PutObjectInput PutObjectOutput,
    upload_part UploadPartInput UploadPartOutput,
);
