//! The leaders that this process's election has published, and the JobMasters of its Dispatcher.

use crate::services::LeaderRetrieval;
use gateways::leader_election::{Component, LeaderInformation};
use model::{DispatcherId, Fence, JobId, LeaderSession};
use platform::watch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of entries up to which none is removed.
const FORGET_FROM: usize = 64;

/// A JobManager process's own leaders with their addresses, in memory: those that its election has published, and the JobMasters
/// of its Dispatcher, which their runners add. Leaders of other processes are never in it. Leader retrieval of this process reads it, and
/// answers the questions of other processes from it. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct LeaderTable {
    leaders: Arc<Mutex<Leaders>>,
}

#[derive(Debug, Default)]
struct Leaders {
    known: BTreeMap<Component, watch::Sender<Option<LeaderInformation>>>,
    /// JobMasters that answer, each with its Dispatcher.
    jobs: BTreeMap<JobId, (DispatcherId, LeaderInformation)>,
    /// Number of entries from which unused ones are removed.
    forget_from: usize,
}

impl LeaderTable {
    /// Publishes a component's leader, or withdraws it (`None`); receivers of [`LeaderRetrieval::watch`] see the change
    /// at once. Publishing a Dispatcher also publishes its JobMasters, and withdrawing it withdraws them. Called by the election service.
    pub fn set(&self, component: Component, leader: Option<LeaderInformation>) {
        let mut leaders = self.lock();
        leaders.tell(component, leader);
        if component == Component::Dispatcher {
            for job in leaders.jobs.keys().copied().collect::<Vec<_>>() {
                leaders.tell_job(job);
            }
        }
    }

    /// Adds the leading JobMaster of a job, in place of an earlier one. It is published only while the Dispatcher of
    /// session `dispatcher` is published, at once or later. Called by the job's runner once the JobMaster answers.
    pub fn add_job(&self, dispatcher: DispatcherId, job: JobId, leader: LeaderInformation) {
        let mut leaders = self.lock();
        leaders.jobs.insert(job, (dispatcher, leader));
        leaders.tell_job(job);
    }

    /// Removes and withdraws the job's JobMaster if its session is `session`; does nothing if the job has another one
    /// or none. Called by the job's runner when it takes the JobMaster's leadership back.
    pub fn remove_job(&self, job: JobId, session: LeaderSession) {
        let mut leaders = self.lock();
        if leaders.jobs.get(&job).is_some_and(|(_, leader)| leader.session == session) {
            leaders.jobs.remove(&job);
            leaders.tell_job(job);
        }
    }

    /// Returns the number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().known.len()
    }

    fn lock(&self) -> MutexGuard<'_, Leaders> {
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaders {
    fn tell(&mut self, component: Component, leader: Option<LeaderInformation>) {
        if leader.is_some() || self.known.contains_key(&component) {
            self.known.entry(component).or_default().set(leader);
        }
    }

    fn tell_job(&mut self, job: JobId) {
        let known = self.known.get(&Component::Dispatcher);
        let dispatcher = known.and_then(|leader| leader.borrow().as_ref().map(|l| l.session));
        let leader = self.jobs.get(&job).filter(|(of, _)| Some(of.session()) == dispatcher);
        let leader = leader.map(|(_, leader)| leader.clone());
        self.tell(Component::JobMaster(job), leader);
    }

    /// Removes the entries that have neither a leader nor a watcher, each time the number of entries has doubled.
    fn forget(&mut self) {
        if self.known.len() >= self.forget_from {
            self.known.retain(|_, leader| leader.borrow().is_some() || !leader.is_closed());
            self.forget_from = self.known.len().saturating_mul(2).max(FORGET_FROM);
        }
    }
}

impl LeaderRetrieval for LeaderTable {
    fn watch(&self, component: Component) -> watch::Receiver<Option<LeaderInformation>> {
        let mut leaders = self.lock();
        leaders.forget();
        leaders.known.entry(component).or_default().subscribe()
    }
}
