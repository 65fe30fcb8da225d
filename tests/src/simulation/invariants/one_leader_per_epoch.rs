//! Never two acting leaders of one epoch: every grant of a component has an epoch of its own, higher than
//! all that the same process was granted before, and a process starts nothing under a new session before
//! what it had started under the old one has ended.

use super::Invariant;
use crate::simulation::observer::Seen;
use actors::probe::Fact;
use gateways::leader_election::Component;
use model::{Epoch, LeaderSession};
use std::collections::BTreeMap;

/// See the module.
#[derive(Default)]
pub struct OneLeaderPerEpoch {
    /// Who was granted an epoch of a component.
    granted: BTreeMap<(Component, Epoch), (String, u32, LeaderSession)>,
    /// Sessions that act, by component and process.
    acting: BTreeMap<(String, u32, Component), LeaderSession>,
}

impl Invariant for OneLeaderPerEpoch {
    fn name(&self) -> &'static str {
        "one_leader_per_epoch"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match &seen.fact {
            Fact::LeadershipGranted { component, session } => {
                let process = (seen.host.clone(), seen.incarnation, *component);
                let holder = (seen.host.clone(), seen.incarnation, *session);
                if let Some(other) =
                    self.granted.insert((*component, session.epoch), holder.clone())
                {
                    return Err(format!(
                        "{component} was granted epoch {session} twice, before to {other:?}"
                    ));
                }
                if let Some(old) = self.acting.insert(process, *session) {
                    return Err(format!(
                        "{component} starts under {session} while {old} still acts"
                    ));
                }
                Ok(())
            }
            Fact::LeadershipEnded { component, .. } => {
                self.acting.remove(&(seen.host.clone(), seen.incarnation, *component));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn host_started(&mut self, host: &str, _incarnation: u32) {
        self.acting.retain(|(h, _, _), _| h != host);
    }
}
