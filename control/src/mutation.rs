//! Rules broken on purpose, each the reason why one invariant of the simulation exists.
//!
//! Without the feature `mutants` only [`Mutation::None`] can be made, so a product's build holds no
//! broken rule. A core asks `mutation.is(…)` at the one place where the rule stands.

/// A rule that the simulation breaks on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Mutation {
    /// No mutation: every rule holds.
    #[default]
    None,
    /// The election grants without a new epoch, so that two leaders act under one.
    #[cfg(feature = "mutants")]
    EpochNotRaised,
    /// The SlotManager counts a slot with a pending request as free.
    #[cfg(feature = "mutants")]
    PendingSlotIsFree,
    /// The ResourceManager accepts declarations of a superseded JobMaster.
    #[cfg(feature = "mutants")]
    StaleJobMasterDeclares,
    /// A component's address is published when leadership is granted, before it answers.
    #[cfg(feature = "mutants")]
    PublishAtGrant,
    /// The slots of a lost TaskExecutor are not replaced.
    #[cfg(feature = "mutants")]
    LostSlotsForgotten,
    /// Workers that are under way are not counted when new ones are asked for.
    #[cfg(feature = "mutants")]
    PendingWorkersUncounted,
    /// The fabric delivers a call to an endpoint even if the caller meant another session.
    #[cfg(feature = "mutants")]
    FenceIgnored,
    /// A TaskExecutor allocates slots for a ResourceManager that it does not follow.
    #[cfg(feature = "mutants")]
    StaleManagerObeyed,
    /// Waiting jobs keep the slots that they hold, although other jobs could run with them.
    #[cfg(feature = "mutants")]
    WaitingJobsHold,
    /// The JobMaster counts the subtasks of a lost slot as finished.
    #[cfg(feature = "mutants")]
    LostTasksFinish,
    /// A call that found an endpoint before it was withdrawn is still let in afterwards.
    #[cfg(feature = "mutants")]
    WithdrawalIgnored,
    /// A region restarts while some of its attempts still run.
    #[cfg(feature = "mutants")]
    RestartBeforeEnd,
    /// The store overwrites an existing record of a job's log.
    #[cfg(feature = "mutants")]
    RecordsReplaced,
    /// A worker that does not register in time is not released.
    #[cfg(feature = "mutants")]
    SilentWorkersStay,
    /// A job is recorded without a copy of its program for the next leader.
    #[cfg(feature = "mutants")]
    ProgramsNotKept,
    /// A checkpoint is announced as complete before its pointer is in the job's log.
    #[cfg(feature = "mutants")]
    AnnouncedBeforePersisted,
    /// Subtasks are restored from the checkpoint before the newest one.
    #[cfg(feature = "mutants")]
    PreviousRestored,
    /// After a restore the numbers of checkpoints start at 1 again.
    #[cfg(feature = "mutants")]
    NumbersStartAgain,
    /// A region restarts while the pointer of a checkpoint is being written.
    #[cfg(feature = "mutants")]
    RestartDuringPersist,
    /// A TaskExecutor passes on what a JobMaster that it does not follow says of checkpoints.
    #[cfg(feature = "mutants")]
    StaleJobMasterAnnounces,
    /// Tasks finish at the end of their data without a final checkpoint.
    #[cfg(feature = "mutants")]
    FinalCheckpointSkipped,
}

