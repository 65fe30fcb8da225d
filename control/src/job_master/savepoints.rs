//! Savepoints: checkpoints that a user asks for and owns. They are taken one at a time, and wait for a checkpoint that runs. A
//! user can also ask for a checkpoint that is no savepoint, which the job keeps and replaces like its periodic ones. The
//! savepoint of a stop ends the job: when it is complete its sinks commit, and all tasks finish.
//!
//! Sources that have taken the barrier of a stop read nothing more, so that only a restart makes them go on if the stop fails. A job
//! without periodic checkpoints would begin anew then and lose all its state. Therefore a checkpoint of it is taken before the barrier of
//! the stop: if that fails, the job is not stopped.
//!
//! A savepoint also waits for tasks that come up, but no longer than `execution.checkpointing.timeout` from its request: a task may
//! never run, for instance because it restores from a store that hangs.

use super::{Command, JobCore, Now, Phase};
use crate::checkpoints;
use crate::execution_graph::TaskIndex;
use model::{CheckpointKind, CheckpointMetadata, ExecutionState, JobStatus};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The most savepoints that may wait for one another.
const WAITING_MAX: usize = 16;

/// A savepoint, a stop with a savepoint or a checkpoint that a user asks for. The JobMaster makes it of a user's call, for
/// [`JobCore::take_savepoint`]; its number names it in the answer, [`Command::SavepointEnded`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavepointRequest {
    /// Number that names the request in [`Command::SavepointEnded`]; chosen by the caller, unique within one JobMaster.
    pub number: u64,
    /// A savepoint, one with which the job stops, or a checkpoint that the job keeps like its periodic ones.
    pub kind: CheckpointKind,
    /// The URI of the folder into which the savepoint is copied; empty for a checkpoint, which stays in the checkpoint
    /// directory.
    pub folder: String,
}

/// The reason why [`JobCore::take_savepoint`] does not begin a savepoint, a stop or a checkpoint: the job does not run with all its tasks,
/// it never takes checkpoints (for good), it is about to finish, a stop waits already, or too many requests wait. Nothing has changed then.
/// The JobMaster answers the user's call with its text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SavepointRefused {
    /// The job is not RUNNING; or it is, but tasks wait for slots, or coordinators are not up or still take splits back, or no task runs
    /// any more. Tasks that are being deployed or initialised are no reason.
    #[error("the job is {status}, and a savepoint needs all of its tasks to run: {missing}")]
    NotRunning {
        /// State of the job.
        status: JobStatus,
        /// Text that says how many tasks run, what the others wait for, and whether to try again.
        missing: String,
    },
    /// The job has no checkpoints at all: it reads bounded input, and has neither periodic checkpoints nor sinks that commit.
    #[error(
        "the job reads bounded input without checkpoints; set execution.checkpointing.interval to take savepoints of it"
    )]
    WithoutCheckpoints,
    /// A stop of the job is being taken, or the final checkpoint of some tasks is complete, so that they are about to finish.
    #[error("the job is about to finish")]
    Finishing,
    /// A stop was asked for before and has not begun: it waits for tasks that come up, or for a checkpoint that runs.
    #[error(
        "a stop of the job with a savepoint waits already; the job ends with that savepoint, so ask again only if the stop fails"
    )]
    StopWaits,
    /// This many requests (savepoints, stops and checkpoints) wait already; 16 are the most that may wait, the one that is being taken not
    /// counted.
    #[error("{0} savepoints of the job wait already")]
    TooMany(usize),
}

/// The savepoints of one job that have not ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Savepoints {
    waiting: VecDeque<Waiting>,
    /// The one that is taken, with the number of its checkpoint.
    running: Option<(u64, SavepointRequest)>,
    /// The checkpoint that was begun for the stop that waits, before its barrier.
    before_stop: Option<u64>,
    /// The one of a stop that is complete while tasks still have to finish.
    stopped: Option<SavepointRequest>,
}

/// A savepoint that has not begun.
#[derive(Debug, Clone)]
struct Waiting {
    request: SavepointRequest,
    /// The latest time at which all tasks must run (monotonic).
    deadline: Duration,
}

