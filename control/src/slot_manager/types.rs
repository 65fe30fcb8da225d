//! The SlotManager's settings, its commands and its overview.

use crate::mutation::Mutation;
use model::slots::SlotAllocation;
use model::{
    AllocationId, InstanceId, JobId, JobMasterId, ResourceProfile, ResourceRequirement,
    WorkerResourceSpec,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The way in which the cluster gets its workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supply {
    /// Workers come from outside at any time (standalone): requirements wait for them.
    Passive {
        /// End of the start-up period, monotonic.
        start_up_until: Duration,
    },
    /// Workers are requested from an external resource system.
    Active {
        /// The default spec of a worker.
        worker: WorkerResourceSpec,
        /// Longest time a request for a slot stays open (`slot.request.timeout`).
        request_timeout: Duration,
        /// Time after which an idle TaskManager is released
        /// (`resourcemanager.taskmanager-timeout`).
        idle_timeout: Duration,
        /// Largest number of slots of the cluster (`slotmanager.number-of-slots.max`); `None` for
        /// no bound.
        slots_max: Option<u32>,
        /// Number of spare TaskManagers (`slotmanager.redundant-taskmanager-num`).
        redundant: u32,
    },
}

/// The settings of a SlotManager.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Source of the workers.
    pub supply: Supply,
    /// True if slots are spread over all TaskManagers (`cluster.evenly-spread-out-slots`).
    pub spread_out: bool,
    /// Time for which an answer of a TaskExecutor overrides its reports: two heartbeats.
    pub settle: Duration,
    /// A random number, drawn once, from which allocation ids are derived.
    pub seed: u128,
    /// [`Mutation::None`] outside of the simulation.
    pub mutation: Mutation,
}

/// A command for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask a TaskExecutor to allocate a slot to a job.
    RequestSlot(SlotRequest),
    /// Tell a TaskExecutor to free a slot of a removed job. The message may be lost: then the TaskExecutor's next
    /// report still shows the slot, and the command is given again.
    FreeSlot {
        /// Incarnation of the TaskExecutor concerned.
        instance_id: InstanceId,
        /// The allocation to end.
        allocation_id: AllocationId,
    },
    /// Tell a job's JobMaster that its requirements can't be met.
    TellLack(Lack),
    /// Ask a job's JobMaster to yield slots that it holds and cannot use yet, so that another job can run with them.
    AskToGiveWay {
        /// The job that is asked.
        job_id: JobId,
        /// Leadership of the job's JobMaster.
        job_master_id: JobMasterId,
        /// The numbers of slots by the profile that they must fulfil.
        slots: Vec<ResourceRequirement>,
    },
    /// Active supply: request this many workers beyond the known ones (the whole amount). `seen` is the number of
    /// additions and removals of workers so far.
    NeedWorkers {
        /// Additions and removals that this takes into account.
        seen: u64,
        /// The number of missing workers by spec; empty if none are missing.
        missing: BTreeMap<WorkerResourceSpec, u32>,
    },
    /// Active supply: release a worker that has been idle for long enough.
    ReleaseWorker {
        /// Incarnation of the TaskExecutor.
        instance_id: InstanceId,
    },
}

/// A request for a slot of a TaskExecutor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRequest {
    /// Incarnation of the TaskExecutor that is asked.
    pub instance_id: InstanceId,
    /// The index of the slot on the worker.
    pub index: u32,
    /// The job that the slot is for.
    pub job_id: JobId,
    /// Allocation that the request establishes.
    pub allocation_id: AllocationId,
    /// The profile that the slot must fulfil.
    pub profile: ResourceProfile,
}

/// Requirements that can't be met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The job with the shortage.
    pub job_id: JobId,
    /// Leadership of the job's JobMaster.
    pub job_master_id: JobMasterId,
    /// The shortage as text: "needs 8 slots of …, 4 registered, 0 free", and the jobs that hold the
    /// others.
    pub message: String,
}

/// The reason why a slot was not allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another allocation holds the slot.
    Occupied(SlotAllocation),
    /// The TaskExecutor does not know the slot, is not registered here any more, or did not answer.
    NotKnown,
}

/// Sums and details, for REST.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// Number of registered workers.
    pub workers: u32,
    /// Number of slots of all registered workers.
    pub slots: u32,
    /// Number of free slots.
    pub free_slots: u32,
    /// Number of workers on blocked nodes.
    pub blocked_workers: u32,
    /// Number of free slots on these workers.
    pub blocked_free_slots: u32,
}
