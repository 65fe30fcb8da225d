//! Where streams end.

use super::{Environment, Stream, builder::OperatorSpec, inputs::Inputs, stream::set_on_node};
use crate::{operators::Operator, seam::CoordinatorFactory, types::Record};
use model::NodeId;

/// A sink that was declared; what is left is to name and place it.
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
    /// As [`Stream::uid`].
    pub fn uid(self, uid: impl Into<String>) -> Self {
        set_on_node(&self.env, Some(self.node), "uid", |node| node.uid = Some(uid.into()));
        self
    }
    /// As [`Stream::name`].
    pub fn name(self, name: impl Into<String>) -> Self {
        set_on_node(&self.env, Some(self.node), "name", |node| node.name = Some(name.into()));
        self
    }
    /// As [`Stream::set_parallelism`].
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        set_on_node(&self.env, Some(self.node), "set_parallelism", |node| {
            node.parallelism = Some(parallelism);
        });
        self
    }
    /// As [`Stream::slot_sharing_group`].
    pub fn slot_sharing_group(self, group: impl Into<String>) -> Self {
        set_on_node(&self.env, Some(self.node), "slot_sharing_group", |node| {
            node.group = Some(group.into());
            node.cut = true;
        });
        self
    }
    /// As [`Stream::disable_chaining`].
    pub fn disable_chaining(self) -> Self {
        set_on_node(&self.env, Some(self.node), "disable_chaining", |node| node.cut = true);
        self
    }
}

impl<T: Record> Stream<T> {
    /// Adds a sink.
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
