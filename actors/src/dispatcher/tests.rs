mod snapshots;

use super::*;
use crate::blob_server::Needed;
use crate::job_testing::{
    Deployments, ElectionDouble, HostsDouble, ManagerDouble, TaskManagerDouble, graph, job,
    program, received, until,
};
use crate::program_hosts::HostSide;
use crate::services::LeaderRetrieval as _;
use crate::testing::{TestProcess, seconds, session, settle};
use gateways::dispatcher::{
    BlobServerLocation, CancelJob, ClientHeartbeat, DeliverCoordinationRequest, DispatcherGateway,
    JobError, PlanProgram, RequestBlobServer, RequestJobDetails, RequestJobResult,
    RequestJobStatus, RequestJobsOverview, ShutDownCluster, SubmitError, SubmitJob,
};
use gateways::job_master::{CoordinationError, JobMasterGateway};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::program_host::BuildError;
use gateways::{CallError, FabricError};
use model::{
    BlobKind, DispatcherId, FailureCause, Fence, JobMasterId, LeaderSession, OperatorId,
    ProgramRef, ResourceProfile,
};
use runner::DispatcherHandle;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::blobs::{BlobStore as _, MemoryBlobs, hash_bytes, store_bytes};
use storage::ha::Lease;
use storage::jobs::{JobFact, JobLogs, JobResultEntry, JobState, LogId, Writer};
use storage::objects::{Fault, FaultyObjects, MemoryObjects, StoreError};

struct Fixture {
    process: TestProcess,
    election: Arc<ElectionDouble>,
    hosts: HostsDouble,
    objects: MemoryObjects,
    /// The faulty store between the Dispatcher and `objects`.
    store: FaultyObjects,
    lease: Lease,
    end: watch::Receiver<Option<ClusterEnd>>,
    in_use: BlobsInUse,
    handle: DispatcherHandle,
    /// The folder of the cluster's own checkpoint directory, `checkpoints`.
    home: tempfile::TempDir,
    _manager: ManagerDouble,
}

async fn start_with(mode: ClusterMode, objects: MemoryObjects) -> Fixture {
    let process = TestProcess::start(&[]).await;
    let election = ElectionDouble::start(&process);
    start_in(process, election, mode, objects).await
}

async fn start_in(
    process: TestProcess,
    election: Arc<ElectionDouble>,
    mode: ClusterMode,
    objects: MemoryObjects,
) -> Fixture {
    start_keeping(None, process, election, mode, objects).await
}

async fn start_keeping(
    durable: Option<DurableBlobs>,
    process: TestProcess,
    election: Arc<ElectionDouble>,
    mode: ClusterMode,
    objects: MemoryObjects,
) -> Fixture {
    let hosts = HostsDouble::start(&process, HostSide::JobManager).await;
    let manager = ManagerDouble::lead(&process, 60);
    let (end, ended) = watch::channel(None);
    let in_use = BlobsInUse::default();
    let services = process.services.clone();
    let store = FaultyObjects::new(Arc::new(objects.clone()));
    let lease = Lease::endless();
    let home = tempfile::tempdir().unwrap();
    let handle = start(DispatcherDeps {
        election: election.clone(),
        leaders: process.leaders.clone(),
        hosts: (hosts.running.address().clone(), services.session),
        blobs: None,
        durable,
        in_use: in_use.clone(),
        objects: Arc::new(store.clone()),
        details: Arc::new(store.clone()),
        checkpoint_directory: Some(home.path().join("checkpoints").display().to_string()),
        lease: lease.clone(),
        mode,
        end,
        ship_programs: true,
        embedded: false,
        services,
    })
    .await
    .unwrap();
    Fixture {
        process,
        election,
        hosts,
        objects,
        store,
        lease,
        end: ended,
        in_use,
        handle,
        home,
        _manager: manager,
    }
}

impl Fixture {
    async fn session() -> Self {
        let fixture = start_with(ClusterMode::Session, MemoryObjects::new()).await;
        fixture.leads(1).await;
        fixture
    }

    async fn leads(&self, times: usize) {
        let dispatchers = || {
            let confirmed = self.election.confirmed();
            confirmed.iter().filter(|(c, _)| *c == Component::Dispatcher).count()
        };
        until("the Dispatcher leads", || dispatchers() == times).await;
    }

    fn gateway(&self) -> Remote<DispatcherGateway> {
        let confirmed = self.election.confirmed();
        let (_, leader) =
            confirmed.iter().rfind(|(c, _)| *c == Component::Dispatcher).expect("it leads");
        let fence = DispatcherId::from_session(leader.session);
        self.process.services.rpc.gateway(&leader.address, fence)
    }

    async fn job_master(&self, n: u128) -> Remote<JobMasterGateway> {
        let found = || self.known_job_master(n);
        until("the JobMaster leads", || found().is_some()).await;
        let leader = found().unwrap();
        let fence = JobMasterId::from_session(leader.session);
        self.process.services.rpc.gateway(&leader.address, fence)
    }

    /// Returns the job's JobMaster as other components see it.
    fn known_job_master(&self, n: u128) -> Option<LeaderInformation> {
        self.process.leaders.watch(Component::JobMaster(job(n))).borrow().clone()
    }

    async fn submit(&self, graph: JobGraph) -> Result<JobId, SubmitError> {
        self.gateway().ask(SubmitJob { graph }).await.map_err(|e| e.refused().expect("refused"))
    }

    async fn status(&self, n: u128) -> Result<JobStatus, JobError> {
        let ask = self.gateway().ask(RequestJobStatus { job_id: job(n) }).await;
        ask.map_err(|e| e.refused().expect("refused"))
    }

    /// Runs a submitted job of two tasks to its end.
    async fn finish(&self, n: u128) {
        let job_master = self.job_master(n).await;
        let name = format!("tm-of-{n}");
        let task_manager =
            TaskManagerDouble::register(&self.process, &name, Deployments::Take, &job_master).await;
        task_manager.offer(&[n]).await;
        until("deployed", || task_manager.attempts().len() == 2).await;
        task_manager.finish_all().await;
        let wait = RequestJobResult { job_id: job(n), wait_ms: 60_000 };
        assert_eq!(self.gateway().ask(wait).await.unwrap().status, JobStatus::Finished);
        settle().await;
    }

