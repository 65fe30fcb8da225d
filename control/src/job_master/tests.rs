mod checkpoints;
mod resets;
mod savepoints;

use super::*;
use crate::checkpoints::CheckpointConfig;
use crate::mutation::Mutation;
use crate::restart::{NO_RESOURCE, RestartSpec};
use crate::slot_pool::Registration;
use crate::testing::{picked, task_manager, tm_name};
use model::job::{SlotOffer, TaskIo, TaskStateUpdate};
use model::testing::{coordinate, edge, enumerate, graph, state_of, vertex};
use model::{
    AllocationId, ExecutionState, InstanceId, JobVertexId, ResourceId, ResourceProfile,
    ResourceRequirement, ShipStrategy,
};
use proptest::prelude::*;

fn at(ms: u64) -> Now {
    Now { mono: Duration::from_millis(ms), unix_ms: 1_000_000 + ms }
}

fn config(restart: RestartPolicy) -> JobConfig {
    JobConfig {
        restart,
        slot_timeout: Duration::from_secs(300),
        history: 16,
        graph_id: 5,
        seed: 1,
        initialized_ms: 999_000,
        mutation: Mutation::None,
        checkpoints: CheckpointConfig::default(),
    }
}

fn patient() -> RestartPolicy {
    RestartPolicy::chosen(RestartSpec::FixedDelay {
        attempts: u32::MAX,
        delay: Duration::from_secs(1),
    })
}

fn cause(kind: &str) -> FailureCause {
    FailureCause::recoverable(kind, "it broke")
}

fn not_stored(why: &str) -> FailureCause {
    FailureCause::recoverable("StateNotStored", why)
}

/// The report of a state that has a cause if it is FAILED.
fn report(attempt: ExecutionAttemptId, state: ExecutionState) -> TaskStateUpdate {
    let cause = (state == ExecutionState::Failed).then(|| cause("TaskFailed"));
    TaskStateUpdate { cause, ..state_of(attempt, state) }
}

/// A core, its commands, and TaskExecutors that carry them out.
struct World {
    core: JobCore,
    now: u64,
    seen: Vec<Command>,
    /// Commands of the core that were not taken by the test yet.
    queued: Vec<Command>,
    next_allocation: u128,
}

impl World {
    fn new(graph: JobGraph, restart: RestartPolicy) -> Self {
        assert_eq!(crate::job_graph::check(&graph), Ok(()));
        let core = JobCore::new(Arc::new(graph), config(restart), at(0));
        Self::of(core)
    }
    fn of(core: JobCore) -> Self {
        Self { core, now: 0, seen: Vec::new(), queued: Vec::new(), next_allocation: 0 }
    }
    fn started(graph: JobGraph, restart: RestartPolicy) -> Self {
        let mut world = Self::new(graph, restart);
        world.core.start(at(0));
        world
    }
    /// Starts a job on a TaskExecutor with so many slots. Returns the attempts that are deployed there.
    fn deployed(graph: JobGraph, slots: u32) -> (Self, Vec<ExecutionAttemptId>) {
        let mut world = Self::started(graph, patient());
        world.tm(1, slots);
        let tasks = deployed(&world.commands());
        (world, tasks)
    }
    /// Starts a pair with coordinators, and these, so that its four tasks are deployed.
    fn coordinated() -> (Self, Vec<ExecutionAttemptId>) {
        let (mut world, _) = Self::deployed(coordinated_pair(), 2);
        world.coordinators_up();
        let tasks = deployed(&world.commands());
        (world, tasks)
    }
    fn now(&self) -> Now {
        at(self.now)
    }
    fn commands(&mut self) -> Vec<Command> {
        self.record_numbers();
        let commands = std::mem::take(&mut self.queued);
        self.seen.extend(commands.clone());
        commands
    }
    /// Lets the job's log take the numbers of checkpoints.
    fn record_numbers(&mut self) {
        loop {
            let commands = self.core.take_commands();
            if commands.is_empty() {
                return;
            }
            let numbers = picked!(commands, Command::RecordCheckpointNumber(number) => *number);
            self.queued.extend(commands);
            for number in numbers {
                self.core.checkpoint_number_recorded(self.now(), number, Ok(()));
            }
        }
    }
    /// The attempts that have not ended, in the slots of this TaskExecutor.
    fn running_on(&self, n: u32) -> Vec<ExecutionAttemptId> {
        let (core, mut attempts) = (&self.core, Vec::new());
        for (allocation, slot) in core.pool.slots_on(&tm_name(n)) {
            for index in core.plan.tasks_in(&core.exec, slot) {
                let live = core.exec.task(index).filter(|task| !task.state.is_terminal());
                let placed = live.and_then(|task| task.placement.as_ref());
                if placed.is_some_and(|placement| placement.allocation == allocation) {
                    attempts.extend(core.exec.attempt_id(index));
                }
            }
        }
        attempts
    }
    fn tm(&mut self, n: u32, slots: u32) -> Vec<AllocationId> {
        self.core.register_task_manager(self.now(), task_manager(n, 1));
        self.offer(n, slots)
    }
    fn offer(&mut self, n: u32, slots: u32) -> Vec<AllocationId> {
        let offers: Vec<SlotOffer> = (0..slots)
            .map(|index| {
                self.next_allocation += 1;
                SlotOffer {
                    allocation_id: AllocationId(self.next_allocation),
                    index,
                    profile: ResourceProfile { cpu_millis: 1000, ..ResourceProfile::default() },
                }
            })
            .collect();
        let host = format!("host{n}:1");
        self.core.offer(self.now(), &tm_name(n), InstanceId(1), &offers, &host).unwrap()
    }
    fn report(
        &mut self,
        n: u32,
        attempt: ExecutionAttemptId,
        state: ExecutionState,
    ) -> Vec<ExecutionAttemptId> {
        self.update(n, report(attempt, state))
    }
    /// Reports this state of all of them from the first TaskExecutor.
    fn report_all(&mut self, attempts: &[ExecutionAttemptId], state: ExecutionState) {
        for attempt in attempts {
            self.report(1, *attempt, state);
        }
    }
    fn update(&mut self, n: u32, update: TaskStateUpdate) -> Vec<ExecutionAttemptId> {
        self.core.update_tasks(self.now(), &tm_name(n), InstanceId(1), vec![update]).unwrap()
    }
    fn coordinators_up(&mut self) {
        self.core.coordinators_started(self.now(), self.core.round, Ok(()));
    }
    fn yield_slots(&mut self, slots: u32) {
        let profile = ResourceProfile::unknown();
        self.core.yield_slots(self.now(), &[ResourceRequirement { profile, slots }]);
    }
    fn pass(&mut self, ms: u64) {
        self.now += ms;
        self.core.tick(self.now());
    }
}

