//! The leaders that this process's own election has published.

use crate::services::LeaderRetrieval;
use gateways::leader_election::{Component, LeaderInformation};
use platform::watch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Leaders = BTreeMap<Component, watch::Sender<Option<LeaderInformation>>>;

/// A shared table. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LeaderTable {
    leaders: Arc<Mutex<Leaders>>,
}

impl LeaderTable {
    /// Makes a leader known, or that nobody leads.
    pub fn set(&self, component: Component, leader: Option<LeaderInformation>) {
        let mut leaders = self.lock();
        if leader.is_some() || leaders.contains_key(&component) {
            leaders.entry(component).or_default().send_replace(leader);
        }
        // Jobs come and go: what nobody leads and nobody watches is forgotten.
        leaders.retain(|_, leader| leader.borrow().is_some() || leader.receiver_count() > 0);
    }

    fn lock(&self) -> MutexGuard<'_, Leaders> {
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaderRetrieval for LeaderTable {
    fn watch(&self, component: Component) -> watch::Receiver<Option<LeaderInformation>> {
        self.lock().entry(component).or_default().subscribe()
    }
}
