use super::*;
use crate::scheduler::TaskPlacement;
use model::testing::snapshot;
use model::{JobId, OperatorSubtaskState, SubtaskSnapshot};

/// A pipeline of two vertices with two subtasks each, in a job with a checkpoint every second.
pub(super) fn checkpointed() -> World {
    checkpointed_every(Duration::from_secs(1))
}

pub(super) fn checkpointed_every(interval: Duration) -> World {
    with_checkpoints(pair(2), interval)
}

pub(super) fn with_checkpoints(graph: JobGraph, interval: Duration) -> World {
    configured(graph, CheckpointConfig { interval: Some(interval), ..CheckpointConfig::default() })
}

pub(super) fn configured(graph: JobGraph, checkpoints: CheckpointConfig) -> World {
    let config = JobConfig { checkpoints, ..config(patient()) };
    let core = JobCore::new(Arc::new(graph), config, at(0));
    World::of(core)
}

impl World {
    /// Starts the job on a TaskExecutor with so many slots. Every task that is deployed there runs.
    pub(super) fn running(mut self, slots: u32) -> (Self, Vec<ExecutionAttemptId>) {
        self.core.start(at(0));
        self.tm(1, slots);
        let tasks = self.run_all();
        assert_eq!(triggered(&self.commands()), []);
        (self, tasks)
    }

    /// Starts the job on a TaskExecutor with so many slots. Its coordinators, and every task that is deployed there, run.
    pub(super) fn running_with_coordinators(
        mut self,
        slots: u32,
    ) -> (Self, Vec<ExecutionAttemptId>) {
        self.core.start(at(0));
        self.tm(1, slots);
        self.coordinators_up();
        let tasks = self.run_all();
        (self, tasks)
    }

    /// Lets every task that is deployed run.
    pub(super) fn run_all(&mut self) -> Vec<ExecutionAttemptId> {
        let tasks = deployed(&self.commands());
        self.report_all(&tasks, ExecutionState::Running);
        tasks
    }

    pub(super) fn reach_end(&mut self, attempt: ExecutionAttemptId) {
        let io = TaskIo { end_of_data: true, ..TaskIo::default() };
        self.update(1, TaskStateUpdate { io, ..state_of(attempt, ExecutionState::Running) });
    }

    /// The task finds that a file of its checkpoint is damaged.
    fn cannot_be_restored(&mut self, attempt: ExecutionAttemptId) {
        let cause = Some(cause(FailureCause::CHECKPOINT_UNREADABLE));
        self.update(1, TaskStateUpdate { cause, ..state_of(attempt, ExecutionState::Failed) });
    }

    pub(super) fn acknowledge(
        &mut self,
        checkpoint: u64,
        attempt: ExecutionAttemptId,
        ended: bool,
    ) {
        let object = format!("{checkpoint}-{}-{}", attempt.vertex, attempt.subtask);
        let operator = OperatorId(attempt.vertex.0);
        let state = StateHandle::Object { name: object, bytes: 1 };
        let part = SubtaskSnapshot { ended, operators: vec![(operator, state)], pause_us: 0 };
        self.record_numbers();
        self.core.acknowledged(self.now(), &attempt, checkpoint, part);
    }

    pub(super) fn acknowledge_all(
        &mut self,
        checkpoint: u64,
        tasks: &[ExecutionAttemptId],
        ended: bool,
    ) {
        for task in tasks {
            self.acknowledge(checkpoint, *task, ended);
        }
    }

    /// Has every task acknowledge and the checkpoint persisted.
    pub(super) fn complete(&mut self, checkpoint: u64, tasks: &[ExecutionAttemptId], ended: bool) {
        self.acknowledge_all(checkpoint, tasks, ended);
        let metadata = self.awaiting_persistence();
        assert_eq!(metadata.checkpoint, checkpoint);
        self.core.checkpoint_persisted(self.now(), checkpoint, Ok(metadata));
    }

