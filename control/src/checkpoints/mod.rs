//! The checkpoint coordinator's decisions: when a checkpoint is triggered, when it is complete, and what a checkpoint that fails
//! means. It knows subtasks by their indices; the JobMaster's core knows where they run.
//!
//! A checkpoint goes through these phases. Its number is recorded in the job's log, unless that shows already that no other has it
//! (`numbers`). The coordinators of sources take their snapshots. The barrier is given to the sources, and each subtask acknowledges when
//! the barrier has passed through it. When all have, the metadata is stored and its pointer is
//! appended to the job's log. Only then is the checkpoint complete, and its subtasks are told, so that they commit. This module
//! must never report a checkpoint as complete before its pointer is persisted.

mod compatible;
mod config;
mod history;
mod numbers;
mod pending;
mod restore;
mod retained;
mod scope;
#[cfg(test)]
mod tests;

pub use compatible::{Incompatible, adopt_max_parallelism, check, is_readable};
pub use config::CheckpointConfig;
pub use pending::Parts;
pub use restore::{
    assemble, coordinator_state, is_rescaled, lacks_keyed_state, part_of, restore_of,
};
pub use scope::Scope;

use crate::execution_graph::TaskIndex;
use crate::mutation::Rule;
use crate::registration::backoff;
use history::History;
use model::{
    CheckpointKind, CheckpointMetadata, CheckpointReport, JobVertexId, OperatorId, StateHandle,
    SubtaskSnapshot,
};
use pending::{Pending, Phase};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// The first and the longest pause before a final checkpoint that failed is tried again.
const FINAL_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// An action that the checkpoint coordinator asks its caller for ([`Checkpoints::take_steps`]); actions are done in order.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckpointStep {
    /// Append to the job's log that this number is given out to a checkpoint or savepoint. The outcome is given to
    /// [`Checkpoints::number_recorded`]; nothing of the checkpoint is triggered before.
    RecordNumber(u64),
    /// Have the coordinators of these operators take their snapshots for the checkpoint with this number. The answer is given to
    /// [`Checkpoints::coordinators_answered`].
    SnapshotCoordinators(u64, BTreeSet<OperatorId>),
    /// Have the sources of the job send the barrier of the checkpoint with this number. Subtasks answer with acknowledgements.
    Trigger(u64),
    /// Store a savepoint, of which every part has arrived, in its folder. The outcome goes to [`Checkpoints::savepoint_stored`].
    StoreSavepoint(Parts),
    /// Store the metadata of a checkpoint, of which every part has arrived, and then append its pointer to the job's log. The outcome
    /// is given to [`Checkpoints::persisted`].
    Persist(Parts),
    /// The savepoint with this number is complete and the job continues. Its sinks commit with a later checkpoint.
    SavepointComplete(u64),
    /// The checkpoint is complete: notify its subtasks, which commit, and the coordinators.
    Complete {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The subtasks that had to acknowledge it, and have.
        tasks: BTreeSet<TaskIndex>,
        /// The subtasks among `tasks` that end with this checkpoint.
        last: BTreeSet<TaskIndex>,
    },
    /// The checkpoint will never be complete: notify its subtasks, and the coordinators.
    Aborted {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The reason as text, for log lines and users.
        why: String,
    },
    /// Delete the objects with these names: no checkpoint refers to them any more.
    Discard(BTreeSet<String>),
    /// List and delete objects of checkpoints with lower numbers than the newest complete one that no kept checkpoint has: for
    /// instance those that a subtask stored before it failed, whose names nobody knows.
    DeleteOrphans {
        /// The number of the newest complete checkpoint.
        below: u64,
        /// The names of the objects that stay: those of all complete checkpoints that are kept.
        keep: BTreeSet<String>,
    },
    /// More checkpoints in a row have failed than are tolerated, or a stop's savepoint has after its barrier was sent: fail all tasks.
    TooManyFailures(String),
}

