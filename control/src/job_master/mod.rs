//! The JobMaster's decisions: when regions are deployed, which regions a failure affects, when they
//! are restarted, when the job has ended. Events come in as method calls with the time;
//! [`Command`]s go out in order. The core must never wait: everything slow is a command whose
//! outcome comes back as an event.

mod checkpointing;
mod coordinators;
mod ending;
mod failover;
mod giving;
mod reports;
mod savepoints;
mod schedule;
mod slots;
#[cfg(test)]
mod tests;

pub use reports::Unroutable;
pub use savepoints::{SavepointRefused, SavepointRequest};
pub use slots::NotRegistered;

use crate::checkpoints::{CheckpointConfig, Checkpoints};
use crate::execution_graph::{ExecutionGraph, StatusMachine, TaskIndex, TaskManager};
use crate::mutation::Mutation;
use crate::restart::{RestartPolicy, RestartStrategy};
use crate::scheduler::{Deployment, RegionIndex, Regions, SharedSlot, SlotPlan};
use crate::slot_pool::SlotPool;
use coordinators::{Coordinators, GroupState};
use model::job::{FailureRecord, JobDetails};
use model::{
    AllocationId, CheckpointBarrier, CheckpointMetadata, ExecutionAttemptId, ExecutionState,
    FailureCause, JobGraph, JobStatus, OperatorId, ResourceRequirement, StateHandle,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The current time by two clocks, as the caller read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Monotonic time since an arbitrary start, the same for all calls of one core.
    pub mono: Duration,
    /// Wall-clock time in Unix milliseconds, for users.
    pub unix_ms: u64,
}

/// The settings of one job under one JobMaster, fixed for the JobMaster's life: restarts, the wait for slots, checkpoints, ids.
#[derive(Debug, Clone)]
pub struct JobConfig {
    /// The restart strategy of the job, and the kinds of failures that it is asked about; others fail the job at once.
    pub restart: RestartPolicy,
    /// Maximum time a region (tasks that start together) waits for slots (`slot.request.timeout`); after that the region fails, about
    /// which the restart strategy decides. If the job is bounded and another region runs, whose slots will become free, the
    /// region waits as long again instead.
    pub slot_timeout: Duration,
    /// Maximum number of failures (0 counts as 1) that the job's details show, the newest first (`web.exception-history-size`); older ones
    /// are forgotten.
    pub history: usize,
    /// The id of the execution graph, a part of every attempt's id; keeps attempts of this JobMaster apart from those of others
    /// of the job.
    pub graph_id: u64,
    /// Seed of the random numbers for the jitter of restart delays.
    pub seed: u64,
    /// Time at which the Dispatcher began to run the job (its submission, or its recovery by a later leader), in Unix milliseconds.
    pub initialized_ms: u64,
    /// A rule that a simulation breaks on purpose; [`Mutation::None`] in production.
    pub mutation: Mutation,
    /// The settings of the job's checkpoints (`execution.checkpointing.*`).
    pub checkpoints: CheckpointConfig,
}