    pub(super) fn awaiting_persistence(&mut self) -> Arc<CheckpointMetadata> {
        let commands = self.commands();
        let found = picked!(commands, Command::PersistCheckpoint(metadata) => metadata.clone());
        found.into_iter().next().unwrap_or_else(|| panic!("nothing to persist: {commands:?}"))
    }
}

/// Starts the job of [`checkpointed`]. Its tasks are deployed and do not run yet.
pub(super) fn coming_up() -> (World, Vec<ExecutionAttemptId>) {
    let mut w = checkpointed();
    w.core.start(at(0));
    w.tm(1, 2);
    let tasks = deployed(&w.commands());
    (w, tasks)
}

/// The barriers that were given to sources: number, whether it is the last one, how many sources.
pub(super) fn triggered(commands: &[Command]) -> Vec<(u64, bool, usize)> {
    picked!(commands, Command::TriggerCheckpoint { attempts, barrier, .. } => {
        (barrier.checkpoint, barrier.last, attempts.len())
    })
}

pub(super) fn notified(commands: &[Command]) -> Vec<(u64, bool, usize)> {
    picked!(commands, Command::NotifyCheckpoint { attempts, checkpoint, complete, .. } => {
        (*checkpoint, *complete, attempts.len())
    })
}

pub(super) fn placements(commands: &[Command]) -> Vec<TaskPlacement> {
    picked!(commands, Command::Deploy(deployment) => deployment.tasks.clone()).concat()
}

#[test]
fn a_checkpoint_is_triggered_at_sources_and_announced_once_its_pointer_is_persisted() {
    let (mut w, tasks) = coming_up();
    w.report_all(&tasks[1..], ExecutionState::Running);
    w.pass(1500);
    assert_eq!(triggered(&w.commands()), [], "a task does not run yet");
    w.report(1, tasks[0], ExecutionState::Running);
    assert_eq!(triggered(&w.commands()), [(1, false, 2)]);
    w.acknowledge_all(1, &tasks, false);
    let metadata = w.awaiting_persistence();
    assert_eq!(notified(&w.seen), []);
    let source = &metadata.operators[&OperatorId(1)];
    let names: Vec<_> =
        source.subtasks.iter().map(|s| s.state.as_ref().unwrap().object()).collect();
    assert_eq!(names.len(), 2);
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    assert_eq!(notified(&w.commands()), [(1, true, 4)]);
    w.pass(1000);
    assert_eq!(triggered(&w.commands()), [(2, false, 2)]);
}

#[test]
fn a_region_that_fails_is_restored_from_the_newest_checkpoint() {
    let (mut w, tasks) = checkpointed().running(2);
    w.pass(1000);
    w.complete(1, &tasks, false);
    w.pass(1000);
    w.commands();
    w.acknowledge(2, tasks[0], false);
    w.report(1, tasks[1], ExecutionState::Failed);
    let sent = w.commands();
    assert!(sent.iter().any(|c| matches!(c, Command::CheckpointAborted { checkpoint: 2, .. })));
    for task in tasks.iter().filter(|task| **task != tasks[1]) {
        w.report(1, *task, ExecutionState::Canceled);
    }
    w.pass(1000);
    let again = placements(&w.commands());
    assert_eq!(again.len(), 4);
    for task in &again {
        let [(operator, handles)] = &task.restore[..] else { panic!("{task:?}") };
        assert_eq!(*operator, OperatorId(task.attempt.vertex.0));
        assert!(handles.iter().all(|handle| handle.object().unwrap().starts_with("1-")));
        assert!(!task.ended);
    }
    // The acknowledgement of an attempt that is gone changes nothing.
    w.acknowledge(2, tasks[0], false);
    assert!(matches!(w.commands()[..], [Command::DiscardObjects(_)]));
}

