use super::*;
use crate::types::{Reader, key_hash};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn table(subtask: u32, parallelism: u32, max: u32) -> Table<String, u64> {
    Table::new(KeyGroups::of_subtask(subtask, parallelism, max))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every group has exactly one owner, and it is the one that records are sent to.
    #[test]
    fn key_groups_partition_the_range(max in 1_u32..2_000, parallelism in 1_u32..200) {
        let parallelism = parallelism.min(max);
        let mut next = 0;
        for subtask in 0..parallelism {
            let groups = KeyGroups::of_subtask(subtask, parallelism, max);
            prop_assert_eq!(groups.owned.start, next);
            for group in groups.owned.clone() {
                prop_assert_eq!(channel_of_group(group, max, parallelism), subtask);
            }
            next = groups.owned.end;
        }
        prop_assert_eq!(next, max);
    }

    /// What any number of subtasks wrote is found again by any other number.
    #[test]
    fn state_survives_a_change_of_parallelism(
        values in prop::collection::btree_map("[a-z]{1,6}", any::<u64>(), 0..200), before in 1_u32..9, after in 1_u32..9,
    ) {
        let max = 128;
        let mut snapshots = Vec::new();
        for subtask in 0..before {
            let mut part = table(subtask, before, max);
            for (key, value) in &values {
                let at = part.key_groups().address(key);
                if part.key_groups().owned.contains(&at.group) {
                    part.insert_at(at, key, *value).unwrap();
                } else {
                    prop_assert!(part.insert_at(at, key, *value).is_err());
                }
            }
            let mut bytes = Vec::new();
            part.write(&mut bytes);
            snapshots.push(bytes);
        }
        let mut found = BTreeMap::new();
        for subtask in 0..after {
            let mut part = table(subtask, after, max);
            for bytes in &snapshots {
                let mut input = Reader::new(bytes);
                part.read(&mut input).unwrap();
                input.finish().unwrap();
            }
            for (key, value) in part.iter() {
                prop_assert_eq!(found.insert(key.clone(), *value), None);
            }
        }
        prop_assert_eq!(found, values);
    }

    #[test]
    fn bytes_of_nobody_are_refused_without_a_panic(bytes: Vec<u8>) {
        let _ = read_snapshot(&bytes);
        let _ = table(0, 1, 128).read(&mut Reader::new(&bytes));
    }
}

#[test]
fn defaults_are_flinks() {
    let of = |p| default_max_parallelism(p);
    assert_eq!((of(1), of(85), of(86), of(1_000), of(30_000)), (128, 128, 256, 2_048, 32_768));
}

/// Groups decide which part of a snapshot a key is in: these values may never change.
#[test]
fn the_groups_of_keys_never_change() {
    let groups = |max| [0_u64, 1, 42, u64::MAX].map(|n| key_group(key_hash(&n), max));
    assert_eq!(groups(128), [95, 27, 46, 113]);
    assert_eq!(groups(1_000), [263, 675, 974, 569]);
    assert_eq!(groups(32_768), [9823, 28315, 20910, 13041]);
    assert_eq!(key_group(0x1234_5678_9abc_def0, 128), 0x78);
    assert_eq!(key_group(0xfe00_0000_ffff_ffff, 32_768), 0, "tags and buckets are no part of it");
}

#[test]
fn keys_spread_over_groups_and_over_the_tables_of_a_group() {
    for max in [2, 100, 128, 1_000] {
        let mut groups = vec![0_u32; max as usize];
        for i in 0..max * 1_000 {
            groups[key_group(key_hash(&format!("w{i}")), max) as usize] += 1;
        }
        assert!(groups.iter().all(|n| (800..1_200).contains(n)), "{max}: {groups:?}");
    }
    let mut table = Table::<u64, ()>::new(KeyGroups::of_subtask(3, 64, 128));
    let groups = table.key_groups().clone();
    for key in 0..640_000 {
        let at = groups.address(&key);
        if groups.owned.contains(&at.group) {
            table.insert_at(at, &key, ()).unwrap();
        }
    }
    let mut parts = Vec::new();
    while let Some(part) = table.take_part() {
        parts.push(part.len());
    }
    assert_eq!(parts.len(), 128);
    assert!(parts.iter().all(|n| (30..140).contains(n)), "{parts:?}");
}

#[test]
fn a_table_keeps_finds_and_forgets() {
    let mut table = table(0, 1, 128);
    let keys: Vec<String> = (0..1_000).map(|i| format!("k{i}")).collect();
    for (i, key) in keys.iter().enumerate() {
        let at = table.key_groups().address(key);
        assert_eq!(table.insert_at(at, key, i as u64), Ok(None));
    }
    assert_eq!(table.len(), 1_000);
    assert_eq!(table.get(&"k77".to_owned()), Some(&77));
    let at = table.key_groups().address(&"k77".to_owned());
    assert_eq!(table.remove_at(at, &"k77".to_owned()), Some(77));
    assert_eq!(table.remove_at(at, &"k77".to_owned()), None);
    *table.get_or_insert_at(at, &"k77".to_owned(), || 5).unwrap() += 1;
    assert_eq!(table.get(&"k77".to_owned()), Some(&6));
    let mut taken = 0;
    while let Some(part) = table.take_part() {
        taken += part.len();
    }
    assert_eq!((taken, table.is_empty()), (1_000, true));
}

#[test]
fn the_visitor_declares_opens_and_writes() {
    let walk = |value: &mut Option<Table<String, u64>>, states: &mut States<'_>| {
        states.table("total", "value", value);
    };
    let mut state = None;
    let mut declared = Vec::new();
    walk(&mut state, &mut States::declare(&mut declared));
    assert_eq!((declared.len(), state.is_none()), (1, true));

    let groups = KeyGroups::of_subtask(0, 1, 128);
    let mut open = States::open(groups.clone(), &[]);
    walk(&mut state, &mut open);
    open.opened().unwrap();
    let key = "a".to_owned();
    state.as_mut().unwrap().insert_at(groups.address(&key), &key, 7).unwrap();
    let mut write = States::write();
    walk(&mut state, &mut write);
    let restored = read_snapshot(&write.written().unwrap()).unwrap();

    let mut again = None;
    let mut open = States::open(groups.clone(), &restored);
    walk(&mut again, &mut open);
    open.opened().unwrap();
    assert_eq!(again.unwrap().get(&key), Some(&7));

    // Another value type under the same name is refused, not misread.
    let mut other: Option<Table<String, String>> = None;
    let mut open = States::open(groups, &restored);
    open.table("total", "value", &mut other);
    assert!(open.opened().is_err());
}
