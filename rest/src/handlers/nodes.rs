//! Handlers of `/blocklist/nodes*`: nodes that get no new slots and workers for a while.

use super::{Answer, State, ok, on, resource};
use crate::decode;
use crate::error::ApiError;
use crate::messages::{BlockedNodeInfo, BlockedNodes, EmptyBody};
use actix_web::web::{Bytes, Path, ServiceConfig};
use gateways::resource_manager::{BlockNode, BlockedNode, RequestBlockedNodes, UnblockNode};

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/blocklist/nodes", [on!(GET list)]))
        .service(resource("/blocklist/nodes/{node}", [on!(POST block), on!(DELETE unblock)]));
}

fn info(node: BlockedNode) -> BlockedNodeInfo {
    BlockedNodeInfo {
        node: node.host,
        remaining: node.remaining_ms,
        cause: node.cause,
        taskmanagers: node.task_managers,
    }
}

async fn list(state: State) -> Answer {
    let nodes = state.ask_resource_manager(RequestBlockedNodes {}).await?;
    ok(&BlockedNodes { nodes: nodes.into_iter().map(info).collect() })
}

async fn block(state: State, node: Path<String>, body: Bytes) -> Answer {
    let asked = decode::block_request(&body)?;
    let block = BlockNode { host: node.into_inner(), for_ms: asked.for_ms, cause: asked.cause };
    ok(&info(state.ask_resource_manager(block).await?))
}

async fn unblock(state: State, node: Path<String>) -> Answer {
    let host = node.into_inner();
    match state.ask_resource_manager(UnblockNode { host: host.clone() }).await? {
        true => ok(&EmptyBody {}),
        false => Err(ApiError::not_found(format!("node '{host}' is not blocked"))),
    }
}