/// Two pipelines that are not connected, with checkpoints 1 to 3 complete and 2 and 3 kept, both of which were deployed again.
fn restored_from_the_third_checkpoint(falls_back: bool) -> (World, Vec<ExecutionAttemptId>) {
    let graph = graph(vec![vertex(1, 1), vertex(2, 1)], vec![]);
    let interval = Some(Duration::from_secs(1));
    let config = CheckpointConfig {
        interval,
        retained: 2,
        falls_back,
        tolerable_failures: 1,
        ..CheckpointConfig::default()
    };
    let (mut w, tasks) = configured(graph, config).running(2);
    for checkpoint in 1..=3 {
        w.pass(1000);
        w.complete(checkpoint, &tasks, false);
    }
    w.report_all(&tasks, ExecutionState::Failed);
    w.pass(1000);
    let again = placements(&w.commands());
    assert_eq!(restored(&again), ["3", "3"]);
    (w, again.iter().map(|task| task.attempt).collect())
}

/// The checkpoint that each task is restored from, as its number in text.
fn restored(tasks: &[TaskPlacement]) -> Vec<String> {
    let of = |task: &TaskPlacement| {
        let object = task.restore[0].1[0].object().unwrap();
        object.split('-').next().unwrap().to_owned()
    };
    tasks.iter().map(of).collect()
}

fn newest_failure(w: &World) -> String {
    w.core.failures.front().unwrap().cause.message.clone()
}

#[test]
fn a_checkpoint_with_a_damaged_file_is_passed_over_once_however_many_regions_find_it() {
    let (mut w, tasks) = restored_from_the_third_checkpoint(true);
    w.cannot_be_restored(tasks[0]);
    assert!(newest_failure(&w).ends_with(
        "the job continues from checkpoint 2, so output that was committed with checkpoint 3 comes again"
    ));
    w.cannot_be_restored(tasks[1]);
    assert_eq!(newest_failure(&w), "it broke");
    w.pass(1000);
    let again = placements(&w.commands());
    assert_eq!(restored(&again), ["2", "2"]);
    // The older one is damaged as well, and no other is kept: the job goes on trying.
    w.cannot_be_restored(again[0].attempt);
    w.pass(1000);
    assert_eq!(restored(&placements(&w.commands())), ["2"]);
    assert_eq!(w.core.status(), JobStatus::Running);
}

/// The subtasks that went on have snapshots on top of files of the checkpoint that was passed over, and these may be damaged, too.
#[test]
fn after_a_checkpoint_was_passed_over_all_subtasks_take_full_snapshots_until_one_is_complete() {
    let (mut w, tasks) = restored_from_the_third_checkpoint(true);
    w.report(1, tasks[0], ExecutionState::Running);
    w.cannot_be_restored(tasks[1]);
    assert!(newest_failure(&w).contains("the job continues from checkpoint 2"));
    w.pass(1000);
    let [again] = &placements(&w.commands())[..] else { panic!("only the region that failed") };
    let tasks = [tasks[0], again.attempt];
    w.report(1, tasks[1], ExecutionState::Running);
    let full = |w: &mut World| {
        w.pass(1000);
        picked!(w.commands(), Command::TriggerCheckpoint { attempts, barrier, .. } => {
            assert_eq!(attempts[..], tasks);
            (barrier.checkpoint, barrier.full)
        })
    };
    assert_eq!(full(&mut w), [(4, true)]);
    w.core.declined(w.now(), &tasks[1], 4, &not_stored("the disk is full"));
    assert_eq!(full(&mut w), [(5, true)], "the one before is not complete");
    w.complete(5, &tasks, false);
    assert_eq!(full(&mut w), [(6, false)]);
}

#[test]
fn numbers_go_on_after_a_checkpoint_that_was_passed_over() {
    let (mut w, tasks) = restored_from_the_third_checkpoint(true);
    w.cannot_be_restored(tasks[0]);
    w.report(1, tasks[1], ExecutionState::Failed);
    // The file may be restored, and another JobMaster continue from it.
    assert!(w.core.kept_objects().iter().any(|name| name.starts_with('3')));
    w.pass(1000);
    let tasks = w.run_all();
    w.pass(1000);
    assert_eq!(triggered(&w.commands()), [(4, false, 2)]);
    w.complete(4, &tasks, false);
    assert_eq!(w.core.kept_beside_next(), [4].into());
    assert!(w.commands().iter().any(|command| {
        matches!(command, Command::DiscardObjects(gone) if gone.iter().any(|n| n.starts_with('3')))
    }));
    assert!(w.core.kept_objects().iter().all(|name| !name.starts_with('3')));
}

