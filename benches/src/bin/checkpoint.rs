//! Checkpoints of one keyed task while records come: a million entries of 1 KiB, and 100,000 updates a second that come at their
//! times whether the task keeps up or not (open loop). The task is driven as its thread drives it; its snapshots are stored in a
//! checkpoint directory by the program host's own uploads.
//!
//! `checkpoint [--entries N] [--bytes N] [--updates N] [--rounds N] [--directory DIR]`. Each round measures two seconds without a
//! snapshot and one snapshot. A gap is the time between two looks of the task at its input while updates were due. A latency is the
//! time from when an update is due to when the function gets it. Other work on the machine lengthens both: the figures without a
//! snapshot show by how much.

use anyhow::{Context as _, Result, bail};
use benches::{Report, process::peak_mib, report::Goal, rss_mib, words::splitmix64};
use clap::Parser;
use flott::prelude::*;
use futures::future::BoxFuture;
use host::{Target, Upload, Uploads};
use model::{ContentHash, ExecutionAttemptId, JobId, JobVertexId, OperatorId};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use storage::{checkpoints::CheckpointDirectory, objects::FileObjects};
use streaming::{
    Barrier, BuildInputs, Element, ErasedBatch, InputPort, Interrupt, Mail, Polled, Progress,
    StateChunk, StreamEvent, Subtask, SubtaskContext, TaskSnapshot, TaskUpcalls, batch::Batch,
    build, operators::BoxError,
};
use tokio::{
    runtime::{self, Runtime},
    time::Instant,
};

/// The most updates that come at once.
const BATCH: u64 = 1_024;
/// The time for which the task waits when nothing is due.
const PAUSE: Duration = Duration::from_micros(20);
/// The time that passes between the look at the memory and the barrier, so that the look delays no update that counts.
const WARM_UP: Duration = Duration::from_millis(500);
/// The time without a snapshot that each round measures.
const CALM: Duration = Duration::from_secs(2);
/// The time after which a snapshot that is not complete has failed.
const PATIENCE: Duration = Duration::from_secs(300);
const JOB: JobId = JobId(1);
/// The attempt whose snapshots are stored.
const ATTEMPT: ExecutionAttemptId =
    ExecutionAttemptId { graph: 0, vertex: JobVertexId(0), subtask: 0, attempt: 0 };

#[derive(Parser, Clone)]
struct Cli {
    /// Number of keys.
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Bytes of each key's state.
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// Updates per second.
    #[arg(long, default_value_t = 100_000)]
    updates: u64,
    /// Number of snapshots.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// The directory in which a folder for the snapshots is created, and removed at the end.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
}

/// A key, and when its update is due, in nanoseconds after the beginning.
type Update = (u64, u64);

thread_local! {
    /// The latencies since they were last taken out, in nanoseconds.
    static LATENCIES: RefCell<Vec<u64>> = RefCell::new(Vec::with_capacity(1 << 20));
}

#[derive(State)]
struct Entry {
    updates: Option<u64>,
    body: Option<Vec<u8>>,
}

/// Changes eight bytes of the key's state with each update.
#[derive(Clone)]
struct Touch {
    bytes: usize,
    begin: Instant,
}

impl KeyedProcessFunction<u64, Update> for Touch {
    type State = Entry;
    type Out = u64;

    fn process(
        &mut self,
        (_, due): Update,
        entry: &mut Entry,
        ctx: &mut Context<'_, u64>,
        _: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        let updates = entry.updates.get_or_insert(0);
        *updates += 1;
        let body = entry.body.get_or_insert_with(|| vec![*ctx.key() as u8; self.bytes]);
        body.iter_mut().zip(updates.to_le_bytes()).for_each(|(to, from)| *to = from);
        let now = self.begin.elapsed().as_nanos() as u64;
        LATENCIES.with_borrow_mut(|latencies| latencies.push(now.saturating_sub(due)));
        Ok(())
    }
}

/// The task's input and host.
struct World {
    begin: Instant,
    /// Start of the updates in nanoseconds after the beginning, and the time between two of them;
    /// 0: no updates come.
    updates_from: AtomicU64,
    update_every: u64,
    /// True if the task's next wait is to end at once.
    again: AtomicBool,
    /// The number of updates that have come.
    come: AtomicU64,
    entries: u64,
    uploads: Uploads,
    directory: CheckpointDirectory,
    /// Stores the snapshots, as the data plane's runtime of a program host does.
    runtime: Runtime,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    timers: Vec<(Instant, u64)>,
    /// When the task had written its snapshot, and the snapshot's bytes once they are stored.
    acknowledged: Option<Instant>,
    stored: Option<(Instant, Result<u64, String>)>,
    /// Elements that come before any update.
    elements: Vec<Element>,
    last_look: Option<Instant>,
    longest_gap: Duration,
}

