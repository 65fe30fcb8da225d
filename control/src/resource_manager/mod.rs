//! Registrations of TaskExecutors and JobMasters, leaders of jobs, workers of the external resource system, blocked
//! nodes.
//!
//! One session, one value. A TaskExecutor is registered under a new incarnation each time; what an
//! earlier incarnation says is not heard any more. It must never decide which job gets a slot: that is the SlotManager's
//! part.

mod counts;
mod job_leaders;
mod jobs;
mod nodes;
pub mod pool;
#[cfg(test)]
mod tests;
mod under_way;

pub use job_leaders::NotLeading;
pub use nodes::{BLOCKED_MAX, Blocked, TooManyBlocked};

use crate::mutation::Mutation;
use counts::Counts;
use job_leaders::JobLeaders;
use model::{InstanceId, JobId, ResourceId, WorkerResourceSpec};
use nodes::Nodes;
use pool::{DriverEvent, Pool, PoolSettings};
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask the driver for a worker.
    RequestWorker {
        /// Names the request in the driver's answer.
        request: u64,
        /// What it is to be made of.
        spec: WorkerResourceSpec,
    },
    /// A requested worker is not needed any more.
    CancelRequest {
        /// Which.
        request: u64,
    },
    /// End a worker through the driver.
    ReleaseWorker {
        /// Which.
        resource_id: ResourceId,
    },
    /// Close the connection of a TaskExecutor that is registered.
    CloseTaskExecutor {
        /// The process.
        resource_id: ResourceId,
        /// Its incarnation.
        instance_id: InstanceId,
        /// Whether its SlotManager knew it.
        reported: bool,
        /// Why.
        cause: String,
        /// Whether it should end, rather than register again.
        terminate: bool,
    },
    /// Tell the SlotManager which nodes are blocked: all of them.
    BlockHosts(Vec<String>),
    /// Tell the driver on which nodes no worker should be started: all of them. Comes whenever the set changes, also
    /// when it becomes empty.
    AvoidHosts(Vec<String>),
    /// Tell the SlotManager which of the workers that it wants can never be had, and why: all of them.
    NeverMet(Vec<(WorkerResourceSpec, String)>),
    /// End the connection of the JobMaster that is registered for a job. What it declared goes with it.
    CloseJob {
        /// The job.
        job_id: JobId,
        /// Why.
        reason: String,
    },
    /// The job is over: free its slots and watch its leader no longer.
    RemoveJob {
        /// The job.
        job_id: JobId,
        /// Why.
        reason: &'static str,
    },
    /// The process can't go on.
    Fatal(String),
}

/// A TaskExecutor that may not register.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "TaskExecutor {resource_id} was neither requested by this ResourceManager nor recovered from an earlier one"
)]
pub struct NotAsked {
    /// The process.
    pub resource_id: ResourceId,
    /// Whether asking again may help: a worker is under way, and this may be it.
    pub retry: bool,
}

/// A registered TaskExecutor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Its incarnation.
    pub instance_id: InstanceId,
    /// Node.
    pub host: String,
    /// What it is made of; of a requested worker, what was asked for.
    pub spec: WorkerResourceSpec,
    /// Whether it has sent its slot report, so that the SlotManager knows it.
    pub reported: bool,
}

/// What a ResourceManager is made with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `None`: passive, every TaskExecutor is welcome.
    pub pool: Option<PoolSettings>,
    /// `resourcemanager.job.timeout`.
    pub job_timeout: Duration,
    /// Random, once: incarnations are drawn from it.
    pub seed: u128,
    /// [`Mutation::None`].
    pub mutation: Mutation,
}

/// The ResourceManager's state.
#[derive(Debug)]
pub struct ResourceManager {
    registered: BTreeMap<ResourceId, Registered>,
    /// Whose incarnation each is, of those that are registered.
    incarnations: BTreeMap<InstanceId, ResourceId>,
    /// Registered, and not yet reported.
    unreported: Counts,
    jobs: JobLeaders,
    pool: Option<Pool>,
    nodes: Nodes,
    seed: u128,
    drawn: u64,
    /// Workers that the SlotManager was told of, additions and removals.
    told: u64,
    /// As of how many of them the SlotManager said what is missing.
    said_at: Option<u64>,
}

impl ResourceManager {
    /// Nobody is registered, nothing requested.
    pub fn new(settings: Settings) -> Self {
        Self {
            registered: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            unreported: Counts::default(),
            jobs: JobLeaders::new(settings.job_timeout),
            pool: settings.pool.map(|pool| Pool::new(pool, settings.mutation)),
            nodes: Nodes::default(),
            seed: settings.seed,
            drawn: 0,
            told: 0,
            said_at: None,
        }
    }

