use super::*;
use crate::types::{CodecError, FlottType, fingerprint, key_hash};
use derive::FlottType;
use model::graph::StateDeclaration;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Numbers = Table<String, Single<u64>>;

fn fields() -> Vec<StateDeclaration> {
    vec![<Option<u64> as StateField>::declare("number")]
}

fn groups(subtask: u32, parallelism: u32, max: u32) -> KeyGroups {
    KeyGroups::of_subtask(subtask, parallelism, max)
}

fn keep<K: crate::types::Key, V: Kept>(
    table: &mut Table<K, V>,
    groups: &KeyGroups,
    key: K,
    value: V,
) {
    table.restore(groups.address(&key), key, value).unwrap();
}

fn all<K: crate::types::Key, V: Kept>(mut table: Table<K, V>) -> Vec<(K, V)> {
    let mut entries = Vec::new();
    while let Some(part) = table.take_part().unwrap() {
        entries.extend(part);
    }
    entries
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

    /// State that any number of subtasks wrote is found again by any other number of subtasks.
    #[test]
    fn state_survives_a_change_of_parallelism(
        values in prop::collection::btree_map("[a-z]{1,6}", any::<u64>(), 0..200), before in 1_u32..9, after in 1_u32..9,
    ) {
        let max = 128;
        let mut snapshots = Vec::new();
        for subtask in 0..before {
            let groups = groups(subtask, before, max);
            let mut part = Numbers::new(groups.clone());
            for (key, value) in &values {
                let at = groups.address(key);
                let kept = part.restore(at, key.clone(), Single(*value));
                prop_assert_eq!(kept.is_ok(), groups.owned.contains(&at.group));
            }
            snapshots.push(write_snapshot(&mut part, &groups, &fields()).unwrap());
        }
        let mut found = BTreeMap::new();
        for subtask in 0..after {
            let groups = groups(subtask, after, max);
            let mut part = Numbers::new(groups.clone());
            for bytes in &snapshots {
                read_snapshot(bytes, &mut part, &groups, &fields()).unwrap();
            }
            for (key, value) in all(part) {
                prop_assert_eq!(found.insert(key, value.0), None);
            }
        }
        prop_assert_eq!(found, values);
    }

    #[test]
    fn bytes_of_nobody_are_refused_without_a_panic(bytes: Vec<u8>, whole: bool) {
        let groups = groups(0, 1, 128);
        let mut table = Table::<u64, Everything>::new(groups.clone());
        let mut snapshot = write_snapshot(&mut table, &groups, &Everything::declare()).unwrap();
        if whole {
            snapshot = vec![2];
        }
        snapshot.extend(bytes);
        let _ = read_snapshot(&snapshot, &mut table, &groups, &Everything::declare());
        let fields = [Some(0), None, Some(2), Some(9)];
        if let Ok(mut rows) = RowReader::new(&mut crate::types::Reader::new(&snapshot), &fields) {
            let _ = <Everything as Kept>::read(&mut rows);
        }
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
    let groups = groups(3, 64, 128);
    let mut table = Table::new(groups.clone());
    for key in (0..640_000_u64).filter(|key| groups.owned.contains(&groups.address(key).group)) {
        keep(&mut table, &groups, key, Single(()));
    }
    let mut parts = Vec::new();
    while let Some(part) = table.take_part().unwrap() {
        parts.push(part.len());
    }
    assert_eq!(parts.len(), 128);
    assert!(parts.iter().all(|n| (30..140).contains(n)), "{parts:?}");
}

#[test]
fn a_table_keeps_finds_and_forgets() {
    let groups = groups(0, 1, 128);
    let mut table = Numbers::new(groups.clone());
    for i in 0..1_000 {
        keep(&mut table, &groups, format!("k{i}"), Single(i));
    }
    let key = "k77".to_owned();
    let at = groups.address(&key);
    let Ok(Place::Taken(mut place)) = table.place(at, |stored| *stored == key) else { panic!() };
    place.entry().1.0 += 1;
    assert_eq!(Taken::<String, Single<u64>>::entry(&mut place).1.0, 78);
    Taken::remove(place);
    let Ok(Place::Free(place)) = table.place(at, |stored| *stored == key) else { panic!() };
    Free::insert(place, key.clone(), Single(5));
    assert_eq!(table.remove(at, &key).map(|value| value.0), Some(5));
    assert!(table.remove(at, &key).is_none());
    assert_eq!(all(table).len(), 999);
}

#[test]
fn state_is_at_hand_unless_a_snapshot_needs_what_it_was() {
    let groups = groups(0, 1, 128);
    let mut table = Numbers::new(groups.clone());
    let (key, other) = ("k".to_owned(), "other".to_owned());
    let (at, other_at) = (groups.address(&key), groups.address(&other));
    assert!(table.at_hand(at, |stored| *stored == key).is_none(), "before the first key");
    keep(&mut table, &groups, key.clone(), Single(7));
    assert!(table.at_hand(other_at, |stored| *stored == other).is_none());
    assert_eq!(table.at_hand(at, |stored| *stored == key).map(|kept| kept.0), Some(7));
    assert!(table.begin_snapshot(&[], &[]));
    assert!(table.at_hand(at, |stored| *stored == key).is_none(), "not written yet");
    assert!(table.write_snapshot(&mut Slice::whole()).unwrap());
    assert!(table.at_hand(at, |stored| *stored == key).is_some());
    let is_aborted = &|_| false;
    let of = Incremental { checkpoint: 1, inline: 0, is_aborted, head: &[], changes_head: &[] };
    assert!(table.begin_incremental(&of).is_some());
    assert!(table.at_hand(at, |stored| *stored == key).is_none(), "not written yet");
    assert!(table.write_snapshot(&mut Slice::whole()).unwrap());
    assert!(table.at_hand(at, |stored| *stored == key).is_some());
}

struct Sum;
impl Reduce for Sum {
    type Value = u64;
    fn merge(kept: &mut u64, next: u64) {
        *kept += next;
    }
}

pub(crate) struct Mean;
impl Aggregate for Mean {
    type In = u64;
    type Kept = (u64, u64);
    type Out = u64;
    fn start() -> (u64, u64) {
        (0, 0)
    }
    fn add(kept: &mut (u64, u64), input: u64) {
        *kept = (kept.0 + input, kept.1 + 1);
    }
    fn result(kept: &(u64, u64)) -> u64 {
        kept.0 / kept.1
    }
}

#[derive(State)]
#[flott(crate = crate)]
struct Everything {
    value: Option<String>,
    list: ListState<u32>,
    map: MapState<String, i64>,
    #[state(name = "total")]
    sum: ReducingState<Sum>,
    mean: AggregatingState<Mean>,
}

fn everything() -> Everything {
    let mut state = Everything::empty();
    state.value = Some("v".into());
    state.list.push(7);
    state.list.push(8);
    state.map.insert("a".into(), -1);
    state.map.insert("b".into(), 2);
    state.map.remove(&"a".to_owned());
    *state.map.get_or_insert_with("c".into(), || 10).unwrap() += 1;
    state.sum.add(3);
    state.sum.add(4);
    state.mean.add(10);
    state.mean.add(20);
    state
}

/// Writes the state of one key, and reads it as another struct.
fn through_a_snapshot<A: State, B: State>(state: A) -> Result<Option<B>, StateError> {
    let groups = groups(0, 1, 128);
    let mut table = Table::new(groups.clone());
    keep(&mut table, &groups, 1_u64, state);
    let bytes = write_snapshot(&mut table, &groups, &A::declare())?;
    let mut table = Table::<u64, B>::new(groups.clone());
    read_snapshot(&bytes, &mut table, &groups, &B::declare())?;
    Ok(all(table).pop().map(|(_, state)| state))
}

#[test]
fn every_kind_of_field_is_declared_written_and_read() {
    let declared = Everything::declare();
    let names: Vec<_> = declared.iter().map(|d| (d.name.as_str(), d.kind.as_str())).collect();
    let expected = [
        ("value", "value"),
        ("list", "list"),
        ("map", "map"),
        ("total", "reducing"),
        ("mean", "aggregating"),
    ];
    assert_eq!(names, expected);
    assert_eq!(declared[2].schemas.keys().collect::<Vec<_>>(), ["name", "value"]);

    let mut state: Everything = through_a_snapshot(everything()).unwrap().unwrap();
    assert_eq!(state.value.as_deref(), Some("v"));
    assert_eq!(state.list.get().unwrap(), [7, 8]);
    let mut entries = Vec::new();
    state.map.for_each(|(name, value)| entries.push((name.clone(), *value))).unwrap();
    assert_eq!(entries, [("b".to_owned(), 2), ("c".to_owned(), 11)]);
    assert_eq!((state.sum.get(), state.mean.get()), (Some(&7), Some(15)));
}

#[test]
fn state_is_empty_when_every_field_is() {
    let mut state = everything();
    state.value = None;
    assert_eq!(state.list.take().unwrap(), [7, 8]);
    state.map.clear();
    state.sum.clear();
    assert!(!State::holds_nothing(&state));
    state.mean.clear();
    assert!(State::holds_nothing(&state));
    assert!(State::holds_nothing(&Everything::empty()));
}

#[derive(State)]
#[flott(crate = crate)]
struct Other {
    map: MapState<String, i64>,
    new: Option<u8>,
    #[state(name = "value")]
    renamed: Option<String>,
}

#[test]
fn fields_are_found_again_by_their_names() {
    let mut state: Other = through_a_snapshot(everything()).unwrap().unwrap();
    assert_eq!(state.renamed.as_deref(), Some("v"));
    assert_eq!(state.map.get(&"c".to_owned()).unwrap(), Some(&11));
    assert_eq!(state.new, None);
    // A key that had nothing else than what is no longer declared is not kept.
    let mut state = Everything::empty();
    state.list.push(1);
    assert!(through_a_snapshot::<_, Other>(state).unwrap().is_none());
}

/// Neither `Clone` nor `Default`.
#[derive(Debug, PartialEq, FlottType)]
#[flott(crate = crate)]
struct Once(u64);

#[derive(State)]
#[flott(crate = crate)]
struct Values {
    one: Option<Once>,
    several: ListState<Vec<Once>>,
    named: MapState<u8, Once>,
}

#[test]
fn values_need_neither_clone_nor_default() {
    let mut state = Values::empty();
    state.one = Some(Once(1));
    state.several.push(vec![Once(2), Once(3)]);
    state.named.insert(4, Once(5));
    let mut state: Values = through_a_snapshot(state).unwrap().unwrap();
    assert_eq!(state.one, Some(Once(1)));
    assert_eq!(state.several.get().unwrap(), [[Once(2), Once(3)]]);
    assert_eq!(state.named.take(&4).unwrap(), Some(Once(5)));
}

#[derive(State)]
#[flott(crate = crate)]
struct Retyped {
    value: Option<u64>,
}

#[test]
fn a_state_of_another_type_or_kind_is_refused_by_name() {
    let refused = through_a_snapshot::<_, Retyped>(everything()).err().unwrap().to_string();
    assert!(refused.starts_with("state 'value' was written as value (value "), "{refused}");
    assert!(refused.contains("declares it as value (value u64, "), "{refused}");
    let groups = groups(0, 1, 128);
    let mut table = Table::<u64, Single<u64>>::new(groups.clone());
    let bytes = write_snapshot(&mut table, &groups, &fields()).unwrap();
    let list = vec![<ListState<u64> as StateField>::declare("number")];
    assert!(matches!(
        read_snapshot(&bytes, &mut table, &groups, &list),
        Err(StateError::Schema { .. })
    ));
    let mut other = Table::<String, Single<u64>>::new(groups.clone());
    let refused = read_snapshot(&bytes, &mut other, &groups, &fields());
    assert!(matches!(refused, Err(StateError::KeySchema { .. })));
    let (text, written) = (refused.unwrap_err().to_string(), fingerprint::<u64>());
    for part in [&written, &format!("string, {}", fingerprint::<String>())] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let mut old = bytes;
    old[0] = 1;
    let refused = read_snapshot(&old, &mut table, &groups, &fields());
    assert_eq!(refused, Err(CodecError::Invalid { what: "version of a snapshot" }.into()));
}

#[test]
fn a_list_is_read_from_its_runs_in_order() {
    let run = |first: u64, values: &[u32], list: &mut ListState<u32>| {
        let mut bytes = Vec::new();
        let values = values.to_vec();
        RowWriter::default().write(&mut bytes, |rows| {
            rows.fields(0).row(|entry| first.encode(entry), |out| values.encode(out));
        });
        let mut input = crate::types::Reader::new(&bytes);
        let (_, row) = RowReader::new(&mut input, &[Some(0)]).unwrap().next().unwrap().unwrap();
        StateField::read(list, row)
    };
    let mut list = <ListState<u32> as StateField>::empty();
    run(0, &[1, 2], &mut list).unwrap();
    run(2, &[3], &mut list).unwrap();
    assert_eq!(list.get().unwrap(), [1, 2, 3]);
    assert!(run(2, &[3], &mut list).is_err());
}

/// The writer leaves as many bytes for a length as the last one took: lengths on both sides of 127 and 16,383 follow each other.
#[test]
fn rows_are_read_as_they_were_written_whatever_the_lengths_of_those_before_them() {
    let lengths = [0, 127, 128, 16_383, 16_384, 1, 3_000_000, 5];
    let keys = lengths.iter().flat_map(|length| [1, 130, 0].map(|count| (*length, count)));
    let (mut writer, mut bytes) = (RowWriter::default(), Vec::new());
    for (length, count) in keys.clone() {
        writer.write(&mut bytes, |rows| {
            for n in 0..count {
                let value = vec![7u8; length / (n + 1)];
                rows.fields(2).row(|out| vec![n as u64; n].encode(out), |out| value.encode(out));
            }
        });
    }
    let mut input = crate::types::Reader::new(&bytes);
    for (length, count) in keys {
        let mut rows = RowReader::new(&mut input, &[None, None, Some(0)]).unwrap();
        for n in 0..count {
            let (_, row) = rows.next().unwrap().unwrap();
            assert_eq!(row.entry::<Vec<u64>>().unwrap(), vec![n as u64; n]);
            assert!(row.value::<Vec<u8>>().unwrap() == vec![7; length / (n + 1)]);
        }
        assert!(rows.is_empty());
    }
    input.finish().unwrap();
}

/// Entries in groups, with their numbers before them.
#[test]
fn a_snapshot_of_version_2_is_read() {
    let groups = groups(0, 1, 128);
    let mut table = Numbers::new(groups.clone());
    keep(&mut table, &groups, "a".to_owned(), Single(1));
    let now = write_snapshot(&mut table, &groups, &fields()).unwrap();
    let mut head = Vec::new();
    write_head::<String>(&fields(), &mut head);
    // The group, which is a varint of two bytes or one, is left out.
    let group = key_group(key_hash(&"a".to_owned()), 128);
    let mut number = Vec::new();
    crate::types::write_varint(u64::from(group) + 1, &mut number);
    let entry = &now[head.len() + number.len()..now.len() - 1];
    head[0] = 2;
    let mut old = head;
    old.push(2);
    (group ^ 1).encode(&mut old);
    old.push(0);
    group.encode(&mut old);
    old.push(1);
    old.extend_from_slice(entry);
    let mut table = Numbers::new(groups.clone());
    read_snapshot(&old, &mut table, &groups, &fields()).unwrap();
    let entries: Vec<_> = all(table).into_iter().map(|(key, value)| (key, value.0)).collect();
    assert_eq!(entries, [("a".to_owned(), 1)]);
}
