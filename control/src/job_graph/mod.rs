//! Checks a JobGraph before anything is built on it. A graph comes from a client or a user's
//! program, so every field is checked here once; no other module may trust a graph that did not
//! pass this check. This module must never change a graph.

use model::graph::{GraphNode, JobEdge};
use model::{EdgeId, JobGraph, JobVertex, JobVertexId, NodeId, ShipStrategy};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// Maximum number of subtasks of all vertices of one job together; [`check`] refuses a graph with more ([`GraphError::TooLarge`]).
pub const SUBTASKS_MAX: u64 = 1_000_000;
/// Highest maximum parallelism (number of key groups) of a vertex, and so its highest parallelism: 32,768, as in Flink. [`check`] refuses
/// a graph with a higher one ([`GraphError::TooLarge`]).
pub const MAX_PARALLELISM_MAX: u32 = 1 << 15;
/// Maximum length of the name of a job or an operator in bytes, because names are in lists and logs; [`check`] refuses a graph with a
/// longer one.
pub const NAME_BYTES_MAX: u64 = 1_024;
/// Maximum number of vertices of one job; ten times as many edges are allowed. [`check`] refuses a graph with more.
pub const VERTICES_MAX: usize = 10_000;

/// The reason why a graph cannot be run as a job, from [`check`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GraphError {
    /// The graph has no vertices.
    #[error("it has no vertices")]
    Empty,
    /// The number of vertices, edges, subtasks, bytes of a name, or key groups of a vertex exceeds its bound.
    #[error("it has {found} {what}, at most {max} are allowed")]
    TooLarge {
        /// The things counted: `vertices`, `edges`, `subtasks`, `bytes in its name`, `bytes in the name of an operator` or `key groups in
        /// a vertex`.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The largest number allowed.
        max: u64,
    },
    /// Two nodes, vertices or edges have the same id; names the kind and the id.
    #[error("{0} occurs twice")]
    Duplicate(String),
    /// A vertex has parallelism 0, or more than its maximum parallelism.
    #[error("vertex '{vertex}' has parallelism {parallelism}, it must be 1 to {max}")]
    Parallelism {
        /// Name of the vertex concerned.
        vertex: String,
        /// The vertex's parallelism.
        parallelism: u32,
        /// The highest parallelism that the vertex may have.
        max: u32,
    },
    /// The vertex of this name has no operators, or one that does not exist, is in another vertex too or occurs in it twice.
    #[error("the operators of vertex '{0}' do not exist or are in another vertex too")]
    Operators(String),
    /// The edge of this id starts or ends at an unknown vertex, or does not lead from an earlier vertex to a later one.
    #[error("edge {0} does not lead from an earlier vertex to a later one")]
    EdgeOrder(u32),
    /// A forward edge between vertices of different parallelism.
    #[error(
        "edge {edge} forwards subtask to subtask, but its sides have parallelism {from} and {to}"
    )]
    Forward {
        /// Id of the edge.
        edge: u32,
        /// Parallelism of the producing vertex.
        from: u32,
        /// Parallelism of the consuming vertex.
        to: u32,
    },
}

/// Checks the whole graph: sizes, unique ids, parallelisms, operators and edges. Changes nothing; resource specs are checked by
/// [`partial_resources`].
///
/// # Errors
/// Returns the first fault found: of sizes (name, vertices, edges) first, then of nodes, of each vertex in its order, of the total
/// number of subtasks, and of edges.
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

/// Returns the names of the vertices without a resource spec if other vertices have one, because the Dispatcher refuses such a
/// job; empty if all vertices or none have one.
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
        bound("bytes in the name of an operator", node.name.len() as u64, NAME_BYTES_MAX)?;
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
    let max = vertex.max_parallelism;
    bound("key groups in a vertex", u64::from(max), u64::from(MAX_PARALLELISM_MAX))?;
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
