use super::*;
use crate::checkpoints::CheckpointDirectory;
use crate::objects::{FileObjects, MemoryObjects};
use model::StateHandle;
use std::sync::Arc;

const CHUNKS: u32 = 10;

/// Returns chunk `n`: 100 bytes that hold its number.
fn chunk(n: u32) -> Vec<u8> {
    n.to_be_bytes().repeat(25)
}

fn part(state: StateHandle) -> StatePart {
    let mut ranges = Ranges::default();
    (0..CHUNKS).for_each(|n| ranges.add((n * 10, n * 10 + 9), &chunk(n)));
    StatePart { groups: vec![(0, 99)], state, ranges: ranges.take(), index: None }
}

fn object(name: &str) -> StateHandle {
    StateHandle::Object { name: name.to_owned(), bytes: 100 * u64::from(CHUNKS) }
}

#[tokio::test]
async fn ranges_of_own_key_groups_are_read_from_files_and_from_stores_that_read_whole_objects() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn ObjectStore>; 2] =
        [Arc::new(FileObjects::open(folder.path()).unwrap()), Arc::new(MemoryObjects::new())];
    for store in stores {
        store.put("job/a", (0..CHUNKS).flat_map(chunk).collect()).await.unwrap();
        let directory = CheckpointDirectory::new(store);
        for (own, expected) in [(0..10, 0..1), (25..51, 2..6), (99..100, 9..10), (0..100, 0..10)] {
            let needed = part(object("job/a")).needed(&own).unwrap();
            assert_eq!(needed.bytes(), 100 * (expected.end - expected.start), "{own:?}");
            let expected: Vec<u8> =
                (0..CHUNKS).filter(|n| expected.contains(&u64::from(*n))).flat_map(chunk).collect();
            assert_eq!(directory.read(&needed).await.unwrap(), expected, "{own:?}");
        }
        let mut apart = part(object("job/a"));
        apart.ranges.retain(|range| [20, 30, 80].contains(&range.groups.0));
        let of = Box::new(object("job/a"));
        let apart = StateHandle::Ranges { of, ranges: apart.ranges, index: None };
        let expected: Vec<u8> = [2, 3, 8].into_iter().flat_map(chunk).collect();
        assert_eq!(directory.read(&apart).await.unwrap(), expected);
        let gone = part(object("job/b")).needed(&(0..10)).unwrap();
        let error = directory.read(&gone).await.unwrap_err();
        assert!(matches!(&error, CheckpointError::Missing(name) if name.ends_with("job/b")));
    }
}

#[tokio::test]
async fn a_range_that_is_cut_or_changed_in_any_bit_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileObjects::open(folder.path()).unwrap());
    store.put("job/a", (0..CHUNKS).flat_map(chunk).collect()).await.unwrap();
    let (directory, file) = (CheckpointDirectory::new(store), folder.path().join("job/a"));
    let whole = std::fs::read(&file).unwrap();
    let begin = whole.len() - 100 * CHUNKS as usize;
    let needed = part(object("job/a")).needed(&(10..30)).unwrap();
    let mut damaged: Vec<(Vec<u8>, &str)> =
        (0..begin + 300).step_by(7).map(|length| (whole[..length].to_vec(), "are cut")).collect();
    for bit in (begin + 100) * 8..(begin + 300) * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        damaged.push((flipped, "do not match their checksum"));
    }
    for (bytes, why) in damaged {
        std::fs::write(&file, bytes).unwrap();
        let error = directory.read(&needed).await.unwrap_err();
        assert!(error.is_lost(), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("job/a is corrupt: its 100 bytes from") && text.contains(why),
            "{text}"
        );
    }
    // What is not read may be damaged.
    std::fs::write(&file, &whole[..begin + 300]).unwrap();
    directory.read(&needed).await.unwrap();
}

#[test]
fn too_many_ranges_are_joined_with_their_neighbours_and_so_are_their_checksums() {
    let mut ranges = Ranges::default();
    let most = u32::try_from(StatePart::RANGES_MAX).unwrap();
    let content: Vec<u8> = (0..most * 2 + 1).flat_map(chunk).collect();
    (0..most * 2 + 1).for_each(|n| ranges.add((n, n + 1), &chunk(n)));
    let joined = ranges.take();
    assert!((StatePart::RANGES_MAX / 2..=StatePart::RANGES_MAX).contains(&joined.len()));
    let mut end = 0;
    for range in &joined {
        assert_eq!(range.offset, end);
        let from = usize::try_from(end).unwrap();
        end += range.bytes;
        let bytes = &content[from..usize::try_from(end).unwrap()];
        assert_eq!(range.crc, crc32fast::hash(bytes));
        let (first, last) = (u32::try_from(from / 100).unwrap(), u32::try_from(end / 100).unwrap());
        assert_eq!(range.groups, (first, last));
    }
    assert_eq!(end, content.len() as u64);
    assert_eq!(ranges.take(), []);
}

