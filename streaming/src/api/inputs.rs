//! What an operator reads: producers of one record type, or of several that become one type at the head of its chain.

use crate::{
    chain::OpenBatch,
    graph::draft::{Downstream, MakePartitioner, Read, Route, SharedMake},
    seam::ErasedBatch,
    types::{BatchCodec, Record, fingerprint},
};
use model::NodeId;
use std::{rc::Rc, sync::Arc};

/// Makes what makes the partitioners of one read.
pub(crate) type Partitioning<T> = Rc<dyn Fn() -> MakePartitioner<T>>;

/// One producer that a stream comes from.
pub(crate) struct Pending<T> {
    from: NodeId,
    /// The side output; `None`: the main output.
    side: Option<&'static str>,
    downstream: Downstream<T>,
    route: Route,
    /// Chooses the subtask of each record, where the route has it so.
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
    /// The main output of a node.
    pub(crate) fn of(from: NodeId, downstream: Downstream<T>) -> Self {
        Self { from, side: None, downstream, route: Route::Direct, partitioning: None }
    }
    /// A side output of a node.
    pub(crate) fn of_side(from: NodeId, side: &'static str, downstream: Downstream<T>) -> Self {
        Self { side: Some(side), ..Self::of(from, downstream) }
    }
    /// The producing node.
    pub(crate) fn from(&self) -> NodeId {
        self.from
    }
    /// The same records, sent by another route.
    pub(crate) fn routed(self, route: Route, partitioning: Option<Partitioning<T>>) -> Self {
        Self { route, partitioning, ..self }
    }
}

/// The name and the schema of a record type.
pub(crate) fn record_type<T: Record>() -> (String, String) {
    (T::type_name(), fingerprint::<T>())
}

type Attach<T> = Box<dyn FnOnce(NodeId, usize, Option<SharedMake<T>>)>;

struct Input<T> {
    read: Read,
    open: OpenBatch<T>,
    attach: Attach<T>,
}

/// All that one operator reads, as records of one type.
pub(crate) struct Inputs<T> {
    list: Vec<Input<T>>,
}

fn same<T: Send + 'static>(batch: ErasedBatch) -> Result<crate::batch::Batch<T>, ErasedBatch> {
    batch.downcast()
}

impl<T: Record> Inputs<T> {
    /// The records of those producers, by their own routes.
    pub(crate) fn of(above: &[Pending<T>]) -> Self {
        Self { list: above.iter().cloned().map(Self::input).collect() }
    }

    /// The records of those producers, by key.
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
            // What leads to a side output's reader is always an edge.
            let make = make.filter(|_| side.is_none());
            downstream.attach(node, place, route, partitioning.map(|make| make()), make);
        };
        Input { read, open: same::<T>, attach: Box::new(attach) }
    }

    /// The same records as another type, into which `open` turns them at the head of the operator's chain.
    pub(crate) fn wrapped<U: 'static>(self, open: OpenBatch<U>) -> Inputs<U> {
        let wrap = |Input { read, attach, .. }: Input<T>| {
            let attach: Attach<U> = Box::new(move |node, place, _| attach(node, place, None));
            Input { read, open, attach }
        };
        Inputs { list: self.list.into_iter().map(wrap).collect() }
    }
}

impl<T> Inputs<T> {
    /// Both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.list.extend(other.list);
        self
    }

    /// Tells the producers that the node reads them. Returns its reads, and how their batches are opened.
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
