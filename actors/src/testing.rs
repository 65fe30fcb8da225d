//! Doubles for unit tests of actors: one process without a port on a paused clock, and components
//! that record their calls.

use crate::leader_retrieval::LeaderTable;
use crate::probe::{Fact, Probe};
use crate::services::{FatalErrorHandler, HeartbeatHandle, ProcessServices, TurnMarker};
use actix::Actor;
use control::mutation::Mutation;
use gateways::heartbeat::Party;
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::{
    RegisterTaskExecutor, ResourceManagerFact, ResourceManagerGateway,
};
use gateways::task_executor::TaskExecutorGateway;
use gateways::{
    Calls, Double, EndpointAddress, Registration, Remote, RpcOptions, RpcService, job_master,
    resource_manager, task_executor,
};
use model::slots::SlotStatus;
use model::{
    ClusterId, Epoch, Fence, InstanceId, JobMasterId, LeaderSession, MemorySize, ProcessSession,
    ResourceId, ResourceManagerId, SlotId, SlotReport, WorkerResourceSpec,
};
use platform::inproc::InProcessNetwork;
use platform::{Platform, PortSpec, Secret};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Lets everything that is ready happen.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

pub(crate) async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

pub(crate) fn session(process: u64) -> LeaderSession {
    LeaderSession { epoch: Epoch { store: 1, process }, nonce: 40 + process }
}

/// Keeps every fact.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts(Arc<Mutex<Vec<Fact>>>);

impl Facts {
    pub(crate) fn all(&self) -> Vec<Fact> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Probe for Facts {
    fn note(&self, fact: Fact) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fact);
    }
}

/// A process of its own for one test: platform, RPC and metrics.
#[derive(Debug, Clone)]
pub(crate) struct TestProcess {
    pub(crate) services: ProcessServices,
    pub(crate) leaders: LeaderTable,
    pub(crate) facts: Facts,
}

impl TestProcess {
    /// Returns the marker of an actor that takes turns.
    pub(crate) fn lively(&self) -> TurnMarker {
        let marker = self.services.turn_marker("lively");
        let ticking = marker.clone();
        actix::spawn(async move {
            loop {
                ticking.mark();
                seconds(1).await;
            }
        });
        marker
    }

    pub(crate) async fn start(options: &[(&str, &str)]) -> Self {
        Self::start_with(options, Mutation::None).await
    }

    pub(crate) async fn start_with(options: &[(&str, &str)], mutation: Mutation) -> Self {
        let platform = Platform::simulated(7, Arc::new(InProcessNetwork::new()));
        let rpc = RpcService::start(platform.clone(), RpcOptions::in_process()).await;
        Self::with(platform, rpc.expect("a service without a port starts"), options, mutation)
    }

    /// One of several processes on a network of pipes, as `host:6123`.
    pub(crate) async fn start_at(net: &Arc<InProcessNetwork>, host: &str) -> Self {
        let seed = host.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte));
        let platform = Platform::simulated(seed, Arc::clone(net) as Arc<dyn platform::Network>);
        let (cluster, secret) = (ClusterId::new("test"), Secret::new([7; 32]));
        let options = RpcOptions::listening(host, host, PortSpec::one(6123), cluster, secret);
        let rpc = RpcService::start(platform.clone(), options).await.expect("the port is free");
        Self::with(platform, rpc, &[], Mutation::None)
    }

    fn with(
        platform: Platform,
        rpc: RpcService,
        options: &[(&str, &str)],
        mutation: Mutation,
    ) -> Self {
        let options = conf::Options::from_map(options.iter().copied()).expect("options");
        let limits = crate::heartbeat::limits(&options);
        let (leaders, facts) = (LeaderTable::default(), Facts::default());
        let services = ProcessServices {
            rpc,
            options: Arc::new(options),
            resource_id: ResourceId::new("jm-1"),
            session: ProcessSession(session(1)),
            heartbeat: HeartbeatHandle::new(platform.clone(), limits),
            retrieval: Arc::new(leaders.clone()),
            fatal: FatalErrorHandler::default(),
            metrics: Arc::new(metrics::Registry::default()),
            host: "localhost".to_owned(),
            mutation,
            probe: Arc::new(facts.clone()),
            platform,
        };
        Self { services, leaders, facts }
    }

    /// Starts the process's heartbeat service, for as long as the answer lives.
    pub(crate) async fn heartbeats(
        &self,
    ) -> crate::services::Running<crate::heartbeat::HeartbeatActor> {
        let services = &self.services;
        let deps = crate::heartbeat::HeartbeatDeps {
            platform: services.platform.clone(),
            rpc: services.rpc.clone(),
            session: services.session,
            fatal: services.fatal.clone(),
            stacks: None,
        };
        crate::heartbeat::start(&services.heartbeat, deps).await.expect("started")
    }

    /// Publishes `master` as the leader of its job.
    pub(crate) fn publish_job_master(&self, job_id: model::JobId, master: JobMasterId) {
        let address = self.services.rpc.address_of(&format!("job_master/{job_id}"));
        let leader = LeaderInformation { session: master.session(), address };
        self.leaders.set(Component::JobMaster(job_id), Some(leader));
    }
}

pub(crate) fn worker_spec(slots: u32) -> WorkerResourceSpec {
    WorkerResourceSpec { cpu_millis: 1000 * u64::from(slots), slots, ..Default::default() }
}

pub(crate) fn slot_report(resource_id: &ResourceId, slots: u32) -> SlotReport {
    let status = |index| SlotStatus {
        slot_id: SlotId { resource_id: resource_id.clone(), index },
        profile: worker_spec(slots).slot_profile(),
        allocation: None,
    };
    SlotReport { slots: (0..slots).map(status).collect() }
}

