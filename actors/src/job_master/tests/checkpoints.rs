use super::*;
use crate::job_testing::log_in;
use gateways::job_master::CheckpointAnswer;
use model::{
    CheckpointMetadata, CheckpointPointer, ClaimedSnapshot, ExecutionAttemptId, JobVertexId,
    StateHandle, StatePart, SubtaskSnapshot, testing::snapshot,
};
use platform::Platform;
use storage::jobs::JobFact;
use storage::objects::{
    Fault, FaultyObjects, FileObjects, MemoryObjects, ObjectStore, S3Settings, StoreError,
};
use storage::savepoints::SavepointFolder;
use storage::state_reader::StateReader;

/// A job whose two tasks run on one TaskExecutor, with a checkpoint every second.
async fn running(options: &[(&str, &str)]) -> (Fixture, TaskManagerDouble) {
    let mut all = vec![("execution.checkpointing.interval", "1 s")];
    all.extend_from_slice(PATIENT);
    all.extend_from_slice(options);
    let graph = graph(1, 1, false);
    let log = log_of(&graph);
    running_on(graph, log, &all).await
}

async fn running_on(
    graph: JobGraph,
    log: OpenJobLog,
    options: &[(&str, &str)],
) -> (Fixture, TaskManagerDouble) {
    let process = TestProcess::start(options).await;
    let manager = ManagerDouble::lead(&process, 60);
    let f = Fixture::start_on(process, manager, graph, program_key(&program()), log).await;
    let task_manager = f.task_manager("tm1", Deployments::Take).await;
    task_manager.offer(&[1]).await;
    until("deployed", || task_manager.attempts().len() == 2).await;
    task_manager.report(&task_manager.attempts(), ExecutionState::Running).await;
    (f, task_manager)
}

impl Fixture {
    async fn answer(
        &self,
        task_manager: &TaskManagerDouble,
        checkpoint: u64,
        answer: Result<SubtaskSnapshot, FailureCause>,
    ) {
        for attempt in task_manager.attempts().into_iter().rev().take(2) {
            let answer = answer.clone();
            let answer = CheckpointAnswer { attempt, checkpoint, answer };
            self.gateway.ask(answer).await.expect("it answers");
        }
    }
}

fn not_stored(why: &str) -> FailureCause {
    FailureCause::recoverable("StateNotStored", why)
}

fn triggered(task_manager: &TaskManagerDouble) -> Vec<u64> {
    task_manager.triggered.all().iter().map(|trigger| trigger.barrier.checkpoint).collect()
}

