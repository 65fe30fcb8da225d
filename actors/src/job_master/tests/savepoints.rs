use super::*;
use gateways::job_master::{CheckpointAnswer, SavepointError, TakeSavepoint};
use model::{CheckpointKind, StateHandle, SubtaskSnapshot};
use storage::objects::FileObjects;
use storage::savepoints::{SavepointFolder, split};

/// A job with state of a source, which reads without end, and a worker that runs it.
async fn running(options: &[(&str, &str)]) -> (Fixture, WorkerDouble) {
    let mut graph = graph(1, 1, false);
    graph.bounded = false;
    graph.vertices[0].source = true;
    let f = Fixture::start(graph, options).await;
    let worker = f.worker("tm1", Deployments::Take).await;
    worker.offer(&[1]).await;
    until("deployed", || worker.attempts().len() == 2).await;
    worker.run_all().await;
    (f, worker)
}

fn take(kind: CheckpointKind, directory: Option<String>) -> TakeSavepoint {
    TakeSavepoint { kind, directory }
}

async fn acknowledge_all(f: &Fixture, worker: &WorkerDouble, checkpoint: u64) {
    until("triggered", || !worker.triggered.all().is_empty()).await;
    for attempt in worker.attempts() {
        let state = StateHandle::Inline(vec![7]);
        let part = SubtaskSnapshot {
            ended: false,
            operators: vec![(OperatorId(attempt.vertex.0), state)],
        };
        let answer = CheckpointAnswer { attempt, checkpoint, answer: Ok(part) };
        f.gateway.ask(answer).await.unwrap();
    }
}

#[tokio::test]
async fn a_savepoint_is_in_a_folder_of_its_own_and_commits_nothing() {
    local(async {
        let tmp = tempfile::tempdir().unwrap();
        let (f, worker) = running(&[]).await;
        let directory = tmp.path().join("savepoints").display().to_string();
        let gateway = f.gateway.clone();
        let ask = take(CheckpointKind::Savepoint, Some(directory.clone()));
        let taken = actix::spawn(async move { gateway.ask(ask).await });
        acknowledge_all(&f, &worker, 1).await;
        let folder = taken.await.unwrap().unwrap();
        let (parent, name) = split(&folder).unwrap();
        assert_eq!(parent, directory);
        assert!(name.starts_with("savepoint-000000-"), "{name}");
        let objects = Arc::new(FileObjects::open(parent).unwrap());
        let metadata = SavepointFolder::new(objects, name).metadata().await.unwrap();
        assert_eq!((metadata.job_id, metadata.checkpoint), (f.details().await.graph.job_id, 1));
        assert!(worker.notified.all().iter().all(|told| !told.complete));
        let report = &f.details().await.checkpoints;
        let shown = report.latest_savepoint.as_ref().unwrap();
        assert_eq!(shown.external_path.as_deref(), Some(folder.as_str()));
        assert_eq!(f.status().await, JobStatus::Running);
    })
    .await;
}

#[tokio::test]
async fn a_stop_is_answered_when_the_job_has_finished() {
    local(async {
        let tmp = tempfile::tempdir().unwrap();
        let directory = tmp.path().display().to_string();
        let own = [("execution.checkpointing.savepoint-dir", directory.as_str())];
        let (f, worker) = running(&own).await;
        let gateway = f.gateway.clone();
        let ask = take(CheckpointKind::Stop { drain: true }, None);
        let taken = actix::spawn(async move { gateway.ask(ask).await });
        acknowledge_all(&f, &worker, 1).await;
        let barrier = worker.triggered.all()[0].barrier;
        assert!(barrier.last && barrier.drain);
        until("committed", || worker.notified.all().iter().any(|told| told.complete)).await;
        assert!(!taken.is_finished());
        worker.finish_all().await;
        let folder = taken.await.unwrap().unwrap();
        assert!(folder.starts_with(&directory), "{folder}");
        assert_eq!(f.ended_as().await, JobStatus::Finished);
    })
    .await;
}

#[tokio::test]
async fn a_savepoint_that_cannot_be_stored_is_refused_before_a_source_hears_of_it() {
    local(async {
        let tmp = tempfile::tempdir().unwrap();
        let file = tmp.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (f, worker) = running(&[]).await;
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
        assert!(worker.triggered.all().is_empty());
    })
    .await;
}
