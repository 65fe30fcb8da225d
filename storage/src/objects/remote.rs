//! Objects in a remote system: the part that S3 and HDFS share. Each object has a header as in the file store, every
//! call has a time limit, and [`ObjectStore::put_new`] is exact.
//!
//! A remote system may carry out a write and lose the answer; when the write is sent again, the system refuses it
//! because the object exists. Each write therefore has a random id, stored between the header and the content (format
//! `FLOTTOB4`; the header covers the id too). A writer whose create was refused reads the object back: if the object
//! has the writer's own id, the writer created it. This module must never report its own write as another writer's, nor
//! the reverse.

use super::frame;
use super::{FolderChoice, ObjectStore, PutNew, StoreError, StoreFuture, check_name};
use bytes::Bytes;
use platform::Platform;
use std::{fmt, ops::Range, sync::Arc, time::Duration};

/// The first eight bytes of an object in a remote system.
const MAGIC: &[u8; 8] = b"FLOTTOB4";
const WRITE_ID_BYTES: usize = 16;
/// The place of the content's first byte in the object.
const CONTENT: u64 = (frame::HEADER_BYTES + WRITE_ID_BYTES) as u64;
/// The greatest end of a range that servers take. No object is so long.
const END_MAX: u64 = i64::MAX as u64;
/// Maximum number of ranges of an object that are asked for at a time.
#[cfg(any(feature = "hdfs", feature = "s3"))]
pub(super) const RANGES_AT_ONCE: usize = 4;

/// Maximum duration of a call. Small objects take milliseconds, but an HDFS client without this limit would wait for
/// minutes. A leader's lease does not depend on it: a lease has a deadline of its own.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Maximum number of times that a create-if-absent is sent. S3 refuses it (409) while another conditional write of the
/// same name is under way, although there may be no object in the end.
const CREATE_TRIES: u32 = 6;
/// Pause before the second try; it doubles with each further one.
const CREATE_PAUSE: Duration = Duration::from_millis(50);

/// The calls of one remote system. The caller has checked the names; a backend does not interpret the objects.
pub(super) trait Backend: Send + Sync + fmt::Debug + 'static {
    /// Reads a whole object; returns `None` if there is none.
    fn read(&self, name: &str) -> impl Future<Output = Result<Option<Bytes>, StoreError>> + Send;
    /// Reads these ranges of an object, none of them empty, each as far as it is in the object; returns `None` if there is none.
    fn read_ranges(
        &self,
        name: &str,
        ranges: &[Range<u64>],
    ) -> impl Future<Output = Result<Option<Vec<Bytes>>, StoreError>> + Send;
    /// Creates an object unless one of that name exists.
    fn create(
        &self,
        name: &str,
        object: Bytes,
    ) -> impl Future<Output = Result<Create, StoreError>> + Send;
    /// Creates or replaces an object.
    fn replace(
        &self,
        name: &str,
        object: Bytes,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Removes an object. Returns true if there was one, or if the system cannot tell.
    fn remove(&self, name: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;
    /// Lists at least the objects whose names start with `prefix`, in any order.
    fn list(&self, prefix: &str) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;
    /// Removes what interrupted writes have left, as [`ObjectStore::sweep`] says; nothing by default.
    fn sweep(
        &self,
        _prefix: &str,
        _chosen: FolderChoice,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }
    /// Returns the URI of the object, or of the whole store for an empty name.
    fn place(&self, name: &str) -> String;
}

/// The answer to a create-if-absent.
pub(super) enum Create {
    /// This call created the object.
    Done,
    /// The object may exist, written by this call or by another one. The error is reported if it turns out that there
    /// is no object.
    Unclear(StoreError),
}

/// An object store in a remote system.
#[derive(Debug)]
pub(super) struct RemoteObjects<B> {
    backend: Arc<B>,
    platform: Platform,
}

impl<B: Backend> RemoteObjects<B> {
    /// Wraps a remote system; `platform` gives the random ids of writes.
    pub(super) fn new(backend: B, platform: Platform) -> Self {
        Self { backend: Arc::new(backend), platform }
    }

    /// Returns the stored form of `bytes`, with a random id that makes it different from any other write.
    fn object(&self, bytes: &[u8]) -> Bytes {
        let id = self.platform.random_bytes::<WRITE_ID_BYTES>();
        [&frame::header(MAGIC, &[&id, bytes]), id.as_slice(), bytes].concat().into()
    }

    /// Runs `work` within [`CALL_LIMIT`]; returns an error if `name` is not a valid name.
    fn call<T: Send + 'static, F: Future<Output = Result<T, StoreError>> + Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(Arc<B>, String) -> F,
    ) -> StoreFuture<T> {
        if let Err(error) = check_name(name) {
            return Box::pin(std::future::ready(Err(error)));
        }
        self.limited(name, work(Arc::clone(&self.backend), name.to_owned()))
    }

    fn limited<T: Send + 'static>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> StoreFuture<T> {
        let path = self.backend.place(name);
        Box::pin(async move {
            let why = || format!("no answer within {} s", CALL_LIMIT.as_secs());
            let late = |_| Err(StoreError::Unreachable { path, why: why() });
            tokio::time::timeout(CALL_LIMIT, work).await.unwrap_or_else(late)
        })
    }
}

