//! Captures the answers of a ResourceManager without security to a client: every method of ApplicationClientProtocol that it
//! carries out. It never looks at bytes; the wire below does.

use super::world::{ALICE, Server, Who, World};
use hadoop::sasl::{Cipher, Qop, SaslConfig};
use hadoop::tokens::{Token, TokenProto};
use hadoop::yarn::messages::*;
use prost::Message;

/// One call on a connection of its own.
pub(super) fn ask<Q: Message, R: Message + Default + std::fmt::Debug>(
    world: &World,
    method: &str,
    request: &Q,
) -> R {
    let mut wire = world.open(&format!("client/{method}"), &Server::ResourceManager, Who::Simple);
    wire.call(method, request).unwrap()
}

pub(super) fn size(memory: i64) -> Resource {
    Resource { memory: Some(memory), virtual_cores: Some(1), ..Resource::default() }
}

pub(super) fn nodes(world: &World) {
    let method = "getClusterMetrics";
    let metrics: GetClusterMetricsResponse = ask(world, method, &GetClusterMetricsRequest {});
    let metrics = metrics.cluster_metrics.unwrap();
    assert_eq!((metrics.num_node_managers(), metrics.num_active_nms()), (2, 2));
    assert_eq!((metrics.num_lost_nms(), metrics.num_decommissioned_nms()), (0, 0));

    let states = vec![NodeState::Running.into(), NodeState::Unhealthy.into()];
    let running = GetClusterNodesRequest { node_states: states };
    let nodes: GetClusterNodesResponse = ask(world, "getClusterNodes", &running);
    assert_eq!(nodes.node_reports.len(), 2);
    for node in &nodes.node_reports {
        assert_eq!((node.node_state(), node.rack_name()), (NodeState::Running, "/default-rack"));
        assert_eq!(node.node_id.as_ref().unwrap().host(), "localhost");
        let capability = node.capability.as_ref().unwrap();
        assert_eq!((capability.memory(), capability.virtual_cores()), (2048, 4));
        assert!(node.http_address().starts_with("localhost:"));
    }
    let labelled: Vec<_> =
        nodes.node_reports.iter().filter(|node| node.node_labels == ["fast"]).collect();
    assert_eq!(labelled.len(), 1);

    let method = "getClusterNodeLabels";
    let labels: GetClusterNodeLabelsResponse = ask(world, method, &GetClusterNodeLabelsRequest {});
    let label = NodeLabel { name: Some("fast".to_owned()), is_exclusive: Some(true) };
    assert_eq!(labels.node_labels, [label]);
    let labels: GetNodesToLabelsResponse =
        ask(world, "getNodeToLabels", &GetNodesToLabelsRequest {});
    let [one] = &labels.node_to_labels[..] else { panic!("{labels:?}") };
    assert_eq!((&one.node_id, &one.node_labels), (&labelled[0].node_id, &vec!["fast".to_owned()]));
    let request = GetLabelsToNodesRequest { node_labels: vec!["fast".to_owned()] };
    let labels: GetLabelsToNodesResponse = ask(world, "getLabelsToNodes", &request);
    let [one] = &labels.labels_to_nodes[..] else { panic!("{labels:?}") };
    assert_eq!((one.node_labels(), one.node_id.len()), ("fast", 1));
    attributes(world);
}

fn attributes(world: &World) {
    let method = "getClusterNodeAttributes";
    let known: GetClusterNodeAttributesResponse =
        ask(world, method, &GetClusterNodeAttributesRequest {});
    let [attribute] = &known.node_attributes[..] else { panic!("{known:?}") };
    assert_eq!(attribute.attribute_type(), NodeAttributeType::String);
    let key = attribute.attribute_key.clone();
    assert_eq!((key.attribute_prefix(), key.attribute_name.as_str()), ("nm.yarn.io", "os"));
    let request = GetAttributesToNodesRequest { node_attributes: vec![key.clone()] };
    let nodes: GetAttributesToNodesResponse = ask(world, "getAttributesToNodes", &request);
    let [one] = &nodes.attributes_to_nodes[..] else { panic!("{nodes:?}") };
    assert_eq!(one.node_attribute, key);
    assert_eq!(one.node_value_map[0].attribute_value, "linux");
    let request = GetNodesToAttributesRequest { hostnames: vec!["localhost".to_owned()] };
    let nodes: GetNodesToAttributesResponse = ask(world, "getNodesToAttributes", &request);
    let [one] = &nodes.nodes_to_attributes[..] else { panic!("{nodes:?}") };
    assert_eq!((one.node(), one.node_attributes[0].attribute_value()), ("localhost", "linux"));
}

