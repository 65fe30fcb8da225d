//! Snapshots that a job of the Dispatcher still needs: nobody else gets or deletes them.

use super::*;
use gateways::dispatcher::{DisposeSavepoint, OperationState, RequestSavepoint, TriggerSavepoint};
use model::graph::StateDeclaration;
use model::{
    CheckpointKind, CheckpointMetadata, CheckpointPointer, ExecutionAttemptId, JobVertexId,
    OperatorId, OperatorState, OperatorSubtaskState, StateHandle, TriggerId,
};
use std::path::{Path, PathBuf};
use storage::checkpoints::CheckpointDirectory;
use storage::objects::{FileObjects, S3Settings};
use storage::savepoints::SavepointFolder;
use storage::state_reader::StateReader;

/// Checkpoint 5 of job `n`, without any state.
fn metadata(n: u128) -> CheckpointMetadata {
    CheckpointMetadata {
        job_id: job(n),
        checkpoint: 5,
        graph: 1,
        triggered_ms: 1,
        completed_ms: 2,
        operators: BTreeMap::new(),
    }
}

/// Writes checkpoint 5 of job `n` below `home` and returns its folder.
async fn checkpoint(home: &Path, n: u128) -> PathBuf {
    let directory = CheckpointDirectory::new(Arc::new(FileObjects::open(home).unwrap()));
    directory.put_metadata(&metadata(n)).await.unwrap();
    home.join(format!("{}/chk-5", job(n)))
}

/// Writes a savepoint of job `n` below `home` and returns its folder.
async fn savepoint(home: &Path, n: u128) -> PathBuf {
    let objects: Arc<dyn ObjectStore> = Arc::new(FileObjects::open(home).unwrap());
    let folder = SavepointFolder::new(objects, "savepoint-1");
    let reader = StateReader::new(None, platform::Platform::production(), S3Settings::default());
    folder.write(&reader, &metadata(n), Duration::from_secs(60)).await.unwrap();
    home.join("savepoint-1")
}

/// A job that starts from the snapshot in `folder`.
fn started_from(n: u128, folder: &Path, mode: &str) -> JobGraph {
    let mut graph = graph(n, 1, false);
    let path = folder.display().to_string();
    graph.options.insert("execution.state-recovery.path".to_owned(), path);
    graph.options.insert("execution.state-recovery.claim-mode".to_owned(), mode.to_owned());
    graph
}

impl Fixture {
    /// Disposes of the snapshot at a path; returns why it was refused.
    async fn dispose(&self, path: &str, trigger: u128) -> Result<(), String> {
        let trigger_id = TriggerId(trigger);
        let dispose = DisposeSavepoint { trigger_id, path: path.to_owned() };
        self.gateway().ask(dispose).await.unwrap();
        loop {
            let ask = RequestSavepoint { job_id: None, is_checkpoint: false, trigger_id };
            match self.gateway().ask(ask).await.unwrap() {
                OperationState::InProgress => tokio::task::yield_now().await,
                OperationState::Done(_) => return Ok(()),
                OperationState::Failed(cause) => return Err(cause.to_string()),
            }
        }
    }
}

