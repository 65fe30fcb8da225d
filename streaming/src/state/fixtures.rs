//! The files in `fixtures/state-v1`: snapshots as this format's first release writes them. They must be read, or refused
//! with their version, for ever, and are written again with the same bytes until the version of the format changes.
//! `STATE-FORMAT.md` describes them byte by byte.
//!
//! To add a file, run these tests on one thread with `FLOTT_WRITE_FIXTURES=1`; a file that exists is never replaced.

use super::slow::Slow;
use super::*;
use crate::operators::{BoxError, Collector, Context, KeyedProcessFunction, Timer};
use crate::testing;
use crate::types::CodecError;
use std::path::Path;

#[derive(State)]
#[flott(crate = crate)]
struct Account {
    small_at: Option<i64>,
    payments: ListState<u64>,
    devices: MapState<String, u32>,
}

#[derive(OperatorState)]
#[flott(crate = crate)]
struct Offsets {
    waiting: ListState<String>,
    of: UnionListState<u64>,
}

/// Keys whose groups differ, so that every backend writes them in the same order.
const KEYS: [&str; 3] = ["ann", "bo", "cy"];

fn groups() -> KeyGroups {
    KeyGroups::of_subtask(0, 1, 128)
}

fn account(n: u64) -> Account {
    let mut account = <Account as State>::empty();
    account.small_at = (n != 1).then_some(-300);
    account.payments.push(n);
    account.payments.push(1 << 40);
    for (device, count) in [("phone", 2), ("tablet", 70_000)] {
        account.devices.insert(device.to_owned(), count);
    }
    account
}

/// Returns the bytes of a file. `written`: what this program writes.
pub(crate) fn fixture(name: &str, written: &[u8]) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/state-v1").join(name);
    if std::env::var_os("FLOTT_WRITE_FIXTURES").is_some() && !file.exists() {
        std::fs::write(&file, written).unwrap();
    }
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Checks a fixture that `again` reads and writes: with the same bytes; a cut one is never whole, and no damage panics. `written`:
/// what this program writes.
pub(crate) fn check(name: &str, written: &[u8], again: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let bytes = fixture(name, written);
    assert_eq!(again(&bytes).as_deref(), Some(&bytes[..]), "{name} is written alike");
    assert_eq!(bytes, written, "{name} is what this program writes");
    for length in 0..bytes.len() {
        assert_eq!(again(&bytes[..length]), None, "{name} cut to {length}");
    }
    for changed in flipped(&bytes) {
        if let Some(other) = again(&changed) {
            assert_ne!(other, bytes, "{name}: a changed value is another one");
        }
    }
}

/// Reads a snapshot into a backend and writes it again.
fn again<B: StateBackend<String, Account>>(
    bytes: &[u8],
    mut backend: B,
) -> Result<Vec<u8>, StateError> {
    let fields = <Account as State>::declare();
    read_snapshot(bytes, &mut backend, &groups(), &fields)?;
    write_snapshot(&mut backend, &groups(), &fields)
}

fn in_memory(bytes: &[u8]) -> Result<Vec<u8>, StateError> {
    again(bytes, Table::new(groups()))
}

fn as_bytes(bytes: &[u8]) -> Result<Vec<u8>, StateError> {
    again(bytes, Slow::new(0))
}

fn keyed() -> Vec<u8> {
    let mut table = Table::new(groups());
    for (n, key) in KEYS.iter().enumerate() {
        let key = (*key).to_owned();
        table.restore(groups().address(&key), key, account(n as u64)).unwrap();
    }
    let written = write_snapshot(&mut table, &groups(), &<Account as State>::declare()).unwrap();
    fixture("keyed.bin", &written)
}

