use super::*;
use crate::mutation::Mutation;
use crate::testing::{picked, s, session, tm_name};
use model::slots::SlotStatus;
use model::{LeaderSession, MemorySize, ResourceProfile, SlotId};
use proptest::prelude::*;

fn master(process: u64) -> JobMasterId {
    // One nonce for all: the epochs alone say which one is superseded.
    JobMasterId(LeaderSession { nonce: 9, ..session(process) })
}
fn spec(slots: u32) -> WorkerResourceSpec {
    WorkerResourceSpec {
        cpu_millis: 1000 * u64::from(slots),
        task: MemorySize::from_mib(100 * u64::from(slots)),
        slots,
        ..Default::default()
    }
}
fn settings(supply: Supply) -> Settings {
    Settings { supply, spread_out: false, settle: s(2), seed: 5, mutation: Mutation::None }
}
fn passive() -> SlotManager {
    let start_up_until = s(60);
    SlotManager::new(settings(Supply::Passive { start_up_until }))
}
fn active(slots_max: Option<u32>, redundant: u32) -> SlotManager {
    SlotManager::new(settings(Supply::Active {
        task_manager: spec(2),
        request_timeout: s(300),
        idle_timeout: s(30),
        slots_max,
        redundant,
    }))
}
fn report(name: u32, slots: u32, held: &[(u32, SlotAllocation)]) -> SlotReport {
    let status = |index| SlotStatus {
        slot_id: SlotId { resource_id: tm_name(name), index },
        profile: spec(slots).slot_profile(),
        allocation: held.iter().find(|(i, _)| *i == index).map(|(_, held)| *held),
    };
    SlotReport { slots: (0..slots).map(status).collect() }
}
/// TaskManager `name` in its incarnation `instance`, on a host of its own.
fn task_manager(name: u32, instance: u128, slots: u32) -> NewTaskManager {
    NewTaskManager {
        instance_id: InstanceId(instance),
        resource_id: tm_name(name),
        host: format!("host{name}"),
        spec: spec(slots),
        report: report(name, slots, &[]),
    }
}
fn any_slots(slots: u32) -> Vec<ResourceRequirement> {
    let profile = ResourceProfile::unknown();
    vec![ResourceRequirement { profile, slots }]
}
fn requests(commands: &[Command]) -> Vec<SlotRequest> {
    picked!(commands, Command::RequestSlot(request) => request.clone())
}
fn shortages(commands: &[Command]) -> Vec<String> {
    picked!(commands, Command::ReportShortage(shortage) => shortage.message.clone())
}
/// The newest declaration of missing TaskManagers, as (slots of spec, how many).
fn missing(commands: &[Command]) -> Option<Vec<(u32, u32)>> {
    let declared = picked!(commands, Command::NeedTaskManagers { missing, .. } => missing);
    declared.last().map(|missing| missing.iter().map(|(spec, n)| (spec.slots, *n)).collect())
}
const JOB: JobId = JobId(1);
const OTHER: JobId = JobId(2);
/// A passive one with a TaskManager of so many slots, and [`JOB`], which needs that many.
fn with_job(slots: u32, needed: u32) -> SlotManager {
    let mut sm = passive();
    sm.add_task_manager(s(0), task_manager(1, 11, slots));
    sm.require(JOB, master(1), any_slots(needed));
    sm
}

#[test]
fn declared_requirements_take_free_slots_and_are_not_exceeded_when_declared_again() {
    let mut sm = with_job(4, 3);
    let first = requests(&sm.check(s(1)));
    assert_eq!(first.len(), 3);
    sm.require(JOB, master(1), any_slots(3));
    assert_eq!(requests(&sm.check(s(1))), []);
    sm.require(JOB, master(1), any_slots(4));
    assert_eq!(requests(&sm.check(s(1))).len(), 1);
    let all: BTreeSet<_> = first.iter().map(|request| request.allocation_id).collect();
    assert_eq!(all.len(), 3, "allocations differ");
}

#[test]
fn requirements_wait_for_task_managers() {
    let mut sm = passive();
    sm.require(JOB, master(1), any_slots(2));
    assert_eq!(sm.check(s(1)), []);
    sm.add_task_manager(s(2), task_manager(1, 11, 1));
    assert_eq!(requests(&sm.check(s(2))).len(), 1);
    sm.add_task_manager(s(3), task_manager(2, 12, 1));
    assert_eq!(requests(&sm.check(s(3))).len(), 1);
}