/// The checkpoint coordinator of one job under one JobMaster: at most one checkpoint or savepoint in progress, and the complete checkpoints
/// that are kept. A part of the JobMaster's core, in memory. [`Checkpoints::restore`] and [`Checkpoints::restore_older`], if there is
/// something to restore, come before the first [`Checkpoints::begin`]; after each event the core takes the steps
/// ([`Checkpoints::take_steps`]), such as to store the checkpoint, and reports their outcomes.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    config: CheckpointConfig,
    /// The number of the next checkpoint.
    next: u64,
    /// The number that may be given out without a record of its own, because the checkpoint before it is the newest one in the job's log;
    /// 0: none.
    covered: u64,
    /// The monotonic time at which the next periodic checkpoint is due.
    due: Duration,
    /// The monotonic time from which a final checkpoint may be tried again, after one has failed.
    final_due: Duration,
    pending: Option<Pending>,
    /// The number and URI of the snapshot that the job was started from.
    started_from: Option<(u64, String)>,
    /// The newest complete checkpoints, the newest last.
    complete: VecDeque<Arc<CheckpointMetadata>>,
    /// Complete checkpoints that can't be read, until a newer one is complete.
    passed_over: Vec<Arc<CheckpointMetadata>>,
    /// True from when a checkpoint is passed over until one is complete whose snapshots build on none before.
    needs_full: bool,
    /// The number of failures since a checkpoint was complete.
    failures: u32,
    /// True if objects may be left whose names are not known: at first those of earlier JobMasters, later those of each checkpoint
    /// that was aborted or passed over.
    has_orphans: bool,
    history: History,
    out: Vec<CheckpointStep>,
}

impl Checkpoints {
    /// Makes the coordinator of a job that starts from its beginning, unless [`Checkpoints::restore`] follows. The first periodic
    /// checkpoint is due one interval after `now` (monotonic).
    pub fn new(config: CheckpointConfig, now: Duration) -> Self {
        Self {
            due: now.saturating_add(config.interval.unwrap_or_default()),
            final_due: now,
            history: History::new(&config),
            config,
            next: 1,
            covered: 0,
            pending: None,
            started_from: None,
            complete: VecDeque::new(),
            passed_over: Vec::new(),
            needs_full: false,
            failures: 0,
            has_orphans: true,
            out: Vec::new(),
        }
    }

    /// Sets the vertices of the job with their parallelisms, in the order of the subtasks' indices, for the report. To be called once,
    /// before the first checkpoint begins.
    pub fn set_vertices(&mut self, vertices: impl Iterator<Item = (JobVertexId, u32)>) {
        self.history.set_vertices(vertices);
    }

    /// Returns the counts (since this value was made), the newest `history` checkpoints and savepoints, the last restore, statistics of the
    /// newest 1,000 complete ones, and the settings.
    pub fn report(&self) -> CheckpointReport {
        self.history.report()
    }

    /// Returns the longest pause in microseconds that a listed checkpoint has made in a subtask so far; 0 if none is known.
    pub fn pause_us(&self, checkpoint: u64) -> u64 {
        self.history.pause_us(checkpoint)
    }

    /// Returns the newest complete checkpoint that can be read, or the snapshot that the job was started from; `None` if
    /// there is neither. Savepoints that the job continued after do not count.
    pub fn latest(&self) -> Option<&Arc<CheckpointMetadata>> {
        self.complete.back()
    }

    /// Returns the checkpoint, or snapshot that the job was started from, that tasks and coordinators are restored from; `None`: no state.
    pub fn restored_from(&self) -> Option<&Arc<CheckpointMetadata>> {
        let back = if self.config.mutation.keeps(Rule::NewestRestored) { 0 } else { 1 };
        self.complete.iter().rev().nth(back).or_else(|| self.latest())
    }

    /// Returns true if the job has periodic checkpoints (an interval is set).
    pub fn is_periodic(&self) -> bool {
        self.config.interval.is_some()
    }

    /// Removes and returns the pending steps, in order; the caller carries them out. To be called after every event.
    pub fn take_steps(&mut self) -> Vec<CheckpointStep> {
        std::mem::take(&mut self.out)
    }

    /// Returns true if a checkpoint may begin at `now` (monotonic): none is in progress, and a periodic one is due, or a final one,
    /// which is needed if the sources of a region have no more data (`ends`); one that failed is due again after a pause.
    pub fn may_begin(&self, now: Duration, ends: bool) -> bool {
        let periodic = self.is_periodic() && now >= self.due;
        self.pending.is_none() && (periodic || (ends && now >= self.final_due))
    }

