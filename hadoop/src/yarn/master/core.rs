//! The state of an ApplicationMaster towards the ResourceManager: requests as absolute totals, releases,
//! tokens, what was granted. Messages go in and out; it never waits, and what was lost on the way is said
//! again.

use super::{Ask, ContainerExit, MasterEvent, Place, RequestId};
use crate::tokens::Token;
use crate::yarn::messages::{
    AllocateRequest, AllocateResponse, AmCommand, Container, ContainerId, ContainerStatus, NmToken,
    NodeId, PreemptionMessage, Priority, RegisterApplicationMasterResponse, Resource,
    ResourceBlacklistRequest, ResourceRequest,
};
use std::collections::{BTreeMap, BTreeSet};

/// Requests that may be open at the same time.
const REQUESTS_MAX: usize = 10_000;

/// The reason why a request for containers was not accepted by [`Master::request`] or [`AmRmClient::request`](super::AmRmClient::request),
/// found without asking the ResourceManager; no request was added. A refusal by the ResourceManager is a [`MasterEvent::Refused`] instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The number of open requests has reached its bound of 10,000. Requests that were granted in full or refused do not count; one that
    /// was taken back counts until the allocation that says so is answered.
    #[error("{REQUESTS_MAX} requests are open already")]
    TooMany,
    /// The request is for more containers than YARN can count (`i32::MAX`).
    #[error("more containers than can be asked for")]
    TooLarge,
}

/// A request that is open.
#[derive(Debug, Clone)]
struct Open {
    ask: Ask,
    /// Whether the ResourceManager has yet to hear of it.
    unsaid: bool,
    /// Whether it was refused together with others: it is said by itself then, to find the one that is meant.
    suspect: bool,
}

/// An ApplicationMaster's requests and containers as a state machine, without sockets and time: see [`AmRmClient`](super::AmRmClient) for
/// one that sends heartbeats. Methods only change this state; the next allocation ([`Master::allocate`]) tells the ResourceManager, and its
/// answer goes to [`Master::allocated`], which returns the events. The caller registers first, and gives the answer to
/// [`Master::registered`].
#[derive(Debug, Default)]
pub struct Master {
    requests: BTreeMap<RequestId, Open>,
    next_request: i64,
    /// Containers to be released that the ResourceManager has yet to hear of.
    releases: BTreeSet<ContainerId>,
    /// Released and not completed yet: said again after a restart.
    released: BTreeSet<ContainerId>,
    containers: BTreeMap<ContainerId, Container>,
    blocked: BTreeSet<String>,
    block: BTreeSet<String>,
    unblock: BTreeSet<String>,
    nm_tokens: BTreeMap<NodeId, Token>,
    /// Said and not answered yet. It is repeated as it is: the ResourceManager answers a repetition from memory
    /// without looking into it, and whatever were new in it would be lost.
    unanswered: Option<AllocateRequest>,
    response_id: i32,
    progress: f32,
    headroom: Resource,
    nodes: i32,
    maximum: Resource,
}

impl Master {
    /// Makes the state of an ApplicationMaster that has not been registered and has no requests.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request for containers, which is part of the next allocation. Returns its id, which comes back with the
    /// containers.
    ///
    /// # Errors
    /// Fails with [`Refused`] if 10,000 requests are open, or for more than `i32::MAX` containers; nothing was added.
    pub fn request(&mut self, ask: Ask) -> Result<RequestId, Refused> {
        if self.requests.len() >= REQUESTS_MAX {
            return Err(Refused::TooMany);
        }
        i32::try_from(ask.count).map_err(|_| Refused::TooLarge)?;
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(id, Open { ask, unsaid: true, suspect: false });
        Ok(id)
    }

    /// Changes the number of containers of a request that are still wanted, at most `i32::MAX`; 0 takes the request back. Containers that
    /// were granted are not counted. Returns false, without a change, if the request is not open any more; one that was taken back stays
    /// open until an allocation that says so is answered.
    pub fn set_count(&mut self, id: RequestId, count: u32) -> bool {
        let Some(open) = self.requests.get_mut(&id) else { return false };
        open.unsaid |= open.ask.count != count;
        open.ask.count = count.min(i32::MAX.unsigned_abs());
        true
    }

