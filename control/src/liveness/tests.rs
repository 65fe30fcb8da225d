use super::*;
use crate::testing::{ms, s};
use proptest::prelude::*;

fn watching() -> Liveness {
    Liveness::new(Role::Watching, Limits::default(), s(100))
}
fn watched() -> Liveness {
    Liveness::new(Role::Watched, Limits::default(), s(100))
}
fn heard() -> Event {
    Event::Heard { turn_age: ms(3) }
}

#[test]
fn a_silent_peer_is_lost_at_the_time_out_and_once() {
    let mut peer = watching();
    for t in 101..105 {
        assert_eq!(peer.step(s(t), Event::Tick), Verdict::Fine);
    }
    let lost = Loss::Timeout { silent_for: s(5) };
    assert_eq!(peer.step(s(105), Event::Tick), Verdict::Lost(lost));
    assert!(peer.is_over());
    assert_eq!(peer.step(s(106), Event::Tick), Verdict::Fine);
    assert_eq!(peer.step(s(106), Event::NotKnown), Verdict::Fine);
}

#[test]
fn a_beat_starts_the_time_out_again() {
    let mut peer = watching();
    assert_eq!(peer.step(s(104), heard()), Verdict::Fine);
    for t in 104..109 {
        assert_eq!(peer.step(s(t), Event::Tick), Verdict::Fine);
    }
    assert!(matches!(peer.step(s(109), Event::Tick), Verdict::Lost(_)));
}

#[test]
fn a_peer_that_is_heard_but_does_not_move_is_lost() {
    let mut peer = watching();
    assert_eq!(peer.step(s(101), Event::Heard { turn_age: s(10) }), Verdict::Fine);
    let turn_age = ms(10_001);
    assert_eq!(
        peer.step(s(102), Event::Heard { turn_age }),
        Verdict::Lost(Loss::Stuck { turn_age })
    );
}

#[test]
fn a_confirmed_death_and_an_unknown_pair_are_lost_at_once() {
    let why = "connection refused".to_owned();
    assert_eq!(
        watching().step(ms(100_001), Event::Confirmed { why: why.clone() }),
        Verdict::Lost(Loss::Connection { why })
    );
    let mut peer = watching();
    peer.step(s(101), heard());
    assert_eq!(peer.step(s(101), Event::NotKnown), Verdict::Lost(Loss::Unknown));
}

#[test]
fn a_peer_that_has_not_heard_of_its_registration_yet_is_not_lost_for_that() {
    let mut peer = watching();
    for t in 101..105 {
        peer.step(s(t), Event::NotKnown);
        assert_eq!(peer.step(s(t), Event::Tick), Verdict::Fine);
    }
    assert!(matches!(peer.step(s(105), Event::Tick), Verdict::Lost(Loss::Timeout { .. })));
}

#[test]
fn the_watched_side_is_told_of_silence_before_the_other_may_declare_it_dead() {
    let mut peer = watched();
    assert_eq!(peer.step(ms(102_900), Event::Tick), Verdict::Fine);
    assert_eq!(peer.step(s(103), Event::Tick), Verdict::Silent { since: s(3) });
    assert_eq!(peer.step(s(104), Event::Tick), Verdict::Fine, "once per silence");
    assert_eq!(peer.step(s(104), heard()), Verdict::Fine);
    assert_eq!(peer.step(s(107), Event::Tick), Verdict::Silent { since: s(3) });
    assert!(matches!(peer.step(s(109), Event::Tick), Verdict::Lost(Loss::Timeout { .. })));
}

#[test]
fn a_watcher_that_was_stopped_blames_nobody_for_it_but_the_watched_side_fences_itself() {
    let mut peer = watching();
    peer.step(s(101), heard());
    peer.step(s(101), Event::Tick);
    assert_eq!(peer.step(s(131), Event::Tick), Verdict::Fine, "30 s stopped");
    assert_eq!(peer.step(s(133), Event::Tick), Verdict::Fine);
    assert!(matches!(peer.step(s(135), Event::Tick), Verdict::Lost(_)), "silent since");
    let mut peer = watched();
    peer.step(s(101), heard());
    assert!(matches!(peer.step(s(131), Event::Tick), Verdict::Lost(_)));
}

