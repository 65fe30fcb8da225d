//! The BlobServer's removals: blobs that nothing keeps any more are removed in the background, one batch at a time.
//!
//! The actor decides what to remove, and the store then takes its time. Meanwhile the BlobServer must never answer that
//! such a blob is here: a call about it waits until its removal has ended, and a blob that a pending call is about to
//! name is not removed. Example: a HasBlob for program P arrives while P's file is being deleted in a directory that
//! hangs. An immediate answer would be "here", and the job that comes with P would not find it. The call is therefore
//! answered "not here" once the directory works again.

use super::{BlobServer, BlobsInUse};
use actix::{ActorFutureExt as _, AsyncContext as _, Context, Handler, WrapFuture as _};
use futures::FutureExt as _;
use futures::future::Shared;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use platform::Platform;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use storage::blobs::BlobStore;
use tokio::sync::oneshot;

/// Maximum number of expired blobs in one batch. A call may have to wait for a whole batch.
const BATCH_MAX: usize = 64;

/// The job and content hash by which callers name a blob.
pub(super) type Name = (Option<JobId>, ContentHash);

/// Resolves when a batch has ended, with an error if the BlobServer has ended first.
pub(super) type BatchEnd = Shared<oneshot::Receiver<()>>;

/// Waits for the end of a batch; returns at once for `None`.
pub(super) async fn after(batch: Option<BatchEnd>) {
    if let Some(batch) = batch {
        // The batch has ended in either case.
        let _ = batch.await;
    }
}

/// The removals that are running and those to come.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// Blobs that pending calls are about to report as present, with the number of these calls.
    relied_on: BTreeMap<Name, usize>,
    /// Blobs that had expired when the store was last listed.
    due: VecDeque<BlobKey>,
    listing: bool,
    batch: Option<Batch>,
}

/// The batch that is being removed.
#[derive(Debug)]
struct Batch {
    names: BTreeSet<Name>,
    end: BatchEnd,
    /// Dropped with the batch, which wakes those that wait for its end.
    _ends: oneshot::Sender<()>,
}

impl Removals {
    /// Protects the blob of this name from removal until [`BlobServer::let_go`]. If the blob is being removed already,
    /// returns the end of that batch; the caller must wait for it before it asks the store.
    pub(super) fn rely_on(&mut self, name: Name) -> Option<BatchEnd> {
        *self.relied_on.entry(name).or_default() += 1;
        self.batch
            .as_ref()
            .filter(|batch| batch.names.contains(&name))
            .map(|batch| batch.end.clone())
    }

    fn let_go(&mut self, name: Name) {
        if let Some(calls) = self.relied_on.get_mut(&name) {
            *calls = calls.saturating_sub(1);
            if *calls == 0 {
                self.relied_on.remove(&name);
            }
        }
    }

    fn begin(&mut self, names: BTreeSet<Name>) {
        let (ends, end) = oneshot::channel();
        self.batch = Some(Batch { names, end: end.shared(), _ends: ends });
    }
}

impl BlobServer {
    /// Drops abandoned uploads and removes the blobs that nothing keeps. Does not list the store again while an earlier
    /// listing is unanswered.
    pub(super) fn sweep(&mut self, ctx: &mut Context<Self>) {
        self.uploads.drop_abandoned(self.platform.now());
        self.remove_next(ctx);
        if std::mem::replace(&mut self.removals.listing, true) {
            return;
        }
        let known: BTreeSet<BlobKey> = self.leaving.keys().copied().collect();
        let listed = self.store.keys().into_actor(self).map(move |keys, server, ctx| {
            server.removals.listing = false;
            match keys {
                Ok(keys) => server.listed(keys.into_iter().collect(), &known),
                Err(error) => tracing::warn!(%error, "blobs can't be listed"),
            }
            let now = server.platform.now();
            let due = server.leaving.iter().filter(|(_, at)| now >= **at);
            server.removals.due = due.map(|(key, _)| *key).collect();
            server.remove_next(ctx);
        });
        ctx.spawn(listed);
    }

    /// Updates the expiring blobs from a listing of the store. `known` are those that were expiring when the listing
    /// began: a blob that was added later may exist although it is not listed.
    fn listed(&mut self, keys: BTreeSet<BlobKey>, known: &BTreeSet<BlobKey>) {
        let now = self.platform.now();
        self.leaving.retain(|key, _| {
            (keys.contains(key) || !known.contains(key)) && !self.in_use.keeps(key, now)
        });
        for key in keys.into_iter().filter(|key| !self.in_use.keeps(key, now)) {
            // This includes blobs of an earlier process, whose time starts when they are first seen.
            let until = self.until(&key);
            self.leaving.entry(key).or_insert(until);
        }
    }

