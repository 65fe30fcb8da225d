//! Tests of blocking nodes, with a test double of the ResourceManager.

use super::world;
use actix::Actor;
use gateways::leader_election::LeaderInformation;
use gateways::resource_manager::*;
use gateways::{Double, Registration, RpcService};
use model::{LeaderSession, ResourceManagerId};
use rest::messages::{BlockNodeBody, BlockedNodeInfo};

/// Serves a ResourceManager that stores its blocks and refuses to block more than one node.
pub(crate) fn serve(rpc: &RpcService, session: LeaderSession) -> Registration {
    let manager = Double::of(Vec::<BlockedNode>::new())
        .on(|blocked, BlockNode { host, for_ms, cause }| {
            if host.len() > 255 {
                return Err(BlockNodeError::InvalidName(host));
            }
            if !blocked.is_empty() {
                return Err(BlockNodeError::TooMany(1));
            }
            let node = BlockedNode { host, remaining_ms: for_ms, cause, task_managers: 2 };
            blocked.push(node.clone());
            Ok(node)
        })
        .on(|blocked, UnblockNode { host }| {
            let before = blocked.len();
            blocked.retain(|node| node.host != host);
            Ok(blocked.len() < before)
        })
        .on(|blocked, _: RequestBlockedNodes| Ok(blocked.clone()));
    let endpoint = ResourceManagerGateway::endpoint(manager.start());
    rpc.serve("resource_manager", ResourceManagerId(session), endpoint)
}

pub(crate) fn leader(rpc: &RpcService, session: LeaderSession) -> LeaderInformation {
    LeaderInformation { session, address: rpc.address_of("resource_manager") }
}

#[tokio::test(flavor = "local")]
async fn a_node_is_blocked_listed_and_unblocked() {
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
}

#[tokio::test(flavor = "local")]
async fn blocks_that_make_no_sense_are_refused_with_the_reason() {
    let world = world(|_| ()).await;
    let client = &world.client;
    let refused = async |node: &str, duration, cause: Option<String>| {
        let error = client.block_node(node, &BlockNodeBody { duration, cause }).await.unwrap_err();
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
}