/// Returns all bytes with one bit flipped, at every place.
fn flipped(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

#[test]
fn the_fixture_of_keyed_state_is_read_and_written_alike_by_every_backend() {
    let bytes = keyed();
    assert_eq!(in_memory(&bytes).unwrap(), bytes);
    assert_eq!(as_bytes(&bytes).unwrap(), bytes);
    let twice = [&bytes[..], &bytes].concat();
    assert_eq!(in_memory(&twice).unwrap(), bytes, "snapshots may follow each other");
    let mut table = Table::<String, Account>::new(groups());
    read_snapshot(&bytes, &mut table, &groups(), &<Account as State>::declare()).unwrap();
    let mut found = Vec::new();
    while let Some(part) = table.take_part().unwrap() {
        found.extend(part.into_iter().map(|(key, account)| (key, account.small_at)));
    }
    found.sort();
    let expected = [("ann", Some(-300)), ("bo", None), ("cy", Some(-300))];
    assert_eq!(found, expected.map(|(key, at)| (key.to_owned(), at)));
}

#[test]
fn a_truncated_or_changed_fixture_of_keyed_state_is_an_error_and_no_panic() {
    let bytes = keyed();
    for length in 0..bytes.len() {
        assert!(in_memory(&bytes[..length]).is_err(), "{length}");
        assert!(as_bytes(&bytes[..length]).is_err(), "{length}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(in_memory(&longer).is_err());
    // A flipped bit in a value gives another value: the checksum of the object's frame finds that. What is no snapshot any more
    // is an error.
    for changed in flipped(&bytes) {
        if let (Ok(one), Ok(other)) = (in_memory(&changed), as_bytes(&changed)) {
            assert_ne!(one, bytes);
            assert_ne!(other, bytes);
        }
    }
    let version = [&[9], &bytes[1..]].concat();
    let refused = in_memory(&version).unwrap_err();
    assert_eq!(refused, StateError::from(CodecError::Invalid { what: "version of a snapshot" }));
}

/// Returns a snapshot of changes on top of [`keyed`]: one key has changed, another was removed.
fn changes() -> Vec<u8> {
    let mut table = Table::<String, Account>::new(groups());
    let fields = <Account as State>::declare();
    read_snapshot(&keyed(), &mut table, &groups(), &fields).unwrap();
    let (mut head, mut changes_head) = (Vec::new(), Vec::new());
    write_head::<String>(&fields, &mut head);
    write_changes_head::<String>(&fields, &mut changes_head);
    let mut written = Vec::new();
    for checkpoint in 1..=2 {
        let (head, changes_head) = (head.as_slice(), changes_head.as_slice());
        let is_aborted: &dyn Fn(u64) -> bool = &|_| false;
        let inline = 0;
        table.begin_incremental(&Incremental {
            checkpoint,
            inline,
            is_aborted,
            head,
            changes_head,
        });
        let mut slice = Slice::whole();
        assert!(table.write_snapshot(&mut slice).unwrap());
        written = slice.chunks.iter().flat_map(|chunk| chunk.bytes.to_vec()).collect();
        table.checkpoint_complete(checkpoint);
        for key in ["ann", "bo"].map(str::to_owned) {
            match table.place(groups().address(&key), |stored| *stored == key).unwrap() {
                Place::Taken(mut place) if key == "ann" => place.entry().1.payments.push(9),
                Place::Taken(place) => place.remove(),
                Place::Free(_) => {}
            }
        }
    }
    fixture("changes.bin", &written)
}

#[test]
fn the_fixture_of_changes_is_read_on_top_of_its_base_and_damage_is_an_error() {
    let (base, changes) = (keyed(), changes());
    let on_top = |changes: &[u8]| {
        let bytes = [&base[..], changes].concat();
        let (one, other) = (in_memory(&bytes), as_bytes(&bytes));
        assert_eq!(one.is_ok(), other.is_ok());
        one
    };
    let mut expected = Table::<String, Account>::new(groups());
    read_snapshot(&base, &mut expected, &groups(), &<Account as State>::declare()).unwrap();
    let keys = KEYS.map(str::to_owned);
    expected.remove(groups().address(&keys[1]), &keys[1]);
    let mut ann = account(0);
    ann.payments.push(9);
    expected.restore(groups().address(&keys[0]), keys[0].clone(), ann).unwrap();
    let fields = <Account as State>::declare();
    let expected = write_snapshot(&mut expected, &groups(), &fields).unwrap();
    assert_eq!(on_top(&changes).unwrap(), expected);
    // Without the cut of nothing, which is the base alone.
    for length in 1..changes.len() {
        assert!(on_top(&changes[..length]).is_err(), "{length}");
    }
    for changed in flipped(&changes) {
        let _ = on_top(&changed);
    }
}

fn offsets() -> Offsets {
    let mut state = <Offsets as State>::empty();
    state.waiting.push("x".to_owned());
    state.of.push(7);
    state.of.push(300);
    state
}

#[test]
fn the_fixture_of_operator_state_in_runs_is_read_and_written_alike_and_damage_is_an_error() {
    let written = |mut state: Offsets| {
        let (mut snapshot, mut slice) = (ListSnapshot::default(), Slice::whole());
        snapshot.begin(&mut state, 0);
        assert!(snapshot.write(&mut state, &mut slice).unwrap());
        slice.chunks.iter().flat_map(|chunk| chunk.bytes.to_vec()).collect::<Vec<_>>()
    };
    let bytes = fixture("operator-2.bin", &written(offsets()));
    let read = |bytes: &[u8]| read_operator_state::<Offsets>(&[bytes.to_vec()], Share::new(0, 1));
    assert_eq!(written(read(&bytes).unwrap()), bytes);
    assert_eq!(written(offsets()), bytes);
    // The run of each list is a snapshot of its own, so that one cut between the two is read.
    let whole = (0..bytes.len()).filter(|length| read(&bytes[..*length]).is_ok());
    let [first] = whole.collect::<Vec<_>>()[..] else { panic!("one list before the other") };
    assert_eq!(read(&bytes[..first]).unwrap().waiting.get().unwrap(), ["x"]);
    assert!(read(&bytes[..first]).unwrap().of.get().unwrap().is_empty());
    for changed in flipped(&bytes) {
        // The values of a subtask with another number are the same ones, and so are those of a list beside one with another name.
        let numbers = |bytes: &[u8]| [bytes[1], bytes[first + 1]];
        let read = read_share::<Offsets>(std::slice::from_ref(&changed), Share::new(0, 1));
        if let Ok((other, dropped)) = read
            && dropped.is_empty()
            && numbers(&changed) == numbers(&bytes)
        {
            assert_ne!(written(other), bytes);
        }
    }
}

#[test]
fn the_fixture_of_operator_state_is_read_and_written_alike_and_damage_is_an_error() {
    let state = offsets();
    let bytes = fixture("operator.bin", &write_operator_state(&state).unwrap());
    let read = |bytes: &[u8]| read_operator_state::<Offsets>(&[bytes.to_vec()], Share::new(0, 1));
    assert_eq!(write_operator_state(&read(&bytes).unwrap()).unwrap(), bytes);
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "{length}");
    }
    for changed in flipped(&bytes) {
        if let Ok(other) = read(&changed) {
            assert_ne!(write_operator_state(&other).unwrap(), bytes);
        }
    }
}

/// Counts records, and emits the count at each timer.
#[derive(Clone)]
struct Counts;

impl KeyedProcessFunction<String, String> for Counts {
    type State = Option<u64>;
    type Out = (String, u64, i64);
    fn process(
        &mut self,
        _: String,
        count: &mut Option<u64>,
        ctx: &mut Context<'_, String>,
        _: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        *count.get_or_insert(0) += 1;
        let at = ctx.timestamp().ok_or("a record without a time")?;
        ctx.timers().event_time(at + 10);
        ctx.timers().processing_time(at + 5_000);
        Ok(())
    }
    fn on_timer(
        &mut self,
        timer: Timer,
        count: &mut Option<u64>,
        ctx: &mut Context<'_, String>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        out.collect((ctx.key().clone(), count.unwrap_or(0), timer.timestamp));
        Ok(())
    }
}

#[test]
fn the_fixture_of_a_function_with_timers_is_read_and_written_alike_and_its_timers_fire() {
    let mut before = testing::keyed(|word: &String| word, Counts).open().unwrap();
    for (n, key) in KEYS.iter().enumerate() {
        before.push_at((*key).to_owned(), n as i64 * 100 - 150).unwrap();
    }
    let [written] = before.snapshot().unwrap().try_into().unwrap();
    let bytes = fixture("timers.bin", &written);
    let restored = |bytes: &[u8]| {
        testing::keyed(|word: &String| word, Counts).restore([bytes.to_vec()]).open()
    };
    let mut after = restored(&bytes).unwrap();
    assert_eq!(after.snapshot().unwrap(), std::slice::from_ref(&bytes));
    after.watermark(0).unwrap();
    let fired = |key: &str, at| (key.to_owned(), 1, at);
    assert_eq!(after.output(), [fired("ann", -140), fired("bo", -40)]);
    after.advance_clock_to(4_900).unwrap();
    assert_eq!(after.output(), [fired("ann", 4_850)]);
    for length in 0..bytes.len() {
        assert!(restored(&bytes[..length]).is_err(), "{length}");
    }
    for changed in flipped(&bytes) {
        let _ = restored(&changed);
    }
}
