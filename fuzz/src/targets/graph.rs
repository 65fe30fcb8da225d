//! The job graph, as a client or a user's program hands it in, and the gate that checks it.

use super::{Target, law, sample};
use crate::{mutate::mutate, rng::Rng};
use model::{
    EdgeId, JobEdge, JobGraph, JobId, JobVertex, JobVertexId, NodeId, ShipStrategy,
    graph::GraphNode,
};
use std::sync::Arc;

pub(crate) const TARGETS: &[Target] =
    &[Target { name: "job_graph", make, check, memory_max: 16 << 20 }];

/// Graphs with more subtasks are checked, but not laid out: that takes memory by their parallelism.
const SUBTASKS_MAX: u64 = 4_096;

fn make(rng: &mut Rng) -> Vec<u8> {
    let graph = if rng.one_in(4) { sample(rng) } else { well_formed(rng) };
    let mut bytes =
        graph.and_then(|graph| gateways::codec::encode(&graph).ok()).unwrap_or_default();
    mutate(&mut bytes, rng);
    bytes
}

/// A graph of a few chains in a row, some wires crossed.
fn well_formed(rng: &mut Rng) -> Option<JobGraph> {
    let mut graph: JobGraph = sample(rng)?;
    let count = 1 + rng.below(5) as u32;
    let id = |place: u32| JobVertexId(u128::from(place) + 1);
    graph.job_id = JobId(u128::from(rng.next()));
    graph.nodes =
        (0..count).filter_map(|n| Some(GraphNode { id: NodeId(n), ..sample(rng)? })).collect();
    graph.vertices = (0..count)
        .filter_map(|place| {
            let parallelism = 1 + rng.below(4) as u32;
            Some(JobVertex {
                id: id(place),
                nodes: vec![NodeId(place)],
                parallelism,
                max_parallelism: 128,
                ..sample(rng)?
            })
        })
        .collect();
    graph.edges = (1..count)
        .filter_map(|place| {
            let ships = [
                ShipStrategy::Hash,
                ShipStrategy::Rebalance,
                ShipStrategy::Broadcast,
                ShipStrategy::Forward,
                ShipStrategy::Custom,
            ];
            Some(JobEdge {
                id: EdgeId(place),
                from: id(rng.below(place as usize) as u32),
                to: id(place),
                ship: *rng.pick(&ships)?,
                ..sample(rng)?
            })
        })
        .collect();
    Some(graph)
}

fn check(input: &[u8]) -> Result<bool, String> {
    let Ok(graph) = gateways::codec::decode::<JobGraph>("job graph", input) else {
        return Ok(false);
    };
    let encoded = gateways::codec::encode(&graph).map_err(|e| e.to_string())?;
    let again =
        gateways::codec::decode::<JobGraph>("job graph", &encoded).map_err(|e| e.to_string())?;
    law(gateways::codec::encode(&again).is_ok_and(|bytes| bytes == encoded), || {
        "another graph after a round trip".to_owned()
    })?;
    let _ = control::job_graph::partial_resources(&graph);
    if control::job_graph::check(&graph).is_err() {
        return Ok(false);
    }
    let subtasks = graph.total_subtasks();
    if subtasks <= SUBTASKS_MAX {
        let laid_out = control::execution_graph::ExecutionGraph::new(Arc::new(graph), 1, 0);
        let regions = control::scheduler::Regions::of(&laid_out);
        law(u64::from(laid_out.len()) == subtasks, || "subtasks were lost".to_owned())?;
        drop(regions);
    }
    Ok(true)
}
