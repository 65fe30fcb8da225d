//! The checkpoint coordinator's decisions: when a checkpoint is triggered, when it is complete, and what a checkpoint that fails
//! means. It knows subtasks by their indices; the JobMaster's core knows where they run.
//!
//! A checkpoint goes through these phases. The coordinators of sources take their snapshots. The barrier is given to the sources,
//! and each subtask acknowledges when the barrier has passed through it. When all have, the metadata is stored and its pointer is
//! appended to the job's log. Only then is the checkpoint complete, and its subtasks are told, so that they commit. This module
//! must never report a checkpoint as complete before its pointer is persisted.

mod restore;
#[cfg(test)]
mod tests;

pub use restore::{assemble, coordinator_state, part_of, restore_of};

use crate::execution_graph::TaskIndex;
use crate::mutation::{Mutation, Rule};
use crate::registration::backoff;
use model::{CheckpointMetadata, OperatorId, StateHandle, SubtaskSnapshot};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// The first and the longest pause before a final checkpoint that failed is tried again.
const FINAL_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The settings of a job's checkpoints, `execution.checkpointing.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// The time between the beginnings of two checkpoints; `None`: there are no periodic checkpoints.
    pub interval: Option<Duration>,
    /// The time after which a checkpoint is aborted.
    pub timeout: Duration,
    /// The shortest time between the end of a checkpoint and the beginning of the next one.
    pub min_pause: Duration,
    /// The number of failures in a row that do not fail the job.
    pub tolerable_failures: u32,
    /// The number of complete checkpoints that are kept.
    pub retained: usize,
    /// A rule that is broken on purpose, in simulations.
    pub mutation: Mutation,
}

impl Default for CheckpointConfig {
    /// Returns Flink's defaults; no periodic checkpoints.
    fn default() -> Self {
        Self {
            interval: None,
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            tolerable_failures: 0,
            retained: 1,
            mutation: Mutation::None,
        }
    }
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckpointStep {
    /// The coordinators of the job take their snapshots. The answer is [`Checkpoints::coordinators_answered`].
    SnapshotCoordinators(u64),
    /// The barrier is given to the sources.
    Trigger(u64),
    /// Every part has arrived: the metadata and then its pointer are stored. The answer is [`Checkpoints::persisted`].
    Persist {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// When it was triggered, in Unix milliseconds.
        triggered_ms: u64,
        /// The parts of the subtasks.
        parts: BTreeMap<TaskIndex, SubtaskSnapshot>,
        /// The states of the coordinators.
        coordinators: BTreeMap<OperatorId, StateHandle>,
    },
    /// The checkpoint is complete: its subtasks and the coordinators are told.
    Complete {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The subtasks that have acknowledged it.
        tasks: BTreeSet<TaskIndex>,
        /// Those of them that end with it.
        last: BTreeSet<TaskIndex>,
    },
    /// The checkpoint will never be complete.
    Aborted {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// The reason.
        why: String,
    },
    /// No checkpoint refers to these objects any more.
    Discard(BTreeSet<String>),
    /// More checkpoints in a row have failed than the job tolerates.
    TooManyFailures(String),
}

/// Where a checkpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Coordinators,
    Tasks,
    Persisting,
}

#[derive(Debug, Clone)]
struct Pending {
    checkpoint: u64,
    triggered_ms: u64,
    deadline: Duration,
    phase: Phase,
    /// The subtasks that have to acknowledge.
    tasks: BTreeSet<TaskIndex>,
    /// Those of them that have not acknowledged.
    waiting: BTreeSet<TaskIndex>,
    /// The subtasks that end with this checkpoint.
    last: BTreeSet<TaskIndex>,
    parts: BTreeMap<TaskIndex, SubtaskSnapshot>,
    coordinators: BTreeMap<OperatorId, StateHandle>,
}

