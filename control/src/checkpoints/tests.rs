mod numbers;

use super::*;
use crate::testing::{ms as at, picked};
use model::JobId;
use model::graph::StateDeclaration;
use model::testing::{declaration, graph, snapshot, vertex};
use proptest::prelude::*;

const CHECKPOINT: CheckpointKind = CheckpointKind::Checkpoint;
const SECOND: Duration = Duration::from_secs(1);

fn config() -> CheckpointConfig {
    CheckpointConfig { interval: Some(SECOND), ..CheckpointConfig::default() }
}

fn tasks(n: u32) -> BTreeSet<TaskIndex> {
    (0..n).map(TaskIndex).collect()
}

fn scope(n: u32) -> Scope {
    Scope { tasks: tasks(n), ..Scope::default() }
}

/// A scope in which the coordinators of these operators take snapshots.
fn coordinated_scope(n: u32, names: &[&str]) -> Scope {
    let coordinated =
        (1..).map(OperatorId).zip(names.iter().map(|name| (*name).to_owned())).collect();
    Scope { coordinated, ..scope(n) }
}

fn part(object: &str) -> SubtaskSnapshot {
    let state = StateHandle::Object { name: object.to_owned(), bytes: 7 };
    SubtaskSnapshot { ended: false, operators: vec![(OperatorId(1), state)], pause_us: 700 }
}

/// The metadata of a checkpoint whose only operator has these parts.
fn metadata(checkpoint: u64, parts: &BTreeMap<TaskIndex, SubtaskSnapshot>) -> CheckpointMetadata {
    let states = parts.values().map(|part| part.operators[0].1.clone());
    snapshot(JobId(1), checkpoint, OperatorId(1), states)
}

/// The step of a checkpoint of these subtasks that is complete and after which none of them ends.
fn finished(checkpoint: u64, tasks: impl IntoIterator<Item = u32>) -> CheckpointStep {
    let tasks = tasks.into_iter().map(TaskIndex).collect();
    CheckpointStep::Complete { checkpoint, tasks, last: BTreeSet::new() }
}

/// Begins a checkpoint. If its number has to be recorded, it is at once.
fn begin(
    c: &mut Checkpoints,
    now: Duration,
    now_unix_ms: u64,
    kind: CheckpointKind,
    scope: Scope,
) -> u64 {
    let number = c.begin(now, now_unix_ms, kind, scope);
    if c.out.last() == Some(&CheckpointStep::RecordNumber(number)) {
        c.out.pop();
        c.number_recorded(now, number, Ok(()));
    }
    number
}

/// Takes the step of a checkpoint that is to be persisted.
fn to_persist(steps: Vec<CheckpointStep>) -> Arc<CheckpointMetadata> {
    let parts = picked!(steps, CheckpointStep::Persist(parts) => parts);
    let Parts { checkpoint, tasks, .. } = parts.first().expect("a checkpoint to persist");
    Arc::new(metadata(*checkpoint, tasks))
}

/// Takes a checkpoint of one task from its beginning to its end; the task's state is in this object.
fn complete(checkpoints: &mut Checkpoints, now: Duration, object: &str) -> Vec<CheckpointStep> {
    begin(checkpoints, now, 5, CHECKPOINT, scope(1));
    let [CheckpointStep::Trigger(number)] = checkpoints.take_steps()[..] else {
        panic!("no trigger");
    };
    checkpoints.acknowledge(now, number, TaskIndex(0), part(object));
    let metadata = to_persist(checkpoints.take_steps());
    checkpoints.persisted(now, number, Ok(metadata));
    checkpoints.take_steps()
}

