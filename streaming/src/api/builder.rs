//! What an environment has collected, and how operators are added to it.

use crate::{
    chain::{Assembly, Head, InputHead, SourceHead, SourceReader},
    graph::draft::{Downstream, MakeHash, NodeDraft, Read, Route, SharedMake, lock},
    operators::{Link, Operator},
    seam::{BuildProgramError, CoordinatorFactory, TaskError},
    types::{BatchCodec, Record, fingerprint},
};
use model::{NodeId, ResourceProfile, graph::StateDeclaration};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

/// One producer that a stream comes from.
pub(crate) struct Pending<T> {
    pub(crate) from: NodeId,
    pub(crate) downstream: Downstream<T>,
    pub(crate) route: Route,
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self { from: self.from, downstream: self.downstream.clone(), route: self.route }
    }
}

/// How a source is declared.
pub(crate) struct SourceSpec {
    pub(crate) kind: &'static str,
    pub(crate) bounded: bool,
    /// It can have one subtask only.
    pub(crate) single: bool,
    pub(crate) coordinator: Option<Box<dyn CoordinatorFactory>>,
}

/// What an operator declares beside its code.
#[derive(Default)]
pub(crate) struct OperatorSpec {
    pub(crate) kind: &'static str,
    pub(crate) states: Vec<StateDeclaration>,
    pub(crate) coordinator: Option<Box<dyn CoordinatorFactory>>,
    pub(crate) sink: bool,
}

/// Everything that a program has declared.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) nodes: Vec<NodeDraft>,
    pub(crate) errors: Vec<BuildProgramError>,
    pub(crate) name: Option<String>,
    pub(crate) parallelism: Option<u32>,
    pub(crate) max_parallelism: Option<u32>,
    pub(crate) groups: BTreeMap<String, ResourceProfile>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) once: BTreeMap<String, Vec<u8>>,
    pub(crate) env: BTreeMap<String, String>,
    /// Whether every source ends; known when everything is declared.
    pub(crate) bounded: Arc<AtomicBool>,
}

/// The name and the schema of a record type.
fn record_type<T: Record>() -> (String, String) {
    (T::type_name(), fingerprint::<T>())
}

impl Builder {
    fn next_id(&self) -> NodeId {
        NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))
    }

    /// A mistake of the program; the first one is reported when the build is over.
    pub(crate) fn invalid(&mut self, why: impl Into<String>) {
        self.errors.push(BuildProgramError::Invalid(why.into()));
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut NodeDraft> {
        self.nodes.get_mut(id.0 as usize)
    }

    /// Adds a source.
    pub(crate) fn add_source<R>(
        &mut self,
        spec: SourceSpec,
        mut reader: impl FnMut() -> R + Send + 'static,
    ) -> Pending<R::Record>
    where
        R: SourceReader,
        R::Record: Record,
    {
        let id = self.next_id();
        let downstream = Downstream::<R::Record>::default();
        let below = downstream.clone();
        let head = move |assembly: &mut Assembly| -> Result<Box<dyn Head>, TaskError> {
            let next = below.link(id, assembly)?;
            let context = assembly.operator_context(id)?;
            Ok(Box::new(SourceHead::new(reader(), next, context)))
        };
        self.nodes.push(NodeDraft {
            kind: spec.kind.to_owned(),
            name: None,
            uid: None,
            output: Some(record_type::<R::Record>()),
            reads: Vec::new(),
            states: Vec::new(),
            coordinator: spec.coordinator,
            parallelism: None,
            single: spec.single,
            group: None,
            cut: false,
            source: true,
            bounded: spec.bounded,
            head: Box::new(head),
        });
        Pending { from: id, downstream, route: Route::Direct }
    }

    /// Adds an operator behind streams of one record type.
    pub(crate) fn add_operator<T, Op>(
        &mut self,
        spec: OperatorSpec,
        above: &[Pending<T>],
        mut hash: Option<impl FnMut() -> MakeHash<T>>,
        mut operator: impl FnMut() -> Op + Send + 'static,
    ) -> Pending<Op::Out>
    where
        T: Record,
        Op: Operator<T> + 'static,
        Op::Out: Record,
    {
        let id = self.next_id();
        let downstream = Downstream::<Op::Out>::default();
        let below = downstream.clone();
        let make: SharedMake<T> = Arc::new(Mutex::new(Box::new(move |assembly: &mut Assembly| {
            let next = below.link(id, assembly)?;
            let context = assembly.operator_context(id)?;
            Ok(Box::new(Link::new(operator(), next, context)))
        })));
        let (record, schema) = record_type::<T>();
        let mut reads = Vec::with_capacity(above.len());
        for (read, pending) in above.iter().enumerate() {
            let route = if hash.is_some() { Route::Hash } else { pending.route };
            let hash = hash.as_mut().map(|make| make());
            pending.downstream.attach(id, read, route, hash, make.clone());
            reads.push(Read {
                from: pending.from,
                route,
                record: record.clone(),
                schema: schema.clone(),
                codec: Arc::new(BatchCodec::<T>::new()),
            });
        }
        let head = move |assembly: &mut Assembly| -> Result<Box<dyn Head>, TaskError> {
            let consumer = (lock(&make))(assembly)?;
            let (inputs, counters) = (assembly.take_inputs(), assembly.shared().counters.clone());
            let place = assembly.chain_name().to_owned();
            Ok(Box::new(InputHead::new(inputs, consumer, counters, place)))
        };
        self.nodes.push(NodeDraft {
            kind: spec.kind.to_owned(),
            name: None,
            uid: None,
            output: (!spec.sink).then(record_type::<Op::Out>),
            reads,
            states: spec.states,
            coordinator: spec.coordinator,
            parallelism: None,
            single: false,
            group: None,
            cut: false,
            source: false,
            bounded: true,
            head: Box::new(head),
        });
        Pending { from: id, downstream, route: Route::Direct }
    }
}
