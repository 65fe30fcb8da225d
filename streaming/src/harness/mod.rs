//! Runs a built job in the calling thread, for tests of operators and of whole programs. Ports are in memory, tasks are stepped
//! in turn, and time jumps to the next timer. A task is stepped only after something woke it, so that a wake-up that would be
//! lost in a real process ends as [`HarnessError::Stuck`] here.
//!
//! This module must never be part of a running cluster.

mod coordinators;
mod last;
mod ports;
mod upcalls;

use crate::{
    BuiltJob, Mail, Progress, SubtaskContext,
    seam::{
        Barrier, EdgeCodec, InputPort, Interrupt, OutputPort, Subtask, TaskCounters, TaskError,
    },
};
use coordinators::Coordinators;
use last::{FinalCheckpoint, commits};
use model::{ExecutionAttemptId, JobEdge, JobGraph, JobVertex, OperatorId, ShipStrategy};
use ports::{Channel, MemoryInput, MemoryOutput};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};
use thiserror::Error;
use upcalls::{Flag, Upcalls, World};

/// The reason why a run of a job in the test harness ([`Harness::run`]) failed. Failures by [`Harness::fail_after`] are no reason.
#[derive(Debug, Error)]
pub enum HarnessError {
    /// A task could not be made, opened or closed, or failed. The run ends, and all tasks that have not finished are dropped without
    /// `close` or `dispose`.
    #[error("subtask {subtask} of chain '{chain}' failed: {error}")]
    Task {
        /// Name of the chain.
        chain: String,
        /// Index of the subtask, from 0.
        subtask: u32,
        /// The task's error.
        error: TaskError,
    },
    /// An operator's coordinator could not be made, started, ended or asked for results, or failed: the operator's name, and the cause.
    #[error("coordinator of '{0}': {1}")]
    Coordinator(String, String),
    /// Subtasks are unfinished, none was woken, and no timer, I/O or event is left that would wake one. The text lists them as
    /// `CHAIN (SUBTASK)`.
    #[error("no task can go on and none will be woken: {0}")]
    Stuck(String),
    /// The runtime for I/O cannot be created.
    #[error("cannot create the runtime for I/O: {0}")]
    Runtime(#[from] std::io::Error),
}

/// The results of a run of a job in the test harness ([`Harness::run`]): collected lines, numbers of steps, records and acknowledgements.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The lines of each collect sink in the last attempt, without line ends: one list per sink, in the order of the graph's nodes. The
    /// lists are empty if the job was cancelled and is bounded or has periodic checkpoints (`execution.checkpointing.interval`).
    pub collected: Vec<Vec<Vec<u8>>>,
    /// Number of steps (calls that let a task work) of all tasks together, in all attempts.
    pub steps: u64,
    /// For each vertex, by name (vertices of one name together): the records that its subtasks have read from other vertices, and those
    /// that they have sent to others (once for each edge), in the last attempt. Records inside of a vertex do not count.
    pub records: BTreeMap<String, (u64, u64)>,
    /// For each checkpoint of any attempt, by number from 1: the number of subtasks that acknowledged it, and the number of operator
    /// states that they sent with that, one per operator and subtask.
    pub acknowledged: BTreeMap<u64, (usize, usize)>,
    /// The states of the operators in the newest checkpoint that all subtasks of an attempt have acknowledged, for
    /// [`Harness::restore`]; empty if there is none. States of coordinators are not in it.
    pub states: States,
    /// Time that passed on the harness's clock in all attempts, in milliseconds. The clock moves only to timers: the time that I/O takes
    /// does not count.
    pub elapsed_ms: u64,
}

/// The states of a job's operators, by operator: one snapshot for each subtask that has state, in the order of their indices.
pub type States = BTreeMap<OperatorId, Vec<Vec<u8>>>;

/// The settings of a test that runs a built job in the calling thread, without a cluster: sizes of channels and steps, and when the job
/// fails, is cancelled or stopped, or takes checkpoints, in steps. Tasks are stepped in rounds, and the number of steps is looked at after
/// each round, so that what is due at a number of steps may come a few steps later. The clock, which tasks see as Unix time and for timers,
/// begins in November 2023 and jumps to the next timer when no task has work, also while I/O runs.
#[derive(Debug, Clone)]
pub struct Harness {
    tmp_dir: PathBuf,
    channel_batches: usize,
    serialize: bool,
    budget: usize,
    fail_after: Vec<u64>,
    cancel_after: Option<u64>,
    checkpoint_after: Vec<u64>,
    /// The number of steps after which the job is stopped, and true if it is drained.
    stop_after: Option<(u64, bool)>,
    restore: States,
    interrupt: Interrupt,
}

