//! Decisions at the limit, one by one and for drawn histories.

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const LIMIT: MemoryLimits = MemoryLimits { task: 640 * MIB, managed: 100 * MIB };

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn task(key: u32, mib: u64, stage: Stage) -> TaskUsage<u32> {
    TaskUsage { key, held: i64::try_from(mib * MIB).unwrap(), state: 0, stage }
}

/// The memory of these tasks, and of nothing else.
fn of(tasks: Vec<TaskUsage<u32>>) -> MemoryUsage<u32> {
    let total = tasks.iter().map(|task| positive(task.held)).sum();
    MemoryUsage { total, network: 0, tasks }
}

fn limit() -> MemoryLimit<u32> {
    MemoryLimit::new(LIMIT)
}

fn failed(verdict: Verdict<u32>) -> (u32, String) {
    match verdict {
        Verdict::Fail { task, over } => (task, over.to_string()),
        other => panic!("{other:?}"),
    }
}

fn ended(verdict: Verdict<u32>) -> (Option<u32>, String) {
    match verdict {
        Verdict::End { task, over } => (task, over.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_largest_task_fails_with_what_was_used_and_allowed() {
    let usage = of(vec![task(1, 40, Stage::Working), task(2, 610, Stage::Working)]);
    let (task, why) = failed(limit().look(ms(0), &usage));
    assert_eq!(task, 2);
    assert_eq!(why, "used 650m of 640m (taskmanager.memory.task.size), 610m of it in this task");
}

#[test]
fn a_failure_names_no_task_as_the_holder_of_more_than_was_used() {
    let mut usage = of(vec![task(1, 900, Stage::Working)]);
    usage.network = 250 * MIB;
    let (_, why) = failed(limit().look(ms(0), &usage));
    assert_eq!(why, "used 650m of 640m (taskmanager.memory.task.size), 650m of it in this task");
    usage.tasks[0].held += i64::try_from(100 * MIB).unwrap();
    usage.total += 100 * MIB;
    let (_, why) = ended(limit().look(ms(0), &usage));
    assert_eq!(why, "used 750m of 640m (taskmanager.memory.task.size), 750m of it in this task");
}

#[test]
fn nothing_happens_up_to_the_limit() {
    let usage = of(vec![task(1, 640, Stage::Working)]);
    let mut limit = limit();
    assert_eq!(limit.look(ms(0), &usage), Verdict::Fine);
    assert!(!limit.is_over());
    assert_eq!(limit.next_alarm(10 * MIB), 640 * MIB);
    assert_eq!(limit.next_alarm(640 * MIB), 650 * MIB);
}

#[test]
fn batches_on_their_way_and_managed_state_are_not_user_memory() {
    let mut usage = of(vec![task(1, 700, Stage::Working)]);
    usage.tasks[0].state = 90 * MIB;
    assert_eq!(limit().look(ms(0), &usage), Verdict::Fine);
    // More state than managed memory counts as far as it exceeds it.
    usage.tasks[0].state = 700 * MIB;
    assert_eq!(limit().look(ms(0), &usage), Verdict::Fine);
    usage.total += 60 * MIB;
    usage.network = 60 * MIB;
    assert_eq!(limit().look(ms(0), &usage), Verdict::Fine);
    usage.tasks[0].held += i64::try_from(50 * MIB).unwrap();
    usage.total += 50 * MIB;
    let mut limit = limit();
    assert_eq!(limit.look(ms(0), &usage), Verdict::Fine, "its tables may have just grown");
    assert!(limit.is_over());
    let (_, why) = failed(limit.look(ms(250), &usage));
    assert!(why.starts_with("used 650m of 640m"), "{why}");
}

#[test]
fn a_task_with_much_state_is_not_blamed_for_one_that_keeps_much() {
    let limits = MemoryLimits { task: 640 * MIB, managed: 640 * MIB };
    let mut usage = of(vec![task(1, 650, Stage::Working), task(2, 641, Stage::Working)]);
    usage.tasks[0].state = 640 * MIB;
    let mut limit = MemoryLimit::new(limits);
    assert_eq!(limit.look(ms(0), &usage), Verdict::Fine);
    assert_eq!(failed(limit.look(ms(300), &usage)).0, 2);
}

#[test]
fn a_task_that_does_not_return_within_a_second_costs_its_host() {
    let usage = |stage| of(vec![task(1, 650, stage), task(2, 1, Stage::Working)]);
    let mut limit = limit();
    failed(limit.look(ms(0), &usage(Stage::Working)));
    assert_eq!(limit.look(ms(999), &usage(Stage::Stopping)), Verdict::Fine);
    let (task, why) = ended(limit.look(ms(1_000), &usage(Stage::Stopping)));
    assert_eq!(task, Some(1));
    assert!(why.starts_with("used 651m of 640m (taskmanager.memory.task.size)"), "{why}");
}

#[test]
fn a_task_that_returned_has_time_to_free_what_it_holds_and_no_other_fails_meanwhile() {
    let usage = |mib, stage| of(vec![task(1, mib, stage), task(2, 300, Stage::Working)]);
    let mut limit = limit();
    failed(limit.look(ms(0), &usage(350, Stage::Working)));
    assert_eq!(limit.look(ms(500), &usage(350, Stage::Stopping)), Verdict::Fine);
    assert_eq!(limit.look(ms(3_000), &usage(345, Stage::Returned)), Verdict::Fine);
    let gone = of(vec![task(2, 300, Stage::Working)]);
    assert_eq!(limit.look(ms(3_500), &gone), Verdict::Fine);
    let grown = of(vec![task(2, 650, Stage::Working)]);
    assert_eq!(failed(limit.look(ms(9_000), &grown)).0, 2, "the next one is blamed anew");
}

#[test]
fn a_host_that_exceeds_its_limit_by_an_eighth_ends_at_once() {
    let usage = of(vec![task(1, 721, Stage::Working)]);
    assert_eq!(ended(limit().look(ms(0), &usage)).0, Some(1));
    let small = MemoryLimits { task: 10 * MIB, managed: 0 };
    let of_mib = |mib| of(vec![task(1, mib, Stage::Working)]);
    failed(MemoryLimit::new(small).look(ms(0), &of_mib(42)));
    ended(MemoryLimit::new(small).look(ms(0), &of_mib(43)));
}

#[test]
fn memory_that_no_task_holds_costs_the_host() {
    let mut usage = of(vec![task(1, 2, Stage::Working)]);
    usage.total = 660 * MIB;
    let mut limit = limit();
    assert_eq!(limit.look(ms(0), &usage), Verdict::Fine);
    assert_eq!(limit.look(ms(900), &usage), Verdict::Fine);
    let (task, why) = ended(limit.look(ms(1_000), &usage));
    assert_eq!(task, None);
    assert!(why.ends_with("most of it outside of its tasks"), "{why}");
}

#[test]
fn what_the_process_takes_to_be_there_is_not_the_job_s() {
    let small = MemoryLimits { task: 5 * MIB, managed: 0 };
    let mut usage = of(vec![task(1, 4, Stage::Working)]);
    usage.total += 16 * MIB;
    let mut limit = MemoryLimit::new(small);
    assert_eq!(limit.look(ms(0), &usage), Verdict::Fine);
    assert!(!limit.is_over());
    usage.total += 2 * MIB;
    let (task, why) = failed(limit.look(ms(1), &usage));
    assert_eq!(task, 1);
    assert!(why.starts_with("used 6m of 5m"), "{why}");
}

#[test]
fn tasks_that_are_being_cancelled_are_waited_for() {
    let usage = of(vec![task(1, 300, Stage::Stopping), task(2, 350, Stage::Working)]);
    let mut limit = limit();
    assert_eq!(limit.look(ms(0), &usage), Verdict::Fine);
    assert_eq!(limit.look(ms(8_000), &usage), Verdict::Fine);
}

#[test]
fn a_lower_limit_holds_from_the_next_look() {
    let usage = of(vec![task(1, 200, Stage::Working)]);
    let mut limit = limit();
    assert_eq!(limit.look(ms(0), &usage), Verdict::Fine);
    limit.set(MemoryLimits { task: 190 * MIB, managed: 0 });
    failed(limit.look(ms(1), &usage));
}

proptest! {
    /// Tasks that keep what they get, each at a rate of its own, and look every 50 ms at the latest: one after the other
    /// fails, always the one that holds most, and the host goes on.
    #[test]
    fn obedient_hoarders_fail_one_by_one_and_never_cost_the_host(
        rates in prop::collection::vec(0u64..400, 1..6),
        look_ms in 5u64..50,
        slow_ms in 1u64..50,
    ) {
        let mut limit = limit();
        let mut held: Vec<u64> = vec![0; rates.len()];
        // The attempts of each, whose numbers are their keys.
        let tasks = u32::try_from(rates.len()).unwrap();
        let mut keys: Vec<u32> = (0..tasks).collect();
        // When each was told to fail.
        let mut told: Vec<Option<u64>> = vec![None; rates.len()];
        let mut now = 0;
        let mut failures = 0;
        while now < 20_000 {
            now += look_ms;
            for (i, rate) in rates.iter().enumerate() {
                match told[i] {
                    None => held[i] += rate * look_ms * MIB / 1_000,
                    // It returns, frees what it has, and starts again.
                    Some(at) if now - at > slow_ms + 100 => {
                        (held[i], told[i]) = (0, None);
                        keys[i] += tasks;
                    }
                    Some(_) => {}
                }
            }
            let stage = |i: usize| match told[i] {
                None => Stage::Working,
                Some(at) if now - at > slow_ms => Stage::Returned,
                Some(_) => Stage::Stopping,
            };
            let all = 0..rates.len();
            let usage = of(all.map(|i| task(keys[i], held[i] / MIB, stage(i))).collect());
            match limit.look(ms(now), &usage) {
                Verdict::Fine => {}
                Verdict::Fail { task, over } => {
                    let i = usize::try_from(task % tasks).unwrap();
                    prop_assert!(told.iter().all(Option::is_none), "one at a time");
                    prop_assert_eq!(held[i] / MIB, held.iter().max().unwrap() / MIB);
                    prop_assert!(over.used > over.limit);
                    told[i] = Some(now);
                    failures += 1;
                }
                Verdict::End { .. } => {
                    // Only where so much came within the time of one failure that the slack did not do.
                    let together: u64 = rates.iter().sum();
                    prop_assert!(together * (look_ms + slow_ms + 150) / 1_000 > 75, "{:?}", held);
                    return Ok(());
                }
            }
        }
        let together: u64 = rates.iter().sum();
        prop_assert!(failures > 0 || together * 20 <= 641 + 20, "{together} MiB/s and no failure");
    }

    /// Whatever the numbers are: within the limit nobody fails, beyond the slack the host ends, and nothing panics.
    #[test]
    fn any_numbers_make_a_verdict(
        total in any::<u64>(),
        network in any::<u64>(),
        tasks in prop::collection::vec((any::<i64>(), any::<u64>(), 0u8..3), 0..5),
        managed in any::<u64>(),
        task_limit in any::<u64>(),
        times in prop::collection::vec(any::<u32>(), 1..6),
    ) {
        let mut limit = MemoryLimit::new(MemoryLimits { task: task_limit, managed });
        let stages = [Stage::Working, Stage::Stopping, Stage::Returned];
        let tasks: Vec<_> = (0u32..)
            .zip(tasks)
            .map(|(key, (held, state, stage))| {
                TaskUsage { key, held, state, stage: stages[usize::from(stage)] }
            })
            .collect();
        let usage = MemoryUsage { total, network, tasks };
        let mut times = times;
        times.sort_unstable();
        for time in times {
            let verdict = limit.look(ms(u64::from(time)), &usage);
            if total <= task_limit {
                prop_assert_eq!(&verdict, &Verdict::Fine);
            }
            if let Verdict::Fail { task, .. } = verdict {
                prop_assert_eq!(usage.tasks[usize::try_from(task).unwrap()].stage, Stage::Working);
            }
            prop_assert!(limit.next_alarm(total) >= task_limit);
        }
    }
}
