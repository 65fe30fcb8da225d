//! Checkpoints of one keyed task while records come: a million entries of 1 KiB, and 100,000 updates a second that come at their
//! times whether the task keeps up or not (open loop). The task is driven as its thread drives it; its snapshots are stored in a
//! checkpoint directory by the program host's own uploads.
//!
//! `checkpoint [--entries N] [--bytes N] [--updates N] [--rounds N] [--directory DIR]`. Each round measures two seconds without a
//! snapshot, and then snapshots as a job has them by default: a full one, and one of what has changed since, for which the task follows
//! changes all the time. The figures of a round are the worse ones of the two; those that begin with `changes_` are of the second one.
//! As many rounds follow with a task that writes full snapshots only and follows nothing; their figures begin with `full_`.
//!
//! A gap is the time between two looks of the task at its input while updates were due. A latency is the time from when an update is due
//! to when the function gets it. Other work on the machine lengthens both: the figures without a snapshot show by how much.

use anyhow::{Context as _, Result, bail, ensure};
use benches::{Report, process::peak_mib, report::Goal, rss_mib};
use clap::Parser;
use flott::prelude::*;
use host::Uploads;
use model::{ContentHash, ExecutionAttemptId, JobId, JobVertexId};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use storage::{checkpoints::CheckpointDirectory, objects::FileObjects};
use streaming::{
    Barrier, BuildInputs, Element, ErasedBatch, Interrupt, Mail, Progress, StreamEvent, Subtask,
    SubtaskContext, batch::Batch, build, operators::BoxError,
};
use tokio::{runtime, time::Instant};

#[path = "checkpoint/world.rs"]
mod world;

use world::{Host, Input, World};

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
    /// Number of rounds of each kind.
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

    /// Takes the snapshot of a checkpoint into `folder`, measures it, and empties the folder. Fails if it does not build on `base`.
    fn snapshot(&mut self, checkpoint: u64, base: Option<u64>, folder: &Path) -> Result<Taken> {
        // Removing the snapshot before has held up the updates.
        self.catch_up()?;
        let me = std::process::id();
        let before_mib = rss_mib(me)?;
        // The peak is that since now.
        fs::write("/proc/self/clear_refs", "5")?;
        let begin = Instant::now();
        self.until(|_| begin.elapsed() > WARM_UP)?;
        let barrier = Barrier { checkpoint, ..Barrier::default() };
        self.world.state().elements.push(Element::Event(StreamEvent::Barrier(barrier)));
        let begin = Instant::now();
        let busy = self.until(|world| world.state().stored.is_some())?;
        let (acknowledged, whole, builds_on) = {
            let mut state = self.world.state();
            (state.acknowledged.take(), state.stored.take(), state.base)
        };
        let acknowledged = acknowledged.context("the task has not acknowledged its snapshot")?;
        let (end, bytes) = whole.context("the snapshot is not stored")?;
        let mib = bytes.map_err(anyhow::Error::msg)? as f64 / f64::from(1 << 20);
        ensure!(builds_on == base, "checkpoint {checkpoint} builds on {builds_on:?}, not {base:?}");
        let peak_mib = peak_mib(me)?;
        fs::read_dir(folder)?.try_for_each(|entry| fs::remove_dir_all(entry?.path()))?;
        let (written, stored) = (acknowledged - begin, end - begin);
        Ok(Taken { busy, written, stored, mib, peak_mib, before_mib })
    }
}

/// The measurements of one snapshot.
struct Taken {
    busy: Measured,
    /// The times from the barrier until the task had written the snapshot, and until it was stored.
    written: Duration,
    stored: Duration,
    mib: f64,
    /// The most resident memory, and what was resident before the barrier.
    peak_mib: f64,
    before_mib: f64,
}

/// The measurements of one round: the time without a snapshot, and the snapshots, a full one first.
struct Round {
    calm: Measured,
    taken: Vec<Taken>,
}