    /// Whether workers are asked from a driver.
    pub fn is_active(&self) -> bool {
        self.pool.is_some()
    }

    /// Every registered TaskExecutor.
    pub fn registered(&self) -> impl Iterator<Item = (&ResourceId, &Registered)> {
        self.registered.iter()
    }

    /// The registration of a process.
    pub fn get(&self, resource_id: &ResourceId) -> Option<&Registered> {
        self.registered.get(resource_id)
    }

    /// The process of an incarnation that is registered now.
    pub fn resource_of(&self, instance_id: InstanceId) -> Option<&ResourceId> {
        self.incarnations.get(&instance_id)
    }

    /// Whether this is the incarnation that is registered.
    pub fn is_current(&self, resource_id: &ResourceId, instance_id: InstanceId) -> bool {
        self.registered.get(resource_id).is_some_and(|worker| worker.instance_id == instance_id)
    }

    /// The driver's last error, for people.
    pub fn last_driver_error(&self) -> Option<&str> {
        self.pool.as_ref().and_then(Pool::last_error)
    }

    /// Returns the requests for workers that have ended since the last call: cancelled, failed, or their worker has
    /// registered or is gone.
    pub fn take_ended_requests(&mut self) -> Vec<u64> {
        self.pool.as_mut().map(Pool::take_ended).unwrap_or_default()
    }

    /// A TaskExecutor introduces itself. It gets a new incarnation; an earlier one is closed.
    ///
    /// # Errors
    /// An active ResourceManager refuses what it neither requested nor recovered.
    pub fn register(
        &mut self,
        now: Duration,
        resource_id: &ResourceId,
        host: String,
        mut spec: WorkerResourceSpec,
    ) -> Result<(InstanceId, Vec<Command>), NotAsked> {
        if let Some(pool) = &mut self.pool {
            match pool.registered(now, resource_id, &spec) {
                Some(counted) => spec = counted.clone(),
                None => {
                    return Err(NotAsked {
                        resource_id: resource_id.clone(),
                        retry: pool.expects_more(now),
                    });
                }
            }
        }
        let cause = "it has registered again".to_owned();
        let commands = self.close(resource_id, cause, false);
        self.drawn += 1;
        let instance_id = InstanceId(crate::ids::nth_id(self.seed, self.drawn));
        self.unreported.add(&spec);
        let worker = Registered { instance_id, host, spec, reported: false };
        self.registered.insert(resource_id.clone(), worker);
        self.incarnations.insert(instance_id, resource_id.clone());
        debug_assert_eq!(self.incarnations.len(), self.registered.len(), "one incarnation each");
        Ok((instance_id, commands))
    }

    /// A slot report came in. Answers `None` where its sender is not registered in this incarnation, else
    /// whether it is the first one: then the SlotManager is to be told of the worker.
    pub fn reported(&mut self, resource_id: &ResourceId, instance_id: InstanceId) -> Option<bool> {
        let worker = self.registered.get_mut(resource_id)?;
        if worker.instance_id != instance_id {
            return None;
        }
        let first = !std::mem::replace(&mut worker.reported, true);
        if first {
            self.unreported.remove(&worker.spec);
            self.told += 1;
        }
        Some(first)
    }

    /// A TaskExecutor leaves: it may register again. Nothing follows for one that is not registered in this
    /// incarnation.
    pub fn disconnect(&mut self, instance_id: InstanceId, cause: String) -> Vec<Command> {
        let Some(resource_id) = self.resource_of(instance_id).cloned() else {
            return Vec::new();
        };
        self.close(&resource_id, cause, false)
    }

    /// A TaskExecutor is not heard any more.
    pub fn lost(&mut self, instance_id: InstanceId, cause: String) -> Vec<Command> {
        let Some(resource_id) = self.resource_of(instance_id).cloned() else {
            return Vec::new();
        };
        let mut commands = self.close(&resource_id, cause, false);
        if let Some(pool) = &mut self.pool {
            commands.extend(pool.gone(&resource_id));
        }
        commands
    }

    /// Ends a TaskExecutor for good: idle for too long.
    pub fn release(&mut self, instance_id: InstanceId, cause: String) -> Vec<Command> {
        let Some(resource_id) = self.resource_of(instance_id).cloned() else {
            return Vec::new();
        };
        let mut commands = self.close(&resource_id, cause, true);
        if let Some(pool) = &mut self.pool {
            pool.released(&resource_id);
            commands.push(Command::ReleaseWorker { resource_id });
        }
        commands
    }

