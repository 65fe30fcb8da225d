//! The blob cache of a process: blobs that were fetched from the BlobServer, as verified local files.
//!
//! Concurrent fetches of one blob share one download. A user of a blob holds a lease; without one a transient blob is
//! removed at once, a permanent one after `blob.cleanup-interval` or when room is needed. The cache must never give out
//! a file whose content it has not checked.

use super::client::{BlobClient, BlobClientError};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use gateways::EndpointAddress;
use gateways::RpcService;
use gateways::blob_server::{BlobError, BlobServerGateway};
use model::{BlobKey, BlobKind, ProcessSession};
use platform::{Lane, Platform};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::blobs::{BlobStore, BlobStoreError};
use storage::objects::StoreError;
use thiserror::Error;

const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The error of [`BlobCache::fetch`]: no server is known, the fetch failed, there are no files, or the process ends. A later call begins
/// anew.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlobFetchError {
    /// [`BlobCache::set_server`] was not called yet: no BlobServer is known. The fetch fails at once, without further tries.
    #[error("no blob server is known")]
    NoServer,
    /// The blob could not be fetched or stored, after all tries or at the first error that another try cannot mend, or the local
    /// store could not be read. In the server's own cache: the store does not have the blob, or its file is damaged.
    #[error("blob {hash} could not be fetched: {cause}{}", remedy(cause))]
    Failed {
        /// Content hash of the blob concerned.
        hash: model::ContentHash,
        /// The error of the last try.
        cause: BlobClientError,
    },
    /// The cache's store keeps no files that a path could name, for example in the simulation.
    #[error("this cache keeps no files")]
    NoFiles,
    /// The process is shutting down: its blob lane has ended.
    #[error("the process is shutting down")]
    ShuttingDown,
}

impl BlobFetchError {
    /// Returns true if fetching again will not help: the BlobServer has answered that it does not have the blob or has other content in
    /// its place, the content that arrived had the wrong hash at the last try too (it was wrong at the server then), or the local file is
    /// found damaged right after its fetch. False for all other errors, also if the store of [`BlobCache::of_server`] lacks the blob.
    pub fn is_gone(&self) -> bool {
        let Self::Failed { cause, .. } = self else { return false };
        matches!(
            cause,
            BlobClientError::Server(BlobError::NotFound(_) | BlobError::WrongHash { .. })
                | BlobClientError::Local(BlobStoreError::WrongHash { .. })
        )
    }
}

/// Settings of a [`BlobCache`]: how often it tries a fetch, and how long and how much it keeps without a lease.
#[derive(Debug, Clone, Copy)]
pub struct CacheSettings {
    /// Maximum number of tries of one fetch, the first included; 0 counts as 1. After the last one the fetch fails with its error.
    pub tries: u32,
    /// Time for which a permanent blob is kept after its last lease has ended, or without one after a sweep first saw it. A transient
    /// one is removed with its last lease, or by the next sweep.
    pub cleanup_interval: Duration,
    /// Total size in bytes of the blobs in the cache above which a sweep removes blobs without a lease, the longest unused
    /// first, until the rest fits; 0 removes all of them at each sweep. Fetches and leased blobs may exceed it: nothing is refused.
    pub bytes_max: u64,
}

impl CacheSettings {
    /// Reads the settings from the options: `blob.fetch.retries` (and one try more), `blob.cleanup-interval` and
    /// `blob.cache.size-max`.
    pub fn from_options(options: &conf::Options) -> Self {
        Self {
            tries: options.get(&conf::rpc::BLOB_FETCH_RETRIES).saturating_add(1),
            cleanup_interval: options.get(&conf::rpc::BLOB_CLEANUP_INTERVAL),
            bytes_max: options.get(&conf::rpc::BLOB_CACHE_MAX).0,
        }
    }
}

type Fetch = Shared<BoxFuture<'static, Result<(), BlobFetchError>>>;
type Removal = Shared<BoxFuture<'static, ()>>;

