use super::*;
use crate::job_testing::log_in;
use gateways::job_master::{CheckpointAnswer, TakeSavepoint};
use model::{CheckpointKind, SubtaskSnapshot};
use storage::jobs::Writer;
use storage::objects::{Fault, FaultyObjects, MemoryObjects, StoreError};

const CHECKPOINT: CheckpointKind = CheckpointKind::Checkpoint;
const SAVEPOINT: CheckpointKind = CheckpointKind::Savepoint;
/// Longest that a checkpoint may take, and its answer.
const TIMEOUT: (&str, &str) = ("execution.checkpointing.timeout", "30 s");
const ANSWERED_WITHIN: Duration = Duration::from_secs(40);

/// A job that reads without end, and has the checkpoints only that are asked for.
fn endless() -> JobGraph {
    let mut graph = graph(1, 1, false);
    graph.bounded = false;
    graph.vertices[0].source = true;
    graph
}

/// Starts a JobMaster that continues the job from its log, and a TaskManager that runs its tasks.
async fn continued(log: OpenJobLog) -> (Fixture, TaskManagerDouble) {
    let process = TestProcess::start(&[TIMEOUT]).await;
    let manager = ManagerDouble::lead(&process, 60);
    let f = Fixture::start_on(process, manager, endless(), program_key(&program()), log).await;
    let task_manager = f.deployed("tm1").await;
    task_manager.run_all().await;
    (f, task_manager)
}

/// Opens the job's log as the next leader does.
async fn taken_over(log: &OpenJobLog, leader: u64) -> OpenJobLog {
    let (logs, job) = (log.logs().clone(), log.opened().job);
    let writer = Writer { session: session(leader), address: "next:6123".to_owned() };
    let taken = logs.clone().take_over(job, None, writer.clone()).await.expect("it is newer");
    OpenJobLog::new(logs, writer, taken.end.expect("the job runs"), taken.checkpoints)
}

fn triggered(task_manager: &TaskManagerDouble) -> Vec<u64> {
    task_manager.triggered.all().iter().map(|trigger| trigger.barrier.checkpoint).collect()
}

impl Fixture {
    /// Asks for a checkpoint, or for a savepoint in the directory.
    fn asks_for(
        &self,
        kind: CheckpointKind,
        directory: &str,
    ) -> tokio::task::JoinHandle<Result<String, String>> {
        let directory = kind.is_savepoint().then(|| directory.to_owned());
        let (gateway, ask) = (self.gateway.clone(), TakeSavepoint { kind, directory });
        actix::spawn(async move {
            gateway.ask_within(ask, ANSWERED_WITHIN).await.map_err(|error| error.to_string())
        })
    }

    /// Takes a checkpoint or savepoint, which succeeds or is declined by the tasks. Returns its number.
    async fn takes(
        &self,
        task_manager: &TaskManagerDouble,
        (kind, succeeds): (CheckpointKind, bool),
        directory: &str,
    ) -> u64 {
        let before = triggered(task_manager).len();
        let taken = self.asks_for(kind, directory);
        until("triggered", || triggered(task_manager).len() > before).await;
        let checkpoint = *triggered(task_manager).last().expect("it is triggered");
        for attempt in task_manager.attempts() {
            let answer = match succeeds {
                true => Ok(SubtaskSnapshot::default()),
                false => Err(FailureCause::recoverable("StateNotStored", "the disk is full")),
            };
            let answer = CheckpointAnswer { attempt, checkpoint, answer };
            self.gateway.ask(answer).await.expect("it answers");
        }
        let taken = taken.await.expect("it does not panic");
        assert_eq!(taken.is_ok(), succeeds, "{taken:?}");
        checkpoint
    }
}

/// The kinds of checkpoints that a JobMaster takes, whether each succeeds, and the numbers that they have.
type Life = (&'static [(CheckpointKind, bool)], &'static [u64]);

/// Each JobMaster ends right after what it has taken.
#[tokio::test(flavor = "local", start_paused = true)]
async fn no_job_master_triggers_a_number_of_a_failed_checkpoint_or_of_a_savepoint_again() {
    let tmp = tempfile::tempdir().expect("a directory");
    let directory = tmp.path().display().to_string();
    let lives: [Life; 7] = [
        (&[(CHECKPOINT, false)], &[1]),
        (&[(CHECKPOINT, true)], &[2]),
        // The one before may have given out 3 without a record.
        (&[(CHECKPOINT, false)], &[4]),
        (&[(SAVEPOINT, true)], &[5]),
        (&[(CHECKPOINT, true), (SAVEPOINT, true)], &[6, 7]),
        (&[(SAVEPOINT, true), (CHECKPOINT, false)], &[8, 9]),
        (&[(CHECKPOINT, true)], &[10]),
    ];
    let mut log = log_of(&endless());
    for (leader, (life, numbers)) in (1..).zip(lives) {
        let (f, task_manager) = continued(log.clone()).await;
        for (what, number) in life.iter().zip(numbers) {
            assert_eq!(f.takes(&task_manager, *what, &directory).await, *number, "{leader}");
        }
        assert_eq!(triggered(&task_manager), numbers);
        f.running.addr().send(Stop).await.expect("it lives until then");
        log = taken_over(&log, leader).await;
    }
    let kept: Vec<_> = log.checkpoints().await.iter().map(|kept| kept.checkpoint).collect();
    assert_eq!((kept, log.newest_number().await), (vec![10], 0), "the log does not grow");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn nothing_is_triggered_before_the_number_is_in_the_jobs_log() {
    let store = FaultyObjects::new(Arc::new(MemoryObjects::new()));
    let log = log_in(Arc::new(store.clone()), &endless());
    let (f, task_manager) = continued(log).await;
    store.set_writes(Fault::Hang);
    let _taken = f.asks_for(CHECKPOINT, "");
    until("the record hangs", || store.waiting() == 1).await;
    seconds(20).await;
    assert!(triggered(&task_manager).is_empty());
    store.set_writes(Fault::None);
    until("triggered", || triggered(&task_manager) == [1]).await;
    assert_eq!(f.log.newest_number().await, 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_store_that_takes_no_number_fails_the_checkpoint_and_the_next_one_has_another_number() {
    for fault in [Fault::Hang, Fault::Fail(StoreError::DiskFull { path: "/ha/job".to_owned() })] {
        let store = FaultyObjects::new(Arc::new(MemoryObjects::new()));
        let log = log_in(Arc::new(store.clone()), &endless());
        let (f, task_manager) = continued(log).await;
        store.set_writes(fault.clone());
        let taken = f.asks_for(CHECKPOINT, "").await.expect("it does not panic");
        let why = taken.expect_err("its number is not recorded");
        assert!(why.contains("its number is not recorded in the job's log"), "{why}");
        if let Fault::Fail(error) = fault {
            assert!(why.contains(&error.to_string()), "{why}");
            assert!(why.contains("high-availability.storageDir"), "{why}");
        }
        assert!(triggered(&task_manager).is_empty());
        store.set_writes(Fault::None);
        assert_eq!(f.takes(&task_manager, (CHECKPOINT, true), "").await, 2);
        assert_eq!(f.status().await, JobStatus::Running);
    }
}
