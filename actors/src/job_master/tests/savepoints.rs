use super::*;
use gateways::job_master::{CheckpointAnswer, SavepointError, TakeSavepoint};
use model::{CheckpointKind, CheckpointMetadata, StateHandle, SubtaskSnapshot};
use storage::state_reader::StateReader;

/// A job with state of a source, which reads without end, and a TaskManager that runs it.
async fn running(options: &[(&str, &str)]) -> (Fixture, TaskManagerDouble) {
    let mut graph = graph(1, 1, false);
    graph.bounded = false;
    graph.vertices[0].source = true;
    let f = Fixture::start(graph, options).await;
    let task_manager = f.task_manager("tm1", Deployments::Take).await;
    task_manager.offer(&[1]).await;
    until("deployed", || task_manager.attempts().len() == 2).await;
    task_manager.run_all().await;
    (f, task_manager)
}

impl Fixture {
    async fn read_snapshot(&self, folder: &str) -> CheckpointMetadata {
        let platform = self.process.services.platform.clone();
        let reader = StateReader::new(None, platform, Default::default());
        reader.snapshot(folder).await.unwrap().metadata
    }

    /// Takes a savepoint below a directory, and returns its folder.
    async fn savepoint(
        &self,
        task_manager: &TaskManagerDouble,
        directory: &str,
        checkpoint: u64,
    ) -> String {
        let gateway = self.gateway.clone();
        let ask = take(CheckpointKind::Savepoint, Some(directory.to_owned()));
        let taken = actix::spawn(async move { gateway.ask(ask).await });
        acknowledge_all(self, task_manager, checkpoint).await;
        taken.await.unwrap().unwrap()
    }
}

fn take(kind: CheckpointKind, directory: Option<String>) -> TakeSavepoint {
    TakeSavepoint { kind, directory }
}

async fn acknowledge_all(f: &Fixture, task_manager: &TaskManagerDouble, checkpoint: u64) {
    until("triggered", || !task_manager.triggered.all().is_empty()).await;
    for attempt in task_manager.attempts() {
        let state = StateHandle::Inline(vec![7]);
        let part = SubtaskSnapshot {
            ended: false,
            operators: vec![(OperatorId(attempt.vertex.0), state)],
            pause_us: 0,
        };
        let answer = CheckpointAnswer { attempt, checkpoint, answer: Ok(part) };
        f.gateway.ask(answer).await.unwrap();
    }
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_is_in_a_folder_of_its_own_and_commits_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let (f, task_manager) = running(&[]).await;
    let directory = tmp.path().join("savepoints").display().to_string();
    let folder = f.savepoint(&task_manager, &directory, 1).await;
    let begins = format!("{directory}/savepoint-000000-");
    assert!(folder.starts_with(&begins), "{folder}");
    let metadata = f.read_snapshot(&folder).await;
    assert_eq!((metadata.job_id, metadata.checkpoint), (f.details().await.graph.job_id, 1));
    assert!(task_manager.notified.all().iter().all(|told| !told.complete));
    let report = &f.details().await.checkpoints;
    let shown = report.latest_savepoint.as_ref().unwrap();
    assert_eq!(shown.external_path.as_deref(), Some(folder.as_str()));
    assert_eq!(f.status().await, JobStatus::Running);
}