    /// Returns the number of containers of a request that are still wanted; 0 for one that is not open, or was never made.
    #[must_use]
    pub fn wanted(&self, id: RequestId) -> u32 {
        self.requests.get(&id).map_or(0, |open| open.ask.count)
    }

    /// Gives a container back with the next allocation, whether it was started or not. A second call for the same container changes
    /// nothing, and one for a container that is not this ApplicationMaster's is sent all the same. The end of a container that was granted
    /// or recovered comes as [`MasterEvent::Completed`], as for any other; until then it stays among [`Master::containers`].
    pub fn release(&mut self, id: ContainerId) {
        if !self.released.contains(&id) {
            self.releases.insert(id);
        }
    }

    /// Has the scheduler grant no more containers on these hosts or racks, from the next allocation on. Places that are
    /// blocked already stay so.
    pub fn block(&mut self, places: impl IntoIterator<Item = String>) {
        for place in places {
            self.unblock.remove(&place);
            if self.blocked.insert(place.clone()) {
                self.block.insert(place);
            }
        }
    }

    /// Lets the scheduler grant containers again on these hosts or racks, spelled as they were in
    /// [`block`](Self::block), from the next allocation on. Places that are not blocked are ignored.
    pub fn unblock(&mut self, places: impl IntoIterator<Item = String>) {
        for place in places {
            let unsaid = self.block.remove(&place);
            if self.blocked.remove(&place) && !unsaid {
                self.unblock.insert(place);
            }
        }
    }

    /// Sets the application's progress, 0 to 1, for the next allocation. Other numbers are cut to that range; NaN and
    /// infinity count as 0.
    pub fn set_progress(&mut self, progress: f32) {
        self.progress = if progress.is_finite() { progress.clamp(0.0, 1.0) } else { 0.0 };
    }

    /// Returns the newest NMToken with which to call this node about containers; `None` before the first container there was granted or
    /// recovered.
    #[must_use]
    pub fn nm_token(&self, node: &NodeId) -> Option<&Token> {
        self.nm_tokens.get(node)
    }

