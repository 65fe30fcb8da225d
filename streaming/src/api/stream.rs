//! Streams, and what can be done with every stream.

use super::{
    Environment, KeyedStream,
    builder::OperatorSpec,
    inputs::{Inputs, Partitioning, Pending, record_type},
};
use crate::{
    chain::ByFunction,
    graph::draft::{NodeDraft, Route},
    operators::{
        AssignWatermarks, BoxError, ByReference, ByValue, Collector, Filter, FlatMap, Inspect, Map,
        Operator, OutputTag, Process, ProcessFunction, StatefulProcess, StatefulProcessFunction,
        TryFilter, TryFlatMap, TryMap,
    },
    state::State,
    time::{TimestampAssigner, WatermarkGenerator, WatermarkStrategy},
    types::{Key, Record},
};
use model::NodeId;
use std::rc::Rc;

/// Records of one type on their way. Cheap to clone; used twice, every record goes both ways.
pub struct Stream<T> {
    pub(crate) env: Environment,
    pub(crate) above: Vec<Pending<T>>,
    /// The operator that `uid`, `name` and the like are about; none behind `rebalance`, `broadcast`, `union`.
    pub(crate) node: Option<NodeId>,
}

impl<T> Clone for Stream<T> {
    fn clone(&self) -> Self {
        Self { env: self.env.clone(), above: self.above.clone(), node: self.node }
    }
}

impl<T> Stream<T> {
    pub(crate) fn of_node(env: Environment, pending: Pending<T>) -> Self {
        Self { env, node: Some(pending.from()), above: vec![pending] }
    }

    fn routed(&self, route: Route) -> Self {
        let above = self.above.iter().cloned().map(|pending| pending.routed(route, None));
        Self { env: self.env.clone(), above: above.collect(), node: None }
    }

    /// A source that is a chain of its own; it can still be named.
    pub(crate) fn rebalanced_source(&self) -> Self {
        Self { node: self.node, ..self.routed(Route::Rebalance) }
    }

    fn set(self, what: &str, change: impl FnOnce(&mut NodeDraft)) -> Self {
        set_on_node(&self.env, self.node, what, change);
        self
    }

    /// Names the operator for good: its state is found by this name in every later version of the program.
    pub fn uid(self, uid: impl Into<String>) -> Self {
        self.set("uid", |node| node.uid = Some(uid.into()))
    }

    /// Names the operator for people.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.set("name", |node| node.name = Some(name.into()))
    }

    /// How many subtasks the operator has. A chain begins with it, unless the program has set the same number for the operators
    /// before it.
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        self.set("set_parallelism", |node| node.parallelism = Some(parallelism))
    }

    /// In which slots the operator may run: with operators of the same group. A chain begins with it; what follows
    /// is in the same group unless it says otherwise.
    ///
    /// ```
    /// # use streaming::Environment;
    /// fn apart(env: &Environment) {
    ///     let numbers = env.sequence(0..1_000);
    ///     numbers.map(|n| n * n).slot_sharing_group("large").name("squares").print();
    ///     numbers.filter(|n| n % 2 == 0).disable_chaining().print();
    /// }
    /// ```
    pub fn slot_sharing_group(self, group: impl Into<String>) -> Self {
        self.set("slot_sharing_group", |node| {
            node.group = Some(group.into());
            node.cut = true;
        })
    }

    /// A chain begins with the operator.
    pub fn disable_chaining(self) -> Self {
        self.set("disable_chaining", |node| node.cut = true)
    }

    /// Deals the records out to the next operator's subtasks in turn.
    pub fn rebalance(&self) -> Self {
        self.routed(Route::Rebalance)
    }

    /// Gives every record to every subtask of the next operator.
    pub fn broadcast(&self) -> Self {
        self.routed(Route::Broadcast)
    }

    /// All records of both streams, in no particular order.
    pub fn union(&self, other: &Self) -> Self {
        let above = self.above.iter().chain(&other.above).cloned().collect();
        Self { env: self.env.clone(), above, node: None }
    }

    /// As many streams as are asked for; every record goes into each: `let [all, large] = orders.split();`
    pub fn split<const N: usize>(&self) -> [Self; N] {
        std::array::from_fn(|_| self.clone())
    }
}

/// Changes a node, or reports that there is none.
pub(crate) fn set_on_node(
    env: &Environment,
    node: Option<NodeId>,
    what: &str,
    change: impl FnOnce(&mut NodeDraft),
) {
    let mut builder = env.builder.borrow_mut();
    match node.and_then(|node| builder.node_mut(node)) {
        Some(node) => change(node),
        None => builder.invalid(format!(
            "{what}() must follow an operator, not rebalance(), broadcast(), partition_custom(), union() or side_output()"
        )),
    }
}

