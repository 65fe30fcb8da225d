//! The endpoint over real HTTP, in front of components that are test doubles.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

#[path = "endpoint/access.rs"]
mod access;
#[path = "endpoint/checkpoints.rs"]
mod checkpoints;
#[path = "endpoint/limits.rs"]
mod limits;
#[path = "endpoint/nodes.rs"]
mod nodes;
#[path = "endpoint/standby.rs"]
mod standby;

use actix::Actor;
use futures::future::BoxFuture;
use gateways::blob_server::{
    BlobError, BlobServerGateway, CloseUpload, HasBlob, OpenUpload, ReadBlob, UploadChunk, UploadId,
};
use gateways::dispatcher::*;
use gateways::job_master::{CoordinationError, JobDetails, SubtaskDetails, TaskIo, VertexDetails};
use gateways::leader_election::LeaderInformation;
use gateways::{Double, RpcOptions, RpcService};
use model::{
    BlobKey, BlobKind, ContentHash, DispatcherId, ExecutionAttemptId, ExecutionState, JobGraph,
    JobId, JobStatus, JobVertex, JobVertexId, LeaderSession, OperatorId, ProcessSession,
    testing::vertex,
};
use platform::Platform;
use platform::watch;
use rest::client::{ClientError, ClientTimeouts, RestClient};
use rest::messages::{JarRequest, Usage};
use rest::{
    BodyLimits, ProgramChecker, ProgramStore, RestBind, RestListener, RestServer, RestServices,
    RestSettings,
};
use serde_bytes::ByteBuf;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const JOB: JobId = JobId(0xa);
const ENDED: JobId = JobId(0xe);
/// A job for whose end one waits without end.
const ENDLESS: JobId = JobId(0x11);
/// A job whose program is not there when it is submitted first, and how often it was.
const LOST: JobId = JobId(0x105);
static LOST_ASKED: AtomicU32 = AtomicU32::new(0);
/// Uploads of blobs.
static OPENED: AtomicU32 = AtomicU32::new(0);
/// Submitted with the arguments `--help`.
const HELPED: JobId = JobId(0xf);

fn graph() -> JobGraph {
    let source = JobVertex { name: "lines".to_owned(), ..vertex(0x77, 1) };
    let mut graph = model::testing::graph(vec![source], vec![]);
    let node = graph.nodes.first_mut().unwrap();
    node.uid = Some("lines".to_owned());
    node.kind = "text_source".to_owned();
    node.name = "lines".to_owned();
    node.output = Some("String".to_owned());
    node.coordinated = true;
    JobGraph { job_id: JOB, name: "words".to_owned(), ..graph }
}

fn details() -> JobDetails {
    let attempt =
        ExecutionAttemptId { graph: 1, vertex: JobVertexId(0x77), subtask: 0, attempt: 2 };
    JobDetails {
        graph: Arc::new(graph()),
        status: JobStatus::Running,
        timestamps: BTreeMap::from([(JobStatus::Running, 1_500)]),
        start_ms: 1_000,
        end_ms: None,
        now_ms: 3_000,
        vertices: vec![VertexDetails {
            id: JobVertexId(0x77),
            subtasks: vec![SubtaskDetails {
                attempt,
                state: ExecutionState::Running,
                timestamps: BTreeMap::from([
                    (ExecutionState::Deploying, 1_200),
                    (ExecutionState::Running, 1_400),
                ]),
                resource_id: Some(model::ResourceId::new("tm-1")),
                host: Some("node".to_owned()),
                io: TaskIo {
                    records_in: 0,
                    records_out: 9,
                    bytes_in: 0,
                    bytes_out: 90,
                    end_of_data: false,
                },
                metrics: Arc::new(BTreeMap::from([("map.seen".to_owned(), -7)])),
                cause: None,
            }],
        }],
        cause: None,
        failures: Vec::new(),
        restarts: 0,
        checkpoints: Arc::new(checkpoints::report()),
    }
}

