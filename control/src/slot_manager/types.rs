//! The SlotManager's settings, its commands and its overview.

use crate::mutation::Mutation;
use model::slots::SlotAllocation;
use model::{
    AllocationId, InstanceId, JobId, JobMasterId, ResourceProfile, ResourceRequirement,
    WorkerResourceSpec,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The way in which the cluster gets its TaskManagers: they register on their own (standalone), or are requested from
/// an external resource system (YARN, Kubernetes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supply {
    /// TaskManagers are started by others and register at any time (standalone); the SlotManager requests and releases none.
    Passive {
        /// End of the start-up period (monotonic), before which no shortage is reported, because TaskManagers may still register.
        start_up_until: Duration,
    },
    /// TaskManagers are requested from an external resource system, and released when they are idle.
    Active {
        /// The configured spec of a TaskManager; for slots larger than its own, TaskManagers of that size cut into fewer slots are
        /// requested.
        task_manager: WorkerResourceSpec,
        /// Time after which a requirement that is still unfulfilled is reported as a shortage (`slot.request.timeout`).
        request_timeout: Duration,
        /// Time after which an idle TaskManager is released (`resourcemanager.taskmanager-timeout`); while a job waits for slots, only
        /// one on a blocked node is.
        idle_timeout: Duration,
        /// Maximum number of slots of registered and missing TaskManagers together (`slotmanager.number-of-slots.max`): no TaskManager is
        /// requested that would exceed it, so that jobs wait and their shortage is reported; TaskManagers that have registered stay, also
        /// beyond it. `None`: no bound.
        slots_max: Option<u32>,
        /// Number of idle TaskManagers that are kept spare (`slotmanager.redundant-taskmanager-num`): so many are never released, and
        /// missing ones are requested while any job has requirements.
        redundant: u32,
    },
}

/// The settings of a SlotManager, fixed for its life: where TaskManagers come from, the order in which slots are chosen, and how long an
/// answer overrides reports.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The way in which the cluster gets its TaskManagers.
    pub supply: Supply,
    /// True if a job's slots are taken from the least used TaskManagers first (`cluster.evenly-spread-out-slots`); false: from
    /// those that the job uses already, then from the most used. In both cases all slots of the smallest size that suffices come before
    /// larger ones, which are taken only for the rest.
    pub spread_out: bool,
    /// Time for which the last change of a slot's state (by an answer, a notice that it is free, or a report) overrides its TaskExecutor's
    /// further reports, which may have been made before; in production two heartbeat intervals. 0: every report counts. A pending request
    /// overrides them until it is answered.
    pub settle: Duration,
    /// A random number, drawn once per SlotManager, from which the ids of its allocations are derived.
    pub seed: u128,
    /// A rule that a simulation breaks on purpose; [`Mutation::None`] in production.
    pub mutation: Mutation,
}

