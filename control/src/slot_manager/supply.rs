//! TaskManagers of an external resource system: decides which are missing and which are not needed any
//! more.

use super::matching::task_managers_for;
use super::{Command, SlotManager, Supply};
use model::{InstanceId, WorkerResourceSpec};
use std::collections::BTreeMap;
use std::time::Duration;

impl SlotManager {
    /// Releases TaskManagers that have been idle for the idle time-out, the longest idle first, except the redundant ones.
    pub(super) fn release_idle(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let Supply::Active { idle_timeout, redundant, .. } = &self.settings.supply else {
            return;
        };
        let shelves = self.task_managers.shelves();
        let keep = usize::try_from(*redundant).unwrap_or(usize::MAX);
        let spare = shelves.idle_counts().0.saturating_sub(keep);
        // While jobs wait, an idle usable TaskManager is kept, because its slots may be given to them. A TaskManager on a blocked
        // node gets no jobs and is released.
        let needed = !self.queue.is_empty();
        let useless = |instance: &InstanceId| {
            !needed || self.task_managers.get(*instance).is_some_and(|known| !known.usable())
        };
        let due: Vec<InstanceId> = shelves
            .idle()
            .take_while(|(since, _)| now.saturating_sub(*since) >= *idle_timeout)
            .map(|(_, instance)| instance)
            .filter(useless)
            .take(spare)
            .collect();
        for instance_id in due {
            self.task_managers.release(instance_id);
            commands.push(Command::ReleaseTaskManager { instance_id });
        }
    }

    /// Declares the missing TaskManagers if they have changed.
    pub(super) fn declare_task_managers(&mut self, commands: &mut Vec<Command>) {
        let Supply::Active { task_manager, slots_max, redundant, .. } = &self.settings.supply
        else {
            return;
        };
        let unfulfilled = self.queue.unfulfilled().as_requirements();
        let mut missing = task_managers_for(&unfulfilled, task_manager).task_managers;
        let (_, ready) = self.task_managers.shelves().idle_counts();
        let spare = redundant.saturating_sub(ready);
        if self.wanting > 0 && spare > 0 {
            let of_default = missing.entry(task_manager.clone()).or_default();
            *of_default = of_default.saturating_add(spare);
        }
        if let Some(max) = slots_max {
            let (_, known, _) = self.task_managers.totals();
            cap(&mut missing, max.saturating_sub(known));
        }
        let needed = (self.changes, missing);
        if self.needed.as_ref() != Some(&needed) {
            commands.push(Command::NeedTaskManagers { seen: needed.0, missing: needed.1.clone() });
            self.needed = Some(needed);
        }
    }
}

/// Reduces the numbers of TaskManagers so that they have at most `slots` slots together.
fn cap(task_managers: &mut BTreeMap<WorkerResourceSpec, u32>, mut slots: u32) {
    for (spec, n) in task_managers.iter_mut() {
        let each = spec.slots.max(1);
        *n = (*n).min(slots / each);
        slots -= *n * each;
    }
    task_managers.retain(|_, n| *n > 0);
}