#[tokio::test(flavor = "local")]
async fn a_checkpoint_that_is_asked_for_is_the_jobs_own_and_is_answered_with_its_number() {
    let (f, task_manager) = running(&[]).await;
    let gateway = f.gateway.clone();
    let ask = take(CheckpointKind::Checkpoint, None);
    let taken = actix::spawn(async move { gateway.ask(ask).await });
    acknowledge_all(&f, &task_manager, 1).await;
    assert_eq!(taken.await.unwrap().unwrap(), "1");
    until("committed", || task_manager.notified.all().iter().any(|told| told.complete)).await;
    let pointer = f.log.checkpoints().await.pop().expect("it is recorded");
    assert_eq!(pointer.checkpoint, 1);
    let report = f.details().await.checkpoints.clone();
    assert_eq!(report.latest_savepoint, None);
    let vertices = report.latest_completed.as_ref().expect("it is complete").vertices.clone();
    let parts: Vec<_> = vertices.iter().flat_map(|vertex| vertex.present()).collect();
    assert!(parts.len() == 2 && parts.iter().all(|part| part.ack_ms.is_some()), "{parts:?}");
    assert_eq!(f.status().await, JobStatus::Running);
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_whose_directory_vanishes_says_what_is_not_stored_where_and_what_helps() {
    let tmp = tempfile::tempdir().unwrap();
    let (f, task_manager) = running(&[]).await;
    let directory = tmp.path().join("savepoints");
    let gateway = f.gateway.clone();
    let ask = take(CheckpointKind::Savepoint, Some(directory.display().to_string()));
    let taken = actix::spawn(async move { gateway.ask(ask).await });
    until("triggered", || !task_manager.triggered.all().is_empty()).await;
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::write(&directory, "a file").unwrap();
    acknowledge_all(&f, &task_manager, 1).await;
    match taken.await.unwrap() {
        Err(CallError::Refused(SavepointError::Failed(why))) => {
            let place = format!("the savepoint is not stored in '{}/", directory.display());
            for part in [place.as_str(), "name another directory", "take the savepoint again"] {
                assert!(why.contains(part), "{part}: {why}");
            }
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(f.status().await, JobStatus::Running);
}

#[tokio::test(flavor = "local")]
async fn a_stop_is_answered_when_the_job_has_finished() {
    let tmp = tempfile::tempdir().unwrap();
    let directory = tmp.path().display().to_string();
    let own = [("execution.checkpointing.savepoint-dir", directory.as_str())];
    let (f, task_manager) = running(&own).await;
    let gateway = f.gateway.clone();
    let ask = take(CheckpointKind::Stop { drain: true }, None);
    let taken = actix::spawn(async move { gateway.ask(ask).await });
    // The job has no periodic checkpoints: one is taken before the stop.
    acknowledge_all(&f, &task_manager, 1).await;
    let barrier = |place: usize| task_manager.triggered.all().get(place).map(|it| it.barrier);
    assert!(barrier(0).is_some_and(|before| !before.last && !before.savepoint));
    until("the stop is triggered", || barrier(1).is_some()).await;
    acknowledge_all(&f, &task_manager, 2).await;
    assert!(barrier(1).is_some_and(|stop| stop.last && stop.drain));
    let committed = || {
        let told = task_manager.notified.all();
        told.iter().any(|told| told.complete && told.checkpoint == 2)
    };
    until("committed", committed).await;
    assert!(!taken.is_finished());
    task_manager.finish_all().await;
    let folder = taken.await.unwrap().unwrap();
    assert!(folder.starts_with(&directory), "{folder}");
    assert_eq!(f.ended_as().await, JobStatus::Finished);
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_that_cannot_be_stored_is_refused_before_a_source_hears_of_it() {
    let tmp = tempfile::tempdir().unwrap();
    let file = tmp.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (f, task_manager) = running(&[]).await;
    let stop = CheckpointKind::Stop { drain: false };
    let refused = async |ask| match f.gateway.ask(ask).await {
        Err(CallError::Refused(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(take(stop, None)).await, SavepointError::NoDirectory);
    for bad in [file.display().to_string(), "relative/path".to_owned()] {
        let error = refused(take(stop, Some(bad))).await;
        assert!(matches!(error, SavepointError::Directory(_)), "{error}");
    }
    let readable =
        refused(take(stop, Some("file:///proc/savepoints".to_owned()))).await.to_string();
    for part in
        ["stored in 'file:///proc/savepoints': ", "name a directory that the JobManager can"]
    {
        assert!(readable.contains(part), "{part}: {readable}");
    }
    assert!(task_manager.triggered.all().is_empty());
}

#[tokio::test(flavor = "local")]
async fn a_link_into_the_folder_of_the_jobs_checkpoints_takes_no_savepoint() {
    let tmp = tempfile::tempdir().unwrap();
    let home = tmp.path().display().to_string();
    let (f, task_manager) = running(&[("execution.checkpointing.dir", &home)]).await;
    let own = tmp.path().join(f.details().await.graph.job_id.to_string());
    std::fs::create_dir_all(&own).unwrap();
    std::os::unix::fs::symlink(&own, tmp.path().join("mine")).unwrap();
    for directory in [own.join("chk-5"), tmp.path().join("mine"), tmp.path().join("mine/new")] {
        let directory = directory.display().to_string();
        let ask = take(CheckpointKind::Stop { drain: false }, Some(directory.clone()));
        match f.gateway.ask(ask).await {
            Err(CallError::Refused(SavepointError::Directory(why))) => {
                assert!(why.contains(&directory) && why.contains("the job deletes"), "{why}");
            }
            other => panic!("{directory}: {other:?}"),
        }
    }
    assert!(task_manager.triggered.all().is_empty() && !own.join("new").exists());
    f.savepoint(&task_manager, &tmp.path().join("savepoints").display().to_string(), 1).await;
}

#[tokio::test(flavor = "local")]
async fn a_job_starts_from_the_savepoint_of_another_and_its_numbers_go_on() {
    let tmp = tempfile::tempdir().unwrap();
    let (old, task_manager) = running(&[]).await;
    let folder = old.savepoint(&task_manager, &tmp.path().display().to_string(), 1).await;
    let from = [("execution.state-recovery.path", folder.as_str())];
    let (f, task_manager) = running(&from).await;
    for deployment in task_manager.deployed.all().iter().flat_map(|call| &call.tasks) {
        let operator = OperatorId(deployment.attempt.vertex.0);
        let handles = vec![StateHandle::Inline(vec![7])];
        assert_eq!(deployment.restore, [(operator, handles)]);
    }
    let restored = f.details().await.checkpoints.restored.clone().unwrap();
    assert_eq!((restored.checkpoint, restored.is_savepoint), (1, true));
    assert_eq!(restored.external_path, Some(folder.clone()));
    let again = f.savepoint(&task_manager, &tmp.path().display().to_string(), 2).await;
    let metadata = f.read_snapshot(&again).await;
    assert_eq!((metadata.job_id, metadata.checkpoint), (f.details().await.graph.job_id, 2));
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_that_has_gone_fails_the_job_by_name() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("gone").display().to_string();
    let from = [("execution.state-recovery.path", path.as_str())];
    let f = Fixture::start(graph(1, 1, false), &from).await;
    assert_eq!(f.ended_as().await, JobStatus::Failed);
    let why = format!("{:?}", f.details().await);
    assert!(why.contains(&path) && why.contains("there is no such folder"), "{why}");
}