/// Creates an object. If the system's answer leaves open who created it, reads the object back to find out.
async fn put_new(
    backend: Arc<impl Backend>,
    name: String,
    object: Bytes,
) -> Result<PutNew, StoreError> {
    let mut pause = CREATE_PAUSE;
    for attempt in 1.. {
        let Create::Unclear(why) = backend.create(&name, object.clone()).await? else {
            break;
        };
        match backend.read(&name).await? {
            // If the write is still under way and takes effect later, the object has the same id.
            None if attempt >= CREATE_TRIES => return Err(why),
            None => {
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2);
            }
            Some(stored) if stored == object => break,
            Some(_) => return Ok(PutNew::Exists),
        }
    }
    Ok(PutNew::Created)
}

impl<B: Backend> ObjectStore for RemoteObjects<B> {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        self.call(name, |backend, name| async move {
            let Some(object) = backend.read(&name).await? else { return Ok(None) };
            let place = backend.place(&name);
            let content = frame::checked(MAGIC, &place, object)?;
            if content.len() < WRITE_ID_BYTES {
                let why = "it has no write id".to_owned();
                return Err(StoreError::Corrupt { path: place, why });
            }
            Ok(Some(content.slice(WRITE_ID_BYTES..)))
        })
    }

    fn get_ranges(&self, name: &str, mut ranges: Vec<Range<u64>>) -> StoreFuture<Option<Bytes>> {
        ranges.retain(|range| !range.is_empty());
        if ranges.is_empty() {
            let whole = self.get(name);
            return Box::pin(async move { Ok(whole.await?.map(|_| Bytes::new())) });
        }
        for Range { start, end } in &mut ranges {
            *end = end.saturating_add(CONTENT).min(END_MAX);
            *start = start.saturating_add(CONTENT).min(END_MAX - 1);
        }
        self.call(name, |backend, name| async move {
            let Some(pieces) = backend.read_ranges(&name, &ranges).await? else { return Ok(None) };
            Ok(Some(match <[Bytes; 1]>::try_from(pieces) {
                Ok([one]) => one,
                Err(several) => several.concat().into(),
            }))
        })
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
        let object = self.object(&bytes);
        self.call(name, |backend, name| put_new(backend, name, object))
    }

    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
        let object = self.object(&bytes);
        self.call(name, |backend, name| async move { backend.replace(&name, object).await })
    }

    fn delete(&self, name: &str) -> StoreFuture<bool> {
        self.call(name, |backend, name| async move { backend.remove(&name).await })
    }

    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
        let (backend, prefix) = (Arc::clone(&self.backend), prefix.to_owned());
        self.limited("", async move {
            if let (folder, true) = (folder_of(&prefix), prefix.contains('/')) {
                check_name(folder)?;
            }
            let mut names = backend.list(&prefix).await?;
            names.retain(|name| name.starts_with(&prefix) && check_name(name).is_ok());
            names.sort();
            Ok(names)
        })
    }

    fn sweep(&self, prefix: &str, chosen: FolderChoice) -> StoreFuture<()> {
        let (backend, prefix) = (Arc::clone(&self.backend), prefix.to_owned());
        self.limited("", async move {
            check_name(folder_of(&prefix))?;
            backend.sweep(&prefix, chosen).await
        })
    }

    fn location(&self) -> String {
        self.backend.place("")
    }
}

