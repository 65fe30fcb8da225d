//! Captures the answers of servers with Kerberos: to tickets with each protection, to somebody who acts for another, to tokens
//! that were got with tickets, and to a call that only the active ResourceManager answers.

use super::client::now;
use super::world::{ALICE, Server, Who, World, nobody};
use hadoop::rpc::{Advice, CallError, ConnectionError};
use hadoop::sasl::{AuthMethod, Qop, SaslError, SimpleFallback};
use hadoop::tokens::{Token, TokenProto, kinds};
use hadoop::yarn::messages::*;

const MANAGER: &str = "rm/localhost@TEST.LOCAL";
const NAME_NODE: &str = "hdfs/localhost@TEST.LOCAL";
const METRICS: &GetClusterMetricsRequest = &GetClusterMetricsRequest {};

pub(super) fn tickets(world: &World) {
    for qop in [Qop::Authentication, Qop::Integrity, Qop::Privacy] {
        let who = Who::Kerberos(MANAGER, vec![qop]);
        let name = format!("kerberos/{}", qop.name());
        let mut wire = world.open(&name, &Server::ResourceManager, who);
        let metrics: GetClusterMetricsResponse = wire.call("getClusterMetrics", METRICS).unwrap();
        assert_eq!(metrics.cluster_metrics.unwrap().num_node_managers(), 2);
        assert_eq!(wire.ready, Some((AuthMethod::Kerberos, qop)));
        let nodes: GetClusterNodesResponse =
            wire.call("getClusterNodes", &GetClusterNodesRequest::default()).unwrap();
        assert_eq!(nodes.node_reports.len(), 2);
        // Several on their way, in one stream of protected messages.
        let first = wire.send("getClusterMetrics", METRICS);
        let second = wire.send("getClusterMetrics", METRICS);
        let _: GetClusterMetricsResponse = wire.answer(second).unwrap();
        let _: GetClusterMetricsResponse = wire.answer(first).unwrap();
    }
    // By another name than the one that is expected of it.
    let who = Who::Kerberos(NAME_NODE, vec![Qop::Privacy]);
    let mut wire = world.open("kerberos/principal", &Server::ResourceManager, who);
    let id = wire.send("getClusterMetrics", METRICS);
    let Err(CallError::Connection { error: ConnectionError::Sasl(error), sent: false }) =
        wire.wait(id)
    else {
        panic!("a principal that is not the one")
    };
    assert!(matches!(error, SaslError::Principal { .. }), "{error:?}");
}

/// An application of somebody in whose name another one calls.
pub(super) fn proxy(world: &World) {
    let who = || Who::Proxy(MANAGER, "bob");
    let mut wire = world.open("kerberos/proxy", &Server::ResourceManager, who());
    let new: GetNewApplicationResponse =
        wire.call("getNewApplication", &GetNewApplicationRequest {}).unwrap();
    let id = new.application_id.unwrap();
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        unmanaged_am: Some(true),
        am_container_spec: Some(ContainerLaunchContext::default()),
        resource: Some(super::client::size(64)),
        ..ApplicationSubmissionContext::default()
    };
    let request = SubmitApplicationRequest { application_submission_context: Some(context) };
    let _: SubmitApplicationResponse = wire.call("submitApplication", &request).unwrap();
    let request = GetApplicationReportRequest { application_id: Some(id) };
    let token = loop {
        let report: GetApplicationReportResponse =
            wire.call("getApplicationReport", &request).unwrap();
        let report = report.application_report.unwrap();
        assert_eq!(report.user(), "bob");
        if let Some(token) = report.am_rm_token {
            break Token::from(token);
        }
        world.pause();
    };
    // Its ApplicationMaster gets a key for tokens of its clients, which only secure clusters have.
    let master = Who::token(&token, &[Qop::Privacy]);
    let mut scheduler = world.open("master/registerApplicationMaster", &Server::Scheduler, master);
    let request = RegisterApplicationMasterRequest {
        host: Some("here".to_owned()),
        rpc_port: Some(-1),
        ..RegisterApplicationMasterRequest::default()
    };
    let response: RegisterApplicationMasterResponse =
        scheduler.call("registerApplicationMaster", &request).unwrap();
    assert!(response.client_to_am_token_master_key.is_some_and(|key| !key.is_empty()));
    let request = KillApplicationRequest { application_id: Some(id), diagnostics: None };
    loop {
        let killed: KillApplicationResponse = wire.call("forceKillApplication", &request).unwrap();
        if killed.is_kill_completed() {
            return;
        }
        world.pause();
    }
}

