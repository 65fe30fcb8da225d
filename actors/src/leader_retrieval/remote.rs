//! Retrieves leaders from another process: one long-polling question per watched component, to the
//! process that leads according to the configuration or to the HA store's record.
//!
//! While that process can't be reached the last answer stays valid: the components that are
//! connected to a leader find out whether it is alive.

use super::obstacle::{Obstacle, Reaction};
use super::{ENDPOINT, LeaderTable};
use crate::services::LeaderRetrieval;
use gateways::leader_election::{
    Component, LeaderInformation, LeaderRetrievalGateway, RequestLeader,
};
use gateways::{CallError, EndpointAddress, Never, NodeAddress, RpcService};
use model::ProcessSession;
use platform::watch;
use platform::{Lane, Platform};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::ha::LeaderRecord;

/// The way in which a [`RemoteRetrieval`] finds the address of the JobManager process that leads, which it asks for
/// leaders.
#[derive(Debug, Clone)]
pub enum LeaderNode {
    /// The configured address of the only JobManager, which is never replaced.
    Fixed(NodeAddress),
    /// The process that the leader's record in the HA store names now; a new record ends the questions to the former process. While
    /// there is no record, or it names no address, no process is asked, and the last known leaders stay.
    Record(watch::Receiver<Option<LeaderRecord>>),
}

impl LeaderNode {
    fn now(&mut self) -> Option<NodeAddress> {
        match self {
            Self::Fixed(node) => Some(node.clone()),
            Self::Record(record) => {
                let record = record.borrow_and_update();
                let node = record.as_ref().map(|record| record.node.as_str())?;
                (!node.is_empty()).then(|| NodeAddress::new(node))
            }
        }
    }

    /// Ends when another process may lead.
    async fn changed(&mut self) {
        if let Self::Record(record) = self
            && record.changed().await.is_ok()
        {
            return;
        }
        // The address is fixed, or the record's sender is gone.
        futures::future::pending().await
    }
}

/// Time-outs and pauses of a [`RemoteRetrieval`], which asks another process for leaders; by default 20 s, 50 ms and
/// 500 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrievalSettings {
    /// Maximum time that one question waits at the asked process for a change of the leader, after which it is answered with the known
    /// one; 20 s by default, and more than 30 s counts as 30 s. A question without an answer fails after one and a half times this.
    pub wait: Duration,
    /// Pause after the first failed question, 50 ms by default; it doubles with each further failure in a row, up to
    /// `retry_max`.
    pub retry: Duration,
    /// Upper bound to which `retry` doubles; 500 ms by default. The first pause is `retry` also where that is longer.
    pub retry_max: Duration,
}

impl Default for RetrievalSettings {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(20),
            retry: Duration::from_millis(50),
            retry_max: Duration::from_millis(500),
        }
    }
}

/// The leader retrieval of a process: finds leaders by asking the JobManager process that leads; implements
/// [`LeaderRetrieval`](crate::services::LeaderRetrieval). Failed questions are repeated without end; meanwhile the last
/// known leader stays. An answer that nobody leads withdraws it. Clones share the questions.
#[derive(Clone, derive_more::Debug)]
#[debug("RemoteRetrieval({:?})", self.inner.node)]
pub struct RemoteRetrieval {
    inner: Arc<Inner>,
}

struct Inner {
    platform: Platform,
    rpc: RpcService,
    node: LeaderNode,
    /// Asked instead of the fabric where this process is the one that leads.
    own: Option<LeaderTable>,
    settings: RetrievalSettings,
    watched: Mutex<BTreeMap<Component, watch::Sender<Option<LeaderInformation>>>>,
    obstacle: Mutex<Obstacle>,
    refused: watch::Sender<Option<String>>,
}

impl RemoteRetrieval {
    /// Makes a retrieval that asks the process at `node`, one question at a time for each watched component; nothing is
    /// asked before the first watch. `own` is the table of this process's own leaders, read instead of asking where
    /// `node` is this process itself; `None` if this process never leads.
    pub fn new(
        platform: Platform,
        rpc: RpcService,
        node: LeaderNode,
        own: Option<LeaderTable>,
        settings: RetrievalSettings,
    ) -> Self {
        let (watched, obstacle, refused) =
            (Mutex::default(), Mutex::default(), watch::Sender::new(None));
        let inner = Inner { platform, rpc, node, own, settings, watched, obstacle, refused };
        Self { inner: Arc::new(inner) }
    }