impl JobCore {
    /// Asks for a savepoint, a stop with one, or a checkpoint, which begins at once or after those in progress. Before a stop of a job
    /// without periodic checkpoints a checkpoint is taken; if that fails, the job is not stopped. The answer is
    /// [`Command::SavepointEnded`] with the request's number: complete, or failed: tasks that come up do not all run within
    /// `execution.checkpointing.timeout` (monotonic, from now), the checkpoint fails, tasks of the job fail, the job ends, or keyed state
    /// of tasks whose data has ended was not kept. The success of a stop is answered only when the job has finished. No answer follows if
    /// the job is suspended.
    ///
    /// # Errors
    ///
    /// Returns [`SavepointRefused`] if the savepoint can't be taken now or at all (not all tasks run, the job is about to finish, a stop or
    /// too many requests wait, a bounded job without checkpoints); then nothing has changed and no answer follows. The folder is not looked
    /// at: the JobMaster has checked it before.
    pub fn take_savepoint(
        &mut self,
        now: Now,
        request: SavepointRequest,
    ) -> Result<(), SavepointRefused> {
        let savepoints = &self.savepoints;
        let stops = savepoints.running.iter().any(|(_, request)| request.kind.stops());
        if !self.ends_with_checkpoint() {
            return Err(SavepointRefused::WithoutCheckpoints);
        }
        if self.status() == JobStatus::Running && (stops || self.some_region_is_finishing()) {
            return Err(SavepointRefused::Finishing);
        }
        if savepoints.waiting.iter().any(|waiting| waiting.request.kind.stops()) {
            return Err(SavepointRefused::StopWaits);
        }
        if !self.may_checkpoint() && !self.comes_up() {
            let (status, missing) = (self.status(), self.what_is_missing());
            return Err(SavepointRefused::NotRunning { status, missing });
        }
        if savepoints.waiting.len() >= WAITING_MAX {
            return Err(SavepointRefused::TooMany(WAITING_MAX));
        }
        let deadline = now.mono.saturating_add(self.config.checkpoints.timeout);
        if request.kind.stops() {
            self.savepoints.before_stop = None;
        }
        self.savepoints.waiting.push_back(Waiting { request, deadline });
        self.settle(now);
        Ok(())
    }

    /// Returns the number of the request ([`SavepointRequest::number`]) for which this checkpoint is being taken; `None` if nobody asked
    /// for the checkpoint, or it has ended.
    pub fn request_of(&self, checkpoint: u64) -> Option<u64> {
        let running = self.savepoints.running.as_ref();
        running.filter(|(number, _)| *number == checkpoint).map(|(_, request)| request.number)
    }

    /// Begins the savepoint that has waited longest, or the checkpoint before it if it is that of a stop, if no checkpoint runs. Returns
    /// true if it did.
    pub(super) fn begin_savepoint(&mut self, now: Now) -> bool {
        if !self.checkpoints.is_idle() || self.savepoints.running.is_some() {
            return false;
        }
        self.refuse_without_keyed_state();
        if self.needs_checkpoint_before_stop() {
            let (kind, scope) = (CheckpointKind::Checkpoint, self.checkpoint_scope());
            let checkpoint = self.checkpoints.begin(now.mono, now.unix_ms, kind, scope);
            self.savepoints.before_stop = Some(checkpoint);
            return true;
        }
        let Some(waiting) = self.savepoints.waiting.pop_front() else { return false };
        let request = waiting.request;
        let kind = request.kind;
        let mut scope = self.checkpoint_scope();
        if kind.stops() {
            scope.last.clone_from(&scope.tasks);
        }
        let checkpoint = self.checkpoints.begin(now.mono, now.unix_ms, kind, scope);
        self.savepoints.running = Some((checkpoint, request));
        true
    }

    /// Answers the savepoints that have waited longest with an error if keyed state that belongs into them was not kept: the final
    /// checkpoint of a job without a checkpoint directory leaves out that of the regions that end with it. They have finished, or run again
    /// as ended.
    fn refuse_without_keyed_state(&mut self) {
        let is_savepoint = |waiting: &Waiting| waiting.request.kind.is_savepoint();
        if !self.savepoints.waiting.front().is_some_and(is_savepoint) {
            return;
        }
        let parts = (0..self.exec.len()).map(TaskIndex).map(|task| (task, self.latest_part(task)));
        let mut ended = parts.filter(|(_, part)| part.ended);
        let lacking =
            ended.find_map(|(task, part)| checkpoints::lacks_keyed_state(&self.exec, task, &part));
        let Some(operator) = lacking.map(|node| node.name.clone()) else { return };
        while self.savepoints.waiting.front().is_some_and(is_savepoint)
            && let Some(Waiting { request, .. }) = self.savepoints.waiting.pop_front()
        {
            let withdrawn = if request.kind.stops() { "; the job is not stopped" } else { "" };
            let why = format!(
                "the keyed state of operator '{operator}', whose data has ended, was not kept, because the job has no checkpoint \
                 directory: set execution.checkpointing.dir, or take the savepoint before its data ends{withdrawn}"
            );
            self.savepoint_ended(&request, Err(why));
        }
    }

