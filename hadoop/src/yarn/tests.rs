mod client;

use super::messages::*;
use super::*;
use crate::client::tests::{Answers, Does, Server};
use crate::conf::Configuration;
use crate::conf::tests::with_properties as conf;
use crate::login::{Login, Service};
use crate::rpc::testing::ServerAuth;
use crate::rpc::{CallError, RetryPolicy};
use crate::tokens::{Credentials, Token, TokenProto, kinds};
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const APPLICATION: ApplicationId =
    ApplicationId { id: Some(19), cluster_timestamp: Some(1_570_379_089_091) };

async fn client_of(answers: Arc<Answers>, more: &[(&str, &str)]) -> (YarnClient, Server) {
    let server = Server::start(ServerAuth::Simple, Does::Answer(answers)).await;
    let mut conf = conf(more);
    conf.set("yarn.resourcemanager.address", format!("127.0.0.1:{}", server.port));
    let login = Login::simple(&conf, "alice", Credentials::new()).unwrap();
    (YarnClient::new(&conf, login).await.unwrap(), server)
}

#[test]
fn ids_are_spelled_as_yarn_does() {
    let container = |epoch: i64| ContainerId {
        app_id: None,
        app_attempt_id: Some(ApplicationAttemptId {
            application_id: Some(APPLICATION),
            attempt_id: Some(1),
        }),
        id: Some((epoch << 40) | 2),
    };
    assert_eq!(APPLICATION.to_string(), "application_1570379089091_0019");
    assert_eq!(
        container(0).app_attempt_id.unwrap().to_string(),
        "appattempt_1570379089091_0019_000001"
    );
    assert_eq!(container(0).to_string(), "container_1570379089091_0019_01_000002");
    assert_eq!(container(1).to_string(), "container_e01_1570379089091_0019_01_000002");
    assert_eq!(container(1).id(), 1_099_511_627_778);
    for text in
        ["container_1570379089091_0019_01_000002", "container_e17_1570379089091_12345_01_1234567"]
    {
        assert_eq!(text.parse::<ContainerId>().unwrap().to_string(), text);
    }
    assert_eq!("application_1570379089091_0019".parse(), Ok(APPLICATION));
    assert_eq!("h:1".parse::<NodeId>().unwrap().to_string(), "h:1");
    for wrong in
        ["", "application_1", "application_1_-2", "job_1_2", "application_1_2_3", "application_x_1"]
    {
        assert!(wrong.parse::<ApplicationId>().is_err(), "{wrong}");
    }
    for wrong in
        ["container_e_1_2_3_4", "container_ex_1_2_3_4", "container_1_2_3_99999999999999", "1_2_3_4"]
    {
        assert!(wrong.parse::<ContainerId>().is_err(), "{wrong}");
    }
    assert!(":1".parse::<NodeId>().is_err() && "h:70000".parse::<NodeId>().is_err());
}

/// A `ResourceRequest` as Java writes it: numbers and defaults of proto2.
#[test]
fn messages_are_hadoops_on_the_wire() {
    let request = AllocateRequest {
        ask: vec![ResourceRequest {
            priority: Some(Priority { priority: Some(1) }),
            resource_name: Some("*".to_owned()),
            capability: Some(Resource {
                memory: Some(256),
                virtual_cores: Some(1),
                resource_value_map: vec![],
            }),
            num_containers: Some(2),
            relax_locality: Some(false),
            ..ResourceRequest::default()
        }],
        response_id: Some(3),
        progress: Some(0.5),
        ..AllocateRequest::default()
    };
    let expected = b"\x0a\x12\x0a\x02\x08\x01\x12\x01*\x1a\x05\x08\x80\x02\x10\x01\x20\x02\x28\x00\x20\x03\x2d\x00\x00\x00\x3f";
    assert_eq!(request.encode_to_vec(), expected);
    // Absent fields have Hadoop's defaults; enumerations of later versions are kept.
    let status = ContainerStatus::decode(&b"\x10\x63"[..]).unwrap();
    assert_eq!(
        (status.exit_status(), status.diagnostics(), status.state),
        (-1000, "N/A", Some(99))
    );
    assert!(ResourceRequest::default().relax_locality());
    assert_eq!(Container::default().allocation_request_id(), -1);
    assert_eq!(ApplicationSubmissionContext::default().queue(), "default");
}

