//! Lanes: where tasks run. In production each lane is one thread with a single-threaded runtime, so that
//! heartbeats do not wait behind work; in simulation all lanes are tasks of one thread.
//!
//! Nothing on a lane may block its thread, except on the lanes of a component that says so itself.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

/// A kind of work, by which tasks are placed on threads: the control plane's actors, heartbeats, leader election, blobs, sockets. In
/// production each lane has its thread, started with its first task (`Heartbeat` and `Io` share one). All threads of a platform end, and
/// drop the tasks that are left, once every clone of the platform and every handle of its lanes is gone; a task that holds one keeps them.
/// In simulation all lanes are tasks of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// For the actors of the control plane: Dispatcher, JobMasters, ResourceManager, TaskExecutor.
    Work,
    /// Heartbeat actors only. The lane shares its thread with [`Lane::Io`], so that a beat wakes no further thread; nothing
    /// that runs there may take longer than decoding a message.
    Heartbeat,
    /// For leader election and leader retrieval, which must not wait behind other work.
    Election,
    /// For the BlobServer and the blob caches: their disk work may block the thread.
    Blob,
    /// For sockets: the tasks that read and write the RPC service's connections to other processes.
    Io,
}

const LANES: usize = 4;

impl Lane {
    fn index(self) -> usize {
        match self {
            Self::Work => 0,
            Self::Heartbeat | Self::Io => 1,
            Self::Election => 2,
            Self::Blob => 3,
        }
    }

    /// Returns the lane whose thread calls this; the thread of `Heartbeat` and `Io` gives the one of them that was used first.
    /// `None` on other threads and in simulation.
    pub fn of_this_thread() -> Option<Self> {
        HERE.get()
    }

    /// Returns true if tasks of both lanes run on one thread in production: the lanes are the same, or `Heartbeat` and `Io`.
    pub fn shares_thread_with(self, other: Self) -> bool {
        self.index() == other.index()
    }

    /// Returns the name of the lane's thread, as the system and log lines show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Work => "flott-work",
            Self::Heartbeat | Self::Io => "flott-io",
            Self::Election => "flott-elect",
            Self::Blob => "flott-blob",
        }
    }
}

thread_local! {
    static HERE: Cell<Option<Lane>> = const { Cell::new(None) };
}

/// Schedules `task` on the lane of the calling thread and returns at once. The lane runs `task` once, after each task that is ready
/// now was polled (an RPC connection then writes the messages of all of them at once), or drops it if the lane ends before. Returns `task`
/// unrun as `Err` if the calling thread belongs to no lane, as always in simulation.
pub fn after_this_turn<T: FnOnce() + 'static>(task: T) -> Result<(), T> {
    if HERE.get().is_none() {
        return Err(task);
    }
    tokio::task::spawn_local(async move {
        // Waits for the end of the turn: a task that was just started goes before those that other threads woke.
        tokio::task::yield_now().await;
        task();
    });
    Ok(())
}

type Start = Box<dyn FnOnce() + Send>;

type Queue = OnceLock<Option<Mutex<mpsc::UnboundedSender<Start>>>>;

/// All lanes of a platform.
#[derive(Clone)]
pub(crate) enum Lanes {
    Threads(Arc<[Queue; LANES]>),
    Tasks,
}

impl Lanes {
    pub(crate) fn threads() -> Self {
        Self::Threads(Default::default())
    }

    pub(crate) fn tasks() -> Self {
        Self::Tasks
    }

    pub(crate) fn handle(&self, lane: Lane) -> LaneHandle {
        LaneHandle { lanes: self.clone(), lane }
    }
}

/// The error of [`LaneHandle::run`]: the lane's thread could not be started or had ended, so the task never ran; or the task panicked; or
/// the lane's thread ended before the task did. Does not tell which; a log line does for a thread that failed to start or had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lane ended before the task did")]
pub struct LaneEnded;

/// A cheap handle on one lane, by which tasks are started there from any thread. Keeps the threads of its platform's lanes alive.
#[derive(Clone, derive_more::Debug)]
#[debug("{:?}", self.lane)]
pub struct LaneHandle {
    lanes: Lanes,
    lane: Lane,
}

