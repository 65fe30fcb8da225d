//! The task's input and host: updates come when they are due, and snapshots are stored as by a program host.

use super::{ATTEMPT, BATCH, JOB, Update};
use benches::words::splitmix64;
use futures::future::BoxFuture;
use host::{Target, Upload, Uploads};
use model::OperatorId;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use storage::checkpoints::CheckpointDirectory;
use streaming::{
    Element, ErasedBatch, InputPort, Polled, StateChunk, TaskSnapshot, TaskUpcalls, batch::Batch,
};
use tokio::{runtime::Runtime, time::Instant};

/// The task's input and host.
pub(super) struct World {
    pub(super) begin: Instant,
    /// Start of the updates in nanoseconds after the beginning, and the time between two of them;
    /// 0: no updates come.
    pub(super) updates_from: AtomicU64,
    pub(super) update_every: u64,
    /// True if the task's next wait is to end at once.
    pub(super) again: AtomicBool,
    /// The number of updates that have come.
    pub(super) come: AtomicU64,
    pub(super) entries: u64,
    pub(super) uploads: Uploads,
    pub(super) directory: CheckpointDirectory,
    /// True if snapshots may contain only what has changed, as by default.
    pub(super) follows_changes: bool,
    /// Stores the snapshots, as the data plane's runtime of a program host does.
    pub(super) runtime: Runtime,
    pub(super) state: Mutex<Course>,
}

/// The course of the measurement.
#[derive(Default)]
pub(super) struct Course {
    pub(super) timers: Vec<(Instant, u64)>,
    /// When the task had written its snapshot, and the snapshot's bytes once they are stored.
    pub(super) acknowledged: Option<Instant>,
    /// The number of the checkpoint on which the snapshot that was acknowledged last builds; `None` if it was a full one.
    pub(super) base: Option<u64>,
    pub(super) stored: Option<(Instant, Result<u64, String>)>,
    /// Elements that come before any update.
    pub(super) elements: Vec<Element>,
    pub(super) last_look: Option<Instant>,
    pub(super) longest_gap: Duration,
}

impl World {
    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, Course> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of updates that are due and have not come.
    pub(super) fn due(&self) -> u64 {
        let from = self.updates_from.load(Ordering::Relaxed);
        let since = (self.begin.elapsed().as_nanos() as u64).saturating_sub(from);
        if from == 0 { 0 } else { since / self.update_every - self.come.load(Ordering::Relaxed) }
    }

    fn look(&self) -> Option<Element> {
        let mut state = self.state();
        let now = Instant::now();
        if let Some(before) = state.last_look.replace(now) {
            state.longest_gap = state.longest_gap.max(now - before);
        }
        if let Some(element) = state.elements.pop() {
            return Some(element);
        }
        drop(state);
        let due = self.due().min(BATCH);
        if due == 0 {
            return None;
        }
        let come = self.come.fetch_add(due, Ordering::Relaxed);
        let from = self.updates_from.load(Ordering::Relaxed);
        let update = |n: u64| (splitmix64(n) % self.entries, from + (n + 1) * self.update_every);
        let batch: Batch<Update> = (come..come + due).map(update).collect::<Vec<_>>().into();
        Some(Element::Batch(ErasedBatch::new(batch)))
    }
}

/// The task's only input: what is in the course, and then the updates that are due.
pub(super) struct Input(pub(super) Arc<World>);

impl InputPort for Input {
    fn channels(&self) -> usize {
        1
    }
    fn poll(&mut self) -> Polled {
        match self.0.look() {
            Some(element) => Polled::Element { channel: 0, element },
            None => Polled::Empty,
        }
    }
    fn pause(&mut self, _channel: usize, _paused: bool) {}
}

/// The task's host, which stores its snapshots.
pub(super) struct Host(pub(super) Arc<World>);

impl TaskUpcalls for Host {
    fn operator_event(&self, _: OperatorId, _: Vec<u8>, _: u64) {}
    fn spawn_io(&self, _: BoxFuture<'static, Result<Vec<u8>, String>>, _: u64) {}
    fn now_unix_ms(&self) -> u64 {
        self.0.begin.elapsed().as_millis() as u64
    }
    fn wake_at(&self, after: Duration, ticket: u64) {
        self.0.state().timers.push((Instant::now() + after, ticket));
    }
    fn store_chunk(
        &self,
        checkpoint: u64,
        operator: OperatorId,
        chunk: StateChunk,
    ) -> Result<(), StateChunk> {
        let key = (ATTEMPT, checkpoint, operator);
        self.0.uploads.add(key, chunk, self.0.runtime.handle(), || Target {
            directory: self.0.directory.clone(),
            job_id: JOB,
            inline_max: 0,
        });
        Ok(())
    }
    fn stores_changes(&self) -> Option<u64> {
        self.0.follows_changes.then_some(0)
    }
    fn is_woken(&self) -> bool {
        self.0.due() > 0
    }
    fn step_again(&self, _ticket: u64) {
        self.0.again.store(true, Ordering::Relaxed);
    }
    fn acknowledge(&self, checkpoint: u64, snapshot: TaskSnapshot) {
        {
            let mut state = self.0.state();
            state.acknowledged = Some(Instant::now());
            state.base = snapshot.bases.iter().find_map(|(_, base)| *base);
        }
        let uploads = snapshot.operators.into_iter().filter_map(|(operator, rest)| {
            Some((self.0.uploads.take((ATTEMPT, checkpoint, operator))?, rest))
        });
        let (uploads, world) = (uploads.collect(), Arc::clone(&self.0));
        self.0.runtime.spawn(async move {
            let stored = stored_bytes(uploads).await;
            world.state().stored = Some((Instant::now(), stored));
        });
    }
}

/// Waits until the uploads of a snapshot are stored, and returns their bytes.
async fn stored_bytes(uploads: Vec<(Upload, Vec<bytes::Bytes>)>) -> Result<u64, String> {
    let mut stored = 0;
    for (upload, rest) in uploads {
        stored += upload.end(rest).await?.bytes();
    }
    Ok(stored)
}