#[test]
fn no_checkpoint_is_passed_over_with_which_another_region_has_finished() {
    let graph = graph(vec![vertex(1, 1), vertex(2, 1)], vec![]);
    let interval = Some(Duration::from_secs(1));
    let config = CheckpointConfig { interval, retained: 2, falls_back: true, ..Default::default() };
    let (mut w, tasks) = configured(graph, config).running(2);
    w.pass(1000);
    w.complete(1, &tasks, false);
    w.reach_end(tasks[0]);
    w.acknowledge(2, tasks[0], true);
    w.acknowledge(2, tasks[1], false);
    let metadata = w.awaiting_persistence();
    w.core.checkpoint_persisted(w.now(), 2, Ok(metadata));
    w.report(1, tasks[0], ExecutionState::Finished);
    w.report(1, tasks[1], ExecutionState::Failed);
    w.pass(1000);
    let again = placements(&w.commands());
    assert_eq!(restored(&again), ["2"]);
    w.cannot_be_restored(again[0].attempt);
    assert_eq!(newest_failure(&w), "it broke");
    w.pass(1000);
    assert_eq!(restored(&placements(&w.commands())), ["2"]);
}

#[test]
fn no_checkpoint_is_passed_over_unless_the_options_allow_it() {
    let (mut w, tasks) = restored_from_the_third_checkpoint(false);
    w.cannot_be_restored(tasks[0]);
    let message = newest_failure(&w);
    assert!(message.contains("from checkpoint 2 with execution.checkpointing.fallback: true"));
    w.pass(1000);
    assert_eq!(restored(&placements(&w.commands())), ["3"]);
}

#[test]
fn regions_start_again_only_when_it_is_known_which_checkpoint_is_the_newest() {
    let (mut w, tasks) = checkpointed().running(2);
    w.pass(1000);
    w.acknowledge_all(1, &tasks, false);
    let metadata = w.awaiting_persistence();
    w.report_all(&tasks, ExecutionState::Failed);
    w.pass(5000);
    assert_eq!(placements(&w.commands()), []);
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    w.pass(1);
    let again = placements(&w.commands());
    assert_eq!(again.len(), 4);
    assert!(again.iter().all(|task| !task.restore.is_empty()));
}

#[test]
fn a_final_checkpoint_that_can_never_be_complete_fails_the_job() {
    let (mut w, tasks) = checkpointed_every(Duration::from_secs(3600)).running(2);
    for source in tasks.iter().filter(|task| task.vertex == JobVertexId(1)) {
        w.reach_end(*source);
    }
    assert_eq!(triggered(&w.commands()), [(1, true, 2)]);
    w.core.declined(w.now(), &tasks[0], 1, &FailureCause::fatal("StateNotStored", "too much"));
    assert_eq!(w.core.status(), JobStatus::Failing, "no restart strategy is asked");
    assert_eq!(cancelled(&w.commands()).len(), 4);
    w.report_all(&tasks, ExecutionState::Canceled);
    assert_eq!(w.core.status(), JobStatus::Failed);
    let cause = w.core.root_cause.as_ref().unwrap();
    assert!(cause.message.ends_with("too much"), "{cause}");
}