impl LaneHandle {
    /// Starts a task on this lane and returns at once; nothing tells when the task ends (see [`LaneHandle::run`]). Actors
    /// may be started in the task. A panic ends this task alone. If the lane's thread could not be started or has ended, the
    /// task is dropped and only a log line says so (for a thread that could not be started, once).
    pub fn spawn_local<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_with(move || task);
    }

    /// Starts a task whose future cannot leave its thread: `make` is called once on the lane's thread and returns the
    /// future, which runs there. Returns at once; nothing tells when the task ends. A panic of the future ends this task
    /// alone, one of `make` ends the lane's thread with all its tasks. If the thread could not be started or has ended, `make`
    /// is dropped uncalled and only a log line says so. In simulation there is one thread, and `make` is called before this
    /// returns.
    pub fn spawn_with<M, F>(&self, make: M)
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        match &self.lanes {
            Lanes::Tasks => start_task(Box::pin(make())),
            Lanes::Threads(threads) => {
                let Some(slot) = threads.get(self.lane.index()) else {
                    return;
                };
                let Some(queue) = slot.get_or_init(|| start_thread(self.lane)) else {
                    return; // said when the thread failed to start
                };
                let start: Start = Box::new(move || start_task(Box::pin(make())));
                let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                if queue.send(start).is_err() {
                    tracing::error!(lane = self.lane.name(), "lane has ended; a task is dropped");
                }
            }
        }
    }

    /// Starts on this lane the future that `make` makes there; the task begins whether or not the returned future is
    /// polled. That future yields the task's value, or [`LaneEnded`] if the task was dropped or panicked (`make`, too: other tasks
    /// of the lane go on). The task runs to its end even if the returned future is dropped; its value is dropped then.
    pub fn run<M, F, T>(
        &self,
        make: M,
    ) -> Pin<Box<dyn Future<Output = Result<T, LaneEnded>> + Send>>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let (done, value) = oneshot::channel();
        self.spawn_with(move || async move {
            // The asker may have gone; its value then goes too.
            let _ = done.send(make().await);
        });
        Box::pin(async move { value.await.map_err(|_| LaneEnded) })
    }
}

/// Tasks of all kinds are of one type here: a runtime's code for each kind of task is three thousand bytes.
fn start_task(task: Pin<Box<dyn Future<Output = ()>>>) {
    tokio::task::spawn_local(task);
}

fn start_thread(lane: Lane) -> Option<Mutex<mpsc::UnboundedSender<Start>>> {
    let (queue, mut starts) = mpsc::unbounded_channel::<Start>();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(lane = lane.name(), %error, "runtime of a lane could not be made");
            return None;
        }
    };
    let run = move || {
        HERE.set(Some(lane));
        let tasks = LocalSet::new();
        tasks.block_on(&runtime, async move {
            while let Some(start) = starts.recv().await {
                start();
            }
        });
    };
    match std::thread::Builder::new().name(lane.name().to_owned()).spawn(run) {
        Ok(_) => Some(Mutex::new(queue)),
        Err(error) => {
            tracing::error!(lane = lane.name(), %error, "thread of a lane could not be started");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_production_lane_is_a_thread_of_its_own_name() {
        let lanes = Lanes::threads();
        for lane in [Lane::Work, Lane::Heartbeat, Lane::Io] {
            let name = lanes
                .handle(lane)
                .run(|| async { std::thread::current().name().map(str::to_owned) })
                .await;
            assert_eq!(name, Ok(Some(lane.name().to_owned())));
        }
    }

    #[tokio::test]
    async fn what_comes_after_a_turn_follows_all_that_was_due() {
        let work = Lanes::threads().handle(Lane::Work);
        let order = work.run(|| async {
            let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let (late, due) = (order.clone(), order.clone());
            let (done, after) = oneshot::channel();
            let taken = after_this_turn(move || {
                late.borrow_mut().push("after");
                let _ = done.send(());
            });
            tokio::task::spawn_local(async move { due.borrow_mut().push("due") });
            after.await.map_err(|_| "it was dropped")?;
            taken.map_err(|_| "not on a lane")?;
            Ok(order.take())
        });
        assert_eq!(order.await, Ok(Ok::<_, &str>(vec!["due", "after"])));
        assert!(after_this_turn(|| ()).is_err(), "this thread is no lane");
        assert_eq!(Lane::of_this_thread(), None);
    }

    #[tokio::test]
    async fn a_panicking_task_ends_alone() {
        let lanes = Lanes::threads();
        let work = lanes.handle(Lane::Work);
        assert_eq!(work.run(|| async { panic!("on purpose") }).await, Err::<(), _>(LaneEnded));
        assert_eq!(work.run(|| async { 7 }).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_lanes_share_the_calling_thread() {
        let here = std::thread::current().id();
        LocalSet::new()
            .run_until(async move {
                let lanes = Lanes::tasks();
                let there = lanes
                    .handle(Lane::Heartbeat)
                    .run(|| async { std::thread::current().id() })
                    .await;
                assert_eq!(there, Ok(here));
            })
            .await;
    }
}
