use super::*;
use crate::testing::ms;
use proptest::prelude::*;

fn asking() -> Registration<u8> {
    let mut registration = Registration::new(Pauses::default());
    assert_eq!(registration.leader_changed(Some(1)), Next::Ask(1));
    registration
}

#[test]
fn a_new_leader_is_asked_at_once_and_the_same_one_not_again() {
    let mut r = asking();
    assert_eq!(r.leader_changed(Some(1)), Next::Nothing);
    assert_eq!(r.leader_changed(Some(2)), Next::Ask(2));
    assert_eq!(r.leader_changed(None), Next::Nothing);
    assert_eq!(r.leader(), None);
}

#[test]
fn failures_are_tried_again_with_growing_pauses_up_to_the_longest() {
    let mut r = asking();
    let mut now = ms(0);
    for pause in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        r.failed(now, 1);
        assert_eq!(r.tick(now + ms(pause - 1)), Next::Nothing);
        assert_eq!(r.deadline(), Some(now + ms(pause)));
        now += ms(pause);
        assert_eq!(r.tick(now), Next::Ask(1));
    }
    assert!(r.accepted(1));
    assert_eq!(r.deadline(), None);
}

#[test]
fn a_refusal_is_not_retried_blindly() {
    let mut r = asking();
    assert!(r.refused(ms(0), 1, true));
    assert_eq!(r.tick(ms(29_999)), Next::Nothing);
    assert_eq!(r.tick(ms(30_000)), Next::Ask(1));
    assert!(r.refused(ms(30_000), 1, false));
    assert_eq!(r.deadline(), None);
    assert_eq!(r.tick(ms(u64::MAX / 2)), Next::Nothing);
    assert_eq!(r.leader_changed(Some(2)), Next::Ask(2));
}

#[test]
fn answers_of_an_earlier_leader_are_not_believed() {
    let mut r = asking();
    assert_eq!(r.leader_changed(Some(2)), Next::Ask(2));
    assert!(!r.accepted(1));
    r.failed(ms(0), 1);
    assert!(!r.refused(ms(0), 1, false));
    assert!(!r.lost(ms(0), 1));
    assert!(r.accepted(2));
    assert_eq!(r.registered(), Some(2));
}

#[test]
fn a_lost_leader_is_asked_again_unless_another_leads() {
    let mut r = asking();
    assert!(r.accepted(1));
    assert!(r.lost(ms(5), 1));
    assert_eq!(r.tick(ms(105)), Next::Ask(1));
    assert!(r.accepted(1));
    assert!(r.lost(ms(200), 1));
    assert_eq!(r.leader_changed(Some(2)), Next::Ask(2));
}

proptest! {
    /// At most one question is open, and only ever to the newest leader.
    #[test]
    fn only_the_newest_leader_is_asked(events in proptest::collection::vec((0u8..6, 0u8..3, any::<bool>()), 0..60)) {
        let mut r = Registration::new(Pauses::default());
        let mut newest = None;
        let mut now = ms(0);
        for (event, id, flag) in events {
            now += ms(50);
            let next = match event {
                0 => {
                    newest = flag.then_some(id);
                    r.leader_changed(newest)
                }
                1 => {
                    let believed = r.accepted(id);
                    prop_assert!(!believed || newest == Some(id));
                    Next::Nothing
                }
                2 => {
                    r.failed(now, id);
                    Next::Nothing
                }
                3 => {
                    r.refused(now, id, flag);
                    Next::Nothing
                }
                4 => {
                    r.lost(now, id);
                    Next::Nothing
                }
                _ => r.tick(now),
            };
            prop_assert_eq!(r.leader(), newest);
            if let Next::Ask(id) = next {
                prop_assert_eq!(Some(id), newest);
            }
        }
    }
}
