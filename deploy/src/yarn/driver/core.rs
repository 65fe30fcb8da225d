//! The driver's decisions: which containers are asked for, which request a container is for, and what becomes of it.
//!
//! Events in, commands out; no clock, no I/O. How long to wait after a failed start, and which nodes to avoid, is
//! decided by the ResourceManager (`control::resource_manager::pool`): the driver reports the failure with its node.
//! It must never launch two workers for one request, and never forget a container that it has not given back.

use control::resource_manager::pool::{DriverEvent, RecoveredWorker};
use model::ResourceId;
use std::collections::{BTreeMap, BTreeSet};

/// The resources of a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size {
    pub(super) memory_mib: i64,
    pub(super) vcores: i32,
    /// Other resources, by YARN's names (`yarn.io/gpu`).
    pub(super) others: BTreeMap<String, i64>,
}

/// A node, by address and by the name that YARN's scheduler uses: the same, unless several
/// NodeManagers of one host are distinguished by their ports
/// (`yarn.scheduler.include-port-in-node-name`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) name: String,
}

/// An event that the core handles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The ResourceManager wants a worker.
    Request { request: u64, size: Size },
    /// The ResourceManager has cancelled this request.
    Cancel { request: u64 },
    /// The ResourceManager wants workers on other nodes than these, which replace the ones it named
    /// before.
    Avoid { hosts: Vec<String> },
    /// The ResourceManager releases a worker.
    Release { id: ResourceId },
    /// The ResourceManager's leadership has ended. Its workers stay.
    Detached,
    /// YARN granted a container of a priority, which stands for a size.
    Allocated { id: ResourceId, node: Node, priority: i32 },
    /// A container of an earlier attempt still runs.
    Recovered { id: ResourceId, node: Node },
    /// A container has ended.
    Completed { id: ResourceId, cause: String },
    /// YARN can never grant containers of this priority.
    Refused { priority: i32, cause: String },
    /// A node has accepted a launch.
    Launched { id: ResourceId },
    /// A node has not, or what it did is not known.
    LaunchFailed { id: ResourceId, cause: String },
}

/// A command of the core to the task that talks to YARN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Tell YARN how many containers of a size are wanted in all, on top of those that it has granted.
    Ask { priority: i32, size: Size, count: u32 },
    /// Give a container back that nothing was launched in.
    GiveBack { id: ResourceId },
    /// Launch the worker of a request.
    Launch { id: ResourceId, request: u64 },
    /// Stop a container at its node, then release it at YARN's ResourceManager, whatever the node says.
    Stop { id: ResourceId },
    /// Take no containers on these nodes any more.
    Block { names: Vec<String> },
    /// Take containers on these nodes again.
    Unblock { names: Vec<String> },
    /// Report an event to the ResourceManager.
    Report(DriverEvent),
}

/// The stage of a worker's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The worker's node has not answered the launch yet; `release`: the container is to be stopped
    /// as soon as it has.
    Launching {
        release: bool,
    },
    Running,
    /// The container is being stopped; YARN reports its end.
    Stopping,
    /// YARN has reported the end; the node has not answered the launch yet.
    Ended,
}

#[derive(Debug)]
struct Worker {
    host: String,
    stage: Stage,
    /// True if its loss was reported.
    lost: bool,
}

/// The driver's state.
#[derive(Debug, Default)]
pub(super) struct Core {
    /// The sizes that were ever asked for; a size's priority is its place, counted from 1. The configuration and the
    /// slots that jobs ask for bound how many there are.
    sizes: Vec<Size>,
    /// Open requests of each priority.
    open: BTreeMap<i32, BTreeSet<u64>>,
    /// Priority of each open request, by its number.
    requests: BTreeMap<u64, i32>,
    workers: BTreeMap<ResourceId, Worker>,
    /// YARN's names of the nodes of a host, as far as containers were granted there.
    names: BTreeMap<String, BTreeSet<String>>,
    avoided: Vec<String>,
    blocked: BTreeSet<String>,
}

