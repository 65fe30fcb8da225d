//! The order of leaderships in one process (one lease, a session for each contender, hand-over), and the sessions of
//! jobs, which follow from their Dispatcher's session.
//!
//! Rules: a contender is granted a session only after everything that it ran under the previous session has ended;
//! every grant has a higher epoch than all earlier ones in this process, and a higher lease epoch than any of another
//! process; an address is published only for the session that leads, and only after the component has confirmed that it
//! answers; a published address is withdrawn before the contender is told to stop.

#[cfg(test)]
mod tests;

use crate::mutation::{Mutation, Rule};
use model::{DispatcherId, Epoch, Fence, JobId, JobMasterId, LeaderSession};
use std::collections::BTreeMap;

/// Number of sessions that one Dispatcher can give to the JobMasters of one job.
const SESSIONS_PER_JOB: u64 = 1 << u8::BITS;

/// Returns the leader session of a job's `nth` JobMaster under a Dispatcher, counted from 0 (so that there are at most 256). A job's
/// leadership follows from its Dispatcher's and is not elected. Epochs of one job rise from one JobMaster to the next and from one
/// Dispatcher to the next: after the JobMasters 7.512 and 7.513 of Dispatcher 7.2 come 7.768 of Dispatcher 7.3 and 8.256 of Dispatcher 8.1.
/// Jobs of one Dispatcher differ in the nonce.
pub fn job_session(dispatcher: DispatcherId, job: JobId, nth: u8) -> JobMasterId {
    let LeaderSession { epoch, nonce } = dispatcher.session();
    let process = epoch.process.saturating_mul(SESSIONS_PER_JOB).saturating_add(u64::from(nth));
    let nonce = crate::ids::nth_id(job.0, nonce) as u64;
    JobMasterId(LeaderSession { epoch: Epoch { store: epoch.store, process }, nonce })
}

/// A command for the caller, as the events of [`Leaderships`] return it: grant or revoke a component's leadership, or publish or withdraw
/// its address. Commands are carried out in order. `C` names components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<C> {
    /// Tell the component that it leads under this session.
    Grant {
        /// The component that gets the leadership.
        component: C,
        /// The session that is granted.
        session: LeaderSession,
    },
    /// Tell the component that its leadership has ended; the caller calls [`Leaderships::ended`] when everything of it has
    /// stopped.
    Revoke {
        /// The component that the session belongs to.
        component: C,
        /// The session that is revoked.
        session: LeaderSession,
    },
    /// Publish the component's address for this session, because the component has confirmed that it answers.
    Publish {
        /// The component that the session belongs to.
        component: C,
        /// The session that leads.
        session: LeaderSession,
    },
    /// Withdraw the component's published address, because the lease is lost (then [`Command::Revoke`] follows), or the component has
    /// withdrawn or contends anew. Given only after [`Command::Publish`] for the session.
    Retract {
        /// The component that the session belongs to.
        component: C,
        /// The session whose address is withdrawn.
        session: LeaderSession,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    /// Leads nothing, nothing of it runs.
    Waiting,
    /// The contender was granted the session; `confirmed` is true once it answers.
    Leading { session: LeaderSession, confirmed: bool },
    /// The contender was told to stop; parts of it may still run.
    Ending { session: LeaderSession },
}

/// The leaderships of the components of one process, such as its Dispatcher and ResourceManager, which compete together for one lease
/// against other processes. Each gets sessions of its own: a component contends; with the lease it is granted a session, confirms that it
/// answers, and is published; when the lease is lost its address is withdrawn and the session revoked, and it gets no other one before
/// everything of it has ended. Only decides: the events return the commands. `C` names components.
#[derive(Debug)]
pub struct Leaderships<C> {
    lease: Option<u64>,
    granted: u64,
    seed: u128,
    mutation: Mutation,
    contenders: BTreeMap<C, Contender>,
}

