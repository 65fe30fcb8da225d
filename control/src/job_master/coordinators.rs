//! The coordinators of the job's operators, by groups of regions that share them: started before the first region of the group is
//! deployed, told when a region starts anew, and started anew with the whole group when they fail.
//!
//! An enumerator has a record of what it has assigned since the newest complete checkpoint. A region starts anew without the other ones of
//! its group only from that checkpoint. No checkpoint must begin between the failure and the time at which the enumerators have taken back
//! what the region had: it would have these splits neither with the region nor with the enumerator.

use super::{Command, JobCore, Now, Phase};
use crate::checkpoints;
use crate::execution_graph::TaskIndex;
use crate::restart::NO_RESOURCE;
use crate::scheduler::{GroupIndex, RegionIndex};
use model::{ExecutionAttemptId, FailureCause, OperatorId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Pause before the job declares its slots again, after no place was free for its coordinators' program host.
const PLACE_RETRY: Duration = Duration::from_secs(5);

/// The coordinators of a region, in the JobManager-side host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Coordinators {
    /// The region has no coordinators.
    Absent,
    /// The coordinators have to be started once a region of their group has its slots.
    #[default]
    Down,
    /// The coordinators are being started.
    Starting,
    /// The coordinators run and answer messages.
    Up,
}

/// The state of a group of regions that share coordinators.
#[derive(Debug, Clone, Default)]
pub(super) struct GroupState {
    coordinators: Coordinators,
    /// The number of the latest start of its coordinators.
    round: u64,
    /// The number of the newest checkpoint that has become complete since, or else of the one that they were started with.
    checkpoint: Option<u64>,
}

impl JobCore {
    fn group(&self, group: GroupIndex) -> Option<&GroupState> {
        self.groups.get(group.0 as usize)
    }

    pub(super) fn coordinators_of(&self, region: RegionIndex) -> Coordinators {
        let group = self.regions.group_of(region).and_then(|group| self.group(group));
        group.map_or(Coordinators::Absent, |group| group.coordinators)
    }

    pub(super) fn coordinators_of_operator(&self, operator: OperatorId) -> Coordinators {
        let vertex = self.coordinated.get(&operator);
        let task = vertex.map(|vertex| TaskIndex(self.exec.tasks_of(*vertex).start));
        let region = task.and_then(|task| self.regions.of_task(task));
        region.map_or(Coordinators::Absent, |region| self.coordinators_of(region))
    }

    pub(super) fn some_coordinators_are(&self, state: Coordinators) -> bool {
        self.groups.iter().any(|group| group.coordinators == state)
    }

    fn regions_in(&self, group: GroupIndex) -> Vec<RegionIndex> {
        self.regions.group(group).map(|group| group.regions.clone()).unwrap_or_default()
    }

    /// Returns the number of the checkpoint that tasks and coordinators are restored from now.
    pub(super) fn restored_checkpoint(&self) -> Option<u64> {
        self.checkpoints.restored_from().map(|restored| restored.checkpoint)
    }

    /// Returns true if a checkpoint can have what the region's coordinators hold: they take a snapshot, or the region waits for slots,
    /// so that the latest checkpoint has their state. Not while they have to take back what the region's former attempts had.
    pub(super) fn may_be_in_checkpoint(&self, region: RegionIndex) -> bool {
        let answers =
            matches!(self.coordinators_of(region), Coordinators::Absent | Coordinators::Up);
        let waits = matches!(self.phase(region), Phase::Waiting { .. });
        (answers || waits) && !self.is_reset(region)
    }

    /// Returns true if the region has no coordinators, or they are up and have taken back what its former attempts had. Starts them if
    /// they are down.
    pub(super) fn has_coordinators(&mut self, region: RegionIndex) -> bool {
        let Some(group) = self.regions.group_of(region) else { return true };
        if self.coordinators_of(region) == Coordinators::Down {
            self.start_coordinators(group);
        }
        self.coordinators_of(region) == Coordinators::Up && !self.is_reset(region)
    }

