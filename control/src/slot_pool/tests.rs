use super::*;
use crate::execution_graph::ExecutionGraph;
use crate::testing::{task_manager, tm_name};
use model::MemorySize;
use model::testing::{graph, vertex};
use proptest::prelude::*;

fn plan(groups: &[(u32, u64)]) -> SlotPlan {
    let vertices = groups
        .iter()
        .enumerate()
        .map(|(i, (slots, task))| {
            let mut v = vertex(i as u32, *slots);
            v.slot_sharing_group = format!("g{i}");
            v.resources = Some(profile(*task));
            v
        })
        .collect();
    SlotPlan::of(&ExecutionGraph::new(Arc::new(graph(vertices, vec![])), 1, 0))
}

fn profile(task: u64) -> ResourceProfile {
    ResourceProfile { task: MemorySize(task), ..ResourceProfile::default() }
}

fn offer(allocation: u128, task: u64) -> SlotOffer {
    SlotOffer { allocation_id: AllocationId(allocation), index: 0, profile: profile(task) }
}

struct Fixture {
    plan: SlotPlan,
    pool: SlotPool,
}

impl Fixture {
    fn new(groups: &[(u32, u64)]) -> Self {
        let plan = plan(groups);
        let mut pool = SlotPool::new(&plan);
        assert_eq!(pool.register(&plan, task_manager(1, 1)), Registration::New);
        Self { plan, pool }
    }
    fn offer(&mut self, offers: &[SlotOffer]) -> Accepted {
        let host = Arc::from("host:1");
        self.pool.offer(&self.plan, &tm_name(1), InstanceId(1), offers, &host).unwrap()
    }
}

#[test]
fn only_what_is_needed_is_accepted_and_offers_may_be_repeated() {
    let mut f = Fixture::new(&[(2, 0)]);
    let first = f.offer(&[offer(1, 5), offer(2, 5), offer(3, 5)]);
    assert_eq!(first.accepted, [AllocationId(1), AllocationId(2)]);
    assert_eq!(first.served, [SharedSlot(0), SharedSlot(1)]);
    assert!(f.pool.is_complete());
    let again = f.offer(&[offer(2, 5), offer(3, 5)]);
    assert_eq!((again.accepted, again.served), (vec![AllocationId(2)], vec![]));
}

#[test]
fn an_offer_from_another_incarnation_is_refused() {
    let mut f = Fixture::new(&[(2, 0)]);
    let host = Arc::from("host:1");
    let answer = f.pool.offer(&f.plan, &tm_name(1), InstanceId(2), &[offer(1, 5)], &host);
    assert_eq!(answer, None);
}

#[test]
fn a_new_incarnation_takes_the_slots_of_the_old_one_away() {
    let mut f = Fixture::new(&[(2, 0)]);
    f.offer(&[offer(1, 5)]);
    assert_eq!(f.pool.register(&f.plan, task_manager(1, 1)), Registration::Known);
    let lost = vec![SharedSlot(0)];
    assert_eq!(f.pool.register(&f.plan, task_manager(1, 2)), Registration::Replaced { lost });
    assert!(f.pool.is_empty());
}

#[test]
fn an_idle_slot_moves_to_where_the_new_one_does_not_fit() {
    // The big slot went to the big group's only place; a second big one then serves the small group, and
    // moves back when only a small one comes for it.
    let mut f = Fixture::new(&[(1, 0), (1, 8)]);
    f.offer(&[offer(1, 9)]);
    assert_eq!(f.pool.placement(SharedSlot(1)).unwrap().allocation, AllocationId(1));
    f.offer(&[offer(2, 9)]);
    assert!(f.pool.is_complete());
    assert_eq!(f.pool.release_slot(&f.plan, AllocationId(1)), Some(SharedSlot(1)));
    let small = f.offer(&[offer(3, 1)]);
    assert_eq!(small.accepted, [AllocationId(3)]);
    assert_eq!(small.served, [SharedSlot(1)]);
    assert_eq!(f.pool.placement(SharedSlot(1)).unwrap().allocation, AllocationId(2));
    assert_eq!(f.pool.placement(SharedSlot(0)).unwrap().allocation, AllocationId(3));
}

#[test]
fn a_slot_in_use_does_not_move() {
    let mut f = Fixture::new(&[(1, 0), (1, 8)]);
    f.offer(&[offer(1, 9), offer(2, 9)]);
    f.pool.set_in_use(SharedSlot(0), true);
    f.pool.release_slot(&f.plan, AllocationId(1));
    assert_eq!(f.offer(&[offer(3, 1)]).accepted, []);
}

#[test]
fn a_slot_that_two_reports_do_not_list_is_given_up() {
    let mut f = Fixture::new(&[(2, 0)]);
    f.offer(&[offer(1, 5), offer(2, 5)]);
    let tm = tm_name(1);
    let listed = BTreeSet::from([AllocationId(2)]);
    assert_eq!(f.pool.reconcile(&tm, &listed, 2), []);
    assert_eq!(f.pool.reconcile(&tm, &listed, 2), [AllocationId(1)]);
}