pub(super) fn queues(world: &World) {
    let request = GetQueueInfoRequest {
        queue_name: Some("root".to_owned()),
        include_applications: Some(true),
        include_child_queues: Some(true),
        recursive: Some(true),
        sub_cluster_id: None,
    };
    let root: GetQueueInfoResponse = ask(world, "getQueueInfo", &request);
    let root = root.queue_info.unwrap();
    assert_eq!((root.queue_name(), root.state()), ("root", QueueState::Running));
    let mut children: Vec<_> = root.child_queues.iter().map(QueueInfo::queue_name).collect();
    children.sort_unstable();
    assert_eq!(children, ["default", "plan", "small"]);
    let small = root.child_queues.iter().find(|queue| queue.queue_name() == "small").unwrap();
    assert_eq!((small.queue_path(), small.capacity()), ("root.small", 0.25));

    let method = "getQueueUserAcls";
    let acls: GetQueueUserAclsInfoResponse = ask(world, method, &GetQueueUserAclsInfoRequest {});
    assert!(acls.queue_user_acls.iter().any(|acl| {
        acl.queue_name().ends_with("default")
            && acl.user_acls.contains(&QueueAcl::SubmitApplications.into())
    }));
    let method = "getResourceTypeInfo";
    let types: GetAllResourceTypeInfoResponse =
        ask(world, method, &GetAllResourceTypeInfoRequest {});
    let mut names: Vec<_> = types.resource_type_info.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["memory-mb", "vcores"]);
    let method = "getResourceProfiles";
    let profiles: GetAllResourceProfilesResponse =
        ask(world, method, &GetAllResourceProfilesRequest {});
    let profiles = profiles.resource_profiles.resource_profiles_map;
    let large = profiles.iter().find(|profile| profile.name == "large").unwrap();
    assert_eq!(large.resources.memory(), 1024);
    let request = GetResourceProfileRequest { profile: "large".to_owned() };
    let profile: GetResourceProfileResponse = ask(world, "getResourceProfile", &request);
    assert_eq!((profile.resources.memory(), profile.resources.virtual_cores()), (1024, 2));
}

pub(super) fn reservations(world: &World) {
    let now: i64 = world.fact("now", now).parse().unwrap();
    let new: GetNewReservationResponse =
        ask(world, "getNewReservation", &GetNewReservationRequest {});
    let id = new.reservation_id.unwrap();
    let definition = |duration| ReservationDefinition {
        reservation_requests: Some(ReservationRequests {
            reservation_resources: vec![ReservationRequest {
                capability: Some(size(64)),
                num_containers: Some(1),
                concurrency: Some(1),
                duration: Some(duration),
            }],
            interpreter: Some(ReservationRequestInterpreter::All.into()),
        }),
        arrival: Some(now + 600_000),
        deadline: Some(now + 1_200_000),
        reservation_name: Some("later".to_owned()),
        recurrence_expression: Some("0".to_owned()),
        priority: Some(Priority { priority: Some(0) }),
    };
    let request = ReservationSubmissionRequest {
        queue: Some("plan".to_owned()),
        reservation_definition: Some(definition(10_000)),
        reservation_id: Some(id),
    };
    let _: ReservationSubmissionResponse = ask(world, "submitReservation", &request);
    let request = ReservationUpdateRequest {
        reservation_definition: Some(definition(20_000)),
        reservation_id: Some(id),
    };
    let _: ReservationUpdateResponse = ask(world, "updateReservation", &request);
    let request = ReservationListRequest {
        queue: Some("plan".to_owned()),
        reservation_id: None,
        start_time: Some(now),
        end_time: Some(now + 2_000_000),
        include_resource_allocations: Some(true),
    };
    let listed: ReservationListResponse = ask(world, "listReservations", &request);
    let [one] = &listed.reservations[..] else { panic!("{listed:?}") };
    assert_eq!((one.reservation_id, one.user()), (Some(id), ALICE));
    let said = one.reservation_definition.as_ref().unwrap();
    assert_eq!((said.reservation_name(), said.deadline()), ("later", now + 1_200_000));
    assert!(!one.allocation_requests.is_empty());
    let request = ReservationDeleteRequest { reservation_id: Some(id) };
    let _: ReservationDeleteResponse = ask(world, "deleteReservation", &request);
}

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clock of a real cluster")]
pub(super) fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_millis().to_string()
}