/// Returns the double of the Dispatcher.
fn dispatcher() -> Double {
    Double::of(())
        .on(|_, call: SubmitJob| Ok(call.graph.job_id))
        .on(|_, call: SubmitProgram| {
            let program = &call.program;
            assert_eq!(program.args, ["--input", "/a b"]);
            assert_eq!(call.parallelism, Some(4));
            match call.job_id {
                Some(HELPED) => {
                    Err(SubmitError::Usage { text: "Usage: words".to_owned(), help: true })
                }
                Some(LOST) if LOST_ASKED.fetch_add(1, Ordering::Relaxed) == 0 => {
                    Err(SubmitError::Build("the program can't be fetched".to_owned()))
                }
                Some(ENDED) => {
                    Err(SubmitError::DuplicateTerminated { job: ENDED, status: JobStatus::Failed })
                }
                _ => Ok(JOB),
            }
        })
        .on(|_, _: PlanProgram| Ok(graph()))
        .on(|_, call: CancelJob| match call.job_id {
            JOB => Ok(()),
            ENDED => Err(JobError::Terminated { job: ENDED, status: JobStatus::Finished }),
            job => Err(JobError::NotFound { job }),
        })
        .on(|_, call: ClientHeartbeat| match (call.job_id, call.timeout_ms) {
            (JOB, 1_500) => Ok(()),
            (JOB, other) => panic!("a beat for {other} ms"),
            (job, _) => Err(JobError::Terminated { job, status: JobStatus::Finished }),
        })
        .on(|_, call: TriggerSavepoint| checkpoints::trigger(call))
        .on(|_, call: RequestSavepoint| checkpoints::operation(&call))
        .on(|_, call: DisposeSavepoint| {
            assert_eq!(call.path, "/s/savepoint-1");
            Ok(())
        })
        .on(|_, call: RequestJobStatus| match call.job_id {
            JOB => Ok(JobStatus::Running),
            job => Err(JobError::NotFound { job }),
        })
        .on_later(|_, call: RequestJobResult| {
            let RequestJobResult { job_id, wait_ms } = call;
            let runs = [JOB, ENDLESS].contains(&job_id);
            let result = JobResult {
                job_id,
                name: "words".to_owned(),
                status: if runs { JobStatus::Running } else { JobStatus::Failed },
                cause: (!runs).then(|| model::FailureCause::fatal("UserError", "at line 3")),
                runtime_ms: 12,
            };
            let wait =
                if job_id == ENDLESS { Duration::from_millis(wait_ms) } else { Duration::ZERO };
            Box::pin(async move {
                tokio::time::sleep(wait).await;
                Ok(result)
            })
        })
        .on(|_, call: RequestJobDetails| {
            Ok(match call.job_id {
                // As it was archived.
                ENDED => {
                    JobDetails { status: JobStatus::Finished, end_ms: Some(3_000), ..details() }
                }
                _ => details(),
            })
        })
        .on(|_, call: RequestJobCheckpoints| match call.job_id {
            JOB => Ok(checkpoints::report()),
            job => Err(JobError::NotFound { job }),
        })
        .on(|_, _: RequestJobsOverview| {
            let jobs = vec![JobSummary {
                job_id: JOB,
                name: "words".to_owned(),
                status: JobStatus::Running,
                start_ms: 1_000,
                end_ms: None,
                last_modification_ms: 1_500,
                tasks: BTreeMap::from([(ExecutionState::Running, 1)]),
            }];
            Ok(JobsOverview { jobs, forgotten: BTreeMap::from([(JobStatus::Finished, 7)]) })
        })
        .on(|_, call: DeliverCoordinationRequest| {
            if call.operator != OperatorId(0x77) {
                return Err(CoordinationError::NoSuchOperator { operator: call.operator });
            }
            let mut answer = call.request;
            answer.reverse();
            Ok(ByteBuf::from(answer))
        })
        .on(|_, _: ShutDownCluster| Ok(()))
}

