//! The BlobServer through its gateway, and the cache in front of it.

mod hanging;

use super::*;
use crate::testing::session;
use crate::testkit::{Script, World};
use gateways::blob_server::{
    BlobError, CHUNK_BYTES_MAX, CloseUpload, DeleteJobBlobs, HasBlob, OpenUpload, ReadBlob,
    UploadChunk, UploadId,
};
use gateways::{CallError, FabricError, Remote};
use model::{BlobKind, ContentHash, JobId};
use storage::blobs::{BlobStoreError, FileBlobs, MemoryBlobs, hash_bytes, store_bytes};
use storage::objects::StoreError;

const JOB: JobId = JobId(5);
const CLEANUP: Duration = Duration::from_secs(300);

struct Server {
    world: World,
    store: MemoryBlobs,
    handle: BlobServerHandle,
    remote: Remote<BlobServerGateway>,
}

async fn server() -> Server {
    let store = MemoryBlobs::new();
    server_of(store.clone(), Arc::new(store)).await
}

/// Starts a server on `outer`, a wrapper around `store`.
async fn server_of(store: MemoryBlobs, outer: Arc<dyn BlobStore>) -> Server {
    let world = World::new(&[("blob.cleanup-interval", "300 s")]).await;
    let handle = start(&world.services, outer).await.unwrap();
    let remote = world.services.rpc.gateway(&handle.address, handle.session);
    Server { world, store, handle, remote }
}

impl Server {
    fn client(&self) -> BlobClient {
        BlobClient::new(self.remote.clone())
    }
    async fn open(&self) -> UploadId {
        let open = OpenUpload { job: Some(JOB), kind: BlobKind::Permanent };
        self.remote.ask(open).await.unwrap()
    }
    async fn chunk(&self, upload: UploadId, offset: u64, bytes: &[u8]) -> Result<(), BlobError> {
        let chunk = UploadChunk { upload, offset, bytes: bytes.to_vec() };
        self.remote.ask(chunk).await.map_err(|e| e.refused().unwrap())
    }
    async fn close(&self, upload: UploadId, hash: ContentHash) -> Result<BlobKey, BlobError> {
        self.remote.ask(CloseUpload { upload, hash }).await.map_err(|e| e.refused().unwrap())
    }
    async fn has(&self, hash: ContentHash) -> Option<BlobKey> {
        self.remote.ask(HasBlob { job: Some(JOB), hash }).await.unwrap()
    }
}

