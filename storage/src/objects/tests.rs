//! Both implementations against one contract, then what only files can suffer.

use super::*;
use crate::testing::{Blocking, wait};
use proptest::prelude::*;
use std::{collections::BTreeMap, fs};

/// Names and modes of everything below a folder, itself included.
fn modes(folder: &std::path::Path) -> Vec<(std::path::PathBuf, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    // The file of a stream that is given up vanishes while it is looked at.
    let Ok(meta) = fs::metadata(folder) else { return Vec::new() };
    let mut found = vec![(folder.to_owned(), meta.permissions().mode() & 0o777)];
    if meta.is_dir() {
        for entry in fs::read_dir(folder).unwrap() {
            found.extend(modes(&entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn what_a_store_makes_is_for_its_user_alone_and_what_was_there_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = Blocking::new(FileObjects::open(dir.path().join("ha/default")).unwrap());
    assert_eq!(store.put_new("jobs/graphs/1", "graph".into()), Ok(PutNew::Created));
    store.put("leader/beat-1", "1".into()).unwrap();
    store.put("leader/beat-1", "2".into()).unwrap();
    let blobs = crate::blobs::FileBlobs::open(dir.path().join("blobs/of")).unwrap();
    let permanent = model::BlobKind::Permanent;
    wait(crate::blobs::store_bytes(&blobs, b"program", None, permanent)).unwrap();
    let found = modes(dir.path());
    assert_eq!(found[0].1, 0o755, "somebody else made it");
    assert_eq!(found.len(), 12, "{found:?}");
    for (path, mode) in &found[1..] {
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
    let graph = dir.path().join("ha/default/jobs/graphs/1");
    assert_eq!(fs::metadata(graph).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn memory_and_files_keep_the_contract() {
    use crate::testing::contract;
    contract::check(async || Arc::new(MemoryObjects::new()) as _).await;
    contract::folders_are_no_objects(Arc::new(MemoryObjects::new())).await;
    let dir = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    let file = async || {
        count.set(count.get() + 1);
        let folder = dir.path().join(format!("a/{}", count.get()));
        Arc::new(FileObjects::open(folder).unwrap()) as _
    };
    contract::check(file).await;
    contract::folders_are_no_objects(file().await).await;
}

#[tokio::test]
async fn a_named_pipe_in_place_of_an_object_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("_metadata")).status();
    assert!(made.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let store = FileObjects::open(dir.path()).unwrap();
    for name in ["_metadata", "socket"] {
        let error = store.get(name).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_is_given_up_leaves_neither_file_nor_folder() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileObjects::open(dir.path()).unwrap();
    let mut stream = store.begin("jobs/1").unwrap();
    stream.write("one".into()).await.unwrap();
    let folder = dir.path().join("jobs");
    assert_eq!(modes(&folder).len() - 1, 1);
    drop(stream);
    // The file is removed by another thread.
    while folder.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert!(dir.path().exists());
}

#[tokio::test]
async fn a_stream_whose_folder_is_gone_names_the_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileObjects::open(dir.path().join("store")).unwrap();
    let mut stream = store.begin("jobs/1").unwrap();
    stream.write("one".into()).await.unwrap();
    fs::remove_dir_all(dir.path().join("store")).unwrap();
    let error = stream.finish().await.unwrap_err();
    assert!(error.to_string().contains("store/jobs/1"), "{error}");
    // Going on would store an object that lacks its beginning.
    let error = stream.write("two".into()).await.unwrap_err();
    assert!(error.to_string().contains("a write before this one failed"), "{error}");
    assert_eq!(store.get("jobs/1").await, Ok(None));
}

/// A store that replaces an object where it is told to create it, as servers do that do not know `If-None-Match`.
#[derive(Debug, Default)]
struct Replacing(MemoryObjects);

impl ObjectStore for Replacing {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        self.0.get(name)
    }
    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
        let put = self.0.put(name, bytes);
        Box::pin(async move { put.await.map(|()| PutNew::Created) })
    }
    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
        self.0.put(name, bytes)
    }
    fn delete(&self, name: &str) -> StoreFuture<bool> {
        self.0.delete(name)
    }
    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
        self.0.list(prefix)
    }
    fn location(&self) -> String {
        "s3://bucket".to_owned()
    }
}

#[tokio::test]
async fn a_store_that_replaces_what_it_is_to_create_is_found_out_and_nothing_is_left_behind() {
    let good = MemoryObjects::new();
    assert_eq!(probe(&good, "probe/1").await, Ok(()));
    assert_eq!(probe(&good, "probe/1").await, Ok(()), "it was deleted");
    let bad = Replacing::default();
    let refused = probe(&bad, "probe/1").await;
    assert_eq!(refused, Err(StoreError::Unconditional { path: "s3://bucket".to_owned() }));
    assert_eq!(bad.list("").await, Ok(Vec::new()));
    let full = FaultyObjects::new(Arc::new(MemoryObjects::new()));
    let disk_full = StoreError::DiskFull { path: "s3://bucket".to_owned() };
    full.set_writes(Fault::Fail(disk_full.clone()));
    assert_eq!(probe(&full, "probe/1").await, Err(disk_full));
}

#[test]
fn a_remote_uri_is_taken_apart_and_a_missing_feature_is_named() {
    let open = |uri: &str| {
        let opened = open(uri, &Platform::production(), &S3Settings::default());
        opened.map(|store| store.location()).map_err(|error| error.to_string())
    };
    for (uri, feature, built) in [
        ("s3://bucket/a/b/", "s3", cfg!(feature = "s3")),
        ("hdfs://127.0.0.1:9/a/b/", "hdfs", cfg!(feature = "hdfs")),
    ] {
        match open(uri) {
            Ok(location) => assert!(built && location == uri.trim_end_matches('/'), "{location}"),
            Err(text) => {
                assert!(!built && text.contains(&format!("--features {feature}")), "{text}")
            }
        }
    }
    for wrong in ["s3:bucket", "s3:///a", "hdfs://nn", "hdfs://nn/", "hdfs:/a"] {
        let text = open(wrong).unwrap_err();
        assert!(text.contains(&format!("'{wrong}'")), "{text}");
    }
    assert_eq!(below("s3://b/x/", "c"), "s3://b/x/c");
    assert!(
        is_remote("s3://b/x") && is_remote("hdfs:x") && !is_remote("/a") && !is_remote("file:/a")
    );
    let secret = S3Settings { secret_key: Some("hush".into()), ..S3Settings::default() };
    assert!(!format!("{secret:?}").contains("hush"));
}

#[test]
fn one_of_many_creators_wins() {
    let dir = tempfile::tempdir().unwrap();
    let wins: usize = std::thread::scope(|scope| {
        let creators: Vec<_> = (0..8u8)
            .map(|n| {
                let store = Blocking::new(FileObjects::open(dir.path()).unwrap());
                scope.spawn(move || {
                    (0..20)
                        .filter(|i| {
                            let put =
                                store.put_new(&format!("epoch/{i}"), Bytes::from(vec![n; 100]));
                            put.unwrap() == PutNew::Created
                        })
                        .count()
                })
            })
            .collect();
        creators.into_iter().map(|c| c.join().unwrap()).sum()
    });
    assert_eq!(wins, 20);
    let store = Blocking::new(FileObjects::open(dir.path()).unwrap());
    for i in 0..20 {
        let bytes = store.get(&format!("epoch/{i}")).unwrap().unwrap();
        assert!(bytes.len() == 100 && bytes.iter().all(|b| *b == bytes[0]));
    }
    let left = fs::read_dir(dir.path().join("epoch")).unwrap().count();
    assert_eq!(left, 20, "temporary files were left behind");
}

#[test]
fn objects_survive_the_store_that_wrote_them() {
    let dir = tempfile::tempdir().unwrap();
    let _ = Blocking::new(FileObjects::open(dir.path()).unwrap()).put_new("a", "x".into()).unwrap();
    let open = |uri: &str| open(uri, &Platform::production(), &S3Settings::default()).unwrap();
    assert_eq!(wait(open(dir.path().to_str().unwrap()).get("a")), Ok(Some("x".into())));
    let uri = format!("file://{}", dir.path().display());
    assert_eq!(wait(open(&uri).get("a")), Ok(Some("x".into())));
}

#[test]
fn every_damage_to_a_file_is_seen_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = Blocking::new(FileObjects::open(dir.path()).unwrap());
    store.put("graph", Bytes::from(vec![7; 64])).unwrap();
    let path = dir.path().join("graph");
    let whole = fs::read(&path).unwrap();
    let corrupt = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        match store.get("graph") {
            Err(StoreError::Corrupt { path: named, .. }) => {
                assert_eq!(named, path.display().to_string())
            }
            other => panic!("{other:?}"),
        }
    };
    for length in 0..whole.len() {
        corrupt(&whole[..length]);
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        corrupt(&damaged);
    }
    corrupt(&[whole.as_slice(), b"x"].concat());
    fs::write(&path, &whole).unwrap();
    assert_eq!(store.get("graph"), Ok(Some(Bytes::from(vec![7; 64]))));
}

