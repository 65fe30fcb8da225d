//! Putting a chain together for one subtask: ports, contexts and what the graph says of its operators.

use crate::{
    operators::{ChainShared, OperatorContext},
    seam::{InputPort, OutputPort, SubtaskContext, TaskError},
};
use model::{JobId, NodeId, OperatorId};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// What the graph says of one operator.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    /// Its id.
    pub operator: OperatorId,
    /// Its name.
    pub name: String,
}

/// What the graph says of one chain.
#[derive(Debug, Clone)]
pub struct ChainInfo {
    /// The job.
    pub job_id: JobId,
    /// The chain's name.
    pub name: String,
    /// Its operators.
    pub nodes: BTreeMap<NodeId, NodeInfo>,
    /// Inputs.
    pub inputs: usize,
    /// By producing node, consuming node and the consumer's read: the number of the output.
    pub outputs: BTreeMap<(NodeId, NodeId, usize), usize>,
}

/// The parts that are left to build with.
pub struct Assembly {
    info: Arc<ChainInfo>,
    shared: Arc<ChainShared>,
    inputs: Vec<Box<dyn InputPort>>,
    outputs: Vec<Option<(Box<dyn OutputPort>, u32)>>,
    restore: BTreeMap<OperatorId, Vec<Vec<u8>>>,
}

impl Assembly {
    /// Of the parts that a subtask was given.
    ///
    /// # Errors
    /// When there are more or fewer ports than the graph has edges.
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
            snapshots: Mutex::default(),
        };
        Ok(Self {
            info,
            shared: Arc::new(shared),
            inputs: context.inputs,
            outputs: context.outputs.into_iter().zip(context.output_key_groups).map(Some).collect(),
            restore: context.restore,
        })
    }

    /// What all operators of the subtask share.
    pub fn shared(&self) -> &Arc<ChainShared> {
        &self.shared
    }

    /// The chain's name.
    pub fn chain_name(&self) -> &str {
        &self.info.name
    }

    /// The context of one operator.
    ///
    /// # Errors
    /// When the chain has no such operator.
    pub fn operator_context(&mut self, node: NodeId) -> Result<OperatorContext, TaskError> {
        let info = self.info.nodes.get(&node).ok_or_else(|| {
            TaskError::Deployment(format!("'{}' has no operator {}", self.info.name, node.0))
        })?;
        Ok(OperatorContext {
            node,
            operator: info.operator,
            name: info.name.clone(),
            restore: self.restore.remove(&info.operator).unwrap_or_default(),
            shared: self.shared.clone(),
        })
    }

    /// The inputs.
    pub fn take_inputs(&mut self) -> Vec<Box<dyn InputPort>> {
        std::mem::take(&mut self.inputs)
    }

    /// The output of an edge, and the consumer's key groups; `None` where the consumer is in this chain.
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
