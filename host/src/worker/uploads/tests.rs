use super::*;
use model::JobVertexId;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::objects::{Fault, FaultyObjects, MemoryObjects, ObjectStore as _, StoreError};

const JOB: JobId = JobId(7);
const CHUNK: usize = 256 << 10;

fn key() -> Key {
    let attempt = ExecutionAttemptId { graph: 1, vertex: JobVertexId(2), subtask: 3, attempt: 4 };
    (attempt, 5, OperatorId(6))
}

/// Uploads into a store in memory, and the number of chunks that were not dropped.
struct Test {
    uploads: Uploads,
    store: FaultyObjects,
    out: Arc<AtomicUsize>,
}

/// The memory of a chunk.
struct Memory(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Test {
    fn new() -> Self {
        let store = FaultyObjects::new(Arc::new(MemoryObjects::new()));
        Self { uploads: Uploads::default(), store, out: Arc::default() }
    }

    fn add(&self, groups: Option<Vec<u32>>, content: u8, bytes: usize) {
        self.add_chunk(groups, false, content, bytes);
    }

    fn add_chunk(&self, groups: Option<Vec<u32>>, is_early: bool, content: u8, bytes: usize) {
        self.out.fetch_add(1, Ordering::Relaxed);
        let memory = Memory(vec![content; bytes], Arc::clone(&self.out));
        let chunk = StateChunk { groups, is_early, bytes: Bytes::from_owner(memory) };
        self.uploads.add(key(), chunk, &Handle::current(), || Target {
            directory: CheckpointDirectory::new(Arc::new(self.store.clone())),
            job_id: JOB,
            inline_max: 1_000,
        });
    }

    async fn end(&self) -> Stored {
        self.uploads.take(key()).unwrap().end(Vec::new()).await
    }

    /// Lets the upload work until it waits.
    async fn settle(&self) {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn large_state_becomes_parts_with_the_key_groups_of_their_chunks() {
    let test = Test::new();
    for n in 0..40_u8 {
        test.add(Some(vec![u32::from(n), u32::from(n) + 1]), n, CHUNK);
        if n % 8 == 0 {
            test.add(None, 100 + n, CHUNK);
        }
    }
    let StateHandle::Parts(parts) = test.end().await.unwrap() else { panic!("no parts") };
    let mut content = BTreeMap::new();
    for part in &parts {
        let bytes = test.store.get(part.state.object().unwrap()).await.unwrap().unwrap();
        let index = part.index.expect("each part has one");
        assert_eq!(index.offset, part.state.bytes());
        assert_eq!(bytes.len() as u64, part.state.bytes() + index.bytes);
        let directory = CheckpointDirectory::new(Arc::new(test.store.clone()));
        let state = directory.read(&part.state).await.unwrap();
        assert_eq!(state.len() as u64, part.state.bytes(), "who reads the whole gets no index");
        for chunk in state.chunks(CHUNK) {
            assert!(chunk.iter().all(|byte| *byte == chunk[0]));
            assert_eq!(content.insert(chunk[0], part.groups.clone()), None);
        }
    }
    assert_eq!(content.len(), 45);
    assert_eq!(parts.len(), 4, "two of 4 MiB and one of 2 with few key groups, one with any");
    for (n, groups) in content {
        match groups[..] {
            [] => assert!(n >= 100),
            [(first, last)] => assert!((first..last).contains(&u32::from(n))),
            _ => panic!("{groups:?} is more than one run"),
        }
    }
    assert_eq!(test.out.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn small_state_becomes_no_object() {
    let test = Test::new();
    test.add(Some(vec![1]), 1, 600);
    test.add(None, 2, 400);
    let expected = [vec![1; 600], vec![2; 400]].concat();
    assert_eq!(test.end().await, Ok(StateHandle::Inline(expected)));
    assert_eq!(test.store.list("").await.unwrap(), Vec::<String>::new());
    test.add(None, 2, 1_001);
    assert!(matches!(test.end().await, Ok(StateHandle::Parts(parts)) if parts.len() == 1));
}

#[tokio::test]
async fn while_the_store_does_not_answer_two_parts_are_stored_and_no_more_chunks_are_taken() {
    let test = Test::new();
    test.store.set_writes(Fault::Hang);
    (0..100).for_each(|n| test.add(Some(vec![n]), 1, CHUNK));
    test.settle().await;
    assert_eq!(test.store.waiting(), AT_ONCE);
    assert_eq!(test.out.load(Ordering::Relaxed), 100 - AT_ONCE * 16);
    test.store.set_writes(Fault::None);
    let handle = test.end().await.unwrap();
    assert_eq!(handle.bytes(), 100 * CHUNK as u64);
    assert_eq!(test.out.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_failure_of_the_store_is_the_outcome_and_holds_up_no_chunk() {
    let test = Test::new();
    test.store.set_writes(Fault::Fail(StoreError::DiskFull { path: "/there".into() }));
    (0..20).for_each(|n| test.add(Some(vec![n]), 1, CHUNK));
    test.settle().await;
    assert_eq!(test.out.load(Ordering::Relaxed), 0);
    assert_eq!(test.end().await, Err("the disk of /there is full".to_owned()));
}

/// Stores parts of a snapshot until 16 chunks wait for the next one.
async fn two_parts_are_stored(test: &Test) {
    (0..40).for_each(|n| test.add(Some(vec![n]), 1, CHUNK));
    test.settle().await;
    assert_eq!(test.store.list("").await.unwrap().len(), 2);
}

#[tokio::test]
async fn parts_of_a_snapshot_that_fails_are_deleted() {
    let test = Test::new();
    two_parts_are_stored(&test).await;
    test.store.set_writes(Fault::Fail(StoreError::DiskFull { path: "/there".into() }));
    (0..20).for_each(|n| test.add(Some(vec![n]), 1, CHUNK));
    test.settle().await;
    assert_eq!(test.store.list("").await.unwrap().len(), 2);
    // Room is made.
    test.store.set_writes(Fault::None);
    assert_eq!(test.end().await, Err("the disk of /there is full".to_owned()));
    test.settle().await;
    assert_eq!(test.store.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn parts_of_an_attempt_that_has_ended_are_deleted() {
    let test = Test::new();
    two_parts_are_stored(&test).await;
    test.uploads.ended(key().0);
    test.settle().await;
    assert_eq!(test.store.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn parts_of_a_checkpoint_that_its_attempt_gives_up_are_deleted_and_no_others() {
    let test = Test::new();
    two_parts_are_stored(&test).await;
    let (attempt, checkpoint, _) = key();
    test.uploads.give_up(attempt, checkpoint - 1);
    test.settle().await;
    assert_eq!(test.store.list("").await.unwrap().len(), 2);
    test.uploads.give_up(attempt, checkpoint);
    test.settle().await;
    assert_eq!(test.store.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_handle_that_nobody_takes_leaves_no_parts() {
    let test = Test::new();
    two_parts_are_stored(&test).await;
    drop(test.uploads.take(key()));
    test.settle().await;
    assert_eq!(test.store.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_aborted_checkpoint_holds_up_no_chunk_while_the_store_does_not_answer() {
    let test = Test::new();
    test.store.set_writes(Fault::Hang);
    (0..100).for_each(|n| test.add(Some(vec![n]), 1, CHUNK));
    test.settle().await;
    test.uploads.aborted(&[key().0], key().1 + 1);
    test.settle().await;
    assert_eq!(test.out.load(Ordering::Relaxed), 100 - AT_ONCE * 16);
    test.uploads.aborted(&[key().0], key().1);
    (0..20).for_each(|n| test.add(Some(vec![n]), 1, CHUNK));
    test.settle().await;
    assert_eq!(test.out.load(Ordering::Relaxed), 0);
    let ended = test.end();
    assert_eq!(ended.await, Err("the checkpoint was aborted".to_owned()));
    test.store.set_writes(Fault::None);
    test.settle().await;
    assert_eq!(test.store.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_ends_the_upload_after_a_time() {
    let test = Test::new();
    test.store.set_writes(Fault::Hang);
    (0..100).for_each(|n| test.add(Some(vec![n]), 1, CHUNK));
    let begin = tokio::time::Instant::now();
    let error = test.end().await.unwrap_err();
    assert!(error.contains("not written within 31 s"), "{error}");
    assert_eq!(begin.elapsed().as_secs(), 31);
    test.settle().await;
    assert_eq!(test.out.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_an_attempt_leaves_that_has_ended_is_dropped() {
    let test = Test::new();
    test.store.set_writes(Fault::Hang);
    (0..20).for_each(|n| test.add(Some(vec![n]), 1, CHUNK));
    test.settle().await;
    test.uploads.ended(key().0);
    test.store.set_writes(Fault::None);
    test.settle().await;
    assert_eq!(test.out.load(Ordering::Relaxed), 0);
    assert!(test.uploads.take(key()).is_none());
}

#[test]
fn key_groups_are_listed_as_runs_unless_there_are_too_many() {
    assert_eq!(runs_of(vec![5, 1, 2, 2, 7, 6]), [(1, 2), (5, 7)]);
    assert_eq!(runs_of((0..64).map(|n| n * 2).collect()).len(), 64);
    assert_eq!(runs_of((0..65).map(|n| n * 2).collect()), []);
    assert_eq!(runs_of(vec![u32::MAX, u32::MAX]), [(u32::MAX, u32::MAX)]);
}

#[tokio::test]
async fn a_store_of_files_gets_parts_of_16_mib() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn storage::objects::ObjectStore> =
        Arc::new(storage::objects::FileObjects::open(folder.path()).unwrap());
    let uploads = Uploads::default();
    for n in 0..(40 << 20) / CHUNK {
        let bytes = Bytes::from(vec![n as u8; CHUNK]);
        let chunk = StateChunk { groups: Some(vec![n as u32]), is_early: false, bytes };
        uploads.add(key(), chunk, &Handle::current(), || Target {
            directory: CheckpointDirectory::new(Arc::clone(&store)),
            job_id: JOB,
            inline_max: 1_000,
        });
    }
    let stored = uploads.take(key()).unwrap().end(Vec::new()).await.unwrap();
    let StateHandle::Parts(parts) = stored else { panic!("no parts") };
    let mut shown: Vec<_> =
        parts.iter().map(|part| (part.groups.clone(), part.state.bytes())).collect();
    shown.sort();
    let sixteen = 16 << 20;
    let expected = [(0, 63, sixteen), (64, 127, sixteen), (128, 159, 8 << 20)];
    assert_eq!(shown, expected.map(|(first, last, bytes)| (vec![(first, last)], bytes)));
}

/// Chunks of 256 KiB of one former subtask in the order of its key groups, each with three groups.
fn chunks_of(owned: std::ops::Range<u32>) -> impl Iterator<Item = (Vec<u32>, u8)> {
    owned.step_by(2).map(|group| (vec![group, group + 1, group + 2], u8::try_from(group).unwrap()))
}

/// Stores the state of former subtasks, `parallelism` of them, and returns the directory and the parts of each.
async fn stored(parallelism: u32) -> Vec<(CheckpointDirectory, Vec<StatePart>)> {
    let mut all = Vec::new();
    for subtask in 0..parallelism {
        let test = Test::new();
        let owned = model::owned_key_groups(subtask, parallelism, 126);
        for (groups, content) in chunks_of(owned.clone()) {
            let groups = groups.into_iter().filter(|group| owned.contains(group)).collect();
            test.add(Some(groups), content, CHUNK);
        }
        let StateHandle::Parts(parts) = test.end().await.unwrap() else { panic!("no parts") };
        all.push((CheckpointDirectory::new(Arc::new(test.store.clone())), parts));
    }
    all
}

#[tokio::test]
async fn a_subtask_of_another_parallelism_reads_little_more_than_the_chunks_with_its_key_groups() {
    for (before, after) in [(2, 5), (5, 3), (1, 2)] {
        let former = stored(before).await;
        for subtask in 0..after {
            let own = model::owned_key_groups(subtask, after, 126);
            let (mut read, mut parts, mut content) = (0, 0, Vec::new());
            for (directory, stored) in &former {
                for handle in stored.iter().filter_map(|part| part.needed(&own)) {
                    let bytes = directory.read(&handle).await.unwrap();
                    assert_eq!(bytes.len() as u64, handle.bytes());
                    (read, parts) = (read + bytes.len(), parts + 1);
                    content.extend(bytes.chunks(CHUNK).map(|chunk| chunk[0]));
                }
            }
            let expected = (0..before).flat_map(|subtask| {
                let owned = model::owned_key_groups(subtask, before, 126);
                let own = &own;
                let chunks = chunks_of(owned.clone()).filter(move |(groups, _)| {
                    groups.iter().any(|group| own.contains(group) && owned.contains(group))
                });
                chunks.map(|(_, content)| content)
            });
            let mut expected: Vec<u8> = expected.collect();
            content.sort_unstable();
            expected.sort_unstable();
            assert_eq!(content, expected, "{before} to {after}, subtask {subtask}");
            let share = own.len().div_ceil(2) * CHUNK;
            assert!(read <= share + parts * 2 * CHUNK, "{read} bytes of {share}, {parts} parts");
        }
    }
}

#[tokio::test]
async fn of_chunks_that_were_written_early_a_subtask_reads_those_with_its_key_groups() {
    let test = Test::new();
    test.add(None, 200, 1_000);
    let ordered = |n: u32| n * 2..n * 2 + 2;
    let early = |n: u32| n * 5 % 8 * 16..n * 5 % 8 * 16 + 16;
    for n in 0..48_u32 {
        test.add(Some(ordered(n).collect()), 1, CHUNK);
        test.add_chunk(Some(early(n).collect()), true, 2, CHUNK);
    }
    let StateHandle::Parts(parts) = test.end().await.unwrap() else { panic!("no parts") };
    let directory = CheckpointDirectory::new(Arc::new(test.store.clone()));
    for (subtask, after) in [(0, 2), (1, 2), (1, 3), (2, 5), (7, 8)] {
        let own = model::owned_key_groups(subtask, after, 128);
        let mut read = 0;
        for handle in parts.iter().filter_map(|part| part.needed(&own)) {
            read += directory.read(&handle).await.unwrap().len();
        }
        let has = |groups: std::ops::Range<u32>| groups.start < own.end && own.start < groups.end;
        let chunks = (0..48).map(|n| usize::from(has(ordered(n))) + usize::from(has(early(n))));
        let expected = chunks.sum::<usize>() * CHUNK;
        // What is of any group is read by all.
        assert_eq!(read, expected + 1_000, "{subtask} of {after}");
    }
}

/// Parts of 4 MiB with 400 chunks: the handle has 64 ranges of each, the index at the end of its object has all.
#[tokio::test]
async fn of_a_part_with_many_chunks_a_subtask_reads_those_alone_that_have_its_key_groups() {
    const SMALL: usize = 10 << 10;
    let test = Test::new();
    let groups = |n: u32| n / 8..n / 8 + 2;
    (0..1_000_u32).for_each(|n| test.add(Some(groups(n).collect()), (n / 8) as u8, SMALL));
    let StateHandle::Parts(parts) = test.end().await.unwrap() else { panic!("no parts") };
    assert_eq!(parts.iter().map(|part| part.ranges.len()).collect::<Vec<_>>(), [64, 64, 64]);
    assert!(parts.iter().all(|part| part.state.bytes() < 5 << 20));
    let directory = CheckpointDirectory::new(Arc::new(test.store.clone()));
    for (subtask, after) in [(0, 2), (1, 2), (1, 3), (2, 5), (7, 8)] {
        let own = model::owned_key_groups(subtask, after, 128);
        let (mut read, mut by_index) = (Vec::new(), 0);
        for handle in parts.iter().filter_map(|part| part.needed(&own)) {
            by_index += usize::from(matches!(&handle, StateHandle::Ranges { index: Some(_), .. }));
            let bytes = directory.read(&handle).await.unwrap();
            assert!(bytes.len() as u64 <= handle.bytes());
            read.extend(bytes.chunks(SMALL).map(|chunk| u32::from(chunk[0])));
        }
        let has = |n: &u32| groups(*n).start < own.end && own.start < groups(*n).end;
        let expected: Vec<u32> = (0..1_000).filter(has).map(|n| n / 8).collect();
        read.sort_unstable();
        assert_eq!(read, expected, "{subtask} of {after}");
        assert!((1..=2).contains(&by_index), "{by_index} parts are cut by the bounds of {own:?}");
    }
}