#[test]
fn within_the_start_up_period_nothing_fails_after_it_the_shortage_is_reported_in_full() {
    let mut sm = with_job(4, 8);
    granted(&mut sm, s(1));
    assert_eq!(sm.check(s(59)), []);
    let commands = sm.check(s(60));
    assert_eq!(
        shortages(&commands),
        ["needs 8 slots of any size, 4 registered, 0 free (held: 4 by this job)"]
    );
    assert_eq!(sm.check(s(61)), [], "told once");
    assert_eq!(shortages(&sm.check(s(66))).len(), 1, "and again while it lasts");
    sm.require(JOB, master(1), any_slots(4));
    assert_eq!(sm.check(s(80)), []);
}

#[test]
fn after_the_start_up_period_slots_that_are_just_coming_back_are_waited_for() {
    let mut sm = passive();
    sm.add_task_manager(s(0), task_manager(1, 11, 1));
    sm.require(OTHER, master(1), any_slots(1));
    let request = requests(&sm.check(s(1))).remove(0);
    sm.slot_granted(s(1), &request);
    sm.remove_job(OTHER);
    sm.require(JOB, master(1), any_slots(1));
    assert_eq!(sm.check(s(100)), []);
    sm.free_slot(s(100), InstanceId(11), 0, request.allocation_id);
    assert_eq!(requests(&sm.check(s(100))).len(), 1);
    assert_eq!(sm.check(s(200)), []);
}

#[test]
fn slots_of_a_lost_task_manager_are_replaced() {
    let mut sm = with_job(2, 2);
    granted(&mut sm, s(1));
    sm.add_task_manager(s(2), task_manager(2, 12, 2));
    assert_eq!(requests(&sm.check(s(2))), []);
    sm.remove_task_manager(InstanceId(11));
    let again = requests(&sm.check(s(3)));
    assert!(again.len() == 2 && again.iter().all(|r| r.instance_id == InstanceId(12)));
}

#[test]
fn a_new_incarnation_replaces_the_earlier_one_which_is_not_heard_any_more() {
    let mut sm = with_job(1, 1);
    let old = requests(&sm.check(s(1))).remove(0);
    sm.add_task_manager(s(2), task_manager(1, 12, 1));
    let new = requests(&sm.check(s(2))).remove(0);
    assert_eq!(new.instance_id, InstanceId(12));
    sm.slot_granted(s(2), &old);
    sm.free_slot(s(2), InstanceId(11), 0, new.allocation_id);
    sm.report(s(9), InstanceId(11), report(1, 1, &[]));
    sm.remove_task_manager(InstanceId(11));
    assert_eq!(requests(&sm.check(s(9))), []);
    assert!(sm.task_managers().is_held_under(InstanceId(12), 0, new.allocation_id));
}

#[test]
fn an_occupied_slot_belongs_to_whom_its_task_executor_says_and_another_is_asked() {
    let mut sm = with_job(2, 1);
    let request = requests(&sm.check(s(1))).remove(0);
    let held = SlotAllocation { job_id: OTHER, allocation_id: AllocationId(77) };
    sm.slot_refused(s(1), &request, Refusal::Occupied(held));
    let again = requests(&sm.check(s(1))).remove(0);
    assert_ne!(again.index, request.index);
    assert_eq!(sm.task_managers().held_by(OTHER).count(), 1);
}

#[test]
fn a_request_of_unknown_outcome_keeps_the_slot_out_until_a_later_report() {
    let mut sm = with_job(1, 1);
    let request = requests(&sm.check(s(1))).remove(0);
    sm.slot_refused(s(10), &request, Refusal::NotKnown);
    assert_eq!(requests(&sm.check(s(10))), []);
    sm.report(s(11), InstanceId(11), report(1, 1, &[]));
    assert_eq!(requests(&sm.check(s(11))), [], "the report may be older than the request");
    sm.report(s(12), InstanceId(11), report(1, 1, &[]));
    assert_eq!(requests(&sm.check(s(12))).len(), 1);
}

#[test]
fn reports_reconcile_but_do_not_contradict_a_fresh_answer() {
    let mut sm = with_job(1, 1);
    let request = requests(&sm.check(s(1))).remove(0);
    sm.report(s(5), InstanceId(11), report(1, 1, &[]));
    assert_eq!(requests(&sm.check(s(5))), [], "under way");
    sm.slot_granted(s(6), &request);
    sm.report(s(7), InstanceId(11), report(1, 1, &[]));
    assert_eq!(requests(&sm.check(s(7))), [], "granted a second ago");
    sm.report(s(8), InstanceId(11), report(1, 1, &[]));
    assert_eq!(requests(&sm.check(s(8))).len(), 1, "lost in truth");
}