    /// Ends the protection of a blob: the call that relied on it has been answered.
    pub(super) fn let_go(&mut self, name: Name, ctx: &mut Context<Self>) {
        self.removals.let_go(name);
        self.remove_next(ctx);
    }

    /// Begins to remove the released programs and some of the expired blobs. Does nothing while a batch is running; the
    /// next batch follows it.
    fn remove_next(&mut self, ctx: &mut Context<Self>) {
        if self.removals.batch.is_some() {
            return;
        }
        let now = self.platform.now();
        let Removals { relied_on, due, .. } = &mut self.removals;
        let released =
            self.in_use.take_released(now, |hash| relied_on.contains_key(&(None, *hash)));
        let mut late = Vec::new();
        while late.len() < BATCH_MAX
            && let Some(key) = due.pop_front()
        {
            // A job or a call may have come to need the blob after the store was listed.
            let wanted = self.leaving.get(&key).is_none_or(|at| now < *at);
            let relied_on = relied_on.contains_key(&(key.job, key.hash));
            if !wanted && !relied_on && !self.in_use.keeps(&key, now) {
                late.push(key);
            }
        }
        if released.is_empty() && late.is_empty() {
            return;
        }
        let of_late = late.iter().map(|key| (key.job, key.hash));
        self.removals.begin(released.iter().map(|hash| (None, *hash)).chain(of_late).collect());
        let remover = Remover {
            platform: self.platform.clone(),
            store: Arc::clone(&self.store),
            in_use: self.in_use.clone(),
        };
        let removed = remover.remove(released, late).into_actor(self).map(|gone, server, ctx| {
            for key in gone {
                server.leaving.remove(&key);
            }
            server.removals.batch = None;
            server.remove_next(ctx);
        });
        ctx.spawn(removed);
    }
}

/// Removes a batch outside the actor.
struct Remover {
    platform: Platform,
    store: Arc<dyn BlobStore>,
    in_use: BlobsInUse,
}

impl Remover {
    /// Removes programs and other blobs. Returns those that do not exist any more.
    async fn remove(self, programs: Vec<ContentHash>, mut keys: Vec<BlobKey>) -> Vec<BlobKey> {
        for hash in programs {
            match self.store.stored(hash).await {
                Ok(key) => keys.extend(key.filter(|key| key.kind == BlobKind::Permanent)),
                Err(error) => tracing::warn!(%error, %hash, "blob can't be removed"),
            }
        }
        let mut gone = Vec::new();
        for key in keys {
            // The Dispatcher, on another lane, may need the blob since the batch was begun.
            if self.in_use.keeps(&key, self.platform.now()) {
                continue;
            }
            let removed = self.store.remove(&key);
            // A job that came before the line above relies on the copies that are there; one that comes later makes its
            // own, which this removal does not reach.
            if self.in_use.keeps(&key, self.platform.now()) {
                continue;
            }
            match removed.await {
                Ok(was_here) => {
                    if was_here && key.kind == BlobKind::Permanent {
                        tracing::info!(hash = %key.hash, bytes = key.size, "a blob that nothing needs is removed");
                    }
                    gone.push(key);
                }
                Err(error) => tracing::warn!(%error, hash = %key.hash, "blob can't be removed"),
            }
        }
        gone
    }
}

/// Begins a removal if something was released. Returns the end of the running batch; `None` if nothing is left to
/// remove.
#[derive(actix::Message)]
#[rtype(result = "Option<BatchEnd>")]
pub(super) struct DropReleased;

impl Handler<DropReleased> for BlobServer {
    type Result = Option<BatchEnd>;

    fn handle(&mut self, _: DropReleased, ctx: &mut Self::Context) -> Option<BatchEnd> {
        self.remove_next(ctx);
        self.removals.batch.as_ref().map(|batch| batch.end.clone())
    }
}

/// Waits at most `within` until the BlobServer has removed everything that was released.
pub(super) async fn removed(server: &actix::Addr<BlobServer>, within: Duration) {
    let removed = async {
        // An error means that the BlobServer has ended, so nothing is left to wait for.
        while let Ok(Some(batch)) = server.send(DropReleased).await {
            after(Some(batch)).await;
        }
    };
    if tokio::time::timeout(within, removed).await.is_err() {
        tracing::warn!(
            ?within,
            "the blob store did not remove the uploaded programs in time: they stay"
        );
    }
}
