//! Both implementations against one contract, then what only files can suffer.

use super::*;
use proptest::prelude::*;
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

const JOB: Option<JobId> = Some(JobId(7));
const OTHER: Option<JobId> = Some(JobId(8));

fn both(check: impl Fn(&dyn BlobStore)) {
    check(&MemoryBlobs::new());
    let dir = tempfile::tempdir().unwrap();
    check(&FileBlobs::open(dir.path().join("blobs")).unwrap());
}

#[test]
fn a_blob_is_found_and_read_in_parts() {
    both(|store| {
        let key = store_bytes(store, b"hello world", JOB, BlobKind::Permanent).unwrap();
        assert_eq!(key.size, 11);
        assert_eq!(store.find(JOB, key.hash), Some(key));
        assert_eq!(store.find(OTHER, key.hash), None);
        assert_eq!(store.read(&key, 0, 5).unwrap(), "hello");
        assert_eq!(store.read(&key, 6, 100).unwrap(), "world");
        assert_eq!(store.read(&key, 11, 5).unwrap(), "");
        assert_eq!(store.read(&key, u64::MAX, 5).unwrap(), "");
        assert_eq!(store.keys().unwrap(), [key]);
    });
}

#[test]
fn wrong_content_is_refused_and_leaves_nothing() {
    both(|store| {
        let mut writer = store.begin().unwrap();
        writer.append(b"abc").unwrap();
        let expected = hash_bytes(b"abd");
        let actual = hash_bytes(b"abc");
        let finished = writer.finish(JOB, BlobKind::Permanent, expected);
        assert_eq!(finished, Err(BlobStoreError::WrongHash { expected, actual }));
        assert_eq!(store.keys().unwrap(), []);
    });
}

#[test]
fn one_content_of_two_jobs_goes_with_the_last() {
    both(|store| {
        let a = store_bytes(store, b"program", JOB, BlobKind::Permanent).unwrap();
        let b = store_bytes(store, b"program", OTHER, BlobKind::Permanent).unwrap();
        let again = store_bytes(store, b"program", OTHER, BlobKind::Permanent).unwrap();
        assert_eq!(b, again);
        assert_eq!(store.references(&a), Ok(2));
        store.remove_job(JobId(7)).unwrap();
        assert_eq!(store.find(JOB, a.hash), None);
        assert_eq!(store.references(&b), Ok(1));
        assert_eq!(store.read(&b, 0, 100).unwrap(), "program");
        assert_eq!(store.remove(&b), Ok(true));
        assert_eq!(store.remove(&b), Ok(false));
        assert_eq!(store.read(&b, 0, 1), Err(BlobStoreError::NotFound(b.hash)));
        assert_eq!(store.keys().unwrap(), []);
        store.remove_job(JobId(7)).unwrap();
    });
}

#[test]
fn the_permanent_blob_is_found_before_the_transient_one() {
    both(|store| {
        let transient = store_bytes(store, b"x", None, BlobKind::Transient).unwrap();
        assert_eq!(store.find(None, transient.hash), Some(transient));
        let permanent = store_bytes(store, b"x", None, BlobKind::Permanent).unwrap();
        assert_eq!(store.find(None, transient.hash), Some(permanent));
        assert_eq!(store.keys().unwrap(), [permanent, transient]);
    });
}

#[test]
fn files_are_shared_executable_and_exact() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let script = b"#!/bin/sh\nexit 7\n";
    let a = store_bytes(&store, script, JOB, BlobKind::Permanent).unwrap();
    let b = store_bytes(&store, script, None, BlobKind::Transient).unwrap();
    let path = store.path(&a).unwrap().unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o700);
    let same = fs::metadata(store.path(&b).unwrap().unwrap()).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&same),
        std::os::unix::fs::MetadataExt::ino(&meta)
    );
    let status = std::process::Command::new(&path).status().unwrap();
    assert_eq!(status.code(), Some(7));
}

#[test]
fn blobs_survive_the_store_and_half_written_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let key = store_bytes(&store, b"kept", JOB, BlobKind::Permanent).unwrap();
    let mut writer = store.begin().unwrap();
    writer.append(b"half").unwrap();
    let entries = || fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(entries(), 2);
    drop(writer);
    assert_eq!(entries(), 1);
    let again = FileBlobs::open(dir.path()).unwrap();
    assert_eq!(again.keys().unwrap(), [key]);
    assert_eq!(again.read(&key, 0, 9).unwrap(), "kept");
}

