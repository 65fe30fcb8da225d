use super::*;
use crate::testing::{
    ResourceManagerDouble, Slots, TaskExecutorDouble, TestProcess, seconds, session, settle,
    slot_report, worker_spec,
};
use control::mutation::Mutation;
use control::slot_manager::Supply;
use gateways::FabricError;
use gateways::slot_manager::{BlockHosts, RemoveJob, RemoveTaskExecutor, ReportSlots};
use model::{AllocationId, JobMasterId, ResourceProfile, ResourceRequirement};

const JOB: JobId = JobId(1);

struct World {
    process: TestProcess,
    rm: ResourceManagerDouble,
    gateway: Remote<SlotManagerGateway>,
    facts: Courier<SlotManagerFact>,
    _running: Running<SlotManagerActor>,
}

fn standalone() -> Supply {
    Supply::Passive { start_up_until: Duration::from_secs(60) }
}
fn active() -> Supply {
    Supply::Active {
        task_manager: worker_spec(2),
        request_timeout: Duration::from_secs(300),
        idle_timeout: Duration::from_secs(30),
        slots_max: None,
        redundant: 0,
    }
}

async fn world(supply: Supply) -> World {
    let process = TestProcess::start(&[]).await;
    let resource_manager_id = ResourceManagerId(session(4));
    let rm = ResourceManagerDouble::start(&process, resource_manager_id);
    let running = start(SlotManagerDeps {
        services: process.services.clone(),
        resource_manager_id,
        resource_manager: rm.gateway.clone(),
        settings: Settings {
            supply,
            spread_out: false,
            settle: Duration::from_secs(2),
            seed: 1,
            mutation: Mutation::None,
        },
        check_delay: Duration::from_millis(5),
    });
    let gateway = process.services.rpc.gateway(running.address(), SlotManagerId(session(4)));
    let facts = Courier::new(gateway.clone(), |why| panic!("{why}"));
    World { process, rm, gateway, facts, _running: running }
}

impl World {
    /// Returns a TaskManager that gives its slots, after the SlotManager has heard of it.
    async fn task_manager(&self, name: &str, instance: u128, slots: u32) -> TaskExecutorDouble {
        let task_manager = TaskExecutorDouble::start(&self.process, name, Slots::Give);
        self.add(&task_manager, instance, slots).await;
        task_manager
    }

    async fn deliver(&self, fact: impl Into<SlotManagerFact>) {
        self.facts.deliver(fact);
        settle().await;
        settle().await;
    }

    async fn add(&self, task_manager: &TaskExecutorDouble, instance: u128, slots: u32) {
        let add = AddTaskExecutor {
            resource_id: task_manager.resource_id.clone(),
            instance_id: InstanceId(instance),
            address: task_manager.address.clone(),
            session: self.process.services.session,
            host: format!("host-{}", task_manager.resource_id),
            spec: worker_spec(slots),
            report: slot_report(&task_manager.resource_id, slots),
        };
        self.deliver(add).await;
    }

    async fn require(&self, master: u64, slots: u32) {
        self.require_for(JOB, master, slots).await;
    }

    async fn require_for(&self, job_id: JobId, master: u64, slots: u32) {
        let profile = ResourceProfile::unknown();
        let requirements = vec![ResourceRequirement { profile, slots }];
        let job_master_id = JobMasterId(session(master));
        let declared = ProcessRequirements {
            job_id,
            job_master_id,
            target: self.process.services.rpc.address_of("job_master/1"),
            job_name: "count".into(),
            program: None,
            requirements,
        };
        self.deliver(declared).await;
    }

    /// All that was requested of a TaskManager is free again.
    async fn free_all(&self, instance: u128, task_manager: &TaskExecutorDouble) {
        for request in task_manager.requests.take() {
            let freed = FreeSlot {
                instance_id: InstanceId(instance),
                slot_id: request.slot_id,
                allocation_id: request.allocation_id,
            };
            self.deliver(freed).await;
        }
    }

