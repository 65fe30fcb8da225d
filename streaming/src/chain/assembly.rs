//! The parts of a chain for one subtask: ports, operator contexts, and the operators' data from the graph.

use crate::{
    operators::{ChainShared, OnePiece, OperatorContext},
    seam::{InputPort, OutputPort, Restore, SubtaskContext, TaskError},
};
use model::{JobId, NodeId, OperatorId};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// The id and name of an operator, from the job graph: the id finds its snapshots and its coordinator.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    /// The operator's id, stable between submissions if the operator has a uid.
    pub operator: OperatorId,
    /// The operator's name, for errors and logs.
    pub name: String,
}

/// The data of a chain (the operators of one vertex) from the job graph; the same for all subtasks of the vertex, whose factory keeps it
/// and makes an [`Assembly`] with it for each attempt.
#[derive(Debug, Clone)]
pub struct ChainInfo {
    /// The job's id.
    pub job_id: JobId,
    /// The chain's name, which is its vertex's name.
    pub name: String,
    /// The chain's operators, by their nodes in the job graph.
    pub nodes: BTreeMap<NodeId, NodeInfo>,
    /// The number of the vertex's inputs: one for each edge that leads to it, none for a source.
    pub inputs: usize,
    /// The index of each output among the subtask's output ports, by producing node, consuming node and the number of the consumer's read
    /// (one node can read another twice).
    pub outputs: BTreeMap<(NodeId, NodeId, usize), usize>,
}

/// The parts from which the chain of one subtask is built: ports, and contexts and snapshots of the operators. The vertex's factory makes
/// it for each attempt, and the operators take their parts when they are created. Methods named `take_…` hand a part out once.
pub struct Assembly {
    info: Arc<ChainInfo>,
    shared: Arc<ChainShared>,
    inputs: Vec<Box<dyn InputPort>>,
    outputs: Vec<Option<(Box<dyn OutputPort>, u32)>>,
    restore: BTreeMap<OperatorId, Restore>,
}

impl Assembly {
    /// Takes the parts of a subtask from its context.
    ///
    /// # Errors
    /// Fails with [`TaskError::Deployment`] if the numbers of inputs and outputs differ from those in the graph, or outputs and
    /// `output_key_groups` from each other.
    pub fn new(info: Arc<ChainInfo>, context: SubtaskContext) -> Result<Self, TaskError> {
        let given = (context.inputs.len(), context.outputs.len());
        if given != (info.inputs, info.outputs.len()) || context.output_key_groups.len() != given.1
        {
            return Err(TaskError::Deployment(format!(
                "chain '{}' has {} inputs and {} outputs in the graph, {} and {} in the deployment",
                info.name,
                info.inputs,
                info.outputs.len(),
                given.0,
                given.1
            )));
        }
        let shared = ChainShared {
            job_id: info.job_id,
            subtask: context.subtask,
            parallelism: context.parallelism,
            max_parallelism: context.max_parallelism,
            attempt: context.attempt,
            upcalls: context.upcalls,
            tmp_dir: context.tmp_dir,
            options: context.options,
            devices: context.devices,
            counters: context.counters,
            interrupt: context.interrupt,
            restored_at_end: context.restored_at_end,
            ends_with_checkpoint: context.ends_with_checkpoint,
            stopped: false.into(),
            cancelled: false.into(),
            aborted: 0.into(),
            snapshots: Mutex::default(),
            bases: Mutex::default(),
        };
        Ok(Self {
            info,
            shared: Arc::new(shared),
            inputs: context.inputs,
            outputs: context.outputs.into_iter().zip(context.output_key_groups).map(Some).collect(),
            restore: context.restore,
        })
    }

    /// Returns the values that all operators of the subtask share, such as its index, its options, its counters and its upcalls.
    pub fn shared(&self) -> &Arc<ChainShared> {
        &self.shared
    }

    /// Returns the chain's name, which is its vertex's name.
    pub fn chain_name(&self) -> &str {
        &self.info.name
    }

    /// Returns the context of one operator, with the snapshots that the operator is restored from. A second call for
    /// the same operator returns a context without snapshots.
    ///
    /// # Errors
    /// Fails with [`TaskError::Deployment`] if the chain has no such operator.
    pub fn operator_context(&mut self, node: NodeId) -> Result<OperatorContext, TaskError> {
        let info = self.info.nodes.get(&node).ok_or_else(|| {
            TaskError::Deployment(format!("'{}' has no operator {}", self.info.name, node.0))
        })?;
        Ok(OperatorContext {
            node,
            operator: info.operator,
            name: info.name.clone(),
            restore: Mutex::new(self.restore.remove(&info.operator).unwrap_or_default()),
            dropped: Mutex::default(),
            one_piece: OnePiece::default(),
            shared: self.shared.clone(),
        })
    }

    /// Removes and returns all input ports, in the order of the inputs' numbers; none in a second call.
    pub fn take_inputs(&mut self) -> Vec<Box<dyn InputPort>> {
        std::mem::take(&mut self.inputs)
    }

    /// Removes and returns the output port of the edge from the operator `from` to the operator `to`, which reads it as its read number
    /// `read`, with the number of the consumer's key groups; `None` if the consumer is in this chain, the port was taken before, or the
    /// graph has no such edge.
    pub fn take_output(
        &mut self,
        from: NodeId,
        to: NodeId,
        read: usize,
    ) -> Option<(Box<dyn OutputPort>, u32)> {
        let index = *self.info.outputs.get(&(from, to, read))?;
        self.outputs.get_mut(index)?.take()
    }
}