    /// Returns true while the region's enumerators have to take back what its former attempts had.
    fn is_reset(&self, region: RegionIndex) -> bool {
        self.states.get(region.0 as usize).is_some_and(|state| state.reset.is_some())
    }

    fn start_coordinators(&mut self, group: GroupIndex) {
        self.round += 1;
        let (round, checkpoint) = (self.round, self.restored_checkpoint());
        if let Some(state) = self.groups.get_mut(group.0 as usize) {
            *state = GroupState { coordinators: Coordinators::Starting, round, checkpoint };
        }
        let operators = self.regions.group(group).map(|g| g.operators.clone()).unwrap_or_default();
        let restore = self.checkpoints.restored_from().into_iter();
        let restore = restore
            .flat_map(|latest| checkpoints::coordinator_state(latest))
            .filter(|(operator, _)| operators.contains(operator))
            .map(|(operator, state)| (operator, state.clone()))
            .collect();
        self.regions_in(group).into_iter().for_each(|region| self.note_restore(region));
        self.out.push(Command::StartCoordinators { round, operators, restore });
    }

    /// Handles the outcome of [`Command::StartCoordinators`] with this `round`; another round is ignored. On success those regions of the
    /// group are deployed that have all their slots; the others once they have them. If there was no place for the program host (kind
    /// [`NO_RESOURCE`]), the regions give their slots back and try again after 5 s. On another failure the group's regions fail, and the
    /// restart strategy decides what follows.
    pub fn coordinators_started(
        &mut self,
        now: Now,
        round: u64,
        outcome: Result<(), FailureCause>,
    ) {
        let Some(group) = self.group_of_round(round) else { return };
        let state = self.groups.get_mut(group.0 as usize);
        let Some(state) = state.filter(|state| state.coordinators == Coordinators::Starting) else {
            return;
        };
        match outcome {
            Ok(()) => {
                state.coordinators = Coordinators::Up;
                self.deploy_ready(self.regions_in(group), now);
            }
            Err(cause) if cause.kind == NO_RESOURCE => self.rest_without_host(group, now),
            Err(cause) => self.coordinators_failed(now, |failed| failed == group, cause),
        }
    }

    /// Returns the group whose coordinators were started last with this number.
    fn group_of_round(&self, round: u64) -> Option<GroupIndex> {
        let place = self.groups.iter().position(|state| state.round == round)?;
        u32::try_from(place).ok().map(GroupIndex).filter(|_| round > 0)
    }

    /// Returns the slots of a group's waiting regions because no place is free for the coordinators' program host; the job declares them
    /// again after [`PLACE_RETRY`]. If the job kept its slots, two jobs could wait for each other: this one for a place
    /// that the other holds, the other for these slots.
    fn rest_without_host(&mut self, group: GroupIndex, now: Now) {
        self.stop_coordinators(|stopped| stopped == group);
        let mut regions = self.regions_in(group);
        regions.retain(|region| matches!(self.phase(*region), Phase::Waiting { .. }));
        if !regions.is_empty() {
            self.give_back_idle(&regions);
        }
        let resume = now.mono.saturating_add(PLACE_RETRY);
        regions.iter().for_each(|region| self.enter_phase(*region, Phase::Resting { resume }));
    }

    /// Records that the coordinators of groups have ended or are to be started anew.
    pub(super) fn stop_coordinators(&mut self, whose: impl Fn(GroupIndex) -> bool) {
        for (group, state) in (0..).map(GroupIndex).zip(&mut self.groups) {
            if whose(group) {
                state.coordinators = Coordinators::Down;
                let regions = self.regions.group(group).into_iter().flat_map(|g| &g.regions);
                for region in regions {
                    if let Some(state) = self.states.get_mut(region.0 as usize) {
                        state.reset = None;
                    }
                }
            }
        }
    }