#[test]
fn damaged_content_is_never_given_out_and_can_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let writer = FileBlobs::open(dir.path()).unwrap();
    let key = store_bytes(&writer, b"content", JOB, BlobKind::Permanent).unwrap();
    let path = writer.path(&key).unwrap().unwrap();
    for damaged in [&b"Content"[..], b"conten", b"contents", b""] {
        fs::write(&path, damaged).unwrap();
        let store = FileBlobs::open(dir.path()).unwrap();
        let read = store.read(&key, 0, 3);
        assert!(
            matches!(read, Err(BlobStoreError::WrongHash { expected, .. }) if expected == key.hash),
            "{read:?}"
        );
        assert_eq!(store.find(JOB, key.hash), None);
        store_bytes(&store, b"content", JOB, BlobKind::Permanent).unwrap();
        assert_eq!(store.read(&key, 0, 3).unwrap(), "con");
    }
}

#[test]
fn content_that_is_damaged_after_it_was_verified_is_seen_and_put_right_by_the_next_upload() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let key = store_bytes(&store, b"content", None, BlobKind::Permanent).unwrap();
    let path = store.path(&key).unwrap().unwrap();
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, b"Content").unwrap();
    // As a clock would have it that has gone on by then.
    let later = before + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    let damaged = BlobStoreError::WrongHash { expected: key.hash, actual: hash_bytes(b"Content") };
    assert_eq!(store.read(&key, 0, 7), Err(damaged));
    assert_eq!(store.path(&key), Err(BlobStoreError::NotFound(key.hash)));
    store_bytes(&store, b"content", None, BlobKind::Permanent).unwrap();
    assert_eq!(store.read(&key, 0, 7).unwrap(), "content");
}

#[test]
fn a_truncated_file_is_seen_after_it_was_verified() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path()).unwrap();
    let key = store_bytes(&store, b"content", JOB, BlobKind::Permanent).unwrap();
    fs::write(store.path(&key).unwrap().unwrap(), b"con").unwrap();
    assert!(matches!(store.read(&key, 0, 3), Err(BlobStoreError::WrongHash { .. })));
}

#[test]
fn a_file_is_taken_in_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileBlobs::open(dir.path().join("blobs")).unwrap();
    let source = dir.path().join("program");
    let bytes: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(&source, &bytes).unwrap();
    let key = store_file(&store, &source, None, BlobKind::Permanent).unwrap();
    assert_eq!((key.hash, key.size), hash_file(&source).unwrap());
    assert_eq!(store_file(&store, &source, None, BlobKind::Permanent), Ok(key));
    assert_eq!(fs::read(store.path(&key).unwrap().unwrap()).unwrap(), bytes);
    let missing = store_file(&store, &dir.path().join("none"), None, BlobKind::Permanent);
    assert!(matches!(missing, Err(BlobStoreError::Store(StoreError::NotFound { .. }))));
}

#[test]
fn a_full_disk_is_typed() {
    let store = MemoryBlobs::new();
    let full = StoreError::DiskFull { path: "/blobs".into() };
    store.fail_writes(Some(full.clone()));
    assert_eq!(store.begin().err(), Some(full.clone().into()));
    store.fail_writes(None);
    let mut writer = store.begin().unwrap();
    store.fail_writes(Some(full.clone()));
    assert_eq!(writer.append(b"x"), Err(full.into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// Whatever is stored and removed, exactly what has a user left is there, with its own content.
    #[test]
    fn what_has_a_user_left_is_there(ops in proptest::collection::vec((0..3u128, 0..3u8, any::<bool>(), 0..3u8), 0..12)) {
        let dir = tempfile::tempdir().unwrap();
        let file = FileBlobs::open(dir.path()).unwrap();
        let memory = MemoryBlobs::new();
        for store in [&file as &dyn BlobStore, &memory] {
            let mut model = BTreeMap::new();
            for (job, content, permanent, action) in &ops {
                let job_id = (*job > 0).then_some(JobId(*job));
                let kind = if *permanent { BlobKind::Permanent } else { BlobKind::Transient };
                let bytes = vec![*content; 10];
                let key = BlobKey { job: job_id, hash: hash_bytes(&bytes), kind, size: 10 };
                match (action, job_id) {
                    (0, _) => {
                        prop_assert_eq!(store_bytes(store, &bytes, job_id, kind), Ok(key));
                        model.insert(key, bytes);
                    }
                    (1, Some(job)) => {
                        store.remove_job(job).unwrap();
                        model.retain(|k: &BlobKey, _| k.job != Some(job));
                    }
                    _ => prop_assert_eq!(store.remove(&key), Ok(model.remove(&key).is_some())),
                }
            }
            let keys: Vec<BlobKey> = model.keys().copied().collect();
            prop_assert_eq!(store.keys().unwrap(), keys);
            for (key, bytes) in &model {
                prop_assert_eq!(store.read(key, 0, 100).unwrap().to_vec(), bytes.clone());
                let users = model.keys().filter(|k| k.hash == key.hash).count() as u64;
                prop_assert_eq!(store.references(key), Ok(users));
            }
        }
    }
}
