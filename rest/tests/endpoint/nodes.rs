//! Tests of blocking nodes, with a test double of the ResourceManager.

use super::{in_world, world};
use actix::{Actor, Context, Handler, ResponseFuture};
use gateways::leader_election::LeaderInformation;
use gateways::resource_manager::*;
use gateways::{Answer, Ask, Registration, RpcService};
use model::{LeaderSession, ResourceManagerId};
use rest::messages::{BlockNodeBody, BlockedNodeInfo};

/// A ResourceManager that stores its blocks and refuses to block more than one node.
#[derive(Default)]
struct ResourceManager {
    blocked: Vec<BlockedNode>,
}

impl Actor for ResourceManager {
    type Context = Context<Self>;
}

impl Handler<Ask<BlockNode>> for ResourceManager {
    type Result = Answer<BlockNode>;
    fn handle(&mut self, ask: Ask<BlockNode>, _: &mut Context<Self>) -> Self::Result {
        let BlockNode { host, for_ms, cause } = ask.body;
        if host.len() > 255 {
            return Err(BlockNodeError::InvalidName(host));
        }
        if !self.blocked.is_empty() {
            return Err(BlockNodeError::TooMany(1));
        }
        let blocked = BlockedNode { host, remaining_ms: for_ms, cause, task_managers: 2 };
        self.blocked.push(blocked.clone());
        Ok(blocked)
    }
}

impl Handler<Ask<UnblockNode>> for ResourceManager {
    type Result = Answer<UnblockNode>;
    fn handle(&mut self, ask: Ask<UnblockNode>, _: &mut Context<Self>) -> Self::Result {
        let before = self.blocked.len();
        self.blocked.retain(|node| node.host != ask.body.host);
        Ok(self.blocked.len() < before)
    }
}

impl Handler<Ask<RequestBlockedNodes>> for ResourceManager {
    type Result = Answer<RequestBlockedNodes>;
    fn handle(&mut self, _: Ask<RequestBlockedNodes>, _: &mut Context<Self>) -> Self::Result {
        Ok(self.blocked.clone())
    }
}

/// Implements calls that no test here makes.
macro_rules! never_answers {
    ($($call:ty),+ $(,)?) => {$(
        impl Handler<Ask<$call>> for ResourceManager {
            type Result = ResponseFuture<Answer<$call>>;
            fn handle(&mut self, _: Ask<$call>, _: &mut Context<Self>) -> Self::Result {
                Box::pin(std::future::pending())
            }
        }
    )+};
}
never_answers! {
    RegisterTaskExecutor, SendSlotReport, NotifySlotAvailable, DisconnectTaskExecutor, RegisterJobMaster,
    DeclareRequiredResources, DisconnectJobMaster, RequestTaskManagers, RequestResourceOverview,
    DeregisterApplication, TakeFacts, ReportLackOfSlots, AskToGiveWay,
}

pub(crate) fn serve(rpc: &RpcService, session: LeaderSession) -> Registration {
    let endpoint = ResourceManagerGateway::endpoint(ResourceManager::default().start());
    rpc.serve("resource_manager", ResourceManagerId(session), endpoint)
}

pub(crate) fn leader(rpc: &RpcService, session: LeaderSession) -> LeaderInformation {
    LeaderInformation { session, address: rpc.address_of("resource_manager") }
}

#[test]
fn a_node_is_blocked_listed_and_unblocked() {
    in_world(async {
        let world = world(|_| ()).await;
        let client = &world.client;
        assert_eq!(client.blocked_nodes().await.unwrap().nodes, []);
        // A name is one segment of the path, even if it contains a slash.
        let node = "rack 1/node.example";
        let body = BlockNodeBody { duration: Some(30_000), cause: Some("disk".to_owned()) };
        let blocked = client.block_node(node, &body).await.unwrap();
        let expected = BlockedNodeInfo {
            node: node.to_owned(),
            remaining: 30_000,
            cause: "disk".to_owned(),
            taskmanagers: 2,
        };
        assert_eq!(blocked, expected);
        assert_eq!(client.blocked_nodes().await.unwrap().nodes, [expected]);
        client.unblock_node(node).await.unwrap();
        let absent = client.unblock_node(node).await.unwrap_err();
        assert_eq!(absent.status(), Some(404));
        assert!(absent.to_string().contains("'rack 1/node.example' is not blocked"), "{absent}");
        let default = client.block_node("n", &BlockNodeBody::default()).await.unwrap();
        assert_eq!((default.remaining, default.cause.as_str()), (600_000, "no reason given"));
        world.handle.stop().await;
    });
}

#[test]
fn blocks_that_make_no_sense_are_refused_with_the_reason() {
    in_world(async {
        let world = world(|_| ()).await;
        let client = &world.client;
        let refused = async |node: &str, duration, cause: Option<String>| {
            let error =
                client.block_node(node, &BlockNodeBody { duration, cause }).await.unwrap_err();
            (error.status(), error.to_string())
        };
        let (status, text) = refused("n", Some(0), None).await;
        assert!(status == Some(400) && text.contains("1 ms at least"), "{text}");
        let (status, text) = refused("n", None, Some("x".repeat(1_001))).await;
        assert!(status == Some(400) && text.contains("1000 bytes"), "{text}");
        let (status, text) = refused(&"n".repeat(256), None, None).await;
        assert!(status == Some(400) && text.contains("1 to 255 bytes"), "{text}");
        client.block_node("n", &BlockNodeBody::default()).await.unwrap();
        let (status, text) = refused("m", None, None).await;
        assert!(status == Some(409) && text.contains("unblock some"), "{text}");
        world.handle.stop().await;
    });
}