#[test]
fn what_a_registration_reports_as_allocated_counts_for_its_job() {
    let mut sm = passive();
    let held = SlotAllocation { job_id: JOB, allocation_id: AllocationId(3) };
    let mut recovered = task_manager(1, 11, 2);
    recovered.report = report(1, 2, &[(0, held)]);
    sm.add_task_manager(s(0), recovered);
    sm.require(JOB, master(1), any_slots(2));
    assert_eq!(requests(&sm.check(s(1))).len(), 1);
}

#[test]
fn a_superseded_job_master_declares_nothing() {
    let mut sm = passive();
    sm.add_task_manager(s(0), task_manager(1, 11, 4));
    sm.require(JOB, master(2), any_slots(1));
    sm.require(JOB, master(1), any_slots(4));
    assert_eq!(requests(&sm.check(s(1))).len(), 1);
    sm.require(JOB, master(3), any_slots(2));
    assert_eq!(requests(&sm.check(s(1))).len(), 1);
}

/// The jobs that are asked to yield, and the number of slots each.
fn asked(commands: &[Command]) -> Vec<(JobId, u32)> {
    picked!(commands, Command::AskToYield { job_id, slots, .. } => {
        (*job_id, slots.iter().map(|need| need.slots).sum())
    })
}

/// TaskManagers of four slots, each of them held by the job of its number: so they registered at a new
/// ResourceManager.
fn parts_of(sm: &mut SlotManager, jobs: u32) {
    for n in 1..=jobs {
        let held = |index| {
            let allocation_id = AllocationId(u128::from(n * 10 + index));
            (index, SlotAllocation { job_id: JobId(u128::from(n)), allocation_id })
        };
        let held: Vec<_> = (0..4).map(held).collect();
        let report = report(n, 4, &held);
        sm.add_task_manager(
            s(0),
            NewTaskManager { report, ..task_manager(n, 10 + u128::from(n), 4) },
        );
    }
}

/// Jobs that hold four slots each and need these.
fn parted(mut sm: SlotManager, needs: &[u32]) -> SlotManager {
    parts_of(&mut sm, needs.len() as u32);
    for (n, slots) in (1..).zip(needs) {
        sm.require(JobId(n), master(1), any_slots(*slots));
    }
    sm
}

fn three_jobs(needs: [u32; 3]) -> SlotManager {
    parted(passive(), &needs)
}

/// Makes the job free that number of its slots.
fn yield_slots(sm: &mut SlotManager, now: Duration, job_id: JobId, slots: usize) {
    let held: Vec<_> =
        sm.task_managers().held_by(job_id).map(|(i, n, s)| (i, n, s.state)).collect();
    for (instance, index, state) in held.into_iter().take(slots) {
        sm.free_slot(now, instance, index, state.holder().unwrap().allocation_id);
    }
}

/// All that is requested is granted: how many slots each job gets.
fn granted(sm: &mut SlotManager, now: Duration) -> BTreeMap<JobId, usize> {
    let mut of = BTreeMap::new();
    for request in requests(&sm.check(now)) {
        sm.slot_granted(now, &request);
        *of.entry(request.job_id).or_default() += 1;
    }
    of
}

#[test]
fn jobs_that_hold_a_part_each_do_not_wait_for_each_other() {
    let mut sm = three_jobs([8, 8, 8]);
    assert_eq!(sm.check(s(1)), [], "slots may be coming back");
    let commands = sm.check(s(2));
    assert_eq!(asked(&commands), [(JobId(3), 4)], "who declared last");
    assert_eq!(asked(&sm.check(s(3))), [], "asked once");
    yield_slots(&mut sm, s(3), JobId(3), 4);
    assert_eq!(granted(&mut sm, s(3)), BTreeMap::from([(JobId(1), 4)]));
    // The first runs; those that remain have nothing to gain from each other.
    assert_eq!(asked(&sm.check(s(10))), []);
}

#[test]
fn who_gives_nothing_can_not_and_another_one_is_asked_until_that_may_have_changed() {
    let mut sm = three_jobs([8, 8, 8]);
    sm.check(s(1));
    assert_eq!(asked(&sm.check(s(2))), [(JobId(3), 4)]);
    assert_eq!(asked(&sm.check(s(4))), [(JobId(2), 4)], "the last one runs in all it has");
    assert_eq!(asked(&sm.check(s(17))), [(JobId(3), 4)]);
    sm.require(JobId(3), master(2), any_slots(8));
    assert_eq!(asked(&sm.check(s(18))), [(JobId(3), 4)], "its new JobMaster was not asked yet");
}