#[test]
fn a_final_checkpoint_that_fails_for_good_in_a_task_that_does_not_end_with_it_is_taken_again() {
    let graph = graph(vec![vertex(1, 1), vertex(2, 1)], vec![]);
    let (mut w, tasks) = with_checkpoints(graph, Duration::from_secs(3600)).running(2);
    w.reach_end(tasks[0]);
    assert_eq!(triggered(&w.commands()), [(1, false, 1), (1, true, 1)]);
    let why = FailureCause::fatal("StateNotStored", "too much");
    w.core.declined(w.now(), &tasks[1], 1, &why);
    assert_eq!(w.core.status(), JobStatus::Running, "the task may go on without checkpoints");
    let sent = w.commands();
    assert_eq!((triggered(&sent), cancelled(&sent)), (vec![], vec![]));
    w.pass(60_000);
    assert_eq!(triggered(&w.commands()), [(2, false, 1), (2, true, 1)]);
    // The one that ends with it cannot do without.
    w.core.declined(w.now(), &tasks[0], 2, &why);
    assert_eq!(w.core.status(), JobStatus::Failing);
}

#[test]
fn at_the_end_of_the_data_a_final_checkpoint_is_taken_and_only_then_tasks_finish() {
    let (mut w, tasks) = checkpointed_every(Duration::from_secs(3600)).running(2);
    let sources: Vec<_> = tasks.iter().copied().filter(|t| t.vertex == JobVertexId(1)).collect();
    w.reach_end(sources[0]);
    assert_eq!(triggered(&w.commands()), []);
    w.reach_end(sources[1]);
    assert_eq!(triggered(&w.commands()), [(1, true, 2)], "at once, not at the next interval");
    // It fails and is taken again.
    w.core.declined(w.now(), &tasks[0], 1, &not_stored("no"));
    w.commands();
    assert_eq!(w.core.status(), JobStatus::Running);
    w.pass(100);
    w.complete(2, &tasks, true);
    assert_eq!(notified(&w.commands()), [(2, true, 4)]);
    // A failure before all tasks have finished: they are restored as ended.
    w.report(1, tasks[0], ExecutionState::Finished);
    w.report(1, tasks[1], ExecutionState::Failed);
    w.report_all(&tasks[2..], ExecutionState::Canceled);
    w.pass(1000);
    let commands = w.commands();
    let again = placements(&commands);
    assert_eq!(again.len(), 4);
    assert!(again.iter().all(|task| task.ended));
    for task in &again {
        w.report(1, task.attempt, ExecutionState::Running);
    }
    for task in again.iter().filter(|task| task.attempt.vertex == JobVertexId(1)) {
        w.reach_end(task.attempt);
    }
    let tasks: Vec<_> = again.iter().map(|task| task.attempt).collect();
    w.complete(3, &tasks, true);
    w.report_all(&tasks, ExecutionState::Finished);
    assert!(w.commands().contains(&Command::Ended(JobStatus::Finished)));
}

#[test]
fn a_job_whose_sinks_commit_has_a_final_checkpoint_and_no_other() {
    let mut graph = pair(1);
    graph.nodes[1].commits = true;
    let (mut w, tasks) = World::new(graph, patient()).running(1);
    w.pass(100_000);
    assert_eq!(triggered(&w.commands()), []);
    w.reach_end(tasks[0]);
    assert_eq!(triggered(&w.commands()), [(1, true, 1)]);
    w.complete(1, &tasks, true);
    w.commands();
    w.report_all(&tasks, ExecutionState::Finished);
    assert!(w.commands().contains(&Command::Ended(JobStatus::Finished)));
    let report = w.core.details(w.now()).checkpoints;
    assert!(report.find(1).is_some_and(|stats| stats.discarded), "it is deleted with the job");
}

#[test]
fn a_region_that_has_finished_is_part_of_later_checkpoints_with_its_last_state() {
    // Two pipelines that are not connected.
    let graph = graph(vec![vertex(1, 1), vertex(2, 1)], vec![]);
    let (mut w, tasks) = with_checkpoints(graph, Duration::from_secs(1)).running(2);
    w.reach_end(tasks[0]);
    let barriers = triggered(&w.commands());
    assert_eq!(barriers, [(1, false, 1), (1, true, 1)]);
    w.acknowledge(1, tasks[0], true);
    w.acknowledge(1, tasks[1], false);
    let metadata = w.awaiting_persistence();
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    w.report(1, tasks[0], ExecutionState::Finished);
    w.commands();
    w.pass(1000);
    assert_eq!(triggered(&w.commands()), [(2, false, 1)]);
    w.acknowledge(2, tasks[1], false);
    let metadata = w.awaiting_persistence();
    let state = |n: u128| metadata.operators[&OperatorId(n)].subtasks[0].clone();
    let of = |checkpoint: u64, n: u128| {
        let name = format!("{checkpoint}-{}-0", JobVertexId(n));
        Some(StateHandle::Object { name, bytes: 1 })
    };
    assert_eq!(state(1), OperatorSubtaskState { ended: true, state: of(1, 1) });
    assert_eq!(state(2), OperatorSubtaskState { ended: false, state: of(2, 2) });
}

