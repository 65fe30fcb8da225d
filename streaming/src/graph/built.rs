//! A built job: the graph and the code of its vertices. Nothing here may decide a parallelism: each subtask's context brings it
//! from the submitted graph.

use crate::{
    lock,
    seam::{
        Coordinator, CoordinatorContext, CoordinatorFactory, EdgeCodec, Subtask, SubtaskContext,
        SubtaskFactory, TaskError,
    },
};
use model::{EdgeId, JobGraph, JobVertexId, OperatorId};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

/// A job as built in one process, by [`build`](crate::build): its graph, and the factories of its subtasks, coordinators and codecs, which
/// hold the program's functions. Nothing of it runs, and building one again gives an equal graph. A program host, a process with the
/// program's code, makes the subtasks of its TaskManager or the coordinators of its JobMaster with it, a new one for each start of a
/// subtask or coordinator. Several threads may use it.
pub struct BuiltJob {
    pub(crate) graph: JobGraph,
    // User functions are `Send` but need not be `Sync`: they are cloned for a subtask under the lock.
    pub(crate) vertices: BTreeMap<JobVertexId, Mutex<Box<dyn SubtaskFactory>>>,
    pub(crate) coordinators: BTreeMap<OperatorId, Mutex<Box<dyn CoordinatorFactory>>>,
    pub(crate) codecs: BTreeMap<EdgeId, Arc<dyn EdgeCodec>>,
}

impl BuiltJob {
    /// Returns the job's graph, which the control plane works with.
    pub fn graph(&self) -> &JobGraph {
        &self.graph
    }

    /// Creates a subtask of a vertex, with clones of the program's functions; the subtask is not opened yet. Waits while another subtask
    /// of the vertex is being created.
    ///
    /// # Errors
    /// Fails with [`TaskError::Deployment`] if the job has no such vertex or the context's ports do not fit the vertex, and with the error
    /// of a source that cannot make its reader. A panic of user code is not caught.
    pub fn subtask(
        &self,
        vertex: JobVertexId,
        context: SubtaskContext,
    ) -> Result<Box<dyn Subtask>, TaskError> {
        let factory = self
            .vertices
            .get(&vertex)
            .ok_or_else(|| TaskError::Deployment(format!("the program has no vertex {vertex}")))?;
        lock(factory).subtask(context)
    }

    /// Creates the coordinator of an operator; it is not started yet.
    ///
    /// # Errors
    /// Fails with [`TaskError::Deployment`] if the job has no such operator, or the operator has no coordinator.
    pub fn coordinator(
        &self,
        operator: OperatorId,
        context: CoordinatorContext,
    ) -> Result<Box<dyn Coordinator>, TaskError> {
        let factory = self.coordinators.get(&operator).ok_or_else(|| {
            TaskError::Deployment(format!("operator {operator} has no coordinator"))
        })?;
        Ok(lock(factory).coordinator(context))
    }

    /// Returns the codec of an edge's batches, which encodes them for another process; `None` if the job has no such edge.
    pub fn edge_codec(&self, edge: EdgeId) -> Option<Arc<dyn EdgeCodec>> {
        self.codecs.get(&edge).cloned()
    }

    /// Returns in words the first difference between this job's graph ("here" in the text) and `other`, another graph of the same program
    /// ("there"); `None` if their fingerprints are equal. A program host that rebuilds a submitted job refuses to run it if there is a
    /// difference.
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
