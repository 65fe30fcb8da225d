//! No slot is given twice: a TaskExecutor's slot belongs to at most one allocation at a time, an allocation
//! has at most one slot, and a SlotManager asks for no slot that it has asked for and not heard of.

use super::Invariant;
use crate::simulation::observer::{Seen, What};
use actors::probe::Fact;
use model::{AllocationId, InstanceId, JobId, LeaderSession, SlotId};
use std::collections::BTreeMap;

/// The invariant that a slot of a TaskExecutor belongs to one allocation at a time, an allocation has one slot, and a SlotManager does not
/// ask for a slot again before its request has an answer. Holds allocations of slots and requests under way.
#[derive(Default)]
pub struct SlotGivenOnce {
    /// Allocation of each slot as the TaskExecutors have it, by process session.
    held: BTreeMap<(LeaderSession, SlotId), (JobId, AllocationId)>,
    /// Slot that has each allocation.
    places: BTreeMap<AllocationId, (LeaderSession, SlotId)>,
    /// Requests under way, by SlotManager and incarnation.
    asked: BTreeMap<(LeaderSession, InstanceId, SlotId), AllocationId>,
}

impl SlotGivenOnce {
    fn allocation(
        &mut self,
        session: LeaderSession,
        slot: &SlotId,
        allocation: Option<(JobId, AllocationId)>,
    ) -> Result<(), String> {
        let place = (session, slot.clone());
        let Some((job, id)) = allocation else {
            if let Some((_, id)) = self.held.remove(&place) {
                self.places.remove(&id);
            }
            return Ok(());
        };
        if let Some((other_job, other)) = self.held.insert(place.clone(), (job, id))
            && other != id
        {
            return Err(format!("slot {slot} of job {other_job} is given to job {job} as well"));
        }
        if let Some(other) = self.places.insert(id, place.clone())
            && other != place
        {
            return Err(format!("allocation {id} has slot {slot} and slot {}", other.1));
        }
        Ok(())
    }
}

impl Invariant for SlotGivenOnce {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Actor(fact) = seen.what else { return Ok(()) };
        match fact {
            Fact::SlotAllocation { session, slot_id, allocation } => {
                self.allocation(*session, slot_id, *allocation)
            }
            Fact::SlotRequested { session, instance_id, slot_id, allocation_id, .. } => {
                let request = (*session, *instance_id, slot_id.clone());
                match self.asked.insert(request, *allocation_id) {
                    Some(other) if other != *allocation_id => Err(format!(
                        "slot {slot_id} is asked for as {allocation_id} while {other} is under way"
                    )),
                    _ => Ok(()),
                }
            }
            // The end of an allocation may be seen before the answer that it began.
            Fact::SlotAnswered { session, slot_id, allocation_id, .. }
            | Fact::SlotFreed { session, slot_id, allocation_id } => {
                self.asked.retain(|(s, _, slot), id| {
                    !(s == session && slot == slot_id && id == allocation_id)
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::observer::{Observer, Trace};
    use actors::probe::Probe;
    use model::ResourceId;

    const SESSION: LeaderSession =
        LeaderSession { epoch: model::Epoch { store: 1, process: 1 }, nonce: 1 };

    fn slot() -> SlotId {
        SlotId { resource_id: ResourceId::new("taskmanager-3-2"), index: 1 }
    }

    fn requested(allocation: u128) -> Fact {
        Fact::SlotRequested {
            session: SESSION,
            instance_id: InstanceId(7),
            slot_id: slot(),
            job_id: JobId(1),
            allocation_id: AllocationId(allocation),
        }
    }

    fn found(facts: Vec<Fact>) -> usize {
        let observer = Observer::new(Trace::Hashed);
        let probe = observer.probe("jobmanager-0", 1);
        facts.into_iter().for_each(|fact| probe.note(fact));
        observer.violations().len()
    }

    #[test]
    fn a_slot_that_is_asked_for_is_not_asked_for_again() {
        assert_eq!(found(vec![requested(1), requested(2)]), 1);
    }

    /// The TaskExecutor gave the slot and has it back; its answer to the request is still on its way.
    #[test]
    fn a_slot_that_was_heard_to_be_free_is() {
        let freed =
            Fact::SlotFreed { session: SESSION, slot_id: slot(), allocation_id: AllocationId(1) };
        assert_eq!(found(vec![requested(1), freed.clone(), requested(2)]), 0);
        assert_eq!(found(vec![requested(1), requested(2), freed]), 1);
    }
}
