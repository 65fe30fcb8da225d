//! The processes on the simulated hosts: JobManagers and TaskManagers, composed exactly as real
//! processes are, over simulated sockets, memory stores and program host doubles.

use super::disorder::Late;
use super::flood::Flood;
use super::freezer::Freezer;
use super::network::Connections;
use super::observer::Observer;
use super::plan::{Plan, SLOTS_PER_WORKER};
use super::programs::{Doubles, Programs};
use super::storage::SharedStorage;
use super::uploads::Uploads;
use super::workers::ExternalSystem;
use actors::leader_retrieval::{LeaderNode, RemoteRetrieval, RetrievalSettings};
use actors::resource_manager::Mode;
use actors::task_executor::HostSettings;
use conf::Options;
use control::mutation::Mutation;
use deploy::components::{
    BaseParts, ClusterMode, JobManagerComponents, JobManagerParts, TaskManagerComponents,
    TaskManagerParts,
};
use gateways::{RpcOptions, RpcService};
use model::{ClusterId, MemorySize, ResourceId, WorkerResourceSpec};
use platform::{Platform, SIMULATION_EPOCH_MS, Secret};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::blobs::{DurableBlobs, MemoryBlobs};
use storage::ha::ElectionDriver;

/// The fabric's port on every host.
const PORT: &str = "6123";
/// Interval at which a host without a worker checks whether it is to run one.
const LOOK: Duration = Duration::from_millis(250);

/// The parts of a run that all simulated hosts share and that outlive them: plan, storage, observer, and the means of the faults.
#[derive(Debug, Clone)]
pub struct World {
    /// Plan of the run.
    pub plan: Arc<Plan>,
    /// The rule of the control plane that is broken in all processes; [`Mutation::None`] for none.
    pub mutation: Mutation,
    /// Observer that records every call and fact.
    pub observer: Observer,
    /// The object store of all hosts, with the election's records, job logs, checkpoints and copies of programs.
    pub storage: SharedStorage,
    /// The external resource system, which starts TaskManagers in runs whose ResourceManager is active.
    pub system: ExternalSystem,
    /// Stops processes as a whole for a while, and continues them.
    pub freezer: Freezer,
    /// Connections of all hosts, to be reset by faults.
    pub connections: Connections,
    /// The program host doubles of all hosts; makes those of a process crash.
    pub programs: Programs,
    /// The floods: while there is one, the client makes too many calls.
    pub flood: Flood,
    starts: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl World {
    /// Creates the world at the beginning of a run, with an empty store and no process.
    pub fn new(plan: Plan, mutation: Mutation, observer: Observer) -> Self {
        Self {
            system: ExternalSystem::new(plan.seed, observer.clone()),
            plan: Arc::new(plan),
            mutation,
            storage: SharedStorage::new(observer.clone(), mutation),
            observer,
            freezer: Freezer::default(),
            connections: Connections::default(),
            programs: Programs::default(),
            flood: Flood::default(),
            starts: Arc::default(),
        }
    }

    fn start_of(&self, host: &str) -> u32 {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let start = starts.entry(host.to_owned()).or_default();
        *start += 1;
        self.observer.host_started(host, *start);
        *start
    }

    /// Begins a process on a host: counts its start, tells the observer of it, and starts its fabric on port 6123. Returns the process's
    /// platform (whose randomness follows from seed, host and start), its fabric, and the number of the start, from 1.
    ///
    /// # Errors
    /// The fabric cannot listen.
    pub async fn process(&self, host: &str) -> anyhow::Result<(Platform, RpcService, u32)> {
        let start = self.start_of(host);
        let mut seed = self.plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(start);
        for byte in host.bytes() {
            seed = seed.rotate_left(9) ^ u64::from(byte).wrapping_mul(0x0100_0000_01b3);
        }
        let age = turmoil::sim_elapsed().unwrap_or_default().as_millis();
        let unix_ms = SIMULATION_EPOCH_MS + u64::try_from(age)?;
        let platform = Platform::simulated_at(seed, self.connections.network_of(host), unix_ms);
        let mut options = RpcOptions::listening(
            "0.0.0.0",
            host,
            PORT.parse()?,
            ClusterId::new("simulation"),
            Secret::new([7; 32]),
        );
        options.witness = Some(self.observer.probe(host, start));
        options.mailbox_max = self.plan.settings.mailbox_max;
        let late = self.plan.settings.late_per_mille;
        options.disorder = Some(Arc::new(Late::new(seed, late, self.observer.clone())));
        #[cfg(feature = "mutants")]
        {
            use control::mutation::Rule;
            options.fences_ignored = !self.mutation.keeps(Rule::FencesCompared);
            options.withdrawal_ignored = !self.mutation.keeps(Rule::WithdrawnLetsNothingIn);
        }
        let rpc = RpcService::start(platform.clone(), options).await?;
        Ok((platform, rpc, start))
    }

    fn base(
        &self,
        host: &str,
        resource: ResourceId,
        process: (Platform, RpcService, u32),
    ) -> anyhow::Result<BaseParts> {
        let (platform, rpc, start) = process;
        let probe = self.observer.probe(host, start);
        let mut base =
            BaseParts::new(platform, rpc, Arc::new(self.options()?), resource, host.to_owned());
        base.probe = probe;
        base.mutation = self.mutation;
        Ok(base)
    }

    fn options(&self) -> anyhow::Result<Options> {
        let settings = self.plan.settings;
        let millis = |time: Duration| format!("{} ms", time.as_millis());
        let start_up = millis(settings.start_up);
        let slot_request = millis(settings.slot_request);
        let registration = millis(settings.registration);
        Ok(Options::from_map([
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "1000000"),
            ("restart-strategy.fixed-delay.delay", "1 s"),
            ("resourcemanager.standalone.start-up-time", start_up.as_str()),
            ("slot.request.timeout", slot_request.as_str()),
            ("taskmanager.registration.timeout", registration.as_str()),
            ("resourcemanager.taskmanager-timeout", "20 s"),
            // A container that never comes up is replaced while the run lasts.
            ("resourcemanager.taskmanager-registration.timeout", "30 s"),
        ])?)
    }

