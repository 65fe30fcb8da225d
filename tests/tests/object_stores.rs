//! Objects in an S3 server: the contract of all stores, requests that servers refuse, a cluster that survives in one,
//! and the behaviour of the crate `object_store` on which everything stored there relies.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly")]

mod common;
#[path = "common/s3.rs"]
mod s3;

use common::visits::{committed, write_visits};
use common::{Cluster, Numbers, SOON, bin, eventually, ha, output_lines, request};
use futures::TryStreamExt;
use futures::future::join_all;
use model::{StateHandle, StatePart};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use platform::Platform;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use storage::checkpoints::{CheckpointDirectory, Ranges};
use storage::objects::{self, StoreError};
use storage::testing::contract;
use tokio_rustls::rustls::crypto::ring;

fn client(endpoint: &str, secret: &str) -> AmazonS3 {
    // The HTTP client has no cryptography of its own. If a provider is installed already, it is this one.
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

/// Opens the store of a URI as processes do.
fn open(server: &S3Server, uri: &str, secret: &str) -> Arc<dyn objects::ObjectStore> {
    objects::open(uri, &Platform::production(), &server.settings(secret)).unwrap()
}

#[tokio::test]
async fn a_bucket_keeps_the_contract_of_stores() {
    let server = S3Server::start();
    let count = Cell::new(0);
    let make = async || {
        count.set(count.get() + 1);
        open(&server, &format!("s3://{BUCKET}/ha/{}", count.get()), SECRET_KEY)
    };
    contract::check(make).await;
    assert_eq!(
        open(&server, &format!("s3://{BUCKET}"), SECRET_KEY).list("ha/").await.unwrap().len(),
        10
    );
}

#[tokio::test]
async fn a_damaged_object_is_named() {
    let server = S3Server::start();
    let uri = format!("s3://{BUCKET}/ha");
    let store = open(&server, &uri, SECRET_KEY);
    store.put("jobs/1", "graph".into()).await.unwrap();
    let raw = client(&server.endpoint, SECRET_KEY);
    let path = Path::from("ha/jobs/1");
    let whole = raw.get(&path).await.unwrap().bytes().await.unwrap();
    for length in [0, 19, 30, whole.len() - 1] {
        raw.put(&path, whole.slice(..length).into()).await.unwrap();
        match store.get("jobs/1").await {
            Err(StoreError::Corrupt { path, .. }) => assert_eq!(path, format!("{uri}/jobs/1")),
            other => panic!("{length}: {other:?}"),
        }
    }
    raw.put(&path, whole.into()).await.unwrap();
    assert_eq!(store.get("jobs/1").await, Ok(Some("graph".into())));
}

/// The state of a former subtask is in one object; the subtasks of another parallelism ask the server for their shares.
#[tokio::test]
async fn a_rescaled_restore_asks_a_bucket_for_its_share_and_names_what_is_damaged() {
    const CHUNK: usize = 10_000;
    let server = S3Server::start();
    let uri = format!("s3://{BUCKET}/checkpoints");
    let store = open(&server, &uri, SECRET_KEY);
    let chunk = |n: u8| vec![n; CHUNK];
    store.put("job/a", (0..64).flat_map(chunk).collect()).await.unwrap();
    let mut ranges = Ranges::default();
    (0..64_u8).for_each(|n| ranges.add((u32::from(n) * 2, u32::from(n) * 2 + 2), &chunk(n)));
    let state = StateHandle::Object { name: "job/a".to_owned(), bytes: 64 * CHUNK as u64 };
    let part = StatePart { groups: vec![(0, 128)], state, ranges: ranges.take(), index: None };
    let directory = CheckpointDirectory::new(Arc::clone(&store));
    let asked = || -> Vec<u64> {
        let reads = std::mem::take(&mut *server.reads.lock().unwrap());
        let length = |read: &String| {
            let (from, to) = read.split_once("bytes=").unwrap().1.split_once('-').unwrap();
            to.parse::<u64>().unwrap() + 1 - from.parse::<u64>().unwrap()
        };
        reads.iter().map(length).collect()
    };
    for after in [2, 3, 5] {
        let mut found = BTreeSet::new();
        for subtask in 0..after {
            let own = model::owned_key_groups(subtask, after, 128);
            let bytes = directory.read(&part.needed(&own).unwrap()).await.unwrap();
            found.extend(bytes.chunks(CHUNK).map(|chunk| chunk[0]));
            assert_eq!(asked(), [bytes.len() as u64], "neighbours are one request");
            assert!(bytes.len() <= (own.len() / 2 + 2) * CHUNK, "{} bytes", bytes.len());
        }
        assert!(found.into_iter().eq(0..64));
    }
    let file = server.folder.path().join(BUCKET).join("checkpoints/job/a");
    let whole = std::fs::read(&file).unwrap();
    let needed = part.needed(&(64..68)).unwrap();
    let place = whole.len() - 32 * CHUNK;
    let mut flipped = whole.clone();
    flipped[place + 5] ^= 4;
    let (cut, empty) = (whole[..place + 5].to_vec(), Vec::new());
    let damaged = [(flipped, "do not match their checksum"), (cut, "are cut"), (empty, "are cut")];
    for (bytes, why) in damaged {
        std::fs::write(&file, bytes).unwrap();
        let error = directory.read(&needed).await.unwrap_err();
        let text = error.to_string();
        let place = format!("{uri}/job/a is corrupt: its 10000 bytes from 3");
        assert!(error.is_lost() && text.contains(&place) && text.contains(why), "{text}");
    }
    store.delete("job/a").await.unwrap();
    let error = directory.read(&needed).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("/job/a does not exist"), "{error}");
}

