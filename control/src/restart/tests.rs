use super::*;
use proptest::prelude::*;

fn lost() -> FailureCause {
    FailureCause::recoverable("TaskManagerLost", "gone")
}
const S: fn(u64) -> Duration = Duration::from_secs;

fn run(policy: RestartPolicy, at: &[u64]) -> Vec<Verdict> {
    let mut strategy = RestartStrategy::new(policy);
    at.iter().map(|t| strategy.failed(S(*t), &lost(), true, 1 << 63)).collect()
}

#[test]
fn none_gives_up_at_once() {
    assert_eq!(run(RestartPolicy::chosen(RestartSpec::None), &[0]), [Verdict::GiveUp]);
}

#[test]
fn fixed_delay_restarts_so_many_times() {
    let spec = RestartSpec::FixedDelay { attempts: 2, delay: S(3) };
    let again = Verdict::RestartAfter(S(3));
    assert_eq!(run(RestartPolicy::chosen(spec), &[0, 1, 1000]), [again, again, Verdict::GiveUp]);
}

#[test]
fn restarts_in_a_row_wait_a_moment_and_the_first_does_not() {
    let spec = RestartSpec::FixedDelay { attempts: 9, delay: S(0) };
    let after = Verdict::RestartAfter;
    // The third failure comes just in time to be one of a row, the fourth does not.
    assert_eq!(
        run(RestartPolicy::chosen(spec), &[5, 6, 15, 25]),
        [after(S(0)), after(ROW_DELAY), after(ROW_DELAY), after(S(0))]
    );
    let spec = RestartSpec::FailureRate { max: 9, interval: S(60), delay: S(1) };
    assert_eq!(run(RestartPolicy::chosen(spec), &[0, 0]), [after(S(1)), after(S(1))]);
}

/// Runs a job that fails 2 ms after each of its starts for `seconds` of simulated time under a strategy without a delay of its own. Returns
/// its restarts, and the failures that are logged as warnings.
fn storm(seconds: u64) -> (u32, Vec<u64>) {
    let spec = RestartSpec::FixedDelay { attempts: u32::MAX, delay: S(0) };
    let mut strategy = RestartStrategy::new(RestartPolicy::chosen(spec));
    let mut repeats = Repeats::default();
    let (mut now, mut restarts, mut logged) = (S(0), 0, Vec::new());
    loop {
        now += Duration::from_millis(2);
        let cause = FailureCause::recoverable("UserError", format!("record {restarts} is wrong"));
        let Verdict::RestartAfter(delay) = strategy.failed(now, &cause, true, 0) else {
            panic!("the strategy gave up after {restarts} restarts");
        };
        logged.extend(repeats.count(&format!("RESTARTING {cause}"), now));
        now += delay;
        if now >= S(seconds) {
            return (restarts, logged);
        }
        restarts += 1;
    }
}

#[test]
fn a_storm_of_restarts_is_slowed_and_logged_once_a_minute() {
    // 5,000 restarts without the minimum delay: the first at once, each further one after 202 ms.
    assert_eq!(storm(10), (50, vec![0]));
    // In ten minutes a line a minute, each with the number of failures since the one before.
    let (restarts, logged) = storm(600);
    assert_eq!((restarts, logged.len()), (2_971, 10));
    assert_eq!((logged[0], logged[1]), (0, 298));
}

#[test]
fn failure_rate_gives_up_when_failures_come_too_fast() {
    let spec = RestartSpec::FailureRate { max: 2, interval: S(10), delay: S(1) };
    let again = Verdict::RestartAfter(S(1));
    assert_eq!(
        run(RestartPolicy::chosen(spec), &[0, 1, 20, 21, 22]),
        [again, again, again, again, Verdict::GiveUp]
    );
}

#[test]
fn exponential_grows_to_its_maximum_and_starts_over() {
    let spec = RestartSpec::Exponential {
        initial: S(1),
        max: S(5),
        multiplier: 2.0,
        reset_after: S(100),
        jitter: 0.0,
        attempts: None,
    };
    let after = |s| Verdict::RestartAfter(S(s));
    assert_eq!(
        run(RestartPolicy::chosen(spec), &[0, 1, 2, 3, 103]),
        [after(1), after(2), after(4), after(5), after(1)]
    );
}

#[test]
fn an_unrecoverable_failure_is_never_restarted() {
    let spec = RestartSpec::FixedDelay { attempts: 9, delay: S(0) };
    let mut strategy = RestartStrategy::new(RestartPolicy::chosen(spec));
    let wrong = FailureCause::fatal("Differs", "another graph");
    assert_eq!(strategy.failed(S(0), &wrong, true, 0), Verdict::GiveUp);
}

#[test]
fn where_nobody_chose_the_programs_errors_and_a_cluster_too_small_end_the_job() {
    let mut strategy = RestartStrategy::new(RestartPolicy::unset());
    let user = FailureCause::recoverable(PROGRAM_ERRORS[0], "panicked");
    let small = FailureCause::recoverable(NO_RESOURCE, "needs 8 slots");
    assert_eq!(strategy.failed(S(0), &user, true, 0), Verdict::GiveUp);
    assert_eq!(strategy.failed(S(0), &small, false, 0), Verdict::GiveUp);
    assert!(matches!(strategy.failed(S(0), &small, true, 0), Verdict::RestartAfter(_)));
    assert!(matches!(strategy.failed(S(0), &lost(), true, 0), Verdict::RestartAfter(_)));
}

proptest! {
    #[test]
    fn exponential_delays_stay_within_their_bounds(
        initial in 0u64..10_000, max in 1u64..100_000, multiplier in 0.0f64..10.0, jitter in 0.0f64..2.0,
        n in 0u32..2000, draw: u64,
    ) {
        let (initial, max) = (Duration::from_millis(initial), Duration::from_millis(max));
        let delay = grown(initial, max, multiplier, jitter, n, draw);
        prop_assert!(delay <= max);
    }

    #[test]
    fn fixed_delay_grants_exactly_its_attempts(attempts in 0u32..50, failures in 0usize..100) {
        let spec = RestartSpec::FixedDelay { attempts, delay: S(1) };
        let times: Vec<u64> = (0..failures as u64).collect();
        let granted = run(RestartPolicy::chosen(spec), &times)
            .iter().filter(|v| **v != Verdict::GiveUp).count();
        prop_assert_eq!(granted, failures.min(attempts as usize));
    }
}