#[test]
fn an_unwritten_temporary_file_is_no_object() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".tmp-1-1"), "half").unwrap();
    let store = Blocking::new(FileObjects::open(dir.path()).unwrap());
    assert_eq!(store.list(""), Ok(vec![]));
    assert!(dir.path().join(".tmp-1-1").exists(), "a young one may be in use");
    let old = fs::File::options().write(true).open(dir.path().join(".tmp-1-1")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(store.list(""), Ok(vec![]));
    assert!(!dir.path().join(".tmp-1-1").exists());
}

#[test]
fn a_users_files_below_a_store_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let aged = |name: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "a user's").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        path
    };
    let files = [".tmp-draft.txt", "sub/.tmp-draft.txt", "sub/.tmp-1-x", "sub/.tmp-7-7"].map(aged);
    let store = Blocking::new(FileObjects::open(dir.path()).unwrap());
    // A folder that nothing of the store is in, and whose like may have any number of files, is not even looked at.
    assert_eq!(store.list("job/"), Ok(vec![]));
    assert!(files.iter().all(|file| file.exists()));
    assert_eq!(store.list("sub/"), Ok(vec![]));
    assert!(files[..3].iter().all(|file| file.exists()), "not the store's names");
    assert!(!files[3].exists());
}

#[test]
fn a_folder_goes_with_its_last_object_and_comes_back_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let store = Blocking::new(FileObjects::open(dir.path()).unwrap());
    store.put("jobs/1/0", "x".into()).unwrap();
    store.put("jobs/1/1", "x".into()).unwrap();
    store.delete("jobs/1/0").unwrap();
    assert!(dir.path().join("jobs/1").is_dir());
    store.delete("jobs/1/1").unwrap();
    assert!(!dir.path().join("jobs").exists());
    assert!(dir.path().is_dir());
    let (one, other) = (store.clone(), store);
    std::thread::scope(|scope| {
        for store in [one, other] {
            scope.spawn(move || {
                for n in 0..200 {
                    let name = format!("jobs/{}/{:?}", n % 3, std::thread::current().id());
                    let name = name.replace(['(', ')'], "-");
                    store.put(&name, "x".into()).unwrap();
                    assert_eq!(store.delete(&name), Ok(true));
                }
            });
        }
    });
    assert!(!dir.path().join("jobs").exists());
}