#[test]
fn a_turn_ages_only_while_it_is_observed() {
    let mut age = TurnAge::default();
    assert_eq!(age.observe(1, s(1), s(1)), s(0));
    assert_eq!(age.observe(1, s(1), s(1)), s(1));
    assert_eq!(age.observe(1, s(60), s(1)), s(3), "the process was stopped for a minute");
    assert_eq!(age.observe(2, s(1), s(1)), s(0));
}

proptest! {
    /// While beats come at least once per fence time, and ticks too, nothing is ever reported.
    #[test]
    fn a_regular_peer_is_never_lost(gaps in proptest::collection::vec(1u64..2_900, 1..200), role in any::<bool>()) {
        let role = if role { Role::Watching } else { Role::Watched };
        let mut peer = Liveness::new(role, Limits::default(), s(0));
        let mut now = s(0);
        for gap in gaps {
            now += ms(gap);
            prop_assert_eq!(peer.step(now, Event::Tick), Verdict::Fine);
            prop_assert_eq!(peer.step(now, heard()), Verdict::Fine);
        }
    }

    /// With regular ticks the watched side always hears of the silence at least 0.3 of the time-out
    /// before the watching side, which last heard it no earlier, declares it dead.
    #[test]
    fn fencing_comes_first(offset in 0u64..1_000, tick in 10u64..500) {
        let limits = Limits::default();
        let mut watcher = Liveness::new(Role::Watching, limits, ms(offset));
        // The watched side heard the beat before its answer reached the watcher.
        let mut watched = Liveness::new(Role::Watched, limits, s(0));
        let (mut fenced_at, mut declared_at) = (None, None);
        let mut now = Duration::ZERO;
        while declared_at.is_none() {
            now += ms(tick);
            if fenced_at.is_none() && watched.step(now, Event::Tick) != Verdict::Fine { fenced_at = Some(now); }
            if now > ms(offset) && watcher.step(now, Event::Tick) != Verdict::Fine { declared_at = Some(now); }
        }
        let (fenced_at, declared_at) = (fenced_at.expect("told"), declared_at.expect("lost"));
        prop_assert!(fenced_at + ms(1_500) <= declared_at, "{:?} {:?}", fenced_at, declared_at);
    }
}

/// The verdicts of a pair that is stepped in every turn, or (`lazy`) only at its deadline.
fn verdicts(role: Role, turns: &[Duration], heard_at: &[Duration], lazy: bool) -> Vec<String> {
    let limits = Limits::default();
    let mut peer = Liveness::new(role, limits, Duration::ZERO);
    let (mut said, mut turned_at, mut look_at) = (Vec::new(), Duration::ZERO, Duration::ZERO);
    for now in turns {
        for at in heard_at.iter().filter(|at| turned_at < **at && **at <= *now) {
            peer.step(*at, heard());
        }
        if !lazy || look_at <= *now {
            for at in [turned_at, *now] {
                match peer.step(at, Event::Tick) {
                    Verdict::Fine => {}
                    verdict => said.push(format!("{now:?} {verdict:?}")),
                }
            }
            look_at = (*now + limits.interval).min(peer.deadline());
        }
        turned_at = *now;
    }
    said
}

proptest! {
    #[test]
    fn looking_only_at_deadlines_and_once_an_interval_misses_nothing(
        pauses in proptest::collection::vec(prop_oneof![20 => 50..400u64, 1 => 400..9_000u64], 1..120),
        beats in proptest::collection::vec(1..7_000u64, 0..12),
        watched in any::<bool>(),
    ) {
        let role = if watched { Role::Watched } else { Role::Watching };
        let sums = |steps: &[u64]| -> Vec<Duration> {
            steps.iter().scan(0, |at, step| { *at += step; Some(ms(*at)) }).collect()
        };
        let (turns, heard_at) = (sums(&pauses), sums(&beats));
        let eager = verdicts(role, &turns, &heard_at, false);
        prop_assert_eq!(verdicts(role, &turns, &heard_at, true), eager);
    }
}
