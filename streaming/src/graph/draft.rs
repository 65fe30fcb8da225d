//! The declarations of a build: nodes with their code. Nothing here decides about chains or parallelism.

use crate::{
    chain::{Assembly, EdgeWriter, FanOut, Head, NoConsumer, Partitioner, RoundRobin},
    lock,
    operators::{Consumer, SideOutput, SideOutputs, side_output},
    seam::{CoordinatorFactory, EdgeCodec, TaskError},
    types::Record,
};
use model::{NodeId, graph::StateDeclaration};
use std::{
    any::Any,
    sync::{Arc, Mutex},
};

/// The route of records from one operator to the next, as the program declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the subtask of the same index; in turn to all subtasks if the parallelisms differ.
    Direct,
    /// To all subtasks in turn.
    Rebalance,
    /// Every record to all subtasks.
    Broadcast,
    /// To the subtask that has the record's key group.
    Hash,
    /// To the subtask that a function of the program chooses.
    Custom,
}

/// Makes the head of a chain that begins with a node.
pub(crate) type MakeHead = Box<dyn FnMut(&mut Assembly) -> Result<Box<dyn Head>, TaskError> + Send>;
/// Makes an operator together with the rest of its chain.
pub(crate) type MakeConsumer<T> =
    Box<dyn FnMut(&mut Assembly) -> Result<Box<dyn Consumer<T>>, TaskError> + Send>;

/// Returns a function that makes the end of a chain behind a sink.
pub(crate) fn make_end() -> MakeConsumer<()> {
    Box::new(|_| Ok(Box::new(NoConsumer)))
}

/// Makes the partitioner of one subtask of a producer. Its arguments are the numbers of channels and of key groups.
pub(crate) type MakePartitioner<T> = Box<dyn FnMut(usize, u32) -> Box<dyn Partitioner<T>> + Send>;

/// One input edge of a node.
#[derive(Clone)]
pub(crate) struct Read {
    pub(crate) from: NodeId,
    /// Name of the side output that is read; `None` for the main output.
    pub(crate) side: Option<&'static str>,
    pub(crate) route: Route,
    pub(crate) record: String,
    pub(crate) schema: String,
    pub(crate) codec: Arc<dyn EdgeCodec>,
}

/// The draft of one operator.
pub(crate) struct NodeDraft {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) output: Option<(String, String)>,
    pub(crate) sides: SideDrafts,
    pub(crate) reads: Vec<Read>,
    pub(crate) states: Vec<StateDeclaration>,
    /// True if the operator has state in checkpoints that is not among `states`.
    pub(crate) has_own_state: bool,
    pub(crate) coordinator: Option<Box<dyn CoordinatorFactory>>,
    /// True for the committers of a sink.
    pub(crate) commits: bool,
    /// The parallelism that the program sets. The operator begins a chain unless the chain before it has the same parallelism.
    pub(crate) parallelism: Option<u32>,
    /// True if the operator can have one subtask only.
    pub(crate) single: bool,
    pub(crate) group: Option<String>,
    /// True if the operator begins a chain, whatever the parallelism.
    pub(crate) cut: bool,
    pub(crate) source: bool,
    pub(crate) bounded: bool,
    pub(crate) head: MakeHead,
}

/// The readers of one output of a node. Clones share the readers.
pub(crate) struct Downstream<T> {
    readers: Arc<Mutex<Vec<Reader<T>>>>,
}

impl<T> Clone for Downstream<T> {
    fn clone(&self) -> Self {
        Self { readers: self.readers.clone() }
    }
}
impl<T> Default for Downstream<T> {
    fn default() -> Self {
        Self { readers: Arc::default() }
    }
}

/// Makes a consumer; the producers of the consumer share it.
pub(crate) type SharedMake<T> = Arc<Mutex<MakeConsumer<T>>>;

struct Reader<T> {
    node: NodeId,
    /// Index of the read among the reader's reads.
    read: usize,
    broadcast: bool,
    partitioner: Option<MakePartitioner<T>>,
    /// Makes the reader as the next operator of a chain; `None` if the reader always begins a chain.
    make: Option<SharedMake<T>>,
}