#[test]
fn a_checkpoint_is_complete_when_its_pointer_is_persisted_and_not_before() {
    let mut c = Checkpoints::new(config(), at(0));
    assert!(!c.may_begin(at(999), false));
    assert!(c.may_begin(at(1000), false));
    begin(&mut c, at(1000), 5, CHECKPOINT, coordinated_scope(2, &["numbers"]));
    assert_eq!(c.take_steps(), [CheckpointStep::SnapshotCoordinators(1, [OperatorId(1)].into())]);
    assert!(!c.may_begin(at(9000), true), "one at a time");
    let states: BTreeMap<_, _> = [(OperatorId(3), StateHandle::Inline(vec![1]))].into();
    c.coordinators_answered(at(1001), 1, Ok(states.clone()));
    assert_eq!(c.take_steps(), [CheckpointStep::Trigger(1)]);
    c.acknowledge(at(0), 1, TaskIndex(0), part("a"));
    c.acknowledge(at(0), 1, TaskIndex(0), part("a"));
    assert_eq!(c.take_steps(), [], "one is missing, and a repeated answer is not another one");
    c.acknowledge(at(0), 1, TaskIndex(1), part("b"));
    let parts: BTreeMap<_, _> = [(TaskIndex(0), part("a")), (TaskIndex(1), part("b"))].into();
    let persist = CheckpointStep::Persist(Parts {
        checkpoint: 1,
        triggered_ms: 5,
        tasks: parts.clone(),
        coordinators: states,
    });
    assert_eq!(c.take_steps(), [persist]);
    assert_eq!((c.latest(), c.next_deadline(true, false)), (None, None));
    let stored = Arc::new(metadata(1, &parts));
    c.persisted(at(1005), 1, Ok(stored.clone()));
    let orphans = CheckpointStep::DeleteOrphans { below: 1, keep: c.kept_objects() };
    assert_eq!(c.take_steps(), [finished(1, 0..2), orphans]);
    assert_eq!(c.latest(), Some(&stored));
    assert_eq!(c.next_deadline(true, false), Some(at(2000)));
}

/// `execution.checkpointing.min-pause`: a checkpoint that takes long is not followed by the next one at once.
#[test]
fn the_next_checkpoint_waits_for_the_pause_after_a_complete_one_and_not_after_a_failed_one() {
    let mut c = Checkpoints::new(CheckpointConfig { min_pause: 3 * SECOND, ..config() }, at(0));
    let begins_at = |c: &Checkpoints, due: u64| {
        assert_eq!(c.next_deadline(true, false), Some(at(due)));
        assert!(!c.may_begin(at(due - 1), false) && c.may_begin(at(due), false), "{due}");
    };
    begins_at(&c, 1000);
    complete(&mut c, at(1500), "a");
    begins_at(&c, 4500);
    assert!(c.may_begin(at(1501), true), "a final checkpoint does not wait");
    // A savepoint does not wait, but periodic checkpoints pause after it.
    assert!(c.is_idle());
    begin(&mut c, at(4000), 5, CheckpointKind::Savepoint, scope(1));
    c.acknowledge(at(4000), 2, TaskIndex(0), part("b"));
    c.savepoint_stored(at(4200), 2, Ok("/savepoints/2".into()));
    begins_at(&c, 7200);
    // A failed checkpoint: the next one is due an interval after its beginning.
    begin(&mut c, at(7200), 5, CHECKPOINT, scope(1));
    c.decline(at(7900), 3, "the disk is full".into());
    begins_at(&c, 8200);
    // A pause that is shorter than what is left of the interval delays nothing.
    let mut c = Checkpoints::new(CheckpointConfig { min_pause: at(100), ..config() }, at(0));
    complete(&mut c, at(1000), "a");
    begins_at(&c, 2000);
}

#[test]
fn a_time_out_names_the_coordinators_or_counts_the_subtasks_that_are_missing() {
    let config = CheckpointConfig { timeout: SECOND, ..config() };
    let reason = |scope: Scope, acknowledged: u32| {
        let mut c = Checkpoints::new(config.clone(), at(0));
        begin(&mut c, at(0), 5, CHECKPOINT, scope);
        for task in 0..acknowledged {
            c.acknowledge(at(1), 1, TaskIndex(task), part("a"));
        }
        c.tick(at(1000));
        let why = c.take_steps().into_iter().find_map(|step| match step {
            CheckpointStep::Aborted { why, .. } => Some(why),
            _ => None,
        });
        let begin = "it took longer than 1s (execution.checkpointing.timeout); ";
        why.expect("it is aborted").strip_prefix(begin).expect("the limit").to_owned()
    };
    let coordinators = "not all snapshots of the coordinators (enumerators) have come";
    assert_eq!(
        reason(coordinated_scope(4, &["numbers"]), 0),
        format!("{coordinators} (operators: 'numbers'), so no barrier was sent")
    );
    assert_eq!(
        reason(coordinated_scope(4, &["a", "b", "c", "d", "e"]), 0),
        format!("{coordinators} (operators: 'a', 'b', 'c' and 2 more), so no barrier was sent")
    );
    assert_eq!(reason(scope(4), 2), "2 subtasks have not acknowledged");
    assert_eq!(reason(scope(4), 3), "1 subtask has not acknowledged");
}