/// The attempts in deployments.
fn deployed(commands: &[Command]) -> Vec<ExecutionAttemptId> {
    placed(commands).into_iter().map(|(_, attempt)| attempt).collect()
}

/// (TaskExecutor, attempt) of everything in deployments.
fn placed(commands: &[Command]) -> Vec<(String, ExecutionAttemptId)> {
    let deployments = picked!(commands, Command::Deploy(deployment) => deployment).into_iter();
    deployments
        .flat_map(|d| d.tasks.iter().map(|t| (d.task_manager.resource_id.0.clone(), t.attempt)))
        .collect()
}

fn cancelled(commands: &[Command]) -> Vec<ExecutionAttemptId> {
    picked!(commands, Command::CancelTasks { attempts, .. } => attempts.clone()).concat()
}

fn pair(parallelism: u32) -> JobGraph {
    model::testing::pair(parallelism, parallelism, ShipStrategy::Hash)
}

fn coordinated_pair() -> JobGraph {
    let mut graph = pair(2);
    coordinate(&mut graph, 1);
    graph
}

#[test]
fn a_started_job_declares_the_whole_amount_and_deploys_when_all_slots_are_there() {
    let mut w = World::started(pair(2), patient());
    let first = w.commands();
    assert_eq!(first[0], Command::StatusChanged(JobStatus::Running));
    let Command::Declare(needs) = &first[1] else { panic!("{first:?}") };
    assert_eq!(needs.iter().map(|r| r.slots).collect::<Vec<_>>(), [2]);
    w.tm(1, 1);
    assert_eq!(deployed(&w.commands()), []);
    w.tm(2, 1);
    let sent = w.commands();
    let on: Vec<String> = placed(&sent).into_iter().map(|(tm, _)| tm).collect();
    assert_eq!(on, ["tm1", "tm1", "tm2", "tm2"]);
    assert_eq!(w.core.execution().in_state(ExecutionState::Deploying), 4);
}

#[test]
fn surplus_slots_are_not_accepted() {
    let mut w = World::started(pair(2), patient());
    assert_eq!(w.tm(1, 5).len(), 2);
}

#[test]
fn a_job_without_coordinators_finishes_with_its_last_task() {
    let (mut w, tasks) = World::deployed(pair(1), 1);
    for attempt in &tasks {
        assert_eq!(w.report(1, *attempt, ExecutionState::Running), []);
        w.report(1, *attempt, ExecutionState::Finished);
    }
    assert!(w.commands().contains(&Command::Ended(JobStatus::Finished)));
    let details = w.core.details(w.now());
    assert_eq!(details.status, JobStatus::Finished);
    assert_eq!(details.end_ms, Some(1_000_000));
    assert_eq!(w.core.requirements(), []);
}

#[test]
fn coordinators_start_before_tasks_and_publish_before_finished() {
    let mut w = World::started(coordinated_pair(), patient());
    w.tm(1, 2);
    let sent = w.commands();
    assert!(sent.contains(&start_of(1)));
    assert_eq!(deployed(&sent), []);
    w.coordinators_up();
    let tasks = deployed(&w.commands());
    assert_eq!(tasks.len(), 4);
    w.report_all(&tasks, ExecutionState::Finished);
    assert!(w.commands().contains(&Command::PublishResults { round: 2 }));
    assert_eq!(w.core.status(), JobStatus::Running);
    w.core.results_published(w.now(), 2, Ok(()));
    assert_eq!(w.core.status(), JobStatus::Finished);
}

fn start_of(round: u64) -> Command {
    let operators = BTreeSet::from([OperatorId(1)]);
    Command::StartCoordinators { round, operators, restore: vec![] }
}

fn starts_coordinators(commands: &[Command]) -> bool {
    commands.iter().any(|command| matches!(command, Command::StartCoordinators { .. }))
}

#[test]
fn a_job_that_waits_for_slots_starts_no_coordinators() {
    let mut w = World::started(coordinated_pair(), patient());
    w.tm(1, 1);
    assert!(!starts_coordinators(&w.commands()));
    w.tm(2, 1);
    assert!(starts_coordinators(&w.commands()));
    w.offer(2, 1);
    assert!(!starts_coordinators(&w.commands()), "once");
}

#[test]
fn slots_go_back_for_a_while_where_coordinators_find_no_place_for_their_host() {
    let mut w = World::started(coordinated_pair(), RestartPolicy::chosen(RestartSpec::None));
    for _ in 0..3 {
        let slots = if w.now == 0 { w.tm(1, 2) } else { w.offer(1, 2) };
        assert!(starts_coordinators(&w.commands()));
        w.core.coordinators_started(w.now(), w.core.round, Err(cause(NO_RESOURCE)));
        let sent = w.commands();
        assert_eq!(sent[0], Command::Declare(w.core.requirements()), "before they are freed");
        assert_eq!(w.core.requirements().iter().map(|r| r.slots).sum::<u32>(), 0);
        assert_eq!(freed(&sent), slots);
        assert_eq!(w.core.status(), JobStatus::Running, "it is no failure");
        w.pass(5000);
        assert_eq!(w.core.requirements().iter().map(|r| r.slots).sum::<u32>(), 2);
    }
    w.offer(1, 2);
    w.coordinators_up();
    assert_eq!(deployed(&w.commands()).len(), 4);
}

#[test]
fn a_publication_that_fails_runs_the_job_again() {
    let (mut w, tasks) = World::coordinated();
    w.report_all(&tasks, ExecutionState::Finished);
    w.commands();
    w.core.results_published(w.now(), 2, Err(cause("CoordinatorFailed")));
    assert_eq!(w.core.status(), JobStatus::Restarting);
    w.pass(1000);
    assert!(w.commands().contains(&start_of(3)));
    w.coordinators_up();
    let again = deployed(&w.commands());
    assert_eq!(again.iter().map(|a| a.attempt).collect::<Vec<_>>(), [1, 1, 1, 1]);
}