#[test]
fn debug_shows_no_secret() {
    let pair = StringStringMap { key: Some("NAME".to_owned()), value: Some("hunter2".to_owned()) };
    let bytes =
        StringBytesMap { key: Some("service".to_owned()), value: Some(b"hunter2".to_vec()) };
    let launch = ContainerLaunchContext {
        tokens: Some(b"hunter2".to_vec()),
        environment: vec![pair],
        service_data: vec![bytes],
        ..ContainerLaunchContext::default()
    };
    let context =
        ApplicationSubmissionContext { am_container_spec: Some(launch), ..Default::default() };
    let key = RegisterApplicationMasterResponse {
        client_to_am_token_master_key: Some(b"hunter2".to_vec()),
        ..Default::default()
    };
    for shown in [format!("{context:?}"), format!("{key:?}")] {
        assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
    }
    assert!(format!("{context:?}").contains("NAME"));
}

#[tokio::test]
async fn the_renewer_of_tokens_is_the_first_resource_manager() {
    let principal = ("yarn.resourcemanager.principal", "rm/_HOST@EXAMPLE.ORG");
    let one = conf(&[principal, ("yarn.resourcemanager.address", "One.example.org:8032")]);
    assert_eq!(renewer(&one).await.unwrap(), "rm/one.example.org@EXAMPLE.ORG");
    let two = conf(&[
        principal,
        ("yarn.resourcemanager.ha.enabled", "true"),
        ("yarn.resourcemanager.ha.rm-ids", "a,b"),
        ("yarn.resourcemanager.hostname.a", "one"),
        ("yarn.resourcemanager.hostname.b", "two"),
    ]);
    assert_eq!(renewer(&two).await.unwrap(), "rm/one@EXAMPLE.ORG");
    // Nobody has this address: it is for documentation.
    let unnamed = conf(&[principal, ("yarn.resourcemanager.address", "192.0.2.1:8032")]);
    let error = renewer(&unnamed).await.unwrap_err().to_string();
    assert!(error.contains("yarn.resourcemanager.principal"), "{error}");
    let none = conf(&[("yarn.resourcemanager.address", "one:8032")]);
    assert!(
        renewer(&none).await.unwrap_err().to_string().contains("yarn.resourcemanager.principal")
    );
}

#[test]
fn resource_managers_are_found() {
    let at = |conf: &Configuration, service| {
        let found = resource_managers(conf, service).unwrap();
        found.iter().map(|rm| format!("{}:{}", rm.host, rm.port)).collect::<Vec<_>>().join(" ")
    };
    let plain = conf(&[("yarn.resourcemanager.hostname", "rm")]);
    assert_eq!(at(&plain, Service::ResourceManager), "rm:8032");
    assert_eq!(at(&plain, Service::Scheduler), "rm:8030");
    assert_eq!(at(&conf(&[]), Service::ResourceManager), "127.0.0.1:8032");
    let ha = conf(&[
        ("yarn.resourcemanager.ha.enabled", "true"),
        ("yarn.resourcemanager.ha.rm-ids", "rm1, rm2"),
        ("yarn.resourcemanager.hostname.rm1", "a"),
        ("yarn.resourcemanager.address.rm2", "b:1"),
        ("yarn.resourcemanager.hostname.rm2", "c"),
    ]);
    assert_eq!(at(&ha, Service::ResourceManager), "a:8032 b:1");
    assert_eq!(at(&ha, Service::Scheduler), "a:8030 c:8030");
    let wrong = |conf: &Configuration| {
        resource_managers(conf, Service::ResourceManager).unwrap_err().to_string()
    };
    assert!(wrong(&conf(&[("yarn.resourcemanager.ha.enabled", "true")])).contains("rm-ids"));
    assert!(
        wrong(&conf(&[("yarn.resourcemanager.address", "a:b")]))
            .contains("yarn.resourcemanager.address")
    );
}

