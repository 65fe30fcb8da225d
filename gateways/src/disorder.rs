//! Lets the simulation deliver calls late wherever the fabric promises no order, so that one call overtakes another.
//! Without a [`Disorder`] in a process's options this costs one comparison per call.
//!
//! This module must never reorder what the fabric keeps in order: calls from one process to one endpoint of this
//! process, and calls of one connection to one endpoint.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Decides in a simulation how late calls and answers arrive, so that one call overtakes another where the fabric
/// promises no order. Set as `RpcOptions::disorder` of each process. The fabric calls `hold` before it delivers a call or an answer, and
/// `overtaken` when a held call is delivered after a later one. Implemented by the simulation only.
pub trait Disorder: Send + Sync + fmt::Debug {
    /// Draws the time for which the next call or answer is held back; mostly zero. Called once for each call that reaches an endpoint,
    /// also from inside the process, and once for each answer of another process. Calls on one connection
    /// to one endpoint keep their order.
    fn hold(&self) -> Duration;
    /// Called when a call to `endpoint` was overtaken: it is delivered after a call, to another endpoint, that arrived
    /// later.
    fn overtaken(&self, endpoint: &str);
}

/// The calls between two sides that are held back. There is one line per endpoint, first come, first served.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    by_endpoint: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    came: AtomicU64,
    /// The highest number of a delivered call; calls are numbered in the order of their arrival.
    delivered: AtomicU64,
}

impl Lines {
    /// Waits for the call's turn. The caller must deliver the call before it waits for anything else; calls to one
    /// endpoint that begin to wait one after the other are then delivered in that order.
    pub(crate) async fn pass(&self, disorder: &dyn Disorder, endpoint: &str) {
        let number = self.came.fetch_add(1, Ordering::Relaxed);
        // The time is drawn before the call waits in line, so one late call does not add its delay to all that follow
        // it.
        let due = Instant::now() + disorder.hold();
        let line = {
            let mut lines = self.by_endpoint.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(lines.entry(endpoint.to_owned()).or_default())
        };
        // The lock is fair: callers get it in the order in which they asked for it.
        let turn = line.lock().await;
        if due > Instant::now() {
            tokio::time::sleep_until(due).await;
        }
        if self.delivered.fetch_max(number, Ordering::Relaxed) > number {
            disorder.overtaken(endpoint);
        }
        drop(turn);
    }
}

/// Holds an answer back. Answers have no promised order among each other or with calls.
pub(crate) async fn hold(disorder: &dyn Disorder) {
    let hold = disorder.hold();
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use std::sync::atomic::AtomicUsize;

    /// Holds calls back by the given times, the last one first.
    #[derive(Debug)]
    struct Holds {
        millis: Mutex<Vec<u64>>,
        overtaken: AtomicUsize,
    }

    impl Disorder for Holds {
        fn hold(&self) -> Duration {
            let mut millis = self.millis.lock().unwrap_or_else(PoisonError::into_inner);
            Duration::from_millis(millis.pop().unwrap_or(0))
        }
        fn overtaken(&self, _: &str) {
            self.overtaken.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_overtake_each_other_on_the_way_to_different_endpoints_only() {
        let holds = Holds { millis: Mutex::new(vec![5, 0, 50]), overtaken: AtomicUsize::new(0) };
        let lines = Lines::default();
        let order = Mutex::new(Vec::new());
        let call = |name: &'static str, endpoint: &'static str| {
            let (lines, order, holds) = (&lines, &order, &holds);
            async move {
                lines.pass(holds, endpoint).await;
                order.lock().unwrap_or_else(PoisonError::into_inner).push(name);
            }
        };
        join_all([call("first", "a"), call("second", "b"), call("third", "a")]).await;
        let order = order.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(order, ["second", "first", "third"]);
        assert_eq!(holds.overtaken.load(Ordering::Relaxed), 1);
    }
}