#[test]
fn a_newer_checkpoint_replaces_the_older_ones_and_their_objects() {
    let mut c = Checkpoints::new(config(), at(0));
    complete(&mut c, at(1), "a");
    let steps = complete(&mut c, at(2), "b");
    let old: BTreeSet<String> =
        ["a".to_owned(), metadata(1, &BTreeMap::new()).object_name()].into();
    assert_eq!(steps, [finished(2, 0..1), CheckpointStep::Discard(old)]);
    // A finished task's state is carried on, so its object stays.
    let steps = complete(&mut c, at(3), "b");
    let old: BTreeSet<String> = [metadata(2, &BTreeMap::new()).object_name()].into();
    assert_eq!(steps, [finished(3, 0..1), CheckpointStep::Discard(old)]);
}

/// The number below which orphans are deleted, if they are, and the objects that stay.
fn orphans(steps: &[CheckpointStep]) -> Option<(u64, BTreeSet<String>)> {
    let all =
        picked!(steps, CheckpointStep::DeleteOrphans { below, keep } => (*below, keep.clone()));
    assert!(all.len() <= 1, "{all:?}");
    all.into_iter().next()
}

#[test]
fn what_an_aborted_checkpoint_left_is_deleted_after_the_next_complete_one() {
    let mut c = Checkpoints::new(CheckpointConfig { retained: 2, ..config() }, at(0));
    let steps = complete(&mut c, at(1), "a");
    assert_eq!(orphans(&steps).unwrap().0, 1, "what earlier JobMasters left");
    assert_eq!(orphans(&complete(&mut c, at(2), "b")), None, "nothing is left");
    begin(&mut c, at(3), 5, CHECKPOINT, scope(1));
    c.tasks_lost(at(3), "a task that had stored its part was lost");
    assert_eq!(orphans(&c.take_steps()), None, "no newer checkpoint is complete");
    let (below, keep) = orphans(&complete(&mut c, at(4), "d")).unwrap();
    let retained = |n| metadata(n, &BTreeMap::new()).object_name();
    assert_eq!(
        (below, keep),
        (4, ["b".to_owned(), "d".to_owned(), retained(2), retained(4)].into())
    );
    assert_eq!(orphans(&complete(&mut c, at(5), "e")), None);
}

#[test]
fn what_a_checkpoint_that_was_passed_over_left_is_deleted_after_the_next_complete_one() {
    let config = CheckpointConfig { retained: 2, falls_back: true, ..config() };
    let mut c = Checkpoints::new(config, at(0));
    complete(&mut c, at(1), "a");
    complete(&mut c, at(2), "b");
    assert!(c.pass_over_latest());
    assert!(c.kept_objects().contains("b"), "it may be restored by hand");
    let (below, keep) = orphans(&complete(&mut c, at(3), "c")).unwrap();
    assert!(below == 3 && keep.contains("a") && keep.contains("c") && !keep.contains("b"));
}

#[test]
fn a_checkpoint_that_fails_is_aborted_and_what_it_stored_is_deleted() {
    let mut c = Checkpoints::new(CheckpointConfig { tolerable_failures: 1, ..config() }, at(0));
    begin(&mut c, at(0), 5, CHECKPOINT, scope(2));
    c.acknowledge(at(0), 1, TaskIndex(0), part("a"));
    c.decline(at(1), 1, "the disk is full".into());
    let aborted = CheckpointStep::Aborted { checkpoint: 1, why: "the disk is full".into() };
    let discard = |object: &str| CheckpointStep::Discard([object.to_owned()].into());
    assert_eq!(c.take_steps(), [CheckpointStep::Trigger(1), aborted, discard("a")]);
    c.acknowledge(at(0), 1, TaskIndex(1), part("late"));
    assert_eq!(c.take_steps(), [discard("late")]);
    // The second failure in a row is one too many.
    begin(&mut c, at(0), 5, CHECKPOINT, scope(2));
    assert_eq!(c.next_deadline(true, false), Some(Duration::from_secs(600)));
    c.tick(Duration::from_secs(600));
    let steps = c.take_steps();
    assert!(
        matches!(&steps[1], CheckpointStep::Aborted { checkpoint: 2, why } if why.contains("execution.checkpointing.timeout")),
        "{steps:?}"
    );
    assert!(matches!(steps[2], CheckpointStep::TooManyFailures(_)), "{steps:?}");
}