/// Got with tickets, renewed, used, and cancelled: a ResourceManager's and a NameNode's.
pub(super) fn delegation_tokens(world: &World) {
    let now: u64 = world.fact("now", now).parse().unwrap();
    for (server, name, principal, kind) in [
        (Server::ResourceManager, "client", MANAGER, kinds::RM_DELEGATION),
        (Server::NameNode, "hdfs", NAME_NODE, kinds::HDFS_DELEGATION),
    ] {
        let who = || Who::Kerberos(principal, vec![Qop::Privacy]);
        let open = |method: &str| world.open(&format!("{name}/{method}"), &server, who());
        let method = "getDelegationToken";
        let request = GetDelegationTokenRequest { renewer: ALICE.to_owned() };
        let response: GetDelegationTokenResponse = open(method).call(method, &request).unwrap();
        let token = Token::from(response.token.unwrap());
        assert_eq!(token.kind(), kind);

        let method = "renewDelegationToken";
        let request = RenewDelegationTokenRequest { token: TokenProto::from(&token) };
        let mut wire = open(method);
        let renewed: RenewDelegationTokenResponse = wire.call(method, &request).unwrap();
        assert!(renewed.new_expiry_time > now);
        // Whose renewer is somebody else is not alice's to renew.
        let request = GetDelegationTokenRequest { renewer: "carol".to_owned() };
        let others: GetDelegationTokenResponse = wire.call("getDelegationToken", &request).unwrap();
        let request = RenewDelegationTokenRequest { token: others.token.unwrap() };
        let refused: Result<RenewDelegationTokenResponse, _> = wire.call(method, &request);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("AccessControlException"), "{refused}");
        drop(wire);

        // With the token one is known, but gets no other: that takes tickets.
        let bearer = || Who::token(&token, &[Qop::Privacy]);
        let mut wire = world.open(&format!("{name}/by-token"), &server, bearer());
        let request = GetDelegationTokenRequest { renewer: ALICE.to_owned() };
        let refused: Result<GetDelegationTokenResponse, _> =
            wire.call("getDelegationToken", &request);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("kerberos"), "{refused}");
        assert_eq!(wire.ready, Some((AuthMethod::Token, Qop::Privacy)));
        drop(wire);

        let method = "cancelDelegationToken";
        let request = CancelDelegationTokenRequest { token: TokenProto::from(&token) };
        let _: CancelDelegationTokenResponse = open(method).call(method, &request).unwrap();
        let mut wire = world.open(&format!("failures/{name}-cancelled"), &server, bearer());
        let id = wire.send("getDelegationToken", &request);
        let refused = wire.wait(id).unwrap_err();
        let refused = refused.remote().unwrap();
        assert!(refused.is("InvalidToken") && refused.fatal, "{refused:?}");
    }
}

pub(super) fn refusals(world: &World) {
    let mut wire = world.open("failures/simple-refused", &Server::ResourceManager, Who::Simple);
    let id = wire.send("getClusterMetrics", METRICS);
    let refused = wire.wait(id).unwrap_err();
    let refused = refused.remote().unwrap();
    assert!(refused.is("AccessControlException") && refused.fatal, "{refused:?}");
    assert!(refused.message.contains("SIMPLE authentication is not enabled"), "{refused}");

    let who = nobody(SimpleFallback::Allow);
    let mut wire = world.open("failures/no-tickets", &Server::ResourceManager, who);
    let id = wire.send("getClusterMetrics", METRICS);
    let refused = wire.wait(id).unwrap_err().to_string();
    assert!(refused.contains("KERBEROS"), "{refused}");
    drop(wire);

    // The one that is not active sends whoever asks to the other one.
    let who = Who::Kerberos(MANAGER, vec![Qop::Privacy]);
    let mut wire = world.open("failures/stand-by", &Server::StandBy, who);
    let id = wire.next_request("refreshNodes", b"");
    let refused = wire.wait(id).unwrap_err();
    let refused = refused.remote().unwrap();
    assert!(refused.is("org.apache.hadoop.ipc.StandbyException"), "{refused:?}");
    assert_eq!((refused.advice(), refused.fatal), (Advice::FailOver, false));
}