/// The way in which a double answers slot requests.
#[derive(Debug, Clone)]
pub(crate) enum Slots {
    Give,
    Refuse(task_executor::SlotRequestError),
    /// The double never answers.
    Never,
}

/// A TaskExecutor that runs nothing.
#[derive(Debug)]
pub(crate) struct TaskExecutorDouble {
    pub(crate) resource_id: ResourceId,
    pub(crate) address: EndpointAddress,
    pub(crate) requests: Calls<task_executor::RequestSlot>,
    pub(crate) freed: Calls<task_executor::FreeSlot>,
    pub(crate) disconnects: Calls<task_executor::DisconnectResourceManager>,
    _registration: Registration,
}

impl TaskExecutorDouble {
    pub(crate) fn start(process: &TestProcess, name: &str, slots: Slots) -> Self {
        let endpoint = format!("task_executor/{name}");
        let services = &process.services;
        let (requests, freed, disconnects): (Calls<task_executor::RequestSlot>, _, _) =
            Default::default();
        let actor = Double::of(requests.clone())
            .on_later(move |requests, call: task_executor::RequestSlot| {
                requests.push(call);
                match slots.clone() {
                    Slots::Give => Box::pin(std::future::ready(Ok(()))),
                    Slots::Refuse(error) => Box::pin(std::future::ready(Err(error))),
                    Slots::Never => Box::pin(std::future::pending()),
                }
            })
            .records::<task_executor::FreeSlot>(&freed)
            .records::<task_executor::DisconnectResourceManager>(&disconnects);
        let session = services.session;
        let registration = services.rpc.serve(
            endpoint.clone(),
            session,
            TaskExecutorGateway::endpoint(actor.start()),
        );
        Self {
            resource_id: ResourceId::new(name),
            address: services.rpc.address_of(&endpoint),
            requests,
            freed,
            disconnects,
            _registration: registration,
        }
    }

    /// Returns the double's registration at a ResourceManager. Its heartbeats are answered by the
    /// process's own service.
    pub(crate) fn introduction(&self, process: &TestProcess, slots: u32) -> RegisterTaskExecutor {
        RegisterTaskExecutor {
            resource_id: self.resource_id.clone(),
            address: self.address.clone(),
            session: process.services.session,
            heartbeat: process.services.heartbeat_address(),
            host: format!("host-{}", self.resource_id),
            spec: worker_spec(slots),
            pid: 1,
            process_memory: MemorySize::from_mib(1728),
            facts: model::TaskManagerFacts::default(),
        }
    }

    pub(crate) fn party(&self, process: &TestProcess, instance_id: InstanceId) -> Party {
        Party::TaskExecutor {
            resource_id: self.resource_id.clone(),
            session: process.services.session,
            instance_id,
        }
    }
}

/// A ResourceManager that records what its own services tell it.
#[derive(Debug)]
pub(crate) struct ResourceManagerDouble {
    pub(crate) needed: Calls<resource_manager::DeclareNeededTaskManagers>,
    pub(crate) released: Calls<resource_manager::ReleaseIdleTaskManager>,
    pub(crate) shortages: Calls<resource_manager::ReportShortage>,
    pub(crate) yield_slots: Calls<resource_manager::AskToYield>,
    pub(crate) gateway: Remote<ResourceManagerGateway>,
    _registration: Registration,
}

impl ResourceManagerDouble {
    pub(crate) fn start(process: &TestProcess, fence: ResourceManagerId) -> Self {
        let (needed, released, shortages, yield_slots): (Calls<_>, Calls<_>, Calls<_>, Calls<_>) =
            Default::default();
        let told = (needed.clone(), released.clone());
        let actor = Double::of(gateways::Inbox::default())
            .on(move |facts, call: resource_manager::TakeFacts| {
                for fact in facts.take(call) {
                    match fact {
                        ResourceManagerFact::DeclareNeededTaskManagers(needed) => {
                            told.0.push(needed)
                        }
                        ResourceManagerFact::ReleaseIdleTaskManager(released) => {
                            told.1.push(released)
                        }
                    }
                }
                Ok(facts.expected())
            })
            .records::<resource_manager::ReportShortage>(&shortages)
            .records::<resource_manager::AskToYield>(&yield_slots);
        let rpc = &process.services.rpc;
        let endpoint = ResourceManagerGateway::endpoint(actor.start());
        let registration = rpc.serve("resource_manager", fence, endpoint);
        let gateway = rpc.gateway(&rpc.address_of("resource_manager"), fence);
        Self { needed, released, shortages, yield_slots, gateway, _registration: registration }
    }
}

/// A JobMaster that runs nothing.
#[derive(Debug)]
pub(crate) struct JobMasterDouble {
    pub(crate) shortages: Calls<job_master::NotifyNotEnoughResources>,
    pub(crate) yield_slots: Calls<job_master::YieldSlots>,
    pub(crate) disconnects: Calls<job_master::DisconnectResourceManager>,
    _registration: Registration,
}

impl JobMasterDouble {
    pub(crate) fn start(process: &TestProcess, job_id: model::JobId, fence: JobMasterId) -> Self {
        let (shortages, yield_slots, disconnects) = Default::default();
        let actor = Double::of(())
            .records::<job_master::NotifyNotEnoughResources>(&shortages)
            .records::<job_master::YieldSlots>(&yield_slots)
            .records::<job_master::DisconnectResourceManager>(&disconnects);
        let name = format!("job_master/{job_id}");
        let rpc = &process.services.rpc;
        let endpoint = job_master::JobMasterGateway::endpoint(actor.start());
        let registration = rpc.serve(name, fence, endpoint);
        Self { shortages, yield_slots, disconnects, _registration: registration }
    }
}
