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

/// A rule of the whole cluster.
pub trait Invariant: Send {
    /// Name of the invariant: that of its file.
    fn name(&self) -> &'static str;
    /// Something has happened; an error says what does not hold.
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String>;
    /// Called when a host starts anew.
    fn host_started(&mut self, _host: &str, _incarnation: u32) {}
    /// The run is over: what should have come to pass and has not.
    fn run_ended(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Returns all invariants.
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

/// A broken rule, the invariant that must find it, and a seed in which it does.
#[cfg(feature = "mutants")]
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// Rule that is broken.
    pub rule: Mutation,
    /// Name of the invariant that finds it.
    pub invariant: &'static str,
    /// Seed of a run in which the invariant finds it.
    pub seed: u64,
}

/// Returns every mutant of every invariant.
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
