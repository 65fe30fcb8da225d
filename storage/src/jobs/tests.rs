mod open_log;

use super::log::name_of;
use super::*;
use crate::ha::Lease;
use crate::objects::{Fault, FaultyObjects, FileObjects, MemoryObjects, ObjectStore};
use model::testing::vertex;
use model::{
    ContentHash, Epoch, ExecutionState, FailureCause, JobGraph, JobId, JobStatus, LeaderSession,
    ProgramRef,
};
use platform::{Platform, inproc::InProcessNetwork};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn graph(job: u128) -> Arc<JobGraph> {
    let program = ProgramRef {
        hash: ContentHash([7; 32]),
        name: "words".into(),
        size: 10,
        args: vec!["--input".into()],
        once: BTreeMap::from([("seed".into(), vec![0, 255, 1])]),
        ..ProgramRef::default()
    };
    let graph = model::testing::graph(vec![vertex(3, 2)], vec![]);
    Arc::new(JobGraph { job_id: JobId(job), name: format!("job {job}"), program, ..graph })
}

fn entry(job: u128, status: JobStatus) -> Box<JobResultEntry> {
    Box::new(JobResultEntry {
        job_id: JobId(job),
        name: format!("job {job}"),
        status,
        cause: Some(FailureCause::recoverable("UserError", "it broke")),
        start_ms: 5,
        end_ms: 9,
        last_modification_ms: 9,
        tasks: BTreeMap::from([(ExecutionState::Finished, 2)]),
        details: Some(("archive/x".into(), 12)),
    })
}

fn leader(epoch: u64) -> Writer {
    let session = LeaderSession { epoch: Epoch { store: epoch, process: 1 }, nonce: 77 };
    Writer { session, address: format!("jm-{epoch}:6123") }
}

fn logs(objects: &Arc<dyn ObjectStore>) -> JobLogs {
    let platform = Platform::simulated(1, Arc::new(InProcessNetwork::new()));
    JobLogs::new(Arc::clone(objects), platform, Lease::endless())
}

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(MemoryObjects::new())
}

/// Returns the id of a log that the leader of this epoch creates.
fn log(epoch: u64, count: u64) -> LogId {
    LogId { creator: leader(epoch).session, count }
}

/// Creates the log of a job that leader 1 has submitted.
async fn submitted(objects: &Arc<dyn ObjectStore>) -> LogEnd {
    logs(objects).create(graph(1), log(1, 0), leader(1)).await.unwrap()
}

async fn state(objects: &Arc<dyn ObjectStore>, epoch: u64) -> JobState {
    logs(objects).take_over(JobId(1), None, leader(epoch)).await.unwrap().state
}

fn result(status: JobStatus) -> JobFact {
    JobFact::Result(entry(1, status))
}

#[tokio::test]
async fn a_job_is_created_once_owned_ended_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let files: Arc<dyn ObjectStore> = Arc::new(FileObjects::open(dir.path()).unwrap());
    for objects in [memory(), files] {
        let logs = logs(&objects);
        let end = submitted(&objects).await;
        let again = logs.clone().create(graph(1), log(1, 1), leader(1)).await;
        assert_eq!(again, Err(AppendError::Exists { job: JobId(1) }));
        assert_eq!(logs.clone().list().await.unwrap(), [JobId(1)]);
        let taken = logs.clone().take_over(JobId(1), None, leader(2)).await.unwrap();
        assert_eq!(taken.state, JobState::Running(graph(1)));
        let lost = logs.clone().append(end, result(JobStatus::Failed), leader(1)).await;
        let by = Some(leader(2));
        assert_eq!(lost, Err(AppendError::Superseded { job: JobId(1), by }));
        let finished = result(JobStatus::Finished);
        let end = logs.clone().append(taken.end.unwrap(), finished, leader(2)).await.unwrap();
        let ended = logs.clone().take_over(JobId(1), None, leader(3)).await.unwrap();
        assert_eq!(ended.state, JobState::Ended(entry(1, JobStatus::Finished)));
        assert_eq!(ended.end, Some(end), "an ended job needs no owner");
        logs.clone().append(end, JobFact::Removed, leader(3)).await.unwrap();
        assert_eq!(state(&objects, 4).await, JobState::Removed);
        logs.clone().delete(JobId(1), &[end.log]).await.unwrap();
        assert_eq!(objects.list("").await.unwrap(), Vec::<String>::new());
        submitted(&objects).await;
    }
}