    /// Returns true if the next request is a stop, and the job would lose state if it failed: there are no periodic checkpoints, and that
    /// before the stop is not complete.
    fn needs_checkpoint_before_stop(&self) -> bool {
        let stops = self.savepoints.waiting.front().is_some_and(|next| next.request.kind.stops());
        let latest = self.checkpoints.latest().map(|latest| latest.checkpoint);
        let before = self.savepoints.before_stop;
        stops && !self.checkpoints.is_periodic() && (before.is_none() || before != latest)
    }

    /// Returns when the first savepoint that waits for tasks is given up (monotonic); `None` if none waits for tasks. One that waits
    /// for a checkpoint or another savepoint has no deadline here: those have their own.
    pub(super) fn savepoint_deadline(&self) -> Option<Duration> {
        let deadlines = self.savepoints.waiting.iter().map(|waiting| waiting.deadline);
        deadlines.min().filter(|_| self.comes_up() || self.waiting_tasks() > 0)
    }

    /// Answers each savepoint whose tasks were not all running in time with an error. A stop among
    /// them is withdrawn: the job continues.
    pub(super) fn end_late_savepoints(&mut self, now: Now) {
        if self.savepoint_deadline().is_none_or(|deadline| deadline > now.mono) {
            return;
        }
        let why = self.not_all_running();
        let waiting = std::mem::take(&mut self.savepoints.waiting);
        let is_late = |w: &Waiting| w.deadline <= now.mono;
        let (late, waiting): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(is_late);
        self.savepoints.waiting = waiting;
        for Waiting { request, .. } in late {
            let withdrawn = if request.kind.stops() { "; the job is not stopped" } else { "" };
            self.savepoint_ended(&request, Err(format!("{why}{withdrawn}")));
        }
    }

    /// Says how many tasks run, what the others wait for, and whether the savepoint may be asked for again.
    fn what_is_missing(&self) -> String {
        let (mut for_slots, mut for_coordinators, mut to_restart) = (0, 0, 0);
        let mut missing = BTreeSet::new();
        for ((_, region), state) in self.regions.iter().zip(&self.states) {
            let unserved = state.slots.iter().filter(|slot| !self.pool.is_served(**slot));
            let waiting = match state.phase {
                Phase::Waiting { .. } if unserved.clone().next().is_some() => {
                    missing.extend(unserved.copied());
                    &mut for_slots
                }
                Phase::Waiting { .. } => &mut for_coordinators,
                Phase::Stopping { .. } | Phase::Resting { .. } => &mut to_restart,
                Phase::Idle | Phase::Active => continue,
            };
            *waiting += region.tasks.len();
        }
        let states = [ExecutionState::Running, ExecutionState::Finished];
        let run: u32 = states.into_iter().map(|state| self.exec.in_state(state)).sum();
        let mut text = format!("{run} of {} run", self.exec.len());
        let causes = [
            (for_slots, format!("wait for slots ({} missing)", missing.len())),
            (for_coordinators, "wait for the program's coordinators".to_owned()),
            (to_restart, "are to be restarted after a failure".to_owned()),
        ];
        for (tasks, cause) in causes.into_iter().filter(|(tasks, _)| *tasks > 0) {
            text.push_str(&format!(", {tasks} {cause}"));
        }
        let comes = matches!(
            self.status(),
            JobStatus::Initializing
                | JobStatus::Created
                | JobStatus::Running
                | JobStatus::Restarting
        );
        text.push_str(if comes { "; try again when all of them run" } else { "; the job ends" });
        text
    }

    /// Says that tasks have not run in time, and names one of them.
    fn not_all_running(&self) -> String {
        let limit = self.config.checkpoints.timeout.as_secs();
        let state = |task: TaskIndex| self.exec.task(task).map(|task| task.state);
        let is_missing = |task: &TaskIndex| {
            !matches!(state(*task), Some(ExecutionState::Running | ExecutionState::Finished))
        };
        let missing = (0..self.exec.len()).map(TaskIndex).filter(is_missing);
        let example = missing.clone().next().and_then(|task| {
            let count = missing.count();
            let (task, state) = (self.exec.describe(task), state(task)?);
            Some(format!(": {count} do not, among them '{task}', which is {state}"))
        });
        let example = example.unwrap_or_default();
        format!(
            "the job's tasks did not all run within {limit} s (execution.checkpointing.timeout){example}"
        )
    }

