use super::checkpoints::{checkpointed, coming_up, notified, placements, triggered};
use super::*;
use model::{CheckpointKind, SubtaskSnapshot};

const SAVEPOINT: CheckpointKind = CheckpointKind::Savepoint;
const STOP: CheckpointKind = CheckpointKind::Stop { drain: false };

impl World {
    fn ask(&mut self, number: u64, kind: CheckpointKind) -> Result<(), SavepointRefused> {
        let request = SavepointRequest { number, kind, folder: format!("/s/{number}") };
        self.core.take_savepoint(self.now(), request)
    }

    /// Has every task acknowledge. Returns the metadata whose parts are to be copied, and the
    /// number of the request.
    fn copied(
        &mut self,
        checkpoint: u64,
        tasks: &[ExecutionAttemptId],
    ) -> (Arc<CheckpointMetadata>, u64) {
        self.acknowledge_all(checkpoint, tasks, false);
        let commands = self.commands();
        let found = picked!(commands, Command::StoreSavepoint { number, metadata } => {
            (metadata.clone(), *number)
        });
        found.into_iter().next().unwrap_or_else(|| panic!("nothing to store: {commands:?}"))
    }

    fn stored(&mut self, checkpoint: u64, outcome: Result<(), String>) {
        self.core.savepoint_stored(self.now(), checkpoint, outcome);
    }
}

fn ended(commands: &[Command]) -> Vec<(u64, Result<String, String>)> {
    picked!(commands, Command::SavepointEnded { number, outcome } => (*number, outcome.clone()))
}

#[test]
fn a_savepoint_waits_for_the_checkpoint_that_runs_and_does_not_replace_the_jobs_own() {
    let (mut w, tasks) = checkpointed().running(2);
    w.pass(1000);
    assert_eq!(triggered(&w.commands()), [(1, false, 2)]);
    w.ask(7, SAVEPOINT).unwrap();
    w.ask(8, SAVEPOINT).unwrap();
    assert_eq!(triggered(&w.commands()), [], "one at a time");
    w.complete(1, &tasks, false);
    assert_eq!(triggered(&w.commands()), [(2, false, 2)]);
    let (metadata, number) = w.copied(2, &tasks);
    assert_eq!((metadata.checkpoint, number), (2, 7));
    assert_eq!(ended(&w.seen), []);
    w.stored(2, Ok(()));
    let sent = w.commands();
    assert_eq!(ended(&sent), [(7, Ok("/s/7".to_owned()))]);
    assert_eq!(notified(&sent), [(2, false, 4)], "its sinks commit with the next checkpoint");
    // The objects that the tasks have stored for the savepoint are in its folder now; the parts of
    // checkpoint 1 stay.
    let gone = picked!(sent, Command::DiscardObjects(objects) => objects.clone());
    let gone: BTreeSet<String> = gone.into_iter().flatten().collect();
    assert_eq!(gone, metadata.objects());
    assert_eq!(triggered(&sent), [(3, false, 2)], "the other one follows");
    assert_eq!(w.core.latest_checkpoint().unwrap().checkpoint, 1);
    let report = w.core.checkpoint_report();
    assert_eq!(report.latest_savepoint.unwrap().external_path.as_deref(), Some("/s/7"));
    assert_eq!(report.latest_completed.unwrap().checkpoint, 1);
}

#[test]
fn a_savepoint_that_fails_is_reported_and_the_job_goes_on() {
    let (mut w, tasks) = checkpointed().running(2);
    w.ask(7, SAVEPOINT).unwrap();
    w.copied(1, &tasks);
    w.stored(1, Err("the disk is full".into()));
    assert_eq!(ended(&w.commands()), [(7, Err("the disk is full".to_owned()))]);
    assert_eq!(w.core.status(), JobStatus::Running, "no failure is tolerated of checkpoints");
    w.pass(1000);
    assert_eq!(triggered(&w.commands()), [(2, false, 2)]);
    w.ask(8, SAVEPOINT).unwrap();
    w.report(1, tasks[0], ExecutionState::Failed);
    let ended = ended(&w.commands());
    assert!(matches!(&ended[..], [(8, Err(why))] if why.contains("failed")), "{ended:?}");
    let why = w.ask(9, SAVEPOINT).unwrap_err().to_string();
    assert!(why.starts_with("the job is RESTARTING, and a savepoint needs"), "{why}");
}