    /// Waits until the process at a fixed address has refused this one for 10 s without another outcome in between, so that the
    /// refusal counts as final: another secret, cluster or version. Returns the reason as text; the caller then ends the process. Never
    /// resolves otherwise: not while no component is watched, and not with an address from the HA store's record.
    pub async fn refused(&self) -> String {
        match self.inner.refused.subscribe().some().await {
            Ok(why) => why,
            // Can't happen while `self` holds the sender; waiting is right if it did.
            Err(watch::Closed) => futures::future::pending().await,
        }
    }
}

impl LeaderRetrieval for RemoteRetrieval {
    fn obstacle(&self) -> Option<String> {
        self.inner.obstacle().why().map(str::to_owned)
    }

    fn watch(&self, component: Component) -> watch::Receiver<Option<LeaderInformation>> {
        let mut watched = self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|_, leader| !leader.is_closed());
        if let Some(leader) = watched.get(&component) {
            return leader.subscribe();
        }
        let leader = watch::Sender::new(None);
        let receiver = leader.subscribe();
        watched.insert(component, leader.clone());
        let inner = Arc::clone(&self.inner);
        let lane = self.inner.platform.lane(Lane::Election);
        lane.spawn_local(async move { inner.follow(component, leader).await });
        receiver
    }
}

impl Inner {
    fn obstacle(&self) -> MutexGuard<'_, Obstacle> {
        self.obstacle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a question without an answer: logs it, or gives up.
    fn met(&self, address: &EndpointAddress, error: &CallError<Never>) {
        let CallError::Fabric(error) = error else { return };
        let reaction = self.obstacle().met(self.platform.now(), error);
        match (reaction, &self.node) {
            (Reaction::Quiet, _) => tracing::debug!(%address, %error, "leader not found"),
            // A record may name an address that another cluster has taken over: the next one is right again.
            (Reaction::GiveUp, LeaderNode::Fixed(_)) => {
                self.refused.send_replace(Some(error.to_string()));
            }
            (Reaction::Tell | Reaction::GiveUp, _) => {
                tracing::warn!(%address, %error, "cannot ask the JobManager for the leader; trying again");
            }
        }
    }

    /// Follows one component until its last receiver is dropped.
    async fn follow(&self, component: Component, leader: watch::Sender<Option<LeaderInformation>>) {
        let mut node = self.node.clone();
        loop {
            let at = node.now();
            tokio::select! {
                biased;
                () = leader.closed() => return,
                () = node.changed() => {}
                () = self.follow_at(at, component, &leader) => {}
            }
        }
    }

    /// Follows one component at one process, for ever.
    async fn follow_at(
        &self,
        node: Option<NodeAddress>,
        component: Component,
        leader: &watch::Sender<Option<LeaderInformation>>,
    ) {
        match (node, &self.own) {
            (None, _) => futures::future::pending().await,
            (Some(node), Some(own)) if node == *self.rpc.node() => {
                let mut own_leader = own.watch(component);
                loop {
                    leader.set(own_leader.borrow_and_update().clone());
                    if own_leader.changed().await.is_err() {
                        futures::future::pending::<()>().await;
                    }
                }
            }
            (Some(node), _) => self.ask_on(node, component, leader).await,
        }
    }

    async fn ask_on(
        &self,
        node: NodeAddress,
        component: Component,
        leader: &watch::Sender<Option<LeaderInformation>>,
    ) {
        let address = EndpointAddress::new(node, ENDPOINT);
        let gateway =
            self.rpc.gateway::<LeaderRetrievalGateway>(&address, ProcessSession::default());
        let RetrievalSettings { wait, retry, retry_max } = self.settings;
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let mut pause = retry;
        loop {
            let known = leader.borrow().clone();
            let question = RequestLeader { component, known, wait_ms };
            match gateway.ask_within(question, wait.saturating_add(wait / 2)).await {
                Ok(newest) => {
                    if self.obstacle().overcome() {
                        tracing::info!(%address, "the JobManager answers");
                    }
                    leader.set(newest);
                    pause = retry;
                }
                Err(error) => {
                    self.met(&address, &error);
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(retry_max);
                }
            }
        }
    }
}
