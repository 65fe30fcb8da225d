//! The JobGraph: what the control plane knows of a program. It holds no user code and no records,
//! only names, shapes and opaque bytes; every process rebuilds the code from the program itself.

use crate::{
    blob::ContentHash,
    ids::{EdgeId, JobId, JobVertexId, NodeId, OperatorId},
    resources::ResourceProfile,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A job as it is submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobGraph {
    /// Given by the client, or drawn when the graph is made.
    pub job_id: JobId,
    /// Name meant for people; not unique.
    pub name: String,
    /// The program and the inputs that a rebuild runs with.
    pub program: ProgramRef,
    /// The program's nodes (operators), by ascending [`NodeId`].
    pub nodes: Vec<GraphNode>,
    /// Chains, in topological order: every edge goes from an earlier vertex to a later one.
    pub vertices: Vec<JobVertex>,
    /// Edges, by ascending [`EdgeId`].
    pub edges: Vec<JobEdge>,
    /// True if every source ends.
    pub bounded: bool,
    /// Options of this job alone (`-D`, `-p`, what the program set): Flink's keys, and `program.*`.
    pub options: BTreeMap<String, String>,
    /// SHA-256 over the shape (nodes, kinds, types, edges, state schemas), nothing that scheduling
    /// may change: two processes whose rebuilds differ have different fingerprints.
    pub fingerprint: ContentHash,
}

/// A program and what a rebuild needs to make the same graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRef {
    /// SHA-256 hash of the executable.
    pub hash: ContentHash,
    /// Name of the program's file, shown to users.
    pub name: String,
    /// Size of the executable in bytes.
    pub size: u64,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// Declared environment variables and their values where the graph was made.
    pub env: BTreeMap<String, String>,
    /// Values of `env.once(name, …)`: opaque serialised bytes.
    #[serde(with = "once_values")]
    pub once: BTreeMap<String, Vec<u8>>,
    /// Name of the registered job; `None` if the program has only one.
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

/// One operator of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Unique within one graph; assigned in the order of creation.
    pub id: NodeId,
    /// Hash of the `uid`, or of the place in the graph where none was given.
    pub operator_id: OperatorId,
    /// `uid` as the user wrote it.
    pub uid: Option<String>,
    /// Kind of the operator: `map`, `filter`, `text_source`, …
    pub kind: String,
    /// Name for users: the program's `name`, or one made from the kind.
    pub name: String,
    /// Record types that come in, one per input.
    pub inputs: Vec<String>,
    /// Record type that goes out.
    pub output: Option<String>,
    /// Nodes this one reads from.
    pub reads: Vec<NodeId>,
    /// States that the operator's program declares.
    pub states: Vec<StateDeclaration>,
    /// True if a coordinator (a split enumerator, a collector) runs for it in the JobManager-side host.
    pub coordinated: bool,
    /// True if the operator commits results when a checkpoint is complete. The tasks of a job with such an operator end only after
    /// a final checkpoint.
    #[serde(default)]
    pub commits: bool,
}

/// A declared state of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateDeclaration {
    /// Unique within its operator.
    pub name: String,
    /// `value`, `list`, `map`, `timers`, `broadcast`, `splits`, `enumerator`, `collected`, `watermark`, …
    pub kind: String,
    /// Schema fingerprints by role, e.g. `key`, `value`.
    pub schemas: BTreeMap<String, String>,
    /// Milliseconds after which an entry may be dropped.
    pub ttl_ms: Option<u64>,
}

impl StateDeclaration {
    /// The kind of the state of a source's readers: their splits.
    pub const SPLITS: &'static str = "splits";
    /// The kind of the state of a source's split enumerator.
    pub const ENUMERATOR: &'static str = "enumerator";
    /// The kind of the state of a collecting sink and its coordinator.
    pub const COLLECTED: &'static str = "collected";

    /// The kind of broadcast state, which the first subtask writes and all subtasks read.
    pub const BROADCAST: &'static str = "broadcast";

    /// The kind of the watermark of an operator that assigns event times.
    pub const WATERMARK: &'static str = "watermark";

    /// Returns true if the state is all that a subtask of its operator writes, in a format of its own. An operator that does not
    /// declare such a state cannot read the bytes, not even to drop them.
    pub fn is_whole(&self) -> bool {
        [Self::SPLITS, Self::COLLECTED, Self::WATERMARK].contains(&self.kind.as_str())
    }

    /// Returns true if the operator may be restored without the state, and then begins as in a new job. Such a state demands no
    /// uid, and a restore drops it if the program has no place for it.
    pub fn is_optional(&self) -> bool {
        self.kind == Self::WATERMARK
    }

    /// Returns true if the state belongs to keys, and is distributed by key group.
    pub fn is_keyed(&self) -> bool {
        self.schemas.contains_key("key")
    }
}

/// One chain of operators: what is deployed as one task per subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobVertex {
    /// Id of its first operator.
    pub id: JobVertexId,
    /// Names of its operators joined with ` -> `.
    pub name: String,
    /// Operators of the chain, first to last.
    pub nodes: Vec<NodeId>,
    /// Subtasks; ≥ 1. Always taken from here, never from a rebuild.
    pub parallelism: u32,
    /// Key groups, hence the most subtasks it may ever have.
    pub max_parallelism: u32,
    /// Name of the slot sharing group.
    pub slot_sharing_group: String,
    /// Resources that a slot of the vertex's group needs for one subtask, if the program sets them.
    pub resources: Option<ResourceProfile>,
    /// True if it has no input.
    pub source: bool,
}

/// The way in which an edge distributes records over the consumer's subtasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ShipStrategy {
    /// Subtask i to subtask i; both sides have the same parallelism.
    Forward,
    /// Each record goes to the subtask that owns its key's key group.
    Hash,
    /// The records go to all subtasks in turn.
    Rebalance,
    /// Each record goes to every subtask.
    Broadcast,
    /// A function of the program chooses each record's subtask.
    Custom,
}

/// An edge between two vertices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEdge {
    /// Unique within one graph; assigned in the order of creation.
    pub id: EdgeId,
    /// Vertex that produces the records.
    pub from: JobVertexId,
    /// Vertex that consumes the records.
    pub to: JobVertexId,
    /// Operator that produces the records.
    pub from_node: NodeId,
    /// Operator that consumes the records.
    pub to_node: NodeId,
    /// Index of the output of the producing chain, from 0.
    pub output: u32,
    /// Index of the input of the consuming chain, from 0.
    pub input: u32,
    /// Way in which the edge distributes records.
    pub ship: ShipStrategy,
    /// Rust type of the records.
    pub record: String,
    /// Name of the producing operator's side output; `None`: its main output.
    #[serde(default)]
    pub side: Option<String>,
}

impl JobGraph {
    /// Returns the vertex of that id, `None` if the graph has none.
    pub fn vertex(&self, id: JobVertexId) -> Option<&JobVertex> {
        self.vertices.iter().find(|v| v.id == id)
    }
    /// Edges that end at a vertex, by input.
    pub fn inputs_of(&self, id: JobVertexId) -> impl Iterator<Item = &JobEdge> {
        self.edges.iter().filter(move |e| e.to == id)
    }
    /// Edges that start at a vertex, by output.
    pub fn outputs_of(&self, id: JobVertexId) -> impl Iterator<Item = &JobEdge> {
        self.edges.iter().filter(move |e| e.from == id)
    }
    /// Returns the number of subtasks of all vertices.
    pub fn total_subtasks(&self) -> u64 {
        self.vertices.iter().map(|v| u64::from(v.parallelism)).sum()
    }
}