#[tokio::test]
async fn what_a_server_refuses_is_typed_and_named() {
    let server = S3Server::start();
    let uri = format!("s3://{BUCKET}/ha");
    let refused = open(&server, &uri, "wrong").put_new("a", "x".into()).await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, StoreError::Permission { .. }), "{refused:?}");
    assert!(text.contains(&format!("{uri}/a")) && text.contains("s3.secret-key"), "{text}");
    assert!(!text.contains("wrong"), "{text}");
}

#[test]
fn a_killed_jobmanager_finds_its_jobs_in_a_bucket() {
    let server = S3Server::start();
    let uri = format!("s3://{BUCKET}/ha");
    let options = [&ha(&uri)[..], &server.options(SECRET_KEY)].concat();
    let mut cluster = Cluster::start(&options, 1);
    let out = cluster.folder.path().join("sums");
    let job = cluster.sum(Numbers { count: 3_000, rate: 1_000, keys: 10 }, &out, 1);
    cluster.await_state(&job, "RUNNING", SOON);
    let mut killed = cluster.jobmanager.take().unwrap();
    killed.kill();
    cluster.start_jobmanager();
    cluster.await_state(&job, "FINISHED", SOON);
    let sums = output_lines(&out);
    assert!(sums.len() == 10 && sums.iter().all(|line| line.contains("\t300\t")), "{sums:?}");
    for log in [killed.log(), cluster.jobmanager.as_ref().unwrap().log()] {
        assert!(!log.contains(SECRET_KEY), "{log}");
    }
    // The job's log is in the bucket; its program, which the second JobManager had from there, goes with the job.
    let bucket = open(&server, &uri, SECRET_KEY);
    let list = |prefix: &str| cluster.block_on(bucket.list(&format!("default/{prefix}"))).unwrap();
    assert!(list(&format!("jobs/{job}/")).len() > 2);
    eventually(SOON, "the program is gone", || list("programs/").is_empty().then_some(()));
}

