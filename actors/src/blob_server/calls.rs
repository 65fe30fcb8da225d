//! The handlers of the BlobServer's calls. Each call waits for the store in a future of its own.

use super::BlobServer;
use super::removals::after;
use super::uploads::Closed;
use actix::{ActorFutureExt as _, Context, Handler, ResponseActFuture, WrapFuture as _, fut};
use gateways::Ask;
use gateways::blob_server::{
    BlobError, CHUNK_BYTES_MAX, CloseUpload, DeleteJobBlobs, HasBlob, OpenUpload, ReadBlob,
    UploadChunk, UploadId,
};
use model::{BlobKey, BlobKind, ContentHash, JobId};
use serde_bytes::ByteBuf;
use std::sync::Arc;
use std::time::Duration;
use storage::blobs::{BlobStore, BlobStoreError, BlobWriter};
use storage::objects::StoreError;

/// Time for which a transient blob is kept after it was read to its end, for a reader whose last answer was lost.
const FETCHED_KEPT: Duration = Duration::from_secs(60);
/// Maximum number of calls that wait for the store, besides uploads, which have their own limit.
const WAITING_MAX: usize = gateways::MAILBOX_CAPACITY;

type Reply<T> = ResponseActFuture<BlobServer, Result<T, BlobError>>;

fn at_once<T: 'static>(answer: Result<T, BlobError>) -> Reply<T> {
    Box::pin(fut::ready(answer))
}

impl BlobServer {
    fn is_busy(&self) -> bool {
        self.waiting >= WAITING_MAX
    }

    /// Counts the call as waiting until the store has finished `work`, then passes the result to `then` in the actor.
    fn wait<T: 'static, R: 'static>(
        &mut self,
        work: impl Future<Output = Result<T, BlobStoreError>> + 'static,
        then: impl FnOnce(&mut Self, Result<T, BlobError>, &mut Context<Self>) -> Result<R, BlobError>
        + 'static,
    ) -> Reply<R> {
        self.waiting = self.waiting.saturating_add(1);
        Box::pin(work.into_actor(self).map(move |done, server, ctx| {
            server.waiting = server.waiting.saturating_sub(1);
            let done = done.map_err(wire_error);
            then(server, done, ctx)
        }))
    }

    /// Returns the writer to an open upload, or ends the upload if writing failed.
    fn resume(
        &mut self,
        id: UploadId,
        written: Result<Box<dyn BlobWriter>, BlobError>,
        size: u64,
    ) -> Result<(), BlobError> {
        match written {
            Ok(writer) => {
                self.uploads.resume(self.platform.now(), id, writer, size);
                Ok(())
            }
            Err(error) => {
                self.uploads.remove(id);
                Err(error)
            }
        }
    }
}

impl Handler<Ask<OpenUpload>> for BlobServer {
    type Result = Reply<UploadId>;

    fn handle(&mut self, ask: Ask<OpenUpload>, _: &mut Self::Context) -> Reply<UploadId> {
        let now = self.platform.now();
        self.uploads.drop_abandoned(now);
        // The id is random, so that a chunk cannot get into another sender's upload by mistake.
        let id = UploadId(self.platform.random_u64());
        if let Err(busy) = self.uploads.open(now, id, ask.body.job, ask.body.kind) {
            return at_once(Err(busy));
        }
        let begun = self.store.begin();
        self.wait(begun, move |server, begun, _| server.resume(id, begun, 0).map(|()| id))
    }
}

impl Handler<Ask<UploadChunk>> for BlobServer {
    type Result = Reply<()>;

    fn handle(&mut self, ask: Ask<UploadChunk>, _: &mut Self::Context) -> Reply<()> {
        let UploadChunk { upload, offset, bytes } = ask.body;
        if bytes.len() > CHUNK_BYTES_MAX {
            return at_once(Err(BlobError::BadChunk));
        }
        self.uploads.drop_abandoned(self.platform.now());
        let size = bytes.len() as u64;
        let writer = match self.uploads.take_writer(upload, offset, size) {
            Ok(Some(writer)) => writer,
            Ok(None) => return at_once(Ok(())),
            Err(refused) => return at_once(Err(refused)),
        };
        let written = writer.append(bytes.into());
        self.wait(written, move |server, written, _| server.resume(upload, written, size))
    }
}

