use super::*;
use crate::testing::{picked, s as at};
use proptest::prelude::*;
use std::collections::BTreeSet;

const BOUNDS: Bounds = Bounds { max: 4, idle: 2, idle_for: Duration::from_secs(10), waiting: 5 };

fn job(n: u128) -> JobId {
    JobId(n)
}

fn places() -> Places {
    Places::new(Some(BOUNDS))
}

/// Makes a request and decides at once. Returns true if the request is granted.
fn ask(places: &mut Places, n: u128, purpose: Purpose) -> bool {
    let ticket = places.request(job(n), purpose, at(100));
    places.decide(at(0)).contains(&Command::Grant { ticket, job: job(n) })
}

/// Returns the jobs whose hosts the commands end.
fn ended(commands: &[Command]) -> Vec<u128> {
    picked!(commands, Command::End { job, .. } => job.0)
}

fn granted(commands: &[Command]) -> Vec<u128> {
    picked!(commands, Command::Grant { job, .. } => job.0)
}

#[test]
fn a_job_that_gets_its_slots_at_once_keeps_the_host_that_built_it() {
    let mut places = places();
    assert!(ask(&mut places, 1, Purpose::Build));
    places.built(at(0), job(1));
    assert!(ask(&mut places, 1, Purpose::Run));
    assert_eq!(places.decide(at(100)), [], "what runs is not idle");
    assert_eq!(places.next_deadline(), None);
}

#[test]
fn hosts_of_waiting_jobs_go_when_others_were_built_or_after_a_while() {
    let mut places = places();
    for n in 1..=3 {
        assert!(ask(&mut places, n, Purpose::Build));
        places.built(at(n as u64), job(n));
    }
    assert_eq!(ended(&places.decide(at(3))), [1], "at most two are idle, the oldest goes");
    places.gone(job(1));
    assert_eq!(places.next_deadline(), Some(at(12)));
    assert_eq!(ended(&places.decide(at(12))), [2]);
    assert_eq!(ended(&places.decide(at(13))), [3]);
}

#[test]
fn the_idlest_host_goes_for_a_build_and_results_only_then() {
    let mut places = places();
    for n in 1..=4 {
        assert!(ask(&mut places, n, Purpose::Build));
    }
    places.serving(at(1), job(1));
    places.serving(at(0), job(2));
    places.built(at(5), job(3));
    let order = [3, 2, 1];
    for (new, old) in (5..).zip(order) {
        places.request(job(new), Purpose::Build, at(100));
        assert_eq!(ended(&places.decide(at(6))), [old]);
        assert_eq!(places.decide(at(6)), [], "one is enough");
        places.gone(job(old));
        assert_eq!(granted(&places.decide(at(6))), [new]);
    }
    let last = places.request(job(9), Purpose::Build, at(7));
    assert_eq!(places.decide(at(6)), [], "whoever builds is left alone");
    let refused = places.decide(at(7));
    let [Command::Refuse { ticket, why }] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(*ticket, last);
    assert!(why.to_string().contains("0 run coordinators of other jobs, 4 build"), "{why}");
}

#[test]
fn a_host_serves_the_results_of_its_job_for_a_while_before_its_place_is_taken() {
    let mut places = places();
    for n in 1..=4 {
        assert!(ask(&mut places, n, Purpose::Build));
    }
    places.serving(at(1), job(1));
    assert_eq!(places.next_deadline(), None, "nobody wants its place");
    places.request(job(5), Purpose::Build, at(100));
    assert_eq!(places.decide(at(2)), [], "its client has had no time to ask");
    assert_eq!(places.next_deadline(), Some(at(6)));
    places.serving(at(4), job(1));
    assert_eq!(places.decide(at(6)), [], "its client has asked again");
    assert_eq!(places.next_deadline(), Some(at(9)));
    assert_eq!(ended(&places.decide(at(9))), [1]);
    assert_eq!(places.next_deadline(), Some(at(100)));
}