    fn launcher(&self, rpc: &RpcService, host: &str) -> Arc<Doubles> {
        let (programs, observer) = (self.programs.clone(), self.observer.clone());
        Arc::new(Doubles::new(rpc.clone(), host, programs, observer))
    }
}

/// Returns the resources of each TaskManager: one core, 576 MiB, [`SLOTS_PER_WORKER`] slots.
pub fn worker_spec() -> WorkerResourceSpec {
    WorkerResourceSpec {
        cpu_millis: 1_000,
        task: MemorySize::from_mib(256),
        network: MemorySize::from_mib(64),
        managed: MemorySize::from_mib(256),
        slots: SLOTS_PER_WORKER,
        extended: BTreeMap::new(),
    }
}

/// Runs a JobManager on a simulated host until it reports a fatal error, which is noted in the trace and counted; the fault injector then
/// starts it again. With an active plan its ResourceManager requests workers from [`World::system`].
///
/// # Errors
/// The process cannot be started. A fatal error later on is none.
pub async fn jobmanager(world: World, host: String) -> anyhow::Result<()> {
    let process = world.process(&host).await?;
    let rpc = process.1.clone();
    let base = world.base(&host, ResourceId::new(format!("{host}-{}", process.2)), process)?;
    let fatal = base.fatal.clone();
    let workers = match world.plan.active {
        true => Mode::Active { driver: Arc::new(world.system.driver()), worker: worker_spec() },
        false => Mode::Standalone,
    };
    let durable = DurableBlobs::new(Arc::new(Uploads::default()), world.storage.of(&host));
    let parts = JobManagerParts {
        election: Arc::new(world.storage.election(&base.platform, &host)),
        standby: true,
        rest: String::new(),
        objects: world.storage.of(&host),
        details: world.storage.of(&host),
        checkpoint_directory: None,
        blobs: Arc::new(durable.clone()),
        durable: Some(durable),
        launcher: world.launcher(&rpc, &host),
        workers,
        mode: ClusterMode::Session,
        own_program: None,
        embedded: true,
        base,
    };
    let components = JobManagerComponents::start(parts, async |_| Ok(())).await?;
    let error = fatal.reported().await;
    note_end(&world, &host, &error.to_string());
    components.stop().await;
    rpc.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

fn note_end(world: &World, host: &str, why: &str) {
    let at = turmoil::sim_elapsed().unwrap_or_default();
    world.observer.remark(at, &format!("{host} ends: {why}"));
    world.observer.count("processes that ended by themselves", 1);
    if why.contains("not registered at a ResourceManager within") {
        world.observer.count("registrations that timed out", 1);
    }
}

/// Runs a TaskManager on a simulated host until it reports a fatal error, is released, or its container is gone; the reason is noted in the
/// trace and counted. With an active plan it starts only once the external system wants a worker on this host, and tells it of the end.
///
/// # Errors
/// The process cannot be started. A later end is no error.
pub async fn taskmanager(world: World, host: String) -> anyhow::Result<()> {
    let wanted = loop {
        if !world.plan.active {
            break None;
        }
        if let Some(resource) = world.system.wanted_on(&host) {
            break Some(resource);
        }
        tokio::time::sleep(LOOK).await;
    };
    let process = world.process(&host).await?;
    let (platform, rpc) = (process.0.clone(), process.1.clone());
    let resource =
        wanted.clone().unwrap_or_else(|| ResourceId::new(format!("{host}-{}", process.2)));
    let base = world.base(&host, resource, process)?;
    let fatal = base.fatal.clone();
    let election = world.storage.election(&platform, &host);
    let retrieval = RemoteRetrieval::new(
        platform,
        rpc.clone(),
        LeaderNode::Record(election.leader()),
        None,
        RetrievalSettings::default(),
    );
    let spec = worker_spec();
    let parts = TaskManagerParts {
        retrieval: Arc::new(retrieval),
        blobs: Arc::new(MemoryBlobs::new()),
        shares_blobs: true,
        launcher: world.launcher(&rpc, &host),
        own_program: None,
        embedded: true,
        process_memory: MemorySize::from_mib(1024),
        facts: model::TaskManagerFacts::default(),
        pid: 1,
        hosts: HostSettings::from_options(
            &base.options,
            ClusterId::new("simulation"),
            host.clone(),
        ),
        data_key: Arc::new(|_| [0; 32]),
        logs: None,
        spec,
        base,
    };
    let components = TaskManagerComponents::start(parts).await?;
    let gone = async {
        while world.system.wanted_on(&host) == wanted {
            tokio::time::sleep(LOOK).await;
        }
    };
    let why = tokio::select! {
        biased;
        error = fatal.reported() => error.to_string(),
        why = components.released() => why,
        () = gone => "its container is gone".to_owned(),
    };
    note_end(&world, &host, &why);
    components.stop(&why).await;
    rpc.shutdown(Duration::from_secs(1)).await;
    if wanted.is_some() && world.system.wanted_on(&host) == wanted {
        world.system.ended(&host, &why);
    }
    Ok(())
}