/// The tasks commit what the checkpoint holds, which need not be known to be committed, and handle nothing, as in Flink.
#[test]
fn a_new_job_master_deploys_a_region_that_had_finished_as_ended_and_it_finishes_without_the_others()
{
    let graph = graph(vec![vertex(1, 1), vertex(2, 1)], vec![]);
    let (mut w, tasks) = with_checkpoints(graph.clone(), Duration::from_secs(1)).running(2);
    w.reach_end(tasks[0]);
    w.acknowledge(1, tasks[0], true);
    w.acknowledge(1, tasks[1], false);
    let metadata = w.awaiting_persistence();
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    w.report(1, tasks[0], ExecutionState::Finished);
    w.commands();
    w.pass(1000);
    w.acknowledge(2, tasks[1], false);
    let newest = w.awaiting_persistence();
    // The JobManager is killed. It may have given out 3 for the next checkpoint.
    let mut w = with_checkpoints(graph, Duration::from_secs(1));
    w.core.restore(at(0), newest);
    w.core.start(at(0));
    w.tm(1, 2);
    let placed = placements(&w.commands());
    let ended: Vec<_> = placed.iter().map(|task| (task.attempt.vertex, task.ended)).collect();
    assert_eq!(ended, [(JobVertexId(1), true), (JobVertexId(2), false)]);
    let tasks: Vec<_> = placed.iter().map(|task| task.attempt).collect();
    w.report_all(&tasks, ExecutionState::Running);
    w.reach_end(tasks[0]);
    assert!(triggered(&w.commands()).contains(&(4, true, 1)), "at once, not at the next interval");
    w.acknowledge(4, tasks[0], true);
    w.acknowledge(4, tasks[1], false);
    let metadata = w.awaiting_persistence();
    w.core.checkpoint_persisted(w.now(), 4, Ok(metadata));
    w.report(1, tasks[0], ExecutionState::Finished);
    assert_eq!(w.core.status(), JobStatus::Running);
}

#[test]
fn a_region_ends_with_a_final_checkpoint_while_others_wait_for_its_slot() {
    // Two subtasks that are not connected, and one slot.
    let graph = graph(vec![vertex(1, 2)], vec![]);
    let (mut w, tasks) = with_checkpoints(graph, Duration::from_secs(1)).running(1);
    assert_eq!(tasks.len(), 1);
    w.pass(1000);
    assert_eq!(triggered(&w.commands()), [], "no periodic checkpoint leaves a subtask out");
    w.reach_end(tasks[0]);
    assert_eq!(triggered(&w.commands()), [(1, true, 1)]);
    w.acknowledge(1, tasks[0], true);
    let metadata = w.awaiting_persistence();
    let ended: Vec<_> =
        metadata.operators[&OperatorId(1)].subtasks.iter().map(|s| s.ended).collect();
    assert_eq!(ended, [true, false]);
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    assert_eq!(notified(&w.commands()), [(1, true, 1)]);
    w.report(1, tasks[0], ExecutionState::Finished);
    let next = deployed(&w.commands());
    assert_eq!(next.iter().map(|task| task.subtask).collect::<Vec<_>>(), [1]);
}