/// No source has taken a barrier then.
#[test]
fn a_stop_whose_number_is_not_recorded_is_withdrawn_and_the_job_goes_on() {
    let (mut w, _) = checkpointed().running(2);
    w.ask(7, STOP).unwrap();
    assert_eq!(w.core.take_commands(), [Command::RecordCheckpointNumber(1)]);
    w.core.checkpoint_number_recorded(w.now(), 1, Err("no such folder".to_owned()));
    let sent = w.core.take_commands();
    let why = "its number is not recorded in the job's log: no such folder";
    assert_eq!(ended(&sent), [(7, Err(why.to_owned()))]);
    assert_eq!((triggered(&sent), cancelled(&sent), w.core.status()), {
        (vec![], vec![], JobStatus::Running)
    });
    // A job that is cancelled meanwhile takes no savepoint any more.
    w.ask(8, SAVEPOINT).unwrap();
    assert_eq!(w.core.take_commands(), [Command::RecordCheckpointNumber(2)]);
    w.core.cancel(w.now());
    assert!(matches!(&ended(&w.core.take_commands())[..], [(8, Err(_))]));
    w.core.checkpoint_number_recorded(w.now(), 2, Ok(()));
    assert_eq!(w.core.take_commands(), []);
}

#[test]
fn a_stop_commits_and_finishes_the_job_with_its_savepoint() {
    let (mut w, tasks) = checkpointed().running(2);
    w.ask(7, CheckpointKind::Stop { drain: true }).unwrap();
    let sent = w.commands();
    assert_eq!(triggered(&sent), [(1, true, 2)]);
    let drains =
        |c: &Command| matches!(c, Command::TriggerCheckpoint { barrier, .. } if barrier.drain);
    assert!(sent.iter().any(drains));
    assert_eq!(w.ask(8, SAVEPOINT), Err(SavepointRefused::Finishing));
    w.copied(1, &tasks);
    w.stored(1, Ok(()));
    // It becomes the newest checkpoint of the job before anything is committed.
    let metadata = w.awaiting_persistence();
    assert_eq!(notified(&w.seen), []);
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    let sent = w.commands();
    assert_eq!(notified(&sent), [(1, true, 4)]);
    assert_eq!(ended(&sent), [], "the tasks have to finish first");
    w.pass(5000);
    assert_eq!(triggered(&w.commands()), []);
    w.report_all(&tasks, ExecutionState::Finished);
    let sent = w.commands();
    assert_eq!(ended(&sent), [(7, Ok("/s/7".to_owned()))]);
    assert!(sent.contains(&Command::Ended(JobStatus::Finished)));
}

#[test]
fn a_stop_that_fails_restarts_the_tasks_because_their_sources_have_stopped() {
    let (mut w, tasks) = checkpointed().running(2);
    w.ask(7, STOP).unwrap();
    w.commands();
    w.core.declined(w.now(), &tasks[0], 1, &not_stored("no"));
    assert_eq!(w.core.status(), JobStatus::Restarting);
    assert!(matches!(ended(&w.commands())[..], [(7, Err(_))]));
    w.report_all(&tasks, ExecutionState::Canceled);
    w.pass(1000);
    assert_eq!(placements(&w.commands()).len(), 4);
}

/// A job without end and without periodic checkpoints that is asked to stop, and its tasks.
fn stopping_without_interval() -> (World, Vec<ExecutionAttemptId>) {
    let (mut w, tasks) = World::new(JobGraph { bounded: false, ..pair(1) }, patient()).running(1);
    w.ask(7, STOP).unwrap();
    assert_eq!(triggered(&w.commands()), [(1, false, 1)], "a checkpoint that goes on");
    assert_eq!(w.ask(8, SAVEPOINT), Err(SavepointRefused::StopWaits));
    (w, tasks)
}

#[test]
fn a_stop_without_periodic_checkpoints_that_fails_restarts_the_job_with_the_state_that_it_had() {
    let (mut w, tasks) = stopping_without_interval();
    w.complete(1, &tasks, false);
    assert_eq!(triggered(&w.commands()), [(2, true, 1)]);
    w.core.declined(w.now(), &tasks[0], 2, &not_stored("the disk is full"));
    assert!(matches!(ended(&w.commands())[..], [(7, Err(_))]));
    w.report_all(&tasks, ExecutionState::Canceled);
    w.pass(1000);
    let again = placements(&w.commands());
    assert!(again.len() == 2 && again.iter().all(|task| !task.restore.is_empty()), "{again:?}");
    // The next stop has a checkpoint of its own before it.
    let again: Vec<_> = again.iter().map(|task| task.attempt).collect();
    w.report_all(&again, ExecutionState::Running);
    w.ask(9, STOP).unwrap();
    assert_eq!(triggered(&w.commands()), [(3, false, 1)]);
}