#[test]
fn ranges_are_joined_with_the_neighbours_that_have_the_nearest_key_groups() {
    let mut ranges = Ranges::default();
    let most = u32::try_from(StatePart::RANGES_MAX).unwrap();
    // Pairs of neighbours have the same eighth of the groups, the next pair another one, and timers between them are of any group.
    for n in 0..most {
        let low = n * 5 % 8 * 16;
        ranges.add((low, low + 15), &chunk(n));
        ranges.add((low, low + 15), &chunk(n));
    }
    ranges.add((0, u32::MAX), b"timers");
    ranges.add((0, 15), b"end");
    let joined = ranges.take();
    assert_eq!(joined.len(), StatePart::RANGES_MAX);
    let wide: Vec<_> = joined.iter().filter(|range| range.groups.1 - range.groups.0 > 15).collect();
    // Of 66 pairs that were joined, 64 had the same groups; and the timers, which stay alone.
    assert_eq!(wide.iter().map(|range| range.bytes).sum::<u64>(), 2 * 400 + 6, "{wide:?}");
}

/// Returns a part of 200 chunks, of which each has a key group of its own, with the content of its object.
fn indexed() -> (StatePart, Vec<u8>) {
    let mut ranges = Ranges::default();
    (0..200).for_each(|n| ranges.add((n, n), &chunk(n)));
    let (index, bytes) = ranges.index().unwrap();
    let content = [(0..200).flat_map(chunk).collect(), bytes.to_vec()].concat();
    let state = StateHandle::Object { name: "job/a".to_owned(), bytes: 20_000 };
    let (groups, ranges) = (vec![(0, 199)], ranges.take());
    (StatePart { groups, state, ranges, index: Some(index) }, content)
}

#[tokio::test]
async fn the_index_at_the_end_of_an_object_finds_each_chunk_of_ranges_that_were_joined() {
    let (part, content) = indexed();
    assert_eq!(part.ranges.len(), StatePart::RANGES_MAX);
    let store = Arc::new(MemoryObjects::new());
    store.put("job/a", content.into()).await.unwrap();
    let directory = CheckpointDirectory::new(store);
    for own in [0..1, 77..78, 10..31, 199..200, 0..200] {
        let needed = part.needed(&own).unwrap();
        let expected: Vec<u8> = own.clone().flat_map(chunk).collect();
        assert_eq!(directory.read(&needed).await.unwrap(), expected, "{own:?}");
    }
    assert_eq!(part.needed(&(200..300)), None);
    let whole: Vec<u8> = (0..200).flat_map(chunk).collect();
    for part in [part.clone(), StatePart { ranges: Vec::new(), ..part.clone() }, part] {
        let needed = part.needed(&(0..200)).unwrap();
        assert_eq!(
            (&needed, directory.read(&needed).await.unwrap().to_vec()),
            (&part.state, whole.clone())
        );
    }
}

#[tokio::test]
async fn an_index_that_is_cut_or_changed_in_any_bit_is_found_and_named() {
    let (part, content) = indexed();
    let store = Arc::new(MemoryObjects::new());
    let directory = CheckpointDirectory::new(Arc::clone(&store) as Arc<dyn ObjectStore>);
    let needed = part.needed(&(77..78)).unwrap();
    let place = "from 20000 on";
    let cut = (20_000..content.len()).step_by(7).map(|length| content[..length].to_vec());
    let flipped = (20_000 * 8..content.len() * 8).step_by(3).map(|bit| {
        let mut flipped = content.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    for bytes in cut.chain(flipped) {
        store.put("job/a", bytes.into()).await.unwrap();
        let error = directory.read(&needed).await.unwrap_err();
        assert!(error.is_lost() && error.to_string().contains(place), "{error}");
    }
    // Bytes whose checksum is right, but which are no index.
    for (bytes, why) in [(&b"FIX2\x90"[..], "does not begin with FIX1"), (b"FIX1\xdd\xff", "")] {
        let mut object = content[..20_000].to_vec();
        object.extend_from_slice(bytes);
        store.put("job/a", object.into()).await.unwrap();
        let StateHandle::Ranges { of, ranges, index: Some((mut place, groups)) } = needed.clone()
        else {
            panic!("{needed:?} is read without the index")
        };
        (place.bytes, place.crc) = (bytes.len() as u64, crc32fast::hash(bytes));
        let other = StateHandle::Ranges { of, ranges, index: Some((place, groups)) };
        let error = directory.read(&other).await.unwrap_err();
        let text = error.to_string();
        assert!(
            error.is_lost() && text.contains("its bytes from 20000 on are not an index"),
            "{text}"
        );
        assert!(text.contains(why), "{text}");
    }
}
