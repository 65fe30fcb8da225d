//! Tasks: deployed, cancelled, reported; JobMasters lost, silent and changed; hosts that die; logs.

use super::super::host_calls::{HostCall, make_calls};
use super::*;
use gateways::job_master::CoordinationError;
use gateways::program_host::NotifyOnHost;
use gateways::task_executor::{
    CancelTasks, DeployError, DisconnectJobMaster, ForwardOperatorEvent, LogError,
    NotifyCheckpoint, ReadLog, RequestLogs,
};
use gateways::{Principal, TraceContext};
use model::{FailureCause, OperatorId};
use tokio::sync::{mpsc, oneshot};

#[tokio::test(flavor = "local", start_paused = true)]
async fn deployments_are_checked_three_ways_and_forwarded() {
    let mut s = Setup::new().await;
    let _serving = s.serve().await;
    let mut unknown = s.deploy(&[0], A);
    unknown.job_id = JobId(9);
    let answer = s.as_master(1).ask(unknown).await;
    assert_eq!(refused::<DeployTasks>(answer), DeployError::NoJobMaster { job: JobId(9) });
    for wrong in [0, 2] {
        let mut other = s.deploy(&[0], A);
        other.job_master_id = jm(wrong);
        let answer = s.as_master(wrong).ask(other).await;
        assert_eq!(refused::<DeployTasks>(answer), DeployError::OtherJobMaster);
    }
    let answer = s.as_master(2).ask(s.deploy(&[0], A)).await;
    assert_eq!(refused::<DeployTasks>(answer), DeployError::OtherJobMaster);
    let mut mixed = s.deploy(&[0, 1], A);
    mixed.tasks[1].allocation_id = B;
    let te = s.as_master(1);
    let on_host = async {
        let deploy = s.host.next::<DeployToHost>().await.answer(Ok(vec![]));
        let tasks: Vec<_> = deploy.deployment.tasks.iter().map(|task| task.attempt).collect();
        assert_eq!(tasks, [attempt(0)]);
        assert_eq!(deploy.devices[&A]["gpu"], 0..2, "the first of two slots");
    };
    let (answer, ()) = futures::join!(te.ask(mixed), on_host);
    let no_slot = DeployError::NoSuchAllocation { allocation_id: B, job: JOB };
    assert_eq!(answer, Ok(vec![(attempt(1), no_slot)]));
    // Repeated, because its answer was lost: nothing is started twice.
    assert_eq!(te.ask(s.deploy(&[0], A)).await, Ok(vec![]));
    s.host.silent_for(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_the_host_refuses_is_not_there() {
    let mut s = Setup::new().await;
    let serving = s.serve().await;
    let te = s.as_master(1);
    let differs = DeployError::Host("it built another graph".into());
    let (two, third) = (s.deploy(&[0, 1], A), s.deploy(&[2], A));
    let refuse_one = async {
        let refused = vec![(attempt(1), differs.clone())];
        s.host.next::<DeployToHost>().await.answer(Ok(refused));
    };
    let (answer, ()) = futures::join!(te.ask(two), refuse_one);
    assert_eq!(answer, Ok(vec![(attempt(1), differs.clone())]));
    let refuse_all = async {
        s.host.next::<DeployToHost>().await.answer(Err(differs.clone()));
    };
    let (answer, ()) = futures::join!(te.ask(third), refuse_all);
    assert_eq!(refused::<DeployTasks>(answer), differs);
    let (_, tasks) = newest_payload(&s, &serving).await;
    let there: Vec<_> = tasks.iter().map(|task| task.attempt).collect();
    assert_eq!(there, [attempt(0)]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stack_overflow_during_a_deployment_is_told_by_its_signal() {
    let s = Setup::new().await;
    let services = &s.world.services;
    let address = EndpointAddress::new(NodeAddress::new("host:7-0"), "program_host");
    let gone = services.rpc.gateway(&address, services.session);
    let (exit, (calls, queue)) = (platform::watch::Sender::new(None), mpsc::channel(1));
    let made = make_calls(gone, queue, exit.subscribe());
    let (reply, answer) = oneshot::channel();
    let deployment = DeployToHost { deployment: s.deploy(&[0], A), devices: BTreeMap::new() };
    assert!(calls.send((TraceContext::NONE, HostCall::Deploy(deployment, reply))).await.is_ok());
    drop(calls);
    let ends = async {
        ms(100).await;
        exit.send_replace(Some("the program host ended: was ended by SIGABRT".to_owned()));
        answer.await.unwrap()
    };
    let ((), answer) = futures::join!(made, ends);
    let how = DeployError::Host("the program host ended: was ended by SIGABRT".to_owned());
    assert_eq!(answer, Err(how));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn states_reach_the_job_master_in_order_again_and_again_until_they_are_taken() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0, 1]).await;
    s.report(vec![state(0, ExecutionState::Canceling)]).await;
    let lost = serving.master.next::<UpdateTaskStates>().await;
    s.report(vec![state(0, ExecutionState::Canceled), state(1, ExecutionState::Finished)]).await;
    let again = serving.master.next::<UpdateTaskStates>().await;
    let all = [
        state(0, ExecutionState::Canceling),
        state(0, ExecutionState::Canceled),
        state(1, ExecutionState::Finished),
    ];
    assert_eq!(again.body.updates, all);
    let (_, tasks) = newest_payload(&s, &serving).await;
    assert_eq!(tasks.len(), 2, "ended tasks are listed until their end was taken");
    again.answer(Ok(vec![]));
    lost.answer(Ok(vec![]));
    ms(1).await;
    assert_eq!(newest_payload(&s, &serving).await, (vec![A], vec![]));
    serving.master.silent_for(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn unknown_attempts_are_cancelled_and_so_are_those_its_master_names() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0, 1]).await;
    s.report(vec![state(0, ExecutionState::Canceling)]).await;
    serving.master.next::<UpdateTaskStates>().await.answer(Ok(vec![attempt(0)]));
    let cancelled = s.host.next::<CancelOnHost>().await.answer(Ok(()));
    assert_eq!(cancelled.attempts, [attempt(0)]);
    let cancel = |n| CancelTasks { job_id: JOB, attempts: vec![attempt(n)] };
    for wrong in [0, 2] {
        s.as_master(wrong).ask(cancel(1)).await.unwrap();
    }
    s.te.ask(cancel(1)).await.unwrap();
    s.host.silent_for(Duration::from_secs(1)).await;
    s.as_master(1).ask(cancel(1)).await.unwrap();
    s.as_master(1).ask(cancel(7)).await.unwrap();
    let cancelled = s.host.next::<CancelOnHost>().await.answer(Ok(()));
    assert_eq!(cancelled.attempts, [attempt(1)]);
    s.host.silent_for(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_cancellation_that_a_host_does_not_answer_is_repeated() {
    let mut s = Setup::new().await;
    let _serving = s.run_tasks(&[0, 1]).await;
    s.as_master(1).ask(CancelTasks { job_id: JOB, attempts: vec![attempt(1)] }).await.unwrap();
    let lost = s.host.next::<CancelOnHost>().await;
    let again = s.host.next::<CancelOnHost>().await.answer(Ok(()));
    assert_eq!((&lost.body.attempts, &again.attempts), (&vec![attempt(1)], &vec![attempt(1)]));
    s.host.silent_for(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_dead_host_fails_its_tasks_by_name_then_its_slots() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0]).await;
    let killed = HostExit { cause: "killed by SIGKILL".into(), released: false };
    serving.exit.answer(Ok(Some(killed)));
    let told = serving.master.next::<UpdateTaskStates>().await.answer(Ok(vec![]));
    let cause = told.updates[0].cause.clone().unwrap();
    assert_eq!(
        (told.updates[0].state, cause.kind.as_str()),
        (ExecutionState::Failed, "ProgramHostLost")
    );
    assert!(
        cause.message.contains("tm-1") && cause.message.contains("killed by SIGKILL"),
        "{cause}"
    );
    let slot = serving.master.next::<FailSlot>().await.answer(Ok(()));
    assert_eq!((slot.allocation_id, slot.cause), (A, cause));
    s.manager.next::<NotifySlotAvailable>().await.answer(Ok(()));
    serving.master.next::<DisconnectTaskManager>().await.answer(Ok(()));
    // A new slot of the job starts a new host.
    s.request_slot(1, B, &serving.master).await;
    let _exit = s.launch().await;
    s.connect(&mut serving.master).await;
    serving.master.next::<OfferSlots>().await.answer(Ok(vec![B]));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_silent_job_masters_tasks_are_killed_before_it_may_declare_them_dead() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0]).await;
    let last_beat = tokio::time::Instant::now();
    serving.beats = None;
    let kill = s.keeper.next::<ReleaseHost>().await;
    let after = last_beat.elapsed().as_millis();
    assert!(kill.body.at_once);
    assert!((2_000..=3_200).contains(&after), "{after} ms; the time-out is 5000");
    kill.answer(Ok(()));
    let told = serving.master.next::<UpdateTaskStates>().await;
    assert_eq!(told.body.updates[0].cause.as_ref().unwrap().kind, "Fenced");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_lost_job_master_is_looked_for_again_and_gets_the_slots_with_a_new_host() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0]).await;
    let mut next = s.job_master(2);
    s.lead(Component::JobMaster(JOB), &next);
    let kill = s.keeper.next::<ReleaseHost>().await;
    assert!(kill.body.at_once);
    serving.master.next::<DisconnectTaskManager>().await.answer(Ok(()));
    s.connect(&mut next).await;
    let _beats = s.job_master_beats(2);
    s.keeper.silent_for(Duration::from_secs(1)).await;
    kill.answer(Ok(()));
    let _exit = s.launch().await;
    let offer = next.next::<OfferSlots>().await.answer(Ok(vec![A]));
    assert_eq!(offer.slots[0].allocation_id, A);
    let answer = s.as_master(1).ask(s.deploy(&[0], A)).await;
    assert_eq!(refused::<DeployTasks>(answer), DeployError::OtherJobMaster);
    s.manager.silent_for(Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_disconnect_counts_only_from_the_connected_job_master() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0]).await;
    let bye = |n| DisconnectJobMaster {
        job_id: JOB,
        job_master_id: jm(n),
        cause: FailureCause::recoverable("JobEnded", "the job has ended"),
    };
    for wrong in [0, 2] {
        s.as_master(wrong).ask(bye(wrong)).await.unwrap();
        s.as_master(wrong).ask(bye(1)).await.unwrap();
    }
    s.keeper.silent_for(Duration::from_secs(1)).await;
    s.as_master(1).ask(bye(1)).await.unwrap();
    s.keeper.next::<ReleaseHost>().await.answer(Ok(()));
    serving.master.next::<DisconnectTaskManager>().await.answer(Ok(()));
    // Nobody takes the slot: it is freed in time.
    serving.master.vanish();
    let before = tokio::time::Instant::now();
    s.manager.next::<NotifySlotAvailable>().await.answer(Ok(()));
    assert_eq!(before.elapsed().as_secs(), 10);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_notification_commits_only_if_it_comes_from_the_connected_job_master() {
    let mut s = Setup::new().await;
    let _serving = s.run_tasks(&[0]).await;
    let complete = |checkpoint| NotifyCheckpoint {
        job_id: JOB,
        attempts: vec![attempt(0)],
        checkpoint,
        complete: true,
    };
    // One that was superseded, and one that has not connected yet.
    for (n, checkpoint) in [(0, 6), (2, 7)] {
        s.as_master(n).ask(complete(checkpoint)).await.unwrap();
    }
    s.host.silent_for(Duration::from_secs(60)).await;
    s.as_master(1).ask(complete(8)).await.unwrap();
    let passed = s.host.next::<NotifyOnHost>().await.answer(Ok(()));
    assert_eq!((passed.checkpoint, passed.complete), (8, true));
    assert_eq!(passed.attempts, [attempt(0)]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn operator_events_of_running_tasks_reach_the_job_master_and_come_back() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0]).await;
    let event = |n| ForwardOperatorEvent {
        job_id: JOB,
        attempt: attempt(n),
        operator: OperatorId(3),
        event: b"split?".to_vec(),
    };
    let te = s.te.clone();
    let coordinator = async {
        let asked = serving.master.next::<OperatorEvent>().await;
        assert_eq!(asked.body.event, b"split?");
        asked.answer(Ok(serde_bytes::ByteBuf::from(b"0-99".to_vec())));
    };
    let (answer, ()) = futures::join!(te.ask(event(0)), coordinator);
    assert_eq!(answer.unwrap().as_ref(), b"0-99");
    let unknown = te.ask(event(7)).await;
    let stale = CoordinationError::StaleAttempt { attempt: attempt(7) };
    assert_eq!(refused::<ForwardOperatorEvent>(unknown), stale);
}