    fn close(&mut self, resource_id: &ResourceId, cause: String, terminate: bool) -> Vec<Command> {
        let Some(worker) = self.registered.remove(resource_id) else {
            return Vec::new();
        };
        let known = self.incarnations.remove(&worker.instance_id);
        debug_assert_eq!(known.as_ref(), Some(resource_id), "an incarnation of somebody else");
        if worker.reported {
            self.told += 1;
        } else {
            self.unreported.remove(&worker.spec);
        }
        vec![Command::CloseTaskExecutor {
            resource_id: resource_id.clone(),
            instance_id: worker.instance_id,
            reported: worker.reported,
            cause,
            terminate,
        }]
    }

    /// The SlotManager says what is missing beyond the workers that it knows, having seen so many additions
    /// and removals. What it says without the newest of them is not acted on: it will say it again.
    pub fn need(
        &mut self,
        now: Duration,
        seen: u64,
        missing: BTreeMap<WorkerResourceSpec, u32>,
    ) -> Vec<Command> {
        if seen != self.told {
            return Vec::new();
        }
        self.said_at = Some(seen);
        if let Some(pool) = &mut self.pool {
            pool.want(missing);
        }
        self.advance(now)
    }

    /// The driver reports.
    pub fn driver(&mut self, now: Duration, event: DriverEvent) -> Vec<Command> {
        let mut commands = Vec::new();
        if let DriverEvent::Lost { resource_id, cause } = &event {
            // The external system gives its resources to others, even where a process lives on: that of a lost node.
            commands = self.close(resource_id, format!("its worker has ended: {cause}"), true);
        }
        if let Some(pool) = &mut self.pool {
            commands.extend(pool.event(now, event, &self.unreported, &mut self.nodes));
        }
        commands.extend(self.advance(now));
        commands
    }

    /// Blocks a node for `period`; a block that ends later stands as it is. Returns the block that holds from now on.
    ///
    /// # Errors
    /// [`BLOCKED_MAX`] other nodes are blocked.
    pub fn block(
        &mut self,
        now: Duration,
        node: &str,
        period: Duration,
        cause: String,
    ) -> Result<(Blocked, Vec<Command>), TooManyBlocked> {
        let blocked = self.nodes.block(now, node, period, cause)?;
        Ok((blocked, self.blocks_changed(now)))
    }

    /// Ends the block of a node, and forgets that workers failed to start there. `None`: the node was not blocked.
    pub fn unblock(&mut self, now: Duration, node: &str) -> Option<Vec<Command>> {
        self.nodes.unblock(node).then(|| self.blocks_changed(now))
    }

    fn blocks_changed(&mut self, now: Duration) -> Vec<Command> {
        let mut commands = vec![self.block_hosts()];
        commands.extend(self.advance(now));
        commands
    }

    fn block_hosts(&self) -> Command {
        Command::BlockHosts(self.blocked().keys().cloned().collect())
    }

    /// The blocked nodes by name.
    pub fn blocked(&self) -> &BTreeMap<String, Blocked> {
        self.nodes.blocked()
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Duration) -> Vec<Command> {
        let mut commands = self.jobs_timed_out(now);
        if self.nodes.expire(now) {
            commands.push(self.block_hosts());
        }
        commands.extend(self.advance(now));
        commands
    }

    fn advance(&mut self, now: Duration) -> Vec<Command> {
        let current = self.said_at == Some(self.told);
        let Some(pool) = &mut self.pool else {
            return Vec::new();
        };
        let mut commands = pool.give_up(now, &mut self.nodes);
        // Before the requests, which are to be met elsewhere.
        commands.extend(self.nodes.newly_avoided().map(Command::AvoidHosts));
        if current {
            commands.extend(pool.request_missing(now, &self.unreported));
        }
        commands.extend(pool.newly_never_met().map(Command::NeverMet));
        commands
    }
}

#[cfg(test)]
impl ResourceManager {
    /// Recomputes every index from the registrations and compares.
    fn check(&self) {
        let unreported = self.registered.values().filter(|worker| !worker.reported);
        assert_eq!(self.unreported, unreported.map(|worker| &worker.spec).collect());
        let all = self.registered.iter().map(|(id, worker)| (worker.instance_id, id.clone()));
        assert_eq!(self.incarnations, all.collect());
        self.pool.iter().for_each(Pool::check);
    }
}
