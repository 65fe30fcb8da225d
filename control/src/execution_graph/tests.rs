use super::*;
use model::testing::{graph, vertex};
use model::{JobStatus, job::TaskMetrics};
use proptest::prelude::*;

fn sample() -> ExecutionGraph {
    ExecutionGraph::new(Arc::new(graph(vec![vertex(1, 3), vertex(2, 2)], vec![])), 7, 1000)
}

#[test]
fn subtasks_are_found_by_their_current_attempt_only() {
    let mut exec = sample();
    let third = TaskIndex(3);
    assert_eq!(exec.split(third), (1, 0));
    let first = exec.attempt_id(third).unwrap();
    assert_eq!(exec.locate(&first), Some(third));
    exec.renew(third, 2000);
    assert_eq!(exec.locate(&first), None);
    let second = exec.attempt_id(third).unwrap();
    assert_eq!(second.attempt, 1);
    assert_eq!(exec.locate(&second), Some(third));
    assert_eq!(exec.locate(&ExecutionAttemptId { graph: 8, ..second }), None);
    assert_eq!(exec.locate(&ExecutionAttemptId { subtask: 2, ..second }), None);
    assert_eq!(exec.locate(&ExecutionAttemptId { subtask: u32::MAX, ..second }), None);
    assert_eq!(exec.locate(&ExecutionAttemptId { vertex: JobVertexId(9), ..second }), None);
}

#[test]
fn reports_may_skip_states_and_never_go_back() {
    use ExecutionState as S;
    let mut exec = sample();
    let t = TaskIndex(0);
    assert!(!exec.advance(t, S::Running, 1));
    assert!(exec.advance(t, S::Scheduled, 2));
    assert!(exec.advance(t, S::Deploying, 3));
    assert!(exec.advance(t, S::Running, 4));
    assert!(!exec.advance(t, S::Initializing, 5));
    assert!(exec.advance(t, S::Finished, 6));
    assert!(!exec.advance(t, S::Failed, 7));
    let at = exec.task(t).unwrap().timestamps();
    assert_eq!(
        at,
        BTreeMap::from([
            (S::Created, 1000),
            (S::Scheduled, 2),
            (S::Deploying, 3),
            (S::Running, 4),
            (S::Finished, 6)
        ])
    );
    assert_eq!(exec.states(), BTreeMap::from([(S::Created, 4), (S::Finished, 1)]));
}

#[test]
fn counts_only_grow() {
    let mut exec = sample();
    let io = |n| TaskIo { records_in: n, ..TaskIo::default() };
    let metrics = |n| Arc::new(TaskMetrics::from([("map.seen".to_owned(), n)]));
    exec.count(TaskIndex(0), io(10), metrics(3));
    exec.count(TaskIndex(0), io(5), metrics(2));
    assert_eq!(exec.task(TaskIndex(0)).unwrap().io.records_in, 10);
    assert_eq!(exec.task(TaskIndex(0)).unwrap().metrics, metrics(3));
}

#[test]
fn details_show_every_subtask_in_order() {
    let exec = sample();
    let details = exec.details();
    assert_eq!(details.iter().map(|v| v.subtasks.len()).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(details[1].subtasks[1].attempt.subtask, 1);
    assert_eq!(exec.describe(TaskIndex(4)), "v2 (2/2)");
}

const JOB_STATES: [JobStatus; 11] = [
    JobStatus::Initializing,
    JobStatus::Created,
    JobStatus::Running,
    JobStatus::Failing,
    JobStatus::Failed,
    JobStatus::Cancelling,
    JobStatus::Canceled,
    JobStatus::Finished,
    JobStatus::Restarting,
    JobStatus::Suspended,
    JobStatus::Reconciling,
];

proptest! {
    #[test]
    fn a_terminal_job_state_is_never_left(steps in prop::collection::vec(0usize..11, 0..40)) {
        let mut machine = StatusMachine::new(1, 2);
        let mut ended = None;
        for step in steps {
            let _ = machine.advance(JOB_STATES[step], 3);
            if let Some(ended) = ended {
                prop_assert_eq!(machine.current(), ended);
            }
            ended = machine.current().is_terminal().then(|| machine.current());
        }
    }

    #[test]
    fn counts_by_state_always_add_up(steps in prop::collection::vec((0u32..6, 0usize..10), 0..200)) {
        let mut exec = sample();
        for (task, step) in steps {
            match ExecutionState::ALL.get(step) {
                Some(state) => { exec.advance(TaskIndex(task), *state, 5); }
                None => exec.renew(TaskIndex(task), 5),
            }
            let counted: BTreeMap<ExecutionState, u32> = exec.tasks.iter().fold(BTreeMap::new(), |mut m, t| {
                *m.entry(t.state).or_default() += 1;
                m
            });
            prop_assert_eq!(exec.states(), counted);
        }
    }
}
