//! A blob store that is slow, hangs or fails on demand. It wraps any other blob store and is for tests and simulations
//! only.
//!
//! A call that hangs takes effect once the fault is lifted, as with [`FaultyObjects`](crate::objects::FaultyObjects).

use super::{BlobFuture, BlobStore, BlobWriter};
use crate::objects::faulty::{FaultSwitch, Faulty};
use bytes::Bytes;
use futures::TryFutureExt as _;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use std::path::PathBuf;

/// A blob store for tests that wraps another store; reads are `find`, `stored`, `read`, `path`, `references` and `keys`, writes are uploads
/// (`begin` and the calls of a writer), `remove` and `remove_job`. `stored` calls the wrapped store's `find`.
pub type FaultyBlobs = Faulty<dyn BlobStore>;

impl BlobStore for FaultyBlobs {
    fn begin(&self) -> BlobFuture<Box<dyn BlobWriter>> {
        let faults = self.faults.clone();
        self.call(|faults| &faults.writes, move |inner| faulty(inner.begin(), faults))
    }

    fn find(&self, job: Option<JobId>, hash: ContentHash) -> BlobFuture<Option<BlobKey>> {
        self.call(|faults| &faults.reads, move |inner| inner.find(job, hash))
    }

    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> BlobFuture<Bytes> {
        let key = *key;
        self.call(|faults| &faults.reads, move |inner| inner.read(&key, offset, max))
    }

    fn path(&self, key: &BlobKey) -> BlobFuture<Option<PathBuf>> {
        let key = *key;
        self.call(|faults| &faults.reads, move |inner| inner.path(&key))
    }

    fn references(&self, key: &BlobKey) -> BlobFuture<u64> {
        let key = *key;
        self.call(|faults| &faults.reads, move |inner| inner.references(&key))
    }

    fn remove(&self, key: &BlobKey) -> BlobFuture<bool> {
        let key = *key;
        self.call(|faults| &faults.writes, move |inner| inner.remove(&key))
    }

    fn remove_job(&self, job: JobId) -> BlobFuture<()> {
        self.call(|faults| &faults.writes, move |inner| inner.remove_job(job))
    }

    fn keys(&self) -> BlobFuture<Vec<BlobKey>> {
        self.call(|faults| &faults.reads, |inner| inner.keys())
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}

struct FaultyWriter {
    inner: Box<dyn BlobWriter>,
    faults: FaultSwitch,
}

/// Wraps the writer that `inner` resolves to, so that its calls have the same faults.
fn faulty(
    inner: BlobFuture<Box<dyn BlobWriter>>,
    faults: FaultSwitch,
) -> BlobFuture<Box<dyn BlobWriter>> {
    Box::pin(inner.map_ok(|inner| Box::new(FaultyWriter { inner, faults }) as Box<dyn BlobWriter>))
}

impl BlobWriter for FaultyWriter {
    fn append(self: Box<Self>, bytes: Bytes) -> BlobFuture<Box<dyn BlobWriter>> {
        let Self { inner, faults } = *self;
        let switch = faults.clone();
        switch.call(|faults| &faults.writes, move || faulty(inner.append(bytes), faults))
    }

    fn finish(
        self: Box<Self>,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> BlobFuture<BlobKey> {
        let Self { inner, faults } = *self;
        faults.call(|faults| &faults.writes, move || inner.finish(job, kind, expected))
    }
}
