//! Registrations of TaskExecutors and JobMasters, leaders of jobs, workers of the external resource system, blocked
//! nodes.
//!
//! There is one value per leader session. A TaskExecutor is registered under a new incarnation each time; messages of
//! an earlier incarnation are ignored. This module must never decide which job gets a slot: the SlotManager decides
//! that.

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

/// A command for the caller, as the events of [`ResourceManager`] return it: a message to the driver, the SlotManager, a TaskExecutor or a
/// JobMaster. Commands are carried out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask the driver (the connection to YARN or Kubernetes) to start a worker of this spec. The outcome is a [`DriverEvent`]
    /// with the request's number.
    RequestWorker {
        /// Number of the request, counted from 1 in each ResourceManager, so that the next leader uses it again; names it in the driver's
        /// answer.
        request: u64,
        /// The spec of the worker.
        spec: WorkerResourceSpec,
    },
    /// Tell the driver to cancel a request for a worker that is no longer needed; if the worker comes all the same, it is
    /// released unless it is needed by then and [`PoolSettings::late_grace`] has not passed.
    CancelRequest {
        /// Number of the request for a worker.
        request: u64,
    },
    /// Have the driver end a worker that is not needed, came too late, did not register in time or is dead.
    ReleaseWorker {
        /// Process of the worker.
        resource_id: ResourceId,
    },
    /// Close the connection of a registered TaskExecutor, for the reason given; its registration is removed already.
    CloseTaskExecutor {
        /// Process of the TaskExecutor.
        resource_id: ResourceId,
        /// Id of the TaskExecutor's registration.
        instance_id: InstanceId,
        /// True if the SlotManager knew the TaskExecutor, so that it must be removed there.
        reported: bool,
        /// The reason, for the TaskExecutor and the log.
        cause: String,
        /// True if the TaskExecutor's process should end; false: it may register again.
        terminate: bool,
    },
    /// Replace the SlotManager's set of blocked nodes with these host names: it gives no new slots there.
    BlockHosts(Vec<String>),
    /// Replace the driver's set of host names of nodes on which no worker should be started: blocked ones and those where
    /// starts have failed. Given whenever the set changes, also when it becomes empty.
    AvoidHosts(Vec<String>),
    /// Tell the SlotManager which of the TaskManagers that it declared missing can never be provided, each with the reason. The list
    /// is complete and replaces the one before.
    NeverMet(Vec<(WorkerResourceSpec, String)>),
    /// Close the connection to the job's registered JobMaster, telling it the reason, and drop the requirements that it declared; the job
    /// keeps its slots and is still watched.
    CloseJob {
        /// The job concerned.
        job_id: JobId,
        /// The reason, for the JobMaster and the log.
        reason: String,
    },
    /// The job has ended or had no leader for the job time-out: drop its requirements, free its slots and stop watching its leader. Its
    /// JobMaster is not told.
    RemoveJob {
        /// The job concerned.
        job_id: JobId,
        /// The reason, for the log.
        reason: &'static str,
    },
    /// End the process, for this reason: the driver has lost the external resource system for good.
    Fatal(String),
}

/// The error that a TaskExecutor may not register, because its worker is not known: the driver has reported no start of it and did not find
/// it as one of an earlier ResourceManager, or it was released, lost or given up as late since. Nothing has changed. Not returned without a
/// driver.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "TaskExecutor {resource_id} was neither requested by this ResourceManager nor recovered from an earlier one"
)]
pub struct NotAsked {
    /// Resource id of the refused TaskExecutor's process.
    pub resource_id: ResourceId,
    /// True if registering again may succeed, because a worker is under way that may be this one. False: the TaskExecutor
    /// should end.
    pub retry: bool,
}

/// The registration of a TaskExecutor at the ResourceManager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Id of this registration of the process; a new one is drawn each time it registers, and messages under an earlier one are
    /// ignored.
    pub instance_id: InstanceId,
    /// Host name of the TaskExecutor's node, by which nodes are blocked.
    pub host: String,
    /// The resources that the TaskManager counts as: for a requested one those of the request, else those that it reports.
    pub spec: WorkerResourceSpec,
    /// True if the TaskExecutor's first slot report has arrived, so that the SlotManager knows the TaskExecutor.
    pub reported: bool,
}

/// The settings of a ResourceManager, fixed for the life of its leadership: those of the driver's workers, and when a job without a
/// leader is removed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The settings of the workers that a driver starts (in YARN or Kubernetes); `None` if there is no driver: every
    /// TaskExecutor may register.
    pub pool: Option<PoolSettings>,
    /// Time that a job may be without a leader before it is removed (`resourcemanager.job.timeout`).
    pub job_timeout: Duration,
    /// A random number, drawn once, from which the instance ids of registered TaskExecutors are derived.
    pub seed: u128,
    /// A rule that a simulation breaks on purpose; [`Mutation::None`] in production.
    pub mutation: Mutation,
}

