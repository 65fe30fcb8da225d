//! Plans a job: turns declared nodes into vertices and edges. The program's text alone decides where a chain ends; the
//! configuration changes parallelisms, and the shape of the graph only as far as the program has read it.

use super::draft::{NodeDraft, Read, Route};
use crate::{seam::BuildProgramError, state::default_max_parallelism};
use model::{
    ContentHash, EdgeId, JobEdge, JobVertex, JobVertexId, NodeId, OperatorId, ResourceProfile,
    ShipStrategy, graph::GraphNode,
};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The inputs of a plan.
pub(crate) struct PlanInputs<'a> {
    pub(crate) nodes: &'a [NodeDraft],
    /// The parallelism of operators that set none: the program's, else `parallelism.default`.
    pub(crate) parallelism: u32,
    /// The parallelism of operators that set none, if the program knows it: because it sets it, or because it has read the client's
    /// `parallelism.default`. Chains may depend on this number only; every process of the job has the same one.
    pub(crate) known_parallelism: Option<u32>,
    /// The maximum parallelism of all operators; `None` if neither client nor program sets it.
    pub(crate) max_parallelism: Option<u32>,
    pub(crate) groups: &'a BTreeMap<String, ResourceProfile>,
}

/// The nodes, vertices and edges of a job.
pub(crate) struct Plan {
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) vertices: Vec<JobVertex>,
    pub(crate) edges: Vec<JobEdge>,
    /// The index of each edge among the reads of its consumer.
    pub(crate) reads: Vec<usize>,
    pub(crate) bounded: bool,
    pub(crate) fingerprint: ContentHash,
}

const DEFAULT_GROUP: &str = "default";
/// The greatest possible number of key groups.
pub(crate) const MOST_SUBTASKS: u32 = 32_768;

pub(crate) fn plan(inputs: &PlanInputs<'_>) -> Result<Plan, BuildProgramError> {
    if inputs.nodes.is_empty() {
        return Err(BuildProgramError::Invalid("the program declares no source".into()));
    }
    let nodes = graph_nodes(inputs.nodes)?;
    let Chains { heads, leaders } = chains(inputs);
    let vertices = vertices(inputs, &nodes, &heads, &leaders)?;
    let (edges, reads) = edges(inputs.nodes, &vertices, &heads);
    let fingerprint = fingerprint(inputs.nodes, &nodes, &vertices);
    let bounded = inputs.nodes.iter().filter(|node| node.source).all(|node| node.bounded);
    Ok(Plan { nodes, vertices, edges, reads, bounded, fingerprint })
}

fn node_id(index: usize) -> NodeId {
    // No program has more than u32::MAX nodes, because each takes memory.
    NodeId(u32::try_from(index).unwrap_or(u32::MAX))
}

/// Returns the name of a node for people: the one that the program sets, else the kind in words.
pub(crate) fn display_name(node: &NodeDraft) -> String {
    node.name.clone().unwrap_or_else(|| node.kind.replace('_', " "))
}

fn graph_nodes(drafts: &[NodeDraft]) -> Result<Vec<GraphNode>, BuildProgramError> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut nodes: Vec<GraphNode> = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.iter().enumerate() {
        if let Some(uid) = &draft.uid
            && !seen.insert(uid)
        {
            return Err(BuildProgramError::Invalid(format!("two operators have the uid '{uid}'")));
        }
        let operator_id = match &draft.uid {
            Some(uid) => operator_id(&format!("uid\0{uid}")),
            None => {
                let read = |read: &Read| match read.side {
                    None => read.from.0.to_string(),
                    Some(side) => format!("{} {side}", read.from.0),
                };
                let reads: Vec<String> = draft.reads.iter().map(read).collect();
                operator_id(&format!("place\0{index}\0{}\0{}", draft.kind, reads.join(",")))
            }
        };
        nodes.push(GraphNode {
            id: node_id(index),
            operator_id,
            uid: draft.uid.clone(),
            kind: draft.kind.clone(),
            name: display_name(draft),
            inputs: draft.reads.iter().map(|read| read.record.clone()).collect(),
            output: draft.output.as_ref().map(|(name, _)| name.clone()),
            reads: draft.reads.iter().map(|read| read.from).collect(),
            states: draft.states.clone(),
            coordinated: draft.coordinator.is_some(),
            commits: draft.commits,
        });
    }
    Ok(nodes)
}

