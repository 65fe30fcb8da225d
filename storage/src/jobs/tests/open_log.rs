use super::*;
use crate::objects::{PutNew, StoreFuture};
use bytes::Bytes;
use model::CheckpointPointer;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// The session of a JobMaster.
fn master(n: u64) -> LeaderSession {
    LeaderSession { epoch: Epoch { store: n, process: 9 }, nonce: n }
}

/// Opens the log of a new job.
async fn opened(objects: &Arc<dyn ObjectStore>) -> OpenJobLog {
    let end = submitted(objects).await;
    OpenJobLog::new(logs(objects), leader(1), end, CheckpointRecords::default())
}

/// Opens the job's log as a later leader does.
async fn taken_over(objects: &Arc<dyn ObjectStore>, epoch: u64) -> OpenJobLog {
    let taken = logs(objects).take_over(JobId(1), None, leader(epoch)).await.unwrap();
    OpenJobLog::new(logs(objects), leader(epoch), taken.end.unwrap(), taken.checkpoints)
}

fn pointer(checkpoint: u64) -> CheckpointPointer {
    let metadata = format!("chk-{checkpoint}");
    CheckpointPointer { checkpoint, metadata, directory: None, claimed: None }
}

async fn complete(log: &OpenJobLog, by: u64, checkpoint: u64) {
    log.record_checkpoint(master(by), pointer(checkpoint), &BTreeSet::new()).await.unwrap();
}

/// The facts about checkpoints in the job's log, as a new leader reads them.
async fn in_log(objects: &Arc<dyn ObjectStore>) -> (Vec<u64>, Vec<u64>) {
    let records = logs(objects).take_over(JobId(1), None, leader(90)).await.unwrap().checkpoints;
    let complete = records.complete.iter().map(|(_, pointer)| pointer.checkpoint).collect();
    (complete, records.numbers.iter().map(|(_, number)| *number).collect())
}

#[tokio::test]
async fn a_number_is_recorded_until_a_newer_one_or_its_checkpoint_is() {
    let objects = memory();
    let log = opened(&objects).await;
    assert_eq!(log.lead(master(1)).await, Ok(None));
    assert_eq!(log.newest_number().await, 0);
    for number in [1, 2, 1] {
        log.record_number(master(1), number).await.unwrap();
    }
    assert_eq!(log.newest_number().await, 2);
    assert_eq!(objects.list("jobs/").await.unwrap().len(), 2, "the graph and number 2");
    complete(&log, 1, 1).await;
    assert_eq!(in_log(&objects).await, (vec![1], vec![2]), "2 may have been triggered");

    let log = taken_over(&objects, 91).await;
    assert_eq!(log.lead(master(2)).await, Ok(Some(pointer(1))));
    assert_eq!((log.newest_number().await, log.checkpoints().await), (2, vec![pointer(1)]));
    log.record_number(master(2), 3).await.unwrap();
    complete(&log, 2, 3).await;
    assert_eq!(log.newest_number().await, 0);
    let log = taken_over(&objects, 92).await;
    assert_eq!((log.newest_number().await, log.checkpoints().await), (0, vec![pointer(3)]));
    let owners = 3;
    assert_eq!(objects.list("jobs/").await.unwrap().len(), 2 + owners, "the log does not grow");
}

#[tokio::test]
async fn only_the_job_master_that_leads_records_a_number() {
    let objects = memory();
    let log = opened(&objects).await;
    let refused = AppendError::Superseded { job: JobId(1), by: None };
    assert_eq!(log.record_number(master(1), 1).await, Err(refused.clone()), "it does not lead yet");
    log.lead(master(1)).await.unwrap();
    log.lead(master(2)).await.unwrap();
    assert_eq!(log.record_number(master(1), 1).await, Err(refused.clone()));
    // An earlier JobMaster that tried again for long takes nothing back.
    assert_eq!(log.lead(master(1)).await, Err(refused.clone()));
    log.record_number(master(2), 1).await.unwrap();
    log.append_last(result(JobStatus::Finished)).await.unwrap();
    assert_eq!(log.record_number(master(2), 2).await, Err(refused));

    let objects = memory();
    let log = opened(&objects).await;
    log.lead(master(1)).await.unwrap();
    state(&objects, 2).await;
    let by = Some(leader(2));
    let superseded = AppendError::Superseded { job: JobId(1), by };
    assert_eq!(log.record_number(master(1), 1).await, Err(superseded));
    assert_eq!(log.newest_number().await, 0);
}

/// A store that writes and then reports a failure, while `lost` is set.
#[derive(Debug)]
struct LosesAnswers {
    inner: MemoryObjects,
    lost: AtomicBool,
}

impl ObjectStore for LosesAnswers {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        self.inner.get(name)
    }
    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
        let (put, lost) = (self.inner.put_new(name, bytes), self.lost.load(Ordering::Relaxed));
        Box::pin(async move {
            let put = put.await;
            let (path, why) = ("memory".to_owned(), "the answer is lost".to_owned());
            if lost { Err(StoreError::Unreachable { path, why }) } else { put }
        })
    }
    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
        self.inner.put(name, bytes)
    }
    fn delete(&self, name: &str) -> StoreFuture<bool> {
        self.inner.delete(name)
    }
    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
        self.inner.list(prefix)
    }
    fn location(&self) -> String {
        self.inner.location()
    }
}

/// A JobMaster whose store fails gives the checkpoint up after a while, and goes on with the next number.
#[tokio::test]
async fn an_append_whose_answer_was_lost_is_settled_before_the_next_one() {
    let store =
        Arc::new(LosesAnswers { inner: MemoryObjects::new(), lost: AtomicBool::new(false) });
    let objects: Arc<dyn ObjectStore> = store.clone();
    let log = opened(&objects).await;
    log.lead(master(1)).await.unwrap();
    let lose = |lost| store.lost.store(lost, Ordering::Relaxed);
    let is_store_error = |error: &AppendError| matches!(error, AppendError::Store(_));

    lose(true);
    assert!(log.record_number(master(1), 1).await.is_err_and(|error| is_store_error(&error)));
    lose(false);
    log.record_number(master(1), 2).await.unwrap();
    assert_eq!((log.checkpoints().await, log.newest_number().await), (vec![], 2));

    // A JobMaster that ends leaves a checkpoint whose record is there. Its successor continues from that.
    lose(true);
    let recorded = log.record_checkpoint(master(1), pointer(2), &BTreeSet::new()).await;
    assert!(recorded.is_err_and(|error| is_store_error(&error)));
    let led = log.lead(master(2)).await;
    assert!(led.is_err_and(|error| is_store_error(&error)), "nothing is known of the log");
    lose(false);
    assert_eq!(log.lead(master(2)).await, Ok(Some(pointer(2))));
    log.record_number(master(2), 4).await.unwrap();

    // The job's result is no other leader's because a JobMaster did not wait for its record.
    lose(true);
    assert!(log.record_number(master(2), 5).await.is_err_and(|error| is_store_error(&error)));
    lose(false);
    log.append_last(result(JobStatus::Finished)).await.unwrap();
    assert_eq!(state(&objects, 2).await, JobState::Ended(entry(1, JobStatus::Finished)));
}