/// An application that waits for its ApplicationMaster, which is whoever has the token.
pub(super) fn unmanaged(world: &World) -> (ApplicationId, Token) {
    let method = "getNewApplication";
    let new: GetNewApplicationResponse = ask(world, method, &GetNewApplicationRequest {});
    let id = new.application_id.unwrap();
    assert_eq!(new.maximum_capability.unwrap().memory(), 2048);
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        application_name: Some("captured, ünmanaged".to_owned()),
        queue: Some("default".to_owned()),
        priority: Some(Priority { priority: Some(0) }),
        am_container_spec: Some(ContainerLaunchContext::default()),
        unmanaged_am: Some(true),
        max_app_attempts: Some(1),
        resource: Some(size(64)),
        application_type: Some("NATIVE".to_owned()),
        application_tags: vec!["one".to_owned(), "two".to_owned()],
        application_timeouts: vec![ApplicationTimeoutMap {
            application_timeout_type: Some(ApplicationTimeoutType::Lifetime.into()),
            timeout: Some(3600),
        }],
        ..ApplicationSubmissionContext::default()
    };
    let request = SubmitApplicationRequest { application_submission_context: Some(context) };
    let _: SubmitApplicationResponse = ask(world, "submitApplication", &request);

    let method = "getApplicationReport";
    let mut wire = world.open(&format!("client/{method}"), &Server::ResourceManager, Who::Simple);
    let request = GetApplicationReportRequest { application_id: Some(id) };
    loop {
        let report: GetApplicationReportResponse = wire.call(method, &request).unwrap();
        let report = report.application_report.unwrap();
        assert_eq!((report.application_id, report.user()), (Some(id), ALICE));
        assert_eq!((report.name(), report.application_type()), ("captured, ünmanaged", "NATIVE"));
        assert!(report.unmanaged_application());
        let mut tags = report.application_tags.clone();
        tags.sort_unstable();
        assert_eq!(tags, ["one", "two"]);
        let state = report.state();
        if let Some(token) = report.am_rm_token {
            assert_eq!(state, YarnApplicationState::Accepted);
            return (id, token.into());
        }
        world.pause();
    }
}