#[test]
fn cancelling_while_results_are_published_is_too_late_unless_that_fails() {
    for (outcome, end) in
        [(Ok(()), JobStatus::Finished), (Err(cause("CoordinatorFailed")), JobStatus::Canceled)]
    {
        let (mut w, tasks) = World::coordinated();
        w.report_all(&tasks, ExecutionState::Finished);
        w.core.cancel(w.now());
        assert_eq!(w.core.status(), JobStatus::Running);
        w.core.results_published(w.now(), 2, outcome);
        assert_eq!(w.core.status(), end);
    }
}

#[test]
fn a_failed_task_takes_its_region_with_it_and_both_start_anew_after_the_delay() {
    let (mut w, tasks) = World::deployed(pair(2), 2);
    w.report(1, tasks[0], ExecutionState::Running);
    w.report(1, tasks[1], ExecutionState::Failed);
    let sent = w.commands();
    assert_eq!(w.core.status(), JobStatus::Restarting);
    assert_eq!(cancelled(&sent), [tasks[0], tasks[2], tasks[3]]);
    w.pass(5000);
    assert_eq!(deployed(&w.commands()), [], "nothing starts while the old attempts live");
    // One of them ended before the word reached it, one fails with what the first one's end did to it.
    w.report(1, tasks[0], ExecutionState::Canceled);
    w.report(1, tasks[2], ExecutionState::Finished);
    w.report(1, tasks[3], ExecutionState::Failed);
    w.pass(0);
    let again = deployed(&w.commands());
    assert_eq!(again.len(), 4);
    assert!(again.iter().all(|a| a.attempt == 1));
    assert_eq!(w.core.status(), JobStatus::Running);
    let details = w.core.details(w.now());
    assert_eq!((details.restarts, details.failures.len()), (1, 1));
    assert_eq!(details.failures[0].task.as_deref(), Some("v1 (2/2)"));
    assert_eq!(details.failures[0].resource_id, Some(tm_name(1)));
    // The superseded attempts are strangers now: those that still run are to be ended.
    assert_eq!(w.report(1, tasks[0], ExecutionState::Running), [tasks[0]]);
    assert_eq!(w.report(1, tasks[0], ExecutionState::Failed), []);
}

#[test]
fn what_a_failure_did_to_others_gives_way_to_the_failure_itself() {
    let (mut w, tasks) = World::deployed(pair(2), 2);
    let fail = |w: &mut World, task: usize, kind: &str| {
        let cause = Some(cause(kind));
        let failed = state_of(tasks[task], ExecutionState::Failed);
        w.update(1, TaskStateUpdate { cause, ..failed });
    };
    fail(&mut w, 0, "DataConnectionLost");
    fail(&mut w, 1, "DataConnectionLost");
    fail(&mut w, 2, "ProgramHostLost");
    fail(&mut w, 3, "ProgramHostLost");
    let details = w.core.details(w.now());
    let kinds = |records: &[FailureRecord]| -> Vec<String> {
        records.iter().map(|record| record.cause.kind.clone()).collect()
    };
    assert_eq!(kinds(&details.failures), ["ProgramHostLost"]);
    assert_eq!(kinds(&details.failures[0].concurrent), ["DataConnectionLost"]);
    assert_eq!(details.restarts, 1);
}

#[test]
fn regions_that_are_not_connected_do_not_fall_together() {
    let forward = model::testing::pair(2, 2, ShipStrategy::Forward);
    let (mut w, tasks) = World::deployed(forward, 2);
    w.report(1, tasks[0], ExecutionState::Failed);
    let partner = *tasks.iter().find(|a| a.vertex == JobVertexId(2) && a.subtask == 0).unwrap();
    assert_eq!(cancelled(&w.commands()), [partner]);
}

#[test]
fn without_restarts_the_job_fails_with_its_cause() {
    let mut w = World::started(pair(1), RestartPolicy::chosen(RestartSpec::None));
    w.tm(1, 1);
    let tasks = deployed(&w.commands());
    w.report(1, tasks[0], ExecutionState::Failed);
    assert_eq!(w.core.status(), JobStatus::Failing);
    w.report(1, tasks[1], ExecutionState::Canceled);
    assert_eq!(w.core.status(), JobStatus::Failed);
    assert_eq!(w.core.details(w.now()).cause, Some(cause("TaskFailed")));
    assert!(w.commands().contains(&Command::Ended(JobStatus::Failed)));
}

#[test]
fn a_failure_from_outside_of_the_tasks_is_in_the_history_with_its_time() {
    let mut w = World::started(pair(1), patient());
    w.core.fail(at(7), cause("CheckpointUnreadable"));
    w.core.fail(at(8), cause("Another"));
    let details = w.core.details(at(9));
    assert_eq!(details.status, JobStatus::Failed);
    let shown: Vec<_> =
        details.failures.iter().map(|record| (record.at_ms, record.cause.kind.as_str())).collect();
    assert_eq!(shown, [(1_000_007, "CheckpointUnreadable")]);
}

#[test]
fn a_lost_task_executor_is_replaced_by_another_ones_slot() {
    let (mut w, _) = World::deployed(pair(2), 1);
    w.tm(2, 1);
    w.commands();
    w.core.task_manager_lost(w.now(), &tm_name(2), InstanceId(1), &cause("TaskManagerLost"));
    let sent = w.commands();
    assert_eq!(cancelled(&sent).len(), 2);
    assert!(sent.iter().any(|c| matches!(c, Command::Declare(_))));
    assert_eq!(w.running_on(1).len(), 2);
    w.report_all(&w.running_on(1), ExecutionState::Canceled);
    w.tm(3, 1);
    w.pass(1000);
    let again = placed(&w.commands());
    let on: Vec<&str> = again.iter().map(|(tm, _)| tm.as_str()).collect();
    assert_eq!(on, ["tm1", "tm1", "tm3", "tm3"]);
}

#[test]
fn a_stale_loss_of_an_earlier_incarnation_changes_nothing() {
    let (mut w, _) = World::deployed(pair(1), 1);
    w.core.task_manager_lost(w.now(), &tm_name(1), InstanceId(9), &cause("TaskManagerLost"));
    assert_eq!(w.commands(), []);
}

#[test]
fn a_task_executor_that_registers_in_a_new_incarnation_has_lost_everything() {
    let (mut w, _) = World::deployed(pair(1), 1);
    let registration = w.core.register_task_manager(w.now(), task_manager(1, 2));
    assert!(matches!(registration, Registration::Replaced { .. }));
    assert_eq!(w.core.status(), JobStatus::Restarting);
}

