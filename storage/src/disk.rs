//! Disk work of the file stores, on tokio's blocking threads.
//!
//! It must never run disk work on the thread that polls the future: that may be a lane's.

use crate::objects::StoreError;
use futures::future::BoxFuture;
use std::{path::Path, sync::Arc};
use tokio::sync::Semaphore;

/// Calls of one store that may occupy a blocking thread at a time. Enough to keep a disk's queue busy;
/// with a directory that hangs, the number of threads that hang with it.
const CALLS_MAX: usize = 8;

/// The places for the calls of one store; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct DiskCalls {
    places: Arc<Semaphore>,
    /// The store's directory, for messages.
    root: Arc<Path>,
}

impl DiskCalls {
    /// Makes the places of the store in the directory `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { places: Arc::new(Semaphore::new(CALLS_MAX)), root: root.into() }
    }

    /// Runs `work` on a blocking thread once a place is free. Dropping the future before that drops `work`;
    /// later, `work` goes on to its end.
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
            // Never closed.
            let place = places.acquire_owned().await.map_err(|e| failed(e.to_string()))?;
            let done = tokio::task::spawn_blocking(move || {
                let done = work();
                drop(place);
                done
            });
            done.await.unwrap_or_else(|e| Err(failed(e.to_string())))
        })
    }
}