    /// Returns the containers of this ApplicationMaster: those granted to it or recovered from an earlier attempt,
    /// whose end was not reported yet. Released ones are among them until then.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.values()
    }

    /// Returns the resources that the scheduler says the application could still get, by the last response; empty before the first, and if
    /// that response does not say it.
    #[must_use]
    pub fn headroom(&self) -> &Resource {
        &self.headroom
    }

    /// Returns the size of the largest container that may be asked for, from the answer to the registration; empty
    /// before.
    #[must_use]
    pub fn maximum(&self) -> &Resource {
        &self.maximum
    }

    /// Returns the number of the cluster's nodes that take containers, by the last response that says it; 0 before the first.
    #[must_use]
    pub fn nodes(&self) -> i32 {
        self.nodes
    }

    /// Returns true if the next allocation should be sent soon: there is something to tell (other than progress), the last one has no
    /// answer, or containers are wanted.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let wants = self.requests.values().any(|open| open.unsaid || open.ask.count > 0);
        let unsaid = self.unanswered.is_some()
            || !(self.releases.is_empty() && self.block.is_empty() && self.unblock.is_empty());
        wants || unsaid
    }

    /// Returns the next `allocate` message to send: the last one again while that has no answer, else what has changed
    /// since. Pass its answer to [`allocated`](Self::allocated). Call [`refused`](Self::refused) if the server says
    /// that a request can never be met (`InvalidResourceRequestException`, `InvalidLabelResourceRequestException`), and
    /// [`resync`](Self::resync) after `ApplicationMasterNotRegisteredException`. If the message or its answer was lost,
    /// call this again.
    #[must_use]
    pub fn allocate(&mut self) -> AllocateRequest {
        if let Some(request) = &self.unanswered {
            return request.clone();
        }
        let mut ask = Vec::new();
        let suspect = self.requests.iter().find(|(_, open)| open.unsaid && open.suspect);
        let suspect = suspect.map(|(id, _)| *id);
        for (id, open) in &mut self.requests {
            if suspect.is_none_or(|suspect| suspect == *id) && std::mem::take(&mut open.unsaid) {
                open.suspect = false;
                ask.extend(resource_requests(*id, &open.ask));
            }
        }
        let release: Vec<_> = std::mem::take(&mut self.releases).into_iter().collect();
        self.released.extend(release.iter().copied());
        let additions: Vec<_> = std::mem::take(&mut self.block).into_iter().collect();
        let removals: Vec<_> = std::mem::take(&mut self.unblock).into_iter().collect();
        let changed = !(additions.is_empty() && removals.is_empty());
        let blacklist = ResourceBlacklistRequest {
            blacklist_additions: additions,
            blacklist_removals: removals,
        };
        let request = AllocateRequest {
            ask,
            release,
            blacklist_request: changed.then_some(blacklist),
            response_id: Some(self.response_id),
            progress: Some(self.progress),
            ..AllocateRequest::default()
        };
        self.unanswered = Some(request.clone());
        request
    }

    /// Handles that the ResourceManager refused the last allocation because a request in it can never be met. If it
    /// held one request, that is taken back and its id returned. If it held several, the wrong one is unknown: nothing
    /// is returned, and the next allocations hold one of them each. Releases and blocked places in it go into the next
    /// allocation.
    pub fn refused(&mut self) -> Vec<RequestId> {
        let Some(request) = self.unanswered.take() else { return Vec::new() };
        let ids = request.ask.iter().map(|ask| RequestId(ask.allocation_request_id()));
        let mut ids: BTreeSet<_> = ids.collect();
        if ids.len() > 1 {
            for id in std::mem::take(&mut ids) {
                if let Some(open) = self.requests.get_mut(&id) {
                    (open.unsaid, open.suspect) = (true, true);
                }
            }
        }
        self.requests.retain(|id, _| !ids.contains(id));
        for id in request.release {
            self.released.remove(&id);
            self.releases.insert(id);
        }
        if let Some(blacklist) = request.blacklist_request {
            let still = |place: &String| self.blocked.contains(place);
            let (block, unblock) = (blacklist.blacklist_additions, blacklist.blacklist_removals);
            self.block.extend(block.into_iter().filter(still));
            self.unblock.extend(unblock.into_iter().filter(|place| !still(place)));
        }
        ids.into_iter().collect()
    }

    /// Handles that the ResourceManager was restarted and knows nothing of this ApplicationMaster. The caller registers
    /// it again; the next allocation then holds all open requests, unfinished releases and blocked places.
    pub fn resync(&mut self) {
        self.response_id = 0;
        self.unanswered = None;
        self.requests.retain(|_, open| open.ask.count > 0);
        self.requests.values_mut().for_each(|open| open.unsaid = true);
        self.releases.extend(std::mem::take(&mut self.released));
        self.block = self.blocked.clone();
        self.unblock.clear();
    }

    /// Takes the answer to a registration: keeps the largest container size and the nodes' tokens in it. Returns
    /// [`MasterEvent::Registered`], then `MasterEvent::Recovered` for each container of an earlier attempt that is not known yet. A
    /// container whose release an allocation has told since the last [`resync`](Self::resync) is left out.
    pub fn registered(&mut self, response: RegisterApplicationMasterResponse) -> Vec<MasterEvent> {
        self.keep_tokens(&response.nm_tokens_from_previous_attempts);
        self.maximum = response.maximum_capability.clone().unwrap_or_default();
        let earlier = response.containers_from_previous_attempts.clone();
        let mut events = vec![MasterEvent::Registered(Box::new(response))];
        self.recover(earlier, &mut events);
        events
    }

    fn keep_tokens(&mut self, tokens: &[NmToken]) {
        for NmToken { node_id, token } in tokens {
            if let (Some(node), Some(token)) = (node_id, token) {
                self.nm_tokens.insert(node.clone(), token.clone().into());
            }
        }
    }

    fn recover(&mut self, containers: Vec<Container>, events: &mut Vec<MasterEvent>) {
        for container in containers {
            let Some(id) = container.id else { continue };
            if !self.released.contains(&id)
                && self.containers.insert(id, container.clone()).is_none()
            {
                events.push(MasterEvent::Recovered(Box::new(container)));
            }
        }
    }

    /// Takes the answer to an allocation, updates this state, and returns the events in it. Containers that no open
    /// request wants are released with the next allocation, without an event. Pass no answer that commands
    /// [`AmCommand::Resync`]: call [`resync`](Self::resync) instead.
    pub fn allocated(&mut self, response: AllocateResponse) -> Vec<MasterEvent> {
        let mut events = Vec::new();
        self.unanswered = None;
        // What has been taken back is forgotten once the ResourceManager has heard of it.
        self.requests.retain(|_, open| open.unsaid || open.ask.count > 0);
        self.response_id = response.response_id.unwrap_or(self.response_id);
        self.headroom = response.limit.unwrap_or_default();
        self.nodes = response.num_cluster_nodes.unwrap_or(self.nodes);
        self.keep_tokens(&response.nm_tokens);
        if let Some(token) = response.am_rm_token {
            events.push(MasterEvent::TokenReplaced(token.into()));
        }
        self.recover(response.containers_from_previous_attempts, &mut events);
        for container in response.allocated_containers {
            self.grant(container, &mut events);
        }
        for status in response.completed_container_statuses {
            self.complete(&status, &mut events);
        }
        if !response.updated_nodes.is_empty() {
            events.push(MasterEvent::Nodes(response.updated_nodes));
        }
        // FairScheduler says it with every answer, mostly of nothing.
        if let Some(message) = response.preempt.filter(is_about_something) {
            events.push(MasterEvent::Preemption(Box::new(message)));
        }
        if response.am_command == Some(AmCommand::Shutdown.into()) {
            events.push(MasterEvent::Shutdown);
        }
        events
    }

    fn grant(&mut self, container: Container, events: &mut Vec<MasterEvent>) {
        let Some(id) = container.id else { return };
        if self.containers.contains_key(&id) {
            return;
        }
        let request = RequestId(container.allocation_request_id());
        match self.requests.get_mut(&request).filter(|open| open.ask.count > 0) {
            // The ResourceManager counts down by itself.
            Some(open) => {
                open.ask.count -= 1;
                self.containers.insert(id, container.clone());
                events.push(MasterEvent::Allocated { request, container: Box::new(container) });
            }
            None => self.release(id),
        }
        self.requests.retain(|_, open| open.unsaid || open.ask.count > 0);
    }

    fn complete(&mut self, status: &ContainerStatus, events: &mut Vec<MasterEvent>) {
        let Some(id) = status.container_id else { return };
        let known = self.containers.remove(&id).is_some();
        self.releases.remove(&id);
        // One that was given back before anybody heard of it ends unheard as well.
        if self.released.remove(&id) && !known {
            return;
        }
        let exit = ContainerExit::from_status(status.exit_status());
        let diagnostics = status.diagnostics().to_owned();
        events.push(MasterEvent::Completed { id, exit, diagnostics });
    }
}

