//! The files in `fixtures/metadata`: metadata of checkpoints as released versions write it. They must be readable for ever.
//!
//! To add a file, run these tests with `FLOTT_WRITE_FIXTURES=1`; a file that exists is never replaced.

use super::tests::metadata;
use super::{decode, encode};
use model::testing::declaration;
use model::{CheckpointMetadata, StateHandle, StatePart, StateRange};
use std::path::Path;

fn object(name: &str) -> StateHandle {
    StateHandle::Object { name: name.to_owned(), bytes: 70_000 }
}

/// Metadata with everything that the first version could have.
fn whole_states() -> CheckpointMetadata {
    let mut metadata = metadata(5, 0xabc, vec![StateHandle::Inline(vec![1, 2]), object("job/a")]);
    for saved in metadata.operators.values_mut() {
        saved.uid = Some("counts".to_owned());
        saved.coordinator = Some(StateHandle::Inline(vec![9]));
        saved.subtasks[1].ended = true;
        let schemas = [("key", "string"), ("value", "u64")];
        saved.states = vec![declaration("sum", "value", &schemas)];
    }
    metadata
}

fn states_in_parts() -> CheckpointMetadata {
    let mut metadata = whole_states();
    let few =
        StatePart { groups: vec![(0, 3), (7, 7)], state: object("job/a.0"), ranges: Vec::new() };
    let any = StatePart { groups: Vec::new(), state: object("job/a.1"), ranges: Vec::new() };
    for saved in metadata.operators.values_mut() {
        saved.subtasks[0].state = Some(StateHandle::Parts(vec![few.clone(), any.clone()]));
    }
    metadata
}

/// Metadata with the ranges of a part.
fn states_in_ranges() -> CheckpointMetadata {
    let mut metadata = states_in_parts();
    for saved in metadata.operators.values_mut() {
        let Some(StateHandle::Parts(parts)) = &mut saved.subtasks[0].state else { continue };
        let range = |groups, offset| StateRange { groups, offset, bytes: 35_000, crc: 0xdead_beef };
        parts[0].ranges = vec![range((0, 3), 0), range((7, 7), 35_000)];
    }
    metadata
}

/// Returns the bytes of a file. `written`: what this program writes.
fn fixture(name: &str, written: &[u8]) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/metadata").join(name);
    if std::env::var_os("FLOTT_WRITE_FIXTURES").is_some() && !file.exists() {
        std::fs::write(&file, written).unwrap();
    }
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn metadata_of_released_versions_is_read_and_no_damage_panics() {
    let versions = [
        ("whole.bin", whole_states()),
        ("parts.bin", states_in_parts()),
        ("ranges.bin", states_in_ranges()),
    ];
    for (name, expected) in versions {
        let bytes = fixture(name, &encode(&expected).unwrap());
        assert_eq!(decode(&bytes).as_ref(), Ok(&expected), "{name}");
        assert_eq!(encode(&expected).unwrap(), bytes, "{name} is written alike");
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{name} cut to {length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // The checksum of the object finds a changed value; here no bytes may panic.
            let _ = decode(&flipped);
        }
    }
}

#[test]
fn a_part_that_has_parts_is_refused() {
    let mut metadata = states_in_parts();
    for saved in metadata.operators.values_mut() {
        let inner = saved.subtasks[0].state.clone().unwrap();
        let outer = StatePart { groups: Vec::new(), state: inner, ranges: Vec::new() };
        saved.subtasks[0].state = Some(StateHandle::Parts(vec![outer]));
    }
    let refused = decode(&encode(&metadata).unwrap());
    assert_eq!(refused, Err("a part of a state has parts".to_owned()));
}

#[test]
fn metadata_with_ranges_in_place_of_a_state_is_refused() {
    let mut metadata = whole_states();
    for saved in metadata.operators.values_mut() {
        let of = Box::new(object("job/a"));
        saved.subtasks[0].state = Some(StateHandle::Ranges { of, ranges: Vec::new() });
    }
    let refused = decode(&encode(&metadata).unwrap());
    assert_eq!(refused.unwrap_err(), "a state is ranges of an object, which only a restore has");
}