#[test]
fn system_errors_are_typed() {
    let at = |kind: io::ErrorKind| StoreError::from_io(Path::new("/x"), &kind.into());
    assert_eq!(at(io::ErrorKind::StorageFull), StoreError::DiskFull { path: "/x".into() });
    assert_eq!(at(io::ErrorKind::NotFound), StoreError::NotFound { path: "/x".into() });
    assert!(matches!(at(io::ErrorKind::PermissionDenied), StoreError::Permission { .. }));
    assert!(matches!(at(io::ErrorKind::TimedOut), StoreError::Io { .. }));
    // The device that is always full gives the system's own error.
    let full = fs::write("/dev/full", "x").unwrap_err();
    assert!(matches!(
        StoreError::from_io(Path::new("/dev/full"), &full),
        StoreError::DiskFull { .. }
    ));
}

#[test]
fn a_folder_that_takes_no_writes_is_refused_when_it_is_opened() {
    // Not even the superuser makes folders in sysfs.
    let opened = FileObjects::open("/sys/flott-objects");
    assert!(matches!(opened, Err(StoreError::Permission { .. })), "{opened:?}");
}

#[test]
fn uris_name_directories_and_other_schemes_are_refused_by_name() {
    let path = |uri: &str| local_path(uri).map(|p| p.display().to_string());
    assert_eq!(path("/a/b"), Ok("/a/b".into()));
    assert_eq!(
        path("a:b/c"),
        Err(StoreError::UnknownUri {
            uri: "a:b/c".into(),
            why: "no file system has the scheme 'a'".into()
        })
    );
    assert_eq!(path("file:///a/b%20c"), Ok("/a/b c".into()));
    assert_eq!(path("file://localhost/a"), Ok("/a".into()));
    assert_eq!(path("FILE:/a"), Ok("/a".into()));
    let message = path("hdfs://nn/flott").unwrap_err().to_string();
    assert!(message.contains("'hdfs'") && message.contains("file:///directory"), "{message}");
    for wrong in ["", "file://", "file://other/a", "file:///%zz", "file:///a%00b"] {
        assert!(path(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_store_fails_like_a_disk_when_told() {
    let faulty = FaultyObjects::new(Arc::new(MemoryObjects::new()));
    let store = Blocking::new(faulty.clone());
    let full = StoreError::DiskFull { path: "memory".into() };
    store.put("a", "x".into()).unwrap();
    faulty.set_writes(Fault::Fail(full.clone()));
    assert_eq!(store.put_new("b", "x".into()), Err(full.clone()));
    assert_eq!(store.put("a", "y".into()), Err(full));
    assert_eq!(store.get("a"), Ok(Some("x".into())));
    faulty.set_writes(Fault::None);
    assert_eq!(store.put_new("b", "x".into()), Ok(PutNew::Created));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_takes_effect_when_the_store_goes_on() {
    let memory = MemoryObjects::new();
    let faulty = FaultyObjects::new(Arc::new(memory.clone()));
    faulty.set(Fault::Hang);
    let mut put = faulty.put_new("a", "x".into());
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), &mut put).await;
    assert!(waited.is_err());
    assert_eq!(memory.get("a").await, Ok(None));
    faulty.set(Fault::None);
    assert_eq!(put.await, Ok(PutNew::Created));
    assert_eq!(memory.get("a").await, Ok(Some("x".into())));
}

/// A FIFO stands for a file system that does not answer: opening it to read waits until a writer opens it. The store itself refuses
/// one before it opens it, so the calls are made as the store makes them.
#[tokio::test]
async fn calls_that_hang_hold_up_their_own_kind_and_not_the_thread() {
    let dir = tempfile::tempdir().unwrap();
    let calls = crate::disk::DiskCalls::new(dir.path());
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let hung = (0..3).map(|_| {
        let pipe = pipe.clone();
        calls.run(move || {
            fs::File::open(&pipe).map(drop).map_err(|e| StoreError::from_io(&pipe, &e))
        })
    });
    let mut hung = std::pin::pin!(futures::future::join_all(hung));
    let good = futures::future::select(&mut hung, calls.run(|| Ok::<_, StoreError>("x"))).await;
    let futures::future::Either::Right((Ok("x"), _)) = good else {
        panic!("the calls that hang were answered, or held up the one that does not");
    };
    // Every reader goes on once a writer has opened the FIFO.
    let opened = loop {
        drop(fs::File::options().read(true).write(true).open(&pipe).unwrap());
        match futures::future::select(&mut hung, std::pin::pin!(tokio::task::yield_now())).await {
            futures::future::Either::Left((opened, _)) => break opened,
            futures::future::Either::Right(_) => {}
        }
    };
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
}

#[derive(Debug, Clone)]
enum Op {
    New(u8, Vec<u8>),
    Put(u8, Vec<u8>),
    Delete(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        (0..5u8, bytes.clone()).prop_map(|(n, b)| Op::New(n, b)),
        (0..5u8, bytes).prop_map(|(n, b)| Op::Put(n, b)),
        (0..5u8).prop_map(Op::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    /// Files and memory are one contract: any history leaves both equal to a plain map.
    #[test]
    fn any_history_leaves_both_stores_like_a_map(ops in proptest::collection::vec(op(), 0..12)) {
        let dir = tempfile::tempdir().unwrap();
        let file = Blocking::new(FileObjects::open(dir.path()).unwrap());
        let memory = Blocking::new(MemoryObjects::new());
        let mut map = BTreeMap::<String, Vec<u8>>::new();
        for op in ops {
            match op {
                Op::New(n, bytes) => {
                    let name = format!("d{}/o{n}", n % 2);
                    let expected = if map.contains_key(&name) { PutNew::Exists } else { PutNew::Created };
                    prop_assert_eq!(file.put_new(&name, bytes.clone().into()), Ok(expected));
                    prop_assert_eq!(memory.put_new(&name, bytes.clone().into()), Ok(expected));
                    map.entry(name).or_insert(bytes);
                }
                Op::Put(n, bytes) => {
                    let name = format!("d{}/o{n}", n % 2);
                    prop_assert_eq!(file.put(&name, bytes.clone().into()), Ok(()));
                    prop_assert_eq!(memory.put(&name, bytes.clone().into()), Ok(()));
                    map.insert(name, bytes);
                }
                Op::Delete(n) => {
                    let name = format!("d{}/o{n}", n % 2);
                    let was = map.remove(&name).is_some();
                    prop_assert_eq!(file.delete(&name), Ok(was));
                    prop_assert_eq!(memory.delete(&name), Ok(was));
                }
            }
        }
        let names: Vec<String> = map.keys().cloned().collect();
        for store in [&file, &memory] {
            prop_assert_eq!(store.list("").unwrap(), names.clone());
            for (name, bytes) in &map {
                prop_assert_eq!(store.get(name).unwrap().unwrap().to_vec(), bytes.clone());
            }
        }
    }
}
