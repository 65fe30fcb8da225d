//! The invariants that must hold in every run, one file each, and the broken rules that show that
//! each is judged.
//!
//! An invariant sees what happens in order and judges it. It must never steer the run.

pub mod checkpoints_are_never_lost;
pub mod fenced_changes_nothing;
pub mod finished_after_final_checkpoint;
pub mod finished_by_itself;
pub mod jobs_settle;
pub mod no_worker_is_forgotten;
pub mod one_attempt_runs;
pub mod one_checkpoint_per_number;
pub mod one_leader_per_epoch;
pub mod only_complete_is_announced;
pub mod programs_outlive_leaders;
pub mod published_after_answer;
pub mod slot_given_once;
pub mod superseded_writes_nothing;
pub mod workers_within_declared;

use super::observer::Seen;
#[cfg(feature = "mutants")]
use control::mutation::Mutation;

/// A rule that must hold for the whole cluster in every simulated run. The [`Observer`](super::observer::Observer) shows it all that
/// happens, in order, and records each break as a violation.
pub trait Invariant: Send {
    /// Takes one observation and notes what it needs of it.
    ///
    /// # Errors
    /// The observation breaks the invariant; the text says how, and becomes a violation. The observer goes on showing what happens; the
    /// run ends only if it was to stop at the first violation.
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String>;
    /// Takes that a host starts anew, as the `incarnation`-th process on it (from 1): what the earlier one held in memory is gone. Called
    /// before the new process does anything. Does nothing by default.
    fn host_started(&mut self, _host: &str, _incarnation: u32) {}
    /// Takes that the run is over. Returns a text for each thing that should have come to pass and has not, of which each becomes a
    /// violation; by default none. Called once, but not if the run was stopped at its first violation.
    fn run_ended(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A rule of the control plane that is broken on purpose, the invariant that must find it, and the seed of a run in which it does.
#[cfg(feature = "mutants")]
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// The mutation that breaks the rule.
    pub rule: Mutation,
    /// Name of the invariant that finds it.
    pub invariant: &'static str,
    /// Seed of a run in which the invariant finds it.
    pub seed: u64,
}

/// Declares the functions that list the invariants and their mutants: the module and the type of each invariant, and the rules that are
/// broken to show that it is judged, each with the seed of a run in which the invariant finds that.
macro_rules! invariants {
    ($($module:ident: $invariant:ident [$($rule:ident $seed:literal),* $(,)?],)*) => {
        /// Returns a new value of each invariant, for one run, with its name, which is that of its file; none has seen anything.
        pub fn all() -> Vec<(&'static str, Box<dyn Invariant>)> {
            vec![$((stringify!($module), Box::<$module::$invariant>::default() as Box<dyn Invariant>)),*]
        }

        /// Returns every mutant of every invariant, ordered by the invariants' names.
        #[cfg(feature = "mutants")]
        pub fn mutants() -> Vec<Mutant> {
            let mutant = |invariant, rule, seed| Mutant { rule, invariant, seed };
            vec![$($(mutant(stringify!($module), Mutation::$rule, $seed)),*),*]
        }
    };
}

invariants! {
    checkpoints_are_never_lost: CheckpointsAreNeverLost [PreviousRestored 1],
    fenced_changes_nothing: FencedChangesNothing [
        FenceIgnored 1, WithdrawalIgnored 33, StaleJobMasterDeclares 1, StaleManagerObeyed 4,
        StaleJobMasterAnnounces 4,
    ],
    finished_after_final_checkpoint: FinishedAfterFinalCheckpoint [FinalCheckpointSkipped 1],
    finished_by_itself: FinishedByItself [LostTasksFinish 1],
    jobs_settle: JobsSettle [LostSlotsForgotten 1, WaitingJobsHold 122],
    no_worker_is_forgotten: NoWorkerIsForgotten [SilentWorkersStay 2],
    one_attempt_runs: OneAttemptRuns [RestartBeforeEnd 6],
    one_checkpoint_per_number: OneCheckpointPerNumber [NumbersStartAgain 1, CoveredNumbersComeAgain 1, NumbersNotRecorded 1],
    one_leader_per_epoch: OneLeaderPerEpoch [EpochNotRaised 1],
    only_complete_is_announced: OnlyCompleteIsAnnounced [
        AnnouncedBeforePersisted 1, RestartDuringPersist 292,
    ],
    programs_outlive_leaders: ProgramsOutliveLeaders [ProgramsNotKept 1],
    published_after_answer: PublishedAfterAnswer [PublishAtGrant 2],
    slot_given_once: SlotGivenOnce [PendingSlotIsFree 1],
    superseded_writes_nothing: SupersededWritesNothing [RecordsReplaced 453],
    workers_within_declared: WorkersWithinDeclared [PendingWorkersUncounted 3],
}

#[cfg(all(test, feature = "mutants"))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_invariant_has_a_broken_rule_and_every_broken_rule_an_invariant() {
        let names: BTreeSet<_> = all().iter().map(|(name, _)| *name).collect();
        let found: BTreeSet<_> = mutants().iter().map(|mutant| mutant.invariant).collect();
        assert_eq!(names, found);
        let rules: BTreeSet<_> = mutants().iter().map(|mutant| mutant.rule).collect();
        assert_eq!(rules, Mutation::ALL.iter().copied().collect());
    }
}
