//! Captures refusals of servers, by an exception of the call or by closing, and the traffic of a connection besides calls:
//! pings, repetitions, several calls at once, no authentication where SASL is spoken.

use super::client::size;
use super::wire::{Wire, thrown};
use super::world::{Server, Who, World, nobody};
use hadoop::rpc::{CallError, ConnectionError, ErrorCode, RemoteException, Request};
use hadoop::sasl::{AuthMethod, Qop, SaslError, SimpleFallback};
use hadoop::tokens::{Token, TokenProto};
use hadoop::yarn::messages::*;
use prost::Message as _;

const METRICS: &GetClusterMetricsRequest = &GetClusterMetricsRequest {};

fn remote(result: Result<impl Sized, CallError>) -> RemoteException {
    let Err(error) = result else { panic!("an exception was thrown then") };
    error.remote().unwrap_or_else(|| panic!("{error:?}")).clone()
}

fn metrics(wire: &mut Wire) {
    let metrics: GetClusterMetricsResponse = wire.call("getClusterMetrics", METRICS).unwrap();
    assert_eq!(metrics.cluster_metrics.unwrap().num_node_managers(), 2);
}

/// The connection lives on after each of these.
pub(super) fn of_calls(world: &World) {
    let name = "failures/of-calls";
    let mut wire = world.open(name, &Server::ResourceManager, Who::Simple);
    let nobodys = ApplicationId { id: Some(9_999), cluster_timestamp: Some(1) };
    let request = GetApplicationReportRequest { application_id: Some(nobodys) };
    let report: Result<GetApplicationReportResponse, _> =
        wire.call("getApplicationReport", &request);
    let refused = remote(report);
    assert!(refused.is("org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException"));
    assert_eq!((refused.code, refused.fatal), (ErrorCode::Application, false));
    assert!(refused.summary().contains("application_1_9999"), "{refused}");
    assert!(refused.message.contains("\n\tat "), "the trace of Java's stack is kept");

    let request = GetQueueInfoRequest {
        queue_name: Some("nowhere".to_owned()),
        ..GetQueueInfoRequest::default()
    };
    let queue: Result<GetQueueInfoResponse, _> = wire.call("getQueueInfo", &request);
    // A queue that there is not is no failure of the call.
    assert_eq!(queue.unwrap().queue_info.map(|queue| queue.queue_name().to_owned()), None);

    let context = ApplicationSubmissionContext {
        application_id: Some(nobodys),
        am_container_spec: Some(ContainerLaunchContext::default()),
        resource: Some(size(1 << 20)),
        ..ApplicationSubmissionContext::default()
    };
    let request = SubmitApplicationRequest { application_submission_context: Some(context) };
    let submitted: Result<SubmitApplicationResponse, _> = wire.call("submitApplication", &request);
    let refused = remote(submitted);
    assert!(refused.is("InvalidResourceRequestException"), "{refused:?}");

    let unknown: Result<GetClusterMetricsResponse, _> = wire.call("getTheMoon", METRICS);
    let refused = remote(unknown);
    assert_eq!((refused.code, refused.fatal), (ErrorCode::NoSuchMethod, false));
    assert_eq!(refused.short_class(), "RpcNoSuchMethodException");
    metrics(&mut wire);
    assert_eq!(wire.closed, None);
}

pub(super) fn of_connections(world: &World, password: &Token) {
    let name = "failures/no-such-protocol";
    let protocol = "org.example.NoProtocol";
    let mut wire = world.open_for(name, &Server::ResourceManager, Who::Simple, protocol);
    let id = wire.send("getClusterMetrics", METRICS);
    let refused = remote(wire.wait(id));
    assert_eq!(refused.code, ErrorCode::NoSuchProtocol, "{refused:?}");

    // A scheduler's port takes nobody without a token.
    let mut wire = world.open("failures/simple-refused", &Server::Scheduler, Who::Simple);
    let id = wire.send("allocate", &AllocateRequest::default());
    let refused = remote(wire.wait(id));
    assert!(refused.is("AccessControlException") && refused.fatal, "{refused:?}");
    assert_eq!(refused.code, ErrorCode::FatalUnauthorized);

    let mut wrong = TokenProto::from(password);
    wrong.password[0] ^= 1;
    let who = Who::token(&wrong.into(), &[Qop::Authentication]);
    let mut wire = world.open("failures/wrong-password", &Server::Scheduler, who);
    let id = wire.send("allocate", &AllocateRequest::default());
    let refused = remote(wire.wait(id));
    assert!(refused.is("SaslException") && refused.fatal, "{refused:?}");

    // A name that is none: the server fails over it, and closes without a word.
    let unknown = Token::new(vec![0], vec![1], "YARN_AM_RM_TOKEN", "");
    let who = Who::token(&unknown, &[Qop::Authentication]);
    let mut wire = world.open("failures/unreadable-token", &Server::Scheduler, who);
    let id = wire.send("allocate", &AllocateRequest::default());
    let Err(CallError::Connection { error: ConnectionError::Closed(_), sent: false }) =
        wire.wait(id)
    else {
        panic!("nothing is said")
    };

    // Nothing in common, and said so by this side.
    let mut wire =
        world.open("failures/no-token", &Server::Scheduler, nobody(SimpleFallback::Allow));
    let id = wire.send("allocate", &AllocateRequest::default());
    let Err(CallError::Connection { error: ConnectionError::Sasl(error), sent: false }) =
        wire.wait(id)
    else {
        panic!("an offer that is of no use")
    };
    assert!(matches!(&error, SaslError::NoCommonMethod { offered, .. } if offered == "TOKEN"));
    headers(world);
}