#[test]
fn a_job_whose_state_cannot_be_stored_before_a_stop_is_not_stopped() {
    let (mut w, tasks) = stopping_without_interval();
    w.core.declined(w.now(), &tasks[0], 1, &FailureCause::fatal("StateNotStored", "too much"));
    let sent = w.commands();
    let told = ended(&sent);
    let [(7, Err(why))] = &told[..] else { panic!("{told:?}") };
    assert!(why.contains("the job is not stopped") && why.ends_with("too much"), "{why}");
    assert_eq!(triggered(&sent), [], "no barrier of the stop");
    assert_eq!(w.core.status(), JobStatus::Running);
    assert_eq!(cancelled(&sent), []);
    w.ask(9, SAVEPOINT).unwrap();
    w.copied(2, &tasks);
}

#[test]
fn a_failure_after_the_savepoint_of_a_stop_restores_from_it_and_says_so() {
    let (mut w, tasks) = checkpointed().running(2);
    w.ask(7, STOP).unwrap();
    w.copied(1, &tasks);
    w.stored(1, Ok(()));
    let metadata = w.awaiting_persistence();
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    w.commands();
    w.report(1, tasks[0], ExecutionState::Failed);
    let told = ended(&w.commands());
    assert!(matches!(&told[..], [(7, Err(why))] if why.contains("/s/7 is complete")), "{told:?}");
    w.report_all(&tasks[1..], ExecutionState::Canceled);
    w.pass(1000);
    let again = placements(&w.commands());
    assert!(again.len() == 4 && again.iter().all(|task| !task.restore.is_empty() && !task.ended));
}

#[test]
fn a_bounded_job_without_checkpoints_takes_no_savepoint_and_one_without_end_does() {
    let (mut w, _) = World::new(pair(1), patient()).running(1);
    assert_eq!(w.ask(1, SAVEPOINT), Err(SavepointRefused::WithoutCheckpoints));
    let (mut w, tasks) = World::new(JobGraph { bounded: false, ..pair(1) }, patient()).running(1);
    w.ask(1, SAVEPOINT).unwrap();
    w.copied(1, &tasks);
}

#[test]
fn a_failure_while_the_pointer_of_a_stop_is_written_is_told_when_it_is() {
    let (mut w, tasks) = checkpointed().running(2);
    w.ask(7, STOP).unwrap();
    w.copied(1, &tasks);
    w.stored(1, Ok(()));
    let metadata = w.awaiting_persistence();
    w.report(1, tasks[0], ExecutionState::Failed);
    assert_eq!(ended(&w.commands()), [], "it is not known yet whether it is complete");
    w.core.checkpoint_persisted(w.now(), 1, Ok(metadata));
    assert!(matches!(ended(&w.commands())[..], [(7, Err(_))]));
}

#[test]
fn a_savepoint_that_comes_too_early_is_refused_with_what_the_tasks_wait_for() {
    let mut graph = coordinated_pair();
    graph.vertices[0].source = true;
    let mut w = super::checkpoints::with_checkpoints(graph, Duration::from_secs(1));
    w.core.start(at(0));
    let why = |w: &mut World| w.ask(1, SAVEPOINT).unwrap_err().to_string();
    w.tm(1, 1);
    assert_eq!(
        why(&mut w),
        "the job is RUNNING, and a savepoint needs all of its tasks to run: 0 of 4 run, 4 wait for slots \
         (1 missing); try again when all of them run"
    );
    w.offer(1, 1);
    assert_eq!(
        why(&mut w),
        "the job is RUNNING, and a savepoint needs all of its tasks to run: 0 of 4 run, 4 wait for the program's \
         coordinators; try again when all of them run"
    );
    w.coordinators_up();
    let tasks = w.run_all();
    w.report(1, tasks[0], ExecutionState::Failed);
    let restarts = why(&mut w);
    assert!(
        restarts.ends_with("4 are to be restarted after a failure; try again when all of them run"),
        "{restarts}"
    );
}

#[test]
fn a_savepoint_that_is_asked_for_while_tasks_come_up_waits_for_them() {
    let mut w = checkpointed();
    w.core.start(at(0));
    let refused = w.ask(1, STOP);
    assert!(matches!(refused, Err(SavepointRefused::NotRunning { .. })), "it waits for slots");
    w.tm(1, 2);
    let tasks = deployed(&w.commands());
    w.ask(2, STOP).unwrap();
    w.report(1, tasks[0], ExecutionState::Initializing);
    w.report_all(&tasks[..3], ExecutionState::Running);
    assert_eq!(triggered(&w.commands()), []);
    w.report(1, tasks[3], ExecutionState::Running);
    assert_eq!(triggered(&w.commands()), [(1, true, 2)]);
    // One that fails instead ends the request.
    let (mut w, tasks) = coming_up();
    w.ask(3, SAVEPOINT).unwrap();
    w.report(1, tasks[0], ExecutionState::Failed);
    assert!(matches!(&ended(&w.commands())[..], [(3, Err(_))]));
}

