//! The JobGraph: what the control plane knows of a program. It holds no user code and no records,
//! only names, shapes and opaque bytes; every process rebuilds the code from the program itself.

use crate::{
    blob::ContentHash,
    ids::{EdgeId, JobId, JobVertexId, NodeId, OperatorId},
    resources::ResourceProfile,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A job as a client submits it and the control plane schedules it: operators, chains of them (vertices) and edges. It contains no user
/// code, only the reference to the program's executable. The type checks nothing: the Dispatcher checks the ranges that fields name, and
/// at most 10,000 vertices, 100,000 edges and 1,000,000 subtasks, when the graph is submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobGraph {
    /// The job's id: given by the client, or drawn at random when the graph is made.
    pub job_id: JobId,
    /// Name of the job for users, at most 1,024 bytes; not unique.
    pub name: String,
    /// The executable (by its hash), and the arguments, environment variables and once-computed values with which each
    /// process rebuilds the same graph.
    pub program: ProgramRef,
    /// The program's operators (nodes) before chaining, by ascending [`NodeId`].
    pub nodes: Vec<GraphNode>,
    /// The vertices (chains of operators that run in one task) in topological order: every edge goes from an earlier
    /// vertex to a later one.
    pub vertices: Vec<JobVertex>,
    /// The edges between vertices, by ascending [`EdgeId`]; edges inside a chain are not among them.
    pub edges: Vec<JobEdge>,
    /// True if every source of the job ends by itself, so that the job can finish; false: it runs until it is cancelled, stopped or fails.
    pub bounded: bool,
    /// Options that hold for this job only, by key: Flink's keys, and `program.*`. They come from `-D`, `-p`, the program, and those of
    /// the cluster's options that shape graphs (`pipeline.…`, `execution.checkpointing.…`).
    pub options: BTreeMap<String, String>,
    /// SHA-256 over all that must be equal in every rebuild of the graph: the operators with their ids, kinds, names, record types, inputs
    /// (each with the way in which its records are distributed), side outputs and declared states, whether they have a coordinator or
    /// commit, and the way in which they are chained. Parallelism and slot sharing groups are not part of it, because scheduling may
    /// change them. A process that rebuilds the program refuses to run it if its fingerprint differs. Changes of constants and closures
    /// inside functions are not noticed.
    pub fingerprint: ContentHash,
}

/// A program and all that a process needs to rebuild the same graph from it: the executable's hash, arguments, environment
/// variables, once-computed values, and the name of the job. The default value stands for a program of which nothing is known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramRef {
    /// SHA-256 of the executable, by which its bytes are fetched from the BlobServer; nothing here says whether it has them.
    pub hash: ContentHash,
    /// Name of the program's file, without a folder, shown to users; not unique.
    pub name: String,
    /// Size of the executable in bytes, as its blob's key ([`crate::BlobKey`]) has it.
    pub size: u64,
    /// Command-line arguments of the program, without its name, in the order in which its `main` gets them.
    pub args: Vec<String>,
    /// Values of the environment variables that the program declares, by name, as they were on the machine where the
    /// graph was made; every rebuild of the graph sees these values.
    pub env: BTreeMap<String, String>,
    /// Values of `env.once(name, …)` by name, computed once where the graph was made: serialised bytes that the control plane
    /// does not read.
    #[serde(with = "once_values")]
    pub once: BTreeMap<String, Vec<u8>>,
    /// Name of the job to build, of those that the program registers; `None` if the program has only one.
    pub job: Option<String>,
}

mod once_values {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;
    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<String, Vec<u8>>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let by_name: BTreeMap<&str, &serde_bytes::Bytes> =
            map.iter().map(|(k, v)| (k.as_str(), serde_bytes::Bytes::new(v))).collect();
        by_name.serialize(s)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
        let by_name = BTreeMap::<String, serde_bytes::ByteBuf>::deserialize(d)?;
        Ok(by_name.into_iter().map(|(k, v)| (k, v.into_vec())).collect())
    }
}

