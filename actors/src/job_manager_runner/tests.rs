use super::*;
use crate::job_testing::{
    Deployments, ElectionDouble, HostsDouble, ManagerDouble, WorkerDouble, graph, job, until,
};
use crate::program_hosts::HostSide;
use crate::testing::{TestProcess, local, session, settle};
use gateways::{CallError, FabricError};
use model::JobStatus;

struct Fixture {
    process: TestProcess,
    election: Arc<ElectionDouble>,
    runner: Remote<JobManagerRunnerGateway>,
    started: StartedRunner,
    _hosts: HostsDouble,
    _manager: ManagerDouble,
}

const FENCE: u64 = 40;
const COMPONENT: Component = Component::JobMaster(JobId(1));

impl Fixture {
    async fn start(held_back: bool) -> Self {
        let process = TestProcess::start(&[]).await;
        let election = if held_back {
            ElectionDouble::held_back(&process)
        } else {
            ElectionDouble::start(&process)
        };
        let hosts = HostsDouble::start(&process, HostSide::JobManager).await;
        let manager = ManagerDouble::lead(&process, 60);
        let dispatcher = DispatcherId::from_session(session(FENCE));
        let started = start(RunnerDeps {
            services: process.services.clone(),
            election: election.clone(),
            dispatcher,
            graph: Arc::new(graph(1, 1, false)),
            submitted_ms: 1,
            hosts: hosts.gateway.clone(),
            program: None,
            embedded: false,
        });
        let rpc = &process.services.rpc;
        let runner = rpc.gateway(started.running.address(), dispatcher);
        settle().await;
        Self { process, election, runner, started, _hosts: hosts, _manager: manager }
    }

    async fn job_master(&self) -> Option<JobMasterAddress> {
        self.runner.ask(RequestJobMaster {}).await.unwrap()
    }

    fn gateway(&self, found: &JobMasterAddress) -> Remote<JobMasterGateway> {
        self.process.services.rpc.gateway(&found.address, found.job_master_id)
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_starts_a_job_master_which_is_confirmed_once_it_answers() {
    local(async {
        let f = Fixture::start(true).await;
        assert_eq!(f.job_master().await, None);
        let granted = f.election.grant(COMPONENT).await;
        until("confirmed", || !f.election.confirmed().is_empty()).await;
        let (_, leader) = f.election.confirmed()[0].clone();
        let found = f.job_master().await.unwrap();
        assert_eq!((leader.session, leader.address), (granted, found.address.clone()));
        assert_eq!(f.gateway(&found).ask(RequestStatus {}).await.unwrap(), JobStatus::Running);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn callers_of_another_dispatcher_are_fenced() {
    local(async {
        let f = Fixture::start(true).await;
        for other in [FENCE - 1, FENCE + 1] {
            let fence = DispatcherId::from_session(session(other));
            let rpc = &f.process.services.rpc;
            let gateway: Remote<JobManagerRunnerGateway> =
                rpc.gateway(f.started.running.address(), fence);
            let answer = gateway.ask(RequestJobMaster {}).await;
            assert!(matches!(answer, Err(CallError::Fabric(FabricError::Fenced { .. }))));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_revoked_job_master_has_ended_before_the_next_one_starts() {
    local(async {
        let f = Fixture::start(false).await;
        until("confirmed", || f.election.confirmed().len() == 1).await;
        let first = f.job_master().await.unwrap();
        f.election.revoke(COMPONENT).await;
        let gone = f.gateway(&first).ask(RequestStatus {}).await;
        assert!(gone.is_err(), "what was started has ended when the revocation is answered");
        assert_eq!(f.job_master().await, None);
        f.election.grant(COMPONENT).await;
        until("confirmed", || f.election.confirmed().len() == 2).await;
        let second = f.job_master().await.unwrap();
        assert!(second.job_master_id > first.job_master_id);
        let stale = f.gateway(&first).ask(RequestStatus {}).await;
        assert!(matches!(stale, Err(CallError::Fabric(FabricError::Fenced { .. }))));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_revoke_during_the_start_leaves_nothing_behind() {
    local(async {
        let f = Fixture::start(true).await;
        let (_, ()) = futures::join!(f.election.grant(COMPONENT), f.election.revoke(COMPONENT));
        f.election.revoke(COMPONENT).await;
        settle().await;
        assert_eq!(f.job_master().await, None);
        assert_eq!(f.election.confirmed(), []);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_job_is_handed_over_once_and_only_by_who_leads() {
    local(async {
        let mut f = Fixture::start(false).await;
        until("confirmed", || f.election.confirmed().len() == 1).await;
        let found = f.job_master().await.unwrap();
        let gateway = f.gateway(&found);
        let details = gateway.ask(gateways::job_master::RequestDetails {}).await.unwrap();
        let forged = JobReachedTerminalState {
            job_master_id: JobMasterId(session(1)),
            details: Box::new(details),
            status: JobStatus::Finished,
        };
        f.runner.ask(forged).await.unwrap();
        assert!(f.started.end.try_recv().is_err());
        let worker = WorkerDouble::register(&f.process, "tm1", Deployments::Take, &gateway).await;
        worker.offer(&[1]).await;
        until("deployed", || worker.attempts().len() == 2).await;
        worker.finish_all().await;
        let details = (&mut f.started.end).await.unwrap();
        assert_eq!(details.status, JobStatus::Finished);
        assert_eq!(details.graph.job_id, job(1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_runner_withdraws_and_has_ended_its_job_master() {
    local(async {
        let f = Fixture::start(false).await;
        until("confirmed", || f.election.confirmed().len() == 1).await;
        let found = f.job_master().await.unwrap();
        let gateway = f.gateway(&found);
        f.started.running.stop().await;
        assert!(gateway.ask(RequestStatus {}).await.is_err());
        assert!(!f.election.contends(COMPONENT));
        assert!(f.started.end.await.is_err(), "the job was suspended, not ended");
    })
    .await;
}
