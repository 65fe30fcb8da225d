//! Ends a job: finished, cancelled, failed or suspended.

use super::{Command, JobCore, Now, Phase};
use crate::execution_graph::TaskIndex;
use crate::mutation::Rule;
use crate::scheduler::RegionIndex;
use model::{FailureCause, JobStatus};

impl JobCore {
    /// Settles the job after any change: stopped regions whose tasks have ended rest, and the job
    /// ends if nothing is left to do.
    pub(super) fn settle(&mut self, now: Now) {
        match self.status() {
            JobStatus::Running | JobStatus::Restarting => {
                self.rest_stopped_regions(now);
                let active = |state: &super::RegionState| state.phase == Phase::Active;
                let done = self.exec.all_finished() && self.states.iter().all(active);
                if done && !self.publishing {
                    self.publish(now);
                }
                self.advance_checkpoints(now);
            }
            JobStatus::Failing if self.exec.all_ended() => self.end(JobStatus::Failed, now),
            JobStatus::Cancelling if self.exec.all_ended() => self.end(JobStatus::Canceled, now),
            _ => {}
        }
    }

    fn rest_stopped_regions(&mut self, now: Now) {
        // Only a job that is restarting has stopped regions.
        if self.status() != JobStatus::Restarting {
            return;
        }
        let waits = self.config.mutation.keeps(Rule::EndBeforeRestart);
        let stopped: Vec<(RegionIndex, _)> = self
            .regions
            .iter()
            .zip(&self.states)
            .filter_map(|((index, _), state)| match state.phase {
                Phase::Stopping { resume } if state.alive == 0 || !waits => Some((index, resume)),
                _ => None,
            })
            .collect();
        for (region, resume) in stopped {
            let slots =
                self.states.get(region.0 as usize).map(|s| s.slots.clone()).unwrap_or_default();
            for slot in slots {
                self.release_if_idle(slot);
            }
            self.enter_phase(region, Phase::Resting { resume: resume.max(now.mono) });
        }
    }

    /// Lets the slot of a shared slot serve something else, if none of its tasks runs.
    fn release_if_idle(&mut self, slot: crate::scheduler::SharedSlot) {
        let mut tasks = self.plan.tasks_in(&self.exec, slot);
        let idle = tasks.all(|t| self.exec.task(t).is_none_or(|task| task.state.is_terminal()));
        if idle {
            self.pool.set_in_use(slot, false);
        }
    }

    /// Starts publishing, because every task has finished: the job is FINISHED only when its
    /// coordinators have published.
    fn publish(&mut self, now: Now) {
        if self.coordinated.is_empty() {
            self.end(JobStatus::Finished, now);
            return;
        }
        self.publishing = true;
        self.round += 1;
        self.out.push(Command::PublishResults { round: self.round });
    }

    /// Handles the outcome of [`Command::PublishResults`] with this `round`; another round is ignored. On success the job is
    /// FINISHED. On failure all regions with coordinators fail, and the restart strategy decides whether they run again; if the
    /// user has cancelled the job meanwhile, it is cancelled instead.
    pub fn results_published(&mut self, now: Now, round: u64, outcome: Result<(), FailureCause>) {
        if !self.publishing || round != self.round {
            return;
        }
        match outcome {
            Ok(()) => {
                self.publishing = false;
                self.end(JobStatus::Finished, now);
            }
            Err(cause) => self.coordinator_host_lost(now, cause),
        }
    }

    /// Cancels the job for the user: the pending checkpoint (unless its pointer is being written) and waiting savepoints fail, its tasks
    /// are cancelled ([`Command::CancelTasks`]), and the job becomes CANCELED when all have ended, at once if none is deployed. Does
    /// nothing if the job is ending or has ended. While results are being published the cancellation waits, and takes effect only if
    /// publishing fails: results that are partly visible can't be taken back.
    pub fn cancel(&mut self, now: Now) {
        if self.publishing {
            self.cancel_requested = true;
            return;
        }
        if !self.status.may(JobStatus::Cancelling) {
            return;
        }
        self.advance_status(JobStatus::Cancelling, now);
        self.stop_everything(now);
    }

    /// Fails the job for good: cancels all its tasks without any restart and keeps `cause` as the
    /// root cause. Does nothing if the job is already ending.
    pub(super) fn fail_job(&mut self, cause: FailureCause, now: Now) {
        if !self.status.may(JobStatus::Failing) {
            return;
        }
        self.root_cause = Some(cause);
        self.advance_status(JobStatus::Failing, now);
        self.stop_everything(now);
    }

    /// Fails the job for good because something outside of its tasks failed, for example the read of the checkpoint that it has to continue
    /// from: adds the failure to the job's history and cancels all its tasks; the job becomes FAILED, with `cause` as the root cause, when
    /// they have ended. The restart strategy is not asked. The pending checkpoint (unless its pointer is being written) and waiting
    /// savepoints fail, and publishing of results is given up. Does nothing if the job is ending or has ended.
    pub fn fail(&mut self, now: Now, cause: FailureCause) {
        if self.status.may(JobStatus::Failing) {
            self.record(&cause, None, now);
            self.fail_job(cause, now);
        }
    }

    fn stop_everything(&mut self, now: Now) {
        self.publishing = false;
        self.timers.clear();
        let why = match self.root_cause {
            Some(_) => self.newest_failure(),
            None => "the job is being canceled".to_owned(),
        };
        self.abort_checkpoint(&why, now);
        let all: Vec<TaskIndex> = (0..self.exec.len()).map(TaskIndex).collect();
        self.cancel_tasks(&all, now);
        self.settle(now);
    }

    /// Suspends the job (SUSPENDED): this JobMaster gives it up without cancelling its tasks, because its leadership ends,
    /// and another one will take the job over. No timer runs any more; the only command is [`Command::StatusChanged`], so savepoints
    /// that were asked for get no answer. Does nothing if the job has ended for good.
    pub fn suspend(&mut self, now: Now) {
        self.timers.clear();
        self.advance_status(JobStatus::Suspended, now);
    }

    fn end(&mut self, status: JobStatus, now: Now) {
        if !self.status.may(status) {
            return;
        }
        self.timers.clear();
        if status != JobStatus::Finished && !self.coordinated.is_empty() {
            self.out.push(Command::AbandonResults);
        }
        match status {
            JobStatus::Finished => self.answer_stop(),
            _ => self.abort_savepoints("the job has ended"),
        }
        self.checkpoints.job_ended(status);
        self.advance_status(status, now);
        self.out.push(Command::Ended(status));
    }
}
