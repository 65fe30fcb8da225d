//! All implementations against one contract, then what only files can suffer.

use super::*;
use crate::objects::MemoryObjects;
use crate::testing::wait;
use proptest::prelude::*;
use std::{
    collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration,
};

const JOB: Option<JobId> = Some(JobId(7));
const OTHER: Option<JobId> = Some(JobId(8));

fn all(check: impl AsyncFn(&dyn BlobStore)) {
    wait(async {
        check(&MemoryBlobs::new()).await;
        let dir = tempfile::tempdir().unwrap();
        check(&FileBlobs::open(dir.path().join("blobs")).unwrap()).await;
        let disks = ["disk-1", "disk-2", "disk-3"].map(|disk| dir.path().join(disk));
        check(&FileBlobs::open_on(disks.into()).unwrap()).await;
        let (files, objects) = (Arc::new(MemoryBlobs::new()), Arc::new(MemoryObjects::new()));
        check(&DurableBlobs::new(files, objects)).await;
    });
}

/// Waits up to 5 s for something that the store does in the background.
async fn until(done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come within 5 s");
}

#[test]
fn a_blob_is_found_and_read_in_parts() {
    all(async |store| {
        let key = store_bytes(store, b"hello world", JOB, BlobKind::Permanent).await.unwrap();
        assert_eq!(key.size, 11);
        assert_eq!(store.find(JOB, key.hash).await, Ok(Some(key)));
        assert_eq!(store.find(OTHER, key.hash).await, Ok(None));
        assert_eq!(store.read(&key, 0, 5).await.unwrap(), "hello");
        assert_eq!(store.read(&key, 6, 100).await.unwrap(), "world");
        assert_eq!(store.read(&key, 11, 5).await.unwrap(), "");
        assert_eq!(store.read(&key, u64::MAX, 5).await.unwrap(), "");
        assert_eq!(store.keys().await.unwrap(), [key]);
    });
}

#[test]
fn wrong_content_is_refused_and_leaves_nothing() {
    all(async |store| {
        let writer = store.begin().await.unwrap();
        let writer = writer.append("abc".into()).await.unwrap();
        let expected = hash_bytes(b"abd");
        let actual = hash_bytes(b"abc");
        let finished = writer.finish(JOB, BlobKind::Permanent, expected).await;
        assert_eq!(finished, Err(BlobStoreError::WrongHash { expected, actual }));
        assert_eq!(store.keys().await.unwrap(), []);
    });
}

#[test]
fn one_content_of_two_jobs_goes_with_the_last() {
    all(async |store| {
        let a = store_bytes(store, b"program", JOB, BlobKind::Permanent).await.unwrap();
        let b = store_bytes(store, b"program", OTHER, BlobKind::Permanent).await.unwrap();
        let again = store_bytes(store, b"program", OTHER, BlobKind::Permanent).await.unwrap();
        assert_eq!(b, again);
        assert_eq!(store.references(&a).await, Ok(2));
        store.remove_job(JobId(7)).await.unwrap();
        assert_eq!(store.find(JOB, a.hash).await, Ok(None));
        assert_eq!(store.references(&b).await, Ok(1));
        assert_eq!(store.read(&b, 0, 100).await.unwrap(), "program");
        assert_eq!(store.remove(&b).await, Ok(true));
        assert_eq!(store.remove(&b).await, Ok(false));
        assert_eq!(store.read(&b, 0, 1).await, Err(BlobStoreError::NotFound(b.hash)));
        assert_eq!(store.keys().await.unwrap(), []);
        store.remove_job(JobId(7)).await.unwrap();
    });
}

#[test]
fn the_permanent_blob_is_found_before_the_transient_one() {
    all(async |store| {
        let transient = store_bytes(store, b"x", None, BlobKind::Transient).await.unwrap();
        assert_eq!(store.find(None, transient.hash).await, Ok(Some(transient)));
        let permanent = store_bytes(store, b"x", None, BlobKind::Permanent).await.unwrap();
        assert_eq!(store.find(None, transient.hash).await, Ok(Some(permanent)));
        assert_eq!(store.keys().await.unwrap(), [permanent, transient]);
    });
}