/// Makes the calls that need a running application with a running container.
pub(super) fn running(world: &World, id: ApplicationId, container: ContainerId) {
    let request = GetApplicationsRequest {
        application_types: vec!["NATIVE".to_owned()],
        application_states: vec![YarnApplicationState::Running.into()],
        users: vec![ALICE.to_owned()],
        application_tags: vec!["one".to_owned()],
        scope: Some(ApplicationsRequestScope::All.into()),
        limit: Some(10),
        ..GetApplicationsRequest::default()
    };
    let found: GetApplicationsResponse = ask(world, "getApplications", &request);
    let report = found.applications.iter().find(|report| report.application_id == Some(id));
    let report = report.unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!((report.state(), report.host()), (YarnApplicationState::Running, "here"));
    assert_eq!((report.rpc_port(), report.progress()), (-1, 0.5));
    let attempt = report.current_application_attempt_id.unwrap();

    let request = GetApplicationAttemptsRequest { application_id: Some(id) };
    let attempts: GetApplicationAttemptsResponse = ask(world, "getApplicationAttempts", &request);
    let [one] = &attempts.application_attempts[..] else { panic!("{attempts:?}") };
    assert_eq!(one.application_attempt_id, Some(attempt));
    let request = GetApplicationAttemptReportRequest { application_attempt_id: Some(attempt) };
    let report: GetApplicationAttemptReportResponse =
        ask(world, "getApplicationAttemptReport", &request);
    let report = report.application_attempt_report.unwrap();
    let state = report.yarn_application_attempt_state();
    assert_eq!((state, report.host()), (YarnApplicationAttemptState::Running, "here"));
    let request = GetContainersRequest { application_attempt_id: Some(attempt) };
    let containers: GetContainersResponse = ask(world, "getContainers", &request);
    assert!(containers.containers.iter().any(|one| one.container_id == Some(container)));
    let request = GetContainerReportRequest { container_id: Some(container) };
    let report: GetContainerReportResponse = ask(world, "getContainerReport", &request);
    let report = report.container_report.unwrap();
    assert_eq!(report.execution_type(), ExecutionType::Guaranteed);
    assert_eq!(report.container_id, Some(container));
    assert_eq!(report.resource.unwrap().memory(), 64);

    let (application_id, priority) = (id, Priority { priority: Some(0) });
    let request =
        UpdateApplicationPriorityRequest { application_id, application_priority: priority };
    let response: UpdateApplicationPriorityResponse =
        ask(world, "updateApplicationPriority", &request);
    assert_eq!(response.application_priority, Some(priority));
    let timeout = ApplicationUpdateTimeoutMap {
        application_timeout_type: Some(ApplicationTimeoutType::Lifetime.into()),
        expire_time: Some("2066-01-02T03:04:05.678+0000".to_owned()),
    };
    let application_timeouts = vec![timeout.clone()];
    let request = UpdateApplicationTimeoutsRequest { application_id, application_timeouts };
    let response: UpdateApplicationTimeoutsResponse =
        ask(world, "updateApplicationTimeouts", &request);
    assert_eq!(response.application_timeouts, [timeout]);
    let command = SignalContainerCommand::OutputThreadDump.into();
    let request = SignalContainerRequest { container_id: container, command };
    let _: SignalContainerResponse = ask(world, "signalToContainer", &request);
}

pub(super) fn moved(world: &World, application_id: ApplicationId) {
    let target_queue = "small".to_owned();
    let request = MoveApplicationAcrossQueuesRequest { application_id, target_queue };
    let _: MoveApplicationAcrossQueuesResponse =
        ask(world, "moveApplicationAcrossQueues", &request);
}

/// An application whose ApplicationMaster YARN starts, and which does nothing: one attempt is failed, the next
/// one killed.
pub(super) fn managed(world: &World) {
    let mut wire = world.open("client/managed", &Server::ResourceManager, Who::Simple);
    let new: GetNewApplicationResponse =
        wire.call("getNewApplication", &GetNewApplicationRequest {}).unwrap();
    let id = new.application_id.unwrap();
    let sleeps = ContainerLaunchContext::of_command("exec sleep 600 1><LOG_DIR>/stdout")
        .with_env("NAME", "value");
    let acl = ApplicationAclMap {
        access_type: Some(ApplicationAccessType::ViewApp.into()),
        acl: Some("*".to_owned()),
    };
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        am_container_spec: Some(ContainerLaunchContext { application_acls: vec![acl], ..sleeps }),
        max_app_attempts: Some(2),
        resource: Some(size(64)),
        keep_containers_across_application_attempts: Some(true),
        attempt_failures_validity_interval: Some(60_000),
        log_aggregation_context: Some(LogAggregationContext {
            include_pattern: Some("std.*".to_owned()),
            ..LogAggregationContext::default()
        }),
        ..ApplicationSubmissionContext::default()
    };
    let request = SubmitApplicationRequest { application_submission_context: Some(context) };
    let _: SubmitApplicationResponse = wire.call("submitApplication", &request).unwrap();
    let request = GetApplicationAttemptsRequest { application_id: Some(id) };
    let mut launched = |number| loop {
        let attempts: GetApplicationAttemptsResponse =
            wire.call("getApplicationAttempts", &request).unwrap();
        let launched = attempts.application_attempts.iter().find(|one| {
            one.yarn_application_attempt_state() == YarnApplicationAttemptState::Launched
                && one.application_attempt_id.unwrap().attempt_id() == number
        });
        if let Some(one) = launched {
            assert!(one.am_container_id.is_some());
            break one.application_attempt_id;
        }
        world.pause();
    };
    let application_attempt_id = launched(1);
    let request = FailApplicationAttemptRequest { application_attempt_id };
    let _: FailApplicationAttemptResponse = ask(world, "failApplicationAttempt", &request);
    launched(2);
    drop(wire);
    let method = "forceKillApplication";
    let mut wire = world.open(&format!("client/{method}"), &Server::ResourceManager, Who::Simple);
    let diagnostics = Some("by the one who captures".to_owned());
    let request = KillApplicationRequest { application_id: Some(id), diagnostics };
    loop {
        let killed: KillApplicationResponse = wire.call(method, &request).unwrap();
        if killed.is_kill_completed() {
            break;
        }
        world.pause();
    }
    let request = GetApplicationReportRequest { application_id: Some(id) };
    let report: GetApplicationReportResponse = wire.call("getApplicationReport", &request).unwrap();
    let report = report.application_report.unwrap();
    assert_eq!(report.state(), YarnApplicationState::Killed);
    assert!(report.diagnostics().contains("by the one who captures"), "{report:?}");
}

