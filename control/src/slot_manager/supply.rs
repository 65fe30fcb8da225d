//! Workers of an external resource system: decides which are missing and which are not needed any
//! more.

use super::matching::workers_for;
use super::{Command, SlotManager, Supply};
use model::{InstanceId, WorkerResourceSpec};
use std::collections::BTreeMap;
use std::time::Duration;

impl SlotManager {
    /// Releases workers that have been idle for the idle time-out, the longest idle first, except the redundant ones.
    pub(super) fn release_idle(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let Supply::Active { idle_timeout, redundant, .. } = &self.settings.supply else {
            return;
        };
        let shelves = self.workers.shelves();
        let keep = usize::try_from(*redundant).unwrap_or(usize::MAX);
        let spare = shelves.idle_counts().0.saturating_sub(keep);
        // While jobs wait, an idle usable worker is kept, because its slots may be given to them. A worker on a blocked
        // node gets no jobs and is released.
        let needed = !self.queue.is_empty();
        let useless = |instance: &InstanceId| {
            !needed || self.workers.get(*instance).is_some_and(|worker| !worker.usable())
        };
        let due: Vec<InstanceId> = shelves
            .idle()
            .take_while(|(since, _)| now.saturating_sub(*since) >= *idle_timeout)
            .map(|(_, instance)| instance)
            .filter(useless)
            .take(spare)
            .collect();
        for instance_id in due {
            self.workers.release(instance_id);
            commands.push(Command::ReleaseWorker { instance_id });
        }
    }

    /// Declares the missing workers if they have changed.
    pub(super) fn declare_workers(&mut self, commands: &mut Vec<Command>) {
        let Supply::Active { worker, slots_max, redundant, .. } = &self.settings.supply else {
            return;
        };
        let unfulfilled = self.queue.unfulfilled().as_requirements();
        let mut missing = workers_for(&unfulfilled, worker).workers;
        let (_, ready) = self.workers.shelves().idle_counts();
        let spare = redundant.saturating_sub(ready);
        if self.wanting > 0 && spare > 0 {
            let of_default = missing.entry(worker.clone()).or_default();
            *of_default = of_default.saturating_add(spare);
        }
        if let Some(max) = slots_max {
            let (_, known, _) = self.workers.totals();
            cap(&mut missing, max.saturating_sub(known));
        }
        let needed = (self.changes, missing);
        if self.needed.as_ref() != Some(&needed) {
            commands.push(Command::NeedWorkers { seen: needed.0, missing: needed.1.clone() });
            self.needed = Some(needed);
        }
    }
}

/// Reduces the numbers of workers so that they have at most `slots` slots together.
fn cap(workers: &mut BTreeMap<WorkerResourceSpec, u32>, mut slots: u32) {
    for (spec, n) in workers.iter_mut() {
        let each = spec.slots.max(1);
        *n = (*n).min(slots / each);
        slots -= *n * each;
    }
    workers.retain(|_, n| *n > 0);
}
