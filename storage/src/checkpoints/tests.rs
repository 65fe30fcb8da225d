use super::*;
use crate::objects::{Fault, FaultyObjects, FileObjects, MemoryObjects};
use model::{JobVertexId, testing::snapshot};

const JOB: JobId = JobId(7);
const OPERATOR: OperatorId = OperatorId(9);

/// Returns metadata of a checkpoint with these states.
pub(crate) fn metadata(
    checkpoint: u64,
    graph: u64,
    states: Vec<StateHandle>,
) -> CheckpointMetadata {
    CheckpointMetadata { graph, ..snapshot(JOB, checkpoint, OPERATOR, states) }
}

async fn state(
    directory: &CheckpointDirectory,
    checkpoint: u64,
    graph: u64,
    subtask: u32,
) -> StateHandle {
    let attempt = ExecutionAttemptId { graph, vertex: JobVertexId(1), subtask, attempt: 0 };
    directory.put_state(JOB, checkpoint, attempt, OPERATOR, vec![1].into()).await.unwrap()
}

fn objects(metadata: &CheckpointMetadata) -> BTreeSet<String> {
    metadata.objects().into_iter().chain([metadata.object_name()]).collect()
}

/// The JobManager dies while the disk is full, and another one takes its jobs over.
#[tokio::test]
async fn a_directory_that_is_marked_is_marked_again_on_a_full_disk() {
    let store = FaultyObjects::new(Arc::new(MemoryObjects::new()));
    let directory = CheckpointDirectory::new(Arc::new(store.clone()));
    directory.mark_shared(JOB).await.unwrap();
    let full = StoreError::DiskFull { path: "disk".to_owned() };
    store.set_writes(Fault::Fail(full.clone()));
    directory.mark_shared(JOB).await.unwrap();
    let first = directory.mark_shared(JobId(8)).await;
    assert!(matches!(&first, Err(CheckpointError::Store(error)) if *error == full), "{first:?}");
}

/// Without the mark no host would run a task of the job after its next failure.
#[tokio::test]
async fn a_mark_that_was_deleted_is_there_again_with_the_next_checkpoint() {
    let memory = MemoryObjects::new();
    let directory = CheckpointDirectory::new(Arc::new(memory.clone()));
    let unmarked = metadata(1, 1, Vec::new());
    directory.put_metadata(&unmarked).await.unwrap();
    assert!(!directory.is_shared(JOB).await.unwrap());
    directory.mark_shared(JOB).await.unwrap();
    memory.delete(&format!("{JOB}/{SHARED}")).await.unwrap();
    assert!(!directory.is_shared(JOB).await.unwrap());
    directory.clone().put_metadata(&metadata(2, 1, Vec::new())).await.unwrap();
    assert!(directory.is_shared(JOB).await.unwrap());
}

/// The machine stops before the disk has the mark's content: its file is there and empty, or has too little.
#[tokio::test]
async fn a_mark_that_a_machine_that_stopped_left_damaged_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = || {
        let objects = FileObjects::open(folder.path()).unwrap();
        CheckpointDirectory::new(Arc::new(objects))
    };
    assert!(directory().mark_shared(JOB).await.unwrap());
    assert!(!directory().mark_shared(JOB).await.unwrap());
    let file = folder.path().join(format!("{JOB}/{SHARED}"));
    let whole = std::fs::read(&file).unwrap();
    for left in 0..whole.len() {
        std::fs::write(&file, &whole[..left]).unwrap();
        let seen = directory().is_shared(JOB).await;
        assert!(seen.is_err_and(|error| error.is_lost()), "{left} bytes");
        assert!(directory().mark_shared(JOB).await.unwrap(), "{left} bytes");
        assert!(directory().is_shared(JOB).await.unwrap(), "{left} bytes");
    }
    let names = std::fs::read_dir(file.parent().unwrap()).unwrap();
    assert_eq!(names.count(), 1, "no temporary file stays");
}