    /// Returns true if no checkpoint or savepoint is in progress, so that one may begin.
    pub fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    /// Begins a checkpoint, adds its first step (the record of its number; right after a checkpoint that this value has seen complete, the
    /// coordinators' snapshots, or without coordinators the barrier), and returns its number: a higher one than any checkpoint or savepoint of the job
    /// had before, under earlier JobMasters too. No other may be in progress (not checked). Timeout and, unless it is a savepoint, interval
    /// count from `now` (monotonic).
    pub fn begin(
        &mut self,
        now: Duration,
        now_unix_ms: u64,
        kind: CheckpointKind,
        scope: Scope,
    ) -> u64 {
        let checkpoint = self.next;
        self.next = self.next.saturating_add(1);
        if !kind.is_savepoint() {
            self.due = now.saturating_add(self.config.interval.unwrap_or_default());
        }
        self.history.begin((now, now_unix_ms), checkpoint, kind, &scope.others);
        let absent = scope.coordinators.keys().copied().collect();
        let coordinators = scope.coordinators.into_iter();
        let coordinators = coordinators.filter_map(|(id, state)| Some((id, state?))).collect();
        self.pending = Some(Pending {
            kind,
            deadline: now.saturating_add(self.config.timeout),
            phase: Phase::Number,
            full: self.needs_full,
            folder: None,
            waiting: scope.tasks.clone(),
            tasks: scope.tasks,
            last: scope.last,
            coordinated: scope.coordinated,
            absent,
            parts: Parts {
                checkpoint,
                triggered_ms: now_unix_ms,
                tasks: scope.others,
                coordinators,
            },
        });
        self.record_or_start();
        checkpoint
    }

    /// Handles the coordinators' answer: with their snapshots the sources are triggered; with a reason (`Err`) the checkpoint is aborted
    /// and, unless it is a savepoint, counts towards the tolerated failures. Ignored unless this checkpoint waits for it. `now` is
    /// monotonic.
    pub fn coordinators_answered(
        &mut self,
        now: Duration,
        checkpoint: u64,
        answer: Result<BTreeMap<OperatorId, StateHandle>, String>,
    ) {
        let Some(pending) = self.in_phase(checkpoint, Phase::Coordinators) else { return };
        match answer {
            Ok(states) => {
                let absent = &pending.absent;
                let taking_part = states.into_iter().filter(|(id, _)| !absent.contains(id));
                pending.parts.coordinators.extend(taking_part);
                pending.phase = Phase::Tasks;
                self.out.push(CheckpointStep::Trigger(checkpoint));
            }
            Err(why) => self.fail(now, why),
        }
    }

    /// Handles a subtask's acknowledgement, which brings its part. With the last one a step to store the checkpoint follows. Objects
    /// of a late or repeated part are discarded, unless a complete or pending checkpoint refers to them. `now` is monotonic.
    pub fn acknowledge(
        &mut self,
        now: Duration,
        checkpoint: u64,
        task: TaskIndex,
        part: SubtaskSnapshot,
    ) {
        let waits = |p: &&mut Pending| {
            let open = p.parts.checkpoint == checkpoint && p.phase == Phase::Tasks;
            open && p.waiting.contains(&task)
        };
        let Some(pending) = self.pending.as_mut().filter(waits) else {
            return self.discard_part(&part);
        };
        self.history.acknowledged(now, task, &part);
        pending.waiting.remove(&task);
        pending.parts.tasks.insert(task, part);
        if pending.waiting.is_empty() {
            let parts = pending.parts.clone();
            let (phase, step) = match pending.kind.is_savepoint() {
                true => (Phase::Storing, CheckpointStep::StoreSavepoint(parts)),
                false => (Phase::Persisting, CheckpointStep::Persist(parts)),
            };
            pending.phase = phase;
            let (tasks, last) = (pending.tasks.clone(), pending.last.clone());
            let announces_early = !self.config.mutation.keeps(Rule::PersistedBeforeAnnounced);
            if announces_early && phase == Phase::Persisting {
                self.out.push(CheckpointStep::Complete { checkpoint, tasks, last });
            }
            self.out.push(step);
        }
    }