#[test]
fn too_few_slots_fail_the_job_with_the_resource_managers_words() {
    let mut w = World::started(pair(8), RestartPolicy::unset());
    w.tm(1, 4);
    w.core.not_enough_resources(w.now(), "needs 8 slots of any size, 4 registered, 0 free");
    assert_eq!(w.core.status(), JobStatus::Failed);
    let details = w.core.details(w.now());
    let cause = details.cause.unwrap();
    assert_eq!(cause.kind, NO_RESOURCE);
    assert!(cause.message.contains("needs 8 slots"));
}

#[test]
fn a_shortage_that_is_over_is_not_believed() {
    let mut w = World::started(pair(2), RestartPolicy::unset());
    w.tm(1, 2);
    w.core.not_enough_resources(w.now(), "late");
    assert_eq!(w.core.status(), JobStatus::Running);
}

fn freed(commands: &[Command]) -> Vec<AllocationId> {
    picked!(commands, Command::FreeSlot { allocation, .. } => *allocation)
}

/// The slots of the newest declaration.
fn declared(commands: &[Command]) -> Option<u32> {
    picked!(commands, Command::Declare(all) => all.iter().map(|r| r.slots).sum()).pop()
}

#[test]
fn regions_that_are_not_connected_run_one_after_the_other_where_slots_are_few() {
    let mut w = World::started(graph(vec![vertex(1, 5)], vec![]), patient());
    let slots = w.tm(1, 2);
    let mut ran = 0;
    for left in (0..5).rev() {
        let commands = w.commands();
        let tasks = deployed(&commands);
        ran += tasks.len();
        w.report_all(&tasks, ExecutionState::Running);
        let next = w.running_on(1)[0];
        w.report(1, next, ExecutionState::Finished);
        if left == 0 {
            break;
        }
        let commands = w.core.take_commands();
        assert_eq!(declared(&commands), Some(left));
        let expected = if left == 1 { 1 } else { 0 };
        assert_eq!(freed(&commands).len(), expected, "what nothing needs any more");
        w.core.out.extend(commands);
    }
    assert_eq!((ran, slots.len()), (5, 2));
    assert!(w.commands().contains(&Command::Ended(JobStatus::Finished)));
}

/// Two vertices that are not connected, in sharing groups of their own.
fn two_groups(parallelism: u32) -> JobGraph {
    let mut other = vertex(2, parallelism);
    other.slot_sharing_group = "other".into();
    graph(vec![vertex(1, parallelism), other], vec![])
}

#[test]
fn what_finished_last_serves_what_runs_again_when_publishing_failed() {
    let mut graph = two_groups(2);
    coordinate(&mut graph, 1);
    let mut w = World::started(graph, patient());
    w.tm(1, 2);
    w.coordinators_up();
    for _ in 0..2 {
        let tasks = deployed(&w.commands());
        assert_eq!(tasks.len(), 2);
        for attempt in tasks {
            w.report(1, attempt, ExecutionState::Running);
            w.report(1, attempt, ExecutionState::Finished);
        }
    }
    assert!(w.commands().iter().any(|c| matches!(c, Command::PublishResults { .. })));
    w.core.results_published(w.now(), w.core.round, Err(cause("PublishFailed")));
    w.pass(60_000);
    // Slots that were freed in between come back.
    w.offer(1, 2);
    w.coordinators_up();
    assert_eq!(deployed(&w.commands()).len(), 2, "the coordinated ones");
    assert_eq!(w.core.requirements().iter().map(|r| r.slots).sum::<u32>(), 2);
}

#[test]
fn a_bounded_job_that_gets_on_waits_for_its_own_slots_however_long() {
    let mut w = World::started(graph(vec![vertex(1, 5)], vec![]), patient());
    w.tm(1, 2);
    for _ in 0..4 {
        w.pass(200_000);
        w.core.not_enough_resources(w.now(), "needs 5 slots");
        let next = w.running_on(1)[0];
        w.report(1, next, ExecutionState::Finished);
    }
    assert_eq!(w.core.status(), JobStatus::Running);
    let unbounded = JobGraph { bounded: false, ..graph(vec![vertex(1, 5)], vec![]) };
    let mut w = World::started(unbounded, RestartPolicy::chosen(RestartSpec::None));
    w.tm(1, 2);
    w.pass(400_000);
    assert_eq!(w.core.status(), JobStatus::Failing, "what runs never ends");
}

#[test]
fn slots_that_are_spread_over_regions_are_brought_together_before_any_fails() {
    let mut vertices: Vec<_> = (1..=4).map(|n| vertex(n, 2)).collect();
    for vertex in &mut vertices[2..] {
        vertex.slot_sharing_group = "other".into();
    }
    let edges = vec![edge(0, 1, 2, ShipStrategy::Hash), edge(1, 3, 4, ShipStrategy::Hash)];
    let mut w = World::started(graph(vertices, edges), patient());
    // Each TaskManager has a slot of each region; one is lost.
    for n in [1, 2] {
        w.core.register_task_manager(w.now(), task_manager(n, 1));
    }
    w.offer(1, 1);
    w.offer(2, 2);
    w.offer(1, 1);
    let tasks = deployed(&w.commands());
    assert_eq!(tasks.len(), 8);
    w.core.task_manager_lost(w.now(), &tm_name(2), InstanceId(1), &cause("TaskManagerLost"));
    w.report_all(&w.running_on(1), ExecutionState::Canceled);
    w.pass(60_000);
    assert_eq!(deployed(&w.commands()), []);
    w.core.not_enough_resources(w.now(), "needs 4 slots");
    assert_eq!(deployed(&w.commands()).len(), 4, "one of the regions");
    assert_eq!(w.core.status(), JobStatus::Running);
}

#[test]
fn a_job_that_yields_frees_what_it_can_not_use_yet_and_no_more_than_is_wanted() {
    let mut w = World::started(pair(3), patient());
    let part = w.tm(1, 2);
    w.commands();
    w.yield_slots(1);
    assert_eq!(freed(&w.commands()), part[1..], "one of two");
    w.yield_slots(9);
    assert_eq!(freed(&w.commands()), part[..1]);
    assert_eq!(w.core.slots_on(&tm_name(1)), []);
    // Words about them are late.
    for accepted in [false, true] {
        w.core.slot_failed(w.now(), &tm_name(1), part[0], accepted, &cause("ProgramHostLost"));
    }
    let again = SlotOffer { allocation_id: part[0], index: 0, profile: ResourceProfile::default() };
    let taken = w.core.offer(w.now(), &tm_name(1), InstanceId(1), &[again], "host1:1");
    assert_eq!((w.core.status(), taken), (JobStatus::Running, Ok(vec![])));
    // It waits on, and takes slots when they come.
    w.tm(2, 3);
    assert_eq!(deployed(&w.commands()).len(), 6);
    w.yield_slots(9);
    assert_eq!(freed(&w.commands()), [], "what runs is kept");
}