#[test]
fn a_host_speaks_for_its_own_job_alone() {
    assert!(handlers::is_of_job(Principal::Host { job: JOB }, JOB));
    assert!(!handlers::is_of_job(Principal::Host { job: JobId(6) }, JOB));
    assert!(handlers::is_of_job(Principal::Local, JOB));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn log_files_are_read_in_parts_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("log");
    std::fs::create_dir(&logs).unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    std::fs::write(logs.join("taskmanager-1.log"), "hello world").unwrap();
    std::fs::write(logs.join("taskmanager-1.out"), "").unwrap();
    std::fs::write(logs.join("other.log"), "not ours").unwrap();
    std::fs::create_dir(logs.join("taskmanager-1.d")).unwrap();
    std::os::unix::fs::symlink("../secret", logs.join("taskmanager-1.link")).unwrap();
    let folder = LogFolder::new(logs, vec!["taskmanager-1.".into()]);
    let s = Setup::with_logs(folder).await;
    let listed = s.te.ask(RequestLogs {}).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|file| (file.name.as_str(), file.size)).collect();
    assert_eq!(listed, [("taskmanager-1.log", 11), ("taskmanager-1.out", 0)]);
    let read = |name: &str, offset, max| s.te.ask(ReadLog { name: name.into(), offset, max });
    assert_eq!(read("taskmanager-1.log", 6, 3).await.unwrap().as_ref(), b"wor");
    assert_eq!(read("taskmanager-1.log", 6, u64::MAX).await.unwrap().as_ref(), b"world");
    assert_eq!(read("taskmanager-1.log", 99, 1).await.unwrap().as_ref(), b"");
    for wrong in [
        "../secret",
        "/etc/passwd",
        "",
        ".",
        "..",
        "other.log",
        "taskmanager-1.link",
        "taskmanager-1.d",
        "taskmanager-1./../../secret",
        "taskmanager-1.gone",
        "a\0b",
        "..\\secret",
    ] {
        let answer = read(wrong, 0, 100).await;
        assert_eq!(refused::<ReadLog>(answer), LogError::NoSuchFile(wrong.into()), "{wrong}");
    }
}

/// Returns the payload that the JobMaster's heartbeats carry next.
async fn newest_payload(s: &Setup, _: &Serving) -> (Vec<AllocationId>, Vec<TaskStateUpdate>) {
    job_payload(&s.heard().await)
}