/// Returns the double of a BlobServer with one blob: its bytes, and its hash once it is complete.
fn blobs() -> Double<(Vec<u8>, Option<ContentHash>)> {
    let key = |hash, bytes: &[u8]| BlobKey {
        job: None,
        hash,
        kind: BlobKind::Permanent,
        size: bytes.len() as u64,
    };
    Double::of((Vec::new(), None))
        .on(|_, _: ReadBlob| Err(BlobError::NotFound("x".to_owned())))
        .on(|(bytes, _), _: OpenUpload| {
            bytes.clear();
            OPENED.fetch_add(1, Ordering::Relaxed);
            Ok(UploadId(1))
        })
        .on(|(bytes, _), chunk: UploadChunk| {
            if chunk.offset != bytes.len() as u64 {
                return Err(BlobError::BadChunk);
            }
            bytes.extend(chunk.bytes);
            Ok(())
        })
        .on(move |(bytes, closed), call: CloseUpload| {
            let actual = ContentHash(Sha256::digest(&bytes).into());
            if actual != call.hash {
                return Err(BlobError::WrongHash { expected: call.hash, actual });
            }
            *closed = Some(actual);
            Ok(key(actual, bytes))
        })
        .on(move |(bytes, closed), call: HasBlob| {
            Ok(closed.filter(|c| *c == call.hash).map(|hash| key(hash, bytes)))
        })
}

struct ByMagic;
impl ProgramChecker for ByMagic {
    fn check(&self, path: &Path) -> Result<(), String> {
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        match bytes.starts_with(b"ours") {
            true => Ok(()),
            false => Err("it is not a Flott program".to_owned()),
        }
    }
    fn jobs(&self, _: PathBuf) -> BoxFuture<'static, Result<Vec<String>, String>> {
        Box::pin(async { Ok(vec!["words".to_owned(), "letters".to_owned()]) })
    }
}

struct World {
    client: RestClient,
    url: String,
    folder: TempDir,
    leader: watch::Sender<Option<LeaderInformation>>,
    /// Shared by further processes, which the endpoint then reaches.
    platform: Platform,
    rpc: RpcService,
    handle: rest::RestHandle,
    _registrations: Vec<gateways::Registration>,
}

async fn world(change: impl FnOnce(&mut RestSettings)) -> World {
    let folder = tempfile::tempdir().unwrap();
    let platform = Platform::production();
    let rpc = RpcService::start(platform.clone(), RpcOptions::in_process()).await.unwrap();
    let session = LeaderSession::default();
    let dispatcher = DispatcherGateway::endpoint(dispatcher().start());
    let blobs = BlobServerGateway::endpoint(blobs().start());
    let registrations = vec![
        rpc.serve("dispatcher", DispatcherId(session), dispatcher),
        rpc.serve("blob_server", ProcessSession(session), blobs),
        nodes::serve(&rpc, session),
    ];
    let address = rpc.address_of("dispatcher");
    let (leader, dispatcher) = watch::channel(Some(LeaderInformation { session, address }));
    let mut settings = RestSettings {
        version: "0.1.0".to_owned(),
        commit: "abc".to_owned(),
        configuration: Vec::new(),
        log_dir: Some(folder.path().to_owned()),
        log_file: Some("jm.log".to_owned()),
        log_page: None,
        refresh_interval_ms: 3_000,
        access: None,
        submit_refused: None,
        cancel_allowed: true,
        connections_max: 64,
        bodies: BodyLimits::default(),
        answer_within: Duration::from_secs(10),
        build_within: Duration::from_secs(10),
    };
    change(&mut settings);
    let services = RestServices {
        platform: platform.clone(),
        rpc: rpc.clone(),
        dispatcher,
        resource_manager: watch::channel(Some(nodes::leader(&rpc, session))).1,
        blobs: rpc.gateway(&rpc.address_of("blob_server"), ProcessSession(session)),
        programs: ProgramStore::open(folder.path().join("up"), 1 << 22, Arc::new(ByMagic)).unwrap(),
        settings,
    };
    let bind = RestBind {
        address: IpAddr::from([127, 0, 0, 1]),
        ports: vec![0],
        advertised_host: "127.0.0.1".to_owned(),
    };
    let server = RestServer::start(RestListener::bind(&bind).unwrap(), services).unwrap();
    let handle = server.handle();
    tokio::task::spawn_local(server.run());
    let port = handle.address.bound.port();
    World {
        client: RestClient::new("127.0.0.1", port, ClientTimeouts::default()),
        url: handle.address.url.clone(),
        folder,
        leader,
        platform,
        rpc,
        handle,
        _registrations: registrations,
    }
}

