//! The BlobServer: takes in and gives out content-addressed bytes in chunks, and drops what nobody needs.
//!
//! It runs on the blob lane, whose thread it blocks with disk work. It must never show a blob before its
//! content was checked against its name, never keep an upload that its sender has given up, and never drop
//! what a job needs or one that is being submitted may need.

mod cache;
mod client;
mod in_use;
#[cfg(test)]
mod tests;
mod uploads;

pub use cache::{BlobCache, BlobFetchError, BlobLease, CacheSettings};
pub use client::{BlobClient, BlobClientError};
pub use in_use::{BlobsInUse, Needed};

use crate::services::{ProcessServices, Running, Stop};
use actix::{Actor, ActorContext as _, AsyncContext, Context, Handler};
use futures::StreamExt as _;
use gateways::RpcService;
use gateways::blob_server::{
    BlobError, BlobServerGateway, CHUNK_BYTES_MAX, CloseUpload, DeleteJobBlobs, HasBlob,
    OpenUpload, ReadBlob, UploadChunk, UploadId,
};
use gateways::{Answer, Ask, EndpointAddress};
use model::{BlobKey, BlobKind, ProcessSession};
use platform::{Lane, LaneEnded, Platform};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use storage::blobs::{BlobStore, BlobStoreError};
use storage::objects::StoreError;
use uploads::{Limits, Uploads};

/// The name it is served under.
pub const ENDPOINT: &str = "blob_server";

/// A transient blob that was read to its end is kept so long for a reader whose last answer was lost.
const FETCHED_KEPT: Duration = Duration::from_secs(60);
const SWEEP_INTERVAL: Duration = Duration::from_secs(20);
/// A program that was put here or asked for is kept at least so long for the job that is submitted with it.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(60);

/// A running BlobServer; it ends when this is dropped.
#[derive(Debug)]
pub struct BlobServerHandle {
    /// Its endpoint.
    pub address: EndpointAddress,
    /// Its fence.
    pub session: ProcessSession,
    store: Arc<dyn BlobStore>,
    in_use: BlobsInUse,
    running: Running<BlobServer>,
}

impl BlobServerHandle {
    /// What it serves, for components of its own process.
    pub fn store(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.store)
    }

    /// Where the Dispatcher of this process says what it needs, and the endpoint what is uploaded.
    pub fn in_use(&self) -> BlobsInUse {
        self.in_use.clone()
    }

    /// The programs that were uploaded here go with this process: those that no job needs are removed.
    pub async fn forget_uploads(&self) {
        self.in_use.set_uploaded(std::collections::BTreeSet::new());
        // It has ended, and with it what it served: nothing is left to be done.
        let _ = self.running.addr().send(DropReleased).await;
    }
}

/// Starts the BlobServer of this process.
pub async fn start(
    services: &ProcessServices,
    store: Arc<dyn BlobStore>,
) -> Result<BlobServerHandle, LaneEnded> {
    let cleanup = services.options.get(&conf::rpc::BLOB_CLEANUP_INTERVAL);
    start_with(&services.platform, &services.rpc, services.session, store, cleanup).await
}

async fn start_with(
    platform: &Platform,
    rpc: &RpcService,
    session: ProcessSession,
    store: Arc<dyn BlobStore>,
    cleanup_interval: Duration,
) -> Result<BlobServerHandle, LaneEnded> {
    let in_use = BlobsInUse::default();
    let actor = BlobServer {
        platform: platform.clone(),
        store: Arc::clone(&store),
        uploads: Uploads::new(Limits::default()),
        in_use: in_use.clone(),
        leaving: BTreeMap::new(),
        cleanup_interval,
    };
    let actor = platform.lane(Lane::Blob).run(|| async { actor.start() }).await?;
    let endpoint = BlobServerGateway::endpoint(actor.clone());
    let address = rpc.address_of(ENDPOINT);
    let registration = rpc.serve(ENDPOINT, session, endpoint);
    let running = Running::new(address.clone(), actor, registration);
    Ok(BlobServerHandle { address, session, store, in_use, running })
}

