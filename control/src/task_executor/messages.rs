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
        /// Session of the ResourceManager that has answered.
        by: ResourceManagerId,
        /// The incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
    },
    /// A ResourceManager refused the registration.
    RegistrationRefused {
        /// Session of the ResourceManager that has answered.
        by: ResourceManagerId,
        /// The reason as text, for log lines and users.
        reason: String,
        /// True if another attempt may succeed; false: the process ends.
        retry: bool,
    },
    /// A ResourceManager did not answer the registration, or the call failed.
    RegistrationFailed {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        at: ResourceManagerId,
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// The ResourceManager's heartbeats have stopped, or it has closed the connection.
    ResourceManagerLost {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// The ResourceManager wants this process to end; ignored unless this process is registered there.
    ResourceManagerReleases {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// The JobLeaderService has registered this TaskExecutor at a job's JobMaster.
    JobMasterGained {
        /// The job that the event is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
        /// The incarnation under which this process is registered.
        instance: InstanceId,
    },
    /// A JobMaster leads no more, is not heard, or has ended the connection: the job's tasks here end, its slots wait for the
    /// next JobMaster.
    JobMasterLost {
        /// The job that the event is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
        /// The reason as text, for log lines and users.
        reason: String,
        /// True if this TaskExecutor may register at the same JobMaster again.
        reconnect: bool,
    },
    /// A JobMaster has refused this TaskExecutor for good: the job's slots are freed.
    JobMasterRefused {
        /// The job that the event is about.
        job: JobId,
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// A JobMaster was not heard for so long that it may soon declare this process dead: the job's tasks here are ended and
    /// fail.
    JobMasterSilent {
        /// The job that the event is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
    },
    /// A job's program host has started and takes tasks.
    HostUp {
        /// The job that the event is about.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// A job's program host has ended unasked, or could not be launched: its tasks fail and its slots are reported as lost.
    HostLost {
        /// The job that the event is about.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// Failure that is the reason, as users see it.
        cause: FailureCause,
    },
    /// A job's program host that was asked to end has ended.
    HostEnded {
        /// The job that the event is about.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// A JobMaster has answered an offer; offered slots that it does not accept are freed.
    OffersAnswered {
        /// The job that the event is about.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
        /// The allocations that the JobMaster accepts.
        accepted: Vec<AllocationId>,
    },
    /// A JobMaster did not answer an offer, which is repeated after a pause.
    OffersFailed {
        /// The job that the event is about.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
    },
    /// A JobMaster has taken a batch of reports.
    ReportsTaken {
        /// The job that the event is about.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
        /// Attempts that the JobMaster does not know; they are cancelled.
        unknown: Vec<ExecutionAttemptId>,
    },
    /// A JobMaster did not answer a batch of reports, which is repeated after a pause.
    ReportsFailed {
        /// The job that the event is about.
        job: JobId,
        /// Number of the connection to the JobMaster, unique within the process.
        connection: u64,
    },
    /// A job's program host reports states of tasks.
    TaskStates {
        /// The job that the event is about.
        job: JobId,
        /// States in the order in which they came about.
        updates: Vec<TaskStateUpdate>,
    },
    /// Tasks of a deployment were refused by the host or never started; they are forgotten without a report.
    NotDeployed {
        /// The job that the event is about.
        job: JobId,
        /// The execution attempts that are meant.
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
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        at: ResourceManagerId,
    },
    /// The registration was accepted: send the slot report, expect heartbeats.
    ConnectResourceManager {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// Incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
    },
    /// End the connection to this ResourceManager and its heartbeats.
    DropResourceManager {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// Incarnation of this TaskExecutor that the registration made.
        instance: InstanceId,
    },
    /// Tell the ResourceManager that a slot has become free.
    NotifySlotAvailable {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
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
        /// The job that the command is about.
        job: JobId,
        /// The incarnation under which this process is registered.
        instance: InstanceId,
    },
    /// Register again at the job's JobMaster, whose connection was lost.
    ReconnectJob {
        /// The job that the command is about.
        job: JobId,
    },
    /// Stop watching the job's leader: the job has no slots here any more.
    ForgetJob {
        /// The job that the command is about.
        job: JobId,
    },
    /// Expect heartbeats of the JobMaster that has accepted the registration.
    ConnectJobMaster {
        /// The job that the command is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
        /// The incarnation under which it knows this process.
        instance: InstanceId,
    },
    /// End the connection to this JobMaster and its heartbeats.
    DropJobMaster {
        /// The job that the command is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
        /// The incarnation under which it knows this process.
        instance: InstanceId,
        /// The reason that the JobMaster is told; `None`: it is not told.
        tell: Option<FailureCause>,
    },
    /// Launch the job's program host; answered with [`Event::HostUp`] or [`Event::HostLost`].
    LaunchHost {
        /// The job that the command is about.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// The program that the host runs; `None`: this process itself is the program.
        program: Option<BlobKey>,
    },
    /// End the job's program host; answered with [`Event::HostEnded`].
    EndHost {
        /// The job that the command is about.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// True: kill the host; false: let it cancel its tasks first.
        at_once: bool,
    },
    /// Tell the host how much memory it has, because the job's number of slots here has changed.
    ResizeHost {
        /// The job that the command is about.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
    },
    /// Have the job's host cancel these attempts; they report when they have ended.
    CancelOnHost {
        /// The job that the command is about.
        job: JobId,
        /// The execution attempts that are meant.
        attempts: Vec<ExecutionAttemptId>,
    },
    /// Have the job's host end all tasks in a slot that was given back.
    ReleaseSlotOnHost {
        /// The job that the command is about.
        job: JobId,
        /// Allocation of the slot concerned.
        allocation: AllocationId,
    },
    /// Offer slots to a connected JobMaster; answered with [`Event::OffersAnswered`] or [`Event::OffersFailed`].
    OfferSlots {
        /// The job that the command is about.
        job: JobId,
        /// Connection to the job's JobMaster.
        to: Connection,
        /// Slots that are offered.
        slots: Vec<SlotOffer>,
    },
    /// Report states of tasks to the connected JobMaster; answered with [`Event::ReportsTaken`] or [`Event::ReportsFailed`].
    UpdateTaskStates {
        /// The job that the command is about.
        job: JobId,
        /// Connection to the job's JobMaster.
        to: Connection,
        /// States in the order in which they came about.
        updates: Vec<TaskStateUpdate>,
    },
    /// Report a lost slot to the connected JobMaster; answered with [`Event::ReportsTaken`] or [`Event::ReportsFailed`].
    FailSlot {
        /// The job that the command is about.
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
        /// The job that the command is about.
        job: JobId,
    },
    /// End the process with an error.
    Fail {
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// End the process in an orderly way: the ResourceManager does not need it any more.
    End {
        /// The reason as text, for log lines and users.
        reason: String,
    },
}
