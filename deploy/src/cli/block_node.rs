//! The command `flott block-node`.

use super::args::BlockNode;
use super::output::{duration, table};
use super::{Context, Outcome, client};
use crate::exit::Exit;
use crate::targets;
use rest::messages::{BlockNodeBody, BlockedNodeInfo, BlockedNodes};
use serde_json::json;

pub(super) async fn block_node(context: &Context, args: BlockNode) -> Outcome {
    let client = targets::retrieve(context, &args.cluster).await?;
    let failed = |error| client::failure(context, &client, error);
    if args.list {
        let blocked = client.blocked_nodes().await.map_err(failed)?;
        context.print.value(&blocked, || list(&blocked.nodes))?;
        return Ok(Exit::Success);
    }
    if args.unblock {
        for node in &args.nodes {
            client.unblock_node(node).await.map_err(failed)?;
        }
        let text = || format!("unblocked: {}", args.nodes.join(", "));
        context.print.value(&json!({ "unblocked": args.nodes }), text)?;
        return Ok(Exit::Success);
    }
    let period = u64::try_from(args.period.as_millis()).unwrap_or(u64::MAX);
    let body = BlockNodeBody { duration: Some(period), cause: args.cause };
    let mut nodes = Vec::new();
    for node in &args.nodes {
        nodes.push(client.block_node(node, &body).await.map_err(failed)?);
    }
    let blocked = BlockedNodes { nodes };
    context
        .print
        .value(&blocked, || blocked.nodes.iter().map(sentence).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Success)
}

fn remaining(node: &BlockedNodeInfo) -> String {
    duration(i64::try_from(node.remaining).unwrap_or(i64::MAX))
}

fn sentence(node: &BlockedNodeInfo) -> String {
    let there = match node.taskmanagers {
        0 => "no TaskManager is registered there; is the name right?".to_owned(),
        1 => "1 TaskManager is registered there".to_owned(),
        n => format!("{n} TaskManagers are registered there"),
    };
    format!("node {} is blocked for {}; {there}", node.node, remaining(node))
}

fn list(nodes: &[BlockedNodeInfo]) -> String {
    if nodes.is_empty() {
        return "no blocked nodes".to_owned();
    }
    let row = |node: &BlockedNodeInfo| {
        let task_managers = node.taskmanagers.to_string();
        vec![node.node.clone(), remaining(node), task_managers, node.cause.clone()]
    };
    let rows: Vec<Vec<String>> = nodes.iter().map(row).collect();
    table(&["NODE", "REMAINING", "TASKMANAGERS", "CAUSE"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(taskmanagers: u32) -> BlockedNodeInfo {
        let (node, cause) = ("node-3".to_owned(), "disk".to_owned());
        BlockedNodeInfo { node, remaining: 61_500, cause, taskmanagers }
    }

    #[test]
    fn a_block_says_how_many_task_managers_it_meets() {
        let blocked = "node node-3 is blocked for 1 min 1 s; ";
        assert_eq!(sentence(&node(1)), format!("{blocked}1 TaskManager is registered there"));
        assert_eq!(sentence(&node(2)), format!("{blocked}2 TaskManagers are registered there"));
        assert!(sentence(&node(0)).ends_with("is the name right?"));
    }

    #[test]
    fn the_list_is_a_table() {
        assert_eq!(list(&[]), "no blocked nodes");
        let lines = "NODE    REMAINING  TASKMANAGERS  CAUSE\nnode-3  1 min 1 s  2             disk";
        assert_eq!(list(&[node(2)]), lines);
    }
}