/// The subtasks that a checkpoint is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The subtasks that have to acknowledge.
    pub tasks: BTreeSet<TaskIndex>,
    /// Those of them that end with the checkpoint, because all of their sources have no more data.
    pub last: BTreeSet<TaskIndex>,
    /// The parts of all other subtasks, as the latest checkpoint has them: they have finished, or their region waits for slots.
    pub others: BTreeMap<TaskIndex, SubtaskSnapshot>,
    /// Whether coordinators have to take snapshots.
    pub coordinated: bool,
}

/// The checkpoints of one job under one JobMaster.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    config: CheckpointConfig,
    /// The number of the next checkpoint.
    next: u64,
    /// When the next periodic checkpoint is due.
    due: Duration,
    /// When a final checkpoint may be tried again, after one has failed.
    final_due: Duration,
    pending: Option<Pending>,
    /// The newest complete checkpoints, the newest last.
    complete: VecDeque<Arc<CheckpointMetadata>>,
    /// The number of failures since a checkpoint was complete.
    failures: u32,
    out: Vec<CheckpointStep>,
}

impl Checkpoints {
    /// Returns the coordinator of a job that starts from its beginning. The first periodic checkpoint is due one interval after
    /// `now`.
    pub fn new(config: CheckpointConfig, now: Duration) -> Self {
        Self {
            due: now.saturating_add(config.interval.unwrap_or_default()),
            final_due: now,
            config,
            next: 1,
            pending: None,
            complete: VecDeque::new(),
            failures: 0,
            out: Vec::new(),
        }
    }

    /// The job continues from a checkpoint; called before the first one begins. Numbers go on after that checkpoint's.
    pub fn restore(&mut self, restored: Arc<CheckpointMetadata>) {
        if self.config.mutation.keeps(Rule::NumbersGoOn) {
            self.next = self.next.max(restored.checkpoint.saturating_add(1));
        }
        self.complete.push_back(restored);
    }

    /// Returns the newest complete checkpoint.
    pub fn latest(&self) -> Option<&Arc<CheckpointMetadata>> {
        self.complete.back()
    }

    /// Returns the checkpoint that subtasks and coordinators are restored from: the newest complete one.
    pub fn restored_from(&self) -> Option<&Arc<CheckpointMetadata>> {
        let back = if self.config.mutation.keeps(Rule::NewestRestored) { 0 } else { 1 };
        self.complete.iter().rev().nth(back).or_else(|| self.latest())
    }

    /// Returns true if the job has periodic checkpoints.
    pub fn is_periodic(&self) -> bool {
        self.config.interval.is_some()
    }

    /// Returns what is to be done, and forgets it.
    pub fn take_steps(&mut self) -> Vec<CheckpointStep> {
        std::mem::take(&mut self.out)
    }

    /// Returns true if a checkpoint may begin now: none is pending, and a periodic one is due, or a final one (`ends`: the
    /// sources of some subtasks have no more data).
    pub fn may_begin(&self, now: Duration, ends: bool) -> bool {
        let periodic = self.is_periodic() && now >= self.due;
        self.pending.is_none() && (periodic || (ends && now >= self.final_due))
    }

    /// Begins a checkpoint.
    pub fn begin(&mut self, now: Duration, now_unix_ms: u64, scope: Scope) {
        let checkpoint = self.next;
        self.next = self.next.saturating_add(1);
        self.due = now.saturating_add(self.config.interval.unwrap_or_default());
        let phase = if scope.coordinated { Phase::Coordinators } else { Phase::Tasks };
        self.pending = Some(Pending {
            checkpoint,
            triggered_ms: now_unix_ms,
            deadline: now.saturating_add(self.config.timeout),
            phase,
            waiting: scope.tasks.clone(),
            tasks: scope.tasks,
            last: scope.last,
            parts: scope.others,
            coordinators: BTreeMap::new(),
        });
        self.out.push(match phase {
            Phase::Coordinators => CheckpointStep::SnapshotCoordinators(checkpoint),
            Phase::Tasks | Phase::Persisting => CheckpointStep::Trigger(checkpoint),
        });
    }

