//! The checkpoints of a job: turns what happens to its subtasks into events of the checkpoint coordinator, and the coordinator's
//! steps into commands for the places where the subtasks run.

use super::{Command, Coordinators, JobCore, Now, Phase, RegionState};
use crate::checkpoints::{self, CheckpointStep, Parts, Scope};
use crate::execution_graph::TaskIndex;
use crate::mutation::Rule;
use crate::scheduler::RegionIndex;
use model::{
    CheckpointBarrier, CheckpointKind, CheckpointMetadata, CheckpointReport, ExecutionAttemptId,
    ExecutionState, FailureCause, JobStatus, OperatorId, StateHandle, SubtaskSnapshot,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kind of failure of a job whose checkpoints fail too often.
const CHECKPOINT_FAILED: &str = "CheckpointFailed";

impl JobCore {
    /// Returns true if the tasks of this job, at the end of their data, wait for a final checkpoint before they finish. This is
    /// the case if the job has periodic checkpoints, or sinks that commit, or reads without end, so that it may be stopped with
    /// a savepoint. If false, no checkpoint of the job is ever taken.
    pub fn ends_with_checkpoint(&self) -> bool {
        self.checkpoints.is_periodic() || self.ends_with_checkpoint
    }

    /// Returns the same as [`JobCore::ends_with_checkpoint`], unless a simulation breaks that rule. The value is sent to the
    /// tasks; if it is false they finish at once at the end of their data.
    pub fn tasks_await_checkpoint(&self) -> bool {
        self.ends_with_checkpoint() && self.config.mutation.keeps(Rule::FinalCheckpointAwaited)
    }

    /// Makes the job continue from a complete checkpoint of its own, after a change of the JobMaster. Must be called before
    /// [`JobCore::start`], with the newest checkpoint that can be read; the numbers of new checkpoints continue after it. Issues no
    /// command.
    pub fn restore(&mut self, now: Now, restored: Arc<CheckpointMetadata>) {
        self.checkpoints.restore(now.unix_ms, restored, None);
    }

    /// Makes the job start from a snapshot that is not its own (a savepoint or retained checkpoint); `uri` is that of its metadata. The
    /// numbers of the job's checkpoints continue after the snapshot's. Must be called before [`JobCore::start`]. State that the job's
    /// operators cannot read is dropped; [`checkpoints::check`] has allowed that.
    pub fn start_from(&mut self, now: Now, mut snapshot: CheckpointMetadata, uri: String) {
        let nodes = &self.exec.graph().nodes;
        snapshot.operators.retain(|id, saved| {
            let node = nodes.iter().find(|node| node.operator_id == *id);
            node.is_some_and(|node| checkpoints::is_readable(node, saved))
        });
        self.checkpoints.restore(now.unix_ms, Arc::new(snapshot), Some(uri));
    }

    /// Adds the job's kept checkpoints that are older than the one given to [`JobCore::restore`], the newest last, for fallback; the list
    /// may be empty. To be called before [`JobCore::start`], and after `restore` or `start_from` if there is one. New checkpoints get
    /// numbers above all that may have been given out before: `newest` is the number of the newest checkpoint in the job's log, readable or
    /// not, and `given_out` the newest number that was recorded there by itself ([`Command::RecordCheckpointNumber`]); each 0 if there is
    /// none.
    pub fn restore_older(
        &mut self,
        older: Vec<Arc<CheckpointMetadata>>,
        newest: u64,
        given_out: u64,
    ) {
        self.checkpoints.restore_older(older, newest, given_out);
    }

    /// Returns the numbers of the complete checkpoints that will still be kept when one more is complete; the older ones are deleted then.
    /// The JobMaster keeps their pointers in the job's log when it appends the next one.
    pub fn kept_beside_next(&self) -> std::collections::BTreeSet<u64> {
        self.checkpoints.kept_beside_next()
    }

    /// Returns the statistics of the job's checkpoints and savepoints since this JobMaster started, for users: counts by outcome, the
    /// newest ones (at most `web.checkpoints.history`), the last restore, sizes and durations of the newest 1,000 complete ones, and the
    /// settings.
    pub fn checkpoint_report(&self) -> CheckpointReport {
        self.checkpoints.report()
    }

    /// Returns the longest time in microseconds for which a subtask has handled no records because of its snapshot for this checkpoint; 0
    /// if none has acknowledged it, or the history does not list it any more.
    pub fn checkpoint_pause_us(&self, checkpoint: u64) -> u64 {
        self.checkpoints.pause_us(checkpoint)
    }

    /// Begins a checkpoint if one is due and every subtask runs or has finished, and carries out the coordinator's steps. A final
    /// checkpoint does not wait for regions that wait for slots: they may be waiting for the slots of the region that ends.
    pub(super) fn advance_checkpoints(&mut self, now: Now) {
        self.checkpoints.tick(now.mono);
        self.do_checkpoint_steps(now);
        self.end_late_savepoints(now);
        let ends = self.some_region_ends();
        let may = if ends { self.may_take_final() } else { self.may_checkpoint() };
        if self.may_checkpoint() && self.begin_savepoint(now) {
            self.do_checkpoint_steps(now);
        } else if may && self.checkpoints.may_begin(now.mono, ends) {
            let scope = self.checkpoint_scope();
            self.checkpoints.begin(now.mono, now.unix_ms, CheckpointKind::Checkpoint, scope);
            self.do_checkpoint_steps(now);
        }
    }

    /// Returns true if every subtask runs or has finished, and some still run.
    pub(super) fn may_checkpoint(&self) -> bool {
        self.waiting_tasks() == 0 && self.may_take_final()
    }

    /// Returns true if every subtask runs, has finished or waits for slots with its region, and some still run.
    fn may_take_final(&self) -> bool {
        let running = self.exec.in_state(ExecutionState::Running);
        let finished = self.exec.in_state(ExecutionState::Finished);
        self.ends_with_checkpoint()
            && self.status() == JobStatus::Running
            && self.regions.iter().all(|(region, _)| self.may_be_in_checkpoint(region))
            && running > 0
            && running + finished + self.waiting_tasks() == self.exec.len()
            && !self.some_region_is_finishing()
            && !self.waits_to_be_rescaled()
    }

    /// Returns true if no subtask waits for slots and some are on their way to run: a savepoint that is asked for now can wait for
    /// them, up to a deadline, because each of them usually runs soon or fails the job's region.
    pub(super) fn comes_up(&self) -> bool {
        let states = [ExecutionState::Deploying, ExecutionState::Initializing];
        let on_their_way: u32 = states.into_iter().map(|state| self.exec.in_state(state)).sum();
        self.status() == JobStatus::Running && self.waiting_tasks() == 0 && on_their_way > 0
    }

    /// Returns true if a subtask that is not deployed has no part of its own in the latest checkpoint, which is a snapshot that the
    /// job was started from with another parallelism. A checkpoint could not say what state such a subtask begins with.
    pub(super) fn waits_to_be_rescaled(&self) -> bool {
        let Some(snapshot) = self.checkpoints.started_from_latest() else { return false };
        let waits = |task: u32| {
            let state = self.exec.task(TaskIndex(task)).map(|task| task.state);
            matches!(state, Some(ExecutionState::Created | ExecutionState::Scheduled))
        };
        let graph = self.exec.graph();
        graph.vertices.iter().enumerate().any(|(place, vertex)| {
            checkpoints::is_rescaled(snapshot, graph, vertex)
                && self.exec.tasks_of(place).any(waits)
        })
    }

    /// Returns the number of subtasks that are not deployed. Their whole regions are not: a region is deployed and renewed at once.
    pub(super) fn waiting_tasks(&self) -> u32 {
        let states = [ExecutionState::Created, ExecutionState::Scheduled];
        states.into_iter().map(|state| self.exec.in_state(state)).sum()
    }

    /// Returns true if the final checkpoint of a region is complete and not all of its tasks have finished. Those that have pass no
    /// further barrier on.
    pub(super) fn some_region_is_finishing(&self) -> bool {
        self.finishing.iter().any(|region| self.region_runs(*region))
    }

    /// Returns true if the sources of a region that runs have no more data.
    fn some_region_ends(&self) -> bool {
        self.ends_with_checkpoint()
            && self.regions.iter().any(|(region, _)| self.region_runs(region) && self.ends(region))
    }

    fn region_runs(&self, region: RegionIndex) -> bool {
        let state = self.states.get(region.0 as usize);
        state.is_some_and(|state| state.phase == Phase::Active && !state.is_over())
    }

    /// Returns true if all sources of a region have no more data, and the region's final checkpoint is not complete yet.
    pub(super) fn ends(&self, region: RegionIndex) -> bool {
        let at_end =
            |source: &TaskIndex| self.exec.task(*source).is_some_and(|task| task.io.end_of_data);
        let region_at_end = |region: &crate::scheduler::Region| {
            region.tasks.iter().filter(|task| self.is_source(**task)).all(at_end)
        };
        !self.finishing.contains(&region) && self.regions.get(region).is_some_and(region_at_end)
    }

    fn is_source(&self, task: TaskIndex) -> bool {
        let (place, _) = self.exec.split(task);
        self.exec.graph().vertices.get(place).is_some_and(|vertex| vertex.source)
    }

    pub(super) fn checkpoint_scope(&self) -> Scope {
        let mut scope = Scope::default();
        for node in self.exec.graph().nodes.iter().filter(|node| node.coordinated) {
            if self.coordinators_of_operator(node.operator_id) == Coordinators::Up {
                scope.coordinated.insert(node.operator_id, node.name.clone());
                continue;
            }
            let latest = self.checkpoints.latest();
            let state = latest.and_then(|latest| latest.operators.get(&node.operator_id));
            let state = state.and_then(|state| state.coordinator.clone());
            scope.coordinators.insert(node.operator_id, state);
        }
        for (index, region) in self.regions.iter() {
            let over = self.states.get(index.0 as usize).is_some_and(RegionState::is_over);
            if over || !self.region_runs(index) {
                let parts = region.tasks.iter().map(|task| (*task, self.latest_part(*task)));
                scope.others.extend(parts);
                continue;
            }
            scope.tasks.extend(&region.tasks);
            if self.ends(index) {
                scope.last.extend(&region.tasks);
            }
        }
        scope
    }

    fn has_finished(&self, task: TaskIndex) -> bool {
        self.exec.task(task).is_some_and(|task| task.state == ExecutionState::Finished)
    }

    /// Returns the part of a subtask in the latest checkpoint. It is the state of one that does not run: one that has finished did so
    /// because that checkpoint was complete; one that waits for slots will be restored from it.
    pub(super) fn latest_part(&self, task: TaskIndex) -> SubtaskSnapshot {
        let latest = self.checkpoints.latest();
        latest.map_or_else(SubtaskSnapshot::default, |latest| {
            checkpoints::part_of(latest, &self.exec, task)
        })
    }

    /// Returns true while tasks may still read the snapshot (a savepoint or retained checkpoint) that the job was started from: the job has
    /// no complete checkpoint of its own yet, or tasks or coordinators are being started (then true for any job). A region that waited for
    /// slots can be deployed from the snapshot while another region's final checkpoint is being stored, and still read it when that is
    /// complete. The JobMaster asks before it deletes a snapshot that the job has claimed.
    pub fn needs_start_snapshot(&self) -> bool {
        let restores = [ExecutionState::Deploying, ExecutionState::Initializing];
        self.checkpoints.started_from_latest().is_some()
            || self.some_coordinators_are(Coordinators::Starting)
            || restores.into_iter().any(|state| self.exec.in_state(state) > 0)
    }

    /// Returns the names of the objects (stored files) of all complete checkpoints that the job keeps, with their metadata objects and
    /// those of checkpoints that were passed over as unreadable. They stay when the job ends and its checkpoints are retained.
    pub fn kept_objects(&self) -> std::collections::BTreeSet<String> {
        self.checkpoints.kept_objects()
    }

    pub(super) fn do_checkpoint_steps(&mut self, now: Now) {
        for step in self.checkpoints.take_steps() {
            match step {
                CheckpointStep::RecordNumber(checkpoint) => {
                    self.out.push(Command::RecordCheckpointNumber(checkpoint));
                }
                CheckpointStep::SnapshotCoordinators(checkpoint, operators) => {
                    self.out.push(Command::SnapshotCoordinators { checkpoint, operators });
                }
                CheckpointStep::Trigger(checkpoint) => self.trigger(checkpoint),
                CheckpointStep::Persist(parts) => {
                    let metadata = Arc::new(self.assemble(parts, now));
                    self.out.push(Command::PersistCheckpoint(metadata));
                }
                CheckpointStep::StoreSavepoint(parts) => {
                    let metadata = self.assemble(parts, now);
                    self.store_savepoint(metadata);
                }
                CheckpointStep::SavepointComplete(checkpoint) => {
                    // For the coordinators it is as if it had been aborted: no restart of this job begins from it.
                    self.notify(checkpoint, false, |_| true);
                    self.savepoint_complete(checkpoint);
                }
                CheckpointStep::Complete { checkpoint, tasks, last } => {
                    let over = last.iter().filter_map(|task| self.regions.of_task(*task));
                    self.finishing.extend(over);
                    self.coordinators_continue_from(checkpoint);
                    self.notify(checkpoint, true, |task| tasks.contains(task));
                    self.savepoint_complete(checkpoint);
                }
                CheckpointStep::Aborted { checkpoint, why } => {
                    self.savepoint_aborted(checkpoint, &why);
                    self.out.push(Command::CheckpointAborted { checkpoint, why });
                    self.notify(checkpoint, false, |_| true);
                }
                CheckpointStep::Discard(objects) => {
                    self.out.push(Command::DiscardObjects(objects));
                }
                CheckpointStep::DeleteOrphans { below, keep } => {
                    self.out.push(Command::DeleteOrphans { below, keep });
                }
                CheckpointStep::TooManyFailures(why) => {
                    let cause = FailureCause::recoverable(CHECKPOINT_FAILED, why);
                    let regions: Vec<RegionIndex> =
                        self.regions.iter().map(|(index, _)| index).collect();
                    // A coordinator may be the reason.
                    self.stop_coordinators(|_| true);
                    self.fail_regions(&regions, cause, None, now);
                }
            }
        }
    }

    fn assemble(&self, parts: Parts, now: Now) -> CheckpointMetadata {
        let Parts { checkpoint, triggered_ms, tasks, coordinators } = parts;
        let times = (checkpoint, triggered_ms, now.unix_ms);
        checkpoints::assemble(&self.exec, times, tasks, coordinators)
    }

    /// Gives the barrier to the sources.
    fn trigger(&mut self, checkpoint: u64) {
        let Some((barrier, scope, last)) = self.checkpoints.pending(checkpoint) else { return };
        let (scope, last) = (scope.clone(), last.clone());
        for is_last in [false, true] {
            let barrier = CheckpointBarrier { last: is_last, ..barrier };
            let sources = |task: &TaskIndex| {
                self.is_source(*task) && last.contains(task) == is_last && !self.has_finished(*task)
            };
            let tasks = scope.iter().copied().filter(sources);
            for (task_manager, attempts) in self.by_task_manager(tasks) {
                self.out.push(Command::TriggerCheckpoint { task_manager, attempts, barrier });
            }
        }
    }

    /// Issues commands that tell the coordinators, and those live subtasks that `whom` selects, how a checkpoint has ended.
    fn notify(&mut self, checkpoint: u64, complete: bool, whom: impl Fn(&TaskIndex) -> bool) {
        let live =
            |task: &TaskIndex| self.exec.task(*task).is_some_and(|task| !task.state.is_terminal());
        let tasks = (0..self.exec.len()).map(TaskIndex).filter(|task| live(task) && whom(task));
        for (task_manager, attempts) in self.by_task_manager(tasks) {
            self.out.push(Command::NotifyCheckpoint {
                task_manager,
                attempts,
                checkpoint,
                complete,
            });
        }
        if self.some_coordinators_are(Coordinators::Up) {
            self.out.push(Command::CoordinatorsCheckpointEnded { checkpoint, complete });
        }
    }

    /// Returns what a subtask is restored with, and whether it had reached the end of its data.
    pub(super) fn restore_of(
        &self,
        task: TaskIndex,
    ) -> (Vec<(OperatorId, Vec<StateHandle>)>, bool) {
        let (place, subtask) = self.exec.split(task);
        let graph = self.exec.graph();
        match (self.checkpoints.restored_from(), graph.vertices.get(place)) {
            (Some(latest), Some(vertex)) => checkpoints::restore_of(latest, graph, vertex, subtask),
            _ => (Vec::new(), false),
        }
    }

    /// Notes the checkpoint that a region is restored from now.
    pub(super) fn note_restore(&mut self, region: RegionIndex) {
        let number = self.restored_checkpoint();
        if let Some(state) = self.region_state(region) {
            state.restored_from = number;
        }
    }

    /// Aborts the pending checkpoint because subtasks that it needs were lost.
    pub(super) fn abort_checkpoint(&mut self, why: &str, now: Now) {
        self.checkpoints.tasks_lost(now.mono, why);
        self.do_checkpoint_steps(now);
        self.abort_savepoints(why);
    }

    /// Handles the outcome of [`Command::RecordCheckpointNumber`]: the checkpoint or savepoint with this number begins, or for this reason
    /// (`Err`) it is aborted; a failed checkpoint counts towards `execution.checkpointing.tolerable-failed-checkpoints`, a failed savepoint
    /// does not: its request is answered with the reason, and a stop is withdrawn. Ignored unless that checkpoint waits for it.
    pub fn checkpoint_number_recorded(
        &mut self,
        now: Now,
        checkpoint: u64,
        outcome: Result<(), String>,
    ) {
        self.checkpoints.number_recorded(now.mono, checkpoint, outcome);
        self.settle(now);
    }

    /// Handles the coordinators' answer to [`Command::SnapshotCoordinators`]: with their snapshots the barrier is given to the sources;
    /// with a reason (`Err`) the checkpoint or savepoint is aborted. A failed checkpoint counts towards
    /// `execution.checkpointing.tolerable-failed-checkpoints`, a failed savepoint does not: its request is answered with the reason.
    /// Ignored unless the checkpoint with this number waits for the answer.
    pub fn coordinators_snapshotted(
        &mut self,
        now: Now,
        checkpoint: u64,
        answer: Result<BTreeMap<OperatorId, StateHandle>, String>,
    ) {
        self.checkpoints.coordinators_answered(now.mono, checkpoint, answer);
        self.settle(now);
    }

    /// Handles a subtask's acknowledgement that its `part` of the checkpoint is stored; with the last one the command follows that
    /// stores the checkpoint or savepoint. If the part comes too late, repeatedly, or from a superseded attempt, those of its objects
    /// (stored files of state) that no checkpoint refers to are deleted.
    pub fn acknowledged(
        &mut self,
        now: Now,
        attempt: &ExecutionAttemptId,
        checkpoint: u64,
        part: SubtaskSnapshot,
    ) {
        match self.exec.locate(attempt) {
            Some(task) => self.checkpoints.acknowledge(now.mono, checkpoint, task, part),
            None => self.checkpoints.discard_part(&part),
        }
        self.settle(now);
    }

    /// Handles a subtask's refusal, for the reason `why`, to take part in the checkpoint or savepoint with this number, which is aborted. A
    /// failed checkpoint counts towards the tolerated failures; a failed savepoint does not, but that of a stop fails all tasks. If the
    /// task ends with the checkpoint (no savepoint) and can never be part of it (`why` is fatal), the job fails for good. Ignored if the
    /// attempt is not its subtask's current one, or the checkpoint is not in progress or is being stored.
    pub fn declined(
        &mut self,
        now: Now,
        attempt: &ExecutionAttemptId,
        checkpoint: u64,
        why: &FailureCause,
    ) {
        let Some(task) = self.exec.locate(attempt) else { return };
        let is_final = self
            .checkpoints
            .pending(checkpoint)
            .is_some_and(|(barrier, _, last)| !barrier.savepoint && last.contains(&task));
        let (text, is_fatal) = (&why.message, !why.recoverable);
        let why = format!("task '{}': {text}", self.exec.describe(task));
        self.checkpoints.decline(now.mono, checkpoint, why.clone());
        if is_final && is_fatal && self.checkpoints.is_idle() {
            self.fail(now, FailureCause::fatal(CHECKPOINT_FAILED, why));
        }
        self.settle(now);
    }

    /// Handles the outcome of [`Command::PersistCheckpoint`]: the metadata of a checkpoint, or of a stop's savepoint, is stored and its
    /// pointer in the job's log, or (`Err`) the reason why not. On success (with the metadata as it was stored) the checkpoint is complete:
    /// its tasks and the coordinators are notified, the tasks commit, a user who asked for a checkpoint is answered, and the oldest ones
    /// beyond the number to be kept and leftovers of failed ones are deleted. Otherwise it is aborted: a checkpoint counts as failed, and
    /// for a stop all tasks fail. Regions whose restart had to wait for the outcome start again at the next [`JobCore::tick`].
    pub fn checkpoint_persisted(
        &mut self,
        now: Now,
        checkpoint: u64,
        outcome: Result<Arc<CheckpointMetadata>, String>,
    ) {
        self.checkpoints.persisted(now.mono, checkpoint, outcome);
        // Regions that had to wait for the outcome may start again now.
        let resting: Vec<_> = self.regions.iter().map(|(index, _)| index).collect();
        for region in resting {
            if let Phase::Resting { resume } = self.phase(region) {
                self.timers.insert((resume, region));
            }
        }
        self.settle(now);
    }

    /// Returns the newest complete checkpoint, or the snapshot that the job was started from; `None` if there is neither.
    #[cfg(test)]
    pub fn latest_checkpoint(&self) -> Option<&Arc<CheckpointMetadata>> {
        self.checkpoints.latest()
    }

    /// Returns the monotonic time at which a checkpoint or savepoint is due or times out; `None` if there is none or the job is not live.
    pub(super) fn checkpoint_deadline(&self) -> Option<std::time::Duration> {
        if !self.is_live() {
            return None;
        }
        let ends = self.may_take_final() && self.some_region_ends();
        let checkpoint = self.checkpoints.next_deadline(self.may_checkpoint(), ends);
        checkpoint.into_iter().chain(self.savepoint_deadline()).min()
    }
}
