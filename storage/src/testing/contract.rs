//! The contract of every object store: the same checks for memory, files, S3 and HDFS.
//!
//! A check that only one kind of store can pass does not belong here.

#![allow(clippy::unwrap_used, reason = "tests only")]

use crate::objects::{ObjectStore, PieceWriter, PutNew, StoreError};
use bytes::Bytes;
use futures::future::join_all;
use std::sync::Arc;

type Store = Arc<dyn ObjectStore>;

/// Runs every check of the contract that all object stores must keep, for tests of a kind of store. `make` is called once for each check
/// and must return a new, empty store.
///
/// # Panics
/// If the store does not keep to the contract.
pub async fn check(make: impl AsyncFn() -> Store) {
    an_object_is_created_once_and_read_back(make().await).await;
    listing_takes_a_text_prefix_in_order(make().await).await;
    names_stay_inside_the_store(make().await).await;
    one_of_many_creators_wins(make().await).await;
    large_and_empty_objects_are_read_back(make().await).await;
    an_object_in_pieces_is_seen_whole_or_not_at_all(make().await).await;
    ranges_end_with_the_content(make().await).await;
}

/// Checks that neither the folder of an object nor a name below an object exists as an object. Not part of [`check`]:
/// the S3 server of the tests stores files and returns an error where Amazon's finds nothing.
///
/// # Panics
/// If such an object exists.
pub async fn folders_are_no_objects(store: Store) {
    assert_eq!(store.put_new("jobs/1", "one".into()).await, Ok(PutNew::Created));
    assert_eq!(store.get("jobs").await, Ok(None));
    assert_eq!(store.get("jobs/1/below").await, Ok(None));
}

async fn an_object_is_created_once_and_read_back(store: Store) {
    assert_eq!(store.get("jobs/1").await, Ok(None));
    assert_eq!(store.put_new("jobs/1", "one".into()).await, Ok(PutNew::Created));
    assert_eq!(store.put_new("jobs/1", "two".into()).await, Ok(PutNew::Exists));
    assert_eq!(store.put_new("jobs/1", "one".into()).await, Ok(PutNew::Exists));
    assert_eq!(store.get("jobs/1").await, Ok(Some("one".into())));
    assert_eq!(store.put("jobs/1", "three".into()).await, Ok(()));
    assert_eq!(store.get("jobs/1").await, Ok(Some("three".into())));
    assert_eq!(store.delete("jobs/1").await, Ok(true));
    // S3 cannot tell whether there was an object.
    let again = store.location().starts_with("s3:");
    assert_eq!(store.delete("jobs/1").await, Ok(again));
    assert_eq!(store.get("jobs/1").await, Ok(None));
    assert_eq!(store.put_new("jobs/1", "four".into()).await, Ok(PutNew::Created));
    assert_eq!(store.get("jobs/1").await, Ok(Some("four".into())));
}

async fn an_object_in_pieces_is_seen_whole_or_not_at_all(store: Store) {
    let begin = |name: &str| PieceWriter::begin(&store, name.to_owned(), 10);
    let mut given_up = begin("parts/given-up");
    given_up.write("one".into()).await.unwrap();
    let mut writer = begin("parts/1");
    writer.write("one, ".into()).await.unwrap();
    writer.write(vec![b'2'; 300_000].into()).await.unwrap();
    assert_eq!(store.get("parts/1").await, Ok(None));
    assert_eq!(store.list("").await.unwrap(), [""; 0]);
    drop(given_up);
    assert_eq!(writer.bytes(), 300_005);
    writer.finish().await.unwrap();
    let whole = [&b"one, "[..], &[b'2'; 300_000]].concat();
    assert_eq!(store.get("parts/1").await, Ok(Some(whole.into())));
    let mut again = begin("parts/1");
    again.write("two".into()).await.unwrap();
    again.finish().await.unwrap();
    assert_eq!(store.get("parts/1").await, Ok(Some("two".into())));
    begin("parts/empty").finish().await.unwrap();
    assert_eq!(store.get("parts/empty").await, Ok(Some(Bytes::new())));
    assert_eq!(store.list("").await.unwrap(), ["parts/1", "parts/empty"]);
    let refused = begin("../parts").finish().await;
    assert!(matches!(refused, Err(StoreError::BadName { .. })), "{refused:?}");
}