    /// Returns the names of the records in a job's log.
    async fn stored(&self, n: u128) -> Vec<String> {
        self.objects.list(&format!("jobs/{}/", job(n))).await.unwrap()
    }

    async fn log_says(&self, n: u128) -> JobState {
        // Reads a copy of the log as a later leader would.
        let newer = LeaderSession { epoch: model::Epoch { store: u64::MAX, process: 0 }, nonce: 0 };
        let writer = Writer { session: newer, address: String::new() };
        let copy = MemoryObjects::new();
        for name in self.objects.list("").await.unwrap() {
            let bytes = self.objects.get(&name).await.unwrap().unwrap();
            copy.put(&name, bytes).await.unwrap();
        }
        logs(&copy).take_over(job(n), None, writer).await.unwrap().state
    }
}

fn logs(objects: &MemoryObjects) -> JobLogs {
    let network = Arc::new(platform::inproc::InProcessNetwork::new());
    let platform = platform::Platform::simulated(1, network);
    JobLogs::new(Arc::new(objects.clone()), platform, Lease::endless())
}

/// Returns the identity of the leader before the tested one.
fn earlier() -> Writer {
    Writer { session: LeaderSession::default(), address: "old:6123".into() }
}

/// The id of the log that an earlier leader left of each job.
const EARLIER_LOG: LogId = LogId {
    creator: LeaderSession { epoch: model::Epoch { store: 0, process: 0 }, nonce: 0 },
    count: 0,
};

/// Creates the log of a job that an earlier leader left.
async fn left_behind(objects: &MemoryObjects, graph: JobGraph) -> storage::jobs::LogEnd {
    logs(objects).create(Arc::new(graph), EARLIER_LOG, earlier()).await.unwrap()
}

