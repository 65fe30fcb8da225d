//! Work that blocks, such as that of a disk, on tokio's blocking threads.
//!
//! This module must never run work on the thread that polls the future: that thread may be a lane's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;
use tokio::sync::oneshot;

/// The reason why [`blocking`] returns no value of its work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotDone {
    /// There is no thread for the work, which did not run: the system gives this process no further one and no blocking thread
    /// exists yet that could take the work later. Returned also to a caller outside of a tokio runtime.
    #[error("the system gives this process no thread for it (ulimit -u)")]
    NoThread,
    /// The work panicked, or the runtime ended before the work began; the text says which of the two.
    #[error("{0}")]
    Ended(String),
}

impl From<NotDone> for std::io::Error {
    fn from(why: NotDone) -> Self {
        Self::other(why)
    }
}

/// Runs `work` on one of tokio's blocking threads and waits for its value, without a limit of time; while all threads that the runtime
/// may have (512 unless it was built with another number) are busy, `work` waits for one. `work` is handed over when the future is first
/// polled; dropping the future after that neither recalls nor ends `work`.
///
/// # Errors
/// Returns [`NotDone::NoThread`] if `work` was not run because there is no thread for it, [`NotDone::Ended`] if it panicked or the
/// runtime ended first.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotDone> {
    let (done, value) = oneshot::channel();
    // The asker may have gone; its value then goes too.
    run(Box::new(move || _ = done.send(work()))).await?;
    value.await.map_err(|error| NotDone::Ended(error.to_string()))
}

/// The part that is the same for all types, so that it is compiled once.
async fn run(work: Box<dyn FnOnce() + Send>) -> Result<(), NotDone> {
    // If the system gives no thread, tokio panics here, on the caller's own.
    let queued = catch_unwind(AssertUnwindSafe(|| tokio::task::spawn_blocking(work)));
    let done = queued.map_err(|_| NotDone::NoThread)?;
    done.await.map_err(|error| NotDone::Ended(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_on_another_thread_and_its_panic_is_an_error() {
        let here = std::thread::current().id();
        let there = blocking(|| std::thread::current().id()).await;
        assert!(there.is_ok_and(|there| there != here));
        let panicked = blocking(|| panic!("the disk is gone")).await;
        assert!(matches!(&panicked, Err(NotDone::Ended(why)) if why.contains("disk is gone")));
        assert_eq!(std::io::Error::from(NotDone::NoThread).kind(), std::io::ErrorKind::Other);
    }
}