impl<T: Record> Stream<T> {
    /// Adds an operator of one's own: `make` makes the one of each subtask. `kind` is what the job graph calls it, and its name
    /// unless it is given another. Most needs are met by [`Stream::process`], which is simpler.
    ///
    /// ```
    /// use streaming::{
    ///     Environment, TaskError,
    ///     batch::Batch,
    ///     operators::{Collector, Operator, OperatorContext},
    /// };
    ///
    /// /// Lets a record through where it differs from the one before it.
    /// struct Changes(Option<u64>);
    ///
    /// impl Operator<u64> for Changes {
    ///     type Out = u64;
    ///     fn process(
    ///         &mut self,
    ///         batch: &mut Batch<u64>,
    ///         out: &mut Collector<u64>,
    ///         _context: &OperatorContext,
    ///     ) -> Result<(), TaskError> {
    ///         batch.try_each_while(|record, time| {
    ///             if self.0.replace(record) != Some(record) {
    ///                 out.push(record, time);
    ///             }
    ///             Ok(out.goes_on())
    ///         })
    ///     }
    /// }
    ///
    /// fn changes(env: &Environment) {
    ///     env.from_collection([1_u64, 1, 2]).transform("changes", || Changes(None)).print();
    /// }
    /// ```
    pub fn transform<Op>(
        &self,
        kind: impl Into<String>,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<T> + 'static,
        Op::Out: Record,
    {
        self.add(OperatorSpec { kind: kind.into(), ..OperatorSpec::default() }, make)
    }

    fn add<Op>(
        &self,
        spec: OperatorSpec,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<T> + 'static,
        Op::Out: Record,
    {
        let inputs = Inputs::of(&self.above);
        let pending = self.env.builder.borrow_mut().add_operator(spec, inputs, make);
        self.env.stream(pending)
    }

    /// Sends every record to the subtask of the next operator that a function chooses: it is handed the record and how many
    /// subtasks there are, and answers with one of them, from 0.
    /// `orders.partition_custom(|order, subtasks| order.region as usize % subtasks)`
    pub fn partition_custom<F>(&self, function: F) -> Self
    where
        F: FnMut(&T, usize) -> usize + Clone + Send + 'static,
    {
        let partitioning: Partitioning<T> = Rc::new(move || {
            let function = function.clone();
            Box::new(move |_, _| Box::new(ByFunction::new(function.clone())))
        });
        let custom =
            |pending: Pending<T>| pending.routed(Route::Custom, Some(partitioning.clone()));
        let above = self.above.iter().cloned().map(custom).collect();
        Self { env: self.env.clone(), above, node: None }
    }

    /// Returns what the operator emits to one of its side outputs, see [`OutputTag`].
    pub fn side_output<U: Record>(&self, tag: &OutputTag<U>) -> Stream<U> {
        let mut above = Vec::new();
        let mut mistake = None;
        set_on_node(&self.env, self.node, "side_output", |node| {
            match node.sides.declare::<U>(tag.name(), record_type::<U>()) {
                _ if node.source => mistake = Some("it is a source".to_owned()),
                Ok(downstream) => {
                    let from = self.node.unwrap_or(NodeId(0));
                    above.push(Pending::of_side(from, tag.name(), downstream));
                }
                Err(other) => mistake = Some(format!("its records are read as {other}, too")),
            }
        });
        if let Some(why) = mistake {
            let name = tag.name();
            let why =
                format!("the operator has no side output '{name}' of {}: {why}", U::type_name());
            self.env.builder.borrow_mut().invalid(why);
        }
        Stream { env: self.env.clone(), above, node: None }
    }

    /// Every record becomes another.
    pub fn map<U, F>(&self, function: F) -> Stream<U>
    where
        U: Record,
        F: FnMut(T) -> U + Clone + Send + 'static,
    {
        self.transform("map", move || Map::new(function.clone()))
    }

    /// Every record becomes another, or the task fails with the function's error.
    pub fn try_map<U, E, F>(&self, function: F) -> Stream<U>
    where
        U: Record,
        E: Into<BoxError> + 'static,
        F: FnMut(T) -> Result<U, E> + Clone + Send + 'static,
    {
        self.transform("map", move || TryMap::new(function.clone()))
    }

    /// Records that the function says yes to; the task fails with the function's error.
    ///
    /// ```
    /// # use streaming::Stream;
    /// fn small(numbers: &Stream<String>) -> Stream<String> {
    ///     numbers.try_filter(|text| text.parse::<u64>().map(|n| n < 10))
    /// }
    /// ```
    pub fn try_filter<E, F>(&self, function: F) -> Stream<T>
    where
        E: Into<BoxError> + 'static,
        F: FnMut(&T) -> Result<bool, E> + Clone + Send + 'static,
    {
        self.transform("filter", move || TryFilter::new(function.clone()))
    }

    /// Records that the function says yes to.
    pub fn filter<F>(&self, function: F) -> Stream<T>
    where
        F: FnMut(&T) -> bool + Clone + Send + 'static,
    {
        self.transform("filter", move || Filter::new(function.clone()))
    }

    /// Every record becomes any number of others, or the task fails with the function's error.
    ///
    /// ```
    /// # use streaming::Stream;
    /// # use std::num::ParseIntError;
    /// fn numbers(lines: &Stream<String>) -> Stream<u64> {
    ///     lines.try_flat_map(|line: String, out| {
    ///         for word in line.split_whitespace() {
    ///             out.collect(word.parse()?);
    ///         }
    ///         Ok::<(), ParseIntError>(())
    ///     })
    /// }
    /// ```
    pub fn try_flat_map<U, E, F>(&self, function: F) -> Stream<U>
    where
        U: Record,
        E: Into<BoxError> + 'static,
        F: FnMut(T, &mut Collector<U>) -> Result<(), E> + Clone + Send + 'static,
    {
        self.transform("flat_map", move || TryFlatMap::new(function.clone()))
    }

    /// Every record becomes any number of others.
    ///
    /// ```
    /// # use streaming::{Environment, Stream};
    /// fn words(lines: &Stream<String>) -> Stream<String> {
    ///     lines.flat_map(|line: String, out| {
    ///         out.collect_all(line.split_whitespace().map(str::to_owned));
    ///     })
    /// }
    /// ```
    pub fn flat_map<U, F>(&self, function: F) -> Stream<U>
    where
        U: Record,
        F: FnMut(T, &mut Collector<U>) + Clone + Send + 'static,
    {
        self.transform("flat_map", move || FlatMap::new(function.clone()))
    }

    /// Looks at every record on its way.
    ///
    /// ```
    /// # use streaming::Stream;
    /// fn watched(numbers: &Stream<u64>) -> Stream<u64> {
    ///     numbers.inspect(|n| if *n == 0 { eprintln!("a zero") })
    /// }
    /// ```
    pub fn inspect<F>(&self, function: F) -> Stream<T>
    where
        F: FnMut(&T) + Clone + Send + 'static,
    {
        self.transform("inspect", move || Inspect::new(function.clone()))
    }

    /// Gives every record its event time, and follows the records with watermarks. Times and watermarks that the stream had
    /// before are replaced.
    pub fn assign_timestamps_and_watermarks<F, G>(
        &self,
        strategy: WatermarkStrategy<T, F, G>,
    ) -> Stream<T>
    where
        F: TimestampAssigner<T>,
        G: WatermarkGenerator<T>,
    {
        self.transform("timestamps_and_watermarks", move || AssignWatermarks::new(strategy.clone()))
    }

    /// A function that is opened and closed and may fail.
    pub fn process<P: ProcessFunction<T>>(&self, function: P) -> Stream<P::Out> {
        self.transform("process", move || Process::new(function.clone()))
    }

    /// A function that keeps state per subtask. When the job is restored with another parallelism, the state is dealt out anew.
    pub fn process_with_state<F>(&self, function: F) -> Stream<F::Out>
    where
        F: StatefulProcessFunction<T>,
    {
        let (kind, states) = ("stateful_process".to_owned(), F::State::declare());
        let spec = OperatorSpec { kind, states, ..OperatorSpec::default() };
        self.add(spec, move || StatefulProcess::new(function.clone()))
    }

    /// Groups the records by a part of them: `orders.key_by(|order| &order.customer)`. A key that is computed takes
    /// [`Stream::key_by_value`]: one name for both would make every closure name its argument's type.
    pub fn key_by<K, F>(&self, key: F) -> KeyedStream<T, ByReference<F, K>>
    where
        K: Key,
        F: Fn(&T) -> &K + Clone + Send + 'static,
    {
        KeyedStream::new(self.clone(), ByReference::new(key))
    }

    /// Groups the records by something computed: `orders.key_by_value(|order| order.id % 10)`.
    pub fn key_by_value<K, F>(&self, key: F) -> KeyedStream<T, ByValue<F, K>>
    where
        K: Key,
        F: Fn(&T) -> K + Clone + Send + 'static,
    {
        KeyedStream::new(self.clone(), ByValue::new(key))
    }
}