fn submission(id: Option<u128>) -> SubmitProgram {
    SubmitProgram {
        program: program(),
        job_id: id.map(job),
        parallelism: Some(1),
        options: BTreeMap::new(),
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_is_stored_run_archived_and_cleaned_up() {
    let f = Fixture::session().await;
    assert_eq!(f.submit(graph(1, 1, false)).await, Ok(job(1)));
    assert_eq!(f.stored(1).await.len(), 1);
    assert_eq!(f.status(1).await, Ok(JobStatus::Running));
    let result = RequestJobResult { job_id: job(1), wait_ms: 100 };
    let unfinished = f.gateway().ask(result.clone()).await.unwrap();
    assert_eq!(unfinished.status, JobStatus::Running);
    f.finish(1).await;
    let ended = f.gateway().ask(result).await.unwrap();
    assert_eq!((ended.status, ended.name.as_str()), (JobStatus::Finished, "job 1"));
    let details = f.gateway().ask(RequestJobDetails { job_id: job(1) }).await.unwrap();
    assert_eq!(details.status, JobStatus::Finished);
    assert_eq!(details.vertices.len(), 2);
    let overview = f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs;
    assert_eq!(overview.len(), 1);
    assert_eq!(overview[0].end_ms, details.end_ms);
    let JobState::Ended(entry) = f.log_says(1).await else { panic!("its end is recorded") };
    assert_eq!((entry.status, entry.tasks.values().sum::<u32>()), (JobStatus::Finished, 2));
    assert_eq!(f.known_job_master(1), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_is_built_with_the_settings_of_the_cluster_that_shape_a_graph() {
    let settings = [("pipeline.max-parallelism", "64"), ("restart-strategy.type", "none")];
    let process = TestProcess::start(&settings).await;
    let election = ElectionDouble::start(&process);
    let f = start_in(process, election, ClusterMode::Session, MemoryObjects::new()).await;
    f.leads(1).await;
    let plan = |own: Option<&str>| {
        let options = own.map(|own| ("pipeline.max-parallelism".to_owned(), own.to_owned()));
        let options = options.into_iter().collect();
        let (plan, gateway) =
            (PlanProgram { program: program(), parallelism: Some(1), options }, f.gateway());
        async move { gateway.ask(plan).await }
    };
    let max = BTreeMap::from([("pipeline.max-parallelism".to_owned(), "64".to_owned())]);
    assert_eq!(plan(None).await.unwrap().options, max);
    assert_eq!(plan(Some("8")).await.unwrap().options["pipeline.max-parallelism"], "8");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn who_waits_for_the_result_gets_it_when_the_job_ends() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let wait = RequestJobResult { job_id: job(1), wait_ms: 60_000 };
    let gateway = f.gateway();
    let (result, ()) =
        futures::join!(gateway.ask_within(wait, Duration::from_secs(70)), f.finish(1));
    assert_eq!(result.unwrap().status, JobStatus::Finished);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_and_future_callers_are_fenced() {
    let f = Fixture::session().await;
    let address = f.gateway().address().clone();
    for other in [1, 900] {
        let fence = DispatcherId(session(other));
        let gateway: Remote<DispatcherGateway> = f.process.services.rpc.gateway(&address, fence);
        let answer = gateway.ask(SubmitJob { graph: graph(1, 1, false) }).await;
        assert!(matches!(answer, Err(CallError::Fabric(FabricError::Fenced { .. }))));
    }
    assert_eq!(f.stored(1).await, Vec::<String>::new());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn both_kinds_of_duplicates_are_refused_with_their_own_words() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let again = f.submit(graph(1, 1, false)).await.unwrap_err();
    assert_eq!(again, SubmitError::DuplicateRunning { job: job(1) });
    f.finish(1).await;
    let again = f.submit(graph(1, 1, false)).await.unwrap_err();
    let ended = SubmitError::DuplicateTerminated { job: job(1), status: JobStatus::Finished };
    assert_eq!(again, ended);
    let program = f.gateway().ask(submission(Some(1))).await.unwrap_err().refused();
    assert_eq!(program, Some(ended));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn malformed_graphs_and_partial_resources_are_refused_and_nothing_is_kept() {
    let f = Fixture::session().await;
    let mut partial = graph(1, 1, false);
    partial.vertices[0].resources = Some(ResourceProfile::default());
    let refused = f.submit(partial).await.unwrap_err();
    assert_eq!(refused, SubmitError::PartialResources { vertices: vec!["v2".into()] });
    let zero = f.submit(graph(1, 0, false)).await.unwrap_err();
    assert!(matches!(zero, SubmitError::InvalidGraph(_)), "{zero}");
    let mut options = graph(1, 1, false);
    options.options.insert("no.such.option".into(), "1".into());
    let unknown = f.submit(options).await.unwrap_err();
    assert!(unknown.to_string().contains("no.such.option"), "{unknown}");
    assert_eq!(f.stored(1).await, Vec::<String>::new());
    assert_eq!(f.submit(graph(1, 1, false)).await, Ok(job(1)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_full_disk_refuses_the_job_and_keeps_nothing() {
    let f = Fixture::session().await;
    let full = StoreError::DiskFull { path: "/ha".into() };
    f.store.set_writes(Fault::Fail(full));
    let refused = f.submit(graph(1, 1, false)).await.unwrap_err();
    assert!(refused.to_string().contains("the disk of /ha is full"), "{refused}");
    f.store.set_writes(Fault::None);
    assert_eq!(f.stored(1).await, Vec::<String>::new());
    assert_eq!(f.submit(graph(1, 1, false)).await, Ok(job(1)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_is_recorded_once_its_program_is_kept_for_the_next_leader() {
    let process = TestProcess::start(&[]).await;
    let election = ElectionDouble::start(&process);
    let (programs, objects) = (MemoryObjects::new(), MemoryObjects::new());
    let faulty = FaultyObjects::new(Arc::new(programs.clone()));
    let durable = || DurableBlobs::new(Arc::new(MemoryBlobs::new()), Arc::new(faulty.clone()));
    let blobs = durable();
    let key = store_bytes(&blobs, b"program", None, BlobKind::Permanent).await.unwrap();
    let jobs = objects.clone();
    let f = start_keeping(Some(blobs), process, election, ClusterMode::Session, objects).await;
    f.leads(1).await;
    let with = |n, hash| {
        let mut graph = graph(n, 1, false);
        graph.program = ProgramRef { hash, size: key.size, ..graph.program };
        graph
    };
    let checkpoints = tempfile::tempdir().unwrap();
    let (option, path) = ("execution.checkpointing.dir", checkpoints.path().display().to_string());
    let mut nobody_has_it = with(1, hash_bytes(b"nobody has it"));
    nobody_has_it.options.insert(option.to_owned(), path);
    let missing = f.submit(nobody_has_it).await.unwrap_err();
    assert!(missing.to_string().contains("program words"), "{missing}");
    let left = std::fs::read_dir(checkpoints.path()).unwrap().count();
    assert_eq!(left, 0, "the mark of the refused job is gone");
    faulty.set_writes(Fault::Fail(StoreError::DiskFull { path: "/programs".into() }));
    let full = f.submit(with(1, key.hash)).await.unwrap_err();
    assert!(full.to_string().contains("the disk of /programs is full"), "{full}");
    faulty.set_writes(Fault::Hang);
    let mut submitted = Box::pin(f.submit(with(1, key.hash)));
    assert!(tokio::time::timeout(Duration::from_secs(2), &mut submitted).await.is_err());
    assert_eq!(f.stored(1).await, Vec::<String>::new(), "nobody could run it yet");
    faulty.set_writes(Fault::None);
    assert_eq!(submitted.await, Ok(job(1)));
    assert_eq!(durable().find(None, key.hash).await, Ok(Some(key)), "at another JobManager");
    // The next leader makes a copy of its own, which no earlier leader deletes.
    f.handle.stop().await;
    let process = TestProcess::start(&[]).await;
    let election = ElectionDouble::start(&process);
    let mode = ClusterMode::Session;
    let next = start_keeping(Some(durable()), process, election, mode, jobs).await;
    next.leads(1).await;
    settle().await;
    let names = programs.list("").await.unwrap();
    assert_eq!(names.iter().filter(|name| name.contains("/whole.")).count(), 2, "{names:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_result_that_can_not_be_stored_holds_the_end_of_this_job_up_and_nothing_else() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let job_master = f.job_master(1).await;
    f.store.set_writes(Fault::Fail(StoreError::DiskFull { path: "/ha".into() }));
    job_master.ask(gateways::job_master::Cancel {}).await.unwrap();
    seconds(600).await;
    let wait = |wait_ms| RequestJobResult { job_id: job(1), wait_ms };
    let result = f.gateway().ask(wait(0)).await.unwrap();
    assert!(!result.status.is_globally_terminal(), "it is over when that is recorded");
    assert_eq!(f.process.services.fatal.first(), None);
    f.store.set_writes(Fault::None);
    let result = f.gateway().ask_within(wait(60_000), Duration::from_secs(70)).await.unwrap();
    assert_eq!(result.status, JobStatus::Canceled);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_store_that_hangs_delays_a_submission_and_nothing_else() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    f.job_master(1).await;
    f.store.set(Fault::Hang);
    let gateway = f.gateway();
    let submit =
        gateway.ask_within(SubmitJob { graph: graph(2, 1, false) }, Duration::from_secs(100));
    let mut submit = std::pin::pin!(submit);
    let waited = tokio::time::timeout(Duration::from_secs(30), &mut submit).await;
    assert!(waited.is_err(), "{waited:?}");
    assert_eq!(f.status(1).await, Ok(JobStatus::Running));
    let overview = f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs;
    let states: Vec<_> = overview.iter().map(|job| (job.job_id, job.status)).collect();
    let persisting = (job(2), JobStatus::Initializing);
    assert_eq!(states, [(job(1), JobStatus::Running), persisting]);
    assert_eq!(f.status(2).await, Ok(JobStatus::Initializing));
    let again = f.submit(graph(2, 1, false)).await.unwrap_err();
    assert_eq!(again, SubmitError::DuplicateRunning { job: job(2) });
    f.store.set(Fault::None);
    assert_eq!(submit.await, Ok(job(2)));
    f.finish(1).await;
}

/// Restart strategy `none`: leader A is stopped before it records that the job has failed; B recovers the job.
#[tokio::test(flavor = "local", start_paused = true)]
async fn a_superseded_leader_neither_records_an_end_nor_deletes_anything() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let job_master = f.job_master(1).await;
    f.store.set_writes(Fault::Hang);
    job_master.ask(gateways::job_master::Cancel {}).await.unwrap();
    seconds(5).await;
    let newer = LeaderSession { epoch: model::Epoch { store: 9_999, process: 1 }, nonce: 1 };
    let b = Writer { session: newer, address: "b:6123".into() };
    let taken = logs(&f.objects).take_over(job(1), None, b).await.unwrap();
    assert!(matches!(taken.state, JobState::Running(_)), "{:?}", taken.state);
    let before = f.stored(1).await;
    // The lease of this test has no end, so it is the log alone that stops A.
    assert!(f.lease.holds(Duration::MAX));
    f.store.set_writes(Fault::None);
    seconds(60).await;
    assert_eq!(f.stored(1).await, before);
    assert!(matches!(f.log_says(1).await, JobState::Running(_)));
    assert_eq!(f.in_use.get(), None, "which blobs are needed is the other leader's to say");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_leader_whose_lease_is_over_records_nothing() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let job_master = f.job_master(1).await;
    f.lease.set(None);
    job_master.ask(gateways::job_master::Cancel {}).await.unwrap();
    seconds(60).await;
    assert!(matches!(f.log_says(1).await, JobState::Running(_)));
    let refused = f.submit(graph(2, 1, false)).await.unwrap_err();
    assert_eq!(refused, SubmitError::ShuttingDown);
    assert_eq!(f.in_use.get(), None, "another leader says which blobs are needed");
    assert_eq!(f.stored(2).await, Vec::<String>::new());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn ended_jobs_are_forgotten_after_their_time_and_beyond_their_number() {
    let options = [("jobstore.max-capacity", "2"), ("jobstore.expiration-time", "10 min")];
    let process = TestProcess::start(&options).await;
    let election = ElectionDouble::start(&process);
    let f = start_in(process, election, ClusterMode::Session, MemoryObjects::new()).await;
    f.leads(1).await;
    for n in 1..=3 {
        f.submit(graph(n, 1, false)).await.unwrap();
        f.finish(n).await;
    }
    assert_eq!(f.status(1).await, Err(JobError::NotFound { job: job(1) }));
    assert_eq!(f.stored(1).await, Vec::<String>::new());
    assert_eq!(f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs.len(), 2);
    let again = f.submit(graph(3, 1, false)).await.unwrap_err();
    assert!(matches!(again, SubmitError::DuplicateTerminated { .. }));
    seconds(700).await;
    assert_eq!(f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs.len(), 0);
    let forgotten = f.gateway().ask(RequestJobsOverview {}).await.unwrap().forgotten;
    assert_eq!(forgotten, BTreeMap::from([(JobStatus::Finished, 3)]), "they are counted");
    let left = f.objects.list("").await.unwrap();
    assert!(left.iter().all(|name| name.starts_with("jobs/taken-over/")), "{left:?}");
    assert_eq!(f.submit(graph(3, 1, false)).await, Ok(job(3)), "its id is free again");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn programs_are_built_in_a_child_and_run_under_the_id_that_was_given() {
    let f = Fixture::session().await;
    let id = f.gateway().ask(submission(Some(9))).await.unwrap();
    assert_eq!(id, job(9));
    f.job_master(9).await;
    assert_eq!(f.hosts.script.launches.all().len(), 1, "the child that built it stays");
    let drawn = f.gateway().ask(submission(None)).await.unwrap();
    assert_ne!(drawn, job(9));
    let plan = PlanProgram { program: program(), parallelism: Some(4), options: BTreeMap::new() };
    let planned = f.gateway().ask(plan).await.unwrap();
    assert_eq!(planned.vertices[0].parallelism, 4);
    assert_eq!(f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs.len(), 2);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_that_does_not_build_is_told_in_its_own_words() {
    let f = Fixture::session().await;
    let wrong = BuildError::Program("no such file: /texts".into());
    f.hosts.script.set(&f.hosts.script.build, Some(Err(wrong)));
    let refused = f.gateway().ask(submission(Some(1))).await.unwrap_err().refused().unwrap();
    assert_eq!(refused, SubmitError::Build("no such file: /texts".into()));
    let no_room = BuildError::NoRoom("Too many open files (os error 24)".into());
    f.hosts.script.set(&f.hosts.script.fail_launch, Some(no_room));
    let refused = f.gateway().ask(submission(Some(1))).await.unwrap_err().refused().unwrap();
    assert_eq!(refused, SubmitError::NoRoom("Too many open files (os error 24)".into()));
    f.hosts.script.set(&f.hosts.script.fail_launch, None);
    let help = BuildError::Usage { text: "Usage: words".into(), help: true };
    f.hosts.script.set(&f.hosts.script.build, Some(Err(help)));
    let refused = f.gateway().ask(submission(Some(1))).await.unwrap_err().refused().unwrap();
    assert_eq!(refused, SubmitError::Usage { text: "Usage: words".into(), help: true });
    f.hosts.script.set(&f.hosts.script.build, None);
    settle().await;
    assert_eq!(f.gateway().ask(submission(Some(1))).await.unwrap(), job(1));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_that_sets_an_option_of_the_cluster_is_refused_and_a_client_that_has_it_is_not() {
    let f = Fixture::session().await;
    let sets = |key: &str| {
        let mut built = graph(1, 1, true);
        built.options.insert(key.into(), "4".into());
        f.hosts.script.set(&f.hosts.script.build, Some(Ok(built)));
    };
    sets("taskmanager.numberOfTaskSlots");
    let refused = f.gateway().ask(submission(Some(1))).await.unwrap_err().refused().unwrap();
    let said = "the program sets 'taskmanager.numberOfTaskSlots', which is not an option of a job";
    assert!(refused.to_string().contains(said), "{refused}");
    sets("web.exception-history-size");
    assert_eq!(f.gateway().ask(submission(Some(2))).await.unwrap(), job(2));
    // An embedded run gives a job all options of its configuration.
    let mut with_all = submission(Some(3));
    with_all.options.insert("taskmanager.numberOfTaskSlots".into(), "4".into());
    assert_eq!(f.gateway().ask(with_all).await.unwrap(), job(3));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn jobs_are_cancelled_and_unknown_ones_are_told_apart_from_ended_ones() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let cancel = |n| CancelJob { job_id: job(n) };
    f.gateway().ask(cancel(1)).await.unwrap();
    let wait = RequestJobResult { job_id: job(1), wait_ms: 60_000 };
    f.gateway().ask(wait).await.unwrap();
    settle().await;
    assert_eq!(f.status(1).await, Ok(JobStatus::Canceled));
    let ended = f.gateway().ask(cancel(1)).await.unwrap_err().refused();
    let expected = JobError::Terminated { job: job(1), status: JobStatus::Canceled };
    assert_eq!(ended, Some(expected));
    let unknown = f.gateway().ask(cancel(7)).await.unwrap_err().refused();
    assert_eq!(unknown, Some(JobError::NotFound { job: job(7) }));
}

/// A job that is cancelled once its client has been silent for 10 s.
fn bound_graph() -> JobGraph {
    let mut bound = graph(1, 1, false);
    for (key, value) in
        [("execution.shutdown-on-attached-exit", "true"), ("client.heartbeat.timeout", "10 s")]
    {
        bound.options.insert(key.to_owned(), value.to_owned());
    }
    bound
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_cluster_whose_bound_client_is_gone_is_needed_by_nobody() {
    let mode = ClusterMode::PerJob(Box::new(bound_graph()));
    let mut f = start_with(mode, MemoryObjects::new()).await;
    f.leads(1).await;
    let end = received(&mut f.end).await;
    assert_eq!((end.status, end.dismissed), (ApplicationStatus::Canceled, true));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_that_is_bound_to_a_client_is_cancelled_when_the_client_is_silent() {
    let f = Fixture::session().await;
    f.submit(bound_graph()).await.unwrap();
    f.submit(graph(2, 1, false)).await.unwrap();
    let beat = |n| ClientHeartbeat { job_id: job(n), timeout_ms: 10_000 };
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(8)).await;
        f.gateway().ask(beat(1)).await.unwrap();
    }
    assert_ne!(f.status(1).await, Ok(JobStatus::Canceled));
    let wait = RequestJobResult { job_id: job(1), wait_ms: 11_000 };
    let within = Duration::from_secs(20);
    let result = f.gateway().ask_within(wait, within).await.unwrap();
    assert_eq!(result.status, JobStatus::Canceled);
    settle().await;
    assert_ne!(f.status(2).await, Ok(JobStatus::Canceled), "nobody bound it");
    let late = f.gateway().ask(beat(1)).await.unwrap_err().refused();
    let ended = JobError::Terminated { job: job(1), status: JobStatus::Canceled };
    assert_eq!(late, Some(ended));
    let unknown = f.gateway().ask(beat(3)).await.unwrap_err().refused();
    assert_eq!(unknown, Some(JobError::NotFound { job: job(3) }));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_a_finished_job_collected_is_served_for_a_while() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, true)).await.unwrap();
    let request = || DeliverCoordinationRequest {
        job_id: job(1),
        operator: OperatorId(2),
        request: b"0".to_vec(),
    };
    let job_master = f.job_master(1).await;
    let waits = f.gateway().ask(request()).await.unwrap_err().refused().unwrap();
    assert!(matches!(waits, CoordinationError::Unavailable(_)), "no slots yet: {waits}");
    let process = &f.process;
    let task_manager =
        TaskManagerDouble::register(process, "tm", Deployments::Take, &job_master).await;
    task_manager.offer(&[1]).await;
    until("deployed", || task_manager.attempts().len() == 2).await;
    assert_eq!(f.gateway().ask(request()).await.unwrap().as_ref(), b"results from 0");
    task_manager.finish_all().await;
    let wait = RequestJobResult { job_id: job(1), wait_ms: 60_000 };
    assert_eq!(f.gateway().ask(wait).await.unwrap().status, JobStatus::Finished);
    assert_eq!(f.gateway().ask(request()).await.unwrap().as_ref(), b"results from 0");
    seconds(200).await;
    let over = f.gateway().ask(request()).await.unwrap_err().refused().unwrap();
    assert!(matches!(over, CoordinationError::Failed(_)), "{over}");
    let unknown = DeliverCoordinationRequest { job_id: job(7), ..request() };
    let error = f.gateway().ask(unknown).await.unwrap_err().refused();
    assert_eq!(error, Some(CoordinationError::NoSuchJob { job: job(7) }));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_new_leader_starts_after_the_old_one_has_ended_and_recovers_its_jobs() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let first = f.gateway();
    let first_master = f.job_master(1).await;
    let before = f.known_job_master(1).unwrap().session;
    f.election.revoke(Component::Dispatcher).await;
    assert_eq!(f.known_job_master(1), None);
    assert!(first.ask(RequestJobsOverview {}).await.is_err());
    let gone = first_master.ask(gateways::job_master::RequestStatus {}).await;
    assert!(gone.is_err(), "its jobs are suspended when the revocation is answered");
    f.election.grant(Component::Dispatcher).await;
    f.leads(2).await;
    let stale = first.ask(RequestJobsOverview {}).await;
    assert!(matches!(stale, Err(CallError::Fabric(FabricError::Fenced { .. }))));
    assert_eq!(f.status(1).await, Ok(JobStatus::Running));
    f.job_master(1).await;
    assert!(f.known_job_master(1).unwrap().session.epoch > before.epoch);
    f.finish(1).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn recovery_runs_what_has_not_ended_and_lists_what_has() {
    let objects = MemoryObjects::new();
    left_behind(&objects, graph(1, 1, false)).await;
    let end = left_behind(&objects, graph(2, 1, false)).await;
    let entry = JobResultEntry {
        job_id: job(2),
        name: "job 2".into(),
        status: JobStatus::Failed,
        cause: Some(FailureCause::fatal("UserError", "it broke")),
        start_ms: 10,
        end_ms: platform::SIMULATION_EPOCH_MS,
        last_modification_ms: 30,
        tasks: BTreeMap::new(),
        details: None,
    };
    let fact = JobFact::Result(Box::new(entry));
    logs(&objects).append(end, fact, earlier()).await.unwrap();
    // A log without record 0, as a superseded leader leaves it by appending after the job's log was deleted.
    let end = left_behind(&objects, graph(3, 1, false)).await;
    logs(&objects).append(end, JobFact::Owner, earlier()).await.unwrap();
    objects.delete(&format!("jobs/{}/{EARLIER_LOG}-0000000000", job(3))).await.unwrap();
    let f = start_with(ClusterMode::Session, objects).await;
    f.leads(1).await;
    f.job_master(1).await;
    assert_eq!(f.status(2).await, Ok(JobStatus::Failed));
    assert_eq!(f.status(3).await, Err(JobError::NotFound { job: job(3) }));
    assert_eq!(f.stored(3).await, Vec::<String>::new());
    let result = RequestJobResult { job_id: job(2), wait_ms: 0 };
    let result = f.gateway().ask(result).await.unwrap();
    assert_eq!(result.cause.unwrap().message, "it broke");
    let details = f.gateway().ask(RequestJobDetails { job_id: job(2) }).await.unwrap_err();
    let details = details.refused().expect("refused");
    let gone = matches!(&details, JobError::DetailsGone { status: JobStatus::Failed, .. });
    assert!(gone, "{details}");
    let again = f.submit(graph(2, 1, false)).await.unwrap_err();
    assert!(matches!(again, SubmitError::DuplicateTerminated { .. }));
    let overview = f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs;
    let listed: Vec<_> = overview.iter().map(|job| (job.job_id, job.status)).collect();
    assert_eq!(listed, [(job(1), JobStatus::Running), (job(2), JobStatus::Failed)]);
    let marks = f.objects.list("jobs/taken-over/").await.unwrap();
    assert_eq!(marks.len(), 1, "the next leader tells late submissions of earlier ones by it");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn after_a_failover_ended_jobs_are_listed_with_their_details() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    f.finish(1).await;
    f.election.revoke(Component::Dispatcher).await;
    f.election.grant(Component::Dispatcher).await;
    f.leads(2).await;
    settle().await;
    let overview = f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs;
    assert_eq!(overview.len(), 1);
    assert_eq!(overview[0].tasks, BTreeMap::from([(model::ExecutionState::Finished, 2)]));
    let details = f.gateway().ask(RequestJobDetails { job_id: job(1) }).await.unwrap();
    assert_eq!((details.status, details.vertices.len()), (JobStatus::Finished, 2));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn while_jobs_are_recovered_new_ones_run_and_old_ones_are_asked_for_again() {
    let objects = MemoryObjects::new();
    left_behind(&objects, graph(1, 1, false)).await;
    let process = TestProcess::start(&[]).await;
    let election = ElectionDouble::held_back(&process);
    let f = start_in(process, election, ClusterMode::Session, objects).await;
    // A submission reads once, recovery three times: the newest mark, the names of all logs, the log of job 1.
    f.store.set_reads(Fault::Slow(Duration::from_secs(3)));
    f.election.grant(Component::Dispatcher).await;
    f.leads(1).await;
    assert_eq!(f.submit(graph(2, 1, false)).await, Ok(job(2)));
    assert_eq!(f.status(1).await, Err(JobError::Unavailable { job: job(1) }));
    assert_eq!(f.in_use.get(), None, "the blobs of jobs that are not known yet stay");
    f.store.set_reads(Fault::None);
    seconds(10).await;
    let overview = f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs;
    assert_eq!(overview.len(), 2);
    assert_eq!(f.in_use.get().map(|needed| needed.jobs.len()), Some(2));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_that_a_superseded_leader_stored_late_runs_when_it_is_submitted_again() {
    let f = Fixture::session().await;
    left_behind(&f.objects, graph(1, 1, false)).await;
    assert_eq!(f.status(1).await, Err(JobError::NotFound { job: job(1) }));
    let again = f.submit(graph(1, 1, false)).await.unwrap_err();
    assert_eq!(again, SubmitError::DuplicateRunning { job: job(1) });
    settle().await;
    f.finish(1).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_stays_needed_as_long_as_its_graph_may_be_stored() {
    let f = Fixture::session().await;
    let program = |n| f.in_use.get().unwrap().programs.get(&job(n)).copied();
    let (late, failing) = (graph(1, 1, false), graph(2, 1, false));
    // A superseded leader stored job 1, and reading its log takes a while.
    left_behind(&f.objects, late.clone()).await;
    f.store.set_reads(Fault::Slow(Duration::from_secs(3)));
    let again = f.submit(late.clone()).await.unwrap_err();
    assert_eq!(again, SubmitError::DuplicateRunning { job: job(1) });
    settle().await;
    assert_eq!(program(1), Some(late.program.hash));
    seconds(10).await;
    assert_eq!(program(1), Some(late.program.hash), "it runs");
    f.store.set_reads(Fault::None);
    // Nobody knows whether job 2 was stored.
    let why = StoreError::Unreachable { path: "s3://b/x".into(), why: "no answer".into() };
    f.store.set_writes(Fault::Fail(why));
    let failed = f.submit(failing.clone()).await.unwrap_err();
    assert!(matches!(failed, SubmitError::Storage(_)), "{failed}");
    assert_eq!(program(2), Some(failing.program.hash));
    f.store.set_writes(Fault::None);
    assert_eq!(f.submit(failing).await, Ok(job(2)));
    f.finish(2).await;
}

#[tokio::test(flavor = "local")]
async fn a_job_that_cannot_start_from_its_savepoint_is_refused_and_nothing_of_it_is_kept() {
    let f = Fixture::session().await;
    let mut wanted = graph(1, 1, false);
    let path = tempfile::tempdir().unwrap().path().join("absent").display().to_string();
    let before = f.objects.list("").await.unwrap();
    wanted.options.insert("execution.state-recovery.path".to_owned(), path.clone());
    match f.submit(wanted.clone()).await {
        Err(SubmitError::Restore(why)) => assert!(why.contains(&path), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(f.objects.list("").await.unwrap(), before);
    wanted.options.clear();
    assert_eq!(f.submit(wanted).await, Ok(job(1)), "its id is free");
    f.finish(1).await;
}

#[tokio::test(flavor = "local")]
async fn a_job_whose_checkpoint_directory_cannot_be_used_is_refused_and_leaves_nothing() {
    let f = Fixture::session().await;
    let home = tempfile::tempdir().unwrap();
    let (file, good) = (home.path().join("file"), home.path().join("good"));
    std::fs::write(&file, "").unwrap();
    let before = f.objects.list("").await.unwrap();
    let mut wanted = graph(1, 1, false);
    let option = "execution.checkpointing.dir".to_owned();
    for bad in ["file:///proc/checkpoints".to_owned(), file.display().to_string()] {
        wanted.options.insert(option.clone(), bad.clone());
        match f.submit(wanted.clone()).await {
            Err(SubmitError::CheckpointDirectory(why)) => {
                let begins = format!("the checkpoint directory '{bad}' cannot be used: ");
                let remedy = format!("set {option} to");
                assert!(why.starts_with(&begins) && why.contains(&remedy), "{why}");
            }
            other => panic!("{bad}: {other:?}"),
        }
        assert_eq!(f.status(1).await, Err(JobError::NotFound { job: job(1) }));
    }
    // A store whose one object of the job's folder is a file.
    std::fs::create_dir(&good).unwrap();
    std::fs::write(good.join(job(1).to_string()), "").unwrap();
    wanted.options.insert(option, good.display().to_string());
    let refused = f.submit(wanted.clone()).await.unwrap_err();
    assert!(matches!(refused, SubmitError::CheckpointDirectory(_)), "{refused}");
    assert_eq!(f.objects.list("").await.unwrap(), before);
    std::fs::remove_file(good.join(job(1).to_string())).unwrap();
    assert_eq!(f.submit(wanted).await, Ok(job(1)), "its id is free");
    f.finish(1).await;
}

#[tokio::test(flavor = "local")]
async fn a_job_with_periodic_checkpoints_that_names_no_directory_uses_that_of_the_cluster() {
    let f = Fixture::session().await;
    let marked = |n| f.home.path().join(format!("checkpoints/{}/_shared", job(n))).exists();
    assert_eq!(f.submit(graph(1, 1, false)).await, Ok(job(1)));
    let options = [
        (2, "execution.checkpointing.interval", "1 h"),
        (3, "execution.checkpointing.storage", "filesystem"),
        (4, "execution.checkpointing.storage", "jobmanager"),
    ];
    for (n, key, value) in options {
        let mut wanted = graph(n, 1, false);
        wanted.options.insert(key.to_owned(), value.to_owned());
        assert_eq!(f.submit(wanted).await, Ok(job(n)), "{key}={value}");
    }
    assert_eq!([1, 2, 3, 4].map(marked), [false, true, true, false]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_whose_log_is_damaged_has_failed_and_says_so() {
    let objects = MemoryObjects::new();
    left_behind(&objects, graph(3, 1, false)).await;
    let damaged = format!("jobs/{}/{EARLIER_LOG}-0000000000", job(3));
    objects.put(&damaged, bytes::Bytes::from_static(b"FJL1nonsense")).await.unwrap();
    let mut invalid = graph(4, 1, false);
    invalid.vertices[0].parallelism = 0;
    left_behind(&objects, invalid).await;
    let f = start_with(ClusterMode::Session, objects.clone()).await;
    f.leads(1).await;
    for (n, name, why) in
        [(3, "(unknown: its stored graph is damaged)", damaged.as_str()), (4, "job 4", "invalid")]
    {
        let wait = RequestJobResult { job_id: job(n), wait_ms: 60_000 };
        let result = f.gateway().ask(wait).await.unwrap();
        assert_eq!((result.status, result.name.as_str()), (JobStatus::Failed, name));
        assert_eq!(f.status(n).await, Ok(JobStatus::Failed));
        let cause = result.cause.unwrap();
        assert!(!cause.recoverable && cause.kind == "JobLogDamaged", "{cause}");
        assert!(cause.message.contains(why), "{cause}");
        let details = f.gateway().ask(RequestJobDetails { job_id: job(n) }).await.unwrap();
        assert_eq!(details.cause.as_ref(), Some(&cause));
        assert_eq!(details.failures[0].cause, cause);
    }
    let overview = f.gateway().ask(RequestJobsOverview {}).await.unwrap().jobs;
    let listed: Vec<_> = overview.iter().map(|job| (job.job_id, job.status)).collect();
    assert_eq!(listed, [(job(3), JobStatus::Failed), (job(4), JobStatus::Failed)]);
    let again = f.submit(graph(3, 1, false)).await.unwrap_err();
    assert!(matches!(again, SubmitError::DuplicateTerminated { .. }), "{again}");
    f.handle.stop().await;
    let next = start_with(ClusterMode::Session, objects).await;
    next.leads(1).await;
    settle().await;
    assert_eq!(next.status(3).await, Ok(JobStatus::Failed), "it is recorded");
    assert!(next.stored(3).await.contains(&damaged), "people can look at it");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn another_process_is_told_the_blob_server_beside_the_dispatcher() {
    let f = Fixture::session().await;
    let services = &f.process.services;
    let BlobServerLocation { address, session } =
        f.gateway().ask(RequestBlobServer {}).await.unwrap();
    assert_eq!(address, services.rpc.address_of(crate::blob_server::ENDPOINT));
    assert_eq!(session, services.session);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_blob_server_is_told_what_jobs_need_while_the_dispatcher_leads() {
    let objects = MemoryObjects::new();
    let mut stored = graph(1, 1, false);
    stored.program.hash = model::ContentHash([1; 32]);
    left_behind(&objects, stored).await;
    let process = TestProcess::start(&[]).await;
    let election = ElectionDouble::held_back(&process);
    let f = start_in(process, election, ClusterMode::Session, objects).await;
    let needed = |jobs: &[u8]| {
        let program = |n: &u8| (job(u128::from(*n)), model::ContentHash([*n; 32]));
        let programs = jobs.iter().map(program).collect();
        let jobs = jobs.iter().map(|n| job(u128::from(*n))).collect();
        Some(Needed { programs, jobs })
    };
    assert_eq!(f.in_use.get(), None);
    f.election.grant(Component::Dispatcher).await;
    f.leads(1).await;
    until("jobs are recovered", || f.in_use.get().is_some()).await;
    assert_eq!(f.in_use.get(), needed(&[1]), "of the job that was persisted");
    // While its graph is being built: nothing else is known of the job yet.
    let gateway = f.gateway();
    let (submitted, ()) = futures::join!(gateway.ask(submission(Some(7))), async {
        until("it is being built", || f.in_use.get() == needed(&[1, 7])).await;
    });
    assert_eq!(submitted, Ok(job(7)));
    assert_eq!(f.in_use.get(), needed(&[1, 7]));
    for n in [1, 7] {
        f.job_master(n).await.ask(gateways::job_master::Cancel {}).await.unwrap();
    }
    until("nothing is needed", || f.in_use.get() == needed(&[])).await;
    f.handle.stop().await;
    assert_eq!(f.in_use.get(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_store_that_can_not_be_read_is_read_again_until_it_can() {
    let objects = MemoryObjects::new();
    left_behind(&objects, graph(1, 1, false)).await;
    let process = TestProcess::start(&[]).await;
    let election = ElectionDouble::held_back(&process);
    let f = start_in(process, election, ClusterMode::Session, objects).await;
    f.store.set_reads(Fault::Fail(StoreError::NotFound { path: "/ha".into() }));
    f.election.grant(Component::Dispatcher).await;
    f.leads(1).await;
    seconds(120).await;
    assert_eq!(f.status(1).await, Err(JobError::Unavailable { job: job(1) }));
    assert_eq!(f.process.services.fatal.first(), None);
    f.store.set_reads(Fault::None);
    seconds(11).await;
    f.finish(1).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_application_runs_its_own_job_refuses_others_and_ends_the_cluster() {
    let mode = ClusterMode::Application(Box::new(submission(Some(1))));
    let mut f = start_with(mode, MemoryObjects::new()).await;
    f.leads(1).await;
    f.job_master(1).await;
    let other = f.submit(graph(2, 1, false)).await.unwrap_err();
    assert_eq!(other, SubmitError::SingleJob { mode: "application".into() });
    let other = f.gateway().ask(submission(None)).await.unwrap_err().refused();
    assert_eq!(other, Some(SubmitError::SingleJob { mode: "application".into() }));
    assert_eq!(*f.end.borrow(), None);
    f.finish(1).await;
    let end = received(&mut f.end).await;
    assert_eq!(end.status, ApplicationStatus::Succeeded);
    assert_eq!(end.job, Some((job(1), JobStatus::Finished)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_application_that_does_not_build_ends_the_cluster_with_its_words() {
    let process = TestProcess::start(&[]).await;
    let election = ElectionDouble::held_back(&process);
    let mode = ClusterMode::Application(Box::new(submission(Some(1))));
    let mut f = start_in(process, election, mode, MemoryObjects::new()).await;
    let wrong = BuildError::Program("no such file: /texts".into());
    f.hosts.script.set(&f.hosts.script.build, Some(Err(wrong)));
    f.election.grant(Component::Dispatcher).await;
    let end = received(&mut f.end).await;
    assert_eq!(end.status, ApplicationStatus::Failed);
    assert!(end.diagnostics.unwrap().contains("no such file: /texts"));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_per_job_cluster_runs_its_graph_and_one_that_had_ended_ends_at_once() {
    let objects = MemoryObjects::new();
    let mode = || ClusterMode::PerJob(Box::new(graph(1, 1, false)));
    let mut f = start_with(mode(), objects.clone()).await;
    f.leads(1).await;
    f.finish(1).await;
    assert_eq!(received(&mut f.end).await.status, ApplicationStatus::Succeeded);
    f.handle.stop().await;
    let mut again = start_with(mode(), objects).await;
    let end = received(&mut again.end).await;
    assert_eq!(end.job, Some((job(1), JobStatus::Finished)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_cluster_that_is_shut_down_cancels_its_jobs_first() {
    let mut f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    f.job_master(1).await;
    f.gateway().ask(ShutDownCluster {}).await.unwrap();
    let refused = f.submit(graph(2, 1, false)).await.unwrap_err();
    assert_eq!(refused, SubmitError::ShuttingDown);
    let end = received(&mut f.end).await;
    assert_eq!((end.status, end.job), (ApplicationStatus::Succeeded, None));
    assert_eq!(f.status(1).await, Ok(JobStatus::Canceled));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stopped_dispatcher_leaves_its_jobs_for_the_next() {
    let f = Fixture::session().await;
    f.submit(graph(1, 1, false)).await.unwrap();
    let job_master = f.job_master(1).await;
    let objects = f.objects.clone();
    f.handle.stop().await;
    assert!(job_master.ask(gateways::job_master::RequestStatus {}).await.is_err());
    let next = start_with(ClusterMode::Session, objects).await;
    next.leads(1).await;
    next.finish(1).await;
}