/// One operator of a program's job, before operators are chained into vertices: its identity, kind and name, what it reads and
/// writes, its states, and whether it has a coordinator or commits. Its parallelism is that of its vertex, its function is in the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphNode {
    /// The node's id: unique within one graph, assigned in the order of creation.
    pub id: NodeId,
    /// The operator's identity in checkpoints: the hash of its `uid`, or of its place in the graph if the program gave none.
    pub operator_id: OperatorId,
    /// The operator's `uid` as the program gave it; `None` if it gave none, so that a changed program may not find the
    /// state.
    pub uid: Option<String>,
    /// Kind of the operator: `map`, `filter`, `text_source`, …
    pub kind: String,
    /// Name for users: the program's `name`, or one made from the kind.
    pub name: String,
    /// Rust types of the incoming records, as text, one per input; empty for a source.
    pub inputs: Vec<String>,
    /// Rust type of the records that go out by the main output (not a side output), as text; `None` for a sink.
    pub output: Option<String>,
    /// The nodes whose output this node reads, one per input; empty for a source.
    pub reads: Vec<NodeId>,
    /// The states that the operator declares; a restore compares them with those of the snapshot.
    pub states: Vec<StateDeclaration>,
    /// True if the operator has a coordinator (split enumerator of a source, collector of a sink): one for all its
    /// subtasks, which runs in a program host beside the JobManager.
    pub coordinated: bool,
    /// True if the operator commits results when a checkpoint is complete. The tasks of a job with such an operator end
    /// only after a final checkpoint.
    #[serde(default)]
    pub commits: bool,
}

/// A state that an operator declares: what it is, not its content. When a job is started from a snapshot, the Dispatcher compares the
/// declarations of the snapshot and of the program, and refuses the job if state does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateDeclaration {
    /// Name of the state, unique within its operator.
    pub name: String,
    /// Kind of the state: `value`, `list`, `map`, `timers`, `broadcast`, `splits`, `enumerator`, `collected`,
    /// `watermark`, …
    pub kind: String,
    /// Fingerprints of the schemas of the state's Rust types, by role such as `key` and `value`. The presence of the
    /// role `key` means that the state is keyed.
    pub schemas: BTreeMap<String, String>,
    /// Structures of the types of `schemas` as text for people, such as `Order{id:u64,}`, by role. Never compared. Without a role whose
    /// schema says the type itself, and empty if a version that did not write structures has declared the state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, String>,
    /// Milliseconds after which an entry may be dropped; `None`: entries never expire. No operator sets it at present.
    pub ttl_ms: Option<u64>,
    /// Settings of the operator on which the content of the state depends, as text for people and for comparison, such as `windows with
    /// size 60000 ms, slide 60000 ms and offset 0 ms`. An operator with other settings cannot read the state. `None`: the state depends on
    /// none, or a version that did not write them has declared it; if one side has `None`, nothing is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
}

impl StateDeclaration {
    /// The [`StateDeclaration::kind`] of the state of a source's subtasks: the splits (parts of the input) that they
    /// read.
    pub const SPLITS: &'static str = "splits";
    /// The [`StateDeclaration::kind`] of the state of a source's split enumerator, the coordinator that assigns splits
    /// to subtasks.
    pub const ENUMERATOR: &'static str = "enumerator";
    /// The [`StateDeclaration::kind`] of the state of a collecting sink, whose results the client fetches, and of its
    /// coordinator.
    pub const COLLECTED: &'static str = "collected";

    /// The [`StateDeclaration::kind`] of broadcast state, which is the same in all subtasks: only the first subtask writes it into
    /// checkpoints, and a restore gives it to all subtasks.
    pub const BROADCAST: &'static str = "broadcast";

    /// The `StateDeclaration::kind` of the watermark of an operator that assigns event times.
    pub const WATERMARK: &'static str = "watermark";

    /// Returns the type of one role for people: its structure, where it is known, and its schema; `none` if the state has no such role.
    pub fn type_of(&self, role: &str) -> String {
        match (self.types.get(role), self.schemas.get(role)) {
            (Some(structure), Some(schema)) => format!("{structure}, {schema}"),
            (None, Some(schema)) => schema.clone(),
            (_, None) => "none".to_owned(),
        }
    }

    /// Returns the reason, as text for people, why `operator` is not restored: its snapshot has this state, and the program's
    /// operator does not declare it.
    pub fn undeclared(operator: &str, name: &str, kind: &str) -> String {
        format!(
            "{operator} has the {kind} state '{name}' in it, which the program's operator does not declare: declare it, or drop it \
             (--allowNonRestoredState)"
        )
    }

    /// Returns true for the kinds `splits`, `collected` and `watermark`: the state is all that a subtask of its
    /// operator writes, in a format of its own. An operator that does not declare such a state cannot read the bytes,
    /// not even to drop them.
    pub fn is_whole(&self) -> bool {
        [Self::SPLITS, Self::COLLECTED, Self::WATERMARK].contains(&self.kind.as_str())
    }

    /// Returns true if the operator may be restored without the state, and then begins as in a new job (the kind
    /// `watermark`). A restore drops the state if the program has no place for it.
    pub fn is_optional(&self) -> bool {
        self.kind == Self::WATERMARK
    }

    /// Returns true if each entry of the state belongs to a key and the state is distributed over subtasks by key
    /// group: it has a schema for the role `key`.
    pub fn is_keyed(&self) -> bool {
        self.schemas.contains_key("key")
    }
}