#[test]
fn retries_are_as_configured() {
    let seconds = Duration::from_secs;
    let fixed = RetryPolicy::Fixed { interval: seconds(30), retries: 30 };
    assert_eq!(retry_policy(&conf(&[])).unwrap(), fixed);
    let forever = conf(&[("yarn.resourcemanager.connect.max-wait.ms", "-1")]);
    assert_eq!(
        retry_policy(&forever).unwrap(),
        RetryPolicy::Fixed { interval: seconds(30), retries: u32::MAX }
    );
    let ha = conf(&[
        ("yarn.resourcemanager.ha.enabled", "true"),
        ("yarn.client.failover-sleep-base-ms", "1000"),
        ("yarn.client.failover-sleep-max-ms", "5000"),
    ]);
    let expected =
        RetryPolicy::FailOver { failovers: 900, retries: 0, base: seconds(1), max: seconds(5) };
    assert_eq!(retry_policy(&ha).unwrap(), expected);
    assert!(retry_policy(&conf(&[("yarn.resourcemanager.connect.max-wait.ms", "-2")])).is_err());
}

#[test]
fn of_several_resource_managers_none_is_connected_to_again_and_again() {
    let retries = ("ipc.client.connect.max.retries", "50");
    let ha = ("yarn.resourcemanager.ha.enabled", "true");
    let retries_of = |properties: &[(&str, &str)]| {
        resource_manager::connections(&conf(properties)).unwrap().connect_retries
    };
    assert_eq!(retries_of(&[]), 0);
    assert_eq!(retries_of(&[retries]), 50);
    assert_eq!(retries_of(&[retries, ha]), 0);
    assert_eq!(retries_of(&[retries, ha, ("yarn.client.failover-retries", "3")]), 3);
}

#[test]
fn nodes_are_waited_for_as_configured() {
    let seconds = Duration::from_secs;
    let wait = "yarn.client.nodemanager-connect.max-wait-ms";
    let (policy, total) = node_manager::patience(&conf(&[])).unwrap();
    assert_eq!(policy, RetryPolicy::Fixed { interval: seconds(10), retries: 18 });
    assert_eq!(total, Some(seconds(180)));
    let (policy, total) = node_manager::patience(&conf(&[(wait, "-1")])).unwrap();
    assert_eq!(policy, RetryPolicy::Fixed { interval: seconds(10), retries: u32::MAX });
    assert_eq!(total, None);
    assert!(node_manager::patience(&conf(&[(wait, "-2")])).is_err());
}

#[tokio::test]
async fn a_node_that_never_answers_is_given_up() {
    let qops = vec![crate::sasl::Qop::Authentication];
    let auth = ServerAuth::Token { token: node_token(), qops, ciphers: vec![] };
    let server = Server::start(auth, Does::Hang).await;
    let conf = conf(&[
        ("yarn.client.nodemanager-connect.max-wait-ms", "300"),
        ("yarn.client.nodemanager-connect.retry-interval-ms", "1"),
        ("ipc.client.rpc-timeout.ms", "100"),
    ]);
    let login = Login::simple(&conf, "alice", Credentials::new()).unwrap();
    let node = NodeId { host: Some("127.0.0.1".to_owned()), port: Some(server.port.into()) };
    let stop = async |nodes: NmClient| {
        nodes.stop(&node, &node_token(), ContainerId::default()).await.unwrap_err()
    };
    let nodes = NmClient::new(&conf, &login).unwrap();
    // Each try has 100 ms of the 300, and there could be 300 of them.
    assert!(matches!(stop(nodes.clone()).await, YarnError::Call(CallError::Deadline { .. })));
    assert!((1..=4).contains(&server.calls()), "{}", server.calls());
    let before = server.calls();
    stop(nodes.with_deadline(Duration::from_millis(50))).await;
    assert!(server.calls() - before <= 1, "{}", server.calls());
}

fn queue(name: &str, children: Vec<QueueInfo>) -> QueueInfo {
    let state =
        Some(i32::from(if name == "old" { QueueState::Stopped } else { QueueState::Running }));
    QueueInfo {
        queue_name: Some(name.to_owned()),
        child_queues: children,
        state,
        ..QueueInfo::default()
    }
}