#[test]
fn what_could_not_be_given_is_given_when_a_region_finishes() {
    let mut w = World::started(graph(vec![vertex(1, 5)], vec![]), patient());
    let part = w.tm(1, 2);
    w.yield_slots(1);
    assert_eq!(freed(&w.commands()), []);
    for expected in [1, 0] {
        let next = w.running_on(1)[0];
        w.report(1, next, ExecutionState::Finished);
        assert_eq!(freed(&w.commands()).len(), expected, "of {part:?}");
    }
}

#[test]
fn a_job_that_yields_keeps_what_waits_for_coordinators_only_or_for_its_turn_to_restart() {
    let mut w = World::started(coordinated_pair(), patient());
    w.tm(1, 2);
    w.yield_slots(9);
    assert_eq!(freed(&w.commands()), []);
    w.coordinators_up();
    let tasks = deployed(&w.commands());
    w.report(1, tasks[0], ExecutionState::Failed);
    w.report_all(&tasks[1..], ExecutionState::Canceled);
    w.yield_slots(9);
    assert_eq!(freed(&w.commands()), []);
}

#[test]
fn waiting_for_slots_ends_at_its_time_out() {
    let mut w = World::started(pair(2), RestartPolicy::unset());
    w.pass(299_999);
    assert_eq!(w.core.status(), JobStatus::Running);
    w.pass(1);
    assert_eq!(w.core.status(), JobStatus::Failed);
}

#[test]
fn cancel_ends_a_waiting_job_at_once_and_a_running_one_with_its_tasks() {
    let mut w = World::started(pair(1), patient());
    w.core.cancel(at(1));
    assert_eq!(w.core.status(), JobStatus::Canceled);

    let (mut w, tasks) = World::coordinated();
    w.core.cancel(at(1));
    assert_eq!(cancelled(&w.commands()).len(), 4);
    for attempt in &tasks {
        assert_eq!(w.core.status(), JobStatus::Cancelling);
        w.report(1, *attempt, ExecutionState::Canceled);
    }
    let sent = w.commands();
    assert_eq!(sent[sent.len() - 3], Command::AbandonResults);
    assert!(sent.contains(&Command::Ended(JobStatus::Canceled)));
}

#[test]
fn cancelling_goes_on_when_a_task_executor_never_answers_and_is_lost() {
    let (mut w, _) = World::deployed(pair(1), 1);
    w.core.cancel(at(1));
    assert_eq!(w.core.status(), JobStatus::Cancelling);
    w.core.task_manager_lost(at(2), &tm_name(1), InstanceId(1), &cause("TaskManagerLost"));
    assert_eq!(w.core.status(), JobStatus::Canceled);
}

/// Two pipelines that exchange nothing, each of two subtasks with a coordinator, both running: their attempts.
fn two_coordinated() -> (World, [Vec<(u32, ExecutionAttemptId)>; 2]) {
    let mut graph = two_groups(2);
    coordinate(&mut graph, 1);
    coordinate(&mut graph, 2);
    let mut w = World::started(graph, patient());
    w.tm(1, 2);
    w.tm(2, 2);
    let starts = starts(&w.commands());
    let expected = [BTreeSet::from([OperatorId(1)]), BTreeSet::from([OperatorId(2)])];
    assert_eq!(starts.iter().map(|(_, of)| of.clone()).collect::<Vec<_>>(), expected);
    let mut tasks = Vec::new();
    for (round, _) in starts {
        w.core.coordinators_started(w.now(), round, Ok(()));
        tasks.extend(placed(&w.commands()));
    }
    assert_eq!(tasks.len(), 4);
    let tasks = tasks.into_iter().map(|(tm, attempt)| (1 + u32::from(tm == tm_name(2).0), attempt));
    let tasks: Vec<_> = tasks.collect();
    for (tm, attempt) in &tasks {
        w.report(*tm, *attempt, ExecutionState::Running);
    }
    w.commands();
    let of =
        |vertex| tasks.iter().copied().filter(|(_, a)| a.vertex == JobVertexId(vertex)).collect();
    (w, [of(1), of(2)])
}

fn starts(commands: &[Command]) -> Vec<(u64, BTreeSet<OperatorId>)> {
    picked!(commands, Command::StartCoordinators { round, operators, .. } => {
        (*round, operators.clone())
    })
}

#[test]
fn a_pipeline_restarts_without_the_others_and_their_coordinators() {
    let (mut w, [first, second]) = two_coordinated();
    w.core.coordinator_reported(at(1), 1, cause("CoordinatorFailed"));
    assert_eq!(w.core.route_event(&first[0].1, OperatorId(1)), Err(Unroutable::StaleAttempt));
    assert_eq!(w.core.route_event(&second[0].1, OperatorId(2)), Ok(()));
    assert_eq!(w.core.route_event(&second[0].1, OperatorId(1)), Err(Unroutable::NoSuchOperator));
    let expected: BTreeSet<_> = first.iter().map(|(_, attempt)| *attempt).collect();
    assert_eq!(cancelled(&w.commands()).into_iter().collect::<BTreeSet<_>>(), expected);
    for (tm, attempt) in &first {
        w.report(*tm, *attempt, ExecutionState::Canceled);
    }
    w.pass(60_000);
    let starts = starts(&w.commands());
    assert_eq!(starts, [(3, BTreeSet::from([OperatorId(1)]))]);
    w.coordinators_up();
    assert_eq!(deployed(&w.commands()).len(), 2);
    assert_eq!(w.core.route_event(&second[0].1, OperatorId(2)), Ok(()));
}

