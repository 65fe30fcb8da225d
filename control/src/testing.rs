//! Graphs for tests of this crate's cores.

use model::graph::GraphNode;
use model::{
    ContentHash, EdgeId, JobEdge, JobGraph, JobId, JobVertex, JobVertexId, NodeId, OperatorId,
    ProgramRef, ShipStrategy,
};
use std::collections::BTreeMap;

pub(crate) fn vertex(id: u32, parallelism: u32) -> JobVertex {
    JobVertex {
        id: JobVertexId(u128::from(id)),
        name: format!("v{id}"),
        nodes: vec![NodeId(id)],
        parallelism,
        max_parallelism: 1 << 15,
        slot_sharing_group: "default".into(),
        resources: None,
        source: false,
    }
}

pub(crate) fn edge(id: u32, from: u32, to: u32, ship: ShipStrategy) -> JobEdge {
    JobEdge {
        id: EdgeId(id),
        from: JobVertexId(u128::from(from)),
        to: JobVertexId(u128::from(to)),
        from_node: NodeId(from),
        to_node: NodeId(to),
        output: 0,
        input: 0,
        ship,
        record: "u64".into(),
        side: None,
    }
}

pub(crate) fn graph(vertices: Vec<JobVertex>, edges: Vec<JobEdge>) -> JobGraph {
    let nodes = vertices.iter().flat_map(|v| &v.nodes).map(|id| node(*id, false)).collect();
    JobGraph {
        job_id: JobId(1),
        name: "test".into(),
        program: ProgramRef {
            hash: ContentHash([0; 32]),
            name: "p".into(),
            size: 1,
            args: vec![],
            env: BTreeMap::new(),
            once: BTreeMap::new(),
            job: None,
        },
        nodes,
        vertices,
        edges,
        bounded: true,
        options: BTreeMap::new(),
        fingerprint: ContentHash([1; 32]),
    }
}

pub(crate) fn node(id: NodeId, coordinated: bool) -> GraphNode {
    GraphNode {
        id,
        operator_id: OperatorId(u128::from(id.0)),
        uid: None,
        kind: "map".into(),
        name: format!("n{}", id.0),
        inputs: vec![],
        output: None,
        reads: vec![],
        states: vec![],
        coordinated,
        commits: false,
    }
}

/// Marks the operators of a vertex as coordinated.
pub(crate) fn coordinate(graph: &mut JobGraph, vertex: u32) {
    for node in &mut graph.nodes {
        if node.id.0 == vertex {
            node.coordinated = true;
        }
    }
}