#[test]
fn a_small_job_takes_from_a_large_one_what_it_needs_only() {
    let mut sm = with_job(4, 5);
    assert_eq!(granted(&mut sm, s(1)), BTreeMap::from([(JOB, 4)]));
    sm.require(OTHER, master(1), any_slots(2));
    sm.check(s(2));
    assert_eq!(asked(&sm.check(s(3))), [(JOB, 2)]);
    yield_slots(&mut sm, s(3), JOB, 2);
    assert_eq!(granted(&mut sm, s(3)), BTreeMap::from([(OTHER, 2)]));
    // When it has ended the large one has them back, and with a fifth it has all.
    sm.remove_job(OTHER);
    yield_slots(&mut sm, s(4), OTHER, 2);
    sm.add_task_manager(s(4), task_manager(2, 12, 1));
    assert_eq!(granted(&mut sm, s(4)), BTreeMap::from([(JOB, 3)]));
}

#[test]
fn a_job_that_waits_for_a_running_one_keeps_nobody_waiting() {
    // The first needs more than there is beside the fourth, which runs in all it has.
    let mut sm = passive();
    parts_of(&mut sm, 4);
    sm.require(JobId(4), master(1), any_slots(4));
    for (n, slots) in [(1, 13), (2, 8), (3, 8)] {
        sm.require(JobId(n), master(1), any_slots(slots));
    }
    sm.check(s(1));
    assert_eq!(asked(&sm.check(s(2))), [(JobId(1), 4)], "which is served last until then");
    yield_slots(&mut sm, s(2), JobId(1), 4);
    assert_eq!(granted(&mut sm, s(2)), BTreeMap::from([(JobId(2), 4)]));
    // The running one has ended: the others can be met by turns again.
    sm.remove_job(JobId(4));
    yield_slots(&mut sm, s(5), JobId(4), 4);
    assert_eq!(granted(&mut sm, s(5)), BTreeMap::from([(JobId(3), 4)]));
}

#[test]
fn after_the_start_up_period_only_who_needs_more_than_there_is_is_told() {
    let mut sm = three_jobs([8, 8, 13]);
    sm.check(s(60));
    let commands = sm.check(s(61));
    assert_eq!(asked(&commands), [(JobId(3), 4)]);
    let expected = "needs 13 slots of any size, 12 registered, 0 free (held: 4 by this job, \
        8 by others that wait for slots)";
    assert_eq!(shortages(&commands), [expected]);
}

#[test]
fn who_is_about_to_get_slots_from_others_is_not_told_that_there_are_none() {
    let mut sm = parted(active(None, 0), &[6, 6]);
    sm.check(s(1));
    // Nobody has looked at it for longer than a request may take.
    let commands = sm.check(s(400));
    assert_eq!(asked(&commands), [(JobId(2), 2)]);
    assert_eq!(shortages(&commands).len(), 1, "the other one");
}

#[test]
fn who_has_given_may_be_asked_for_what_it_was_given_since() {
    let mut sm = three_jobs([8, 8, 8]);
    sm.check(s(1));
    assert_eq!(asked(&sm.check(s(2))), [(JobId(3), 4)]);
    yield_slots(&mut sm, s(2), JobId(3), 4);
    assert_eq!(granted(&mut sm, s(2)), BTreeMap::from([(JobId(1), 4)]));
    // The first has ended, the third gets its slots but for those of the second, and is as rich as before.
    sm.remove_job(JobId(1));
    sm.require(JobId(2), master(1), any_slots(4));
    yield_slots(&mut sm, s(3), JobId(1), 5);
    sm.require(JobId(3), master(1), any_slots(9));
    assert_eq!(granted(&mut sm, s(3)), BTreeMap::from([(JobId(3), 5)]));
    sm.require(JobId(4), master(1), any_slots(5));
    yield_slots(&mut sm, s(4), JobId(1), 3);
    let got = granted(&mut sm, s(4));
    assert_eq!(got.values().sum::<usize>(), 3, "{got:?}");
    assert_eq!(asked(&sm.check(s(5))).len(), 1, "{got:?}");
}