/// A command for the caller, from [`SlotManager::check`](super::SlotManager::check), and `FreeSlot` from `report`, `slot_granted` and
/// `remove_job`: a message to a TaskExecutor, a JobMaster or the ResourceManager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask a TaskExecutor to allocate a slot to a job; the caller must pass the answer, or the call's failure, to
    /// `SlotManager::slot_granted` or `SlotManager::slot_refused`. Until then the job holds the slot as pending: no time-out applies here.
    RequestSlot(SlotRequest),
    /// Tell a TaskExecutor to free a slot of a removed job. The message may be lost: then the TaskExecutor's next
    /// report still shows the slot, and the command is given again.
    FreeSlot {
        /// Id of the registration of the TaskExecutor concerned.
        instance_id: InstanceId,
        /// The allocation to end.
        allocation_id: AllocationId,
    },
    /// Tell a job's JobMaster that the job's requirements can't be met; repeated every 5 s while that lasts (a new declaration of the job
    /// ends that pause). With passive supply: all registered usable slots, those of other jobs included, would not suffice (0.5 s after the
    /// shortage began, and after the start-up period). With active supply: unmet for the request time-out, or (after 0.5 s) no TaskManager
    /// can ever offer such a slot. Held back for 2 s after other jobs were asked to yield to the job. The JobMaster decides what follows.
    ReportShortage(Shortage),
    /// Ask a job's JobMaster to yield (free) slots that the job holds and cannot use yet, because it waits for more, so that another job
    /// can run with them. No answer is awaited: the TaskExecutors report the freed slots. After an ask the job is asked again at the
    /// earliest 2 s later, or 15 s later if it has freed no slot since; a new declaration of the job ends these pauses.
    AskToYield {
        /// The job that is asked.
        job_id: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        job_master_id: JobMasterId,
        /// The numbers of slots by the profile that they must fulfil.
        slots: Vec<ResourceRequirement>,
    },
    /// Active supply only: tell the ResourceManager how many TaskManagers are missing beyond the known ones, while any job has requirements
    /// also redundant ones. The amounts replace those of the command before, and are cut to `slots_max`. Given by the first check, and
    /// whenever the amounts change or a TaskManager was added or removed.
    NeedTaskManagers {
        /// The number of additions and removals of TaskManagers that this takes into account.
        seen: u64,
        /// The number of missing TaskManagers by spec; empty if none are missing.
        missing: BTreeMap<WorkerResourceSpec, u32>,
    },
    /// Active supply only: release a TaskManager that has been idle for the idle time-out. Given while no job waits for slots, or if
    /// the TaskManager's node is blocked; redundant TaskManagers stay. None of its slots is given to a job any more.
    ReleaseTaskManager {
        /// Id of the TaskExecutor's registration.
        instance_id: InstanceId,
    },
}

/// A request to a TaskExecutor that it allocate one of its free slots to a job. Made by [`SlotManager::check`](super::SlotManager::check);
/// the caller hands it back with the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRequest {
    /// Id of the TaskExecutor that is asked, which it got at its present registration.
    pub instance_id: InstanceId,
    /// The index of the slot on the TaskExecutor, from 0.
    pub index: u32,
    /// The job that the slot is for.
    pub job_id: JobId,
    /// Id, drawn by the SlotManager, under which the job holds the slot if the TaskExecutor grants the request.
    pub allocation_id: AllocationId,
    /// The profile that the slot must fulfil.
    pub profile: ResourceProfile,
}

/// A job's shortage, to be reported to its JobMaster: requirements that can't be met. With passive supply, requirements that only wait for
/// other jobs to end are no shortage; with active supply, they are one after the request time-out. See [`Command::ReportShortage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The job with the shortage.
    pub job_id: JobId,
    /// The leader session of the JobMaster that declared the requirements, and is told of the shortage.
    pub job_master_id: JobMasterId,
    /// The shortage as text for users, for each profile: "needs 8 slots of …, 4 registered, 0 free", and the numbers of slots that this
    /// job and others hold; also why a TaskManager with such slots can never be started, if that is known.
    pub message: String,
}

/// The reason why a requested slot was not allocated, for [`SlotManager::slot_refused`](super::SlotManager::slot_refused): another
/// allocation has it, or any other, after which the slot's state is unknown. The SlotManager's actor makes it of the TaskExecutor's answer,
/// or of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The TaskExecutor answers that the slot is held by this other allocation; the SlotManager takes that over as the slot's state
    /// (allocated), also if the other job is unknown to it.
    Occupied(SlotAllocation),
    /// The TaskExecutor refused for any other reason (no such slot, a slot that is too small, registered at another ResourceManager), is
    /// not registered here any more, or did not answer; the slot counts as [`Unknown`](super::task_managers::SlotState::Unknown) and is
    /// given to no job until the first report after [`Settings::settle`].
    NotKnown,
}

/// The numbers of TaskManagers and slots of a SlotManager at the time of [`SlotManager::overview`](super::SlotManager::overview), for REST:
/// registered TaskManagers, their slots, and how many of each are on nodes that an operator has blocked. The blocked ones are included in
/// the other numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// Number of registered TaskManagers.
    pub task_managers: u32,
    /// Number of slots of all registered TaskManagers.
    pub slots: u32,
    /// Number of free slots, those on blocked nodes and of TaskManagers that are being released included.
    pub free_slots: u32,
    /// Number of registered TaskManagers on blocked nodes.
    pub blocked_task_managers: u32,
    /// Number of free slots on blocked nodes; no job gets them.
    pub blocked_free_slots: u32,
}
