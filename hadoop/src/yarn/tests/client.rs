//! Tests of [`YarnClient`], method by method, against a double of the ResourceManager.

use super::*;
use crate::yarn::client::iso8601;

const ATTEMPT: ApplicationAttemptId =
    ApplicationAttemptId { application_id: Some(APPLICATION), attempt_id: Some(2) };
const CONTAINER: ContainerId =
    ContainerId { app_id: None, app_attempt_id: Some(ATTEMPT), id: Some(3) };

fn node(host: &str) -> NodeId {
    NodeId { host: Some(host.to_owned()), port: Some(1) }
}

/// A ResourceManager with one answer, which checks that this method was called with this request.
async fn asked<Q, R>(method: &'static str, request: Q, answer: R) -> (YarnClient, Server)
where
    Q: prost::Message + Default + PartialEq + std::fmt::Debug + 'static,
    R: prost::Message,
{
    let answer = answer.encode_to_vec();
    let answers: Arc<Answers> = Arc::new(move |called, body| {
        assert_eq!(called, method);
        assert_eq!(Q::decode(body.clone()).unwrap(), request);
        Ok(answer.clone())
    });
    client_of(answers, &[]).await
}

#[tokio::test]
async fn single_attempts_and_containers_are_reported() {
    let request = GetApplicationAttemptReportRequest { application_attempt_id: Some(ATTEMPT) };
    let report = ApplicationAttemptReport {
        application_attempt_id: Some(ATTEMPT),
        diagnostics: Some("all well".to_owned()),
        ..Default::default()
    };
    let answer = GetApplicationAttemptReportResponse { application_attempt_report: Some(report) };
    let (yarn, _server) = asked("getApplicationAttemptReport", request, answer).await;
    assert_eq!(yarn.attempt(ATTEMPT).await.unwrap().diagnostics(), "all well");

    let request = GetContainerReportRequest { container_id: Some(CONTAINER) };
    let report = ContainerReport { node_id: Some(node("n")), ..Default::default() };
    let answer = GetContainerReportResponse { container_report: Some(report) };
    let (yarn, _server) = asked("getContainerReport", request, answer).await;
    assert_eq!(yarn.container(CONTAINER).await.unwrap().node_id, Some(node("n")));

    let empty: Arc<Answers> = Arc::new(|_, _| Ok(Vec::new()));
    let (yarn, _server) = client_of(empty, &[]).await;
    let said = |error: YarnError| error.to_string();
    let attempt = said(yarn.attempt(ATTEMPT).await.unwrap_err());
    assert!(attempt.contains("getApplicationAttemptReport has no report"), "{attempt}");
    let container = said(yarn.container(CONTAINER).await.unwrap_err());
    assert!(container.contains("getContainerReport has no report"), "{container}");

    let gone: Arc<Answers> =
        Arc::new(|_, _| Err("org.apache.hadoop.yarn.exceptions.ContainerNotFoundException"));
    let (yarn, _server) = client_of(gone, &[]).await;
    let error = yarn.container(CONTAINER).await.unwrap_err();
    assert!(error.is_remote("ContainerNotFoundException"), "{error:?}");
}

#[tokio::test]
async fn attempts_and_containers_are_listed() {
    let request = GetApplicationAttemptsRequest { application_id: Some(APPLICATION) };
    let report =
        ApplicationAttemptReport { application_attempt_id: Some(ATTEMPT), ..Default::default() };
    let answer = GetApplicationAttemptsResponse { application_attempts: vec![report.clone()] };
    let (yarn, _server) = asked("getApplicationAttempts", request, answer).await;
    assert_eq!(yarn.attempts(APPLICATION).await.unwrap(), [report]);

    let request = GetContainersRequest { application_attempt_id: Some(ATTEMPT) };
    let report = ContainerReport { container_id: Some(CONTAINER), ..Default::default() };
    let answer = GetContainersResponse { containers: vec![report.clone()] };
    let (yarn, _server) = asked("getContainers", request, answer).await;
    assert_eq!(yarn.containers(ATTEMPT).await.unwrap(), [report]);
}

#[tokio::test]
async fn attempts_are_failed_and_containers_signalled() {
    let request = FailApplicationAttemptRequest { application_attempt_id: Some(ATTEMPT) };
    let answer = FailApplicationAttemptResponse {};
    let (yarn, server) = asked("failApplicationAttempt", request, answer).await;
    yarn.fail_attempt(ATTEMPT).await.unwrap();
    assert_eq!(server.calls(), 1);

    let command = SignalContainerCommand::OutputThreadDump;
    let request = SignalContainerRequest { container_id: CONTAINER, command: command.into() };
    let (yarn, server) = asked("signalToContainer", request, SignalContainerResponse {}).await;
    yarn.signal(CONTAINER, command).await.unwrap();
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn labels_and_their_nodes_are_listed() {
    let gpu = || "gpu".to_owned();
    let entry = NodeIdToLabels { node_id: Some(node("n")), node_labels: vec![gpu()] };
    let answer = GetNodesToLabelsResponse { node_to_labels: vec![entry] };
    let (yarn, _server) = asked("getNodeToLabels", GetNodesToLabelsRequest {}, answer).await;
    assert_eq!(yarn.nodes_to_labels().await.unwrap(), [(node("n"), vec![gpu()])]);

    let request = GetLabelsToNodesRequest { node_labels: vec![gpu()] };
    let nodes = vec![node("n"), node("m")];
    let entry = LabelsToNodeIds { node_labels: Some(gpu()), node_id: nodes.clone() };
    let answer = GetLabelsToNodesResponse { labels_to_nodes: vec![entry] };
    let (yarn, _server) = asked("getLabelsToNodes", request, answer).await;
    assert_eq!(yarn.labels_to_nodes(&["gpu"]).await.unwrap(), [(gpu(), nodes)]);

    let label = NodeLabel { name: Some(gpu()), is_exclusive: Some(false) };
    let answer = GetClusterNodeLabelsResponse {
        deprecated_node_labels: vec![gpu()],
        node_labels: vec![label.clone()],
    };
    let request = GetClusterNodeLabelsRequest {};
    let (yarn, _server) = asked("getClusterNodeLabels", request, answer).await;
    assert_eq!(yarn.node_labels().await.unwrap(), [label]);

    // Entries without what they are about.
    let answer = GetNodesToLabelsResponse { node_to_labels: vec![NodeIdToLabels::default()] };
    let (yarn, _server) = asked("getNodeToLabels", GetNodesToLabelsRequest {}, answer).await;
    assert!(yarn.nodes_to_labels().await.unwrap_err().to_string().contains("has no node"));
    let answer = GetLabelsToNodesResponse { labels_to_nodes: vec![LabelsToNodeIds::default()] };
    let (yarn, _server) =
        asked("getLabelsToNodes", GetLabelsToNodesRequest::default(), answer).await;
    assert!(yarn.labels_to_nodes(&[]).await.unwrap_err().to_string().contains("has no label"));
}

#[tokio::test]
async fn applications_are_moved_and_get_other_priorities_and_time_outs() {
    let request = MoveApplicationAcrossQueuesRequest {
        application_id: APPLICATION,
        target_queue: "small".to_owned(),
    };
    let answer = MoveApplicationAcrossQueuesResponse {};
    let (yarn, server) = asked("moveApplicationAcrossQueues", request, answer).await;
    yarn.move_to_queue(APPLICATION, "small").await.unwrap();
    assert_eq!(server.calls(), 1);

    // The cluster's greatest is less than what was asked for.
    let request = UpdateApplicationPriorityRequest {
        application_id: APPLICATION,
        application_priority: Priority { priority: Some(9) },
    };
    let granted = Priority { priority: Some(5) };
    let answer = UpdateApplicationPriorityResponse { application_priority: Some(granted) };
    let (yarn, _server) = asked("updateApplicationPriority", request, answer).await;
    assert_eq!(yarn.set_priority(APPLICATION, 9).await.unwrap(), 5);

    let kind = ApplicationTimeoutType::Lifetime;
    let timeout = ApplicationUpdateTimeoutMap {
        application_timeout_type: Some(kind.into()),
        expire_time: Some("2027-01-15T08:00:00.250+0000".to_owned()),
    };
    let request = UpdateApplicationTimeoutsRequest {
        application_id: APPLICATION,
        application_timeouts: vec![timeout.clone()],
    };
    let answer = UpdateApplicationTimeoutsResponse { application_timeouts: vec![timeout] };
    let (yarn, server) = asked("updateApplicationTimeouts", request, answer).await;
    yarn.set_timeout(APPLICATION, kind, 1_800_000_000_250).await.unwrap();
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn delegation_tokens_are_renewed_and_cancelled() {
    let token = Token::new(b"id".to_vec(), b"hunter2".to_vec(), kinds::RM_DELEGATION, "s");
    let request = RenewDelegationTokenRequest { token: TokenProto::from(&token) };
    let answer = RenewDelegationTokenResponse { new_expiry_time: 7 };
    let (yarn, _server) = asked("renewDelegationToken", request, answer).await;
    assert_eq!(yarn.renew_delegation_token(&token).await.unwrap(), 7);
    let request = CancelDelegationTokenRequest { token: TokenProto::from(&token) };
    let answer = CancelDelegationTokenResponse {};
    let (yarn, server) = asked("cancelDelegationToken", request, answer).await;
    yarn.cancel_delegation_token(&token).await.unwrap();
    assert_eq!(server.calls(), 1);
}

#[test]
fn times_are_spelled_as_yarn_reads_them() {
    for (at, text) in [
        (0, "1970-01-01T00:00:00.000+0000"),
        (951_782_400_000, "2000-02-29T00:00:00.000+0000"),
        (951_868_799_999, "2000-02-29T23:59:59.999+0000"),
        (951_868_800_000, "2000-03-01T00:00:00.000+0000"),
        (1_709_164_800_001, "2024-02-29T00:00:00.001+0000"),
        (1_735_689_599_000, "2024-12-31T23:59:59.000+0000"),
        (1_800_000_000_000, "2027-01-15T08:00:00.000+0000"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000+0000"),
    ] {
        assert_eq!(iso8601(at), text);
    }
}
