//! Turns the declarations of a program into a JobGraph, and compares two graphs. No user code runs here but what [`BuiltJob`] calls to make
//! subtasks and coordinators.

mod built;
pub(crate) mod draft;
pub(crate) mod plan;

pub use built::BuiltJob;

use model::{JobGraph, graph::GraphNode};

/// Returns in words the first difference between two graphs of one program: `ours` is "here" in the text, `theirs` is "there". `None` if
/// their fingerprints are equal. Parallelisms are not compared. Nodes are compared first, then edges, then chains; if none of them differs,
/// the text says that the fields of a record type or the routes of records do. It explains why a rebuilt job is refused.
pub fn difference(ours: &JobGraph, theirs: &JobGraph) -> Option<String> {
    if ours.fingerprint == theirs.fingerprint {
        return None;
    }
    for (here, there) in ours.nodes.iter().zip(&theirs.nodes) {
        if let Some(what) = node_difference(here, there) {
            return Some(format!("node {} '{}': {what}", here.id.0, here.name));
        }
    }
    let (here, there) = (ours.nodes.len(), theirs.nodes.len());
    if let Some(extra) = ours.nodes.get(there) {
        return Some(format!(
            "node {} '{}' is only here ({here} nodes, {there} there)",
            extra.id.0, extra.name
        ));
    }
    if let Some(missing) = theirs.nodes.get(here) {
        return Some(format!(
            "node {} '{}' is only there ({here} nodes here, {there} there)",
            missing.id.0, missing.name
        ));
    }
    let edge = ours.edges.iter().zip(&theirs.edges).find(|(here, there)| {
        (here.from_node, here.to_node, &here.record, &here.side)
            != (there.from_node, there.to_node, &there.record, &there.side)
    });
    if let Some((here, there)) = edge {
        return Some(format!(
            "edge {} goes from node {} to node {} here, from node {} to node {} there",
            here.id.0, here.from_node.0, here.to_node.0, there.from_node.0, there.to_node.0
        ));
    }
    let chain = ours.vertices.iter().zip(&theirs.vertices).find(|(a, b)| a.nodes != b.nodes);
    let (here, there) = (ours.vertices.len(), theirs.vertices.len());
    Some(match chain {
        Some((here, there)) => {
            format!("operators are chained as '{}' here, as '{}' there", here.name, there.name)
        }
        None if here != there => format!("{here} chains here, {there} there"),
        None => "the fields of a record type or the routes of records differ".to_owned(),
    })
}

fn node_difference(here: &GraphNode, there: &GraphNode) -> Option<String> {
    let pairs = [
        ("kind", format!("{:?}", here.kind), format!("{:?}", there.kind)),
        ("uid", format!("{:?}", here.uid), format!("{:?}", there.uid)),
        ("input", format!("{:?}", here.inputs), format!("{:?}", there.inputs)),
        ("output", format!("{:?}", here.output), format!("{:?}", there.output)),
        ("upstream", format!("{:?}", here.reads), format!("{:?}", there.reads)),
        ("states", format!("{:?}", here.states), format!("{:?}", there.states)),
        ("name", format!("{:?}", here.name), format!("{:?}", there.name)),
        ("commits", here.commits.to_string(), there.commits.to_string()),
        ("operator id", here.operator_id.to_string(), there.operator_id.to_string()),
    ];
    pairs
        .into_iter()
        .find(|(_, here, there)| here != there)
        .map(|(what, here, there)| format!("{what} is {here} here, {there} there"))
}