#[test]
fn a_job_has_given_slots_also_if_only_a_report_tells_so() {
    for is_noticed in [true, false] {
        let mut sm = three_jobs([8, 8, 8]);
        sm.check(s(1));
        assert_eq!(asked(&sm.check(s(2))), [(JobId(3), 4)]);
        if is_noticed {
            yield_slots(&mut sm, s(3), JobId(3), 4);
        }
        sm.report(s(6), InstanceId(13), report(3, 4, &[]));
        assert_eq!(granted(&mut sm, s(6)), BTreeMap::from([(JobId(1), 4)]));
        // The first has ended, the second gets all that it needs, and the third holds four slots again.
        sm.remove_job(JobId(1));
        yield_slots(&mut sm, s(7), JobId(1), 8);
        let got = granted(&mut sm, s(7));
        assert_eq!(got, BTreeMap::from([(JobId(2), 4), (JobId(3), 4)]));
        sm.require(JobId(4), master(1), any_slots(4));
        assert_eq!(asked(&sm.check(s(8))), [], "slots may be coming back");
        assert_eq!(asked(&sm.check(s(9))), [(JobId(3), 4)], "noticed: {is_noticed}");
    }
}

#[test]
fn slots_on_blocked_nodes_are_not_asked_for() {
    let mut sm = three_jobs([8, 8, 8]);
    sm.block_hosts(["host3".to_owned()]);
    sm.check(s(1));
    assert_eq!(asked(&sm.check(s(2))), [(JobId(2), 4)]);
}

#[test]
fn where_task_managers_can_be_asked_for_they_are_before_others_have_to_yield() {
    let mut sm = parted(active(None, 0), &[6, 6]);
    assert_eq!(missing(&sm.check(s(1))), Some(vec![(2, 2)]));
    assert_eq!(asked(&sm.check(s(10))), []);
    assert_eq!(asked(&sm.check(s(20))), [(JobId(2), 2)], "they do not come");
}

#[test]
fn a_shortage_says_which_jobs_have_the_slots() {
    let mut sm = three_jobs([8, 13, 4]);
    sm.check(s(60));
    let expected = "needs 13 slots of any size, 12 registered, 0 free (held: 4 by this job, \
        4 by others that wait for slots, 4 by others that have all they need)";
    assert!(shortages(&sm.check(s(61))).contains(&expected.to_owned()));
}

#[test]
fn blocked_nodes_get_nothing_until_they_are_free_again() {
    let mut sm = passive();
    sm.add_task_manager(s(0), task_manager(1, 11, 2));
    sm.block_hosts(["host1".to_owned()]);
    sm.require(JOB, master(1), any_slots(1));
    assert_eq!(requests(&sm.check(s(1))), []);
    assert_eq!(shortages(&sm.check(s(70))), ["needs 1 slot of any size, 2 registered, 0 free"]);
    let sums = sm.overview();
    assert_eq!((sums.blocked_task_managers, sums.blocked_free_slots, sums.free_slots), (1, 2, 2));
    sm.block_hosts([]);
    assert_eq!(requests(&sm.check(s(71))).len(), 1);
}

#[test]
fn task_managers_are_filled_one_after_the_other_or_in_turn() {
    for (spread_out, expected) in [(false, [11, 11]), (true, [11, 12])] {
        let start_up_until = s(0);
        let mut settings = settings(Supply::Passive { start_up_until });
        settings.spread_out = spread_out;
        let mut sm = SlotManager::new(settings);
        sm.add_task_manager(s(0), task_manager(1, 11, 2));
        sm.add_task_manager(s(0), task_manager(2, 12, 2));
        sm.require(JOB, master(1), any_slots(2));
        let on: Vec<u128> = requests(&sm.check(s(1))).iter().map(|r| r.instance_id.0).collect();
        assert_eq!(on, expected);
    }
}

#[test]
fn an_active_one_declares_the_task_managers_that_are_missing_and_no_more() {
    let mut sm = active(None, 0);
    sm.require(JOB, master(1), any_slots(3));
    assert_eq!(missing(&sm.check(s(1))), Some(vec![(2, 2)]));
    assert_eq!(sm.check(s(2)), [], "nothing new");
    sm.add_task_manager(s(3), task_manager(1, 11, 2));
    let commands = sm.check(s(3));
    assert_eq!((requests(&commands).len(), missing(&commands)), (2, Some(vec![(2, 1)])));
    sm.add_task_manager(s(4), task_manager(2, 12, 2));
    assert_eq!(missing(&sm.check(s(4))), Some(vec![]));
    sm.remove_task_manager(InstanceId(12));
    assert_eq!(missing(&sm.check(s(5))), Some(vec![(2, 1)]), "lost ones are replaced");
    sm.remove_job(JOB);
    assert_eq!(missing(&sm.check(s(6))), Some(vec![]), "not when nobody needs them");
}