/// Returns the first half of the text's SHA-256: like Flink's, operator ids have 128 bits.
fn operator_id(text: &str) -> OperatorId {
    let digest = Sha256::digest(text.as_bytes());
    let first = digest.iter().take(16);
    OperatorId(first.fold(0, |id, byte| id << 8 | u128::from(*byte)))
}

/// The largest number of operators in a chain. Each calls the next one, and without optimisation 260 of them filled the task's stack
/// (`task::threads::STACK_BYTES`).
const CHAIN_MAX: usize = 128;

/// The chains of a job, by indices of nodes.
struct Chains {
    /// For every node the node that its chain begins with.
    heads: Vec<usize>,
    /// For each node that begins a chain only because the chain before was full, the node whose parallelism the chain has.
    leaders: BTreeMap<usize, usize>,
}

/// Returns the node whose parallelism is that of the chain that begins with `head`.
fn leader_of(head: usize, leaders: &BTreeMap<usize, usize>) -> usize {
    leaders.get(&head).copied().unwrap_or(head)
}

fn chains(inputs: &PlanInputs<'_>) -> Chains {
    let drafts = inputs.nodes;
    let mut leaders = BTreeMap::new();
    // The parallelism that the program knowingly gives to the chain that begins with a node.
    let of_chain = |head: usize, leaders: &BTreeMap<usize, usize>| {
        let draft = drafts.get(leader_of(head, leaders))?;
        draft.parallelism.or(draft.single.then_some(1)).or(inputs.known_parallelism)
    };
    let mut consumers = vec![0_usize; drafts.len()];
    for read in drafts.iter().flat_map(|draft| &draft.reads).filter(|read| read.side.is_none()) {
        if let Some(count) = consumers.get_mut(read.from.0 as usize) {
            *count += 1;
        }
    }
    let mut heads: Vec<usize> = Vec::with_capacity(drafts.len());
    let mut lengths = vec![0; drafts.len()];
    for (index, draft) in drafts.iter().enumerate() {
        let head = match draft.reads.as_slice() {
            [only] if only.route == Route::Direct && only.side.is_none() && !draft.cut => {
                let from = only.from.0 as usize;
                let alone = consumers.get(from) == Some(&1);
                let same = |head: &usize| {
                    draft.parallelism.is_none() || draft.parallelism == of_chain(*head, &leaders)
                };
                match heads.get(from).copied().filter(|head| alone && same(head)) {
                    Some(head) if lengths.get(head).is_none_or(|len| *len >= CHAIN_MAX) => {
                        leaders.insert(index, leader_of(head, &leaders));
                        index
                    }
                    head => head.unwrap_or(index),
                }
            }
            _ => index,
        };
        if let Some(length) = lengths.get_mut(head) {
            *length += 1;
        }
        heads.push(head);
    }
    Chains { heads, leaders }
}

fn vertices(
    inputs: &PlanInputs<'_>,
    nodes: &[GraphNode],
    heads: &[usize],
    leaders: &BTreeMap<usize, usize>,
) -> Result<Vec<JobVertex>, BuildProgramError> {
    let mut chains: BTreeMap<usize, Vec<&GraphNode>> = BTreeMap::new();
    for (node, head) in nodes.iter().zip(heads) {
        chains.entry(*head).or_default().push(node);
    }
    let mut groups: BTreeMap<usize, String> = BTreeMap::new();
    let mut vertices = Vec::new();
    for (index, draft) in inputs.nodes.iter().enumerate() {
        let Some((chain, first)) = chains.get(&index).and_then(|all| Some((all, all.first()?)))
        else {
            continue;
        };
        let names: Vec<&str> = chain.iter().map(|node| node.name.as_str()).collect();
        let leader = inputs.nodes.get(leader_of(index, leaders)).unwrap_or(draft);
        let (parallelism, max_parallelism) = parallelism(inputs, leader)?;
        let group = slot_group(draft, heads, &groups);
        groups.insert(index, group.clone());
        vertices.push(JobVertex {
            id: JobVertexId(first.operator_id.0),
            name: names.join(" -> "),
            nodes: chain.iter().map(|node| node.id).collect(),
            parallelism,
            max_parallelism,
            resources: inputs.groups.get(&group).cloned(),
            slot_sharing_group: group,
            source: draft.source,
        });
    }
    Ok(vertices)
}

