//! Workers requested never exceed what is declared: at the moment of a request, the slots of all requests
//! under way of a ResourceManager, the new one among them, are no more than what its jobs declare, rounded
//! up to whole workers.

use super::Invariant;
use crate::simulation::observer::{Seen, What};
use actors::probe::Fact;
use model::{JobId, LeaderSession};
use std::collections::BTreeMap;

/// The invariant that the slots of all worker requests under way of a ResourceManager are no more than what its jobs declare, rounded up
/// to whole workers; judged at each request. Holds both numbers of slots by session.
#[derive(Default)]
pub struct WorkersWithinDeclared {
    declared: BTreeMap<(LeaderSession, JobId), u32>,
    requested: BTreeMap<(LeaderSession, u64), u32>,
}

impl Invariant for WorkersWithinDeclared {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Actor(fact) = seen.what else { return Ok(()) };
        match fact {
            Fact::SlotsDeclared { session, job_id, slots, .. } => {
                self.declared.insert((*session, *job_id), *slots);
                Ok(())
            }
            Fact::WorkerRequestEnded { session, request } => {
                self.requested.remove(&(*session, *request));
                Ok(())
            }
            Fact::WorkerRequested { session, request, slots } => {
                self.requested.insert((*session, *request), *slots);
                let of_session = |s: &LeaderSession| s == session;
                let asked: u32 = self
                    .requested
                    .iter()
                    .filter(|((s, _), _)| of_session(s))
                    .map(|(_, slots)| *slots)
                    .sum();
                let wanted: u32 = self
                    .declared
                    .iter()
                    .filter(|((s, _), _)| of_session(s))
                    .map(|(_, slots)| *slots)
                    .sum();
                let whole = wanted.div_ceil((*slots).max(1)) * *slots;
                if asked > whole {
                    return Err(format!("{asked} slots are requested where {wanted} are declared"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
