//! The data plane: frames between task processes, records, events, snapshots of state.

use super::{Target, law};
use crate::{mutate::mutate, rng::Rng};
use std::collections::BTreeMap;
use streaming::{
    StreamEvent,
    exchange::wire::{self, Frame, Request},
    state::{
        KeyGroups, ListState, MapState, State, StateBackend, StateDeclaration, Table,
        read_snapshot, write_snapshot,
    },
    types::{decode_one, encode_one},
};

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "data_frame", make: frame, check: check_frame, memory_max: 0 },
    Target { name: "records", make: records, check: check_records, memory_max: 0 },
    Target { name: "events", make: events, check: check_events, memory_max: 0 },
    Target { name: "snapshot", make: snapshot, check: check_snapshot, memory_max: 0 },
];

fn frame(rng: &mut Rng) -> Vec<u8> {
    let payload = rng.bytes(20);
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(2) {
        let (link, index) = (rng.next() as u32, rng.below(9) as u32);
        let made = match rng.below(5) {
            0 => Frame::Request(Request {
                link,
                graph: rng.next(),
                edge: 1,
                consumer: index,
                attempt: 0,
                wait_ms: rng.next() as u32,
                producers: (0..rng.below(5) as u32).map(|i| (i, i)).collect(),
            }),
            1 => Frame::Refused { link, why: "gone" },
            2 => Frame::Data {
                link,
                index,
                flags: 1,
                next: rng.next(),
                backlog: 0,
                payload: &payload,
            },
            3 => Frame::Credit { link, index, bytes: rng.next() },
            _ => Frame::Release { link, finished: true },
        };
        made.encode(&mut bytes);
    }
    mutate(&mut bytes, rng);
    bytes
}

fn check_frame(input: &[u8]) -> Result<bool, String> {
    let mut rest = input;
    let mut any = false;
    while let Ok(Some((frame, taken))) = wire::decode(rest) {
        law(taken > 0 && taken <= rest.len(), || format!("took {taken} of {}", rest.len()))?;
        let mut again = Vec::new();
        frame.encode(&mut again);
        let decoded = wire::decode(&again);
        law(decoded.as_ref().is_ok_and(|d| d.as_ref().is_some_and(|(f, _)| *f == frame)), || {
            format!("{frame:?} became {decoded:?}")
        })?;
        any = true;
        rest = rest.get(taken..).unwrap_or_default();
    }
    Ok(any)
}

/// A record with every kind of part.
type Record = (u64, String, Option<i32>, Vec<(bool, f64)>, BTreeMap<String, Vec<u8>>);

fn records(rng: &mut Rng) -> Vec<u8> {
    let record: Record = (
        rng.next() >> rng.below(64),
        rng.text(&["", "word", "词"]).to_owned(),
        rng.one_in(2).then(|| rng.next() as i32),
        (0..rng.below(4)).map(|_| (rng.one_in(2), rng.next() as f64)).collect(),
        (0..rng.below(3)).map(|i| (i.to_string(), rng.bytes(3))).collect(),
    );
    let mut bytes = encode_one(&record);
    mutate(&mut bytes, rng);
    bytes
}

fn check_records(input: &[u8]) -> Result<bool, String> {
    let _ = decode_one::<Vec<()>>(input);
    let _ = decode_one::<Vec<Vec<String>>>(input);
    let _ = decode_one::<Option<Box<(u8, char)>>>(input);
    let Ok(record) = decode_one::<Record>(input) else { return Ok(false) };
    let again = encode_one(&record);
    let decoded = decode_one::<Record>(&again).map(|record| encode_one(&record));
    law(decoded.as_ref().is_ok_and(|bytes| *bytes == again), || {
        format!("{record:?} became {decoded:?}")
    })?;
    Ok(true)
}

fn events(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    match rng.below(4) {
        0 => StreamEvent::Watermark(rng.next() as i64),
        1 => StreamEvent::Idle(rng.one_in(2)),
        _ => StreamEvent::EndOfInput,
    }
    .encode(&mut bytes);
    mutate(&mut bytes, rng);
    bytes
}

fn check_events(input: &[u8]) -> Result<bool, String> {
    let Ok(event) = StreamEvent::decode(input) else { return Ok(false) };
    let mut again = Vec::new();
    event.encode(&mut again);
    law(again == input, || format!("{event:?} is encoded in two ways"))?;
    Ok(true)
}

/// The state of one key, with a field of each form that rows have.
#[derive(State)]
#[flott(crate = streaming)]
struct Kept {
    value: Option<(String, u64)>,
    list: ListState<Vec<u8>>,
    map: MapState<u64, Option<String>>,
}

/// An empty table, the groups it is for, and what it keeps.
fn table() -> (Table<String, Kept>, KeyGroups, Vec<StateDeclaration>) {
    let groups = KeyGroups::of_subtask(1, 2, 8);
    (Table::new(groups.clone()), groups, Kept::declare())
}

/// A snapshot as an operator writes it, broken or not.
fn snapshot(rng: &mut Rng) -> Vec<u8> {
    let (mut table, groups, fields) = table();
    for _ in 0..rng.below(6) {
        let key = format!("k{}", rng.below(40));
        let mut state = Kept::empty();
        state.value = rng.one_in(2).then(|| (key.clone(), rng.next()));
        for name in 0..rng.below(3) as u64 {
            state.list.push(rng.bytes(9));
            state.map.insert(name, rng.one_in(2).then(String::new));
        }
        // A key of the other subtask is refused; the snapshot then has one less.
        let _ = table.restore(groups.address(&key), key, state);
    }
    let mut bytes = write_snapshot(&mut table, &groups, &fields).unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

fn check_snapshot(input: &[u8]) -> Result<bool, String> {
    let (mut table, groups, fields) = table();
    if read_snapshot(input, &mut table, &groups, &fields).is_err() {
        return Ok(false);
    }
    let again = write_snapshot(&mut table, &groups, &fields).map_err(|e| e.to_string())?;
    let (mut third, ..) = self::table();
    let read = read_snapshot(&again, &mut third, &groups, &fields);
    law(read.is_ok(), || format!("a snapshot is not read again: {read:?}"))?;
    Ok(true)
}