impl Core {
    /// Returns the workers that a ResourceManager which begins to lead takes over. The requests of
    /// the former one are forgotten by [`Event::Detached`].
    pub(super) fn workers(&self) -> Vec<RecoveredWorker> {
        let there = self.workers.iter().filter(|(_, worker)| {
            matches!(worker.stage, Stage::Running | Stage::Launching { release: false })
        });
        there
            .map(|(id, worker)| RecoveredWorker {
                resource_id: id.clone(),
                host: worker.host.clone(),
            })
            .collect()
    }

    /// Returns true if a container is still of interest. One that was given back is not.
    pub(super) fn knows(&self, id: &ResourceId) -> bool {
        self.workers.contains_key(id)
    }

    /// Takes an event and returns the commands that follow, in order.
    pub(super) fn step(&mut self, event: Event) -> Vec<Command> {
        match event {
            Event::Request { request, size } => self.request(request, size),
            Event::Cancel { request } => {
                let priority = self.requests.get(&request).copied();
                self.take(request);
                priority.map(|priority| self.ask(priority)).unwrap_or_default()
            }
            Event::Avoid { hosts } => {
                self.avoided = hosts;
                self.block()
            }
            Event::Release { id } => self.release(id),
            Event::Detached => self.detached(),
            Event::Allocated { id, node, priority } => self.allocated(id, node, priority),
            Event::Recovered { id, node } => self.recovered(id, node),
            Event::Completed { id, cause } => self.completed(&id, cause),
            Event::Refused { priority, cause } => self.refused(priority, &cause),
            Event::Launched { id } => self.launched(id),
            Event::LaunchFailed { id, cause } => self.launch_failed(id, cause),
        }
    }

    fn request(&mut self, request: u64, size: Size) -> Vec<Command> {
        let known = self.sizes.iter().position(|known| *known == size);
        let place = known.unwrap_or_else(|| {
            self.sizes.push(size);
            self.sizes.len() - 1
        });
        let priority = i32::try_from(place + 1).unwrap_or(i32::MAX);
        self.requests.insert(request, priority);
        self.open.entry(priority).or_default().insert(request);
        self.ask(priority)
    }

    /// Closes a request.
    fn take(&mut self, request: u64) {
        let Some(priority) = self.requests.remove(&request) else { return };
        if let Some(open) = self.open.get_mut(&priority) {
            open.remove(&request);
        }
    }

    /// Returns the command that asks YARN for the total of a size. It is repeated with every
    /// change, which corrects a total that crossed a grant on its way.
    fn ask(&self, priority: i32) -> Vec<Command> {
        let count = self.open.get(&priority).map_or(0, BTreeSet::len);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let size = self.size(priority).cloned();
        size.map(|size| Command::Ask { priority, size, count }).into_iter().collect()
    }

    fn size(&self, priority: i32) -> Option<&Size> {
        self.sizes.get(usize::try_from(priority).ok()?.checked_sub(1)?)
    }

    fn allocated(&mut self, id: ResourceId, node: Node, priority: i32) -> Vec<Command> {
        if self.workers.contains_key(&id) {
            return Vec::new();
        }
        let mut commands = self.learn(&node);
        let oldest = self.open.get(&priority).and_then(|open| open.first().copied());
        let Some(request) = oldest else {
            commands.push(Command::GiveBack { id });
            return commands;
        };
        self.take(request);
        commands.extend(self.ask(priority));
        let (resource_id, host) = (id.clone(), node.name.clone());
        // A TaskManager that is quick must not be a stranger.
        commands.push(Command::Report(DriverEvent::Started { request, resource_id, host }));
        commands.push(Command::Launch { id: id.clone(), request });
        let stage = Stage::Launching { release: false };
        self.workers.insert(id, Worker { host: node.name, stage, lost: false });
        commands
    }

    fn recovered(&mut self, id: ResourceId, node: Node) -> Vec<Command> {
        if self.workers.contains_key(&id) {
            return Vec::new();
        }
        let mut commands = self.learn(&node);
        let worker = RecoveredWorker { resource_id: id.clone(), host: node.name.clone() };
        self.workers.insert(id, Worker { host: node.name, stage: Stage::Running, lost: false });
        commands.push(Command::Report(DriverEvent::Recovered { workers: vec![worker] }));
        commands
    }