/// The actor.
#[derive(Debug)]
struct BlobServer {
    platform: Platform,
    store: Arc<dyn BlobStore>,
    uploads: Uploads,
    /// What the jobs need.
    in_use: BlobsInUse,
    /// When each blob that nothing keeps is to go: transient ones, and permanent ones that no job needs.
    leaving: BTreeMap<BlobKey, Duration>,
    cleanup_interval: Duration,
}

impl Actor for BlobServer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        ctx.run_interval(SWEEP_INTERVAL, |server, _| server.sweep());
        ctx.add_message_stream(self.in_use.changes().map(|()| DropReleased));
    }
}

impl BlobServer {
    fn sweep(&mut self) {
        let now = self.platform.now();
        self.uploads.drop_abandoned(now);
        self.drop_released();
        match self.store.keys() {
            Ok(keys) => {
                // Also those of an earlier process: their time starts when they are first seen.
                let leaving = keys.into_iter().filter(|key| !self.in_use.keeps(key, now));
                let seen: BTreeMap<_, _> = leaving
                    .map(|key| (key, self.leaving.get(&key).copied().unwrap_or(self.until(&key))))
                    .collect();
                self.leaving = seen;
            }
            Err(error) => tracing::warn!(%error, "blobs can't be listed"),
        }
        let due: Vec<BlobKey> =
            self.leaving.iter().filter(|(_, at)| now >= **at).map(|(key, _)| *key).collect();
        for key in due {
            // Said on another lane: a job may have come since the list was made.
            if !self.in_use.keeps(&key, now) {
                self.remove(&key);
            }
        }
    }

    /// Programs go with what needed them last. Whoever was told that one is here is waited for: that, too, is
    /// said by this actor, so nobody can come in between.
    fn drop_released(&mut self) {
        for hash in self.in_use.take_released(self.platform.now()) {
            let program = self.store.find(None, hash);
            if let Some(key) = program.filter(|key| key.kind == BlobKind::Permanent) {
                self.remove(&key);
            }
        }
    }

    fn remove(&mut self, key: &BlobKey) {
        match self.store.remove(key) {
            Ok(_) => {
                self.leaving.remove(key);
                if key.kind == BlobKind::Permanent {
                    tracing::info!(hash = %key.hash, bytes = key.size, "a blob that nothing needs is removed");
                }
            }
            Err(error) => tracing::warn!(%error, hash = %key.hash, "blob can't be removed"),
        }
    }

    /// Somebody relies on a blob from now on: a job is to come with it.
    fn expect(&self, key: &BlobKey) {
        if key.job.is_none() && key.kind == BlobKind::Permanent {
            let now = self.platform.now();
            self.in_use.expect(key.hash, now, now.saturating_add(SUBMITTED_WITHIN));
        }
    }

    /// When a blob goes that is wanted now and not again.
    fn until(&self, key: &BlobKey) -> Duration {
        let kept = match key.kind {
            BlobKind::Transient => self.cleanup_interval,
            // Who has put it here is about to submit the job that needs it, however short the interval is.
            BlobKind::Permanent => self.cleanup_interval.max(SUBMITTED_WITHIN),
        };
        self.platform.now().saturating_add(kept)
    }

    /// A blob is wanted now: its time starts anew.
    fn wanted(&mut self, key: &BlobKey) {
        let until = self.until(key);
        if let Some(at) = self.leaving.get_mut(key) {
            *at = until;
        }
    }
}

impl Handler<Ask<OpenUpload>> for BlobServer {
    type Result = Answer<OpenUpload>;

    fn handle(&mut self, ask: Ask<OpenUpload>, _: &mut Self::Context) -> Answer<OpenUpload> {
        let now = self.platform.now();
        self.uploads.drop_abandoned(now);
        if self.uploads.is_full() {
            return Err(BlobError::Busy);
        }
        let writer = self.store.begin().map_err(|e| wire_error(&*self.store, e))?;
        // Not guessable, so that a chunk can't get into another sender's upload by mistake.
        let id = UploadId(self.platform.random_u64());
        self.uploads.open(now, id, ask.body.job, ask.body.kind, writer);
        Ok(id)
    }
}

impl Handler<Ask<UploadChunk>> for BlobServer {
    type Result = Answer<UploadChunk>;