#[tokio::test]
async fn files_are_shared_executable_and_exact() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let script = b"#!/bin/sh\nexit 7\n";
    let a = store_bytes(&store, script, JOB, BlobKind::Permanent).await.unwrap();
    let b = store_bytes(&store, script, None, BlobKind::Transient).await.unwrap();
    let path = store.path(&a).await.unwrap().unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o700);
    let same = fs::metadata(store.path(&b).await.unwrap().unwrap()).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&same),
        std::os::unix::fs::MetadataExt::ino(&meta)
    );
    let status = std::process::Command::new(&path).status().unwrap();
    assert_eq!(status.code(), Some(7));
}

#[tokio::test]
async fn blobs_take_the_disks_in_turn_and_are_found_on_each() {
    let dir = tempfile::tempdir().unwrap();
    let disks = ["disk-1", "disk-2"].map(|disk| dir.path().join(disk));
    let store = FileBlobs::open_on(disks.to_vec()).unwrap();
    let mut keys = Vec::new();
    for n in 0..6_u8 {
        keys.push(store_bytes(&store, &[n], JOB, BlobKind::Permanent).await.unwrap());
    }
    let files = |disk: &Path| fs::read_dir(disk.join(JobId(7).to_string())).unwrap().count();
    assert_eq!(disks.each_ref().map(|disk| files(disk)), [3, 3]);
    // Another process finds them all, and the same content under another job is a link beside it, whichever disk is next.
    let again = FileBlobs::open_on(disks.to_vec()).unwrap();
    for (n, key) in (0_u8..).zip(&keys) {
        assert_eq!(again.read(key, 0, 9).await.unwrap(), vec![n]);
        let shared = store_bytes(&again, &[n], OTHER, BlobKind::Permanent).await.unwrap();
        assert_eq!(again.references(&shared).await, Ok(2));
    }
    // A disk that fails gets no more, and what is on the other one is still found.
    fs::remove_dir_all(&disks[0]).unwrap();
    fs::write(&disks[0], "a file where the disk was").unwrap();
    for n in 6..10_u8 {
        let key = store_bytes(&store, &[n], JOB, BlobKind::Permanent).await.unwrap();
        assert!(store.path(&key).await.unwrap().unwrap().starts_with(&disks[1]));
    }
    assert_eq!(store.find(JOB, keys[0].hash).await, Ok(None));
    assert_eq!(store.find(JOB, keys[1].hash).await, Ok(Some(keys[1])));
    let listed = store.keys().await.unwrap();
    assert!(listed.contains(&keys[1]) && !listed.contains(&keys[0]), "{listed:?}");
    assert_eq!(listed.len(), 3 + 3 + 4, "all that is on the other disk, of both jobs");
    // Without a disk the error names one.
    fs::remove_dir_all(&disks[1]).unwrap();
    let refused = store_bytes(&store, b"more", JOB, BlobKind::Permanent).await.unwrap_err();
    assert!(refused.to_string().contains("disk-"), "{refused}");
    let unlisted = store.keys().await.unwrap_err().to_string();
    assert!(unlisted.contains("disk-"), "{unlisted}");
    let unfit = FileBlobs::open_on(disks.to_vec()).unwrap_err().to_string();
    assert!(unfit.contains("disk-1"), "{unfit}");
}

#[tokio::test]
async fn equal_content_that_is_put_twice_at_once_is_on_one_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disks = ["disk-1", "disk-2"].map(|disk| dir.path().join(disk));
    let store = FileBlobs::open_on(disks.to_vec()).unwrap();
    for n in 0..30_u8 {
        let content = [n];
        let put = |job| store_bytes(&store, &content, job, BlobKind::Permanent);
        let (one, other, third) = tokio::join!(put(JOB), put(JOB), put(OTHER));
        assert_eq!(one, other);
        assert_eq!(store.references(&third.unwrap()).await, Ok(2), "one file for both jobs");
        let name = super::layout::file_name(BlobKind::Permanent, one.unwrap().hash);
        let on = |disk: &&PathBuf| disk.join(JobId(7).to_string()).join(&name).exists();
        assert_eq!(disks.iter().filter(on).count(), 1);
    }
}

