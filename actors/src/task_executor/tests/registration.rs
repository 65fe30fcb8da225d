//! Registration at the ResourceManager, and its end.

use super::*;
use gateways::job_master::RegistrationRefused;
use gateways::task_executor::DisconnectResourceManager;

#[tokio::test(flavor = "local", start_paused = true)]
async fn it_registers_and_reports_its_slots() {
    let mut s = Setup::new().await;
    s.lead(Component::ResourceManager, &s.manager);
    let accepted = s.accepted();
    let me = s.manager.next::<RegisterTaskExecutor>().await.answer(Ok(accepted));
    assert_eq!((me.resource_id.as_str(), me.host.as_str(), me.pid), ("tm-1", "node-1", 42));
    assert_eq!((me.address, me.session), (s.handle.address.clone(), s.handle.session));
    let report = s.manager.next::<SendSlotReport>().await.answer(Ok(()));
    assert_eq!((report.instance_id, report.report.slots.len()), (ME, 2));
    assert!(report.report.slots.iter().all(|slot| slot.allocation.is_none()));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_failed_registration_is_tried_again_and_another_leader_at_once() {
    let mut s = Setup::new().await;
    let leader = s.manager.leader();
    s.manager.vanish();
    s.world.leaders.set(Component::ResourceManager, Some(leader));
    ms(1_000).await;
    s.manager = manager(&s.world, 1);
    let waiting = s.manager.next::<RegisterTaskExecutor>().await;
    let mut second = manager(&s.world, 2);
    s.lead(Component::ResourceManager, &second);
    let accepted = s.accepted();
    second.next::<RegisterTaskExecutor>().await.answer(Ok(accepted.clone()));
    second.next::<SendSlotReport>().await.answer(Ok(()));
    waiting.answer(Ok(accepted));
    s.manager.silent_for(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_refusal_is_waited_out_and_one_for_good_ends_the_process() {
    let mut s = Setup::new().await;
    s.lead(Component::ResourceManager, &s.manager);
    let refuse = |retry| Err(RegistrationRefused { reason: "not asked for".into(), retry });
    s.manager.next::<RegisterTaskExecutor>().await.answer(refuse(true));
    let before = tokio::time::Instant::now();
    let asked = s.manager.next::<RegisterTaskExecutor>().await;
    assert_eq!(before.elapsed().as_secs(), 30);
    asked.answer(refuse(false));
    let fatal = s.world.services.fatal.reported().await;
    assert_eq!(fatal.component, ENDPOINT);
    assert!(fatal.cause.contains("not asked for"), "{fatal}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn unregistered_for_too_long_it_ends_the_process_and_says_why() {
    let s = Setup::with(&[("taskmanager.registration.timeout", "20 s")]).await;
    let before = tokio::time::Instant::now();
    let fatal = s.world.services.fatal.reported().await;
    assert_eq!(before.elapsed().as_secs(), 20);
    assert!(fatal.cause.contains("no ResourceManager was found"), "{fatal}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_manager_that_does_not_take_the_report_is_registered_at_again() {
    let mut s = Setup::new().await;
    s.lead(Component::ResourceManager, &s.manager);
    let accepted = s.accepted();
    s.manager.next::<RegisterTaskExecutor>().await.answer(Ok(accepted.clone()));
    let unknown = RegistrationRefused { reason: "unknown".into(), retry: true };
    s.manager.next::<SendSlotReport>().await.answer(Err(unknown));
    s.manager.next::<RegisterTaskExecutor>().await.answer(Ok(accepted));
    s.manager.next::<SendSlotReport>().await.answer(Ok(()));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_silent_manager_is_registered_at_again_while_tasks_run() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0]).await;
    drop(std::mem::replace(&mut serving._manager_beats, s.job_master_beats(99)));
    let before = tokio::time::Instant::now();
    let mut accepted = s.accepted();
    accepted.instance_id = InstanceId(78);
    s.manager.next::<RegisterTaskExecutor>().await.answer(Ok(accepted));
    assert!((4..7).contains(&before.elapsed().as_secs()), "{:?}", before.elapsed());
    let report = s.manager.next::<SendSlotReport>().await.answer(Ok(()));
    assert_eq!(report.report.slots[0].allocation.unwrap().allocation_id, A);
    // The JobMaster still knows it as before.
    s.report(vec![state(0, ExecutionState::Finished)]).await;
    let told = serving.master.next::<UpdateTaskStates>().await.answer(Ok(vec![]));
    assert_eq!(told.instance_id, ME);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn only_its_own_manager_disconnects_or_releases_it() {
    let (mut s, _beats) = Setup::registered().await;
    let bye = |n, terminate| DisconnectResourceManager {
        resource_manager_id: rm(n),
        cause: "idle".into(),
        terminate,
    };
    s.te.ask(bye(2, false)).await.unwrap();
    s.te.ask(bye(0, true)).await.unwrap();
    s.te.with_session(session(2)).ask(bye(1, true)).await.unwrap();
    s.manager.silent_for(Duration::from_secs(1)).await;
    s.te.with_session(session(1)).ask(bye(1, false)).await.unwrap();
    let accepted = s.accepted();
    s.manager.next::<RegisterTaskExecutor>().await.answer(Ok(accepted));
    s.manager.next::<SendSlotReport>().await.answer(Ok(()));
    s.te.with_session(session(1)).ask(bye(1, true)).await.unwrap();
    assert_eq!(s.handle.released().await, "idle");
    assert_eq!(s.world.services.fatal.first(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stopped_one_ends_its_hosts_then_says_goodbye() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0]).await;
    let Setup { handle, mut keeper, mut manager, te, .. } = s;
    let stopping = handle.stop("shutting down");
    let around = async {
        let release = keeper.next::<ReleaseHost>().await;
        assert!(release.body.at_once);
        release.answer(Ok(()));
        let bye = manager.next::<DisconnectTaskExecutor>().await.answer(Ok(()));
        assert_eq!((bye.instance_id, bye.cause.message.as_str()), (ME, "shutting down"));
        serving.master.next::<DisconnectTaskManager>().await.answer(Ok(()));
    };
    futures::join!(stopping, around);
    let gone = te.ask(gateways::task_executor::RequestLogs {}).await.unwrap_err();
    assert!(matches!(gone, CallError::Fabric(_)), "{gone:?}");
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Die;

impl actix::Handler<Die> for crate::task_executor::TaskExecutor {
    type Result = ();
    fn handle(&mut self, _: Die, _: &mut Self::Context) {
        panic!("a fault of the TaskExecutor");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_task_executor_that_dies_of_a_panic_is_a_fatal_error_and_no_release() {
    let s = Setup::new().await;
    assert!(s.handle.running.addr().send(Die).await.is_err());
    let released = tokio::time::timeout(Duration::from_secs(2), s.handle.released()).await;
    assert!(released.is_err(), "{released:?}");
    let fatal = s.world.services.fatal.first().unwrap();
    assert!(format!("{fatal:?}").contains("task_executor"), "{fatal:?}");
}