#[test]
fn a_checkpoint_of_a_job_without_an_interval_fails_no_tasks() {
    for (interval, fails) in [(Some(Duration::from_secs(1)), true), (None, false)] {
        let config = CheckpointConfig { interval, ..CheckpointConfig::default() };
        let mut c = Checkpoints::new(config, at(0));
        begin(&mut c, at(0), 5, CHECKPOINT, scope(1));
        c.decline(at(10), 1, "no".into());
        let failure = |step: &CheckpointStep| matches!(step, CheckpointStep::TooManyFailures(_));
        assert_eq!(c.take_steps().iter().any(failure), fails, "{interval:?}");
    }
}

#[test]
fn a_final_checkpoint_that_failed_is_tried_again_after_a_pause() {
    let mut c = Checkpoints::new(CheckpointConfig::default(), at(0));
    assert!(!c.may_begin(at(5_000), false), "there is no interval");
    assert!(c.may_begin(at(0), true));
    begin(&mut c, at(0), 5, CHECKPOINT, Scope { last: tasks(1), ..scope(1) });
    c.decline(at(10), 1, "no".into());
    assert!(!c.may_begin(at(109), true));
    assert_eq!(c.next_deadline(true, true), Some(at(110)));
    assert!(c.may_begin(at(110), true));
    // However often it fails, and though no failure is tolerated, the job goes on trying.
    for pause in [200, 400, 800] {
        begin(&mut c, at(1000), 5, CHECKPOINT, Scope { last: tasks(1), ..scope(1) });
        let CheckpointStep::Trigger(number) = c.take_steps().pop().unwrap() else { panic!() };
        c.decline(at(1000), number, "no".into());
        assert!(!c.take_steps().iter().any(|s| matches!(s, CheckpointStep::TooManyFailures(_))));
        assert_eq!(c.next_deadline(true, true), Some(at(1000 + pause)));
    }
}

#[test]
fn numbers_go_on_after_a_restore() {
    let mut c = Checkpoints::new(config(), at(0));
    c.restore(7, Arc::new(metadata(41, &BTreeMap::new())), None);
    // The job may have had a checkpoint 42 that has failed.
    begin(&mut c, at(0), 5, CHECKPOINT, scope(1));
    assert_eq!(c.take_steps(), [CheckpointStep::Trigger(43)]);
}

#[test]
fn a_pointer_that_is_being_written_outlives_the_tasks() {
    let mut c = Checkpoints::new(config(), at(0));
    begin(&mut c, at(0), 5, CHECKPOINT, scope(1));
    c.acknowledge(at(0), 1, TaskIndex(0), part("a"));
    let stored = to_persist(c.take_steps());
    c.tasks_lost(at(0), "a task failed");
    assert!(c.is_persisting());
    // Nor does a report that comes too late: the log may have the pointer already.
    c.decline(at(0), 1, "the disk is full".into());
    assert_eq!(c.take_steps(), []);
    c.persisted(at(1), 1, Ok(stored));
    assert_eq!(c.take_steps()[0], finished(1, 0..1));
    begin(&mut c, at(1), 5, CHECKPOINT, scope(1));
    c.take_steps();
    c.tasks_lost(at(0), "a task failed");
    assert!(matches!(c.take_steps()[..], [CheckpointStep::Aborted { checkpoint: 2, .. }]));
}

#[derive(Debug, Clone)]
enum Event {
    Begin,
    Acknowledge(u64, u32),
    Decline(u64),
    Persisted(u64, bool),
    TasksLost,
    Tick(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Begin),
        9 => (0..3u64, 0..3u32).prop_map(|(back, task)| Event::Acknowledge(back, task)),
        1 => (0..3u64).prop_map(Event::Decline),
        5 => (0..2u64, any::<bool>()).prop_map(|(back, ok)| Event::Persisted(back, ok)),
        1 => Just(Event::TasksLost),
        1 => (0..700_000u64).prop_map(Event::Tick),
    ]
}