#[test]
fn the_same_slot_with_another_host_is_kept_and_told() {
    let mut f = Fixture::new(&[(1, 0)]);
    f.offer(&[offer(1, 5)]);
    let host = Arc::from("host:2");
    let answer = f.pool.offer(&f.plan, &tm_name(1), InstanceId(1), &[offer(1, 5)], &host).unwrap();
    assert_eq!(answer.moved, [SharedSlot(0)]);
    assert_eq!(f.pool.placement(SharedSlot(0)).unwrap().data_address, host);
}

#[derive(Debug, Clone)]
enum Step {
    Register(u32, u128),
    Offer(u32, u128, Vec<(u128, u64)>),
    LoseTaskManager(u32, u128),
    LoseSlot(u128),
    Use(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u32..3, 0u128..3).prop_map(|(w, i)| Step::Register(w, i)),
        (0u32..3, 0u128..3, prop::collection::vec((0u128..12, 0u64..10), 0..4))
            .prop_map(|(w, i, o)| Step::Offer(w, i, o)),
        (0u32..3, 0u128..3).prop_map(|(w, i)| Step::LoseTaskManager(w, i)),
        (0u128..12).prop_map(Step::LoseSlot),
        (0u32..8).prop_map(Step::Use),
    ]
}

proptest! {
    #[test]
    fn a_slot_serves_one_place_and_every_place_has_a_slot_that_fits(
        groups in prop::collection::vec((1u32..4, 0u64..10), 1..4),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let plan = plan(&groups);
        let mut pool = SlotPool::new(&plan);
        let host: Arc<str> = Arc::from("host:1");
        for step in steps {
            match step {
                Step::Register(w, i) => { pool.register(&plan, task_manager(w, i)); }
                Step::Offer(w, i, offers) => {
                    let offers: Vec<_> = offers.into_iter().map(|(a, t)| offer(a, t)).collect();
                    let name = tm_name(w);
                    pool.offer(&plan, &name, InstanceId(i), &offers, &host);
                }
                Step::LoseTaskManager(w, i) => {
                    pool.release_task_manager(&plan, &tm_name(w), InstanceId(i));
                }
                Step::LoseSlot(a) => { pool.release_slot(&plan, AllocationId(a)); }
                Step::Use(slot) => pool.set_in_use(SharedSlot(slot), true),
            }
            let serving: Vec<AllocationId> = pool.serving.iter().flatten().copied().collect();
            let distinct: BTreeSet<AllocationId> = serving.iter().copied().collect();
            prop_assert_eq!(serving.len(), distinct.len());
            prop_assert_eq!(distinct, pool.held.keys().copied().collect::<BTreeSet<_>>());
            for (allocation, slot) in &pool.held {
                prop_assert_eq!(pool.serving[slot.serves.0 as usize], Some(*allocation));
                let group = &pool.groups[plan.group_of(slot.serves).unwrap()];
                prop_assert!(slot.profile.fulfils(&group.profile));
                prop_assert!(!group.missing.contains(&slot.serves.0));
                prop_assert!(pool.task_managers[&slot.task_manager.resource_id].allocations.contains(allocation));
            }
            let missing: usize = pool.groups.iter().map(|g| g.missing.len()).sum();
            prop_assert_eq!(missing + pool.held.len(), plan.len() as usize);
            let owned: usize = pool.task_managers.values().map(|w| w.allocations.len()).sum();
            prop_assert_eq!(owned, pool.held.len());
        }
    }
}

#[test]
fn what_served_a_finished_slot_serves_a_missing_one_or_nothing() {
    let mut f = Fixture::new(&[(3, 0)]);
    f.offer(&[offer(1, 5), offer(2, 5)]);
    let task_manager = f.pool.task_manager(&tm_name(1), InstanceId(1)).unwrap().clone();
    let retired = f.pool.retire(&f.plan, SharedSlot(0), true);
    assert_eq!(retired, Retired::Serves(SharedSlot(2)));
    assert!(f.pool.is_complete() && !f.pool.is_served(SharedSlot(0)));
    assert_eq!(f.pool.placement(SharedSlot(2)).unwrap().allocation, AllocationId(1));
    assert_eq!(f.pool.requirements()[0].slots, 2);
    let retired = f.pool.retire(&f.plan, SharedSlot(1), true);
    assert_eq!(retired, Retired::Free(task_manager, AllocationId(2)));
    assert_eq!(f.pool.retire(&f.plan, SharedSlot(1), true), Retired::Unserved);
    assert_eq!(f.offer(&[offer(3, 5)]).accepted, [], "nothing needs it");
    // It is to run once more.
    f.pool.revive(&f.plan, SharedSlot(1));
    assert_eq!(f.pool.requirements()[0].slots, 2);
    assert_eq!(f.offer(&[offer(3, 5)]).served, [SharedSlot(1)]);
}
