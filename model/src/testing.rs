//! Job graphs, snapshots and reports for tests and benchmarks: whole and valid, with made-up values where a test chooses none.

use crate::{
    blob::ContentHash,
    checkpoint::{CheckpointMetadata, OperatorState, OperatorSubtaskState, StateHandle},
    execution::ExecutionState,
    graph::{GraphNode, JobEdge, JobGraph, JobVertex, ProgramRef, ShipStrategy, StateDeclaration},
    ids::{EdgeId, ExecutionAttemptId, JobId, JobVertexId, NodeId, OperatorId},
    job::{TaskIo, TaskStateUpdate},
};
use std::{collections::BTreeMap, sync::Arc};

/// Makes a vertex with one operator, which has the same number. It has 128 key groups, or one for each subtask if these are more.
pub fn vertex(id: u32, parallelism: u32) -> JobVertex {
    JobVertex {
        id: JobVertexId(u128::from(id)),
        name: format!("v{id}"),
        nodes: vec![NodeId(id)],
        parallelism,
        max_parallelism: parallelism.max(128),
        slot_sharing_group: "default".into(),
        resources: None,
        source: false,
    }
}

/// Makes an edge for records of the type `u64` from the main output of one vertex's operator to the operator of another vertex.
pub fn edge(id: u32, from: u32, to: u32, ship: ShipStrategy) -> JobEdge {
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

/// Makes the bounded graph of these vertices and edges, with the operators that the vertices name. Vertices that no edge
/// ends at become sources. The id of the job is 1.
pub fn graph(mut vertices: Vec<JobVertex>, edges: Vec<JobEdge>) -> JobGraph {
    for vertex in &mut vertices {
        vertex.source = !edges.iter().any(|edge| edge.to == vertex.id);
    }
    JobGraph {
        job_id: JobId(1),
        name: "test".into(),
        program: ProgramRef { name: "p".into(), size: 1, ..ProgramRef::default() },
        nodes: vertices.iter().flat_map(|v| &v.nodes).map(|id| node(*id, &edges)).collect(),
        vertices,
        edges,
        bounded: true,
        options: BTreeMap::new(),
        fingerprint: ContentHash([1; 32]),
    }
}

/// Makes the graph of vertices 1 and 2 with these parallelisms and an edge from the first to the second.
pub fn pair(from: u32, to: u32, ship: ShipStrategy) -> JobGraph {
    graph(vec![vertex(1, from), vertex(2, to)], vec![edge(0, 1, 2, ship)])
}

fn node(id: NodeId, edges: &[JobEdge]) -> GraphNode {
    let inputs: Vec<_> = edges.iter().filter(|edge| edge.to_node == id).collect();
    GraphNode {
        id,
        operator_id: OperatorId(u128::from(id.0)),
        uid: None,
        kind: "map".into(),
        name: format!("n{}", id.0),
        inputs: inputs.iter().map(|edge| edge.record.clone()).collect(),
        output: edges.iter().find(|edge| edge.from_node == id).map(|edge| edge.record.clone()),
        reads: inputs.iter().map(|edge| edge.from_node).collect(),
        states: vec![],
        coordinated: false,
        commits: false,
    }
}

/// Marks the operators of a vertex of [`graph`] as coordinated.
pub fn coordinate(graph: &mut JobGraph, vertex: u32) {
    for node in &mut graph.nodes {
        if node.id.0 == vertex {
            node.coordinated = true;
        }
    }
}

/// Marks the operators of a vertex of [`graph`] as coordinated, as [`coordinate`] does, and adds to each the declaration of an
/// enumerator's state with the name `splits`.
pub fn enumerate(graph: &mut JobGraph, vertex: u32) {
    coordinate(graph, vertex);
    for node in graph.nodes.iter_mut().filter(|node| node.id.0 == vertex) {
        node.states.push(declaration("splits", StateDeclaration::ENUMERATOR, &[]));
    }
}

/// Makes the declaration of a state of this kind, with the schemas given as pairs of role and fingerprint (any text); without types, time
/// to live and settings.
pub fn declaration(name: &str, kind: &str, schemas: &[(&str, &str)]) -> StateDeclaration {
    let schemas = schemas.iter().map(|(role, schema)| ((*role).into(), (*schema).into()));
    StateDeclaration {
        name: name.into(),
        kind: kind.into(),
        schemas: schemas.collect(),
        types: BTreeMap::new(),
        ttl_ms: None,
        settings: None,
    }
}

/// Makes a snapshot of a job in which one operator has 128 key groups and these states, each of one subtask that has not ended.
/// The files in `storage/fixtures/metadata` were written with these values.
pub fn snapshot(
    job_id: JobId,
    checkpoint: u64,
    operator: OperatorId,
    states: impl IntoIterator<Item = StateHandle>,
) -> CheckpointMetadata {
    let subtask = |state| OperatorSubtaskState { ended: false, state: Some(state) };
    let saved = OperatorState {
        name: "count".into(),
        uid: None,
        max_parallelism: 128,
        states: vec![],
        subtasks: states.into_iter().map(subtask).collect(),
        coordinator: None,
    };
    CheckpointMetadata {
        job_id,
        checkpoint,
        graph: 1,
        triggered_ms: 1,
        completed_ms: 2,
        operators: [(operator, saved)].into(),
    }
}

/// Makes the report that an attempt is in this state, without a cause, counts or metrics.
pub fn state_of(attempt: ExecutionAttemptId, state: ExecutionState) -> TaskStateUpdate {
    TaskStateUpdate { attempt, state, cause: None, io: TaskIo::default(), metrics: Arc::default() }
}