proptest! {
    /// Whatever comes in which order: a checkpoint is complete at most once and only after it was persisted, numbers grow, and no
    /// object is deleted that the newest complete checkpoint refers to.
    #[test]
    fn what_is_complete_stays_whole(events in proptest::collection::vec(event(), 0..200)) {
        let config = CheckpointConfig { tolerable_failures: 3, retained: 2, ..config() };
        let mut c = Checkpoints::new(config, at(0));
        let (mut now, mut newest, mut done) = (0, 0, 0);
        let mut to_store: BTreeMap<u64, Arc<CheckpointMetadata>> = BTreeMap::new();
        for event in events {
            match event {
                Event::Begin if c.may_begin(at(now), true) => {
                    begin(&mut c, at(now), now, CHECKPOINT, scope(3));
                }
                Event::Begin => now += 500,
                Event::Acknowledge(back, task) => {
                    let number = u64::saturating_sub(newest, back);
                    c.acknowledge(at(now), number, TaskIndex(task), part(&format!("{number}-{task}")));
                }
                Event::Decline(back) => c.decline(at(now), u64::saturating_sub(newest, back), "no".into()),
                Event::Persisted(back, ok) => {
                    let number = u64::saturating_sub(newest, back);
                    let outcome = to_store.get(&number).filter(|_| ok).cloned().ok_or("no".to_owned());
                    c.persisted(at(now), number, outcome);
                }
                Event::TasksLost => c.tasks_lost(at(0), "lost"),
                Event::Tick(ms) => {
                    now += ms;
                    c.tick(at(now));
                }
            }
            for step in c.take_steps() {
                match step {
                    CheckpointStep::Trigger(number) => {
                        prop_assert!(number > newest);
                        newest = number;
                    }
                    CheckpointStep::Persist(Parts { checkpoint, tasks, .. }) => {
                        prop_assert_eq!(tasks.len(), 3);
                        to_store.insert(checkpoint, Arc::new(metadata(checkpoint, &tasks)));
                    }
                    CheckpointStep::Complete { checkpoint: number, .. } => {
                        prop_assert!(number > done && to_store.contains_key(&number));
                        prop_assert_eq!(c.latest().map(|latest| latest.checkpoint), Some(number));
                        done = number;
                    }
                    CheckpointStep::Aborted { checkpoint, .. } => prop_assert!(checkpoint > done),
                    CheckpointStep::Discard(objects) => {
                        for kept in &c.complete {
                            prop_assert!(kept.objects().is_disjoint(&objects));
                        }
                    }
                    CheckpointStep::DeleteOrphans { below, keep } => {
                        prop_assert_eq!(below, done);
                        prop_assert!(c.pending.as_ref().is_none_or(|p| p.parts.checkpoint > below));
                        prop_assert!(c.complete.iter().all(|kept| kept.objects().is_subset(&keep)));
                    }
                    CheckpointStep::RecordNumber(_)
                    | CheckpointStep::SnapshotCoordinators(..)
                    | CheckpointStep::TooManyFailures(_)
                    | CheckpointStep::StoreSavepoint(_)
                    | CheckpointStep::SavepointComplete(_) => {}
                }
            }
        }
    }
}