#[tokio::test]
async fn an_output_file_appears_when_it_is_published_and_once() {
    use storage::output::{self, Published};
    let server = S3Server::start();
    let settings = server.settings(SECRET_KEY);
    let folder = output::open(&format!("s3://{BUCKET}/out"), &settings).unwrap();
    let raw = client(&server.endpoint, SECRET_KEY);
    let path = Path::from("out/part-0");
    let piece = bytes::Bytes::from(vec![b'x'; folder.piece_bytes()]);
    let mut file = folder.create("part-0", "owner").await.unwrap();
    for bytes in [piece.clone(), piece, "the end".into()] {
        file = file.write(bytes).await.unwrap();
    }
    let pending = file.finish().await.unwrap();
    assert_eq!(pending.parts.len(), 3);
    assert!(matches!(raw.head(&path).await, Err(Error::NotFound { .. })));
    for _ in 0..2 {
        assert_eq!(folder.publish(pending.clone()).await, Ok(Published::Done));
        assert_eq!(raw.head(&path).await.unwrap().size, pending.bytes);
    }
    assert!(raw.get(&path).await.unwrap().bytes().await.unwrap().ends_with(b"xthe end"));
    raw.delete(&path).await.unwrap();
    assert_eq!(folder.publish(pending).await, Ok(Published::Missing));
}

/// The name of a part of an owner, of another attempt for each number.
fn part(owner: &str, attempt: u32) -> String {
    format!("part-00000-00000-{}-{attempt:016x}", storage::output::tag(owner))
}

#[tokio::test]
async fn uploads_that_earlier_attempts_left_are_aborted_and_those_of_others_stay() {
    let server = S3Server::start();
    let settings = server.settings(SECRET_KEY);
    // A name that the client has to encode in the signed URL, and the server in its list.
    let uri = format!("s3://{BUCKET}/a b&c");
    let open = |uri: &str| storage::output::open(uri, &settings).unwrap();
    let folder = open(&uri);
    assert_eq!(folder.unpublished("job-op").await, Ok(Vec::new()));
    let mut own = BTreeSet::new();
    for attempt in 0..5 {
        // Some are in progress, some are pending.
        let file = folder.create(&part("job-op", attempt), "job-op").await.unwrap();
        let file = file.write("x".into()).await.unwrap();
        if attempt % 2 == 0 {
            file.finish().await.unwrap();
        }
        own.insert(part("job-op", attempt));
    }
    // Those of another job, in a folder below, in another folder, and in one whose name goes on.
    folder.create(&part("job2-op", 0), "job2-op").await.unwrap();
    for other in [format!("{uri}/deeper"), format!("s3://{BUCKET}/out"), format!("{uri}d")] {
        open(&other).create(&part("job-op", 9), "job-op").await.unwrap();
    }
    assert_eq!(server.open_uploads().len(), 9);
    let listed = folder.unpublished("job-op").await.unwrap();
    assert_eq!(listed.iter().map(|file| file.name.clone()).collect::<BTreeSet<_>>(), own);
    for file in listed {
        folder.discard(file.clone()).await.unwrap();
        folder.discard(file).await.expect("it is gone already");
    }
    let left = server.open_uploads();
    assert!(left.len() == 4 && left.contains(&format!("a b&c/{}", part("job2-op", 0))), "{left:?}");
    assert_eq!(folder.unpublished("job-op").await, Ok(Vec::new()));
    let refused = storage::output::open(&uri, &server.settings("wrong")).unwrap();
    let refused = refused.unpublished("job-op").await.unwrap_err();
    assert!(matches!(refused, StoreError::Permission { .. }), "{refused:?}");
    assert!(!refused.to_string().contains("Signature="), "{refused}");
}