#[tokio::test]
async fn a_late_deletion_spares_everything_that_a_successor_refers_to() {
    let memory = MemoryObjects::new();
    let store = FaultyObjects::new(Arc::new(memory.clone()));
    let (late, successor) = (
        CheckpointDirectory::new(Arc::new(store.clone())),
        CheckpointDirectory::new(Arc::new(memory.clone())),
    );
    // Subtask 0 has finished before checkpoint 2. Checkpoint 3 was never complete, nor was 6.
    let finished = state(&successor, 2, 1, 0).await;
    let lost = state(&successor, 3, 1, 1).await;
    let orphan = state(&successor, 6, 1, 1).await;
    let four = metadata(4, 1, vec![finished.clone(), state(&successor, 4, 1, 1).await]);
    successor.put_metadata(&four).await.unwrap();
    store.set_reads(Fault::Hang);
    let keep = objects(&four);
    let mut deletion = Box::pin(late.delete_below(JOB, 4, &keep));
    while store.waiting() == 0 {
        assert!(futures::poll!(&mut deletion).is_pending());
        tokio::task::yield_now().await;
    }
    let five = metadata(5, 2, vec![finished, state(&successor, 5, 2, 1).await]);
    successor.put_metadata(&five).await.unwrap();
    // The number is the same one, the name is not.
    let other = metadata(5, 1, vec![]);
    let name = successor.put_metadata(&other).await.unwrap();
    assert_ne!(name, five.object_name());
    store.set_reads(Fault::None);
    deletion.await.unwrap();
    let there: BTreeSet<String> = memory.list("").await.unwrap().into_iter().collect();
    assert!(there.is_superset(&objects(&five)) && there.is_superset(&objects(&four)), "{there:?}");
    assert!(!there.contains(lost.object().unwrap()) && there.contains(orphan.object().unwrap()));
    // When checkpoint 7 is complete, nothing but what it refers to is left below it.
    successor.delete_below(JOB, 7, &objects(&five)).await.unwrap();
    let there: BTreeSet<String> = memory.list("").await.unwrap().into_iter().collect();
    assert_eq!(there, objects(&five));
}

/// Writers that were killed have left young temporary files.
#[tokio::test]
async fn what_killed_writers_left_goes_with_the_next_checkpoint_and_with_the_job() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(crate::objects::FileObjects::open(home.path()).unwrap());
    // The metadata of a job without a directory of its own is in a folder of the store of job logs.
    let beside = home.path().join(BESIDE_LOGS);
    for (root, directory) in [
        (home.path(), CheckpointDirectory::new(store.clone())),
        (beside.as_path(), CheckpointDirectory::beside_logs(store.clone())),
    ] {
        directory.mark_shared(JOB).await.unwrap();
        directory.mark_shared(JobId(8)).await.unwrap();
        let kept = metadata(4, 1, vec![state(&directory, 4, 1, 0).await]);
        directory.put_metadata(&kept).await.unwrap();
        let job = root.join(JOB.to_string());
        let left = |folder: std::path::PathBuf| {
            std::fs::create_dir_all(&folder).unwrap();
            let file = folder.join(".tmp-7-7");
            std::fs::write(&file, "half").unwrap();
            file
        };
        let chk = |number: u64| job.join(format!("chk-{number}"));
        let below = [left(chk(3)), left(chk(4))];
        let draft = left(chk(2)).with_file_name(".tmp-draft");
        std::fs::write(&draft, "a user's").unwrap();
        std::fs::create_dir(chk(1)).unwrap();
        let stay = [left(chk(5)), left(chk(10)), left(job.clone())];
        let others = left(root.join(JobId(8).to_string()).join("chk-3"));
        directory.delete_below(JOB, 5, &objects(&kept)).await.unwrap();
        assert!(below.iter().all(|file| !file.exists()));
        assert!(!chk(1).exists() && !chk(3).exists(), "empty folders stay");
        assert!(!draft.with_file_name(".tmp-7-7").exists() && draft.exists());
        assert!(stay.iter().all(|file| file.exists()), "what is written now is deleted");
        // The job has failed, and keeps its checkpoint.
        std::fs::remove_file(&draft).unwrap();
        directory.delete_others(JOB, &objects(&kept)).await.unwrap();
        assert_eq!(directory.names(JOB).await.unwrap(), objects(&kept));
        assert!(stay.iter().all(|file| !file.exists()));
        let folders = std::fs::read_dir(&job).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(folders.collect::<Vec<_>>(), ["chk-4"]);
        // It has been cancelled or is finished, and keeps none.
        left(chk(4));
        directory.delete_others(JOB, &BTreeSet::new()).await.unwrap();
        assert!(!job.exists());
        directory.delete_others(JOB, &BTreeSet::new()).await.unwrap();
        assert!(others.exists(), "another job's");
    }
}

