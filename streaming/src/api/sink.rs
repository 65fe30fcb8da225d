//! Sinks: the ends of streams, and how they are declared.

use super::{
    Builder, Environment, Stream,
    builder::{OperatorSpec, Output},
    inputs::{Inputs, Pending},
    stream::set_on_node,
};
use crate::{
    graph::draft::{NodeDraft, Route},
    operators::Operator,
    seam::CoordinatorFactory,
    sinks::{
        CommittingSinkWriter, Sink,
        two_phase::{self, Prepared, Shared, SinkWriterOperator},
    },
    state::State,
    types::Record,
};
use model::{NodeId, graph::StateDeclaration};
use std::{
    marker::PhantomData,
    sync::{Arc, Mutex},
};

/// A sink that was declared, for settings: its uid, name, parallelism, slot sharing group and chaining. The sink is part of the job
/// also if this value is dropped. A sink that commits has a committer, a global committer or both beside its writer; the settings
/// concern these operators together.
///
/// ```
/// use streaming::{Environment, api::StreamSink};
///
/// fn numbers(env: &Environment) {
///     let sink: StreamSink = env.sequence(0..10).print();
///     sink.name("to the terminal").uid("print").slot_sharing_group("output").set_parallelism(1);
///     env.sequence(0..10).checksum().collect().disable_chaining();
/// }
/// ```
#[derive(Clone)]
pub struct StreamSink {
    env: Environment,
    /// The writer, or the whole sink.
    node: NodeId,
    committer: Option<NodeId>,
    global_committer: Option<NodeId>,
}

/// The names of a sink's committers, which follow the name or uid of the sink.
const COMMITTER: &str = "committer";
const GLOBAL_COMMITTER: &str = "global committer";

impl StreamSink {
    /// Changes the drafts of all nodes of the sink. `change` gets the text that follows the sink's name in a committer's; `None` for
    /// the writer.
    fn set(self, what: &str, change: impl Fn(&mut NodeDraft, Option<&str>)) -> Self {
        let committer = self.committer.map(|node| (node, COMMITTER));
        let global = self.global_committer.map(|node| (node, GLOBAL_COMMITTER));
        set_on_node(&self.env, Some(self.node), what, |node| change(node, None));
        for (node, suffix) in committer.into_iter().chain(global) {
            set_on_node(&self.env, Some(node), what, |node| change(node, Some(suffix)));
        }
        self
    }
    /// Sets the sink's uid, by which its state is found in savepoints, as [`Stream::uid`] does. The committers get the uids
    /// `UID: committer` and `UID: global committer`.
    pub fn uid(self, uid: impl Into<String>) -> Self {
        self.set_uid(&uid.into())
    }
    fn set_uid(self, uid: &str) -> Self {
        self.set("uid", |node, suffix| node.uid = Some(joined(uid, suffix)))
    }
    /// Sets the sink's name in the job graph, logs and errors, as [`Stream::name`] does. The committers get the names `NAME: committer`
    /// and `NAME: global committer`.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.set("name", |node, suffix| node.name = Some(joined(&name, suffix)))
    }
    /// Sets the number of the subtasks of the sink's writer and committer, as [`Stream::set_parallelism`] does. A global committer has
    /// always one.
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        self.set("set_parallelism", |node, _| {
            if !node.single {
                node.parallelism = Some(parallelism);
            }
        })
    }
    /// Places the sink with its committers in a slot sharing group, as [`Stream::slot_sharing_group`] does.
    pub fn slot_sharing_group(self, group: impl Into<String>) -> Self {
        set_on_node(&self.env, Some(self.node), "slot_sharing_group", |node| {
            node.group = Some(group.into());
            node.cut = true;
        });
        self
    }
    /// Makes the sink's writer begin a chain, as [`Stream::disable_chaining`] does. The committer of a subtask stays chained to its
    /// writer if it is, see [`Stream::sink_to`].
    pub fn disable_chaining(self) -> Self {
        set_on_node(&self.env, Some(self.node), "disable_chaining", |node| node.cut = true);
        self
    }
}

fn joined(text: &str, suffix: Option<&str>) -> String {
    suffix.map_or_else(|| text.to_owned(), |suffix| format!("{text}: {suffix}"))
}