/// The rules, by name, for code that exists with and without the feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Every grant has a higher epoch than all earlier ones.
    EpochRises,
    /// A slot with a pending request is not free.
    PendingSlotIsTaken,
    /// Only the JobMaster that leads a job may declare its requirements.
    OnlyLeaderDeclares,
    /// An address is published only after the component answers.
    PublishAfterAnswer,
    /// Slots of a lost TaskExecutor are replaced.
    LostSlotsReplaced,
    /// Workers that are being started count towards the wanted ones.
    PendingWorkersCount,
    /// A call reaches an endpoint only in the session that its caller meant.
    FencesCompared,
    /// A TaskExecutor obeys only the ResourceManager at which it is registered.
    OnlyFollowedObeyed,
    /// Among waiting jobs, those that are served later yield their slots.
    WaitingJobsGiveWay,
    /// Subtasks of a lost slot count as failed.
    LostTasksFail,
    /// A withdrawn endpoint lets no call in.
    WithdrawnLetsNothingIn,
    /// A region restarts only after all of its attempts have ended.
    EndBeforeRestart,
    /// A record of a job's log is never overwritten.
    RecordsStay,
    /// A worker that does not register in time is released.
    SilentWorkersGo,
    /// A job is recorded only after its program is kept.
    ProgramsKept,
    /// A checkpoint is announced only after its pointer is in the job's log.
    PersistedBeforeAnnounced,
    /// Subtasks are restored from the newest complete checkpoint.
    NewestRestored,
    /// After a restore the numbers of checkpoints continue from the restored one.
    NumbersGoOn,
    /// A region restarts only when it is known which checkpoint is the newest.
    PersistedBeforeRestart,
    /// A TaskExecutor passes on only what the JobMaster that it follows says of checkpoints.
    OnlyFollowedAnnounce,
    /// Tasks of a job with checkpoints finish only after a final checkpoint.
    FinalCheckpointAwaited,
}

impl Mutation {
    /// Returns true if `rule` holds.
    #[cfg(not(feature = "mutants"))]
    pub fn keeps(self, _rule: Rule) -> bool {
        true
    }

    /// Returns true if `rule` holds.
    #[cfg(feature = "mutants")]
    pub fn keeps(self, rule: Rule) -> bool {
        let broken = match self {
            Self::None => None,
            Self::EpochNotRaised => Some(Rule::EpochRises),
            Self::PendingSlotIsFree => Some(Rule::PendingSlotIsTaken),
            Self::StaleJobMasterDeclares => Some(Rule::OnlyLeaderDeclares),
            Self::PublishAtGrant => Some(Rule::PublishAfterAnswer),
            Self::LostSlotsForgotten => Some(Rule::LostSlotsReplaced),
            Self::PendingWorkersUncounted => Some(Rule::PendingWorkersCount),
            Self::FenceIgnored => Some(Rule::FencesCompared),
            Self::StaleManagerObeyed => Some(Rule::OnlyFollowedObeyed),
            Self::WaitingJobsHold => Some(Rule::WaitingJobsGiveWay),
            Self::LostTasksFinish => Some(Rule::LostTasksFail),
            Self::WithdrawalIgnored => Some(Rule::WithdrawnLetsNothingIn),
            Self::RestartBeforeEnd => Some(Rule::EndBeforeRestart),
            Self::RecordsReplaced => Some(Rule::RecordsStay),
            Self::SilentWorkersStay => Some(Rule::SilentWorkersGo),
            Self::ProgramsNotKept => Some(Rule::ProgramsKept),
            Self::AnnouncedBeforePersisted => Some(Rule::PersistedBeforeAnnounced),
            Self::PreviousRestored => Some(Rule::NewestRestored),
            Self::NumbersStartAgain => Some(Rule::NumbersGoOn),
            Self::RestartDuringPersist => Some(Rule::PersistedBeforeRestart),
            Self::StaleJobMasterAnnounces => Some(Rule::OnlyFollowedAnnounce),
            Self::FinalCheckpointSkipped => Some(Rule::FinalCheckpointAwaited),
        };
        broken != Some(rule)
    }

    /// All mutations, each of which breaks one rule.
    #[cfg(feature = "mutants")]
    pub const ALL: [Self; 21] = [
        Self::EpochNotRaised,
        Self::PendingSlotIsFree,
        Self::StaleJobMasterDeclares,
        Self::PublishAtGrant,
        Self::LostSlotsForgotten,
        Self::PendingWorkersUncounted,
        Self::FenceIgnored,
        Self::StaleManagerObeyed,
        Self::WaitingJobsHold,
        Self::LostTasksFinish,
        Self::WithdrawalIgnored,
        Self::RestartBeforeEnd,
        Self::RecordsReplaced,
        Self::SilentWorkersStay,
        Self::ProgramsNotKept,
        Self::AnnouncedBeforePersisted,
        Self::PreviousRestored,
        Self::NumbersStartAgain,
        Self::RestartDuringPersist,
        Self::StaleJobMasterAnnounces,
        Self::FinalCheckpointSkipped,
    ];
}