#[tokio::test]
async fn an_upload_that_a_savepoint_holds_is_not_aborted() {
    use storage::output::Published;
    let server = S3Server::start();
    let settings = server.settings(SECRET_KEY);
    let open = || storage::output::open(&format!("s3://{BUCKET}/out"), &settings).unwrap();
    let (writer, committer) = (open(), open());
    let mut pending = Vec::new();
    for attempt in 0..2 {
        let file = writer.create(&part("job-op", attempt), "job-op").await.unwrap();
        pending.push(file.write("x".into()).await.unwrap().finish().await.unwrap());
        committer.keep(pending.last().unwrap().hidden.clone()).await.unwrap();
    }
    // The job fails, and a later attempt deletes what it finds.
    let later = open();
    for file in later.unpublished("job-op").await.unwrap() {
        later.discard(file).await.unwrap();
    }
    assert_eq!(server.open_uploads().len(), 2);
    let marks = || {
        let entries = std::fs::read_dir(server.folder.path().join(BUCKET).join("out")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".upload-") && name.ends_with(".kept")).count()
    };
    assert_eq!(marks(), 2);
    // The attempt that has kept it takes its mark away; another one does not know of it.
    for (folder, left) in [(&committer, 1), (&later, 1)] {
        assert_eq!(folder.publish(pending.pop().unwrap()).await, Ok(Published::Done));
        assert_eq!(marks(), left);
    }
    assert_eq!(server.open_uploads(), [""; 0]);
}

/// Checkpoints and output are in a bucket, and a TaskManager is killed. Uploads that attempts before the kill have left are played by two
/// that the test begins: one of the job's own sink, and one of another job.
#[test]
fn a_job_in_a_bucket_is_restored_after_a_kill_commits_once_and_leaves_no_upload() {
    let server = S3Server::start();
    let input = tempfile::tempdir().unwrap();
    let expected = write_visits(input.path(), &mut ChaCha8Rng::seed_from_u64(6));
    let (checkpoints, out) = (format!("s3://{BUCKET}/checkpoints"), format!("s3://{BUCKET}/out"));
    let options = [
        ("execution.checkpointing.interval", "100ms"),
        ("execution.checkpointing.dir", checkpoints.as_str()),
        // Everything but the smallest state goes through objects.
        ("execution.checkpointing.data-inline-threshold", "64"),
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1000"),
        ("restart-strategy.fixed-delay.delay", "50ms"),
    ];
    let options = [&options[..], &server.options(SECRET_KEY)].concat();
    let mut cluster = Cluster::start(&options, 2);
    let work = if cfg!(debug_assertions) { "20000" } else { "400000" };
    let args =
        ["--input", input.path().to_str().unwrap(), "--output", out.as_str(), "--work", work];
    let job = cluster.submit(&bin("visits"), &request(&args, 2));
    let checkpoints = |cluster: &Cluster, is_enough: &dyn Fn(u64, u64) -> bool| {
        let client = cluster.client();
        eventually(2 * SOON, "checkpoints", || {
            let counts = cluster.block_on(client.checkpoints(&job)).ok()?.counts;
            is_enough(counts.completed, counts.restored).then_some(())
        });
    };
    checkpoints(&cluster, &|completed, _| completed >= 2);
    let stored = server.folder.path().join(BUCKET).join("checkpoints").join(&job);
    assert!(stored.is_dir(), "the checkpoints are in the bucket");

    let raw = client(&server.endpoint, SECRET_KEY);
    let owner = format!("{job}-{}", operator_of_uid("files"));
    let (own, other) = (part(&owner, 1), part("another-job", 1));
    for name in [&own, &other] {
        let path = Path::from(format!("out/{name}"));
        cluster.block_on(raw.create_multipart(&path)).unwrap();
    }
    let place = cluster.place_of_taskmanager(&job);
    cluster.replace_taskmanager(place);
    checkpoints(&cluster, &|_, restored| restored >= 1);
    cluster.await_state(&job, "FINISHED", 2 * SOON);
    assert_eq!(committed(&server.folder.path().join(BUCKET).join("out")), expected);
    assert_eq!(server.open_uploads(), [format!("out/{other}")]);
}

/// Returns the id that an operator has by its uid.
fn operator_of_uid(uid: &str) -> model::OperatorId {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("uid\0{uid}"));
    model::OperatorId(u128::from_be_bytes(digest[..16].try_into().unwrap()))
}