/// The enumerator could give the second subtask a split before its snapshot, which would then be in no state of the checkpoint.
#[test]
fn a_checkpoint_whose_number_is_being_recorded_gives_way_to_tasks_that_it_leaves_out() {
    // Two subtasks that are not connected, one enumerator, and one slot.
    let mut graph = graph(vec![vertex(1, 2)], vec![]);
    coordinate(&mut graph, 1);
    graph.vertices[0].source = true;
    let (mut w, tasks) =
        with_checkpoints(graph, Duration::from_secs(1)).running_with_coordinators(1);
    assert_eq!(tasks.len(), 1);
    w.commands();
    w.reach_end(tasks[0]);
    assert_eq!(w.core.take_commands(), [Command::RecordCheckpointNumber(1)]);
    w.offer(1, 1);
    let sent = w.core.take_commands();
    assert_eq!(deployed(&sent).len(), 1);
    let why = "tasks were deployed before it began".to_owned();
    assert!(sent.contains(&Command::CheckpointAborted { checkpoint: 1, why }), "{sent:?}");
    w.core.checkpoint_number_recorded(w.now(), 1, Ok(()));
    let snapshots = |commands: &[Command]| picked!(commands, Command::SnapshotCoordinators { checkpoint, .. } => *checkpoint);
    assert_eq!(snapshots(&w.core.take_commands()), []);
    // The next one begins with both.
    let started = deployed(&sent);
    w.report(1, started[0], ExecutionState::Running);
    w.pass(1000);
    assert_eq!(snapshots(&w.commands()), [2]);
}

#[test]
fn a_checkpoint_that_an_enumerator_holds_up_fails_with_the_name_of_its_operator() {
    let mut graph = graph(vec![vertex(1, 1)], vec![]);
    coordinate(&mut graph, 1);
    graph.vertices[0].source = true;
    let (mut w, _) = with_checkpoints(graph, Duration::from_secs(1)).running_with_coordinators(1);
    w.pass(1000);
    assert!(w.commands().contains(&Command::SnapshotCoordinators {
        checkpoint: 1,
        operators: [OperatorId(1)].into()
    }));
    w.pass(u64::try_from(w.core.config.checkpoints.timeout.as_millis()).unwrap() + 1);
    let failed = w.core.checkpoint_report().latest_failed.unwrap();
    let why = failed.failure.unwrap();
    assert!(why.contains("snapshots of the coordinators (enumerators)"), "{why}");
    assert!(why.contains("(operators: 'n1')"), "{why}");
}

#[test]
fn a_final_checkpoint_has_the_latest_state_of_coordinators_whose_region_waits_for_slots() {
    // Two sources that are not connected, each with an enumerator, and one slot in all.
    let mut other = vertex(2, 1);
    other.slot_sharing_group = "other".into();
    let mut graph = graph(vec![vertex(1, 1), other], vec![]);
    for vertex in [1, 2] {
        coordinate(&mut graph, vertex);
    }
    let (mut w, tasks) =
        with_checkpoints(graph, Duration::from_secs(1)).running_with_coordinators(1);
    assert_eq!(tasks.len(), 1);
    let (ends, waits) = match tasks[0].vertex {
        JobVertexId(1) => (OperatorId(1), OperatorId(2)),
        _ => (OperatorId(2), OperatorId(1)),
    };
    w.commands();
    w.reach_end(tasks[0]);
    assert!(w.commands().contains(&Command::SnapshotCoordinators {
        checkpoint: 1,
        operators: [OperatorId(1)].into()
    }));
    // The host may still have a coordinator that was started before the slots were lost.
    let state = |n| StateHandle::Inline(vec![n]);
    let answer = BTreeMap::from([(ends, state(7)), (waits, state(9))]);
    w.core.coordinators_snapshotted(w.now(), 1, Ok(answer));
    assert_eq!(triggered(&w.commands()), [(1, true, 1)]);
    w.acknowledge(1, tasks[0], true);
    let metadata = w.awaiting_persistence();
    assert_eq!(metadata.operators[&ends].coordinator, Some(state(7)));
    assert_eq!(metadata.operators[&waits].coordinator, None, "it has no state in a checkpoint");
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    w.report(1, tasks[0], ExecutionState::Finished);
    assert!(
        w.commands().iter().any(|command| matches!(command, Command::StartCoordinators { .. }))
    );
}

