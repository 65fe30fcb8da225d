use super::*;
use crate::testing::session as s;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A process that was started in session `n`.
fn started(n: u64) -> HandOver {
    let mut h = HandOver::default();
    h.granted(s(n));
    h.take_orders();
    h
}

#[test]
fn a_grant_starts_and_an_answer_confirms() {
    let mut h = HandOver::default();
    h.granted(s(1));
    assert_eq!(h.take_orders(), [Order::Start(s(1))]);
    h.answers(s(1));
    assert_eq!(h.take_orders(), [Order::Confirm(s(1))]);
    assert_eq!(h.leading(), Some((s(1), true)));
}

#[test]
fn the_old_process_has_ended_before_the_new_one_starts() {
    let mut h = HandOver::default();
    h.granted(s(1));
    h.answers(s(1));
    h.take_orders();
    h.granted(s(2));
    assert_eq!(h.take_orders(), [Order::Stop(s(1))]);
    assert_eq!(h.phase(s(2)), Some(Phase::Created));
    h.answers(s(1));
    assert_eq!(h.take_orders(), []);
    h.ended(s(1));
    assert_eq!(h.take_orders(), [Order::Start(s(2))]);
    assert_eq!((h.phase(s(1)), h.phase(s(2))), (None, Some(Phase::Running)));
}

#[test]
fn a_revoke_during_the_start_leaves_nothing_behind() {
    let mut h = started(1);
    h.revoked(s(1));
    assert_eq!(h.take_orders(), [Order::Stop(s(1))]);
    h.answers(s(1));
    assert_eq!(h.take_orders(), [], "an answer that comes too late is not confirmed");
    h.ended(s(1));
    assert_eq!(h.take_orders(), [Order::Revoked(s(1))]);
    assert_eq!(h.leading(), None);
}

#[test]
fn a_revoke_before_the_start_waits_for_the_process_before_it() {
    let mut h = HandOver::default();
    h.granted(s(1));
    h.granted(s(2));
    h.take_orders();
    h.revoked(s(2));
    assert_eq!(h.take_orders(), []);
    h.ended(s(1));
    assert_eq!(h.take_orders(), [Order::Revoked(s(2))]);
}

#[test]
fn a_revoke_of_what_does_not_lead_leaves_the_leader_alone() {
    let mut h = started(2);
    h.revoked(s(1));
    assert_eq!(h.take_orders(), [Order::Revoked(s(1))]);
    assert_eq!(h.leading(), Some((s(2), false)));
}

#[test]
fn an_old_grant_comes_too_late() {
    let mut h = started(2);
    h.granted(s(1));
    assert_eq!(h.take_orders(), []);
}

#[test]
fn a_process_that_ends_by_itself_is_told() {
    let mut h = started(1);
    h.ended(s(1));
    assert_eq!(h.take_orders(), [Order::Died(s(1))]);
}

#[test]
fn closing_waits_for_the_end() {
    let mut h = started(1);
    h.close();
    assert_eq!(h.take_orders(), [Order::Stop(s(1))]);
    h.granted(s(2));
    h.ended(s(1));
    assert_eq!(h.take_orders(), [Order::Closed]);
}

#[derive(Debug, Clone)]
enum Step {
    Grant,
    Revoke,
    Answer(usize),
    End(usize),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Grant),
        3 => Just(Step::Revoke),
        4 => any::<usize>().prop_map(Step::Answer),
        4 => any::<usize>().prop_map(Step::End),
        1 => Just(Step::Close),
    ]
}

proptest! {
    #[test]
    fn one_process_lives_at_a_time_and_only_leaders_are_confirmed(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut h = HandOver::default();
        let mut granted = 0;
        let mut leader: Option<u64> = None;
        let mut alive: Vec<LeaderSession> = vec![];
        let mut stopped = BTreeSet::new();
        let mut waiting_revoke: BTreeSet<LeaderSession> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Grant => {
                    granted += 1;
                    leader = Some(granted);
                    h.granted(s(granted));
                }
                Step::Revoke => if let Some(n) = leader.take() {
                    waiting_revoke.insert(s(n));
                    h.revoked(s(n));
                },
                Step::Answer(i) => if !alive.is_empty() { h.answers(alive[i % alive.len()]) },
                Step::End(i) => if !alive.is_empty() {
                    let ended = alive.swap_remove(i % alive.len());
                    stopped.remove(&ended);
                    h.ended(ended);
                },
                Step::Close => h.close(),
            }
            for order in h.take_orders() {
                match order {
                    Order::Start(session) => {
                        prop_assert!(alive.is_empty());
                        prop_assert_eq!(Some(session), leader.map(s));
                        alive.push(session);
                    }
                    Order::Stop(session) => {
                        prop_assert!(alive.contains(&session));
                        prop_assert!(stopped.insert(session), "stopped twice");
                    }
                    Order::Confirm(session) => {
                        prop_assert_eq!(Some(session), leader.map(s));
                        prop_assert!(alive.contains(&session) && !stopped.contains(&session));
                    }
                    Order::Revoked(session) => {
                        waiting_revoke.remove(&session);
                        prop_assert!(!alive.contains(&session));
                    }
                    Order::Closed => prop_assert!(alive.is_empty()),
                    Order::Died(_) => {}
                }
            }
        }
        for session in alive {
            h.ended(session);
        }
        let revoked: Vec<Order> = h.take_orders();
        for session in waiting_revoke {
            prop_assert!(revoked.contains(&Order::Revoked(session)), "a revocation was never answered");
        }
    }
}
