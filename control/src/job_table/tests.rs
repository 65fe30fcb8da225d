use super::*;
use crate::testing::ms as at;
use ExecutionState::{Canceled, Failed, Finished, Initializing, Running};
use model::{JobVertexId, testing::state_of};
use proptest::prelude::*;

const SLOT: AllocationId = AllocationId(1);

fn attempt(subtask: u32) -> ExecutionAttemptId {
    ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask, attempt: 0 }
}
fn update(subtask: u32, state: ExecutionState) -> TaskStateUpdate {
    state_of(attempt(subtask), state)
}
fn job(tasks: u32) -> Job {
    let mut job = Job::new(None);
    (0..tasks).for_each(|n| job.add_task(attempt(n), SLOT));
    job
}

#[test]
fn states_leave_in_order_one_batch_at_a_time() {
    let mut j = job(2);
    assert!(j.update(update(0, Initializing)));
    assert!(j.update(update(1, Initializing)));
    let first = vec![update(0, Initializing), update(1, Initializing)];
    assert_eq!(j.next_batch(at(0)), Some(Batch::States(first)));
    assert!(j.update(update(0, Running)));
    assert_eq!(j.next_batch(at(0)), None, "one is under way");
    assert_eq!(j.batch_confirmed().len(), 2);
    assert_eq!(j.next_batch(at(0)), Some(Batch::States(vec![update(0, Running)])));
    j.batch_confirmed();
    assert!(j.reported_all());
    assert_eq!(j.next_batch(at(0)), None);
}

#[test]
fn a_failed_batch_is_sent_again_after_a_pause_with_what_came_since() {
    let mut j = job(1);
    j.update(update(0, Initializing));
    assert!(j.next_batch(at(0)).is_some());
    j.batch_failed(at(0));
    j.update(update(0, Running));
    assert_eq!(j.next_batch(at(49)), None);
    assert_eq!(j.deadline(), Some(at(50)));
    let both = vec![update(0, Initializing), update(0, Running)];
    assert_eq!(j.next_batch(at(50)), Some(Batch::States(both)));
    j.batch_failed(at(50));
    assert_eq!(j.deadline(), Some(at(150)));
}

#[test]
fn an_ended_task_is_listed_until_its_end_is_confirmed() {
    let mut j = job(1);
    j.update(update(0, Finished));
    assert!(!j.is_running(attempt(0)));
    assert_eq!(j.snapshot(), [update(0, Finished)]);
    j.next_batch(at(0)).unwrap();
    assert_eq!(j.snapshot(), [update(0, Finished)]);
    j.batch_confirmed();
    assert_eq!(j.snapshot(), []);
}

#[test]
fn what_is_said_of_unknown_or_ended_attempts_is_not_believed() {
    let mut j = job(1);
    assert!(!j.update(update(7, Running)));
    assert!(j.update(update(0, Canceled)));
    assert!(!j.update(update(0, Running)));
    assert!(!j.update(update(0, Failed)));
    assert_eq!(j.snapshot(), [update(0, Canceled)]);
}

#[test]
fn repeated_states_are_no_news_and_a_cancelled_task_may_still_finish() {
    let mut j = job(1);
    assert!(j.update(update(0, Running)));
    assert!(!j.update(update(0, Initializing)));
    assert!(!j.update(update(0, Running)));
    assert!(j.update(update(0, ExecutionState::Canceling)));
    assert!(j.update(update(0, Finished)));
}

#[test]
fn counts_alone_make_no_report() {
    let mut j = job(1);
    let mut counted = update(0, ExecutionState::Deploying);
    counted.io.records_in = 5;
    assert!(!j.update(counted.clone()));
    assert_eq!(j.snapshot(), [counted]);
    assert!(j.reported_all());
}

#[test]
fn a_dead_host_fails_its_tasks_then_its_slots() {
    let mut j = job(2);
    j.update(update(0, Finished));
    let cause = FailureCause::recoverable("ProgramHostLost", "killed by SIGKILL");
    j.fail_running(&cause);
    j.slot_failed(SLOT, true, cause.clone());
    let mut failed = update(1, Failed);
    failed.cause = Some(cause.clone());
    assert_eq!(j.next_batch(at(0)), Some(Batch::States(vec![update(0, Finished), failed])));
    j.batch_confirmed();
    let failed = Batch::SlotFailed { allocation: SLOT, accepted: true, cause: cause.clone() };
    assert_eq!(j.next_batch(at(0)), Some(failed));
    let confirmed = Report::SlotFailed { allocation: SLOT, accepted: true, cause };
    assert_eq!(j.batch_confirmed(), [confirmed]);
    assert!(j.reported_all());
}

#[test]
fn a_slot_is_busy_while_a_task_in_it_runs() {
    let mut j = job(2);
    j.update(update(0, Canceled));
    assert!(j.slot_is_busy(SLOT));
    assert!(!j.slot_is_busy(AllocationId(2)));
    j.update(update(1, Canceled));
    assert!(!j.slot_is_busy(SLOT));
}

#[test]
fn a_batch_is_bounded() {
    let n = u32::try_from(UPDATES_PER_CALL_MAX).unwrap() + 1;
    let mut j = job(n);
    (0..n).for_each(|i| assert!(j.update(update(i, Running))));
    let Some(Batch::States(states)) = j.next_batch(at(0)) else { panic!() };
    assert_eq!(states.len(), UPDATES_PER_CALL_MAX);
    j.batch_confirmed();
    assert_eq!(j.next_batch(at(0)), Some(Batch::States(vec![update(n - 1, Running)])));
}

proptest! {
    /// Whatever fails in between, the JobMaster gets every change of state, in order, at least once.
    #[test]
    fn every_change_arrives_in_order(steps in proptest::collection::vec((0u8..4, 0u32..3), 0..80)) {
        let mut j = job(3);
        let states = [Initializing, Running, Finished];
        let mut progress = [0usize; 3];
        let mut made = Vec::new();
        let mut arrived: Vec<TaskStateUpdate> = Vec::new();
        let mut under_way: Option<Vec<TaskStateUpdate>> = None;
        let mut now = 0;
        let steps = steps.into_iter().chain(std::iter::repeat_n((1, 0), 1).chain([(2, 0), (1, 0), (2, 0)]));
        for (step, task) in steps {
            now += 3000;
            match step {
                0 => {
                    let p = &mut progress[task as usize];
                    if let Some(state) = states.get(*p) {
                        *p += 1;
                        prop_assert!(j.update(update(task, *state)));
                        made.push(update(task, *state));
                    }
                }
                1 => if let Some(Batch::States(batch)) = j.next_batch(at(now)) {
                    prop_assert!(under_way.is_none());
                    under_way = Some(batch);
                },
                2 => if let Some(batch) = under_way.take() {
                    j.batch_confirmed();
                    arrived.extend(batch);
                },
                _ => if under_way.take().is_some() {
                    j.batch_failed(at(now));
                },
            }
        }
        prop_assert_eq!(arrived, made);
        prop_assert!(j.reported_all());
    }
}