#[test]
fn an_active_one_reports_a_shortage_after_the_request_timeout_and_what_is_impossible_at_once() {
    let mut sm = active(None, 0);
    sm.require(JOB, master(1), any_slots(3));
    sm.check(s(1));
    assert_eq!(shortages(&sm.check(s(300))), Vec::<String>::new());
    assert_eq!(shortages(&sm.check(s(301))), ["needs 3 slots of any size, 0 registered, 0 free"]);
    let profile = ResourceProfile { cpu_millis: 9_000, ..Default::default() };
    let huge = vec![ResourceRequirement { profile, slots: 1 }];
    sm.require(OTHER, master(1), huge);
    sm.check(s(302));
    let told = shortages(&sm.check(s(303)));
    let wanted =
        "needs 1 slot of 9.000 cores, task 0b, managed 0b, network 0b, 0 registered, 0 free";
    assert_eq!(told, [wanted]);
}

#[test]
fn a_job_that_needs_a_task_manager_which_can_never_be_had_is_told_at_once() {
    let mut sm = active(None, 0);
    sm.require(JOB, master(1), any_slots(3));
    sm.check(s(1));
    sm.refuse_task_managers([(spec(9), "too large".to_owned())]);
    assert_eq!(shortages(&sm.check(s(2))), Vec::<String>::new(), "it needs other TaskManagers");
    sm.refuse_task_managers([(spec(2), "maximum is 64 MiB".to_owned())]);
    let told = "needs 3 slots of any size, 0 registered, 0 free; a TaskManager for them can never be \
                started: maximum is 64 MiB";
    assert_eq!(shortages(&sm.check(s(3))), [told]);
    sm.refuse_task_managers([]);
    assert_eq!(shortages(&sm.check(s(300))), Vec::<String>::new(), "it waits again");
}

#[test]
fn the_most_slots_are_not_exceeded_and_spare_task_managers_are_kept() {
    let mut sm = active(Some(5), 0);
    sm.require(JOB, master(1), any_slots(20));
    assert_eq!(missing(&sm.check(s(1))), Some(vec![(2, 2)]));
    let mut sm = active(None, 1);
    sm.check(s(0));
    sm.require(JOB, master(1), any_slots(2));
    assert_eq!(missing(&sm.check(s(1))), Some(vec![(2, 2)]));
    sm.add_task_manager(s(2), task_manager(1, 11, 2));
    sm.add_task_manager(s(2), task_manager(2, 12, 2));
    assert_eq!(missing(&sm.check(s(2))), Some(vec![]));
    assert_eq!(sm.check(s(100)), [], "the spare one is kept");
}

#[test]
fn idle_task_managers_are_released_after_their_time_and_get_nothing_then() {
    let mut sm = active(None, 0);
    sm.add_task_manager(s(0), task_manager(1, 11, 2));
    sm.check(s(0));
    assert_eq!(sm.check(s(29)), []);
    let instance_id = InstanceId(11);
    assert_eq!(sm.check(s(30)), [Command::ReleaseTaskManager { instance_id }]);
    assert_eq!(sm.check(s(31)), []);
    sm.require(JOB, master(1), any_slots(1));
    let commands = sm.check(s(31));
    assert_eq!((requests(&commands).len(), missing(&commands)), (0, Some(vec![(2, 1)])));
}

#[test]
fn an_idle_task_manager_that_is_used_again_starts_its_time_anew() {
    let mut sm = active(None, 0);
    sm.add_task_manager(s(0), task_manager(1, 11, 1));
    sm.require(JOB, master(1), any_slots(1));
    let request = requests(&sm.check(s(20))).remove(0);
    sm.slot_granted(s(20), &request);
    sm.remove_job(JOB);
    assert_eq!(sm.check(s(100)), []);
    sm.free_slot(s(100), InstanceId(11), 0, request.allocation_id);
    assert_eq!(sm.check(s(129)), []);
    assert_eq!(sm.check(s(130)).len(), 1);
}

#[derive(Debug, Clone)]
enum Op {
    Require(u128, u64, u32),
    RemoveJob(u128),
    Add(u32, u32),
    Remove(usize),
    Grant(usize),
    Refuse(usize),
    Free(usize),
    Report(usize),
    Block(u32),
    Wait(u64),
}