#[test]
fn a_burst_of_submissions_waits_in_a_bounded_queue_and_is_told_what_all_hosts_do() {
    let mut places = places();
    for n in 1..=4 {
        assert!(ask(&mut places, n, Purpose::Build));
        places.serving(at(0), job(n));
    }
    for n in 5..=9 {
        assert!(!ask(&mut places, n, Purpose::Build));
    }
    let tenth = places.request(job(10), Purpose::Build, at(100));
    let refused = places.decide(at(0));
    let [Command::Refuse { ticket, why }] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(*ticket, tenth, "five wait, the newest does not");
    let text = "none of the 4 program hosts that the JobManager may have is free to build the job graph in: 0 run \
                coordinators of other jobs, 0 build job graphs, 0 have built one and wait for their job's slots, \
                4 serve the collected results of finished jobs, 0 are being ended; 5 other requests wait, which is \
                the most; try again later or raise jobmanager.program-hosts.max";
    assert_eq!(why.to_string(), text);
    let ends = places.decide(SERVES_AT_LEAST);
    assert_eq!(ended(&ends), [1, 2, 3, 4], "results were served for a while");
    for n in 1..=3 {
        places.gone(job(n));
    }
    assert_eq!(granted(&places.decide(SERVES_AT_LEAST)), [5, 6, 7]);
    let refused = places.decide(at(100));
    let [Command::Refuse { why, .. }, Command::Refuse { .. }] = refused.as_slice() else {
        panic!("{refused:?}")
    };
    let why = why.to_string();
    for part in ["became free in time", "3 build job graphs", "1 are being ended", "; 0 other"] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[test]
fn coordinators_leave_a_place_to_builds() {
    let mut places = places();
    for n in 1..=3 {
        assert!(ask(&mut places, n, Purpose::Run));
    }
    assert!(!ask(&mut places, 4, Purpose::Run));
    // Jobs 5 to 7 build beside them, one after the other; each build ends the idle host of the one before.
    for n in 5..=7 {
        let ticket = places.request(job(n), Purpose::Build, at(100));
        let commands = places.decide(at(0));
        if n > 5 {
            assert_eq!(ended(&commands), [n - 1]);
            places.gone(job(n - 1));
            assert_eq!(places.decide(at(0)), [Command::Grant { ticket, job: job(n) }]);
        } else {
            assert_eq!(commands, [Command::Grant { ticket, job: job(n) }]);
        }
        places.built(at(0), job(n));
        assert!(!ask(&mut places, n, Purpose::Run), "though it has a host");
    }
    places.gone(job(2));
    assert_eq!(granted(&places.decide(at(1))), [4], "first come, first served");
    assert_eq!(places.withdraw(job(5)).len(), 1);
    places.gone(job(1));
    assert_eq!(granted(&places.decide(at(1))), [6]);
    assert_eq!(places.decide(at(100)).len(), 2, "the host of 7 goes, and it is refused");
}

#[test]
fn a_host_that_is_being_ended_holds_its_place_until_it_is_gone() {
    for bounds in [None, Some(BOUNDS)] {
        let mut places = Places::new(bounds);
        assert!(ask(&mut places, 1, Purpose::Run));
        assert!(ask(&mut places, 1, Purpose::Run), "the same host again");
        places.ending(job(1));
        places.serving(at(0), job(1));
        let ticket = places.request(job(1), Purpose::Run, at(100));
        assert_eq!(places.decide(at(0)), []);
        places.gone(job(1));
        assert_eq!(places.decide(at(0)), [Command::Grant { ticket, job: job(1) }]);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Request(u128, bool),
    Built(u128),
    Serving(u128),
    Ending(u128),
    Gone(u128),
    Withdraw(u128),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let job = 0u128..8;
    prop_oneof![
        4 => (job.clone(), any::<bool>()).prop_map(|(job, build)| Step::Request(job, build)),
        2 => job.clone().prop_map(Step::Built),
        1 => job.clone().prop_map(Step::Serving),
        1 => job.clone().prop_map(Step::Ending),
        3 => job.clone().prop_map(Step::Gone),
        1 => job.prop_map(Step::Withdraw),
        2 => (0u64..12).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn places_never_exceed_their_bounds_and_every_request_is_answered(
        max in 2usize..5, steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut places = Places::new(Some(Bounds { max, ..BOUNDS }));
        let mut open = BTreeSet::new();
        let mut now = at(0);
        for step in steps {
            match step {
                Step::Request(n, build) => {
                    let purpose = if build { Purpose::Build } else { Purpose::Run };
                    open.insert(places.request(job(n), purpose, now + at(20)));
                }
                Step::Built(n) => places.built(now, job(n)),
                Step::Serving(n) => places.serving(now, job(n)),
                Step::Ending(n) => places.ending(job(n)),
                Step::Gone(n) => places.gone(job(n)),
                Step::Withdraw(n) => for ticket in places.withdraw(job(n)) {
                    prop_assert!(open.remove(&ticket));
                },
                Step::Pass(seconds) => now += at(seconds),
            }
            let busy = |p: &Places| -> BTreeSet<JobId> {
                let busy = p.held.iter().filter(|(_, h)| matches!(h, Use::Running | Use::Building));
                busy.map(|(job, _)| *job).collect()
            };
            let before = busy(&places);
            for command in places.decide(now) {
                match command {
                    Command::Grant { ticket, .. } | Command::Refuse { ticket, .. } => {
                        prop_assert!(open.remove(&ticket), "answered twice");
                    }
                    Command::End { job, .. } => prop_assert!(!before.contains(&job)),
                }
            }
            prop_assert!(places.held.len() <= max);
            prop_assert!(places.count(Use::Running) < max, "one is for builds");
            prop_assert_eq!(places.decide(now), [], "all was said");
        }
        // In any state, a build is granted once other builds have ended and the hosts that are being ended are gone.
        let building: Vec<JobId> = places.held.keys().copied().collect();
        for job in building {
            if places.held.get(&job) == Some(&Use::Building) {
                places.built(now, job);
            }
        }
        places.waiting.clear();
        now += SERVES_AT_LEAST;
        let ticket = places.request(job(99), Purpose::Build, now + at(20));
        let mut commands = places.decide(now);
        let ending = places.since(|held| (held == Use::Ending).then_some(now));
        for (_, job) in ending {
            places.gone(job);
        }
        commands.extend(places.decide(now));
        let expected = Command::Grant { ticket, job: job(99) };
        prop_assert!(commands.contains(&expected));
    }
}
