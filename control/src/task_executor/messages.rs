//! Events that a TaskExecutor's core receives, and commands that it gives. Plain values; nothing
//! here decides.

use crate::job_table::Connection;
use model::job::{SlotOffer, TaskStateUpdate};
use model::{
    AllocationId, BlobKey, ExecutionAttemptId, FailureCause, InstanceId, JobId, JobMasterId,
    ResourceManagerId,
};

/// An event that [`TaskExecutor::step`](super::TaskExecutor::step) takes into account.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The leader of the ResourceManagers has changed; `None`: there is none now.
    ResourceManager(Option<ResourceManagerId>),
    /// A ResourceManager has accepted this TaskExecutor's registration.
    RegistrationAccepted {
        /// Leadership of the ResourceManager that answered.
        by: ResourceManagerId,
        /// The incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
    },
    /// A ResourceManager refused the registration.
    RegistrationRefused {
        /// Leadership of the ResourceManager that answered.
        by: ResourceManagerId,
        /// Reason as text for people.
        reason: String,
        /// True if another attempt may succeed; false: the process ends.
        retry: bool,
    },
    /// A ResourceManager did not answer the registration, or the call failed.
    RegistrationFailed {
        /// Leadership of the ResourceManager concerned.
        at: ResourceManagerId,
        /// Reason as text for people.
        reason: String,
    },
    /// The ResourceManager's heartbeats have stopped, or it has closed the connection.
    ResourceManagerLost {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Reason as text for people.
        reason: String,
    },
    /// The ResourceManager wants this process to end; ignored unless this process is registered there.
    ResourceManagerReleases {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Reason as text for people.
        reason: String,
    },
    /// The JobLeaderService has registered this TaskExecutor at a job's JobMaster.
    JobMasterGained {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
        /// The incarnation under which this process is registered.
        instance: InstanceId,
    },
    /// A JobMaster leads no more, is not heard, or has ended the connection: the job's tasks here end, its slots wait for the
    /// next JobMaster.
    JobMasterLost {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
        /// Reason as text for people.
        reason: String,
        /// True if this TaskExecutor may register at the same JobMaster again.
        reconnect: bool,
    },
    /// A JobMaster has refused this TaskExecutor for good: the job's slots are freed.
    JobMasterRefused {
        /// Job that the message concerns.
        job: JobId,
        /// Reason as text for people.
        reason: String,
    },
    /// A JobMaster was not heard for so long that it may soon declare this process dead: the job's tasks here are ended and
    /// fail.
    JobMasterSilent {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
    },
    /// A job's program host has started and takes tasks.
    HostUp {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// A job's program host has ended unasked, or could not be launched: its tasks fail and its slots are reported as lost.
    HostLost {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// Failure that is the reason, as users see it.
        cause: FailureCause,
    },
    /// A job's program host that was asked to end has ended.
    HostEnded {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// A JobMaster has answered an offer; offered slots that it does not accept are freed.
    OffersAnswered {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
        /// The allocations that the JobMaster accepts.
        accepted: Vec<AllocationId>,
    },
    /// A JobMaster did not answer an offer, which is repeated after a pause.
    OffersFailed {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
    },
    /// A JobMaster has taken a batch of reports.
    ReportsTaken {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
        /// Attempts that the JobMaster does not know; they are cancelled.
        unknown: Vec<ExecutionAttemptId>,
    },
    /// A JobMaster did not answer a batch of reports, which is repeated after a pause.
    ReportsFailed {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
    },
    /// A job's program host reports states of tasks.
    TaskStates {
        /// Job that the message concerns.
        job: JobId,
        /// States in the order in which they came about.
        updates: Vec<TaskStateUpdate>,
    },
    /// Tasks of a deployment were refused by the host or never started; they are forgotten without a report.
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
    /// Send a registration to this ResourceManager; its outcome is an event.
    Register {
        /// Leadership of the ResourceManager concerned.
        at: ResourceManagerId,
    },
    /// The registration was accepted: send the slot report, expect heartbeats.
    ConnectResourceManager {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
    },
    /// End the connection to this ResourceManager and its heartbeats.
    DropResourceManager {
        /// Leadership of the ResourceManager concerned.
        id: ResourceManagerId,
        /// Incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
    },
    /// Tell the ResourceManager that a slot has become free.
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
    /// Find the job's leading JobMaster and register there; watch for changes.
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
    /// Stop watching the job's leader: the job has no slots here any more.
    ForgetJob {
        /// Job that the message concerns.
        job: JobId,
    },
    /// Expect heartbeats of the JobMaster that has accepted the registration.
    ConnectJobMaster {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
        /// The incarnation under which it knows this process.
        instance: InstanceId,
    },
    /// End the connection to this JobMaster and its heartbeats.
    DropJobMaster {
        /// Job that the message concerns.
        job: JobId,
        /// Leadership of the JobMaster.
        id: JobMasterId,
        /// The incarnation under which it knows this process.
        instance: InstanceId,
        /// The reason that the JobMaster is told; `None`: it is not told.
        tell: Option<FailureCause>,
    },
    /// Launch the job's program host; answered with [`Event::HostUp`] or [`Event::HostLost`].
    LaunchHost {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// The program that the host runs; `None`: this process itself is the program.
        program: Option<BlobKey>,
    },
    /// End the job's program host; answered with [`Event::HostEnded`].
    EndHost {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// True: kill the host; false: let it cancel its tasks first.
        at_once: bool,
    },
    /// Tell the host how much memory it has, because the job's number of slots here has changed.
    ResizeHost {
        /// Job that the message concerns.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// Have the job's host cancel these attempts; they report when they have ended.
    CancelOnHost {
        /// Job that the message concerns.
        job: JobId,
        /// Execution attempts that the message concerns.
        attempts: Vec<ExecutionAttemptId>,
    },
    /// Have the job's host end all tasks in a slot that was given back.
    ReleaseSlotOnHost {
        /// Job that the message concerns.
        job: JobId,
        /// Allocation of the slot concerned.
        allocation: AllocationId,
    },
    /// Offer slots to a connected JobMaster; answered with [`Event::OffersAnswered`] or [`Event::OffersFailed`].
    OfferSlots {
        /// Job that the message concerns.
        job: JobId,
        /// Connection to the job's JobMaster.
        to: Connection,
        /// Slots that are offered.
        slots: Vec<SlotOffer>,
    },
    /// Report states of tasks to the connected JobMaster; answered with [`Event::ReportsTaken`] or [`Event::ReportsFailed`].
    UpdateTaskStates {
        /// Job that the message concerns.
        job: JobId,
        /// Connection to the job's JobMaster.
        to: Connection,
        /// States in the order in which they came about.
        updates: Vec<TaskStateUpdate>,
    },
    /// Report a lost slot to the connected JobMaster; answered with [`Event::ReportsTaken`] or [`Event::ReportsFailed`].
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
    /// Refresh the slot report that heartbeats carry to the ResourceManager (`TaskExecutor::slot_report`).
    PublishSlots,
    /// Refresh the report that heartbeats carry to this job's JobMaster (`TaskExecutor::job_report`).
    PublishJob {
        /// Job that the message concerns.
        job: JobId,
    },
    /// End the process with an error.
    Fail {
        /// Reason as text for people.
        reason: String,
    },
    /// End the process in an orderly way: the ResourceManager does not need it any more.
    End {
        /// Reason as text for people.
        reason: String,
    },
}
