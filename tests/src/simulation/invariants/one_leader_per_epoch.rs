//! Never two acting leaders of one epoch: every grant of a component has an epoch of its own, and a process
//! starts nothing under a new session before what it had started under the old one has ended.

use super::Invariant;
use crate::simulation::observer::{Seen, What};
use actors::probe::Fact;
use gateways::leader_election::Component;
use model::{Epoch, LeaderSession};
use std::collections::BTreeMap;

/// The invariant that no epoch of a component is granted twice in a run, and that a process acts for a component under one session at a
/// time: a grant before the end of the earlier session breaks it. Holds all grants and the sessions that act.
#[derive(Default)]
pub struct OneLeaderPerEpoch {
    /// Host, incarnation and session that were granted an epoch of a component.
    granted: BTreeMap<(Component, Epoch), (String, u32, LeaderSession)>,
    /// Sessions that act, by component and process.
    acting: BTreeMap<(String, u32, Component), LeaderSession>,
}

impl Invariant for OneLeaderPerEpoch {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Actor(fact) = seen.what else { return Ok(()) };
        match fact {
            Fact::LeadershipGranted { component, session } => {
                let (host, incarnation) = seen.process();
                let holder = (host.clone(), incarnation, *session);
                let process = (host, incarnation, *component);
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
                let (host, incarnation) = seen.process();
                self.acting.remove(&(host, incarnation, *component));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn host_started(&mut self, host: &str, _incarnation: u32) {
        self.acting.retain(|(h, _, _), _| h != host);
    }
}
