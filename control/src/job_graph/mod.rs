//! What a JobGraph must hold before anything is built on it. A graph comes from a client or a user's
//! program, so every field is checked here once; nothing behind this gate may trust a graph that did not
//! pass it. It must never change a graph.

use model::graph::{GraphNode, JobEdge};
use model::{EdgeId, JobGraph, JobVertex, JobVertexId, NodeId, ShipStrategy};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// Most subtasks of all vertices of one job.
pub const SUBTASKS_MAX: u64 = 1_000_000;
/// Most key groups, hence the highest maximum parallelism (Flink's bound).
pub const MAX_PARALLELISM_MAX: u32 = 1 << 15;
/// The most bytes of a job's name, which is in every list of jobs.
pub const NAME_BYTES_MAX: u64 = 1_024;
/// Most vertices of one job.
pub const VERTICES_MAX: usize = 10_000;

/// Why a graph is no job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GraphError {
    /// Nothing to run.
    #[error("it has no vertices")]
    Empty,
    /// Over a bound.
    #[error("it has {found} {what}, at most {max} are allowed")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        max: u64,
    },
    /// Two of the same id.
    #[error("{0} occurs twice")]
    Duplicate(String),
    /// Parallelism 0, or above the maximum parallelism.
    #[error("vertex '{vertex}' has parallelism {parallelism}, it must be 1 to {max}")]
    Parallelism {
        /// Its name.
        vertex: String,
        /// What it has.
        parallelism: u32,
        /// What it may have.
        max: u32,
    },
    /// A vertex without operators, or with an operator that does not exist or is in another vertex too.
    #[error("the operators of vertex '{0}' do not exist or are in another vertex too")]
    Operators(String),
    /// An edge from or to nothing, or against the order of the vertices.
    #[error("edge {0} does not lead from an earlier vertex to a later one")]
    EdgeOrder(u32),
    /// A forward edge between vertices of different parallelism.
    #[error(
        "edge {edge} forwards subtask to subtask, but its sides have parallelism {from} and {to}"
    )]
    Forward {
        /// Which edge.
        edge: u32,
        /// Producer's.
        from: u32,
        /// Consumer's.
        to: u32,
    },
}

/// Checks a graph whole.
pub fn check(graph: &JobGraph) -> Result<(), GraphError> {
    bound("bytes in its name", graph.name.len() as u64, NAME_BYTES_MAX)?;
    bound("vertices", graph.vertices.len() as u64, VERTICES_MAX as u64)?;
    bound("edges", graph.edges.len() as u64, 10 * VERTICES_MAX as u64)?;
    if graph.vertices.is_empty() {
        return Err(GraphError::Empty);
    }
    let nodes = unique_nodes(&graph.nodes)?;
    let order = check_vertices(graph, &nodes)?;
    bound("subtasks", graph.total_subtasks(), SUBTASKS_MAX)?;
    check_edges(&graph.edges, &order)
}

/// Names of the vertices without a resource spec, where others have one; empty where all or none have.
pub fn partial_resources(graph: &JobGraph) -> Vec<String> {
    if graph.vertices.iter().all(|v| v.resources.is_none()) {
        return Vec::new();
    }
    graph.vertices.iter().filter(|v| v.resources.is_none()).map(|v| v.name.clone()).collect()
}

fn bound(what: &'static str, found: u64, max: u64) -> Result<(), GraphError> {
    if found > max {
        return Err(GraphError::TooLarge { what, found, max });
    }
    Ok(())
}

fn unique_nodes(nodes: &[GraphNode]) -> Result<BTreeSet<NodeId>, GraphError> {
    let mut seen = BTreeSet::new();
    for node in nodes {
        if !seen.insert(node.id) {
            return Err(GraphError::Duplicate(format!("node {}", node.id.0)));
        }
    }
    Ok(seen)
}

/// Place and parallelism of each vertex.
type Order = BTreeMap<JobVertexId, (usize, u32)>;

fn check_vertices(graph: &JobGraph, nodes: &BTreeSet<NodeId>) -> Result<Order, GraphError> {
    let mut order = Order::new();
    let mut taken = BTreeSet::new();
    for (place, vertex) in graph.vertices.iter().enumerate() {
        check_vertex(vertex)?;
        let owned = |n: &NodeId| nodes.contains(n);
        if vertex.nodes.is_empty()
            || !vertex.nodes.iter().all(owned)
            || !vertex.nodes.iter().all(|n| taken.insert(*n))
        {
            return Err(GraphError::Operators(vertex.name.clone()));
        }
        if order.insert(vertex.id, (place, vertex.parallelism)).is_some() {
            return Err(GraphError::Duplicate(format!("vertex {}", vertex.id)));
        }
    }
    Ok(order)
}

fn check_vertex(vertex: &JobVertex) -> Result<(), GraphError> {
    let max = vertex.max_parallelism.min(MAX_PARALLELISM_MAX);
    if vertex.parallelism == 0 || vertex.parallelism > max {
        return Err(GraphError::Parallelism {
            vertex: vertex.name.clone(),
            parallelism: vertex.parallelism,
            max,
        });
    }
    Ok(())
}

fn check_edges(edges: &[JobEdge], order: &Order) -> Result<(), GraphError> {
    let mut seen: BTreeSet<EdgeId> = BTreeSet::new();
    for edge in edges {
        if !seen.insert(edge.id) {
            return Err(GraphError::Duplicate(format!("edge {}", edge.id.0)));
        }
        let (from, to) = match (order.get(&edge.from), order.get(&edge.to)) {
            (Some(from), Some(to)) if from.0 < to.0 => (from.1, to.1),
            _ => return Err(GraphError::EdgeOrder(edge.id.0)),
        };
        if edge.ship == ShipStrategy::Forward && from != to {
            return Err(GraphError::Forward { edge: edge.id.0, from, to });
        }
    }
    Ok(())
}