#[test]
fn a_host_of_coordinators_that_is_gone_or_replaced_restarts_all_that_it_served() {
    let (mut w, [first, second]) = two_coordinated();
    w.core.coordinator_host_replaced(at(1), 1, cause("CoordinatorHostLost"));
    assert_eq!(
        w.core.route_event(&first[0].1, OperatorId(1)),
        Ok(()),
        "its start found the new one"
    );
    assert_eq!(w.core.route_event(&second[0].1, OperatorId(2)), Err(Unroutable::StaleAttempt));
    w.core.coordinator_host_lost(at(1), cause("CoordinatorHostLost"));
    assert_eq!(w.core.route_event(&first[0].1, OperatorId(1)), Err(Unroutable::StaleAttempt));
}

#[test]
fn coordinators_that_are_started_again_outlive_the_host_that_an_earlier_start_of_them_finds() {
    let (mut w, [first, second]) = two_coordinated();
    w.core.coordinator_reported(at(1), 1, cause("CoordinatorFailed"));
    for (tm, attempt) in &first {
        w.report(*tm, *attempt, ExecutionState::Canceled);
    }
    w.pass(60_000);
    assert_eq!(starts(&w.commands()).iter().map(|(round, _)| *round).collect::<Vec<_>>(), [3]);
    // Only now it is heard which host the first start has found.
    w.core.coordinator_host_replaced(w.now(), 1, cause("CoordinatorHostLost"));
    assert_eq!(w.core.route_event(&second[0].1, OperatorId(2)), Err(Unroutable::StaleAttempt));
    w.commands();
    w.coordinators_up();
    assert_eq!(deployed(&w.commands()).len(), 2, "the third start goes on");
}

#[test]
fn a_dead_coordinator_host_is_a_failover_of_the_job() {
    let (mut w, tasks) = World::coordinated();
    let operator = OperatorId(1);
    assert_eq!(w.core.route_event(&tasks[0], operator), Ok(()));
    w.core.coordinator_reported(at(1), 0, cause("CoordinatorFailed"));
    assert_eq!(w.core.route_event(&tasks[0], operator), Ok(()), "of an earlier start");
    w.core.coordinator_host_lost(at(1), cause("CoordinatorHostLost"));
    assert_eq!(w.core.route_event(&tasks[0], operator), Err(Unroutable::StaleAttempt));
    assert_eq!(w.core.route_request(operator), Err(Unroutable::Unavailable));
    w.report_all(&tasks, ExecutionState::Canceled);
    w.commands();
    w.pass(1001);
    assert!(w.commands().iter().any(|c| matches!(c, Command::StartCoordinators { .. })));
    w.coordinators_up();
    let again = deployed(&w.commands());
    assert_eq!(w.core.route_event(&again[0], operator), Ok(()));
    assert_eq!(w.core.route_event(&tasks[0], operator), Err(Unroutable::StaleAttempt));
    assert_eq!(w.core.route_event(&again[3], operator), Err(Unroutable::NoSuchOperator));
    assert_eq!(w.core.route_request(OperatorId(77)), Err(Unroutable::NoSuchOperator));
}

#[test]
fn a_deployment_of_unknown_outcome_is_failed_and_cancelled_there() {
    let (mut w, attempts) = World::deployed(pair(1), 1);
    w.core.deploy_answered(w.now(), &tm_name(1), &attempts, Err(cause("DeploymentFailed")));
    assert_eq!(cancelled(&w.commands()), attempts);
    assert_eq!(w.core.status(), JobStatus::Restarting);
}

#[test]
fn one_refused_task_of_a_deployment_fails_its_region() {
    let (mut w, attempts) = World::deployed(pair(1), 1);
    let refused = vec![(attempts[0], cause("Refused"))];
    w.core.deploy_answered(w.now(), &tm_name(1), &attempts, Ok(refused));
    assert_eq!(cancelled(&w.commands()), attempts[1..]);
}

#[test]
fn full_reports_bring_both_sides_together() {
    let mut w = World::started(pair(1), patient());
    let slots = w.tm(1, 1);
    let attempts = deployed(&w.commands());
    let now = w.now();
    w.core.deploy_answered(now, &tm_name(1), &attempts, Ok(vec![]));
    let io = TaskIo { records_in: 7, ..TaskIo::default() };
    let running = |attempt| TaskStateUpdate { io, ..state_of(attempt, ExecutionState::Running) };
    let stranger = ExecutionAttemptId { graph: 99, ..attempts[0] };
    let report = |w: &mut World, tasks: Vec<TaskStateUpdate>| {
        w.core.reconcile(now, &tm_name(1), InstanceId(1), &slots, tasks);
        w.commands()
    };
    let sent = report(&mut w, vec![running(attempts[0]), running(attempts[1]), running(stranger)]);
    assert_eq!(cancelled(&sent), [stranger]);
    assert_eq!(w.core.details(now).vertices[0].subtasks[0].io.records_in, 7);
    // A report that was made before the deployment misses it; the second one in a row is believed.
    report(&mut w, vec![running(attempts[0])]);
    assert_eq!(w.core.status(), JobStatus::Running);
    report(&mut w, vec![running(attempts[0])]);
    assert_eq!(w.core.status(), JobStatus::Restarting);
    // Told to cancel, still running: told again.
    let sent = report(&mut w, vec![running(attempts[0])]);
    assert_eq!(cancelled(&sent), [attempts[0]]);
}

#[test]
fn a_slot_that_is_not_held_is_freed_and_two_reports_without_a_held_one_lose_it() {
    let (mut w, _) = World::deployed(pair(1), 1);
    let stranger = AllocationId(99);
    w.core.reconcile(w.now(), &tm_name(1), InstanceId(1), &[stranger], vec![]);
    let freed =
        |c: &Command| matches!(c, Command::FreeSlot { allocation, .. } if *allocation == stranger);
    assert!(w.commands().iter().any(freed));
    assert_eq!(w.core.status(), JobStatus::Running);
    w.core.reconcile(w.now(), &tm_name(1), InstanceId(1), &[], vec![]);
    assert_eq!(w.core.status(), JobStatus::Restarting);
}

#[test]
fn a_slot_whose_host_can_not_be_started_fails_those_that_wait_for_it() {
    let mut w = World::started(pair(1), patient());
    let now = w.now();
    w.core.register_task_manager(now, task_manager(1, 1));
    let failed = cause("ProgramHostLost");
    w.core.slot_failed(now, &tm_name(1), AllocationId(7), true, &failed);
    assert_eq!(w.core.status(), JobStatus::Running, "accepted once, and not held any more: late");
    w.core.slot_failed(now, &tm_name(1), AllocationId(7), false, &failed);
    assert_eq!(w.core.status(), JobStatus::Restarting);
    assert_eq!(w.core.details(now).failures[0].cause, cause("ProgramHostLost"));
    w.core.slot_failed(now, &tm_name(1), AllocationId(7), false, &failed);
    let failures = w.core.details(now).failures;
    assert_eq!(failures.len(), 1, "the report came again because its answer was lost");
}

