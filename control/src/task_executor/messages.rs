//! Events that a TaskExecutor's core receives, and commands that it gives. Plain values; nothing
//! here decides.

use crate::job_table::Connection;
use model::job::{SlotOffer, TaskStateUpdate};
use model::{
    AllocationId, BlobKey, ExecutionAttemptId, FailureCause, InstanceId, JobId, JobMasterId,
    ResourceManagerId,
};

/// An event that [`TaskExecutor::step`](super::TaskExecutor::step) takes into account: a change of leaders, the outcome of a command, a
/// report of a program host, or that time has passed. The TaskExecutor's actor makes it. Most outcomes name the session, connection or
/// launch that they belong to, and those of an earlier one are ignored; a JobMaster's refusal and a deployment that failed do not, so the
/// actor must not pass them in after a later one.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The leading ResourceManager has changed: this TaskExecutor registers at the new one and drops the former; `None`: none leads now.
    /// Slots and tasks stay. Without a registration within `registration_timeout` the process ends with an error.
    ResourceManager(Option<ResourceManagerId>),
    /// A ResourceManager has accepted this TaskExecutor's registration; ignored unless `by` was asked last and has not answered yet.
    RegistrationAccepted {
        /// Session of the ResourceManager that has answered.
        by: ResourceManagerId,
        /// Id that the ResourceManager gave to this TaskExecutor's registration.
        instance: InstanceId,
    },
    /// A ResourceManager refused the registration, which is tried again later or ends the process (`retry`). Ignored unless `by` was
    /// asked last and has not answered yet.
    RegistrationRefused {
        /// Session of the ResourceManager that has answered.
        by: ResourceManagerId,
        /// The reason as text, for log lines and users.
        reason: String,
        /// True if another attempt may succeed; false: the process ends.
        retry: bool,
    },
    /// A ResourceManager did not answer the registration, or the call failed; it is asked again after a pause. Ignored unless `at`
    /// was asked last and has not answered yet.
    RegistrationFailed {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        at: ResourceManagerId,
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// The ResourceManager's heartbeats have stopped, or it has closed the connection; slots and tasks stay, and the
    /// registration is tried again after a pause. If none succeeds within `registration_timeout`, the process ends with an error. Ignored
    /// unless this process is registered there.
    ResourceManagerLost {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// The ResourceManager wants this process to end ([`Command::End`]); ignored unless this process is registered there.
    ResourceManagerReleases {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// The JobLeaderService, which finds the leaders of jobs, has registered this TaskExecutor at a job's JobMaster: slots are
    /// offered and reports sent to it from now on. A connection to another JobMaster, or under another instance id, is ended before,
    /// as by [`Event::JobMasterLost`]. If the job is not watched any more, only [`Command::ForgetJob`] follows.
    JobMasterGained {
        /// The job that the event is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
        /// The instance id under which the JobMaster knows this process; a ResourceManager gave it.
        instance: InstanceId,
    },
    /// A JobMaster leads no more, is not heard, or has ended the connection: the job's tasks here end with their program host, which is
    /// killed (one that is being launched stays), and its slots wait for the next JobMaster, at most for `slot_timeout`; lost slots and
    /// those that were given back are freed at once. Ignored unless this JobMaster is connected.
    JobMasterLost {
        /// The job that the event is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
        /// The reason as text, for log lines and users.
        reason: String,
        /// True if this TaskExecutor registers at the same JobMaster again after a pause; false: only at the job's next one.
        reconnect: bool,
    },
    /// A JobMaster has refused this TaskExecutor for good: the job's program host is killed and its slots are freed, so that its leader is
    /// no longer watched.
    JobMasterRefused {
        /// The job that the event is about.
        job: JobId,
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// A JobMaster was not heard for so long that it may soon declare this process dead: the job's program host is killed, its
    /// tasks fail and its slots are reported as lost. Ignored unless this JobMaster is connected and a task of the job runs here.
    JobMasterSilent {
        /// The job that the event is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
    },
    /// A job's program host has started and takes tasks: the job's slots are offered to its JobMaster, and `slot_timeout` begins for each.
    /// Ignored unless this launch was under way.
    HostUp {
        /// The job that the event is about.
        job: JobId,
        /// Number of the launch that the event is about, unique within this process; another than the present one is ignored.
        launch: u64,
    },
    /// A job's program host has ended unasked, or could not be launched: its tasks fail and its slots are reported as lost. The slots are
    /// freed when the JobMaster has taken the report, or after `slot_timeout`; slots that were given back are freed at once, without a
    /// report. For a host that was asked to end, this event means the same as [`Event::HostEnded`].
    HostLost {
        /// The job that the event is about.
        job: JobId,
        /// Number of the launch that the event is about, unique within this process; another than the present one is ignored.
        launch: u64,
        /// Failure that is the reason, as users see it.
        cause: FailureCause,
    },
    /// A job's program host that was asked to end has ended; another is launched if the job has got a new slot since, or has a new
    /// JobMaster and slots that wait for it.
    HostEnded {
        /// The job that the event is about.
        job: JobId,
        /// Number of the launch that the event is about, unique within this process; another than the present one is ignored.
        launch: u64,
    },
    /// A JobMaster has answered [`Command::OfferSlots`]; offered slots that it does not accept are freed once no task runs in them.
    OffersAnswered {
        /// The job that the event is about.
        job: JobId,
        /// Number of the connection on which the call was made ([`Connection::number`]); another than the present one is ignored.
        connection: u64,
        /// The allocations that the JobMaster accepts.
        accepted: Vec<AllocationId>,
    },
    /// A JobMaster did not answer an offer, which is repeated after a pause.
    OffersFailed {
        /// The job that the event is about.
        job: JobId,
        /// Number of the connection on which the call was made ([`Connection::number`]); another than the present one is ignored.
        connection: u64,
    },
    /// A JobMaster has taken a batch of reports (states of tasks or a lost slot), which are not sent again.
    ReportsTaken {
        /// The job that the event is about.
        job: JobId,
        /// Number of the connection on which the call was made ([`Connection::number`]); another than the present one is ignored.
        connection: u64,
        /// Attempts in the batch that the JobMaster does not know as current; those that run here are cancelled.
        unknown: Vec<ExecutionAttemptId>,
    },
    /// A JobMaster did not answer a batch of reports, which is repeated after a pause.
    ReportsFailed {
        /// The job that the event is about.
        job: JobId,
        /// Number of the connection on which the call was made ([`Connection::number`]); another than the present one is ignored.
        connection: u64,
    },
    /// A job's program host reports states of tasks, which are passed on to the JobMaster if they are new, and repeated until it has taken
    /// them or is disconnected. Attempts that are unknown here or have ended are ignored; no launch is compared. Slots that were given
    /// back are freed when their last task has ended.
    TaskStates {
        /// The job that the event is about.
        job: JobId,
        /// States in the order in which they came about.
        updates: Vec<TaskStateUpdate>,
    },
    /// Tasks of a deployment were refused by the program host or never started; they are forgotten without a report, because the answer to
    /// the deployment tells the JobMaster.
    NotDeployed {
        /// The job that the event is about.
        job: JobId,
        /// The execution attempts that are meant.
        attempts: Vec<ExecutionAttemptId>,
    },
    /// Time has passed: registrations, offers and reports whose pause is over are repeated, slots that nobody accepted in time are
    /// freed, program hosts whose slots were not released in time are killed, and the process ends ([`Command::Fail`]) if it was
    /// unregistered for too long.
    Tick,
}

/// A command for the caller, as [`TaskExecutor::step`](super::TaskExecutor::step) and the calls return it: to the ResourceManager,
/// JobMasters or program hosts, or to end the process. Commands are carried out in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Send a registration to this ResourceManager; its outcome comes back as one of the `Registration…` events.
    Register {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        at: ResourceManagerId,
    },
    /// The registration was accepted: send the first slot report to this ResourceManager, and expect its heartbeats.
    ConnectResourceManager {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// Id that the ResourceManager gave to this TaskExecutor's registration.
        instance: InstanceId,
    },
    /// End the connection to this ResourceManager and its heartbeats; it leads no more or was lost.
    DropResourceManager {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// Id that the ResourceManager gave to this TaskExecutor's registration.
        instance: InstanceId,
    },
    /// Tell the ResourceManager that a slot has become free. The message may be lost: the next report shows the same.
    NotifySlotAvailable {
        /// Session of the ResourceManager, which tells it from earlier and later ones.
        id: ResourceManagerId,
        /// Id that the ResourceManager gave to this TaskExecutor's registration.
        instance: InstanceId,
        /// Index of the slot in its TaskExecutor.
        index: u32,
        /// The allocation that ended.
        allocation: AllocationId,
    },
    /// Find the job's leading JobMaster, register there ([`Event::JobMasterGained`]) and watch for changes. If the job is watched
    /// already, its instance id is replaced for later registrations.
    WatchJob {
        /// The job that the command is about.
        job: JobId,
        /// The instance id, given by the ResourceManager, under which the JobLeaderService registers this process.
        instance: InstanceId,
    },
    /// Register again at the job's JobMaster, whose connection was lost, after a pause.
    ReconnectJob {
        /// The job that the command is about.
        job: JobId,
    },
    /// Stop watching the job's leader and registering there: the job has no slots here any more.
    ForgetJob {
        /// The job that the command is about.
        job: JobId,
    },
    /// The registration at this JobMaster was accepted: expect its heartbeats.
    ConnectJobMaster {
        /// The job that the command is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
        /// The instance id under which the JobMaster knows this process.
        instance: InstanceId,
    },
    /// End the connection to this JobMaster and its heartbeats: it leads no more, was lost, has refused this process or knows it under
    /// another instance id now, or the job has no slots here any more.
    DropJobMaster {
        /// The job that the command is about.
        job: JobId,
        /// Session of the job's JobMaster, which tells it from earlier and later ones.
        id: JobMasterId,
        /// The instance id under which the JobMaster knows this process.
        instance: InstanceId,
        /// The reason that the JobMaster is told; `None`: it is not told.
        tell: Option<FailureCause>,
    },
    /// Launch the job's program host, the process that runs its tasks here; answered with [`Event::HostUp`] or [`Event::HostLost`], or with
    /// [`Event::HostEnded`] if [`Command::EndHost`] comes first.
    LaunchHost {
        /// The job that the command is about.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// The program that the host runs; `None`: this process itself is the program.
        program: Option<BlobKey>,
    },
    /// End the job's program host; answered with [`Event::HostEnded`] once its process is gone, at once if it was still being launched, and
    /// also if its end was not seen in time. Its tasks are cancelled or killed with it, and no state of theirs is awaited.
    EndHost {
        /// The job that the command is about.
        job: JobId,
        /// Number of the launch, unique within this process.
        launch: u64,
        /// True: kill the host; false: let it cancel its tasks first.
        at_once: bool,
    },
    /// Tell the program host how much memory it has, because it has started or the job has got another slot here; the memory follows from
    /// the number of the job's slots, so that it may also become less: the memory of a freed slot is taken away by the next such command.
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
    /// Have the job's program host end all tasks in a slot that was given back; they report when they have ended.
    ReleaseSlotOnHost {
        /// The job that the command is about.
        job: JobId,
        /// Allocation of the slot concerned.
        allocation: AllocationId,
    },
    /// Offer all slots of the job that no JobMaster has accepted to the connected JobMaster, one call at a time; answered with
    /// [`Event::OffersAnswered`] or [`Event::OffersFailed`].
    OfferSlots {
        /// The job that the command is about.
        job: JobId,
        /// Connection to the job's JobMaster.
        to: Connection,
        /// Slots that are offered.
        slots: Vec<SlotOffer>,
    },
    /// Report states of tasks to the connected JobMaster, one batch at a time; answered with [`Event::ReportsTaken`] or
    /// [`Event::ReportsFailed`].
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
    /// End the process with an error: the registration was refused for good or did not succeed in time.
    Fail {
        /// The reason as text, for log lines and users.
        reason: String,
    },
    /// End the process in an orderly way, because the ResourceManager wants that: the process was idle for too long, its worker or node
    /// was reported as lost, or the cluster ends.
    End {
        /// The reason as text, for log lines and users.
        reason: String,
    },
}
