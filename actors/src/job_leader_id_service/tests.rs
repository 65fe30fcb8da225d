use super::*;
use crate::testing::{ResourceManagerDouble, TestProcess, local, seconds, session, settle};
use gateways::{CallError, FabricError};
use model::JobMasterId;

const JOB: JobId = JobId(1);

struct World {
    process: TestProcess,
    rm: ResourceManagerDouble,
    gateway: Remote<JobLeaderIdGateway>,
    _running: Running<JobLeaderIdActor>,
}

async fn world() -> World {
    let process = TestProcess::start(&[]).await;
    let fence = ResourceManagerId(session(4));
    let rm = ResourceManagerDouble::start(&process, fence);
    let timeout = Duration::from_secs(300);
    let running = start(&process.services, fence, rm.gateway.clone(), timeout);
    let gateway = process.services.rpc.gateway(running.address(), fence);
    World { process, rm, gateway, _running: running }
}

#[tokio::test(start_paused = true)]
async fn the_known_leader_is_the_answer_and_changes_are_told() {
    local(async {
        let world = world().await;
        world.process.publish_job_master(JOB, JobMasterId(session(7)));
        let known = world.gateway.ask(AddJob { job_id: JOB }).await.expect("answered");
        assert_eq!(known.map(|leader| leader.session), Some(session(7)));
        world.process.publish_job_master(JOB, JobMasterId(session(8)));
        settle().await;
        let told: Vec<_> = world.rm.leaders.all().iter().map(|n| n.leader).collect();
        assert_eq!(told, [Some(session(7)), Some(session(8))]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_first_leader_that_is_published_a_moment_later_is_waited_for() {
    local(async {
        let world = world().await;
        let asking = world.gateway.ask(AddJob { job_id: JOB });
        let publish = async {
            settle().await;
            world.process.publish_job_master(JOB, JobMasterId(session(7)));
        };
        let (known, ()) = futures::join!(asking, publish);
        assert_eq!(known.expect("answered").map(|leader| leader.session), Some(session(7)));
        let nobody = world.gateway.ask(AddJob { job_id: JobId(2) }).await;
        assert_eq!(nobody, Ok(None));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_nobody_leads_times_out_and_one_that_is_led_or_removed_does_not() {
    local(async {
        let world = world().await;
        let (led, removed) = (JobId(2), JobId(3));
        world.process.publish_job_master(led, JobMasterId(session(7)));
        for job_id in [JOB, led, removed] {
            world.gateway.ask(AddJob { job_id }).await.expect("answered");
        }
        world.gateway.ask(RemoveJobLeader { job_id: removed }).await.expect("removed");
        seconds(290).await;
        assert_eq!(world.rm.timed_out.all(), []);
        seconds(600).await;
        assert_eq!(world.rm.timed_out.all(), [NotifyJobTimedOut { job_id: JOB }]);
        world.process.leaders.set(Component::JobMaster(led), None);
        seconds(290).await;
        assert_eq!(world.rm.timed_out.all().len(), 1);
        seconds(20).await;
        assert_eq!(world.rm.timed_out.all().len(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn stale_and_future_tokens_change_nothing() {
    local(async {
        let world = world().await;
        world.gateway.ask(AddJob { job_id: JOB }).await.expect("answered");
        for other in [3, 5] {
            let fence = ResourceManagerId(session(other));
            let rpc = &world.process.services.rpc;
            let gateway = rpc.gateway::<JobLeaderIdGateway>(world.gateway.address(), fence);
            let refused = gateway.ask(RemoveJobLeader { job_id: JOB }).await;
            assert!(matches!(refused, Err(CallError::Fabric(FabricError::Fenced { .. }))));
        }
        seconds(301).await;
        assert_eq!(world.rm.timed_out.all().len(), 1, "still watched");
    })
    .await;
}
