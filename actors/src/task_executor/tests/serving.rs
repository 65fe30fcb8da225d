//! Slots, hosts and offers.

use super::*;
use gateways::program_host::BuildError;
use gateways::task_executor::FreeSlot;
use model::BlobKind;
use storage::blobs::{BlobStore as _, store_bytes};

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_first_slot_launches_the_host_registers_and_offers() {
    let (mut s, mut master, _beats) = Setup::with_slot().await;
    s.request_slot(0, A, &master).await;
    s.request_slot(1, B, &master).await;
    let address = s.host_address(None);
    s.keeper.next::<LaunchHost>().await.answer(Ok(address));
    let start = s.host.next::<StartHost>().await;
    let body = &start.body;
    assert_eq!(body.data_key, [JOB.0 as u8; 32]);
    assert_eq!((body.network_memory, body.managed_memory), (MemorySize(101), MemorySize(200)));
    assert_eq!(body.task_memory, Some(MemorySize(301)));
    assert_eq!(body.parent.endpoint, format!("task_executor/{JOB}"));
    assert_eq!(body.heartbeat_timeout_ms, 0, "in this process");
    let me = s.connect(&mut master).await;
    assert_eq!((me.instance_id, me.session), (ME, s.handle.session));
    let _beats = s.job_master_beats(1);
    master.silent_for(Duration::from_secs(1)).await;
    let data_address = NodeAddress::of("node-1", 4000);
    start.answer(Ok(HostStarted { data_address: data_address.clone() }));
    let offer = master.next::<OfferSlots>().await.answer(Ok(vec![B]));
    let offered: Vec<_> = offer.slots.iter().map(|slot| (slot.index, slot.allocation_id)).collect();
    assert_eq!(offered, [(0, A), (1, B)]);
    assert_eq!((offer.data_address, offer.instance_id), (data_address, ME));
    // The rejected one is free again.
    let free = s.manager.next::<NotifySlotAvailable>().await.answer(Ok(()));
    assert_eq!((free.slot_id.index, free.allocation_id, free.instance_id), (0, A, ME));
    assert_eq!(s.slots_noted(), [(0, Some(A)), (1, Some(B)), (0, None)]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn slot_requests_are_refused_with_the_reason() {
    let mut s = Setup::new().await;
    let master = s.job_master(1);
    let manager = s.te.with_session(session(1));
    let unregistered = manager.ask(s.request(0, A, &master)).await;
    assert_eq!(refused::<RequestSlot>(unregistered), SlotRequestError::NotMyResourceManager);
    let _beats = s.register().await;
    s.request_slot(0, A, &master).await;
    let mut stale = s.request(1, B, &master);
    stale.resource_manager_id = rm(0);
    let answer = s.te.with_session(session(0)).ask(stale).await;
    assert_eq!(refused::<RequestSlot>(answer), SlotRequestError::NotMyResourceManager);
    let answer = s.te.with_session(session(2)).ask(s.request(1, B, &master)).await;
    assert_eq!(refused::<RequestSlot>(answer), SlotRequestError::NotMyResourceManager);
    let answer = s.te.ask(s.request(1, B, &master)).await;
    assert_eq!(refused::<RequestSlot>(answer), SlotRequestError::NotMyResourceManager);
    let taken = s.request(0, B, &master);
    let slot = taken.slot_id.clone();
    let answer = manager.ask(taken).await;
    let occupied = SlotRequestError::Occupied { slot, job: JOB, allocation_id: A };
    assert_eq!(refused::<RequestSlot>(answer), occupied);
    let answer = manager.ask(s.request(7, B, &master)).await;
    assert_eq!(refused::<RequestSlot>(answer), SlotRequestError::NoSuchSlot("tm-1_7".into()));
    let mut other = s.request(1, B, &master);
    other.slot_id.resource_id = ResourceId::new("tm-2");
    let answer = manager.ask(other).await;
    assert_eq!(refused::<RequestSlot>(answer), SlotRequestError::NoSuchSlot("tm-2_1".into()));
    let answer = manager.ask(s.request(1, A, &master)).await;
    assert!(matches!(refused::<RequestSlot>(answer), SlotRequestError::Unsuitable(_)));
    let mut large = s.request(1, B, &master);
    large.profile.managed = MemorySize(101);
    let answer = manager.ask(large).await;
    assert!(matches!(refused::<RequestSlot>(answer), SlotRequestError::Unsuitable(_)));
    assert_eq!(s.slots_noted(), [(0, Some(A))]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_failed_offer_is_repeated() {
    let (mut s, mut master, _beats) = Setup::with_slot().await;
    let _exit = s.launch().await;
    s.connect(&mut master).await;
    let _job_beats = s.job_master_beats(1);
    let lost = master.next::<OfferSlots>().await;
    let offer = master.next::<OfferSlots>().await.answer(Ok(vec![A]));
    assert_eq!(offer.slots.len(), 1);
    lost.answer(Ok(vec![]));
    s.manager.silent_for(Duration::from_secs(30)).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_master_that_knows_it_no_more_is_registered_at_again() {
    let (mut s, mut master, _beats) = Setup::with_slot().await;
    let _exit = s.launch().await;
    s.connect(&mut master).await;
    let _job_beats = s.job_master_beats(1);
    let resource_id = s.world.services.resource_id.clone();
    let stranger = gateways::job_master::JobMasterError::NotRegistered { resource_id };
    master.next::<OfferSlots>().await.answer(Err(stranger));
    master.next::<DisconnectTaskManager>().await.answer(Ok(()));
    s.keeper.next::<ReleaseHost>().await.answer(Ok(()));
    s.connect(&mut master).await;
    let _exit = s.launch().await;
    master.next::<OfferSlots>().await.answer(Ok(vec![A]));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_slot_that_no_job_master_takes_is_freed_and_its_host_ended() {
    let (mut s, _beats) = Setup::registered().await;
    let mut nobody = s.job_master(1);
    nobody.vanish();
    s.request_slot(0, A, &nobody).await;
    let _exit = s.launch().await;
    let before = tokio::time::Instant::now();
    let free = s.manager.next::<NotifySlotAvailable>().await.answer(Ok(()));
    assert_eq!((before.elapsed().as_secs(), free.allocation_id), (10, A));
    let release = s.keeper.next::<ReleaseHost>().await.answer(Ok(()));
    assert!(!release.at_once);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_host_that_cannot_start_is_told_to_the_job_master_by_cause() {
    let (mut s, mut master, _beats) = Setup::with_slot().await;
    let not_ours = BuildError::Invalid("not a Flott program".into());
    s.keeper.next::<LaunchHost>().await.answer(Err(not_ours));
    s.keeper.next::<ReleaseHost>().await.answer(Ok(()));
    s.connect(&mut master).await;
    let _job_beats = s.job_master_beats(1);
    let failed = master.next::<FailSlot>().await;
    assert_eq!(failed.body.allocation_id, A);
    assert_eq!(failed.body.cause.kind, "InvalidProgram");
    assert!(!failed.body.cause.recoverable);
    s.manager.silent_for(Duration::from_secs(1)).await;
    failed.answer(Ok(()));
    s.manager.next::<NotifySlotAvailable>().await.answer(Ok(()));
    s.keeper.silent_for(Duration::from_secs(1)).await;
}

/// The process is gone when it gets its settings: its address is nobody's.
#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stack_overflow_before_the_first_deployment_is_told_by_its_signal() {
    let (mut s, mut master, _beats) = Setup::with_slot().await;
    let address = EndpointAddress::new(NodeAddress::new("host:7-0"), "program_host");
    let gone = HostAddress { address, ..s.host_address(Some(7)) };
    s.keeper.next::<LaunchHost>().await.answer(Ok(gone));
    let exit = s.keeper.next::<AwaitHostExit>().await;
    ms(100).await;
    let cause = "was ended by SIGABRT".to_owned();
    exit.answer(Ok(Some(HostExit { cause, released: false })));
    s.connect(&mut master).await;
    let _job_beats = s.job_master_beats(1);
    let cause = master.next::<FailSlot>().await.answer(Ok(())).cause;
    assert_eq!(cause.kind, "ProgramHostLost");
    assert!(cause.recoverable && cause.message.contains("was ended by SIGABRT"), "{cause}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_program_is_named_to_the_keeper_and_stays_in_the_cache_while_it_runs() {
    let (mut s, _beats) = Setup::registered().await;
    let master = s.job_master(1);
    let key = store_bytes(&*s.programs, b"program", None, BlobKind::Transient).await.unwrap();
    let mut request = s.request(0, A, &master);
    request.program = Some(key);
    s.te.with_session(session(1)).ask(request).await.unwrap();
    let launch = s.keeper.next::<LaunchHost>().await;
    assert_eq!(launch.body.program, Some(key));
    ms(1_000).await;
    assert_eq!(s.programs.keys().await.unwrap(), [key]);
    launch.answer(Err(BuildError::Process("no".into())));
    s.keeper.next::<ReleaseHost>().await.answer(Ok(()));
    ms(1_000).await;
    assert_eq!(s.programs.keys().await.unwrap(), [], "transient, and nobody holds it any more");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_further_slot_raises_the_hosts_memory() {
    let mut s = Setup::new().await;
    let mut serving = s.serve().await;
    s.request_slot(1, B, &serving.master).await;
    let data_address = NodeAddress::of("node-1", 4000);
    let start = s.host.next::<StartHost>().await.answer(Ok(HostStarted { data_address }));
    assert_eq!((start.network_memory, start.managed_memory), (MemorySize(101), MemorySize(200)));
    assert_eq!(start.task_memory, Some(MemorySize(301)));
    serving.master.next::<OfferSlots>().await.answer(Ok(vec![B]));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_slot_given_back_goes_when_its_tasks_have_ended_and_only_at_its_masters_word() {
    let mut s = Setup::new().await;
    let mut serving = s.run_tasks(&[0]).await;
    let free = |allocation_id| FreeSlot { allocation_id, cause: "not needed".into() };
    for wrong in [None, Some(0), Some(2)] {
        let te = wrong.map_or_else(|| s.te.clone(), |n| s.as_master(n));
        let answer = te.ask(free(A)).await;
        assert_eq!(refused::<FreeSlot>(answer), SlotRequestError::NotMyJobMaster);
    }
    let answer = s.as_master(1).ask(free(B)).await;
    assert_eq!(refused::<FreeSlot>(answer), SlotRequestError::NoSuchSlot(B.to_string()));
    s.as_master(1).ask(free(A)).await.unwrap();
    let released = s.host.next::<ReleaseSlot>().await.answer(Ok(()));
    assert_eq!(released.allocation_id, A);
    s.manager.silent_for(Duration::from_secs(1)).await;
    s.report(vec![state(0, ExecutionState::Canceled)]).await;
    s.manager.next::<NotifySlotAvailable>().await.answer(Ok(()));
    let release = s.keeper.next::<ReleaseHost>().await;
    assert!(!release.body.at_once);
    let told = serving.master.next::<UpdateTaskStates>().await;
    assert_eq!(told.body.updates, [state(0, ExecutionState::Canceled)]);
    // Before its answer the JobMaster is not told goodbye.
    serving.master.silent_for(Duration::from_secs(1)).await;
    told.answer(Ok(vec![]));
    let bye = serving.master.next::<DisconnectTaskManager>().await.answer(Ok(()));
    assert_eq!(bye.cause.kind, "NoSlots");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_host_in_a_process_of_its_own_fences_itself_and_its_end_is_noticed() {
    let (mut s, mut master, _beats) = Setup::with_slot().await;
    let address = s.host_address(Some(4711));
    s.keeper.next::<LaunchHost>().await.answer(Ok(address));
    let exit = s.keeper.next::<AwaitHostExit>().await;
    let start = s.host.next::<StartHost>().await;
    assert_eq!(start.body.heartbeat_timeout_ms, 5_000);
    // It dies before it has answered.
    exit.answer(Ok(Some(HostExit { cause: "killed by SIGKILL".into(), released: false })));
    s.connect(&mut master).await;
    let _job_beats = s.job_master_beats(1);
    let failed = master.next::<FailSlot>().await.answer(Ok(()));
    assert!(failed.cause.message.contains("killed by SIGKILL"), "{}", failed.cause);
    let data_address = NodeAddress::of("node-1", 4000);
    start.answer(Ok(HostStarted { data_address }));
    master.next::<DisconnectTaskManager>().await.answer(Ok(()));
    master.silent_for(Duration::from_secs(1)).await;
}