#[tokio::test]
async fn nodes_metrics_and_queues_are_listed() {
    let answers = |method: &str, body: &Bytes| match method {
        "getClusterNodes" => {
            let asked = GetClusterNodesRequest::decode(body.clone()).unwrap();
            assert_eq!(asked.node_states, [i32::from(NodeState::Running)]);
            let id = NodeId { host: Some("n".to_owned()), port: Some(1) };
            let report = NodeReport { node_id: Some(id), ..NodeReport::default() };
            Ok(GetClusterNodesResponse { node_reports: vec![report] }.encode_to_vec())
        }
        "getClusterMetrics" => {
            let metrics = YarnClusterMetrics { num_node_managers: Some(3), ..Default::default() };
            Ok(GetClusterMetricsResponse { cluster_metrics: Some(metrics) }.encode_to_vec())
        }
        "getQueueInfo" => {
            let small = || queue("small", vec![]);
            let queues = vec![
                queue("default", vec![]),
                queue("team", vec![small(), queue("old", vec![])]),
                small(),
            ];
            Ok(GetQueueInfoResponse { queue_info: Some(queue("root", queues)) }.encode_to_vec())
        }
        _ => Err("org.apache.hadoop.ipc.RpcNoSuchMethodException"),
    };
    let (yarn, server) = client_of(Arc::new(answers), &[]).await;
    let nodes = yarn.nodes(&[NodeState::Running]).await.unwrap();
    assert_eq!(nodes[0].node_id.as_ref().unwrap().to_string(), "n:1");
    assert_eq!(yarn.metrics().await.unwrap().num_node_managers(), 3);
    assert_eq!(yarn.check_queue("default").await.unwrap().queue_name(), "default");
    assert_eq!(yarn.check_queue("root.team.small").await.unwrap().queue_name(), "small");
    let said = |result: Result<QueueInfo, YarnError>| result.unwrap_err().to_string();
    let none = said(yarn.check_queue("team").await);
    assert!(
        none.ends_with("there are: root.default, root.small, root.team.old, root.team.small"),
        "{none}"
    );
    assert!(said(yarn.check_queue("small").await).contains("root.small, root.team.small"));
    assert!(said(yarn.check_queue("old").await).contains("'root.team.old' is stopped"));
    assert!(yarn.queue_acls().await.unwrap_err().is_remote("RpcNoSuchMethodException"));
    assert_eq!(server.connections(), 1);
}

fn report(state: YarnApplicationState, diagnostics: &str) -> Vec<u8> {
    let report = ApplicationReport {
        application_id: Some(APPLICATION),
        state: Some(state.into()),
        diagnostics: Some(diagnostics.to_owned()),
        ..ApplicationReport::default()
    };
    GetApplicationReportResponse { application_report: Some(report) }.encode_to_vec()
}

/// A ResourceManager that answers questions for a report with these, in turn.
fn lives(
    reports: Vec<Result<Vec<u8>, &'static str>>,
    methods: Arc<Mutex<Vec<String>>>,
) -> Arc<Answers> {
    let (next, kills) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Arc::new(move |method, _| {
        methods.lock().unwrap().push(method.to_owned());
        match method {
            "getApplicationReport" => reports[next.fetch_add(1, Ordering::SeqCst)].clone(),
            "forceKillApplication" => {
                let is_kill_completed = Some(kills.fetch_add(1, Ordering::SeqCst) == 2);
                Ok(KillApplicationResponse { is_kill_completed }.encode_to_vec())
            }
            _ => Ok(Vec::new()),
        }
    })
}

#[tokio::test]
async fn applications_are_submitted_watched_and_killed() {
    use YarnApplicationState::{Accepted, Finished, NewSaving, Running};
    let reports = vec![
        // Lost before it was written down: submitted again.
        Err("org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException"),
        Ok(report(NewSaving, "")),
        Ok(report(Accepted, "")),
        Ok(report(Accepted, "waiting for resources")),
        Ok(report(Accepted, "waiting for resources")),
        Ok(report(Accepted, "launched")),
        Ok(report(Running, "")),
        Ok(report(Finished, "")),
    ];
    let methods = Arc::default();
    let (yarn, _server) = client_of(lives(reports, Arc::clone(&methods)), &[]).await;
    let context =
        ApplicationSubmissionContext { application_id: Some(APPLICATION), ..Default::default() };
    assert_eq!(yarn.submit(context).await.unwrap(), APPLICATION);
    let submissions =
        methods.lock().unwrap().iter().filter(|name| *name == "submitApplication").count();
    assert_eq!(submissions, 2);
    let mut watch = yarn.watch(APPLICATION);
    let mut seen = Vec::new();
    while let Some(report) = watch.next().await.unwrap() {
        seen.push((report.state(), report.diagnostics().to_owned()));
    }
    let expected = [
        (Accepted, "waiting for resources"),
        (Accepted, "launched"),
        (Running, ""),
        (Finished, ""),
    ];
    assert_eq!(seen, expected.map(|(state, text)| (state, text.to_owned())));
    yarn.kill(APPLICATION, None).await.unwrap();
    let kills =
        methods.lock().unwrap().iter().filter(|name| *name == "forceKillApplication").count();
    assert_eq!(kills, 3);
    assert!(yarn.submit(ApplicationSubmissionContext::default()).await.is_err());
}

