//! Builds what each TaskExecutor is sent: its tasks, and per input edge one table of its producers'
//! places. A table is made once and shared by all deployments of a turn. This module must never do
//! work per edge and consuming task.

use crate::execution_graph::{ExecutionGraph, Placement, TaskIndex, TaskManager};
use model::{
    AllocationId, EdgeId, ExecutionAttemptId, JobVertexId, OperatorId, ResourceId, StateHandle,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The index in [`ProducerTable::subtasks`] of a producer that has no place yet. No consumer that is sent the table reads from
/// such a producer.
pub const NOT_DEPLOYED: u32 = u32::MAX;

/// The places of the producing subtasks of one edge of the job graph, from which its consuming subtasks fetch their records. Made for each
/// deployment and not updated: a producer that restarts takes its consumers, which are in its region, with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerTable {
    /// Edge that the table belongs to.
    pub edge: EdgeId,
    /// Vertex that produces the records.
    pub vertex: JobVertexId,
    /// Data addresses (`host:port`) of the program hosts that the producers run in, each once.
    pub addresses: Vec<Arc<str>>,
    /// For each producing subtask by index: its attempt number, and the index of its host in `addresses`. The index is [`NOT_DEPLOYED`]
    /// for a subtask of another region (forward edges) that has no place yet and that no consumer here reads from.
    pub subtasks: Vec<(u32, u32)>,
}

/// One task of a deployment: the attempt, its slot, and the state that it starts with. The TaskExecutor hands it to the job's program host,
/// which starts the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlacement {
    /// The execution attempt to start.
    pub attempt: ExecutionAttemptId,
    /// Allocation (id under which the job holds it) of the slot that the attempt runs in.
    pub allocation: AllocationId,
    /// The states that each operator is restored with, in the order of the subtasks of the checkpoint that wrote them; empty without a
    /// restore. An operator without state is missing.
    pub restore: Vec<(OperatorId, Vec<StateHandle>)>,
    /// True if the subtask had reached the end of its data in the checkpoint that it is restored from, so that it processes
    /// nothing more.
    pub ended: bool,
}

/// All that is sent to one program host of one TaskExecutor to start tasks there: the tasks with their states, and the places of their
/// producers. Made by [`deployments`] for the JobMaster's core, which issues it as a command. The job's graph is not in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// TaskExecutor that the deployment is sent to.
    pub task_manager: Arc<TaskManager>,
    /// The address (`host:port`) at which the job's program host on that TaskExecutor exchanges records.
    pub data_address: Arc<str>,
    /// One table for each input edge of the vertices that have a task here, with the places of the producers; shared between deployments.
    pub producers: Vec<Arc<ProducerTable>>,
    /// The tasks, in topological order.
    pub tasks: Vec<TaskPlacement>,
}

/// Makes one deployment for each TaskExecutor (and program host) on which some of these subtasks are placed; subtasks without a place are
/// left out. The deployments are ordered by TaskExecutor, the tasks in each as in `tasks`. The caller fills in the state that each task is
/// restored with (`restore`, `ended`), which is empty here. Sends nothing.
pub fn deployments(exec: &ExecutionGraph, tasks: &[TaskIndex]) -> Vec<Deployment> {
    let mut by_task_manager: BTreeMap<(&ResourceId, &Arc<str>), Draft> = BTreeMap::new();
    for index in tasks {
        let placed = exec.task(*index).and_then(|task| task.placement.as_ref());
        let (Some(placement), Some(attempt)) = (placed, exec.attempt_id(*index)) else {
            continue;
        };
        let key = (&placement.task_manager.resource_id, &placement.data_address);
        let draft = by_task_manager.entry(key).or_insert_with(|| Draft::new(placement));
        draft.vertices.insert(exec.split(*index).0);
        draft.deployment.tasks.push(TaskPlacement {
            attempt,
            allocation: placement.allocation,
            restore: Vec::new(),
            ended: false,
        });
    }
    let mut tables = Tables::new(exec);
    let mut out = Vec::with_capacity(by_task_manager.len());
    for Draft { mut deployment, vertices } in by_task_manager.into_values() {
        deployment.producers = vertices.iter().flat_map(|v| tables.inputs_of(*v)).collect();
        out.push(deployment);
    }
    out
}

/// A deployment in the making, and the vertices of its tasks.
struct Draft {
    deployment: Deployment,
    vertices: BTreeSet<usize>,
}

impl Draft {
    fn new(placement: &Placement) -> Self {
        let deployment = Deployment {
            task_manager: placement.task_manager.clone(),
            data_address: placement.data_address.clone(),
            producers: Vec::new(),
            tasks: Vec::new(),
        };
        Self { deployment, vertices: BTreeSet::new() }
    }
}

/// Producer tables, each made when it is first asked for.
struct Tables<'a> {
    exec: &'a ExecutionGraph,
    by_consumer: BTreeMap<usize, Vec<Arc<ProducerTable>>>,
}

impl<'a> Tables<'a> {
    fn new(exec: &'a ExecutionGraph) -> Self {
        Self { exec, by_consumer: BTreeMap::new() }
    }

    fn inputs_of(&mut self, vertex: usize) -> Vec<Arc<ProducerTable>> {
        let exec = self.exec;
        self.by_consumer.entry(vertex).or_insert_with(|| tables_of(exec, vertex)).clone()
    }
}

fn tables_of(exec: &ExecutionGraph, vertex: usize) -> Vec<Arc<ProducerTable>> {
    let graph = exec.graph();
    let Some(id) = graph.vertices.get(vertex).map(|v| v.id) else {
        return Vec::new();
    };
    let edges = graph.edges.iter().filter(|edge| edge.to == id);
    edges
        .filter_map(|edge| {
            Some(Arc::new(table(exec, edge.id, edge.from, exec.place_of(edge.from)?)))
        })
        .collect()
}

fn table(exec: &ExecutionGraph, edge: EdgeId, vertex: JobVertexId, place: usize) -> ProducerTable {
    let mut indexes: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    let mut addresses = Vec::new();
    let mut subtasks = Vec::new();
    // Neighbours mostly share their host: the last address is tried before the map.
    let mut last: Option<(Arc<str>, u32)> = None;
    for index in exec.tasks_of(place) {
        let Some(task) = exec.task(TaskIndex(index)) else { continue };
        let Some(placement) = &task.placement else {
            subtasks.push((task.attempt, NOT_DEPLOYED));
            continue;
        };
        let address = placement.data_address.clone();
        let at = match &last {
            Some((known, at)) if Arc::ptr_eq(known, &address) || *known == address => *at,
            _ => *indexes.entry(address.clone()).or_insert_with(|| {
                addresses.push(address.clone());
                u32::try_from(addresses.len() - 1).unwrap_or(u32::MAX)
            }),
        };
        last = Some((address, at));
        subtasks.push((task.attempt, at));
    }
    ProducerTable { edge, vertex, addresses, subtasks }
}