/// Returns the output of `curl` with these options; it ends with the status where they ask for it.
async fn curl(url: &str, options: &[&str]) -> String {
    let mut curl = tokio::process::Command::new("curl");
    let out = curl.args(["-sS", url]).args(options).output().await.unwrap();
    String::from_utf8(out.stdout).unwrap()
}

fn request() -> JarRequest {
    JarRequest {
        program_args_list: Some(vec!["--input".to_owned(), "/a b".to_owned()]),
        parallelism: Some(4),
        ..JarRequest::default()
    }
}

#[tokio::test(flavor = "local")]
async fn a_program_is_uploaded_shipped_and_run() {
    let world = world(|_| ()).await;
    let program = world.folder.path().join("words");
    let mut bytes = b"ours".to_vec();
    bytes.resize(3 << 20, 7);
    std::fs::write(&program, &bytes).unwrap();
    let (sender, sent) = watch::channel(0);
    let uploaded = world
        .client
        .upload(&program, move |n| {
            sender.send_replace(n);
        })
        .await
        .unwrap();
    assert_eq!(*sent.borrow(), bytes.len() as u64);
    let jar = uploaded.jar_id();
    assert!(jar.ends_with("_words"), "{jar}");
    let run = world.client.run(jar, &request()).await.unwrap();
    assert_eq!(run.jobid, JOB.to_string());
    // The second time the bytes are there already.
    world.client.run(jar, &request()).await.unwrap();
    let plan = world.client.plan(jar, &request()).await.unwrap().plan;
    assert_eq!(plan.nodes[0].description, "lines");
    let listed = world.client.jars().await.unwrap();
    let entries = listed.files[0].entry.iter().map(|e| e.name.as_str()).collect::<Vec<_>>();
    assert_eq!(entries, ["words", "letters"]);
    assert_eq!(listed.address, world.url);
    let help = JarRequest { job_id: Some(HELPED.to_string()), ..request() };
    match world.client.run(jar, &help).await.unwrap_err() {
        ClientError::Refused { status: 400, errors, usage: Some(Usage::Help) } => {
            assert_eq!(errors, ["Usage: words"]);
        }
        other => panic!("{other}"),
    }
    // Gone between the look and the submission: it is put there once more, and submitted once more.
    let opened = OPENED.load(Ordering::Relaxed);
    let lost = JarRequest { job_id: Some(LOST.to_string()), ..request() };
    assert_eq!(world.client.run(jar, &lost).await.unwrap().jobid, JOB.to_string());
    assert_eq!(LOST_ASKED.load(Ordering::Relaxed), 2);
    assert_eq!(OPENED.load(Ordering::Relaxed), opened + 1);
    world.client.delete_jar(jar).await.unwrap();
    assert_eq!(world.client.run(jar, &request()).await.unwrap_err().status(), Some(404));
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn refusals_carry_their_code_and_reason() {
    let world = world(|_| ()).await;
    let script = world.folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh").unwrap();
    let foreign = world.client.upload(&script, |_| ()).await.unwrap_err();
    assert_eq!(foreign.status(), Some(400));
    assert!(foreign.to_string().contains("not a Flott program"), "{foreign}");
    let large = world.folder.path().join("large");
    std::fs::write(&large, vec![0; (1 << 22) + 1]).unwrap();
    assert_eq!(world.client.upload(&large, |_| ()).await.unwrap_err().status(), Some(413));
    let gone = world.client.job_status(&JobId(1).to_string()).await.unwrap_err();
    assert_eq!(gone.status(), Some(404));
    assert_eq!(world.client.job_status("xyz").await.unwrap_err().status(), Some(400));
    let ended = world.client.cancel(&ENDED.to_string()).await.unwrap_err();
    assert_eq!(ended.status(), Some(409));
    world.client.cancel(&JOB.to_string()).await.unwrap();
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_client_that_is_attached_beats_and_is_told_that_its_job_has_ended() {
    let world = world(|_| ()).await;
    let timeout = Duration::from_millis(1_500);
    world.client.client_heartbeat(&JOB.to_string(), timeout).await.unwrap();
    let ended = world.client.client_heartbeat(&ENDED.to_string(), timeout).await.unwrap_err();
    assert_eq!(ended.status(), Some(409));
    world.handle.stop().await;
    // To beat for no time is to cancel.
    let world = self::world(|settings| settings.cancel_allowed = false).await;
    let forbidden = world.client.client_heartbeat(&JOB.to_string(), timeout).await.unwrap_err();
    assert_eq!(forbidden.status(), Some(403));
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn metrics_of_functions_are_shown_beside_those_of_the_runtime() {
    let world = world(|_| ()).await;
    let job = world.client.job(&JOB.to_string()).await.unwrap();
    let of = async |path: &str| {
        let vertex = &job.vertices[0].id;
        let url = format!("{}/jobs/{JOB}/vertices/{vertex}/{path}", world.url);
        let text = curl(&url, &["-w", "\n%{http_code}"]).await;
        let (body, status) = text.rsplit_once('\n').unwrap();
        (serde_json::from_str(body).unwrap(), status.to_owned())
    };
    let (names, _): (serde_json::Value, _) = of("subtasks/0/metrics").await;
    assert_eq!(names.as_array().unwrap().len(), 5);
    assert_eq!(names[0], serde_json::json!({"id": "map.seen"}));
    for (path, shown) in [
        (
            "subtasks/0/metrics?get=map.seen,no",
            serde_json::json!([{"id": "map.seen", "value": "-7"}]),
        ),
        (
            "metrics?get=0.numRecordsOut",
            serde_json::json!([{"id": "0.numRecordsOut", "value": "9"}]),
        ),
        (
            "subtasks/metrics?get=map.seen&agg=min,sum&subtasks=0-3",
            serde_json::json!([{"id": "map.seen", "min": -7.0, "sum": -7.0}]),
        ),
        ("subtasks/metrics?subtasks=1", serde_json::json!([])),
    ] {
        assert_eq!(of(path).await, (shown, "200".to_owned()), "{path}");
    }
    for (path, status) in [
        ("subtasks/1/metrics", "404"),
        ("subtasks/x/metrics", "400"),
        ("subtasks/metrics?agg=median", "400"),
        ("subtasks/metrics?subtasks=a-b", "400"),
    ] {
        assert_eq!(of(path).await.1, status, "{path}");
    }
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_job_is_shown_with_flinks_fields() {
    let world = world(|_| ()).await;
    let overview = world.client.jobs_overview().await.unwrap();
    assert_eq!(overview.jobs[0].tasks["running"], 1);
    assert_eq!(overview.jobs[0].tasks["total"], 1);
    assert_eq!(overview.jobs[0].end_time, -1);
    let job = world.client.job(&JOB.to_string()).await.unwrap();
    assert_eq!(job.vertices[0].metrics.write_records, 9);
    assert_eq!(job.vertices[0].status, "RUNNING");
    assert_eq!(job.status_counts["RUNNING"], 1);
    assert_eq!(job.timestamps["RUNNING"], 1_500);
    let vertex = world.client.vertex(&JOB.to_string(), &job.vertices[0].id).await.unwrap();
    assert_eq!(vertex.subtasks[0].attempt, 2);
    assert_eq!(vertex.subtasks[0].taskmanager_id, "tm-1");
    assert_eq!(vertex.subtasks[0].status_duration["RUNNING"], 1_600);
    // The time of the answer, though the details of a job that has ended were made at its end.
    assert_eq!(job.now, 3_000);
    let ended = world.client.job(&ENDED.to_string()).await.unwrap();
    assert_eq!((ended.end_time, ended.duration), (3_000, 2_000));
    assert!(ended.now > 1_700_000_000_000, "{}", ended.now);
    let result = world.client.execution_result(&ENDED.to_string(), Duration::ZERO).await.unwrap();
    let result = result.job_execution_result.unwrap();
    assert_eq!(result.application_status, "FAILED");
    assert_eq!(result.failure_cause.unwrap().stack_trace, "at line 3");
    let running = world.client.execution_result(&JOB.to_string(), Duration::ZERO).await.unwrap();
    assert_eq!(running.status.id, "IN_PROGRESS");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_coordinator_is_found_by_id_and_by_uid() {
    let world = world(|_| ()).await;
    let job = JOB.to_string();
    let by_uid = world.client.coordinate(&job, "lines", b"abc").await.unwrap();
    assert_eq!(by_uid, b"cba");
    let id = OperatorId(0x77).to_string();
    assert_eq!(world.client.coordinate(&job, &id, &[0, 255]).await.unwrap(), [255, 0]);
    let other = OperatorId(0x78).to_string();
    assert_eq!(world.client.coordinate(&job, &other, b"").await.unwrap_err().status(), Some(404));
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn without_a_leader_clients_are_asked_to_come_again() {
    let world = world(|_| ()).await;
    world.leader.send_replace(None);
    let error = world.client.jobs_overview().await.unwrap_err();
    assert_eq!(error.status(), Some(503));
    assert!(error.is_transient());
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn where_uploads_are_off_nothing_of_them_is_served() {
    let world = world(|s| s.submit_refused = Some("uploads are off".to_owned())).await;
    let file = world.folder.path().join("p");
    std::fs::write(&file, "ours").unwrap();
    for error in [
        world.client.jars().await.unwrap_err(),
        world.client.upload(&file, |_| ()).await.unwrap_err(),
        world.client.run("x", &request()).await.unwrap_err(),
    ] {
        assert_eq!(error.status(), Some(403), "{error}");
    }
    assert!(!world.client.dashboard_config().await.unwrap().features.web_submit);
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_link_to_logs_leads_to_this_endpoint_or_to_the_page_of_another_system() {
    let page = "http://node:8042/node/containerlogs/container_1_2_3_4/me";
    for (log_page, expected) in [(None, None), (Some(page.to_owned()), Some(page))] {
        let world = world(|settings| settings.log_page = log_page).await;
        let link = async |job: JobId| {
            let url = format!("{}/jobs/{job}/jobmanager/log-url", world.url);
            curl(&url, &["-w", "%{http_code}"]).await
        };
        let own = format!("{}/jobmanager/log", world.url);
        let expected = expected.unwrap_or(&own);
        assert_eq!(link(JOB).await, format!("{{\"url\":\"{expected}\"}}200"));
        assert!(link(ENDED).await.ends_with("404"));
        world.handle.stop().await;
    }
}

#[tokio::test(flavor = "local")]
async fn logs_are_streamed_and_nothing_else_of_the_folder() {
    let world = world(|_| ()).await;
    std::fs::write(world.folder.path().join("jm.log"), "line\n".repeat(50_000)).unwrap();
    std::fs::write(world.folder.path().join("cluster-secret"), "hush").unwrap();
    let logs = world.client.logs().await.unwrap().logs;
    assert_eq!(logs.len(), 1);
    assert_eq!((logs[0].name.as_str(), logs[0].size), ("jm.log", 250_000));
    let raw =
        async |path: &str| curl(&format!("{}{path}", world.url), &["-w", "%{http_code}"]).await;
    assert_eq!(raw("/jobmanager/log").await.len(), 250_000 + 3);
    for path in ["/jobmanager/logs/cluster-secret", "/jobmanager/logs/..%2Fcluster-secret"] {
        let answer = raw(path).await;
        assert!(answer.ends_with("404") && !answer.contains("hush"), "{path}: {answer}");
    }
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn unknown_paths_and_methods_are_told_apart() {
    let world = world(|_| ()).await;
    let ask = async |method: &str, path: &str| {
        let url = format!("{}{path}", world.url);
        curl(&url, &["-X", method, "-w", "\n%{http_code}"]).await
    };
    assert!(ask("GET", "/nothing").await.ends_with("404"));
    let wrong = ask("DELETE", "/v1/jobs/overview").await;
    assert!(wrong.ends_with("405") && wrong.contains("errors"), "{wrong}");
    assert!(ask("GET", "/v1/jobs/overview").await.ends_with("200"));
    world.handle.stop().await;
}
