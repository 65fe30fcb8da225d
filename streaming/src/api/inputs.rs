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
    from: NodeId,
    /// Name of the side output that is read; `None` for the main output.
    side: Option<&'static str>,
    downstream: Downstream<T>,
    route: Route,
    /// Chooses the consuming subtask of each record; `Some` for `Route::Hash` and `Route::Custom` only.
    partitioning: Option<Partitioning<T>>,
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self {
            from: self.from,
            side: self.side,
            downstream: self.downstream.clone(),
            route: self.route,
            partitioning: self.partitioning.clone(),
        }
    }
}

impl<T> Pending<T> {
    /// Returns a direct read of a node's main output.
    pub(crate) fn of(from: NodeId, downstream: Downstream<T>) -> Self {
        Self { from, side: None, downstream, route: Route::Direct, partitioning: None }
    }
    /// Returns a direct read of a node's side output.
    pub(crate) fn of_side(from: NodeId, side: &'static str, downstream: Downstream<T>) -> Self {
        Self { side: Some(side), ..Self::of(from, downstream) }
    }
    /// Returns the producing node.
    pub(crate) fn from(&self) -> NodeId {
        self.from
    }
    /// Returns a read of the same records by another route.
    pub(crate) fn routed(self, route: Route, partitioning: Option<Partitioning<T>>) -> Self {
        Self { route, partitioning, ..self }
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

impl<T: Record> Inputs<T> {
    /// Returns inputs that read the producers by the routes of `above`.
    pub(crate) fn of(above: &[Pending<T>]) -> Self {
        Self { list: above.iter().cloned().map(Self::input).collect() }
    }

    /// Returns inputs that read the producers by key, whatever the routes of `above`.
    pub(crate) fn by_key(above: &[Pending<T>], partitioning: &Partitioning<T>) -> Self {
        let hashed = |pending: Pending<T>| pending.routed(Route::Hash, Some(partitioning.clone()));
        Self { list: above.iter().cloned().map(hashed).map(Self::input).collect() }
    }

    fn input(pending: Pending<T>) -> Input<T> {
        let (record, schema) = record_type::<T>();
        let Pending { from, side, downstream, route, partitioning } = pending;
        let read =
            Read { from, side, route, record, schema, codec: Arc::new(BatchCodec::<T>::new()) };
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
        let wrap = |Input { read, attach, .. }: Input<T>| {
            let attach: Attach<U> = Box::new(move |node, place, _| attach(node, place, None));
            Input { read, open, attach }
        };
        Inputs { list: self.list.into_iter().map(wrap).collect() }
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
        let attached = self.list.into_iter().enumerate().map(|(place, input)| {
            (input.attach)(node, place, Some(make.clone()));
            (input.read, input.open)
        });
        attached.unzip()
    }
}