#[test]
fn a_stop_whose_tasks_never_all_run_is_withdrawn_at_its_deadline() {
    let (mut w, tasks) = coming_up();
    w.ask(1, STOP).unwrap();
    w.report_all(&tasks[..3], ExecutionState::Running);
    let limit = w.core.config.checkpoints.timeout;
    let (deadline, limit_ms) = (w.now().mono + limit, u64::try_from(limit.as_millis()).unwrap());
    assert_eq!(w.ask(2, SAVEPOINT), Err(SavepointRefused::StopWaits));
    w.pass(limit_ms - 1);
    assert_eq!(w.core.next_deadline(), Some(deadline));
    assert_eq!(ended(&w.commands()), []);
    w.pass(1);
    let told = ended(&w.commands());
    let [(1, Err(why))] = &told[..] else { panic!("{told:?}") };
    let seconds = limit.as_secs();
    assert!(
        why.starts_with(&format!("the job's tasks did not all run within {seconds} s")),
        "{why}"
    );
    assert!(
        why.contains("1 do not, among them") && why.ends_with("the job is not stopped"),
        "{why}"
    );
    // The job goes on: it takes savepoints again, and its tasks may still come up.
    assert_eq!(w.core.status(), JobStatus::Running);
    w.ask(3, SAVEPOINT).unwrap();
    w.report(1, tasks[3], ExecutionState::Running);
    assert_eq!(triggered(&w.commands()), [(1, false, 2)]);
}

#[test]
fn a_savepoint_that_waits_for_a_checkpoint_is_not_ended_by_the_deadline_for_tasks() {
    let (mut w, tasks) = checkpointed().running(2);
    w.pass(1000);
    assert_eq!(triggered(&w.commands()), [(1, false, 2)]);
    w.ask(7, SAVEPOINT).unwrap();
    w.complete(1, &tasks, false);
    assert_eq!(triggered(&w.commands()), [(2, false, 2)]);
    let (mut w, tasks) = checkpointed().running(2);
    w.ask(7, SAVEPOINT).unwrap();
    w.ask(8, SAVEPOINT).unwrap();
    w.copied(1, &tasks);
    w.pass(u64::try_from(w.core.config.checkpoints.timeout.as_millis()).unwrap() + 1);
    assert_eq!(ended(&w.commands()), [], "the folder of the first one is being written");
    w.stored(1, Ok(()));
    assert_eq!(triggered(&w.commands()), [(2, false, 2)]);
}

#[test]
fn a_checkpoint_that_is_asked_for_replaces_the_jobs_own_and_commits() {
    let (mut w, tasks) = checkpointed().running(2);
    w.ask(7, CheckpointKind::Checkpoint).unwrap();
    assert_eq!(triggered(&w.commands()), [(1, false, 2)], "it waits for no interval");
    w.complete(1, &tasks, false);
    let commands = w.commands();
    assert_eq!(ended(&commands), [(7, Ok("1".to_owned()))]);
    assert_eq!(notified(&commands), [(1, true, 4)]);
    assert_eq!(w.core.latest_checkpoint().map(|latest| latest.checkpoint), Some(1));
    w.ask(8, CheckpointKind::Checkpoint).unwrap();
    w.commands();
    w.core.declined(w.now(), &tasks[0], 2, &not_stored("the disk is full"));
    let (number, outcome) = ended(&w.commands()).remove(0);
    assert_eq!(number, 8);
    assert!(outcome.unwrap_err().contains("the disk is full"));
}

/// Two vertices that are not connected, the first with keyed state. It has finished with checkpoint 1, which has that state or, without
/// a checkpoint directory, has not. Returns the task of the other one.
fn keyed_and_finished(is_kept: bool) -> (World, ExecutionAttemptId) {
    let mut graph = graph(vec![vertex(1, 1), vertex(2, 1)], vec![]);
    let sum = model::testing::declaration("sum", "value", &[("key", "u64"), ("value", "u64")]);
    graph.nodes[0].states.push(sum);
    let hour = Duration::from_secs(3600);
    let (mut w, tasks) = super::checkpoints::with_checkpoints(graph, hour).running(2);
    w.reach_end(tasks[0]);
    assert_eq!(triggered(&w.commands()), [(1, false, 1), (1, true, 1)]);
    match is_kept {
        true => w.acknowledge(1, tasks[0], true),
        false => {
            let part = SubtaskSnapshot { ended: true, ..SubtaskSnapshot::default() };
            w.core.acknowledged(w.now(), &tasks[0], 1, part);
        }
    }
    w.complete(1, &tasks[1..], false);
    w.report(1, tasks[0], ExecutionState::Finished);
    w.commands();
    (w, tasks[1])
}