impl<T: Record> Downstream<T> {
    /// Adds `node` as a reader; `read` is the index of this read among the node's reads.
    pub(crate) fn attach(
        &self,
        node: NodeId,
        read: usize,
        route: Route,
        partitioner: Option<MakePartitioner<T>>,
        make: Option<SharedMake<T>>,
    ) {
        let broadcast = route == Route::Broadcast;
        lock(&self.readers).push(Reader { node, read, broadcast, partitioner, make });
    }

    /// Makes the rest of the chain behind `from`: the next operator, or the writers of the edges that leave the chain.
    pub(crate) fn link(
        &self,
        from: NodeId,
        assembly: &mut Assembly,
    ) -> Result<Box<dyn Consumer<T>>, TaskError> {
        let mut edges: Vec<Box<dyn Consumer<T>>> = Vec::new();
        for reader in lock(&self.readers).iter_mut() {
            let Some((port, key_groups)) = assembly.take_output(from, reader.node, reader.read)
            else {
                // There is no edge, so the reader is the next operator of this chain and the only reader.
                let make =
                    reader.make.as_ref().ok_or_else(|| missing_edge(assembly, reader.node))?;
                return (lock(make))(assembly);
            };
            let channels = port.channels();
            let shared = assembly.shared();
            let partitioner: Box<dyn Partitioner<T>> = match &mut reader.partitioner {
                Some(make) => make(channels, key_groups),
                None if reader.broadcast => Box::new(crate::chain::Broadcast),
                None => Box::new(RoundRobin::new(shared.subtask as usize)),
            };
            let (counters, interrupt) = (shared.counters.clone(), shared.interrupt.clone());
            edges.push(Box::new(EdgeWriter::new(port, partitioner, counters, interrupt)));
        }
        Ok(match edges.pop() {
            None => Box::new(NoConsumer),
            Some(only) if edges.is_empty() => only,
            Some(last) => {
                edges.push(last);
                Box::new(FanOut::new(edges))
            }
        })
    }
}

fn missing_edge(assembly: &Assembly, to: NodeId) -> TaskError {
    let chain = assembly.chain_name();
    TaskError::Deployment(format!("chain '{chain}' has no output to node {}", to.0))
}

/// The side outputs of one node, in the order in which the program first read them. Clones share the list.
#[derive(Clone, Default)]
pub(crate) struct SideDrafts {
    list: Arc<Mutex<Vec<SideDraft>>>,
}

type MakeSideOutput =
    Box<dyn FnMut(NodeId, &mut Assembly) -> Result<Box<dyn SideOutput>, TaskError> + Send>;

/// One side output of a node.
pub(crate) struct SideDraft {
    name: &'static str,
    /// Name and schema fingerprint of the record type.
    record: (String, String),
    /// The `Downstream` of the record type.
    downstream: Box<dyn Any + Send>,
    link: MakeSideOutput,
}

impl SideDrafts {
    /// Returns the readers of a side output, which is declared now unless it was before.
    ///
    /// # Errors
    /// Returns the name of the record type that the side output was declared with, if that is not `T`.
    pub(crate) fn declare<T: Record>(
        &self,
        name: &'static str,
        record: (String, String),
    ) -> Result<Downstream<T>, String> {
        let mut list = lock(&self.list);
        if let Some(known) = list.iter().find(|side| side.name == name) {
            let downstream = known.downstream.downcast_ref::<Downstream<T>>();
            return downstream.cloned().ok_or_else(|| known.record.0.clone());
        }
        let downstream = Downstream::<T>::default();
        let below = downstream.clone();
        list.push(SideDraft {
            name,
            record,
            downstream: Box::new(downstream.clone()),
            link: Box::new(move |from, assembly| Ok(side_output(below.link(from, assembly)?))),
        });
        Ok(downstream)
    }

    /// Makes the side outputs of one subtask.
    ///
    /// # Errors
    /// Fails when the deployment has no output for a reader.
    pub(crate) fn link(
        &self,
        from: NodeId,
        assembly: &mut Assembly,
    ) -> Result<SideOutputs, TaskError> {
        let mut list = lock(&self.list);
        let made = list.iter_mut().map(|side| Ok((side.name, (side.link)(from, assembly)?)));
        made.collect::<Result<Vec<_>, TaskError>>().map(SideOutputs::new)
    }

    /// Returns the name and the schema fingerprint of every side output.
    pub(crate) fn schemas(&self) -> Vec<(&'static str, String)> {
        lock(&self.list).iter().map(|side| (side.name, side.record.1.clone())).collect()
    }
}
