//! What `build` has declared so far: nodes with the code behind them. No decisions here.

use crate::{
    chain::{Assembly, EdgeWriter, FanOut, Head, NoConsumer, Partitioner, RoundRobin},
    operators::{Consumer, SideOutput, SideOutputs, side_output},
    seam::{CoordinatorFactory, EdgeCodec, TaskError},
    types::Record,
};
use model::{NodeId, graph::StateDeclaration};
use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How records get from one operator to the next, as the program says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// On to the next operator; by subtask index, or in turn where the parallelisms differ.
    Direct,
    /// In turn to all.
    Rebalance,
    /// To all.
    Broadcast,
    /// By key group.
    Hash,
    /// As a function of the program says.
    Custom,
}

/// Makes the head of a chain that begins with a node.
pub(crate) type MakeHead = Box<dyn FnMut(&mut Assembly) -> Result<Box<dyn Head>, TaskError> + Send>;
/// Makes an operator with the rest of its chain.
pub(crate) type MakeConsumer<T> =
    Box<dyn FnMut(&mut Assembly) -> Result<Box<dyn Consumer<T>>, TaskError> + Send>;
/// Makes the partitioner of a producer's subtask, for so many channels and key groups.
pub(crate) type MakePartitioner<T> = Box<dyn FnMut(usize, u32) -> Box<dyn Partitioner<T>> + Send>;

/// One input edge of a node.
pub(crate) struct Read {
    pub(crate) from: NodeId,
    /// The side output that is read; `None`: the main output.
    pub(crate) side: Option<&'static str>,
    pub(crate) route: Route,
    pub(crate) record: String,
    pub(crate) schema: String,
    pub(crate) codec: Arc<dyn EdgeCodec>,
}

/// One operator.
pub(crate) struct NodeDraft {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) output: Option<(String, String)>,
    pub(crate) sides: SideDrafts,
    pub(crate) reads: Vec<Read>,
    pub(crate) states: Vec<StateDeclaration>,
    pub(crate) coordinator: Option<Box<dyn CoordinatorFactory>>,
    /// As the program sets it. A chain begins with the operator unless the chain above has the same number.
    pub(crate) parallelism: Option<u32>,
    /// It can have one subtask only.
    pub(crate) single: bool,
    pub(crate) group: Option<String>,
    /// A chain begins here, whatever the parallelism.
    pub(crate) cut: bool,
    pub(crate) source: bool,
    pub(crate) bounded: bool,
    pub(crate) head: MakeHead,
}

/// Who reads a node's records.
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

/// A consumer that several producers may share.
pub(crate) type SharedMake<T> = Arc<Mutex<MakeConsumer<T>>>;

struct Reader<T> {
    node: NodeId,
    /// Which of the reader's reads.
    read: usize,
    broadcast: bool,
    partitioner: Option<MakePartitioner<T>>,
    /// Makes the reader as the next operator of a chain; `None`: it always begins one.
    make: Option<SharedMake<T>>,
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Record> Downstream<T> {
    /// Another node reads.
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

    /// The rest of the chain behind `from`: the next operator, or the edges that leave.
    pub(crate) fn link(
        &self,
        from: NodeId,
        assembly: &mut Assembly,
    ) -> Result<Box<dyn Consumer<T>>, TaskError> {
        let mut edges: Vec<Box<dyn Consumer<T>>> = Vec::new();
        for reader in lock(&self.readers).iter_mut() {
            let Some((port, key_groups)) = assembly.take_output(from, reader.node, reader.read)
            else {
                // Not an edge, so the reader is the next operator of this chain, and the only one.
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
            edges.push(Box::new(EdgeWriter::new(port, partitioner, shared.counters.clone())));
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
    TaskError::Deployment(format!("'{chain}' has no output to operator {}", to.0))
}

/// The side outputs of one node, in the order in which the program asked for them.
#[derive(Clone, Default)]
pub(crate) struct SideDrafts {
    list: Arc<Mutex<Vec<SideDraft>>>,
}

type MakeSideOutput =
    Box<dyn FnMut(NodeId, &mut Assembly) -> Result<Box<dyn SideOutput>, TaskError> + Send>;

/// One side output of a node.
pub(crate) struct SideDraft {
    name: &'static str,
    /// Name and schema of its record type.
    record: (String, String),
    /// A `Downstream` of that type.
    downstream: Box<dyn Any + Send>,
    link: MakeSideOutput,
}

impl SideDrafts {
    /// Returns who reads the side output of that name, which is declared now unless it was before.
    ///
    /// # Errors
    /// The name of the type that the side output was declared with, where that is another one.
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
    /// When the deployment has no output for a reader.
    pub(crate) fn link(
        &self,
        from: NodeId,
        assembly: &mut Assembly,
    ) -> Result<SideOutputs, TaskError> {
        let mut list = lock(&self.list);
        let made = list.iter_mut().map(|side| Ok((side.name, (side.link)(from, assembly)?)));
        made.collect::<Result<Vec<_>, TaskError>>().map(SideOutputs::new)
    }

    /// Returns name and schema of every side output.
    pub(crate) fn schemas(&self) -> Vec<(&'static str, String)> {
        lock(&self.list).iter().map(|side| (side.name, side.record.1.clone())).collect()
    }
}
