//! A client that makes more calls to the leaders than their mailboxes hold.
//!
//! The client only asks questions, so neither an answer nor a refusal changes anything.

use super::client::Client;
use super::observer::Observer;
use actors::services::LeaderRetrieval;
use gateways::dispatcher::RequestJobsOverview;
use gateways::leader_election::Component;
use gateways::resource_manager::{RequestTaskManagers, ResourceManagerGateway};
use gateways::{CallError, FabricError, Remote};
use model::{Fence, ResourceManagerId};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of calls in one burst.
const CALLS: usize = 100;
/// Pause between two bursts.
const PAUSE: Duration = Duration::from_secs(1);
/// One of this many calls to the ResourceManager is accompanied by a call to the Dispatcher, which then asks every
/// JobMaster.
const PER_OVERVIEW: usize = 20;
/// Maximum time between the planned and the real beginning of a flood.
const LOOK: Duration = Duration::from_millis(500);

/// The floods of calls that have begun and not ended, by the numbers of their faults. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Flood(Arc<Mutex<Vec<u64>>>);

impl Flood {
    fn with<T>(&self, f: impl FnOnce(&mut Vec<u64>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a flood, for the fault of this number: [`Flood::run`] starts to call within half a second of simulated time, or later: once
    /// a leader of the ResourceManager is known and floods that began before have ended.
    pub fn begin(&self, number: u64) {
        self.with(|floods| floods.push(number));
    }

    /// Ends the flood of the fault of this number; calls under way go on.
    pub fn end(&self, number: u64) {
        self.with(|floods| floods.retain(|flood| *flood != number));
    }

    /// Makes the calls of the floods, for as long as the run lasts: while there is one, 100 calls a second to the leading ResourceManager,
    /// and some to the Dispatcher. The first refusal by a full mailbox observes the fault.
    pub async fn run(self, client: Client, observer: Observer) {
        let managers = client.retrieval.watch(Component::ResourceManager);
        loop {
            let Some(leader) = managers.borrow().clone() else {
                tokio::time::sleep(LOOK).await;
                continue;
            };
            let session = ResourceManagerId::from_session(leader.session);
            let manager: Remote<ResourceManagerGateway> =
                client.rpc.gateway(&leader.address, session);
            let flood = self.with(|floods| floods.first().copied());
            if let Some(number) = flood {
                let dispatcher = client.gateway();
                for n in 0..CALLS {
                    let (manager, observer) = (manager.clone(), observer.clone());
                    let dispatcher = dispatcher.clone().filter(|_| n % PER_OVERVIEW == 0);
                    tokio::task::spawn_local(async move {
                        let refused = manager.ask(RequestTaskManagers {}).await.err();
                        if refused.is_some_and(|error| is_overload(&error)) {
                            observer.fault_observed(number);
                        }
                        if let Some(dispatcher) = dispatcher {
                            // The answer does not matter.
                            let _ = dispatcher.ask(RequestJobsOverview {}).await;
                        }
                    });
                }
            }
            tokio::time::sleep(if flood.is_some() { PAUSE } else { LOOK }).await;
        }
    }
}

fn is_overload<E>(error: &CallError<E>) -> bool {
    matches!(error.fabric(), Some(FabricError::Overloaded { .. }))
}