fn notified(task_manager: &TaskManagerDouble) -> Vec<(u64, bool)> {
    task_manager.notified.all().iter().map(|notify| (notify.checkpoint, notify.complete)).collect()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_checkpoint_is_in_the_jobs_log_before_tasks_hear_that_it_is_complete() {
    let (f, task_manager) = running(&[]).await;
    until("triggered", || triggered(&task_manager) == [1]).await;
    let sources = task_manager.triggered.all()[0].attempts.clone();
    assert_eq!(sources.len(), 1, "the other task has no source");
    f.answer(&task_manager, 1, Ok(SubtaskSnapshot::default())).await;
    until("notified", || notified(&task_manager) == [(1, true)]).await;
    assert_eq!(task_manager.notified.all()[0].attempts.len(), 2);
    until("triggered again", || triggered(&task_manager) == [1, 2]).await;
    // Whoever leads the job next goes on from it.
    let newest = f.log.lead(session(FENCE + 1)).await.expect("a store in memory");
    let pointer = newest.expect("a checkpoint");
    assert_eq!(pointer.checkpoint, 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_superseded_jobmaster_completes_no_checkpoint() {
    let (f, task_manager) = running(&[]).await;
    until("triggered", || triggered(&task_manager) == [1]).await;
    f.log.lead(session(FENCE + 1)).await.expect("a store in memory");
    f.answer(&task_manager, 1, Ok(SubtaskSnapshot::default())).await;
    seconds(20).await;
    assert_eq!((notified(&task_manager), triggered(&task_manager)), (vec![], vec![1]));
    assert_eq!(f.log.lead(session(FENCE + 2)).await, Ok(None));
}

/// Takes checkpoint `number` as another JobMaster, with this session and execution graph 99, does, and records it. Returns the names of its
/// objects.
async fn complete_as(
    leader: u64,
    log: &OpenJobLog,
    job: JobId,
    number: u64,
    keep: &[u64],
) -> Vec<String> {
    log.lead(session(leader)).await.expect("a store in memory");
    let directory = CheckpointDirectory::beside_logs(log.logs().objects().clone());
    let attempt = ExecutionAttemptId { graph: 99, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
    let state = directory.put_state(job, number, attempt, OperatorId(9), vec![1].into());
    let state = state.await.expect("a store in memory");
    let taken = snapshot(job, number, OperatorId(9), [state]);
    let metadata = CheckpointMetadata { graph: 99, ..taken };
    let name = directory.put_metadata(&metadata).await.expect("its name is its own");
    let (metadata_name, directory, claimed) = (name.clone(), None, None);
    let pointer =
        CheckpointPointer { checkpoint: number, metadata: metadata_name, directory, claimed };
    log.record_checkpoint(session(leader), pointer, &keep.iter().copied().collect())
        .await
        .expect("it leads");
    metadata.objects().into_iter().chain([name]).collect()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_whose_newest_checkpoint_is_damaged_continues_from_the_previous_one_if_it_may() {
    for allowed in [true, false] {
        let (memory, graph) = (MemoryObjects::new(), graph(1, 1, false));
        let job = graph.job_id;
        let log = log_in(Arc::new(memory.clone()), &graph);
        complete_as(FENCE - 1, &log, job, 3, &[]).await;
        complete_as(FENCE - 1, &log, job, 4, &[3]).await;
        let newest = complete_as(FENCE - 1, &log, job, 5, &[4]).await;
        let name = format!("checkpoints/{}", newest[1]);
        memory.put(&name, b"FCK1\x86".to_vec().into()).await.unwrap();
        let mut options = vec![
            ("execution.checkpointing.interval", "1 s"),
            ("execution.checkpointing.num-retained", "2"),
            ("execution.checkpointing.fallback", if allowed { "true" } else { "false" }),
        ];
        options.extend_from_slice(PATIENT);
        if allowed {
            let (f, task_manager) = running_on(graph, log, &options).await;
            // The number of the damaged one does not come again, nor that after it.
            until("triggered", || triggered(&task_manager) == [7]).await;
            let failures = f.details().await.failures.clone();
            assert_eq!(failures.len(), 1, "{failures:?}");
            assert_eq!((&failures[0].task, f.details().await.restarts), (&None, 0));
            let cause = failures[0].cause.to_string();
            for part in [
                "CheckpointUnreadable: checkpoint 5 can't be read",
                newest[1].as_str(),
                "the job continues from checkpoint 4, so output that was committed with checkpoint 5 comes again",
            ] {
                assert!(cause.contains(part), "{part}: {cause}");
            }
            f.answer(&task_manager, 7, Ok(SubtaskSnapshot::default())).await;
            until("notified", || notified(&task_manager) == [(7, true)]).await;
            let kept: Vec<_> =
                f.log.checkpoints().await.iter().map(|kept| kept.checkpoint).collect();
            assert_eq!(kept, [4, 7], "the damaged one is forgotten");
            until("deleted", || {
                !futures::executor::block_on(checkpoint_objects(&memory)).contains(&newest[1])
            })
            .await;
            continue;
        }
        let process = TestProcess::start(&options).await;
        let manager = ManagerDouble::lead(&process, 60);
        let key = program_key(&program());
        let f = Fixture::start_on(process, manager, graph, key, log).await;
        assert_eq!(f.ended_as().await, JobStatus::Failed);
        let cause = f.ended.all()[0].details.cause.clone().expect("a cause").to_string();
        for part in [newest[1].as_str(), "checkpoint 4", "execution.checkpointing.fallback"] {
            assert!(cause.contains(part), "{cause}");
        }
        assert!(checkpoint_objects(&memory).await.contains(&newest[1]), "it can be restored");
    }
}

/// The names of all objects in the part of the store that has the job's checkpoints.
async fn checkpoint_objects(store: &MemoryObjects) -> Vec<String> {
    let names = store.list("checkpoints/").await.expect("a store in memory");
    names.iter().map(|name| name.replace("checkpoints/", "")).collect()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_superseded_jobmaster_whose_listing_is_slow_deletes_nothing_of_its_successor() {
    let (memory, graph) = (MemoryObjects::new(), graph(1, 1, false));
    let job = graph.job_id;
    // An earlier JobMaster left a checkpoint that was never complete, and one with a number that is taken again.
    let left = |number| format!("checkpoints/{job}/chk-{number}/9-0-0000000000000007.0");
    for number in [0, 2] {
        memory.put(&left(number), vec![7].into()).await.unwrap();
    }
    let store = FaultyObjects::new(Arc::new(memory.clone()));
    let log = log_in(Arc::new(store.clone()), &graph);
    // From here on nothing can be listed, so the JobMaster must start without that.
    store.set_reads(Fault::Hang);
    let mut options = vec![("execution.checkpointing.interval", "1 s")];
    options.extend_from_slice(PATIENT);
    let (f, task_manager) = running_on(graph, log, &options).await;
    until("triggered", || triggered(&task_manager) == [1]).await;
    f.answer(&task_manager, 1, Ok(SubtaskSnapshot::default())).await;
    until("notified", || notified(&task_manager) == [(1, true)]).await;
    until("a listing hangs", || store.waiting() == 1).await;
    let mut needed = complete_as(FENCE + 1, &f.log, job, 2, &[]).await;
    needed.extend(complete_as(FENCE + 1, &f.log, job, 3, &[]).await);
    // The superseded JobMaster completes checkpoint 2 no more, though its metadata has a name of its own.
    until("triggered", || triggered(&task_manager) == [1, 2]).await;
    f.answer(&task_manager, 2, Ok(SubtaskSnapshot::default())).await;
    settle().await;
    assert_eq!(notified(&task_manager), [(1, true)]);
    store.set_reads(Fault::None);
    until("the listing has gone on", || store.waiting() == 0).await;
    seconds(20).await;
    let there = checkpoint_objects(&memory).await;
    for name in needed {
        assert!(there.contains(&name), "{name} is deleted: {there:?}");
    }
    let left = |number| left(number).replace("checkpoints/", "");
    assert!(!there.contains(&left(0)), "what is below checkpoint 1 is deleted: {there:?}");
    assert!(there.contains(&left(2)), "what is above it may be a successor's: {there:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_an_aborted_checkpoint_left_is_deleted_when_the_next_one_is_complete() {
    let (memory, graph) = (MemoryObjects::new(), graph(1, 1, false));
    let job = graph.job_id;
    let log = log_in(Arc::new(memory.clone()), &graph);
    let mut options = vec![
        ("execution.checkpointing.interval", "1 s"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "9"),
    ];
    options.extend_from_slice(PATIENT);
    let (f, task_manager) = running_on(graph, log, &options).await;
    until("triggered", || triggered(&task_manager) == [1]).await;
    f.answer(&task_manager, 1, Ok(SubtaskSnapshot::default())).await;
    until("triggered again", || triggered(&task_manager) == [1, 2]).await;
    // A task has stored its part of checkpoint 2, and its answer is lost. One of checkpoint 4 stores early.
    let left = |number| format!("{job}/chk-{number}/9-0-0000000000000007.0");
    for number in [2, 4] {
        memory.put(&format!("checkpoints/{}", left(number)), vec![7].into()).await.unwrap();
    }
    f.answer(&task_manager, 2, Err(not_stored("the task is slow"))).await;
    until("triggered again", || triggered(&task_manager) == [1, 2, 3]).await;
    let there = checkpoint_objects(&memory).await;
    assert!(there.contains(&left(2)), "no newer checkpoint is complete: {there:?}");
    assert!(there.iter().any(|name| name.contains("/chk-1/")), "{there:?}");
    f.answer(&task_manager, 3, Ok(SubtaskSnapshot::default())).await;
    until("notified", || notified(&task_manager).last() == Some(&(3, true))).await;
    settle().await;
    let there = checkpoint_objects(&memory).await;
    assert!(!there.contains(&left(2)), "{there:?}");
    assert!(there.contains(&left(4)), "it may be of a checkpoint that is being written");
    assert!(there.iter().any(|name| name.contains("/chk-3/_metadata")), "{there:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_checkpoint_that_a_task_declines_restarts_the_job_unless_it_is_tolerated() {
    let (f, task_manager) =
        running(&[("execution.checkpointing.tolerable-failed-checkpoints", "1")]).await;
    for (checkpoint, status) in [(1, JobStatus::Running), (2, JobStatus::Restarting)] {
        until("triggered", || triggered(&task_manager).last() == Some(&checkpoint)).await;
        f.answer(&task_manager, checkpoint, Err(not_stored("the disk is full"))).await;
        assert_eq!(f.status().await, status);
    }
    let failure = &f.details().await.failures[0];
    assert_eq!(failure.cause.kind, "CheckpointFailed");
    assert!(failure.cause.message.contains("the disk is full"), "{failure:?}");
    assert_eq!(notified(&task_manager)[0], (1, false));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_checkpoint_whose_metadata_is_not_stored_says_what_is_not_where_and_what_helps() {
    let graph = graph(1, 1, false);
    let store = FaultyObjects::new(Arc::new(MemoryObjects::new()));
    let log = log_in(Arc::new(store.clone()), &graph);
    let options = [
        ("execution.checkpointing.interval", "1 s"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "9"),
    ];
    let (f, task_manager) = running_on(graph, log, &options).await;
    until("triggered", || triggered(&task_manager) == [1]).await;
    store.set_writes(Fault::Fail(StoreError::DiskFull { path: "/ha/job".to_owned() }));
    f.answer(&task_manager, 1, Ok(SubtaskSnapshot::default())).await;
    until("notified", || notified(&task_manager) == [(1, false)]).await;
    let failed = f.details().await.checkpoints.latest_failed.clone().expect("it has failed");
    let why = failed.failure.expect("a reason");
    for part in [
        "the checkpoint's metadata is not stored beside the job's log",
        "/ha/job",
        "set execution.checkpointing.dir",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_directory_that_cannot_be_used_fails_the_job_under_a_kind_of_its_own_and_is_named() {
    let graph = graph(1, 1, false);
    let f =
        Fixture::start(graph, &[("execution.checkpointing.dir", "gopher://nowhere/checkpoints")])
            .await;
    assert_eq!(f.ended_as().await, JobStatus::Failed);
    let cause = f.ended.all()[0].details.cause.clone().expect("a cause");
    assert_eq!(cause.kind, "CheckpointDirectoryUnusable");
    assert!(!cause.recoverable, "no restart helps");
    for part in [
        "the checkpoint directory 'gopher://nowhere/checkpoints' cannot be used",
        "can't be used as storage",
        "set execution.checkpointing.dir to",
    ] {
        assert!(cause.message.contains(part), "{part}: {cause}");
    }
}

/// Writes a savepoint without state of job 9 into a folder, and returns its metadata and the path of the metadata's file.
async fn savepoint_in(folder: &std::path::Path, checkpoint: u64) -> (CheckpointMetadata, String) {
    let metadata = CheckpointMetadata {
        job_id: JobId(9),
        checkpoint,
        graph: 3,
        triggered_ms: 0,
        completed_ms: 0,
        operators: Default::default(),
    };
    let parent = folder.parent().expect("a folder in a folder");
    let objects = FileObjects::open(parent).expect("a temporary folder");
    let name = folder.file_name().expect("a name").to_str().expect("text");
    let reader = StateReader::new(None, Platform::production(), S3Settings::default());
    let written = SavepointFolder::new(Arc::new(objects), name);
    written.write(&reader, &metadata, Duration::from_secs(60)).await.expect("it is written");
    (metadata, folder.join("_metadata").to_str().expect("text").to_owned())
}

/// Waits, with real time for the file system, until the file exists no more.
async fn gone(path: &str) -> bool {
    for _ in 0..200 {
        if !std::path::Path::new(path).exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
        seconds(1).await;
    }
    false
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_claimed_snapshot_is_deleted_by_the_next_jobmaster_if_its_own_had_no_time_to() {
    for replaced in [false, true] {
        let tmp = tempfile::tempdir().expect("a temporary folder");
        let (taken, uri) = savepoint_in(&tmp.path().join("savepoint-1"), 7).await;
        let CheckpointMetadata { job_id, checkpoint, graph: of, .. } = taken;
        let checkpoint = if replaced { checkpoint - 1 } else { checkpoint };
        let claimed = Some(ClaimedSnapshot { uri: uri.clone(), job_id, checkpoint, graph: of });
        let (memory, graph) = (MemoryObjects::new(), graph(1, 1, false));
        let log = log_in(Arc::new(memory.clone()), &graph);
        let names = complete_as(FENCE - 1, &log, graph.job_id, 8, &[]).await;
        let pointer = CheckpointPointer {
            checkpoint: 8,
            metadata: names[1].clone(),
            directory: None,
            claimed,
        };
        log.record_checkpoint(session(FENCE - 1), pointer, &Default::default())
            .await
            .expect("it leads");
        let mut options = vec![("execution.checkpointing.interval", "1 s")];
        options.extend_from_slice(PATIENT);
        let (f, _task_manager) = running_on(graph, log, &options).await;
        assert_eq!(gone(&uri).await, !replaced, "a snapshot of another number is another one");
        assert_eq!(f.status().await, JobStatus::Running);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_claimed_snapshot_stays_until_the_jobs_first_checkpoint_and_is_noted_with_it() {
    let tmp = tempfile::tempdir().expect("a temporary folder");
    let folder = tmp.path().join("savepoint-1");
    let (_, uri) = savepoint_in(&folder, 7).await;
    let folder = folder.to_str().expect("text").to_owned();
    let (f, task_manager) = running(&[
        ("execution.state-recovery.path", &folder),
        ("execution.state-recovery.claim-mode", "CLAIM"),
    ])
    .await;
    until("triggered", || triggered(&task_manager) == [8]).await;
    assert!(std::path::Path::new(&uri).exists());
    f.answer(&task_manager, 8, Ok(SubtaskSnapshot::default())).await;
    until("notified", || notified(&task_manager) == [(8, true)]).await;
    assert!(gone(&uri).await);
    let claimed = f.log.checkpoints().await.pop().and_then(|pointer| pointer.claimed);
    assert_eq!(claimed.map(|claimed| claimed.uri), Some(uri));
    until("triggered", || triggered(&task_manager).last() == Some(&9)).await;
    f.answer(&task_manager, 9, Ok(SubtaskSnapshot::default())).await;
    until("notified", || notified(&task_manager).last() == Some(&(9, true))).await;
    let claimed = f.log.checkpoints().await.pop().and_then(|pointer| pointer.claimed);
    assert_eq!(claimed, None, "nothing is left to delete");
}

/// A state in these parts.
fn in_parts(states: &[StateHandle]) -> StateHandle {
    let part = |state: &StateHandle| StatePart::whole(Vec::new(), state.clone());
    StateHandle::Parts(states.iter().map(part).collect())
}

/// The files of an incremental checkpoint are in the folders of older checkpoints too.
#[tokio::test(flavor = "local", start_paused = true)]
async fn a_claimed_incremental_checkpoint_goes_with_its_older_files_and_the_newest_one_is_whole() {
    let tmp = tempfile::tempdir().expect("a temporary folder");
    let home = tmp.path().to_str().expect("text").to_owned();
    let objects = FileObjects::open(tmp.path()).expect("a temporary folder");
    let directory = CheckpointDirectory::new(Arc::new(objects));
    let claiming = graph(1, 1, false);
    let (of, own, operator) = (JobId(9), claiming.job_id, claiming.nodes[0].operator_id);
    let object = async |job, graph, number: u8| {
        let attempt = ExecutionAttemptId { graph, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
        let put = directory.put_state(job, number.into(), attempt, operator, vec![number].into());
        put.await.expect("it is stored")
    };
    let states = [object(of, 3, 5).await, object(of, 3, 7).await, object(of, 3, 9).await];
    let taken = CheckpointMetadata { graph: 3, ..snapshot(of, 9, operator, [in_parts(&states)]) };
    directory.put_metadata(&taken).await.expect("it is stored");
    let old = format!("{home}/{of}");
    let (f, task_manager) = running(&[
        ("execution.checkpointing.dir", &home),
        ("execution.state-recovery.path", &format!("{old}/chk-9")),
        ("execution.state-recovery.claim-mode", "CLAIM"),
    ])
    .await;
    // The first checkpoint takes the restored state over, as it does for a subtask that takes no part. The next ones build on it.
    let deployed = task_manager.deployed.all();
    let mut restores = deployed.iter().flat_map(|call| &call.tasks).flat_map(|task| &task.restore);
    let mut parts = restores.next().expect("one task has state").1.clone();
    assert!(parts.len() == 3 && restores.next().is_none(), "{parts:?}");
    for number in [10, 11, 12] {
        until("triggered", || triggered(&task_manager).last() == Some(&number.into())).await;
        if number > 10 {
            parts.push(object(own, 1, number).await);
        }
        for attempt in task_manager.attempts() {
            let mut part = SubtaskSnapshot::default();
            if OperatorId(attempt.vertex.0) == operator {
                part.operators.push((operator, in_parts(&parts)));
            }
            let (checkpoint, answer) = (number.into(), Ok(part));
            let answer = CheckpointAnswer { attempt, checkpoint, answer };
            f.gateway.ask(answer).await.expect("it answers");
        }
        until("notified", || notified(&task_manager).last() == Some(&(number.into(), true))).await;
        let newest = f.log.checkpoints().await.pop().expect("a checkpoint");
        let metadata = directory.metadata(&newest.metadata).await.expect("it is stored");
        parts = metadata.handles().cloned().collect();
        assert!(gone(&old).await, "after checkpoint {number}: {old}");
    }
    let mut read = Vec::new();
    for part in &parts {
        read.extend(directory.read(part).await.expect("it is there"));
    }
    assert_eq!(read, [5, 7, 9, 11, 12]);
    assert_eq!(f.status().await, JobStatus::Running);
}

/// The ways in which a job ends that has not lost its leader.
const ENDS: [JobStatus; 3] = [JobStatus::Canceled, JobStatus::Failed, JobStatus::Finished];

#[tokio::test(flavor = "local", start_paused = true)]
async fn checkpoints_outlive_a_job_as_its_retention_says_and_nothing_else_does() {
    for (retention, kept_after) in [
        ("NO_EXTERNALIZED_CHECKPOINTS", &[][..]),
        ("DELETE_ON_CANCELLATION", &[JobStatus::Failed][..]),
        ("RETAIN_ON_CANCELLATION", &[JobStatus::Canceled, JobStatus::Failed][..]),
    ] {
        for end in ENDS {
            let (before, after) = objects_of_a_job_that_ends(retention, end).await;
            let expected = if kept_after.contains(&end) { before } else { Vec::new() };
            assert_eq!(after, expected, "{retention} {end}");
        }
    }
}

/// Runs a job with one complete checkpoint and an object of an incomplete one, ends it, records the end and stops the
/// JobMaster. Returns the names of the complete checkpoint's objects, and those of the job that are left.
async fn objects_of_a_job_that_ends(retention: &str, end: JobStatus) -> (Vec<String>, Vec<String>) {
    let (memory, graph) = (MemoryObjects::new(), graph(1, 1, false));
    let job = graph.job_id;
    let log = log_in(Arc::new(memory.clone()), &graph);
    let options = [
        ("execution.checkpointing.interval", "1 s"),
        ("execution.checkpointing.externalized-checkpoint-retention", retention),
        ("restart-strategy.type", "none"),
    ];
    let (f, task_manager) = running_on(graph, log, &options).await;
    until("triggered", || triggered(&task_manager) == [1]).await;
    let directory = CheckpointDirectory::beside_logs(Arc::new(memory.clone()));
    for attempt in task_manager.attempts() {
        let operator = OperatorId(attempt.vertex.0);
        let state = directory.put_state(job, 1, attempt, operator, vec![1].into());
        let operators = vec![(operator, state.await.expect("a store in memory"))];
        let answer = Ok(SubtaskSnapshot { ended: false, operators, pause_us: 0 });
        let answer = CheckpointAnswer { attempt, checkpoint: 1, answer };
        f.gateway.ask(answer).await.expect("it answers");
    }
    until("notified", || notified(&task_manager) == [(1, true)]).await;
    settle().await;
    let before = checkpoint_objects(&memory).await;
    assert_eq!(before.len(), 3, "the states of two subtasks, and the metadata: {before:?}");
    memory.put(&format!("checkpoints/{job}/chk-2/left"), vec![1].into()).await.unwrap();
    match end {
        JobStatus::Canceled => {
            f.gateway.ask(Cancel {}).await.expect("it answers");
            until("cancelled", || !task_manager.cancelled.all().is_empty()).await;
            task_manager.report(&task_manager.attempts(), ExecutionState::Canceled).await;
        }
        JobStatus::Failed => {
            task_manager.report(&task_manager.attempts()[..1], ExecutionState::Failed).await;
            task_manager.report(&task_manager.attempts()[1..], ExecutionState::Canceled).await;
        }
        _ => {
            task_manager.report(&task_manager.attempts(), ExecutionState::Finished).await;
        }
    }
    assert_eq!(f.ended_as().await, end);
    assert_eq!(checkpoint_objects(&memory).await.len(), 4, "the end is not recorded yet");
    f.log.append_last(JobFact::Removed).await.expect("it leads");
    f.running.addr().send(Stop).await.expect("it lives until then");
    (before, checkpoint_objects(&memory).await)
}