    /// Handles the outcome of storing a savepoint: its folder's URI, and it is complete, or the reason of the failure, and it is aborted
    /// (in the case of a stop all tasks fail then). A stop's savepoint is complete only once it is persisted as the newest checkpoint of
    /// the job: its sinks commit with it, so the job must not be restored from an older one. Ignored unless this savepoint is being stored.
    /// `now` is monotonic.
    pub fn savepoint_stored(
        &mut self,
        now: Duration,
        checkpoint: u64,
        outcome: Result<String, String>,
    ) {
        let Some(pending) = self.in_phase(checkpoint, Phase::Storing) else { return };
        let folder = match outcome {
            Ok(folder) => folder,
            Err(why) => return self.fail(now, why),
        };
        if pending.kind.stops() {
            pending.folder = Some(folder);
            pending.phase = Phase::Persisting;
            let parts = pending.parts.clone();
            return self.out.push(CheckpointStep::Persist(parts));
        }
        let Some(pending) = self.pending.take() else { return };
        let states = pending.parts.tasks.values().flat_map(|part| &part.operators);
        let bytes = states.map(|(_, state)| state.bytes());
        let bytes = bytes.chain(pending.parts.coordinators.values().map(StateHandle::bytes)).sum();
        self.history.completed(now, bytes, Some(folder));
        self.due = self.due.max(now.saturating_add(self.config.min_pause));
        self.out.push(CheckpointStep::SavepointComplete(checkpoint));
        // The folder has copies of all that the subtasks have stored for it.
        self.discard_parts(&pending.parts);
    }

    /// Aborts the checkpoint or savepoint with this number because a subtask declined it, for the reason `why`. A checkpoint counts towards
    /// the tolerated failures, a savepoint does not; that of a stop whose barrier was sent fails all tasks. Ignored once all subtasks have
    /// acknowledged: its pointer may be in the log already. `now` is monotonic.
    pub fn decline(&mut self, now: Duration, checkpoint: u64, why: String) {
        let open = |p: &Pending| p.parts.checkpoint == checkpoint && !p.is_being_stored();
        if self.pending.as_ref().is_some_and(open) {
            self.fail(now, why);
        }
    }

    /// Handles the outcome of storing the metadata of a checkpoint, or of a stop's savepoint, and writing its pointer to the job's log. On
    /// success (with the metadata as stored) the checkpoint is complete, the failures in a row end, and older ones beyond the number to be
    /// kept are discarded; otherwise it is aborted and has failed, and in the case of a stop all tasks fail. Ignored unless it was being
    /// persisted. `now` is monotonic.
    pub fn persisted(
        &mut self,
        now: Duration,
        checkpoint: u64,
        outcome: Result<Arc<CheckpointMetadata>, String>,
    ) {
        let Some(pending) = self.in_phase(checkpoint, Phase::Persisting) else { return };
        let (tasks, last) = (pending.tasks.clone(), pending.last.clone());
        let (folder, is_full) = (pending.folder.clone(), pending.full);
        let metadata = match outcome {
            Ok(metadata) => metadata,
            Err(why) => return self.fail(now, why),
        };
        self.needs_full &= !is_full;
        self.pending = None;
        self.failures = 0;
        self.covered = checkpoint.saturating_add(1);
        self.history.completed(now, metadata.state_bytes(), folder);
        self.due = self.due.max(now.saturating_add(self.config.min_pause));
        self.complete.push_back(metadata);
        self.out.push(CheckpointStep::Complete { checkpoint, tasks, last });
        let subsumed = self.subsume();
        self.discard(subsumed);
        if std::mem::take(&mut self.has_orphans) {
            let keep = self.kept_objects();
            self.out.push(CheckpointStep::DeleteOrphans { below: checkpoint, keep });
        }
    }

    /// Records that subtasks have failed or were cancelled: aborts the checkpoint in progress for the reason `why`; it counts as failed in
    /// the report, but not towards the tolerated failures. If its pointer is being written it continues, because it may be in the log
    /// already; a restore must wait for it ([`Checkpoints::is_persisting`]). `now` is monotonic.
    pub fn tasks_lost(&mut self, now: Duration, why: &str) {
        if self.pending.as_ref().is_some_and(|p| p.phase != Phase::Persisting) {
            self.abort(now, why.to_owned());
        }
    }

