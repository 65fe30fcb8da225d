//! Offers and reports of the TaskExecutor to its JobMasters, one call of each kind at a time.

use super::{Command, TaskExecutor};
use crate::job_table::{Batch, Report};
use crate::slot_table::Phase;
use model::{AllocationId, ExecutionAttemptId, JobId};
use std::collections::BTreeSet;
use std::time::Duration;

impl TaskExecutor {
    pub(super) fn offers_answered(
        &mut self,
        now: Duration,
        id: JobId,
        connection: u64,
        accepted: &[AllocationId],
    ) {
        let Some(job) = self.connected(id, connection) else {
            return;
        };
        let offered = job.offer_answered();
        for allocation in offered {
            let Some(held) = self.slots.get(allocation).filter(|held| held.job == id) else {
                continue;
            };
            match (accepted.contains(&allocation), held.phase) {
                (true, Phase::Inactive) => {
                    self.slots.set_phase(now, allocation, Phase::Active);
                }
                (false, Phase::Inactive | Phase::Active) => self.give_back(now, &held),
                _ => {}
            }
        }
        self.out.push(Command::PublishJob { job: id });
        self.offer(now, id);
    }

    pub(super) fn reports_taken(
        &mut self,
        now: Duration,
        id: JobId,
        connection: u64,
        unknown: &[ExecutionAttemptId],
    ) {
        let Some(job) = self.connected(id, connection) else {
            return;
        };
        let failed_slots = job.batch_confirmed().into_iter().filter_map(|report| match report {
            Report::SlotFailed { allocation, .. } => Some(allocation),
            Report::State(_) => None,
        });
        let failed_slots: Vec<AllocationId> = failed_slots.collect();
        for allocation in failed_slots {
            let held = self.slots.get(allocation);
            if held.is_some_and(|held| held.job == id && held.phase == Phase::Failing) {
                self.free_now(id, allocation);
            }
        }
        self.cancel_on_host(id, unknown);
        self.out.push(Command::PublishJob { job: id });
        self.report(now, id);
        self.close_if_done(id);
    }

    /// Offers what no JobMaster has accepted, one call at a time.
    pub(super) fn offer(&mut self, now: Duration, id: JobId) {
        let slots = self.slots.offers(id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let may = job.may_offer(now);
        let Some(to) = job.job_master else { return };
        if !may || slots.is_empty() || job.host_up().is_none() {
            return;
        }
        let offered: BTreeSet<AllocationId> = slots.iter().map(|slot| slot.allocation_id).collect();
        job.offering = Some(offered);
        self.out.push(Command::OfferSlots { job: id, to, slots });
    }

    /// Sends the next batch of reports.
    pub(super) fn report(&mut self, now: Duration, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let Some(to) = job.job_master else { return };
        match job.next_batch(now) {
            None => {}
            Some(Batch::States(updates)) => {
                self.out.push(Command::UpdateTaskStates { job: id, to, updates });
            }
            Some(Batch::SlotFailed { allocation, accepted, cause }) => {
                self.out.push(Command::FailSlot { job: id, to, allocation, accepted, cause });
            }
        }
    }
}
