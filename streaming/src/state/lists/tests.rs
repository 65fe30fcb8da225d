use super::*;
use crate::state::{Share, State, UnionListState, read_operator_state, write_operator_state};
use proptest::prelude::*;

#[derive(derive::OperatorState)]
#[flott(crate = crate)]
struct Lists {
    one: ListState<String>,
    other: ListState<String>,
    union: UnionListState<u64>,
}

/// The values of the three lists.
type Values = (Vec<String>, Vec<String>, Vec<u64>);

#[derive(Debug, Clone)]
enum Act {
    /// Appends so many values of that length to each list.
    Push { count: usize, length: usize },
    /// Takes the values of the first list and of the union.
    Take,
    /// Clears the second list.
    Clear,
    /// Puts the two lists into each other's place.
    Swap,
    /// Puts another struct into the place of the state.
    Replace,
    /// Writes a slice of so much work.
    Slice(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let push = (1_usize..400, 0_usize..300).prop_map(|(count, length)| Act::Push { count, length });
    let slice = (1_usize..200_000).prop_map(Act::Slice);
    let others = prop::sample::select(vec![Act::Take, Act::Clear, Act::Swap, Act::Replace]);
    prop::collection::vec(prop_oneof![4 => push, 2 => others, 4 => slice], 1..30)
}

struct Test {
    state: Lists,
    now: Values,
    snapshot: ListSnapshot,
    chunks: Vec<Vec<u8>>,
    complete: bool,
    pushed: u64,
}

impl Test {
    fn new() -> Self {
        Self {
            state: Lists::empty(),
            now: Values::default(),
            snapshot: ListSnapshot::default(),
            chunks: Vec::new(),
            complete: true,
            pushed: 0,
        }
    }

    fn push(&mut self, count: usize, length: usize) {
        for _ in 0..count {
            self.pushed += 1;
            let text = format!("{}{}", self.pushed, "x".repeat(length));
            self.state.one.push(text.clone());
            self.now.0.push(text.clone());
            if self.pushed.is_multiple_of(2) {
                self.state.other.push(text.clone());
                self.now.1.push(text);
            }
            self.state.union.push(self.pushed);
            self.now.2.push(self.pushed);
        }
    }

    fn barrier(&mut self) {
        self.snapshot.begin(&mut self.state, 3);
        self.complete = false;
    }

    fn slice(&mut self, work: usize) {
        let mut slice = Slice::new(work, work, &|| true);
        self.complete = self.snapshot.write(&mut self.state, &mut slice).unwrap();
        self.chunks.extend(slice.chunks.iter().map(|chunk| chunk.bytes.to_vec()));
    }

    fn play(&mut self, acts: &[Act]) {
        for act in acts {
            match act {
                Act::Push { count, length } => self.push(*count, *length),
                Act::Take => {
                    assert_eq!(self.state.one.take().unwrap(), mem::take(&mut self.now.0));
                    assert_eq!(self.state.union.take().unwrap(), mem::take(&mut self.now.2));
                }
                Act::Clear => {
                    self.state.other.clear();
                    self.now.1.clear();
                }
                Act::Swap => {
                    mem::swap(&mut self.state.one, &mut self.state.other);
                    mem::swap(&mut self.now.0, &mut self.now.1);
                }
                Act::Replace => {
                    self.state = Lists::empty();
                    self.now = Values::default();
                }
                Act::Slice(work) => self.slice(*work),
            }
        }
    }

