//! What the crate `object_store` does with an S3 server. Everything that is stored relies on it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test fails loudly"
)]

#[path = "common/s3.rs"]
mod s3;

use futures::TryStreamExt;
use futures::future::join_all;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};
use tokio_rustls::rustls::crypto::ring;

fn client(endpoint: &str, secret: &str) -> AmazonS3 {
    // The HTTP client has no cryptography of its own. There may be a provider already: then it is this one.
    let _ = ring::default_provider().install_default();
    AmazonS3Builder::new()
        .with_bucket_name(BUCKET)
        .with_endpoint(endpoint)
        .with_region("us-east-1")
        .with_access_key_id(ACCESS_KEY)
        .with_secret_access_key(secret)
        .with_allow_http(true)
        .build()
        .unwrap()
}

#[tokio::test]
async fn of_many_creators_one_wins() {
    let server = S3Server::start();
    let store = client(&server.endpoint, SECRET_KEY);
    let path = Path::from("jobs/1/0001");
    let create = |writer: usize| {
        let bytes = PutPayload::from(format!("writer {writer}"));
        store.put_opts(&path, bytes, PutMode::Create.into())
    };
    let results = join_all((0..16).map(create)).await;
    let winners: Vec<usize> = (0..16).filter(|writer| results[*writer].is_ok()).collect();
    let taken = |r: &&Result<_, _>| matches!(r, Err(Error::AlreadyExists { .. }));
    assert_eq!((winners.len(), results.iter().filter(taken).count()), (1, 15), "{results:?}");
    let stored = store.get(&path).await.unwrap().bytes().await.unwrap();
    assert_eq!(stored, format!("writer {}", winners[0]));
}

#[tokio::test]
async fn listing_is_by_folders() {
    let server = S3Server::start();
    let store = client(&server.endpoint, SECRET_KEY);
    for path in ["jobs/1/a", "jobs/12/b", "jobs/1/c/d", "other"] {
        store.put(&Path::from(path), PutPayload::from("x")).await.unwrap();
    }
    let list = async |prefix: &str| {
        let found = store.list(Some(&Path::from(prefix)));
        let mut paths: Vec<String> =
            found.map_ok(|object| object.location.to_string()).try_collect().await.unwrap();
        paths.sort();
        paths
    };
    assert_eq!(list("jobs/1").await, ["jobs/1/a", "jobs/1/c/d"]);
    assert_eq!(list("job").await, [""; 0]);
}

#[tokio::test]
async fn a_wrong_secret_is_refused() {
    let server = S3Server::start();
    let error = client(&server.endpoint, "wrong").get(&Path::from("x")).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
    let error = client(&server.endpoint, SECRET_KEY).get(&Path::from("x")).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
}