#[test]
fn a_slot_is_held_while_one_of_its_tasks_runs() {
    let mut w = World::started(pair(1), patient());
    let slots = w.tm(1, 1);
    let attempts = deployed(&w.commands());
    assert_eq!((w.core.slots_on(&tm_name(1)), w.running_on(1)), (slots.clone(), attempts.clone()));
    w.report(1, attempts[0], ExecutionState::Finished);
    assert_eq!((w.core.slots_on(&tm_name(1)), w.running_on(1)), (slots, vec![attempts[1]]));
}

#[test]
fn twenty_thousand_tasks_are_one_table_and_one_deployment_per_task_executor() {
    let mut w = World::started(pair(10_000), patient());
    w.commands();
    for n in 0..500 {
        w.tm(n, 20);
    }
    let sent = w.commands();
    let deployments = picked!(sent, Command::Deploy(deployment) => deployment);
    assert_eq!(deployments.len(), 500);
    let table = &deployments[0].producers[0];
    assert_eq!((table.subtasks.len(), table.addresses.len()), (10_000, 500));
    assert!(deployments.iter().all(|d| d.tasks.len() == 40 && Arc::ptr_eq(&d.producers[0], table)));
    for deployment in deployments {
        let running = ExecutionState::Running;
        let updates = deployment.tasks.iter().map(|task| state_of(task.attempt, running));
        let tm = deployment.task_manager.resource_id.clone();
        w.core.update_tasks(at(1), &tm, InstanceId(1), updates.collect()).unwrap();
    }
    assert_eq!(w.core.execution().in_state(ExecutionState::Running), 20_000);
}

