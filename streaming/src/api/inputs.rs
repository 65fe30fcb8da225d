//! The inputs of an operator: its producers and the routes from them. Producers of several record types become one type at the
//! head of the operator's chain.

use crate::{
    chain::OpenBatch,
    graph::draft::{Downstream, MakePartitioner, Read, Route, SharedMake},
    seam::ErasedBatch,
    types::{BatchCodec, Record, fingerprint},
};
use model::NodeId;
use std::{rc::Rc, sync::Arc};

/// Returns a new factory of partitioners; called once per read.
pub(crate) type Partitioning<T> = Rc<dyn Fn() -> MakePartitioner<T>>;

/// One producer of a stream, and the route from the producer to the stream's reader.
pub(crate) struct Pending<T> {
    read: Read,
    downstream: Downstream<T>,
    /// Chooses the consuming subtask of each record; `Some` for `Route::Hash` and `Route::Custom` only.
    partitioning: Option<Partitioning<T>>,
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self {
            read: self.read.clone(),
            downstream: self.downstream.clone(),
            partitioning: self.partitioning.clone(),
        }
    }
}

impl<T: Record> Pending<T> {
    /// Returns a direct read of a node's output, the main one if `side` is `None`. The codec of its records is made here, where the
    /// producer is declared: programs that read lines of text do not compile the one for text.
    pub(crate) fn of(from: NodeId, side: Option<&'static str>, downstream: Downstream<T>) -> Self {
        let (record, schema) = record_type::<T>();
        let codec = Arc::new(BatchCodec::<T>::new());
        let read = Read { from, side, route: Route::Direct, record, schema, codec };
        Self { read, downstream, partitioning: None }
    }
}

impl<T> Pending<T> {
    /// Returns the producing node.
    pub(crate) fn from(&self) -> NodeId {
        self.read.from
    }
    /// Returns the name and the schema fingerprint of the records.
    pub(crate) fn record_type(&self) -> (String, String) {
        (self.read.record.clone(), self.read.schema.clone())
    }
    /// Returns a read of the same records by another route.
    pub(crate) fn routed(mut self, route: Route, partitioning: Option<Partitioning<T>>) -> Self {
        self.read.route = route;
        Self { partitioning, ..self }
    }
}

/// Returns the name and the schema fingerprint of a record type.
pub(crate) fn record_type<T: Record>() -> (String, String) {
    (T::type_name(), fingerprint::<T>())
}

type Attach<T> = Box<dyn FnOnce(NodeId, usize, Option<SharedMake<T>>)>;

struct Input<T> {
    read: Read,
    open: OpenBatch<T>,
    attach: Attach<T>,
}

/// All inputs of one operator, as records of one type.
pub(crate) struct Inputs<T> {
    list: Vec<Input<T>>,
}

fn same<T: Send + 'static>(batch: ErasedBatch) -> Result<crate::batch::Batch<T>, ErasedBatch> {
    batch.downcast()
}

// Loops, not adapters: programs compile this code for each of their record types.
impl<T: Record> Inputs<T> {
    /// Returns inputs that read the producers by the routes of `above`.
    pub(crate) fn of(above: &[Pending<T>]) -> Self {
        let mut list = Vec::new();
        for pending in above {
            list.push(Self::input(pending.clone()));
        }
        Self { list }
    }

    /// Returns inputs that read the producers by key, whatever the routes of `above`.
    pub(crate) fn by_key(above: &[Pending<T>], partitioning: &Partitioning<T>) -> Self {
        let mut list = Vec::new();
        for pending in above {
            let hashed = pending.clone().routed(Route::Hash, Some(partitioning.clone()));
            list.push(Self::input(hashed));
        }
        Self { list }
    }

    fn input(pending: Pending<T>) -> Input<T> {
        let Pending { read, downstream, partitioning } = pending;
        let (side, route) = (read.side, read.route);
        let attach = move |node, place, make: Option<SharedMake<T>>| {
            // A side output is always read over an edge, so its reader is never chained.
            let make = make.filter(|_| side.is_none());
            downstream.attach(node, place, route, partitioning.map(|make| make()), make);
        };
        Input { read, open: same::<T>, attach: Box::new(attach) }
    }

    /// Returns the inputs with records of another type: `open` converts each batch at the head of the operator's chain, which the
    /// operator therefore always begins.
    pub(crate) fn wrapped<U: 'static>(self, open: OpenBatch<U>) -> Inputs<U> {
        let mut list = Vec::new();
        for Input { read, attach, .. } in self.list {
            let attach: Attach<U> = Box::new(move |node, place, _| attach(node, place, None));
            list.push(Input { read, open, attach });
        }
        Inputs { list }
    }
}

impl<T> Inputs<T> {
    /// Returns the inputs of both, those of `self` first.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.list.extend(other.list);
        self
    }

    /// Registers `node` as a reader with every producer. Returns the node's reads and, in the same order, the functions that
    /// open their batches.
    pub(crate) fn attach(
        self,
        node: NodeId,
        make: &SharedMake<T>,
    ) -> (Vec<Read>, Vec<OpenBatch<T>>) {
        let (mut reads, mut opens) = (Vec::new(), Vec::new());
        for input in self.list {
            (input.attach)(node, reads.len(), Some(make.clone()));
            reads.push(input.read);
            opens.push(input.open);
        }
        (reads, opens)
    }
}