/// Leader A has read the log and is stopped before it writes; B takes over meanwhile.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_stopped_between_look_and_write_is_superseded() {
    let objects = memory();
    let slow = FaultyObjects::new(objects.clone());
    let end = submitted(&objects).await;
    slow.set_writes(Fault::Hang);
    let stopped = logs(&(Arc::new(slow.clone()) as Arc<dyn ObjectStore>));
    let mut write = Box::pin(stopped.append(end, result(JobStatus::Failed), leader(1)));
    assert!(tokio::time::timeout(Duration::from_secs(9), &mut write).await.is_err());
    assert_eq!(state(&objects, 2).await, JobState::Running(graph(1)));
    slow.set_writes(Fault::None);
    let by = Some(leader(2));
    assert_eq!(write.await, Err(AppendError::Superseded { job: JobId(1), by }));
    assert_eq!(state(&objects, 3).await, JobState::Running(graph(1)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_over_writes_nothing() {
    let objects = memory();
    let end = submitted(&objects).await;
    let (platform, lease) =
        (Platform::simulated(1, Arc::new(InProcessNetwork::new())), Lease::default());
    lease.set(Some(Duration::from_secs(3)));
    let logs = JobLogs::new(objects.clone(), platform, lease);
    let end = logs.clone().append(end, JobFact::Owner, leader(1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let late = logs.clone().append(end, result(JobStatus::Failed), leader(1)).await;
    assert_eq!(late, Err(AppendError::LeaseOver { job: JobId(1) }));
    let deleted = logs.delete(JobId(1), &[end.log]).await;
    assert_eq!(deleted, Err(AppendError::LeaseOver { job: JobId(1) }));
    assert_eq!(objects.list("jobs/").await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_stored_after_the_lease_is_over_is_not_acknowledged() {
    let slow = FaultyObjects::new(memory());
    slow.set(Fault::Slow(Duration::from_secs(4)));
    let lease = Lease::default();
    lease.set(Some(Duration::from_secs(3)));
    let platform = Platform::simulated(1, Arc::new(InProcessNetwork::new()));
    let logs = JobLogs::new(Arc::new(slow), platform, lease);
    let late = logs.create(graph(1), log(1, 0), leader(1)).await;
    assert_eq!(late, Err(AppendError::LeaseOver { job: JobId(1) }));
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_succeeds_when_it_is_repeated() {
    let objects = memory();
    let logs = logs(&objects);
    let end = submitted(&objects).await;
    assert_eq!(logs.clone().create(graph(1), log(1, 0), leader(1)).await, Ok(end));
    let first = logs.clone().append(end, result(JobStatus::Failed), leader(1)).await;
    let again = logs.clone().append(end, result(JobStatus::Failed), leader(1)).await;
    assert_eq!(first, again);
    let other = logs.append(end, result(JobStatus::Finished), leader(1)).await;
    assert!(matches!(other, Err(AppendError::Superseded { .. })), "{other:?}");
}

#[tokio::test]
async fn a_refused_submission_never_touches_the_log_of_an_accepted_job() {
    let objects = memory();
    submitted(&objects).await;
    let before = objects.list("").await.unwrap();
    let faulty = FaultyObjects::new(Arc::clone(&objects));
    let why = "permission denied".to_owned();
    faulty.set_reads(Fault::Fail(StoreError::Io { path: "jobs".to_owned(), why }));
    let store: Arc<dyn ObjectStore> = Arc::new(faulty);
    let refused = logs(&store).create(graph(1), log(2, 0), leader(2)).await;
    assert!(matches!(refused, Err(AppendError::Store(_))), "{refused:?}");
    assert_eq!(objects.list("").await.unwrap(), before);
    assert!(matches!(state(&objects, 3).await, JobState::Running(_)));
}

#[tokio::test]
async fn what_is_appended_to_a_log_that_was_deleted_is_no_job_and_does_not_reach_the_next_one() {
    let objects = memory();
    let logs = logs(&objects);
    let end = submitted(&objects).await;
    logs.clone().append(end, JobFact::Removed, leader(1)).await.unwrap();
    logs.clone().delete(JobId(1), &[end.log]).await.unwrap();
    // An old leader appends without knowing that the job was removed.
    logs.clone().append(end, result(JobStatus::Failed), leader(1)).await.unwrap();
    assert_eq!(state(&objects, 2).await, JobState::Ghost);
    // The job id is used again: the old record does not block the new log.
    let end = logs.clone().create(graph(1), log(2, 0), leader(2)).await.unwrap();
    logs.clone().append(end, result(JobStatus::Finished), leader(2)).await.unwrap();
    let ended = JobState::Ended(entry(1, JobStatus::Finished));
    assert_eq!(state(&objects, 3).await, ended);
}

/// Leader A hangs in the deletion of a forgotten job. Leader B deletes the rest, and the same job id is submitted again,
/// runs and ends. Then A's deletions take effect.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_takes_effect_late_does_not_reach_a_new_job_of_the_same_id() {
    let objects = memory();
    let slow = FaultyObjects::new(objects.clone());
    let a: Arc<dyn ObjectStore> = Arc::new(slow.clone());
    let end = submitted(&objects).await;
    let details = |objects: &Arc<dyn ObjectStore>| DetailsStore::new(objects.clone());
    details(&objects).put(archive_name(end, leader(1).session), "old".into()).await.unwrap();
    logs(&objects).append(end, JobFact::Removed, leader(1)).await.unwrap();
    slow.set_writes(Fault::Hang);
    let (old, log_a, details_a) = ([end.log], logs(&a), details(&a));
    let mut late = Box::pin(async {
        tokio::join!(log_a.delete(JobId(1), &old), details_a.delete_job(JobId(1), &old))
    });
    assert!(tokio::time::timeout(Duration::from_secs(9), &mut late).await.is_err());

    let taken = logs(&objects).take_over(JobId(1), None, leader(2)).await.unwrap();
    assert_eq!((taken.state, taken.end, &*taken.stale), (JobState::Removed, None, &old[..]));
    details(&objects).delete_job(JobId(1), &taken.stale).await.unwrap();
    logs(&objects).delete(JobId(1), &taken.stale).await.unwrap();
    let end = logs(&objects).create(graph(1), log(2, 0), leader(2)).await.unwrap();
    let end = logs(&objects).append(end, result(JobStatus::Finished), leader(2)).await.unwrap();
    details(&objects).put(archive_name(end, leader(2).session), "new".into()).await.unwrap();
    let before = objects.list("").await.unwrap();
    assert_eq!(before.len(), 3);
    slow.set_writes(Fault::None);
    assert_eq!(late.await, (Ok(()), Ok(())));
    assert_eq!(objects.list("").await.unwrap(), before);
    assert_eq!(state(&objects, 3).await, JobState::Ended(entry(1, JobStatus::Finished)));
}

/// Record 0 of leader A, which was never acknowledged, appears after leader B has accepted the same job id. B ends
/// before it has marked its take-over.
#[tokio::test]
async fn of_two_logs_of_a_job_the_one_that_was_created_last_counts() {
    let objects = memory();
    let elsewhere = memory();
    logs(&objects).create(graph(1), log(2, 9), leader(2)).await.unwrap();
    submitted(&elsewhere).await;
    let name = name_of(JobId(1), log(1, 0), 0);
    objects.put(&name, elsewhere.get(&name).await.unwrap().unwrap()).await.unwrap();
    let taken = logs(&objects).take_over(JobId(1), None, leader(3)).await.unwrap();
    assert_eq!(taken.state, JobState::Running(graph(1)));
    assert_eq!((taken.end.unwrap().log, taken.stale), (log(2, 9), vec![log(1, 0)]));
}

#[tokio::test]
async fn a_withdrawn_submission_is_no_job_however_late_its_record_appears() {
    let objects = memory();
    let end = submitted(&memory()).await;
    logs(&objects).append(end, JobFact::Removed, leader(1)).await.unwrap();
    assert_eq!(state(&objects, 2).await, JobState::Ghost);
    submitted(&objects).await;
    assert_eq!(state(&objects, 2).await, JobState::Removed);
}

#[tokio::test]
async fn a_job_that_an_old_leader_submits_after_the_take_over_is_a_ghost() {
    let objects = memory();
    let logs = logs(&objects);
    submitted(&objects).await;
    assert_eq!(logs.clone().newest_mark(leader(2).session).await, Ok(None));
    logs.clone().take_over(JobId(1), None, leader(2)).await.unwrap();
    logs.clone().mark_taken_over(leader(2).session).await.unwrap();
    logs.clone().create(graph(2), log(1, 1), leader(1)).await.unwrap();
    logs.clone().create(graph(3), log(2, 0), leader(2)).await.unwrap();
    let mark = logs.clone().newest_mark(leader(3).session).await.unwrap();
    assert_eq!(mark, Some(leader(2).session));
    let mut states = Vec::new();
    for job in logs.clone().list().await.unwrap() {
        states.push(logs.clone().take_over(job, mark, leader(3)).await.unwrap().state);
    }
    let running = |job| JobState::Running(graph(job));
    assert_eq!(states, [running(1), JobState::Ghost, running(3)]);
    logs.clone().mark_taken_over(leader(3).session).await.unwrap();
    assert_eq!(objects.list("jobs/taken-over/").await.unwrap().len(), 1);
    assert_eq!(logs.newest_mark(leader(3).session).await, Ok(None));
}

#[tokio::test]
async fn an_older_leader_takes_nothing_over() {
    let objects = memory();
    submitted(&objects).await;
    state(&objects, 3).await;
    let late = logs(&objects).take_over(JobId(1), None, leader(2)).await;
    let by = Some(leader(3));
    assert_eq!(late, Err(AppendError::Superseded { job: JobId(1), by }));
}

/// Overwrites a record's object with bytes that are no record.
async fn damage(objects: &Arc<dyn ObjectStore>, number: u64) {
    let name = name_of(JobId(1), log(1, 0), number);
    objects.put(&name, "FJL1 nonsense".into()).await.unwrap();
}

#[tokio::test]
async fn damage_costs_the_job_and_is_named() {
    let objects = memory();
    let end = submitted(&objects).await;
    let owned = logs(&objects).append(end, JobFact::Owner, leader(1)).await.unwrap();
    damage(&objects, 1).await;
    let JobState::Damaged { graph: Some(found), why } = state(&objects, 2).await else {
        panic!("the damaged record may have been a result");
    };
    assert_eq!(found, graph(1));
    assert!(why.contains(&name_of(JobId(1), log(1, 0), 1)), "{why}");
    let end = logs(&objects).take_over(JobId(1), None, leader(3)).await.unwrap().end.unwrap();
    assert_ne!(end, owned);
    logs(&objects).append(end, result(JobStatus::Failed), leader(3)).await.unwrap();
    damage(&objects, 0).await;
    let ended = JobState::Ended(entry(1, JobStatus::Failed));
    assert_eq!(state(&objects, 4).await, ended, "how it ended is known");
}

#[tokio::test]
async fn a_damaged_graph_leaves_a_job_that_can_be_ended() {
    let objects = memory();
    submitted(&objects).await;
    damage(&objects, 0).await;
    let taken = logs(&objects).take_over(JobId(1), None, leader(2)).await.unwrap();
    assert!(matches!(taken.state, JobState::Damaged { graph: None, .. }), "{:?}", taken.state);
    logs(&objects).append(taken.end.unwrap(), result(JobStatus::Failed), leader(2)).await.unwrap();
    assert_eq!(state(&objects, 3).await, JobState::Ended(entry(1, JobStatus::Failed)));
}

#[tokio::test]
async fn details_are_read_back_and_damage_is_named() {
    let objects = memory();
    let details = DetailsStore::new(objects.clone());
    let end = submitted(&memory()).await;
    let name = archive_name(end, leader(1).session);
    let bytes = DetailsStore::encode(&*graph(1)).unwrap();
    details.clone().put(name.clone(), bytes).await.unwrap();
    assert_eq!(details.clone().get::<JobGraph>(name.clone()).await, Ok(Some((*graph(1)).clone())));
    let other = archive_name(end, leader(2).session);
    assert_ne!(name, other, "another leader's details are another object");
    assert_eq!(details.clone().get::<JobGraph>(other).await, Ok(None));
    objects.put(&name, "nonsense".into()).await.unwrap();
    let error = details.clone().get::<JobGraph>(name.clone()).await.unwrap_err();
    assert!(error.to_string().contains(&name), "{error}");
    details.delete_job(JobId(1), &[end.log]).await.unwrap();
    assert_eq!(objects.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn failures_within_failures_without_end_do_not_exhaust_the_stack() {
    let objects = memory();
    // A map with one field: a list of one such map.
    let level = [b"\x81\xaaconcurrent".as_slice(), b"\x91"].concat();
    objects.put("archive/x", level.repeat(100_000).into()).await.unwrap();
    let details = DetailsStore::new(objects);
    let error = details.get::<model::job::FailureRecord>("archive/x".into()).await.unwrap_err();
    assert!(error.to_string().contains("depth"), "{error}");
}

#[tokio::test]
async fn clearing_removes_everything_about_jobs() {
    let objects = memory();
    submitted(&objects).await;
    objects.put("archive/1/x", "x".into()).await.unwrap();
    objects.put("leader/epoch-1", "x".into()).await.unwrap();
    clear(&*objects).await.unwrap();
    assert_eq!(objects.list("").await.unwrap(), ["leader/epoch-1"]);
}

#[derive(Debug, Clone)]
enum Move {
    /// A leader takes the job over.
    TakeOver(u64),
    /// A leader that has taken over records the job's end: finished if true, failed otherwise.
    End(u64, bool),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        (1..5u64).prop_map(Move::TakeOver),
        (1..5u64, any::<bool>()).prop_map(|(leader, good)| Move::End(leader, good)),
    ];
    prop::collection::vec(one, 0..20)
}

proptest! {
    /// In any order of take-overs and ends, the first result stays, and no leader records a result after one with a
    /// higher session has taken over.
    #[test]
    fn the_first_result_of_the_newest_owner_wins(moves in moves()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let objects = memory();
            let mut ends = BTreeMap::from([(1, submitted(&objects).await)]);
            let (mut owner, mut first) = (1, None);
            for one in moves {
                match one {
                    Move::TakeOver(epoch) => {
                        let taken = logs(&objects).take_over(JobId(1), None, leader(epoch)).await;
                        match (taken, &first) {
                            (Ok(taken), None) => {
                                assert!(epoch >= owner && matches!(taken.state, JobState::Running(_)));
                                owner = epoch;
                                ends.insert(epoch, taken.end.unwrap());
                            }
                            (Ok(taken), Some(status)) => {
                                assert_eq!(taken.state, JobState::Ended(entry(1, *status)));
                            }
                            (Err(error), _) => {
                                assert!(epoch < owner, "{error}");
                            }
                        }
                    }
                    Move::End(epoch, good) => {
                        let Some(end) = ends.get(&epoch) else { continue };
                        let status = if good { JobStatus::Finished } else { JobStatus::Failed };
                        let ended = logs(&objects).append(*end, result(status), leader(epoch)).await;
                        let may = epoch == owner && first.is_none_or(|first| first == status);
                        assert_eq!(ended.is_ok(), may, "{:?}", ended);
                        if may { first = Some(status); }
                    }
                }
            }
            let found = state(&objects, 9).await;
            let expected = match first {
                Some(status) => JobState::Ended(entry(1, status)),
                None => JobState::Running(graph(1)),
            };
            assert_eq!(found, expected);
        });
    }

    #[test]
    fn a_log_id_is_its_text(store in any::<u64>(), process in any::<u64>(), nonce in any::<u64>(), count in any::<u64>()) {
        let epoch = Epoch { store, process };
        let id = LogId { creator: LeaderSession { epoch, nonce }, count };
        prop_assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let framed = [b"FJL1".as_slice(), &bytes].concat();
        let _ = (JobRecord::try_decode(&bytes), JobRecord::try_decode(&framed));
    }
}