/// A delegation token: got, used with each protection and cipher, renewed, cancelled.
pub(super) fn delegation_token(world: &World) {
    let request = GetDelegationTokenRequest { renewer: ALICE.to_owned() };
    let response: GetDelegationTokenResponse = ask(world, "getDelegationToken", &request);
    let token = Token::from(response.token.unwrap());
    assert_eq!(token.kind(), "RM_DELEGATION_TOKEN");
    let proto = TokenProto::from(&token);
    let request = RenewDelegationTokenRequest { token: proto.clone() };
    let renewed: RenewDelegationTokenResponse = ask(world, "renewDelegationToken", &request);
    let now: u64 = world.fact("now", now).parse().unwrap();
    assert!(renewed.new_expiry_time > now);

    for qop in [Qop::Authentication, Qop::Integrity, Qop::Privacy] {
        let ciphers = match qop {
            Qop::Privacy => &Cipher::ALL[..],
            _ => &Cipher::ALL[..1],
        };
        for cipher in ciphers {
            let config = SaslConfig {
                token: Some(token.clone()),
                qops: vec![qop],
                ciphers: vec![*cipher],
                ..SaslConfig::default()
            };
            let name = match qop {
                Qop::Privacy => format!("{}-{}", qop.name(), cipher.name()),
                _ => qop.name().to_owned(),
            };
            let name = format!("by-token/{name}");
            let mut wire = world.open(&name, &Server::ResourceManager, Who::Sasl(config));
            let first: GetClusterMetricsResponse =
                wire.call("getClusterMetrics", &GetClusterMetricsRequest {}).unwrap();
            assert_eq!(first.cluster_metrics.unwrap().num_node_managers(), 2);
            assert_eq!(wire.ready, Some((hadoop::sasl::AuthMethod::Token, qop)));
            // The second message in each direction has other keys or another number.
            let second: GetClusterNodesResponse =
                wire.call("getClusterNodes", &GetClusterNodesRequest::default()).unwrap();
            assert_eq!(second.node_reports.len(), 2);
        }
    }
    let request = CancelDelegationTokenRequest { token: proto };
    let _: CancelDelegationTokenResponse = ask(world, "cancelDelegationToken", &request);
    let mut wire = world.open(
        "failures/cancelled-token",
        &Server::ResourceManager,
        Who::token(&token, &[Qop::Authentication]),
    );
    let id = wire.send("getClusterMetrics", &GetClusterMetricsRequest {});
    let error = wire.wait(id).unwrap_err();
    let remote = error.remote().unwrap();
    assert!(remote.is("SecretManager$InvalidToken") && remote.fatal, "{error:?}");
}