#[tokio::test(flavor = "local")]
async fn a_checkpoint_of_another_job_that_runs_is_not_claimed() {
    let f = Fixture::session().await;
    let home = tempfile::tempdir().unwrap();
    let folder = checkpoint(home.path(), 1).await;
    f.submit(graph(1, 1, false)).await.unwrap();
    match f.submit(started_from(2, &folder, "claim")).await {
        Err(SubmitError::Restore(why)) => {
            assert!(why.contains(&format!("job {}, which still runs", job(1))), "{why}");
            assert!(why.contains("--claim-mode no_claim, or end job"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(f.submit(started_from(2, &folder, "no_claim")).await, Ok(job(2)));
    f.finish(1).await;
    match f.submit(started_from(3, &folder, "claim")).await {
        Err(SubmitError::Restore(why)) => {
            assert!(why.contains(&format!("what job {} was started from", job(2))), "{why}");
            assert!(why.contains(&format!("or end job {} first", job(2))), "{why}");
        }
        other => panic!("{other:?}"),
    }
    f.finish(2).await;
    assert_eq!(f.submit(started_from(3, &folder, "claim")).await, Ok(job(3)));
}

#[tokio::test(flavor = "local")]
async fn a_job_that_sets_no_maximum_parallelism_takes_that_of_its_savepoint_and_keeps_it() {
    let f = Fixture::session().await;
    let home = tempfile::tempdir().unwrap();
    let count = StateDeclaration {
        name: "count".to_owned(),
        kind: "value".to_owned(),
        schemas: [("key".to_owned(), "u64".to_owned())].into(),
        types: BTreeMap::new(),
        ttl_ms: None,
        settings: None,
    };
    let state = Some(StateHandle::Inline(vec![7]));
    let operator = OperatorState {
        name: "count".to_owned(),
        uid: None,
        max_parallelism: 128,
        states: vec![count.clone()],
        subtasks: vec![OperatorSubtaskState { ended: false, state }],
        coordinator: None,
    };
    let directory = CheckpointDirectory::new(Arc::new(FileObjects::open(home.path()).unwrap()));
    let metadata =
        CheckpointMetadata { operators: [(OperatorId(2), operator)].into(), ..metadata(1) };
    directory.put_metadata(&metadata).await.unwrap();
    let folder = home.path().join(format!("{}/chk-5", job(1)));
    let wider = |n: u128, parallelism: u32, derived: u32| {
        let mut graph = started_from(n, &folder, "no_claim");
        graph.nodes[1].states = vec![count.clone()];
        for vertex in &mut graph.vertices {
            (vertex.parallelism, vertex.max_parallelism) = (parallelism, derived);
        }
        graph
    };
    assert_eq!(f.submit(wider(2, 90, 256)).await, Ok(job(2)));
    // The JobMaster runs with it, and the next leader reads it from the job's log.
    let JobState::Running(stored) = f.log_says(2).await else { panic!("it runs") };
    let groups: Vec<u32> = stored.vertices.iter().map(|vertex| vertex.max_parallelism).collect();
    assert_eq!(groups, [256, 128], "the source has no keys");
    match f.submit(wider(3, 129, 256)).await {
        Err(SubmitError::Restore(why)) => {
            assert!(why.contains("at most 128 subtasks and not 129"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "local")]
async fn nobody_starts_from_a_snapshot_that_another_job_has_claimed_and_not_deleted_yet() {
    let f = Fixture::session().await;
    let home = tempfile::tempdir().unwrap();
    let folder = savepoint(home.path(), 1).await;
    assert_eq!(f.submit(started_from(2, &folder, "claim")).await, Ok(job(2)));
    for mode in ["claim", "no_claim"] {
        match f.submit(started_from(3, &folder, mode)).await {
            Err(SubmitError::Restore(why)) => {
                assert!(why.contains(&format!("job {}", job(2))), "{mode}: {why}");
                assert!(!why.contains("--claim-mode no_claim"), "that does not help: {why}");
            }
            other => panic!("{mode}: {other:?}"),
        }
    }
    f.finish(2).await;
    assert_eq!(f.submit(started_from(3, &folder, "no_claim")).await, Ok(job(3)));
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_without_a_usable_directory_is_refused_at_once_and_a_checkpoint_needs_none() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let trigger_id = TriggerId(1);
    let ask = async |kind, directory: Option<&str>| {
        let directory = directory.map(str::to_owned);
        let call = TriggerSavepoint { job_id: job(1), trigger_id, kind, directory, cancel: false };
        f.gateway().ask(call).await.map_err(|error| error.refused().expect("refused"))
    };
    let known = async |is_checkpoint| {
        let call = RequestSavepoint { job_id: Some(job(1)), is_checkpoint, trigger_id };
        f.gateway().ask(call).await.is_ok()
    };
    let stop = CheckpointKind::Stop { drain: false };
    for kind in [CheckpointKind::Savepoint, stop] {
        for (directory, part) in [
            (None, "set execution.checkpointing.savepoint-dir"),
            (Some("relative/path"), "'relative/path' is a relative path"),
        ] {
            match ask(kind, directory).await {
                Err(JobError::SavepointDirectory(why)) => assert!(why.contains(part), "{why}"),
                other => panic!("{directory:?}: {other:?}"),
            }
        }
    }
    assert_eq!((known(false).await, known(true).await), (false, false), "nothing is begun");
    assert_eq!(ask(CheckpointKind::Checkpoint, None).await, Ok(()));
    assert_eq!((known(false).await, known(true).await), (false, true));
    let home = tempfile::tempdir().unwrap();
    assert_eq!(ask(CheckpointKind::Savepoint, home.path().to_str()).await, Ok(()));
    assert_eq!((known(false).await, known(true).await), (true, true));
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_among_the_checkpoints_of_its_job_is_refused_before_anything_starts() {
    let f = Fixture::session().await;
    let mut graph = graph(1, 1, false);
    let home = tempfile::tempdir().unwrap();
    let chk = home.path().join("chk").display().to_string();
    graph.options.insert("execution.checkpointing.dir".to_owned(), format!("file://{chk}/"));
    f.submit(graph).await.unwrap();
    let trigger_id = TriggerId(1);
    let ask = async |directory: String| {
        let (kind, directory) = (CheckpointKind::Savepoint, Some(directory));
        let call = TriggerSavepoint { job_id: job(1), trigger_id, kind, directory, cancel: false };
        f.gateway().ask(call).await.map_err(|error| error.refused().expect("refused"))
    };
    let own = format!("{chk}/{}", job(1));
    let spelled = format!("file://{chk}/./{}", job(1));
    for directory in [own.clone(), format!("{own}/chk-5/mine"), spelled] {
        match ask(directory.clone()).await {
            Err(JobError::SavepointDirectory(why)) => {
                for part in [directory.as_str(), own.as_str(), "name a directory outside of it"] {
                    assert!(why.contains(part), "{part}: {why}");
                }
            }
            other => panic!("{directory}: {other:?}"),
        }
    }
    let call = RequestSavepoint { job_id: Some(job(1)), is_checkpoint: false, trigger_id };
    assert!(f.gateway().ask(call).await.is_err(), "nothing is begun");
    assert_eq!(ask(format!("{chk}/savepoints")).await, Ok(()));
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_among_the_checkpoints_of_a_recovered_job_is_refused_whatever_the_options_say_by_now()
 {
    let objects = MemoryObjects::new();
    let end = left_behind(&objects, graph(1, 1, false)).await;
    let home = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| home.path().join(name).display().to_string());
    let directory = CheckpointDirectory::new(Arc::new(FileObjects::open(&old).unwrap()));
    let pointer = CheckpointPointer {
        checkpoint: 5,
        metadata: directory.put_metadata(&metadata(1)).await.unwrap(),
        directory: Some(old.clone()),
        claimed: None,
    };
    logs(&objects).append(end, JobFact::Checkpoint(pointer), earlier()).await.unwrap();
    let process = TestProcess::start(&[("execution.checkpointing.dir", &*new)]).await;
    let election = ElectionDouble::start(&process);
    let f = start_in(process, election, ClusterMode::Session, objects).await;
    f.leads(1).await;
    f.job_master(1).await;
    let ask = async |checkpoints: &str, trigger: u128| {
        let call = TriggerSavepoint {
            job_id: job(1),
            trigger_id: TriggerId(trigger),
            kind: CheckpointKind::Savepoint,
            directory: Some(format!("{checkpoints}/{}/mine", job(1))),
            cancel: false,
        };
        f.gateway().ask(call).await.map_err(|error| error.refused().expect("refused"))
    };
    match ask(&old, 1).await {
        Err(JobError::SavepointDirectory(why)) => assert!(why.contains(&old), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(ask(&new, 2).await, Ok(()));
}

#[tokio::test(flavor = "local")]
async fn a_checkpoint_of_a_job_that_runs_is_not_disposed_of_and_its_savepoints_are() {
    let f = Fixture::session().await;
    let home = tempfile::tempdir().unwrap();
    let folder = checkpoint(home.path(), 1).await.display().to_string();
    let saved = savepoint(home.path(), 1).await.display().to_string();
    f.submit(graph(1, 1, false)).await.unwrap();
    for (n, path) in [folder.clone(), folder.replace("/chk-5", "/.//chk-5/")].iter().enumerate() {
        let why = f.dispose(path, n as u128).await.unwrap_err();
        assert!(why.contains(&format!("a checkpoint of job {}", job(1))), "{path}: {why}");
    }
    assert_eq!(f.dispose(&saved, 10).await, Ok(()));
    f.finish(1).await;
    assert_eq!(f.dispose(&folder, 11).await, Ok(()));
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_that_a_job_is_restored_from_is_not_disposed_of() {
    let f = Fixture::session().await;
    let home = tempfile::tempdir().unwrap();
    let saved = savepoint(home.path(), 1).await;
    f.submit(started_from(2, &saved, "no_claim")).await.unwrap();
    let path = saved.join("_metadata").display().to_string();
    let why = f.dispose(&path, 1).await.unwrap_err();
    assert!(why.contains(&format!("job {} was started from", job(2))), "{why}");
    f.finish(2).await;
    assert_eq!(f.dispose(&path, 2).await, Ok(()));
}

#[tokio::test(flavor = "local")]
async fn a_retained_checkpoint_that_another_builds_on_is_neither_disposed_of_nor_claimed_before_it()
{
    let f = Fixture::session().await;
    let home = tempfile::tempdir().unwrap();
    let directory = CheckpointDirectory::new(Arc::new(FileObjects::open(home.path()).unwrap()));
    let attempt = ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
    let put = directory.put_state(job(1), 5, attempt, OperatorId(1), vec![7].into());
    let state = put.await.unwrap();
    let mut folders = Vec::new();
    for checkpoint in [5, 6] {
        let subtask = OperatorSubtaskState { ended: false, state: Some(state.clone()) };
        let operator = OperatorState {
            name: "count".to_owned(),
            uid: None,
            max_parallelism: 128,
            states: Vec::new(),
            subtasks: vec![subtask],
            coordinator: None,
        };
        let operators = [(OperatorId(1), operator)].into();
        let metadata = CheckpointMetadata { checkpoint, operators, ..metadata(1) };
        directory.put_metadata(&metadata).await.unwrap();
        folders.push(home.path().join(format!("{}/chk-{checkpoint}", job(1))));
    }
    let path = |n: usize| folders[n].display().to_string();
    let why = f.dispose(&path(0), 1).await.unwrap_err();
    assert!(why.contains("dispose of them first") && why.contains(&path(1)), "{why}");
    match f.submit(started_from(2, &folders[0], "claim")).await {
        Err(SubmitError::Restore(why)) => assert!(why.contains(&path(1)), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(directory.read(&state).await.is_ok(), "the other one is whole");
    assert_eq!(f.dispose(&path(1), 2).await, Ok(()));
    assert!(directory.read(&state).await.is_ok(), "checkpoint 5 needs it");
    assert_eq!(f.dispose(&path(0), 3).await, Ok(()));
    assert!(
        directory.read(&state).await.is_err() && !home.path().join(job(1).to_string()).exists()
    );
}