impl<C: Ord + Copy> Leaderships<C> {
    /// Returns a state without a lease and without contenders. `seed` is a random number, drawn once, from which the sessions'
    /// nonces (random parts) are derived. `mutation` is a rule that a simulation breaks on purpose.
    pub fn new(seed: u128, mutation: Mutation) -> Self {
        Self { lease: None, granted: 0, seed, mutation, contenders: BTreeMap::new() }
    }

    /// Records that the process holds the lease; `store_epoch` is the store's counter, which rises with each lease. Every
    /// contender that waits is granted a session. If another counter was known, that lease counts as lost first. The same
    /// counter again changes nothing.
    pub fn lease_granted(&mut self, store_epoch: u64) -> Vec<Command<C>> {
        if self.lease == Some(store_epoch) {
            return Vec::new();
        }
        let mut commands = self.lease_lost();
        self.lease = Some(store_epoch);
        commands.extend(self.grant_waiting());
        commands
    }

    /// Records that the process no longer holds the lease: published addresses are withdrawn, and all sessions are revoked.
    /// Contenders get no session before the next lease.
    pub fn lease_lost(&mut self) -> Vec<Command<C>> {
        self.lease = None;
        let mut commands = Vec::new();
        for (component, contender) in &mut self.contenders {
            if let Contender::Leading { session, confirmed } = *contender {
                *contender = Contender::Ending { session };
                commands.extend(
                    confirmed.then_some(Command::Retract { component: *component, session }),
                );
                commands.push(Command::Revoke { component: *component, session });
            }
        }
        commands
    }

    /// Adds a contender, a component that wants to lead; it is granted a session at once if the process holds the lease. An
    /// earlier contender for the same component is replaced and counts as ended; its published address is withdrawn.
    pub fn contend(&mut self, component: C) -> Vec<Command<C>> {
        let mut commands = self.withdraw(component);
        self.contenders.insert(component, Contender::Waiting);
        commands.extend(self.grant_waiting());
        commands
    }

    /// Removes a contender, which has ended; its published address is withdrawn. No command follows if it has none.
    pub fn withdraw(&mut self, component: C) -> Vec<Command<C>> {
        match self.contenders.remove(&component) {
            Some(Contender::Leading { session, confirmed: true }) => {
                vec![Command::Retract { component, session }]
            }
            _ => Vec::new(),
        }
    }

    /// Records that everything that the component had started under a revoked session has ended. Only then is the component
    /// granted the next session, if the process holds the lease. Ignored if that session is not being ended.
    pub fn ended(&mut self, component: C, session: LeaderSession) -> Vec<Command<C>> {
        match self.contenders.get_mut(&component) {
            Some(contender) if *contender == (Contender::Ending { session }) => {
                *contender = Contender::Waiting;
                self.grant_waiting()
            }
            _ => Vec::new(),
        }
    }

    /// Records that the component answers under `session`, and returns the command that publishes its address, at each call anew.
    /// Returns `None`, without a change, if that session does not lead.
    pub fn confirm(&mut self, component: C, session: LeaderSession) -> Option<Vec<Command<C>>> {
        match self.contenders.get_mut(&component) {
            Some(Contender::Leading { session: leads, confirmed }) if *leads == session => {
                *confirmed = true;
                Some(vec![Command::Publish { component, session }])
            }
            _ => None,
        }
    }

    fn grant_waiting(&mut self) -> Vec<Command<C>> {
        let Some(store) = self.lease else {
            return Vec::new();
        };
        let mut commands = Vec::new();
        for (component, contender) in &mut self.contenders {
            if *contender != Contender::Waiting {
                continue;
            }
            self.granted += 1;
            let rises = self.mutation.keeps(Rule::EpochRises);
            let session = LeaderSession {
                epoch: Epoch { store: if rises { store } else { 0 }, process: self.granted },
                nonce: crate::ids::nth_id(self.seed, self.granted) as u64,
            };
            *contender = Contender::Leading { session, confirmed: false };
            commands.push(Command::Grant { component: *component, session });
        }
        commands
    }
}
