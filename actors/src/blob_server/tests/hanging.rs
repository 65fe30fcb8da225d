//! A blob store that hangs delays the calls that need it and nothing else.

use super::*;
use storage::blobs::FaultyBlobs;
use storage::objects::Fault;

struct Hanging {
    server: Server,
    faults: FaultyBlobs,
}

/// Starts a server whose store can be made to hang, under a leading Dispatcher without jobs.
async fn hanging() -> Hanging {
    let store = MemoryBlobs::new();
    let faults = FaultyBlobs::new(Arc::new(store.clone()));
    let server = server_of(store, Arc::new(faults.clone())).await;
    server.handle.in_use().set(Some(Needed::default()));
    Hanging { server, faults }
}

/// Returns the answer if it comes within a second; `None` if the call hangs.
async fn soon<T>(answer: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_secs(1), answer).await.ok()
}

impl Hanging {
    async fn program(&self, text: &'static [u8]) -> BlobKey {
        self.server.client().upload_bytes(text, None, BlobKind::Permanent).await.unwrap()
    }
    async fn has_program(&self, hash: ContentHash) -> Option<BlobKey> {
        // The time-out is long because the test decides when the store answers again.
        let within = Duration::from_secs(3600);
        self.server.remote.ask_within(HasBlob { job: None, hash }, within).await.unwrap()
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_chunk_that_hangs_delays_its_own_upload_and_is_not_lost() {
    let h = hanging().await;
    let s = &h.server;
    let kept = h.program(b"kept").await;
    let (first, second) = (s.open().await, s.open().await);
    s.chunk(first, 0, b"a").await.unwrap();
    s.chunk(second, 0, b"x").await.unwrap();
    h.faults.set_writes(Fault::Hang);
    {
        let mut hung = Box::pin(s.chunk(first, 1, b"b"));
        assert_eq!(soon(&mut hung).await, None);
        assert_eq!(s.chunk(first, 1, b"b").await, Err(BlobError::Busy), "once more");
        assert_eq!(s.chunk(first, 2, b"c").await, Err(BlobError::Busy), "out of order");
        assert_eq!(s.close(first, hash_bytes(b"a")).await, Err(BlobError::Busy));
        assert_eq!(s.chunk(second, 5, b"y").await, Err(BlobError::BadChunk));
        assert_eq!(s.chunk(second, 0, b"x").await, Ok(()), "it is here already");
        assert_eq!(h.has_program(kept.hash).await, Some(kept));
        let read = ReadBlob { key: kept, offset: 0, max: 9 };
        assert_eq!(s.remote.ask(read).await.unwrap().as_ref(), b"kept");
        // The sender has given up waiting; the store still works on the chunk.
    }
    secs(200).await;
    h.faults.set_writes(Fault::None);
    assert_eq!(s.chunk(second, 1, b"y").await, Err(BlobError::BadChunk), "abandoned");
    assert_eq!(s.chunk(first, 1, b"b").await, Ok(()), "its answer was lost");
    s.chunk(first, 2, b"c").await.unwrap();
    let key = s.close(first, hash_bytes(b"abc")).await.unwrap();
    assert_eq!(s.store.read(&key, 0, 9).await.unwrap(), "abc");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn uploads_that_wait_for_the_store_are_bounded_and_go_on_with_it() {
    let h = hanging().await;
    h.faults.set_writes(Fault::Hang);
    let remote = &h.server.remote;
    let open = || OpenUpload { job: Some(JOB), kind: BlobKind::Permanent };
    let within = Duration::from_secs(3600);
    let waits = (0..64).map(|_| remote.ask_within(open(), within));
    let mut waits = Box::pin(futures::future::join_all(waits));
    assert!(soon(&mut waits).await.is_none());
    assert_eq!(h.faults.waiting(), 64);
    assert_eq!(remote.ask(open()).await, Err(CallError::Refused(BlobError::Busy)));
    assert_eq!(h.has_program(hash_bytes(b"x")).await, None);
    h.faults.set_writes(Fault::None);
    let ids: BTreeSet<UploadId> = waits.await.into_iter().map(Result::unwrap).collect();
    assert_eq!(ids.len(), 64);
    for id in ids {
        h.server.chunk(id, 0, b"x").await.unwrap();
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn calls_that_wait_for_the_store_are_bounded() {
    let h = hanging().await;
    let key = h.program(b"program").await;
    h.faults.set_reads(Fault::Hang);
    let within = Duration::from_secs(3600);
    let read = || ReadBlob { key, offset: 0, max: 1 };
    let mut waits: Vec<_> = (0..8)
        .map(|_| {
            let some = 0..gateways::MAILBOX_CAPACITY / 8;
            let asked = some.map(|_| h.server.remote.ask_within(read(), within));
            Box::pin(futures::future::join_all(asked))
        })
        .collect();
    for some in &mut waits {
        assert!(soon(some).await.is_none());
    }
    assert_eq!(h.faults.waiting(), gateways::MAILBOX_CAPACITY);
    assert_eq!(h.server.remote.ask(read()).await, Err(CallError::Refused(BlobError::Busy)));
    let has = HasBlob { job: None, hash: key.hash };
    assert_eq!(h.server.remote.ask(has).await, Err(CallError::Refused(BlobError::Busy)));
    let upload = h.server.open().await;
    h.server.chunk(upload, 0, b"x").await.unwrap();
    h.faults.set_reads(Fault::None);
    for answer in futures::future::join_all(waits).await.into_iter().flatten() {
        assert_eq!(answer.unwrap().as_ref(), b"p");
    }
    assert_eq!(h.has_program(key.hash).await, Some(key));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn nobody_is_told_that_a_program_is_here_while_it_is_being_removed() {
    let h = hanging().await;
    let in_use = h.server.handle.in_use();
    let (key, other) = (h.program(b"program").await, h.program(b"other").await);
    in_use.set(programs(&[key.hash]));
    h.faults.set_writes(Fault::Hang);
    secs(2 * SUBMITTED_WITHIN.as_secs()).await;
    in_use.set(Some(Needed::default()));
    secs(1).await;
    assert_eq!(h.server.store.keys().await.unwrap().len(), 2, "its removal hangs");
    let mut asked = Box::pin(h.has_program(key.hash));
    assert_eq!(soon(&mut asked).await, None);
    assert_eq!(h.has_program(other.hash).await, Some(other));
    h.faults.set_writes(Fault::None);
    assert_eq!(asked.await, None, "it has to be put here again");
    assert_eq!(h.program(b"program").await, key);
    secs(1).await;
    assert_eq!(h.has_program(key.hash).await, Some(key));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_that_is_uploaded_while_it_is_being_removed_is_here_afterwards() {
    let h = hanging().await;
    let s = &h.server;
    let open = OpenUpload { job: None, kind: BlobKind::Permanent };
    let upload = s.remote.ask(open).await.unwrap();
    s.chunk(upload, 0, b"program").await.unwrap();
    let key = h.program(b"program").await;
    let in_use = s.handle.in_use();
    in_use.set(programs(&[key.hash]));
    h.faults.set_writes(Fault::Slow(Duration::from_secs(5)));
    in_use.set(Some(Needed::default()));
    secs(1).await;
    // From here on uploads do not hang, but the removal that has begun still does.
    h.faults.set_writes(Fault::None);
    let close = CloseUpload { upload, hash: key.hash };
    assert_eq!(s.remote.ask_within(close, Duration::from_secs(60)).await, Ok(key));
    assert_eq!(s.store.keys().await.unwrap(), [key]);
    secs(30).await;
    assert_eq!(s.store.keys().await.unwrap(), [key], "a job is on its way");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_is_not_removed_while_somebody_is_being_told_that_it_is_here() {
    let h = hanging().await;
    let in_use = h.server.handle.in_use();
    let key = h.program(b"program").await;
    in_use.set(programs(&[key.hash]));
    h.faults.set_reads(Fault::Hang);
    let mut asked = Box::pin(h.has_program(key.hash));
    assert_eq!(soon(&mut asked).await, None);
    in_use.set(Some(Needed::default()));
    secs(60).await;
    h.faults.set_reads(Fault::None);
    assert_eq!(asked.await, Some(key));
    secs(SUBMITTED_WITHIN.as_secs() - 5).await;
    assert_eq!(h.server.store.keys().await.unwrap(), [key], "its job is on its way");
    secs(5 + 2 * SWEEP_INTERVAL.as_secs()).await;
    assert_eq!(h.server.store.keys().await.unwrap(), [], "it never came");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_sweep_that_hangs_is_the_only_one_and_the_next_one_finds_everything() {
    let h = hanging().await;
    let s = &h.server;
    h.faults.set_reads(Fault::Hang);
    let old = store_bytes(&s.store, b"old", Some(JOB), BlobKind::Transient).await.unwrap();
    secs(10 * SWEEP_INTERVAL.as_secs()).await;
    assert_eq!(h.faults.waiting(), 1, "one sweep");
    let upload = s.open().await;
    s.chunk(upload, 0, b"new").await.unwrap();
    let new = s.close(upload, hash_bytes(b"new")).await.unwrap();
    secs(70).await;
    h.faults.set(Fault::None);
    assert_eq!(s.chunk(s.open().await, 0, b"x").await, Ok(()));
    secs(60).await;
    assert_eq!(s.store.keys().await.unwrap().len(), 2);
    s.handle.in_use().set(Some(Needed { jobs: [JOB].into(), ..Needed::default() }));
    secs(CLEANUP.as_secs() + 60).await;
    let left = s.store.keys().await.unwrap();
    assert!(left.contains(&new) && !left.contains(&old), "{left:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_server_whose_store_hangs_is_stopped_at_once() {
    let h = hanging().await;
    let s = h.server;
    let key = s.client().upload_bytes(b"x", None, BlobKind::Permanent).await.unwrap();
    s.handle.in_use().set_uploaded([key.hash].into());
    s.handle.in_use().set(programs(&[key.hash]));
    s.handle.in_use().set(Some(Needed::default()));
    h.faults.set(Fault::Hang);
    let mut asked = Box::pin(s.remote.ask(HasBlob { job: None, hash: hash_bytes(b"y") }));
    assert!(soon(&mut asked).await.is_none());
    let forgets = s.handle.forget_uploads();
    let in_time = tokio::time::timeout(FORGET_WITHIN + Duration::from_secs(1), forgets);
    assert!(in_time.await.is_ok(), "the end of the process waits no longer");
    assert!(soon(s.handle.running.stop()).await.is_some());
    assert!(soon(asked).await.unwrap().is_err());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_cache_fetches_anew_what_it_is_removing() {
    let s = server().await;
    let inner = MemoryBlobs::new();
    let faults = FaultyBlobs::new(Arc::new(inner.clone()));
    let services = &s.world.services;
    let (platform, rpc) = (services.platform.clone(), services.rpc.clone());
    let cache = BlobCache::new(platform, rpc, Arc::new(faults.clone()), settings());
    cache.set_server(s.handle.address.clone(), s.handle.session);
    let key = s.client().upload_bytes(b"x", None, BlobKind::Transient).await.unwrap();
    let lease = cache.lease(&key);
    assert_eq!(cache.fetch(&key).await, Err(BlobFetchError::NoFiles), "in memory");
    assert_eq!(inner.keys().await.unwrap(), [key]);
    faults.set_writes(Fault::Hang);
    drop(lease);
    let _lease = cache.lease(&key);
    let mut fetched = Box::pin(cache.fetch(&key));
    assert_eq!(soon(&mut fetched).await, None, "it may not be given out");
    faults.set_writes(Fault::None);
    assert_eq!(fetched.await, Err(BlobFetchError::NoFiles));
    cache.sweep().await;
    assert_eq!(inner.keys().await.unwrap(), [key], "fetched once more, and held");
}
