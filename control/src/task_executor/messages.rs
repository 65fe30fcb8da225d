//! Events that a TaskExecutor's core receives, and commands that it gives. Plain values; nothing
//! here decides.

use crate::job_table::Connection;
use model::job::{SlotOffer, TaskStateUpdate};
use model::{
    AllocationId, BlobKey, ExecutionAttemptId, FailureCause, InstanceId, JobId, JobMasterId,
    ResourceManagerId,
};

/// An event that the core is to take into account.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The leader of the ResourceManagers has changed; `None`: there is none now.
    ResourceManager(Option<ResourceManagerId>),
    /// A ResourceManager accepted the registration.
    RegistrationAccepted {
        /// Leadership of the ResourceManager that answered.
        by: ResourceManagerId,
        /// The new incarnation of this TaskExecutor.
        instance: InstanceId,
    },
    /// A ResourceManager refused the registration.
    RegistrationRefused {
        /// Leadership of the ResourceManager that answered.
        by: ResourceManagerId,
        /// Reason as text for people.
        reason: String,
        /// True if another attempt may succeed.
        retry: bool,
    },
    /// A ResourceManager did not answer the registration.
    RegistrationFailed {
        /// Leadership of the ResourceManager concerned.
        at: ResourceManagerId,
        /// Reason as text for people.
        reason: String,
    },
    /// The ResourceManager's heartbeats stopped, or it closed the connection.
    ResourceManagerLost {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Reason as text for people.
        reason: String,
    },
    /// The ResourceManager wants this process to end.
    ResourceManagerReleases {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Reason as text for people.
        reason: String,
    },
    /// The JobLeaderService registered at a JobMaster.
    JobMasterGained {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
        /// The incarnation under which this process is registered.
        instance: InstanceId,
    },
    /// A JobMaster leads no more, is not heard, or ended the connection.
    JobMasterLost {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
        /// Reason as text for people.
        reason: String,
        /// True if the same one may be registered at again.
        reconnect: bool,
    },
    /// A JobMaster refused for good.
    JobMasterRefused {
        /// Job that the message concerns.
        job: JobId,
        /// Reason as text for people.
        reason: String,
    },
    /// A JobMaster was not heard for so long that it may soon declare this process dead.
    JobMasterSilent {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
    },
    /// A host takes tasks.
    HostUp {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// A host is gone, or could not be launched.
    HostLost {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// Failure that is the reason, as users see it.
        cause: FailureCause,
    },
    /// A host that was asked to end has ended.
    HostEnded {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// A JobMaster answered an offer with what it takes.
    OffersAnswered {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
        /// The allocations that the JobMaster accepts.
        accepted: Vec<AllocationId>,
    },
    /// A JobMaster did not answer an offer.
    OffersFailed {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
    },
    /// A JobMaster took a batch of reports.
    ReportsTaken {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
        /// Attempts that it does not know.
        unknown: Vec<ExecutionAttemptId>,
    },
    /// A JobMaster did not answer a batch of reports.
    ReportsFailed {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
    },
    /// A host reports tasks.
    TaskStates {
        /// Job that the message concerns.
        job: JobId,
        /// States in the order in which they came about.
        updates: Vec<TaskStateUpdate>,
    },
    /// The tasks of an accepted deployment never started.
    NotDeployed {
        /// Job that the message concerns.
        job: JobId,
        /// Execution attempts that the message concerns.
        attempts: Vec<ExecutionAttemptId>,
    },
    /// Time has passed: deadlines are checked.
    Tick,
}

/// A command for the caller; commands are carried out in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Register at a ResourceManager.
    Register {
        /// Leadership of the ResourceManager concerned.
        at: ResourceManagerId,
    },
    /// Registered: send the slot report, expect heartbeats.
    ConnectResourceManager {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
    },
    /// Heartbeats with this ResourceManager are over.
    DropResourceManager {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
    },
    /// Tell the ResourceManager of a free slot.
    NotifySlotAvailable {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
        /// Index of the slot in its TaskExecutor.
        index: u32,
        /// The allocation that ended.
        allocation: AllocationId,
    },
    /// Find and register at the job's JobMaster.
    WatchJob {
        /// Job that the message concerns.
        job: JobId,
        /// The incarnation under which this process is registered.
        instance: InstanceId,
    },
    /// Register again at the job's JobMaster, whose connection was lost.
    ReconnectJob {
        /// Job that the message concerns.
        job: JobId,
    },
    /// The job has no slots here any more.
    ForgetJob {
        /// Job that the message concerns.
        job: JobId,
    },
    /// Expect heartbeats of a JobMaster.
    ConnectJobMaster {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
        /// The incarnation under which it knows this process.
        instance: InstanceId,
    },
    /// Heartbeats with this JobMaster are over.
    DropJobMaster {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
        /// The incarnation under which it knows this process.
        instance: InstanceId,
        /// Message to the JobMaster with the reason; `None`: it is not told.
        tell: Option<FailureCause>,
    },
    /// Launch the job's host.
    LaunchHost {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// The program that the host runs; `None`: this process itself is the program.
        program: Option<BlobKey>,
    },
    /// End the job's host; answered with [`Event::HostEnded`].
    EndHost {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// Kill it, or let it cancel its tasks first.
        at_once: bool,
    },
    /// Tell the host what memory it has, because its number of slots has changed.
    ResizeHost {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// Cancel attempts on the job's host.
    CancelOnHost {
        /// Job that the message concerns.
        job: JobId,
        /// Execution attempts that the message concerns.
        attempts: Vec<ExecutionAttemptId>,
    },
    /// The host ends what runs in a slot.
    ReleaseSlotOnHost {
        /// Job that the message concerns.
        job: JobId,
        /// Allocation of the slot concerned.
        allocation: AllocationId,
    },
    /// Offer slots to a connected JobMaster.
    OfferSlots {
        /// Job that the message concerns.
        job: JobId,
        /// Connection to the job's JobMaster.
        to: Connection,
        /// Slots that are offered.
        slots: Vec<SlotOffer>,
    },
    /// Report task states.
    UpdateTaskStates {
        /// Job that the message concerns.
        job: JobId,
        /// Connection to the job's JobMaster.
        to: Connection,
        /// States in the order in which they came about.
        updates: Vec<TaskStateUpdate>,
    },
    /// Report a lost slot to a JobMaster.
    FailSlot {
        /// Job that the message concerns.
        job: JobId,
        /// Connection to the job's JobMaster.
        to: Connection,
        /// Allocation of the slot concerned.
        allocation: AllocationId,
        /// True if the JobMaster is known to have accepted the slot.
        accepted: bool,
        /// Failure that is the reason, as users see it.
        cause: FailureCause,
    },
    /// Refresh the slot report that heartbeats carry to the ResourceManager.
    PublishSlots,
    /// Refresh the report that heartbeats carry to this job's JobMaster.
    PublishJob {
        /// Job that the message concerns.
        job: JobId,
    },
    /// End the process with an error.
    Fail {
        /// Reason as text for people.
        reason: String,
    },
    /// The process is not needed any more.
    End {
        /// Reason as text for people.
        reason: String,
    },
}