mod under_any_sequence {
    //! Whatever happens and in whatever order, nothing runs twice, and once the cluster heals the job
    //! finishes.

    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Step {
        Register(u32),
        Offer(u32),
        Lose(u32),
        Report(usize, u8),
        Answer(usize, bool),
        FullReport(u32),
        Coordinators(bool),
        NoPlace,
        CoordinatorFailed,
        Published(bool),
        Shortage,
        Pass(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u32..4).prop_map(Step::Register),
            4 => (0u32..4).prop_map(Step::Offer),
            1 => (0u32..4).prop_map(Step::Lose),
            6 => (any::<usize>(), 0u8..4).prop_map(|(i, s)| Step::Report(i, s)),
            3 => (any::<usize>(), prop::bool::weighted(0.9)).prop_map(|(i, ok)| Step::Answer(i, ok)),
            2 => (0u32..4).prop_map(Step::FullReport),
            3 => prop::bool::weighted(0.8).prop_map(Step::Coordinators),
            1 => Just(Step::NoPlace),
            1 => Just(Step::CoordinatorFailed),
            2 => any::<bool>().prop_map(Step::Published),
            1 => Just(Step::Shortage),
            3 => (0u16..2000).prop_map(Step::Pass),
        ]
    }

    #[derive(Default)]
    struct Tm {
        instance: u128,
        up: bool,
        tasks: BTreeMap<ExecutionAttemptId, ExecutionState>,
    }

    struct Cluster {
        core: JobCore,
        now: u64,
        tms: Vec<Tm>,
        unanswered: Vec<(u32, u128, Vec<ExecutionAttemptId>)>,
        allocation: u128,
        starting: Vec<u64>,
        resetting: Vec<u64>,
        publishing: Option<u64>,
        ended: Vec<JobStatus>,
        ever_deployed: BTreeSet<ExecutionAttemptId>,
    }

    impl Cluster {
        fn obey(&mut self) {
            for command in self.core.take_commands() {
                assert!(self.ended.is_empty(), "after the end: {command:?}");
                match command {
                    Command::Deploy(d) => self.deploy(d),
                    Command::CancelTasks { task_manager, attempts } => {
                        let tm = self.index(&task_manager.resource_id);
                        for attempt in attempts {
                            if let Some(state) = self.tms[tm].tasks.get_mut(&attempt)
                                && !state.is_terminal()
                            {
                                *state = ExecutionState::Canceled;
                            }
                        }
                    }
                    Command::StartCoordinators { round, .. } => self.starting.push(round),
                    Command::ResetSubtasks { round, .. } => self.resetting.push(round),
                    Command::PublishResults { round } => self.publishing = Some(round),
                    Command::Ended(status) => self.ended.push(status),
                    _ => {}
                }
            }
        }

        fn index(&self, resource: &ResourceId) -> usize {
            resource.0.trim_start_matches("tm").parse().unwrap()
        }

        fn deploy(&mut self, d: Deployment) {
            let tm = self.index(&d.task_manager.resource_id);
            let ids: Vec<_> = d.tasks.iter().map(|t| t.attempt).collect();
            for attempt in &ids {
                assert!(self.ever_deployed.insert(*attempt), "deployed twice: {attempt}");
                let twin = self.tms.iter().flat_map(|tm| &tm.tasks).find(|(other, state)| {
                    (other.vertex, other.subtask) == (attempt.vertex, attempt.subtask)
                        && !state.is_terminal()
                });
                assert_eq!(twin, None, "two attempts of one subtask run");
            }
            let tm_state = &mut self.tms[tm];
            if tm_state.up && tm_state.instance == d.task_manager.instance_id.0 {
                for attempt in &ids {
                    tm_state.tasks.insert(*attempt, ExecutionState::Running);
                }
            }
            let consumers = ids.iter().filter(|a| a.vertex == JobVertexId(2));
            for (attempt, table) in consumers.flat_map(|a| d.producers.iter().map(move |t| (a, t)))
            {
                let (_, address) = table.subtasks[attempt.subtask as usize];
                assert!((address as usize) < table.addresses.len());
            }
            self.unanswered.push((tm as u32, d.task_manager.instance_id.0, ids));
        }

        fn now(&self) -> Now {
            at(self.now)
        }

        fn apply(&mut self, step: Step) {
            let now = self.now();
            match step {
                Step::Register(n) => {
                    let tm = &mut self.tms[n as usize];
                    if !tm.up {
                        tm.instance += 1;
                        tm.up = true;
                        tm.tasks.clear();
                    }
                    let instance = tm.instance;
                    self.core.register_task_manager(now, task_manager(n, instance));
                }
                Step::Offer(n) if self.tms[n as usize].up => {
                    self.allocation += 1;
                    let offer = SlotOffer {
                        allocation_id: AllocationId(self.allocation),
                        index: 0,
                        profile: ResourceProfile::default(),
                    };
                    let instance = InstanceId(self.tms[n as usize].instance);
                    let _ =
                        self.core.offer(now, &tm_name(n), instance, &[offer], &format!("h{n}:1"));
                }
                Step::Lose(n) => {
                    let tm = &mut self.tms[n as usize];
                    tm.up = false;
                    tm.tasks.clear();
                    let instance = InstanceId(tm.instance);
                    self.core.task_manager_lost(
                        now,
                        &tm_name(n),
                        instance,
                        &cause("TaskManagerLost"),
                    );
                }
                Step::Report(which, state) => self.report(which, state),
                Step::Answer(which, ok) => self.answer(which, ok),
                Step::FullReport(n) => self.full_report(n),
                Step::Coordinators(ok) => {
                    let outcome = if ok { Ok(()) } else { Err(cause("CoordinatorFailed")) };
                    if let Some(round) = self.starting.pop() {
                        self.core.coordinators_started(now, round, outcome.clone());
                    }
                    if let Some(round) = self.resetting.pop() {
                        self.core.subtasks_reset(now, round, outcome);
                    }
                }
                Step::NoPlace => {
                    if let Some(round) = self.starting.pop() {
                        self.core.coordinators_started(now, round, Err(cause(NO_RESOURCE)));
                    }
                }
                Step::CoordinatorFailed => {
                    self.core.coordinator_host_lost(now, cause("CoordinatorHostLost"))
                }
                Step::Published(ok) => {
                    if let Some(round) = self.publishing.take() {
                        let outcome = if ok { Ok(()) } else { Err(cause("CoordinatorFailed")) };
                        self.core.results_published(now, round, outcome);
                    }
                }
                Step::Shortage => self.core.not_enough_resources(now, "none left"),
                Step::Pass(ms) => {
                    self.now += u64::from(ms);
                    self.core.tick(self.now());
                }
                Step::Offer(_) => {}
            }
            self.obey();
        }

        fn report(&mut self, which: usize, state: u8) {
            let all: Vec<(u32, ExecutionAttemptId, ExecutionState)> = (0u32..)
                .zip(&self.tms)
                .flat_map(|(n, tm)| tm.tasks.iter().map(move |(id, state)| (n, *id, *state)))
                .collect();
            if all.is_empty() {
                return;
            }
            let (n, attempt, mut current) = all[which % all.len()];
            if !current.is_terminal() {
                current = [
                    ExecutionState::Running,
                    ExecutionState::Finished,
                    ExecutionState::Finished,
                    ExecutionState::Failed,
                ][state as usize];
                self.tms[n as usize].tasks.insert(attempt, current);
            }
            let update = super::report(attempt, current);
            let (now, instance) = (self.now(), InstanceId(self.tms[n as usize].instance));
            if let Ok(unknown) = self.core.update_tasks(now, &tm_name(n), instance, vec![update]) {
                for attempt in unknown {
                    self.tms[n as usize].tasks.insert(attempt, ExecutionState::Canceled);
                }
            }
        }

        fn answer(&mut self, which: usize, ok: bool) {
            if self.unanswered.is_empty() {
                return;
            }
            let (n, _, ids) = self.unanswered.swap_remove(which % self.unanswered.len());
            let answer = if ok { Ok(vec![]) } else { Err(cause("DeploymentFailed")) };
            self.core.deploy_answered(self.now(), &tm_name(n), &ids, answer);
        }

        fn full_report(&mut self, n: u32) {
            let tm = &self.tms[n as usize];
            if !tm.up {
                return;
            }
            let tasks = tm.tasks.iter().map(|(attempt, state)| super::report(*attempt, *state));
            let tasks: Vec<_> = tasks.collect();
            let slots = self.core.slots_on(&tm_name(n));
            let (now, instance) = (self.now(), InstanceId(tm.instance));
            self.core.reconcile(now, &tm_name(n), instance, &slots, tasks);
        }

        /// Everything works from now on.
        fn heal(&mut self) {
            for _ in 0..60 {
                if !self.ended.is_empty() {
                    return;
                }
                for n in 0..4 {
                    self.apply(Step::Register(n));
                    self.apply(Step::Offer(n));
                }
                self.apply(Step::Coordinators(true));
                self.apply(Step::Coordinators(true));
                for _ in 0..20 {
                    self.apply(Step::Answer(0, true));
                }
                for n in 0..4 {
                    self.apply(Step::FullReport(n));
                }
                for i in 0..40 {
                    self.apply(Step::Report(i, 1));
                }
                self.apply(Step::Published(true));
                self.apply(Step::Pass(1000));
            }
        }
    }

    fn sample(kind: u8) -> JobGraph {
        let ship = if kind.is_multiple_of(2) { ShipStrategy::Hash } else { ShipStrategy::Forward };
        let vertices = vec![vertex(1, 3), vertex(2, 3), vertex(3, 2)];
        let mut graph = graph(vertices, vec![edge(0, 1, 2, ship)]);
        if kind >= 2 {
            coordinate(&mut graph, 1);
        }
        if kind >= 4 {
            coordinate(&mut graph, 3);
        }
        if kind >= 6 {
            enumerate(&mut graph, 1);
        }
        graph
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn nothing_runs_twice_and_a_healed_job_finishes(
            kind in 0u8..8, steps in prop::collection::vec(step(), 0..120),
        ) {
            let core = JobCore::new(Arc::new(sample(kind)), config(patient()), at(0));
            let mut cluster = Cluster {
                core,
                now: 0,
                tms: (0..4).map(|_| Tm::default()).collect(),
                unanswered: vec![],
                allocation: 0,
                starting: Vec::new(),
                resetting: Vec::new(),
                publishing: None,
                ended: vec![],
                ever_deployed: BTreeSet::new(),
            };
            cluster.core.start(at(0));
            cluster.obey();
            for step in steps {
                cluster.apply(step);
            }
            cluster.heal();
            prop_assert_eq!(&cluster.ended, &[JobStatus::Finished]);
            let states = cluster.core.execution().states();
            prop_assert_eq!(states, BTreeMap::from([(ExecutionState::Finished, 8)]));
        }
    }
}
