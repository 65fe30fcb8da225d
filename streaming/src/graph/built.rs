//! A built program: the graph, and the code behind its vertices. It must never decide parallelism itself: that
//! comes from the submitted graph, with each subtask's context.

use crate::seam::{
    Coordinator, CoordinatorContext, CoordinatorFactory, EdgeCodec, Subtask, SubtaskContext,
    SubtaskFactory, TaskError,
};
use model::{EdgeId, JobGraph, JobVertexId, OperatorId};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// A program that was built, in one process.
pub struct BuiltJob {
    pub(crate) graph: JobGraph,
    // User functions are `Send` but need not be `Sync`: each is cloned for a subtask under its lock.
    pub(crate) vertices: BTreeMap<JobVertexId, Mutex<Box<dyn SubtaskFactory>>>,
    pub(crate) coordinators: BTreeMap<OperatorId, Mutex<Box<dyn CoordinatorFactory>>>,
    pub(crate) codecs: BTreeMap<EdgeId, Arc<dyn EdgeCodec>>,
}

impl BuiltJob {
    /// What the control plane knows of it.
    pub fn graph(&self) -> &JobGraph {
        &self.graph
    }

    /// A new subtask of a vertex.
    ///
    /// # Errors
    /// When there is no such vertex, or the context does not fit it.
    pub fn subtask(
        &self,
        vertex: JobVertexId,
        context: SubtaskContext,
    ) -> Result<Box<dyn Subtask>, TaskError> {
        let factory = self
            .vertices
            .get(&vertex)
            .ok_or_else(|| TaskError::Deployment(format!("the program has no vertex {vertex}")))?;
        factory.lock().unwrap_or_else(PoisonError::into_inner).subtask(context)
    }

    /// A new coordinator of an operator.
    ///
    /// # Errors
    /// When the program has no such operator, or it has no coordinator.
    pub fn coordinator(
        &self,
        operator: OperatorId,
        context: CoordinatorContext,
    ) -> Result<Box<dyn Coordinator>, TaskError> {
        let factory = self.coordinators.get(&operator).ok_or_else(|| {
            TaskError::Deployment(format!("operator {operator} has no coordinator"))
        })?;
        Ok(factory.lock().unwrap_or_else(PoisonError::into_inner).coordinator(context))
    }

    /// What the exchange needs to know of an edge's records.
    pub fn edge_codec(&self, edge: EdgeId) -> Option<Arc<dyn EdgeCodec>> {
        self.codecs.get(&edge).cloned()
    }

    /// Which node differs from those of another graph of the same program; `None`: nothing does.
    pub fn difference_from(&self, other: &JobGraph) -> Option<String> {
        super::difference(&self.graph, other)
    }
}

impl fmt::Debug for BuiltJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltJob")
            .field("graph", &self.graph.name)
            .field("vertices", &self.vertices.len())
            .finish_non_exhaustive()
    }
}