#[test]
fn people_are_told_of_the_newest_checkpoints_and_how_they_ended() {
    use model::CheckpointStatus::{Completed, Failed, InProgress};
    let config = CheckpointConfig { tolerable_failures: 9, history: 3, ..config() };
    let mut c = Checkpoints::new(config, at(0));
    c.set_vertices([(JobVertexId(1), 2), (JobVertexId(2), 1)].into_iter());
    begin(
        &mut c,
        at(1000),
        50_000,
        CHECKPOINT,
        Scope { others: [(TaskIndex(0), part("a"))].into(), ..scope(0) },
    );
    begin(&mut c, at(1000), 50_000, CHECKPOINT, scope(3));
    c.acknowledge(at(1010), 2, TaskIndex(1), part("b"));
    c.acknowledge(at(1020), 2, TaskIndex(1), part("b"));
    let report = c.report();
    let running = &report.history[0];
    assert_eq!((running.checkpoint, running.status, running.triggered_ms), (2, InProgress, 50_000));
    assert_eq!((running.subtasks(), running.acknowledged(), running.state_bytes), (3, 1, 7));
    assert_eq!((running.pause_us(), c.pause_us(2), c.pause_us(9)), (700, 700, 0));
    assert_eq!(
        running.vertices[0].latest_ack_ms(),
        Some(50_010),
        "a repeated answer does not count"
    );
    // The part of a subtask that has finished is there from the beginning, without a time.
    let first = &report.history[1].vertices[0];
    assert_eq!((first.acknowledged(), first.latest_ack_ms()), (1, None));

    c.acknowledge(at(1030), 2, TaskIndex(0), part("a"));
    c.acknowledge(at(1030), 2, TaskIndex(2), part("c"));
    let stored = to_persist(c.take_steps());
    c.persisted(at(1050), 2, Ok(stored));
    begin(&mut c, at(2000), 51_000, CHECKPOINT, scope(3));
    c.decline(at(2005), 3, "the disk is full".into());
    let report = c.report();
    let shown: Vec<_> = report.history.iter().map(|s| (s.checkpoint, s.status)).collect();
    assert_eq!(shown, [(3, Failed), (2, Completed), (1, InProgress)]);
    let failed = report.latest_failed.as_ref().unwrap();
    assert_eq!(failed.failure.as_deref(), Some("the disk is full"));
    assert_eq!((failed.ended_ms, failed.duration_ms()), (Some(51_005), Some(5)));
    let complete = report.latest_completed.as_ref().unwrap();
    assert_eq!((complete.duration_ms(), complete.state_bytes), (Some(50), 21));
    assert_eq!((report.duration_ms.max, report.state_bytes.percentiles[0]), (50, 21));
    // A newer one replaces it.
    complete_another(&mut c);
    assert!(c.report().find(2).is_some_and(|stats| stats.discarded));
    assert_eq!(c.report().find(1), None, "only so many are listed");
    assert_eq!((c.report().counts.completed, c.report().counts.failed), (2, 1));
}

#[test]
fn the_checkpoints_of_a_job_that_has_ended_are_shown_as_deleted_unless_they_are_kept() {
    use model::JobStatus::{Canceled, Failed, Finished};
    let shown = |kept, status| {
        let mut c = Checkpoints::new(CheckpointConfig { kept, ..config() }, at(0));
        complete(&mut c, at(1000), "a");
        begin(&mut c, at(2000), 5, CheckpointKind::Savepoint, scope(1));
        c.acknowledge(at(2000), 2, TaskIndex(0), part("b"));
        c.savepoint_stored(at(2000), 2, Ok("/savepoints/2".into()));
        begin(&mut c, at(3000), 5, CHECKPOINT, scope(1));
        c.decline(at(3000), 3, "the disk is full".into());
        c.job_ended(status);
        let report = c.report();
        let gone: Vec<_> = report.history.iter().map(|stats| stats.discarded).collect();
        assert!(!gone[0] && !gone[1], "neither the failed one nor the savepoint: {gone:?}");
        assert_eq!(report.latest_completed.map(|stats| stats.discarded), Some(gone[2]));
        gone[2]
    };
    assert_eq!([Finished, Failed, Canceled].map(|end| shown((false, false), end)), [true; 3]);
    let kept_if_failed = [Finished, Failed, Canceled].map(|end| shown((true, false), end));
    assert_eq!(kept_if_failed, [true, false, true]);
    assert!(!shown((true, true), Canceled));
}

fn complete_another(c: &mut Checkpoints) {
    c.take_steps();
    complete(c, at(3000), "d");
}