#[tokio::test]
async fn a_refused_application_says_why() {
    let reports = vec![Ok(report(YarnApplicationState::Failed, "queue is full"))];
    let (yarn, _server) = client_of(lives(reports, Arc::default()), &[]).await;
    let context =
        ApplicationSubmissionContext { application_id: Some(APPLICATION), ..Default::default() };
    let said = yarn.submit(context).await.unwrap_err().to_string();
    assert_eq!(said, "application_1570379089091_0019 is Failed: queue is full");
}

#[tokio::test]
async fn the_active_of_two_resource_managers_is_asked() {
    let standby = Server::start(ServerAuth::Simple, Does::Standby).await;
    let metrics =
        GetClusterMetricsResponse { cluster_metrics: Some(Default::default()) }.encode_to_vec();
    let active =
        Server::start(ServerAuth::Simple, Does::Answer(Arc::new(move |_, _| Ok(metrics.clone()))))
            .await;
    let address = |server: &Server| format!("127.0.0.1:{}", server.port);
    let conf = conf(&[
        ("yarn.resourcemanager.ha.enabled", "true"),
        ("yarn.resourcemanager.ha.rm-ids", "rm1,rm2"),
        ("yarn.resourcemanager.address.rm1", &address(&standby)),
        ("yarn.resourcemanager.address.rm2", &address(&active)),
    ]);
    let login = Login::simple(&conf, "alice", Credentials::new()).unwrap();
    let yarn = YarnClient::new(&conf, login).await.unwrap();
    for _ in 0..3 {
        yarn.metrics().await.unwrap();
    }
    assert_eq!((standby.connections(), active.connections()), (1, 1));
}

fn node_token() -> Token {
    Token::new(b"node".to_vec(), b"hunter2".to_vec(), kinds::NODE_MANAGER, "")
}