/// The state of one ResourceManager leadership: registrations of TaskExecutors and JobMasters, workers that its driver (the connection to
/// YARN or Kubernetes) starts, leaders of jobs, blocked nodes. In memory only: the next leader begins without all of it, and TaskManagers
/// and JobMasters register anew. Calls nobody: each event returns the commands that follow.
#[derive(Debug)]
pub struct ResourceManager {
    registered: BTreeMap<ResourceId, Registered>,
    /// The resource id of each registered incarnation.
    incarnations: BTreeMap<InstanceId, ResourceId>,
    /// Registered TaskManagers that the SlotManager does not know yet, because their first slot report is missing.
    unreported: Counts,
    jobs: JobLeaders,
    pool: Option<Pool>,
    nodes: Nodes,
    seed: u128,
    drawn: u64,
    /// Version of the membership: the number of TaskManagers added and removed so far, as reported to
    /// the SlotManager.
    membership_version: u64,
    /// The membership version for which the SlotManager last declared the missing TaskManagers; `None`
    /// before it did.
    requirements_version: Option<u64>,
}

impl ResourceManager {
    /// Makes a ResourceManager without registrations and requests for workers. Calls nobody and returns no commands yet.
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
            membership_version: 0,
            requirements_version: None,
        }
    }

    /// Iterates over the registered TaskExecutors, by the resource ids of their processes.
    pub fn registered(&self) -> impl Iterator<Item = (&ResourceId, &Registered)> {
        self.registered.iter()
    }

    /// Returns the registration of the TaskExecutor whose process has this resource id; `None` if it is not registered.
    pub fn get(&self, resource_id: &ResourceId) -> Option<&Registered> {
        self.registered.get(resource_id)
    }

    /// Returns the resource id of the process that is registered under this instance id; `None` if none is.
    pub fn resource_of(&self, instance_id: InstanceId) -> Option<&ResourceId> {
        self.incarnations.get(&instance_id)
    }

    /// Returns true if the process is registered under this instance id, so that its messages count.
    pub fn is_current(&self, resource_id: &ResourceId, instance_id: InstanceId) -> bool {
        self.registered.get(resource_id).is_some_and(|known| known.instance_id == instance_id)
    }

    /// Returns true if the worker with this resource id is starting or has registered, and was not released or lost. Always
    /// false without a driver.
    pub fn is_wanted(&self, resource_id: &ResourceId) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.is_known(resource_id))
    }

    /// Returns the text of the last failure to start a worker (a failed request, or a worker that ended or did not register in time), or
    /// of the driver's loss of its external system, for messages about missing TaskManagers; `None` if there was none in this leadership.
    pub fn last_driver_error(&self) -> Option<&str> {
        self.pool.as_ref().and_then(Pool::last_error)
    }

    /// Removes and returns the numbers of the requests for workers that have ended since the last call: they were cancelled, they failed
    /// or can never be met, or their worker has registered, is gone or is too late. For the records that simulations check; in
    /// production, too, it is called after each event, because the list grows until it is taken.
    pub fn take_ended_requests(&mut self) -> Vec<u64> {
        self.pool.as_mut().map(Pool::take_ended).unwrap_or_default()
    }

    /// Registers a TaskExecutor that runs on node `host`, and returns the new instance id of its process. The commands close an earlier
    /// registration of the process. `spec` is what it reports; a requested TaskManager counts as the spec of the request. The first
    /// registration of a worker ends the pause after failed starts, and their row. The SlotManager learns of the TaskManager with its first
    /// slot report ([`ResourceManager::reported`]). `now` is monotonic.
    ///
    /// # Errors
    ///
    /// Returns [`NotAsked`], without a change, if there is a driver and it has reported no start of the worker (yet) and did not find it as
    /// one of an earlier ResourceManager, or if the worker was released, lost or given up as late since.
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
        let task_manager = Registered { instance_id, host, spec, reported: false };
        self.registered.insert(resource_id.clone(), task_manager);
        self.incarnations.insert(instance_id, resource_id.clone());
        debug_assert_eq!(self.incarnations.len(), self.registered.len(), "one incarnation each");
        Ok((instance_id, commands))
    }

    /// Records that a TaskExecutor has sent a slot report. Returns true if this is its first one, so that the caller must add
    /// the TaskManager to the SlotManager; false if it is a later one; `None` if the process is not registered under this instance
    /// id.
    pub fn reported(&mut self, resource_id: &ResourceId, instance_id: InstanceId) -> Option<bool> {
        let task_manager = self.registered.get_mut(resource_id)?;
        if task_manager.instance_id != instance_id {
            return None;
        }
        let first = !std::mem::replace(&mut task_manager.reported, true);
        if first {
            self.unreported.remove(&task_manager.spec);
            self.membership_version += 1;
        }
        Some(first)
    }

    /// Handles that a TaskExecutor leaves: its registration is closed, for the reason `cause`; its process is kept and may
    /// register again. Does nothing if no process is registered under this instance id.
    pub fn disconnect(&mut self, instance_id: InstanceId, cause: String) -> Vec<Command> {
        let Some(resource_id) = self.resource_of(instance_id).cloned() else {
            return Vec::new();
        };
        self.close(&resource_id, cause, false)
    }

    /// Handles that a TaskExecutor's heartbeats have stopped: its registration is closed, and the driver, if there is one, ends
    /// the TaskManager. Does nothing if no process is registered under this instance id.
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

    /// Ends a TaskExecutor for good because it was idle for too long: its registration is closed, the process is told to end,
    /// and the driver, if there is one, releases the worker. Does nothing if no process is registered under this instance id.
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
        let Some(task_manager) = self.registered.remove(resource_id) else {
            return Vec::new();
        };
        let known = self.incarnations.remove(&task_manager.instance_id);
        debug_assert_eq!(known.as_ref(), Some(resource_id), "an incarnation of somebody else");
        if task_manager.reported {
            self.membership_version += 1;
        } else {
            self.unreported.remove(&task_manager.spec);
        }
        vec![Command::CloseTaskExecutor {
            resource_id: resource_id.clone(),
            instance_id: task_manager.instance_id,
            reported: task_manager.reported,
            cause,
            terminate,
        }]
    }

    /// Handles the SlotManager's declaration of the TaskManagers that are missing beyond the known ones (whole amounts, which replace the
    /// former ones): requests workers for them from the driver (after failed starts only when the pause is over) and cancels requests
    /// beyond them. `seen` is the number of additions and removals of TaskManagers that the SlotManager had seen; ignored if that is not
    /// the newest number, because the SlotManager will declare again. Without a driver nothing is requested. `now` is monotonic.
    pub fn need(
        &mut self,
        now: Duration,
        seen: u64,
        missing: BTreeMap<WorkerResourceSpec, u32>,
    ) -> Vec<Command> {
        if seen != self.membership_version {
            return Vec::new();
        }
        self.requirements_version = Some(seen);
        if let Some(pool) = &mut self.pool {
            pool.want(missing);
        }
        self.advance(now)
    }

    /// Handles an event of the driver: workers that were started or found become known, failed ones are requested again after a
    /// pause, and the registration of a lost one is closed (its TaskExecutor is told to end). The loss of the external system gives
    /// [`Command::Fatal`]. `now` is monotonic.
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

    /// Blocks a node for `period` from `now` on: no new slots or TaskManagers are placed there; what runs goes on. An existing
    /// block that ends later stays. Returns the block that holds from now on, and the commands. `now` is monotonic.
    ///
    /// # Errors
    /// Returns [`TooManyBlocked`], without a change, if [`BLOCKED_MAX`] other nodes are blocked.
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

    /// Ends the block of a node, and forgets that workers failed to start there, so that TaskManagers are placed there again.
    /// Returns `None` if the node was not blocked (failed starts are forgotten all the same). `now` is monotonic.
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

    /// Returns the nodes that an operator has blocked, by host name; nodes that are avoided because starts failed there are not
    /// among them.
    pub fn blocked(&self) -> &BTreeMap<String, Blocked> {
        self.nodes.blocked()
    }

    /// Handles that time has passed: removes jobs without a leader for the job time-out, ends blocks, releases workers that did not
    /// register in time (each counts as a failed start), and requests the missing ones if no pause runs. To be called at regular
    /// intervals. `now` is monotonic.
    pub fn tick(&mut self, now: Duration) -> Vec<Command> {
        let mut commands = self.jobs_timed_out(now);
        if self.nodes.expire(now) {
            commands.push(self.block_hosts());
        }
        commands.extend(self.advance(now));
        commands
    }

    fn advance(&mut self, now: Duration) -> Vec<Command> {
        let current = self.requirements_version == Some(self.membership_version);
        let Some(pool) = &mut self.pool else {
            return Vec::new();
        };
        let mut commands = pool.give_up(now, &mut self.nodes);
        // The driver learns of the nodes to avoid before it gets the requests.
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
    /// Recomputes every index from the registrations and compares it.
    fn check(&self) {
        let unreported = self.registered.values().filter(|known| !known.reported);
        assert_eq!(self.unreported, unreported.map(|known| &known.spec).collect());
        let all = self.registered.iter().map(|(id, known)| (known.instance_id, id.clone()));
        assert_eq!(self.incarnations, all.collect());
        self.pool.iter().for_each(Pool::check);
    }
}