impl<T: Record> Stream<T> {
    /// Declares a sink. `operator` makes the operator of each subtask; `coordinated` is its coordinator, with the state that both
    /// have.
    pub(crate) fn add_sink<Op>(
        &self,
        kind: &'static str,
        coordinated: Option<(Box<dyn CoordinatorFactory>, Vec<StateDeclaration>)>,
        operator: impl FnMut() -> Op + Send + 'static,
    ) -> StreamSink
    where
        Op: Operator<T, Out = ()> + 'static,
    {
        let kind = kind.to_owned();
        let (coordinator, states) = coordinated.unzip();
        let states = states.unwrap_or_default();
        let spec = OperatorSpec { kind, coordinator, states, ..OperatorSpec::default() };
        let inputs = Inputs::of(&self.above);
        let node = self.env.builder.borrow_mut().add_sink(spec, inputs, operator);
        StreamSink { env: self.env.clone(), node, committer: None, global_committer: None }
    }

    /// Writes the records to a sink: one's own, see [`Sink`] and [`SinkWriter`](crate::sinks::SinkWriter), or a
    /// [`FileSink`](crate::sinks::FileSink).
    ///
    /// The committer of a subtask is chained to its writer, or a task by itself if the sink has a global committer too. A global committer
    /// is a task by itself, with one subtask. The writer's
    /// state and the data that is not yet committed are in checkpoints. Committers commit data once the checkpoint that has it is complete
    /// in the whole job; a job without periodic checkpoints takes one at its end.
    pub fn sink_to<S: Sink<T>>(&self, sink: S) -> StreamSink {
        let sink: Shared<S> = Arc::new(Mutex::new(sink));
        self.add_writer("sink", sink.clone(), &CommittersOf::<T, S>::new(sink))
    }

    /// Writes the records to a sink. Its writer has this kind in the job graph, and `committers` declare what follows the writer.
    pub(crate) fn add_writer<S: Sink<T>>(
        &self,
        kind: &str,
        sink: Shared<S>,
        committers: &dyn Committers<S::Committable>,
    ) -> StreamSink {
        let (commits, commits_globally) = two_phase::commits::<T, S>();
        let spec = OperatorSpec {
            kind: kind.to_owned(),
            states: <<S::Writer as CommittingSinkWriter<T>>::State as State>::declare(),
            sink: !commits && !commits_globally,
            ..OperatorSpec::default()
        };
        let make = move || SinkWriterOperator::<T, S>::new(sink.clone());
        let mut builder = self.env.builder.borrow_mut();
        let output = committers.output(builder.next_id());
        let written = builder.add_with_output(spec, Inputs::of(&self.above), make, output);
        let (committer, global_committer) = committers.declare(&mut builder, kind, &written);
        drop(builder);
        StreamSink { env: self.env.clone(), node: written.from(), committer, global_committer }
    }
}

/// The part of a sink behind its writer. That of [`Stream::write_text`] knows no record type of the program and is compiled once; that of
/// a sink given to [`Stream::sink_to`] is compiled in the program.
pub(crate) trait Committers<C> {
    /// Returns the output of the writer, which gets this id.
    fn output(&self, writer: NodeId) -> Output<Prepared<C>>;
    /// Declares the committer and the global committer, if the sink has them, of a sink of this kind.
    fn declare(
        &self,
        builder: &mut Builder,
        kind: &str,
        written: &Pending<Prepared<C>>,
    ) -> (Option<NodeId>, Option<NodeId>);
}

/// The committers of a sink that takes records of type `T`.
pub(crate) struct CommittersOf<T, S>(Shared<S>, PhantomData<fn(T)>);

impl<T, S: Sink<T>> CommittersOf<T, S> {
    pub(crate) fn new(sink: Shared<S>) -> Self {
        Self(sink, PhantomData)
    }
}

impl<T: Record, S: Sink<T>> Committers<S::Committable> for CommittersOf<T, S> {
    fn output(&self, writer: NodeId) -> Output<Prepared<S::Committable>> {
        Output::of(writer)
    }

    fn declare(
        &self,
        builder: &mut Builder,
        kind: &str,
        written: &Pending<Prepared<S::Committable>>,
    ) -> (Option<NodeId>, Option<NodeId>) {
        let (commits, commits_globally) = two_phase::commits::<T, S>();
        let spec = |role: &str, single| OperatorSpec {
            kind: format!("{kind}_{role}"),
            states: two_phase::declare::<S::Committable>(),
            commits: true,
            single,
            ..OperatorSpec::default()
        };
        let committer = commits.then(|| {
            let (inputs, sink) = (Inputs::of(std::slice::from_ref(written)), self.0.clone());
            let make = move || two_phase::committer::<T, S>(sink.clone());
            builder.add_sink(spec("committer", false), inputs, make)
        });
        let global_committer = commits_globally.then(|| {
            let inputs = Inputs::of(&[written.clone().routed(Route::Rebalance, None)]);
            let sink = self.0.clone();
            let make = move || two_phase::global_committer::<T, S>(sink.clone());
            builder.add_sink(spec("global_committer", true), inputs, make)
        });
        (committer, global_committer)
    }
}