/// A TaskManager's cache of blobs (programs and files by content hash), as local files that were fetched from the JobManager's
/// BlobServer. The TaskExecutor sets the server, holds leases on the programs of its jobs, and sweeps; the keeper of program hosts
/// fetches. In an embedded cluster it reads the BlobServer's own store instead ([`BlobCache::of_server`]). Clones share it and are cheap.
#[derive(Clone, derive_more::Debug)]
#[debug("BlobCache({})", self.0.store.location())]
pub struct BlobCache(Arc<Inner>);

struct Inner {
    platform: Platform,
    store: Arc<dyn BlobStore>,
    settings: CacheSettings,
    /// `None` if the store is the server's own: nothing is ever fetched or cleaned up here.
    rpc: Option<RpcService>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    server: Option<(EndpointAddress, ProcessSession)>,
    fetching: BTreeMap<BlobKey, Fetch>,
    uses: BTreeMap<BlobKey, Use>,
    /// Blobs that are being removed. A caller that needs one of them waits for the removal, then fetches the blob anew.
    leaving: BTreeMap<BlobKey, Removal>,
    sweeping: bool,
}

#[derive(Clone, Copy)]
struct Use {
    leases: usize,
    /// Time when the last lease ended, monotonic.
    unused_since: Duration,
}

/// A claim on a blob in a [`BlobCache`]: the cache keeps the blob while this value lives. When the last lease of a
/// transient blob is dropped, the blob is removed in the background; a permanent one then stays until the first sweep after
/// `CacheSettings::cleanup_interval`, or until one at which the cache is too large. In the server's own cache a lease has no effect.
#[derive(Debug)]
pub struct BlobLease {
    cache: BlobCache,
    key: BlobKey,
}

impl Drop for BlobLease {
    fn drop(&mut self) {
        self.cache.release(&self.key);
    }
}

impl BlobCache {
    /// Returns a cache that fetches from a BlobServer by `rpc` into `store`, a local store of files. It fetches nothing
    /// before [`BlobCache::set_server`] was called.
    pub fn new(
        platform: Platform,
        rpc: RpcService,
        store: Arc<dyn BlobStore>,
        settings: CacheSettings,
    ) -> Self {
        Self::make(platform, Some(rpc), store, settings)
    }

    /// Returns the cache of the BlobServer's own process, which reads the server's store: it never fetches, and never
    /// removes a blob. [`BlobCache::fetch`] of a blob that the store does not have returns [`BlobFetchError::Failed`]. The TaskManager of
    /// an embedded cluster has such a cache.
    pub fn of_server(platform: Platform, store: Arc<dyn BlobStore>) -> Self {
        let settings =
            CacheSettings { tries: 1, cleanup_interval: Duration::MAX, bytes_max: u64::MAX };
        Self::make(platform, None, store, settings)
    }

    fn make(
        platform: Platform,
        rpc: Option<RpcService>,
        store: Arc<dyn BlobStore>,
        settings: CacheSettings,
    ) -> Self {
        Self(Arc::new(Inner { platform, store, settings, rpc, state: Mutex::default() }))
    }

    /// Sets the BlobServer from which blobs are fetched from now on: its address, and its process's session, which
    /// calls name. A fetch that is under way uses the former server until its next try. Blobs that are in the cache stay. Called by
    /// the TaskExecutor when a ResourceManager has accepted its registration.
    pub fn set_server(&self, address: EndpointAddress, session: ProcessSession) {
        self.lock().server = Some((address, session));
    }