/// Servers that do not understand say so, and why.
fn headers(world: &World) {
    let version = |bytes: &mut Vec<u8>| {
        if bytes.starts_with(b"hrpc") {
            bytes[4] = 10;
        }
    };
    let wire = world.open("failures/version", &Server::ResourceManager, Who::Simple);
    let mut wire = wire.tampering(version);
    let id = wire.send("getClusterMetrics", METRICS);
    let refused = remote(wire.wait(id));
    assert_eq!((refused.code, refused.fatal), (ErrorCode::FatalVersionMismatch, true));
    assert_eq!(refused.short_class(), "VersionMismatch", "{refused:?}");

    // The kind of operation of the first call.
    let operation = |bytes: &mut Vec<u8>| {
        let header = [8, 2, 16, 0, 24, 0];
        if let Some(at) = bytes.windows(6).position(|window| window == header) {
            bytes[at + 3] = 1;
        }
    };
    let wire = world.open("failures/header", &Server::ResourceManager, Who::Simple);
    let mut wire = wire.tampering(operation);
    let id = wire.send("getClusterMetrics", METRICS);
    let refused = remote(wire.wait(id));
    assert_eq!((refused.code, refused.fatal), (ErrorCode::FatalInvalidRpcHeader, true));

    // A request that is none.
    let mut wire = world.open("failures/request", &Server::ResourceManager, Who::Simple);
    let id = wire.next_request("getApplicationReport", b"\x0a\x7f");
    let refused = remote(wire.wait(id));
    assert!(!refused.class.is_empty(), "{refused:?}");
}

pub(super) fn besides_calls(world: &World) {
    // Answers come in any order.
    let mut wire = world.open("rpc/several", &Server::ResourceManager, Who::Simple);
    let first = wire.send("getClusterNodes", &GetClusterNodesRequest::default());
    let second = wire.send("getClusterMetrics", METRICS);
    let third = wire.send("getClusterNodes", &GetClusterNodesRequest::default());
    let of_third: GetClusterNodesResponse = wire.answer(third).unwrap();
    let of_second: GetClusterMetricsResponse = wire.answer(second).unwrap();
    let of_first: GetClusterNodesResponse = wire.answer(first).unwrap();
    assert_eq!((of_first.node_reports.len(), of_third.node_reports.len()), (2, 2));
    assert_eq!(of_second.cluster_metrics.unwrap().num_node_managers(), 2);
    drop(wire);

    // A ping has no answer, and the call that it was sent for has.
    let mut wire = world.open("rpc/ping", &Server::ResourceManager, Who::Simple);
    let id = wire.send("getClusterMetrics", METRICS);
    wire.ping();
    let _: GetClusterMetricsResponse = wire.answer(id).unwrap();
    metrics(&mut wire);
    drop(wire);

    // A request is repeated with its number and counts its tries.
    let mut wire = world.open("rpc/retried", &Server::ResourceManager, Who::Simple);
    let request = Request {
        retry: 2,
        ..Request::new(7, "getClusterMetrics", METRICS.encode_to_vec().into())
    };
    let id = wire.send_as(request);
    let _: GetClusterMetricsResponse = wire.answer(id).unwrap();
    drop(wire);

    // A server that offers SIMPLE by SASL: taken where it is allowed.
    let mut wire =
        world.open("rpc/sasl-simple", &Server::ResourceManager, nobody(SimpleFallback::Allow));
    metrics(&mut wire);
    assert_eq!(wire.ready, Some((AuthMethod::Simple, Qop::Authentication)));
    drop(wire);
    let mut wire = world.open(
        "rpc/sasl-simple-refused",
        &Server::ResourceManager,
        nobody(SimpleFallback::Refuse),
    );
    let id = wire.send("getClusterMetrics", METRICS);
    let refused = wire.wait(id).unwrap_err();
    let expected = ConnectionError::Sasl(SaslError::SimpleRefused);
    assert_eq!(refused, CallError::Connection { error: expected, sent: false });
    assert_eq!(thrown(&refused), "");
}

/// A NameNode without security has no tokens to give, and says so by an answer with nothing in it.
pub(super) fn no_tokens_of_hdfs(world: &World) {
    let mut wire = world.open("hdfs/getDelegationToken", &Server::NameNode, Who::Simple);
    let request = GetDelegationTokenRequest { renewer: "alice".to_owned() };
    let response: GetDelegationTokenResponse = wire.call("getDelegationToken", &request).unwrap();
    assert_eq!(response.token, None);
}