impl Handler<Ask<CloseUpload>> for BlobServer {
    type Result = Reply<BlobKey>;

    fn handle(&mut self, ask: Ask<CloseUpload>, _: &mut Self::Context) -> Reply<BlobKey> {
        let CloseUpload { upload, hash } = ask.body;
        let Closed { job, kind, writer } = match self.uploads.close(upload) {
            Ok(closed) => closed,
            Err(refused) => return at_once(Err(refused)),
        };
        let removed = self.removals.rely_on((job, hash));
        let finished = async move {
            after(removed).await;
            writer.finish(job, kind, hash).await
        };
        self.wait(finished, move |server, finished, ctx| {
            server.uploads.remove(upload);
            if let Ok(key) = &finished {
                let until = server.until(key);
                server.leaving.insert(*key, until);
                server.expect(key);
            }
            server.let_go((job, hash), ctx);
            finished
        })
    }
}

impl Handler<Ask<HasBlob>> for BlobServer {
    type Result = Reply<Option<BlobKey>>;

    fn handle(&mut self, ask: Ask<HasBlob>, _: &mut Self::Context) -> Reply<Option<BlobKey>> {
        if self.is_busy() {
            return at_once(Err(BlobError::Busy));
        }
        let HasBlob { job, hash } = ask.body;
        let removed = self.removals.rely_on((job, hash));
        let store = Arc::clone(&self.store);
        let found = async move {
            after(removed).await;
            whole(&*store, job, hash).await
        };
        self.wait(found, move |server, found, ctx| {
            if let Ok(Some(key)) = &found {
                server.wanted(key);
                server.expect(key);
            }
            server.let_go((job, hash), ctx);
            found
        })
    }
}

/// Finds a blob and verifies it, because the caller is about to rely on it. Returns `None` if the blob is missing or
/// damaged.
async fn whole(
    store: &dyn BlobStore,
    job: Option<JobId>,
    hash: ContentHash,
) -> Result<Option<BlobKey>, BlobStoreError> {
    let Some(key) = store.find(job, hash).await? else { return Ok(None) };
    match store.path(&key).await {
        Ok(_) => Ok(Some(key)),
        Err(BlobStoreError::NotFound(_) | BlobStoreError::WrongHash { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Handler<Ask<ReadBlob>> for BlobServer {
    type Result = Reply<ByteBuf>;

    fn handle(&mut self, ask: Ask<ReadBlob>, _: &mut Self::Context) -> Reply<ByteBuf> {
        if self.is_busy() {
            return at_once(Err(BlobError::Busy));
        }
        let ReadBlob { key, offset, max } = ask.body;
        let max = usize::try_from(max).unwrap_or(usize::MAX).min(CHUNK_BYTES_MAX);
        let read = self.store.read(&key, offset, max);
        self.wait(read, move |server, read, _| {
            let bytes = read?;
            server.wanted(&key);
            let end = offset.saturating_add(bytes.len() as u64) >= key.size;
            if end
                && key.kind == BlobKind::Transient
                && let Some(until) = server.leaving.get_mut(&key)
            {
                let kept = FETCHED_KEPT.min(server.cleanup_interval);
                *until = server.platform.now().saturating_add(kept);
            }
            Ok(ByteBuf::from(bytes))
        })
    }
}

impl Handler<Ask<DeleteJobBlobs>> for BlobServer {
    type Result = Reply<()>;

    fn handle(&mut self, ask: Ask<DeleteJobBlobs>, _: &mut Self::Context) -> Reply<()> {
        if self.is_busy() {
            return at_once(Err(BlobError::Busy));
        }
        let job = ask.body.job;
        self.leaving.retain(|key, _| key.job != Some(job));
        let removed = self.store.remove_job(job);
        self.wait(removed, |_, removed, _| removed)
    }
}

/// Translates a store error into the error that the caller gets.
fn wire_error(error: BlobStoreError) -> BlobError {
    match error {
        BlobStoreError::NotFound(hash) => BlobError::NotFound(hash.to_string()),
        BlobStoreError::WrongHash { expected, actual } => BlobError::WrongHash { expected, actual },
        BlobStoreError::Store(StoreError::DiskFull { path: dir }) => {
            tracing::error!(dir, "the disk of the blob store is full");
            BlobError::DiskFull { dir }
        }
        BlobStoreError::Store(other) => BlobError::Io(other.to_string()),
    }
}
