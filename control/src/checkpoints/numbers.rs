//! The numbers of checkpoints and savepoints. No two of one job must ever have the same number, whichever JobMaster triggered them.
//!
//! A number is covered, so that it may be given out as it is, if the newest checkpoint in the job's log has the number before it. Any
//! other number is first recorded in the log by itself. A new JobMaster therefore goes on two numbers after the newest checkpoint in the
//! log, and after the newest recorded number: suppose that checkpoint 4 is in the log, and 5 was triggered and has failed. The JobMaster
//! records 6 before it triggers that. Its successor begins with 6 if that record is not in the log, and with 7 if it is.

use super::pending::Phase;
use super::{CheckpointStep, Checkpoints};
use crate::mutation::Rule;
use std::{collections::BTreeSet, time::Duration};

impl Checkpoints {
    /// Handles the outcome of [`CheckpointStep::RecordNumber`]: once the number is in the job's log, the coordinators' snapshots follow, or
    /// without coordinators the barrier; with a reason (`Err`) the checkpoint is aborted and, unless it is a savepoint, counts towards the
    /// tolerated failures. Ignored unless this checkpoint waits for it. `now` is monotonic.
    pub fn number_recorded(&mut self, now: Duration, checkpoint: u64, outcome: Result<(), String>) {
        if self.in_phase(checkpoint, Phase::Number).is_none() {
            return;
        }
        match outcome {
            Ok(()) => self.start_pending(),
            Err(why) => {
                let why = format!("its number is not recorded in the job's log: {why}");
                self.fail(now, why);
            }
        }
    }

    /// Aborts the checkpoint whose number is still being recorded, because tasks are deployed that its scope may leave out: a coordinator
    /// could give them splits before it takes its snapshot, and those would be in no state of the checkpoint. Nothing was triggered yet.
    /// It counts as failed in the report, but not towards the tolerated failures; a new one may begin at once. `now` is monotonic.
    pub fn tasks_deployed(&mut self, now: Duration) {
        if self.pending.as_ref().is_some_and(|pending| pending.phase == Phase::Number) {
            self.abort(now, "tasks were deployed before it began".to_owned());
        }
    }

    /// Has the number of the pending checkpoint recorded, unless it is covered.
    pub(super) fn record_or_start(&mut self) {
        let number = self.pending.as_ref().map(|pending| pending.parts.checkpoint);
        let records = self.config.mutation.keeps(Rule::NumbersRecorded);
        match number.filter(|number| records && *number != self.covered) {
            Some(number) => self.out.push(CheckpointStep::RecordNumber(number)),
            None => self.start_pending(),
        }
    }

    /// Begins the work on the pending checkpoint, whose number is no other's.
    fn start_pending(&mut self) {
        let Some(pending) = &mut self.pending else { return };
        let checkpoint = pending.parts.checkpoint;
        let operators: BTreeSet<_> = pending.coordinated.keys().copied().collect();
        let (phase, step) = match operators.is_empty() {
            true => (Phase::Tasks, CheckpointStep::Trigger(checkpoint)),
            false => {
                let step = CheckpointStep::SnapshotCoordinators(checkpoint, operators);
                (Phase::Coordinators, step)
            }
        };
        pending.phase = phase;
        self.out.push(step);
    }

    /// Makes numbers go on after `newest`, that of a checkpoint in the job's log. The number after it may have been given out.
    pub(super) fn go_on_after_complete(&mut self, newest: u64) {
        let spared = if self.config.mutation.keeps(Rule::CoveredNumbersSpared) { 1 } else { 0 };
        self.go_on_after(newest.saturating_add(spared));
    }

    /// Makes numbers go on after `newest`: this one and all lower ones are taken.
    pub(super) fn go_on_after(&mut self, newest: u64) {
        if self.config.mutation.keeps(Rule::NumbersGoOn) {
            self.next = self.next.max(newest.saturating_add(1));
        }
    }
}