#[test]
fn a_savepoint_that_would_lack_the_keyed_state_of_a_region_that_has_ended_is_refused() {
    let text = "the keyed state of operator 'n1', whose data has ended, was not kept, because the job has no checkpoint directory: \
                set execution.checkpointing.dir, or take the savepoint before its data ends";
    let (mut w, other) = keyed_and_finished(false);
    w.ask(7, SAVEPOINT).unwrap();
    w.ask(8, STOP).unwrap();
    let sent = w.commands();
    let stop = format!("{text}; the job is not stopped");
    assert_eq!(ended(&sent), [(7, Err(text.to_owned())), (8, Err(stop))]);
    assert_eq!((triggered(&sent), w.core.status()), (vec![], JobStatus::Running));
    // A checkpoint is for this job, which needs the state no more; the request behind it has its own answer.
    w.ask(9, CheckpointKind::Checkpoint).unwrap();
    assert_eq!(triggered(&w.commands()), [(2, false, 1)]);
    w.ask(10, SAVEPOINT).unwrap();
    w.ask(11, CheckpointKind::Checkpoint).unwrap();
    w.complete(2, &[other], false);
    let sent = w.commands();
    assert_eq!(ended(&sent), [(9, Ok("2".to_owned())), (10, Err(text.to_owned()))]);
    assert_eq!(triggered(&sent), [(3, false, 1)], "the next request");
    let (mut w, other) = keyed_and_finished(true);
    w.ask(7, SAVEPOINT).unwrap();
    let (metadata, number) = w.copied(2, &[other]);
    assert_eq!((metadata.operators.len(), number), (2, 7));
    w.stored(2, Ok(()));
    assert_eq!(ended(&w.commands()), [(7, Ok("/s/7".to_owned()))]);
}

/// Tasks that are restored as ended have no keyed state to write.
#[test]
fn a_savepoint_is_refused_while_a_region_without_its_keyed_state_runs_again_as_ended() {
    for is_kept in [false, true] {
        let (w, _) = keyed_and_finished(is_kept);
        let newest = w.core.latest_checkpoint().unwrap().clone();
        let graph = JobGraph::clone(w.core.exec.graph());
        // Another JobMaster takes the job over.
        let mut w = super::checkpoints::with_checkpoints(graph, Duration::from_secs(3600));
        w.core.restore(at(0), newest);
        w.core.start(at(0));
        w.tm(1, 2);
        let tasks = deployed(&w.commands());
        w.ask(7, SAVEPOINT).unwrap();
        w.report_all(&tasks, ExecutionState::Running);
        let sent = w.commands();
        match (is_kept, &ended(&sent)[..]) {
            (true, []) => assert_eq!(triggered(&sent), [(3, false, 2)], "2 may be given out"),
            (false, [(7, Err(why))]) => assert!(why.contains("operator 'n1'"), "{why}"),
            (_, told) => panic!("{told:?}"),
        }
    }
}

#[test]
fn a_stop_of_a_job_without_interval_that_would_lack_keyed_state_takes_no_checkpoint_before() {
    let mut graph = graph(vec![vertex(1, 1), vertex(2, 1)], vec![]);
    graph.nodes[0].states.push(model::testing::declaration("sum", "value", &[("key", "u64")]));
    graph.bounded = false;
    let (mut w, tasks) = World::new(graph, patient()).running(2);
    w.reach_end(tasks[0]);
    assert_eq!(triggered(&w.commands()), [(1, false, 1), (1, true, 1)]);
    let part = SubtaskSnapshot { ended: true, ..SubtaskSnapshot::default() };
    w.core.acknowledged(w.now(), &tasks[0], 1, part);
    w.complete(1, &tasks[1..], false);
    w.report(1, tasks[0], ExecutionState::Finished);
    w.commands();
    w.ask(7, STOP).unwrap();
    let sent = w.commands();
    let told = ended(&sent);
    let [(7, Err(why))] = &told[..] else { panic!("{told:?}") };
    assert!(why.ends_with("before its data ends; the job is not stopped"), "{why}");
    assert_eq!(triggered(&sent), []);
}
