//! The declarations that an environment has collected, and how operators are added to them.

use super::inputs::{Inputs, Pending};
use crate::{
    chain::{Assembly, Feed, Head, InputHead, SourceHead, feed},
    graph::draft::{
        Downstream, MakeConsumer, MakeHead, NodeDraft, Read, SharedMake, SideDrafts, make_end,
    },
    lock,
    operators::{Link, Operator},
    seam::{BuildProgramError, CoordinatorFactory, TaskError},
    sources::{self, Boundedness, Source, SplitEnumerator, intern::SourceCoordinators},
    time::{PerSplit, SplitTimes, TimestampAssigner, WatermarkGenerator, WatermarkStrategy},
    types::Record,
};
use model::{NodeId, ResourceProfile, graph::StateDeclaration};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

/// The declaration of an operator, without its code.
#[derive(Default)]
pub(crate) struct OperatorSpec {
    /// The operator's kind in the job graph; also its name, unless the program sets one.
    pub(crate) kind: String,
    pub(crate) states: Vec<StateDeclaration>,
    /// True if the operator has state that it does not declare: what [`Operator::snapshot`] returns.
    pub(crate) has_own_state: bool,
    pub(crate) coordinator: Option<Box<dyn CoordinatorFactory>>,
    /// True for the writer of a sink without committers: nothing reads its output, so that the job graph has none.
    pub(crate) sink: bool,
    /// True for the committers of a sink.
    pub(crate) commits: bool,
    /// True if the operator can have one subtask only.
    pub(crate) single: bool,
}

impl OperatorSpec {
    /// Returns the specification of an operator that declares no state, of this kind.
    pub(crate) fn of<In, Op: Operator<In>>(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), has_own_state: Op::HAS_STATE, ..Self::default() }
    }
}

/// Everything that a program has declared.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) nodes: Vec<NodeDraft>,
    pub(crate) errors: Vec<BuildProgramError>,
    pub(crate) name: Option<String>,
    pub(crate) parallelism: Option<u32>,
    /// True once the program has read the client's parallelism: what it declares may then depend on that number.
    pub(crate) default_is_read: bool,
    pub(crate) max_parallelism: Option<u32>,
    pub(crate) groups: BTreeMap<String, ResourceProfile>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) once: BTreeMap<String, Vec<u8>>,
    pub(crate) env: BTreeMap<String, String>,
    /// True if every source is bounded; set at the end of the build.
    pub(crate) bounded: Arc<AtomicBool>,
}

