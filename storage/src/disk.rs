//! Disk work of the file stores, on tokio's blocking threads.
//!
//! This module must never run disk work on the thread that polls the future: that thread may be a lane's.

use crate::objects::StoreError;
use futures::future::BoxFuture;
use platform::blocking;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{path::Path, sync::Arc};
use tokio::{runtime::Handle, sync::Semaphore};

/// Maximum number of calls of one store that occupy a blocking thread at a time. Eight calls keep a disk's queue busy;
/// if the directory hangs, no more than eight threads hang with it.
const CALLS_MAX: usize = 8;

/// Runs `work` on one of tokio's blocking threads without waiting for it; on this thread if it has no runtime.
pub(crate) fn in_background(work: impl FnOnce() + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        // If the system gives no thread, `work` is dropped with what it owns.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_blocking(work))));
    } else {
        work();
    }
}

/// The limit on concurrent disk calls of one store; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct DiskCalls {
    places: Arc<Semaphore>,
    /// The store's directory, for error messages.
    root: Arc<Path>,
}

impl DiskCalls {
    /// Returns a limit of [`CALLS_MAX`] concurrent calls for the store in the directory `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { places: Arc::new(Semaphore::new(CALLS_MAX)), root: root.into() }
    }

    /// Runs `work` on a blocking thread once fewer than [`CALLS_MAX`] calls are running. Dropping the future before
    /// that drops `work`; afterwards `work` runs to its end.
    pub(crate) fn run<T, E>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, E>>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (places, root) = (Arc::clone(&self.places), Arc::clone(&self.root));
        Box::pin(async move {
            let failed =
                |why: String| E::from(StoreError::Io { path: root.display().to_string(), why });
            // The semaphore is never closed, so this does not fail.
            let place = places.acquire_owned().await.map_err(|e| failed(e.to_string()))?;
            let done = blocking(move || {
                let done = work();
                drop(place);
                done
            });
            done.await.unwrap_or_else(|why| Err(failed(why.to_string())))
        })
    }
}
