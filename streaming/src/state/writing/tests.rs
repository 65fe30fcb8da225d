use crate::{
    seam::StateChunk,
    state::{
        CHUNK_BYTES, Free, KeyGroups, Place, RowReader, Single, Slice, StateBackend, Table, Taken,
        snapshot::END, write_head,
    },
    types::{FlottType, Reader},
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Values = BTreeMap<u32, Vec<u8>>;

#[derive(Debug, Clone)]
enum Act {
    /// Sets the values of so many keys from this one on, as far as `every` divides them.
    Set { first: u32, count: u32, every: u32, value: Vec<u8> },
    /// Removes so many keys from this one on.
    Remove { first: u32, count: u32 },
    /// Writes a slice of so much work.
    Slice(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let value = prop::collection::vec(any::<u8>(), 0..40);
    let set = (0_u32..8_000, 1_u32..600, 1_u32..5, value)
        .prop_map(|(first, count, every, value)| Act::Set { first, count, every, value });
    let remove = (0_u32..8_000, 1_u32..300).prop_map(|(first, count)| Act::Remove { first, count });
    let slice = (1_usize..40_000).prop_map(Act::Slice);
    prop::collection::vec(prop_oneof![4 => set, 2 => remove, 3 => slice], 1..40)
}

/// A table, the values that it should have, and the snapshot that is being written.
struct Test {
    groups: KeyGroups,
    table: Table<u32, Single<Vec<u8>>>,
    now: Values,
    at_barrier: Values,
    chunks: Vec<StateChunk>,
    complete: bool,
}

impl Test {
    fn new(parallelism: u32) -> Self {
        let groups = KeyGroups::of_subtask(0, parallelism, 128);
        Self {
            table: Table::new(groups.clone()),
            groups,
            now: Values::new(),
            at_barrier: Values::new(),
            chunks: Vec::new(),
            complete: true,
        }
    }

    fn set(&mut self, key: u32, value: &[u8]) {
        let at = self.groups.address(&key);
        if !self.groups.owned.contains(&at.group) {
            return;
        }
        match self.table.at_hand(at, |stored| *stored == key) {
            Some(kept) => kept.0 = value.to_vec(),
            None => match self.table.place(at, |stored| *stored == key).unwrap() {
                Place::Taken(mut place) => Taken::<u32, _>::entry(&mut place).1.0 = value.to_vec(),
                Place::Free(place) => place.insert(key, Single(value.to_vec())),
            },
        }
        self.now.insert(key, value.to_vec());
    }

    fn remove(&mut self, key: u32) {
        let at = self.groups.address(&key);
        if let Ok(Place::Taken(place)) = self.table.place(at, |stored| *stored == key) {
            Taken::remove(place);
            assert!(self.now.remove(&key).is_some());
        }
    }

    fn barrier(&mut self) {
        let mut head = Vec::new();
        write_head::<u32>(&[], &mut head);
        assert!(self.table.begin_snapshot(&head, &head));
        self.at_barrier = self.now.clone();
        self.complete = false;
    }

    fn slice(&mut self, work: usize) {
        if !self.complete {
            let mut slice = Slice::new(work, work, &|| true);
            self.complete = self.table.write_snapshot(&mut slice).unwrap();
            self.chunks.append(&mut slice.chunks);
        }
    }

    fn play(&mut self, acts: &[Act]) {
        for act in acts {
            match act {
                Act::Set { first, count, every, value } => (*first..first + count)
                    .filter(|key| key % every == 0)
                    .for_each(|key| self.set(key, value)),
                Act::Remove { first, count } => {
                    (*first..first + count).for_each(|key| self.remove(key));
                }
                Act::Slice(work) => self.slice(*work),
            }
        }
    }

    /// Completes the snapshot and returns its entries; fails if a key is in it twice.
    fn written(&mut self) -> Values {
        while !self.complete {
            self.slice(usize::MAX);
        }
        let mut values = Values::new();
        for chunk in std::mem::take(&mut self.chunks) {
            self.read(&chunk, &mut values);
        }
        values
    }

    /// Reads a chunk, which must be a snapshot of its own and have entries of the groups that it lists alone.
    fn read(&self, chunk: &StateChunk, values: &mut Values) {
        let mut head = Vec::new();
        write_head::<u32>(&[], &mut head);
        let mut input = Reader::new(chunk.bytes.strip_prefix(&head[..]).unwrap());
        let mut groups = BTreeSet::new();
        loop {
            let group = input.varint().unwrap();
            if group == u64::from(END) {
                input.finish().unwrap();
                break;
            }
            let key = u32::decode(&mut input).unwrap();
            assert_eq!(u64::from(self.groups.address(&key).group) + 1, group);
            groups.insert(self.groups.address(&key).group);
            let mut rows = RowReader::new(&mut input, &[Some(0)]).unwrap();
            let value = rows.next().unwrap().unwrap().1.value().unwrap();
            assert!(rows.next().unwrap().is_none());
            assert_eq!(values.insert(key, value), None, "{key} is written twice");
        }
        if let Some(listed) = &chunk.groups {
            assert!(listed.iter().eq(&groups));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever changes while a snapshot is being written: it has the state at its barrier, and the table the newest.
    #[test]
    fn a_snapshot_has_each_key_once_with_its_value_at_the_barrier(
        parallelism in prop::sample::select(vec![1_u32, 50]),
        rounds in prop::collection::vec((acts(), acts()), 1..4),
    ) {
        let mut test = Test::new(parallelism);
        for (before, after) in rounds {
            test.play(&before);
            test.barrier();
            test.play(&after);
            let written = test.written();
            prop_assert!(written == test.at_barrier);
        }
        let mut entries = Values::new();
        while let Some(part) = test.table.take_part().unwrap() {
            entries.extend(part.into_iter().map(|(key, value)| (key, value.0)));
        }
        prop_assert!(entries == test.now);
    }
}

#[test]
fn keys_that_come_after_a_barrier_of_an_empty_state_are_not_in_its_snapshot() {
    let mut test = Test::new(1);
    test.barrier();
    (0..40_000).for_each(|key| test.set(key, &[1]));
    assert!(StateBackend::reads_ahead(&mut test.table), "the tables are larger than the caches");
    (0..80_000).for_each(|key| test.set(key, &[2]));
    assert!(test.written().is_empty());
}

#[test]
fn a_snapshot_that_is_aborted_leaves_nothing_for_the_next_one() {
    let mut test = Test::new(1);
    (0..2_000).for_each(|key| test.set(key, &[1; 20]));
    test.barrier();
    test.slice(30_000);
    // Old values are written for the snapshot before it is aborted, and none afterwards.
    (1_000..1_200).for_each(|key| test.set(key, &[2; 20]));
    assert!(test.table.abort_snapshot());
    test.complete = true;
    test.chunks.clear();
    (0..1_500).for_each(|key| test.set(key, &[3; 20]));
    (2_000..5_000).for_each(|key| test.set(key, &[4; 20]));
    let mut slice = Slice::whole();
    assert!(test.table.write_snapshot(&mut slice).unwrap() && slice.chunks.is_empty());
    test.barrier();
    test.slice(30_000);
    (0..5_000).for_each(|key| test.set(key, &[5; 20]));
    let written = test.written();
    assert!(written == test.at_barrier && written.len() == 5_000);
}

#[test]
fn a_state_that_is_emptied_while_its_snapshot_is_written_is_in_the_snapshot() {
    let mut test = Test::new(1);
    (0..1_000).for_each(|key| test.set(key, &[1]));
    test.barrier();
    test.slice(3_000);
    while test.table.take_part().unwrap().is_some() {}
    assert_eq!(test.written().len(), 1_000);
}

#[test]
fn a_snapshot_of_nothing_is_complete_at_once_and_new_tables_are_no_part_of_it() {
    let mut test = Test::new(1);
    test.barrier();
    test.set(1, &[1]);
    assert!(test.written().is_empty());
}

#[test]
fn a_storage_that_is_too_slow_stops_the_writer_and_then_the_input() {
    let mut test = Test::new(1);
    let value = vec![7; 10_000];
    (0..500).for_each(|key| test.set(key, &value));
    test.barrier();
    let mut chunks = Vec::new();
    let mut slices = 0;
    loop {
        let mut slice = Slice::new(100_000, 100_000, &|| true);
        slice.stored = true;
        assert!(!test.table.write_snapshot(&mut slice).unwrap());
        chunks.append(&mut slice.chunks);
        slices += 1;
        if slice.waits() {
            break;
        }
        assert!(slices < 100, "nothing throttles the writer");
    }
    assert_eq!(chunks.len(), 8);
    // No record comes either, because the state is too small for more chunks beside it.
    assert!(test.table.waits_for_storage());
    // Old values are written even so.
    (0..500).for_each(|key| test.set(key, &[1]));
    test.chunks.append(&mut chunks);
    assert!(test.written() == (0..500).map(|key| (key, value.clone())).collect::<Values>());
    assert!(!test.table.waits_for_storage());
}

#[test]
fn large_state_has_the_memory_for_snapshots_before_the_first_barrier() {
    let mut test = Test::new(1);
    (0..50_000).for_each(|key| test.set(key, &[]));
    let before = StateBackend::memory_bytes(&test.table);
    assert!(StateBackend::reads_ahead(&mut test.table));
    let prepared = StateBackend::memory_bytes(&test.table);
    assert!(prepared > before + (2 << 20), "{before} {prepared}");
    test.barrier();
    assert!(StateBackend::memory_bytes(&test.table) <= prepared);
}

#[test]
fn records_still_come_while_a_sixteenth_of_a_large_state_waits_for_its_storage() {
    let mut test = Test::new(1);
    let (entries, value) = (4_000_u32, vec![7; 10_000]);
    (0..entries).for_each(|key| test.set(key, &value));
    // The size of the state is known from its last snapshot.
    test.barrier();
    assert_eq!(test.written().len(), entries as usize);
    test.barrier();
    let mut slice = Slice::new(usize::MAX, usize::MAX, &|| true);
    slice.stored = true;
    assert!(!test.table.write_snapshot(&mut slice).unwrap());
    test.chunks.append(&mut slice.chunks);
    assert!(slice.waits() && !test.table.waits_for_storage(), "40 MB allow 9 chunks more");
    let mut changed = 0;
    while !test.table.waits_for_storage() {
        changed += 1;
        test.set(entries - changed, &[1]);
        assert!(changed < entries, "nothing stops the records");
    }
    assert!((9 * 20..10 * 27).contains(&changed), "{changed}");
    let at_barrier = std::mem::take(&mut test.at_barrier);
    assert!(test.written() == at_barrier);
}

#[test]
fn the_chunk_with_timers_before_its_entries_is_listed_for_every_key_group() {
    let mut test = Test::new(1);
    (0..100).for_each(|key| test.set(key, &[7; 10_000]));
    let (head, first) = (b"head".to_vec(), b"timers and head".to_vec());
    assert!(test.table.begin_snapshot(&first, &head));
    let mut slice = Slice::whole();
    assert!(test.table.write_snapshot(&mut slice).unwrap());
    let [timers, others @ ..] = &slice.chunks[..] else { panic!("no chunk") };
    assert!(timers.bytes.starts_with(&first) && timers.groups.is_none());
    assert!(!others.is_empty());
    assert!(others.iter().all(|chunk| chunk.bytes.starts_with(&head) && chunk.groups.is_some()));
    // The next snapshot has none.
    assert!(test.table.begin_snapshot(&head, &head));
    let mut slice = Slice::whole();
    assert!(test.table.write_snapshot(&mut slice).unwrap());
    assert!(slice.chunks.iter().all(|chunk| chunk.groups.is_some()));
}

#[test]
fn chunks_of_a_large_state_have_few_key_groups_and_those_of_changed_entries_a_part() {
    let mut test = Test::new(1);
    let value = vec![7; 10_000];
    // Large enough for four early chunks.
    (0..7_000).for_each(|key| test.set(key, &value));
    // The size of the state is known from its last snapshot.
    test.barrier();
    assert_eq!(test.written().len(), 7_000);
    test.barrier();
    let before = StateBackend::memory_bytes(&test.table);
    (0..1_000).for_each(|key| test.set(key, &[1]));
    assert!(StateBackend::memory_bytes(&test.table) >= before + (1 << 20), "open chunks count");
    while !test.complete {
        test.slice(usize::MAX);
    }
    let groups = |chunk: &StateChunk| chunk.groups.clone().unwrap();
    let early: Vec<_> = test.chunks.iter().filter(|chunk| chunk.is_early).collect();
    let bytes: usize = early.iter().map(|chunk| chunk.bytes.len()).sum();
    assert!((5 << 20..10 << 20).contains(&bytes), "{bytes} for most of 1,000 entries of 10 kB");
    assert!(early.len() <= bytes / CHUNK_BYTES + 4, "{} chunks", early.len());
    for chunk in early {
        let parts: BTreeSet<u32> = groups(chunk).iter().map(|group| group / 32).collect();
        assert!(parts.len() == 1 || chunk.bytes.len() <= CHUNK_BYTES + 1, "{parts:?}");
        assert!(parts.len() <= 3, "{parts:?}");
    }
    let ordered = test.chunks.iter().filter(|chunk| !chunk.is_early);
    let most = ordered.map(|chunk| groups(chunk).len()).max();
    assert!(most.is_some_and(|most| most <= 4), "{most:?} of 128 groups in one chunk");
}

#[test]
fn a_small_state_is_one_chunk_whatever_changes_and_has_one_open_chunk_for_that() {
    for first in ["head", "timers and head"] {
        let mut test = Test::new(1);
        (0..1_000).for_each(|key| test.set(key, &[7; 20]));
        assert!(test.table.begin_snapshot(first.as_bytes(), b"head"));
        test.complete = false;
        let before = StateBackend::memory_bytes(&test.table);
        (0..500).for_each(|key| test.set(key, &[1]));
        let memory = StateBackend::memory_bytes(&test.table) - before;
        // The ordered one has the tables that were about to grow.
        assert!(memory < 3 * CHUNK_BYTES as u64, "{memory} bytes for two open chunks");
        test.slice(usize::MAX);
        let [chunk] = &test.chunks[..] else { panic!("{} chunks", test.chunks.len()) };
        assert!(test.complete && chunk.bytes.starts_with(first.as_bytes()));
        assert_eq!(chunk.groups.is_none(), first != "head", "timers are of any group");
        let heads = chunk.bytes.windows(4).filter(|bytes| *bytes == b"head").count();
        assert_eq!(heads, 1);
    }
}
