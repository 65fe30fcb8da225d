use super::*;
use gateways::job_master::CheckpointAnswer;
use model::SubtaskSnapshot;

/// A job whose two tasks run on one TaskExecutor, with a checkpoint every second.
async fn running(options: &[(&str, &str)]) -> (Fixture, WorkerDouble) {
    let mut all = vec![("execution.checkpointing.interval", "1 s")];
    all.extend_from_slice(PATIENT);
    all.extend_from_slice(options);
    let f = Fixture::start(graph(1, 1, false), &all).await;
    let worker = f.worker("tm1", Deployments::Take).await;
    worker.offer(&[1]).await;
    until("deployed", || worker.attempts().len() == 2).await;
    worker.report(&worker.attempts(), ExecutionState::Running).await;
    (f, worker)
}

impl Fixture {
    async fn answer(
        &self,
        worker: &WorkerDouble,
        checkpoint: u64,
        answer: Result<SubtaskSnapshot, String>,
    ) {
        for attempt in worker.attempts().into_iter().rev().take(2) {
            let answer = answer.clone();
            let answer = CheckpointAnswer { attempt, checkpoint, answer };
            self.gateway.ask(answer).await.expect("it answers");
        }
    }
}

fn triggered(worker: &WorkerDouble) -> Vec<u64> {
    worker.triggered.all().iter().map(|trigger| trigger.barrier.checkpoint).collect()
}

fn notified(worker: &WorkerDouble) -> Vec<(u64, bool)> {
    worker.notified.all().iter().map(|notify| (notify.checkpoint, notify.complete)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_in_the_jobs_log_before_tasks_hear_that_it_is_complete() {
    local(async {
        let (f, worker) = running(&[]).await;
        until("triggered", || triggered(&worker) == [1]).await;
        let sources = worker.triggered.all()[0].attempts.clone();
        assert_eq!(sources.len(), 1, "the other task has no source");
        f.answer(&worker, 1, Ok(SubtaskSnapshot::default())).await;
        until("notified", || notified(&worker) == [(1, true)]).await;
        assert_eq!(worker.notified.all()[0].attempts.len(), 2);
        until("triggered again", || triggered(&worker) == [1, 2]).await;
        // Whoever leads the job next goes on from it.
        let pointer = f.log.lead(session(FENCE + 1)).await.expect("a checkpoint");
        assert_eq!(pointer.checkpoint, 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_superseded_jobmaster_completes_no_checkpoint() {
    local(async {
        let (f, worker) = running(&[]).await;
        until("triggered", || triggered(&worker) == [1]).await;
        f.log.lead(session(FENCE + 1)).await;
        f.answer(&worker, 1, Ok(SubtaskSnapshot::default())).await;
        seconds(20).await;
        assert_eq!((notified(&worker), triggered(&worker)), (vec![], vec![1]));
        assert_eq!(f.log.lead(session(FENCE + 2)).await, None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_a_task_declines_restarts_the_job_unless_it_is_tolerated() {
    local(async {
        let (f, worker) =
            running(&[("execution.checkpointing.tolerable-failed-checkpoints", "1")]).await;
        for (checkpoint, status) in [(1, JobStatus::Running), (2, JobStatus::Restarting)] {
            until("triggered", || triggered(&worker).last() == Some(&checkpoint)).await;
            f.answer(&worker, checkpoint, Err("the disk is full".to_owned())).await;
            assert_eq!(f.status().await, status);
        }
        let failure = &f.details().await.failures[0];
        assert_eq!(failure.cause.kind, "CheckpointFailed");
        assert!(failure.cause.message.contains("the disk is full"), "{failure:?}");
        assert_eq!(notified(&worker)[0], (1, false));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_cannot_be_used_fails_the_job_and_is_named() {
    local(async {
        let graph = graph(1, 1, false);
        let f = Fixture::start(
            graph,
            &[("execution.checkpointing.dir", "gopher://nowhere/checkpoints")],
        )
        .await;
        assert_eq!(f.ended_as().await, JobStatus::Failed);
        let cause = f.ended.all()[0].details.cause.clone().expect("a cause");
        assert!(cause.message.contains("gopher://nowhere/checkpoints"), "{cause}");
    })
    .await;
}