    /// Returns true while the pointer of a checkpoint is being written; no subtask may be restored meanwhile.
    pub fn is_persisting(&self) -> bool {
        let waits = self.config.mutation.keeps(Rule::PersistedBeforeRestart);
        waits && self.pending.as_ref().is_some_and(|pending| pending.phase == Phase::Persisting)
    }

    /// Returns the monotonic time at which [`Checkpoints::tick`] or a begin is due next; `None` if nothing is. `ready`: a
    /// checkpoint could begin if it were due; `ends` as in [`Checkpoints::may_begin`].
    pub fn next_deadline(&self, ready: bool, ends: bool) -> Option<Duration> {
        match &self.pending {
            Some(pending) if pending.is_being_stored() => None,
            Some(pending) => Some(pending.deadline),
            None => {
                let periodic = (ready && self.is_periodic()).then_some(self.due);
                periodic.into_iter().chain(ends.then_some(self.final_due)).min()
            }
        }
    }

    /// Aborts the checkpoint or savepoint in progress, which has failed then (a savepoint does not count towards the tolerated failures),
    /// if its timeout has passed at `now` (monotonic) and it is not being stored. Begins none.
    pub fn tick(&mut self, now: Duration) {
        let late = |p: &&Pending| !p.is_being_stored() && p.deadline <= now;
        if let Some(pending) = self.pending.as_ref().filter(late) {
            let (limit, missing) = (self.config.timeout, pending.missing());
            let why = format!(
                "it took longer than {limit:?} (execution.checkpointing.timeout); {missing}"
            );
            self.fail(now, why);
        }
    }

    /// Aborts the pending checkpoint for a reason that counts as a failure. A final checkpoint is tried again however often it
    /// failed: starting the job again would repeat all work since the checkpoint before, only to arrive at the same point.
    fn fail(&mut self, now: Duration, why: String) {
        let Some(pending) = &self.pending else { return };
        let (kind, began) = (pending.kind, pending.has_begun());
        let ends = !pending.last.is_empty();
        self.abort(now, why.clone());
        if kind.is_savepoint() {
            // Sources that have taken the barrier of a stop read nothing more: only a restart makes them.
            if kind.stops() && began {
                self.out.push(CheckpointStep::TooManyFailures(why));
            }
            return;
        }
        if ends {
            let pause = backoff(FINAL_RETRY.0, FINAL_RETRY.1, self.failures);
            self.final_due = now.saturating_add(pause);
        }
        self.failures = self.failures.saturating_add(1);
        // Without an interval the tasks would only lose what they have.
        let counts = self.is_periodic() && !ends;
        if self.failures > self.config.tolerable_failures && counts {
            self.failures = 0;
            self.out.push(CheckpointStep::TooManyFailures(why));
        }
    }

    fn abort(&mut self, now: Duration, why: String) {
        let Some(pending) = self.pending.take() else { return };
        self.has_orphans = true;
        self.history.failed(now, &why);
        self.out.push(CheckpointStep::Aborted { checkpoint: pending.parts.checkpoint, why });
        self.discard_parts(&pending.parts);
    }

    /// Discards what all subtasks have stored for a checkpoint, at once: each time the objects of all kept checkpoints are looked through.
    fn discard_parts(&mut self, parts: &Parts) {
        let objects = parts.tasks.values().flat_map(SubtaskSnapshot::objects);
        self.discard(objects.map(str::to_owned).collect());
    }

    /// Adds a step that deletes those objects (stored files) of a subtask's part to which no complete or pending checkpoint refers.
    pub fn discard_part(&mut self, part: &SubtaskSnapshot) {
        self.discard(part.objects().map(str::to_owned).collect());
    }

    /// Has objects deleted that no complete checkpoint and no part of the pending one refers to.
    fn discard(&mut self, mut objects: BTreeSet<String>) {
        for kept in self.complete.iter().chain(&self.passed_over) {
            let kept = kept.objects();
            objects.retain(|object| !kept.contains(object));
        }
        let parts = self.pending.iter().flat_map(|pending| pending.parts.tasks.values());
        for object in parts.flat_map(SubtaskSnapshot::objects) {
            objects.remove(object);
        }
        if !objects.is_empty() {
            self.out.push(CheckpointStep::Discard(objects));
        }
    }
}