/// A command for the caller, from [`JobCore::take_commands`]: to the ResourceManager, TaskExecutors, coordinators, the stores of
/// checkpoints, the user or the Dispatcher. Commands are carried out in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Declare to the ResourceManager all slots that the job needs, held ones included. The amounts replace the ones declared
    /// before.
    Declare(Vec<ResourceRequirement>),
    /// Send tasks to a TaskExecutor to be started. Its answer is given to [`JobCore::deploy_answered`].
    Deploy(Deployment),
    /// Ask a TaskExecutor to cancel attempts; it reports through [`JobCore::update_tasks`] when they have ended. The message may be
    /// lost: while a report lists an attempt as running, the command is given again.
    CancelTasks {
        /// TaskExecutor that the command goes to.
        task_manager: Arc<TaskManager>,
        /// The execution attempts that are meant.
        attempts: Vec<ExecutionAttemptId>,
    },
    /// Ask a TaskExecutor to free a slot that the job does not need or does not hold (any more). If the slot is reported all
    /// the same, the command is given again.
    FreeSlot {
        /// TaskExecutor that the command goes to.
        task_manager: Arc<TaskManager>,
        /// Allocation of the slot concerned.
        allocation: AllocationId,
    },
    /// Start, or start anew, the coordinators (parts of operators that run once per job, such as a source's enumerator) of a
    /// group of regions, because one of these has its slots; those of other groups go on. The result is given to
    /// [`JobCore::coordinators_started`].
    StartCoordinators {
        /// Number of this start, never that of another start, reset or publication of this JobMaster; names it in the result and in reports
        /// of failure.
        round: u64,
        /// The operators of the group that have coordinators.
        operators: BTreeSet<OperatorId>,
        /// The states that the coordinators are restored with; an operator without one is missing, and its coordinator starts anew.
        restore: Vec<(OperatorId, StateHandle)>,
    },
    /// Have the enumerators of one group of regions, which go on, take back what they have assigned to attempts that have ended since the checkpoint that the
    /// subtasks begin anew with. The result is given to [`JobCore::subtasks_reset`]; until then the subtasks are not deployed, and no
    /// checkpoint begins.
    ResetSubtasks {
        /// Number of this reset, never that of a start, a publication or another reset of this JobMaster; names it in the result.
        round: u64,
        /// The attempts that have ended, by the operator whose enumerator is told.
        attempts: BTreeMap<OperatorId, Vec<ExecutionAttemptId>>,
        /// The number of the checkpoint that the subtasks begin with; `None`: they begin without state.
        checkpoint: Option<u64>,
    },
    /// Append to the job's log that this number is given out to a checkpoint or savepoint, which begins only then; again and again until it
    /// is known whether it is there, or `execution.checkpointing.timeout` has passed. The outcome is given to
    /// [`JobCore::checkpoint_number_recorded`]; none comes if another leader owns the job, or after that time.
    RecordCheckpointNumber(u64),
    /// Have coordinators that run take their snapshots for a checkpoint. The answer is given to
    /// [`JobCore::coordinators_snapshotted`].
    SnapshotCoordinators {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The operators of these coordinators: not those of regions that take no part, whose coordinators may be starting.
        operators: BTreeSet<OperatorId>,
    },
    /// Have the sources on one TaskExecutor send the barrier of a checkpoint. Subtasks answer through [`JobCore::acknowledged`]
    /// or [`JobCore::declined`].
    TriggerCheckpoint {
        /// TaskExecutor that the command goes to.
        task_manager: Arc<TaskManager>,
        /// The attempts of tasks with sources on that TaskExecutor that take part and have not finished.
        attempts: Vec<ExecutionAttemptId>,
        /// The barrier that the sources are to send.
        barrier: CheckpointBarrier,
    },
    /// Store a checkpoint's metadata, then append its pointer to the job's log, again and again until it is known whether it is there. The
    /// outcome is given to [`JobCore::checkpoint_persisted`]; none comes if another leader owns the job.
    PersistCheckpoint(Arc<CheckpointMetadata>),
    /// Copy the parts of a savepoint into its folder, then store its metadata there. The outcome is given to
    /// [`JobCore::savepoint_stored`], with the number of the checkpoint and not that of the request.
    StoreSavepoint {
        /// The number of the request ([`SavepointRequest::number`]).
        number: u64,
        /// Metadata of the savepoint; it names the parts where the subtasks have stored them, not yet their copies.
        metadata: Arc<CheckpointMetadata>,
    },
    /// Answer the user whose savepoint, stop or checkpoint was asked for ([`JobCore::take_savepoint`]): it is complete, or will
    /// never be. The success of a stop comes only when the job has finished; if it does not finish, this is an error that names the
    /// complete savepoint.
    SavepointEnded {
        /// The number of the request.
        number: u64,
        /// The URI of the savepoint's folder (for a checkpoint its number as text), or the reason of the failure.
        outcome: Result<String, String>,
    },
    /// Tell subtasks on one TaskExecutor how a checkpoint has ended. If it is complete their sinks commit, so all of them must
    /// hear it.
    NotifyCheckpoint {
        /// TaskExecutor that the command goes to.
        task_manager: Arc<TaskManager>,
        /// The attempts that are notified.
        attempts: Vec<ExecutionAttemptId>,
        /// The number of the checkpoint.
        checkpoint: u64,
        /// True if the checkpoint is complete, false if it was aborted or is a savepoint without commits.
        complete: bool,
    },
    /// Tell the coordinators that run that a checkpoint is complete, or (`complete` is false) that it will never count for
    /// them.
    CoordinatorsCheckpointEnded {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// True if the checkpoint is complete, false if it was aborted or is a savepoint without commits.
        complete: bool,
    },
    /// Log that a checkpoint will never be complete, for this reason; the subtasks are told by [`Command::NotifyCheckpoint`].
    CheckpointAborted {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The reason as text, for log lines and users.
        why: String,
    },
    /// Delete the objects with these names from the checkpoint directory: no checkpoint refers to them any more.
    DiscardObjects(BTreeSet<String>),
    /// List the objects of the job's checkpoints with numbers below this one, and delete those that are not in `keep`:
    /// leftovers of failed checkpoints. The pointer of checkpoint `below` is in the job's log.
    DeleteOrphans {
        /// The number of the newest complete checkpoint.
        below: u64,
        /// The names of the objects that stay.
        keep: BTreeSet<String>,
    },
    /// Have the coordinators publish their results (make them visible), because every task has finished. The outcome is given
    /// to [`JobCore::results_published`].
    PublishResults {
        /// Number of this try, never that of another start, reset or publication of this JobMaster; names it in the outcome.
        round: u64,
    },
    /// Tell the coordinators that nothing will be published, because the job ends FAILED or CANCELED. Given only if the job has
    /// coordinators.
    AbandonResults,
    /// The job has entered this state: tell whoever watches the job.
    StatusChanged(JobStatus),
    /// The job has ended for good in this state (FINISHED, FAILED or CANCELED): leave the ResourceManager and the TaskExecutors and
    /// report the end to the job's runner. Given once, and not for SUSPENDED.
    Ended(JobStatus),
}