    /// Returns the path of the blob's file, readable and executable, with checked content. Fetches the blob first if it
    /// is not in the cache, with up to `CacheSettings::tries` tries and pauses of 200 ms times their number; callers of the same blob
    /// share one fetch, which goes on if a caller drops the future. If the blob is just being removed, waits for that first. The fetch
    /// as a whole has no time limit. The file may be removed again unless a lease is held.
    ///
    /// # Errors
    /// Returns a [`BlobFetchError`] after the last try, at once if no server is known or another try cannot help;
    /// [`BlobFetchError::is_gone`] is true if a later call will not help either.
    pub async fn fetch(&self, key: &BlobKey) -> Result<PathBuf, BlobFetchError> {
        let leaving = self.lock().leaving.get(key).cloned();
        if let Some(leaving) = leaving {
            leaving.await;
        }
        match self.0.store.path(key).await {
            Ok(path) => return path.ok_or(BlobFetchError::NoFiles),
            Err(BlobStoreError::NotFound(_) | BlobStoreError::WrongHash { .. }) => {}
            Err(error) => return Err(failed(key, error.into())),
        }
        let (fetch, begun_before) = self.joined(key);
        match fetch.await {
            // The server may have got the blob after it answered that fetch, but before this call.
            Err(error) if begun_before && error.is_gone() => self.joined(key).0.await?,
            fetched => fetched?,
        }
        let path = self.0.store.path(key).await.map_err(|error| failed(key, error.into()))?;
        path.ok_or(BlobFetchError::NoFiles)
    }

    /// Keeps a blob (fetched already, or later) in the cache until the returned lease is dropped. Fetches nothing itself, and does not
    /// stop a removal that has begun: a fetch then gets the blob anew. Each lease of a blob counts.
    pub fn lease(&self, key: &BlobKey) -> BlobLease {
        let unused_since = self.0.platform.now();
        let mut state = self.lock();
        state.uses.entry(*key).or_insert(Use { leases: 0, unused_since }).leases += 1;
        BlobLease { cache: self.clone(), key: *key }
    }

