//! Streams and the operations on every stream.

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
        TryFilter, TryFlatMap, TryMap, watermark_state,
    },
    state::State,
    time::{TimestampAssigner, WatermarkGenerator, WatermarkStrategy},
    types::{Key, Record},
};
use model::NodeId;
use std::rc::Rc;

/// A stream of records of one type, as a program declares it; no record flows before the job runs. Clones are cheap and name the same
/// records. A stream that several operators read gives every record to each of them. If nothing reads a stream, its operator runs all the
/// same and its records are dropped.
///
/// Methods that take a function add an operator to the job and return the stream of its output. Each subtask calls a clone of the
/// function, on the thread of its task. The emitted records get the event time of the record that the function was called for. A
/// function that returns an error or panics fails its task; the job's restart strategy then decides, and the job fails at once if
/// `restart-strategy.type` is not set.
///
/// The settings [`Stream::uid`], [`Stream::name`], [`Stream::set_parallelism`], [`Stream::slot_sharing_group`] and
/// [`Stream::disable_chaining`] apply to the operator that the stream comes from. A stream from [`Stream::rebalance`],
/// [`Stream::broadcast`], [`Stream::partition_custom`], [`Stream::union`] or [`Stream::side_output`] comes from no operator, and a
/// setting on it fails the build.
pub struct Stream<T> {
    pub(crate) env: Environment,
    pub(crate) above: Vec<Pending<T>>,
    /// The operator that settings such as `uid` and `name` apply to; `None` after `rebalance`, `broadcast`, `union` and the like.
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

    /// Deals the records of a source out in turn, so that the source is a chain of its own. Settings still apply to the source.
    pub(crate) fn rebalanced_source(&self) -> Self {
        Self { node: self.node, ..self.routed(Route::Rebalance) }
    }

    fn set(self, what: &str, change: impl FnOnce(&mut NodeDraft)) -> Self {
        set_on_node(&self.env, self.node, what, change);
        self
    }

    /// Sets the operator's uid, unique in the job; the last call counts. In every later version of the program its state is found by this
    /// uid, without one by the operator's place in the graph. A restore is refused if a uid with state is no longer in the program, unless
    /// the state may be dropped (`--allowNonRestoredState`). The build fails if two operators have the same one. With
    /// `execution.checkpointing.interval` the build also fails if a source, a sink that collects or commits, or an operator with state has
    /// none, unless `pipeline.auto-generate-uids` is true. The watermark of [`Stream::assign_timestamps_and_watermarks`] is state; an
    /// operator of one's own ([`Stream::transform`]) has state if its [`Operator::HAS_STATE`] says so.
    pub fn uid(self, uid: impl Into<String>) -> Self {
        self.set("uid", |node| node.uid = Some(uid.into()))
    }

    /// Sets the operator's name in the job graph, in logs and in error messages; by default its kind with a space for each `_`, such as
    /// `flat map`. The name need not be unique.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.set("name", |node| node.name = Some(name.into()))
    }

    /// Sets the number of the operator's subtasks, 1 to the maximum parallelism. The build fails for other numbers, and for any number
    /// but 1 if the operator can have one subtask only, such as a socket source.
    ///
    /// An operator that sets no number has that of its chain, and one that begins a chain has [`Environment::parallelism`]. So
    /// `sequence.set_parallelism(3).map(..)` has three subtasks of `map` as long as nothing else reads the sequence; with a second reader
    /// both readers begin chains, and `map` has as many subtasks as the environment says. An operator that needs a number whatever else
    /// the program does with its input sets it.
    ///
    /// An operator that sets a number begins a chain if the chain before it has another one. The number of a chain is the one that its
    /// first operator sets, or the one of [`Environment::set_parallelism`]. Where the client's `parallelism.default` applies, the
    /// operator begins a chain whatever that number is, so that the job's chains do not depend on it, unless the program has called
    /// [`Environment::parallelism`].
    ///
    /// ```
    /// # use streaming::Environment;
    /// fn two_chains(env: &Environment) {
    ///     let numbers = env.sequence(0..1_000).map(|n| n * n).set_parallelism(env.parallelism());
    ///     numbers.print().set_parallelism(1);
    /// }
    /// ```
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        self.set("set_parallelism", |node| node.parallelism = Some(parallelism))
    }

    /// Places the operator in a slot sharing group: its subtasks share slots with operators of that group only. The operator begins a
    /// chain. An operator that sets no group is in the group of its inputs if all of them are in one, otherwise in the group `default`.
    /// [`Environment::set_slot_resources`] says what a slot of the group needs.
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

    /// Makes the operator begin a chain, so that its records come over the exchange, to a task of its own. Operators that read its
    /// output may still be chained to it. The build fails if the stream comes from no operator, such as that of
    /// [`Stream::rebalance`] or [`Stream::union`].
    pub fn disable_chaining(self) -> Self {
        self.set("disable_chaining", |node| node.cut = true)
    }

    /// Distributes the records evenly to the next operator's subtasks: each gets a run of every batch, in turn. The next operator
    /// begins a chain.
    pub fn rebalance(&self) -> Self {
        self.routed(Route::Rebalance)
    }

    /// Sends every record to every subtask of the next operator, which begins a chain: with `n` subtasks it processes each record `n`
    /// times.
    pub fn broadcast(&self) -> Self {
        self.routed(Route::Broadcast)
    }

    /// Returns a stream of the records of both streams. Records that one subtask has emitted keep their order; the order of others to each
    /// other is undefined. Its readers have the smaller watermark of both; a stream that is idle does not count. If one stream has no
    /// watermarks and is not idle, they have none before that stream ends. Adds no operator; the next one begins a chain.
    ///
    /// ```
    /// # use streaming::Environment;
    /// fn routes(env: &Environment) {
    ///     let [all, even] = env.sequence(0..1_000).split();
    ///     let even = even.filter(|n| n % 2 == 0);
    ///     all.rebalance().map(|n| n + 1).print();
    ///     all.partition_custom(|n, subtasks| *n as usize % subtasks).print();
    ///     all.union(&even).broadcast().print();
    /// }
    /// ```
    pub fn union(&self, other: &Self) -> Self {
        let above = self.above.iter().chain(&other.above).cloned().collect();
        Self { env: self.env.clone(), above, node: None }
    }

    /// Returns `N` clones of the stream; every record goes into each of them: `let [all, large] = orders.split();`
    pub fn split<const N: usize>(&self) -> [Self; N] {
        std::array::from_fn(|_| self.clone())
    }
}

