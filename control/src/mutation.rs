//! Rules broken on purpose, each the reason why one invariant of the simulation exists.
//!
//! Without the feature `mutants` only [`Mutation::None`] can be made, so a product's build holds no
//! broken rule. A core asks [`Mutation::keeps`] at the one place where the rule stands.

/// Declares each rule with the mutation that breaks it.
macro_rules! rules {
    ($($(#[$broken:meta])* $mutation:ident breaks $(#[$kept:meta])* $rule:ident;)*) => {
        /// The one rule that a simulation breaks on purpose, to show that an invariant finds the fault. Production has only
        /// [`Mutation::None`]; the others need the feature `mutants`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub enum Mutation {
            /// No mutation: every rule holds.
            #[default]
            None,
            $($(#[$broken])* #[cfg(feature = "mutants")] $mutation,)*
        }

        /// The rules of the control plane that a [`Mutation`] can break, one each, with and without the feature `mutants`. Code that
        /// depends on a rule asks [`Mutation::keeps`] and behaves wrongly if the answer is false.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Rule {
            $($(#[$kept])* $rule,)*
        }

        impl Mutation {
            /// Every mutation that breaks a rule; [`Mutation::None`] is not among them. The constant exists only with the feature
            /// `mutants`.
            #[cfg(feature = "mutants")]
            pub const ALL: &[Self] = &[$(Self::$mutation),*];

            /// Returns true if this mutation leaves `rule` intact; false if it is the mutation that breaks it.
            /// [`Mutation::None`] keeps all rules.
            pub fn keeps(self, rule: Rule) -> bool {
                match (self, rule) {
                    $(#[cfg(feature = "mutants")] (Self::$mutation, Rule::$rule) => false,)*
                    _ => true,
                }
            }
        }
    };
}

rules! {
    /// The election grants without a new epoch, so that two leaders act under one.
    EpochNotRaised breaks
    /// Every grant has a higher epoch than all earlier ones.
    EpochRises;
    /// The SlotManager counts a slot with a pending request as free.
    PendingSlotIsFree breaks
    /// A slot with a pending request is not free.
    PendingSlotIsTaken;
    /// The ResourceManager accepts declarations of a superseded JobMaster.
    StaleJobMasterDeclares breaks
    /// Only the JobMaster that leads a job may declare its requirements.
    OnlyLeaderDeclares;
    /// A component's address is published when leadership is granted, before it answers.
    PublishAtGrant breaks
    /// An address is published only after the component answers.
    PublishAfterAnswer;
    /// The slots of a lost TaskExecutor are not replaced.
    LostSlotsForgotten breaks
    /// Slots of a lost TaskExecutor are replaced.
    LostSlotsReplaced;
    /// Workers that are under way are not counted when new ones are asked for.
    PendingWorkersUncounted breaks
    /// Workers that are being started count towards the wanted ones.
    PendingWorkersCount;
    /// The fabric delivers a call to an endpoint even if the caller meant another session.
    FenceIgnored breaks
    /// A call reaches an endpoint only in the session that its caller meant.
    FencesCompared;
    /// A TaskExecutor allocates slots for a ResourceManager that it does not follow.
    StaleManagerObeyed breaks
    /// A TaskExecutor obeys only the ResourceManager at which it is registered.
    OnlyFollowedObeyed;
    /// Jobs that wait for slots keep those they have, whoever could run with them.
    WaitingJobsHold breaks
    /// Among waiting jobs, those that are served later yield their slots.
    WaitingJobsYield;
    /// The JobMaster counts the subtasks of a lost slot as finished.
    LostTasksFinish breaks
    /// Subtasks of a lost slot count as failed.
    LostTasksFail;
    /// A call that found an endpoint before it was withdrawn is still let in afterwards.
    WithdrawalIgnored breaks
    /// A withdrawn endpoint lets no call in.
    WithdrawnLetsNothingIn;
    /// A region restarts while some of its attempts still run.
    RestartBeforeEnd breaks
    /// A region restarts only after all of its attempts have ended.
    EndBeforeRestart;
    /// The store overwrites an existing record of a job's log.
    RecordsReplaced breaks
    /// A record of a job's log is never overwritten.
    RecordsStay;
    /// A worker that does not register in time is not released.
    SilentWorkersStay breaks
    /// A worker that does not register in time is released.
    SilentWorkersGo;
    /// A job is recorded without a copy of its program for the next leader.
    ProgramsNotKept breaks
    /// A job is recorded only after its program is kept.
    ProgramsKept;
    /// A checkpoint is announced as complete before its pointer is in the job's log.
    AnnouncedBeforePersisted breaks
    /// A checkpoint is announced only after its pointer is in the job's log.
    PersistedBeforeAnnounced;
    /// Subtasks are restored from the checkpoint before the newest one.
    PreviousRestored breaks
    /// Subtasks are restored from the newest complete checkpoint.
    NewestRestored;
    /// After a restore the numbers of checkpoints start at 1 again.
    NumbersStartAgain breaks
    /// Numbers of checkpoints go on under the next JobMaster after all that were given out before.
    NumbersGoOn;
    /// A new JobMaster begins with the number after the newest complete checkpoint, which its predecessor may have given out.
    CoveredNumbersComeAgain breaks
    /// A new JobMaster leaves out the number that was covered by the newest complete checkpoint.
    CoveredNumbersSpared;
    /// A checkpoint begins without a record of its number.
    NumbersNotRecorded breaks
    /// Nothing is triggered before its number is in the job's log, unless the number is covered.
    NumbersRecorded;
    /// A region restarts while the pointer of a checkpoint is being written.
    RestartDuringPersist breaks
    /// A region restarts only when it is known which checkpoint is the newest.
    PersistedBeforeRestart;
    /// A TaskExecutor passes on what a JobMaster that it does not follow says of checkpoints.
    StaleJobMasterAnnounces breaks
    /// A TaskExecutor passes on only what the JobMaster that it follows says of checkpoints.
    OnlyFollowedAnnounce;
    /// Tasks finish at the end of their data without a final checkpoint.
    FinalCheckpointSkipped breaks
    /// Tasks of a job with checkpoints finish only after a final checkpoint.
    FinalCheckpointAwaited;
}