async fn listing_takes_a_text_prefix_in_order(store: Store) {
    let all = ["jobs/a", "jobs/b", "jobsx", "leader/1/x", "leader/12", "z"];
    for name in all.iter().rev() {
        assert_eq!(store.put_new(name, "".into()).await, Ok(PutNew::Created));
    }
    let list = async |prefix| store.list(prefix).await.unwrap();
    assert_eq!(list("").await, all);
    assert_eq!(list("jobs").await, ["jobs/a", "jobs/b", "jobsx"]);
    assert_eq!(list("jobs/").await, ["jobs/a", "jobs/b"]);
    assert_eq!(list("leader/1").await, ["leader/1/x", "leader/12"]);
    assert_eq!(list("nothing/here").await, Vec::<String>::new());
    for name in all {
        store.delete(name).await.unwrap();
    }
    assert_eq!(list("").await, Vec::<String>::new());
}

async fn names_stay_inside_the_store(store: Store) {
    let long = "x".repeat(600);
    let outside =
        ["", "/etc/passwd", "..", "a/../b", "a//b", "a/", ".hidden", "a b", "ä", "a\0b", &long];
    for name in outside {
        let bad = |refused: Option<StoreError>| {
            assert!(matches!(refused, Some(StoreError::BadName { .. })), "{name}: {refused:?}");
        };
        bad(store.get(name).await.err());
        bad(store.put_new(name, "".into()).await.err());
        bad(store.put(name, "".into()).await.err());
        bad(store.delete(name).await.err());
    }
}

async fn ranges_end_with_the_content(store: Store) {
    let get = async |ranges: &[(u64, u64)]| {
        let ranges = ranges.iter().map(|(start, end)| *start..*end).collect();
        store.get_ranges("state/1", ranges).await
    };
    assert_eq!(get(&[(0, 1)]).await, Ok(None));
    assert_eq!(get(&[]).await, Ok(None));
    let content: Bytes = (0..200_u8).cycle().take(300_000).collect();
    store.put("state/1", content.clone()).await.unwrap();
    let many: Vec<(u64, u64)> = (0..50).map(|n| (n * 6_000, n * 6_000 + 10)).collect();
    for (ranges, within) in [
        (&[(0, u64::MAX)][..], &[(0, 300_000)][..]),
        (&[(0, 1), (7, 9), (100_000, 250_000)], &[(0, 1), (7, 9), (100_000, 250_000)]),
        (&[(7, 7), (250, 251), (3, 3)], &[(250, 251)]),
        (
            &[(5, 6), (299_990, 300_010), (300_000, 300_001), (400_000, 400_001)],
            &[(5, 6), (299_990, 300_000)],
        ),
        (&[(u64::MAX - 1, u64::MAX)], &[]),
        (&[(3, 3)], &[]),
        (&[], &[]),
        (&many, &many),
    ] {
        let place = |at: u64| usize::try_from(at).unwrap();
        let expected = within.iter().map(|(start, end)| content.slice(place(*start)..place(*end)));
        let expected = expected.collect::<Vec<_>>().concat();
        let read = get(ranges).await.unwrap().unwrap();
        assert!(read == expected, "{ranges:?}: {} bytes", read.len());
    }
    store.delete("state/1").await.unwrap();
    assert_eq!(get(&[(0, 1)]).await, Ok(None));
}

async fn one_of_many_creators_wins(store: Store) {
    for name in ["epoch/1", "epoch/2", "epoch/3", "epoch/4"] {
        let bytes = |writer: u8| Bytes::from(vec![writer; 100]);
        let puts = (0..8).map(|writer| store.put_new(name, bytes(writer)));
        let answers = join_all(puts).await;
        let winners: Vec<u8> = (0..8u8)
            .zip(&answers)
            .filter_map(|(writer, answer)| (*answer == Ok(PutNew::Created)).then_some(writer))
            .collect();
        let refused = answers.iter().filter(|answer| **answer == Ok(PutNew::Exists)).count();
        assert_eq!((winners.len(), refused), (1, 7), "{name}: {answers:?}");
        let stored = store.get(name).await.unwrap();
        assert_eq!(stored, winners.first().map(|writer| bytes(*writer)), "{name}");
    }
    let left = store.list("epoch/").await.unwrap();
    assert_eq!(left, ["epoch/1", "epoch/2", "epoch/3", "epoch/4"]);
}

async fn large_and_empty_objects_are_read_back(store: Store) {
    for (name, size) in [("empty", 0), ("byte", 1), ("large", 3 << 20)] {
        let bytes: Bytes = (0..size).map(|n: u32| n.to_le_bytes()[1]).collect();
        assert_eq!(store.put_new(name, bytes.clone()).await, Ok(PutNew::Created));
        assert_eq!(store.get(name).await, Ok(Some(bytes)), "{name}");
    }
}