    /// Completes the snapshot and returns its chunks.
    fn written(&mut self) -> Vec<Vec<u8>> {
        while !self.complete {
            self.slice(usize::MAX);
        }
        mem::take(&mut self.chunks)
    }
}

fn values(state: &mut Lists) -> Values {
    (state.one.take().unwrap(), state.other.take().unwrap(), state.union.take().unwrap())
}

fn restored(snapshots: &[Vec<u8>]) -> Values {
    values(&mut read_operator_state(snapshots, Share::new(0, 1)).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever changes while a snapshot is being written: it has the lists at its barrier, and the state the newest, in whatever order
    /// the chunks come and however they are joined.
    #[test]
    fn a_snapshot_has_each_list_as_it_was_at_the_barrier(
        rounds in prop::collection::vec((acts(), acts()), 1..4),
    ) {
        let mut test = Test::new();
        for (before, after) in rounds {
            test.play(&before);
            let at_barrier = test.now.clone();
            test.barrier();
            test.play(&after);
            let mut chunks = test.written();
            prop_assert!(restored(&[chunks.concat()]) == at_barrier);
            chunks.reverse();
            prop_assert!(restored(&chunks) == at_barrier);
        }
        prop_assert!(values(&mut test.state) == test.now);
    }
}

#[test]
fn a_slice_ends_with_the_value_that_fills_it_as_soon_as_input_is_due_and_not_before() {
    let (count, length) = (20_000, 100);
    let mut state = Lists::empty();
    (0..count).for_each(|_| state.one.push("x".repeat(length)));
    let work = count * (length + 1 + size_of::<String>());
    let mut snapshot = ListSnapshot::default();
    for (least, most, is_due) in [(10_000, 50_000, true), (10_000, 50_000, false)] {
        snapshot.begin(&mut state, 0);
        let (mut slices, mut chunks) = (0, Vec::new());
        loop {
            slices += 1;
            let stop = || is_due;
            let mut slice = Slice::new(least, most, &stop);
            let complete = snapshot.write(&mut state, &mut slice).unwrap();
            chunks.extend(slice.chunks.iter().map(|chunk| chunk.bytes.to_vec()));
            if complete {
                break;
            }
        }
        let share = if is_due { least } else { most };
        let expected = work.div_ceil(share + 2 * length)..=work / share + 2;
        assert!(expected.contains(&slices), "{slices} slices instead of {expected:?}");
        assert_eq!(restored(&chunks).0.len(), count);
        let largest = chunks.iter().map(Vec::len).max();
        assert!(largest.is_some_and(|largest| largest < CHUNK_BYTES + 1_000), "{largest:?}");
    }
}

#[test]
fn a_storage_that_is_too_slow_stops_the_writer_and_the_memory_of_chunks_is_used_again() {
    let mut state = Lists::empty();
    (0..1_000_u64).for_each(|n| state.one.push(n.to_string().repeat(2_000)));
    let mut snapshot = ListSnapshot::default();
    snapshot.begin(&mut state, 0);
    let mut waiting = Vec::new();
    let mut bytes = Vec::new();
    loop {
        let mut slice = Slice::whole();
        slice.stored = true;
        let complete = snapshot.write(&mut state, &mut slice).unwrap();
        waiting.append(&mut slice.chunks);
        if complete {
            break;
        }
        assert!(slice.waits() && waiting.len() == 8, "{} chunks wait", waiting.len());
        // The function takes the values meanwhile.
        if bytes.is_empty() {
            state.one.take().unwrap();
        }
        bytes.extend(waiting.drain(..).map(|chunk| chunk.bytes.to_vec()));
    }
    bytes.extend(waiting.drain(..).map(|chunk| chunk.bytes.to_vec()));
    assert!(bytes.len() > 16, "{} chunks", bytes.len());
    let expected: Vec<_> = (0..1_000_u64).map(|n| n.to_string().repeat(2_000)).collect();
    assert!(restored(&bytes).0 == expected);
    let pooled = snapshot.chunks.pool.memory_bytes();
    assert!((1..=3 << 20).contains(&pooled), "{pooled}");
}

#[test]
fn a_snapshot_that_is_aborted_leaves_nothing_for_the_next_one() {
    let mut test = Test::new();
    test.push(2_000, 50);
    test.barrier();
    test.slice(30_000);
    test.state.other.clear();
    test.state.one.take().unwrap();
    test.now = (Vec::new(), Vec::new(), test.now.2.clone());
    test.snapshot.abort();
    test.chunks.clear();
    let mut slice = Slice::whole();
    assert!(test.snapshot.write(&mut test.state, &mut slice).unwrap() && slice.chunks.is_empty());
    test.push(100, 10);
    // The list of the aborted snapshot encodes nothing any more.
    let (_, unwritten) = test.state.union.parts();
    let unwritten = unwritten.clone().unwrap();
    assert!(unwritten.is_written());
    let at_barrier = test.now.clone();
    test.barrier();
    test.push(100, 10);
    assert!(restored(&test.written()) == at_barrier);
}

#[test]
fn a_list_that_was_moved_to_another_place_fails_the_snapshot_instead_of_missing_in_it() {
    let mut test = Test::new();
    test.push(100, 10);
    test.barrier();
    let moved = mem::replace(&mut test.state, Lists::empty());
    let written = test.snapshot.write(&mut test.state, &mut Slice::whole());
    assert_eq!(written, Err(StateError::MovedList));
    drop(moved);
    assert_eq!(test.snapshot.write(&mut test.state, &mut Slice::whole()), Ok(true));
}

/// Returns the snapshot of a subtask that has so many values in its first list.
fn of_subtask(subtask: u32, count: usize) -> Vec<u8> {
    let mut state = Lists::empty();
    (0..count).for_each(|n| state.one.push(format!("{subtask} {n}")));
    let mut snapshot = ListSnapshot::default();
    snapshot.begin(&mut state, subtask);
    let mut slice = Slice::whole();
    assert!(snapshot.write(&mut state, &mut slice).unwrap());
    slice.chunks.iter().flat_map(|chunk| chunk.bytes.to_vec()).collect()
}

#[test]
fn subtasks_are_told_apart_by_their_numbers_and_one_without_values_counts() {
    let chunks = [of_subtask(2, 1), of_subtask(0, 2), of_subtask(1, 0)];
    for snapshots in [chunks.to_vec(), vec![chunks.concat()]] {
        let of = |subtask, of| {
            let mut state = read_operator_state(&snapshots, Share::new(subtask, of)).unwrap();
            values(&mut state).0
        };
        assert_eq!([of(0, 3), of(1, 3), of(2, 3)], [vec!["0 0", "0 1"], vec![], vec!["2 0"]]);
        assert_eq!(of(0, 1), ["0 0", "0 1", "2 0"]);
    }
    let state = Lists::empty();
    let in_one_piece = write_operator_state(&state).unwrap();
    assert!(read_operator_state::<Lists>(&[in_one_piece.repeat(2)], Share::new(0, 1)).is_err());
}

#[test]
fn a_run_that_is_missing_or_comes_twice_is_an_error() {
    let mut state = Lists::empty();
    (0..3_u32).for_each(|n| state.one.push("x".repeat(CHUNK_BYTES + n as usize)));
    let mut snapshot = ListSnapshot::default();
    snapshot.begin(&mut state, 0);
    let mut slice = Slice::whole();
    assert!(snapshot.write(&mut state, &mut slice).unwrap());
    let chunks: Vec<_> = slice.chunks.iter().map(|chunk| chunk.bytes.to_vec()).collect();
    let [first, second, third] = &chunks[..] else { panic!("{} chunks", chunks.len()) };
    let read = |chunks: &[&Vec<u8>]| {
        let chunks: Vec<_> = chunks.iter().map(|chunk| (*chunk).clone()).collect();
        read_operator_state::<Lists>(&chunks, Share::new(0, 1)).is_ok()
    };
    assert!(read(&[third, first, second]));
    assert!(!read(&[first, third]));
    assert!(!read(&[first, second, third, second]));
}

/// A value that cannot be encoded if it is false.
#[derive(serde::Deserialize)]
struct Encodes(bool);

impl serde::Serialize for Encodes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refused = || <S::Error as serde::ser::Error>::custom("no bytes stand for it");
        if self.0 { serializer.serialize_bool(true) } else { Err(refused()) }
    }
}

#[derive(derive::OperatorState)]
#[flott(crate = crate)]
struct OfValues {
    values: ListState<crate::types::Serde<Encodes>>,
}

/// The function that takes the values does not see the error, so that it cannot keep it from the checkpoint.
#[test]
fn a_value_that_cannot_be_encoded_when_its_list_is_taken_fails_the_snapshot() {
    let mut state = OfValues::empty();
    for encodes in [true, false, true] {
        state.values.push(crate::types::Serde(Encodes(encodes)));
    }
    let mut snapshot = ListSnapshot::default();
    snapshot.begin(&mut state, 0);
    assert_eq!(state.values.take().unwrap().len(), 3);
    let written = snapshot.write(&mut state, &mut Slice::whole());
    assert!(matches!(written, Err(StateError::Codec(_))), "{written:?}");
}
