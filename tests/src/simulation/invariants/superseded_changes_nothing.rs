//! A fenced message never changes state: once a ResourceManager has heard a job's JobMaster of some epoch, no
//! declaration of a lower epoch is believed there; and nothing is declared at, nor slots asked by, a session
//! whose leadership has ended.

use super::Invariant;
use crate::simulation::observer::Seen;
use actors::probe::Fact;
use gateways::leader_election::Component;
use model::{JobId, LeaderSession};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Default)]
pub struct SupersededChangesNothing {
    heard: BTreeMap<(LeaderSession, JobId), LeaderSession>,
    ended: BTreeSet<LeaderSession>,
}

impl SupersededChangesNothing {
    fn still_leads(&self, session: LeaderSession, what: &str) -> Result<(), String> {
        if self.ended.contains(&session) {
            return Err(format!("{what} by session {session}, whose leadership has ended"));
        }
        Ok(())
    }
}

impl Invariant for SupersededChangesNothing {
    fn name(&self) -> &'static str {
        "superseded_changes_nothing"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match &seen.fact {
            Fact::LeadershipEnded { component: Component::ResourceManager, session } => {
                self.ended.insert(*session);
                Ok(())
            }
            Fact::SlotsDeclared { session, job_id, job_master, .. } => {
                self.still_leads(*session, "a declaration is believed")?;
                let newest = self.heard.entry((*session, *job_id)).or_insert(*job_master);
                if job_master.epoch < newest.epoch {
                    return Err(format!(
                        "job {job_id}: a declaration of {job_master} is believed after one of {newest}"
                    ));
                }
                *newest = *job_master;
                Ok(())
            }
            Fact::SlotRequested { session, .. } => {
                self.still_leads(*session, "a slot is asked for")
            }
            Fact::WorkerRegistered { session, .. } => {
                self.still_leads(*session, "a worker is registered")
            }
            _ => Ok(()),
        }
    }
}