#[tokio::test]
async fn a_savepoint_that_a_user_has_put_into_the_jobs_folder_outlives_the_job() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(crate::objects::FileObjects::open(home.path()).unwrap());
    let directory = CheckpointDirectory::new(store.clone());
    directory.mark_shared(JOB).await.unwrap();
    directory.put_metadata(&metadata(5, 1, vec![])).await.unwrap();
    for folder in ["savepoint-1", "mine/savepoint-2"] {
        store.put(&format!("{JOB}/{folder}/_metadata"), "saved".into()).await.unwrap();
    }
    // One that is being written.
    let writing = home.path().join(format!("{JOB}/savepoint-1/.tmp-7-7"));
    std::fs::write(&writing, "half").unwrap();
    directory.delete_others(JOB, &BTreeSet::new()).await.unwrap();
    let names = directory.names(JOB).await.unwrap();
    let saved = ["mine/savepoint-2/_metadata", "savepoint-1/_metadata"];
    assert_eq!(names, saved.map(|name| format!("{JOB}/{name}")).into());
    assert!(writing.exists());
}

/// A JobMaster deletes what its predecessor's task is still writing.
#[tokio::test]
async fn a_write_that_is_swept_away_fails_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(crate::objects::FileObjects::open(home.path()).unwrap());
    let directory = CheckpointDirectory::new(store);
    let attempt = ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
    let mut writer = directory.begin_part(JOB, 3, attempt, (OPERATOR, 0), 10);
    writer.write(vec![1].into()).await.unwrap();
    directory.delete_below(JOB, 4, &BTreeSet::new()).await.unwrap();
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    assert!(writer.finish(Bytes::new()).await.is_err());
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn metadata_is_never_replaced() {
    let directory = CheckpointDirectory::new(Arc::new(MemoryObjects::new()));
    let first = metadata(5, 1, vec![]);
    let name = directory.put_metadata(&first).await.unwrap();
    assert_eq!(directory.put_metadata(&first).await, Ok(name.clone()), "its answer may be lost");
    let other = metadata(5, 1, vec![StateHandle::Inline(vec![1])]);
    assert!(matches!(directory.put_metadata(&other).await, Err(CheckpointError::NameTaken(_))));
    assert_eq!(directory.metadata(&name).await, Ok(first));
}

#[test]
fn names_of_metadata_are_known_with_and_without_a_graph() {
    let name = |rest: &str| format!("checkpoints/{JOB}/chk-{rest}");
    for (rest, number) in [
        ("5/_metadata", Some(5)),
        ("5/_metadata-00000000075bcd15", Some(5)),
        ("5/_metadata-g", None),
        ("5/_metadata-1-1", None),
        ("5/9-0-00000000075bcd15.0", None),
        ("x/_metadata", None),
        ("5", None),
    ] {
        let parsed = parse_metadata_name(&name(rest));
        assert_eq!(parsed, number.map(|number| (JOB, number)), "{rest}");
    }
    for graph in [0, 0x75b_cd15] {
        let own = metadata(5, graph, vec![]).object_name();
        assert_eq!(parse_metadata_name(&format!("checkpoints/{own}")), Some((JOB, 5)));
        assert_eq!(number_of(JOB, &own), Some(5));
    }
    assert_eq!(number_of(JOB, &format!("{JOB}/_shared")), None);
    assert_eq!(number_of(JobId(8), &metadata(5, 1, vec![]).object_name()), None);
}

#[tokio::test]
async fn damaged_metadata_is_found_wherever_the_damage_is_and_the_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(crate::objects::FileObjects::open(folder.path().to_owned()).unwrap());
    let directory = CheckpointDirectory::new(store);
    let states = vec![StateHandle::Inline(vec![1, 2]), state_handle()];
    let name = directory.put_metadata(&metadata(5, 1, states)).await.unwrap();
    let file = folder.path().join(&name);
    let whole = std::fs::read(&file).unwrap();
    let flipped = (0..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    let truncated = (0..whole.len()).map(|length| whole[..length].to_vec());
    for bytes in truncated.chain(flipped) {
        std::fs::write(&file, &bytes).unwrap();
        let error = directory.metadata(&name).await.unwrap_err().to_string();
        assert!(error.contains(&name), "{error}");
    }
    std::fs::write(&file, &whole).unwrap();
    assert!(directory.metadata(&name).await.is_ok());
}

fn state_handle() -> StateHandle {
    StateHandle::Object { name: format!("{JOB}/chk-5/9-0-0000000000000001.0"), bytes: 3 }
}