    /// Records that a checkpoint is complete: the coordinators that run have a record of what they have assigned since. One that was being
    /// started took no part, and has the state that it was started with in this checkpoint, too.
    pub(super) fn coordinators_continue_from(&mut self, checkpoint: u64) {
        for state in &mut self.groups {
            state.checkpoint = Some(checkpoint);
        }
    }

    /// Returns the regions that have to restart with the failed ones, these included. The coordinators of a group go on if they take back
    /// what the failed regions had of them since the checkpoint that these restart from; otherwise they, and so all regions of the group,
    /// start anew.
    pub(super) fn with_regions_to_restart(&mut self, failed: Vec<RegionIndex>) -> Vec<RegionIndex> {
        let groups: BTreeSet<GroupIndex> = failed
            .iter()
            .filter_map(|region| self.regions.group_of(*region))
            .filter(|group| !self.goes_on(*group))
            .collect();
        let mut regions: BTreeSet<RegionIndex> = failed.into_iter().collect();
        for group in &groups {
            let others = self.regions_in(*group).into_iter();
            regions.extend(others.filter(|region| {
                matches!(self.phase(*region), Phase::Waiting { .. } | Phase::Active)
            }));
        }
        self.stop_coordinators(|group| groups.contains(&group));
        regions.into_iter().collect()
    }

    /// Returns true if the regions of a group may restart one by one: its coordinators go on, or none run.
    fn goes_on(&self, group: GroupIndex) -> bool {
        let (Some(state), Some(of)) = (self.group(group), self.regions.group(group)) else {
            return true;
        };
        let takes_back = of.takes_back && state.checkpoint == self.restored_checkpoint();
        takes_back || state.coordinators == Coordinators::Down
    }

    /// Has the enumerators that go on take back what the attempts of these regions, which begin anew, have had of them since the
    /// checkpoint that the regions restart from. Each group has a command of its own, so that an enumerator that fails or is slow holds up
    /// no other group. To be called when it is known which checkpoint that is, and before new attempts are made.
    pub(super) fn reset_subtasks(&mut self, regions: &[RegionIndex]) {
        let mut by_group: BTreeMap<GroupIndex, Vec<RegionIndex>> = BTreeMap::new();
        for region in regions {
            let Some(group) = self.regions.group_of(*region) else { continue };
            // The others have been started since: a region of the group that ended late begins anew after them.
            let takes_back = self.regions.group(group).is_some_and(|group| group.takes_back);
            if takes_back && self.coordinators_of(*region) == Coordinators::Up {
                by_group.entry(group).or_default().push(*region);
            }
        }
        by_group.into_values().for_each(|regions| self.reset_in_group(&regions));
    }

    /// Does [`JobCore::reset_subtasks`] for regions of one group.
    fn reset_in_group(&mut self, regions: &[RegionIndex]) {
        let mut attempts: BTreeMap<OperatorId, Vec<ExecutionAttemptId>> = BTreeMap::new();
        self.round += 1;
        let (round, checkpoint) = (self.round, self.restored_checkpoint());
        for region in regions {
            for task in self.tasks_of(*region) {
                let (vertex, _) = self.exec.split(task);
                for (operator, _) in self.coordinated.iter().filter(|(_, of)| **of == vertex) {
                    attempts.entry(*operator).or_default().extend(self.exec.attempt_id(task));
                }
            }
            if let Some(state) = self.region_state(*region) {
                state.reset = Some(round);
            }
        }
        self.out.push(Command::ResetSubtasks { round, attempts, checkpoint });
    }