#[tokio::test]
async fn blobs_survive_the_store_and_half_written_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let key = store_bytes(&store, b"kept", JOB, BlobKind::Permanent).await.unwrap();
    let writer = store.begin().await.unwrap();
    let writer = writer.append("half".into()).await.unwrap();
    let entries = || fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(entries(), 2);
    drop(writer);
    until(|| entries() == 1).await;
    let again = FileBlobs::open(dir.path()).unwrap();
    assert_eq!(again.keys().await.unwrap(), [key]);
    assert_eq!(again.read(&key, 0, 9).await.unwrap(), "kept");
}

#[tokio::test]
async fn damaged_content_is_never_given_out_and_can_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let writer = FileBlobs::open(dir.path()).unwrap();
    let key = store_bytes(&writer, b"content", JOB, BlobKind::Permanent).await.unwrap();
    let path = writer.path(&key).await.unwrap().unwrap();
    for damaged in [&b"Content"[..], b"conten", b"contents", b""] {
        fs::write(&path, damaged).unwrap();
        let store = FileBlobs::open(dir.path()).unwrap();
        let read = store.read(&key, 0, 3).await;
        assert!(
            matches!(read, Err(BlobStoreError::WrongHash { expected, .. }) if expected == key.hash),
            "{read:?}"
        );
        assert_eq!(store.find(JOB, key.hash).await, Ok(None));
        store_bytes(&store, b"content", JOB, BlobKind::Permanent).await.unwrap();
        assert_eq!(store.read(&key, 0, 3).await.unwrap(), "con");
    }
}

#[tokio::test]
async fn content_that_is_damaged_after_it_was_verified_is_seen_and_put_right_by_the_next_upload() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let key = store_bytes(&store, b"content", None, BlobKind::Permanent).await.unwrap();
    let path = store.path(&key).await.unwrap().unwrap();
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, b"Content").unwrap();
    // The modification time that a clock would give later.
    let later = before + Duration::from_secs(1);
    fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    let damaged = BlobStoreError::WrongHash { expected: key.hash, actual: hash_bytes(b"Content") };
    assert_eq!(store.read(&key, 0, 7).await, Err(damaged));
    assert_eq!(store.path(&key).await, Err(BlobStoreError::NotFound(key.hash)));
    store_bytes(&store, b"content", None, BlobKind::Permanent).await.unwrap();
    assert_eq!(store.read(&key, 0, 7).await.unwrap(), "content");
}

#[tokio::test]
async fn a_truncated_file_is_seen_after_it_was_verified() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let key = store_bytes(&store, b"content", JOB, BlobKind::Permanent).await.unwrap();
    fs::write(store.path(&key).await.unwrap().unwrap(), b"con").unwrap();
    assert!(matches!(store.read(&key, 0, 3).await, Err(BlobStoreError::WrongHash { .. })));
}

#[tokio::test]
async fn a_file_is_taken_in_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path().join("blobs")).unwrap();
    let source = dir.path().join("program");
    let bytes: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(&source, &bytes).unwrap();
    let key = store_file(&store, &source, None, BlobKind::Permanent).await.unwrap();
    assert_eq!((key.hash, key.size), platform::content::hash_file(&source).await.unwrap());
    assert_eq!(store_file(&store, &source, None, BlobKind::Permanent).await, Ok(key));
    assert_eq!(fs::read(store.path(&key).await.unwrap().unwrap()).unwrap(), bytes);
    let missing = store_file(&store, &dir.path().join("none"), None, BlobKind::Permanent).await;
    assert!(matches!(missing, Err(BlobStoreError::Store(StoreError::NotFound { .. }))));
}

#[tokio::test]
async fn a_full_disk_is_typed() {
    let store = MemoryBlobs::new();
    let full = StoreError::DiskFull { path: "/blobs".into() };
    store.fail_writes(Some(full.clone()));
    assert_eq!(store.begin().await.err(), Some(full.clone().into()));
    store.fail_writes(None);
    let writer = store.begin().await.unwrap();
    store.fail_writes(Some(full.clone()));
    assert_eq!(writer.append("x".into()).await.err(), Some(full.into()));
}