/// A restore at another parallelism reads the states of those former subtasks alone that owned key groups of the new one.
#[test]
fn a_subtask_gets_the_state_of_former_subtasks_whose_key_groups_it_owns_now() {
    let restored =
        |former: u32, parallelism: u32, max_parallelism: u32, states: &[(&str, &str)]| {
            let mut graph = graph(vec![vertex(1, parallelism)], vec![]);
            graph.vertices[0].max_parallelism = max_parallelism;
            let declared = |(kind, role): &(&str, &str)| declaration(kind, kind, &[(role, "u64")]);
            graph.nodes[0].states = states.iter().map(declared).collect();
            graph.nodes[0].operator_id = OperatorId(1);
            let parts =
                (0..former).map(|index| (TaskIndex(index), part(&index.to_string()))).collect();
            let metadata = metadata(5, &parts);
            let former_of = |subtask| {
                let (restore, _) = restore_of(&metadata, &graph, &graph.vertices[0], subtask);
                let handles = restore.iter().flat_map(|(_, handles)| handles);
                handles.map(|handle| handle.object().unwrap().parse().unwrap()).collect()
            };
            (0..parallelism).map(former_of).collect::<Vec<Vec<u32>>>()
        };
    let keyed = [("value", "key")];
    assert_eq!(restored(2, 2, 128, &keyed), [[0], [1]]);
    assert_eq!(restored(2, 4, 128, &keyed), [[0], [0], [1], [1]]);
    assert_eq!(restored(4, 2, 128, &keyed), [[0, 1], [2, 3]]);
    assert_eq!(restored(2, 3, 128, &keyed), [vec![0], vec![0, 1], vec![1]]);
    assert_eq!(
        restored(2, 4, 128, &[("value", "value")]),
        vec![vec![0, 1]; 4],
        "of a subtask, not of keys"
    );
    let with_rules = [("value", "key"), ("broadcast", "value")];
    assert_eq!(restored(3, 3, 128, &with_rules), [vec![0], vec![0, 1], vec![0, 2]]);
    assert_eq!(restored(2, 4, 128, &with_rules), [vec![0], vec![0], vec![0, 1], vec![0, 1]]);
    assert_eq!(restored(2, 2, 128, &with_rules[1..]), vec![vec![0, 1]; 2], "of no keys");
    assert_eq!(restored(2, 4, 64, &keyed), vec![vec![0, 1]; 4], "key groups are others");
    assert_eq!(restored(1, 130, 128, &keyed)[1], [0]);
    let nothing = restored(1, 130, 128, &keyed).iter().filter(|former| former.is_empty()).count();
    assert_eq!(nothing, 2, "there are fewer key groups than subtasks");
}

