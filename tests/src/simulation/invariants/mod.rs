//! What must hold in every run, one file each.
//!
//! An invariant sees facts in order and judges them. It must never steer the run.

pub mod one_leader_per_epoch;
pub mod published_after_answer;
pub mod slot_given_once;
pub mod superseded_changes_nothing;
pub mod workers_within_declared;

use super::observer::Seen;

/// A rule of the whole cluster.
pub trait Invariant: Send {
    /// Its name: its file's.
    fn name(&self) -> &'static str;
    /// A fact; an error says what does not hold.
    fn see(&mut self, seen: &Seen) -> Result<(), String>;
    /// A host starts anew.
    fn host_started(&mut self, _host: &str, _incarnation: u32) {}
}

/// All of them. That jobs settle is judged at the end of a run, see `client.rs`.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<one_leader_per_epoch::OneLeaderPerEpoch>::default(),
        Box::<published_after_answer::PublishedAfterAnswer>::default(),
        Box::<slot_given_once::SlotGivenOnce>::default(),
        Box::<superseded_changes_nothing::SupersededChangesNothing>::default(),
        Box::<workers_within_declared::WorkersWithinDeclared>::default(),
    ]
}