/// The phase that a region is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The region was never started.
    Idle,
    /// The region waits for slots (and coordinators) until the monotonic deadline.
    Waiting { deadline: Duration },
    /// The region's tasks have been sent to their TaskExecutors.
    Active,
    /// The region's tasks are being cancelled; it starts again no earlier than `resume`
    /// (monotonic).
    Stopping { resume: Duration },
    /// The region's tasks have ended; it starts again at `resume` (monotonic).
    Resting { resume: Duration },
}

#[derive(Debug, Clone)]
struct RegionState {
    phase: Phase,
    /// The region's shared slots, ascending.
    slots: Vec<SharedSlot>,
    /// The index in `slots` at which the last search for an unserved slot stopped.
    cursor: usize,
    /// Tasks that have not ended.
    alive: u32,
    /// True if it was ever deployed.
    deployed_once: bool,
    /// The number of the checkpoint that it was deployed with last, or that its coordinators were started with.
    restored_from: Option<u64>,
    /// The number of the reset by which its enumerators take back what its former attempts had, until they have.
    reset: Option<u64>,
}

impl RegionState {
    /// Returns true if all of it has finished.
    fn is_over(&self) -> bool {
        self.phase == Phase::Active && self.alive == 0
    }
}

/// The state of one job under one JobMaster, in memory only: decides when its tasks are deployed, restarted and ended. Order of the calls:
/// [`JobCore::new`]; then [`JobCore::restore`] (the job has a checkpoint of its own) or [`JobCore::start_from`] (a snapshot is named), if
/// there is something to restore, and [`JobCore::restore_older`]; then [`JobCore::start`]; then events. The commands that follow from each
/// call are taken by [`JobCore::take_commands`]; what an event itself returns is only the answer for its sender.
#[derive(Debug)]
pub struct JobCore {
    config: JobConfig,
    exec: ExecutionGraph,
    regions: Regions,
    plan: SlotPlan,
    pool: SlotPool,
    states: Vec<RegionState>,
    /// The states of the groups of regions that share coordinators.
    groups: Vec<GroupState>,
    status: StatusMachine,
    restart: RestartStrategy,
    /// The number of the latest start, reset or publication of coordinators.
    round: u64,
    /// The vertex of each coordinated operator, by place.
    coordinated: BTreeMap<OperatorId, usize>,
    /// True if coordinators are publishing.
    publishing: bool,
    /// True if the user cancelled the job while it was publishing.
    cancel_requested: bool,
    /// Region timers; stale ones are ignored when they come.
    timers: BTreeSet<(Duration, RegionIndex)>,
    failures: VecDeque<FailureRecord>,
    root_cause: Option<FailureCause>,
    last_shortage: Option<String>,
    /// Slots that others were to have and that were not free.
    owed: u32,
    /// Slots that were returned; later reports about them are ignored.
    freed: BTreeSet<AllocationId>,
    restarts: u32,
    random: u64,
    checkpoints: Checkpoints,
    savepoints: savepoints::Savepoints,
    /// Regions whose final checkpoint is complete: their tasks finish, or have finished.
    finishing: BTreeSet<RegionIndex>,
    /// True if the job ends with a checkpoint even without periodic ones.
    ends_with_checkpoint: bool,
    out: Vec<Command>,
}

