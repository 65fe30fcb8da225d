//! Freezes simulated processes: as after SIGSTOP, all lanes of the process stop while its clock goes on and its sockets
//! receive; after the thaw the process at once does everything that is due.
//!
//! The freezer must never drop or reorder anything of the process.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::task::LocalSet;

#[derive(Debug, Default)]
struct State {
    /// Number of faults that keep the host frozen.
    faults: u32,
    /// Wakes the process when the host thaws.
    waker: Option<Waker>,
}

/// Freezes and thaws the processes of a run, by host. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Freezer(Arc<Mutex<BTreeMap<String, State>>>);

impl Freezer {
    fn with<T>(&self, host: &str, f: impl FnOnce(&mut State) -> T) -> T {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f(hosts.entry(host.to_owned()).or_default())
    }

    /// Freezes a host's process, as SIGSTOP would: its tasks stand still, its clock and sockets go on. A process that starts on the host
    /// meanwhile is frozen as well. Counts: each call needs its [`Freezer::thaw`].
    pub fn freeze(&self, host: &str) {
        self.with(host, |s| s.faults += 1);
    }

    /// Undoes one [`Freezer::freeze`] of the host; the process goes on after the last one, and then does at once all that is due.
    pub fn thaw(&self, host: &str) {
        let waker = self.with(host, |s| {
            s.faults = s.faults.saturating_sub(1);
            s.waker.take()
        });
        waker.inspect(Waker::wake_by_ref);
    }

    fn is_frozen(&self, host: &str, waker: &Waker) -> bool {
        self.with(host, |s| {
            s.waker = Some(waker.clone());
            s.faults > 0
        })
    }

    /// Runs the process of a host, with all local tasks that it spawns, so that it can be frozen; these tasks end with the process.
    ///
    /// # Errors
    /// The process's task panicked.
    pub async fn run<T: 'static>(
        &self,
        host: &str,
        process: impl Future<Output = T> + 'static,
    ) -> anyhow::Result<T> {
        let mut tasks = LocalSet::new();
        let mut process = pin!(tasks.spawn_local(process));
        std::future::poll_fn(|cx: &mut Context<'_>| {
            if self.is_frozen(host, cx.waker()) {
                return Poll::Pending;
            }
            // If all tasks are done, the process has ended, which the next line finds.
            let _ = Pin::new(&mut tasks).poll(cx);
            process.as_mut().poll(cx).map(|ended| Ok(ended?))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn a_frozen_process_does_nothing_and_then_finds_that_its_clock_went_on() {
        let freezer = Freezer::default();
        let start = Instant::now();
        let outside = async {
            sleep(Duration::from_millis(15)).await;
            freezer.freeze("a");
            sleep(Duration::from_millis(500)).await;
            freezer.thaw("a");
        };
        let process = async move {
            let beats = tokio::task::spawn_local(async move {
                let mut beats = Vec::new();
                for _ in 0..3 {
                    sleep(Duration::from_millis(10)).await;
                    beats.push(start.elapsed().as_millis());
                }
                beats
            });
            beats.await.unwrap_or_default()
        };
        let (beats, ()) = tokio::join!(freezer.run("a", process), outside);
        assert_eq!(beats.unwrap_or_default(), [10, 515, 525]);
    }
}