impl World {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of updates that are due and have not come.
    fn due(&self) -> u64 {
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

struct Input(Arc<World>);

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

struct Host(Arc<World>);

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
    fn is_woken(&self) -> bool {
        self.0.due() > 0
    }
    fn step_again(&self, _ticket: u64) {
        self.0.again.store(true, Ordering::Relaxed);
    }
    fn acknowledge(&self, checkpoint: u64, snapshot: TaskSnapshot) {
        self.0.state().acknowledged = Some(Instant::now());
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

struct Bench {
    task: Box<dyn Subtask>,
    world: Arc<World>,
}

/// The measurements of one stretch of time.
struct Measured {
    gap: Duration,
    latencies: Vec<u64>,
}

impl Measured {
    fn gap_ms(&self) -> f64 {
        self.gap.as_secs_f64() * 1e3
    }
    /// Returns the latency in ms that this part of all updates has at most.
    fn latency_ms(&self, part: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let place = (sorted.len().saturating_sub(1) as f64 * part) as usize;
        sorted.get(place).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
    }
}

impl Bench {
    fn new(cli: &Cli, world: &Arc<World>) -> Result<Self> {
        let touch = Touch { bytes: cli.bytes, begin: world.begin };
        let entry = ProgramEntry::new().job("checkpoint", move |env: &Environment, _: Args| {
            let updates = env.sequence(0..1_u64).map(|n| (n, n));
            updates.key_by(|update: &Update| &update.0).process(touch.clone()).discard();
            Ok::<(), BoxError>(())
        });
        let inputs = BuildInputs {
            args: Vec::new(),
            env: None,
            once: None,
            job: None,
            job_id: JOB,
            parallelism: 1,
            options: BTreeMap::new(),
            defaults: BTreeMap::new(),
            embedded: false,
            program_hash: ContentHash([1; 32]),
            program_name: "checkpoint".into(),
            program_size: 1,
        };
        let job = build(&entry, inputs)?;
        let vertex = job.graph().vertices.iter().find(|vertex| !vertex.source);
        let vertex = vertex.context("the job has no keyed task")?;
        let attempt = ExecutionAttemptId { graph: 0, vertex: vertex.id, subtask: 0, attempt: 0 };
        let mut task = job.subtask(
            vertex.id,
            SubtaskContext {
                vertex: vertex.id,
                subtask: 0,
                parallelism: 1,
                max_parallelism: vertex.max_parallelism,
                attempt,
                inputs: vec![Box::new(Input(Arc::clone(world)))],
                outputs: Vec::new(),
                output_key_groups: Vec::new(),
                upcalls: Arc::new(Host(Arc::clone(world))),
                tmp_dir: cli.directory.clone(),
                options: Arc::default(),
                devices: Arc::default(),
                restore: BTreeMap::new(),
                restored_at_end: false,
                ends_with_checkpoint: false,
                counters: Arc::default(),
                interrupt: Interrupt::default(),
            },
        )?;
        task.open()?;
        let mut bench = Self { task, world: Arc::clone(world) };
        for first in (0..cli.entries).step_by(BATCH as usize) {
            let keys = first..(first + BATCH).min(cli.entries);
            let batch: Batch<Update> = keys.map(|key| (key, 0)).collect::<Vec<_>>().into();
            world.state().elements.push(Element::Batch(ErasedBatch::new(batch)));
            bench.step()?;
        }
        Ok(bench)
    }

    /// Lets the task run once. Returns true if it has handled all updates that were due, after a pause.
    fn step(&mut self) -> Result<bool> {
        let due = {
            let mut state = self.world.state();
            let now = Instant::now();
            let due = state.timers.iter().position(|(at, _)| *at <= now);
            due.map(|due| state.timers.swap_remove(due))
        };
        if let Some((_, ticket)) = due {
            self.task.deliver(Mail::Timer { ticket })?;
        }
        match self.task.step(4_096)? {
            Progress::Finished => bail!("the task has ended"),
            Progress::Busy => {}
            Progress::Starved | Progress::Blocked => {
                if !self.world.again.swap(false, Ordering::Relaxed) && self.world.due() == 0 {
                    // The pause of a task's thread that waits for input.
                    std::thread::sleep(PAUSE);
                    self.world.state().last_look = None;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Steps until the task has handled what was due, so that what is measured next begins without a backlog.
    fn catch_up(&mut self) -> Result<()> {
        while !self.step()? {}
        Ok(())
    }

    /// Steps until the condition is true, and returns what was measured meanwhile.
    fn until(&mut self, done: impl Fn(&World) -> bool) -> Result<Measured> {
        {
            let mut state = self.world.state();
            (state.longest_gap, state.last_look) = (Duration::ZERO, None);
        }
        LATENCIES.with_borrow_mut(Vec::clear);
        let begin = Instant::now();
        while !done(&self.world) {
            self.step()?;
            if begin.elapsed() > PATIENCE {
                bail!("no end after {PATIENCE:?}");
            }
        }
        let gap = self.world.state().longest_gap;
        // Sorting now would delay the updates of the next measurement; a copy takes no more memory than its values.
        Ok(Measured { gap, latencies: LATENCIES.with_borrow(|all| all.as_slice().to_vec()) })
    }
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let folder = tempfile::Builder::new().prefix("flott-checkpoint").tempdir_in(&cli.directory)?;
    let world = Arc::new(World {
        begin: Instant::now(),
        updates_from: AtomicU64::new(0),
        update_every: 1_000_000_000 / cli.updates,
        again: AtomicBool::new(false),
        come: AtomicU64::new(0),
        entries: cli.entries,
        uploads: Uploads::default(),
        directory: CheckpointDirectory::new(Arc::new(FileObjects::open(folder.path())?)),
        runtime: runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?,
        state: Mutex::default(),
    });
    measure(&cli, &world, folder.path())
}

fn measure(cli: &Cli, world: &Arc<World>, folder: &Path) -> Result<()> {
    let mut bench = Bench::new(cli, world)?;
    world.updates_from.store(world.begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
    let (mut calm, mut busy) = (Vec::new(), Vec::new());
    let (mut written, mut stored) = (Vec::new(), Vec::new());
    let (mut over_before, mut over_state, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    let me = std::process::id();
    for checkpoint in 1..=cli.rounds {
        // Removing the snapshot before has held up the updates.
        bench.catch_up()?;
        let begin = Instant::now();
        calm.push(bench.until(|_| begin.elapsed() > CALM)?);
        let before = rss_mib(me)?;
        // The peak is that since now.
        fs::write("/proc/self/clear_refs", "5")?;
        let begin = Instant::now();
        bench.until(|_| begin.elapsed() > WARM_UP)?;
        let barrier = Barrier { checkpoint, ..Barrier::default() };
        world.state().elements.push(Element::Event(StreamEvent::Barrier(barrier)));
        let begin = Instant::now();
        busy.push(bench.until(|world| world.state().stored.is_some())?);
        let (acknowledged, whole) = {
            let mut state = world.state();
            (state.acknowledged.take(), state.stored.take())
        };
        let (Some(acknowledged), Some((end, bytes))) = (acknowledged, whole) else { continue };
        let size = bytes.map_err(anyhow::Error::msg)? as f64 / f64::from(1 << 20);
        let peak = peak_mib(me)?;
        written.push((acknowledged - begin).as_secs_f64() * 1e3);
        stored.push((end - begin).as_secs_f64() * 1e3);
        over_before.push(peak / before);
        over_state.push(peak / size);
        sizes.push(size);
        fs::read_dir(folder)?.try_for_each(|entry| fs::remove_dir_all(entry?.path()))?;
    }
    let report = Report::new("checkpoint");
    let of = |measured: &[Measured], figure: fn(&Measured) -> f64| -> Vec<f64> {
        measured.iter().map(figure).collect()
    };
    let five = Goal::AtMost(5.0);
    report.runs("without_longest_gap", &of(&calm, Measured::gap_ms), "ms")?;
    report.runs("without_p99_latency", &of(&calm, |m| m.latency_ms(0.99)), "ms")?;
    report.runs("without_longest_latency", &of(&calm, |m| m.latency_ms(1.0)), "ms")?;
    report.runs_with_goal(
        "checkpoint_pause_ms_max_1g",
        &of(&busy, Measured::gap_ms),
        "ms",
        five,
    )?;
    report.runs_with_goal(
        "checkpoint_latency_p99_ms",
        &of(&busy, |m| m.latency_ms(0.99)),
        "ms",
        five,
    )?;
    report.runs("longest_latency", &of(&busy, |m| m.latency_ms(1.0)), "ms")?;
    report.runs("written", &written, "ms")?;
    report.runs("stored", &stored, "ms")?;
    report.runs("snapshot", &sizes, "MiB")?;
    report.runs("peak_over_before", &over_before, "ratio")?;
    report.runs_with_goal("peak_over_state", &over_state, "ratio", Goal::AtMost(1.2))?;
    Ok(())
}
