use crate::{
    seam::StateChunk,
    state::{
        Free, Incremental, KeyGroups, Place, Single, Slice, SnapshotKind, StateBackend,
        StateDeclaration, StateField, Table, Taken, read_snapshot, slow::Slow, write_changes_head,
        write_head,
    },
};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Values = BTreeMap<u32, Vec<u8>>;
type Numbers = Table<u32, Single<Vec<u8>>>;

#[derive(Debug, Clone)]
enum Act {
    /// Sets the values of so many keys from this one on.
    Set { first: u32, count: u32, value: Vec<u8> },
    /// Removes so many keys from this one on.
    Remove { first: u32, count: u32 },
}

/// The end of a checkpoint, and whether the task hears of it before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Aborted,
    AbortedHalfWritten,
    CompleteUnheard,
    AbortedUnheard,
}

/// One checkpoint: what happens before its barrier and while it is written, in slices of so much work, and its end.
type Round = (Vec<Act>, Vec<Act>, usize, End);

fn acts(most: usize) -> impl Strategy<Value = Vec<Act>> {
    let value = prop::collection::vec(any::<u8>(), 0..30);
    let set = (0_u32..4_000, 1_u32..200, value).prop_map(|(first, count, value)| Act::Set {
        first,
        count,
        value,
    });
    let remove = (0_u32..4_000, 1_u32..80).prop_map(|(first, count)| Act::Remove { first, count });
    prop::collection::vec(prop_oneof![3 => set, 1 => remove], 0..most)
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let end = prop_oneof![
        5 => Just(End::Complete),
        1 => Just(End::Aborted),
        1 => Just(End::AbortedHalfWritten),
        1 => Just(End::CompleteUnheard),
        1 => Just(End::AbortedUnheard),
    ];
    prop::collection::vec((acts(5), acts(5), 100_usize..20_000, end), 1..12)
}

fn fields() -> [StateDeclaration; 1] {
    [<Option<Vec<u8>> as StateField>::declare("value")]
}

/// A table, the values that it should have, and the checkpoints as the JobMaster and the host know them.
struct Test {
    groups: KeyGroups,
    table: Numbers,
    now: Values,
    /// The newest complete checkpoint, and the snapshots that it consists of: all else is deleted.
    kept: Option<(u64, Vec<Vec<u8>>)>,
    newest_aborted: Option<u64>,
    changes: usize,
}

impl Test {
    fn new() -> Self {
        let groups = KeyGroups::of_subtask(0, 1, 128);
        let table = Numbers::new(groups.clone());
        let (now, kept) = (Values::new(), None);
        Self { groups, table, now, kept, newest_aborted: None, changes: 0 }
    }

    fn play(&mut self, act: &Act) {
        match act {
            Act::Set { first, count, value } => {
                (*first..first + count).for_each(|key| self.set(key, value));
            }
            Act::Remove { first, count } => {
                (*first..first + count).for_each(|key| self.remove(key));
            }
        }
    }

    fn set(&mut self, key: u32, value: &[u8]) {
        let at = self.groups.address(&key);
        match self.table.at_hand(at, |stored| *stored == key) {
            Some(kept) => kept.0 = value.to_vec(),
            None => match self.table.place(at, |stored| *stored == key).unwrap() {
                Place::Taken(mut place) => place.entry().1.0 = value.to_vec(),
                Place::Free(place) => place.insert(key, Single(value.to_vec())),
            },
        }
        self.now.insert(key, value.to_vec());
    }

    fn remove(&mut self, key: u32) {
        let place = self.table.place(self.groups.address(&key), |stored| *stored == key).unwrap();
        if let Place::Taken(place) = place {
            place.remove();
            assert!(self.now.remove(&key).is_some());
        }
    }

    /// Takes a checkpoint, and returns the snapshots that a restore from it reads; none if it is aborted after a slice.
    fn checkpoint(
        &mut self,
        checkpoint: u64,
        meanwhile: &[Act],
        work: usize,
        is_aborted: bool,
    ) -> Vec<Vec<u8>> {
        let (mut head, mut changes_head) = (Vec::new(), Vec::new());
        write_head::<u32>(&fields(), &mut head);
        write_changes_head::<u32>(&fields(), &mut changes_head);
        let aborted = self.newest_aborted;
        let kind = self.table.begin_incremental(&Incremental {
            checkpoint,
            inline: 0,
            is_aborted: &|number| aborted == Some(number),
            head: &head,
            changes_head: &changes_head,
        });
        let mut snapshots = match kind.unwrap() {
            SnapshotKind::Full => Vec::new(),
            SnapshotKind::Changes { base } => {
                self.changes += 1;
                let (kept, snapshots) = self.kept.clone().unwrap();
                assert_eq!(base, kept, "the objects of any other checkpoint are deleted");
                snapshots
            }
        };
        let (mut acts, mut complete) = (meanwhile.iter(), false);
        let mut chunks: Vec<StateChunk> = Vec::new();
        while !complete {
            if let Some(act) = acts.next() {
                self.play(act);
            }
            let mut slice = Slice::new(work, work, &|| true);
            complete = self.table.write_snapshot(&mut slice).unwrap();
            chunks.append(&mut slice.chunks);
            if is_aborted && !complete {
                assert!(self.table.abort_snapshot());
                snapshots.clear();
                chunks.clear();
                break;
            }
        }
        acts.for_each(|act| self.play(act));
        // Within one snapshot each key is there once, so its chunks may come in any order.
        chunks.reverse();
        snapshots.extend(chunks.iter().map(|chunk| chunk.bytes.to_vec()));
        snapshots
    }