impl Round {
    /// Returns the greatest of a figure of the round's snapshots.
    fn worst(&self, figure: impl Fn(&Taken) -> f64) -> f64 {
        self.taken.iter().map(figure).fold(0.0, f64::max)
    }
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let report = Report::new("checkpoint");
    let default = rounds(&cli, true)?;
    print(&report, "", &default)?;
    let changes: Vec<&Taken> = default.iter().filter_map(|round| round.taken.get(1)).collect();
    let of = |figure: fn(&Taken) -> f64| -> Vec<f64> {
        changes.iter().map(|taken| figure(taken)).collect()
    };
    report.runs("changes_pause_ms_max_1g", &of(|taken| taken.busy.gap_ms()), "ms")?;
    report.runs("changes_latency_p99_ms", &of(|taken| taken.busy.latency_ms(0.99)), "ms")?;
    report.runs("changes_snapshot", &of(|taken| taken.mib), "MiB")?;
    print(&report, "full_", &rounds(&cli, false)?)
}

/// Measures all rounds of a task that follows changes, or of one that does not.
fn rounds(cli: &Cli, follows_changes: bool) -> Result<Vec<Round>> {
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
        follows_changes,
        runtime: runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?,
        state: Mutex::default(),
    });
    let mut bench = Bench::new(cli, &world)?;
    world.updates_from.store(world.begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
    let mut rounds = Vec::new();
    for round in 0..cli.rounds {
        bench.catch_up()?;
        let begin = Instant::now();
        let calm = bench.until(|_| begin.elapsed() > CALM)?;
        let full = 2 * round + 1;
        let mut taken = vec![bench.snapshot(full, None, folder.path())?];
        if follows_changes {
            bench.task.deliver(Mail::NotifyComplete(full))?;
            // Nobody learns that this one is complete, so that the next round begins with a full one again.
            taken.push(bench.snapshot(full + 1, Some(full), folder.path())?);
        }
        rounds.push(Round { calm, taken });
    }
    Ok(rounds)
}

/// Prints the figures of rounds under names that begin with `prefix`.
fn print(report: &Report, prefix: &str, rounds: &[Round]) -> Result<()> {
    let of = |figure: &dyn Fn(&Round) -> f64| -> Vec<f64> { rounds.iter().map(figure).collect() };
    let worst =
        |figure: &dyn Fn(&Taken) -> f64| -> Vec<f64> { of(&|round: &Round| round.worst(figure)) };
    let line = |name: &str, runs: Vec<f64>, unit: &str| {
        report.runs(&format!("{prefix}{name}"), &runs, unit)
    };
    let goal = |name: &str, runs: Vec<f64>, unit: &str, goal: f64| {
        report.runs_with_goal(&format!("{prefix}{name}"), &runs, unit, Goal::AtMost(goal))
    };
    line("without_longest_gap", of(&|round| round.calm.gap_ms()), "ms")?;
    line("without_p99_latency", of(&|round| round.calm.latency_ms(0.99)), "ms")?;
    line("without_longest_latency", of(&|round| round.calm.latency_ms(1.0)), "ms")?;
    // The names with a goal are those of the issue.
    let named = if prefix.is_empty() { "checkpoint_" } else { "" };
    let pauses = worst(&|taken| taken.busy.gap_ms());
    goal(&format!("{named}pause_ms_max_1g"), pauses, "ms", 5.0)?;
    let latencies = worst(&|taken| taken.busy.latency_ms(0.99));
    goal(&format!("{named}latency_p99_ms"), latencies, "ms", 5.0)?;
    line("longest_latency", worst(&|taken| taken.busy.latency_ms(1.0)), "ms")?;
    line("written", worst(&|taken| taken.written.as_secs_f64() * 1e3), "ms")?;
    line("stored", worst(&|taken| taken.stored.as_secs_f64() * 1e3), "ms")?;
    line("snapshot", worst(&|taken| taken.mib), "MiB")?;
    line("peak_over_before", worst(&|taken| taken.peak_mib / taken.before_mib), "ratio")?;
    // The full snapshot is as large as the state.
    let over_state =
        |round: &Round| round.worst(|taken| taken.peak_mib) / round.worst(|taken| taken.mib);
    goal("peak_over_state", of(&over_state), "ratio", 1.2)?;
    Ok(())
}
