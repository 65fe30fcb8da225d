//! Slots of the TaskExecutor: given on request of the ResourceManager, taken back on request of the
//! JobMaster, or if no JobMaster accepts them in time.

use super::{Command, JobMasterRefusal, SlotRefusal, SlotRequest, TaskExecutor};
use crate::job_table::{Host, Job};
use crate::mutation::Rule;
use crate::slot_table::{Allocated, Held, Phase};
use model::{AllocationId, FailureCause, JobId, JobMasterId, ResourceManagerId};
use std::time::Duration;

impl TaskExecutor {
    /// Gives a slot to a job on request of the ResourceManager, and returns the commands that follow: always to watch the job's leader; for
    /// a slot that is new also to publish the slots, to launch the job's program host if there is none (if the host is being ended, after
    /// its end), and, if the host is up, to resize it and to offer the slot to the JobMaster if one is connected. Returns before any
    /// JobMaster has the slot. A repeated request only watches the leader again. `now` is monotonic.
    ///
    /// # Errors
    ///
    /// Returns the reason why the slot is not given, without a change: this process is not registered at the ResourceManager that asks, or
    /// the slot does not exist, is taken or too small, or the allocation has another slot here.
    pub fn request_slot(
        &mut self,
        now: Duration,
        request: &SlotRequest,
    ) -> Result<Vec<Command>, SlotRefusal> {
        let strict = self.settings.mutation.keeps(Rule::OnlyFollowedObeyed);
        let registered = self.registered_at().filter(|(id, _)| *id == request.by || !strict);
        let Some((_, instance)) = registered else {
            return Err(SlotRefusal::NotMyResourceManager);
        };
        let SlotRequest { index, job: id, allocation, .. } = *request;
        let outcome = self.slots.allocate(now, index, id, allocation, &request.need)?;
        let job = self.jobs.entry(id).or_insert_with(|| Job::new(request.program));
        job.watched = true;
        self.out.push(Command::WatchJob { job: id, instance });
        if outcome == Allocated::New {
            job.want_host();
            job.program = request.program;
            self.out.push(Command::PublishSlots);
            self.launch_if_wanted(id);
            self.resize_host(id);
            self.offer(now, id);
        }
        Ok(std::mem::take(&mut self.out))
    }

    /// Takes a slot back on request of the job's JobMaster `by`: tasks in it are ended, and the slot is freed when they have ended, at
    /// once if none run or their program host is being ended. The ResourceManager is told of the free slot; with the job's last slot here
    /// its program host is ended too. If the tasks have not ended after [`Settings::release_timeout`](super::Settings::release_timeout),
    /// their program host is killed with all tasks of the job here, which fail. `now` is monotonic.
    ///
    /// # Errors
    ///
    /// Returns the reason, without a change, if the allocation is unknown or `by` is not the connected JobMaster.
    pub fn free_slot(
        &mut self,
        now: Duration,
        by: JobMasterId,
        allocation: AllocationId,
    ) -> Result<Vec<Command>, JobMasterRefusal> {
        let held = self.slots.get(allocation);
        let held = held.ok_or(JobMasterRefusal::NoSuchAllocation(allocation))?;
        self.check_job_master(held.job, by)?;
        self.give_back(now, &held);
        Ok(std::mem::take(&mut self.out))
    }

    /// Takes a slot back on request of the ResourceManager `by`, because its job has ended or has no leader: tasks in it
    /// are ended, and the slot is freed as by [`TaskExecutor::free_slot`]. Returns `None`, without a change, if the slot is not
    /// allocated or this process is not registered at `by`. `now` is monotonic.
    pub fn take_back_slot(
        &mut self,
        now: Duration,
        by: ResourceManagerId,
        allocation: AllocationId,
    ) -> Option<Vec<Command>> {
        self.registered_at().filter(|(id, _)| *id == by)?;
        let held = self.slots.get(allocation)?;
        self.give_back(now, &held);
        Some(std::mem::take(&mut self.out))
    }

    /// Frees a slot once nothing runs in it.
    pub(super) fn give_back(&mut self, now: Duration, held: &Held) {
        let Held { job: id, allocation, phase, .. } = *held;
        let job = self.jobs.get(&id);
        let busy = job.is_some_and(|j| j.host_up().is_some() && j.slot_is_busy(allocation));
        match (busy, phase) {
            (true, Phase::Releasing) => {}
            (true, _) => {
                self.slots.set_phase(now, allocation, Phase::Releasing);
                self.out.push(Command::ReleaseSlotOnHost { job: id, allocation });
                self.out.push(Command::PublishJob { job: id });
            }
            (false, _) => self.free_now(id, allocation),
        }
    }

    /// Frees a slot; with the last one the job's host ends and, when nothing is left to report, the job
    /// is forgotten.
    pub(super) fn free_now(&mut self, id: JobId, allocation: AllocationId) {
        let Some(freed) = self.slots.free(allocation) else {
            return;
        };
        if let Some(offering) = self.jobs.get_mut(&id).and_then(|j| j.offering.as_mut()) {
            offering.remove(&allocation);
        }
        self.out.push(Command::PublishSlots);
        self.out.push(Command::PublishJob { job: id });
        if let Some((manager, instance)) = self.registered_at() {
            self.out.push(Command::NotifySlotAvailable {
                id: manager,
                instance,
                index: freed.index,
                allocation,
            });
        }
        if self.slots.of_job(id).next().is_none() {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.wants_host = false;
            }
            self.end_host(id, false);
            self.close_if_done(id);
        }
    }

    /// Returns the monotonic time at which an allocated slot needs attention; `None` while a
    /// JobMaster has accepted it, or its host is starting.
    pub(super) fn slot_deadline(&self, held: &Held) -> Option<Duration> {
        let host = self.jobs.get(&held.job).map(|job| (job.host, job.wants_host));
        let wait = match (held.phase, host) {
            (Phase::Active, _) => return None,
            // The launch has a time-out of its own.
            (Phase::Inactive, Some((Host::Launching { .. }, _) | (Host::Ending { .. }, true))) => {
                return None;
            }
            (Phase::Inactive | Phase::Failing, _) => self.settings.slot_timeout,
            (Phase::Releasing, _) => self.settings.release_timeout,
        };
        Some(held.since.saturating_add(wait))
    }

    pub(super) fn tick_slots(&mut self, now: Duration) {
        let due = |held: &Held| self.slot_deadline(held).is_some_and(|at| now >= at);
        let overdue: Vec<Held> = self.slots.held().filter(due).collect();
        for held in overdue {
            // An earlier one of this round may have taken it along.
            let Some(held) = self.slots.get(held.allocation) else {
                continue;
            };
            match held.phase {
                Phase::Active => {}
                Phase::Inactive | Phase::Failing => self.give_back(now, &held),
                Phase::Releasing => {
                    let message = format!(
                        "tasks in the released slot {} did not end within {} ms, so their process was ended",
                        held.allocation,
                        self.settings.release_timeout.as_millis()
                    );
                    let cause = FailureCause::recoverable("TaskCancellationTimeout", message);
                    self.end_host(held.job, true);
                    self.fail_job(now, held.job, &cause);
                }
            }
        }
    }
}