/// One chain of operators of a job, which is deployed as one task per subtask: a task runs all operators of the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobVertex {
    /// The vertex's id: the number of the [`OperatorId`] of the chain's first operator.
    pub id: JobVertexId,
    /// Names of the vertex's operators joined with ` -> `.
    pub name: String,
    /// The operators of the chain, from the first to the last.
    pub nodes: Vec<NodeId>,
    /// The number of subtasks, from 1 to `max_parallelism`, fixed when the graph is submitted: a running job is not rescaled. Schedulers
    /// and hosts take it from here, never from a rebuild of the program.
    pub parallelism: u32,
    /// The number of key groups (sets of keys, by hash, that keyed state is divided into), from 1 to 32,768. It is also the largest
    /// parallelism that the vertex may have, with keyed state or without. If `pipeline.max-parallelism` is not among the graph's options,
    /// the number was derived, and for a vertex with keyed state the Dispatcher replaces it by that of the savepoint that the job starts
    /// from, unless the parallelism is higher.
    pub max_parallelism: u32,
    /// Name of the slot sharing group, `default` unless the program sets one for the operator or for all that it reads: a slot may hold one
    /// subtask of each vertex of one group, and none of another group.
    pub slot_sharing_group: String,
    /// Resources of a slot of the vertex's slot sharing group, which runs one subtask of each vertex of the group;
    /// `None` if the program sets none and any slot will do. The Dispatcher refuses a graph in which only some vertices have them.
    pub resources: Option<ResourceProfile>,
    /// True if the vertex has no input edge, so that the JobMaster sends its tasks the order for each checkpoint.
    pub source: bool,
}

/// The way in which an edge distributes records over the consumer's subtasks, as the program says; where it says nothing, `Forward` if both
/// sides have the same parallelism, else `Rebalance`. Serialised with Flink's names, such as `REBALANCE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ShipStrategy {
    /// Subtask i sends to subtask i only; both sides have the same parallelism.
    Forward,
    /// Each record goes to the subtask that owns the key group of the record's key.
    Hash,
    /// The records are spread evenly, in runs: a batch of the producer is cut into about as many runs as there are subtasks, of at least
    /// one record each, and the subtasks get them in turn.
    Rebalance,
    /// Each record goes to every subtask.
    Broadcast,
    /// A function of the program chooses each record's subtask.
    Custom,
}

/// An edge between two vertices: the records that one output of a chain sends to one input of another chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEdge {
    /// The edge's id: unique within one graph, assigned in the order of creation.
    pub id: EdgeId,
    /// Vertex whose subtasks produce the records.
    pub from: JobVertexId,
    /// Vertex whose subtasks consume the records.
    pub to: JobVertexId,
    /// Operator, in the producing vertex, whose output the edge carries.
    pub from_node: NodeId,
    /// Operator, in the consuming vertex, that gets the records.
    pub to_node: NodeId,
    /// Index, from 0, among the producing chain's outputs, of the output whose records the edge carries.
    pub output: u32,
    /// Index, from 0, among the consuming chain's inputs, of the input that gets the records.
    pub input: u32,
    /// The way in which records are distributed over the consumer's subtasks.
    pub ship: ShipStrategy,
    /// Rust type of the records, as text.
    pub record: String,
    /// Name of the producing operator's side output; `None`: its main output.
    #[serde(default)]
    pub side: Option<String>,
}

impl JobGraph {
    /// Returns the vertex of that id; `None` if the graph has none.
    pub fn vertex(&self, id: JobVertexId) -> Option<&JobVertex> {
        self.vertices.iter().find(|v| v.id == id)
    }
    /// Iterates over the edges that end at this vertex, in the order of [`JobGraph::edges`].
    pub fn inputs_of(&self, id: JobVertexId) -> impl Iterator<Item = &JobEdge> {
        self.edges.iter().filter(move |e| e.to == id)
    }
    /// Iterates over the edges that start at this vertex, in the order of [`JobGraph::edges`].
    pub fn outputs_of(&self, id: JobVertexId) -> impl Iterator<Item = &JobEdge> {
        self.edges.iter().filter(move |e| e.from == id)
    }
    /// Returns the number of subtasks of all vertices together: the sum of their parallelisms.
    pub fn total_subtasks(&self) -> u64 {
        self.vertices.iter().map(|v| u64::from(v.parallelism)).sum()
    }
    /// Returns true if the tasks of the job, at the end of their data, wait for a final checkpoint even without periodic ones: the job
    /// has sinks that commit, or it reads without end, so that it may be stopped with a savepoint. With periodic ones all jobs do so.
    pub fn ends_with_checkpoint(&self) -> bool {
        !self.bounded || self.nodes.iter().any(|node| node.commits)
    }
}
