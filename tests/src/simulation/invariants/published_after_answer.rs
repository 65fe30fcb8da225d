//! An address is never published before its component answers: what is published is an endpoint that the
//! process serves at that moment under that very session, and the session leads.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use actors::probe::Fact;
use gateways::leader_election::Component;
use gateways::witness::FabricFact;
use model::LeaderSession;
use std::collections::{BTreeMap, BTreeSet};

/// The invariant that a published address is that of an endpoint which the publishing process serves at that moment, under the published
/// session, and that this session leads. Holds the served endpoints and the leading sessions.
#[derive(Default)]
pub struct PublishedAfterAnswer {
    leading: BTreeSet<(Component, LeaderSession)>,
    /// Session of each endpoint that a process serves.
    served: BTreeMap<(String, u32, String), LeaderSession>,
}

impl PublishedAfterAnswer {
    fn fabric(&mut self, seen: &Seen<'_>, fact: FabricFact<'_>) {
        let (host, incarnation) = seen.process();
        match fact {
            FabricFact::Served { endpoint, session } => {
                self.served.insert((host, incarnation, endpoint.to_owned()), session);
            }
            FabricFact::Withdrawn { endpoint, .. } => {
                self.served.remove(&(host, incarnation, endpoint.to_owned()));
            }
            FabricFact::Admitted { .. }
            | FabricFact::Fenced { .. }
            | FabricFact::Overloaded { .. }
            | FabricFact::Asked { .. } => {}
        }
    }
}

impl Invariant for PublishedAfterAnswer {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let fact = match seen.what {
            What::Actor(fact) => fact,
            What::Fabric(FabricFact::Admitted { .. }) => return Ok(()),
            What::Fabric(fact) => {
                self.fabric(seen, fact);
                return Ok(());
            }
            What::Client(Noticed::NotThereYet { leader, current }) => {
                return Err(format!(
                    "{} was said to be in session {}, but {current} answered",
                    leader.address, leader.session
                ));
            }
            What::Client(_) => return Ok(()),
        };
        match fact {
            Fact::LeadershipGranted { component, session } => {
                self.leading.insert((*component, *session));
            }
            Fact::LeadershipRevoked { component, session } => {
                self.leading.remove(&(*component, *session));
            }
            Fact::LeaderPublished { component, leader } => {
                if !self.leading.contains(&(*component, leader.session)) {
                    return Err(format!(
                        "{component} is published under {}, which does not lead",
                        leader.session
                    ));
                }
                let (host, incarnation) = seen.process();
                let place = (host, incarnation, leader.address.endpoint.clone());
                if self.served.get(&place) != Some(&leader.session) {
                    return Err(format!(
                        "{component} is published at {} before it answers",
                        leader.address
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn host_started(&mut self, host: &str, _incarnation: u32) {
        self.served.retain(|(h, _, _), _| h != host);
    }
}