async fn secs(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn chunks_become_a_blob_that_is_read_in_parts() {
    let s = server().await;
    let upload = s.open().await;
    s.chunk(upload, 0, b"hello ").await.unwrap();
    s.chunk(upload, 6, b"world").await.unwrap();
    let hash = hash_bytes(b"hello world");
    assert_eq!(s.has(hash).await, None, "not before it is checked");
    let key = s.close(upload, hash).await.unwrap();
    assert_eq!(s.has(hash).await, Some(key));
    let read = |offset, max| s.remote.ask(ReadBlob { key, offset, max });
    assert_eq!(read(0, 5).await.unwrap().as_ref(), b"hello");
    assert_eq!(read(6, 99).await.unwrap().as_ref(), b"world");
    assert_eq!(read(99, 1).await.unwrap().as_ref(), b"");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn chunks_out_of_order_and_wrong_content_are_refused() {
    let s = server().await;
    let upload = s.open().await;
    s.chunk(upload, 0, b"abc").await.unwrap();
    assert_eq!(s.chunk(upload, 0, b"abc").await, Ok(()), "its answer was lost");
    assert_eq!(s.chunk(upload, 9, b"x").await, Err(BlobError::BadChunk));
    assert_eq!(s.chunk(UploadId(0), 3, b"x").await, Err(BlobError::BadChunk));
    let too_long = vec![0; CHUNK_BYTES_MAX + 1];
    assert_eq!(s.chunk(upload, 3, &too_long).await, Err(BlobError::BadChunk));
    let (expected, actual) = (hash_bytes(b"abd"), hash_bytes(b"abc"));
    assert_eq!(s.close(upload, expected).await, Err(BlobError::WrongHash { expected, actual }));
    assert_eq!(s.close(upload, actual).await, Err(BlobError::BadChunk), "it is gone");
    assert_eq!(s.store.keys().await.unwrap(), []);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_abandoned_upload_is_dropped_and_their_number_is_bounded() {
    let s = server().await;
    let first = s.open().await;
    for _ in 1..64 {
        s.open().await;
    }
    let open = OpenUpload { job: None, kind: BlobKind::Permanent };
    let refused = s.remote.ask(open.clone()).await;
    assert_eq!(refused, Err(CallError::Refused(BlobError::Busy)));
    secs(40).await;
    s.chunk(first, 0, b"x").await.unwrap();
    secs(30).await;
    s.remote.ask(open).await.unwrap();
    s.chunk(first, 1, b"y").await.unwrap();
    secs(70).await;
    assert_eq!(s.chunk(first, 2, b"z").await, Err(BlobError::BadChunk));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn transient_blobs_go_in_time_and_soon_after_they_were_read() {
    let s = server().await;
    let client = s.client();
    let put = |text: &'static [u8], kind| client.upload_bytes(text, Some(JOB), kind);
    let kept = put(b"kept", BlobKind::Permanent).await.unwrap();
    let unread = put(b"unread", BlobKind::Transient).await.unwrap();
    let read = put(b"read", BlobKind::Transient).await.unwrap();
    client.fetch(&read, &MemoryBlobs::new()).await.unwrap();
    client.fetch(&kept, &MemoryBlobs::new()).await.unwrap();
    secs(30).await;
    assert!(s.store.keys().await.unwrap().contains(&read), "its last answer may have been lost");
    secs(60).await;
    let left = s.store.keys().await.unwrap();
    assert!(left.len() == 2 && left.contains(&kept) && left.contains(&unread), "{left:?}");
    secs(CLEANUP.as_secs()).await;
    assert_eq!(s.store.keys().await.unwrap(), [kept]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn transient_blobs_of_an_earlier_process_are_found_and_go() {
    let s = server().await;
    store_bytes(&s.store, b"left", Some(JOB), BlobKind::Transient).await.unwrap();
    secs(CLEANUP.as_secs() + 60).await;
    assert_eq!(s.store.keys().await.unwrap(), []);
}

/// The needs that a Dispatcher with these programs declares.
fn programs(hashes: &[ContentHash]) -> Option<Needed> {
    let programs = hashes.iter().map(|hash| (JOB, *hash)).collect();
    Some(Needed { programs, jobs: [JOB].into() })
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_goes_in_time_once_no_job_needs_it_and_never_before() {
    let s = server().await;
    let client = s.client();
    let put = |text: &'static [u8], job| client.upload_bytes(text, job, BlobKind::Permanent);
    let used = put(b"used", None).await.unwrap();
    let unused = put(b"unused", None).await.unwrap();
    let own = put(b"own", Some(JOB)).await.unwrap();
    let foreign = put(b"foreign", Some(JobId(6))).await.unwrap();
    secs(2 * CLEANUP.as_secs()).await;
    assert_eq!(
        s.store.keys().await.unwrap().len(),
        4,
        "no Dispatcher leads here: nothing is known"
    );
    s.handle.in_use().set(programs(&[used.hash]));
    secs(CLEANUP.as_secs() - 5).await;
    assert_eq!(s.store.keys().await.unwrap().len(), 4, "a job may be on its way");
    secs(45).await;
    let left = s.store.keys().await.unwrap();
    assert!(left.contains(&used) && left.contains(&own), "{left:?}");
    assert!(!left.contains(&unused) && !left.contains(&foreign), "{left:?}");
    s.handle.in_use().set(Some(Needed::default()));
    secs(1).await;
    assert_eq!(
        s.store.keys().await.unwrap(),
        [own],
        "its job is gone; those of the job it deletes itself"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_that_another_one_was_told_of_outlives_its_job() {
    let s = server().await;
    let in_use = s.handle.in_use();
    in_use.set(Some(Needed::default()));
    let client = s.client();
    let key = client.upload_bytes(b"program", None, BlobKind::Permanent).await.unwrap();
    let has = HasBlob { job: None, hash: key.hash };
    in_use.set(programs(&[key.hash]));
    assert_eq!(s.remote.ask(has.clone()).await, Ok(Some(key)), "the next one is on its way");
    in_use.set(Some(Needed::default()));
    secs(1).await;
    assert_eq!(s.store.keys().await.unwrap(), [key]);
    in_use.set(programs(&[key.hash]));
    secs(2 * SUBMITTED_WITHIN.as_secs()).await;
    in_use.set(Some(Needed::default()));
    secs(1).await;
    assert_eq!(s.store.keys().await.unwrap(), []);
    assert_eq!(s.remote.ask(has).await, Ok(None), "it has to be put here again");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_whose_job_never_comes_goes_after_its_last_one() {
    let s = server().await;
    let in_use = s.handle.in_use();
    in_use.set(Some(Needed::default()));
    let key = s.client().upload_bytes(b"program", None, BlobKind::Permanent).await.unwrap();
    in_use.set(programs(&[key.hash]));
    s.remote.ask(HasBlob { job: None, hash: key.hash }).await.unwrap();
    in_use.set(Some(Needed::default()));
    secs(SUBMITTED_WITHIN.as_secs() - 5).await;
    assert_eq!(s.store.keys().await.unwrap(), [key]);
    secs(5 + 2 * SWEEP_INTERVAL.as_secs()).await;
    assert_eq!(s.store.keys().await.unwrap(), []);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_uploaded_program_stays_until_it_is_removed_or_its_process_ends() {
    let s = server().await;
    let in_use = s.handle.in_use();
    in_use.set(Some(Needed::default()));
    let put = |text: &'static [u8]| async {
        s.client().upload_bytes(text, None, BlobKind::Permanent).await.unwrap()
    };
    let (one, other, used) = (put(b"one").await, put(b"other").await, put(b"used").await);
    in_use.set_uploaded([one.hash, other.hash, used.hash].into());
    for key in [one, other] {
        in_use.set(programs(&[key.hash]));
    }
    in_use.set(programs(&[used.hash]));
    secs(2 * CLEANUP.as_secs()).await;
    assert_eq!(s.store.keys().await.unwrap().len(), 3, "however long no job has come");
    in_use.set_uploaded([other.hash, used.hash].into());
    secs(1).await;
    let left = s.store.keys().await.unwrap();
    assert!(left.len() == 2 && !left.contains(&one), "{left:?}");
    s.handle.forget_uploads().await;
    assert_eq!(s.store.keys().await.unwrap(), [used], "a job goes on with it");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_that_is_being_submitted_stays_until_its_job_has_come() {
    let s = server().await;
    s.handle.in_use().set(Some(Needed::default()));
    let client = s.client();
    let key = client.upload_bytes(b"program", None, BlobKind::Permanent).await.unwrap();
    for _ in 0..4 {
        secs(CLEANUP.as_secs() - 30).await;
        let found = s.remote.ask(HasBlob { job: None, hash: key.hash }).await;
        assert_eq!(found, Ok(Some(key)), "who asks is told that it is here, and then it is");
    }
    secs(CLEANUP.as_secs() - 30).await;
    s.handle.in_use().set(programs(&[key.hash]));
    secs(2 * CLEANUP.as_secs()).await;
    assert_eq!(s.store.keys().await.unwrap(), [key]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn programs_that_an_earlier_process_left_go_unless_a_persisted_job_needs_them() {
    let s = server().await;
    let put = async |text: &'static [u8]| {
        store_bytes(&s.store, text, None, BlobKind::Permanent).await.unwrap()
    };
    let (needed, _left) = (put(b"needed").await, put(b"left").await);
    s.handle.in_use().set(programs(&[needed.hash]));
    secs(CLEANUP.as_secs() + 60).await;
    assert_eq!(s.store.keys().await.unwrap(), [needed]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_damaged_program_is_not_here_for_who_would_submit_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FileBlobs::open(dir.path()).unwrap());
    let key = store_bytes(&*store, b"program", None, BlobKind::Permanent).await.unwrap();
    let path = store.path(&key).await.unwrap().unwrap();
    std::fs::write(path, b"prog").unwrap();
    let world = World::new(&[]).await;
    let handle = start(&world.services, store.clone()).await.unwrap();
    let remote: Remote<BlobServerGateway> =
        world.services.rpc.gateway(&handle.address, handle.session);
    let has = HasBlob { job: None, hash: key.hash };
    assert_eq!(remote.ask(has.clone()).await, Ok(None));
    let client = BlobClient::new(remote.clone());
    client.upload_bytes(b"program", None, BlobKind::Permanent).await.unwrap();
    assert_eq!(remote.ask(has).await, Ok(Some(key)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_blobs_of_an_ended_job_go_and_only_they() {
    let s = server().await;
    let client = s.client();
    let own = client.upload_bytes(b"same", Some(JOB), BlobKind::Permanent).await.unwrap();
    let shared = client.upload_bytes(b"same", None, BlobKind::Permanent).await.unwrap();
    s.remote.ask(DeleteJobBlobs { job: JOB }).await.unwrap();
    assert_eq!(s.store.keys().await.unwrap(), [shared]);
    let gone = s.remote.ask(ReadBlob { key: own, offset: 0, max: 1 }).await;
    assert_eq!(gone, Err(CallError::Refused(BlobError::NotFound(own.hash.to_string()))));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_full_disk_has_its_own_error_that_names_the_folder() {
    let s = server().await;
    let upload = s.open().await;
    let full = StoreError::DiskFull { path: "/blobs".into() };
    s.store.fail_writes(Some(full));
    let disk_full = BlobError::DiskFull { dir: "/blobs".into() };
    assert_eq!(s.chunk(upload, 0, b"x").await, Err(disk_full.clone()));
    assert_eq!(s.chunk(upload, 0, b"x").await, Err(BlobError::BadChunk), "it was given up");
    let sent = s.client().upload_bytes(b"x", None, BlobKind::Permanent).await;
    assert_eq!(sent, Err(BlobClientError::Server(disk_full)));
    let full = BlobStoreError::Store(StoreError::DiskFull { path: "/tmp/blobs".into() });
    let fetched = BlobFetchError::Failed { hash: hash_bytes(b"x"), cause: full.into() }.to_string();
    let said = "the disk of /tmp/blobs is full; free space there, or name a folder with more of it";
    assert!(fetched.contains(said), "{fetched}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_and_future_sessions_are_fenced() {
    let s = server().await;
    for wrong in [session(0), session(2)] {
        let remote: Remote<BlobServerGateway> =
            s.world.services.rpc.gateway(&s.handle.address, ProcessSession(wrong));
        let refused = remote.ask(DeleteJobBlobs { job: JOB }).await.unwrap_err();
        assert!(matches!(refused, CallError::Fabric(FabricError::Fenced { .. })), "{refused:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn bytes_are_sent_once_and_many_in_chunks() {
    let s = server().await;
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 253) as u8).collect();
    let client = s.client();
    let key = client.upload_bytes(&bytes, None, BlobKind::Permanent).await.unwrap();
    assert_eq!(client.upload_bytes(&bytes, None, BlobKind::Permanent).await, Ok(key));
    let fetched = MemoryBlobs::new();
    client.fetch(&key, &fetched).await.unwrap();
    assert_eq!(fetched.read(&key, 0, 9_000_000).await.unwrap(), bytes);
}

// The cache.

fn settings() -> CacheSettings {
    CacheSettings { tries: 3, cleanup_interval: CLEANUP, bytes_max: 100 }
}

struct Cached {
    server: Server,
    cache: BlobCache,
    files: FileBlobs,
    _dir: tempfile::TempDir,
}

async fn cached() -> Cached {
    let server = server().await;
    let dir = tempfile::tempdir().unwrap();
    let files = FileBlobs::open(dir.path()).unwrap();
    let services = &server.world.services;
    let store = Arc::new(files.clone());
    let cache = BlobCache::new(services.platform.clone(), services.rpc.clone(), store, settings());
    Cached { cache, files, server, _dir: dir }
}

impl Cached {
    async fn put(&self, bytes: &[u8], kind: BlobKind) -> BlobKey {
        self.server.client().upload_bytes(bytes, None, kind).await.unwrap()
    }
    fn connect(&self) {
        let handle = &self.server.handle;
        self.cache.set_server(handle.address.clone(), handle.session);
    }
    /// Makes a double the cache's server.
    fn scripted(&self, name: &str) -> Script {
        let world = &self.server.world;
        let session = world.services.session;
        let script = world.double(name, session, BlobServerGateway::endpoint);
        self.cache.set_server(script.address.clone(), session);
        script
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_fetched_blob_is_an_executable_file_and_stays() {
    let c = cached().await;
    let key = c.put(b"#!/bin/sh\nexit 3\n", BlobKind::Permanent).await;
    assert_eq!(c.cache.fetch(&key).await, Err(BlobFetchError::NoServer));
    c.connect();
    let path = c.cache.fetch(&key).await.unwrap();
    let status = std::process::Command::new(&path).status().unwrap();
    assert_eq!(status.code(), Some(3));
    c.server.store.remove(&key).await.unwrap();
    assert_eq!(c.cache.fetch(&key).await, Ok(path), "it is here");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn fetches_of_one_blob_at_the_same_time_are_one() {
    let c = cached().await;
    let key = c.put(b"program", BlobKind::Permanent).await;
    let mut script = c.scripted("counted");
    let fetches = futures::future::join_all((0..5).map(|_| c.cache.fetch(&key)));
    let serve = async {
        let read = script.next::<ReadBlob>().await;
        let bytes = c.server.store.read(&read.body.key, 0, 100).await.unwrap();
        read.answer(Ok(serde_bytes::ByteBuf::from(bytes)));
        script.silent_for(Duration::from_secs(5)).await;
    };
    let (paths, ()) = futures::join!(fetches, serve);
    assert!(paths.iter().all(|path| path.is_ok() && *path == paths[0]), "{paths:?}");
}

/// A job that was cancelled while its program was being fetched, and whose program was removed with it: the program comes
/// again with the next job.
#[tokio::test(flavor = "local", start_paused = true)]
async fn a_fetch_that_nobody_waited_for_to_its_end_fails_no_later_one() {
    let c = cached().await;
    let key = c.put(b"program", BlobKind::Permanent).await;
    let mut script = c.scripted("empty");
    let read = tokio::select! {
        fetched = c.cache.fetch(&key) => panic!("nothing was answered yet: {fetched:?}"),
        read = script.next::<ReadBlob>() => read,
    };
    read.answer(Err(BlobError::NotFound(key.hash.to_string())));
    secs(5).await;
    c.connect();
    c.cache.fetch(&key).await.unwrap();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_fetch_that_was_answered_before_the_blob_came_is_made_once_more() {
    let c = cached().await;
    let key = c.put(b"program", BlobKind::Permanent).await;
    let mut script = c.scripted("early");
    let serve = async {
        let gone = Err(BlobError::NotFound(key.hash.to_string()));
        script.next::<ReadBlob>().await.answer(gone);
        let read = script.next::<ReadBlob>().await;
        read.answer(Ok(serde_bytes::ByteBuf::from(b"program".to_vec())));
        script.silent_for(Duration::from_secs(5)).await;
    };
    let (one, other) = (c.cache.fetch(&key), c.cache.fetch(&key));
    let (one, other, ()) = futures::join!(one, other, serve);
    // Both look at the disk first, so either can be the one that asks first.
    let (early, late) = if one.is_err() { (one, other) } else { (other, one) };
    assert!(early.unwrap_err().is_gone(), "it was not there when this one asked");
    late.unwrap();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn wrong_content_is_fetched_again_and_never_kept() {
    let c = cached().await;
    let key = c.put(b"program", BlobKind::Permanent).await;
    let mut script = c.scripted("liar");
    let serve = async {
        for content in [b"Program", b"programm".get(..7).unwrap()] {
            let bytes = content.to_vec();
            script.next::<ReadBlob>().await.answer(Ok(serde_bytes::ByteBuf::from(bytes)));
        }
    };
    let (path, ()) = futures::join!(c.cache.fetch(&key), serve);
    assert_eq!(std::fs::read(path.unwrap()).unwrap(), b"program");
    let other = BlobKey { hash: hash_bytes(b"other"), ..key };
    let lie = async {
        for _ in 0..3 {
            let bytes = b"nothing".to_vec();
            script.next::<ReadBlob>().await.answer(Ok(serde_bytes::ByteBuf::from(bytes)));
        }
    };
    let (failed, ()) = futures::join!(c.cache.fetch(&other), lie);
    let cause = BlobStoreError::WrongHash { expected: other.hash, actual: hash_bytes(b"nothing") };
    assert!(failed.as_ref().unwrap_err().is_gone(), "it is wrong at the server, each time");
    assert_eq!(failed, Err(BlobFetchError::Failed { hash: other.hash, cause: cause.into() }));
    assert_eq!(c.files.keys().await.unwrap(), [key]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_nobody_holds_goes_transient_at_once_permanent_in_time() {
    let c = cached().await;
    c.connect();
    let permanent = c.put(b"permanent", BlobKind::Permanent).await;
    let transient = c.put(b"transient", BlobKind::Transient).await;
    let leases = [c.cache.lease(&permanent), c.cache.lease(&transient), c.cache.lease(&transient)];
    for key in [&permanent, &transient] {
        c.cache.fetch(key).await.unwrap();
    }
    secs(2 * CLEANUP.as_secs()).await;
    c.cache.sweep().await;
    assert_eq!(c.files.keys().await.unwrap().len(), 2, "held");
    let [first, second, third] = leases;
    drop(second);
    assert_eq!(c.files.keys().await.unwrap().len(), 2, "held once more");
    drop(third);
    secs(1).await;
    assert_eq!(c.files.keys().await.unwrap(), [permanent]);
    drop(first);
    secs(CLEANUP.as_secs() - 1).await;
    c.cache.sweep().await;
    assert_eq!(c.files.keys().await.unwrap(), [permanent]);
    secs(1).await;
    c.cache.sweep().await;
    assert_eq!(c.files.keys().await.unwrap(), []);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn above_its_bound_the_longest_unused_go_first() {
    let c = cached().await;
    c.connect();
    let mut keys = Vec::new();
    for text in [[b'a'; 60], [b'b'; 60], [b'c'; 60]] {
        let key = c.put(&text, BlobKind::Permanent).await;
        let lease = c.cache.lease(&key);
        c.cache.fetch(&key).await.unwrap();
        drop(lease);
        keys.push(key);
        secs(1).await;
    }
    c.cache.sweep().await;
    assert_eq!(c.files.keys().await.unwrap(), [keys[2]]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_servers_own_cache_is_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FileBlobs::open(dir.path()).unwrap());
    let world = World::new(&[]).await;
    let cache = BlobCache::of_server(world.services.platform.clone(), store.clone());
    let key = store_bytes(&*store, b"x", None, BlobKind::Transient).await.unwrap();
    let lease = cache.lease(&key);
    assert!(cache.fetch(&key).await.is_ok());
    drop(lease);
    cache.sweep().await;
    assert!(cache.fetch(&key).await.is_ok(), "cleaning up is the server's");
    store.remove(&key).await.unwrap();
    assert!(matches!(cache.fetch(&key).await, Err(BlobFetchError::Failed { .. })));
}