#[tokio::test]
async fn a_file_that_hangs_holds_up_only_the_calls_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let other = store_bytes(&store, b"other", None, BlobKind::Permanent).await.unwrap();
    let hung = store_bytes(&store, b"hung", None, BlobKind::Permanent).await.unwrap();
    let path = store.path(&hung).await.unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    // Opening a FIFO to read it waits until a writer opens it.
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut waits = Box::pin(store.path(&hung));
    let short = Duration::from_millis(50);
    assert!(tokio::time::timeout(short, &mut waits).await.is_err(), "it hangs");
    assert_eq!(store.read(&other, 0, 9).await.unwrap(), "other");
    assert_eq!(store.find(None, hung.hash).await.unwrap().map(|key| key.hash), Some(hung.hash));
    let writer = store.begin().await.unwrap();
    writer.append("more".into()).await.unwrap();
    fs::write(&path, b"hanged").unwrap();
    let actual = hash_bytes(b"hanged");
    assert_eq!(waits.await, Err(BlobStoreError::WrongHash { expected: hung.hash, actual }));
    assert_eq!(store.find(None, hung.hash).await, Ok(None), "it goes on");
}

#[tokio::test]
async fn uploads_and_removals_at_the_same_time_leave_a_whole_blob_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    for _ in 0..20 {
        let uploads = (0..4).map(|_| store_bytes(&store, b"same", JOB, BlobKind::Permanent));
        let key = store_bytes(&store, b"same", JOB, BlobKind::Permanent).await.unwrap();
        let (uploaded, removed, of_job) = tokio::join!(
            futures::future::join_all(uploads),
            store.remove(&key),
            store.remove_job(JobId(7)),
        );
        assert!(uploaded.iter().all(|done| *done == Ok(key)), "{uploaded:?}");
        assert!(removed.is_ok() && of_job.is_ok(), "{removed:?} {of_job:?}");
        match store.find(JOB, key.hash).await.unwrap() {
            Some(found) => assert_eq!(store.read(&found, 0, 9).await.unwrap(), "same"),
            None => assert_eq!(store.keys().await.unwrap(), []),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// Whatever is stored and removed, exactly what has a user left is there, with its own content.
    #[test]
    fn what_has_a_user_left_is_there(ops in proptest::collection::vec((0..3u128, 0..3u8, any::<bool>(), 0..3u8), 0..12)) {
        let dir = tempfile::tempdir().unwrap();
        let file = FileBlobs::open(dir.path()).unwrap();
        let memory = MemoryBlobs::new();
        wait(async {
            for store in [&file as &dyn BlobStore, &memory] {
                let mut model = BTreeMap::new();
                for (job, content, permanent, action) in &ops {
                    let job_id = (*job > 0).then_some(JobId(*job));
                    let kind = if *permanent { BlobKind::Permanent } else { BlobKind::Transient };
                    let bytes = vec![*content; 10];
                    let key = BlobKey { job: job_id, hash: hash_bytes(&bytes), kind, size: 10 };
                    match (action, job_id) {
                        (0, _) => {
                            prop_assert_eq!(store_bytes(store, &bytes, job_id, kind).await, Ok(key));
                            model.insert(key, bytes);
                        }
                        (1, Some(job)) => {
                            store.remove_job(job).await.unwrap();
                            model.retain(|k: &BlobKey, _| k.job != Some(job));
                        }
                        _ => prop_assert_eq!(store.remove(&key).await, Ok(model.remove(&key).is_some())),
                    }
                }
                let keys: Vec<BlobKey> = model.keys().copied().collect();
                prop_assert_eq!(store.keys().await.unwrap(), keys);
                for (key, bytes) in &model {
                    prop_assert_eq!(store.read(key, 0, 100).await.unwrap().to_vec(), bytes.clone());
                    let users = model.keys().filter(|k| k.hash == key.hash).count() as u64;
                    prop_assert_eq!(store.references(key).await, Ok(users));
                }
            }
            Ok(())
        })?;
    }
}
