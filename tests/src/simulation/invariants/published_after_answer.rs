//! An address is never published before its component answers: what is published is an endpoint that is
//! served at that moment under that very session, and the session leads.

use super::Invariant;
use crate::simulation::observer::Seen;
use actors::probe::Fact;
use gateways::leader_election::Component;
use model::LeaderSession;
use std::collections::BTreeSet;

/// See the module.
#[derive(Default)]
pub struct PublishedAfterAnswer {
    leading: BTreeSet<(Component, LeaderSession)>,
}

impl Invariant for PublishedAfterAnswer {
    fn name(&self) -> &'static str {
        "published_after_answer"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match &seen.fact {
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
                if !seen.answers {
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
}