impl Builder {
    /// Returns the id of the node that is added next.
    pub(super) fn next_id(&self) -> NodeId {
        NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))
    }

    /// Records a mistake of the program: the build fails with the first one recorded.
    pub(crate) fn invalid(&mut self, why: impl Into<String>) {
        self.errors.push(BuildProgramError::Invalid(why.into()));
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut NodeDraft> {
        self.nodes.get_mut(id.0 as usize)
    }

    /// Adds a source. A `single` one can have one subtask only; one without `watermarks` emits no watermarks.
    pub(crate) fn add_source<S, F, G>(
        &mut self,
        kind: &'static str,
        source: S,
        single: bool,
        watermarks: Option<WatermarkStrategy<S::Record, F, G>>,
    ) -> Pending<S::Record>
    where
        S: Source,
        F: TimestampAssigner<S::Record>,
        G: WatermarkGenerator<S::Record>,
    {
        let id = self.next_id();
        let downstream = Downstream::<S::Record>::default();
        let below = downstream.clone();
        let pending = Pending::of(id, None, downstream);
        let bounded = source.boundedness() == Boundedness::Bounded;
        let coordinated = S::Enumerator::COORDINATED;
        let source = Arc::new(Mutex::new(source));
        let coordinators = SourceCoordinators(source.clone());
        let head = move |assembly: &mut Assembly| -> Result<Box<dyn Head>, TaskError> {
            let next = below.link(id, assembly)?;
            let context = assembly.operator_context(id)?;
            let reader = lock(&source).create_reader(&context);
            let times = watermarks.clone().map(|strategy| {
                Box::new(PerSplit::new(strategy)) as Box<dyn SplitTimes<S::Record>>
            });
            Ok(Box::new(SourceHead::new(reader, coordinated, times, next, context)?))
        };
        self.nodes.push(NodeDraft {
            kind: kind.to_owned(),
            name: None,
            uid: None,
            output: Some(pending.record_type()),
            sides: SideDrafts::default(),
            reads: Vec::new(),
            states: sources::intern::declare::<S>(),
            has_own_state: false,
            coordinator: coordinated.then(|| Box::new(coordinators) as Box<dyn CoordinatorFactory>),
            commits: false,
            parallelism: None,
            single,
            group: None,
            cut: false,
            source: true,
            bounded,
            head: Box::new(head),
        });
        pending
    }

    /// Adds an operator that reads `inputs`; `operator` makes the operator of each subtask.
    pub(crate) fn add_operator<T, Op>(
        &mut self,
        spec: OperatorSpec,
        inputs: Inputs<T>,
        operator: impl FnMut() -> Op + Send + 'static,
    ) -> Pending<Op::Out>
    where
        T: Send + 'static,
        Op: Operator<T> + 'static,
        Op::Out: Record,
    {
        let output = Output::of(self.next_id());
        self.add_with_output(spec, inputs, operator, output)
    }

    /// Adds an operator as [`Builder::add_operator`] does; `output` is made for [`Builder::next_id`].
    pub(super) fn add_with_output<T, Op>(
        &mut self,
        spec: OperatorSpec,
        inputs: Inputs<T>,
        operator: impl FnMut() -> Op + Send + 'static,
        output: Output<Op::Out>,
    ) -> Pending<Op::Out>
    where
        T: Send + 'static,
        Op: Operator<T> + 'static,
    {
        let Output { pending, next } = output;
        let record = (!spec.sink).then(|| pending.record_type());
        self.add_linked(spec, record, inputs, operator, next);
        pending
    }

    /// Adds an operator at the end of a stream, whose output nothing reads.
    pub(crate) fn add_sink<T, Op>(
        &mut self,
        spec: OperatorSpec,
        inputs: Inputs<T>,
        operator: impl FnMut() -> Op + Send + 'static,
    ) -> NodeId
    where
        T: Send + 'static,
        Op: Operator<T, Out = ()> + 'static,
    {
        self.add_linked(spec, None, inputs, operator, make_end())
    }

    /// Adds an operator; `next` makes the chain behind it. `output` is the output's record type and schema fingerprint.
    fn add_linked<T, Op>(
        &mut self,
        spec: OperatorSpec,
        output: Option<(String, String)>,
        inputs: Inputs<T>,
        mut operator: impl FnMut() -> Op + Send + 'static,
        mut next: MakeConsumer<Op::Out>,
    ) -> NodeId
    where
        T: Send + 'static,
        Op: Operator<T> + 'static,
    {
        let id = self.next_id();
        let sides = SideDrafts::default();
        let sides_below = sides.clone();
        let make: SharedMake<T> = Arc::new(Mutex::new(Box::new(move |assembly: &mut Assembly| {
            let sides = sides_below.link(id, assembly)?;
            let next = next(assembly)?;
            let context = assembly.operator_context(id)?;
            Ok(Box::new(Link::new(operator(), next, sides, context)))
        })));
        let (reads, open) = inputs.attach(id, &make);
        let head: MakeHead = Box::new(move |assembly| {
            let consumer = (lock(&make))(assembly)?;
            Ok(input_head(assembly, feed(open.clone(), consumer)))
        });
        self.push(spec, output, sides, reads, head);
        id
    }

    fn push(
        &mut self,
        spec: OperatorSpec,
        output: Option<(String, String)>,
        sides: SideDrafts,
        reads: Vec<Read>,
        head: MakeHead,
    ) {
        self.nodes.push(NodeDraft {
            kind: spec.kind,
            name: None,
            uid: None,
            output,
            sides,
            reads,
            states: spec.states,
            has_own_state: spec.has_own_state,
            coordinator: spec.coordinator,
            commits: spec.commits,
            parallelism: None,
            single: spec.single,
            group: None,
            cut: false,
            source: false,
            bounded: true,
            head,
        });
    }
}

/// The output of an operator, made where its record type is known.
pub(crate) struct Output<T> {
    pending: Pending<T>,
    /// Makes the chain behind the operator.
    next: MakeConsumer<T>,
}

impl<T: Record> Output<T> {
    /// Returns the output of the node that gets this id.
    pub(super) fn of(node: NodeId) -> Self {
        let downstream = Downstream::<T>::default();
        let below = downstream.clone();
        let pending = Pending::of(node, None, downstream);
        Self { pending, next: Box::new(move |assembly| below.link(node, assembly)) }
    }
}

/// Makes the head of a chain that reads the inputs of `assembly`.
fn input_head(assembly: &mut Assembly, feed: Box<dyn Feed>) -> Box<dyn Head> {
    let ports = assembly.take_inputs();
    let shared = assembly.shared();
    let (counters, interrupt) = (shared.counters.clone(), shared.interrupt.clone());
    let (after_end, place) = (shared.ends_with_checkpoint, assembly.chain_name().to_owned());
    Box::new(InputHead::new(ports, feed, counters, interrupt, after_end, place))
}