fn is_about_something(message: &PreemptionMessage) -> bool {
    let strict = message.strict_contract.as_ref().is_some_and(|all| !all.container.is_empty());
    let asked = message.contract.as_ref();
    strict || asked.is_some_and(|all| !(all.container.is_empty() && all.resource.is_empty()))
}

/// A wish in YARN's words: an entry for each place, and always one for any place, which counts.
fn resource_requests(id: RequestId, ask: &Ask) -> Vec<ResourceRequest> {
    let at = |name: &str, relax: bool| ResourceRequest {
        priority: Some(Priority { priority: Some(ask.priority) }),
        resource_name: Some(name.to_owned()),
        capability: Some(ask.capability.clone()),
        num_containers: Some(i32::try_from(ask.count).unwrap_or(i32::MAX)),
        relax_locality: Some(relax),
        node_label_expression: ask.label.clone().filter(|_| name == "*"),
        execution_type_request: None,
        allocation_request_id: Some(id.0),
    };
    match &ask.place {
        Place::Anywhere => vec![at("*", true)],
        Place::Preferred { hosts, racks } => {
            let places = hosts.iter().chain(racks).map(|place| at(place, true));
            places.chain([at("*", true)]).collect()
        }
        Place::OnHost { host, rack } => vec![at(host, true), at(rack, false), at("*", false)],
        Place::OnRack(rack) => vec![at(rack, true), at("*", false)],
    }
}