fn an_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1u128..4, 1u64..3, 0u32..7).prop_map(|(j, m, n)| Op::Require(j, m, n)),
        (1u128..4).prop_map(Op::RemoveJob),
        (1u32..5, 1u32..4).prop_map(|(w, n)| Op::Add(w, n)),
        any::<usize>().prop_map(Op::Remove),
        any::<usize>().prop_map(Op::Grant),
        any::<usize>().prop_map(Op::Grant),
        any::<usize>().prop_map(Op::Refuse),
        any::<usize>().prop_map(Op::Free),
        any::<usize>().prop_map(Op::Report),
        (0u32..5).prop_map(Op::Block),
        (0u64..3).prop_map(Op::Wait),
    ]
}

/// The true state of the TaskExecutors, and the laws that hold under any sequence of events.
#[derive(Default)]
struct World {
    /// Live incarnation by TaskManager name, and its slots.
    live: BTreeMap<u32, (u128, u32)>,
    /// Slots that live TaskExecutors have given.
    given: BTreeMap<(u128, u32), SlotAllocation>,
    open: Vec<SlotRequest>,
    next_instance: u128,
    declared: BTreeMap<u128, (u64, u32)>,
}

impl World {
    fn apply(&mut self, sm: &mut SlotManager, now: &mut Duration, op: Op) {
        match op {
            Op::Require(job, m, n) => {
                sm.require(JobId(job), master(m), any_slots(n));
                let newest = self.declared.entry(job).or_insert((m, n));
                if m >= newest.0 {
                    *newest = (m, n);
                }
            }
            Op::RemoveJob(job) => {
                sm.remove_job(JobId(job));
                self.declared.remove(&job);
            }
            Op::Add(name, slots) => {
                self.next_instance += 1;
                self.forget(name);
                self.live.insert(name, (self.next_instance, slots));
                sm.add_task_manager(*now, task_manager(name, self.next_instance, slots));
            }
            Op::Remove(i) => {
                if let Some(name) = self.live.keys().copied().nth(i % self.live.len().max(1)) {
                    sm.remove_task_manager(InstanceId(self.live[&name].0));
                    self.forget(name);
                }
            }
            Op::Grant(i) if !self.open.is_empty() => {
                let request = self.open.remove(i % self.open.len());
                self.answer(sm, *now, &request);
            }
            Op::Refuse(i) if !self.open.is_empty() => {
                let request = self.open.remove(i % self.open.len());
                sm.slot_refused(*now, &request, Refusal::NotKnown);
            }
            Op::Free(i) if !self.given.is_empty() => {
                let key = *self.given.keys().nth(i % self.given.len()).expect("in range");
                let held = self.given.remove(&key).expect("is there");
                sm.free_slot(*now, InstanceId(key.0), key.1, held.allocation_id);
            }
            Op::Report(i) => {
                if let Some(name) = self.live.keys().copied().nth(i % self.live.len().max(1)) {
                    let (instance, slots) = self.live[&name];
                    let of = self.given.iter().filter(|((i, _), _)| *i == instance);
                    let held: Vec<_> = of.map(|((_, index), held)| (*index, *held)).collect();
                    sm.report(*now, InstanceId(instance), report(name, slots, &held));
                }
            }
            Op::Block(name) => sm.block_hosts([format!("host{name}")]),
            Op::Wait(seconds) => *now += s(seconds),
            Op::Grant(_) | Op::Refuse(_) | Op::Free(_) => {}
        }
    }

    fn forget(&mut self, name: u32) {
        if let Some((instance, _)) = self.live.remove(&name) {
            self.given.retain(|(of, _), _| *of != instance);
        }
    }

    /// Answers a request as a TaskExecutor does.
    fn answer(&mut self, sm: &mut SlotManager, now: Duration, request: &SlotRequest) {
        let key = (request.instance_id.0, request.index);
        if !self.live.values().any(|(instance, _)| *instance == key.0) {
            return sm.slot_refused(now, request, Refusal::NotKnown);
        }
        match self.given.get(&key) {
            Some(held) => sm.slot_refused(now, request, Refusal::Occupied(*held)),
            None => {
                let (job_id, allocation_id) = (request.job_id, request.allocation_id);
                self.given.insert(key, SlotAllocation { job_id, allocation_id });
                sm.slot_granted(now, request);
            }
        }
    }

    fn obey(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::RequestSlot(request) => {
                    let twice = self
                        .open
                        .iter()
                        .any(|r| (r.instance_id, r.index) == (request.instance_id, request.index));
                    assert!(!twice, "requested while a request is under way: {request:?}");
                    self.open.push(request);
                }
                Command::NeedTaskManagers { missing, .. } => {
                    let asked: u32 = missing.iter().map(|(spec, n)| spec.slots * n).sum();
                    let declared: u32 = self.declared.values().map(|(_, n)| n).sum();
                    assert!(asked < declared + 2, "{asked} slots asked, {declared} declared");
                }
                _ => {}
            }
        }
    }
}