/// A subtask of another parallelism gets those ranges of a part alone that may have its key groups.
#[test]
fn a_subtask_of_another_parallelism_gets_the_ranges_of_its_key_groups() {
    use model::{StatePart, StateRange};
    let whole = StateHandle::Object { name: "a".to_owned(), bytes: 128 };
    // A range per key group of a subtask that owned all.
    let range =
        |group| StateRange { groups: (group, group), offset: u64::from(group), bytes: 1, crc: 0 };
    let groups = vec![(0, 127)];
    let ranges = (0..128).map(range).collect();
    let part = StatePart { groups, state: whole.clone(), ranges, index: None };
    let states = |part: &StatePart| {
        let state = StateHandle::Parts(vec![part.clone()]);
        let part =
            SubtaskSnapshot { ended: false, operators: vec![(OperatorId(1), state)], pause_us: 0 };
        metadata(5, &[(TaskIndex(0), part)].into())
    };
    let mut graph = graph(vec![vertex(1, 5)], vec![]);
    graph.vertices[0].max_parallelism = 128;
    graph.nodes[0].operator_id = OperatorId(1);
    graph.nodes[0].states = vec![declaration("sum", "value", &[("key", "u64")])];
    let of = |graph: &model::JobGraph, part: &StatePart, subtask| {
        let (restore, _) = restore_of(&states(part), graph, &graph.vertices[0], subtask);
        restore.into_iter().flat_map(|(_, handles)| handles).collect::<Vec<_>>()
    };
    let mut read = Vec::new();
    for subtask in 0..5 {
        match &of(&graph, &part, subtask)[..] {
            [StateHandle::Ranges { of, ranges, index: None }] if **of == whole => {
                read.extend_from_slice(ranges);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(read, part.ranges, "each range is read by its owner alone");
    let inline = StatePart { state: StateHandle::Inline(vec![0; 64]), ..part.clone() };
    assert_eq!(of(&graph, &inline, 3), std::slice::from_ref(&inline.state));
    graph.vertices[0].parallelism = 1;
    assert_eq!(of(&graph, &part, 0), [whole], "with its own parallelism the whole is checked");
    let index = Some(StateRange { groups: (0, 127), offset: 128, bytes: 9, crc: 0 });
    let indexed = StatePart { index, ..part.clone() };
    assert_eq!(of(&graph, &indexed, 0), std::slice::from_ref(&part.state));
    graph.vertices[0].parallelism = 2;
    match &of(&graph, &indexed, 1)[..] {
        [StateHandle::Ranges { index: Some((place, groups)), .. }] => {
            assert_eq!((Some(*place), groups), (index, &(64..128)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_subtask_gets_the_parts_of_former_states_that_have_its_key_groups() {
    use model::StatePart;
    let object = |name: &str| StateHandle::Object { name: name.to_owned(), bytes: 1 };
    let parts = |of: &[(&str, &[(u32, u32)])]| {
        let part = |(name, groups): &(&str, &[_])| StatePart::whole(groups.to_vec(), object(name));
        let operators = vec![(OperatorId(1), StateHandle::Parts(of.iter().map(part).collect()))];
        SubtaskSnapshot { ended: false, operators, pause_us: 0 }
    };
    let mut graph = graph(vec![vertex(1, 4)], vec![]);
    graph.vertices[0].max_parallelism = 128;
    graph.nodes[0].operator_id = OperatorId(1);
    graph.nodes[0].states = vec![declaration("sum", "value", &[("key", "u64")])];
    // Subtasks of the former parallelism 2 owned groups 0 to 63 and 64 to 127.
    let former = [
        (TaskIndex(0), parts(&[("a", &[(0, 30)]), ("b", &[(31, 40)]), ("c", &[])])),
        (TaskIndex(1), parts(&[("d", &[(64, 70), (127, 127)]), ("e", &[(95, 96)])])),
    ];
    let metadata = metadata(5, &former.into());
    let names = |graph: &model::JobGraph, subtask: u32| {
        let (restore, _) = restore_of(&metadata, graph, &graph.vertices[0], subtask);
        let handles = restore.iter().flat_map(|(_, handles)| handles);
        handles.map(|handle| handle.object().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let of: Vec<_> = (0..4).map(|subtask| names(&graph, subtask)).collect();
    assert_eq!(of, [vec!["a", "b", "c"], vec!["b", "c"], vec!["d", "e"], vec!["d", "e"]]);
    graph.vertices[0].parallelism = 2;
    assert_eq!([names(&graph, 0).len(), names(&graph, 1).len()], [3, 2]);
    let mut broadcast = graph.clone();
    let rules = declaration("broadcast", StateDeclaration::BROADCAST, &[]);
    broadcast.nodes[0].states.push(rules);
    assert_eq!(names(&broadcast, 0), ["a", "b", "c"]);
    assert_eq!(names(&broadcast, 1), ["c", "d", "e"], "any part of the first may have it");
    graph.vertices[0].max_parallelism = 64;
    graph.vertices[0].parallelism = 4;
    assert_eq!(names(&graph, 3), ["a", "b", "c", "d", "e"], "key groups are others");
}

/// A claimed savepoint is deleted once the job has a checkpoint of its own, so it takes no damaged checkpoint's place.
#[test]
fn the_snapshot_that_the_job_was_started_from_is_passed_over_to_never() {
    let config = CheckpointConfig { retained: 2, falls_back: true, ..config() };
    let checkpoint = |number| Arc::new(metadata(number, &BTreeMap::new()));
    let mut c = Checkpoints::new(config, at(0));
    c.restore(1, checkpoint(10), Some("/savepoint".to_owned()));
    c.restore(2, checkpoint(11), Some("/savepoint".to_owned()));
    c.started_from = Some((10, "/savepoint".to_owned()));
    assert_eq!(c.before_latest(), None);
    assert!(!c.pass_over_latest());
    c.started_from = None;
    assert_eq!(c.before_latest(), Some(10));
    assert!(c.pass_over_latest());
    assert_eq!(c.latest().unwrap().checkpoint, 10);
}

/// Each time that objects are discarded, those of all kept checkpoints are looked through.
#[test]
fn the_parts_of_a_savepoint_that_was_copied_are_discarded_together() {
    let mut c = Checkpoints::new(config(), at(0));
    begin(&mut c, at(1), 5, CheckpointKind::Savepoint, scope(3));
    for (task, object) in ["a", "b", "c"].into_iter().enumerate() {
        c.acknowledge(at(1), 1, TaskIndex(task as u32), part(object));
    }
    c.take_steps();
    c.savepoint_stored(at(2), 1, Ok("/savepoints/1".into()));
    let objects = ["a", "b", "c"].map(str::to_owned).into();
    let steps = c.take_steps();
    assert_eq!(steps, [CheckpointStep::SavepointComplete(1), CheckpointStep::Discard(objects)]);
}
