use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NOW: Duration = Duration::from_secs(1);
const A: JobId = JobId(1);
const B: JobId = JobId(2);

fn table(n: usize) -> SlotTable {
    let profile = ResourceProfile { cpu_millis: 1000, ..Default::default() };
    SlotTable::new(ResourceId::new("tm"), vec![profile; n])
}
fn any_size() -> ResourceProfile {
    ResourceProfile::unknown()
}

#[test]
fn a_free_slot_is_given_and_a_repeated_request_is_harmless() {
    let mut t = table(2);
    let ask = |t: &mut SlotTable| t.allocate(NOW, 1, A, AllocationId(7), &any_size());
    assert_eq!(ask(&mut t), Ok(Allocated::New));
    assert_eq!(ask(&mut t), Ok(Allocated::Already));
    assert_eq!(t.get(AllocationId(7)).unwrap().phase, Phase::Inactive);
    assert_eq!(
        t.free(AllocationId(7)),
        Some(Freed { index: 1, job: A, allocation: AllocationId(7) })
    );
    assert_eq!(t.free(AllocationId(7)), None);
    assert_eq!(ask(&mut t), Ok(Allocated::New));
}

#[test]
fn a_slot_is_refused_with_the_reason() {
    let mut t = table(2);
    t.allocate(NOW, 0, A, AllocationId(7), &any_size()).unwrap();
    let occupied = AllocateError::Occupied { job: A, allocation: AllocationId(7) };
    assert_eq!(t.allocate(NOW, 0, B, AllocationId(8), &any_size()), Err(occupied));
    let elsewhere = AllocateError::AllocatedElsewhere(AllocationId(7));
    assert_eq!(t.allocate(NOW, 1, A, AllocationId(7), &any_size()), Err(elsewhere));
    assert_eq!(
        t.allocate(NOW, 2, A, AllocationId(9), &any_size()),
        Err(AllocateError::NoSuchSlot(2))
    );
    let need = ResourceProfile { cpu_millis: 1001, ..Default::default() };
    assert!(matches!(
        t.allocate(NOW, 1, A, AllocationId(9), &need),
        Err(AllocateError::TooSmall { .. })
    ));
}

#[test]
fn a_slot_that_is_being_freed_is_not_given_again() {
    let mut t = table(1);
    for phase in [Phase::Failing, Phase::Releasing] {
        t.allocate(NOW, 0, A, AllocationId(7), &any_size()).unwrap();
        assert!(t.set_phase(NOW, AllocationId(7), phase));
        let refused = Err(AllocateError::Occupied { job: A, allocation: AllocationId(7) });
        assert_eq!(t.allocate(NOW, 0, A, AllocationId(7), &any_size()), refused);
        t.free(AllocationId(7)).unwrap();
    }
}

#[test]
fn only_what_no_job_master_has_is_offered() {
    let mut t = table(4);
    for (index, allocation) in [(0, 10), (1, 11), (2, 12)] {
        t.allocate(NOW, index, A, AllocationId(allocation), &any_size()).unwrap();
    }
    t.allocate(NOW, 3, B, AllocationId(13), &any_size()).unwrap();
    t.set_phase(NOW, AllocationId(10), Phase::Active);
    t.set_phase(NOW, AllocationId(11), Phase::Failing);
    let offered: Vec<_> = t.offers(A).iter().map(|o| (o.allocation_id, o.index)).collect();
    assert_eq!(offered, [(AllocationId(12), 2)]);
    assert_eq!(t.of_job(A).count(), 3);
}

#[derive(Debug, Clone)]
enum Op {
    Allocate(u32, u128, u128),
    Free(u128),
    Phase(u128, u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0u32..5, 1u128..3, 0u128..6).prop_map(|(i, j, a)| Op::Allocate(i, j, a)),
        (0u128..6).prop_map(Op::Free),
        (0u128..6, 0u8..4).prop_map(|(a, p)| Op::Phase(a, p)),
    ]
}

proptest! {
    /// No slot is ever given twice, no allocation has two slots, and the report says exactly who has what.
    #[test]
    fn a_slot_is_never_given_twice(ops in proptest::collection::vec(op(), 0..80)) {
        let mut t = table(4);
        let mut owners = BTreeMap::<u32, (JobId, AllocationId)>::new();
        for op in ops {
            match op {
                Op::Allocate(index, job, allocation) => {
                    let owner = (JobId(job), AllocationId(allocation));
                    match t.allocate(NOW, index, owner.0, owner.1, &any_size()) {
                        Ok(Allocated::New) => prop_assert_eq!(owners.insert(index, owner), None),
                        Ok(Allocated::Already) => prop_assert_eq!(owners.get(&index), Some(&owner)),
                        Err(AllocateError::NoSuchSlot(i)) => prop_assert!(i >= 4),
                        Err(AllocateError::Occupied { .. }) => prop_assert!(owners.contains_key(&index)),
                        Err(AllocateError::AllocatedElsewhere(a)) => {
                            prop_assert!(owners.iter().any(|(i, o)| *i != index && o.1 == a));
                        }
                        Err(e) => prop_assert!(false, "{}", e),
                    }
                }
                Op::Free(allocation) => {
                    let held = owners.iter().find(|(_, o)| o.1 == AllocationId(allocation)).map(|(i, _)| *i);
                    prop_assert_eq!(t.free(AllocationId(allocation)).map(|f| f.index), held);
                    held.map(|i| owners.remove(&i));
                }
                Op::Phase(allocation, phase) => {
                    let phase = [Phase::Inactive, Phase::Active, Phase::Failing, Phase::Releasing][usize::from(phase)];
                    let there = owners.values().any(|o| o.1 == AllocationId(allocation));
                    prop_assert_eq!(t.set_phase(NOW, AllocationId(allocation), phase), there);
                }
            }
            let report = t.report();
            let reported: BTreeMap<u32, (JobId, AllocationId)> = report
                .slots
                .iter()
                .filter_map(|s| s.allocation.map(|a| (s.slot_id.index, (a.job_id, a.allocation_id))))
                .collect();
            prop_assert_eq!(&reported, &owners);
            let allocations: BTreeSet<_> = owners.values().map(|o| o.1).collect();
            prop_assert_eq!(allocations.len(), owners.len());
            for (job, allocation) in owners.values() {
                prop_assert_eq!(t.get(*allocation).map(|h| h.job), Some(*job));
            }
        }
    }
}