    /// Handles the outcome of [`Command::ResetSubtasks`] with this `round`; another round is ignored. On success the regions are deployed,
    /// if they have all their slots; otherwise once they have them. On failure the coordinators have failed, and all regions that they
    /// serve with them: the restart strategy decides what follows.
    pub fn subtasks_reset(&mut self, now: Now, round: u64, outcome: Result<(), FailureCause>) {
        let states = (0..).map(RegionIndex).zip(&mut self.states);
        let reset = states.filter(|(_, state)| state.reset == Some(round));
        let regions: Vec<RegionIndex> = reset
            .map(|(region, state)| {
                state.reset = None;
                region
            })
            .collect();
        match outcome {
            Ok(()) => {
                self.deploy_ready(regions, now);
                self.settle(now);
            }
            Err(cause) => {
                let groups: BTreeSet<GroupIndex> =
                    regions.iter().filter_map(|region| self.regions.group_of(*region)).collect();
                self.coordinators_failed(now, |group| groups.contains(&group), cause);
            }
        }
    }

    /// Handles the report that a coordinator started in `round` (the number of the start) has failed: all regions of its group fail with
    /// it, and the restart strategy decides what follows. While results are published, all regions with coordinators fail, or the job is
    /// cancelled if the user has asked for that meanwhile. A report of an earlier start changes nothing: it may be repeated until it is
    /// answered, and arrive when the coordinators have been started anew.
    pub fn coordinator_reported(&mut self, now: Now, round: u64, cause: FailureCause) {
        match self.group_of_round(round) {
            // The other coordinators have been notified, or are being notified, that the job has
            // ended: no task needs them any more.
            Some(_) if self.publishing => self.coordinator_host_lost(now, cause),
            Some(group) => self.coordinators_failed(now, |failed| failed == group, cause),
            None => {}
        }
    }

    /// Handles the end of the program host that runs the job's coordinators: all regions whose coordinators are starting or run fail, and
    /// the restart strategy decides whether they run again. If the user has cancelled the job while results were being published, it is
    /// cancelled instead. Does nothing if there is no such region or the job is ending.
    pub fn coordinator_host_lost(&mut self, now: Now, cause: FailureCause) {
        self.coordinators_failed(now, |_| true, cause);
    }

    /// Handles that the start of coordinators with the number `round` has found a new program host instead of the known one: the
    /// coordinators in the known one have ended with it, and their regions fail with `cause`. Those are spared that this start, or a later
    /// one whose outcome is still to come, makes: they are in the new host or a newer one. To be called before
    /// [`JobCore::coordinators_started`] for that start.
    pub fn coordinator_host_replaced(&mut self, now: Now, round: u64, cause: FailureCause) {
        let is_spared = |group: &GroupIndex| {
            self.group(*group).is_some_and(|state| {
                let is_starting = state.coordinators == Coordinators::Starting;
                state.round == round || (state.round > round && is_starting)
            })
        };
        let groups = self.regions.groups().map(|(group, _)| group);
        let spared: BTreeSet<GroupIndex> = groups.filter(is_spared).collect();
        self.coordinators_failed(now, |group| !spared.contains(&group), cause);
    }

    /// Fails the regions of those of these groups whose coordinators are starting or up.
    fn coordinators_failed(
        &mut self,
        now: Now,
        whose: impl Fn(GroupIndex) -> bool,
        cause: FailureCause,
    ) {
        let started = |group: &GroupIndex| {
            let state = self.group(*group).map(|group| group.coordinators);
            whose(*group) && matches!(state, Some(Coordinators::Starting | Coordinators::Up))
        };
        let groups: BTreeSet<GroupIndex> =
            self.regions.groups().map(|(group, _)| group).filter(started).collect();
        if !self.is_live() || groups.is_empty() {
            return;
        }
        self.stop_coordinators(|group| groups.contains(&group));
        if self.publishing && self.cancel_requested {
            self.publishing = false;
            self.cancel(now);
            return;
        }
        let regions: Vec<RegionIndex> =
            groups.iter().flat_map(|group| self.regions_in(*group)).collect();
        self.fail_regions(&regions, cause, None, now);
    }
}