struct Running {
    chain: String,
    attempt: ExecutionAttemptId,
    task: Box<dyn Subtask>,
    woken: Arc<Flag>,
    finished: bool,
    source: bool,
}

/// All channels of one edge, by producing subtask and channel.
type EdgeChannels = Vec<Vec<Arc<Channel>>>;

impl Harness {
    /// Creates the default settings: channels of 4 elements, steps of 1,024 records, no failure, no checkpoint but the final one of a job
    /// with sinks that commit. Temporary files go to `tmp_dir`, which must exist.
    pub fn new(tmp_dir: &Path) -> Self {
        Self {
            tmp_dir: tmp_dir.to_owned(),
            channel_batches: 4,
            serialize: false,
            budget: 1_024,
            fail_after: Vec::new(),
            cancel_after: None,
            checkpoint_after: Vec::new(),
            stop_after: None,
            restore: States::new(),
            interrupt: Interrupt::default(),
        }
    }
    /// Sets the interrupt of all subtasks, the flag that ends a step after the record at hand. The harness never lowers it: once it
    /// is raised, each operator processes one record per step.
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }
    /// Sets the maximum number of elements (batches and control elements) in the channel between two subtasks, at least 1; 4 by default.
    /// A producer waits while its channel is full; with 0 a run gets [`HarnessError::Stuck`], or never ends if a source has an enumerator.
    pub fn channel_batches(mut self, batches: usize) -> Self {
        self.channel_batches = batches;
        self
    }
    /// Makes every batch pass through its edge's codec, as if each channel crossed a network; off by default. If the codec refuses a
    /// batch, for whatever reason, the task that reads it fails with [`TaskError::Codec`], which speaks of records of another type.
    pub fn serialize(mut self) -> Self {
        self.serialize = true;
        self
    }
    /// Sets about how many records a task processes in one step, at least 1; 1,024 by default. A batch that was begun is worked off.
    pub fn budget(mut self, records: usize) -> Self {
        self.budget = records;
        self
    }
    /// Makes all tasks fail and restart, with new coordinators and without state but that of [`Harness::restore`]: in the first attempt
    /// after `steps[0]` steps of all tasks together, in the second one after `steps[1]` steps of its own, and so on. Later attempts do
    /// not fail, nor does an attempt that ends before its number. [`Harness::run`] returns no error for this.
    pub fn fail_after(mut self, steps: &[u64]) -> Self {
        self.fail_after = steps.to_vec();
        self
    }
    /// Cancels the job after `steps` steps of all tasks together in one attempt. [`Harness::run`] then disposes of the tasks, tells the
    /// coordinators that the job has not finished, and returns the results so far, not an error. A job that ends before is not cancelled.
    pub fn cancel_after(mut self, steps: u64) -> Self {
        self.cancel_after = Some(steps);
        self
    }
    /// Triggers a checkpoint at the sources once all tasks together have made each of these numbers of steps in an attempt; the numbers
    /// must ascend. Operators are told that a checkpoint is complete only for the final one. No attempt is restored from a checkpoint.
    pub fn checkpoint_after(mut self, steps: &[u64]) -> Self {
        self.checkpoint_after = steps.to_vec();
        self
    }

    /// Stops the job with a final checkpoint after `steps` steps of all tasks together in an attempt, if the sources have not ended before.
    /// With `drain` the sources end their data first, so that operators see the end of input; without it they do not. The run counts as
    /// finished. A job that ends before takes a final checkpoint too.
    pub fn stop_after(mut self, steps: u64, drain: bool) -> Self {
        self.stop_after = Some((steps, drain));
        self
    }

    /// Restores the operators, in every attempt, from the states in [`Outcome::states`] of another run, of the same job or of a changed
    /// one, also with another parallelism. Every subtask is offered the states of all former subtasks. Coordinators start anew, so that
    /// an enumerator assigns all of its splits again. Restores nothing by default.
    pub fn restore(mut self, states: States) -> Self {
        self.restore = states;
        self
    }

    /// Runs a job to its end in the calling thread, and returns its results; does not return for an unbounded job that nothing stops.
    ///
    /// # Errors
    /// Returns [`HarnessError::Task`] or [`HarnessError::Coordinator`] for the first failure that [`Harness::fail_after`] did not make,
    /// [`HarnessError::Stuck`] if no task can go on, [`HarnessError::Runtime`] if the runtime for I/O cannot be created.
    pub fn run(&self, job: &BuiltJob) -> Result<Outcome, HarnessError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let world = Arc::new(World::new(runtime));
        let mut outcome = Outcome::default();
        let mut failures = self.fail_after.iter().copied();
        for attempt in 0.. {
            let mut coordinators = coordinators::start(job, &world, &self.tmp_dir)?;
            let mut tasks = self.deploy(job, &world, attempt)?;
            let fail_at = failures.next();
            let mut last = self.ends_with_checkpoint(job.graph()).then(FinalCheckpoint::default);
            let ended = self.drive(
                &world,
                &mut tasks,
                &mut coordinators,
                &mut last,
                fail_at,
                &mut outcome,
            )?;
            for running in &tasks {
                let counters = running.task.counters();
                let records = outcome.records.entry(running.chain.clone()).or_default();
                records.0 += counters.records_in.load(Ordering::Relaxed);
                records.1 += counters.records_out.load(Ordering::Relaxed);
            }
            if ended == Ended::Failed {
                tasks.iter_mut().for_each(|running| running.task.dispose());
                world.forget();
                outcome.records.clear();
                continue;
            }
            if ended == Ended::Cancelled {
                tasks.iter_mut().for_each(|running| running.task.dispose());
            }
            let finished = ended == Ended::Finished;
            outcome.collected = coordinators::end(job, &mut coordinators, finished)?;
            outcome.elapsed_ms = world.elapsed_ms();
            outcome.acknowledged = world.acknowledged();
            outcome.states = world.states(tasks.len());
            return Ok(outcome);
        }
        Ok(outcome)
    }

    fn ends_with_checkpoint(&self, graph: &JobGraph) -> bool {
        self.stop_after.is_some() || commits(graph)
    }

    fn deploy(
        &self,
        job: &BuiltJob,
        world: &Arc<World>,
        attempt: u32,
    ) -> Result<Vec<Running>, HarnessError> {
        let graph = job.graph();
        let flags: BTreeMap<_, Vec<Arc<Flag>>> = graph
            .vertices
            .iter()
            .map(|v| (v.id, (0..v.parallelism).map(|_| Arc::new(Flag::new(true))).collect()))
            .collect();
        let mut channels: BTreeMap<u32, EdgeChannels> = BTreeMap::new();
        for edge in &graph.edges {
            channels.insert(edge.id.0, self.edge_channels(edge, &flags));
        }
        let mut tasks = Vec::new();
        for vertex in &graph.vertices {
            for subtask in 0..vertex.parallelism {
                let id = ExecutionAttemptId { graph: 7, vertex: vertex.id, subtask, attempt };
                let flag = flags.get(&vertex.id).and_then(|f| f.get(subtask as usize));
                let woken = flag.cloned().unwrap_or_else(|| Arc::new(Flag::new(true)));
                let upcalls = Upcalls::new(world.clone(), id, woken.clone());
                let context = self.context(job, vertex, id, upcalls, &channels);
                let failed =
                    |error| HarnessError::Task { chain: vertex.name.clone(), subtask, error };
                let mut task = job.subtask(vertex.id, context).map_err(failed)?;
                task.open().map_err(failed)?;
                tasks.push(Running {
                    chain: vertex.name.clone(),
                    attempt: id,
                    task,
                    woken,
                    finished: false,
                    source: vertex.source,
                });
            }
        }
        Ok(tasks)
    }

    fn edge_channels(
        &self,
        edge: &JobEdge,
        flags: &BTreeMap<model::JobVertexId, Vec<Arc<Flag>>>,
    ) -> EdgeChannels {
        let of = |vertex| flags.get(vertex).map_or(&[] as &[Arc<Flag>], Vec::as_slice);
        let (producers, consumers) = (of(&edge.from), of(&edge.to));
        let channel = |producer: &Arc<Flag>, consumer: &Arc<Flag>| {
            Arc::new(Channel::new(self.channel_batches, producer.clone(), consumer.clone()))
        };
        let one_to_one = edge.ship == ShipStrategy::Forward;
        let of_producer = |(index, producer): (usize, &Arc<Flag>)| {
            let wanted = consumers.iter().enumerate().filter(|(i, _)| !one_to_one || *i == index);
            wanted.map(|(_, consumer)| channel(producer, consumer)).collect()
        };
        producers.iter().enumerate().map(of_producer).collect()
    }

    fn context(
        &self,
        job: &BuiltJob,
        vertex: &JobVertex,
        attempt: ExecutionAttemptId,
        upcalls: Upcalls,
        channels: &BTreeMap<u32, EdgeChannels>,
    ) -> SubtaskContext {
        let graph = job.graph();
        let index = attempt.subtask as usize;
        let inputs = graph.inputs_of(vertex.id).map(|edge| {
            let of_edge = channels.get(&edge.id.0).map_or(&[] as &[_], Vec::as_slice);
            let own: Vec<Arc<Channel>> = if edge.ship == ShipStrategy::Forward {
                of_edge.get(index).and_then(|p| p.first()).cloned().into_iter().collect()
            } else {
                of_edge.iter().filter_map(|producer| producer.get(index)).cloned().collect()
            };
            Box::new(MemoryInput::new(own)) as Box<dyn InputPort>
        });
        let outputs = graph.outputs_of(vertex.id).map(|edge| {
            let own = channels.get(&edge.id.0).and_then(|e| e.get(index)).cloned();
            let codec: Option<Arc<dyn EdgeCodec>> =
                if self.serialize { job.edge_codec(edge.id) } else { None };
            Box::new(MemoryOutput::new(own.unwrap_or_default(), codec)) as Box<dyn OutputPort>
        });
        let key_groups = |edge: &JobEdge| graph.vertex(edge.to).map_or(1, |v| v.max_parallelism);
        SubtaskContext {
            vertex: vertex.id,
            subtask: attempt.subtask,
            parallelism: vertex.parallelism,
            max_parallelism: vertex.max_parallelism,
            attempt,
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            output_key_groups: graph.outputs_of(vertex.id).map(key_groups).collect(),
            upcalls: Arc::new(upcalls),
            tmp_dir: self.tmp_dir.clone(),
            options: Arc::new(graph.options.clone()),
            devices: Arc::default(),
            restore: self.restore.iter().map(|(id, all)| (*id, all.clone().into())).collect(),
            restored_at_end: false,
            ends_with_checkpoint: self.ends_with_checkpoint(graph),
            counters: Arc::new(TaskCounters::default()),
            interrupt: self.interrupt.clone(),
        }
    }

    fn drive(
        &self,
        world: &Arc<World>,
        tasks: &mut [Running],
        coordinators: &mut Coordinators,
        last: &mut Option<FinalCheckpoint>,
        fail_at: Option<u64>,
        outcome: &mut Outcome,
    ) -> Result<Ended, HarnessError> {
        let began = outcome.steps;
        let mut checkpoints: Vec<u64> = self.checkpoint_after.clone();
        loop {
            let mut moved = false;
            for running in tasks.iter_mut() {
                moved |= deliver(world, running)?;
                if running.finished || !running.woken.take() {
                    continue;
                }
                moved = true;
                outcome.steps += 1;
                step(running, self.budget)?;
            }
            coordinators::answer(world, coordinators);
            moved |= coordinators::wake(world, coordinators);
            if let Some((name, why)) = world.failure() {
                return Err(HarnessError::Coordinator(name, why));
            }
            let steps = outcome.steps - began;
            if fail_at.is_some_and(|at| steps >= at) {
                return Ok(Ended::Failed);
            }
            if self.cancel_after.is_some_and(|at| steps >= at) {
                return Ok(Ended::Cancelled);
            }
            if checkpoints.first().is_some_and(|at| steps >= *at) {
                checkpoints.remove(0);
                let checkpoint = world.next_checkpoint();
                trigger(tasks, Barrier { checkpoint, ..Barrier::default() })?;
                moved = true;
            }
            if let Some(last) = last {
                if self.stop_after.is_some_and(|(at, _)| steps >= at) {
                    moved |= last.stop(world, tasks, self.stop_after.is_some_and(|s| s.1))?;
                }
                moved |= last.advance(world, tasks)?;
            }
            if tasks.iter().all(|running| running.finished) {
                return Ok(Ended::Finished);
            }
            if !moved && !world.wait() {
                let stuck = tasks.iter().filter(|running| !running.finished);
                let names = stuck.map(|r| format!("{} ({})", r.chain, r.attempt.subtask));
                return Err(HarnessError::Stuck(names.collect::<Vec<_>>().join(", ")));
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Finished,
    Failed,
    Cancelled,
}

fn failed(running: &Running, error: TaskError) -> HarnessError {
    HarnessError::Task { chain: running.chain.clone(), subtask: running.attempt.subtask, error }
}

fn deliver(world: &World, running: &mut Running) -> Result<bool, HarnessError> {
    let mut any = false;
    for mail in world.take_mail(running.attempt) {
        any = true;
        running.task.deliver(mail).map_err(|error| failed(running, error))?;
        running.woken.set();
    }
    Ok(any)
}

fn step(running: &mut Running, budget: usize) -> Result<(), HarnessError> {
    match running.task.step(budget).map_err(|error| failed(running, error))? {
        Progress::Busy => running.woken.set(),
        Progress::Starved | Progress::Blocked => {}
        Progress::Finished => {
            running.task.close().map_err(|error| failed(running, error))?;
            running.finished = true;
        }
    }
    Ok(())
}

fn trigger(tasks: &mut [Running], barrier: Barrier) -> Result<(), HarnessError> {
    for running in tasks.iter_mut().filter(|running| running.source && !running.finished) {
        running.task.deliver(Mail::Trigger(barrier)).map_err(|error| failed(running, error))?;
        running.woken.set();
    }
    Ok(())
}