fn parallelism(
    inputs: &PlanInputs<'_>,
    draft: &NodeDraft,
) -> Result<(u32, u32), BuildProgramError> {
    let invalid = |why: String| {
        Err(BuildProgramError::Invalid(format!("operator '{}': {why}", display_name(draft))))
    };
    let wanted = match draft.parallelism {
        Some(more) if draft.single && more != 1 => {
            return invalid(format!(
                "it can have one subtask only, its parallelism cannot be {more}"
            ));
        }
        Some(set) => set,
        None if draft.single => 1,
        None => inputs.parallelism,
    };
    let most = inputs.max_parallelism.unwrap_or_else(|| default_max_parallelism(wanted));
    if most == 0 || most > MOST_SUBTASKS {
        return invalid(format!(
            "the maximum parallelism must be 1 to {MOST_SUBTASKS}, not {most}"
        ));
    }
    if wanted == 0 || wanted > most {
        return invalid(format!("the parallelism must be 1 to {most}, not {wanted}"));
    }
    Ok((wanted, most))
}

/// Returns the operator's slot sharing group: its own, else the one that all its inputs are in, else the default group.
fn slot_group(draft: &NodeDraft, heads: &[usize], groups: &BTreeMap<usize, String>) -> String {
    if let Some(group) = &draft.group {
        return group.clone();
    }
    let mut above =
        draft.reads.iter().map(|read| heads.get(read.from.0 as usize).and_then(|h| groups.get(h)));
    match above.next().flatten() {
        Some(first) if above.all(|group| group == Some(first)) => first.clone(),
        _ => DEFAULT_GROUP.to_owned(),
    }
}

fn edges(
    drafts: &[NodeDraft],
    vertices: &[JobVertex],
    heads: &[usize],
) -> (Vec<JobEdge>, Vec<usize>) {
    let by_head: BTreeMap<NodeId, &JobVertex> =
        vertices.iter().filter_map(|vertex| Some((*vertex.nodes.first()?, vertex))).collect();
    let vertex_of = |node: NodeId| {
        let head = heads.get(node.0 as usize)?;
        by_head.get(&node_id(*head)).copied()
    };
    let mut outputs: BTreeMap<JobVertexId, u32> = BTreeMap::new();
    let (mut edges, mut reads) = (Vec::new(), Vec::new());
    for (index, draft) in drafts.iter().enumerate() {
        if heads.get(index) != Some(&index) {
            continue;
        }
        for (input, read) in draft.reads.iter().enumerate() {
            let (Some(from), Some(to)) = (vertex_of(read.from), vertex_of(node_id(index))) else {
                continue;
            };
            let output = outputs.entry(from.id).or_default();
            edges.push(JobEdge {
                id: EdgeId(u32::try_from(edges.len()).unwrap_or(u32::MAX)),
                from: from.id,
                to: to.id,
                from_node: read.from,
                to_node: node_id(index),
                output: *output,
                input: u32::try_from(input).unwrap_or(u32::MAX),
                ship: match read.route {
                    Route::Direct if from.parallelism == to.parallelism => ShipStrategy::Forward,
                    Route::Direct | Route::Rebalance => ShipStrategy::Rebalance,
                    Route::Broadcast => ShipStrategy::Broadcast,
                    Route::Hash => ShipStrategy::Hash,
                    Route::Custom => ShipStrategy::Custom,
                },
                record: read.record.clone(),
                side: read.side.map(str::to_owned),
            });
            *output += 1;
            reads.push(input);
        }
    }
    (edges, reads)
}

/// Returns the hash of everything that must be equal in all builds of the job. Parallelisms and slot sharing groups, which
/// scheduling may change, are not part of it.
fn fingerprint(drafts: &[NodeDraft], nodes: &[GraphNode], vertices: &[JobVertex]) -> ContentHash {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    for (draft, node) in drafts.iter().zip(nodes) {
        add("node");
        add(&node.operator_id.to_string());
        add(&node.kind);
        add(&node.name);
        add(draft.output.as_ref().map_or("", |(_, schema)| schema));
        add(if node.coordinated { "coordinated" } else { "" });
        if node.commits {
            add("commits");
        }
        for (side, schema) in draft.sides.schemas() {
            add(&format!("side {side} {schema}"));
        }
        for read in &draft.reads {
            add(&format!("{} {:?} {:?} {}", read.from.0, read.side, read.route, read.schema));
        }
        for state in &node.states {
            add(&format!("{} {} {:?} {:?}", state.name, state.kind, state.schemas, state.ttl_ms));
            if let Some(settings) = &state.settings {
                add(settings);
            }
        }
    }
    for vertex in vertices {
        add("chain");
        vertex.nodes.iter().for_each(|node| add(&node.0.to_string()));
    }
    ContentHash(hasher.finalize().into())
}