    /// Returns when the pending checkpoint was triggered (in Unix milliseconds), which subtasks have to acknowledge it, and which of
    /// these end with it.
    pub fn pending(
        &self,
        checkpoint: u64,
    ) -> Option<(u64, &BTreeSet<TaskIndex>, &BTreeSet<TaskIndex>)> {
        let pending = self.pending.as_ref().filter(|pending| pending.checkpoint == checkpoint)?;
        Some((pending.triggered_ms, &pending.tasks, &pending.last))
    }

    /// The coordinators have taken their snapshots, or failed to.
    pub fn coordinators_answered(
        &mut self,
        now: Duration,
        checkpoint: u64,
        answer: Result<BTreeMap<OperatorId, StateHandle>, String>,
    ) {
        let Some(pending) = self.in_phase(checkpoint, Phase::Coordinators) else { return };
        match answer {
            Ok(states) => {
                pending.coordinators = states;
                pending.phase = Phase::Tasks;
                self.out.push(CheckpointStep::Trigger(checkpoint));
            }
            Err(why) => self.fail(now, why),
        }
    }

    /// A subtask's barrier has passed. What a late acknowledgement refers to is discarded.
    pub fn acknowledge(&mut self, checkpoint: u64, task: TaskIndex, part: SubtaskSnapshot) {
        let waits = |pending: &Pending| pending.waiting.contains(&task);
        let pending = self.in_phase(checkpoint, Phase::Tasks).filter(|pending| waits(pending));
        let Some(pending) = pending else {
            return self.discard_part(&part);
        };
        pending.waiting.remove(&task);
        pending.parts.insert(task, part);
        if pending.waiting.is_empty() {
            pending.phase = Phase::Persisting;
            let (tasks, last) = (pending.tasks.clone(), pending.last.clone());
            let step = CheckpointStep::Persist {
                checkpoint,
                triggered_ms: pending.triggered_ms,
                parts: pending.parts.clone(),
                coordinators: pending.coordinators.clone(),
            };
            if !self.config.mutation.keeps(Rule::PersistedBeforeAnnounced) {
                self.out.push(CheckpointStep::Complete { checkpoint, tasks, last });
            }
            self.out.push(step);
        }
    }

    /// A subtask can't take part in a checkpoint, for instance because its state could not be stored.
    pub fn decline(&mut self, now: Duration, checkpoint: u64, why: String) {
        if self.pending(checkpoint).is_some() {
            self.fail(now, why);
        }
    }

    /// The pointer of a checkpoint is in the job's log, or could not be written.
    pub fn persisted(
        &mut self,
        now: Duration,
        checkpoint: u64,
        outcome: Result<Arc<CheckpointMetadata>, String>,
    ) {
        let Some(pending) = self.in_phase(checkpoint, Phase::Persisting) else { return };
        let (tasks, last) = (pending.tasks.clone(), pending.last.clone());
        let metadata = match outcome {
            Ok(metadata) => metadata,
            Err(why) => return self.fail(now, why),
        };
        self.pending = None;
        self.failures = 0;
        self.due = self.due.max(now.saturating_add(self.config.min_pause));
        self.complete.push_back(metadata);
        self.out.push(CheckpointStep::Complete { checkpoint, tasks, last });
        let mut subsumed = BTreeSet::new();
        while self.complete.len() > self.config.retained.max(1) {
            if let Some(old) = self.complete.pop_front() {
                subsumed.extend(old.objects());
                subsumed.insert(old.object_name());
            }
        }
        self.discard(subsumed);
    }

    /// Subtasks have failed or were cancelled: the pending checkpoint can't become complete. A checkpoint whose pointer is being
    /// written goes on, because it may be in the log already; who restores must wait for it ([`Checkpoints::is_persisting`]).
    pub fn tasks_lost(&mut self, why: &str) {
        if self.pending.as_ref().is_some_and(|pending| pending.phase != Phase::Persisting) {
            self.abort(why.to_owned());
        }
    }