impl JobCore {
    /// Creates the core of a job, in state CREATED; the graph must have passed [`crate::job_graph::check`]. Issues no commands
    /// before [`JobCore::start`].
    pub fn new(graph: Arc<JobGraph>, config: JobConfig, now: Now) -> Self {
        let coordinated = coordinated_operators(&graph);
        let exec = ExecutionGraph::new(graph, config.graph_id, now.unix_ms);
        let regions = Regions::of(&exec);
        let plan = SlotPlan::of(&exec);
        let states = region_states(&exec, &regions, &plan);
        let groups = regions.groups().map(|_| GroupState::default()).collect();
        let mut checkpoints = Checkpoints::new(config.checkpoints.clone(), now.mono);
        let vertices = exec.graph().vertices.iter();
        checkpoints.set_vertices(vertices.map(|vertex| (vertex.id, vertex.parallelism)));
        Self {
            pool: SlotPool::new(&plan),
            status: StatusMachine::new(config.initialized_ms, now.unix_ms),
            restart: RestartStrategy::new(config.restart.clone()),
            random: config.seed,
            round: 0,
            coordinated,
            publishing: false,
            cancel_requested: false,
            timers: BTreeSet::new(),
            failures: VecDeque::new(),
            root_cause: None,
            last_shortage: None,
            owed: 0,
            freed: BTreeSet::new(),
            restarts: 0,
            checkpoints,
            savepoints: savepoints::Savepoints::default(),
            finishing: BTreeSet::new(),
            ends_with_checkpoint: exec.graph().ends_with_checkpoint(),
            out: Vec::new(),
            config,
            exec,
            regions,
            plan,
            states,
            groups,
        }
    }

