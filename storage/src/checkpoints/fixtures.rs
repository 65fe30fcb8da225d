//! The files in `fixtures/metadata`, metadata of checkpoints, and `fixtures/part-index.bin`, the index of a part, as released versions
//! write them. They must be readable for ever.
//!
//! To add a file, run these tests with `FLOTT_WRITE_FIXTURES=1`; a file that exists is never replaced.

use super::tests::metadata;
use super::{CheckpointDirectory, Ranges, decode, encode};
use crate::objects::{MemoryObjects, ObjectStore as _};
use model::testing::declaration;
use model::{CheckpointMetadata, StateHandle, StatePart, StateRange};
use std::{path::Path, sync::Arc};

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
    let few = StatePart::whole(vec![(0, 3), (7, 7)], object("job/a.0"));
    let any = StatePart::whole(Vec::new(), object("job/a.1"));
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

/// Metadata with the place of a part's index.
fn states_with_an_index() -> CheckpointMetadata {
    let mut metadata = states_in_ranges();
    for saved in metadata.operators.values_mut() {
        let Some(StateHandle::Parts(parts)) = &mut saved.subtasks[0].state else { continue };
        let place = StateRange { groups: (0, 7), offset: 70_000, bytes: 40, crc: 0xfeed };
        parts[0].index = Some(place);
        parts[0].state = StateHandle::Object { name: "job/a.0".to_owned(), bytes: 70_040 };
    }
    metadata
}

/// Returns the bytes of a file. `written`: what this program writes.
fn fixture(name: &str, written: &[u8]) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    if std::env::var_os("FLOTT_WRITE_FIXTURES").is_some() && !file.exists() {
        std::fs::write(&file, written).unwrap();
    }
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn metadata_of_released_versions_is_read_and_no_damage_panics() {
    let versions = [
        ("metadata/whole.bin", whole_states()),
        ("metadata/parts.bin", states_in_parts()),
        ("metadata/ranges.bin", states_in_ranges()),
        ("metadata/index.bin", states_with_an_index()),
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

#[tokio::test]
async fn an_index_of_a_released_version_is_read_and_written_alike() {
    let mut ranges = Ranges::default();
    (0..3).for_each(|n| ranges.add((n * 10, n * 10 + 9), &[7; 100]));
    ranges.add((0, u32::MAX), b"timers");
    let (place, written) = ranges.index().unwrap();
    let bytes = fixture("part-index.bin", &written);
    assert_eq!(bytes, written);
    let store = Arc::new(MemoryObjects::new());
    let content = [vec![7; 300], b"timers".to_vec(), bytes].concat();
    let of = StateHandle::Object { name: "a".to_owned(), bytes: content.len() as u64 };
    store.put("a", content.into()).await.unwrap();
    let all = ranges.take();
    let handle =
        StateHandle::Ranges { of: Box::new(of), ranges: all, index: Some((place, 10..20)) };
    let read = CheckpointDirectory::new(store).read(&handle).await.unwrap();
    assert_eq!(read, [&[7; 100][..], b"timers"].concat());
}

#[test]
fn a_part_that_has_parts_is_refused() {
    let mut metadata = states_in_parts();
    for saved in metadata.operators.values_mut() {
        let inner = saved.subtasks[0].state.clone().unwrap();
        saved.subtasks[0].state =
            Some(StateHandle::Parts(vec![StatePart::whole(Vec::new(), inner)]));
    }
    let refused = decode(&encode(&metadata).unwrap());
    assert_eq!(refused, Err("a part of a state has parts".to_owned()));
}

#[test]
fn metadata_with_ranges_in_place_of_a_state_is_refused() {
    let mut metadata = whole_states();
    for saved in metadata.operators.values_mut() {
        let of = Box::new(object("job/a"));
        saved.subtasks[0].state = Some(StateHandle::Ranges { of, ranges: Vec::new(), index: None });
    }
    let refused = decode(&encode(&metadata).unwrap());
    assert_eq!(refused.unwrap_err(), "a state is ranges of an object, which only a restore has");
}
