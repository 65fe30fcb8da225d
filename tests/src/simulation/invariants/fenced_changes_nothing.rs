//! A fenced message never changes state.
//!
//! The callee's session: a call reaches an actor only in the session that its endpoint is in, and none
//! whose leadership has ended. The caller's session: once a ResourceManager has heard a job's JobMaster of
//! some epoch, no declaration of a lower one is believed there; a TaskExecutor or JobMaster does what the
//! leader says that it follows, and no other.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use actors::probe::Fact;
use gateways::leader_election::Component;
use gateways::witness::FabricFact;
use model::{JobId, LeaderSession};
use std::collections::{BTreeMap, BTreeSet};

/// The invariant that a fenced call changes nothing: calls reach an endpoint in its own session only, an ended leader is not called and
/// does nothing, a superseded JobMaster is not believed, and processes obey only the leader that they follow. Holds these sessions.
#[derive(Default)]
pub struct FencedChangesNothing {
    /// The session of each endpoint, by host.
    sessions: BTreeMap<String, BTreeMap<String, LeaderSession>>,
    /// Leaderships that are over.
    ended: BTreeSet<LeaderSession>,
    /// The newest JobMaster that a ResourceManager believed.
    heard: BTreeMap<(LeaderSession, JobId), LeaderSession>,
    /// Leader that each endpoint of a process follows.
    followed: BTreeMap<(String, u32, String, Component), LeaderSession>,
}

impl FencedChangesNothing {
    fn fabric(&mut self, seen: &Seen<'_>, fact: FabricFact<'_>) -> Result<(), String> {
        match fact {
            FabricFact::Served { endpoint, session } => {
                let of_host = self.sessions.entry(seen.host.to_owned()).or_default();
                of_host.insert(endpoint.to_owned(), session);
            }
            FabricFact::Withdrawn { endpoint, session } => {
                // The end of an endpoint on a crashed host may be seen after the host's next start.
                if let Some(of_host) = self.sessions.get_mut(seen.host)
                    && of_host.get(endpoint) == Some(&session)
                {
                    of_host.remove(endpoint);
                }
            }
            FabricFact::Admitted { endpoint, call, meant_for } => {
                let of_host = self.sessions.get(seen.host);
                let session = of_host.and_then(|endpoints| endpoints.get(endpoint));
                if session != Some(&meant_for) {
                    return Err(format!(
                        "{call} for {meant_for} reached {endpoint} in session {session:?}"
                    ));
                }
                if self.ended.contains(&meant_for) {
                    return Err(format!(
                        "{call} reached {endpoint} in {meant_for}, whose leadership has ended"
                    ));
                }
            }
            FabricFact::Fenced { .. }
            | FabricFact::Overloaded { .. }
            | FabricFact::Asked { .. } => {}
        }
        Ok(())
    }

    fn declared(
        &mut self,
        session: LeaderSession,
        job_id: JobId,
        job_master: LeaderSession,
    ) -> Result<(), String> {
        let newest = self.heard.entry((session, job_id)).or_insert(job_master);
        if job_master.epoch < newest.epoch {
            return Err(format!(
                "job {job_id}: a declaration of {job_master} is believed after one of {newest}"
            ));
        }
        *newest = job_master;
        Ok(())
    }

    fn still_leads(&self, session: LeaderSession, what: &str) -> Result<(), String> {
        if self.ended.contains(&session) {
            return Err(format!("{what} by session {session}, whose leadership has ended"));
        }
        Ok(())
    }

    fn fact(&mut self, seen: &Seen<'_>, fact: &Fact) -> Result<(), String> {
        let (host, incarnation) = (seen.host.to_owned(), seen.incarnation);
        match fact {
            Fact::LeadershipEnded { session, .. } => {
                self.ended.insert(*session);
                Ok(())
            }
            Fact::SlotsDeclared { session, job_id, job_master, .. } => {
                self.declared(*session, *job_id, *job_master)
            }
            Fact::SlotRequested { session, .. } => {
                self.still_leads(*session, "a slot is asked for")
            }
            Fact::TaskManagerRegistered { session, .. } => {
                self.still_leads(*session, "a TaskManager is registered")
            }
            Fact::LeaderFollowed { by, leader, session } => {
                self.followed.insert((host, incarnation, by.clone(), *leader), *session);
                Ok(())
            }
            Fact::LeaderLeft { by, leader, session } => {
                let place = (host, incarnation, by.clone(), *leader);
                if self.followed.get(&place) == Some(session) {
                    self.followed.remove(&place);
                }
                Ok(())
            }
            Fact::LeaderObeyed { by, leader, session, call } => {
                let followed = self.followed.get(&(host, incarnation, by.clone(), *leader));
                if followed == Some(session) {
                    return Ok(());
                }
                let follows = followed.map_or("nobody".to_owned(), ToString::to_string);
                Err(format!("{by} does {call} for {leader} {session}, but follows {follows}"))
            }
            _ => Ok(()),
        }
    }
}

impl Invariant for FencedChangesNothing {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match &seen.what {
            What::Actor(fact) => self.fact(seen, fact),
            What::Fabric(fact) => self.fabric(seen, *fact),
            What::Client(Noticed::StaleTaken { call, session }) => {
                Err(format!("{call} of {session} was taken, which leads no more"))
            }
            What::Client(_) => Ok(()),
        }
    }

    fn host_started(&mut self, host: &str, _incarnation: u32) {
        self.sessions.remove(host);
        self.followed.retain(|(h, ..), _| h != host);
    }
}
