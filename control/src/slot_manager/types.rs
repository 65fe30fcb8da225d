//! What a SlotManager is made with, what it commands and what it shows.

use crate::mutation::Mutation;
use model::slots::SlotAllocation;
use model::{
    AllocationId, InstanceId, JobId, JobMasterId, ResourceProfile, ResourceRequirement,
    WorkerResourceSpec,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where workers come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supply {
    /// From outside, when they please (standalone): requirements wait until then.
    Passive {
        /// End of the start-up period.
        start_up_until: Duration,
    },
    /// Asked for.
    Active {
        /// What one is made of.
        worker: WorkerResourceSpec,
        /// `slot.request.timeout`.
        request_timeout: Duration,
        /// `resourcemanager.taskmanager-timeout`.
        idle_timeout: Duration,
        /// `slotmanager.number-of-slots.max`.
        slots_max: Option<u32>,
        /// `slotmanager.redundant-taskmanager-num`.
        redundant: u32,
    },
}

/// What a SlotManager is made with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where workers come from.
    pub supply: Supply,
    /// `cluster.evenly-spread-out-slots`.
    pub spread_out: bool,
    /// How long what a TaskExecutor answered stands against its reports: two heartbeats.
    pub settle: Duration,
    /// Random, once: allocation ids are drawn from it.
    pub seed: u128,
    /// [`Mutation::None`].
    pub mutation: Mutation,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask a TaskExecutor to give a slot to a job.
    RequestSlot(SlotRequest),
    /// Tell a TaskExecutor to free a slot of a removed job. The message may be lost: then the TaskExecutor's next
    /// report still shows the slot, and the command is given again.
    FreeSlot {
        /// The worker.
        instance_id: InstanceId,
        /// The allocation to end.
        allocation_id: AllocationId,
    },
    /// Tell a job's JobMaster that its requirements can't be met.
    TellLack(Lack),
    /// Ask a job's JobMaster for slots that it holds and can't use yet: with them another job could run.
    AskToGiveWay {
        /// Whose.
        job_id: JobId,
        /// Its JobMaster.
        job_master_id: JobMasterId,
        /// How many, by what they must offer.
        slots: Vec<ResourceRequirement>,
    },
    /// Active supply: beyond the workers that are known, so many are missing (the whole amount). `seen` is
    /// the number of workers that were ever added and removed.
    NeedWorkers {
        /// Additions and removals that this takes into account.
        seen: u64,
        /// By spec; empty: none.
        missing: BTreeMap<WorkerResourceSpec, u32>,
    },
    /// Active supply: this worker has been idle for long enough.
    ReleaseWorker {
        /// Its incarnation.
        instance_id: InstanceId,
    },
}

/// A slot request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRequest {
    /// The worker.
    pub instance_id: InstanceId,
    /// Its slot.
    pub index: u32,
    /// For whom.
    pub job_id: JobId,
    /// The allocation.
    pub allocation_id: AllocationId,
    /// What is needed.
    pub profile: ResourceProfile,
}

/// Requirements that can't be met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// Whose.
    pub job_id: JobId,
    /// Its JobMaster.
    pub job_master_id: JobMasterId,
    /// What it has.
    pub acquired: Vec<ResourceRequirement>,
    /// "needs 8 slots of …, 4 registered, 0 free", and who has the others.
    pub message: String,
}

/// Why a slot was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody else has it.
    Occupied(SlotAllocation),
    /// The TaskExecutor knows no such slot, or is not registered here any more, or did not answer.
    NotKnown,
}

/// Sums and details, for REST.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// Registered workers.
    pub workers: u32,
    /// Their slots.
    pub slots: u32,
    /// Free ones.
    pub free_slots: u32,
    /// Workers on blocked nodes.
    pub blocked_workers: u32,
    /// Free slots there.
    pub blocked_free_slots: u32,
}
