//! The invariants that must hold in every run, one file each, with the broken rules that show that
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
    /// Returns the name of the invariant, which is that of its file.
    fn name(&self) -> &'static str;
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

/// Returns a new value of each invariant, for one run; none has seen anything.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<checkpoints_are_never_lost::CheckpointsAreNeverLost>::default(),
        Box::<fenced_changes_nothing::FencedChangesNothing>::default(),
        Box::<finished_after_final_checkpoint::FinishedAfterFinalCheckpoint>::default(),
        Box::<finished_by_itself::FinishedByItself>::default(),
        Box::<jobs_settle::JobsSettle>::default(),
        Box::<no_worker_is_forgotten::NoWorkerIsForgotten>::default(),
        Box::<one_attempt_runs::OneAttemptRuns>::default(),
        Box::<one_checkpoint_per_number::OneCheckpointPerNumber>::default(),
        Box::<one_leader_per_epoch::OneLeaderPerEpoch>::default(),
        Box::<only_complete_is_announced::OnlyCompleteIsAnnounced>::default(),
        Box::<programs_outlive_leaders::ProgramsOutliveLeaders>::default(),
        Box::<published_after_answer::PublishedAfterAnswer>::default(),
        Box::<slot_given_once::SlotGivenOnce>::default(),
        Box::<superseded_writes_nothing::SupersededWritesNothing>::default(),
        Box::<workers_within_declared::WorkersWithinDeclared>::default(),
    ]
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

/// Returns every mutant of every invariant, ordered by the invariants' names.
#[cfg(feature = "mutants")]
pub fn mutants() -> Vec<Mutant> {
    [
        ("checkpoints_are_never_lost", checkpoints_are_never_lost::MUTANTS),
        ("fenced_changes_nothing", fenced_changes_nothing::MUTANTS),
        ("finished_after_final_checkpoint", finished_after_final_checkpoint::MUTANTS),
        ("finished_by_itself", finished_by_itself::MUTANTS),
        ("jobs_settle", jobs_settle::MUTANTS),
        ("no_worker_is_forgotten", no_worker_is_forgotten::MUTANTS),
        ("one_attempt_runs", one_attempt_runs::MUTANTS),
        ("one_checkpoint_per_number", one_checkpoint_per_number::MUTANTS),
        ("one_leader_per_epoch", one_leader_per_epoch::MUTANTS),
        ("only_complete_is_announced", only_complete_is_announced::MUTANTS),
        ("programs_outlive_leaders", programs_outlive_leaders::MUTANTS),
        ("published_after_answer", published_after_answer::MUTANTS),
        ("slot_given_once", slot_given_once::MUTANTS),
        ("superseded_writes_nothing", superseded_writes_nothing::MUTANTS),
        ("workers_within_declared", workers_within_declared::MUTANTS),
    ]
    .into_iter()
    .flat_map(|(invariant, mutants)| {
        mutants.iter().map(move |&(rule, seed)| Mutant { rule, invariant, seed })
    })
    .collect()
}

#[cfg(all(test, feature = "mutants"))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_invariant_has_a_broken_rule_and_every_broken_rule_an_invariant() {
        let names: BTreeSet<_> = all().iter().map(|invariant| invariant.name()).collect();
        let found: BTreeSet<_> = mutants().iter().map(|mutant| mutant.invariant).collect();
        assert_eq!(names, found);
        let rules: BTreeSet<_> = mutants().iter().map(|mutant| mutant.rule).collect();
        assert_eq!(rules, Mutation::ALL.iter().copied().collect());
    }
}