    /// Has the parts of a savepoint stored in its folder.
    pub(super) fn store_savepoint(&mut self, metadata: CheckpointMetadata) {
        let running = self.savepoints.running.as_ref();
        if let Some((_, request)) = running.filter(|(number, _)| *number == metadata.checkpoint) {
            let (number, metadata) = (request.number, Arc::new(metadata));
            self.out.push(Command::StoreSavepoint { number, metadata });
        }
    }

    /// Handles the outcome of [`Command::StoreSavepoint`] for the checkpoint with this number. On success a savepoint is complete: the user
    /// is answered, and the parts that only the savepoint refers to, of which the folder has copies, are deleted. That of a stop is first
    /// written to the job's log ([`Command::PersistCheckpoint`]). On failure the savepoint is aborted and the user is told; in the case of
    /// a stop all tasks fail, too, because their sources read nothing more, and the restart strategy decides. Ignored unless this savepoint
    /// is being stored.
    pub fn savepoint_stored(&mut self, now: Now, checkpoint: u64, outcome: Result<(), String>) {
        let running = self.savepoints.running.as_ref();
        let running = running.filter(|(number, _)| *number == checkpoint);
        let folder = running.map(|(_, request)| request.folder.clone()).unwrap_or_default();
        self.checkpoints.savepoint_stored(now.mono, checkpoint, outcome.map(|()| folder));
        self.settle(now);
    }

    /// Records that the checkpoint of a savepoint is complete.
    pub(super) fn savepoint_complete(&mut self, checkpoint: u64) {
        match self.savepoints.running.take() {
            Some((number, request)) if number == checkpoint => {
                if !request.kind.is_savepoint() {
                    let request = SavepointRequest { folder: number.to_string(), ..request };
                    return self.savepoint_ended(&request, Ok(()));
                }
                if !request.kind.stops() {
                    return self.savepoint_ended(&request, Ok(()));
                }
                // The answer follows when the job has finished.
                self.savepoints.stopped = Some(request);
                if self.status() != JobStatus::Running {
                    // The history also has checkpoints that were passed over at the start.
                    let why = match self.status() {
                        JobStatus::Cancelling | JobStatus::Canceled => {
                            "the job is being canceled".to_owned()
                        }
                        _ => self.newest_failure(),
                    };
                    self.abort_savepoints(&why);
                }
            }
            other => self.savepoints.running = other,
        }
    }

    /// Records that the checkpoint of a savepoint, or the one before a stop, will never be complete.
    pub(super) fn savepoint_aborted(&mut self, checkpoint: u64, why: &str) {
        if self.savepoints.before_stop.take_if(|before| *before == checkpoint).is_some() {
            let is_stop = |waiting: &Waiting| waiting.request.kind.stops();
            if let Some(at) = self.savepoints.waiting.iter().position(is_stop)
                && let Some(Waiting { request, .. }) = self.savepoints.waiting.remove(at)
            {
                let why = format!(
                    "the checkpoint before the stop has failed, so the job is not stopped: {why}"
                );
                self.savepoint_ended(&request, Err(why));
            }
        }
        match self.savepoints.running.take() {
            Some((number, request)) if number == checkpoint => {
                self.savepoint_ended(&request, Err(why.to_owned()));
            }
            other => self.savepoints.running = other,
        }
    }

    /// Answers waiting savepoints, and a stop that has not finished, with an error: tasks of the
    /// job have failed, or the job ends otherwise than by a stop.
    pub(super) fn abort_savepoints(&mut self, why: &str) {
        for Waiting { request, .. } in std::mem::take(&mut self.savepoints.waiting) {
            self.savepoint_ended(&request, Err(why.to_owned()));
        }
        if let Some(request) = self.savepoints.stopped.take() {
            let why = format!(
                "the savepoint {} is complete, but the job has not finished with it: {why}; unless the job is ending, it goes on, so stop it again",
                request.folder
            );
            self.savepoint_ended(&request, Err(why));
        }
    }

    /// Answers a stop, because the job has finished.
    pub(super) fn answer_stop(&mut self) {
        if let Some(request) = self.savepoints.stopped.take() {
            self.savepoint_ended(&request, Ok(()));
        }
        self.abort_savepoints("the job has finished");
    }

    fn savepoint_ended(&mut self, request: &SavepointRequest, outcome: Result<(), String>) {
        let outcome = outcome.map(|()| request.folder.clone());
        self.out.push(Command::SavepointEnded { number: request.number, outcome });
    }
}