    /// Returns true while the pointer of a checkpoint is being written.
    pub fn is_persisting(&self) -> bool {
        let waits = self.config.mutation.keeps(Rule::PersistedBeforeRestart);
        waits && self.pending.as_ref().is_some_and(|pending| pending.phase == Phase::Persisting)
    }

    /// Returns when the coordinator has to be looked at next. `ready`: a checkpoint could begin if it were due; `ends` as in
    /// [`Checkpoints::may_begin`].
    pub fn next_deadline(&self, ready: bool, ends: bool) -> Option<Duration> {
        match &self.pending {
            Some(pending) if pending.phase == Phase::Persisting => None,
            Some(pending) => Some(pending.deadline),
            None => {
                let periodic = (ready && self.is_periodic()).then_some(self.due);
                periodic.into_iter().chain(ends.then_some(self.final_due)).min()
            }
        }
    }

    /// Time has passed: a checkpoint that takes too long is aborted. The pointer that is being written is waited for.
    pub fn tick(&mut self, now: Duration) {
        let late = |p: &Pending| p.phase != Phase::Persisting && p.deadline <= now;
        if self.pending.as_ref().is_some_and(late) {
            let limit = self.config.timeout.as_secs();
            let missing = self.pending.as_ref().map_or(0, |pending| pending.waiting.len());
            self.fail(
                now,
                format!(
                    "it took longer than {limit} s (execution.checkpointing.timeout); {missing} subtasks have not acknowledged"
                ),
            );
        }
    }

    fn in_phase(&mut self, checkpoint: u64, phase: Phase) -> Option<&mut Pending> {
        self.pending.as_mut().filter(|p| p.checkpoint == checkpoint && p.phase == phase)
    }

    /// Aborts the pending checkpoint for a reason that counts as a failure. A final checkpoint is tried again however often it
    /// failed: starting the job again would repeat all work since the checkpoint before, only to arrive at the same point.
    fn fail(&mut self, now: Duration, why: String) {
        let ends = self.pending.as_ref().is_some_and(|pending| !pending.last.is_empty());
        self.abort(why.clone());
        if ends {
            let pause = backoff(FINAL_RETRY.0, FINAL_RETRY.1, self.failures);
            self.final_due = now.saturating_add(pause);
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures > self.config.tolerable_failures && !ends {
            self.failures = 0;
            self.out.push(CheckpointStep::TooManyFailures(why));
        }
    }

    fn abort(&mut self, why: String) {
        let Some(pending) = self.pending.take() else { return };
        self.out.push(CheckpointStep::Aborted { checkpoint: pending.checkpoint, why });
        let parts = pending.parts.values().flat_map(|part| &part.operators);
        let objects = parts.filter_map(|(_, state)| state.object()).map(str::to_owned).collect();
        self.discard(objects);
    }

    /// Has the objects deleted that only this part of a subtask refers to.
    pub fn discard_part(&mut self, part: &SubtaskSnapshot) {
        let objects = part.operators.iter().filter_map(|(_, state)| state.object());
        self.discard(objects.map(str::to_owned).collect());
    }

    /// Has objects deleted that no complete checkpoint and no part of the pending one refers to.
    fn discard(&mut self, mut objects: BTreeSet<String>) {
        for kept in &self.complete {
            let kept = kept.objects();
            objects.retain(|object| !kept.contains(object));
        }
        let parts = self.pending.iter().flat_map(|pending| pending.parts.values());
        for (_, state) in parts.flat_map(|part| &part.operators) {
            if let Some(object) = state.object() {
                objects.remove(object);
            }
        }
        if !objects.is_empty() {
            self.out.push(CheckpointStep::Discard(objects));
        }
    }
}