/// Returns the deepest folder that `prefix` names completely; empty for the root.
pub(super) fn folder_of(prefix: &str) -> &str {
    prefix.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::super::MemoryObjects;
    use super::*;
    use crate::checkpoints::{CheckpointDirectory, Ranges};
    use model::{StateHandle, StatePart};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A system that carries out writes and answers as the test demands.
    #[derive(Debug, Default)]
    struct Forgetful {
        stored: MemoryObjects,
        /// The number of creations to come whose answer is lost after the write took effect.
        lost: AtomicU32,
        /// The number of creations to come that are refused although there is no object.
        conflicts: AtomicU32,
        hangs: bool,
        /// The ranges that were asked for, and how often a whole object was.
        asked: Arc<Mutex<Vec<Range<u64>>>>,
        whole: Arc<AtomicU32>,
    }

    fn takes_one(count: &AtomicU32) -> bool {
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
    }

    fn unclear() -> Result<Create, StoreError> {
        Ok(Create::Unclear(StoreError::Io { path: "remote:a".into(), why: "conflict".into() }))
    }

    impl Backend for Forgetful {
        async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
            self.whole.fetch_add(1, Ordering::Relaxed);
            self.stored.get(name).await
        }
        async fn read_ranges(
            &self,
            name: &str,
            ranges: &[Range<u64>],
        ) -> Result<Option<Vec<Bytes>>, StoreError> {
            self.asked.lock().unwrap().extend_from_slice(ranges);
            let mut pieces = Vec::new();
            for range in ranges {
                pieces.extend(self.stored.get_ranges(name, vec![range.clone()]).await?);
            }
            Ok(Some(pieces).filter(|pieces| !pieces.is_empty()))
        }
        async fn create(&self, name: &str, object: Bytes) -> Result<Create, StoreError> {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            if takes_one(&self.conflicts) {
                return unclear();
            }
            match self.stored.put_new(name, object).await? {
                PutNew::Created if !takes_one(&self.lost) => Ok(Create::Done),
                _ => unclear(),
            }
        }
        async fn replace(&self, name: &str, object: Bytes) -> Result<(), StoreError> {
            self.stored.put(name, object).await
        }
        async fn remove(&self, name: &str) -> Result<bool, StoreError> {
            self.stored.delete(name).await
        }
        async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
            self.stored.list(prefix).await
        }
        fn place(&self, name: &str) -> String {
            format!("remote:{name}")
        }
    }

    fn store(backend: Forgetful) -> RemoteObjects<Forgetful> {
        RemoteObjects::new(backend, Platform::production())
    }

    #[tokio::test]
    async fn it_keeps_the_contract_of_stores() {
        crate::testing::contract::check(async || Arc::new(store(Forgetful::default())) as _).await;
    }

    #[tokio::test]
    async fn a_write_whose_answer_was_lost_is_this_writers() {
        let store = store(Forgetful { lost: 1.into(), ..Forgetful::default() });
        assert_eq!(store.put_new("a", "mine".into()).await, Ok(PutNew::Created));
        // The same bytes written by another call are another object.
        assert_eq!(store.put_new("a", "mine".into()).await, Ok(PutNew::Exists));
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_without_an_object_is_tried_again_so_many_times() {
        let conflicts = |n: u32| store(Forgetful { conflicts: n.into(), ..Forgetful::default() });
        let put = |n: u32| async move { conflicts(n).put_new("a", "x".into()).await };
        assert_eq!(put(CREATE_TRIES - 1).await, Ok(PutNew::Created));
        assert!(matches!(put(CREATE_TRIES).await, Err(StoreError::Io { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_system_that_does_not_answer_is_named_in_time() {
        let store = store(Forgetful { hangs: true, ..Forgetful::default() });
        let error = store.put_new("a", "x".into()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("remote:a") && text.contains("no answer within 30 s"), "{text}");
    }

    #[tokio::test]
    async fn every_damage_to_an_object_is_seen_and_named() {
        let stored = MemoryObjects::new();
        let store = store(Forgetful { stored: stored.clone(), ..Forgetful::default() });
        store.put("a", "content".into()).await.unwrap();
        let whole = stored.get("a").await.unwrap().unwrap();
        let mut damaged: Vec<Bytes> = (0..whole.len()).map(|n| whole.slice(..n)).collect();
        damaged.extend((0..whole.len()).map(|at| {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 1;
            bytes.into()
        }));
        // A whole object of the file store: it contains no write id.
        damaged.push([frame::header(MAGIC, &[b"short"]).as_slice(), b"short"].concat().into());
        for bytes in damaged {
            stored.put("a", bytes).await.unwrap();
            match store.get("a").await {
                Err(StoreError::Corrupt { path, .. }) => assert_eq!(path, "remote:a"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// A subtask of another parallelism asks a remote system for its ranges, neighbours in one request, and for no other byte.
    #[tokio::test]
    async fn ranges_are_asked_for_in_runs_and_nothing_else_is() {
        let backend = Forgetful::default();
        let (asked, whole) = (Arc::clone(&backend.asked), Arc::clone(&backend.whole));
        let store: Arc<dyn ObjectStore> = Arc::new(store(backend));
        let chunk = |n: u32| vec![n.to_le_bytes()[0]; 1_000];
        store.put("a", (0..32).flat_map(chunk).collect()).await.unwrap();
        // The tables that were nearest to growing were written first.
        let first_groups = |n: u32| if n < 2 { 60 + n } else { n * 2 };
        let mut ranges = Ranges::default();
        (0..32).for_each(|n| ranges.add((first_groups(n), first_groups(n) + 1), &chunk(n)));
        let state = StateHandle::Object { name: "a".into(), bytes: 32_000 };
        let part = StatePart { groups: vec![(0, 63)], state, ranges: ranges.take(), index: None };
        let directory = CheckpointDirectory::new(store);
        for (before, after) in [(1, 2), (1, 3), (1, 5)] {
            for subtask in 0..after {
                let own = model::owned_key_groups(subtask, after, 64);
                let needed = part.needed(&own).unwrap();
                let bytes = directory.read(&needed).await.unwrap();
                let requests = std::mem::take(&mut *asked.lock().unwrap());
                let sum: u64 = requests.iter().map(|range| range.end - range.start).sum();
                assert_eq!(sum, bytes.len() as u64, "{before} to {after}");
                assert!(requests.len() <= 2 && requests.iter().all(|range| range.start >= CONTENT));
                assert!(sum <= 1_000 * (own.len() as u64 / 2 + 3), "{sum} bytes for {own:?}");
            }
        }
        assert_eq!(whole.load(Ordering::Relaxed), 0);
    }
}
