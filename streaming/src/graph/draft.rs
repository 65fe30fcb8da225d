//! What `build` has declared so far: nodes with the code behind them. No decisions here.

use crate::{
    chain::{Assembly, EdgeWriter, FanOut, Head, NoConsumer, Partitioner, RoundRobin},
    operators::Consumer,
    seam::{CoordinatorFactory, EdgeCodec, TaskError},
    types::Record,
};
use model::{NodeId, graph::StateDeclaration};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
}

/// Makes the head of a chain that begins with a node.
pub(crate) type MakeHead = Box<dyn FnMut(&mut Assembly) -> Result<Box<dyn Head>, TaskError> + Send>;
/// Makes an operator with the rest of its chain.
pub(crate) type MakeConsumer<T> =
    Box<dyn FnMut(&mut Assembly) -> Result<Box<dyn Consumer<T>>, TaskError> + Send>;
/// Makes a hash partitioner: channels, key groups.
pub(crate) type MakeHash<T> = Box<dyn FnMut(usize, u32) -> Box<dyn Partitioner<T>> + Send>;

/// One input edge of a node.
pub(crate) struct Read {
    pub(crate) from: NodeId,
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
    pub(crate) reads: Vec<Read>,
    pub(crate) states: Vec<StateDeclaration>,
    pub(crate) coordinator: Option<Box<dyn CoordinatorFactory>>,
    pub(crate) parallelism: Option<u32>,
    /// It can have one subtask only.
    pub(crate) single: bool,
    pub(crate) group: Option<String>,
    /// A chain begins here.
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
    hash: Option<MakeHash<T>>,
    make: SharedMake<T>,
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
        hash: Option<MakeHash<T>>,
        make: SharedMake<T>,
    ) {
        let broadcast = route == Route::Broadcast;
        lock(&self.readers).push(Reader { node, read, broadcast, hash, make });
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
                return (lock(&reader.make))(assembly);
            };
            let channels = port.channels();
            let shared = assembly.shared();
            let partitioner: Box<dyn Partitioner<T>> = match &mut reader.hash {
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
