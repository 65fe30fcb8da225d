//! Objects in HDFS, against the daemons of `cargo xtask yarn`. `cargo xtask test` runs it. By hand:
//!
//! ```text
//! eval "$(cargo xtask yarn up | tail -1)"
//! cargo test -p tests --test hdfs -- --ignored
//! cargo xtask yarn down
//! ```

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly")]

use flott::{sources::FileSource, testing};
use model::{StateHandle, StatePart};
use platform::Platform;
use std::cell::Cell;
use std::sync::Arc;
use storage::checkpoints::{CheckpointDirectory, Ranges};
use storage::objects::{self, ObjectStore, PutNew, S3Settings, StoreError};
use storage::testing::contract;

/// Opens a directory that no other run uses; `hdfs:///` is the file system that `fs.defaultFS` names.
fn open(path: &str) -> Arc<dyn ObjectStore> {
    assert!(std::env::var_os("HADOOP_CONF_DIR").is_some(), "HADOOP_CONF_DIR names no cluster");
    let uri = format!("hdfs:///tmp/flott-objects-{}/{path}", std::process::id());
    objects::open(&uri, &Platform::production(), &S3Settings::default()).unwrap()
}

#[tokio::test]
#[ignore = "needs the HDFS of `cargo xtask yarn`"]
async fn a_directory_keeps_the_contract_of_stores() {
    let count = Cell::new(0);
    let make = async || {
        count.set(count.get() + 1);
        open(&format!("contract/{}", count.get()))
    };
    contract::check(make).await;
    contract::folders_are_no_objects(open("contract/folders")).await;
}

#[tokio::test]
#[ignore = "needs the HDFS of `cargo xtask yarn`"]
async fn creators_leave_no_temporary_file_and_no_empty_folder() {
    let store = open("tidy");
    assert_eq!(store.put_new("jobs/1/0", "x".into()).await, Ok(PutNew::Created));
    assert_eq!(store.put_new("jobs/1/0", "y".into()).await, Ok(PutNew::Exists));
    let hdfs = hdfs_native::ClientBuilder::new().build().unwrap();
    let folder = format!("/tmp/flott-objects-{}/tidy", std::process::id());
    let left = hdfs.list_status(&folder, true).await.unwrap();
    let files: Vec<&str> = left.iter().filter(|f| !f.isdir).map(|f| &*f.path).collect();
    assert_eq!(files, [format!("{folder}/jobs/1/0")]);
    let modes: Vec<u16> = left.iter().map(|file| file.permission & 0o077).collect();
    assert_eq!(modes, [0; 3], "others can read what is stored");
    assert_eq!(store.delete("jobs/1/0").await, Ok(true));
    assert!(hdfs.list_status(&folder, true).await.unwrap().is_empty());
    // A truncated file is detected.
    store.put("jobs/1/0", "content".into()).await.unwrap();
    let path = format!("{folder}/jobs/1/0");
    let options = hdfs_native::WriteOptions::default().overwrite(true);
    let mut file = hdfs.create(&path, &options).await.unwrap();
    file.write_bytes("cut".into()).await.unwrap();
    file.close().await.unwrap();
    match store.get("jobs/1/0").await {
        Err(StoreError::Corrupt { path: named, .. }) => assert!(named.ends_with(&path), "{named}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs the HDFS of `cargo xtask yarn`"]
async fn ranges_of_a_state_are_read_and_what_is_cut_is_named() {
    let store = open("ranges");
    let chunk = |n: u8| vec![n; 100_000];
    store.put("job/a", (0..64).flat_map(chunk).collect()).await.unwrap();
    let mut ranges = Ranges::default();
    (0..64_u8).for_each(|n| ranges.add((u32::from(n), u32::from(n)), &chunk(n)));
    let state = StateHandle::Object { name: "job/a".to_owned(), bytes: 6_400_000 };
    let groups = vec![(0, 63)];
    let mut part = StatePart { groups, state, ranges: ranges.take(), index: None };
    let directory = CheckpointDirectory::new(Arc::clone(&store));
    let needed = part.needed(&(20..23)).unwrap();
    let expected: Vec<u8> = (20..23).flat_map(chunk).collect();
    assert_eq!(directory.read(&needed).await.unwrap(), expected);
    let last = part.ranges.last_mut().unwrap();
    last.bytes += 1;
    let error = directory.read(&part.needed(&(63..64)).unwrap()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("job/a is corrupt: its 100001 bytes from 6300000 on are cut"), "{text}");
    store.delete("job/a").await.unwrap();
    assert!(directory.read(&needed).await.unwrap_err().is_lost());
}

#[test]
#[ignore = "needs the HDFS of `cargo xtask yarn`"]
fn text_is_read_once_however_it_is_cut_from_folders_without_hidden_files() {
    let folder = format!("/tmp/flott-objects-{}/text", std::process::id());
    let text = "one\n\nthree is longer\nfour\n5";
    let files = [("a", text), ("b/c", "6\n"), ("empty", ""), ("_SUCCESS", "x"), (".part", "x")];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let hdfs = hdfs_native::ClientBuilder::new().build().unwrap();
        hdfs.mkdirs(&format!("{folder}/b"), 0o755, true).await.unwrap();
        for (name, text) in files {
            let options = hdfs_native::WriteOptions::default().overwrite(true);
            let mut file = hdfs.create(&format!("{folder}/{name}"), &options).await.unwrap();
            file.write_bytes(text.into()).await.unwrap();
            file.close().await.unwrap();
        }
    });
    let read = |path: &str, split_bytes| {
        let source = FileSource::text(format!("hdfs://{folder}{path}"));
        let mut test = testing::source(source.with_split_bytes(split_bytes)).open().unwrap();
        test.run().unwrap();
        test.output()
    };
    for split_bytes in 1..=text.len() as u64 {
        let lines = ["one", "", "three is longer", "four", "5"];
        assert_eq!(read("/a", split_bytes), lines, "{split_bytes}");
        assert_eq!(read("", split_bytes), [&lines[..], &["6"]].concat(), "{split_bytes}");
    }
    let absent = testing::source(FileSource::text(format!("hdfs://{folder}/absent"))).open();
    let error = absent.err().unwrap().to_string();
    assert!(error.contains("/text/absent") && error.contains("check the path"), "{error}");
}