    fn end(&mut self, checkpoint: u64, snapshots: Vec<Vec<u8>>, end: End) {
        match end {
            End::Complete | End::CompleteUnheard => self.kept = Some((checkpoint, snapshots)),
            End::Aborted | End::AbortedHalfWritten | End::AbortedUnheard => {}
        }
        match end {
            End::Complete => self.table.checkpoint_complete(checkpoint),
            End::Aborted | End::AbortedHalfWritten => self.newest_aborted = Some(checkpoint),
            End::CompleteUnheard | End::AbortedUnheard => {}
        }
    }
}

fn values_of(
    mut backend: impl StateBackend<u32, Single<Vec<u8>>>,
    groups: &KeyGroups,
    snapshots: &[Vec<u8>],
) -> Values {
    backend.open(groups.clone());
    for snapshot in snapshots {
        read_snapshot(snapshot, &mut backend, groups, &fields()).unwrap();
    }
    let mut values = Values::new();
    for group in groups.owned.clone() {
        backend
            .for_each(group, &mut |key, value| {
                assert!(values.insert(*key, value.0.clone()).is_none())
            })
            .unwrap();
    }
    values
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    /// A checkpoint contains the state at its barrier, whatever became of those before it, and builds on the newest complete one only.
    #[test]
    fn changes_on_top_of_a_complete_checkpoint_are_the_state_at_the_barrier(first in 500_u32..4_000, rounds in rounds()) {
        let mut test = Test::new();
        test.play(&Act::Set { first: 0, count: first, value: vec![7; 20] });
        for (number, (before, meanwhile, work, end)) in (1_u64..).zip(rounds) {
            before.iter().for_each(|act| test.play(act));
            let at_barrier = test.now.clone();
            let is_aborted = end == End::AbortedHalfWritten;
            let snapshots = test.checkpoint(number, &meanwhile, work, is_aborted);
            if !is_aborted {
                let values = values_of(Numbers::default(), &test.groups, &snapshots);
                prop_assert_eq!(&values, &at_barrier);
                prop_assert_eq!(&values_of(Slow::new(3), &test.groups, &snapshots), &at_barrier);
            }
            test.end(number, snapshots, end);
        }
    }
}

#[test]
fn a_checkpoint_contains_what_has_changed_and_after_as_much_as_half_of_the_state_all_of_it() {
    let mut test = Test::new();
    test.play(&Act::Set { first: 0, count: 5_000, value: vec![1; 100] });
    let mut sizes = Vec::new();
    for number in 1..=10 {
        test.play(&Act::Set { first: number as u32 * 500, count: 500, value: vec![2; 100] });
        test.remove(number as u32);
        let before: usize =
            test.kept.iter().flat_map(|(_, snapshots)| snapshots).map(Vec::len).sum();
        let snapshots = test.checkpoint(number, &[], 1_000, false);
        let bytes: usize = snapshots.iter().map(Vec::len).sum();
        sizes.push(if bytes > before { (bytes - before) * 10 / (5_000 * 105) } else { 10 });
        test.end(number, snapshots, End::Complete);
    }
    assert_eq!(test.changes, 8);
    assert_eq!(sizes, [10, 1, 1, 1, 1, 1, 10, 1, 1, 1]);
}

#[test]
fn a_state_that_is_stored_inline_is_stored_as_a_whole() {
    let mut test = Test::new();
    test.set(1, b"one");
    let (mut head, mut changes_head) = (Vec::new(), Vec::new());
    write_head::<u32>(&fields(), &mut head);
    write_changes_head::<u32>(&fields(), &mut changes_head);
    let changes = |checkpoint| SnapshotKind::Changes { base: checkpoint - 1 };
    for (checkpoint, inline) in [(1, 20_000), (2, 20_000), (3, 20_000), (4, 10)] {
        let kind = test.table.begin_incremental(&Incremental {
            checkpoint,
            inline,
            is_aborted: &|_| false,
            head: &head,
            changes_head: &changes_head,
        });
        let expected = if inline == 10 { changes(checkpoint) } else { SnapshotKind::Full };
        assert_eq!(kind, Some(expected), "checkpoint {checkpoint}");
        assert!(test.table.write_snapshot(&mut Slice::whole()).unwrap());
        test.table.checkpoint_complete(checkpoint);
    }
}
