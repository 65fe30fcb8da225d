//! What a TaskExecutor's core is told and what it asks for. Plain values; nothing here decides.

use crate::job_table::Connection;
use model::job::{SlotOffer, TaskStateUpdate};
use model::{
    AllocationId, BlobKey, ExecutionAttemptId, FailureCause, InstanceId, JobId, JobMasterId,
    ResourceManagerId,
};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Who leads the ResourceManagers now.
    ResourceManager(Option<ResourceManagerId>),
    /// It accepted.
    RegistrationAccepted {
        /// Which.
        by: ResourceManagerId,
        /// The new incarnation.
        instance: InstanceId,
    },
    /// It refused.
    RegistrationRefused {
        /// Which.
        by: ResourceManagerId,
        /// Why.
        reason: String,
        /// Whether asking again may help.
        retry: bool,
    },
    /// It did not answer.
    RegistrationFailed {
        /// Which.
        at: ResourceManagerId,
        /// Why.
        reason: String,
    },
    /// Its heartbeats ended, or it ended the connection.
    ResourceManagerLost {
        /// Which.
        id: ResourceManagerId,
        /// Why.
        reason: String,
    },
    /// It wants this process to end.
    ResourceManagerReleases {
        /// Which.
        id: ResourceManagerId,
        /// Why.
        reason: String,
    },
    /// The JobLeaderService registered at a JobMaster.
    JobMasterGained {
        /// The job.
        job: JobId,
        /// Its session.
        id: JobMasterId,
        /// Under which incarnation.
        instance: InstanceId,
    },
    /// A JobMaster leads no more, is not heard, or ended the connection.
    JobMasterLost {
        /// The job.
        job: JobId,
        /// Its session.
        id: JobMasterId,
        /// Why.
        reason: String,
        /// Whether the same one may be registered at again.
        reconnect: bool,
    },
    /// A JobMaster refused for good.
    JobMasterRefused {
        /// The job.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// A JobMaster was not heard for so long that it may soon declare this process dead.
    JobMasterSilent {
        /// The job.
        job: JobId,
        /// Its session.
        id: JobMasterId,
    },
    /// A host takes tasks.
    HostUp {
        /// The job.
        job: JobId,
        /// Which launch.
        launch: u64,
    },
    /// A host is gone, or could not be launched.
    HostLost {
        /// The job.
        job: JobId,
        /// Which launch.
        launch: u64,
        /// Why.
        cause: FailureCause,
    },
    /// A host that was told to end has ended.
    HostEnded {
        /// The job.
        job: JobId,
        /// Which launch.
        launch: u64,
    },
    /// A JobMaster answered an offer with what it takes.
    OffersAnswered {
        /// The job.
        job: JobId,
        /// Which connection.
        connection: u64,
        /// What it takes.
        accepted: Vec<AllocationId>,
    },
    /// A JobMaster did not answer an offer.
    OffersFailed {
        /// The job.
        job: JobId,
        /// Which connection.
        connection: u64,
    },
    /// A JobMaster took a batch of reports.
    ReportsTaken {
        /// The job.
        job: JobId,
        /// Which connection.
        connection: u64,
        /// Attempts that it does not know.
        unknown: Vec<ExecutionAttemptId>,
    },
    /// A JobMaster did not answer a batch of reports.
    ReportsFailed {
        /// The job.
        job: JobId,
        /// Which connection.
        connection: u64,
    },
    /// A host reports tasks.
    TaskStates {
        /// The job.
        job: JobId,
        /// In order.
        updates: Vec<TaskStateUpdate>,
    },
    /// These tasks of an accepted deployment never started.
    NotDeployed {
        /// The job.
        job: JobId,
        /// Which.
        attempts: Vec<ExecutionAttemptId>,
    },
    /// Time has passed.
    Tick,
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Register at a ResourceManager.
    Register {
        /// Which.
        at: ResourceManagerId,
    },
    /// Registered: send the slot report, expect heartbeats.
    ConnectResourceManager {
        /// Which.
        id: ResourceManagerId,
        /// The incarnation.
        instance: InstanceId,
    },
    /// Heartbeats with this ResourceManager are over.
    DropResourceManager {
        /// Which.
        id: ResourceManagerId,
        /// The incarnation.
        instance: InstanceId,
    },
    /// Tell the ResourceManager of a free slot.
    NotifySlotAvailable {
        /// Which.
        id: ResourceManagerId,
        /// The incarnation.
        instance: InstanceId,
        /// The slot.
        index: u32,
        /// The allocation that ended.
        allocation: AllocationId,
    },
    /// Find and register at the job's JobMaster.
    WatchJob {
        /// Which.
        job: JobId,
        /// Under which incarnation.
        instance: InstanceId,
    },
    /// Register again at the job's JobMaster.
    ReconnectJob {
        /// Which.
        job: JobId,
    },
    /// The job has no slots here any more.
    ForgetJob {
        /// Which.
        job: JobId,
    },
    /// Expect heartbeats of a JobMaster.
    ConnectJobMaster {
        /// The job.
        job: JobId,
        /// Its session.
        id: JobMasterId,
        /// The incarnation under which it knows this process.
        instance: InstanceId,
    },
    /// Heartbeats with this JobMaster are over.
    DropJobMaster {
        /// The job.
        job: JobId,
        /// Its session.
        id: JobMasterId,
        /// The incarnation under which it knows this process.
        instance: InstanceId,
        /// Tell it, and why.
        tell: Option<FailureCause>,
    },
    /// Launch the job's host.
    LaunchHost {
        /// The job.
        job: JobId,
        /// Which launch.
        launch: u64,
        /// What it runs.
        program: Option<BlobKey>,
    },
    /// End the job's host; answered with [`Event::HostEnded`].
    EndHost {
        /// The job.
        job: JobId,
        /// Which launch.
        launch: u64,
        /// Kill it, or let it cancel its tasks first.
        at_once: bool,
    },
    /// Tell the host what memory it has, because its number of slots has changed.
    ResizeHost {
        /// The job.
        job: JobId,
        /// Which launch.
        launch: u64,
    },
    /// Cancel attempts on the job's host.
    CancelOnHost {
        /// The job.
        job: JobId,
        /// Which.
        attempts: Vec<ExecutionAttemptId>,
    },
    /// The host ends what runs in a slot.
    ReleaseSlotOnHost {
        /// The job.
        job: JobId,
        /// Which.
        allocation: AllocationId,
    },
    /// Offer slots.
    OfferSlots {
        /// The job.
        job: JobId,
        /// To whom.
        to: Connection,
        /// Which.
        slots: Vec<SlotOffer>,
    },
    /// Report task states.
    UpdateTaskStates {
        /// The job.
        job: JobId,
        /// To whom.
        to: Connection,
        /// In order.
        updates: Vec<TaskStateUpdate>,
    },
    /// Report a lost slot.
    FailSlot {
        /// The job.
        job: JobId,
        /// To whom.
        to: Connection,
        /// Which.
        allocation: AllocationId,
        /// True if the JobMaster is known to have accepted the slot.
        accepted: bool,
        /// Why.
        cause: FailureCause,
    },
    /// What heartbeats tell the ResourceManager has changed.
    PublishSlots,
    /// What heartbeats tell this job's JobMaster has changed.
    PublishJob {
        /// Which.
        job: JobId,
    },
    /// The process can't go on.
    Fail {
        /// Why.
        reason: String,
    },
    /// The process is not needed any more.
    End {
        /// Why.
        reason: String,
    },
}