    /// Removes and returns the pending commands, in order; to be called after every event, since events only add to them.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.out)
    }

    /// Begins to record every change of an attempt's state, for [`JobCore::take_task_changes`]. For the simulation; off by
    /// default.
    pub fn watch_tasks(&mut self) {
        self.exec.watch();
    }

    /// Removes and returns the changes of attempts' states since the last call, in order; always empty unless
    /// [`JobCore::watch_tasks`] was called.
    pub fn take_task_changes(&mut self) -> Vec<(ExecutionAttemptId, ExecutionState)> {
        self.exec.take_changes()
    }

    /// Returns the job's current state.
    pub fn status(&self) -> JobStatus {
        self.status.current()
    }

    /// Returns the graph that the job was submitted with.
    pub fn graph(&self) -> &Arc<JobGraph> {
        self.exec.graph()
    }

    /// Returns the subtasks of the job and the states of their current attempts.
    pub fn execution(&self) -> &ExecutionGraph {
        &self.exec
    }

    /// Returns the newest failure that the job restarted or failed for (also one that [`JobCore::fail`] or [`JobCore::fell_back`] was
    /// called with), with at most 16 failures of other tasks that were being cancelled for it; `None` if there was none under this
    /// JobMaster.
    pub fn last_failure(&self) -> Option<&FailureRecord> {
        self.failures.front()
    }

    /// Returns the slots that the job declares to the ResourceManager: whole amounts for all that has not finished, held or
    /// not; empty once the job is ending.
    pub fn requirements(&self) -> Vec<ResourceRequirement> {
        match self.status() {
            JobStatus::Created | JobStatus::Running | JobStatus::Restarting => {
                self.pool.requirements()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the time at which the Dispatcher began to run the job (submission or recovery), that of the end (`None` until the job has
    /// ended for good), and that of the latest change of state of the job or a subtask, all in Unix milliseconds.
    pub fn times(&self) -> (u64, Option<u64>, u64) {
        let entered = self.status.entered();
        let ended = self.status().is_globally_terminal();
        let end = ended.then(|| entered.get(&self.status()).copied()).flatten();
        let changed = entered.values().copied().max().unwrap_or_default();
        (self.config.initialized_ms, end, changed.max(self.exec.modified_ms()))
    }

    /// Returns the job's details at `now` (graph, states, subtasks, failures, checkpoints), for REST and for the store of ended
    /// jobs.
    pub fn details(&self, now: Now) -> JobDetails {
        let entered = self.status.entered();
        let ended = self.status().is_globally_terminal();
        JobDetails {
            graph: self.exec.graph().clone(),
            status: self.status(),
            timestamps: entered.clone(),
            start_ms: self.config.initialized_ms,
            end_ms: ended.then(|| entered.get(&self.status()).copied().unwrap_or(now.unix_ms)),
            now_ms: now.unix_ms,
            vertices: self.exec.details(),
            cause: self.root_cause.clone(),
            failures: self.failures.iter().cloned().collect(),
            restarts: self.restarts,
            checkpoints: Arc::new(self.checkpoint_report()),
        }
    }

    fn advance_status(&mut self, to: JobStatus, now: Now) {
        if self.status.advance(to, now.unix_ms).is_ok() {
            self.out.push(Command::StatusChanged(to));
        }
    }

    /// Returns true if tasks may be started and restarted.
    fn is_live(&self) -> bool {
        matches!(self.status(), JobStatus::Running | JobStatus::Restarting)
    }

    fn draw(&mut self) -> u64 {
        // splitmix64: a good enough spread for jitter, from one seed.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn region_state(&mut self, region: RegionIndex) -> Option<&mut RegionState> {
        self.states.get_mut(region.0 as usize)
    }

    fn phase(&self, region: RegionIndex) -> Phase {
        self.states.get(region.0 as usize).map_or(Phase::Idle, |state| state.phase)
    }

    fn tasks_of(&self, region: RegionIndex) -> Vec<TaskIndex> {
        self.regions.get(region).map(|r| r.tasks.clone()).unwrap_or_default()
    }
}

fn coordinated_operators(graph: &JobGraph) -> BTreeMap<OperatorId, usize> {
    let coordinated = graph.nodes.iter().filter(|node| node.coordinated);
    coordinated
        .filter_map(|node| {
            let vertex = graph.vertices.iter().position(|v| v.nodes.contains(&node.id))?;
            Some((node.operator_id, vertex))
        })
        .collect()
}

fn region_states(exec: &ExecutionGraph, regions: &Regions, plan: &SlotPlan) -> Vec<RegionState> {
    regions
        .iter()
        .map(|(_, region)| {
            let slots: BTreeSet<SharedSlot> =
                region.tasks.iter().filter_map(|task| plan.slot_of(exec, *task)).collect();
            RegionState {
                phase: Phase::Idle,
                slots: slots.into_iter().collect(),
                cursor: 0,
                alive: u32::try_from(region.tasks.len()).unwrap_or(u32::MAX),
                deployed_once: false,
                restored_from: None,
                reset: None,
            }
        })
        .collect()
}