#[tokio::test]
async fn containers_are_started_asked_after_and_stopped() {
    let refused = |id: ContainerId, why: &str| ContainerExceptionMap {
        container_id: Some(id),
        exception: Some(SerializedException {
            message: Some(why.to_owned()),
            class_name: Some("org.apache.hadoop.yarn.exceptions.YarnException".to_owned()),
            ..SerializedException::default()
        }),
    };
    let id = |number| ContainerId { id: Some(number), ..ContainerId::default() };
    let calls = AtomicUsize::new(0);
    let answers = move |method: &str, body: &Bytes| match method {
        // Not yet ready, and later it is.
        "startContainers" if calls.fetch_add(1, Ordering::SeqCst) == 0 => {
            Err("org.apache.hadoop.yarn.exceptions.NMNotYetReadyException")
        }
        "startContainers" => {
            let asked = StartContainersRequest::decode(body.clone()).unwrap();
            let one = &asked.start_container_request[0];
            assert_eq!(one.container_token.as_ref().unwrap().kind, kinds::CONTAINER);
            let launch = one.container_launch_context.as_ref().unwrap();
            assert_eq!(launch.command, ["./worker"]);
            let failed_requests = match launch.environment.first().map(|set| set.value()) {
                None => vec![refused(id(1), "not known")],
                Some("again") => {
                    let why =
                        "Container container_1_0001_01_000002 already is running on this node!!";
                    vec![refused(id(1), why)]
                }
                Some(_) => vec![],
            };
            Ok(StartContainersResponse { failed_requests, ..Default::default() }.encode_to_vec())
        }
        "getContainerStatuses" => {
            let asked = GetContainerStatusesRequest::decode(body.clone()).unwrap().container_id[0];
            let state = Some(ContainerSubState::Running.into());
            let status = ContainerStatus {
                container_id: Some(asked),
                container_sub_state: state,
                ..Default::default()
            };
            Ok(GetContainerStatusesResponse { status: vec![status], failed_requests: vec![] }
                .encode_to_vec())
        }
        "stopContainers" => {
            let asked = StopContainersRequest::decode(body.clone()).unwrap().container_id[0];
            let failed_requests = vec![refused(asked, "not known")];
            Ok(StopContainersResponse { succeeded_requests: vec![], failed_requests }
                .encode_to_vec())
        }
        "signalToContainer" => {
            let asked = SignalContainerRequest::decode(body.clone()).unwrap();
            assert_eq!(asked.container_id, id(1));
            assert_eq!(asked.command(), SignalContainerCommand::GracefulShutdown);
            Ok(Vec::new())
        }
        "localize" => {
            let asked = ResourceLocalizationRequest::decode(body.clone()).unwrap();
            assert_eq!(asked.container_id, Some(id(1)));
            assert_eq!(asked.local_resources[0].key(), "late");
            assert_eq!(asked.local_resources[0].value.as_ref().unwrap().timestamp(), 2);
            Ok(Vec::new())
        }
        _ => Err("org.apache.hadoop.ipc.RpcNoSuchMethodException"),
    };
    let qops = vec![crate::sasl::Qop::Authentication];
    let auth = ServerAuth::Token { token: node_token(), qops, ciphers: vec![] };
    let server = Server::start(auth, Does::Answer(Arc::new(answers))).await;
    let conf = conf(&[("yarn.client.nodemanager-connect.retry-interval-ms", "1")]);
    let login = Login::simple(&conf, "alice", Credentials::new()).unwrap();
    let nodes = NmClient::new(&conf, &login).unwrap();
    let node = NodeId { host: Some("127.0.0.1".to_owned()), port: Some(server.port.into()) };
    let container = Container {
        id: Some(id(1)),
        node_id: Some(node.clone()),
        container_token: Some(TokenProto {
            kind: kinds::CONTAINER.to_owned(),
            ..Default::default()
        }),
        ..Container::default()
    };
    let launch =
        ContainerLaunchContext::of_command("./worker").with_env("A", "1").with_env("A", "2");
    assert_eq!(launch.environment.len(), 1);
    nodes.start(&container, &node_token(), launch).await.unwrap();
    // The answer to an earlier try was lost.
    let again = ContainerLaunchContext::of_command("./worker").with_env("A", "again");
    nodes.start(&container, &node_token(), again).await.unwrap();
    let bare = ContainerLaunchContext::of_command("./worker");
    let refused = nodes.start(&container, &node_token(), bare).await.unwrap_err();
    assert!(
        refused.is_remote("YarnException") && refused.to_string().contains("not known"),
        "{refused}"
    );
    let status = nodes.status(&node, &node_token(), id(1)).await.unwrap();
    assert_eq!(status.container_sub_state(), ContainerSubState::Running);
    assert!(nodes.stop(&node, &node_token(), id(1)).await.is_err());
    let signal = SignalContainerCommand::GracefulShutdown;
    nodes.signal(&node, &node_token(), id(1), signal).await.unwrap();
    let file = LocalResource::file("hdfs://nn:8020/late", 1, 2).unwrap();
    nodes.localize(&node, &node_token(), id(1), vec![("late".to_owned(), file)]).await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[test]
fn files_are_described_by_their_uris() {
    let file = LocalResource::file("hdfs://nn:8020/user/a/worker", 10, 20).unwrap();
    let url = file.resource.clone().unwrap();
    assert_eq!(
        (url.scheme(), url.host(), url.port(), url.file()),
        ("hdfs", "nn", 8020, "/user/a/worker")
    );
    assert_eq!((file.size(), file.timestamp(), file.kind()), (10, 20, LocalResourceType::File));
    assert_eq!(file.visibility(), LocalResourceVisibility::Application);
    let logical: Url = "hdfs://ns/x".parse().unwrap();
    assert_eq!((logical.host(), logical.port()), ("ns", -1));
    let local: Url = "file:/tmp/x".parse().unwrap();
    assert_eq!((local.host.as_deref(), local.file()), (None, "/tmp/x"));
    for wrong in ["", "/x", "hdfs://nn", "hdfs:x", "hdfs://nn:x/", "://a/"] {
        assert!(wrong.parse::<Url>().is_err(), "{wrong}");
    }
    let mut credentials = Credentials::new();
    credentials.add("a", node_token());
    let launch = ContainerLaunchContext::of_command("x")
        .with_file("worker", file.clone().unpacked())
        .with_tokens(&credentials)
        .with_service_data("shuffle", vec![1]);
    assert_eq!(Credentials::from_bytes(launch.tokens.as_deref().unwrap()).unwrap(), credentials);
    assert_eq!(
        launch.local_resources[0].value.as_ref().unwrap().kind(),
        LocalResourceType::Archive
    );
}

#[test]
fn what_no_container_may_have_is_refused_before() {
    let resource = |memory, cores, gpus| Resource {
        memory: Some(memory),
        virtual_cores: Some(cores),
        resource_value_map: vec![ResourceInformation {
            key: "gpu".to_owned(),
            value: Some(gpus),
            ..ResourceInformation::default()
        }],
    };
    let maximum = resource(4096, 4, 1);
    assert!(resource(4096, 4, 1).check(&maximum).is_ok());
    let said = |wanted: Resource| wanted.check(&maximum).unwrap_err().to_string();
    assert!(said(resource(4097, 1, 0)).contains("4097 MiB of memory"));
    assert!(said(resource(1, 5, 0)).contains("5 cores"));
    assert!(said(resource(1, 1, 2)).contains("2 gpu"));
}

/// A delegation token as a ResourceManager of Hadoop 3.3.6 sends it: without a service, which Java's client adds.
const DELEGATION_TOKEN: &[u8] =
    b"\x0aM\x0a\x1e\x0a\x04root\x12\x04root \xff\xc7\xae\xfd\x9f4(\xff\xcf\xe0\x9d\xa240\x028\
        \x02\x12\x14\xa4\x8c\xd9\xd9\x7fWs&\xe1$m#2\xf5\xc4\xb9\xaf\x16%h\x1a\x13RM_DELEGATION_T\
        OKEN\x22\x00";

#[tokio::test]
async fn a_delegation_token_names_all_resource_managers() {
    let answer: Arc<Answers> = Arc::new(|_, _| Ok(DELEGATION_TOKEN.to_vec()));
    let (client, server) = client_of(Arc::clone(&answer), &[]).await;
    let token = client.delegation_token("root").await.unwrap();
    assert_eq!((token.kind(), token.identifier().len()), (kinds::RM_DELEGATION, 30));
    assert_eq!(token.password().expose().len(), 20);
    assert_eq!(token.service(), format!("127.0.0.1:{}", server.port));

    let one = format!("127.0.0.1:{}", server.port);
    let conf = conf(&[
        ("yarn.resourcemanager.ha.enabled", "true"),
        ("yarn.resourcemanager.ha.rm-ids", "rm1,rm2"),
        ("yarn.resourcemanager.address.rm1", &one),
        ("yarn.resourcemanager.address.rm2", "127.0.0.2:8032"),
    ]);
    let login = Login::simple(&conf, "alice", Credentials::new()).unwrap();
    let both = YarnClient::new(&conf, login).await.unwrap().delegation_token("root").await.unwrap();
    assert_eq!(both.service(), format!("{one},127.0.0.2:8032"));
    assert!(both.serves(&one) && both.serves("127.0.0.2:8032"));
}

proptest! {
    #[test]
    fn any_text_is_an_id_or_an_error(text in "(container|application|appattempt)?[_e0-9a-z:-]{0,40}") {
        let _ = text.parse::<ApplicationId>();
        let _ = text.parse::<ApplicationAttemptId>();
        let _ = text.parse::<NodeId>();
        if let Ok(id) = text.parse::<ContainerId>() {
            prop_assert_eq!(id.to_string().parse::<ContainerId>().unwrap(), id);
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = AllocateResponse::decode(&bytes[..]);
        let _ = GetApplicationsResponse::decode(&bytes[..]);
        let _ = StartContainersResponse::decode(&bytes[..]);
        let _ = GetQueueInfoResponse::decode(&bytes[..]);
    }
}

#[test]
fn a_variables_value_survives_the_nodes_script() {
    for value in ["", "plain", "a \"b\" 'c'", "$HOME `id` \\ \\\"", "[{\"a\":1},{\"b\":[]}]"] {
        let launch = ContainerLaunchContext::of_command("x").with_env("X", value);
        let written = launch.environment[0].value.as_deref().unwrap();
        let script = format!("export X=\"{written}\"\nprintf %s \"$X\"");
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!((output.status.success(), output.stdout.as_slice()), (true, value.as_bytes()));
    }
}