/// Changes the draft of a node. Without a node it records that `what` was called on a stream without an operator.
pub(crate) fn set_on_node(
    env: &Environment,
    node: Option<NodeId>,
    what: &str,
    change: impl FnOnce(&mut NodeDraft),
) {
    let mut change = Some(change);
    let mut once = |draft: &mut NodeDraft| {
        if let Some(change) = change.take() {
            change(draft);
        }
    };
    change_node(env, node, what, &mut once);
}

fn change_node(
    env: &Environment,
    node: Option<NodeId>,
    what: &str,
    change: &mut dyn FnMut(&mut NodeDraft),
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
    /// Adds an operator of one's own: `make` makes the operator of each subtask, and is called when the subtask is deployed. `kind` is the
    /// operator's kind in the job graph, and with a space for each `_` its name unless the program sets one. What its `snapshot` returns is
    /// in checkpoints; its [`Operator::HAS_STATE`] must be true then. [`Stream::process`] is simpler and meets most needs.
    ///
    /// ```
    /// use streaming::{
    ///     Environment, TaskError,
    ///     batch::Batch,
    ///     operators::{Collector, Operator, OperatorContext},
    /// };
    ///
    /// /// Lets a record through if it differs from the one before it.
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
    ///             Ok(out.should_continue())
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
        self.add(OperatorSpec::of::<_, Op>(kind), make)
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

    /// Sends every record to the subtask of the next operator that `function` chooses. `function` is called with the record and the
    /// number of subtasks, and returns the index of a subtask, counted from 0; an index that is not below the number of subtasks fails
    /// the sending task with `TaskError::User`. If the next operator has one subtask, that one gets every record and `function` is not
    /// called. The next operator begins a chain. `orders.partition_custom(|order, subtasks| order.region as usize % subtasks)`
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

    /// Returns the records that the operator emits to a side output, see [`OutputTag`]; the stream is empty if it emits none. They keep
    /// their event times, and the stream has the operator's watermarks. Its reader begins a chain. The build fails if the operator is a
    /// source, if this stream comes from no operator (see [`Stream`]), or if the side output is also read with another record type.
    pub fn side_output<U: Record>(&self, tag: &OutputTag<U>) -> Stream<U> {
        let mut above = Vec::new();
        let mut mistake = None;
        set_on_node(&self.env, self.node, "side_output", |node| {
            match node.sides.declare::<U>(tag.name(), record_type::<U>()) {
                _ if node.source => mistake = Some("the operator is a source".to_owned()),
                Ok(downstream) => {
                    let from = self.node.unwrap_or(NodeId(0));
                    above.push(Pending::of(from, Some(tag.name()), downstream));
                }
                Err(other) => mistake = Some(format!("it is also read with record type {other}")),
            }
        });
        if let Some(why) = mistake {
            let name = tag.name();
            let why = format!(
                "cannot read side output '{name}' with record type {}: {why}",
                U::type_name()
            );
            self.env.builder.borrow_mut().invalid(why);
        }
        Stream { env: self.env.clone(), above, node: None }
    }

    /// Converts every record with `function`, which returns exactly one record for each; the new record gets the event time of the old one.
    pub fn map<U, F>(&self, function: F) -> Stream<U>
    where
        U: Record,
        F: FnMut(T) -> U + Clone + Send + 'static,
    {
        self.transform("map", move || Map::new(function.clone()))
    }

    /// Converts every record with `function`, and keeps its event time; an error of `function` fails the task with `TaskError::User`.
    pub fn try_map<U, E, F>(&self, function: F) -> Stream<U>
    where
        U: Record,
        E: Into<BoxError> + 'static,
        F: FnMut(T) -> Result<U, E> + Clone + Send + 'static,
    {
        self.transform("map", move || TryMap::new(function.clone()))
    }

    /// Keeps the records for which `function` returns true, and drops the others; an error of `function` fails the task with
    /// `TaskError::User`.
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

    /// Keeps the records for which `function` returns true, and drops the others.
    pub fn filter<F>(&self, function: F) -> Stream<T>
    where
        F: FnMut(&T) -> bool + Clone + Send + 'static,
    {
        self.transform("filter", move || Filter::new(function.clone()))
    }

    /// Replaces every record by those that `function` emits; an error of `function` fails the task with `TaskError::User`, and what the
    /// failing call has emitted before may still reach the next operators.
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

    /// Replaces every record by those that `function` emits: none, one or several. A call that emits more than the consumer takes in time
    /// waits for it, see [`Collector`].
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

    /// Calls `function` for every record, on the task's thread, and passes the records on unchanged.
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

    /// Gives every record its event time and the stream its watermarks, as `strategy` says; both are milliseconds since 1970. They
    /// replace the times and watermarks that the stream has already; only the final watermark at the end of input passes.
    ///
    /// Checkpoints contain the watermark of each subtask. A restored subtask begins with its own one, at another parallelism with the
    /// minimum of all whose input had not ended (without one if one of these had none). A program whose operator is not found in a
    /// savepoint, because its uid is new, begins without a watermark, so that operators whose state is new take records as on time that
    /// were late before.
    pub fn assign_timestamps_and_watermarks<F, G>(
        &self,
        strategy: WatermarkStrategy<T, F, G>,
    ) -> Stream<T>
    where
        F: TimestampAssigner<T>,
        G: WatermarkGenerator<T>,
    {
        let kind = "timestamps_and_watermarks".to_owned();
        let spec = OperatorSpec { kind, states: watermark_state(), ..OperatorSpec::default() };
        self.add(spec, move || AssignWatermarks::new(strategy.clone()))
    }

    /// Runs a function that is opened and closed and may fail, see [`ProcessFunction`]. It may emit any number of records for each record,
    /// and more when bounded input ends. What it keeps in its fields is lost at a restart.
    pub fn process<P: ProcessFunction<T>>(&self, function: P) -> Stream<P::Out> {
        self.transform("process", move || Process::new(function.clone()))
    }

    /// Runs a function that keeps state per subtask, see [`StatefulProcessFunction`]. Checkpoints contain the state. When the job is
    /// restored with another parallelism, the state's lists are dealt out to the subtasks anew, those of a
    /// [`UnionListState`](crate::state::UnionListState) go to every subtask, also with the same parallelism.
    pub fn process_with_state<F>(&self, function: F) -> Stream<F::Out>
    where
        F: StatefulProcessFunction<T>,
    {
        let (kind, states) = ("stateful_process".to_owned(), F::State::declare());
        let spec = OperatorSpec { kind, states, ..OperatorSpec::default() };
        self.add(spec, move || StatefulProcess::new(function.clone()))
    }

    /// Partitions the stream by a part of each record: `orders.key_by(|order| &order.customer)`. Adds no operator: the next one gets all
    /// records of a key in one subtask. `key` must return an equal key each time it is called with equal records.
    ///
    /// For a computed key use [`Stream::key_by_value`]; if one method took both, every closure would have to name its argument's type.
    /// The compiler does not lead there: of `key_by(|n| n % 3)` it says that it expected a reference (E0308) and advises to borrow, and of
    /// `key_by(|n| &(n % 3))` that a temporary value cannot be returned (E0515). Both mean `key_by_value(|n| n % 3)`.
    pub fn key_by<K, F>(&self, key: F) -> KeyedStream<T, ByReference<F, K>>
    where
        K: Key,
        F: Fn(&T) -> &K + Clone + Send + 'static,
    {
        KeyedStream::new(self.clone(), ByReference::new(key))
    }

    /// Partitions the stream by a key computed from each record: `orders.key_by_value(|order| order.id % 10)`. `key` must return an
    /// equal key each time it is called with equal records; it is called by the sending and by the receiving subtask.
    pub fn key_by_value<K, F>(&self, key: F) -> KeyedStream<T, ByValue<F, K>>
    where
        K: Key,
        F: Fn(&T) -> K + Clone + Send + 'static,
    {
        KeyedStream::new(self.clone(), ByValue::new(key))
    }
}