    /// Remembers what YARN calls a node: its host may be avoided already.
    fn learn(&mut self, node: &Node) -> Vec<Command> {
        let names = self.names.entry(node.host.clone()).or_default();
        if names.insert(node.name.clone()) { self.block() } else { Vec::new() }
    }

    /// Makes YARN's block list equal to the nodes to avoid.
    fn block(&mut self) -> Vec<Command> {
        let mut blocked: BTreeSet<String> = self.avoided.iter().cloned().collect();
        for host in &self.avoided {
            blocked.extend(self.names.get(host).into_iter().flatten().cloned());
        }
        let names = |from: &BTreeSet<String>, without: &BTreeSet<String>| -> Vec<String> {
            from.difference(without).cloned().collect()
        };
        let (more, less) = (names(&blocked, &self.blocked), names(&self.blocked, &blocked));
        self.blocked = blocked;
        let mut commands = Vec::new();
        if !more.is_empty() {
            commands.push(Command::Block { names: more });
        }
        if !less.is_empty() {
            commands.push(Command::Unblock { names: less });
        }
        commands
    }

    fn release(&mut self, id: ResourceId) -> Vec<Command> {
        let Some(worker) = self.workers.get_mut(&id) else { return Vec::new() };
        match worker.stage {
            Stage::Launching { .. } => {
                // A node forgets to end a container if it is asked to before it has accepted it.
                worker.stage = Stage::Launching { release: true };
                Vec::new()
            }
            Stage::Running => {
                worker.stage = Stage::Stopping;
                vec![Command::Stop { id }]
            }
            Stage::Stopping | Stage::Ended => Vec::new(),
        }
    }

    fn launched(&mut self, id: ResourceId) -> Vec<Command> {
        let Some(worker) = self.workers.get_mut(&id) else { return Vec::new() };
        match worker.stage {
            Stage::Launching { release: false } => {
                worker.stage = Stage::Running;
                Vec::new()
            }
            Stage::Launching { release: true } => {
                worker.stage = Stage::Stopping;
                vec![Command::Stop { id }]
            }
            Stage::Ended => {
                self.workers.remove(&id);
                vec![Command::Stop { id }]
            }
            Stage::Running | Stage::Stopping => Vec::new(),
        }
    }

    fn launch_failed(&mut self, id: ResourceId, cause: String) -> Vec<Command> {
        let Some(worker) = self.workers.get_mut(&id) else { return Vec::new() };
        match worker.stage {
            Stage::Launching { .. } => {
                worker.stage = Stage::Stopping;
                worker.lost = true;
                // The node may have accepted it: an answer can be lost.
                let lost = DriverEvent::Lost { resource_id: id.clone(), cause };
                vec![Command::Stop { id }, Command::Report(lost)]
            }
            Stage::Ended => {
                self.workers.remove(&id);
                Vec::new()
            }
            Stage::Running | Stage::Stopping => Vec::new(),
        }
    }

    fn completed(&mut self, id: &ResourceId, cause: String) -> Vec<Command> {
        let Some(worker) = self.workers.get_mut(id) else { return Vec::new() };
        let report = !std::mem::replace(&mut worker.lost, true);
        match worker.stage {
            Stage::Launching { .. } | Stage::Ended => worker.stage = Stage::Ended,
            Stage::Running | Stage::Stopping => drop(self.workers.remove(id)),
        }
        let lost = || Command::Report(DriverEvent::Lost { resource_id: id.clone(), cause });
        report.then(lost).into_iter().collect()
    }

    fn refused(&mut self, priority: i32, cause: &str) -> Vec<Command> {
        let open = self.open.remove(&priority).unwrap_or_default();
        let never = |request: u64| {
            self.requests.remove(&request);
            Command::Report(DriverEvent::NeverMet { request, cause: cause.to_owned() })
        };
        open.into_iter().map(never).collect()
    }

    fn detached(&mut self) -> Vec<Command> {
        self.requests.clear();
        let open: Vec<i32> = std::mem::take(&mut self.open).into_keys().collect();
        let mut commands: Vec<Command> = open.into_iter().flat_map(|p| self.ask(p)).collect();
        self.avoided.clear();
        commands.extend(self.block());
        commands
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