    async fn overview(&self) -> SlotOverview {
        self.gateway.ask(RequestSlotOverview {}).await.expect("answered")
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn slots_are_requested_from_the_task_executor_in_the_name_of_its_resource_manager() {
    let world = world(standalone()).await;
    let task_manager = world.task_manager("tm-1", 11, 3).await;
    world.require(1, 2).await;
    let requests = task_manager.requests.all();
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].slot_id, requests[1].slot_id);
    assert_eq!(requests[0].job_id, JOB);
    assert_eq!(requests[0].job_master_id, JobMasterId(session(1)));
    assert_eq!(requests[0].resource_manager_id, ResourceManagerId(session(4)));
    let SlotOverview { totals, task_managers, .. } = world.overview().await;
    assert_eq!((totals.slots, totals.free_slots, totals.task_managers), (3, 1, 1));
    assert_eq!((task_managers[0].1, task_managers[0].2.len()), (1, 2));
    world.require(1, 2).await;
    assert_eq!(task_manager.requests.all().len(), 2, "declared again, not requested again");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_and_future_tokens_change_nothing() {
    let world = world(standalone()).await;
    let _task_manager = world.task_manager("tm-1", 11, 1).await;
    for other in [3, 5] {
        let fence = SlotManagerId(session(other));
        let rpc = &world.process.services.rpc;
        let gateway = rpc.gateway::<SlotManagerGateway>(world.gateway.address(), fence);
        let fact = RemoveTaskExecutor { instance_id: InstanceId(11) }.into();
        let refused = gateway.ask(TakeFacts { first: 1, facts: vec![fact] }).await;
        assert!(matches!(refused, Err(CallError::Fabric(FabricError::Fenced { .. }))));
    }
    assert_eq!(world.overview().await.totals.slots, 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_occupied_slot_is_replaced_by_another() {
    let world = world(standalone()).await;
    let slot = SlotId { resource_id: ResourceId::new("tm-1"), index: 0 };
    let error = SlotRequestError::Occupied { slot, job: JobId(9), allocation_id: AllocationId(9) };
    let full = TaskExecutorDouble::start(&world.process, "tm-1", Slots::Refuse(error));
    world.add(&full, 11, 1).await;
    world.require(1, 1).await;
    assert_eq!(full.requests.all().len(), 1);
    let free = world.task_manager("tm-2", 12, 1).await;
    settle().await;
    assert_eq!(free.requests.all().len(), 1);
    let given = |overview: &SlotOverview, i: usize| overview.task_managers[i].2[0].0;
    let overview = world.overview().await;
    assert_eq!((given(&overview, 0), given(&overview, 1)), (JobId(9), JOB));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_task_executor_that_never_answers_costs_its_slots_only() {
    let world = world(standalone()).await;
    let hole = TaskExecutorDouble::start(&world.process, "tm-1", Slots::Never);
    world.add(&hole, 11, 1).await;
    world.require(1, 1).await;
    let free = world.task_manager("tm-2", 12, 1).await;
    settle().await;
    assert_eq!(free.requests.all().len(), 0, "it may still give it");
    seconds(11).await;
    assert_eq!(free.requests.all().len(), 1);
    assert_eq!(hole.requests.all().len(), 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_removed_task_manager_is_replaced_and_a_freed_slot_is_given_again() {
    let world = world(standalone()).await;
    let _one = world.task_manager("tm-1", 11, 1).await;
    world.require(1, 1).await;
    let two = world.task_manager("tm-2", 12, 1).await;
    let instance_id = InstanceId(11);
    world.deliver(RemoveTaskExecutor { instance_id }).await;
    let request = two.requests.take().remove(0);
    let (slot_id, allocation_id) = (request.slot_id, request.allocation_id);
    let freed = FreeSlot { instance_id: InstanceId(12), slot_id, allocation_id };
    world.deliver(freed).await;
    assert_eq!(two.requests.all().len(), 1, "the requirement stands");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_shortage_is_reported_after_the_start_up_period() {
    let world = world(standalone()).await;
    let _task_manager = world.task_manager("tm-1", 11, 4).await;
    world.require(1, 8).await;
    seconds(58).await;
    assert_eq!(world.rm.shortages.all(), []);
    seconds(3).await;
    let shortage = world.rm.shortages.take().remove(0);
    assert_eq!(
        shortage.message,
        "needs 8 slots of any size, 4 registered, 0 free (held: 4 by this job)"
    );
    assert_eq!(shortage.job_id, JOB);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_that_keeps_another_from_running_with_slots_of_no_use_is_asked_for_them() {
    let world = world(standalone()).await;
    let task_manager = world.task_manager("tm-1", 11, 4).await;
    world.require(1, 5).await;
    world.require_for(JobId(2), 6, 4).await;
    seconds(1).await;
    let asked = world.rm.yield_slots.take().remove(0);
    assert_eq!((asked.job_id, asked.job_master_id), (JOB, JobMasterId(session(1))));
    assert_eq!(asked.slots[0].slots, 4);
    world.free_all(11, &task_manager).await;
    settle().await;
    let given = task_manager.requests.take();
    assert!(given.len() == 4 && given.iter().all(|r| r.job_id == JobId(2)), "{given:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_active_one_declares_missing_task_managers_and_releases_idle_ones() {
    let world = world(active()).await;
    let task_manager = TaskExecutorDouble::start(&world.process, "tm-1", Slots::Give);
    world.require(1, 3).await;
    let needed = world.rm.needed.take();
    assert_eq!(needed.last().map(|n| (n.seen, n.missing[0].1)), Some((0, 2)));
    world.add(&task_manager, 11, 2).await;
    settle().await;
    let needed = world.rm.needed.take();
    assert_eq!(needed.last().map(|n| (n.seen, n.missing[0].1)), Some((1, 1)));
    world.deliver(RemoveJob { job_id: JOB }).await;
    world.free_all(11, &task_manager).await;
    settle().await;
    assert_eq!(world.rm.needed.take().last().map(|n| n.missing.len()), Some(0));
    seconds(29).await;
    assert_eq!(world.rm.released.all(), []);
    seconds(2).await;
    assert_eq!(world.rm.released.all(), [ReleaseIdleTaskManager { instance_id: InstanceId(11) }]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn slots_of_a_removed_job_are_freed_where_nobody_else_does() {
    let world = world(standalone()).await;
    let task_manager = world.task_manager("tm-1", 11, 1).await;
    world.require(1, 1).await;
    let given = task_manager.requests.take().remove(0).allocation_id;
    world.deliver(RemoveJob { job_id: JOB }).await;
    let freed: Vec<_> = task_manager.freed.all().iter().map(|freed| freed.allocation_id).collect();
    assert_eq!(freed, [given]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn blocked_hosts_and_reports_are_taken_into_account() {
    let world = world(standalone()).await;
    let task_manager = world.task_manager("tm-1", 11, 1).await;
    let hosts = vec!["host-tm-1".to_owned()];
    world.deliver(BlockHosts { hosts }).await;
    world.require(1, 1).await;
    assert_eq!(task_manager.requests.all().len(), 0);
    let totals = world.overview().await.totals;
    assert_eq!((totals.blocked_task_managers, totals.blocked_free_slots), (1, 1));
    world.deliver(BlockHosts { hosts: vec![] }).await;
    assert_eq!(task_manager.requests.all().len(), 1);
    seconds(5).await;
    let (instance_id, report) = (InstanceId(11), slot_report(&task_manager.resource_id, 1));
    world.deliver(ReportSlots { instance_id, report }).await;
    assert_eq!(task_manager.requests.all().len(), 2, "it has lost the slot");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn requirements_of_an_earlier_job_master_are_not_taken() {
    let world = world(standalone()).await;
    let task_manager = world.task_manager("tm-1", 11, 4).await;
    world.require(2, 1).await;
    world.require(1, 4).await;
    let requests = task_manager.requests.all();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].job_master_id, JobMasterId(session(2)));
}
