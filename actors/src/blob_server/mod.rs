//! The BlobServer: receives and sends content-addressed bytes in chunks, and removes blobs that nobody needs.
//!
//! It runs on the blob lane and never waits for the store there: each call waits in a future of its own. The number of
//! waiting calls is limited, and calls beyond it are refused as busy. If the blob directory hangs, only the calls that
//! need the directory hang, until it answers again. The BlobServer must never show a blob before its content is checked
//! against its name, never keep an upload that its sender has given up, and never remove a blob that a job needs or
//! that a job under submission may need.

mod cache;
mod calls;
mod client;
mod in_use;
mod removals;
#[cfg(test)]
mod tests;
mod uploads;

pub use cache::{BlobCache, BlobFetchError, BlobLease, CacheSettings};
pub use client::{BlobClient, BlobClientError};
pub use in_use::{BlobsInUse, Needed};

use crate::services::{ProcessServices, Running, stops_at_once};
use actix::{Actor, AsyncContext, Context};
use futures::StreamExt as _;
use gateways::blob_server::BlobServerGateway;
use gateways::{EndpointAddress, RpcService};
use model::{BlobKey, BlobKind, ProcessSession};
use platform::{Lane, LaneEnded, Platform};
use removals::{DropReleased, Removals};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use storage::blobs::BlobStore;
use uploads::{Limits, Uploads};

/// The endpoint name that a JobManager's BlobServer is served under.
pub const ENDPOINT: &str = "blob_server";

const SWEEP_INTERVAL: Duration = Duration::from_secs(20);
/// Minimum time for which a program that was uploaded or asked for is kept for the job that is submitted with it.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time that a stopping process waits for the removal of the programs uploaded to it.
const FORGET_WITHIN: Duration = Duration::from_secs(2);

/// The owner's handle of a running BlobServer, which keeps programs and files by content hash. Dropping it stops the
/// server without waiting; open uploads are lost, stored blobs stay.
#[derive(Debug)]
pub struct BlobServerHandle {
    /// Address of the BlobServer's endpoint.
    pub address: EndpointAddress,
    /// Session of the BlobServer's process, which calls to the BlobServer have to name: it refuses others.
    pub session: ProcessSession,
    store: Arc<dyn BlobStore>,
    in_use: BlobsInUse,
    running: Running<BlobServer>,
}

impl BlobServerHandle {
    /// Returns the store whose blobs the server serves, so that components of the same process read them without calls.
    pub fn store(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.store)
    }

    /// Returns a handle to the record of the blobs that jobs and uploads need. The Dispatcher of this process and the
    /// REST endpoint update it. The BlobServer removes permanent blobs that it does not name, after `blob.cleanup-interval` (at least a
    /// minute), programs that it named before at once, unless a job is about to come with them; none while the needs of jobs are unknown
    /// ([`BlobsInUse::get`] returns `None`).
    pub fn in_use(&self) -> BlobsInUse {
        self.in_use.clone()
    }

    /// Records that the programs that were uploaded to this process are not needed any more, and waits at most 2 s
    /// until the store has removed those that no job needs or is about to come with; if that is not done by then, they stay, with
    /// a warning in the log. Removes nothing while the needs of jobs are unknown: no Dispatcher of this process leads, or it is still
    /// recovering jobs. Called when the process stops.
    pub async fn forget_uploads(&self) {
        self.in_use.set_uploaded(BTreeSet::new());
        removals::removed(self.running.addr(), FORGET_WITHIN).await;
    }
}

/// Starts the BlobServer of this process on the blob lane (thread of actors), and serves it as [`ENDPOINT`]. It removes
/// blobs that nobody needs from `store`: every 20 s those that have expired, and programs as soon as their last user is gone. Blobs expire
/// `blob.cleanup-interval` after their last use, or after they are first seen to be no longer needed, permanent ones not before a minute,
/// and transient ones at most a minute after they were read to the end. Blobs that an earlier process has left in the store expire from
/// when they are first seen. If the actor dies of a panic, nobody is told: calls then fail.
///
/// # Errors
/// Returns [`LaneEnded`] if the lane has ended, because the process is ending.
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
        removals: Removals::default(),
        waiting: 0,
        cleanup_interval,
    };
    let actor = platform.lane(Lane::Blob).run(|| async { actor.start() }).await?;
    let endpoint = BlobServerGateway::endpoint(actor.clone());
    let address = rpc.address_of(ENDPOINT);
    let registration = rpc.serve(ENDPOINT, session, endpoint);
    let running = Running::new(address.clone(), actor, registration);
    Ok(BlobServerHandle { address, session, store, in_use, running })
}

/// The actor that keeps the cluster's blobs.
#[derive(Debug)]
struct BlobServer {
    platform: Platform,
    store: Arc<dyn BlobStore>,
    uploads: Uploads,
    /// The record of the blobs that jobs need.
    in_use: BlobsInUse,
    /// The time at which each blob that nothing keeps expires: transient ones, and permanent ones that no job needs.
    leaving: BTreeMap<BlobKey, Duration>,
    removals: Removals,
    /// Number of calls that wait for the store.
    waiting: usize,
    cleanup_interval: Duration,
}

impl Actor for BlobServer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        ctx.run_interval(SWEEP_INTERVAL, |server, ctx| server.sweep(ctx));
        ctx.add_message_stream(self.in_use.changes().map(|()| DropReleased));
    }
}

impl BlobServer {
    /// Records that a job is about to come that relies on a blob.
    fn expect(&self, key: &BlobKey) {
        if key.job.is_none() && key.kind == BlobKind::Permanent {
            let now = self.platform.now();
            self.in_use.expect(key.hash, now, now.saturating_add(SUBMITTED_WITHIN));
        }
    }

    /// Returns the time at which a blob expires that is used now and not again.
    fn until(&self, key: &BlobKey) -> Duration {
        let kept = match key.kind {
            BlobKind::Transient => self.cleanup_interval,
            // The uploader is about to submit the job that needs the blob, even if the interval is shorter.
            BlobKind::Permanent => self.cleanup_interval.max(SUBMITTED_WITHIN),
        };
        self.platform.now().saturating_add(kept)
    }

    /// Restarts a blob's time because it is used now.
    fn wanted(&mut self, key: &BlobKey) {
        let until = self.until(key);
        if let Some(at) = self.leaving.get_mut(key) {
            *at = until;
        }
    }
}

stops_at_once!(BlobServer);