#[test]
fn subtasks_that_wait_to_be_rescaled_are_left_out_of_no_checkpoint() {
    // Two subtasks that are not connected, one slot, and a snapshot of a job that had one subtask.
    let graph = graph(vec![vertex(1, 2)], vec![]);
    let snapshot = snapshot(JobId(1), 7, OperatorId(1), [StateHandle::Inline(vec![1])]);
    let mut w = with_checkpoints(graph, Duration::from_secs(1));
    w.core.start_from(at(0), snapshot, "/s/savepoint-1".to_owned());
    let (mut w, tasks) = w.running(1);
    w.reach_end(tasks[0]);
    w.pass(1000);
    assert_eq!(triggered(&w.commands()), [], "the state of the other one would be lost");
    w.offer(1, 1);
    let more = w.run_all();
    assert_eq!((tasks.len(), more.len()), (1, 1));
    // Each has a state of its own now; for the one that has ended the checkpoint is the last.
    assert_eq!(triggered(&w.commands()), [(8, false, 1), (8, true, 1)]);
}

#[test]
fn a_region_whose_slots_are_held_by_one_that_waits_for_it_to_be_rescaled_fails_for_want_of_slots() {
    let snapshot = snapshot(JobId(1), 7, OperatorId(1), [StateHandle::Inline(vec![1])]);
    let graph = graph(vec![vertex(1, 2)], vec![]);
    let config = JobConfig {
        checkpoints: CheckpointConfig {
            interval: Some(Duration::from_secs(1)),
            ..CheckpointConfig::default()
        },
        ..config(RestartPolicy::chosen(RestartSpec::None))
    };
    let core = JobCore::new(Arc::new(graph), config, at(0));
    let mut w = World::of(core);
    w.core.start_from(at(0), snapshot, "/s/savepoint-1".to_owned());
    let (mut w, tasks) = w.running(1);
    // As long as the first one processes records, its slot will become free.
    w.pass(301_000);
    assert_eq!(w.core.status(), JobStatus::Running);
    // At its end it waits for a final checkpoint, which cannot be taken before the other one runs.
    w.reach_end(tasks[0]);
    w.pass(301_000);
    assert_ne!(w.core.status(), JobStatus::Running, "neither can go on");
}

#[test]
fn a_snapshot_is_needed_while_a_region_that_got_its_slot_late_reads_it() {
    // Two subtasks that are not connected, one slot, and a snapshot of the same parallelism.
    let graph = graph(vec![vertex(1, 2)], vec![]);
    let state = |n| StateHandle::External { uri: format!("/s/1/{n}"), bytes: 1 };
    let snapshot = snapshot(JobId(1), 7, OperatorId(1), [state(0), state(1)]);
    let mut w = with_checkpoints(graph, Duration::from_secs(1));
    w.core.start_from(at(0), snapshot, "/s/1".to_owned());
    let (mut w, tasks) = w.running(1);
    assert!(w.core.needs_start_snapshot(), "the job has no checkpoint of its own");
    w.reach_end(tasks[0]);
    w.acknowledge(8, tasks[0], true);
    let metadata = w.awaiting_persistence();
    // The other subtask gets a slot while the checkpoint is being recorded.
    w.offer(1, 1);
    let late = placements(&w.commands());
    assert!(matches!(late[0].restore[0].1[0], StateHandle::External { .. }), "{late:?}");
    w.core.checkpoint_persisted(w.now(), 8, Ok(metadata));
    assert!(w.core.needs_start_snapshot(), "a task may read it yet");
    w.report(1, late[0].attempt, ExecutionState::Initializing);
    assert!(w.core.needs_start_snapshot());
    w.report(1, late[0].attempt, ExecutionState::Running);
    assert!(!w.core.needs_start_snapshot());
}
