//! A store that is slow, hangs or fails on demand, around any other store: for tests and simulations.
//!
//! A call that hangs takes effect when the store goes on, however late that is, as a write does whose process
//! or file system was stopped in the middle.

use super::{ObjectStore, PutNew, StoreError, StoreFuture};
use bytes::Bytes;
use futures::future::BoxFuture;
use platform::watch;
use std::{sync::Arc, time::Duration};

/// The behaviour of a [`FaultyObjects`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    /// Calls go through.
    #[default]
    None,
    /// Each call takes so much longer.
    Slow(Duration),
    /// Calls wait until the fault has changed, then take effect.
    Hang,
    /// Calls fail and change nothing.
    Fail(StoreError),
}

/// Which calls a fault concerns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Faults {
    pub(crate) reads: Fault,
    pub(crate) writes: Fault,
}

/// The faults of one store, of objects or of blobs; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct FaultSwitch(Arc<watch::Sender<Faults>>);

impl FaultSwitch {
    /// Makes a switch, for the present without a fault.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Faults::default())))
    }

    /// Sets the fault of calls that change nothing.
    pub(crate) fn set_reads(&self, fault: Fault) {
        let faults = Faults { reads: fault, ..self.0.borrow().clone() };
        self.0.send_replace(faults);
    }

    /// Sets the fault of all other calls.
    pub(crate) fn set_writes(&self, fault: Fault) {
        let faults = Faults { writes: fault, ..self.0.borrow().clone() };
        self.0.send_replace(faults);
    }

    /// Begins `work` once the fault lets the call pass.
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
            work().await
        })
    }
}

/// A store with faults; clones share them.
#[derive(Debug, Clone)]
pub struct FaultyObjects {
    inner: Arc<dyn ObjectStore>,
    faults: FaultSwitch,
}

impl FaultyObjects {
    /// Wraps a store, for the present without a fault.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, faults: FaultSwitch::new() }
    }

    /// Sets the fault of `get` and `list` from now on.
    pub fn set_reads(&self, fault: Fault) {
        self.faults.set_reads(fault);
    }

    /// Sets the fault of `put_new`, `put` and `delete` from now on.
    pub fn set_writes(&self, fault: Fault) {
        self.faults.set_writes(fault);
    }

    /// Sets the fault of every call from now on.
    pub fn set(&self, fault: Fault) {
        self.set_reads(fault.clone());
        self.set_writes(fault);
    }

    fn call<T: Send + 'static>(
        &self,
        of: fn(&Faults) -> &Fault,
        work: impl FnOnce(&dyn ObjectStore) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let inner = Arc::clone(&self.inner);
        self.faults.call(of, move || work(&*inner))
    }
}

impl ObjectStore for FaultyObjects {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        let name = name.to_owned();
        self.call(|faults| &faults.reads, move |inner| inner.get(&name))
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

    fn location(&self) -> String {
        self.inner.location()
    }
}