    /// Begins to remove blobs without a lease that are transient, have had none for the cleanup interval or exceed the size limit, those
    /// first that have had none for longest; a fetch alone does not count. Blobs that are being fetched stay. The TaskExecutor calls this
    /// at intervals. Does nothing while an earlier sweep is running, or in the server's own cache. The returned future is ready at the end
    /// of the sweep; dropping it does not stop the sweep. Failures are only logged.
    pub fn sweep(&self) -> BoxFuture<'static, ()> {
        let busy = self.0.rpc.is_none() || std::mem::replace(&mut self.lock().sweeping, true);
        if busy {
            return futures::future::ready(()).boxed();
        }
        let cache = self.clone();
        let swept = self.0.platform.lane(Lane::Blob).run(move || async move {
            match cache.0.store.keys().await {
                // All blobs to remove are marked before the first one is removed.
                Ok(keys) => futures::future::join_all(cache.remove_unused(&keys)).await,
                Err(error) => {
                    tracing::warn!(%error, "the blob cache can't be listed");
                    Vec::new()
                }
            };
            cache.lock().sweeping = false;
        });
        // An error means that the lane has ended.
        swept.map(drop).boxed()
    }

    fn remove_unused(&self, keys: &[BlobKey]) -> Vec<Removal> {
        let now = self.0.platform.now();
        let mut bytes: u64 = keys.iter().map(|key| key.size).sum();
        let mut state = self.lock();
        let listed: BTreeSet<BlobKey> = keys.iter().copied().collect();
        state.uses.retain(|key, u| u.leases > 0 || listed.contains(key));
        let mut unused = Vec::new();
        for key in keys {
            if state.fetching.contains_key(key) || state.leaving.contains_key(key) {
                continue;
            }
            let new = Use { leases: 0, unused_since: now };
            let used = state.uses.entry(*key).or_insert(new);
            if used.leases == 0 {
                unused.push((used.unused_since, *key));
            }
        }
        unused.sort();
        let mut removals = Vec::new();
        for (since, key) in unused {
            let old = now.saturating_sub(since) >= self.0.settings.cleanup_interval;
            if old || bytes > self.0.settings.bytes_max || key.kind == BlobKind::Transient {
                removals.push(self.remove(&mut state, &key));
                bytes = bytes.saturating_sub(key.size);
            }
        }
        removals
    }

    fn release(&self, key: &BlobKey) {
        let mut state = self.lock();
        let Some(used) = state.uses.get_mut(key) else { return };
        used.leases = used.leases.saturating_sub(1);
        used.unused_since = self.0.platform.now();
        if used.leases == 0 && key.kind == BlobKind::Transient && self.0.rpc.is_some() {
            drop(self.remove(&mut state, key));
        }
    }

    /// Removes a blob in the background. From now on no caller can use the blob.
    fn remove(&self, state: &mut State, key: &BlobKey) -> Removal {
        state.uses.remove(key);
        let (cache, key) = (self.clone(), *key);
        let removed = self.0.platform.lane(Lane::Blob).run(move || async move {
            if let Err(error) = cache.0.store.remove(&key).await {
                tracing::warn!(%error, hash = %key.hash, "a blob can't be removed from the cache");
            }
            cache.lock().leaving.remove(&key);
        });
        // An error means that the lane has ended.
        let removal = removed.map(drop).boxed().shared();
        state.leaving.insert(key, removal.clone());
        removal
    }

    /// Returns the running fetch of this blob and true, or begins one and returns false with it. A fetch runs on the blob
    /// lane, and to its end even if nobody waits for it any more; its result is only for those who joined it.
    fn joined(&self, key: &BlobKey) -> (Fetch, bool) {
        let mut state = self.lock();
        if let Some(fetch) = state.fetching.get(key) {
            return (fetch.clone(), true);
        }
        let cache = self.clone();
        let of = *key;
        let run = self.0.platform.lane(Lane::Blob).run(move || async move {
            let downloaded = cache.download(&of).await;
            cache.lock().fetching.remove(&of);
            downloaded
        });
        let fetch =
            run.map(|done| done.unwrap_or(Err(BlobFetchError::ShuttingDown))).boxed().shared();
        state.fetching.insert(*key, fetch.clone());
        (fetch, false)
    }

    async fn download(&self, key: &BlobKey) -> Result<(), BlobFetchError> {
        let mut tries = 0;
        loop {
            let error = match self.download_once(key).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            tries += 1;
            let again = match &error {
                BlobFetchError::Failed { cause, .. } => cause.is_retriable(),
                _ => false,
            };
            if !again || tries >= self.0.settings.tries {
                return Err(error);
            }
            tracing::debug!(%error, tries, "fetching a blob failed, once more");
            tokio::time::sleep(RETRY_PAUSE.saturating_mul(tries)).await;
        }
    }

    async fn download_once(&self, key: &BlobKey) -> Result<(), BlobFetchError> {
        let rpc = match &self.0.rpc {
            Some(rpc) => rpc,
            None => return Err(failed(key, BlobStoreError::NotFound(key.hash).into())),
        };
        let server = self.lock().server.clone();
        let (address, session) = server.ok_or(BlobFetchError::NoServer)?;
        let client = BlobClient::new(rpc.gateway::<BlobServerGateway>(&address, session));
        let fetched = client.fetch(key, &*self.0.store).await;
        fetched.map_err(|cause| failed(key, cause))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one step: the state is whole even if a holder panicked.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what to do about the cause of a failed fetch, to be appended to it; empty if the cause says it.
fn remedy(cause: &BlobClientError) -> &'static str {
    match cause {
        BlobClientError::Local(BlobStoreError::Store(StoreError::DiskFull { .. })) => {
            "; free space there, or name a folder with more of it in io.tmp.dirs"
        }
        _ => "",
    }
}

fn failed(key: &BlobKey, cause: BlobClientError) -> BlobFetchError {
    BlobFetchError::Failed { hash: key.hash, cause }
}
