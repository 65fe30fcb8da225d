//! An object store that is slow, hangs or fails on demand. It wraps any other store and is for tests and simulations
//! only.
//!
//! A call that hangs takes effect once the fault is lifted, however late that is. A write behaves the same if its
//! process or file system was stopped in the middle of it.

use super::{FolderChoice, ObjectStore, PutNew, StoreError, StoreFuture};
use bytes::Bytes;
use futures::future::BoxFuture;
use platform::watch;
use std::{sync::Arc, time::Duration};

/// The fault that the reads or the writes of a `FaultyObjects` or `FaultyBlobs` have: none (the default), a delay, no answer until another
/// fault is set, or an error. A test sets it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    /// No fault: calls reach the wrapped store at once.
    #[default]
    None,
    /// Each call waits this long, on tokio's clock, before it reaches the wrapped store. A fault that is set meanwhile does not change
    /// that.
    Slow(Duration),
    /// Calls wait until another fault is set, then do what that one says: with [`Fault::None`] they reach the wrapped store after all.
    Hang,
    /// Calls fail with this error and change nothing.
    Fail(StoreError),
}

/// The current faults of a store's reads and of its writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Faults {
    pub(crate) reads: Fault,
    pub(crate) writes: Fault,
}

/// The faults of one object or blob store; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct FaultSwitch(Arc<watch::Sender<Faults>>);

impl FaultSwitch {
    /// Returns a switch with no fault set.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Faults::default())))
    }

    /// Sets the fault of calls that only read.
    pub(crate) fn set_reads(&self, fault: Fault) {
        let faults = Faults { reads: fault, ..self.0.borrow().clone() };
        self.0.send_replace(faults);
    }

    /// Sets the fault of calls that write or delete.
    pub(crate) fn set_writes(&self, fault: Fault) {
        let faults = Faults { writes: fault, ..self.0.borrow().clone() };
        self.0.send_replace(faults);
    }

    /// Returns the number of calls that a fault is holding up now.
    pub(crate) fn waiting(&self) -> usize {
        self.0.receiver_count()
    }

    /// Waits until the fault lets the call pass, then runs `work`.
    pub(crate) fn call<T, E: From<StoreError>>(
        &self,
        of: fn(&Faults) -> &Fault,
        work: impl FnOnce() -> BoxFuture<'static, Result<T, E>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, E>> {
        let mut faults = self.0.subscribe();
        Box::pin(async move {
            loop {
                let fault = of(&faults.borrow_and_update()).clone();
                match fault {
                    Fault::None => break,
                    Fault::Slow(pause) => {
                        tokio::time::sleep(pause).await;
                        break;
                    }
                    Fault::Fail(error) => return Err(error.into()),
                    Fault::Hang if faults.changed().await.is_err() => std::future::pending().await,
                    Fault::Hang => {}
                }
            }
            drop(faults);
            work().await
        })
    }
}

/// A store for tests that wraps another store. A test sets one fault for calls that only read and one for calls that write or remove: calls
/// then wait (on tokio's clock), hang, or fail without having changed anything. Clones share the store and the faults.
#[derive(Debug)]
pub struct Faulty<S: ?Sized> {
    pub(crate) inner: Arc<S>,
    pub(crate) faults: FaultSwitch,
}

/// An object store for tests that wraps another store; reads are `get`, `get_ranges` and `list`, writes are `put_new`, `put`, `delete` and
/// `sweep`. Takes objects only whole (`begin` returns `None`).
pub type FaultyObjects = Faulty<dyn ObjectStore>;

impl<S: ?Sized> Clone for Faulty<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), faults: self.faults.clone() }
    }
}

impl<S: ?Sized + Send + Sync + 'static> Faulty<S> {
    /// Wraps `inner`; no fault is set at first.
    pub fn new(inner: Arc<S>) -> Self {
        Self { inner, faults: FaultSwitch::new() }
    }

    /// Sets the fault of calls that only read, for calls from now on and for those that hang now or were made but not polled yet, which so
    /// pass, fail or go on waiting. Calls that are slow already are not affected. Returns at once.
    pub fn set_reads(&self, fault: Fault) {
        self.faults.set_reads(fault);
    }

    /// Sets the fault of calls that write or remove, for calls from now on and for those that hang now or were made but not polled yet,
    /// which so pass, fail or go on waiting. Calls that are slow already are not affected. Returns at once.
    pub fn set_writes(&self, fault: Fault) {
        self.faults.set_writes(fault);
    }

    /// Sets the same fault for reads and writes, for calls from now on and for those that hang now or were made but not polled yet, which
    /// so pass, fail or go on waiting. Calls that are slow already are not affected.
    pub fn set(&self, fault: Fault) {
        self.set_reads(fault.clone());
        self.set_writes(fault);
    }

    /// Returns the number of calls that wait now because of [`Fault::Slow`] or [`Fault::Hang`], reads and writes together; calls whose
    /// future exists but was not polled yet count too. A call whose future was dropped does not.
    pub fn waiting(&self) -> usize {
        self.faults.waiting()
    }

    /// Makes a call of the wrapped store as the fault that `of` chooses lets it.
    pub(crate) fn call<T: 'static, E: From<StoreError> + 'static>(
        &self,
        of: fn(&Faults) -> &Fault,
        work: impl FnOnce(&S) -> BoxFuture<'static, Result<T, E>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, E>> {
        let inner = Arc::clone(&self.inner);
        self.faults.call(of, move || work(&*inner))
    }
}

impl ObjectStore for FaultyObjects {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        let name = name.to_owned();
        self.call(|faults| &faults.reads, move |inner| inner.get(&name))
    }

    fn get_ranges(
        &self,
        name: &str,
        ranges: Vec<std::ops::Range<u64>>,
    ) -> StoreFuture<Option<Bytes>> {
        let name = name.to_owned();
        self.call(|faults| &faults.reads, move |inner| inner.get_ranges(&name, ranges))
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
        let name = name.to_owned();
        self.call(|faults| &faults.writes, move |inner| inner.put_new(&name, bytes))
    }

    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
        let name = name.to_owned();
        self.call(|faults| &faults.writes, move |inner| inner.put(&name, bytes))
    }

    fn delete(&self, name: &str) -> StoreFuture<bool> {
        let name = name.to_owned();
        self.call(|faults| &faults.writes, move |inner| inner.delete(&name))
    }

    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
        let prefix = prefix.to_owned();
        self.call(|faults| &faults.reads, move |inner| inner.list(&prefix))
    }

    fn sweep(&self, prefix: &str, chosen: FolderChoice) -> StoreFuture<()> {
        let prefix = prefix.to_owned();
        self.call(|faults| &faults.writes, move |inner| inner.sweep(&prefix, chosen))
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}
