//! Sinks: the ends of streams.

use super::{Environment, Stream, builder::OperatorSpec, inputs::Inputs, stream::set_on_node};
use crate::{operators::Operator, seam::CoordinatorFactory, types::Record};
use model::NodeId;

/// A sink that was declared, to be named and placed. The sink is part of the job also if this value is dropped.
///
/// ```
/// use streaming::{Environment, api::Sink};
///
/// fn numbers(env: &Environment) {
///     let sink: Sink = env.sequence(0..10).print();
///     sink.name("to the terminal").uid("print").slot_sharing_group("output").set_parallelism(1);
///     env.sequence(0..10).checksum().collect().disable_chaining();
/// }
/// ```
#[derive(Clone)]
pub struct Sink {
    env: Environment,
    node: NodeId,
}

impl Sink {
    /// Sets the sink's uid, as [`Stream::uid`] does.
    pub fn uid(self, uid: impl Into<String>) -> Self {
        set_on_node(&self.env, Some(self.node), "uid", |node| node.uid = Some(uid.into()));
        self
    }
    /// Sets the sink's name, as [`Stream::name`] does.
    pub fn name(self, name: impl Into<String>) -> Self {
        set_on_node(&self.env, Some(self.node), "name", |node| node.name = Some(name.into()));
        self
    }
    /// Sets the number of the sink's subtasks, as [`Stream::set_parallelism`] does.
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        set_on_node(&self.env, Some(self.node), "set_parallelism", |node| {
            node.parallelism = Some(parallelism);
        });
        self
    }
    /// Places the sink in a slot sharing group, as [`Stream::slot_sharing_group`] does.
    pub fn slot_sharing_group(self, group: impl Into<String>) -> Self {
        set_on_node(&self.env, Some(self.node), "slot_sharing_group", |node| {
            node.group = Some(group.into());
            node.cut = true;
        });
        self
    }
    /// Makes the sink a chain of its own, as [`Stream::disable_chaining`] does.
    pub fn disable_chaining(self) -> Self {
        set_on_node(&self.env, Some(self.node), "disable_chaining", |node| node.cut = true);
        self
    }
}

impl<T: Record> Stream<T> {
    /// Declares a sink. `operator` makes the operator of each subtask.
    pub(crate) fn add_sink<Op>(
        &self,
        kind: &'static str,
        coordinator: Option<Box<dyn CoordinatorFactory>>,
        operator: impl FnMut() -> Op + Send + 'static,
    ) -> Sink
    where
        Op: Operator<T, Out = ()> + 'static,
    {
        let kind = kind.to_owned();
        let spec = OperatorSpec { kind, coordinator, sink: true, ..OperatorSpec::default() };
        let inputs = Inputs::of(&self.above);
        let pending = self.env.builder.borrow_mut().add_operator(spec, inputs, operator);
        Sink { env: self.env.clone(), node: pending.from() }
    }
}
