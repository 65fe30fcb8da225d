use super::*;
use derive::OperatorState;
use proptest::prelude::*;

#[derive(OperatorState)]
#[flott(crate = crate)]
struct Both {
    dealt: ListState<u64>,
    union: UnionListState<String>,
}

fn both(dealt: &[u64], union: &[&str]) -> Both {
    let mut both = Both::empty();
    dealt.iter().for_each(|n| both.dealt.push(*n));
    union.iter().for_each(|name| both.union.push((*name).to_owned()));
    both
}

fn dealt(state: &mut Both) -> Vec<u64> {
    state.dealt.take().unwrap()
}

fn shares(snapshots: &[Vec<u8>], of: u32) -> Vec<Both> {
    (0..of)
        .map(|subtask| read_operator_state(snapshots, Share::new(subtask, of)).unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every value of a list is in one subtask, in order, and no subtask has two more than another; every subtask has the whole union.
    #[test]
    fn lists_are_dealt_out_and_unions_are_given_to_all(
        lists in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..20), 1..6), of in 1_u32..9,
    ) {
        let union: Vec<String> = (0..lists.len()).map(|subtask| subtask.to_string()).collect();
        let snapshots: Vec<_> = lists
            .iter()
            .zip(&union)
            .map(|(list, name)| write_operator_state(&both(list, &[name])).unwrap())
            .collect();
        let mut restored = shares(&snapshots, of);
        let found: Vec<_> = restored.iter_mut().map(dealt).collect();
        prop_assert_eq!(found.concat(), lists.concat());
        if of as usize == lists.len() {
            prop_assert_eq!(&found, &lists);
        } else {
            let lengths = found.iter().map(Vec::len);
            prop_assert!(lengths.clone().max() <= lengths.min().map(|least| least + 1), "{:?}", found);
        }
        for state in &mut restored {
            prop_assert_eq!(state.union.get().unwrap(), &union);
        }
    }

    /// Whatever bytes are read: there is an error or a state, never a panic.
    #[test]
    fn bytes_that_are_no_snapshot_are_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..60), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let share = Share::new(0, 1);
        let _ = read_operator_state::<Both>(&[bytes], share);
        let whole = write_operator_state(&both(&[1, 2, 300], &["a", "bc"])).unwrap();
        let mut changed = whole.clone();
        changed[place.index(whole.len())] = byte;
        let _ = read_operator_state::<Both>(&[changed], share);
        let cut = whole[..place.index(whole.len())].to_vec();
        prop_assert!(read_operator_state::<Both>(&[cut], share).is_err());
    }
}

#[derive(OperatorState)]
#[flott(crate = crate)]
struct Texts {
    dealt: ListState<String>,
    union: UnionListState<String>,
}

#[derive(OperatorState)]
#[flott(crate = crate)]
struct Swapped {
    dealt: UnionListState<u64>,
    union: UnionListState<String>,
}

#[derive(OperatorState)]
#[flott(crate = crate)]
struct Longer {
    begun: ListState<bool>,
    union: UnionListState<String>,
    dealt: ListState<u64>,
}

#[test]
fn fields_are_found_by_name_and_refused_where_type_or_kind_is_another() {
    let written = [write_operator_state(&both(&[7], &["x"])).unwrap()];
    let share = Share::new(0, 1);
    let mut longer: Longer = read_operator_state(&written, share).unwrap();
    assert_eq!(longer.dealt.get().unwrap(), [7]);
    assert_eq!(longer.union.get().unwrap(), ["x"]);
    assert!(longer.begun.get().unwrap().is_empty());
    let retyped = read_operator_state::<Texts>(&written, share).map(drop).unwrap_err().to_string();
    let rekinded =
        read_operator_state::<Swapped>(&written, share).map(drop).unwrap_err().to_string();
    for error in [&retyped, &rekinded] {
        assert!(error.contains("'dealt'"), "{error}");
    }
    assert!(rekinded.contains("union-list"), "{rekinded}");
    let mut none: Both = read_operator_state(&[], share).unwrap();
    assert!(none.dealt.get().unwrap().is_empty());
}