/// Checks that every count and index that is updated with each change equals the recomputed one.
fn recount(sm: &SlotManager) -> Result<(), TestCaseError> {
    let usable = || sm.task_managers().iter().filter(|(_, task_manager)| task_manager.usable());
    let free: usize = usable().map(|(_, task_manager)| task_manager.free().count()).sum();
    let slots: usize = usable().map(|(_, task_manager)| task_manager.slots.len()).sum();
    let shelves = sm.task_managers().shelves();
    prop_assert_eq!(shelves.free().total(), free as u64);
    prop_assert_eq!(shelves.usable().total(), slots as u64);
    let any = ResourceProfile::unknown();
    let shelved =
        shelves.fulfilling(&any).flat_map(|(_, shelf)| shelf).map(|(_, instance)| *instance);
    let with_free =
        usable().filter(|(_, w)| w.free().next().is_some()).map(|(instance, _)| *instance);
    prop_assert_eq!(shelved.collect::<BTreeSet<_>>(), with_free.collect::<BTreeSet<_>>());
    let idle = |task_manager: &task_managers::TaskManager| {
        task_manager.free().count() == task_manager.slots.len()
    };
    let unused = sm.task_managers().iter().filter(|(_, w)| !w.releasing && idle(w)).count();
    prop_assert_eq!(shelves.idle_counts().0, unused);
    let mut unfulfilled = 0;
    for (job_id, job) in &sm.jobs {
        let held = sm.task_managers().held_by(*job_id).map(|(_, _, slot)| &slot.profile);
        let unmet = matching::unmet(&job.requirements, held);
        let queued = sm.queue.get(*job_id).map(|waiter| waiter.unfulfilled.clone());
        prop_assert_eq!(queued.unwrap_or_default(), unmet.clone());
        prop_assert_eq!(job.short_since.is_some(), !unmet.is_empty());
        unfulfilled += unmet.iter().map(|need| u64::from(need.slots)).sum::<u64>();
    }
    prop_assert_eq!(sm.queue.unfulfilled().total(), unfulfilled);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_laws_hold_under_any_sequence_of_events(ops in proptest::collection::vec(an_op(), 1..80), spread in any::<bool>()) {
        let mut sm = active(None, 0);
        sm.settings.spread_out = spread;
        let mut world = World::default();
        let mut now = s(0);
        for op in ops {
            world.apply(&mut sm, &mut now, op);
            let commands = sm.check(now);
            // A requirement is never exceeded by what is requested for it in one step.
            for job in 1..4u128 {
                let asked = requests(&commands).iter().filter(|r| r.job_id == JobId(job)).count();
                let declared = world.declared.get(&job).map_or(0, |(_, n)| *n as usize);
                let held = sm.task_managers().held_by(JobId(job)).count();
                prop_assert!(asked == 0 || held <= declared, "{} held of {}", held, declared);
            }
            world.obey(commands);
            let all = || sm.task_managers().iter().map(|(_, task_manager)| task_manager);
            let slots: usize = all().map(|w| w.slots.len()).sum();
            let free: usize = all().map(|w| w.free().count()).sum();
            let counted = (all().count() as u32, slots as u32, free as u32);
            prop_assert_eq!(sm.task_managers().totals(), counted, "sums that are kept are those that are counted");
            recount(&sm)?;
        }
        // Quiet: every request answered, reports in, nothing blocked. Then every free slot serves a job with a shortage.
        sm.block_hosts([]);
        for _ in 0..4 {
            for request in std::mem::take(&mut world.open) {
                world.answer(&mut sm, now, &request);
            }
            now += s(3);
            let names: Vec<u32> = world.live.keys().copied().collect();
            for i in 0..names.len() {
                world.apply(&mut sm, &mut now, Op::Report(i));
            }
            let commands = sm.check(now);
            world.obey(commands);
        }
        let free: usize = sm.task_managers().iter().filter(|(_, w)| !w.releasing).map(|(_, w)| w.free().count()).sum();
        let unfulfilled = sm.queue.unfulfilled().total();
        prop_assert!(free == 0 || unfulfilled == 0, "{} free, {} unfulfilled", free, unfulfilled);
        prop_assert_eq!(sm.check(now).len(), 0, "settled");
    }
}