    fn handle(&mut self, ask: Ask<UploadChunk>, _: &mut Self::Context) -> Answer<UploadChunk> {
        let UploadChunk { upload, offset, bytes } = ask.body;
        if bytes.len() > CHUNK_BYTES_MAX {
            return Err(BlobError::BadChunk);
        }
        let now = self.platform.now();
        self.uploads.drop_abandoned(now);
        let appended = self.uploads.append(now, upload, offset, &bytes);
        appended.ok_or(BlobError::BadChunk)?.map_err(|e| wire_error(&*self.store, e))
    }
}

impl Handler<Ask<CloseUpload>> for BlobServer {
    type Result = Answer<CloseUpload>;

    fn handle(&mut self, ask: Ask<CloseUpload>, _: &mut Self::Context) -> Answer<CloseUpload> {
        let upload = self.uploads.close(ask.body.upload).ok_or(BlobError::BadChunk)?;
        let finished = upload.writer.finish(upload.job, upload.kind, ask.body.hash);
        let key = finished.map_err(|e| wire_error(&*self.store, e))?;
        let until = self.until(&key);
        self.leaving.insert(key, until);
        self.expect(&key);
        Ok(key)
    }
}

impl Handler<Ask<HasBlob>> for BlobServer {
    type Result = Answer<HasBlob>;

    fn handle(&mut self, ask: Ask<HasBlob>, _: &mut Self::Context) -> Answer<HasBlob> {
        let found = self.store.find(ask.body.job, ask.body.hash);
        // Who asks is about to rely on it: one that is damaged is not here.
        let found = found.filter(|key| self.store.path(key).is_ok());
        if let Some(key) = &found {
            self.wanted(key);
            self.expect(key);
        }
        Ok(found)
    }
}

impl Handler<Ask<ReadBlob>> for BlobServer {
    type Result = Answer<ReadBlob>;

    fn handle(&mut self, ask: Ask<ReadBlob>, _: &mut Self::Context) -> Answer<ReadBlob> {
        let ReadBlob { key, offset, max } = ask.body;
        let max = usize::try_from(max).unwrap_or(usize::MAX).min(CHUNK_BYTES_MAX);
        let read = self.store.read(&key, offset, max);
        let bytes = read.map_err(|e| wire_error(&*self.store, e))?;
        self.wanted(&key);
        let end = offset.saturating_add(bytes.len() as u64) >= key.size;
        if end
            && key.kind == BlobKind::Transient
            && let Some(until) = self.leaving.get_mut(&key)
        {
            let kept = FETCHED_KEPT.min(self.cleanup_interval);
            *until = self.platform.now().saturating_add(kept);
        }
        Ok(serde_bytes::ByteBuf::from(bytes))
    }
}

impl Handler<Ask<DeleteJobBlobs>> for BlobServer {
    type Result = Answer<DeleteJobBlobs>;

    fn handle(
        &mut self,
        ask: Ask<DeleteJobBlobs>,
        _: &mut Self::Context,
    ) -> Answer<DeleteJobBlobs> {
        let job = ask.body.job;
        self.leaving.retain(|key, _| key.job != Some(job));
        self.store.remove_job(job).map_err(|e| wire_error(&*self.store, e))
    }
}

/// What a caller is told of a store's failure.
fn wire_error(store: &dyn BlobStore, error: BlobStoreError) -> BlobError {
    match error {
        BlobStoreError::NotFound(hash) => BlobError::NotFound(hash.to_string()),
        BlobStoreError::WrongHash { expected, actual } => BlobError::WrongHash { expected, actual },
        BlobStoreError::Store(StoreError::DiskFull { .. }) => {
            let dir = store.location();
            tracing::error!(dir, "the disk of the blob store is full");
            BlobError::DiskFull { dir }
        }
        BlobStoreError::Store(other) => BlobError::Io(other.to_string()),
    }
}

/// Something may have been released.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct DropReleased;

impl Handler<DropReleased> for BlobServer {
    type Result = ();

    fn handle(&mut self, _: DropReleased, _: &mut Self::Context) {
        self.drop_released();
    }
}

impl Handler<Stop> for BlobServer {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
